"""Every sentence that a chat user can see, in one place."""

from __future__ import annotations

HELP = """Write to me and the agent answers. Commands:
/new – start a new conversation
/stop – stop the running answer
/compact – set old messages aside to make room; nothing is lost
/uncompact – take the last compaction back
/status – what is going on here
/help – this list"""

STOPPED = "Stopped."
NOTHING_RUNNING = "Nothing is running."
STILL_WAITING = "{count} more waiting; they go on."
NEW_SESSION = "A new conversation starts with your next message."
STATUS = "Agent {agent}, {messages} messages in this conversation, {waiting} waiting."
COMPACTED = "Compacted: about {before} tokens of context became {after}. /uncompact takes it back."
UNCOMPACTED = "The last compaction ({strategy}) is taken back; the agent sees the older messages again."
NOTHING_TO_COMPACT = "There is nothing to compact yet."
LANE_FULL = "Not taken: {limit} messages are already waiting here. Wait for an answer, or send /stop."
MAYBE_REPEAT = "(This may be a repeat: it is not certain that the first one arrived.)"

FAILED = "That did not work. {why}"
FAILED_UNEXPECTED = "Something went wrong on our side (error {error_id}). Please try again."
BROKEN_OFF = "the answer broke off before its end."
EMPTY_ANSWER = "the agent gave no answer."
INTERRUPTED = "The gateway was restarted while this was being answered. Send it again if you still need it."
QUARANTINED = "This message was being answered each time the gateway went down, so it is set aside. Please rephrase it."
NO_SUCH_AGENT = "The agent {agent} is no longer configured."
TIMED_OUT = "It took longer than {seconds:g} seconds and was stopped."

#: System messages: what a history says about an instruction that was not carried out.
NOTE_STOPPED = "Stopped by the user before the answer was complete. The request above was not finished."
NOTE_FAILED = "The request above failed and was not finished: {why}"
NOTE_CANCELLED = "The session was cancelled: {reason}"
NOTE_COMPACTED = "Earlier messages are left out here to save space."
