"""Runs the benchmarks and prints what was measured: `make bench`, or `python -m benchmarks lists …` for some."""

from __future__ import annotations

import platform
import sqlite3
import sys
from pathlib import Path

from benchmarks import compaction, daemon_turns, first_paint, lists, long_history, platforms, store_turn

RESULTS = Path(__file__).with_name("results")
MODULES = {
    "store_turn": store_turn,
    "daemon_turns": daemon_turns,
    "lists": lists,
    "first_paint": first_paint,
    "long_history": long_history,
    "compaction": compaction,
    "platforms": platforms,
}


def main() -> None:
    names = sys.argv[1:] or list(MODULES)
    if unknown := sorted(set(names) - MODULES.keys()):
        sys.exit(f"There is no benchmark called {', '.join(unknown)}; there are {', '.join(MODULES)}.")
    RESULTS.mkdir(exist_ok=True)
    where = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}"
    print(where, end="\n\n")
    for name in names:
        lines = MODULES[name].report()
        print("\n".join(lines), end="\n\n", flush=True)
        (RESULTS / f"{name}.txt").write_text("\n".join([where, "", *lines, ""]))


if __name__ == "__main__":
    main()
