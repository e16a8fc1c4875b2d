"""The store as one machine: whatever happens in whatever order, crashes included, its promises hold.

Each step is planned first (what, on which rows, at which time) and then either committed as the writer would, or
begun and cut by a crash at any instruction. A plan returns an operation; the operation returns what the model has to
learn if, and only if, it was committed.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from routing.errors import (
    LaneFull,
    NothingToUndo,
    SessionEnded,
    StoreError,
    TurnEnded,
    TurnRunning,
    UnknownPairing,
    WrongAgent,
)
from routing.keys import PeerKind, SessionKey
from routing.messages import Address, Inbound, Sender
from routing.scopes import DmScope, dm_key
from store import (
    compactions,
    inbox,
    messages,
    outbox,
    overheard,
    pairings,
    people,
    places,
    retention,
    sessions,
    turns,
)
from store.content import Content, Plan, Text, Tool
from store.ids import Micros
from store.inbox import Arrival
from store.outbox import Draft
from store.overheard import Line
from store.people import Configured
from store.records import Delivery, NewMessage, OutboxKind, OutboxState, Role, Session, Status, Turn, Usage
from store.turns import Ending
from tests.store.rows import connect, dump, image, instruct, make_address, make_key, run

T = TypeVar("T")
#: What the model learns from an operation that was committed.
Lesson = Callable[[], None]
Operation = Callable[[sqlite3.Connection], Lesson]

AGENTS = ("ada", "bob")
IDENTITIES = (("telegram", "1"), ("telegram", "2"), ("discord", "1"))
#: A clock that stands still, jumps and goes back.
TIMES = (5, 5, 1_000, 10**15, 3 * 10**15, 0)
MAX_WAITING = 3
#: The ids that the one group has had, oldest first; it moves from each to the next.
CHATS = ("1", "-1001", "-1002")
OVERHEARD = 2
FOREVER = 10**18

#: Every change of a session's status that one step may bring about.
ALLOWED = {
    *((old, "active") for old in ("idle", "compacted")),
    *((old, "idle") for old in ("active", "compacted")),
    ("active", "compacted"),
    *((old, new) for old in ("active", "idle", "compacted") for new in ("completed", "cancelled", "error")),
    *((old, "archived") for old in ("active", "idle", "compacted", "completed", "cancelled", "error")),
}

#: Each finds rows that must not exist.
VIOLATIONS = {
    "message numbers are dense": """
        SELECT s.id FROM sessions s LEFT JOIN messages m ON m.session = s.id GROUP BY s.id
        HAVING count(m.id) <> s.last_seq OR count(m.id) <> s.message_count
            OR coalesce(min(m.id), (s.id << 32) + 1) <> (s.id << 32) + 1
            OR coalesce(max(m.id), s.id << 32) <> (s.id << 32) + s.last_seq
    """,
    "turn numbers are dense": """
        SELECT s.id FROM sessions s LEFT JOIN turns t ON t.session = s.id GROUP BY s.id
        HAVING count(t.id) <> s.turn_count OR coalesce(min(t.id), (s.id << 32) + 1) <> (s.id << 32) + 1
            OR coalesce(max(t.id), s.id << 32) <> (s.id << 32) + s.turn_count
    """,
    "totals are sums": """
        SELECT s.id FROM sessions s LEFT JOIN turns t ON t.session = s.id GROUP BY s.id
        HAVING s.total_input_tokens <> coalesce(sum(t.input_tokens), 0) + coalesce(sum(t.cached_tokens), 0)
            OR s.total_output_tokens <> coalesce(sum(t.output_tokens), 0) + coalesce(sum(t.reasoning_tokens), 0)
    """,
    "compactions are counted": """
        SELECT s.id FROM sessions s LEFT JOIN compactions c ON c.session = s.id GROUP BY s.id
        HAVING s.compaction_count <> count(c.id) OR s.last_compaction_at IS NOT max(c.created_at)
    """,
    "times increase": """
        SELECT a.id FROM messages a JOIN messages b ON b.id = a.id + 1
        WHERE a.session = b.session AND a.timestamp >= b.timestamp
    """,
    "changes have times of their own": """
        SELECT session FROM messages GROUP BY session, changed_at HAVING count(*) > 1
        UNION SELECT m.id FROM messages m JOIN sessions s ON s.id = m.session
        WHERE m.changed_at < m.timestamp OR m.changed_at > s.updated_at
    """,
    "one live session per key": """
        SELECT key FROM sessions WHERE status IN ('active', 'idle', 'compacted') GROUP BY key HAVING count(*) > 1
    """,
    "one pending turn per session": """
        SELECT session FROM turns WHERE status = 'pending' GROUP BY session HAVING count(*) > 1
    """,
    "a turn's times": """
        SELECT id FROM turns WHERE created_at > status_at OR response_received_at IS NOT
            CASE status WHEN 'pending' THEN NULL ELSE status_at END
            OR (status = 'pending' AND status_at <> created_at)
            OR (status <> 'completed' AND answer_summary IS NOT NULL)
    """,
    "messages lie in their turn": """
        SELECT m.id FROM messages m LEFT JOIN turns t ON t.id = m.turn
        WHERE m.turn IS NOT NULL AND (t.id IS NULL OR t.session <> m.session
            OR m.id < (t.session << 32) + t.first_message
            OR (t.status <> 'pending' AND m.id > (t.session << 32) + t.last_message))
    """,
    "nothing grows after its turn": """
        SELECT m.id FROM messages m JOIN turns t ON t.id = m.turn
        WHERE t.status <> 'pending' AND json_extract(m.content, '$.partial')
    """,
    "the inbox agrees with the turns": """
        SELECT i.id FROM inbox i LEFT JOIN turns t ON t.id = i.turn
        WHERE (i.state = 'running') <> coalesce(t.status = 'pending', 0)
            OR (i.state = 'waiting' AND i.turn IS NOT NULL) OR (i.state IN ('done', 'cancelled') AND i.text <> '')
    """,
    "what is meant for a session waits in its lane": """
        SELECT i.id FROM inbox i JOIN sessions s ON s.id = i.session WHERE i.state = 'waiting' AND i.key <> s.key
    """,
    "one owner at most, and nobody merged": """
        SELECT id FROM people WHERE merged_into IS NOT NULL
            AND (owner OR id IN (SELECT person FROM identities) OR id IN (SELECT person FROM sessions))
    """,
}


class Dice:
    """Numbers that were drawn before, so that no draw depends on what is in the database."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = iter(numbers)

    def pick(self, options: Sequence[T]) -> T:
        return options[next(self._numbers) % len(options)]

    def flag(self) -> bool:
        return self.pick((False, True))


def message_of(sender: str, code: str) -> Inbound:
    address = Address(channel="telegram", account="main", chat=sender)
    return Inbound(external_id=code, address=address, peer_kind=PeerKind.DM, sender=Sender(id=sender), text="let me in")


DICE = st.lists(st.integers(0, 23), min_size=6, max_size=6).map(Dice)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "trunkline.db").write_bytes(image())
        self.db = self.open()
        self.serial = 0
        #: Text by message id, for every message ever accepted.
        self.accepted: dict[str, str] = {}
        #: Those that nobody will answer, because somebody said so.
        self.given_up: set[str] = set()
        #: Ended turns with their messages, as they were at the end.
        self.ended: dict[int, list[tuple[Any, ...]]] = {}
        self.agent_of: dict[int, str] = {}
        self.seen: dict[int, tuple[str, Micros]] = {}
        #: Until when a place is held.
        self.holds: dict[str, Micros] = {}
        #: How many messages of an outbox row were sent.
        self.parts: dict[int, int] = {}
        #: The id that the group has today.
        self.chat = CHATS[0]
        #: Codes by sender, with the time at which they were given.
        self.codes: dict[str, tuple[str, Micros]] = {}

    def open(self) -> sqlite3.Connection:
        db = connect(self.folder / "trunkline.db")
        db.execute("PRAGMA journal_mode = WAL")
        return db

    def teardown(self) -> None:
        assert self.db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        self.db.close()
        shutil.rmtree(self.folder)

    # What is there to act on

    def sessions(self, where: str = "1") -> list[Session]:
        rows = self.db.execute(f"SELECT id FROM sessions WHERE {where} ORDER BY id").fetchall()
        return [sessions.by_number(self.db, number) for (number,) in rows]

    def pending(self) -> list[Turn]:
        return sorted(turns.pending(self.db), key=lambda turn: turn.id)

    def learn_end(self, *turn_ids: int) -> Lesson:
        def lesson() -> None:
            self.ended.update((turn, self.snapshot(turn)) for turn in turn_ids)

        return lesson

    def snapshot(self, turn: int) -> list[tuple[Any, ...]]:
        rows = self.db.execute("SELECT * FROM turns WHERE id = ?", (turn,)).fetchall()
        return rows + self.db.execute("SELECT * FROM messages WHERE turn = ? ORDER BY id", (turn,)).fetchall()

    # Plans

    def plan_accept(self, dice: Dice) -> Operation:
        identity, agent, place, now, opens = (
            dice.pick(IDENTITIES),
            dice.pick(AGENTS),
            dice.pick(("dm", "dm", CHATS[0])),
            dice.pick(TIMES),
            dice.flag(),
        )
        self.serial += 1
        name = str(self.serial)

        def operation(db: sqlite3.Connection) -> Lesson:
            person = people.meet(db, *identity, identity[1], now)
            chat = places.current(db, "telegram", "main", place)
            key = (
                dm_key(agent, "telegram", "main", person.person, DmScope.PERSON)
                if place == "dm"
                else make_key(agent, chat)
            )
            address = make_address(chat, reply_to=name)
            open_until = now + 10 if opens else 0
            arrival = Arrival(
                external_id=name, key=key, address=address, text=name, person=person.id, open_until=open_until
            )
            before = inbox.waiting(db, key)
            accepted = inbox.accept(db, arrival, now, max_waiting=MAX_WAITING)
            assert not accepted.duplicate
            assert inbox.waiting_count(db, key) <= MAX_WAITING
            thought = accepted.item.thought
            if thought is not None:
                last = before[-1]
                assert (last.person, last.address.room) == (person.id, address.room)
                assert last.open_until > now
                assert thought == (last.thought or last.id)
            return lambda: self.accepted.update({accepted.item.message_id: name})

        return operation

    def plan_prompt(self, dice: Dice) -> Operation:
        """A message for one session, which may have ended."""
        found, now = self.sessions(), dice.pick(TIMES)
        if not found:
            return self.plan_accept(dice)
        session = dice.pick(found)
        self.serial += 1
        name = str(self.serial)

        def operation(db: sqlite3.Connection) -> Lesson:
            arrival = Arrival(external_id=name, key=session.key, address=make_address(), text=name, session=session.id)
            item = inbox.accept(db, arrival, now).item
            assert session.status.live
            return lambda: self.accepted.update({item.message_id: name})

        return operation

    def plan_duplicate(self, dice: Dice) -> Operation:
        rows = self.db.execute("SELECT external_id, message_id FROM inbox ORDER BY id").fetchall()
        if not rows:
            return self.plan_accept(dice)
        name, message_id = dice.pick(rows)
        key, now = make_key(dice.pick(AGENTS)), dice.pick(TIMES)

        def operation(db: sqlite3.Connection) -> Lesson:
            before = dump(db)
            again = Arrival(external_id=name, key=key, address=make_address(), text="again")
            accepted = inbox.accept(db, again, now, max_waiting=0)
            assert (accepted.duplicate, accepted.item.message_id) == (True, message_id)
            assert dump(db) == before
            return lambda: None

        return operation

    def plan_edit(self, dice: Dice) -> Operation:
        """A correction counts as long as the message waits, and for no other."""
        rows = self.db.execute("SELECT message_id, key, address, state, text FROM inbox ORDER BY id").fetchall()
        if not rows:
            return self.plan_accept(dice)
        message_id, key, address, state, text = dice.pick(rows)
        wanted = dice.pick((f"{text}!", text))

        def operation(db: sqlite3.Connection) -> Lesson:
            before = dump(db)
            changed = inbox.change(db, SessionKey.parse(key), inbox.decode_address(address), wanted)
            # What came through the API has no id of its own on a platform, so that nobody can change it there.
            mine = db.execute("SELECT text FROM inbox WHERE message_id = ?", (message_id,)).fetchone()[0]
            if inbox.decode_address(address).reply_to is None:
                return self.texts(db)
            assert changed == (state == "waiting" and wanted != text)
            assert mine == (wanted if changed else text)
            assert changed or dump(db) == before
            return self.texts(db)

        return operation

    def texts(self, db: sqlite3.Connection) -> Lesson:
        found = dict(db.execute("SELECT message_id, text FROM inbox WHERE state = 'waiting'").fetchall())
        return lambda: self.accepted.update(found)

    def plan_take_back(self, dice: Dice) -> Operation:
        rows = self.db.execute("SELECT message_id, channel, external_id, state FROM inbox ORDER BY id").fetchall()
        if not rows:
            return self.plan_accept(dice)
        message_id, channel, external_id, state = dice.pick(rows)

        def operation(db: sqlite3.Connection) -> Lesson:
            before = dump(db)
            item = inbox.cancel(db, channel, external_id)
            assert (item is not None) == (state == "waiting")
            assert item is not None or dump(db) == before
            return lambda: None if item is None else self.given_up.add(message_id)

        return operation

    def plan_move_chat(self, dice: Dice) -> Operation:
        """The group gets its next id; told twice, as Telegram does."""
        chat, now = self.chat, dice.pick(TIMES)
        if chat == CHATS[-1]:
            return self.plan_accept(dice)
        new = CHATS[CHATS.index(chat) + 1]

        def operation(db: sqlite3.Connection) -> Lesson:
            for old in (chat, CHATS[0]):
                was = places.current(db, "telegram", "main", old)
                places.set_alias(db, "telegram", "main", old, new, now)
                sessions.move_chat(db, "telegram", "main", was, new, now)
                inbox.move_chat(db, "telegram", "main", was, new)
                overheard.move_chat(db, "telegram", "main", was, new)

            def lesson() -> None:
                self.chat = new

            return lesson

        return operation

    def plan_overhear(self, dice: Dice) -> Operation:
        key, told, now = make_key(dice.pick(AGENTS), self.chat), dice.flag(), dice.pick(TIMES)

        def operation(db: sqlite3.Connection) -> Lesson:
            if told:
                assert len(overheard.take(db, key)) <= OVERHEARD
                assert overheard.take(db, key) == []
            else:
                overheard.note(db, key, Line("telegram:7", "Eve", "x"), OVERHEARD, now)
            return lambda: None

        return operation

    def plan_pair(self, dice: Dice) -> Operation:
        """An unknown person writes, or somebody approves."""
        sender, now = dice.pick(("1", "2", "3", "4", "5")), dice.pick(TIMES)
        approve = dice.flag()
        self.serial += 1
        code = f"CODE{self.serial}"
        message = message_of(sender, code)

        def operation(db: sqlite3.Connection) -> Lesson:
            valid = {one: given for one, given in self.codes.items() if now < given[1] + pairings.VALID}
            if approve:
                known = self.codes.get(sender, ("NONE", 0))[0]
                if sender not in valid:
                    with pytest.raises(UnknownPairing):
                        pairings.take(db, known, now)
                else:
                    assert pairings.take(db, known.lower(), now).message == message_of(sender, known)
                    del valid[sender]
            else:
                made = pairings.ask(db, message, code, now)
                assert (made is None) == (sender in valid)
                if made is not None:
                    valid[sender] = (code, now)
                    valid = dict(list(valid.items())[-pairings.MOST :])

            def lesson() -> None:
                self.codes = valid

            return lesson

        return operation

    def plan_begin(self, dice: Dice) -> Operation:
        """The next turn of a lane; what was for a session that has ended is given up."""
        keys = list(dict.fromkeys(item.key for item in inbox.all_waiting(self.db)))
        if not keys:
            return self.plan_accept(dice)
        key, most, now = dice.pick(keys), dice.pick((1, 1, 2, 3)), dice.pick(TIMES)
        waiting = inbox.waiting(self.db, key)
        items = [item for item in waiting if item.session == waiting[0].session][:most]

        def operation(db: sqlite3.Connection) -> Lesson:
            with pytest.raises(WrongAgent):
                turns.begin(db, "eve", items, instruct(*items), now)
            try:
                session, _ = turns.begin(db, key.agent_id, items, instruct(*items), now)
            except SessionEnded:
                return self.cancel(db, items[0].session)
            assert session.key == key
            return lambda: None

        return operation

    def cancel(self, db: sqlite3.Connection, session: int | None) -> Lesson:
        waiting = "session = ? AND state = 'waiting'"
        ids = [name for (name,) in db.execute(f"SELECT message_id FROM inbox WHERE {waiting}", (session,)).fetchall()]
        assert session is not None
        assert inbox.cancel_for_session(db, session) == len(ids)
        return lambda: self.given_up.update(ids)

    def plan_progress(self, dice: Dice) -> Operation:
        found = self.pending()
        if not found:
            return self.plan_begin(dice)
        turn, now = dice.pick(found), dice.pick(TIMES)
        text = Text("growing " * dice.pick((1, 2, 3)), partial=True)
        contents: list[Content] = [text, text, Tool("ls", {}, {}), Plan(({"step": 1},))]
        content = dice.pick(contents)
        growing = [row.id for row in turns.growing(self.db, turn.id)]
        row = dice.pick(growing) if growing and isinstance(content, Text) else None
        role = Role.AGENT if isinstance(content, Text) else Role.SYSTEM

        def operation(db: sqlite3.Connection) -> Lesson:
            turns.progress(db, turn.id, row, role, content, now)
            return lambda: None

        return operation

    def plan_complete(self, dice: Dice) -> Operation:
        found = self.pending()
        if not found:
            return self.plan_begin(dice)
        turn, now, tokens = dice.pick(found), dice.pick(TIMES), dice.pick((None, 0, 7))
        state = dice.pick((OutboxState.HELD, OutboxState.READY))
        ending = Ending(answer_summary="answer", model="m", usage=Usage(input=tokens, output=tokens))

        def operation(db: sqlite3.Connection) -> Lesson:
            growing = [row.id for row in turns.growing(db, turn.id)]
            # As the gateway does: only the last text still grows, the others are closed when it begins.
            for row in growing[:-1]:
                turns.progress(db, turn.id, row, Role.AGENT, Text("closed", partial=False), now)
            answer = NewMessage(role=Role.AGENT, content=Text("answer", partial=False), token_count=tokens)
            turns.complete(db, turn.id, growing[-1] if growing else None, answer, ending, now)
            outbox.put_answer(db, self.draft(turn, "answer"), state, now)
            with pytest.raises(TurnEnded):
                turns.fail(db, turn.id, "too late", Ending(), now)
            return self.learn_end(turn.id)

        return operation

    def plan_fail(self, dice: Dice) -> Operation:
        """A turn that went wrong, or that somebody stopped."""
        found = self.pending()
        if not found:
            return self.plan_begin(dice)
        turn, now, why = dice.pick(found), dice.pick(TIMES), dice.pick(("failed", "stopped"))

        def operation(db: sqlite3.Connection) -> Lesson:
            turns.fail(db, turn.id, why, Ending(errors=(why,), usage=Usage(input=1)), now)
            outbox.put_answer(db, self.draft(turn, why), OutboxState.READY, now)
            with pytest.raises(TurnEnded):
                turns.complete(db, turn.id, None, None, Ending(answer_summary="too late"), now)
            return self.learn_end(turn.id)

        return operation

    def draft(self, turn: Turn, text: str, kind: OutboxKind = OutboxKind.FINAL) -> Draft:
        [*_, last] = inbox.of_turn(self.db, turn.id)
        return Draft(address=last.address, text=text, kind=kind, turn=turn.id)

    def plan_preview(self, dice: Dice) -> Operation:
        found = [turn for turn in self.pending() if outbox.preview_of(self.db, turn.id) is None]
        if not found:
            return self.plan_begin(dice)
        turn, now, shown = dice.pick(found), dice.pick(TIMES), dice.flag()

        def operation(db: sqlite3.Connection) -> Lesson:
            row = outbox.put(db, self.draft(turn, "growing", OutboxKind.PREVIEW), OutboxState.SENDING, now)
            if shown:
                outbox.shown(db, row, "platform", now)
            return lambda: None

        return operation

    def plan_deliver(self, dice: Dice) -> Operation:
        outcomes = ("sent", "retry", "park", "lost", "part", "block", "hold", "blocked no more")
        now, outcome = dice.pick(TIMES), dice.pick(outcomes)

        def operation(db: sqlite3.Connection) -> Lesson:
            holds, sent = dict(self.holds), dict(self.parts)
            for place in outbox.open_places(db):
                delivery = outbox.claim(db, place, now)
                if delivery is None or delivery.next_at > now:
                    assert delivery is None or delivery.next_at >= holds.get(place, 0)
                    continue
                assert holds.get(place, 0) <= now, "a place that is held"
                assert delivery.address.chat in {"dm", self.chat}, "it goes to the id of today"
                assert delivery.part == sent.get(delivery.id, 0)
                self.settle(db, place, delivery, outcome, now)
                if outcome in {"sent", "part"}:
                    sent[delivery.id] = delivery.part + 1
                elif outcome == "hold":
                    holds[place] = max(holds.get(place, 0), now + 100)

            def lesson() -> None:
                self.holds, self.parts = holds, sent

            return lesson

        return operation

    def settle(self, db: sqlite3.Connection, place: str, delivery: Delivery, outcome: str, now: Micros) -> None:
        match outcome:
            case "sent" | "part":
                outbox.sent(db, delivery.id, "platform", now, last=outcome == "sent")
            case "retry":
                outbox.retry(db, delivery.id, now + 1, "outage", now, uncertain=True)
            case "park":
                outbox.park(db, delivery.id, "refused", now)
            case "block":
                outbox.park(db, delivery.id, "blocked", now, blocked=True)
            case "hold":
                outbox.hold(db, place, now + 100)
                outbox.retry(db, delivery.id, now + 100, "429", now)
            case "blocked no more":
                outbox.park(db, delivery.id, "blocked", now, blocked=True)
                parked = "SELECT count(*) FROM outbox WHERE place = ? AND blocked = 1 AND state = 'parked'"
                (count,) = db.execute(parked, (place,)).fetchone()
                assert outbox.unblock(db, place, now) == count > 0
                assert outbox.unblock(db, place, now) == 0

    def plan_end(self, dice: Dice) -> Operation:
        """`/new`, a cancel, a crash of the agent, hiding: the running turn fails, what was meant for it is given up."""
        found = self.sessions("status <> 'archived'")
        if not found:
            return self.plan_accept(dice)
        session, now = dice.pick(found), dice.pick(TIMES)
        status = dice.pick((Status.COMPLETED, Status.ERROR, Status.CANCELLED, Status.ARCHIVED))

        def operation(db: sqlite3.Connection) -> Lesson:
            ended = list[int]()
            turn = turns.pending_of(db, session.id)
            if turn is not None:
                turns.fail(db, turn.id, status, Ending(errors=(status,)), now)
                ended.append(turn.id)
            after = sessions.end(db, session, status, "test", now)
            assert after.status is status
            give_up, end = self.cancel(db, session.id), self.learn_end(*ended)

            def lesson() -> None:
                give_up()
                end()

            return lesson

        return operation

    def plan_compact(self, dice: Dice) -> Operation:
        found = self.sessions("last_seq > 0")
        if not found:
            return self.plan_begin(dice)
        session, now = dice.pick(found), dice.pick(TIMES)
        through = 1 + dice.pick(range(session.last_seq))
        undo = dice.flag()

        def operation(db: sqlite3.Connection) -> Lesson:
            before = db.execute("SELECT * FROM messages").fetchall()
            if undo:
                compactions.undo(db, session.id, now)
            else:
                compactions.record(
                    db, session.id, strategy="window", through_seq=through, summary="s", tokens=(9, 1), now=now
                )
            assert db.execute("SELECT * FROM messages").fetchall() == before
            return lambda: None

        return operation

    def plan_link(self, dice: Dice) -> Operation:
        one, two, now = dice.pick(IDENTITIES), dice.pick(IDENTITIES), dice.pick(TIMES)

        def operation(db: sqlite3.Connection) -> Lesson:
            person = people.meet(db, *two, two[1], now)
            people.link(db, *one, person.id, now)
            assert people.find(db, *one) == people.find(db, *two)
            return lambda: None

        return operation

    def plan_configure(self, dice: Dice) -> Operation:
        """People of the configuration, and the owner among them."""
        one, two, owner, now = dice.pick(IDENTITIES), dice.pick(IDENTITIES), dice.pick((0, 1, None)), dice.pick(TIMES)
        given = [one] if one == two else [one, two]
        configured = [
            Configured(name=f"{channel} {user}", owner=number == owner, identities={channel: user})
            for number, (channel, user) in enumerate(given)
        ]

        def operation(db: sqlite3.Connection) -> Lesson:
            people.sync(db, configured, now)
            return lambda: None

        return operation

    def plan_migrate(self, dice: Dice) -> Operation:
        """Move a session to another agent; what waits for it follows."""
        found = self.sessions()
        if not found:
            return self.plan_begin(dice)
        session, now = dice.pick(found), dice.pick(TIMES)
        agent = AGENTS[1 - AGENTS.index(session.key.agent_id)]

        def operation(db: sqlite3.Connection) -> Lesson:
            before = [db.execute(f"SELECT * FROM {table}").fetchall() for table in ("messages", "turns")]
            moved = sessions.move(db, session, agent, now)
            if session.status.live:
                inbox.rekey(db, session.key, moved.key)
            assert [db.execute(f"SELECT * FROM {table}").fetchall() for table in ("messages", "turns")] == before
            return lambda: self.agent_of.update({session.id: agent})

        return operation

    def plan_rest(self, dice: Dice) -> Operation:
        """The idle sweep: everything without work, whatever the clock says."""
        waiting = {item.key for item in inbox.all_waiting(self.db)}
        running = {turn.session for turn in self.pending()}
        expected = {
            session.public_id
            for session in self.sessions("status IN ('active', 'compacted')")
            if session.key not in waiting and session.id not in running
        }

        def operation(db: sqlite3.Connection) -> Lesson:
            assert set(sessions.rest(db, FOREVER)) == expected
            return lambda: None

        return operation

    def plan_remove(self, dice: Dice) -> Operation:
        found = self.sessions()
        if not found:
            return self.plan_begin(dice)
        session = dice.pick(found)

        def operation(db: sqlite3.Connection) -> Lesson:
            gone = db.execute(
                "SELECT public_id FROM messages WHERE session = ?1"
                " UNION SELECT message_id FROM inbox WHERE session = ?1 AND state = 'waiting'",
                (session.id,),
            ).fetchall()
            sessions.remove(db, session.id)

            def lesson() -> None:
                self.given_up.update(self.accepted.keys() & {name for (name,) in gone})
                self.ended = {turn: rows for turn, rows in self.ended.items() if turn >> 32 != session.id}
                del self.agent_of[session.id]

            return lesson

        return operation

    def plan_prune(self, dice: Dice) -> Operation:
        def operation(db: sqlite3.Connection) -> Lesson:
            inbox.prune(db, FOREVER)
            outbox.prune(db, FOREVER)

            def lesson() -> None:
                self.holds = {}

            return lesson

        return operation

    def plan_retain(self, dice: Dice) -> Operation:
        """Old sessions lose what was said in them, a batch at a time, and then go."""
        work, most = dice.pick((retention.remove_sessions, retention.remove_messages)), dice.pick((1, 2, 5))

        def operation(db: sqlite3.Connection) -> Lesson:
            before = self.said(db)
            work(db, FOREVER, most)
            gone = before - self.said(db)
            turns_left = {turn for (turn,) in db.execute("SELECT id FROM turns").fetchall()}
            left = {number for (number,) in db.execute("SELECT id FROM sessions").fetchall()}

            def lesson() -> None:
                self.given_up.update(self.accepted.keys() & gone)
                self.ended = {turn: rows for turn, rows in self.ended.items() if turn in turns_left}
                self.agent_of = {number: agent for number, agent in self.agent_of.items() if number in left}

            return lesson

        return operation

    def said(self, db: sqlite3.Connection) -> set[str]:
        rows = db.execute("SELECT public_id FROM messages UNION SELECT message_id FROM inbox WHERE state = 'waiting'")
        return {name for (name,) in rows.fetchall()}

    def plan_recover(self, dice: Dice) -> Operation:
        """The start of the daemon: nothing stays held or half sent; running turns run again, the second time fail."""
        now = dice.pick(TIMES)

        def operation(db: sqlite3.Connection) -> Lesson:
            outbox.release_all(db, now)
            outbox.settle(db, now)
            quarantined = [turn for turn in turns.pending(db) if turn.attempts >= 2]
            for turn in turns.pending(db):
                if turn in quarantined:
                    turns.fail(db, turn.id, "quarantined", Ending(errors=("quarantined",)), now)
                    outbox.put_answer(db, self.draft(turn, "quarantined"), OutboxState.READY, now)
                else:
                    assert turns.start_again(db, turn.id).attempts == turn.attempts + 1
            left = "state = 'held' OR (state = 'sending' AND (kind <> 'preview' OR sent_id IS NULL AND NOT uncertain))"
            assert db.execute(f"SELECT * FROM outbox WHERE {left}").fetchall() == []
            return self.learn_end(*(turn.id for turn in quarantined))

        return operation

    # Steps

    def commit(self, operation: Operation) -> None:
        """As the writer runs it; an operation that is refused leaves no trace."""
        before = dump(self.db)
        try:
            lesson = run(self.db, operation)
        except (LaneFull, TurnRunning, SessionEnded, NothingToUndo):
            assert dump(self.db) == before
        else:
            lesson()

    @rule(dice=DICE)
    def accept(self, dice: Dice) -> None:
        self.commit(self.plan_accept(dice))

    @rule(dice=DICE)
    def prompt(self, dice: Dice) -> None:
        self.commit(self.plan_prompt(dice))

    @rule(dice=DICE)
    def duplicate(self, dice: Dice) -> None:
        self.commit(self.plan_duplicate(dice))

    @rule(dice=DICE)
    def edit(self, dice: Dice) -> None:
        self.commit(self.plan_edit(dice))

    @rule(dice=DICE)
    def take_back(self, dice: Dice) -> None:
        self.commit(self.plan_take_back(dice))

    @rule(dice=DICE)
    def move_chat(self, dice: Dice) -> None:
        self.commit(self.plan_move_chat(dice))

    @rule(dice=DICE)
    def overhear(self, dice: Dice) -> None:
        self.commit(self.plan_overhear(dice))

    @rule(dice=DICE)
    def pair(self, dice: Dice) -> None:
        self.commit(self.plan_pair(dice))

    @rule(dice=DICE)
    def begin(self, dice: Dice) -> None:
        self.commit(self.plan_begin(dice))

    @rule(dice=DICE)
    def progress(self, dice: Dice) -> None:
        self.commit(self.plan_progress(dice))

    @rule(dice=DICE)
    def complete(self, dice: Dice) -> None:
        self.commit(self.plan_complete(dice))

    @rule(dice=DICE)
    def fail(self, dice: Dice) -> None:
        self.commit(self.plan_fail(dice))

    @rule(dice=st.tuples(*[DICE] * 5))
    def exchange(self, dice: tuple[Dice, ...]) -> None:
        """A message and its answer."""
        plans = (self.plan_accept, self.plan_begin, self.plan_progress, self.plan_progress, self.plan_complete)
        for plan, numbers in zip(plans, dice, strict=True):
            self.commit(plan(numbers))

    @rule(dice=DICE)
    def preview(self, dice: Dice) -> None:
        self.commit(self.plan_preview(dice))

    @rule(dice=DICE)
    def deliver(self, dice: Dice) -> None:
        self.commit(self.plan_deliver(dice))

    @rule(dice=DICE)
    def end(self, dice: Dice) -> None:
        self.commit(self.plan_end(dice))

    @rule(dice=DICE)
    def compact(self, dice: Dice) -> None:
        self.commit(self.plan_compact(dice))

    @rule(dice=DICE)
    def link(self, dice: Dice) -> None:
        self.commit(self.plan_link(dice))

    @rule(dice=DICE)
    def configure(self, dice: Dice) -> None:
        self.commit(self.plan_configure(dice))

    @rule(dice=DICE)
    def migrate(self, dice: Dice) -> None:
        self.commit(self.plan_migrate(dice))

    @rule(dice=DICE)
    def rest(self, dice: Dice) -> None:
        self.commit(self.plan_rest(dice))

    @rule(dice=DICE)
    def remove(self, dice: Dice) -> None:
        self.commit(self.plan_remove(dice))

    @rule(dice=DICE)
    def prune(self, dice: Dice) -> None:
        self.commit(self.plan_prune(dice))

    @rule(dice=DICE)
    def retain(self, dice: Dice) -> None:
        self.commit(self.plan_retain(dice))

    @rule(dice=DICE)
    def recover(self, dice: Dice) -> None:
        self.commit(self.plan_recover(dice))

    @rule(
        name=st.sampled_from(sorted(n for n in locals() if n.startswith("plan_"))), dice=DICE, fuse=st.integers(1, 500)
    )
    def crash(self, name: str, dice: Dice, fuse: int) -> None:
        """Cut an operation at any instruction, or just before its commit, and open the file again."""
        before = dump(self.db)
        operation: Operation = getattr(self, name)(dice)
        left = iter(range(fuse))
        self.db.execute("BEGIN IMMEDIATE")
        self.db.set_progress_handler(lambda: next(left, None) is None, 1)
        with suppress(sqlite3.OperationalError, StoreError):
            operation(self.db)
        self.db.close()
        self.db = self.open()
        assert dump(self.db) == before

    # Promises

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.db.execute("PRAGMA foreign_key_check").fetchall() == []
        broken = {name: rows for name, sql in VIOLATIONS.items() if (rows := self.db.execute(sql).fetchall())}
        assert broken == {}
        # Raises unless the full-text index holds exactly the texts that are final.
        self.db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")

    @invariant()
    def no_message_is_lost(self) -> None:
        """Each waits, or is in exactly one turn, or was given up aloud."""
        states = dict(self.db.execute("SELECT message_id, state FROM inbox").fetchall())
        rows = self.db.execute(
            "SELECT public_id, turn, json_extract(content, '$.text') FROM messages WHERE role = 'user'"
        )
        stored = {name: (turn, text) for name, turn, text in rows.fetchall()}
        for name, text in self.accepted.items():
            if name in self.given_up:
                assert name not in stored
                assert states.get(name) in {None, "done", "cancelled"}
            elif states.get(name) == "waiting":
                assert name not in stored
            else:
                turn, found = stored.pop(name)
                assert found == text
                assert turn is not None
                assert states.get(name) in ({None, "done"} if turn in self.ended else {"running"})
        assert stored == {}

    @invariant()
    def ended_turns_never_change(self) -> None:
        ended = {turn for (turn,) in self.db.execute("SELECT id FROM turns WHERE status <> 'pending'").fetchall()}
        assert ended == self.ended.keys()
        assert {turn: self.snapshot(turn) for turn in ended} == self.ended

    @invariant()
    def agents_are_apart(self) -> None:
        for session in self.sessions():
            assert self.agent_of.setdefault(session.id, session.key.agent_id) == session.key.agent_id
            columns = "agent_id, channel, account_id, peer_kind, peer_id"
            row = self.db.execute(f"SELECT {columns} FROM sessions WHERE id = ?", (session.id,)).fetchone()
            assert SessionKey(*row) == session.key
            for agent in AGENTS:
                if agent != session.key.agent_id:
                    with pytest.raises(WrongAgent):
                        messages.get_history(self.db, agent, session.key)

    @invariant()
    def a_group_lives_under_its_id_of_today(self) -> None:
        """Its conversations, what waits for them, and what was overheard."""
        keys = [one.key for one in self.sessions("peer_kind = 'group' AND status IN ('active', 'idle', 'compacted')")]
        keys += [item.key for item in inbox.all_waiting(self.db) if item.key.peer_kind is PeerKind.GROUP]
        keys += [SessionKey.parse(key) for (key,) in self.db.execute("SELECT key FROM overheard").fetchall()]
        assert {key.peer_id for key in keys} <= {self.chat}

    @invariant()
    def codes_are_few(self) -> None:
        rows = self.db.execute("SELECT sender, code FROM pairings").fetchall()
        assert len(rows) <= pairings.MOST
        assert {sender: code for sender, (code, _) in self.codes.items()} == dict(rows)

    @invariant()
    def holds_are_kept(self) -> None:
        rows = self.db.execute("SELECT place, until FROM holds").fetchall()
        assert dict(rows) == self.holds

    @invariant()
    def people_are_apart(self) -> None:
        """A live conversation, and a message that waits for one, lies where its person is today."""
        of_people = self.sessions("peer_kind = 'dm' AND status IN ('active', 'idle', 'compacted')")
        waiting = [
            item for item in inbox.all_waiting(self.db) if item.key.peer_kind is PeerKind.DM and not item.session
        ]
        found = [(session.key, session.person) for session in of_people]
        found += [(item.key, item.person) for item in waiting]
        for key, person in found:
            assert person is not None
            assert people.get(self.db, person).person.peer == key.peer_id

    @invariant()
    def statuses_and_times_go_their_way(self) -> None:
        now: dict[int, tuple[str, Micros]] = {
            session.id: (session.status.value, session.updated_at) for session in self.sessions()
        }
        for number, (status, when) in now.items():
            before, then = self.seen.get(number, (status, when))
            assert status == before or (before, status) in ALLOWED
            assert when >= then
        self.seen = now


@pytest.mark.req("S001-16", "S001-17", "S001-22", "S001-31", "S001-71", "S004-44", "S004-85", "S004-97", "S004-108")
@pytest.mark.timeout(300)  # it takes ten seconds, but finding the shortest way to a failure may take minutes
def test_any_order_of_events_keeps_the_promises() -> None:
    run_state_machine_as_test(Machine, settings=settings(max_examples=80, stateful_step_count=50, deadline=None))
