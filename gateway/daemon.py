"""The daemon: everything is put together here, started, and stopped in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from channels.base import Channel
from channels.memory import MemoryChannel
from channels.web import WebChannel
from gateway import allowing, files, phrases, recovery, stopping, supervision
from gateway.admission import AgentRules, Rules
from gateway.agents.acp import leftovers
from gateway.agents.acp.pool import Pool
from gateway.agents.builtin import BuiltinAgent
from gateway.agents.protocol import Agent, Hosted, Prepares, Summarises
from gateway.api import Api
from gateway.arrivals import API
from gateway.clock import Clock, SystemClock
from gateway.compactor import Compactor
from gateway.config import Account, AgentConfig, Config, DiscordTable, OpenAIAgent, QueueMode, TelegramTable, tables
from gateway.delivery import Delivery
from gateway.feed import Feed
from gateway.files import Files
from gateway.floods import Floods
from gateway.health import DiskGuard, Health
from gateway.http.app import application, serve
from gateway.http.auth import local_token
from gateway.intake import Intake
from gateway.lanes import AgentLimits, Lanes
from gateway.logs import Event, log, mask
from gateway.operations import Operations
from gateway.persist import Persist
from gateway.questions.desk import Desk
from gateway.repositories import Repositories
from gateway.turn import Answering, Turns
from routing.bindings import Router
from routing.errors import StoreClosed, StoreError
from store import people
from store.database import Store, prepare
from store.lock import InstanceLock
from store.people import Configured
from store.records import Status

#: Time for deliveries after the last turn has ended.
_DELIVERY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The daemon while it serves."""

    store: Store
    channels: dict[tuple[str, str], Channel]
    delivery: Delivery
    lanes: Lanes
    compactor: Compactor
    intake: Intake
    api: Api
    url: str
    token: str


class Daemon:
    """Starts, serves until `stop`, drains. Tests bring their own clock, agents and channels."""

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        agents: Mapping[str, Agent] | None = None,
        channels: Sequence[Channel] = (),
        quiet: bool = False,
    ) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._agents = agents or agents_of(config)
        self._extra_channels = channels
        #: Only the API, for a command while no daemon runs: nothing is taken, answered or delivered.
        self._quiet = quiet
        self._stop = asyncio.Event()

    def stop(self) -> None:
        self._stop.set()

    async def run(self, on_ready: Callable[[Running], None]) -> None:
        """Returns after a clean stop; `on_ready` is called when messages are taken."""
        data_dir = self._config.gateway.data_dir
        prepare(data_dir)
        with InstanceLock(data_dir):
            store = await Store.open(data_dir, searchable=self._config.search.enabled)
            try:
                async with asyncio.TaskGroup() as tasks:
                    await self._serve(store, tasks, on_ready)
            finally:
                for agent in self._agents.values():
                    await agent.close()
                await store.close()
        log(Event.DAEMON_STOPPED)

    async def _serve(self, store: Store, tasks: asyncio.TaskGroup, on_ready: Callable[[Running], None]) -> None:
        health = Health(self._clock)
        persist = Persist(store, self._clock, health)
        running, server = await self._put_together(store, persist, health, tasks)
        try:
            await persist.must(lambda db: people.sync(db, people_of(self._config), self._clock.now()))
            if self._quiet:
                running.lanes.close()
                await running.delivery.drain()  # what a command leaves to be sent, the next daemon sends
                on_ready(running)
                await self._until_stopped(store)
                return
            await running.api.operations.repositories.scan_at_start()
            await leftovers.reap(persist)
            for agent in self._agents.values():
                if isinstance(agent, Hosted):
                    agent.open(persist, self._clock)
            found = await persist.must(lambda db: recovery.look(db, running.intake.rules.agents, self._clock.now()))
            recovery.take_up(found, running.lanes, running.delivery)
            beside = self._start_beside(running, persist, health, tasks)
            running.intake.closed = False
            log(Event.DAEMON_READY, url=running.url)
            on_ready(running)
            await self._until_stopped(store)
            await self._drain(running, beside)
        finally:
            await server.cleanup()

    async def _put_together(
        self, store: Store, persist: Persist, health: Health, tasks: asyncio.TaskGroup
    ) -> tuple[Running, web.AppRunner]:
        config, clock = self._config, self._clock
        feed = Feed()
        channels = {(one.name, one.account): one for one in (*_channels(config), *self._extra_channels)}
        delivery = Delivery(persist, channels, clock, tasks)
        compactor = Compactor(persist, clock, self._agents, config.agents, tasks)
        answering = {
            name: Answering(agent=agent, config=config.agents[name], compactor=compactor)
            for name, agent in self._agents.items()
        }
        streaming = frozenset((one.channel, one.name) for one in config.accounts if one.streaming)
        disk = DiskGuard(config.gateway.data_dir, config.gateway.disk_reserve_mb * 2**20, health)
        rules = rules_of(config, self._agents)
        if not self._quiet:
            allowing.warm(rules.budgets, config.agents)
        desk = Desk(persist, delivery, feed, clock)
        turns = Turns(
            persist=persist,
            clock=clock,
            delivery=delivery,
            feed=feed,
            files=Files(config.gateway.data_dir, persist, delivery, disk, clock),
            agents=answering,
            streaming=streaming,
            budgets=rules.budgets,
            desk=desk,
        )
        limits = {name: AgentLimits(queue=one.queue, max_turns=one.max_turns) for name, one in config.agents.items()}
        lanes = Lanes(turns, limits, clock, tasks)
        intake = Intake(
            persist=persist,
            rules=rules,
            lanes=lanes,
            turns=turns,
            compactor=compactor,
            delivery=delivery,
            feed=feed,
            disk=disk,
            floods=Floods(clock),
            desk=desk,
            clock=clock,
            closed=True,
        )
        operations = Operations(
            store=store,
            intake=intake,
            health=health,
            repositories=Repositories(config.gateway.workspace_root, persist, clock),
            configured=people_of(config),
            reserve=config.gateway.disk_reserve_mb * 2**20,
        )
        api = Api(
            store=store,
            intake=intake,
            feed=feed,
            health=health,
            operations=operations,
            agents={name: agent.name for name, agent in config.agents.items()},
            default_agent=config.gateway.default_agent,
            preparing={name: agent for name, agent in self._agents.items() if isinstance(agent, Prepares)},
            quiet=self._quiet,
        )
        given = config.http.admin_token
        token = local_token(config.gateway.data_dir) if given is None else given.get_secret_value()
        mask(token)
        server, url = await serve(application(api, token, config.http.listen.host), config.http.listen)
        operations.url = url
        running = Running(
            store=store,
            channels=channels,
            delivery=delivery,
            lanes=lanes,
            compactor=compactor,
            intake=intake,
            api=api,
            url=url,
            token=token,
        )
        return running, server

    def _start_beside(
        self, running: Running, persist: Persist, health: Health, tasks: asyncio.TaskGroup
    ) -> list[asyncio.Task[None]]:
        clock, intake = self._clock, running.intake
        idle = self._config.gateway.idle_minutes * 60
        started = [
            tasks.create_task(supervision.keep_running(channel, intake, clock, health), name="channel")
            for channel in running.channels.values()
        ]
        sweep = supervision.sweep(persist, clock, idle, self._config.retention, running.store.path.parent)
        started.append(tasks.create_task(sweep, name="sweep"))
        started.append(tasks.create_task(supervision.index(running.store, persist), name="index"))
        watch = supervision.watch(running.store, intake.disk, clock, health)
        started.append(tasks.create_task(watch, name="watch"))
        return started

    async def _until_stopped(self, store: Store) -> None:
        async with asyncio.TaskGroup() as watching:
            stopped = watching.create_task(self._stop.wait())
            store.died.add_done_callback(lambda _: stopped.cancel())
        if store.died.done():
            raise StoreClosed from store.died.result()

    async def _drain(self, running: Running, beside: list[asyncio.Task[None]]) -> None:
        """Take nothing more, let running turns end, deliver their answers; then cut what is left."""
        log(Event.DAEMON_STOPPING, turns=running.lanes.running)
        running.intake.closed = True
        running.lanes.close()
        seconds = self._config.gateway.drain_seconds
        await _within(self._clock, seconds, running.lanes.drain())
        running.lanes.cut()
        await running.lanes.drain()
        await running.compactor.close()
        await self._end_processes(running)
        await _within(self._clock, _DELIVERY_SECONDS, running.delivery.drain())
        running.delivery.cut()
        # Not before: a channel closes its connections when it ends, and the last answers go out through them.
        for task in beside:
            task.cancel()

    async def _end_processes(self, running: Running) -> None:
        """Sessions that are one with a process end with it. If that cannot be written, the next start does it."""
        now = self._clock.now()
        end = partial(
            stopping.end_processes, status=Status.CANCELLED, reason="shutdown", note=phrases.NOTE_SHUTDOWN, now=now
        )
        with contextlib.suppress(StoreError):
            for session in await running.intake.persist.once(end):
                log(Event.SESSION_ENDED, session=session, status=Status.CANCELLED, reason="shutdown")


async def _within(clock: Clock, seconds: float, work: Coroutine[None, None, None]) -> None:
    with contextlib.suppress(TimeoutError):
        async with clock.timeout(seconds):
            await work


def agents_of(config: Config) -> dict[str, Agent]:
    #: One limit for the processes of all agents.
    pool = Pool(config.gateway.max_agent_processes, config.gateway.idle_minutes * 60)
    return {name: _agent(name, table, config, pool) for name, table in config.agents.items()}


def _agent(name: str, table: AgentConfig, config: Config, pool: Pool) -> Agent:
    match table:
        case OpenAIAgent():
            # With the SDK, which takes half a second and 40 MB: only who has such an agent pays for it.
            from gateway.agents.openai.agent import ModelAgent

            return ModelAgent(table, config.gateway.data_dir / files.FOLDER)
        case tables.LocalAgent():
            from gateway.agents.local.agent import LocalModelAgent

            return LocalModelAgent(table, config.gateway.data_dir / files.FOLDER)
        case tables.AcpAgent():
            from gateway.agents.acp.agent import AcpAgent

            homes = config.gateway.data_dir / "agents"
            return AcpAgent(name, table, config.gateway.workspace_root, homes, pool)
        case _:
            return BuiltinAgent()


def _channels(config: Config) -> Iterator[Channel]:
    """The HTTP API is always there; the accounts are what the configuration names."""
    yield WebChannel(*API)
    for account in config.accounts:
        yield _channel(account)


def _channel(account: Account) -> Channel:
    """The platforms' libraries are imported on use: each costs memory and time to start."""
    match account.table:
        case TelegramTable() as telegram:
            from channels.telegram import TelegramChannel

            return TelegramChannel(account.name, telegram.token.get_secret_value(), telegram.base_url)
        case DiscordTable() as discord:
            from channels.discord import DiscordChannel

            token = discord.token.get_secret_value()
            return DiscordChannel(account.name, token, discord.base_url, discord.gateway_url)
        case _ if account.channel == "memory":
            return MemoryChannel(account.name)
        case _:
            return WebChannel(account.channel, account.name)


def rules_of(config: Config, agents: Mapping[str, Agent]) -> Rules:
    return Rules(
        router=Router(config.bindings, config.gateway.default_agent),
        policies={(one.channel, one.name): one.policy for one in config.accounts},
        agents={
            name: AgentRules(
                scopes=one.scopes,
                side_effects=agents[name].side_effects,
                max_waiting=one.max_waiting,
                context_window=one.context_window,
                compaction=one.compaction,
                summarises=isinstance(agents[name], Summarises),
                interrupts=one.queue is QueueMode.INTERRUPT,
            )
            for name, one in config.agents.items()
        },
        budgets=allowing.budgets_of(config),
    )


def people_of(config: Config) -> list[Configured]:
    return [Configured(name=one.name, owner=one.owner, identities=one.identities) for one in config.people]
