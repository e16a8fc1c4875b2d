"""What a person is told when the configuration is wrong, whatever is wrong."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from gateway.config import Config, load
from gateway.config.problems import sentences
from gateway.config.tables import AgentTable, File, Table
from routing.errors import ConfigError

Load = Callable[..., Config]

FOREIGN_WORDS = (
    "Input should",
    "Extra inputs",
    "Field required",
    "alidation error",
    "pydantic",
    "Value error",
    "_type",
)


@pytest.fixture
def read(tmp_path: Path) -> Load:
    """Load a configuration from its text."""

    def from_text(text: str, **env: str) -> Config:
        file = tmp_path / "config.toml"
        file.write_text(text, encoding="utf-8")
        return load(file, {"HOME": str(tmp_path), **env})

    return from_text


@pytest.fixture
def problems(read: Load, tmp_path: Path) -> Callable[..., list[str]]:
    """What is wrong with a configuration, without the name of the file that every sentence starts with."""

    def of_text(text: str, **env: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            read(text, **env)
        prefix = f"{tmp_path / 'config.toml'}: "
        assert all(problem.startswith(prefix) for problem in caught.value.problems)
        return [problem.removeprefix(prefix) for problem in caught.value.problems]

    return of_text


MAIN = '[agents.main]\nkind = "builtin"\n'

BAD = [
    # unknown keys
    ("[gateway]\ndata_dri = 1", "[gateway] data_dri is not a known key: did you mean data_dir?"),
    (MAIN + "Queue = 1", "[agents.main] Queue is not a known key: did you mean queue?"),
    (MAIN + "builtin = 1", "[agents.main] builtin is not a known key: known are name, queue, "),
    (MAIN + '"a b" = 1', '[agents.main] "a b" is not a known key'),
    ("[agent.main]", "[agent] is not a known key: did you mean [agents]?"),
    ("[[binding]]", "binding is not a known key: did you mean [[bindings]]?"),
    ("nonsense = 1", "nonsense is not a known key: known are [gateway], [http], "),
    ("[gateway]\nlog_format = 1", "[gateway] log_format is not a known key"),
    # types and ranges
    ('[gateway]\ndrain_seconds = "20"', '[gateway] drain_seconds = "20": must be a number, without quotes.'),
    ("[gateway]\ndrain_seconds = -1", "[gateway] drain_seconds = -1: must be at least 0."),
    ("[gateway]\ndrain_seconds = nan", "[gateway] drain_seconds = nan: must be a finite number."),
    ("[gateway]\ndisk_reserve_mb = 1.5", "[gateway] disk_reserve_mb = 1.5: must be a whole number."),
    ("[gateway]\ndisk_reserve_mb = true", "[gateway] disk_reserve_mb = true: must be a whole number."),
    ("[gateway]\nidle_minutes = 2026-11-18", "[gateway] idle_minutes = 2026-11-18: must be a number."),
    ("[gateway]\ndata_dir = 3", "[gateway] data_dir = 3: must be the path of a directory"),
    ('[gateway]\ndata_dir = "a\\u0000b"', '[gateway] data_dir = "a\\u0000b": must be the path of a directory'),
    ("[gateway]\ndefault_agent = []", "[gateway] default_agent is a list: must be a text in quotes."),
    ('[web.main]\nmention = "true"', '[web.main] mention = "true": must be true or false, without quotes.'),
    ("[web.main]\nstreaming = 1", "[web.main] streaming = 1: must be true or false."),
    ('[web.main]\nallow = "ann"', '[web.main] allow = "ann": must be a list of ids in brackets.'),
    ("[web.main]\nallow = {}", "[web.main.allow] is a table: must be a list of ids in brackets."),
    ("[web.main]\nallow = [1, 1.5]", "[web.main] allow #2 = 1.5: must be an id: a whole number, or a text"),
    ("[web.main]\nallow = ['']", '[web.main] allow #1 = "": must be an id'),
    (f"[web.main]\nallow = [1{'0' * 200}]", "[web.main] allow #1 is a huge number: must be an id"),
    (MAIN + "turn_timeout = 0", "[agents.main] turn_timeout = 0: must be greater than 0."),
    (MAIN + "max_turns = 0", "[agents.main] max_turns = 0: must be at least 1."),
    (MAIN + "max_waiting = 1000001", "[agents.main] max_waiting = 1000001: must be at most 1000000."),
    (MAIN + "context_window = 0", "[agents.main] context_window = 0: must be at least 1."),
    (MAIN + 'name = ""', '[agents.main] name = "": must be a text of 1 to 64 characters on one line.'),
    (MAIN + 'name = "a\\nb"', '[agents.main] name = "a\\nb": must be a text of 1 to 64 characters on one line.'),
    # choices
    (MAIN + 'queue = "steer"', '[agents.main] queue = "steer": must be "followup", "collect" or "interrupt".'),
    (MAIN + "queue = ['collect']", '[agents.main] queue is a list: must be "followup", "collect" or "interrupt".'),
    (MAIN + 'dm_scope = "all"', '[agents.main] dm_scope = "all": must be "person", "account" or "main".'),
    (MAIN + "group_scope = 1", '[agents.main] group_scope = 1: must be "group" or "member".'),
    ('[web.main]\ndm = "opn"', '[web.main] dm = "opn": must be "pairing", "allowlist", "open" or "off".'),
    # agents and their kinds
    ("[agents.main]", '[agents.main] kind is missing: must be "builtin" or "openai" or "local" or "acp".'),
    ('[agents.main]\nkind = "open"', '[agents.main] kind = "open": must be "builtin" or "openai" or "local" or "acp".'),
    ("[agents.main]\nkind = 3", '[agents.main] kind = 3: must be "builtin" or "openai" or "local" or "acp".'),
    (
        '[gateway]\ndefault_agent = "mian"',
        '[gateway] default_agent = "mian": there is no such agent; did you mean main?',
    ),
    (
        '[agents]\na.kind = "builtin"\nb.kind = "builtin"',
        "[gateway] default_agent is missing: there are several agents and none is called main; name one of a, b, "
        'or write "" to leave unanswered what no binding matches.',
    ),
    # names
    (
        '[agents."my bot"]\nkind = "builtin"',
        '[agents."my bot"]: is not a name: use 1 to 64 of A-Z, a-z, 0-9, "_" and "-".',
    ),
    ('[web."*"]', '[web."*"]: is not a name'),
    ('[people."ünal"]', '[people."ünal"]: is not a name'),
    (f"[memory.{'x' * 65}]", f"[memory.{'x' * 65}]: is not a name"),
    # what must be a table
    ("http = 3", "http: must be a table, written as [http]."),
    ("agents = 0", "agents: must be a table with a name; write [agents.NAME] and the keys below it."),
    ('[web]\ndm = "open"', "[web] dm: must be a table with a name; write [web.NAME] and the keys below it."),
    (MAIN + 'compaction = "window"', "[agents.main] compaction: must be a table."),
    ("bindings = 3", "bindings = 3: must be written as tables under [[bindings]]."),
    ("[bindings]", "[bindings] is a table: must be written as tables under [[bindings]]."),
    ("bindings = [1]", "[[bindings]] #1: must be a table."),
    # bindings
    ("[[bindings]]", "[[bindings]] #1 agent is missing."),
    ("[[bindings]]\nagent = 'man'", '[[bindings]] #1 agent = "man": there is no such agent; did you mean main?'),
    ("[[bindings]]\nagent = 'main'\nrole = true", "[[bindings]] #1 role = true: must be an id"),
    (
        "[[bindings]]\nagent = 'main'\npeer_kind = 'thread'",
        '[[bindings]] #1 peer_kind = "thread": must be "dm", "group" or "channel".',
    ),
    (
        "[[bindings]]\nagent = 'main'\nchannel = 'memory'",
        '[[bindings]] #1 channel = "memory": there is no account of such a channel; known are web.',
    ),
    (
        "[[bindings]]\nagent = 'main'\nchannel = 'webb'",
        '[[bindings]] #1 channel = "webb": there is no account of such a channel; did you mean web?',
    ),
    (
        "[memory.x]\n[web.page]\n[[bindings]]\nagent = 'main'\n[[bindings]]\nagent = 'main'\n"
        "channel = 'web'\naccount = 'x'",
        '[[bindings]] #2 account = "x": there is no such account of web; known are page.',
    ),
    (
        "[[bindings]]\nagent = 'main'\naccount = 'mine'",
        '[[bindings]] #1 account = "mine": there is no such account; did you mean main?',
    ),
    # people
    ("[people.a]\nowner = true\n[people.b]\nowner = true", "[people.b] owner = true: [people.a] is the owner already."),
    ("[people.a]\nowner = 1", "[people.a] owner = 1: must be true or false."),
    ("[people.a]\ntelegram = '@a'", '[people.a] telegram = "@a": must be the numeric id: a name can be reassigned'),
    (
        "[people.a]\ndiscord = 5\n[people.b]\ndiscord = ' 05'",
        '[people.b] discord = " 05": this id belongs to [people.a] already.',
    ),
]


@pytest.mark.parametrize(("text", "sentence"), BAD)
def test_bad_configuration(problems: Callable[..., list[str]], text: str, sentence: str) -> None:
    [problem] = problems(text)
    assert problem.startswith(sentence)
    assert problem.endswith((".", "?"))


@pytest.mark.req("P56")
@pytest.mark.parametrize("channel", ["telegram", "discord"])
def test_on_a_platform_only_numbers_are_ids(problems: Callable[..., list[str]], channel: str) -> None:
    numeric = "must be the numeric id: a name can be reassigned to somebody else."
    assert problems(
        f"[{channel}.main]\ntoken = 'x'\nallow = ['@ann', 5]\ngroups = ['my group']\nalways = ['*']\nbots = ['b']"
        "\nmenton = true"
    ) == [
        f'[{channel}.main] allow #1 = "@ann": {numeric}',
        f'[{channel}.main] groups #1 = "my group": {numeric}',
        f'[{channel}.main] always #1 = "*": {numeric}',
        f'[{channel}.main] bots #1 = "b": {numeric}',
        f"[{channel}.main] menton is not a known key: did you mean mention?",
    ]


@pytest.mark.parametrize("channel", ["telegram", "discord"])
def test_an_account_needs_its_token(problems: Callable[..., list[str]], channel: str) -> None:
    assert problems(f"[{channel}.main]\ndm = 'off'") == [f"[{channel}.main] token is missing."]


@pytest.mark.parametrize(
    ("channel", "key", "value", "schemes"),
    [
        ("telegram", "base_url", "127.0.0.1:8081", "http:// or https://"),
        ("telegram", "base_url", "ws://127.0.0.1", "http:// or https://"),
        ("telegram", "base_url", "http://me:secret@127.0.0.1", "http:// or https://"),
        ("discord", "base_url", "http:///api", "http:// or https://"),
        ("discord", "gateway_url", "http://127.0.0.1", "ws:// or wss://"),
        ("discord", "gateway_url", "ws://127.0.0.1/?v=10", "ws:// or wss://"),
    ],
)
def test_an_address_of_a_platform(
    problems: Callable[..., list[str]], channel: str, key: str, value: str, schemes: str
) -> None:
    [problem] = problems(f"[{channel}.main]\ntoken = 'x'\n{key} = '{value}'")
    assert problem.startswith(f"[{channel}.main] {key}")
    assert problem.endswith(f"must be an address that begins with {schemes}.")


def test_discord_has_one_address_per_process(problems: Callable[..., list[str]]) -> None:
    tables = "[discord.one]\ntoken = 'x'\nbase_url = 'http://a'\n[discord.two]\ntoken = 'y'\nbase_url = 'http://b'\n"
    assert problems(tables) == ["[discord.two] base_url: it must be the same as in [discord.one]."]


def test_all_problems_at_once(read: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        read(
            """
            [http]
            listen = "0.0.0.0:80"
            lisen = 1
            [agents.main]
            kind = "builtin"
            queue = "x"
            [[bindings]]
            agent = "nobody"
            peer = true
            [people.a]
            owner = true
            telegram = 1
            [people.b]
            owner = true
            telegram = 1
            discord = "x"
            """,
            AGENT_SESSION_IDLE_TIMEOUT="x",
        )
    assert len(caught.value.problems) == 9
    assert str(caught.value).splitlines() == caught.value.problems


def test_bindings_that_never_decide_are_a_warning(read: Load, tmp_path: Path) -> None:
    config = read("[[bindings]]\nagent = 'main'\npeer = 1\n[[bindings]]\nagent = 'main'\npeer = '01'")
    [warning] = config.warnings
    assert warning.startswith(f"{tmp_path / 'config.toml'}: [[bindings]] #2 never decides: ")


def test_a_union_of_kinds_leaves_no_trace_in_the_key() -> None:
    class One(AgentTable):
        kind: Literal["one"]

    class Two(AgentTable):
        kind: Literal["two"]
        model: str

    class Many(Table):
        agents: dict[str, Annotated[One | Two, Field(discriminator="kind")]]

    raw = {"agents": {"a": {"kind": "two", "modle": 1}, "b": {"kind": "one", "two": 2}, "c": {"kind": "three"}}}
    with pytest.raises(ValidationError) as caught:
        Many.model_validate(raw)
    assert sentences(caught.value, raw, Many) == [
        "[agents.a] model is missing.",
        "[agents.a] modle is not a known key: did you mean model?",
        "[agents.b] two is not a known key: known are name, queue, dm_scope, group_scope, turn_timeout, max_turns, "
        "max_waiting, context_window, compaction, approvers, permission_timeout, kind.",
        '[agents.c] kind = "three": must be "one" or "two".',
    ]


@pytest.mark.req("S001-47")
def test_an_unknown_compaction_is_refused(problems: Callable[..., list[str]]) -> None:
    assert problems('[agents.main]\nkind = "builtin"\ncompaction = {strategy = "sumary"}') == [
        '[agents.main.compaction] strategy = "sumary": must be "none", "window", "trim_tools", '
        '"summary", "clear" or "auto".'
    ]


def test_without_a_home_the_data_directory_has_to_be_given(
    problems: Callable[..., list[str]], read: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert problems("", HOME="") == ["[gateway] data_dir is missing."]
    assert read('[gateway]\ndata_dir = "/srv"', HOME="").gateway.data_dir == Path("/srv")


@pytest.mark.req("S000-77")
def test_a_good_variable_does_not_excuse_a_bad_key(problems: Callable[..., list[str]]) -> None:
    found = problems("[gateway]\nidle_minutes = 0", AGENT_SESSION_IDLE_TIMEOUT="5")
    assert found == ["[gateway] idle_minutes = 0: must be greater than 0."]


@pytest.mark.req("CARD-28")
@pytest.mark.req("P55")
@pytest.mark.parametrize("listen", ["0.0.0.0:8787", "[::]:0", "192.0.2.7:80", "gateway.example:80"])
def test_open_address_needs_a_token(read: Load, problems: Callable[..., list[str]], listen: str) -> None:
    text = f'[http]\nlisten = "{listen}"\n'
    [problem] = problems(text)
    assert problem.startswith(f'[http] listen = "{listen}": is open to other machines')
    assert "TRUNKLINE_ADMIN_TOKEN" in problem
    assert "[http] admin_token" in problem
    assert str(read(text, TRUNKLINE_ADMIN_TOKEN="t").http.listen) == listen
    assert str(read(text + 'admin_token = "t"').http.listen) == listen


@pytest.mark.parametrize(
    "listen",
    [
        *("", ":80", "8787", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "::1:80", "[::1]", "[x]:80"),
        *("999.0.0.1:80", "1.2.3:80", "a b:80", "host:٨٠", "http://localhost:80", "localhost:80/", "localhost:80\n"),
    ],
)
def test_bad_address(problems: Callable[..., list[str]], listen: str) -> None:
    [problem] = problems(tomli_w.dumps({"http": {"listen": listen, "admin_token": "t"}}))
    assert problem.startswith("[http] listen = ")
    assert problem.endswith(': must be "host:port", such as "127.0.0.1:8787" or "[::1]:8787".')


@pytest.mark.req("S000-77")
@pytest.mark.parametrize("value", ["soon", "", "0", "-1", "nan", "inf", "1e3", "٣", "9" * 400, "30 min", "1\n2"])
def test_bad_idle_timeout(read: Load, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("", AGENT_SESSION_IDLE_TIMEOUT=value)
    [problem] = caught.value.problems
    assert problem.startswith("The environment variable AGENT_SESSION_IDLE_TIMEOUT = ")
    assert problem.endswith(": must be a number of minutes, greater than 0 and at most 525600.")
    assert value.replace("\n", r"\n") in problem


@pytest.mark.req("S000-36")
@pytest.mark.parametrize("value", ["", "a", "./a", "~/a", "/", "//", "/../..", "\udcff"])
def test_bad_workspace_root(read: Load, problems: Callable[..., list[str]], value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("", AGENT_WORKSPACE_ROOT=value)
    [problem] = caught.value.problems
    assert problem.startswith("The environment variable AGENT_WORKSPACE_ROOT = ")
    assert problem.endswith("must be the absolute path of a directory, and not the whole file system.")
    assert problems('[gateway]\nworkspace_root = "/.."') == [
        '[gateway] workspace_root = "/..": must not be the whole file system.'
    ]


@pytest.mark.parametrize("value", ["", "  ", "\udcff"])
def test_bad_admin_token_variable(read: Load, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("", TRUNKLINE_ADMIN_TOKEN=value)
    assert caught.value.problems == [
        "The environment variable TRUNKLINE_ADMIN_TOKEN is empty or not UTF-8 text: set it to a token, or unset it."
    ]


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[http]\nlisten =", "is not valid TOML: Invalid value (at end of document)."),
        (
            b"[http]\nlisten = 'a' 'b'",
            "is not valid TOML: Expected newline or end of document after a statement (at line 2, ",
        ),
        (b"[http]\n[http]", "is not valid TOML: Cannot declare ('http',) twice (at line 2, column 6)."),
        (b"a = 1\nb = '\xff'", "line 2 is not UTF-8 text; save the file as UTF-8."),
        (b"a = " + b"[" * 100_000, "is nested too deeply."),
        (b"a = " + b"9" * 5_000, "holds a number with too many digits."),
    ],
)
def test_unreadable_content(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    [problem] = caught.value.problems
    assert problem.startswith(f"{file}: {sentence}")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "absent.toml", {})
    assert caught.value.problems == [f"{tmp_path / 'absent.toml'}: there is no such file."]


def test_directory_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {})
    assert caught.value.problems == [f"{tmp_path}: is a directory; name the file in it."]


def test_forbidden_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, os.strerror(13), str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "config.toml", {})
    assert caught.value.problems == [f"{tmp_path / 'config.toml'}: cannot be read: Permission denied."]


def test_byte_order_mark_and_windows_lines_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xef\xbb\xbf[gateway]\r\nidle_minutes = 5\r\n")
    assert load(file, {"HOME": "/home/ann"}).gateway.idle_minutes == 5


# -- whatever is in the file ------------------------------------------------------------------------------------------

SECTIONS = list(File.model_fields)
TABLES: list[type[Table]] = Table.__subclasses__()
KEYS = sorted({name for table in TABLES for name in table.model_fields} | {"kind", "env", "file"})
WORDS = ["builtin", "main", "window", "pairing", "dm", "collect", "0.0.0.0:80", "web", "telegram", "42", "", "~"]

scalars = (
    st.sampled_from(WORDS)
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.dates()
    | st.times()
    | st.datetimes()
)
names = st.sampled_from(["main", "other", "kind", *KEYS]) | st.text(st.characters(codec="utf-8"), max_size=5)
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=8
)
sections = (
    st.dictionaries(names, values, max_size=4)
    | st.dictionaries(names, st.dictionaries(names, values, max_size=4), max_size=3)
    | st.lists(st.dictionaries(names, values, max_size=4), max_size=2)
    | values
)
documents = st.dictionaries(st.sampled_from(SECTIONS) | names, sections, max_size=5)


def outcome(file: Path) -> Config | ConfigError:
    try:
        return load(file, {"HOME": "/home/ann"})
    except ConfigError as error:
        return error


def check(file: Path) -> None:
    """A configuration, or sentences about this file in our own words."""
    error = outcome(file)
    if isinstance(error, Config):
        return
    assert error.problems
    for problem in error.problems:
        assert problem.startswith(f"{file}: ")
        assert len(problem.splitlines()) == 1
        assert not any(word in problem for word in (*FOREIGN_WORDS, "is not allowed here"))
    assert "pydantic" not in "".join(traceback.format_exception(error))


@given(document=documents)
@example(document={"gateway": {"drain_seconds": math.inf}})
@example(document={"agents": {"[key]": {"kind": "builtin", "[key]": 1}}})
@example(document={"agents": {"other": {}, "\x85": {}}})
@example(document={"agents": {"main": {"kind": {"kind": "builtin"}}}})
def test_any_document_is_a_configuration_or_an_error(tmp_path_factory: Any, document: dict[str, Any]) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_text(tomli_w.dumps(document), encoding="utf-8")
    check(file)


@given(content=st.binary(max_size=200) | st.text("[]{}=.'\"\n#ab1 \\", max_size=60).map(str.encode))
@example(content=b"[gateway]\ndisk_reserve_mb = 0x" + b"f" * 9_000)
def test_any_bytes_are_a_configuration_or_an_error(tmp_path_factory: Any, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "bytes.toml"
    file.write_bytes(content)
    check(file)
