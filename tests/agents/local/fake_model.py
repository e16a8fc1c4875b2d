"""A child with a server that says what it was told to, in the API of the real one. Its arguments: a mark, a file."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

ONCE = Path(sys.argv[2])
WANTED = json.loads(sys.stdin.buffer.readline())
TOO_LONG = {"code": 400, "message": "request (9 tokens) exceeds", "type": "exceed_context_size_error"}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = asked["messages"][-1]["content"]
        if self.headers["Authorization"] != f"Bearer {WANTED['key']}":
            self.answer(401, {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}})
        elif text == "too long":
            self.answer(400, {"error": TOO_LONG})
        elif text == "die at once" or (text == "die once" and not ONCE.exists()):
            ONCE.touch()
            os._exit(9)
        else:
            self.stream(asked, text)

    def answer(self, status: int, body: object) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def stream(self, asked: dict[str, object], text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": f"{asked['max_tokens']}: "}}])
        if text == "die in the middle":
            os._exit(9)
        self.chunk(choices=[{"index": 0, "delta": {"content": text}}])
        self.chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
        self.chunk(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, **more: object) -> None:
        whole = {"id": "one", "object": "chat.completion.chunk", "created": 1, "model": WANTED["alias"], **more}
        self.wfile.write(f"data: {json.dumps(whole)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody listens."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
Thread(target=server.serve_forever, daemon=True).start()
os.write(1, f"http://127.0.0.1:{server.server_port}\n".encode())
while os.read(0, 4096):
    pass
os._exit(0)
