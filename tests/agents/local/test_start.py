"""The table of the kind `local`, and an agent that lacks what it needs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import tomli_w

from gateway.agents.local import model
from gateway.agents.local.agent import LocalModelAgent
from gateway.agents.protocol import Agent, TurnContext
from gateway.config import Config, load
from gateway.config.reference import uncommented
from gateway.config.tables import AgentTable, LocalAgent
from gateway.daemon import agents_of
from routing.errors import AgentFailed, ConfigError


def configured(folder: Path, table: str = "", **env: str) -> Config:
    file = folder / "config.toml"
    file.write_text(f'[gateway]\ndata_dir = "data"\n[agents.small]\nkind = "local"\n{table}\n')
    return load(file, {"HOME": str(folder), **env})


def table_of(config: Config) -> LocalAgent:
    table = config.agents["small"]
    assert isinstance(table, LocalAgent)
    return table


def test_the_kind_is_all_that_is_needed(tmp_path: Path) -> None:
    table = table_of(configured(tmp_path))
    assert table.model == tmp_path / ".cache" / "trunkline" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert (table.context_window, table.max_output_tokens, table.max_turns, table.threads) == (4096, 1024, 1, None)


def test_a_model_of_ones_own_lies_beside_the_file_or_at_home(tmp_path: Path) -> None:
    assert table_of(configured(tmp_path, 'model = "own.gguf"')).model == tmp_path / "own.gguf"
    assert table_of(configured(tmp_path, 'model = "~/own.gguf"', HOME="/home/ada")).model == Path("/home/ada/own.gguf")


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("model = 3", "[agents.small] model = 3: must be the path of a .gguf file, as a text in quotes."),
        ('model = ""', '[agents.small] model = "": must be the path of a .gguf file, as a text in quotes.'),
        ("threads = 0", "[agents.small] threads = 0: must be at least 1."),
        ("context_window = 8", "[agents.small] context_window = 8: must be at least 256."),
        ("max_turns = 65", "[agents.small] max_turns = 65: must be at most 64."),
        ('api_key = "x"', "[agents.small] api_key is not a known key:"),
    ],
)
def test_a_wrong_table(tmp_path: Path, table: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, table)
    assert sentence in str(caught.value)


async def refusal(agent: Agent) -> str:
    """Why the agent does not answer."""
    turn = TurnContext(agent="small", session_id="s", turn=1, summary=None, history=(), instruction=())
    try:
        with pytest.raises(AgentFailed) as caught:
            await anext(agent.run(turn))
        return caught.value.why
    finally:
        await agent.close()


async def test_without_the_library_the_agent_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "runtime_installed", lambda: False)
    agent = agents_of(configured(tmp_path))["small"]
    assert isinstance(agent, LocalModelAgent)
    assert await refusal(agent) == (
        "local models need the package xllamacpp. The owner can install it: pip install 'trunkline[local]'."
    )


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04"])
async def test_without_a_model_the_agent_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    monkeypatch.setattr(model, "runtime_installed", lambda: True)
    if content is not None:
        (tmp_path / "own.gguf").write_bytes(content)
    why = "there is no such file" if content is None else "it is not a GGUF file"
    assert await refusal(agents_of(configured(tmp_path, 'model = "own.gguf"'))["small"]) == (
        f"its model file cannot be used ({why}). The owner can get the small one: trunkline local fetch."
    )


def test_the_library_is_looked_for_and_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise RuntimeError('this was imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert model.runtime_installed()


def test_the_example_shows_what_only_this_kind_has(tmp_path: Path, checkout: Path) -> None:
    example = uncommented((checkout / "config.toml.example").read_text())
    shown = tomllib.loads(example)["agents"]["small"]
    own = set(LocalAgent.model_fields) - set(AgentTable.model_fields)
    assert set(shown) == own | {"context_window", "max_turns"}
    lines = "\n".join(tomli_w.dumps({name: value}) for name, value in shown.items() if name != "kind")
    given = {"name", "model", "threads"}
    plain = LocalAgent.model_construct(kind="local")
    assert table_of(configured(tmp_path, lines)).model_dump(exclude=given) == plain.model_dump(exclude=given)
