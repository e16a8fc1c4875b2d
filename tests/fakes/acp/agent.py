"""An agent of the protocol that does what its script says, and every wrong thing that real ones were seen to do.

It is a program of its own and imports nothing of ours. Its last argument is the script, as JSON:

    {"log": FILE, "state": FOLDER, "capabilities": {…}, "start": […], "initialize": […], "session/new": […],
     "session/load": […], "session/resume": […], "session/cancel": […], "prompts": {TEXT: […]}, "prompt": […]}

Each list holds actions (`Agent.do`); a request whose list has no answer in it is answered as it should be. `log` gets a
line for everything that it was sent, `state` keeps its sessions over processes.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

GRANDCHILD = """
import os, signal, sys, time
os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(1000)
"""


def chunk(text: str, session: str, **more: Any) -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


class Agent:
    def __init__(self, script: dict[str, Any]) -> None:
        self.script = script
        self.inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.cancelled = threading.Event()
        self.deaf = threading.Event()
        self.session = ""
        self.asked = 0
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.answered = False

    def run(self) -> None:
        self.log({"pid": os.getpid(), "argv": sys.argv[1:-1], "cwd": os.getcwd(), "env": dict(os.environ)})
        self.act(None, self.script.get("start", []))
        threading.Thread(target=self.read, daemon=True).start()
        while (message := self.inbox.get()) is not None:
            self.take(message)
        if self.script.get("stays"):
            time.sleep(1000)

    def read(self) -> None:
        while not self.deaf.is_set():
            line = sys.stdin.buffer.readline()
            if not line:
                self.inbox.put(None)
                return
            message = json.loads(line)
            self.log(message)
            if message.get("method") == "session/cancel":
                self.cancelled.set()
                self.act(None, self.script.get("session/cancel", []))
            elif "method" in message:
                self.inbox.put(message)
            else:
                self.answers.put(message)
        time.sleep(1000)

    def take(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        self.answered = False
        actions = self.script.get(method, [])
        if method == "session/prompt":
            self.cancelled.clear()
            text = params["prompt"][-1]["text"]
            self.remember(text)
            actions = self.script.get("prompts", {}).get(
                text, self.script.get("prompt", [["say", f"You said: {text}"]])
            )
        elif method == "session/new":
            self.session = f"session-{os.getpid()}-{time.monotonic_ns()}"
        elif method in {"session/load", "session/resume"}:
            self.session = params["sessionId"]
        self.act(message, actions)
        if not self.answered:
            self.answer(message, self.usual(method, params))

    def usual(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "initialize":
                return {
                    "protocolVersion": 1,
                    "agentCapabilities": self.script.get("capabilities", {}),
                    "authMethods": [],
                }
            case "session/new":
                self.remember(None)
                return {"sessionId": self.session}
            case "session/load" | "session/resume":
                known = self.known(params["sessionId"])
                if known is None:
                    return RuntimeError("no such session")
                if method == "session/load":
                    for text in known:
                        self.write(chunk(f"REPLAYED {text}", self.session))
                return {}
            case "session/prompt":
                return {"stopReason": "cancelled" if self.cancelled.is_set() else "end_turn"}
            case _:
                return RuntimeError("method not found")

    def act(self, message: dict[str, Any] | None, actions: list[list[Any]]) -> None:
        for name, *given in actions:
            self.do(message, name, given)

    def do(self, message: dict[str, Any] | None, name: str, given: list[Any]) -> None:  # noqa: C901
        match name:
            case "say":
                self.write(chunk(given[0], self.session, **(given[1] if len(given) > 1 else {})))
            case "update":
                params = {"sessionId": self.session, "update": given[0], **(given[1] if len(given) > 1 else {})}
                self.write({"jsonrpc": "2.0", "method": "session/update", "params": params})
            case "raw":
                filled = given[0].replace("{id}", str((message or {}).get("id"))).replace("{session}", self.session)
                self.out(filled.encode() + b"\n")
            case "bytes":
                self.out(bytes.fromhex(given[0]))
            case "padded":
                # The update with a field of so many bytes.
                update, name, size = given
                self.do(message, "update", [{**update, name: "y" * size}])
            case "flood":
                self.out(b"".join(json.dumps(chunk(f"{n} ", self.session)).encode() + b"\n" for n in range(given[0])))
            case "stderr":
                os.write(2, given[0].encode() * (given[1] if len(given) > 1 else 1))
            case "ask":
                self.ask(given[0])
            case "answer":
                if message is not None:
                    self.answer(message, given[0])
            case "answered":
                self.answered = True
            case "error":
                if message is not None:
                    self.answered = True
                    error = {"code": given[0], "message": given[1]}
                    self.write({"jsonrpc": "2.0", "id": message["id"], "error": error})
            case "sleep":
                time.sleep(given[0])
            case "hang":
                time.sleep(1000)
            case "until cancelled":
                self.cancelled.wait()
            case "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "grandchild":
                subprocess.Popen([sys.executable, "-c", GRANDCHILD])
            case "exec":
                Path(given[0]).touch()
                os.execv(sys.executable, [sys.executable, *sys.argv])
            case "deaf":
                self.deaf.set()
            case "close":
                os.close(given[0])
            case "exit":
                os._exit(given[0])
            case "kill":
                os.kill(os.getpid(), given[0])
            case _:
                raise ValueError(name)

    def ask(self, call: dict[str, Any]) -> None:
        """Ask for permission and say what was decided."""
        self.asked += 1
        options = call.pop("options", None) or [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        params = {"sessionId": self.session, "toolCall": call, "options": options, "_meta": call.pop("_meta", None)}
        method = "session/request_permission"
        self.write({"jsonrpc": "2.0", "id": f"ask-{self.asked}", "method": method, "params": params})
        outcome = self.answers.get()
        self.write(chunk(f"decided: {json.dumps(outcome.get('result'), sort_keys=True)}", self.session))

    def answer(self, message: dict[str, Any], result: Any) -> None:
        self.answered = True
        if isinstance(result, RuntimeError):
            error = {"code": -32601, "message": str(result)}
            self.write({"jsonrpc": "2.0", "id": message["id"], "error": error})
        else:
            self.write({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def write(self, message: dict[str, Any]) -> None:
        self.out(json.dumps(message).encode() + b"\n")

    def out(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def log(self, what: dict[str, Any]) -> None:
        if path := self.script.get("log"):
            with Path(path).open("a") as file:
                file.write(json.dumps(what) + "\n")

    def known(self, session: str) -> list[str] | None:
        """What was asked in a session; each has a file of its own, because processes run side by side."""
        file = Path(self.script["state"]) / session
        return file.read_text().splitlines() if file.exists() else None

    def remember(self, text: str | None) -> None:
        if folder := self.script.get("state"):
            Path(folder).mkdir(exist_ok=True)
            with (Path(folder) / self.session).open("a") as file:
                file.write("" if text is None else text[:100].replace("\n", " ") + "\n")


if __name__ == "__main__":
    Agent(json.loads(sys.argv[-1])).run()
