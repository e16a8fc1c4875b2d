"""Writes docs/guarantees.md from the tests themselves: `python -m tests.guarantees > docs/guarantees.md`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent

#: What people who run other gateways suffer from, each with what holds here instead.
ROWS = {
    "P01": "A finished run ends in a visible answer or a visible failure, whatever happens to connection and daemon.",
    "P02": "A send with an unknown outcome is neither lost nor silently repeated: Discord has it once, Telegram "
    "may have it again, with a mark.",
    "P03": "An answer is there once: preview and final are one message.",
    "P04": "What is stored is what is shown, to the last character.",
    "P05": "A message is in the store before its platform is told that we have it.",
    "P06": "A restart repeats nothing; another token for the account makes nobody deaf.",
    "P07": "Messages sent while the agent is busy are answered in order, each by itself; too many are refused aloud.",
    "P08": "Every answer is tied to its question.",
    "P09": "An answer goes where its question came from, however chats interleave.",
    "P10": "Direct chats, groups, topics, threads, accounts and agents do not see each other.",
    "P11": "A new thread starts empty.",
    "P12": "The most specific binding decides, and the bot that was asked answers.",
    "P13": "Topics: the answer stays in its chat, also when the topic is gone; a reply thread is no topic.",
    "P14": "Commands about sessions show and touch only what belongs to whoever asks.",
    "P15": "One chat has one key, on every path.",
    "P16": "A group that becomes a supergroup goes on; one that blocked the bot is parked, shown, and taken up again.",
    "P17": "Calls of tools and their results that lost each other are mended on load, in both directions.",
    "P18": "A failed turn is closed in the history: no later message revives what was asked in it.",
    "P19": "A compaction is tried once per run, and is kept only if the context gets smaller.",
    "P20": "A summary that hangs or is slow holds up no reply beyond its deadline, and nobody else at all.",
    "P21": "A compaction loses nothing: originals stay, the last turns and what is pinned stay verbatim.",
    "P22": "What is said about a compaction is true: its row is there, and the next context has that size.",
    "P23": "No conversation is reset by itself, however long it rested.",
    "P24": "Old pictures and error pages are not sent again, and a long history costs no more than a short one.",
    "P25": "No words of a user are taken for one of our own signals.",
    "P26": "One process writes to the database, and no kill at any moment damages it.",
    "P27": "Tokens are counted once, in buckets that share nothing; unknown is not 0, and an estimate says so.",
    "P28": "Budgets hold back before a run: those that run at once exceed one by a single reservation at most.",
    "P29": "Bots are ignored unless allowed, and then limited per pair.",
    "P30": "A turn that a restart cut is told and can be retried; where an agent changes things, only if asked to.",
    "P31": "No process of an agent outlives its session or the daemon, whatever it started and ignores.",
    "P32": "An agent that does not start fails its turn in time, in clear words; the log has its complaints.",
    "P33": "One agent that hangs holds up its own conversation only, and frees its place in the end.",
    "P34": "Lines of any length and any bytes from an agent are read, or cost one turn with a clear error.",
    "P35": "After a restart a conversation with an agent goes on, or it is told, and given our record of it.",
    "P36": "/stop works within a second, once, and nothing of the stopped answer appears afterwards.",
    "P37": "Text is shown as the agent wrote it: nothing glued, nothing cut, whatever the pieces it came in.",
    "P38": "A conflict over a Telegram token is named in plain words, ridden out, and never ends in limbo.",
    "P39": "A connection that died silently is noticed within a minute and made anew.",
    "P40": "A deaf Discord connection is noticed, and what was said in the gap is answered once.",
    "P41": "A rate limit holds its own chat only, is kept over a restart, and the final arrives once.",
    "P42": "Discord's commands are written only when they changed, and interactions are acknowledged at once.",
    "P43": "Markup that a platform refuses costs the style, never the text.",
    "P44": "Long answers are cut in order, with fences intact, within the limit in the platform's own units.",
    "P45": "Tables can be read on a phone.",
    "P46": "One message that grows: one creation, spaced edits, none equal to the last, no deletions.",
    "P47": "Typing is shown exactly while something works, and long work gives a sign of life.",
    "P48": "No raw error of a provider and no stack trace reaches a chat.",
    "P49": "Albums, split pastes and forwards with a comment are one thought; a short message is not delayed.",
    "P50": "A correction before the start counts; an old edit never runs anything.",
    "P51": "Mention, reply, command or always: every message that is not answered has a reason.",
    "P52": "Only the owner lets people in, and a code is good once. What an agent may do is decided by the owner or "
    "who is named for it, never by whoever asked; the first press counts, without one it is rejected.",
    "P53": "An approval works after a restart, or says why not; the buttons of a request that is over are gone.",
    "P54": "No token in any log, answer or chat.",
    "P55": "The control port is on loopback and closed without a token; elsewhere it does not open without one.",
    "P56": "Only numeric ids decide who may speak, and nothing that looks like one is taken for one.",
    "P57": "Names and titles reach an agent as quoted data on one line, with an id.",
    "P58": "Files are kept under names of our own, inside the session's folder.",
}


def found() -> dict[str, dict[str, list[str]]]:
    """Row → test file → names of the tests that show it."""
    shown: dict[str, dict[str, list[str]]] = {row: {} for row in ROWS}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, row in _marked(ast.parse(path.read_text(encoding="utf-8"))):
            if row in shown:
                shown[row].setdefault(path.relative_to(TESTS.parent).as_posix(), []).append(name)
    return shown


def _marked(module: ast.Module) -> Iterator[tuple[str, str]]:
    everywhere = [row for node in module.body if isinstance(node, ast.Assign) for row in _rows(node.value)]
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            own = [row for decorator in node.decorator_list for row in _rows(decorator)]
            yield from ((node.name, row) for row in dict.fromkeys([*own, *everywhere]))


def _rows(node: ast.expr) -> Iterator[str]:
    """The arguments of every `pytest.mark.req(…)` in an expression."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "req":
            yield from (str(one.value) for one in call.args if isinstance(one, ast.Constant))


def render() -> str:
    lines = [
        "# What is guaranteed, row by row",
        "",
        "What people who run other chat gateways suffer from, turned round, each with the tests that show it. Made by",
        "`python -m tests.guarantees > docs/guarantees.md`; a test compares the two.",
        "",
    ]
    for row, files in found().items():
        lines += [f"## {row}", "", ROWS[row], ""]
        lines += [f"- `{file}`: {', '.join(f'`{name}`' for name in names)}" for file, names in files.items()]
        lines += [""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(render())
