"""What went wrong, in our words: a class for the gateway, a sentence for people, the provider's own text for the log.

Codes and states decide. A provider's message may repeat what a user wrote, so it is looked at only where a server
gives no code, and only at its beginning.
"""

from __future__ import annotations

import json
import re
import secrets

import openai

from gateway import phrases
from routing.errors import (
    AnswerCut,
    AnswerRefused,
    ContextExceeded,
    KeyRefused,
    ModelFailed,
    ModelStalled,
    ModelUnknown,
    OutOfCredit,
    ProviderDown,
    RateLimited,
    RequestRefused,
)

#: Characters of the provider's text that the log keeps: some send whole pages.
_DETAIL = 500

_NO_MODEL = "model_not_found"
_CODES: dict[str, type[ModelFailed]] = {
    "context_length_exceeded": ContextExceeded,
    "exceed_context_size_error": ContextExceeded,  # llama.cpp
    "content_filter": AnswerRefused,
    "content_policy_violation": AnswerRefused,
    "image_content_policy_violation": AnswerRefused,
    "bio_policy": AnswerRefused,
    "misalignment_policy_violation": AnswerRefused,
    _NO_MODEL: ModelUnknown,
    "insufficient_quota": OutOfCredit,
    "billing_hard_limit_reached": OutOfCredit,
    "billing_not_active": OutOfCredit,
    "rate_limit_exceeded": RateLimited,
    "server_error": ProviderDown,
    "server_is_overloaded": ProviderDown,
    "slow_down": RateLimited,
    "invalid_api_key": KeyRefused,
    "previous_response_not_found": RequestRefused,
    "invalid_prompt": RequestRefused,
}

_STATES: dict[int, type[ModelFailed]] = {
    401: KeyRefused,
    402: OutOfCredit,
    403: KeyRefused,
    404: ModelUnknown,
    408: ProviderDown,
    409: ProviderDown,
    429: RateLimited,
}

#: How servers without a code say that a conversation is too long (vLLM, LM Studio, SGLang).
_TOO_LONG = re.compile(
    r"(?:this model's maximum context length|the (?:decoder )?prompt \(length|the input \(\d+ tokens\) is longer"
    r"|requested token count exceeds|trying to keep the first \d+ tokens"
    r"|'?max_(?:completion_)?tokens'?.{0,80} is too large: \d+\. this model's maximum context)",
    re.IGNORECASE,
)
#: A dozen codes tell what is wrong with an image.
_PICTURE = re.compile(r"(?:^|_)image(?:_|$)")
_REFUSED = frozenset({400, 413, 422})


def failure(kind: type[ModelFailed], detail: str) -> ModelFailed:
    """An error that a person can name and an operator can find."""
    error_id = secrets.token_hex(4)
    why = f"{phrases.MODEL_FAILED[kind.code]} (error {error_id})"
    return kind(why, detail=f"error {error_id}: {' '.join(detail.split())[:_DETAIL]}")


def of(exc: Exception, *, streaming: bool = False) -> ModelFailed:
    """What the SDK raised. Whatever else comes out of a stream is a server that sends nonsense."""
    return failure(_kind(exc, streaming), _detail(exc))


def of_code(code: str | None, message: str | None) -> ModelFailed:
    """An error that came as an event."""
    kind = RequestRefused if _PICTURE.search(code or "") else ProviderDown
    return failure(_by_code(code) or _by_text(message) or kind, f"event {code}: {message}")


def _kind(exc: Exception, streaming: bool) -> type[ModelFailed]:
    match exc:
        case openai.APITimeoutError():
            return ModelStalled
        case openai.APIConnectionError():
            return AnswerCut if streaming else ProviderDown
        case openai.APIStatusError():
            return _of_status(exc)
        case openai.APIError():
            return _by_code(exc.code) or _by_code(exc.type) or _by_text(exc.message) or ProviderDown
        case _:
            return AnswerCut


def _of_status(exc: openai.APIStatusError) -> type[ModelFailed]:
    if known := _by_code(exc.code) or _by_code(exc.type):
        return known
    if exc.status_code in _REFUSED and (long := _by_text(_message(exc))):
        return long
    if exc.status_code >= 500:
        return ProviderDown
    return _STATES.get(exc.status_code, RequestRefused)


def _by_code(code: str | None) -> type[ModelFailed] | None:
    return _CODES.get(code) if isinstance(code, str) else None


def _by_text(message: object) -> type[ModelFailed] | None:
    return ContextExceeded if isinstance(message, str) and _TOO_LONG.match(message) else None


def _message(exc: openai.APIError) -> object:
    """Of the body: the SDK's own message has the state before it."""
    return exc.body.get("message") if isinstance(exc.body, dict) else exc.message


def _detail(exc: Exception) -> str:
    if isinstance(exc, json.JSONDecodeError):
        return f"not JSON: {exc.doc[:100]!r}"
    told = f"{type(exc).__name__}: {exc}"
    if isinstance(exc, openai.APIStatusError):
        # The SDK leaves out what is not JSON, such as the page of a proxy.
        told += f" (request {exc.request_id})" if exc.request_id else ""
        told += "" if isinstance(exc.body, dict) else f" {exc.response.text[:_DETAIL]}"
    return told


def loses_chain(failed: ModelFailed) -> bool:
    """Whether a server may mean that it does not know the answer to follow, or can follow it no more.

    Servers say it in many ways, so anything that is wrong with the request counts but a model that is named unknown.
    """
    unknown = getattr(failed.__cause__, "code", None) == _NO_MODEL
    return isinstance(failed, RequestRefused | ModelUnknown | ContextExceeded) and not unknown


def refuses_chains(exc: BaseException | None) -> bool:
    """Whether a server says that it can never follow an earlier answer, as llama.cpp does."""
    text = str(_message(exc)) if isinstance(exc, openai.APIStatusError) else ""
    return "previous_response_id" in text and "support" in text
