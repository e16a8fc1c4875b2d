"""`trunkline search`, `trunkline usage` and `trunkline sessions migrate`: over many conversations."""

from __future__ import annotations

from tests.gateway.cli.conftest import Place


def test_search(running: Place) -> None:
    session = running.say("the canary sings", "nothing here")
    done = running("search", "canary")
    assert done.lines[0].split() == ["SESSION", "AGENT", "WHEN", "WHO", "TEXT"]
    assert [line.split()[0] for line in done.lines[1:]] == [session, session]
    assert done.lines[1].endswith("agent  You said: the canary sings")
    found = running("search", '"canary sings"', "--json", "--agent", "main", "--session", session, "--limit", "1").json
    assert [hit["role"] for hit in found["hits"]] == ["agent"]
    assert running("search", "canary", "--agent", "other").err == "Nothing was found.\n"
    # Whatever is typed is only looked for.
    assert running("search", 'NEAR("* OR -').out == ""


def test_usage(running: Place) -> None:
    session = running.say("two words")
    by_agent = running("usage")
    assert by_agent.lines[0].split() == [
        *("AGENT", "NAME", "TURNS", "INPUT", "CACHED", "OUTPUT", "REASONING", "ESTIMATED", "UNKNOWN", "COST")
    ]
    rows = {line.split()[0]: line.split()[1:] for line in by_agent.lines[1:]}
    assert 0 < int(rows["main"][0]) <= int(rows["total"][0])
    by_session = running("usage", "--by", "session", "--json").json
    [row] = [row for row in by_session["rows"] if row["key"] == session]
    assert (row["name"], row["turns"], row["inputTokens"], row["outputTokens"]) == ("two words", 1, 2, 4)
    assert running("usage", "--by", "day").lines[0].startswith("DAY ")
    assert "by" in running("usage", "--by", "moon", expect=2).err


def test_migrate(running: Place) -> None:
    one, two = running.say("from main"), running.new()
    dry = running("sessions", "migrate", "--to", "other", "--from", "main", "--dry-run")
    assert dry.lines[0].split() == ["ID", "FROM", "TO", "RESULT"]
    assert {one, two} <= {line.split()[0] for line in dry.lines[1:]}
    assert all(line.endswith("would be moved") for line in dry.lines[1:])
    assert running.session(one)["agentId"] == "main"
    moved = running("sessions", "migrate", "--to", "other", one, "--json").json
    assert (moved["moved"], moved["dryRun"]) == (1, False)
    shown = running("sessions", "show", one, "--json").json
    assert shown["agentId"] == "other"
    assert [row["role"] for row in shown["messages"]] == ["user", "agent"]
    # What cannot be moved is named, and the exit code tells.
    done = running("sessions", "migrate", "--to", "other", one, two, "nope", expect=1)
    assert [line.rpartition("  ")[2] for line in done.lines[1:]] == [
        "not moved: it belongs to that agent already",
        "moved",
        "not moved: there is no such session",
    ]
    assert "name them, or give --from" in running("sessions", "migrate", "--to", "other", expect=2).err
    said = running("sessions", "migrate", "--to", "nobody", one, expect=1).sentence
    assert said.startswith("There is no agent called 'nobody'.")


def test_budgets(place: Place) -> None:
    """Seen and raised while no daemon runs."""
    assert place("budget", "list").out == "There are no budgets, or nothing was spent yet.\n"
    place.configure(budgets={"all": {"tokens": 1000, "per": "month"}})
    done = place("budget", "allow", "all", "--tokens", "500")
    assert done.out == "Budget all (all): 0 of 1,500 tokens used.\n"
    listed = place("budget", "list")
    assert listed.lines[0].split() == ["BUDGET", "WHOSE", "PER", "TOKENS", "MONEY"]
    assert listed.lines[1].split()[:3] == ["all", "all", "month"]
    assert place("budget", "list", "--json").json["budgets"][0]["tokens"] == 1500
    assert place("budget", "allow", "none", "--tokens", "5", expect=1).sentence.startswith("There is no budget called")
    assert "does not count that" in place("budget", "allow", "all", "--money", "5", expect=1).sentence
