"""`python -m tests.server`: the scripted model server in a process of its own; prints its URL."""

from __future__ import annotations

import argparse
import sys
import threading

from germane.errors import InputError
from tests.server.acts import storm
from tests.server.models import ModelServer, Script


def main(arguments: list[str] | None = None) -> None:
    """Serve until the process is stopped."""
    parser = argparse.ArgumentParser(prog="python -m tests.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds until an answer")
    parser.add_argument("--storm", action="store_true", help="10%% 429, 5%% 500, 5%% malformed, 2%% hangs")
    options = parser.parse_args(arguments)
    script: Script = storm() if options.storm else ()
    try:
        server = ModelServer(script, latency=options.latency, port=options.port, keep=False)
        server.start()
    except InputError as error:
        parser.error(str(error))
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.stop()


if __name__ == "__main__":
    main()
