"""[agents.NAME] kind = "openai" in the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import ModelApi, OpenAIAgent, load
from routing.errors import ConfigError

KEY = 'api_key = "sk-secret"\n'
MODEL = 'model = "m"\n'


def read(folder: Path, keys: str) -> OpenAIAgent:
    file = folder / "config.toml"
    file.write_text(f'[agents.main]\nkind = "openai"\n{keys}')
    agent = load(file, {"HOME": str(folder), "KEY": "sk-from-env"}).agents["main"]
    assert isinstance(agent, OpenAIAgent)
    return agent


def test_the_least_there_can_be(tmp_path: Path) -> None:
    agent = read(tmp_path, MODEL + KEY)
    assert (agent.api, agent.model, agent.fallback_models, agent.base_url) == (ModelApi.RESPONSES, "m", (), None)
    assert agent.context_window == 32_768
    assert "sk-secret" not in repr(agent)


def test_a_server_of_ones_own_needs_no_key(tmp_path: Path) -> None:
    agent = read(tmp_path, MODEL + 'api = "chat"\nbase_url = "http://127.0.0.1:11434/v1/"\nfallback_models = ["n"]\n')
    assert (agent.api_key, agent.base_url) == (None, "http://127.0.0.1:11434/v1")
    assert agent.fallback_models == ("n",)


def test_a_key_from_the_environment_is_masked_in_the_log(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[agents.main]\nkind = "openai"\n{MODEL}api_key = {{ env = "KEY" }}')
    assert list(load(file, {"HOME": str(tmp_path), "KEY": "sk-from-env"}).secrets()) == ["sk-from-env"]


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (MODEL, "[agents.main] api_key: OpenAI needs one; for another server, which may need none, set base_url."),
        (KEY, "[agents.main] model is missing."),
        (KEY + 'model = " "', '[agents.main] model = " ": must be the name of a model.'),
        (MODEL + KEY + 'api = "soap"', '[agents.main] api = "soap": must be "responses" or "chat".'),
        (
            MODEL + KEY + 'fallback_models = "n"',
            '[agents.main] fallback_models = "n": must be a list of names in brackets, such as ["one", "other"].',
        ),
        (MODEL + KEY + 'fallback_models = [""]', '[agents.main] fallback_models #1 = "": must be the name of a model.'),
        (MODEL + KEY + "temperature = 3", "[agents.main] temperature = 3: must be at most 2."),
        (
            MODEL + KEY + 'base_url = "x"',
            '[agents.main] base_url = "x": must be an address that begins with http:// or',
        ),
        (MODEL + KEY + "tempreature = 1", "[agents.main] tempreature is not a known key: did you mean temperature?"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, keys: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        read(tmp_path, keys)
    [problem] = wrong.value.problems
    assert problem.partition(": ")[2].startswith(sentence)
    assert "sk-" not in problem
