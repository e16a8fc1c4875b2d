"""What is said about a process that was lost: to the log, and to the history of its session."""

from __future__ import annotations

import logging

from gateway import phrases
from gateway.agents.acp.process import Process
from gateway.agents.acp.terms import Terms
from gateway.logs import Event, log
from store.content import clean


def report(process: Process, reason: str, terms: Terms, session_id: str) -> None:
    log(
        Event.AGENT_CRASHED,
        logging.ERROR,
        session=session_id,
        agent=terms.agent,
        pid=process.pid,
        reason=reason,
        ending=process.ending,
        stderr=terms.redact(process.complaints) or None,
    )


def note_of(process: Process, reason: str, terms: Terms) -> str:
    """With the end of what it wrote to standard error."""
    how = reason if process.running else process.ending
    told = clean(terms.redact(process.complaints))
    text = phrases.NOTE_AGENT_BROKE.format(how=how)
    return f"{text}\n\n{told}" if told else text
