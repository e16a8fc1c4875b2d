"""The log: one line per event, under names that do not change, with every known secret masked."""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum

from gateway.quoting import quote


class Event(StrEnum):
    """What operators search and count; a name stays once it was released."""

    DAEMON_STARTED = "daemon_started"
    DAEMON_READY = "daemon_ready"
    DAEMON_STOPPING = "daemon_stopping"
    DAEMON_STOPPED = "daemon_stopped"
    DAEMON_FAILED = "daemon_failed"
    CONFIG_WARNING = "config_warning"
    MIGRATION = "migration"
    RECOVERY = "recovery"
    BUDGET_SPENT = "budget_spent"
    BUDGET_ALLOWED = "budget_allowed"
    MESSAGE_ACCEPTED = "message_accepted"
    MESSAGE_DUPLICATE = "message_duplicate"
    MESSAGE_FAILED = "message_failed"
    ACCESS_REFUSED = "access_refused"
    LANE_OVERFLOW = "lane_overflow"
    SESSION_CREATED = "session_created"
    SESSION_ENDED = "session_ended"
    SESSION_IDLE = "session_idle"
    SESSION_REMOVED = "session_removed"
    SESSION_MOVED = "session_moved"
    SESSION_IMPORTED = "session_imported"
    TURN_STARTED = "turn_started"
    TURN_COMPLETED = "turn_completed"
    TURN_FAILED = "turn_failed"
    TURN_STOPPED = "turn_stopped"
    TURN_TIMEOUT = "turn_timeout"
    TURN_RERUN = "turn_rerun"
    TURN_QUARANTINED = "turn_quarantined"
    QUESTION_ASKED = "question_asked"
    QUESTION_DECIDED = "question_decided"
    #: Somebody pressed a button and may not, or too late.
    PRESS_REFUSED = "press_refused"
    COMPACTION_DONE = "compaction_done"
    COMPACTION_FAILED = "compaction_failed"
    #: The deadline came first: the reply goes out, and the summary is still being written.
    COMPACTION_SLOW = "compaction_slow"
    #: The agent cannot summarise, so its old messages are left out.
    COMPACTION_FALLBACK = "compaction_fallback"
    #: A model could not read the whole context; the turn is tried once more with less.
    CONTEXT_EXCEEDED = "context_exceeded"
    DELIVERY_SENT = "delivery_sent"
    DELIVERY_RETRY = "delivery_retry"
    DELIVERY_UNCERTAIN = "delivery_uncertain"
    DELIVERY_PARKED = "delivery_parked"
    #: A path that leads out of the workspace root was refused.
    PATH_VIOLATION = "path_violation"
    REPOSITORY_UNKNOWN = "repository_unknown"
    REPOSITORY_ADDED = "repository_added"
    REPOSITORY_REMOVED = "repository_removed"
    REPOSITORIES_SCANNED = "repositories_scanned"
    MESSAGE_EDITED = "message_edited"
    MESSAGE_CANCELLED = "message_cancelled"
    CHAT_MOVED = "chat_moved"
    PERSON_APPROVED = "person_approved"
    PERSON_REVOKED = "person_revoked"
    AGENT_STUCK = "agent_stuck"
    #: A process of an agent: with its repository, for audit.
    AGENT_STARTED = "agent_started"
    AGENT_ENDED = "agent_ended"
    AGENT_CRASHED = "agent_crashed"
    AGENT_NOT_INSTALLED = "agent_not_installed"
    #: No sign of life in the middle of a turn.
    AGENT_SILENT = "agent_silent"
    AGENT_CANCELLED = "agent_cancelled"
    AGENT_LINE_REFUSED = "agent_line_refused"
    #: A way of taking up an old session did not work; the next one is tried.
    AGENT_NOT_RESUMED = "agent_not_resumed"
    AGENT_PERMISSION = "agent_permission"
    #: How many processes there are now.
    AGENT_COUNT = "agent_count"
    AGENT_LIMIT = "agent_limit"
    #: Left by a daemon that was killed.
    AGENT_REAPED = "agent_reaped"
    FILE_FAILED = "file_failed"
    CHANNEL_CONNECTED = "channel_connected"
    CHANNEL_TROUBLE = "channel_trouble"
    CHANNEL_FAILED = "channel_failed"
    PERSON_FORGOTTEN = "person_forgotten"
    BACKUP_MADE = "backup_made"
    RETENTION = "retention"
    SEARCH_INDEXING = "search_indexing"
    SEARCH_INDEXED = "search_indexed"
    SEARCH_OFF = "search_off"
    HTTP_REFUSED = "http_refused"
    HTTP_ERROR = "http_error"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_RECOVERED = "store_recovered"
    DISK_LOW = "disk_low"
    DISK_OK = "disk_ok"
    #: A line of a library, with its `logger` and `message`.
    LOG = "log"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


_logger = logging.getLogger("trunkline")

_HEAD = frozenset({"time", "level", "event"})
_PLAIN = re.compile(r'[^\s"=\\]+')
#: Beyond it, and for NaN, a text is safer to read back.
_LARGEST_NUMBER = 2**63

Scalar = str | int | float


def log(event: Event, level: int = logging.INFO, *, exc: BaseException | None = None, **fields: object) -> None:
    """Write one event. Fields that are None are left out; an exception brings `error` and `traceback`."""
    _logger.log(level, event.value, exc_info=exc, extra={"fields": fields})


def setup(format: LogFormat, level: int, secrets: Iterable[str]) -> None:
    """Send every logger of the process to stderr in this format; replaces an earlier setup."""
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each.formatter, LineFormatter)]:
        root.removeHandler(handler)
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(format, secrets))
    root.addHandler(handler)
    root.setLevel(level)
    # A log that cannot be written must not spill what it was to write, unmasked, to stderr.
    logging.raiseExceptions = False
    logging.getLogger("aiohttp.access").disabled = True
    # It tells every rule that it tries.
    logging.getLogger("markdown_it").setLevel(logging.WARNING)


def mask(secret: str) -> None:
    """Mask one more secret from now on, such as a token that was made at the start."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, LineFormatter):
            handler.formatter.mask(secret)


class Redactor:
    """Masks the known secrets in a text: plain, escaped as in code and JSON, percent-encoded as in URLs."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: what contains another one goes as a whole.
        self._plain = sorted(set(secrets) - {""}, key=len, reverse=True)
        escaped = {spelling for secret in self._plain for spelling in _escaped(secret)}
        self._escaped = sorted(escaped.difference(self._plain), key=len, reverse=True)
        self._encoded = [_percent_encoded(secret) for secret in self._plain]

    def __call__(self, text: str) -> str:
        # In this order, because an escaped or encoded spelling may contain the plain one.
        for spelling in self._escaped:
            text = text.replace(spelling, "***")
        if "%" in text or "+" in text:
            for pattern in self._encoded:
                text = pattern.sub("***", text)
        for secret in self._plain:
            text = text.replace(secret, "***")
        return text


def _escaped(secret: str) -> Iterator[str]:
    for quoted in (repr(secret), quote(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        yield quoted[1:-1]


def _percent_encoded(secret: str) -> re.Pattern[str]:
    """Matches whichever characters are encoded: no two libraries choose the same."""

    def either(char: str) -> str:
        encoded = "".join(f"%{byte:02x}" for byte in char.encode(errors="replace"))
        return f"(?:(?i:{encoded})|{re.escape(char)}{'|[+]' if char == ' ' else ''})"

    return re.compile("".join(map(either, secret)))


class LineFormatter(logging.Formatter):
    """One record, one line. Never raises: a record that cannot be formatted is still a line."""

    def __init__(self, format: LogFormat, secrets: Iterable[str]) -> None:
        super().__init__()
        self._line = _json_line if format is LogFormat.JSON else _text_line
        self._secrets = tuple(secrets)
        self._redact = Redactor(self._secrets)

    def mask(self, secret: str) -> None:
        self._secrets = (*self._secrets, secret)
        self._redact = Redactor(self._secrets)

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Scalar] = {
            "time": _time(record.created),
            "level": record.levelname,
            "event": Event.LOG.value if _fields(record) is None else record.getMessage(),
        }
        for name, value in self._details(record):
            fields[f"{name}_" if name in _HEAD else name] = self._masked(value)
        return self._line(fields)

    def _details(self, record: logging.LogRecord) -> Iterator[tuple[str, object]]:
        own = _fields(record)
        yield from {"logger": record.name, "message": _message(record)}.items() if own is None else own.items()
        exc = record.exc_info[1] if record.exc_info else None
        if exc is not None:
            yield "error", f"{type(exc).__name__}: {_text(exc)}"
            yield "traceback", "".join(traceback.format_exception(exc)).rstrip()

    def _masked(self, value: object) -> Scalar:
        text = _text(value)
        masked = self._redact(text)
        if masked == text and isinstance(value, bool | int | float) and abs(value) < _LARGEST_NUMBER:
            return value
        return masked


def _fields(record: logging.LogRecord) -> dict[str, object] | None:
    """The fields of one of our own events; None for a record of a library."""
    fields = getattr(record, "fields", None)
    if record.name != _logger.name or not isinstance(fields, dict):
        return None
    return {name: value for name, value in fields.items() if value is not None}


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # a library's format string does not fit its arguments
        return f"{_text(record.msg)} {_text(record.args)}"


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # whatever a foreign __str__ raises
        return f"<{type(value).__name__}>"


def _time(created: float) -> str:
    moment = datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")
    return moment.removesuffix("+00:00") + "Z"


def _json_line(fields: dict[str, Scalar]) -> str:
    return json.dumps(fields)


def _text_line(fields: dict[str, Scalar]) -> str:
    rest = dict(fields)
    head = [_value(rest.pop(name)) for name in ("time", "level", "event")]
    return " ".join([*head, *(f"{name}={_value(value)}" for name, value in rest.items())])


def _value(value: Scalar) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if _PLAIN.fullmatch(text) and text.isprintable() else quote(text)
