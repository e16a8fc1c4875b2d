"""What must hold between tables. Reads the raw file, so that it also speaks when single values are wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.config.fields import read_id
from gateway.config.problems import Raw, bare, given, key, nearest
from gateway.config.tables import CHANNELS


def problems(raw: Raw) -> Iterator[str]:
    yield from _discord(raw)
    yield from _default_agent(raw)
    yield from _bindings(raw)
    yield from _owners(raw)
    yield from _identities(raw)
    yield from _budgets(raw)
    yield from _approvers(raw)


def default_agent(raw: Raw) -> str | None:
    """The agent that answers what no binding matches, when the file does not say."""
    agents = names(raw, "agents")
    if len(agents) == 1:
        return agents[0]
    return "main" if "main" in agents else None


def tables(raw: Raw, section: str) -> dict[str, Raw]:
    """The named tables of a section, without what is no table."""
    found = raw.get(section)
    if not isinstance(found, Mapping):
        return {}
    return {name: table for name, table in found.items() if isinstance(table, Mapping)}


def names(raw: Raw, section: str) -> list[str]:
    return list(tables(raw, section))


def _discord(raw: Raw) -> Iterator[str]:
    """The library has one address per process."""
    first: tuple[str, Raw] | None = None
    for name, table in tables(raw, "discord").items():
        if first is None:
            first = name, table
        for field in ("base_url", "gateway_url"):
            if table.get(field) != first[1].get(field):
                where = key(["discord", name, field])
                yield f"{where}: it must be the same as in {key(['discord', first[0]], raw)}."


def _default_agent(raw: Raw) -> Iterator[str]:
    gateway = raw.get("gateway")
    agents = names(raw, "agents")
    chosen = gateway.get("default_agent") if isinstance(gateway, Mapping) else None
    if isinstance(chosen, str) and chosen and chosen not in agents:
        yield f"[gateway] default_agent{given(chosen)}: there is no such agent; {nearest(chosen, agents)}"
    elif chosen is None and agents and default_agent(raw) is None:
        yield (
            "[gateway] default_agent is missing: there are several agents and none is called main; name one "
            f'of {", ".join(map(bare, agents))}, or write "" to leave unanswered what no binding matches.'
        )


def _bindings(raw: Raw) -> Iterator[str]:
    bindings = raw.get("bindings")
    for number, binding in enumerate(bindings if isinstance(bindings, list) else []):
        if isinstance(binding, Mapping):
            yield from _binding(raw, number, binding)


def _binding(raw: Raw, number: int, binding: Raw) -> Iterator[str]:
    def refused(name: str, why: str) -> str:
        return f"{key(['bindings', number, name])}{given(binding[name])}: {why}"

    agent, channel, account = (binding.get(name) for name in ("agent", "channel", "account"))
    accounts = {each: names(raw, each) for each in CHANNELS}
    if isinstance(agent, str) and agent not in names(raw, "agents"):
        yield refused("agent", f"there is no such agent; {nearest(agent, names(raw, 'agents'))}")
    if isinstance(channel, str) and not accounts.get(channel):
        configured = [each for each in CHANNELS if accounts[each]]
        yield refused("channel", f"there is no account of such a channel; {nearest(channel, configured)}")
    elif isinstance(account, str):
        known = accounts[channel] if isinstance(channel, str) else sum(accounts.values(), [])
        if account not in known:
            where = f" of {channel}" if channel else ""
            yield refused("account", f"there is no such account{where}; {nearest(account, known)}")


def _budgets(raw: Raw) -> Iterator[str]:
    for name, budget in tables(raw, "budgets").items():
        if "tokens" not in budget and "money" not in budget:
            yield f"{key(['budgets', name], raw)}: it needs tokens or money (or both) that may be spent."
        for field, section in (("person", "people"), ("agent", "agents")):
            value = budget.get(field)
            if isinstance(value, str) and value != "*" and value not in names(raw, section):
                where, known = key(["budgets", name, field]), nearest(value, names(raw, section))
                yield f"{where}{given(value)}: there is no [{section}.{bare(value)}]; {known}"


def _approvers(raw: Raw) -> Iterator[str]:
    known = names(raw, "people")
    for name, agent in tables(raw, "agents").items():
        listed = agent.get("approvers")
        for one in listed if isinstance(listed, list) else []:
            if isinstance(one, str) and ":" not in one and one not in known:
                where = key(["agents", name, "approvers"])
                yield f"{where}{given(one)}: there is no [people.{bare(one)}]; {nearest(one, known)}"


def _owners(raw: Raw) -> Iterator[str]:
    owners = [name for name, person in tables(raw, "people").items() if person.get("owner") is True]
    for name in owners[1:]:
        where, first = key(["people", name, "owner"]), key(["people", owners[0]], raw)
        yield f"{where} = true: {first} is the owner already."


def _identities(raw: Raw) -> Iterator[str]:
    seen: dict[tuple[str, str], str] = {}
    for name, person in tables(raw, "people").items():
        for platform in ("telegram", "discord"):
            value = person.get(platform)
            identity = read_id(value)
            if identity is None:
                continue
            first = seen.setdefault((platform, identity), name)
            if first != name:
                where = key(["people", name, platform])
                yield f"{where}{given(value)}: this id belongs to {key(['people', first], raw)} already."
