"""The log: one line per event whatever is in it, and no secret in any of them."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gateway.logs import Event, LineFormatter, LogFormat, Redactor, log, setup

CANARY = "ca/na:ry é+7f3a"

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(autouse=True)
def untouched_logging() -> Iterator[None]:
    root, access = logging.getLogger(), logging.getLogger("aiohttp.access")
    before = root.level, root.handlers[:], logging.raiseExceptions, access.disabled
    yield
    level, root.handlers[:], logging.raiseExceptions, access.disabled = before
    root.setLevel(level)


Lines = Callable[[], list[str]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """The lines on stderr since the last call."""
    return lambda: capsys.readouterr().err.splitlines()


def test_event_names_are_fixed() -> None:
    assert all(event.value == event.name.lower() for event in Event)
    assert {"message_accepted", "access_refused", "turn_completed", "delivery_parked", "log"} <= {*Event}


def test_text_line(lines: Lines) -> None:
    setup(LogFormat.TEXT, logging.INFO, [])
    log(Event.TURN_COMPLETED, session="s-1", turn=3, ms=12.5, again=False, thread=None, reason='said "no"\nand left')
    [line] = lines()
    rest = r' INFO turn_completed session=s-1 turn=3 ms=12\.5 again=false reason="said \\"no\\"\\nand left"'
    assert re.fullmatch(TIME + rest, line)


def test_json_line(lines: Lines) -> None:
    setup(LogFormat.JSON, logging.INFO, [])
    log(Event.ACCESS_REFUSED, logging.WARNING, reason="stranger", count=1, ok=True, thread=None, level_="x")
    [line] = lines()
    record = json.loads(line)
    assert re.fullmatch(TIME, record.pop("time"))
    assert record == {
        "level": "WARNING",
        "event": "access_refused",
        "reason": "stranger",
        "count": 1,
        "ok": True,
        "level_": "x",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain-1:2/3@x", "plain-1:2/3@x"),
        ("Grüße", "Grüße"),
        ("", '""'),
        ("a b", '"a b"'),
        ("a=b", '"a=b"'),
        ("a\\b", r'"a\\b"'),
        ("a\u2028b\x85c\x7f\x00", r'"a\u2028b\u0085c\u007f\u0000"'),
        ("\u202eevil", r'"\u202eevil"'),
        ("\ud800", r'"\ud800"'),
        ("\U000e0001", r'"\udb40\udc01"'),
        (("a", 1), "\"('a', 1)\""),
        (float("nan"), "nan"),
        pytest.param(10**5000, "<int>", id="huge"),
    ],
)
def test_values_in_text(lines: Lines, value: object, shown: str) -> None:
    setup(LogFormat.TEXT, logging.INFO, [])
    log(Event.RECOVERY, value=value)
    [line] = lines()
    assert line.endswith(f" recovery value={shown}")


def test_level(lines: Lines) -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("formatted although nobody reads it")

    setup(LogFormat.TEXT, logging.WARNING, [])
    log(Event.TURN_STARTED, value=Costly())
    logging.getLogger("library").info("quiet")
    assert lines() == []


def test_fields_do_not_replace_the_head(lines: Lines) -> None:
    setup(LogFormat.JSON, logging.INFO, [])
    log(Event.RECOVERY, time=5)
    record = json.loads(lines()[0])
    assert re.fullmatch(TIME, record["time"])
    assert record["time_"] == 5


def test_exception(lines: Lines) -> None:
    setup(LogFormat.JSON, logging.INFO, [CANARY])
    try:
        raise ValueError(f"no {CANARY}")
    except ValueError as error:
        log(Event.TURN_FAILED, logging.ERROR, exc=error, turn=1)
    record = json.loads(lines()[0])
    assert record["error"] == "ValueError: no ***"
    assert record["traceback"].startswith("Traceback (most recent call last):\n")
    assert record["traceback"].endswith("ValueError: no ***")


def test_other_loggers_use_the_same_format(lines: Lines) -> None:
    setup(LogFormat.TEXT, logging.INFO, [CANARY])
    library = logging.getLogger("aiohttp.server")
    library.warning("bad request\nfrom %s", CANARY)
    library.error("%d of them", "three")
    logging.getLogger("trunkline").error("not\nan event")
    rest = [line.partition(" ")[2] for line in lines()]
    assert rest == [
        r'WARNING log logger=aiohttp.server message="bad request\nfrom ***"',
        "ERROR log logger=aiohttp.server message=\"%d of them ('three',)\"",
        r'ERROR log logger=trunkline message="not\nan event"',
    ]


def test_requests_are_not_logged(lines: Lines) -> None:
    setup(LogFormat.TEXT, logging.DEBUG, [])
    logging.getLogger("aiohttp.access").critical("GET /")
    assert lines() == []


def test_setup_replaces_the_earlier_one(lines: Lines) -> None:
    setup(LogFormat.TEXT, logging.INFO, [])
    setup(LogFormat.JSON, logging.INFO, [CANARY])
    log(Event.DAEMON_STARTED, token=CANARY)
    [line] = lines()
    assert json.loads(line)["token"] == "***"


def test_a_closed_stderr_is_survived(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Broken())
        setup(LogFormat.TEXT, logging.INFO, [])
    log(Event.DAEMON_STARTED, token=CANARY)
    assert capsys.readouterr().err == ""


# -- whatever is logged -----------------------------------------------------------------------------------------------


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


texts = st.text(st.characters(), max_size=30)
scalars = texts | st.integers() | st.floats() | st.booleans() | st.none() | st.builds(Unprintable)
fields = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True), scalars | st.lists(scalars, max_size=3), max_size=4
)


def record(name: str, message: object, args: tuple[object, ...] = (), **extra: object) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.INFO, "file.py", 1, message, args, None)
    made.__dict__.update(extra)
    return made


def records(own: dict[str, Any], message: str, args: list[object]) -> list[logging.LogRecord]:
    failure = RuntimeError(message, *args) if not any(isinstance(arg, Unprintable) for arg in args) else RuntimeError()
    return [
        record("trunkline", Event.RECOVERY.value, fields=own),
        record("library", message, tuple(args)),
        record("library", "failed", exc_info=(type(failure), failure, None)),
    ]


@given(own=fields, message=texts, args=st.lists(scalars, max_size=2), secrets=st.lists(texts, max_size=3))
@example(own={"a": "\r\n"}, message="%s", args=[Unprintable()], secrets=['"', "{", "1"])
def test_a_line_is_one_line(own: dict[str, Any], message: str, args: list[object], secrets: list[str]) -> None:
    for each in records(own, message, args):
        text = LineFormatter(LogFormat.TEXT, secrets).format(each)
        assert text.isprintable()
        assert len(text.splitlines()) == 1
        line = LineFormatter(LogFormat.JSON, secrets).format(each)
        assert len(line.splitlines()) == 1
        parsed = json.loads(line, parse_constant=pytest.fail)
        assert [*parsed][:3] == ["time", "level", "event"]


def disguises(secret: str) -> list[str]:
    encoded = [quote(secret), quote(secret, safe=""), quote(secret, safe=":@+"), quote_plus(secret)]
    lower = [re.sub("%..", lambda found: found[0].lower(), each) for each in encoded]
    return [secret, repr(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False), *encoded, *lower]


@given(secret=st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), before=texts, after=texts)
@example(secret=CANARY, before="https://host/bot", after="/getMe")
@example(secret="*", before="", after="")
def test_a_secret_is_masked_in_every_disguise(secret: str, before: str, after: str) -> None:
    for disguise in disguises(secret):
        assert Redactor([secret])(disguise).strip("\"'*") == ""
        assert "*" in secret or secret not in Redactor([secret])(f"{before}{disguise}{after}")


@given(secret=st.text("abcdef/:% é", min_size=4, max_size=12), own=fields, message=texts)
@example(secret=CANARY, own={}, message="")
def test_no_line_shows_a_secret(secret: str, own: dict[str, Any], message: str) -> None:
    assume(not any(secret in str(name) for name in own))
    for disguise in disguises(secret):
        own = own | {"field": f"x{disguise}y", "many": [disguise], "nested": {"key": disguise}}
        for each in records(own, f"{message.replace('%', '')} {disguise.replace('%', '%%')}", []):
            for format in LogFormat:
                line = LineFormatter(format, [secret]).format(each)
                assert disguise not in line
                assert json.dumps(disguise)[1:-1] not in line


def test_secrets_that_contain_each_other_go_as_a_whole() -> None:
    assert Redactor(["key", "key-long", ""])("key-long key") == "*** ***"


def test_numbers_can_be_secrets(lines: Lines) -> None:
    setup(LogFormat.JSON, logging.INFO, ["12345678"])
    log(Event.RECOVERY, id=12345678, other=123)
    found = json.loads(lines()[0])
    assert (found["id"], found["other"]) == ("***", 123)
