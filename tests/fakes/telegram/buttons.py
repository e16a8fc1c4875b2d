"""Inline keyboards and presses, as strict as Telegram."""

from __future__ import annotations

from tests.fakes.telegram.errors import bad
from tests.fakes.telegram.world import Bot, Json

_LONGEST_DATA = 64
_LONGEST_ANSWER = 200
_MOST_BUTTONS = 100


def keyboard(params: Json) -> Json:
    """The keyboard of a call, checked; none if it has no buttons."""
    markup = params.get("reply_markup")
    if not markup:
        return {}
    if markup.keys() != {"inline_keyboard"}:
        raise bad("can't parse reply keyboard markup JSON object")
    rows = markup["inline_keyboard"]
    found = [button for row in rows for button in row]
    if len(found) > _MOST_BUTTONS:
        raise bad("too many buttons")
    for one in found:
        if one.keys() != {"text", "callback_data"}:
            raise bad(f"unknown fields {sorted(one)}")
        if not one["text"].strip():
            raise bad("text buttons can't be empty")
        if not 1 <= len(one["callback_data"].encode()) <= _LONGEST_DATA:
            raise bad("BUTTON_DATA_INVALID")
    return {"reply_markup": markup} if found else {}


def answer(bot: Bot, params: Json) -> bool:
    """What whoever pressed is shown; once per press."""
    query = params.get("callback_query_id", "")
    if query not in bot.presses or query in bot.answers:
        raise bad("query is too old and response timeout expired or query ID is invalid")
    if len(params.get("text", "")) > _LONGEST_ANSWER:
        raise bad("MESSAGE_TOO_LONG")
    bot.answers[query] = (params.get("text", ""), bool(params.get("show_alert")))
    bot.poke()
    return True
