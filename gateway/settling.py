"""What a turn costs, from the amount that is held back for it to what its row keeps in the end."""

from __future__ import annotations

from dataclasses import replace

from gateway import prices, usage
from gateway.agents.protocol import Done
from gateway.budgets import Budgets, Held, spender_of
from gateway.config import AgentConfig
from routing.errors import AgentFailed, ModelFailed
from routing.keys import PeerKind, normalise_id
from routing.messages import Address
from store import outbox, sessions
from store.database import Database
from store.ids import Micros
from store.outbox import Draft
from store.records import InboxItem, OutboxKind, OutboxState, Turn, Usage
from store.turns import Ending

#: Of a turn that did not run: nothing was used, and that is known.
NOTHING = Ending(usage=Usage(input=0, output=0), cost=0)


def chat_of(item: InboxItem) -> str | None:
    """The group in which a message was written; a direct chat is nobody's but the person's."""
    if item.key.peer_kind is PeerKind.DM:
        return None
    return f"{item.address.channel}:{normalise_id(item.address.chat)}"


def hold(db: Database, budgets: Budgets, item: InboxItem, agent: str, text: str, now: Micros) -> Held:
    """What is held back for the turn that is about to begin with this message, or why it does not."""
    if not budgets.budgets:
        return Held()
    session = sessions.live(db, item.key) if item.session is None else sessions.by_number(db, item.session)
    spender = spender_of(db, item.person, agent, chat_of(item))
    if session is None:
        return budgets.hold(db, spender, None, 1, text, now)
    return budgets.hold(db, spender, session.id, session.turn_count + 1, text, now)


async def ending_of(done: Done, config: AgentConfig) -> Ending:
    """All that an agent told at its end, with its price."""
    return Ending(
        warnings=done.warnings,
        model=done.model,
        usage=done.usage,
        cost=await prices.cost(prices.seller(config), done.model, done.usage),
        response_id=done.response_id,
        previous_response_id=done.previous_response_id,
        chain_expires_at=done.chain_expires,
    )


async def known_of(failure: AgentFailed, config: AgentConfig) -> Ending:
    """What is known of the use of a run that failed."""
    used = spent_by(failure)
    if used.source is None:
        return Ending()
    model = str(getattr(config, "model", ""))
    return Ending(usage=used, cost=await prices.cost(prices.seller(config), model, used))


def spent_by(failure: AgentFailed) -> Usage:
    return Usage(**failure.spent) if isinstance(failure, ModelFailed) else Usage()


def estimated(db: Database, turn: Turn, ending: Ending, config: AgentConfig, given: int | None, text: str) -> Ending:
    """The ending as it is; or, where the agent reported nothing (`given` says what it read), with an estimate."""
    if given is None:
        return ending
    used = usage.estimate(db, turn, ending.model, given, text)
    return replace(ending, usage=used, cost=prices.cost_now(prices.seller(config), ending.model, used))


def warn(db: Database, near: tuple[str, ...], address: Address, now: Micros) -> None:
    """Say which budgets come near their end, where the turn was asked."""
    for text in near:
        outbox.put(db, Draft(address=address, text=text, kind=OutboxKind.NOTICE), OutboxState.READY, now)


def of_cut(db: Database, turn: Turn, ending: Ending) -> Ending:
    """The ending of a turn that failed: with what is known of its use, or what can be seen of it."""
    if ending.usage != Usage():
        return ending
    used, cost = usage.of_cut(db, turn)
    return replace(ending, usage=used, cost=cost)
