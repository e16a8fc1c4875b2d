"""Thoughts: what belongs together is one turn, and what does not promise more is not delayed. Edits and deletions."""

import asyncio
from typing import Any

import pytest

from gateway import phrases
from gateway.logs import Event as Logged
from routing.messages import Addressed, Attachment, AttachmentKind
from store import inbox
from store.records import InboxState
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.harness import Rig, Rigs


async def states(rig: Rig) -> dict[str, str]:
    rows = await rig.read(lambda db: db.execute("SELECT external_id, state FROM inbox").fetchall())
    return dict(rows)


async def waiting(rig: Rig) -> list[str]:
    return [item.text for item in await rig.read(inbox.all_waiting)]


# -- one thought -------------------------------------------------------------------------------------------------------


@pytest.mark.req("P49")
async def test_a_short_message_starts_without_any_delay(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("hello")
    assert rig.clock.monotonic() == 0
    assert rig.chat.texts() == ["re: hello"]


@pytest.mark.req("P49")
async def test_an_album_is_one_turn_and_one_answer(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    for number in range(3):
        picture = Attachment(kind=AttachmentKind.IMAGE, ref=str(number))
        text = "look at these" if number == 0 else ""
        await rig.ask(text, reply_to=f"m{number}", attachments=(picture,), open=True)
        await rig.advance(0.3)
    assert agent.seen == []
    await rig.advance(1)
    [turn] = agent.seen
    assert [message.metadata["attachments"][0]["kind"] for message in turn.instruction] == ["image"] * 3
    assert rig.chat.texts() == ["re: look at these\n\n"]
    assert [one.address.reply_to for one in rig.chat.shown] == ["m2"], "an answer replies to the last of them"
    assert set((await states(rig)).values()) == {"done"}


@pytest.mark.req("P49")
async def test_a_split_paste_ends_with_the_part_that_promises_no_more(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("first half", open=True)
    await rig.advance(0.2)
    await rig.ask("second half")
    assert [turn.text for turn in agent.seen] == ["first half\nsecond half"], "and it does not wait any longer"
    assert rig.clock.monotonic() == pytest.approx(0.2)
    assert [text for _, text in await rig.said()][:2] == ["first half", "second half"], "boundaries are kept"


@pytest.mark.req("P49")
async def test_a_forward_and_its_comment_are_one_turn(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("what they wrote", open=True, forwarded_from="A Channel")
    await rig.ask("what do you think?")
    [turn] = agent.seen
    first, second = turn.instruction
    assert (first.metadata["forwardedFrom"], second.metadata.get("forwardedFrom")) == ("A Channel", None)


async def test_an_open_message_that_nothing_follows_is_answered_within_a_second(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("alone", open=True)
    await rig.advance(0.9)
    assert rig.chat.texts() == []
    await rig.advance(0.2)
    assert rig.chat.texts() == ["re: alone"]


async def test_every_part_renews_the_wait(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    for number in range(5):
        await rig.ask(str(number), open=True)
        await rig.advance(0.8)
    assert agent.seen == []
    await rig.advance(0.3)
    assert [turn.text for turn in agent.seen] == ["0\n1\n2\n3\n4"]


async def test_what_comes_too_late_is_a_thought_of_its_own(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("one", open=True)
    await rig.advance(1.1)
    await rig.ask("two")
    assert [turn.text for turn in agent.seen] == ["one", "two"]


async def test_whoever_else_speaks_ends_the_wait_and_is_not_mixed_in(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("one", open=True, sender="1", group=True)
    await rig.ask("other", sender="2", group=True)
    assert [turn.text for turn in agent.seen] == ["one", "other"]
    assert rig.clock.monotonic() == 0


async def test_a_command_does_not_wait_for_a_thought(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("one", open=True)
    await rig.ask("/help")
    assert rig.chat.texts() == [phrases.HELP]
    await rig.ask("two")
    assert [turn.text for turn in agent.seen] == ["one\ntwo"]


async def test_other_conversations_do_not_wait_for_a_thought(rigs: Rigs) -> None:
    rig = await rigs(main={"max_turns": 1}).start()
    await rig.ask("one", open=True, sender="1")
    await rig.ask("other", sender="2")
    assert rig.chat.texts("2") == ["re: other"]


@pytest.mark.parametrize("hard", [False, True])
async def test_a_thought_survives_a_restart(rigs: Rigs, hard: bool) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("one", open=True)
    await rig.ask("two", open=True)
    await (rig.cut() if hard else rig.stop())
    await rig.start()
    await rig.advance(1.1)
    assert [turn.text for turn in agent.seen] == ["one\ntwo"]


async def test_thoughts_that_wait_behind_a_turn_stay_apart(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([go_on, *says("first")], says("later"))).start()
    await rig.ask("first")
    for text, more in (("a1", True), ("a2", False), ("b", False), ("c1", True), ("c2", False)):
        await rig.ask(text, open=more)
    await rig.advance(5)
    go_on.set()
    await rig.settled()
    assert [turn.text for turn in agent.seen] == ["first", "a1\na2", "b", "c1\nc2"]


# -- edits -------------------------------------------------------------------------------------------------------------


@pytest.mark.req("P50")
async def test_an_edit_before_its_turn_replaces_the_text(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([go_on, *says("first")], says("second"))).start()
    await rig.ask("first", reply_to="m1")
    await rig.ask("delete teh file", reply_to="m2")
    await rig.edit("keep the file", reply_to="m2")
    assert await waiting(rig) == ["keep the file"]
    assert len(rig.journal.of(Logged.MESSAGE_EDITED)) == 1
    go_on.set()
    await rig.settled()
    assert [turn.text for turn in agent.seen] == ["first", "keep the file"]
    assert await rig.said() == [
        ("user", "first"),
        ("agent", "first"),
        ("user", "keep the file"),
        ("agent", "second"),
    ]


@pytest.mark.req("P50")
@pytest.mark.parametrize("ended", [False, True])
async def test_an_edit_after_its_turn_began_does_nothing(rigs: Rigs, ended: bool) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([go_on, *says("fine")])).start()
    await rig.ask("first", reply_to="m1")
    if ended:
        go_on.set()
        await rig.settled()
    await rig.edit("something else", reply_to="m1")
    go_on.set()
    await rig.settled()
    assert len(agent.seen) == 1
    assert await rig.said() == [("user", "first"), ("agent", "fine")]
    assert rig.chat.texts() == ["fine"]
    assert rig.journal.of(Logged.MESSAGE_EDITED) == []


@pytest.mark.req("P50")
@pytest.mark.parametrize("text", ["/stop", "/new", "/nonsense", "waits", " \n"])
async def test_an_edit_never_runs_a_command_and_never_starts_anything(rigs: Rigs, text: str) -> None:
    rig = await rigs(agent := ScriptedAgent([asyncio.Event()])).start()
    await rig.ask("runs", reply_to="m1")
    await rig.ask("waits", reply_to="m2")
    for reply_to in ("m1", "m2", "m3"):
        await rig.edit(text, reply_to=reply_to)
    assert (rig.chat.log, agent.cancelled, len(agent.seen)) == ([], 0, 1)
    assert await waiting(rig) == ["waits"]


@pytest.mark.req("P50")
async def test_a_command_that_was_edited_stays_what_it_was(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("/help", reply_to="m1")
    await rig.edit("/help me", reply_to="m1")
    await rig.edit("what is this?", reply_to="m1")
    assert (rig.chat.texts(), agent.seen) == ([phrases.HELP], [])


@pytest.mark.req("P56")
async def test_an_edit_by_somebody_who_may_not_speak_does_nothing(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()]), memory={"main": {"dm": "allowlist", "allow": ["1"]}}).start()
    await rig.ask("runs", sender="1", reply_to="m1")
    await rig.ask("waits", sender="1", reply_to="m2")
    await rig.edit("forged", sender="2", chat="1", reply_to="m2")
    assert await waiting(rig) == ["waits"]


@pytest.mark.req("P51", "P56")
@pytest.mark.parametrize("how", [{"sender": "9", "bot": True}, {"sender": "1", "addressed": Addressed.NOT}])
async def test_in_a_group_an_edit_needs_what_a_message_needs(rigs: Rigs, how: dict[str, Any]) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()])).start()
    await rig.ask("runs", group=True, reply_to="m1")
    await rig.ask("waits", group=True, reply_to="m2")
    await rig.edit("forged", group=True, reply_to="m2", **how)
    assert await waiting(rig) == ["waits"]
    await rig.edit("corrected", group=True, reply_to="m2", sender="1")
    assert await waiting(rig) == ["corrected"]


async def test_a_part_of_a_thought_can_be_corrected(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("one", open=True, reply_to="m1")
    await rig.edit("eins", reply_to="m1")
    await rig.ask("two", reply_to="m2")
    assert [turn.text for turn in agent.seen] == ["eins\ntwo"]


# -- deletions ---------------------------------------------------------------------------------------------------------


async def test_a_message_deleted_while_it_waits_is_cancelled(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([go_on, *says("first")], says("last"))).start()
    for name in ("one", "two", "three"):
        await rig.ask(name, external_id=name)
    await rig.delete("two")
    assert (await states(rig))["two"] == InboxState.CANCELLED
    assert len(rig.journal.of(Logged.MESSAGE_CANCELLED)) == 1
    go_on.set()
    await rig.settled()
    assert [turn.text for turn in agent.seen] == ["one", "three"]
    assert "two" not in [text for _, text in await rig.said()]
    await rig.ask("two", external_id="two")
    assert len(agent.seen) == 2, "and it does not come back"


async def test_a_deletion_after_the_turn_began_changes_nothing(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(ScriptedAgent([go_on, *says("fine")])).start()
    await rig.ask("one", external_id="one")
    await rig.delete("one")
    await rig.delete("never was")
    go_on.set()
    await rig.settled()
    assert rig.chat.texts() == ["fine"]
    assert rig.journal.of(Logged.MESSAGE_CANCELLED) == []


@pytest.mark.parametrize("gone", [("one",), ("two",), ("one", "two")])
async def test_a_part_of_a_thought_can_be_taken_back(rigs: Rigs, gone: tuple[str, ...]) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    for name in ("one", "two"):
        await rig.ask(name, external_id=name, open=True)
    for name in gone:
        await rig.delete(name)
    await rig.advance(2)
    rest = [name for name in ("one", "two") if name not in gone]
    assert [turn.text for turn in agent.seen] == rest
    await rig.ask("next")
    assert agent.seen[-1].text == "next", "the lane goes on"
