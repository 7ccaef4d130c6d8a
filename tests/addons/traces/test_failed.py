"""A span that failed is an error, unless its query was put again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import invoke


@pytest.mark.parametrize("again", [False, True], ids=["failed", "asked again"])
def test_a_failed_span_is_an_error(again: bool, tmp_path: Path) -> None:
    """Whatever it returned, unless the same query was put again and answered."""

    def span(name: str, trace: str, start: int, document: str, status: str = "OK") -> dict[str, Any]:
        documents = [{"document.id": document, "document.content": "The moon makes the tides."}]
        return {
            "name": name,
            "context": {"trace_id": trace, "span_id": f"{trace}{start}"},
            "start_time": f"2026-11-28T12:00:{start:02}Z",
            "end_time": f"2026-11-28T12:00:{start:02}Z",
            "status_code": status,
            "attributes": {
                "openinference.span.kind": "RETRIEVER",
                "input.value": "what makes the tides",
                "retrieval.documents": documents if document else [],
            },
        }

    spans = [span("good", "a", 0, "d1"), span("bad", "b", 1, "", "ERROR")]
    spans += [span("again", "b", 2, "d1")] * again
    file = tmp_path / "spans.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in spans))
    ran = invoke("run", file, "-m", "context_precision", "--judge", "lexical", "--json", "--no-cache")
    measure = ran.json["measures"]["context_precision"]
    assert (measure["n"], measure["errors"], ran.code) == ((2, 0, 0) if again else (1, 1, 3))
