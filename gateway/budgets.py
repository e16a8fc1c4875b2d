"""Budgets: how much may be spent, by whom, in a day or a month. Held back before a run, settled by its real use.

All of it are sums over turns. A turn is let through as long as anything is left, and holds back what it may need, so
that turns that run at once exceed a budget by one of these amounts at most; and, where the length of an answer is not
limited, by as much as that answer is longer than expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from gateway import days, phrases, prices, tokens, usage
from gateway.days import Period
from gateway.prices import Seller
from store import spending
from store.database import Database
from store.ids import Micros
from store.people import PersonRow
from store.records import Turn, Usage
from store.spending import Amount, Whose

ANY = "*"
MILLION = 1_000_000

#: Share of a budget at which people are warned.
_WARN = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    name: str
    per: Period = Period.DAY
    tokens: int | None = None
    #: Millionths of a US dollar.
    cost: int | None = None
    #: A name, `*` for each one on its own, or None if it does not matter.
    person: str | None = None
    agent: str | None = None
    chat: str | None = None

    @property
    def kinds(self) -> tuple[object, ...]:
        """Budgets of the same kinds stand for each other: who is named has that one, and not everybody's."""
        return self.per, self.person is None, self.agent is None, self.chat is None

    @property
    def named(self) -> int:
        return sum(value not in {None, ANY} for value in (self.person, self.agent, self.chat))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spender:
    """Whose turn it is, with whom, and in which group."""

    agent: str | None
    person: PersonRow | None = None
    #: All rows of that person.
    rows: tuple[int, ...] = ()
    chat: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a turn of an agent may take."""

    model: str | None
    seller: Seller | None
    #: Tokens: the context, what goes before every conversation, and the longest answer.
    window: int
    instructions: int
    answer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a budget stands for one spender."""

    budget: Budget
    scope: str
    period: Micros
    #: With what was allowed on top.
    tokens: int | None
    cost: int | None
    spent: Amount

    @property
    def share(self) -> float:
        """The larger used part of the two."""
        return max((used / most for used, most, _ in self._parts()), default=0.0)

    @property
    def texts(self) -> tuple[str, str]:
        """What is used and what is allowed, in the unit that is nearer to its end."""
        used, most, money = max(self._parts(), key=lambda part: part[0] / part[1])
        return (dollars(used), dollars(most)) if money else (f"{used:,}", phrases.TOKENS.format(count=most))

    def _parts(self) -> Iterator[tuple[int, int, bool]]:
        """What is used, what is allowed, and whether it is money."""
        if self.tokens is not None:
            yield self.spent.tokens, self.tokens, False
        if self.cost is not None:
            yield self.spent.cost, self.cost, True


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is held back for a turn; or why it does not run."""

    tokens: int | None = None
    cost: int | None = None
    refused: str | None = None


class Budgets:
    def __init__(self, budgets: Sequence[Budget], needs: Mapping[str, Needs], zone: tzinfo) -> None:
        self.budgets = tuple(budgets)
        self.zone = zone
        self._needs = needs

    @property
    def with_money(self) -> bool:
        return any(budget.cost is not None for budget in self.budgets)

    def hold(self, db: Database, spender: Spender, session: int | None, seq: int, text: str, now: Micros) -> Held:
        """In the transaction that begins a turn: whether it may run, and what is held back for it."""
        if not self.budgets:
            return Held()
        for standing in self.standings(db, spender, now):
            if standing.share >= 1:
                return Held(refused=self._refusal(standing, now))
        needs = self._needs.get(spender.agent or "")
        if needs is None:
            return Held()
        expected = usage.likely_input(db, session, seq, text) if session is not None else tokens.estimate(text)
        read = min(expected, needs.window) + needs.instructions
        most = Usage(input=read, output=needs.answer)
        cost = prices.cost_now(needs.seller, needs.model, most) if self.with_money else None
        return Held(tokens=read + needs.answer, cost=cost)

    def settle(self, db: Database, turn: Turn, used: Usage, cost: int | None, now: Micros) -> tuple[str, ...]:
        """Before a turn ends: what to say if a budget comes near its end by it, once in each of its periods."""
        if not self.budgets:
            return ()
        change = Amount(
            tokens=(used.total or 0) - (turn.reserved_tokens or 0), cost=(cost or 0) - (turn.reserved_cost or 0)
        )
        said: list[str] = []
        for standing in self.standings(db, spender_of(db, turn.created_by, turn.agent, turn.chat), now):
            if turn.created_at >= standing.period:
                spent = Amount(tokens=standing.spent.tokens + change.tokens, cost=standing.spent.cost + change.cost)
                standing = replace(standing, spent=spent)
            near = standing.share >= _WARN
            if near and spending.warn_once(db, standing.budget.name, standing.scope, standing.period):
                said.append(self._warning(standing))
        return tuple(said)

    def standings(self, db: Database, spender: Spender, now: Micros) -> list[Standing]:
        """How all budgets stand that concern a spender."""
        concerned = [budget for budget in self.budgets if _concerns(budget, spender)]
        most = {budget.kinds: 0 for budget in concerned}
        for budget in concerned:
            most[budget.kinds] = max(most[budget.kinds], budget.named)
        return [self.standing(db, one, spender, now) for one in concerned if one.named == most[one.kinds]]

    def standing(self, db: Database, budget: Budget, spender: Spender, now: Micros) -> Standing:
        period = days.start(now, self.zone, budget.per)
        scope = scope_of(budget, spender)
        whose = Whose(
            people=None if budget.person is None else spender.rows,
            agent=None if budget.agent is None else spender.agent,
            chat=None if budget.chat is None else spender.chat,
        )
        more = spending.allowed(db, budget.name, scope, period)
        return Standing(
            budget=budget,
            scope=scope,
            period=period,
            tokens=None if budget.tokens is None else budget.tokens + more.tokens,
            cost=None if budget.cost is None else budget.cost + more.cost,
            spent=spending.amount(db, whose, period),
        )

    def _refusal(self, standing: Standing, now: Micros) -> str:
        used, most = standing.texts
        again = days.local(days.end(now, self.zone, standing.budget.per), self.zone)
        period = phrases.PERIODS[standing.budget.per]
        return phrases.BUDGET_SPENT.format(name=standing.budget.name, used=used, most=most, period=period, again=again)

    def _warning(self, standing: Standing) -> str:
        used, most = standing.texts
        period = phrases.PERIODS[standing.budget.per]
        percent = round(standing.share * 100)
        return phrases.BUDGET_NEAR.format(
            name=standing.budget.name, percent=percent, used=used, most=most, period=period
        )


def spender_of(db: Database, person: int | None, agent: str | None, chat: str | None) -> Spender:
    if person is None:
        return Spender(agent=agent, chat=chat)
    who, rows = spending.survivor(db, person)
    return Spender(agent=agent, person=who, rows=rows, chat=chat)


def scope_of(budget: Budget, spender: Spender) -> str:
    """What of a spender a budget looks at, as text."""
    person = None if spender.person is None else spender.person.public_id
    chosen = (("person", budget.person, person), ("agent", budget.agent, spender.agent))
    parts = [*chosen, ("chat", budget.chat, spender.chat)]
    return " ".join(f"{name}={value}" for name, wanted, value in parts if wanted is not None)


def dollars(cost: int) -> str:
    """With as many digits as it takes to see anything."""
    return f"${cost / MILLION:.2f}" if cost >= MILLION // 100 or not cost else f"${cost / MILLION:.4f}"


def _concerns(budget: Budget, spender: Spender) -> bool:
    person = None if spender.person is None else (spender.person.config_name or "")
    pairs = ((budget.person, person), (budget.agent, spender.agent), (budget.chat, spender.chat))
    return all(wanted is None or (has is not None and wanted in {ANY, has}) for wanted, has in pairs)
