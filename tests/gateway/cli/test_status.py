"""`trunkline status`: ready, not ready, not running."""

from __future__ import annotations

from gateway.version import __version__
from tests.gateway.cli.conftest import Place


def test_ready(running: Place) -> None:
    running.say("hello")
    done = running("status")
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in done.lines)}
    assert facts["state"] == "ready"
    assert facts["version"] == __version__
    assert facts["process"].startswith(f"{running.daemons[0].pid}, up ")
    assert facts["address"] == running.url
    assert facts["data"].startswith(f"{running.data} (")
    assert " active" in facts["sessions"]
    assert facts["turns"] == "0 running, 0 waiting"
    assert facts["deliveries"] == "none failed"
    assert done.lines[-1] == 'Open the page: xdg-open "$(trunkline status --url)"'
    assert running.token not in done.out
    told = running("status", "--json").json
    assert (told["running"], told["ready"], told["url"]) == (True, True, running.url)
    assert told["status"]["version"] == __version__
    assert told["health"]["store"]["ok"] is True


def test_the_address_for_a_browser(running: Place) -> None:
    assert running("status", "--url").out == f"{running.url}/?token={running.token}\n"


def test_not_ready(place: Place) -> None:
    place.configure(gateway={"data_dir": "data", "disk_reserve_mb": 1_000_000_000})
    place.start()
    said = place("sessions", "new", expect=1).sentence
    assert said.startswith("The disk is nearly full")
    done = place("status", expect=1)
    assert done.lines[0] == "state:      not ready"
    assert "MiB are kept in reserve" in done.lines[1]
    assert place("status", "--json", expect=1).json["ready"] is False


def test_not_running(place: Place) -> None:
    for args in ([], ["--url"]):
        done = place("status", *args, expect=3)
        assert (done.out, done.err) == ("", f"trunkline: No daemon runs on {place.data}.\n")
    assert place("status", "--json", expect=3).json == {"running": False, "ready": False}
    assert not place.data.exists()
