"""What can be asked of the running daemon: the operations behind the HTTP routes and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway import commands, phrases
from gateway.admission import Judgement, judge, key_for
from gateway.feed import Feed
from gateway.health import Health
from gateway.intake import API, Intake, Taken
from gateway.logs import Event, log
from routing.errors import UnknownAgent
from routing.keys import PeerKind, SessionKey
from routing.messages import Inbound
from routing.scopes import Person
from store import inbox, messages, outbox, people, refusals, sessions, turns
from store.content import Text
from store.database import Database, Store
from store.ids import Micros, new_id
from store.inbox import Accepted
from store.messages import HistoryOptions
from store.records import Delivery, InboxItem, Message, NewMessage, Role, Session, Status, Turn
from store.refusals import Refusal
from store.sessions import SessionFilter


@dataclass(frozen=True, slots=True)
class Changes:
    """What is new in a session after a moment."""

    messages: Sequence[Message]
    turns: Sequence[Turn]
    until: Micros


@dataclass(slots=True, kw_only=True)
class Api:
    store: Store
    intake: Intake
    feed: Feed
    health: Health
    default_agent: str | None

    async def create_session(self, agent: str | None, caller: str) -> Session:
        """A conversation of its own, reached by its id."""
        name = agent or self.default_agent
        known = self.intake.rules.agents
        if name is None or name not in known:
            raise UnknownAgent(agent=name or "", known=", ".join(known))
        key = SessionKey(name, API[0], caller, PeerKind.DM, new_id())
        now = self.intake.clock.now()

        def create(db: Database) -> Session:
            owner = people.owner(db)
            return sessions.create(db, key, now, person=None if owner is None else owner.id)

        session = await self.intake.persist.once(create)
        log(Event.SESSION_CREATED, session=session.public_id, key=key)
        return session

    async def prompt(self, session_id: str, text: str, external_id: str | None) -> Accepted:
        return await self.intake.prompt(session_id, text, external_id or new_id())

    async def receive(self, message: Inbound) -> Taken:
        return await self.intake.take(message)

    async def session(self, session_id: str) -> Session:
        return await self.store.read(lambda db: sessions.get(db, session_id))

    async def list_sessions(self, which: SessionFilter, limit: int, offset: int) -> tuple[list[Session], int]:
        return await self.store.read(lambda db: sessions.list_all(db, which, limit, offset))

    async def history(self, session: Session, options: HistoryOptions | None = None) -> list[Message]:
        if options is None:
            return await self.store.read(lambda db: messages.every(db, session.id))
        return await self.store.read(lambda db: messages.page(db, session.id, options))

    async def waiting(self, session: Session) -> list[InboxItem]:
        """Messages that were accepted and whose turn has not begun."""
        items = await self.store.read(lambda db: inbox.waiting(db, session.key))
        return [item for item in items if item.session in {None, session.id}]

    async def messages_since(self, session: Session, since: Micros) -> list[Message]:
        return await self.store.read(lambda db: messages.changed_since(db, session.id, since))

    async def changes(self, session: Session, since: Micros) -> Changes:
        def look(db: Database) -> Changes:
            changed = messages.changed_since(db, session.id, since)
            ended = turns.changed_since(db, session.id, since)
            times = [message.changed_at for message in changed] + [turn.status_at for turn in ended]
            return Changes(changed, ended, max(times, default=since))

        return await self.store.read(look)

    async def turns(self, session: Session) -> list[Turn]:
        return await self.store.read(lambda db: turns.of_session(db, session.id))

    async def turn(self, session: Session, name: str) -> Turn:
        return await self.store.read(lambda db: turns.find(db, session.id, name))

    async def turn_text(self, session: Session, turn: Turn, role: Role) -> str:
        """The full instruction or answer of a turn."""
        rows = await self.store.read(lambda db: messages.between(db, session.id, turn.first_message, turn.last_message))
        texts = [row.content.text for row in rows if row.role is role and isinstance(row.content, Text)]
        return ("\n" if role is Role.USER else "\n\n").join(texts)

    async def stop(self, session_id: str) -> Turn | None:
        """Stop the running turn; None if nothing runs."""
        now = self.intake.clock.now()

        def stop(db: Database) -> Turn | None:
            turn = turns.pending_of(db, sessions.get(db, session_id).id)
            return None if turn is None else commands.stop_turn(db, turn, now)

        turn = await self.intake.persist.once(stop)
        self._stopped(turn)
        return turn

    async def end(self, session_id: str, status: Status, reason: str) -> Session:
        """End a session: its running turn is stopped, what waits for it alone is cancelled."""
        now = self.intake.clock.now()

        def end(db: Database) -> tuple[Session, Turn | None]:
            session = sessions.get(db, session_id)
            turn = turns.pending_of(db, session.id) if session.status.live else None
            stopped = None if turn is None else commands.stop_turn(db, turn, now)
            if session.status.live:
                inbox.cancel_for_session(db, session.id)
            if status is Status.CANCELLED and session.status.live:
                note = NewMessage(role=Role.SYSTEM, content=Text(phrases.NOTE_CANCELLED.format(reason=reason)))
                messages.append(db, session.id, [note], now)
            return sessions.end(db, session, status, reason, now), stopped

        ended, stopped = await self.intake.persist.once(end)
        self._stopped(stopped)
        self.feed.changed(ended.id)
        log(Event.SESSION_ENDED, session=session_id, status=status, reason=reason)
        return ended

    async def explain(self, message: Inbound) -> tuple[Judgement, SessionKey | None]:
        """Which binding, session and gate would apply to a message; nothing is stored."""
        rules = self.intake.rules

        def look(db: Database) -> tuple[Judgement, SessionKey | None]:
            judged = judge(db, message, rules)
            if judged.route is None or judged.route.agent not in rules.agents:
                return judged, None
            person = Person("(a new person)") if judged.person is None else judged.person.person
            return judged, key_for(judged, person, rules)

        return await self.store.read(look)

    async def parked(self) -> list[Delivery]:
        return await self.store.read(outbox.parked)

    async def resend(self, delivery: int) -> Delivery:
        row = await self.intake.persist.once(lambda db: outbox.resend(db, delivery, self.intake.clock.now()))
        self.intake.delivery.kick(row.address.place)
        return row

    async def refusals(self) -> list[Refusal]:
        return await self.store.read(refusals.newest)

    def _stopped(self, turn: Turn | None) -> None:
        if turn is not None:
            self.intake.turns.stop(turn.id)
            self.feed.changed(turn.session)
