"""The outbox: in order per place, recorded before and after each call, nothing sent unseen."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import UnknownDelivery
from store import outbox, places, sessions, turns
from store.outbox import Draft
from store.records import Delivery, OutboxKind, OutboxState, Turn
from tests.store.rows import ask, count, dump, fresh, make_address, make_key, run

HERE = make_address("1")
THERE = make_address("2")


def put(db: sqlite3.Connection, text: str = "hello", state: OutboxState = OutboxState.READY, **more: object) -> int:
    draft = replace(Draft(address=HERE, text=text), **more)  # type: ignore[arg-type]
    return run(db, outbox.put, draft, state, 10)


def claim(db: sqlite3.Connection, place: str = HERE.place, now: int = 20) -> Delivery:
    delivery = run(db, outbox.claim, place, now)
    assert delivery is not None
    return delivery


def make_turn(db: sqlite3.Connection, peer: str = "1") -> Turn:
    session = run(db, sessions.get_or_create, "ada", make_key(peer=peer), 1)
    return run(db, turns.add, session.id, ask(), 5)


def show_preview(db: sqlite3.Connection, turn: Turn) -> int:
    """A preview whose message exists on the platform."""
    row = put(db, "growing", OutboxState.SENDING, kind=OutboxKind.PREVIEW, turn=turn.id)
    run(db, outbox.shown, row, "platform 1", 11)
    return row


def test_stored_as_given(db: sqlite3.Connection) -> None:
    turn = make_turn(db)
    address = make_address("1", thread="4", reply_to="9")
    draft = Draft(address=address, text="half \ud83d", kind=OutboxKind.NOTICE, turn=turn.id)
    number = run(db, outbox.put, draft, OutboxState.HELD, 10)
    assert outbox.get(db, number) == Delivery(
        id=number,
        address=address,
        turn=turn.id,
        kind=OutboxKind.NOTICE,
        text="half \ufffd",
        state=OutboxState.HELD,
        sent_id=None,
        doubts=0,
        attempts=0,
        next_at=0,
        error=None,
        created_at=10,
    )
    assert outbox.of_turn(db, turn.id) == [outbox.get(db, number)]


def test_sending_is_recorded_before_and_after(db: sqlite3.Connection) -> None:
    number = put(db)
    delivery = claim(db)
    assert (delivery.id, delivery.state, delivery.attempts) == (number, OutboxState.SENDING, 1)
    assert outbox.get(db, number) == delivery
    run(db, outbox.sent, number, "platform 1", 21)
    done = outbox.get(db, number)
    assert (done.state, done.sent_id, done.uncertain, done.error) == (OutboxState.SENT, "platform 1", False, None)
    assert run(db, outbox.claim, HERE.place, 99) is None


@settings(deadline=None, max_examples=40)
@given(
    drafts=st.lists(
        st.tuples(st.sampled_from([HERE, THERE]), st.sampled_from([*OutboxState]), st.sampled_from([*OutboxKind])),
        max_size=20,
    )
)
def test_each_place_in_the_order_of_its_rows(
    drafts: list[tuple[object, OutboxState, OutboxKind]],
) -> None:
    with fresh() as db:
        expected: dict[str, list[str]] = {HERE.place: [], THERE.place: []}
        for number, (address, state, kind) in enumerate(drafts):
            put(db, str(number), state, address=address, kind=kind)
            place = HERE.place if address is HERE else THERE.place
            if state in {OutboxState.READY, OutboxState.SENDING} and kind is not OutboxKind.PREVIEW:
                expected[place].append(str(number))
        for place, texts in expected.items():
            assert place in outbox.open_places(db) or not texts
            sent = []
            while (delivery := run(db, outbox.claim, place, 20)) is not None:
                sent.append(delivery.text)
                run(db, outbox.sent, delivery.id, "x", 21)
            assert sent == texts


def test_places_with_something_to_deliver(db: sqlite3.Connection) -> None:
    assert outbox.open_places(db) == []
    put(db, address=HERE)
    put(db, address=HERE)
    put(db, address=THERE, state=OutboxState.HELD)
    assert outbox.open_places(db) == [HERE.place]
    run(db, outbox.release_all, 20)
    assert sorted(outbox.open_places(db)) == [HERE.place, THERE.place]


def test_a_row_that_failed_waits_and_holds_the_place(db: sqlite3.Connection) -> None:
    first = put(db, "first")
    put(db, "second")
    claim(db)
    run(db, outbox.retry, first, 1000, "outage \ud83d", 21)
    for _ in range(2):
        waiting = claim(db, now=999)
        assert (waiting.id, waiting.state, waiting.next_at) == (first, OutboxState.READY, 1000)
        assert (waiting.attempts, waiting.error, waiting.uncertain) == (1, "outage \ufffd", False)
    again = claim(db, now=1000)
    assert (again.id, again.state, again.attempts) == (first, OutboxState.SENDING, 2)
    run(db, outbox.sent, first, "platform 1", 1001)
    assert outbox.get(db, first).error is None
    assert claim(db).text == "second"


def test_uncertainty_stays_until_it_is_known(db: sqlite3.Connection) -> None:
    number = put(db)
    claim(db)
    run(db, outbox.retry, number, 0, "cut", 21, uncertain=True)
    run(db, outbox.retry, number, 0, "refused", 22)
    assert claim(db).uncertain is True
    run(db, outbox.sent, number, "platform 1", 23)
    assert outbox.get(db, number).uncertain is False


def test_parked_and_sent_again(db: sqlite3.Connection) -> None:
    first, second = put(db, "first"), put(db, "second")
    claim(db)
    run(db, outbox.retry, first, 30, "later", 21)
    claim(db, now=30)
    run(db, outbox.park, first, "blocked \ud83d", 31)
    parked = outbox.get(db, first)
    assert (parked.state, parked.error) == (OutboxState.PARKED, "blocked \ufffd")
    assert claim(db).id == second
    run(db, outbox.park, second, "blocked", 32)
    assert [one.id for one in outbox.parked(db)] == [second, first]
    assert [one.id for one in outbox.parked(db, limit=1)] == [second]
    again = run(db, outbox.resend, first, 33)
    assert (again.state, again.attempts, again.next_at) == (OutboxState.READY, 0, 0)
    assert claim(db, now=33).id == first


@pytest.mark.req("S001-08")
def test_only_parked_rows_can_be_sent_again(db: sqlite3.Connection) -> None:
    numbers = [put(db, state=state) for state in OutboxState if state is not OutboxState.PARKED]
    before = dump(db)
    for number in [*numbers, 99]:
        with pytest.raises(UnknownDelivery):
            run(db, outbox.resend, number, 20)
    with pytest.raises(UnknownDelivery):
        outbox.get(db, 99)
    with pytest.raises(UnknownDelivery):
        run(db, outbox.shown, 99, "x", 20)
    assert dump(db) == before


def test_dropped_rows_are_over(db: sqlite3.Connection) -> None:
    number = put(db)
    run(db, outbox.drop, number, 20)
    assert outbox.get(db, number).state is OutboxState.DROPPED
    assert run(db, outbox.claim, HERE.place, 20) is None


def test_release_frees_one_turns_rows(db: sqlite3.Connection) -> None:
    one, two = make_turn(db, "1"), make_turn(db, "2")
    for turn in (one, two):
        for state in (OutboxState.HELD, OutboxState.SENT):
            put(db, state=state, turn=turn.id)
    run(db, outbox.release, one.id, 20)
    assert [row.state for row in outbox.of_turn(db, one.id)] == [OutboxState.READY, OutboxState.SENT]
    assert [row.state for row in outbox.of_turn(db, two.id)] == [OutboxState.HELD, OutboxState.SENT]
    assert run(db, outbox.release_all, 21) == 1
    assert run(db, outbox.release_all, 22) == 0
    assert count(db, "outbox", "state = 'held'") == 0


def test_settle_marks_what_may_have_arrived(db: sqlite3.Connection) -> None:
    turn = make_turn(db)
    fresh_one = put(db, "never answered", OutboxState.SENDING)
    edit = put(db, "an edit, safe to repeat", OutboxState.SENDING, address=THERE)
    run(db, outbox.shown, edit, "platform 2", 11)
    preview = put(db, "growing", OutboxState.SENDING, kind=OutboxKind.PREVIEW, turn=turn.id)
    others = {put(db, state=state): state for state in OutboxState if state is not OutboxState.SENDING}
    assert run(db, outbox.settle, 30) == 2
    found = {number: outbox.get(db, number) for number in (fresh_one, edit, preview)}
    assert {number: (row.state, row.uncertain) for number, row in found.items()} == {
        fresh_one: (OutboxState.READY, True),
        edit: (OutboxState.READY, False),
        preview: (OutboxState.SENDING, True),
    }
    assert {number: outbox.get(db, number).state for number in others} == others
    assert not any(outbox.get(db, number).uncertain for number in others)
    assert run(db, outbox.settle, 31) == 0


# Previews


def test_a_preview_is_shown_and_found_again(db: sqlite3.Connection) -> None:
    turn = make_turn(db)
    assert outbox.preview_of(db, turn.id) is None
    row = put(db, "g", OutboxState.SENDING, kind=OutboxKind.PREVIEW, turn=turn.id)
    preview = outbox.preview_of(db, turn.id)
    assert preview is not None
    assert (preview.id, preview.sent_id) == (row, None)
    shown = run(db, outbox.shown, row, "platform 1", 11)
    assert (shown.state, shown.sent_id) == (OutboxState.SENT, "platform 1")
    assert outbox.preview_of(db, turn.id) == shown
    assert run(db, outbox.claim, HERE.place, 20) is None


@pytest.mark.parametrize("state", [OutboxState.HELD, OutboxState.READY])
def test_the_answer_takes_the_previews_row(db: sqlite3.Connection, state: OutboxState) -> None:
    turn = make_turn(db)
    row = show_preview(db, turn)
    run(db, outbox.put_answer, Draft(address=HERE, text="one \ud83d", turn=turn.id), state, 20)
    [answer] = outbox.of_turn(db, turn.id)
    assert (answer.id, answer.kind, answer.text, answer.sent_id) == (row, OutboxKind.FINAL, "one \ufffd", "platform 1")
    assert (answer.state, answer.editing) == (state, True)
    assert outbox.preview_of(db, turn.id) is None


@pytest.mark.req("P46")
@pytest.mark.parametrize("state", [OutboxState.HELD, OutboxState.READY])
def test_a_preview_that_is_closed_shrinks_and_the_answer_is_new(db: sqlite3.Connection, state: OutboxState) -> None:
    turn = make_turn(db)
    row = show_preview(db, turn)
    answer = Draft(address=HERE, text="answer", turn=turn.id)
    run(db, lambda db: outbox.put_answer(db, answer, state, 20, closing="below"))
    closed, new = outbox.of_turn(db, turn.id)
    assert (closed.id, closed.kind, closed.text, closed.sent_id) == (row, OutboxKind.NOTICE, "below", "platform 1")
    assert (new.kind, new.text, new.sent_id) == (OutboxKind.FINAL, "answer", None)
    assert (closed.state, new.state) == (state, state)
    assert (closed.editing, new.editing) == (True, False)
    run(db, outbox.release, turn.id, 21)
    assert claim(db).id == row, "the line is edited before the answer is sent"


def test_what_is_closed_is_only_what_exists(db: sqlite3.Connection) -> None:
    """A preview under way becomes the answer: nobody knows yet whether there is something to close."""
    turn = make_turn(db)
    row = put(db, "g", OutboxState.SENDING, kind=OutboxKind.PREVIEW, turn=turn.id)
    answer = Draft(address=HERE, text="answer", turn=turn.id)
    run(db, lambda db: outbox.put_answer(db, answer, OutboxState.READY, 20, closing="below"))
    [one] = outbox.of_turn(db, turn.id)
    assert (one.id, one.kind, one.text, one.uncertain) == (row, OutboxKind.FINAL, "answer", True)


def test_a_preview_whose_message_comes_after_the_answer(db: sqlite3.Connection) -> None:
    turn = make_turn(db)
    row = put(db, "g", OutboxState.SENDING, kind=OutboxKind.PREVIEW, turn=turn.id)
    run(db, outbox.put_answer, Draft(address=HERE, text="answer", turn=turn.id), OutboxState.READY, 20)
    shown = run(db, outbox.shown, row, "platform 1", 21)
    assert (shown.kind, shown.state, shown.sent_id) == (OutboxKind.FINAL, OutboxState.READY, "platform 1")
    assert claim(db).id == row


def test_an_answer_in_the_place_of_a_preview_under_way_is_uncertain(db: sqlite3.Connection) -> None:
    """Until whoever makes the preview says whether its message exists."""
    for say_so, sent_id in ((outbox.shown, "platform 1"), (outbox.unpreview, None)):
        turn = make_turn(db, peer=say_so.__name__)
        row = put(db, "g", OutboxState.SENDING, kind=OutboxKind.PREVIEW, turn=turn.id)
        run(db, outbox.put_answer, Draft(address=HERE, text="answer", turn=turn.id), OutboxState.READY, 20)
        assert outbox.get(db, row).uncertain is True
        if sent_id is None:
            run(db, outbox.unpreview, row, 21)
        else:
            run(db, outbox.shown, row, sent_id, 21)
        answer = outbox.get(db, row)
        assert (answer.state, answer.uncertain, answer.sent_id) == (OutboxState.READY, False, sent_id)


@pytest.mark.req("P41")
def test_a_hold_is_for_one_place_and_never_gets_shorter(db: sqlite3.Connection) -> None:
    here, there = put(db, "here"), put(db, "there", address=THERE)
    run(db, outbox.hold, HERE.place, 1000)
    run(db, outbox.hold, HERE.place, 500)
    assert (outbox.held_until(db, HERE.place), outbox.held_until(db, THERE.place)) == (1000, 0)
    held = claim(db, now=999)
    assert (held.id, held.state, held.next_at, held.attempts) == (here, OutboxState.READY, 1000, 0)
    assert claim(db, THERE.place, 999).id == there
    assert claim(db, now=1000).state is OutboxState.SENDING
    assert outbox.holds(db, 999) == {HERE.place: 1000}
    assert outbox.holds(db, 1000) == {}
    run(db, outbox.prune, 1001)
    assert outbox.held_until(db, HERE.place) == 0


def test_a_row_waits_for_the_later_of_its_own_time_and_the_hold(db: sqlite3.Connection) -> None:
    row = claim(db) if put(db) else None
    assert row is not None
    run(db, outbox.retry, row.id, 300, "x", 21)
    run(db, outbox.hold, HERE.place, 200)
    assert claim(db, now=299).next_at == 300
    run(db, outbox.hold, HERE.place, 400)
    assert claim(db, now=399).next_at == 400


def test_without_a_preview_every_message_is_new(db: sqlite3.Connection) -> None:
    one, two = make_turn(db, "1"), make_turn(db, "2")
    show_preview(db, two)
    run(db, outbox.put_answer, Draft(address=HERE, text="answer", turn=one.id), OutboxState.READY, 20)
    run(db, outbox.put_answer, Draft(address=HERE, text="for no turn"), OutboxState.READY, 20)
    assert [row.text for row in outbox.of_turn(db, one.id)] == ["answer"]
    assert [row.kind for row in outbox.of_turn(db, two.id)] == [OutboxKind.PREVIEW]
    assert count(db, "outbox") == 3


def test_a_preview_that_never_came_to_be(db: sqlite3.Connection) -> None:
    turn = make_turn(db)
    row = put(db, "g", OutboxState.SENDING, kind=OutboxKind.PREVIEW, turn=turn.id)
    run(db, outbox.settle, 11)
    assert outbox.get(db, row).uncertain is True
    run(db, outbox.unpreview, row, 12)
    assert outbox.get(db, row).state is OutboxState.DROPPED
    assert outbox.preview_of(db, turn.id) is None
    run(db, outbox.put_answer, Draft(address=HERE, text="answer", turn=turn.id), OutboxState.READY, 20)
    assert [one.state for one in outbox.of_turn(db, turn.id)] == [OutboxState.DROPPED, OutboxState.READY]


def test_unpreview_leaves_an_answer_alone(db: sqlite3.Connection) -> None:
    number = put(db)
    run(db, outbox.unpreview, number, 12)
    assert outbox.get(db, number).state is OutboxState.READY


def test_where_the_message_to_edit_is_gone_a_new_one_goes_out(db: sqlite3.Connection) -> None:
    turn = make_turn(db)
    row = show_preview(db, turn)
    run(db, outbox.put_answer, Draft(address=HERE, text="answer", turn=turn.id), OutboxState.READY, 20)
    claim(db)
    run(db, outbox.forget_preview, row, 21)
    again = claim(db)
    assert (again.id, again.sent_id, again.text, again.attempts) == (row, None, "answer", 2)


def test_prune_forgets_only_what_is_over(db: sqlite3.Connection) -> None:
    for state in OutboxState:
        put(db, state=state)
    assert run(db, outbox.prune, 10) == 0
    assert run(db, outbox.prune, 11) == 2
    states = {state for (state,) in db.execute("SELECT state FROM outbox").fetchall()}
    assert states == {"held", "ready", "sending", "parked"}


def test_prune_looks_at_the_oldest_rows_only(db: sqlite3.Connection) -> None:
    for _ in range(3):
        put(db, state=OutboxState.SENT)
    assert run(db, outbox.prune, 11, 2) == 2
    assert run(db, outbox.prune, 11, 2) == 1


CHANGES: list[Callable[[sqlite3.Connection, int], object]] = [
    lambda db, row: outbox.sent(db, row, "x", 50),
    lambda db, row: outbox.retry(db, row, 60, "x", 50),
    lambda db, row: outbox.park(db, row, "x", 50),
    lambda db, row: outbox.drop(db, row, 50),
    lambda db, row: outbox.forget_preview(db, row, 50),
    lambda db, row: outbox.shown(db, row, "x", 50),
    lambda db, row: outbox.unpreview(db, row, 50),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_concerns_one_row_and_is_dated(
    db: sqlite3.Connection, change: Callable[[sqlite3.Connection, int], object]
) -> None:
    rows = [put(db, name, OutboxState.SENDING, kind=OutboxKind.PREVIEW) for name in ("before", "it", "after")]
    run(db, change, rows[1])
    dates = db.execute("SELECT changed_at FROM outbox ORDER BY id").fetchall()
    assert dates == [(10,), (50,), (10,)]
    assert [outbox.get(db, row).state for row in (rows[0], rows[2])] == [OutboxState.SENDING] * 2


# Parts


def test_a_row_is_sent_in_parts_and_keeps_the_id_of_the_first(db: sqlite3.Connection) -> None:
    row, after = put(db, "long"), put(db, "after")
    assert claim(db).part == 0
    run(db, lambda db: outbox.sent(db, row, "platform 1", 21, last=False))
    again = claim(db)
    assert (again.id, again.part, again.sent_id, again.attempts, again.editing) == (row, 1, "platform 1", 1, False)
    run(db, outbox.sent, row, "platform 2", 22)
    done = outbox.get(db, row)
    assert (done.state, done.part, done.sent_id) == (OutboxState.SENT, 2, "platform 1")
    assert claim(db).id == after, "in order: nothing goes between the parts"


@pytest.mark.req("P02")
def test_a_crash_between_parts_leaves_no_doubt_and_one_inside_a_part_does(db: sqlite3.Connection) -> None:
    between, inside = put(db, "between"), put(db, "inside", address=THERE)
    for row, place in ((between, HERE.place), (inside, THERE.place)):
        claim(db, place)
        run(db, partial(outbox.sent, last=False), row, "platform 1", 21)
    claim(db, THERE.place)
    run(db, outbox.settle, 30)
    first, second = claim(db), claim(db, THERE.place)
    assert (first.part, first.uncertain) == (1, False)
    assert (second.part, second.uncertain) == (1, True)


def test_a_doubt_about_one_part_is_none_about_the_next(db: sqlite3.Connection) -> None:
    row = put(db)
    claim(db)
    run(db, lambda db: outbox.retry(db, row, 0, "cut", 21, uncertain=True))
    assert claim(db).uncertain is True
    run(db, lambda db: outbox.sent(db, row, "platform 1", 22, last=False))
    assert claim(db).uncertain is False


# Closed places


@pytest.mark.req("P16")
def test_what_was_blocked_goes_out_when_somebody_writes_there(db: sqlite3.Connection) -> None:
    blocked, refused, elsewhere = put(db, "blocked"), put(db, "refused"), put(db, "elsewhere", address=THERE)
    for row, closed in ((blocked, True), (refused, False), (elsewhere, True)):
        run(db, partial(outbox.park, blocked=closed), row, "why", 20)
    assert {row.id for row in outbox.parked(db)} == {blocked, refused, elsewhere}
    assert run(db, outbox.unblock, HERE.place, 30) == 1
    assert [outbox.get(db, row).state for row in (blocked, refused, elsewhere)] == ["ready", "parked", "parked"]
    assert run(db, outbox.unblock, HERE.place, 31) == 0
    run(db, outbox.resend, elsewhere, 32)
    run(db, lambda db: outbox.park(db, elsewhere, "refused", 33))
    assert run(db, outbox.unblock, THERE.place, 34) == 0, "it was parked for another reason since"


@pytest.mark.req("P16")
def test_a_row_goes_to_the_id_that_its_chat_has_today(db: sqlite3.Connection) -> None:
    address = make_address("1", thread="4", reply_to="9")
    row = put(db, address=address)
    run(db, places.set_alias, "telegram", "main", "1", "-1001", 15)
    claimed = claim(db)
    assert claimed.address == replace(address, chat="-1001", reply_to=None), "messages have other ids there"
    assert outbox.get(db, row).address == address, "what was frozen stays"
