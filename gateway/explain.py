"""Explain: which binding, session and gate would apply to a message. Nothing is stored."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.admission import Judgement, Rules, judge, key_for
from routing.access import Allowed
from routing.errors import UnknownAccount
from routing.keys import SessionKey
from routing.messages import Inbound
from routing.scopes import Person
from store.database import Database


@dataclass(frozen=True, slots=True)
class Explanation:
    judged: Judgement
    #: None if no agent answers.
    key: SessionKey | None

    def lines(self) -> list[str]:
        """For people to read."""
        route, decision = self.judged.route, self.judged.decision
        agent = "none" if route is None else f"{route.agent} (matched by {route.matched_by})"
        if isinstance(decision, Allowed):
            verdict = f"answered (allowed by {decision.rule})"
        else:
            verdict = f"not answered: {decision.reason.sentence} ({decision.reason})"
        return [f"agent:   {agent}", f"session: {self.key or 'none'}", f"result:  {verdict}"]


def explain(db: Database, message: Inbound, rules: Rules) -> Explanation:
    channel, account = message.address.channel, message.address.account
    if (channel, account) not in rules.policies:
        known = ", ".join(f"[{kind}.{name}]" for kind, name in rules.policies)
        raise UnknownAccount(channel=channel, account=account, known=known)
    judged = judge(db, message, rules)
    if judged.route is None or judged.route.agent not in rules.agents:
        return Explanation(judged, None)
    person = Person("(new-person)") if judged.person is None else judged.person.person
    return Explanation(judged, key_for(judged, person, rules))
