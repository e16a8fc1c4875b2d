"""`trunkline sessions`: with a daemon and without one."""

from __future__ import annotations

import uuid

import pytest

from tests.gateway.cli.conftest import Done, Place

HEAD = ["ID", "AGENT", "WHERE", "STATUS", "MESSAGES", "ACTIVE", "TITLE"]


def ids(done: Done) -> list[str]:
    return [row["id"] for row in done.json["sessions"]]


def test_without_a_daemon(place: Place) -> None:
    """The same commands work where no daemon runs."""
    first = place("sessions", "new").out.strip()
    made = place("sessions", "new", "--json").json
    assert (made["agentId"], made["status"]) == ("main", "active")
    done = place("sessions", "list", "--limit", "2")
    assert done.lines[0].split() == HEAD
    assert [line.split()[0] for line in done.lines[1:]] == [made["id"], first]
    assert done.lines[1].split()[1:6] == ["main", "api.owner", "dm", "active", "0"]
    done = place("sessions", "end", first, "--reason", "it is enough")
    assert done.out == f"Session {first} is completed.\n"
    assert "status:   completed (it is enough)" in place("sessions", "show", first).lines
    assert place("sessions", "delete", first, input="y\n").out == f"Removed session {first} with 0 messages.\n"
    assert ids(place("sessions", "list", "--json", "--limit", "1")) == [made["id"]]


# Listing


def test_an_empty_list(place: Place) -> None:
    done = place("sessions", "list")
    assert (done.out, done.err) == ("", "There are no such sessions.\n")
    assert place("sessions", "list", "--json").json == {"sessions": [], "total": 0}


def test_more_than_is_shown(running: Place) -> None:
    for _ in range(3):
        running.new()
    done = running("sessions", "list", "--limit", "2")
    assert len(done.lines) == 3
    assert done.lines[0].split() == HEAD
    total = running.api.get("/api/sessions")["total"]
    assert done.err == f"2 of {total}; --limit 0 shows all.\n"
    everything = running("sessions", "list", "--limit", "0")
    assert len(everything.lines) == total + 1
    assert everything.err == ""


def test_filters(running: Place) -> None:
    mine, other = running.say("hello"), running.new("other")
    running.api.post(f"/api/sessions/{other}/archive")

    def found(*args: str) -> set[str]:
        return set(ids(running("sessions", "list", "--json", "--limit", "0", *args)))

    archived = found("--agent", "other", "--status", "archived")
    assert other in archived
    assert mine not in archived
    wide = ("--status", "archived", "--status", "active", "--channel", "api", "--account", "owner", "--kind", "dm")
    assert {mine, other} <= found(*wide, "--since", "1h")
    assert found(*wide, "--until", "1h") == set()
    assert {mine, other} <= found(*wide, "--until", "2999-01-31")
    assert found("--channel", "telegram") == set()
    assert found("--since", "2999-01-31T12:00", "--person", str(uuid.uuid4())) == set()


def test_sort(running: Place) -> None:
    first, second = (running.new() for _ in range(2))
    running.say("hello", session=first)
    assert ids(running("sessions", "list", "--json", "--limit", "2")) == [first, second]
    assert ids(running("sessions", "list", "--json", "--limit", "2", "--sort", "created")) == [second, first]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--since", "soon"], "'soon' is neither a time such as 2026-01-31T12:00 nor 30m, 24h, 7d or 4w"),
        (["--status", "gone"], "'gone' is not one of 'active'"),
    ],
)
def test_wrong_filters(place: Place, args: list[str], words: str) -> None:
    assert words in place("sessions", "list", *args, expect=2).err


# One session


def test_show(running: Place) -> None:
    session = running.say("hello", "fail", *(f"number {number}" for number in range(5)))
    done = running("sessions", "show", session)
    facts = dict(line.split(":", 1) for line in done.out.partition("\n\n")[0].splitlines())
    assert facts["session"].strip() == session
    assert facts["agent"].strip() == "main"
    assert facts["status"].strip() == "active"
    assert facts["messages"].strip() == "14 in 7 turns"
    user, said, gap, agent, answer = done.lines[-5:]
    assert (user[16:], said, gap, agent[16:], answer) == ("  user", "number 4", "", "  agent", "You said: number 4")
    assert "You said: hello" not in done.out
    everything = running("sessions", "show", session, "--all").out
    assert "You said: hello" in everything
    assert "system\nThe request above failed and was not finished: you asked me to fail, so I did." in everything
    shown = running("sessions", "show", session, "--all", "--json").json
    assert [row["role"] for row in shown["messages"][:4]] == ["user", "agent", "user", "system"]
    assert shown["id"] == session


def test_what_waits_and_what_grows_is_shown_as_such(running: Place) -> None:
    session = running.new()
    path = f"/api/sessions/{session}"
    with running.api.stream(f"{path}/events", {"since": running.session(session)["createdAt"]}) as lines:
        for text in ("count 9999", "and then"):
            running.api.post(f"{path}/prompt", {"text": text})
        next(line for line in lines if b'"partial": true' in line)
    done = running("sessions", "show", session, "--all")
    running.api.delete(path)
    assert [line for line in done.lines if line.endswith(" …")]
    assert done.lines[-2].endswith("user (waiting)")
    assert done.lines[-1] == "and then"


def test_ends(running: Place) -> None:
    session = running.new()
    assert running("sessions", "end", session, "--status", "cancelled").out == f"Session {session} is cancelled.\n"
    said = running("sessions", "end", session, expect=1).sentence
    assert said.startswith(f"Session {session} has ended (cancelled)")
    assert running("sessions", "end", session, "--status", "archived").out == f"Session {session} is archived.\n"
    ended = running("sessions", "end", running.new(), "--reason", "enough", "--json").json
    assert (ended["status"], ended["metadata"]["reason"]) == ("completed", "enough")


def test_a_session_that_is_not_there(running: Place) -> None:
    for args in (["show"], ["delete", "--yes"]):
        done = running("sessions", *args, "no/such?thing", expect=1)
        assert done.sentence == "There is no session no/such?thing."
    assert "must not be empty" in running("sessions", "show", "", expect=2).err


def test_an_agent_that_is_not_there(running: Place) -> None:
    said = running("sessions", "new", "--agent", "nobody", expect=1).sentence
    assert said == "There is no agent called 'nobody'. Configured: main, other."


def test_removing_is_asked_for(running: Place) -> None:
    session = running.say("hello")
    refused = running("sessions", "delete", session, input="n\n", expect=1)
    assert refused.err == f"Remove session {session} (main, 2 messages) for good? [y/N]: trunkline: Nothing was done.\n"
    unheard = running("sessions", "delete", session, expect=1)
    assert unheard.err.endswith("trunkline: Nobody answered, so nothing was done. --yes does it without asking.\n")
    assert running.session(session)["messageCount"] == 2
    assert running("sessions", "delete", session, "--yes").err == ""
    assert running("sessions", "show", session, expect=1).sentence == f"There is no session {session}."
    session = running.say("hello")
    gone = running("sessions", "delete", session, "--yes", "--json").json
    assert (gone["id"], gone["removed"]["messages"]) == (session, 2)
