"""Every tool call with its result right behind it: providers refuse a whole conversation for one that is alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

_NO_RESULT = "No result: the call was interrupted, and it is not known whether it took effect."
_NO_CALL = "Result of an earlier tool call that is no longer shown: {text}"


@dataclass(frozen=True, slots=True)
class Said:
    """`note` is the gateway: that a request failed, what the plan is."""

    speaker: Literal["user", "assistant", "note"]
    text: str
    #: Data URLs.
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    name: str
    #: A JSON object, as text.
    arguments: str


@dataclass(frozen=True, slots=True)
class Result:
    call_id: str
    text: str


Item = Said | Call | Result


def paired(items: Sequence[Item]) -> tuple[list[Item], int]:
    """The same conversation without lone halves, and how many there were. Applied again it changes nothing."""
    results: dict[str, list[int]] = {}
    for position, item in enumerate(items):
        if isinstance(item, Result):
            results.setdefault(item.call_id, []).append(position)
    taken: set[int] = set()
    ids: set[str] = set()
    kept: list[Item] = []
    repairs = 0
    for position, item in enumerate(items):
        match item:
            case Call():
                found = next((one for one in results.get(item.id, ()) if one > position and one not in taken), None)
                call = replace(item, id=_unused(item.id, ids))
                ids.add(call.id)
                repairs += found is None
                kept += [call, Result(call.id, _NO_RESULT if found is None else _text(items[found]))]
                if found is not None:
                    taken.add(found)
            case Result(_, text) if position not in taken:
                repairs += 1
                kept.append(Said("note", _NO_CALL.format(text=text)))
            case Said():
                kept.append(item)
            case Result():
                pass  # it stands behind its call already
    return kept, repairs


def _text(item: Item) -> str:
    return item.text if isinstance(item, Result) else ""


def _unused(call_id: str, ids: set[str]) -> str:
    """Two calls under one id are two calls."""
    if call_id not in ids:
        return call_id
    return next(name for number in count(2) if (name := f"{call_id[:56]}_{number}") not in ids)
