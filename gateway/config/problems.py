"""What is wrong, in sentences: the key as it stands in the file, its value, and what is allowed instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.config.tables import File
from gateway.quoting import quote

Part = str | int
Raw = Mapping[str, object]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_SHOWN = 80

_RULES = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a text in quotes",
    "frozen_set_type": "must be a list of ids in brackets",
    "list_type": "must be written as tables under [[bindings]]",
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:.10g}",
    "enum": "must be {expected}",
    "wrong": "{rule}",
}
_UNQUOTED = frozenset({"bool_type", "int_type", "float_type"})
_NOT_A_TABLE = frozenset({"dict_type", "model_type", "model_attributes_type"})


def sentences(error: ValidationError, raw: Raw, model: type[BaseModel] = File) -> list[str]:
    return [_sentence(found, raw, model) for found in error.errors(include_url=False)]


def _sentence(found: ErrorDetails, raw: Raw, model: type[BaseModel]) -> str:
    if found["type"] == "name":
        return f"{key(found['loc'][:-1], raw)}: {found['msg']}."
    path, expected = _walk(found["loc"], model)
    context = found.get("ctx", {})
    match found["type"]:
        case "extra_forbidden":
            return _unknown_key(path, raw, expected)
        case "missing":
            return f"{key(path, raw)} is missing."
        case "union_tag_not_found":
            return f"{key([*path, 'kind'], raw)} is missing: must be {_kinds(expected)}."
        case "union_tag_invalid":
            return f"{key([*path, 'kind'], raw)}{given(found['input']['kind'])}: must be {_kinds(expected)}."
        case "secret":
            # The value stays out of the sentence, and a table is a way to write a secret: no [header] for it.
            return f"{key(path)}: {context['why']}."
        case kind if kind in _NOT_A_TABLE:
            return _not_a_table(path, raw)
        case kind:
            rule = _RULES.get(kind, "is not allowed here").format_map(context).replace("'", '"')
            quotes = ", without quotes" if kind in _UNQUOTED and isinstance(found["input"], str) else ""
            return f"{key(path, raw)}{given(found['input'])}: {rule}{quotes}."


def key(path: Sequence[Part], raw: Raw | None = None) -> str:
    """The path as TOML: `[table]` where the file has a table there, `[table] key` otherwise."""
    if path[0] == "bindings" and len(path) > 1 and isinstance(path[1], int):
        return " ".join([f"[[bindings]] #{path[1] + 1}", *(bare(str(part)) for part in path[2:])])
    names = [bare(part) for part in path if isinstance(part, str)]
    numbers = "".join(f" #{part + 1}" for part in path if isinstance(part, int))
    if raw is not None and isinstance(_value_at(path, raw), Mapping):
        return f"[{'.'.join(names)}]{numbers}"
    *table, last = names
    return (f"[{'.'.join(table)}] " if table else "") + last + numbers


def given(value: object) -> str:
    """How the file gives a value; what a list or table holds is left out."""
    match value:
        case bool():
            return f" = {str(value).lower()}"
        case int() if abs(value) >= 10**_LONGEST_SHOWN:
            return " is a huge number"
        case str():
            return f" = {_short(value)}"
        case int() | float() | date() | time():
            return f" = {value}"
        case list():
            return " is a list"
        case _:
            return " is a table"


def bare(name: str) -> str:
    """A name as TOML wants it: quoted where it needs to be."""
    return name if _BARE.fullmatch(name) and len(name) <= _LONGEST_SHOWN else _short(name)


def nearest(name: str, known: Iterable[str], show: Callable[[str], str] = bare) -> str:
    """Which of the known names was meant, or all of them."""
    names = list(known)
    lower = {each.lower(): each for each in names}
    if close := difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5):
        return f"did you mean {show(lower[close[0]])}?"
    return f"known are {', '.join(map(show, names)) or 'none'}."


def _unknown_key(path: list[Part], raw: Raw, expected: Any) -> str:
    show = bare if len(path) > 1 else _header
    return f"{key(path, raw)} is not a known key: {nearest(str(path[-1]), expected.model_fields, show)}"


def _header(section: str) -> str:
    return f"[[{section}]]" if section == "bindings" else f"[{section}]"


def _not_a_table(path: list[Part], raw: Raw) -> str:
    # The value is not shown: a token written one level too high would be one.
    here = key(path, raw)
    if isinstance(path[-1], int) or len(path) > 2:
        return f"{here}: must be a table."
    if len(path) == 1 and path[0] in {"gateway", "http"}:
        return f"{here}: must be a table, written as [{path[0]}]."
    return f"{here}: must be a table with a name; write [{path[0]}.NAME] and the keys below it."


def _walk(loc: Sequence[Part], model: type[BaseModel]) -> tuple[list[Part], Any]:
    """The path without the tags that pydantic adds for unions, and the type that is expected at its end.

    For a key that is not known that is the model that does not know it.
    """
    path: list[Part] = []
    expected: Any = model
    for part in loc:
        if isinstance(expected, type) and issubclass(expected, BaseModel):
            path.append(part)
            if part not in expected.model_fields:
                break
            expected = expected.model_fields[str(part)].annotation
        elif members := _members(expected):
            expected = members[str(part)]
        else:
            path.append(part)
            expected = (get_args(expected) or (None,))[-1]
    return path, expected


def _members(expected: Any) -> dict[str, type[BaseModel]]:
    """The models of a discriminated union by the tag that chooses them."""
    if not hasattr(expected, "__metadata__"):
        return {}
    inner = get_args(expected)[0]
    models = (inner,) if get_origin(inner) is None else get_args(inner)
    if not all(isinstance(model, type) and issubclass(model, BaseModel) for model in models):
        return {}
    return {get_args(model.model_fields["kind"].annotation)[0]: model for model in models}


def _kinds(expected: Any) -> str:
    return " or ".join(quote(kind) for kind in _members(expected))


def _value_at(path: Sequence[Part], raw: Raw) -> object:
    value: object = raw
    for part in path:
        if isinstance(value, list) and isinstance(part, int):
            value = value[part]
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _short(text: str) -> str:
    return quote(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")
