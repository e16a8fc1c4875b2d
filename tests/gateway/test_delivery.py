"""Delivery through the in-memory channel: in order, once, or marked, or parked and resendable."""

from collections import Counter
from dataclasses import replace

import pytest

from channels.base import Outgoing
from channels.memory import Fault
from gateway import phrases
from gateway.logs import Event as Logged
from routing.errors import UnknownDelivery
from routing.messages import Address
from store import outbox
from store.database import Database
from store.outbox import Draft
from store.records import OutboxKind, OutboxState
from tests.fakes.chance import MARK, PASSING, PLACES, chance, parked
from tests.fakes.harness import Chat, Rig, Rigs, notice


async def put(rig: Rig, *texts: str, state: OutboxState = OutboxState.READY, chat: str = "1") -> list[int]:
    """Rows as a crash left them, while no daemon runs."""

    def operation(db: Database) -> list[int]:
        return [outbox.put(db, notice(text, chat), state, rig.clock.now()) for text in texts]

    return await rig.before(operation)


# -- trouble with the platform -----------------------------------------------------------------------------------------


async def test_an_outage_only_delays(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.down = True
    for text in ("one", "two", "three"):
        await rig.ask(text)
    await rig.advance(60)
    assert rig.chat.shown == []
    assert await rig.states() == ["ready"] * 3
    tries = [call.at for call in rig.chat.log]
    assert len(set(call.text for call in rig.chat.log)) == 1, "the others wait for the first"
    pauses = [later - earlier for earlier, later in zip(tries, tries[1:], strict=False)]
    assert pauses == pytest.approx([1, 2, 4, 8, 16])
    assert [line["seconds"] for line in rig.journal.of(Logged.DELIVERY_RETRY)] == pytest.approx([1, 2, 4, 8, 16, 30])
    rig.chat.down = False
    await rig.advance(60)
    assert rig.chat.texts() == ["re: one", "re: two", "re: three"]
    assert await rig.states() == ["sent"] * 3


async def test_retries_go_on_for_ever_every_half_minute(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.down = True
    await rig.ask("one")
    await rig.advance(3_600)
    tries = [call.at for call in rig.chat.log]
    assert max(later - earlier for earlier, later in zip(tries, tries[1:], strict=False)) == pytest.approx(30)
    rig.chat.down = False
    await rig.advance(30)
    assert rig.chat.texts() == ["re: one"]


async def test_a_rate_limit_is_obeyed_by_everything_for_that_place_and_nothing_else(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.RATE_LIMIT)
    await rig.ask("one", sender="1")
    await rig.ask("two", sender="1")
    await rig.ask("/help", sender="1")
    await rig.ask("other", sender="2")
    assert rig.chat.texts("2") == ["re: other"]
    await rig.advance(29.9)
    assert [call.at for call in rig.chat.log if call.chat == "1"] == [0]
    await rig.advance(0.1)
    assert rig.chat.texts("1") == ["re: one", "re: two", phrases.HELP]
    assert rig.chat.log[2].at == pytest.approx(30)


@pytest.mark.parametrize("hard", [False, True])
async def test_a_rate_limit_survives_a_restart(rigs: Rigs, hard: bool) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.RATE_LIMIT)
    await rig.ask("one")
    await rig.advance(10)
    await (rig.cut() if hard else rig.stop())
    await rig.start()
    await rig.ask("two")
    await rig.advance(19.9)
    assert len(rig.chat.log) == 1
    await rig.advance(0.2)
    assert rig.chat.texts() == ["re: one", "re: two"]


async def test_a_connection_cut_before_the_platform_has_it_is_tried_again_unmarked(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.CUT_BEFORE)
    await rig.ask("one")
    await rig.advance(1)
    assert rig.chat.texts() == ["re: one"]
    assert rig.chat.calls == 2


async def test_an_unknown_outcome_goes_out_once_more_and_is_marked(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.CUT_AFTER)
    await rig.ask("one")
    await rig.ask("two")
    await rig.advance(1)
    assert rig.chat.texts() == ["re: one", f"re: one{MARK}", "re: two"]
    assert len(rig.journal.of(Logged.DELIVERY_UNCERTAIN)) == 1
    assert await rig.states() == ["sent", "sent"]


async def test_a_repeat_is_always_marked_and_not_made_for_ever(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.faults.extend([Fault.CUT_AFTER] * 6)
    await rig.ask("one")
    await rig.ask("two")
    await rig.advance(3600)
    assert rig.chat.texts() == ["re: one", *[f"re: one{MARK}"] * 5, "re: two"]
    [parked] = await rig.running.api.parked()
    assert parked.error is not None
    assert "not certain" in parked.error
    await rig.running.api.resend(parked.id)
    await rig.settled()
    assert rig.chat.texts()[7:] == [f"re: one{MARK}"]


async def test_an_unknown_outcome_stays_marked_through_later_troubles(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.faults.extend([Fault.CUT_AFTER, Fault.CUT_BEFORE, Fault.RATE_LIMIT])
    await rig.ask("one")
    await rig.advance(60)
    assert rig.chat.texts() == ["re: one", f"re: one{MARK}"]


async def test_a_permanent_refusal_is_parked_and_can_be_sent_again(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.REFUSE)
    await rig.ask("one")
    await rig.ask("two")
    assert rig.chat.texts() == ["re: two"], "what comes after does not wait"
    api = rig.running.api
    [parked] = await api.parked()
    assert (parked.state, parked.error, parked.text) == (OutboxState.PARKED, "refused", "re: one")
    [line] = rig.journal.of(Logged.DELIVERY_PARKED)
    assert (line["delivery"], line["why"]) == (parked.id, "refused")
    await rig.advance(3600)
    assert rig.chat.texts() == ["re: two"]
    assert (await api.resend(parked.id)).state is OutboxState.READY
    await rig.settled()
    assert rig.chat.texts() == ["re: two", "re: one"]
    assert await api.parked() == []
    for delivery in (parked.id, 999):
        with pytest.raises(UnknownDelivery):
            await api.resend(delivery)


async def test_a_slow_place_holds_up_no_other(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.DELAY)
    await rig.ask("slow", sender="1")
    await rig.ask("next", sender="1")
    await rig.ask("quick", sender="2")
    assert [one.text for one in rig.chat.shown] == ["re: quick"]
    rig.chat.go_on.set()
    await rig.settled()
    assert rig.chat.texts("1") == ["re: slow", "re: next"]


class Rude(Chat):
    """A channel that breaks its promise to raise nothing but DeliveryFailed."""

    rude = 0

    async def send(self, item: Outgoing) -> str:
        if self.rude:
            self.rude -= 1
            raise ZeroDivisionError(item.text)
        return await super().send(item)


async def test_whatever_a_channel_raises_the_message_is_not_lost(rigs: Rigs) -> None:
    rig = rigs()
    rude = Rude(rig.clock)
    rude.rude = 1
    rig.channels = (rude,)
    await rig.start()
    await rig.ask("one", channel=rude)
    await rig.advance(1)
    assert rude.texts() == [f"re: one{MARK}"]
    assert len(rig.journal.of(Logged.CHANNEL_FAILED)) == 1


class Findable(Chat):
    """A platform that can be asked whether a message arrived."""

    async def find(self, item: Outgoing) -> str | None:
        return next((one.id for one in self.shown if one.text == item.text), None)


@pytest.mark.parametrize("fault", [Fault.CUT_AFTER, Fault.CUT_BEFORE])
async def test_where_messages_can_be_found_nothing_is_repeated(rigs: Rigs, fault: Fault) -> None:
    rig = rigs()
    chat = Findable(rig.clock)
    rig.channels = (chat,)
    await put(rig, "found", state=OutboxState.SENDING)
    await put(rig, "not found", state=OutboxState.SENDING, chat="2")
    await chat.send(Outgoing(nonce="1", address=notice("").address, text="found"))
    await rig.start()
    assert (chat.texts("1"), chat.texts("2")) == (["found"], ["not found"])
    chat.faults.append(fault)
    await rig.ask("three", channel=chat, sender="3")
    await rig.advance(60)
    assert chat.texts("3") == ["re: three"]
    assert set(await rig.states()) == {"sent"}


async def test_an_account_that_is_gone_parks_what_was_for_it(rigs: Rigs) -> None:
    rig = rigs()
    gone = Draft(address=Address(channel="memory", account="gone", chat="1"), text="x", kind=OutboxKind.NOTICE)
    await rig.before(lambda db: outbox.put(db, gone, OutboxState.READY, rig.clock.now()))
    await rig.start()
    [parked] = await rig.running.api.parked()
    assert parked.error is not None
    assert "[memory.gone]" in parked.error


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (OutboxState.HELD, ["one", "two"]),
        (OutboxState.READY, ["one", "two"]),
        (OutboxState.SENDING, [f"one{MARK}", f"two{MARK}"]),
        (OutboxState.PARKED, []),
        (OutboxState.SENT, []),
        (OutboxState.DROPPED, []),
    ],
)
async def test_a_restart_in_each_state(rigs: Rigs, state: OutboxState, shown: list[str]) -> None:
    rig = rigs()
    first, second = await put(rig, "one", "two", state=state)
    await put(rig, "elsewhere", chat="2")
    await rig.start()
    assert rig.chat.texts("1") == shown
    assert rig.chat.texts("2") == ["elsewhere"]
    if state is OutboxState.PARKED:
        for delivery in (second, first):
            await rig.running.api.resend(delivery)
        await rig.settled()
        assert sorted(rig.chat.texts("1")) == ["one", "two"]
    assert not {"held", "ready", "sending"} & set(await rig.states())
    await rig.stop()
    await rig.start()
    await rig.advance(600)
    assert rig.chat.texts("2") == ["elsewhere"]
    assert len(rig.chat.texts("1")) == (2 if state in {OutboxState.PARKED} else len(shown))


async def test_what_waits_keeps_its_order_over_restarts(rigs: Rigs) -> None:
    rig = rigs()
    await put(rig, "one", state=OutboxState.SENDING)
    await put(rig, "two", state=OutboxState.HELD)
    await put(rig, "three", state=OutboxState.READY)
    rig.chat.down = True
    for _ in range(5):
        await rig.start()
        await rig.advance(2)
        await rig.stop()
    rig.chat.down = False
    await rig.start()
    await rig.advance(600)
    assert rig.chat.texts() == [f"one{MARK}", "two", "three"]


async def test_an_edit_that_was_under_way_is_simply_done_again(rigs: Rigs) -> None:
    rig = rigs()
    sent_id = await rig.chat.send(Outgoing(nonce="1", address=notice("").address, text="half an"))

    def half_edited(db: Database) -> None:
        delivery = outbox.put(db, replace(notice("whole"), kind=OutboxKind.FINAL), OutboxState.SENDING, 0)
        outbox.shown(db, delivery, sent_id, 0)

    await rig.before(half_edited)
    await rig.start()
    assert rig.chat.texts() == ["whole"]
    assert rig.chat.shown[0].edits == 1


@pytest.mark.parametrize("hard", [False, True])
async def test_a_send_that_is_cut_by_the_end_of_the_daemon_is_marked(rigs: Rigs, hard: bool) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.DELAY)
    await rig.ask("one")
    await (rig.cut() if hard else rig.stop())
    assert rig.chat.shown == []
    await rig.start()
    assert rig.chat.texts() == [f"re: one{MARK}"]


# -- chance ------------------------------------------------------------------------------------------------------------


def check(rig: Rig, place: str, answers: list[str], parked: set[str]) -> None:
    """Every answer at least once unless it is parked; never twice unmarked; the first sights in order."""
    texts = rig.chat.texts(place)
    plain = [text for text in texts if not text.endswith(MARK)]
    marked = [text.removesuffix(MARK) for text in texts if text.endswith(MARK)]
    assert set(plain) | set(marked) | parked == set(answers), (place, texts, parked)
    assert max(Counter(plain).values(), default=1) == 1, (place, texts)
    sights = list(dict.fromkeys(text.removesuffix(MARK) for text in texts))
    assert sights == [answer for answer in answers if answer in sights], (place, texts)


@pytest.mark.parametrize("block", range(10))
async def test_random_faults_lose_nothing_and_repeat_nothing_unmarked(rigs: Rigs, block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        rig = rigs()
        said = await chance(rig, seed, (*PASSING, Fault.REFUSE))
        for place in PLACES:
            answers = [f"re: {number}" for number in range(1, said[place] + 1)]
            check(rig, place, answers, await parked(rig, place))
        await rig.cut()
