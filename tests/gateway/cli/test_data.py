"""Backup and restore, export and import, forget: what goes out comes back, and what is to go is gone."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from tests.gateway.cli.conftest import Place


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return [line for line in db.iterdump() if "_sqlite_migrations" not in line]


def holds(folder: Path, words: str) -> list[str]:
    """The files that have these words in them, byte for byte."""
    return [file.name for file in folder.rglob("*") if file.is_file() and words.encode() in file.read_bytes()]


# All of it


def test_a_restore_drill(place: Place) -> None:
    """A backup while the daemon runs; then everything is lost, restored, and goes on."""
    place.start()
    kept = place.say("before the backup")
    file = place.folder / "backup.db"
    done = place("backup", file.name)
    assert done.out.startswith(f"Wrote {file} (")
    assert done.err == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said = place("backup", file, expect=1).sentence
    assert said.startswith(f"There is a file at {file} already, and a backup replaces nothing.")
    lost = place.say("after the backup")
    # Not while it runs.
    said = place("restore", file, "--yes", expect=75).sentence
    assert said.startswith(f"Another trunkline (process {place.daemons[0].pid}) uses the data directory")
    place.stop()
    asked = place("restore", file, input="n\n", expect=1)
    assert asked.err.startswith(f"Replace all data in {place.data} by those of {file}? [y/N]")
    assert place("sessions", "show", lost, "--json").json["id"] == lost
    restored = place("restore", file, input="y\n")
    assert restored.lines[0] == f"Restored {file}."
    [before] = place.data.glob("trunkline.db.before-restore-*")
    assert f"The database from before is {before}." in restored.lines
    place.start()
    assert place("sessions", "show", lost, expect=1).sentence == f"There is no session {lost}."
    place.say("and on", session=kept)
    assert place("sessions", "show", kept).lines[-1] == "You said: and on"


def test_restore_into_nothing_and_of_nothing(place: Place) -> None:
    session = place("sessions", "new").out.strip()
    file = place.folder / "backup.db"
    assert place("backup", file, "--json").json["path"] == str(file)
    for left in place.data.iterdir():
        left.unlink()
    place.data.rmdir()
    assert place("restore", file, "--yes").out == f"Restored {file}.\n"
    assert place("sessions", "show", session, "--json").json["id"] == session
    before = dump(place.data / "trunkline.db")
    assert place("restore", "nowhere.db", "--yes", expect=1).sentence == "There is no file nowhere.db."
    said = place("restore", place.config, "--yes", expect=65).sentence
    assert said == f"The backup {place.config} cannot be restored: file is not a database. Nothing was changed."
    assert dump(place.data / "trunkline.db") == before


def test_a_backup_that_cannot_be_written(running: Place) -> None:
    said = running("backup", "no/such/folder/file", expect=1).sentence
    assert said.endswith(f"there is no directory {running.folder / 'no/such/folder'}.")


# One conversation


def test_export_and_import(running: Place, place: Place) -> None:
    session = running.say("hello", "\x1b[31mred")
    file = running.folder / "session.jsonl"
    running("export", session, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert running("export", session).out == file.read_text()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["type"] for line in lines].count("message") == 4
    # Elsewhere, where no daemon runs, it is the same again.
    place.configure(agents={"main": {"kind": "builtin"}})
    done = place("import", file)
    assert done.out == f"Imported session {session} (main, active, 4 messages).\n"
    assert done.err == ""
    assert place("export", session, "-").out == file.read_text()
    # Here it is already.
    said = running("import", file, expect=1).sentence
    assert said.startswith(f"Session {session}, or something of it, is here already.")
    copy = running("import", "-", "--new-ids", "--json", input=file.read_text()).json
    assert copy["id"] != session
    assert copy["messageCount"] == 4


def test_export_overwrites_nothing_unasked(running: Place) -> None:
    session = running.new()
    file = running.folder / "theirs"
    file.write_text("theirs")
    said = running("export", session, file, expect=1).sentence
    assert said == f"{file} is there already: name another file, or replace it with --force."
    assert file.read_text() == "theirs"
    running("export", session, file, "--force")
    assert file.read_text().startswith('{"type":"header"')
    nowhere = running.folder / "nowhere"
    assert running("export", "nope", nowhere, expect=1).sentence == "There is no session nope."
    assert not nowhere.exists()
    said = running("export", session, nowhere / "file", expect=1).sentence
    assert said == f"{nowhere / 'file'} cannot be written: No such file or directory."


def test_an_import_that_is_none(running: Place) -> None:
    total = running.api.get("/api/sessions")["total"]
    assert running("import", "nowhere", expect=1).sentence == "nowhere cannot be read: No such file or directory."
    said = running("import", "-", input="Dear diary\n", expect=1).sentence
    assert said.startswith("Line 1: ")
    assert said.endswith("Nothing was imported.")
    # One that is long, and wrong at its end.
    session = running.say("hello")
    whole = running("export", session).out
    wrong = running("import", "-", "--new-ids", input=whole + "{}\n" * 300_000, expect=1).sentence
    assert wrong.startswith("Line ")
    assert running.api.get("/api/sessions")["total"] == total + 1


# Forgetting

CANARY = "the canary of bob 7f3a"


def test_forget(place: Place) -> None:
    place.configure(people={"ada": {"owner": True}, "bob": {"telegram": "42"}})
    place.start()
    place.say(CANARY)  # what is said over the API is the owner's
    place.stop()
    assert holds(place.data, CANARY)
    asked = place("forget", "bob", input="n\n", expect=1).err
    assert asked.startswith("Forget bob (")
    assert asked.endswith("0 sessions) for good? [y/N]: trunkline: Nothing was done.\n")
    assert place("forget", "telegram:42", "--yes", "--json").json["removed"]["identities"] == 1
    said = place("forget", "ada", "--yes", expect=1).sentence
    assert said == "This person is the owner. --owner forgets them all the same."
    done = place("forget", "ada", "--owner", input="y\n")
    assert done.lines[0].startswith("Forgot ")
    assert "sessions:   1" in done.lines
    assert holds(place.data, CANARY) == []
    assert place("forget", "nobody", "--yes", expect=1).sentence == "There is no person nobody."
