"""`trunkline init`: a few questions, and a first configuration that passes `trunkline check`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click
import tomli_w
from pydantic import TypeAdapter, ValidationError

from gateway.cli.failing import Failure
from gateway.cli.files import new_file
from gateway.cli.options import asking, load_config
from gateway.config import environment
from gateway.config.fields import Address, Listen, NumericId, Url
from gateway.config.tables import ModelName

T = TypeVar("T")
_LISTEN = "127.0.0.1:8787"
_ADDRESS: TypeAdapter[Listen] = TypeAdapter(Address)
_USER: TypeAdapter[str] = TypeAdapter(NumericId)
_URL: TypeAdapter[str] = TypeAdapter(Url)
_MODEL: TypeAdapter[str] = TypeAdapter(ModelName)
#: What can be set up by a few questions.
_KINDS = ("builtin", "openai", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    data_dir: str
    listen: str
    kind: str
    base_url: str = ""
    model: str = ""
    api_key: str = ""
    telegram: str = ""
    telegram_token: str = ""
    discord: str = ""
    discord_token: str = ""


def _listen(text: str) -> str:
    return str(_valid(_ADDRESS, text))


def _directory(text: str) -> str:
    """An absolute path: in the file, a relative one would start at the file's own directory."""
    if not text.strip() or "\0" in text:
        raise click.BadParameter("It must be the path of a directory.")
    return text if text == "~" or text.startswith("~/") else str(Path(text).absolute())


def _user(text: str) -> str:
    text = text.strip()
    return _valid(_USER, text) if text else ""


def _token(text: str) -> str:
    text = text.strip()
    if any(char.isspace() for char in text):
        raise click.BadParameter("A token has no spaces.")
    return text


def _url(text: str) -> str:
    text = text.strip()
    return _valid(_URL, text) if text else ""


def _model(text: str) -> str:
    return _valid(_MODEL, text.strip())


def _valid(adapter: TypeAdapter[T], text: str) -> T:
    """What the configuration would make of a value, or its own words on why not."""
    try:
        return adapter.validate_python(text)
    except ValidationError as error:
        raise click.BadParameter(f"It {error.errors()[0]['msg']}.") from None


@click.command()
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The file to write. Unless given: ~/.config/trunkline/config.toml.",
)
@click.option("--data-dir", metavar="DIR", help="Where the database is to be kept.")
@click.option("--listen", metavar="HOST:PORT", help="Where the page and the API are to be reached.")
@click.option("--agent", "kind", type=click.Choice(_KINDS), help="Who answers.")
@click.option("--base-url", metavar="URL", help="The root of the API of a model's server, if it is not OpenAI's.")
@click.option("--model", metavar="NAME", help="The model that answers.")
@click.option("--api-key", metavar="KEY", help="The key of the model's API.")
@click.option("--telegram", metavar="ID", help="Your numeric user id in Telegram.")
@click.option("--telegram-token", metavar="TOKEN", help="The token of your Telegram bot.")
@click.option("--discord", metavar="ID", help="Your numeric user id in Discord.")
@click.option("--discord-token", metavar="TOKEN", help="The token of your Discord bot.")
@click.option("--yes", "-y", is_flag=True, help="Take the defaults for what is not given, and do not ask.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def init(config_path: Path | None, yes: bool, force: bool, **given: str | None) -> int:
    """Ask a few questions and write a first configuration, with comments."""
    path = config_path or _usual_place()
    if not force and os.path.lexists(path):
        raise Failure(f"{path} is there already. Edit it, name another file with --config, or replace it with --force.")
    with asking():
        answers = _answers(_Asking(given, yes))
    _write(path, render(answers), force)
    option = "" if config_path is None else f" --config {path}"
    steps = ["trunkline local fetch"] if answers.kind == "local" else []
    click.echo(f"Wrote {path}. Next: {', then '.join([*steps, f'trunkline run{option}'])}")
    return 0


def _answers(ask: _Asking) -> Answers:
    default_dir = environment.data_dir(os.environ)
    data_dir = ask("data_dir", "Data directory", str(default_dir or ""), _directory)
    listen = ask("listen", "Address of the page and the API", _LISTEN, _listen)
    kind = ask("kind", f"Agent ({', '.join(_KINDS)})", _KINDS[0], _kind)
    base_url, model, api_key = _language_model(ask) if kind == "openai" else ("", "", "")
    telegram_token, telegram = _platform(ask, "telegram", "Telegram")
    discord_token, discord = _platform(ask, "discord", "Discord")
    return Answers(
        data_dir=data_dir,
        listen=listen,
        kind=kind,
        base_url=base_url,
        model=model,
        api_key=api_key,
        telegram=telegram,
        telegram_token=telegram_token,
        discord=discord,
        discord_token=discord_token,
    )


def _language_model(ask: _Asking) -> tuple[str, str, str]:
    base_url = ask("base_url", "Root of the model's API (empty: OpenAI's)", "", _url)
    model = ask("model", "Name of the model", "", _model)
    return base_url, model, ask("api_key", "Key of the API (empty: none)", "", _token)


def _platform(ask: _Asking, channel: str, name: str) -> tuple[str, str]:
    """The bot, and who its owner is there; without a bot nobody needs to be known there."""
    token = ask(f"{channel}_token", f"Token of your {name} bot (empty: none)", "", _token)
    known = token or ask.given[channel] is not None
    return token, ask(channel, f"Your numeric {name} id (empty: none)", "", _user) if known else ""


@dataclass(frozen=True, slots=True)
class _Asking:
    given: dict[str, str | None]
    yes: bool

    def __call__(self, name: str, question: str, default: str, check: Callable[[str], str]) -> str:
        """The option's value, else the default or the answer; a wrong answer is asked again, a wrong option not."""
        value = self.given[name]
        if value is None and not self.yes:
            answer = click.prompt(question, default=default, value_proc=check, show_default=bool(default), err=True)
            return str(answer)
        try:
            return check(default if value is None else value)
        except click.BadParameter as wrong:
            wrong.param_hint = f"--{name.replace('_', '-')}"
            raise


def _kind(text: str) -> str:
    if text not in _KINDS:
        raise click.BadParameter(f"It must be one of: {', '.join(_KINDS)}.")
    return text


def _usual_place() -> Path:
    for path in environment.config_files(os.environ):
        if path != environment.SYSTEM_FILE:
            return path
    raise Failure("There is no home directory: say with --config where to write.")


def render(answers: Answers) -> str:
    """The file. Values are written by tomli-w, so that quoting is right whatever they hold."""
    local = _valid(_ADDRESS, answers.listen).loopback
    ids = {"telegram": answers.telegram, "discord": answers.discord}
    person = {"owner": True} | {channel: user for channel, user in ids.items() if user}
    tokens = {"telegram": answers.telegram_token, "discord": answers.discord_token}
    bots = "".join(_bot(channel, token) for channel, token in tokens.items())
    return f"""\
# The configuration of Trunkline. Every key has a default; `trunkline check` tells what is wrong with this file.

[gateway]
# Where the database and the token are kept. Nobody else can read it.
{_lines(data_dir=answers.data_dir)}
# Who answers what no binding matches.
{_lines(default_agent="main")}

[http]
# Where the page and the API are reached. An address that other machines reach needs an admin_token.
{_lines(listen=answers.listen)}
{_TOKEN_HINT if local else _lines(admin_token=secrets.token_urlsafe(32))}

# The page. More accounts and channels are more tables.
[web.main]

{bots}# Who answers. "builtin" needs no key and is no language model: it shows that everything works.
[agents.main]
{_lines(kind=answers.kind)}{_language_model_lines(answers)}
# Messages that arrive during an answer: "followup" (each its own turn) or "collect" (together in the next).
# queue = "collect"

# You. Your ids in Telegram and Discord make your private messages there one conversation.
[people.owner]
{_lines(**person)}
"""


def _language_model_lines(answers: Answers) -> str:
    """With Chat Completions for a server of one's own: every one of them has that API."""
    if answers.kind != "openai":
        return ""
    own = {"api": "chat", "base_url": answers.base_url} if answers.base_url else {}
    key = {"api_key": answers.api_key} if answers.api_key else {}
    return "\n" + _lines(model=answers.model, **own, **key)


def _bot(channel: str, token: str) -> str:
    if not token:
        return ""
    return f"""\
# Your bot. Unknown people who write to it get a code: `trunkline pair approve CODE` lets them in.
[{channel}.main]
{_lines(token=token)}
# The groups in which it answers when it is mentioned, by their ids: /whoami in the group shows them.
# groups = []

"""


_TOKEN_HINT = """\
# Unless you set one, a token is made at the first start, in the file admin.token of the data directory.
# admin_token = { env = "TRUNKLINE_ADMIN_TOKEN" }   # or { file = "PATH" }"""


def _lines(**values: object) -> str:
    return tomli_w.dumps(values).rstrip("\n")


def _write(path: Path, content: str, force: bool) -> None:
    """Only what the daemon takes."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}.") from None
    with new_file(path, force=force) as file:
        file.write(content.encode())
        file.flush()
        load_config(Path(file.name))
