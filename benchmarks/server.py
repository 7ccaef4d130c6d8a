"""The one model server that every tool of a benchmark asks, in a process of its own on 127.0.0.1.

It is `tests.server.ModelServer` with answers to the peers' own prompts, embeddings, and a control line: each line
of JSON on its standard input sets the next run's behaviour (`latency`, `storm`, `record`) and is answered by one line
that says what the run before it asked. `Server` is the other end of that line.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self
from zlib import crc32

from benchmarks.answers import embeddings, responses, to_peer
from tests.server import Act, Asked, ModelServer, storm
from tests.server.wire import Connection

ROOT = Path(__file__).resolve().parent.parent


class BenchServer(ModelServer):
    """Counts, times and remembers; equal requests get equal answers, worked out once."""

    def __init__(self) -> None:
        super().__init__(keep=False)
        self._texts: dict[tuple[int, int], str] = {}
        self.begin({})

    def begin(self, settings: Mapping[str, Any]) -> None:
        """The next run starts."""
        self._latency = settings.get("latency", 0.0)
        self._script = storm() if settings.get("storm") else None
        self._record = Path(settings["record"]).open("wb") if settings.get("record") else None  # noqa: SIM115
        self.count = self.bytes = self.back = self.most_in_flight = 0
        self.first = self.last = 0.0
        self.paths: Counter[str] = Counter()
        self._next = self._act

    def told(self) -> dict[str, Any]:
        """What was asked since the run began."""
        if self._record:
            self._record.close()
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "requests": self.count,
            "bytes": self.bytes,
            "back": self.back,
            "most": self.most_in_flight,
            "span": self.last - self.first if self.count else 0.0,
            "paths": self.paths,
            "cpu": used.ru_utime + used.ru_stime,
        }

    def _on_request(self, connection: Connection, path: str, headers: Mapping[str, str], raw: bytes) -> None:
        self.first = self.first or monotonic()
        self.paths[path] += 1
        if self._record:
            self._record.write(raw + b"\n")
        super()._on_request(connection, path, headers, raw)

    def _act_on(self, asked: Asked) -> Act:
        """What is not a chat completion gets its own body, storm or not."""
        kind = asked.path.rpartition("/")[2]
        if kind not in {"embeddings", "responses"}:
            return super()._act_on(asked)
        act = self._act(asked) or Act()
        if act.status != 200 or act.hang:
            return act
        text = self._text(asked, act) if act.text is None and kind == "responses" else act.text
        if kind == "responses":
            return Act(body=responses(asked.json, text or ""))
        return Act(body=text) if text else Act(body=embeddings(asked.json))

    def _act(self, asked: Asked) -> Act | None:
        return self._script(asked) if self._script else None

    def _send(self, connection: Connection, asked: Asked, act: Act) -> None:
        self.last = monotonic()
        super()._send(connection, asked, act)

    def _completion(self, asked: Asked, act: Act) -> bytes:
        body = super()._completion(asked, act)
        self.back += len(body)
        return body

    def _text(self, asked: Asked, act: Act) -> str:
        if act.text is not None:
            return act.text
        key = (crc32(asked.raw), len(asked.raw))
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = to_peer(asked) or super()._text(asked, act)
        return text


def main() -> None:
    with BenchServer() as server:
        print(json.dumps({"url": server.url}), flush=True)
        for line in sys.stdin:
            told = server.told()
            server.begin(json.loads(line))
            print(json.dumps(told), flush=True)


class Server:
    """The server as the benchmarks see it: `begin` a run, run it, ask `told` what it asked."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.server"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url: str = self._line()["url"]
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def begin(self, **settings: Any) -> dict[str, Any]:
        """Set the next run's `latency`, `storm` or `record`; returns what the run before it asked."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(settings) + "\n")
        self._process.stdin.flush()
        return self._line()

    told = begin


if __name__ == "__main__":
    main()
