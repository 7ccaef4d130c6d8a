"""draft.json, and the files beside it: each written whole, under another name first."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from germane.addons.draft.drafting import Attempt, Drafter
from germane.addons.draft.ease import interval_of
from germane.addons.draft.passages import Source
from germane.errors import InputError
from germane.samples.files import write_whole
from germane.types import Json, Judgement

SAMPLES, DROPPED, DOCUMENT, LABELS = "samples.jsonl", "dropped.jsonl", "draft.json", "labels.jsonl"


class DraftDocument(Struct, kw_only=True):
    """The document of `germane draft --json`, and draft.json: what was drafted, what was dropped, and what it shows."""

    schema_version: int = 1
    exit_code: int
    n: int
    kept: int
    attempts: int
    corpus: dict[str, Json]
    """digest, documents, passages, and the passages that were skipped, by reason"""
    dropped: dict[str, dict[str, int]]
    """attempts by step and reason"""
    kinds: dict[str, dict[str, int]]
    """wanted, kept, attempts and passages of each kind"""
    ease: dict[str, Json]
    precision: dict[str, Json]
    rivals: float | None
    """share of the questions that another document may answer, too"""
    search: str
    searched: dict[str, Json]
    """for each question the documents that were put to the judge and said no; of a near-miss all that were searched"""
    documents_covered: int
    judge: str
    writer: str
    calls: int
    """calls whose answers the set rests on, whenever they were paid"""
    tokens: dict[str, int]
    cost_usd: float | None
    seed: int
    stopped: str = ""
    checked_by_people: dict[str, Json] | None = None
    removed: list[str] = []
    """questions that people found bad and that `--drop-bad` removed"""


def spending(judgements: Sequence[Judgement]) -> tuple[int, dict[str, int], float | None]:
    """Calls, tokens and cost of these answers, each counted once."""
    distinct = list({judgement.key: judgement for judgement in judgements}.values())
    usages = [judgement.usage for judgement in distinct]
    costs = [usage.cost_usd for usage in usages if usage.requests]
    cost = None if None in costs else round(sum(filter(None, costs)), 6)
    tokens = {
        "input": sum(usage.input_tokens for usage in usages),
        "output": sum(usage.output_tokens for usage in usages),
    }
    return len(distinct), tokens, cost


def lines_of(rows: Sequence[Mapping[str, Json]]) -> bytes:
    """Rows as JSON lines."""
    return b"".join(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for row in rows)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON lines file; none where it is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def read_labels(
    folder: Path, rows: Sequence[Mapping[str, Any]], removed: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The labels of people for these questions: an id stays when another model writes another question, its labels do not."""
    queries = {row["id"]: row["query"] for row in rows}
    return [
        label
        for label in read_rows(folder / LABELS)
        if label["item"] in removed
        or (label["item"] in queries and label.get("query", queries[label["item"]]) == queries[label["item"]])
    ]


def read_document(folder: Path) -> dict[str, Any] | None:
    """The draft.json of a folder; None where there is none that can be read."""
    try:
        found = json.loads((folder / DOCUMENT).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "corpus" in found else None


def check_folder(folder: Path, source: Source) -> dict[str, Any] | None:
    """The document that is there already; InputError where the folder holds samples of another origin or another corpus."""
    before = read_document(folder)
    if before is None:
        if (folder / SAMPLES).exists():
            raise InputError(f"{folder / SAMPLES} was not drafted", fix="name another folder with -o")
        return None
    theirs = before["corpus"]
    if theirs["digest"] != source.digest:
        problem = f"{folder} was drafted from {theirs.get('name')} ({theirs['digest'][:12]}), not from {source.name} ({source.digest[:12]})"
        raise InputError(problem, fix="name another folder with -o; answers in the ledger are used again")
    return before


def write_folder(
    folder: Path, document: DraftDocument, rows: Sequence[Mapping[str, Json]], drafter: Drafter
) -> None:
    """Write the files, the document first: samples that stand beside none were not drafted. Without an attempt write nothing."""
    if not drafter.attempts:
        return
    folder.mkdir(parents=True, exist_ok=True)
    dropped = [{"attempt": attempt.number, **row} for attempt in drafter.attempts for row in attempt.dropped]
    write_whole(folder / DOCUMENT, document_bytes(document))
    write_whole(folder / DROPPED, lines_of(dropped))
    write_whole(folder / SAMPLES, lines_of(rows))


def document_bytes(document: Any) -> bytes:
    """The document as it is written and printed."""
    whole = document if isinstance(document, dict) else as_json(document)
    return json.dumps(whole, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"


def as_json(document: DraftDocument) -> dict[str, Json]:
    """The document as plain data, its fields in their order."""
    return {name: getattr(document, name) for name in document.__struct_fields__}


def checked_by_people(labels: Sequence[Mapping[str, Any]]) -> dict[str, Json] | None:
    """How many questions people looked at, how many are bad, and what that says of all: None where nobody looked.

    The newest label of each question counts; "unsure" counts for neither.
    """
    newest = {row["item"]: row["answer"] for row in labels}
    answers = [answer for answer in newest.values() if answer not in (None, "unsure")]
    if not answers:
        return None
    bad = sum(answer != "fine" for answer in answers)
    return {"n": len(answers), "bad": bad, "interval": interval_of(bad, len(answers))}


def first_dropped(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return what ended each attempt that kept nothing: the fault of the candidate that came furthest."""
    order = ("write", "check", "alone", "round trip", "near-miss", "failed")
    ended = [attempt.dropped for attempt in attempts if not attempt.kept and attempt.dropped]
    return [max(rows, key=lambda row: order.index(row["step"])) for rows in ended]
