"""What `/usage` tells: tokens and cost of this conversation and of whoever asks, and how their budgets stand."""

from __future__ import annotations

from gateway import days, phrases
from gateway.budgets import Budgets, dollars, spender_of
from gateway.days import Period
from routing.keys import PeerKind, SessionKey, normalise_id
from routing.messages import Inbound
from store import sessions, spending
from store.database import Database
from store.ids import Micros
from store.people import PersonRow
from store.reports import Tokens
from store.spending import Whose


def tell(db: Database, key: SessionKey, message: Inbound, person: PersonRow, budgets: Budgets, now: Micros) -> str:
    session = sessions.live(db, key)
    chat = f"{message.address.channel}:{normalise_id(message.address.chat)}"
    spender = spender_of(db, person.id, key.agent_id, None if key.peer_kind is PeerKind.DM else chat)
    lines = [] if session is None else [line(phrases.USAGE_HERE, spending.of_session(db, session.id))]
    for what, period in ((phrases.USAGE_TODAY, Period.DAY), (phrases.USAGE_MONTH, Period.MONTH)):
        since = days.start(now, budgets.zone, period)
        lines.append(line(what, spending.used(db, Whose(people=spender.rows), since)))
    for standing in budgets.standings(db, spender, now):
        used, most = standing.texts
        period_name = phrases.PERIODS[standing.budget.per]
        lines.append(phrases.BUDGET_LEFT.format(name=standing.budget.name, period=period_name, used=used, most=most))
    return "\n".join(lines)


def line(what: str, sums: Tokens) -> str:
    """What is unknown is said to be unknown, and what is an estimate to be one."""
    if not sums.turns:
        return phrases.USAGE_NOTHING.format(what=what)
    counts = phrases.USAGE_BUCKETS.format(
        input=sums.input, cached=sums.cached, output=sums.output, reasoning=sums.reasoning
    )
    if sums.estimated:
        counts += phrases.USAGE_ESTIMATED.format(share=sums.share)
    if sums.unknown:
        counts += phrases.USAGE_UNKNOWN.format(count=sums.unknown)
    cost = phrases.UNKNOWN if sums.cost is None else dollars(sums.cost)
    if sums.cost is not None and sums.unpriced:
        cost += phrases.USAGE_UNKNOWN.format(count=sums.unpriced)
    turns = phrases.USAGE_ONE if sums.turns == 1 else phrases.USAGE_MANY.format(count=sums.turns)
    return phrases.USAGE.format(what=what, turns=turns, tokens=counts, cost=cost)
