"""Operations on sessions, people and the whole of the data that need no live lane, behind HTTP and command line."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway import allowing, files, stopping
from gateway.allowing import Allowance
from gateway.budgets import Standing
from gateway.health import Component, Health
from gateway.intake import Intake
from gateway.logs import Event, log
from gateway.repositories import Repositories
from routing.errors import DiskLow, OwnerProtected, PersonConfigured, StoreUnavailable, UnknownAgent
from store import backup, exchange, forgetting, moving, pairings, people, reports, search, sessions, turns, upkeep
from store.database import NAME, Database, Store
from store.exchange_reader import Package
from store.forgetting import Forgotten
from store.moving import Move
from store.pairings import Pairing
from store.people import Configured, PersonRow
from store.records import Session, Turn
from store.reports import By, Counts, Somebody, Tokens, Usage
from store.search import Found

#: Sessions that are moved in one transaction.
_MOVED_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How the daemon does."""

    counts: Counts
    uptime: float
    pid: int
    url: str
    data_dir: Path
    components: dict[str, Component]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """What was removed, and what could not be."""

    done: Forgotten
    #: Whether the file was written anew, so that it holds no trace. If not, asking once more does it.
    scrubbed: bool
    #: Copies of the database that are kept beside it: they were not touched.
    copies: tuple[str, ...]
    #: The configuration still names the person.
    configured: bool


@dataclass(slots=True, kw_only=True)
class Operations:
    store: Store
    intake: Intake
    health: Health
    repositories: Repositories
    #: The people of the configuration.
    configured: Sequence[Configured]
    #: Free disk that a backup leaves, in bytes.
    reserve: int
    #: Where the daemon answers; known when it listens.
    url: str = ""
    started: float = field(init=False)
    #: What copies or rewrites the whole file does so one at a time.
    _whole_file: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.started = self.intake.clock.monotonic()

    async def search(self, text: str, agent: str | None, session_id: str | None, limit: int) -> Found:
        def find(db: Database) -> Found:
            session = None if session_id is None else sessions.get(db, session_id).id
            return search.find(db, text, agent=agent, session=session, limit=limit)

        return await self.store.read(find)

    async def usage(self, by: By, limit: int) -> tuple[list[Usage], Tokens]:
        zone = self.intake.rules.budgets.zone
        return await self.store.read(lambda db: (reports.usage(db, by, limit, zone), reports.total(db)))

    async def budgets(self) -> list[Standing]:
        budgets = self.intake.rules.budgets
        return await self.store.read(lambda db: allowing.every(db, budgets, self.intake.clock.now()))

    async def allow(self, name: str, more: Allowance) -> Standing:
        """Raise a budget until its day or month is over."""
        budgets = self.intake.rules.budgets
        standing = await self.intake.persist.once(
            lambda db: allowing.allow(db, budgets, name, more, self.intake.clock.now())
        )
        log(Event.BUDGET_ALLOWED, budget=name, scope=standing.scope, tokens=more.tokens, cost=more.cost)
        return standing

    async def people(self, limit: int, offset: int) -> tuple[list[Somebody], int]:
        return await self.store.read(lambda db: reports.everybody(db, limit, offset))

    async def pairings(self) -> list[Pairing]:
        return await self.store.read(lambda db: pairings.waiting(db, self.intake.clock.now()))

    async def refuse(self, code: str) -> Pairing:
        return await self.intake.persist.once(lambda db: pairings.take(db, code, self.intake.clock.now()))

    async def revoke(self, name: str) -> PersonRow:
        """Whoever was let in is a stranger again."""

        def revoke(db: Database) -> PersonRow:
            person = forgetting.resolve(db, name)
            if person.config_name is not None:
                raise PersonConfigured(person=name, name=person.config_name)
            if person.owner:
                raise OwnerProtected
            people.make_known(db, person.id, known=False)
            return people.get(db, person.id)

        person = await self.intake.persist.once(revoke)
        log(Event.PERSON_REVOKED, person=person.public_id)
        return person

    async def status(self) -> Status:
        return Status(
            counts=await self.store.read(reports.counts),
            uptime=self.intake.clock.monotonic() - self.started,
            pid=os.getpid(),
            url=self.url,
            data_dir=self.store.path.parent,
            components=dict(self.health.components),
        )

    async def export(self, session_id: str) -> list[bytes]:
        """The lines of a session, as of one moment."""
        return await self.store.read(lambda db: exchange.export(db, session_id))

    async def take_in(self, package: Package, *, new_ids: bool) -> Session:
        """Import a session that was read whole; all of it is stored, or nothing."""
        if self.intake.disk.low():
            raise DiskLow
        now = self.intake.clock.now()
        session = await self.intake.persist.once(lambda db: exchange.take_in(db, package, now, new_ids=new_ids))
        log(Event.SESSION_IMPORTED, session=session.public_id, key=session.key, messages=session.message_count)
        return session

    async def remove(self, session_id: str) -> Session:
        """Remove a session with all that belongs to it. A turn that runs in it ends unanswered."""

        def remove(db: Database) -> tuple[Session, Turn | None]:
            session = sessions.get(db, session_id)
            running = turns.pending_of(db, session.id)
            sessions.remove(db, session.id)
            return session, running

        session, running = await self.intake.persist.once(remove)
        self._end_runs([] if running is None else [running])
        await asyncio.to_thread(files.remove_session, self.store.path.parent, session.public_id)
        self.intake.feed.changed(session.id)
        log(Event.SESSION_REMOVED, session=session_id, messages=session.message_count)
        return session

    async def move(
        self, to: str, source: str | None, session_ids: Sequence[str] | None, *, dry_run: bool
    ) -> list[Move]:
        """Give sessions to another agent: the named ones, or the live ones of an agent."""
        known = self.intake.rules.agents
        if to not in known:
            raise UnknownAgent(agent=to, known=", ".join(known))
        ids = await self.store.read(lambda db: moving.chosen(db, source, session_ids))
        if dry_run:
            return await self.store.read(lambda db: moving.plan(db, ids, source, to))
        moves: list[Move] = []
        for first in range(0, len(ids), _MOVED_AT_ONCE):
            moves += await self._move(ids[first : first + _MOVED_AT_ONCE], source, to)
        return moves

    async def _move(self, ids: Sequence[str], source: str | None, to: str) -> list[Move]:
        now = self.intake.clock.now()
        moves = await self.intake.persist.once(lambda db: moving.carry_out(db, ids, source, to, now))
        for move in moves:
            if move.obstacle is None:
                log(Event.SESSION_MOVED, session=move.session_id, old=move.old, new=move.new)
        return moves

    async def backup(self, target: Path) -> int:
        """Copy everything into a new file while the daemon goes on; returns its size."""
        async with self._whole_file:
            size = await asyncio.to_thread(backup.make, self.store.path, target, self.reserve)
        log(Event.BACKUP_MADE, path=target, bytes=size)
        return size

    async def forget(self, name: str, *, really: bool) -> Forgetting:
        """Remove a person everywhere, then write the file anew so that it holds no trace; answers wait meanwhile."""
        async with self._whole_file:
            await self.store.read(lambda db: upkeep.require_room_to_scrub(db, self.store.path))
            done, running = await self.intake.persist.once(lambda db: self._forget(db, name, really))
            self._end_runs(running)
            await asyncio.to_thread(_remove_files, self.store.path.parent, done)
            scrubbed = await self._scrub()
        log(Event.PERSON_FORGOTTEN, person=done.person, sessions=done.sessions, messages=done.messages)
        return Forgetting(
            done=done,
            scrubbed=scrubbed,
            copies=tuple(sorted(file.name for file in self.store.path.parent.glob(f"{NAME}.*"))),
            configured=done.config_name is not None,
        )

    def _forget(self, db: Database, name: str, really: bool) -> tuple[Forgotten, list[Turn]]:
        now = self.intake.clock.now()
        whose = forgetting.look(db, name, really=really)
        running = forgetting.running(db, whose)
        own = {session.id for session in whose.own}
        for turn in running:
            if turn.session not in own:
                stopping.stop_turn(db, turn, now)
        done = forgetting.forget(db, whose, now)
        if whose.person.owner:
            # Somebody has to be the owner; whoever opens the page with its token is one without a past.
            people.sync(db, self.configured, now)
        return done, running

    async def _scrub(self) -> bool:
        try:
            await self.store.alone(upkeep.scrub)
        except StoreUnavailable as exc:
            log(Event.STORE_UNAVAILABLE, logging.ERROR, why=str(exc))
            return False
        return True

    def _end_runs(self, ended: Sequence[Turn]) -> None:
        """After the database has ended turns: end what runs of them."""
        for turn in ended:
            self.intake.turns.stop(turn.id)
            self.intake.feed.changed(turn.session)


def _remove_files(data_dir: Path, done: Forgotten) -> None:
    for session in done.session_ids:
        files.remove_session(data_dir, session)
    files.remove_of(data_dir, done.message_ids)
