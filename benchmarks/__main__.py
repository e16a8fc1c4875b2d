"""Runs every benchmark and prints what was measured: `make bench`."""

from __future__ import annotations

import platform
import sqlite3

from benchmarks import daemon_turns, store_turn


def main() -> None:
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}\n")
    for module in (store_turn, daemon_turns):
        print("\n".join(module.report()), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
