"""Every error of the project, in one tree; the message stands in the class.

TrunklineError
├── InvalidKey
├── ConfigError
├── StartError                 the daemon cannot start; carries its exit code
│   ├── AlreadyRunning
│   ├── PortInUse
│   ├── DataDirUnusable
│   ├── DatabaseDamaged
│   ├── NewerDatabase
│   └── BackupUnusable
├── StoreError
│   ├── StoreUnavailable       full disk, I/O: nothing of the batch was written
│   ├── StoreClosed
│   ├── UnknownSession
│   ├── UnknownTurn
│   ├── UnknownMessage
│   ├── UnknownPerson
│   ├── UnknownDelivery
│   ├── UnknownRepo
│   ├── RepoExists
│   ├── RepoBound
│   ├── PersonConfigured
│   ├── UnknownPairing
│   ├── WrongAgent
│   ├── SessionEnded
│   ├── ForbiddenTransition
│   ├── TurnEnded
│   ├── TurnRunning
│   ├── LaneFull
│   ├── NothingToUndo
│   ├── SearchDisabled
│   ├── SessionExists
│   ├── BadImport
│   ├── OwnerProtected
│   ├── NoRoom
│   ├── BackupRefused
│   └── BackupExists
├── UnknownAgent
├── UnknownBudget
├── BadAllowance
├── UnknownCommand
├── UnknownAccount
├── NoWorkspace
├── PathViolation
├── NotARepo
├── RepoNotWanted
├── DiskLow
├── Stopping
├── AgentLimit                 as many agent processes as there may be
├── AgentFailed
│   ├── AgentNotInstalled
│   ├── AgentBroke             its process was lost, and the session with it
│   └── ModelFailed            a language model; what was spent on the attempt is known
│       ├── AnswerCut
│       ├── EmptyAnswer
│       ├── AnswerRefused
│       ├── KeyRefused
│       ├── OutOfCredit
│       ├── ContextExceeded
│       ├── RateLimited
│       ├── ModelUnknown
│       ├── ProviderDown
│       ├── ModelStalled
│       ├── RequestRefused
│       └── ToolNotOffered
├── TurnTimedOut
├── SummaryUseless
├── ChannelSilent
└── DeliveryFailed
"""

from __future__ import annotations

from typing import Any, ClassVar


class TrunklineError(Exception):
    """Base of all: `message` is a template over the keyword facts, `code` names it in logs and answers."""

    code: ClassVar[str] = "error"
    message: ClassVar[str] = "Something went wrong."

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        super().__init__(self.message.format(**facts))


class InvalidKey(TrunklineError):
    code = "invalid_key"
    message = "Not a session key: {text!r} ({why})."


class ConfigError(TrunklineError):
    """One or more problems in the configuration, each a sentence of its own."""

    code = "bad_configuration"
    message = "{problems}"

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__(problems="\n".join(problems))


class StartError(TrunklineError):
    """The daemon cannot start; `exit_code` follows sysexits.h."""

    exit_code: ClassVar[int] = 1


class AlreadyRunning(StartError):
    code = "already_running"
    exit_code = 75
    message = (
        "Another trunkline{pid} uses the data directory {path}. Stop it first, or give this one its own "
        "[gateway] data_dir."
    )


class PortInUse(StartError):
    code = "port_in_use"
    exit_code = 69
    message = "Cannot listen on {listen}: {why}. Set another [http] listen, or stop the program that uses this one."


class DataDirUnusable(StartError):
    code = "data_dir_unusable"
    exit_code = 73
    message = "Cannot write in the data directory {path}: {why}. Make it writable, or set another [gateway] data_dir."


class DatabaseDamaged(StartError):
    code = "database_damaged"
    exit_code = 65
    message = (
        "The database {path} cannot be read: {why}. Nothing was changed. Restore a backup, or move the file "
        "aside to start empty."
    )


class NewerDatabase(StartError):
    code = "newer_database"
    exit_code = 65
    message = (
        "The database {path} was written by a newer trunkline (it has {unknown}). Nothing was changed. "
        "Update trunkline, or restore the backup made before the update."
    )


class BackupUnusable(StartError):
    code = "backup_unusable"
    exit_code = 65
    message = "The backup {path} cannot be restored: {why}. Nothing was changed."


class StoreError(TrunklineError):
    code = "store"


class StoreUnavailable(StoreError):
    code = "store_unavailable"
    message = "The database cannot be written now: {why}. Nothing was stored; try again."


class StoreClosed(StoreError):
    code = "store_closed"
    message = "The store is closed."


class UnknownSession(StoreError):
    code = "unknown_session"
    message = "There is no session {session}."


class UnknownTurn(StoreError):
    code = "unknown_turn"
    message = "There is no turn {turn} in this session."


class UnknownMessage(StoreError):
    code = "unknown_message"
    message = "There is no message {message_id} in this session."


class UnknownPerson(StoreError):
    code = "unknown_person"
    message = "There is no person {person}."


class UnknownDelivery(StoreError):
    code = "unknown_delivery"
    message = "There is no parked delivery {delivery}."


class UnknownRepo(StoreError):
    code = "unknown_repository"
    message = "There is no repository {repo} in the list. `trunkline repos scan` renews it."


class RepoExists(StoreError):
    code = "repository_exists"
    message = "The repository at {path} is already called {name!r}. Choose another name."


class RepoBound(StoreError):
    code = "repository_bound"
    message = "Session {session} is bound to another repository, for life. Start a new session."


class PersonConfigured(StoreError):
    code = "person_configured"
    message = "{person} is let in by [people.{name}] in the configuration: remove the table there."


class UnknownPairing(StoreError):
    code = "unknown_pairing"
    message = "There is no open pairing {pairing}: codes are good for one hour and for one use."


class WrongAgent(StoreError):
    code = "wrong_agent"
    message = "Session {session} belongs to another agent than {agent}."


class SessionEnded(StoreError):
    code = "session_ended"
    message = "Session {session} has ended ({status}) and takes no more prompts. Start a new session."

    def __init__(self, *, session: object, status: str) -> None:
        self.status = status
        super().__init__(session=session, status=status)


class ForbiddenTransition(StoreError):
    code = "forbidden_transition"
    message = "A session cannot go from {old} to {new}."

    def __init__(self, *, old: str, new: str) -> None:
        self.old = old
        super().__init__(old=old, new=new)


class TurnEnded(StoreError):
    code = "turn_ended"
    message = "Turn {turn} has already ended ({status})."

    def __init__(self, *, turn: object, status: str) -> None:
        self.status = status
        super().__init__(turn=turn, status=status)


class TurnRunning(StoreError):
    code = "turn_running"
    message = "Session {session} already has a turn that is not finished."


class LaneFull(StoreError):
    code = "too_many_waiting"
    message = "{limit} messages are already waiting here. Wait for an answer, or stop the running one with /stop."


class NothingToUndo(StoreError):
    code = "nothing_to_undo"
    message = "This session has no compaction to undo."


class SearchDisabled(StoreError):
    code = "search_disabled"
    message = "The search is switched off. Set [search] enabled = true and start the daemon again."


class SessionExists(StoreError):
    code = "session_exists"
    message = "Session {session}, or something of it, is here already. Import it with new ids to have it twice."


class BadImport(StoreError):
    code = "bad_import"
    message = "Line {line}: {why}. Nothing was imported."


class OwnerProtected(StoreError):
    code = "owner_protected"
    message = "This person is the owner. To forget the owner all the same, ask for it with really=true."


class NoRoom(StoreError):
    code = "no_room"
    message = "This needs {needed} bytes of free disk at {path}, and {free} are there. Nothing was done."


class BackupRefused(StoreError):
    code = "backup_refused"
    message = "No backup can be written to {path}: {why}."


class BackupExists(StoreError):
    code = "backup_exists"
    message = "There is a file at {path} already, and a backup replaces nothing. Choose another name."


class UnknownAgent(TrunklineError):
    code = "unknown_agent"
    message = "There is no agent called {agent!r}. Configured: {known}."


class UnknownBudget(TrunklineError):
    code = "unknown_budget"
    message = "There is no budget called {budget!r}. Configured: {known}."


class BadAllowance(TrunklineError):
    code = "bad_allowance"
    message = "Nothing was allowed: {why}."


class UnknownCommand(TrunklineError):
    code = "unknown_command"
    message = "{text!r} is no command: they begin with a slash, and /help lists them."


class UnknownAccount(TrunklineError):
    code = "unknown_account"
    message = "There is no account [{channel}.{account}] in the configuration. Configured: {known}."


class NoWorkspace(TrunklineError):
    code = "no_workspace"
    message = "Repositories cannot be used: {why}. Set AGENT_WORKSPACE_ROOT, or [gateway] workspace_root."


class PathViolation(TrunklineError):
    code = "path_violation"
    message = "The path {path!r} is refused: {why}."


class NotARepo(TrunklineError):
    code = "not_a_repository"
    message = "There is no Git repository with a printable name at {path!r}."


class RepoNotWanted(TrunklineError):
    code = "repository_not_wanted"
    message = "The agent {agent!r} does not work in a repository."


class DiskLow(TrunklineError):
    code = "disk_low"
    message = "The disk is nearly full, so nothing new is accepted. Answers already given are still delivered."


class Stopping(TrunklineError):
    code = "stopping"
    message = "The daemon is starting or stopping and takes nothing now. Try again in a moment."


class AgentLimit(TrunklineError):
    code = "agent_limit"
    message = "{limit} agent processes are running, and there may be no more. Try again in {seconds} seconds."

    def __init__(self, *, limit: int, seconds: int = 60) -> None:
        self.retry_after = seconds
        super().__init__(limit=limit, seconds=seconds)


class AgentFailed(TrunklineError):
    """`why` may be shown to a person; `detail` is for the log only."""

    code = "agent_failed"
    message = "The agent could not answer: {why}"

    def __init__(self, why: str, *, detail: str = "") -> None:
        self.why = why
        self.detail = detail
        super().__init__(why=why)


class AgentNotInstalled(AgentFailed):
    """There is no such program."""

    code = "agent_not_installed"
    message = "The agent is not installed: {why}"


class AgentBroke(AgentFailed):
    """The agent's process was lost. `note` is what the history keeps of it."""

    code = "agent_broke"
    message = "The agent broke down: {why}"

    def __init__(self, why: str, *, note: str = "", detail: str = "") -> None:
        self.note = note
        super().__init__(why, detail=detail)


class ModelFailed(AgentFailed):
    """A language model gave no answer. `why` holds an id under which the log has the provider's own words."""

    code = "model_failed"
    #: Whether another model may do better.
    elsewhere: ClassVar[bool] = False

    def __init__(self, why: str, *, detail: str = "") -> None:
        #: Tokens that were used all the same, as the fields of a usage; empty if the provider told nothing.
        self.spent: dict[str, Any] = {}
        super().__init__(why, detail=detail)


class AnswerCut(ModelFailed):
    """The stream ended without its closing event, or in the middle of one."""

    code = "answer_cut"
    message = "The model's answer broke off: {why}"
    elsewhere = True


class EmptyAnswer(ModelFailed):
    code = "empty_answer"
    message = "The model said nothing: {why}"


class AnswerRefused(ModelFailed):
    """By the model itself, or by a content filter."""

    code = "answer_refused"
    message = "The model would not answer: {why}"


class KeyRefused(ModelFailed):
    code = "key_refused"
    message = "The provider refused the key: {why}"


class OutOfCredit(ModelFailed):
    code = "out_of_credit"
    message = "The provider's account is used up: {why}"


class ContextExceeded(ModelFailed):
    """The conversation is longer than the model can read. A compaction may help."""

    code = "context_exceeded"
    message = "The conversation is too long for the model: {why}"
    #: Part of the answer has been seen already.
    begun = False


class RateLimited(ModelFailed):
    code = "rate_limited"
    message = "The provider limits the requests: {why}"
    elsewhere = True


class ModelUnknown(ModelFailed):
    code = "model_unknown"
    message = "The provider does not know the model: {why}"
    elsewhere = True


class ProviderDown(ModelFailed):
    code = "provider_down"
    message = "The provider has trouble: {why}"
    elsewhere = True


class ModelStalled(ModelFailed):
    """Nothing came for too long."""

    code = "model_stalled"
    message = "The model went silent: {why}"
    elsewhere = True


class RequestRefused(ModelFailed):
    """The provider finds fault with the request itself."""

    code = "request_refused"
    message = "The provider refused the request: {why}"


class ToolNotOffered(ModelFailed):
    """All that the model did was to call a tool that it was not given."""

    code = "tool_not_offered"
    message = "The model called a tool that it does not have: {why}"


class TurnTimedOut(TrunklineError):
    code = "turn_timed_out"
    message = "The agent took longer than {seconds:g} seconds and was stopped."


class SummaryUseless(TrunklineError):
    """A compaction came to nothing; the history is as it was."""

    code = "summary_useless"
    message = "No summary was made: {why}."


class ChannelSilent(TrunklineError):
    code = "channel_silent"
    message = "No sign of life for {seconds:g} seconds; it is started again."


class DeliveryFailed(TrunklineError):
    """A channel could not send.

    `ambiguous`: the platform may have the message all the same. `blocked`: the chat is closed to us (blocked, removed,
    deleted) until somebody writes there again.
    """

    code = "delivery_failed"
    message = "Not delivered: {why}"

    def __init__(
        self,
        why: str,
        *,
        retryable: bool,
        retry_after: float | None = None,
        ambiguous: bool = False,
        blocked: bool = False,
    ) -> None:
        self.why = why
        self.retryable = retryable
        self.retry_after = retry_after
        self.ambiguous = ambiguous
        self.blocked = blocked
        super().__init__(why=why)
