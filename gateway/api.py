"""What can be asked of the running daemon: the operations behind the HTTP routes and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gateway import arrivals, stopping
from gateway.agents.protocol import Prepares
from gateway.arrivals import API, Taken
from gateway.commands import Outcome
from gateway.explain import Explanation, explain
from gateway.feed import Feed
from gateway.health import Health
from gateway.intake import Intake
from gateway.logs import Event, log
from gateway.operations import Operations
from gateway.questions import deciding
from gateway.questions.deciding import Settled
from gateway.stopping import Stopped
from routing.errors import RepoNotWanted, SessionEnded, UnknownAccount, UnknownAgent
from routing.keys import PeerKind, SessionKey
from routing.messages import Inbound
from store import (
    agent_sessions,
    compactions,
    inbox,
    messages,
    outbox,
    people,
    questions,
    refusals,
    repos,
    sessions,
    turns,
)
from store.content import Text
from store.database import Database, Store
from store.filters import Cursor, Order
from store.ids import Micros, new_id
from store.inbox import Accepted
from store.messages import HistoryOptions
from store.questions import Question
from store.records import Compaction, Delivery, InboxItem, Message, Role, Session, Status, Turn
from store.refusals import Refusal
from store.sessions import SessionFilter, SessionPatch

_NEWEST = 50


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session with what was said in it, as of one moment."""

    session: Session
    messages: Sequence[Message]
    #: Accepted, but their turn has not begun.
    waiting: Sequence[InboxItem]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is new in a session after a moment."""

    messages: Sequence[Message]
    turns: Sequence[Turn]
    until: Micros


@dataclass(frozen=True, slots=True)
class State:
    """Where a session stands, without its history."""

    session: Session
    #: The newest one.
    turn: Turn | None
    waiting: Sequence[InboxItem]


@dataclass(slots=True, kw_only=True)
class Api:
    store: Store
    intake: Intake
    feed: Feed
    health: Health
    operations: Operations
    #: The agents by id, with their names for people.
    agents: Mapping[str, str]
    default_agent: str | None
    #: Those with a process for each session.
    preparing: Mapping[str, Prepares]
    #: Serves a command while no daemon runs: a session can be made, though nothing is answered.
    quiet: bool = False

    async def create_session(
        self,
        agent: str | None,
        caller: str,
        wanted: str | None = None,
        repo_id: str | None = None,
        *,
        lasting: bool = False,
    ) -> Session:
        """A session of its own, reached by its id. The same wish twice makes one session.

        Unless it is to last, one of an agent with a process is one with that process: it exists once the agent has
        answered. A repository is looked at first: where it is refused, nothing is created.
        """
        if not self.quiet:
            self.intake.check()
        name = agent or self.default_agent
        known = self.intake.rules.agents
        if name is None or name not in known:
            raise UnknownAgent(agent=name or "", known=", ".join(known))
        if repo_id is not None and not known[name].side_effects:
            raise RepoNotWanted(agent=name)
        key = SessionKey(name, API[0], caller, PeerKind.DM, wanted or new_id())
        prepares = None if lasting or self.quiet else self.preparing.get(name)
        if prepares is not None:
            session = await self._with_process(prepares, key, repo_id or prepares.repo)
        else:
            if repo_id is not None:
                await self.operations.repositories.resolve(repo_id)
            session = await self._new_session(key, repo_id)
        log(Event.SESSION_CREATED, session=session.public_id, key=key)
        return session

    async def _with_process(self, agent: Prepares, key: SessionKey, repo: str) -> Session:
        existing = await self.store.read(lambda db: sessions.live(db, key))
        if existing is not None:
            return existing
        directory = await self.operations.repositories.resolve(repo)
        public_id = new_id()
        async with agent.prepared(public_id, directory) as name:
            return await self._new_session(key, repo, public_id, process=(name, str(directory)))

    async def _new_session(
        self,
        key: SessionKey,
        repo: str | None,
        public_id: str | None = None,
        process: tuple[str, str] | None = None,
    ) -> Session:
        now = self.intake.clock.now()

        def create(db: Database) -> Session:
            owner = people.owner(db)
            person = None if owner is None else owner.id
            if process is None:
                session = sessions.get_or_create(db, key.agent_id, key, now, person=person)
            else:
                session = sessions.create(db, key, now, person=person, public_id=public_id)
                agent_sessions.remember(db, session.public_id, key.agent_id, *process, now, process=True)
            return session if repo is None else sessions.bind(db, session.id, repos.find(db, repo).public_id)

        return await self.intake.persist.once(create)

    async def prompt(self, session_id: str, text: str, external_id: str | None) -> Accepted:
        return await self.intake.prompt(session_id, text, external_id or new_id())

    async def rerun(self, session_id: str, turn: str, text: str | None, external_id: str | None) -> Accepted:
        """Ask again what a turn asked, or something else in its place. It becomes a turn of its own."""
        session = await self.session(session_id)
        row = await self.turn(session, turn)
        return await self.prompt(session_id, text or await self.turn_text(session, row, Role.USER), external_id)

    async def patch(self, session_id: str, change: SessionPatch) -> Session:
        def patch(db: Database) -> Session:
            session = sessions.get(db, session_id)
            if not session.status.live:
                raise SessionEnded(session=session_id, status=session.status)
            return sessions.patch(db, session.key.agent_id, session.key, change)

        return await self.intake.persist.once(patch)

    async def receive(self, message: Inbound) -> Taken:
        """A message of a channel whose messages come in over HTTP."""
        channel, account = message.address.channel, message.address.account
        accounts = self.intake.rules.policies
        if (channel, account) not in accounts:
            known = ", ".join(f"[{kind}.{name}]" for kind, name in accounts if kind == channel) or "none"
            raise UnknownAccount(channel=channel, account=account, known=known)
        return await self.intake.take(message)

    async def session(self, session_id: str) -> Session:
        return await self.store.read(lambda db: sessions.get(db, session_id))

    async def list_sessions(
        self,
        which: SessionFilter,
        limit: int,
        offset: int,
        *,
        order: Order = Order.CREATED,
        after: Cursor | None = None,
    ) -> tuple[list[Session], int]:
        return await self.store.read(lambda db: sessions.list_all(db, which, limit, offset, order=order, after=after))

    async def page(self, session_id: str, options: HistoryOptions) -> list[Message]:
        return await self.store.read(lambda db: messages.page(db, sessions.get(db, session_id).id, options))

    async def conversation(self, session_id: str, since: Micros | None = None) -> Conversation:
        """A session with all its messages, or those that are new or changed after a moment."""
        return await self.store.read(lambda db: _conversation(db, session_id, since))

    async def whole(self, session_id: str) -> tuple[Conversation, list[Turn]]:
        """A session with all its messages and turns, as of one moment."""

        def look(db: Database) -> tuple[Conversation, list[Turn]]:
            found = _conversation(db, session_id)
            return found, turns.of_session(db, found.session.id)

        return await self.store.read(look)

    async def state(self, session_id: str) -> State:
        def look(db: Database) -> State:
            session = sessions.get(db, session_id)
            turn = turns.find(db, session.id, "last") if session.turn_count else None
            return State(session, turn, _waiting(db, session))

        return await self.store.read(look)

    async def changes(self, session: Session, since: Micros) -> Changes:
        def look(db: Database) -> Changes:
            changed = messages.changed_since(db, session.id, since)
            ended = _turns_since(db, session, since)
            times = [message.changed_at for message in changed] + [turn.status_at for turn in ended]
            return Changes(changed, ended, max(times, default=since))

        return await self.store.read(look)

    async def turns(self, session: Session) -> list[Turn]:
        return await self.store.read(lambda db: turns.of_session(db, session.id))

    async def compactions(self, session_id: str) -> list[Compaction]:
        return await self.store.read(lambda db: compactions.of_session(db, sessions.get(db, session_id).id))

    async def turn(self, session: Session, name: str) -> Turn:
        return await self.store.read(lambda db: turns.find(db, session.id, name))

    async def turn_text(self, session: Session, turn: Turn, role: Role) -> str:
        """The full instruction or answer of a turn."""
        rows = await self.store.read(lambda db: messages.between(db, session.id, turn.first_message, turn.last_message))
        texts = [
            row.content.text
            for row in rows
            if row.role is role and isinstance(row.content, Text) and not row.superseded
        ]
        return ("\n" if role is Role.USER else "\n\n").join(texts)

    async def command(self, session_id: str, text: str) -> Outcome:
        """A command of the owner in one session, with what it answers."""
        self.intake.check()
        now = self.intake.clock.now()
        outcome = await self.intake.persist.once(
            lambda db: arrivals.command(db, session_id, text, self.intake.rules, now)
        )
        if outcome.stopped is not None:
            self.intake.end_run(outcome.stopped)
        if outcome.settled is not None:
            self.intake.desk.settle(outcome.settled)
        if outcome.again is not None:
            self.intake.lanes.submit(outcome.again)
        if outcome.planned is not None:
            return replace(outcome, text=await self.intake.summarise(outcome.planned))
        return outcome

    async def questions(self, session_id: str | None = None) -> list[tuple[Question, str]]:
        """What waits for an answer, each with its session."""

        def look(db: Database) -> list[tuple[Question, str]]:
            if session_id is not None:
                session = sessions.get(db, session_id)
                return [(one, session.public_id) for one in questions.open_of_session(db, session.id)]
            return [(one, sessions.by_number(db, one.session).public_id) for one in questions.all_open(db)]

        return await self.store.read(look)

    async def answer(self, token: str, option: int) -> Settled | None:
        """The owner chooses; None if there is no such question."""
        now = self.intake.clock.now()

        def choose(db: Database) -> Settled | None:
            question = questions.by_token(db, token)
            if question is None:
                return None
            return deciding.choose(db, question, option, people.owner(db), ":".join(people.WEB_OWNER), now)

        settled = await self.intake.persist.once(choose)
        if settled is not None:
            self.intake.desk.settle(settled)
        return settled

    async def stop(self, session_id: str) -> Turn | None:
        """Stop the running turn; None if nothing runs."""
        now = self.intake.clock.now()

        def stop(db: Database) -> Stopped | None:
            turn = turns.pending_of(db, sessions.get(db, session_id).id)
            return None if turn is None else stopping.stop_turn(db, turn, now)

        stopped = await self.intake.persist.once(stop)
        if stopped is None:
            return None
        self.intake.end_run(stopped)
        return stopped.turn

    async def end(self, session_id: str, status: Status, reason: str) -> Session:
        """End a session: its running turn is stopped, what waits for it alone is cancelled."""
        now = self.intake.clock.now()

        def end(db: Database) -> tuple[Session, Stopped | None]:
            stopped = stopping.end_session(db, sessions.get(db, session_id), status, reason, now)
            return sessions.get(db, session_id), stopped

        ended, stopped = await self.intake.persist.once(end)
        if stopped is not None:
            self.intake.end_run(stopped)
        self.feed.changed(ended.id)
        log(Event.SESSION_ENDED, session=session_id, status=status, reason=reason)
        return ended

    async def explain(self, message: Inbound) -> Explanation:
        return await self.store.read(lambda db: explain(db, message, self.intake.rules))

    async def parked(self) -> list[Delivery]:
        return await self.store.read(outbox.parked)

    async def resend(self, delivery: int) -> Delivery:
        row = await self.intake.persist.once(lambda db: outbox.resend(db, delivery, self.intake.clock.now()))
        self.intake.delivery.kick(row.address.place)
        return row

    async def refusals(self) -> list[Refusal]:
        return await self.store.read(refusals.newest)


def _conversation(db: Database, session_id: str, since: Micros | None = None) -> Conversation:
    session = sessions.get(db, session_id)
    waiting = _waiting(db, session)
    if since is None:
        return Conversation(session, messages.every(db, session.id), waiting)
    newer = [item for item in waiting if item.received_at > since]
    return Conversation(session, messages.changed_since(db, session.id, since), newer)


def _waiting(db: Database, session: Session) -> list[InboxItem]:
    # What waits on an ended session's key is for its successor.
    items = inbox.waiting(db, session.key) if session.status.live else []
    return [item for item in items if item.session in {None, session.id}]


def _turns_since(db: Database, session: Session, since: Micros) -> list[Turn]:
    """A look at the newest is enough, unless a stream comes back after a long time."""
    newest = _NEWEST
    while len(found := turns.changed_since(db, session.id, since, newest)) == newest:
        newest *= 4
    return found
