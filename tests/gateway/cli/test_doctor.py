"""`trunkline doctor`: everything that helps, and nothing private."""

from __future__ import annotations

import json
import stat

from gateway.version import __version__
from tests.gateway.cli.conftest import Place

TOKEN = "canary-of-the-administrator-7f3a"


def test_of_a_daemon(place: Place) -> None:
    place.configure(
        http={"listen": f"127.0.0.1:{place.port}", "admin_token": TOKEN},
        people={"ada-lovelace": {"owner": True, "telegram": 4242}},
        agents={"main": {"kind": "builtin", "name": "Charles Babbage"}},
    )
    place.start()
    place.say("a secret of mine")
    before = sorted(file.name for file in place.data.iterdir())
    file = place.folder / "report.json"
    done = place("doctor", file, "--log", place.log)
    assert done.out == f"Wrote {file}. Please look through it before you give it to anybody.\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    for private in (TOKEN, "ada-lovelace", "Charles Babbage", "a secret of mine", str(place.folder)):
        assert private not in text
    report = json.loads(text)
    assert report["versions"]["trunkline"] == __version__
    assert report["configuration"]["http"]["admin_token"] == "**********"
    assert report["configuration"]["people"] == [{"owner": True, "telegram": "4242"}]
    assert report["configuration"]["agents"]["main"]["kind"] == "builtin"
    assert (report["daemon"]["running"], report["daemon"]["ready"]) == (True, True)
    database = report["database"]
    assert database["integrity"] == ["ok"]
    assert database["problem"] is None
    assert (database["counts"]["sessions"], database["counts"]["messages"]) == (1, 2)
    assert any("CREATE TABLE sessions" in sql for sql in database["schema"])
    assert any("daemon_ready" in line for line in report["log"])
    assert sorted(one.name for one in place.data.iterdir()) == before
    assert place("doctor", file, expect=1).sentence.startswith(f"{file} is there already")


def test_where_nothing_works(place: Place) -> None:
    report = place("doctor", "-").json
    assert report["daemon"] == {"running": False}
    assert report["database"]["problem"] == "there is no database"
    assert not place.data.exists()
    place.data.mkdir()
    (place.data / "trunkline.db").write_bytes(b"Dear diary, " * 1000)
    assert place("doctor", "-").json["database"]["problem"] == "file is not a database"
    place.config.write_text('[people."Ada Lovelace"]\nowner = 1\n[gateway]\ndata_dirr = "x"\n')
    report = place("doctor", "-").json
    assert len(report["configuration"]["problems"]) == 3
    assert "Lovelace" not in str(report)


def test_without_a_daemon_it_is_only_read(place: Place) -> None:
    place("sessions", "new")
    before = {file.name: file.read_bytes() for file in place.data.iterdir()}
    done = place("doctor")
    [file] = place.folder.glob("trunkline-doctor-*.json")
    assert done.out.startswith(f"Wrote {file.name}.")
    assert json.loads(file.read_text())["database"]["counts"]["sessions"] == 1
    assert {file.name: file.read_bytes() for file in place.data.iterdir()} == before
    said = place("doctor", "-", "--log", "nowhere", expect=1).sentence
    assert said == "The log nowhere cannot be read: No such file or directory."
