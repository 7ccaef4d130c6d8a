"""A model server that speaks OpenAI's files and batches as well."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.parser import BytesParser
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from tests.server.acts import Act
from tests.server.asked import Asked
from tests.server.models import ModelServer
from tests.server.wire import Connection, response

Answer: TypeAlias = tuple[int, Any] | tuple[int, Any, dict[str, str | float]]
"""Status, body and headers of a response."""
_NONE: Answer = 404, {"error": {"message": "There is no such thing"}}
_UNRUN = 0
"""In the place of a status: the batch ended before the request was run."""


@dataclass
class FakeBatch:
    """A batch: its requests by their ids as chat completions, what it was called, and what they came to.

    `status` is running, done, expired, cancelled or failed; `results` are id, status and body of each request.
    """

    name: str
    requests: dict[str, Any]
    called: dict[str, Any]
    status: str = "running"
    looks: int = 0
    results: list[tuple[str, int, Any]] = field(default_factory=list)
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat())


class BatchServer(ModelServer):
    """Answers the requests of a batch as it would answer them one by one, when the batch is looked at for the first time.

    Args:
        looks: How often a batch is looked at before it has ended.
        answered: Of each batch, in their order, how many requests are answered before it expires; None = all.
        refuse: Why a batch as a whole fails, from its requests; "" = it does not.
        others: As for ModelServer; the script decides about each request.

    Attributes:
        paid: How often each request, by its content, was answered by a model, in batches and outside.
        batches: Those that were made.
        files: By name; those that were deleted are gone.
    """

    prefix = "batch_"
    judge = ""

    def __init__(
        self,
        *args: Any,
        looks: int = 0,
        answered: tuple[int | None, ...] = (),
        refuse: Callable[[list[Any]], str] = lambda _: "",
        **others: Any,
    ) -> None:
        super().__init__(*args, **others)
        self._looks, self._answered, self._refuse = looks, answered, refuse
        self.paid = Counter[bytes]()
        self.batches: list[FakeBatch] = []
        self.files: dict[str, bytes] = {}

    @property
    def base(self) -> str:
        """The base URL as the provider's own library wants it."""
        return self.url.removesuffix("/v1")

    def _body(self, asked: Asked, act: Act) -> bytes:
        if act.status == 200:
            self.paid[asked.content] += 1
        return super()._body(asked, act)

    def _on_request(self, connection: Connection, path: str, headers: Mapping[str, str], raw: bytes) -> None:
        if path.endswith("/chat/completions"):
            super()._on_request(connection, path, headers, raw)
            return
        url = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        try:
            status, body, *more = self.route(headers[":method"], url.path, query, headers, raw)
        except Exception as fault:  # noqa: BLE001 - it is raised again when the server is left
            self.fault = self.fault or fault
            status, body, more = 500, {"error": {"message": f"the test's own server: {fault!r}"}}, []
        connection.waiting -= 1
        data = body if isinstance(body, bytes) else _compact(body)
        connection.write(response(status, more[0] if more else {}, data))

    def route(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], raw: bytes
    ) -> Answer:
        """The answer to a request about batches."""
        raise NotImplementedError

    def make(self, requests: dict[str, Any], **called: Any) -> FakeBatch:
        """A new batch of these chat completions."""
        self.batches.append(FakeBatch(f"{self.prefix}{len(self.batches)}", requests, called))
        return self.batches[-1]

    def named(self, name: str) -> FakeBatch | None:
        """The batch of that name."""
        return next((one for one in self.batches if one.name == name), None)

    def look(self, batch: FakeBatch) -> FakeBatch:
        """It may have ended since it was looked at before."""
        batch.looks += 1
        if batch.status == "running" and batch.looks > self._looks:
            place = self.batches.index(batch)
            most = self._answered[place] if place < len(self._answered) else None
            self.end(
                batch, "done" if most is None else "expired", len(batch.requests) if most is None else most
            )
        return batch

    def cancel(self, batch: FakeBatch) -> FakeBatch:
        """Half of it was answered by then."""
        if batch.status == "running":
            self.end(batch, "cancelled", len(batch.requests) // 2)
        return batch

    def end(self, batch: FakeBatch, status: str, answered: int) -> None:
        """Answer so many of its requests."""
        batch.status = status
        if why := self._refuse(list(batch.requests.values())):
            batch.status, batch.called["why"] = "failed", why
            return
        for number, (name, body) in enumerate(batch.requests.items()):
            run = self._answer_to(body) if number < answered else (_UNRUN, None)
            batch.results.append((name, *run))

    def _answer_to(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        asked = Asked(self.count, "/v1/chat/completions", {}, _compact(body))
        self.count += 1
        if self._keep:
            self.asked.append(asked)
        act = self._act_on(asked)
        return act.status, json.loads(self._body(asked, act))

    def keep(self, rows: list[Any]) -> str:
        """The name of a file of these lines."""
        name = f"file-{len(self.files)}"
        self.files[name] = b"".join(_compact(row) + b"\n" for row in rows)
        return name


class OpenAIBatchServer(BatchServer):
    """Files and batches as OpenAI has them; lists come in pages of two, newest first."""

    judge = "openai:Q"

    @property
    def base(self) -> str:
        return self.url

    def route(  # noqa: PLR0911 - a table
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], raw: bytes
    ) -> Answer:
        """As https://platform.openai.com/docs/api-reference/batch says."""
        match method, *path.strip("/").split("/"):
            case "POST", "v1", "files":
                name = f"file-{len(self.files)}"
                self.files[name] = _uploaded(headers, raw)
                return 200, {"id": name, "purpose": "batch"}
            case "GET", "v1", "files", name, "content" if name in self.files:
                return 200, self.files[name]
            case "DELETE", "v1", "files", name:
                return 200, {"id": name, "deleted": self.files.pop(name, None) is not None}
            case "POST", "v1", "batches":
                wanted = json.loads(raw)
                lines = map(json.loads, self.files[wanted["input_file_id"]].splitlines())
                return 200, self._shown(
                    self.make({line["custom_id"]: line["body"] for line in lines}, **wanted)
                )
            case "GET", "v1", "batches":
                every = [self._shown(one) for one in reversed(self.batches)]
                first = next((n for n, one in enumerate(every, 1) if one["id"] == query.get("after")), 0)
                return 200, {"data": every[first : first + 2], "has_more": len(every) > first + 2}
            case "GET", "v1", "batches", name if batch := self.named(name):
                return 200, self._shown(self.look(batch))
            case "POST", "v1", "batches", name, "cancel" if batch := self.named(name):
                if batch.status != "running":
                    return 409, {"error": {"message": f"Cannot cancel a batch with status '{batch.status}'."}}
                return 200, self._shown(self.cancel(batch))
        return _NONE

    def _shown(self, batch: FakeBatch) -> dict[str, Any]:
        """The batch; what failed stands in a file of its own, and of what was not run a line of that."""
        words = {"running": "in_progress", "done": "completed"}
        shown = {
            "id": batch.name,
            "object": "batch",
            "status": words.get(batch.status, batch.status),
            **batch.called,
        }
        if "why" in batch.called:
            shown["errors"] = {"data": [{"code": "invalid", "message": batch.called["why"], "line": 1}]}
        if batch.results and "files" not in batch.called:
            rows = [self._row(batch, *result) for result in batch.results]
            fine = [row for row in rows if row["response"] and row["response"]["status_code"] == 200]
            kinds = {"output_file_id": fine, "error_file_id": [row for row in rows if row not in fine]}
            batch.called["files"] = {kind: self.keep(some) for kind, some in kinds.items() if some}
        return {**shown, **batch.called.get("files", {})}

    @staticmethod
    def _row(batch: FakeBatch, name: str, status: int, body: Any) -> dict[str, Any]:
        row: dict[str, Any] = {"id": "r", "custom_id": name, "response": None, "error": None}
        if status == _UNRUN:
            return row | {
                "error": {"code": f"batch_{batch.status}", "message": "It could not be executed in time."}
            }
        return row | {"response": {"status_code": status, "request_id": "r", "body": body}}


def _compact(body: object) -> bytes:
    """JSON as it would be sent by itself."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _uploaded(headers: Mapping[str, str], raw: bytes) -> bytes:
    """The file in a multipart form."""
    head = f"content-type: {headers['content-type']}\r\n\r\n".encode()
    parts = BytesParser().parsebytes(head + raw).get_payload()
    assert isinstance(parts, list)
    content = next(part.get_payload(decode=True) for part in parts if part.get_filename())  # type: ignore[union-attr]
    assert isinstance(content, bytes)
    return content
