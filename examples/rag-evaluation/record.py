"""Record what both systems answer to every question, in recorded/: answers-good.jsonl and answers-worse.jsonl.

A recording is evaluated without running the system again. The grades (labels.jsonl there: question, passage,
grade 0-3) are stored once and merged into each recording, so they survive a change of the retriever; a passage that
nobody has graded yet is listed, so that it can be. Run it after a change to rag_system.py or the corpus:

    python record.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rag_system import ask

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded"
SYSTEMS = {"good": "bm25", "worse": "bm25_worse"}

Row = dict[str, Any]
Labels = dict[tuple[str, str], int]


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def write(path: Path, rows: list[Row]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8", newline="\n")


def graded(question: str, context: Row, labels: Labels) -> Row:
    grade = labels.get((question, context["id"]))
    return context if grade is None else {**context, "grade": grade}


def record(question: Row, quality: str, labels: Labels) -> Row:
    """The question with what the system answered, and the grades on what it retrieved."""
    found = ask(question["query"], quality)
    contexts = [graded(question["id"], context, labels) for context in found["contexts"]]
    return {**question, "system": SYSTEMS[quality], "response": found["response"], "contexts": contexts}


def main() -> int:
    questions = read(HERE / "evals" / "retrieval-set.jsonl")
    labels = {(row["query_id"], row["context_id"]): row["grade"] for row in read(RECORDED / "labels.jsonl")}
    missing = []
    for quality in SYSTEMS:
        rows = [record(question, quality, labels) for question in questions]
        write(RECORDED / f"answers-{quality}.jsonl", rows)
        missing += [(row["id"], c["id"]) for row in rows for c in row["contexts"] if "grade" not in c]
    for question, context in dict.fromkeys(missing):
        print(f"no grade yet: {question} {context}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
