"""The process that holds the model. It runs as a file of its own and imports nothing of the gateway.

The first line of standard input is JSON: what to load, and the key that callers must show; neither arguments nor
environment could keep it from other programs. The one line of standard output is the address. The end of standard
input is the end of the process: a daemon that was killed leaves none behind.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    # The address is the only thing that may stand on standard output, whatever the library prints.
    answer = os.dup(1)
    os.dup2(2, 1)
    wanted = json.loads(sys.stdin.buffer.readline())
    server = serve(wanted)
    os.write(answer, f"{server.listening_address}\n".encode())
    os.close(answer)
    while sys.stdin.buffer.read(4096):
        pass
    # Destructors of the library wait for requests that are under way; nobody is there to read their answers.
    os._exit(0)


def serve(wanted: dict[str, Any]) -> Any:
    # Not everybody has it, type checkers included.
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = wanted["model"]
    # Otherwise answers would name the path of the file.
    params.model_alias = {wanted["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [wanted["key"]]
    # The window is of one conversation; the library divides what it is given among its slots.
    params.n_ctx = wanted["context_window"] * wanted["slots"]
    params.n_parallel = wanted["slots"]
    params.cpuparams.n_threads = wanted["threads"]
    params.cpuparams_batch.n_threads = wanted["threads"]
    # Told, not forgotten: what does not fit is an error that leads to compaction.
    params.ctx_shift = False
    # Of the prompts of conversations that took turns; the library's own choice is 8 GiB.
    params.cache_ram_mib = 256
    params.use_jinja = True
    params.warmup = False
    # Errors only: the daemon keeps the last of them, to say why a model was not loaded.
    params.verbosity = 1
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
