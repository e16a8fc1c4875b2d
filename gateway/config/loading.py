"""From a file and the environment to a configuration, or to all the reasons why not."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import SecretStr, ValidationError

from gateway.config import environment, relations
from gateway.config.environment import Surroundings
from gateway.config.problems import sentences
from gateway.config.tables import (
    CHANNELS,
    AcpAgent,
    AgentConfig,
    BudgetTable,
    File,
    Gateway,
    Http,
    MemoryTable,
    Retention,
    Search,
)
from routing.access import Policy
from routing.bindings import Binding, unreachable
from routing.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One account of a channel."""

    channel: str
    name: str
    table: MemoryTable

    @property
    def policy(self) -> Policy:
        return self.table.policy

    @property
    def streaming(self) -> bool:
        return self.table.streaming


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPerson:
    """A person whom the configuration names."""

    name: str
    owner: bool
    telegram: str | None
    discord: str | None

    @property
    def identities(self) -> dict[str, str]:
        """Channel → user id."""
        known = {"telegram": self.telegram, "discord": self.discord}
        return {channel: user for channel, user in known.items() if user is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    #: The file that was read; None for the built-in configuration.
    path: Path | None
    gateway: Gateway
    http: Http
    accounts: tuple[Account, ...]
    agents: Mapping[str, AgentConfig]
    bindings: tuple[Binding, ...]
    people: tuple[KnownPerson, ...]
    search: Search = Search()
    retention: Retention = Retention()
    budgets: Mapping[str, BudgetTable] = field(default_factory=dict)
    #: Sentences about what works but should not stay so.
    warnings: tuple[str, ...] = field(default=(), compare=False)
    _secrets: tuple[SecretStr, ...] = field(default=(), compare=False, repr=False)

    def secrets(self) -> Iterator[str]:
        """Every secret in clear text, for the log to mask."""
        return (secret.get_secret_value() for secret in self._secrets)


def load(path: Path | None, env: Mapping[str, str]) -> Config:
    """The configuration of a file, of the first usual place that has one, or else the built-in one."""
    found, raw = _find(env) if path is None else (path, _read(path))
    source = str(found or "The built-in configuration")
    around = Surroundings(env, found.absolute().parent if found else Path("/"))
    filled = _with_defaults(raw, env)
    wrong: list[str] = []
    file: File | None = None
    try:
        file = File.model_validate(filled, context=around)
    except ValidationError as error:
        wrong += sentences(error, filled)
    wrong += relations.problems(filled)
    wrong = [*environment.problems(env), *(f"{source}: {sentence}" for sentence in wrong)]
    # Raised outside the handler: pydantic's error knows the secrets and must not hang on ours.
    if wrong or file is None:
        raise ConfigError(wrong)
    return _config(found, file, around)


def _find(env: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    for path in environment.config_files(env):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            pass  # reading it says why
        return path, _read(path)
    return None, {}


def _read(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
        return tomllib.loads(content.decode("utf-8-sig"))
    except FileNotFoundError:
        why = "there is no such file."
    except IsADirectoryError:
        why = "is a directory; name the file in it."
    except OSError as error:
        why = f"cannot be read: {error.strerror}."
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        why = f"line {line} is not UTF-8 text; save the file as UTF-8."
    except RecursionError:
        why = "is nested too deeply."
    except tomllib.TOMLDecodeError as error:
        why = f"is not valid TOML: {error}."
    except ValueError:
        why = "holds a number with too many digits."
    raise ConfigError([f"{path}: {why}"])


def _with_defaults(raw: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    filled = {"gateway": {}, "http": {}, **raw}
    if all(raw.get(channel, {}) == {} for channel in CHANNELS):
        filled["web"] = {"main": {}}
    if raw.get("agents", {}) == {}:
        filled["agents"] = {"main": {"kind": "builtin"}}
    if isinstance(filled["gateway"], dict):
        defaults = {"default_agent": relations.default_agent(filled), "data_dir": environment.data_dir(env)}
        filled["gateway"] = {name: str(value) for name, value in defaults.items() if value} | filled["gateway"]
    return filled


def _config(path: Path | None, file: File, around: Surroundings) -> Config:
    bindings = tuple(Binding(**table.model_dump()) for table in file.bindings)
    useless = [f"{path}: [[bindings]] #{at + 1} never decides: {why}." for at, why in unreachable(bindings)]
    homeless = [
        f"{path}: [agents.{name}] cannot work: set {environment.WORKSPACE_ROOT} or [gateway] workspace_root."
        for name, agent in file.agents.items()
        if isinstance(agent, AcpAgent) and file.gateway.workspace_root is None
    ]
    return Config(
        path=path,
        gateway=file.gateway,
        http=file.http,
        accounts=tuple(_accounts(file)),
        agents=MappingProxyType(
            {name: agent.model_copy(update={"name": agent.name or name}) for name, agent in file.agents.items()}
        ),
        bindings=bindings,
        people=tuple(KnownPerson(name=name, **table.model_dump()) for name, table in file.people.items()),
        search=file.search,
        retention=file.retention,
        budgets=MappingProxyType(file.budgets),
        warnings=(*around.warnings, *useless, *homeless),
        _secrets=tuple(around.secrets),
    )


def _accounts(file: File) -> Iterator[Account]:
    for channel in CHANNELS:
        for name, table in getattr(file, channel).items():
            yield Account(channel=channel, name=name, table=table)
