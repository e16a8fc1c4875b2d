"""The example and the loader agree, in both directions, and the reference is made from the example."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from gateway.config import load
from gateway.config.reference import render, uncommented
from gateway.config.tables import (
    AcpAgent,
    AgentTable,
    BindingTable,
    BudgetTable,
    BuiltinAgent,
    Compaction,
    File,
    OpenAIAgent,
    PersonTable,
)

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "config.toml.example").read_text()
ENV = {
    "TRUNKLINE_ADMIN_TOKEN": "a-token-of-some-length",
    "TRUNKLINE_TELEGRAM_TOKEN": "1:a-telegram-token",
    "TRUNKLINE_DISCORD_TOKEN": "a-discord-token",
    "OPENAI_API_KEY": "an-openai-key",
    "GEMINI_API_KEY": "a-gemini-key",
}


@pytest.mark.req("CARD-13")
def test_the_example_loads_as_it_is() -> None:
    config = load(ROOT / "config.toml.example", {})
    assert [account.channel for account in config.accounts] == ["web"]
    assert config.warnings == ()


@pytest.mark.req("CARD-13")
def test_the_example_loads_with_every_key_switched_on(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(uncommented(EXAMPLE))
    assert load(file, ENV).warnings == ()


def test_switching_every_key_on_changes_no_default(tmp_path: Path) -> None:
    """The values in the comments are the defaults, but for those that have none."""
    file = tmp_path / "config.toml"
    file.write_text(uncommented(EXAMPLE))
    on, plain = load(file, ENV), load(ROOT / "config.toml.example", ENV)
    machine = {"data_dir": plain.gateway.data_dir, "timezone": plain.gateway.timezone, "workspace_root": None}
    assert on.gateway.model_copy(update=machine) == plain.gateway
    assert on.http == plain.http
    main, compaction = on.agents["main"], on.agents["main"].compaction.model_copy(update={"model": None})
    assert main.model_copy(update={"name": "main", "compaction": compaction}) == plain.agents["main"]
    assert on.accounts[0] == plain.accounts[0]


@pytest.mark.req("CARD-13")
def test_every_key_of_the_loader_is_in_the_example() -> None:
    shown = tomllib.loads(uncommented(EXAMPLE))
    assert set(shown) == set(File.model_fields)
    for table, models in _tables(shown):
        assert set(table) == {name for model in models for name in model.model_fields}, models


def test_a_model_is_shown_with_what_only_models_have(tmp_path: Path) -> None:
    shown = tomllib.loads(uncommented(EXAMPLE))["agents"]["model"]
    assert set(shown) == set(OpenAIAgent.model_fields) - set(AgentTable.model_fields) | {"context_window"}
    file = tmp_path / "config.toml"
    file.write_text(uncommented(EXAMPLE))
    loaded = load(file, ENV).agents["model"]
    given = {"name", "base_url", "api_key", "temperature", "top_p", "max_output_tokens"}
    plain = OpenAIAgent.model_construct(kind="openai", model=shown["model"])
    assert loaded.model_dump(exclude=given) == plain.model_dump(exclude=given)


def test_an_agent_with_a_process_is_shown_with_what_only_those_have(tmp_path: Path) -> None:
    shown = tomllib.loads(uncommented(EXAMPLE))["agents"]["coder"]
    own = {"context_window", "turn_timeout"}
    assert set(shown) == set(AcpAgent.model_fields) - set(AgentTable.model_fields) | own
    file = tmp_path / "config.toml"
    file.write_text(uncommented(EXAMPLE))
    loaded = load(file, ENV).agents["coder"]
    given = {"name", "preset", "command", "env", "repo"}
    plain = AcpAgent.model_construct(kind="acp")
    assert loaded.model_dump(exclude=given) == plain.model_dump(exclude=given)


def _tables(shown: dict[str, Any]) -> list[tuple[dict[str, Any], list[type[BaseModel]]]]:
    """Each table of the example with the model that reads it."""
    found: list[tuple[dict[str, Any], list[type[BaseModel]]]] = [
        (shown["agents"]["main"], [BuiltinAgent]),
        (shown["agents"]["main"]["compaction"], [Compaction]),
        (shown["bindings"][0], [BindingTable]),
        (shown["people"]["ada"], [PersonTable]),
        (shown["budgets"]["everybody"], [BudgetTable]),
    ]
    for name, field in File.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found.append((shown[name], [field.annotation]))
    for channel in ("web", "telegram", "discord", "memory"):
        model = File.model_fields[channel].annotation.__args__[1]  # type: ignore[union-attr]
        found.append((next(iter(shown[channel].values())), [model]))
    return found


def test_the_reference_is_made_from_the_example() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == render(EXAMPLE)


def test_every_key_has_a_comment() -> None:
    """Above it, or above the first table that has it."""
    explained = set(re.findall(r"^\| `(\w+)` \| .* \| \S.*\|$", render(EXAMPLE), re.MULTILINE))
    bare = set(re.findall(r"^\| `(\w+)` \| .* \|  \|$", render(EXAMPLE), re.MULTILINE))
    assert bare - explained <= set(BindingTable.model_fields) | set(PersonTable.model_fields)
