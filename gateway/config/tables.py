"""The tables of the file. Values are taken as TOML types them: no text counts as a number or as true."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from gateway.agents.acp.permissions import Mode
from gateway.agents.acp.presets import Launch, Preset, launch
from gateway.agents.local.places import small_model
from gateway.config import environment
from gateway.config.environment import surroundings
from gateway.config.fields import (
    Address,
    Approvers,
    Chat,
    Count,
    Directory,
    Id,
    Ids,
    Label,
    Listen,
    Name,
    NumericId,
    NumericIds,
    Seconds,
    SocketUrl,
    Url,
    Zone,
    wrong,
)
from gateway.config.secrets import EnvName, EnvValue, Secret
from gateway.days import Period
from routing.access import DmPolicy, Policy
from routing.keys import PeerKind
from routing.scopes import DmScope, GroupScope, Scopes


class Table(BaseModel):
    # The input is hidden because it may hold a secret.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)


def _idle_minutes(value: float, info: ValidationInfo) -> float:
    return environment.idle_minutes(surroundings(info).env) or value


def _workspace_root(value: Path | None, info: ValidationInfo) -> Path | None:
    if value is not None and not environment.is_workspace(value):
        raise wrong("must not be the whole file system")
    return environment.workspace_root(surroundings(info).env) or value


class Gateway(Table):
    data_dir: Directory
    #: None: what no binding matches stays unanswered.
    default_agent: Annotated[str | None, AfterValidator(lambda text: text or None)] = None
    #: How long running turns may go on after the signal to stop.
    drain_seconds: Annotated[float, Field(ge=0, le=86_400)] = 20.0
    #: Below this much free disk nothing new is accepted.
    disk_reserve_mb: Annotated[int, Field(ge=0, le=1_000_000_000)] = 200
    idle_minutes: Annotated[
        float,
        Field(gt=0, le=environment.MINUTES_PER_YEAR, validate_default=True),
        AfterValidator(_idle_minutes),
    ] = 30.0
    #: Processes of agents that run at the same time.
    max_agent_processes: Annotated[int, Field(ge=1, le=1000)] = 5
    #: In which days and months of budgets and reports begin.
    timezone: Annotated[Zone, Field(validate_default=True)] = ""
    #: Agents work in repositories below it and nowhere else.
    workspace_root: Annotated[Directory | None, Field(validate_default=True), AfterValidator(_workspace_root)] = None


def _admin_token(value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
    around = surroundings(info)
    token = environment.admin_token(around.env)
    if token is not None:
        around.secrets.append(token)
    return token or value


class Http(Table):
    # Stands before `listen`, whose check needs it.
    admin_token: Annotated[Secret | None, Field(validate_default=True), AfterValidator(_admin_token)] = None
    listen: Address = Listen("127.0.0.1", 8787)

    @field_validator("listen")
    @classmethod
    def _not_open_to_everybody(cls, listen: Listen, info: ValidationInfo) -> Listen:
        if not listen.loopback and "admin_token" in info.data and info.data["admin_token"] is None:
            raise wrong(
                "is open to other machines, and that needs an admin token: set the environment variable "
                f"{environment.ADMIN_TOKEN} or [http] admin_token, or listen on 127.0.0.1"
            )
        return listen


class Search(Table):
    enabled: bool = True


#: 0 keeps for ever.
Days = Annotated[int, Field(ge=0, le=36_500)]


class Retention(Table):
    #: What was said in sessions that ended so long ago. A live session keeps everything.
    messages_days: Days = 0
    #: Ended sessions, with all that belongs to them.
    sessions_days: Days = 0
    #: How long the external ids of answered messages are remembered.
    inbox_days: Days = 30
    #: How long delivered rows stay, for operators.
    outbox_days: Days = 7


class MemoryTable(Table):
    dm: Annotated[DmPolicy, Field(strict=False)] = DmPolicy.PAIRING
    allow: Ids = frozenset()
    groups: Ids = frozenset()
    mention: bool = True
    #: Groups in which everything is answered, whatever `mention` says.
    always: Ids = frozenset()
    #: Bots that are answered, a few times an hour.
    bots: Ids = frozenset()
    #: Messages of a group, not addressed to the bot, that its next answer there is told about.
    overhear: Annotated[int, Field(ge=0, le=200)] = 0
    #: Messages per minute that one sender may send; 0 for any number.
    flood: Annotated[int, Field(ge=0, le=10_000)] = 20
    streaming: bool = True

    @property
    def policy(self) -> Policy:
        return Policy(
            dm=self.dm,
            allow=self.allow,
            groups=self.groups,
            mention=self.mention,
            always=self.always,
            bots=self.bots,
            overhear=self.overhear,
            flood=self.flood,
        )


class WebTable(MemoryTable):
    # Whoever can open the page has shown a token already.
    dm: Annotated[DmPolicy, Field(strict=False)] = DmPolicy.OPEN
    flood: Annotated[int, Field(ge=0, le=10_000)] = 0


class PlatformTable(MemoryTable):
    """An account on a platform, where names can change hands and only numbers stay."""

    allow: NumericIds = frozenset()
    groups: NumericIds = frozenset()
    always: NumericIds = frozenset()
    bots: NumericIds = frozenset()
    token: Secret


class TelegramTable(PlatformTable):
    #: The root of another Bot API server than Telegram's own.
    base_url: Url | None = None


class DiscordTable(PlatformTable):
    #: The root of another REST API than Discord's own, and its gateway. The same for every account.
    base_url: Url | None = None
    gateway_url: SocketUrl | None = None


class QueueMode(StrEnum):
    """What happens to messages that arrive while a turn runs."""

    FOLLOWUP = "followup"
    COLLECT = "collect"
    #: The running turn is ended, and the new message starts over.
    INTERRUPT = "interrupt"


class Strategy(StrEnum):
    """What happens to the old part of a conversation when its context is nearly full."""

    NONE = "none"
    #: The last turns stay, what is older is left out.
    WINDOW = "window"
    #: Tool calls before the last turns lose their arguments and results.
    TRIM_TOOLS = "trim_tools"
    #: A model writes down what the old part said.
    SUMMARY = "summary"
    #: The context starts empty again.
    CLEAR = "clear"
    #: By need: tool calls first, then a summary; where there is no summary and no room, the window.
    AUTO = "auto"


class Compaction(Table):
    strategy: Annotated[Strategy, Field(strict=False)] = Strategy.NONE
    keep_turns: Count = 6
    #: How long a reply may wait for it.
    deadline: Seconds = 20.0
    #: Who writes summaries, if not the agent's own model.
    model: Label | None = None


class AgentTable(Table):
    #: For people; the name of the table unless given.
    name: Label = ""
    queue: Annotated[QueueMode, Field(strict=False)] = QueueMode.FOLLOWUP
    dm_scope: Annotated[DmScope, Field(strict=False)] = DmScope.PERSON
    group_scope: Annotated[GroupScope, Field(strict=False)] = GroupScope.GROUP
    turn_timeout: Seconds = 300.0
    #: Turns of this agent that run at the same time.
    max_turns: Count = 64
    #: Messages that wait in one conversation.
    max_waiting: Count = 50
    #: In tokens.
    context_window: Annotated[int, Field(ge=1, le=1_000_000_000)] = 8192
    compaction: Compaction = Compaction()
    #: Who besides the owner decides what the agent may do: names of [people], or channel:id.
    approvers: Approvers = ()
    #: How long a request for permission waits for somebody; then it is rejected.
    permission_timeout: Seconds = 600.0

    @property
    def scopes(self) -> Scopes:
        return Scopes(dm=self.dm_scope, group=self.group_scope)


class BuiltinAgent(AgentTable):
    kind: Literal["builtin"]
    # It only counts what it is given.
    context_window: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1024


class ModelApi(StrEnum):
    """How a model is spoken to."""

    #: The server remembers its answers, so that a conversation need not be sent again.
    RESPONSES = "responses"
    #: What every compatible server has.
    CHAT = "chat"


def _model(text: str) -> str:
    if not 0 < len(text) <= 200 or not text.isprintable() or text != text.strip():
        raise wrong("must be the name of a model")
    return text


def _models(value: object) -> object:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise wrong('must be a list of names in brackets, such as ["one", "other"]')
    return tuple(value)


ModelName = Annotated[str, AfterValidator(_model)]


class OpenAIAgent(AgentTable):
    kind: Literal["openai"]
    api: Annotated[ModelApi, Field(strict=False)] = ModelApi.RESPONSES
    model: ModelName
    #: Tried in this order, within the same turn, when the model cannot answer.
    fallback_models: Annotated[tuple[ModelName, ...], BeforeValidator(_models)] = ()
    #: None: OpenAI's own server. Stands before `api_key`, whose check needs it.
    base_url: Url | None = None
    api_key: Annotated[Secret | None, Field(validate_default=True)] = None
    instructions: str = ""
    # None: what the server chooses.
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_output_tokens: Count | None = None
    #: Whether the model can be shown images.
    images: bool = False
    #: A model that says nothing for so long is given up.
    stall_timeout: Seconds = 120.0
    # Well below what current models read: room for the answer, and a price for every turn.
    context_window: Annotated[int, Field(ge=1, le=1_000_000_000)] = 32_768

    @field_validator("api_key")
    @classmethod
    def _key_for_openai(cls, key: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if key is None and "base_url" in info.data and info.data["base_url"] is None:
            why = "OpenAI needs one; for another server, which may need none, set base_url"
            raise PydanticCustomError("secret", "{why}", {"why": why})
        return key


def _model_file(value: object, info: ValidationInfo) -> Path:
    around = surroundings(info)
    if value is None:
        small = small_model(around.env)
        if small is None:
            raise wrong("must be given, because there is no home directory in which a fetched model could be")
        return small
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise wrong("must be the path of a .gguf file, as a text in quotes")
    return around.path(value)


class LocalAgent(AgentTable):
    kind: Literal["local"]
    #: Unless given, what `trunkline local fetch` gets.
    model: Annotated[Path, Field(validate_default=True), BeforeValidator(_model_file)] = cast(Path, None)
    instructions: str = ""
    max_output_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    #: None: all cores but one.
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    # Each one has a whole context in memory, and they share the same cores.
    max_turns: Annotated[int, Field(ge=1, le=64)] = 1
    # With room for the answer it is what small models were trained on.
    context_window: Annotated[int, Field(ge=256, le=10_000_000)] = 4096


class OnCancel(StrEnum):
    """What happens to an agent's process when a turn was broken off."""

    #: It goes on with the next one, if it stopped in time.
    KEEP = "keep"
    RESTART = "restart"


def _command(value: object, info: ValidationInfo) -> tuple[str, ...]:
    if info.data.get("preset") is Preset.GEMINI and (path := environment.gemini_cli(surroundings(info).env)):
        return (path,)
    if value is None:
        if "preset" in info.data and info.data["preset"] is None:
            raise wrong("must be given, or a preset")
        return ()
    if not isinstance(value, list) or not value or not all(isinstance(part, str) and part for part in value):
        raise wrong('must be a program with its arguments, such as ["my-agent", "--acp"]')
    return tuple(value)


class AcpAgent(AgentTable):
    kind: Literal["acp"]
    #: One of the agents that are known by name. Stands before `command`, whose check needs it.
    preset: Annotated[Preset, Field(strict=False)] | None = None
    #: With a preset: another program (one element), or another program with other arguments.
    command: Annotated[tuple[str, ...], Field(validate_default=True), BeforeValidator(_command)] = cast(
        tuple[str, ...], None
    )
    #: Beside the little that it inherits. Values that come from a variable or a file are secrets.
    env: dict[EnvName, EnvValue] = {}
    #: In which it works, by its name or its id (`trunkline repos list`).
    repo: str = ""
    permissions: Annotated[Mode, Field(strict=False)] = Mode.ASK
    on_cancel: Annotated[OnCancel, Field(strict=False)] = OnCancel.KEEP
    #: How long the process may take to start, and again to take up a session.
    start_timeout: Seconds = 60.0
    #: Without a sign of life for so long, people are told; the turn goes on.
    silence_timeout: Seconds = 60.0
    # An agent that works on a repository takes its time.
    turn_timeout: Seconds = 3600.0
    # What it is told of a conversation that it has lost.
    context_window: Annotated[int, Field(ge=1, le=1_000_000_000)] = 32_768

    @property
    def launch(self) -> Launch:
        return launch(self.preset, self.command)


#: The union of all kinds.
AgentConfig = BuiltinAgent | OpenAIAgent | LocalAgent | AcpAgent


class BindingTable(Table):
    agent: str
    channel: str | None = None
    account: str | None = None
    guild: Id | None = None
    role: Id | None = None
    peer_kind: Annotated[PeerKind, Field(strict=False)] | None = None
    peer: Id | None = None
    thread: Id | None = None
    sender: Id | None = None


class PersonTable(Table):
    telegram: NumericId | None = None
    discord: NumericId | None = None
    owner: bool = False


class BudgetTable(Table):
    # Each of these is a name, or "*" for a budget that everybody, every agent or every group has alone. What is not
    # given does not matter.
    person: str | None = None
    agent: str | None = None
    chat: Chat | None = None
    per: Annotated[Period, Field(strict=False)] = Period.DAY
    tokens: Annotated[int, Field(ge=1, le=10**15)] | None = None
    #: US dollars.
    money: Annotated[float, Field(gt=0, le=1_000_000_000)] | None = None


class File(Table):
    gateway: Gateway
    http: Http
    search: Search = Search()
    retention: Retention = Retention()
    web: dict[Name, WebTable] = {}
    telegram: dict[Name, TelegramTable] = {}
    discord: dict[Name, DiscordTable] = {}
    memory: dict[Name, MemoryTable] = {}
    agents: dict[Name, Annotated[AgentConfig, Field(discriminator="kind")]]
    bindings: list[BindingTable] = []
    people: dict[Name, PersonTable] = {}
    budgets: dict[Name, BudgetTable] = {}


CHANNELS = ("web", "telegram", "discord", "memory")
