"""Budgets as operators see them: made from the configuration, listed, and raised for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway import days, prices, tokens
from gateway.budgets import ANY, MILLION, Budget, Budgets, Needs, Spender, Standing, scope_of, spender_of
from gateway.config import AgentConfig, Config
from gateway.config.fields import zone
from routing.errors import BadAllowance, UnknownBudget
from store import forgetting, spending
from store.database import Database
from store.ids import Micros
from store.spending import Amount

#: Tokens that are held back for an answer whose length is not limited.
_ANSWER = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How much more, and for whom where the budget is everybody's own."""

    tokens: int = 0
    #: Millionths of a US dollar.
    cost: int = 0
    person: str | None = None
    agent: str | None = None
    chat: str | None = None


def budgets_of(config: Config) -> Budgets:
    made = [
        Budget(
            name=name,
            per=table.per,
            tokens=table.tokens,
            cost=None if table.money is None else round(table.money * MILLION),
            person=table.person,
            agent=table.agent,
            chat=table.chat,
        )
        for name, table in config.budgets.items()
    ]
    return Budgets(made, {name: _needs(one) for name, one in config.agents.items()}, zone(config.gateway.timezone))


def every(db: Database, budgets: Budgets, now: Micros) -> list[Standing]:
    """How each budget stands for everybody who spent something in its period."""
    found: dict[tuple[str, str], Standing] = {}
    oldest = min((days.start(now, budgets.zone, one.per) for one in budgets.budgets), default=now)
    spenders = [Spender(agent=None), *(spender_of(db, *who) for who in spending.spenders(db, oldest))]
    for spender in spenders:
        for standing in budgets.standings(db, spender, now):
            found.setdefault((standing.budget.name, standing.scope), standing)
    return sorted(found.values(), key=lambda one: (one.budget.name, -one.share, one.scope))


def allow(db: Database, budgets: Budgets, name: str, more: Allowance, now: Micros) -> Standing:
    """More than a budget has, until its period is over."""
    budget = next((one for one in budgets.budgets if one.name == name), None)
    if budget is None:
        raise UnknownBudget(budget=name, known=", ".join(one.name for one in budgets.budgets) or "none")
    if (more.tokens and budget.tokens is None) or (more.cost and budget.cost is None):
        raise BadAllowance(why=f"the budget {name} does not count that")
    if not more.tokens and not more.cost:
        raise BadAllowance(why="say how many tokens, or how much money")
    spender = _meant(db, budget, more)
    spending.allow(db, name, scope_of(budget, spender), Amount(tokens=more.tokens, cost=more.cost), now)
    return budgets.standing(db, budget, spender, now)


def _meant(db: Database, budget: Budget, more: Allowance) -> Spender:
    person = _one(budget, "person", budget.person, more.person)
    agent = _one(budget, "agent", budget.agent, more.agent)
    chat = _one(budget, "chat", budget.chat, more.chat)
    number = None if person is None else forgetting.resolve(db, person).id
    return spender_of(db, number, agent, chat)


def _one(budget: Budget, kind: str, wanted: str | None, given: str | None) -> str | None:
    if wanted == ANY and given is None:
        raise BadAllowance(why=f"the budget {budget.name} is each {kind}'s own: say which {kind}")
    if given is not None and wanted not in {ANY, given}:
        raise BadAllowance(why=f"the budget {budget.name} is not that {kind}'s")
    return given if wanted == ANY else wanted


def _needs(config: AgentConfig) -> Needs:
    model = getattr(config, "model", None)
    return Needs(
        model=None if model is None else str(model),
        seller=prices.seller(config),
        window=config.context_window,
        instructions=tokens.estimate(getattr(config, "instructions", "")),
        answer=getattr(config, "max_output_tokens", None) or _ANSWER,
    )


def warm(budgets: Budgets, agents: Mapping[str, AgentConfig]) -> None:
    """Read the table of prices before the first turn has to wait for it."""
    if budgets.with_money and any(prices.seller(one) is not None for one in agents.values()):
        import genai_prices  # noqa: F401
