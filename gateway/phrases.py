"""Every sentence that a chat user can see, in one place."""

from __future__ import annotations

#: Commands with what they do, as help and menus show them.
COMMANDS = {
    "help": "what I understand",
    "new": "start a new conversation",
    "stop": "stop the running answer",
    "retry": "answer the last request once more",
    "resend": "show the last answer again",
    "status": "what is going on here",
    "history": "the last messages of this conversation",
    "sessions": "your conversations",
    "export": "this conversation as a file",
    "agent": "who answers here",
    "compact": "set old messages aside to make room; nothing is lost",
    "uncompact": "take the last compaction back",
    "pin": "keep a message in view of the agent: reply to it, or name some of its words",
    "unpin": "let go of a pinned message",
    "why": "why a message was not answered",
    "usage": "tokens, cost, and what is left of budgets",
    "tools": "what the agent did for the last request",
    "thoughts": "show what the agent thinks in this chat, or hide it: on or off",
    "choose": "answer what an agent asks, by the number of the option",
    "whoami": "who you are to me",
}

HELP = "\n".join(
    ["Write to me and the agent answers. Commands:", *(f"/{name} – {does}" for name, does in COMMANDS.items())]
)

STOPPED = "Stopped."
NOTHING_RUNNING = "Nothing is running."
STILL_WAITING = "{count} more waiting; they go on."
NEW_SESSION = "A new conversation starts with your next message."
STATUS = "Agent {agent}, {messages} messages in this conversation, {waiting} waiting."
STATUS_RUNNING = "An answer is on its way."
STATUS_IDLE = "Nothing is running."
UNKNOWN_COMMAND = "There is no command /{name}.{hint} /help lists them all."
DID_YOU_MEAN = " Did you mean /{name}?"
KNOWN_ONLY = "In a group only people I know can do that. /whoami tells what I know of you."
OWNER_ONLY = "Only the owner can do that."
NOTHING_TO_RETRY = "There is nothing to retry yet."
STILL_RUNNING = "The last request is still being answered. /stop ends it."
RETRYING = "Once more."
NOTHING_TO_RESEND = "There is no finished answer to show again."
AGENT = "Here {agent} answers (chosen by: {matched_by})."
AGENTS = "There are: {names}. /agent NAME chooses one for this chat, /agent default undoes it."
AGENT_CHOSEN = "From now on {agent} answers here. Each agent has a conversation of its own."
AGENT_UNCHOSEN = "The bindings of the configuration decide again who answers here."
NO_AGENT_CALLED = "There is no agent called {name}. There are: {names}."
NOTHING_TO_EXPORT = "There is nothing to export yet."
EXPORTED = "This conversation so far:"
NO_HISTORY = "Nothing was said in this conversation yet."
HISTORY = "The last of {count} messages:"
NO_SESSIONS = "There are no conversations yet."
SESSIONS = "Your conversations here ({total}), the newest first:"
UNTITLED = "(without a title)"
WHY_HERE = "Here {agent} answers (chosen by: {matched_by})."
WHY_NOTHING = "No message of this chat was turned away lately."
WHY_REFUSED = "The last message that was not answered, {minutes} min ago: {sentence} ({reason})."
WHOAMI = "You are {user}, {role}. This chat is {chat}."
ROLES = {"owner": "the owner", "known": "known to me", "unknown": "not known to me"}
SPEAKERS = {"user": "You", "agent": "Agent", "system": "Note"}

PAIRING = """I do not know you yet ({user}), so somebody has to let you in.
Your code: {code}

Give it to the owner of this bot. It is good for one hour; your message waits and is answered then."""
APPROVED = "{name} ({user}) is approved."
FLOOD = "Too many messages in a short time. What came after this is not answered; wait a minute, please."

COMPACTED = "Compacted: about {before} tokens of context became {after}. /uncompact takes it back."
UNCOMPACTED = "The last compaction ({strategy}) is taken back; the agent sees the older messages again."
NOTHING_TO_COMPACT = "There is nothing to compact yet."
COMPACTING = "The older messages are being summarised. You will be told when it is done, and can go on meanwhile."
NOT_COMPACTED = "No summary could be made, and nothing was changed. The log of the gateway says why."
FOCUS_UNUSED = "(This agent cannot summarise, so older messages are left out as they are.)"
PINNED = "Pinned: {line}"
ALREADY_PINNED = "That is pinned already."
UNPINNED = "No longer pinned: {line}"
NOTHING_TO_PIN = "There is no such message here. Reply to one with /pin, or name some of its words."
NOTHING_PINNED = "No such message is pinned here."
PINS_FULL = "Not pinned: what is pinned may take a quarter of what the agent can read. /unpin makes room."
LANE_FULL = "Not taken: {limit} messages are already waiting here. Wait for an answer, or send /stop."
MAYBE_REPEAT = "(This may be a repeat: it is not certain that the first one arrived.)"

BUDGET_SPENT = (
    "the budget {name} for {period} is spent: {used} of {most}. It begins anew {again}; the owner can allow more."
)
BUDGET_NEAR = "{percent} % of the budget {name} for {period} is used: {used} of {most}."
PERIODS = {"day": "today", "month": "this month"}
TOKENS = "{count:,} tokens"
USAGE = "{what}: {turns}, {tokens}; cost {cost}."
USAGE_ONE, USAGE_MANY = "1 request", "{count:,} requests"
USAGE_NOTHING = "{what}: nothing."
USAGE_BUCKETS = "{input:,} tokens read, {cached:,} read from the cache, {output:,} written, {reasoning:,} thought"
USAGE_UNKNOWN = ", unknown for {count}"
USAGE_ESTIMATED = " ({share:.0%} estimated)"
USAGE_HERE = "This conversation"
USAGE_TODAY = "You, today"
USAGE_MONTH = "You, this month"
UNKNOWN = "unknown"
BUDGET_LEFT = "Budget {name} for {period}: {used} of {most} used."

STILL_WORKING = "Still working ({minutes} min)…"
ANSWERED_BELOW = "Answered below."
REST_IN_FILE = "(The whole answer is in the file below.)"

FAILED = "That did not work. {why}"
FAILED_UNEXPECTED = "Something went wrong on our side (error {error_id}). Please try again."
BROKEN_OFF = "the answer broke off before its end."
EMPTY_ANSWER = "the agent gave no answer."
LOCAL_NOT_STARTED = "the local model could not be started. The log of the gateway says why."
LOCAL_SLOW = "the local model was not ready within {seconds:g} seconds."
LOCAL_NO_RUNTIME = "local models need the package xllamacpp. The owner can install it: pip install 'trunkline[local]'."
LOCAL_NO_MODEL = "its model file cannot be used ({why}). The owner can get the small one: trunkline local fetch."
LOCAL_DIED = "the local model broke down in the middle of its answer and is started again. Please ask once more."
ACP_NOT_INSTALLED = "{name} is not installed on the gateway's machine. The operator has to look at it."
ACP_NO_REPOSITORY = "the repository in which this agent works cannot be used. The operator has to look at it."
ACP_NOT_STARTED = "{name} could not be started. The log of the gateway says why."
ACP_SLOW = "{name} gave no answer within {seconds:g} seconds when it was started."
ACP_VERSION = "{name} speaks version {version} of the protocol, and I do not. The operator has to look at it."
ACP_LOGIN = "{name} is not logged in. The operator has to look at it."
ACP_ERROR = "{name} reported an error. The log of the gateway has its words."
ACP_BROKE = "{name} broke down in the middle of it. Your next message starts it again."
ACP_TOO_LONG = "the agent sent something that is too large to be read."
ACP_REFUSED = "the agent refused to answer this."
ACP_CANCELLED = "the agent broke it off by itself."
ACP_REJECTED = "what the agent wanted to do was not allowed, and it had nothing else to say."
ACP_WORDLESS = "(Done, without a word from the agent.)"
#: Facts about a run, beside its answer.
ACP_SILENT = "No sign of life from the agent for {seconds:g} seconds. It may still answer; /stop ends it."
ACP_QUEUED = "{limit} agents are at work, and there can be no more at a time. Your place in the queue: {position}."
ACP_RESUMED = "The agent was started again and goes on with this conversation."
ACP_RETOLD = "The agent was started again and no longer had this conversation; it was given my record of it."
ACP_FORGOTTEN = "The agent was started again and no longer has this conversation; it begins anew."
ACP_OUTSIDE = "Not allowed, because it reaches beyond the repository: {tool}"
#: Warnings that a turn keeps.
ACP_MOST_REQUESTS = "The agent ended at its limit of requests, not at its own end."
ACP_ODD_END = "The agent's last words were not understood; its answer may not be complete."
CUT_IN = "Interrupted by the next message."
INTERRUPTED = "The gateway was restarted while this was being answered. Send it again if you still need it."
QUARANTINED = "This message was being answered each time the gateway went down, so it is set aside. Please rephrase it."
NO_SUCH_AGENT = "The agent {agent} is no longer configured."
TIMED_OUT = "It took longer than {seconds:g} seconds and was stopped."

#: Why a language model gave no answer, by the code of the error; an id for the log follows.
MODEL_FAILED = {
    "answer_cut": "the model's answer broke off before its end.",
    "empty_answer": "the model gave no answer.",
    "answer_refused": "the model, or a filter of its provider, refused to answer this.",
    "key_refused": "the model's provider does not accept the gateway's key. The operator has to look at it.",
    "out_of_credit": "the gateway's account with the model's provider is used up. The operator has to look at it.",
    "context_exceeded": "this conversation is longer than the model can read. /compact or /new helps.",
    "rate_limited": "the model gets too many requests at the moment. Try again in a few minutes.",
    "model_unknown": "the provider does not know the configured model. The operator has to look at it.",
    "provider_down": "the model's provider cannot be reached or has trouble. Try again in a few minutes.",
    "model_stalled": "the model went silent. Try again in a few minutes.",
    "request_refused": "the model's provider did not accept the request.",
    "tool_not_offered": "the model wanted to use a tool that it does not have.",
}
#: What a run does, in the line below a preview.
TOOL_LINE = "⚙ {tool}… ({done} done)"
TOOLS_LINE = "⚙ ({done} done)"
PLAN_LINE = "☰ {done} of {count} steps"
WAITING_FOR_PERMISSION = "⏸ Waiting for an answer to the request below."
#: Of a run that said nothing.
ONLY_REJECTED = "The tool was rejected; nothing else was said."
ONLY_REJECTED_SEVERAL = "{count} tools were rejected; nothing else was said."
ONLY_TOOLS = "Tools were used ({count}, of them failed: {failed}); nothing was said. /tools shows them."
NO_TOOLS = "No tools were used for the last request."
TOOLS = "Tools used for the last request ({count}):"
THOUGHTS_ON = "What the agent thinks is shown in this chat."
THOUGHTS_OFF = "What the agent thinks is not shown in this chat. /thoughts on shows it."
THOUGHTS_HOW = "Write /thoughts on, or /thoughts off."
CHANGES_CUT = "# {count} more files were changed; they are left out here."
CHANGE_TOO_LARGE = "# This file is too large to be compared here."

#: Questions of agents, and what became of them.
ASKS_PERMISSION = "The agent {agent} asks for permission:"
ASKED_UNTIL = "The owner or somebody named for it can answer. Without an answer it is rejected in {minutes} minutes."
UNNAMED_TOOL = "(a tool without a name)"
#: Before the words of the agent, which must not make a yes look like a no.
OPTION_SIGNS = {"allow_once": "✅", "allow_always": "✅✅", "reject_once": "❌", "reject_always": "❌❌"}
CHOOSE_BY_NUMBER = "Answer with /choose and the number."
CHOSEN = "{option} was chosen by {name}."
YOU_CHOSE = "You chose: {option}"
NOBODY_ANSWERED = "Nobody answered within {minutes} minutes, so it was rejected."
QUESTION_CLOSED = "This request is over because {why}."
QUESTION_OVER = "Nothing was changed. {why}"
QUESTION_UNKNOWN = "This request is not known any more. Nothing was changed."
NOT_YOURS_TO_ANSWER = "Only the owner, or somebody named for it, can answer this. Nothing was changed."
NO_SUCH_OPTION = "There are {count} options; choose one by its number."
NOTHING_TO_CHOOSE = "Nothing is waiting for an answer here."
PRESS_FAILED = "That could not be stored just now. Please press again."
OVER_STOPPED = "the answer was stopped"
OVER_ENDED = "the answer ended without it"
OVER_FAILED = "the answer failed"
OVER_RESTARTED = "the gateway was restarted while it waited"

#: Warnings that a turn keeps.
OTHER_MODEL = "Answered by {model}, because {failed} failed ({why})."
CHAIN_LOST = "The provider no longer had the answer before this one, so the whole conversation was sent again."
ANSWER_LIMITED = "The answer ends at the limit of tokens, not at its own end."
TOOL_IGNORED = "The model also wanted to use a tool that it does not have."

#: System messages: what a history says about an instruction that was not carried out.
NOTE_STOPPED = "Stopped by the user before the answer was complete. The request above was not finished."
NOTE_CUT_IN = "Interrupted by the next message before the answer was complete. The request above was not finished."
NOTE_FAILED = "The request above failed and was not finished: {why}"
NOTE_SHUTDOWN = "The gateway was stopped, and this session with its agent's process."
NOTE_DAEMON_DIED = "The gateway ended unexpectedly, and this session with its agent's process."
NOTE_CANCELLED = "The session was cancelled: {reason}"
NOTE_AGENT_BROKE = "The agent's process was lost ({how}), and this session ended with it."
NOTE_COMPACTED = "Earlier messages are left out here to save space."
