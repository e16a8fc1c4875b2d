"""Writing a summary: the old part of a history as text, in as many pieces as the compactor can read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from gateway import tokens
from gateway.agents.summarising import material
from gateway.attribution import prompt_text
from gateway.compaction import Plan
from gateway.persist import Persist
from gateway.phrases import SPEAKERS
from routing.errors import ContextExceeded, SummaryUseless
from store import messages
from store.content import Json, Text, Tool
from store.messages import HistoryOptions
from store.records import Message, Role

#: A text that goes on from the summary so far, and how long the next one may be in tokens.
Summarise = Callable[[str, int], Awaitable[str]]

_PAGE = 50
#: A summary may have this share of the context window, and the instructions of whoever writes it need some as well.
_SUMMARY = 1 / 8
_INSTRUCTIONS = 400
#: If the compactor reads less than we think: once more with a half, and with a quarter.
_SHARES = (1.0, 0.5, 0.25)
#: Characters that the arguments of an old tool call, and its result, have in the text.
_ARGUMENTS, _RESULT = 500, 1500

#: How models begin when they will not do it. Only a short text that begins so is no summary.
_REFUSALS = ("i'm sorry", "sorry, ", "i can't", "i cannot", "i am unable", "i'm unable", "as an ai")
_SHORT = 400


async def write(persist: Persist, plan: Plan, summarise: Summarise) -> str:
    """The summary of a plan's range. Raises SummaryUseless, or whatever the compactor raises."""
    for share in _SHARES:
        try:
            return await _fold(persist, plan, summarise, int(plan.window * share))
        except ContextExceeded:
            if share == _SHARES[-1]:
                raise
    raise AssertionError("a share is the last one")


async def _fold(persist: Persist, plan: Plan, summarise: Summarise, window: int) -> str:
    """Piece by piece, each with the summary of all before it, so that the first facts are carried on."""
    limit = max(16, int(window * _SUMMARY))
    summary = plan.summary
    room = _room(window, limit, summary)
    piece: list[str] = []
    used = 0
    async for text in _texts(persist, plan):
        for part in _parts(text, room):
            cost = tokens.estimate(part)
            if piece and used + cost > room:
                summary = _checked(await summarise(material(summary, "\n\n".join(piece)), limit))
                room = _room(window, limit, summary)
                piece, used = [], 0
            piece.append(part)
            used += cost
    if not piece:
        raise SummaryUseless(why="there was nothing to summarise")
    return _checked(await summarise(material(summary, "\n\n".join(piece)), limit))


def _room(window: int, limit: int, summary: str | None) -> int:
    """Tokens of history that the compactor can read at once, beside its instructions, the summary and its answer."""
    instructions = min(_INSTRUCTIONS, window // 4)
    room = window - instructions - limit - (0 if summary is None else tokens.estimate(summary))
    if room < window // 8:
        raise SummaryUseless(why="the summary so far leaves no room for more")
    return room


def _checked(text: str) -> str:
    summary = text.strip()
    if not summary:
        raise SummaryUseless(why="the summary was empty")
    if len(summary) < _SHORT and summary.lower().replace("’", "'").startswith(_REFUSALS):
        raise SummaryUseless(why="the model refused")
    return summary


async def _texts(persist: Persist, plan: Plan) -> AsyncIterator[str]:
    """The messages of the range as text, page by page: a long history is never held as a whole."""
    after = plan.after
    while after < plan.through:
        options = HistoryOptions(limit=_PAGE, after=after)
        page = await persist.read(lambda db, options=options: messages.page(db, plan.session, options))  # type: ignore[misc]
        for message in page:
            if message.seq <= plan.through and not message.superseded and (text := told(message)):
                yield text
        if not page:
            return
        after = page[-1].seq


def told(message: Message) -> str:
    """A message as one paragraph of a transcript."""
    content = message.content
    if isinstance(content, Tool):
        arguments, result = _short(content.args, _ARGUMENTS), _short(content.result, _RESULT)
        return f"Tool {content.tool} {arguments}: {result}"
    if not isinstance(content, Text):
        return ""
    text = (prompt_text(message) if message.role is Role.USER else content.text).strip()
    speaker = "User" if message.role is Role.USER else SPEAKERS[message.role]
    return f"{speaker}: {text}" if text else ""


def _short(value: Json, most: int) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}…"


def _parts(text: str, room: int) -> Iterator[str]:
    """A message that is larger than what can be read at once, in parts."""
    # No character counts for more than two tokens, so that no part exceeds the room.
    step = len(text) if tokens.estimate(text) <= room else max(room // 2, 1)
    for start in range(0, len(text), max(step, 1)):
        yield text[start : start + step]
