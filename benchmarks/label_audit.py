"""Labels, audit and correction through the public commands: `python -m benchmarks.label_audit FOLDER`.

FOLDER holds the LLMJudge challenge's data on TREC Deep Learning 2023 (see corrected_means.py). What is printed:

1. For each of the 33 judges: a report made of its grades, people's labels added by `germane label --import`, and whether
   kappa and alpha of `germane audit --json` equal reproduced_agreement.csv to 4 decimals. The table counts pairs of query
   and document, germane counts passages: one in nine has the text of another, so each text gets its document's id here.
2. For each judge: labels drawn by the queue of `germane label --budget 100`, answered as people did; bias, coverage and
   width over DRAWS seeds of the corrected context_relevance (a mean over queries), and of the means over the set of passages
   as `germane audit` gives them: the share graded 2 or more, and the mean grade.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import germane
from germane.judges import Judge
from germane.judges.judge import Reply
from germane.labelling.queue import LabelQueue, label_tasks
from germane.questions.question import AnyQuestion
from germane.reports.correct import Corrections
from germane.reports.report import Report
from germane.tables.labels import Label

BUDGET, DRAWS, LEVEL = 100, 200, 0.95


class TableJudge(Judge):
    """Answers with the grades of a table, by query and passage."""

    def __init__(self, name: str, grades: Mapping[tuple[str, str], int]) -> None:
        self.name, self._grades = name, grades

    async def answer(self, questions: Sequence[AnyQuestion]) -> Sequence[Reply]:
        shown = (question.inputs() for question in questions)
        return [Reply(payload={"grade": self._grades[one["query"], one["passage"]]}) for one in shown]


def samples_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        sample = found.setdefault(row["qid"], {"id": row["qid"], "query": row["query"], "contexts": []})
        sample["contexts"].append({"id": row["pid"], "text": row["passage"]})
    return list(found.values())


def command(*words: object) -> str:
    return subprocess.run(
        [sys.executable, "-m", "germane", *map(str, words)], check=True, capture_output=True, text=True
    ).stdout


def compare(name: str, folder: Path, labels: Path, expected: Mapping[str, str]) -> bool:
    """Whether the audit's kappa and alpha are those of the table."""
    command("label", folder, "--import", labels, "--who", "nist")
    (line,) = json.loads(command("audit", folder, "--json"))["kinds"]
    same = all(
        round(line[ours], 4) == float(expected[theirs])
        for ours, theirs in (("kappa", "kappa4"), ("alpha_ordinal", "a_ord"))
    )
    illegal = f"   illegal {line['illegal']}" if line["illegal"] else ""
    print(
        f"{name:26} n {line['n']} kappa {line['kappa']:.4f} alpha {line['alpha_ordinal']:.4f}"
        f"{'' if same else '   DIFFERS'}{illegal}",
        flush=True,
    )
    return same


def draw(report: Report, truth: Mapping[str, int], draws: int) -> tuple[float, ...]:
    """Bias, coverage and width as a share of human-only, over seeds, of context_relevance."""
    (summary,) = report.summaries
    tasks = label_tasks(report)
    groups: dict[str, list[bool]] = {}
    for task in tasks:
        groups.setdefault(task.sample, []).append(truth[task.item] >= 2)
    people = float(np.mean([np.mean(hits) for hits in groups.values()]))
    corrections = Corrections(report.tables, report.manifest)
    drawn: list[tuple[float, float, float]] = []
    for seed in range(draws):
        queue = LabelQueue(tasks=tasks, budget=BUDGET, seed=seed)
        labels = [
            Label(item=task.item, kind=task.kind, answer=truth[task.item], scale="graded", who="nist",
                  queue="random", design=task.design)
            for task in queue.drawn
        ]  # fmt: skip
        found, _ = corrections.with_labels(labels).corrected_mean(summary)
        assert found is not None
        assert found.mean is not None
        assert found.set_ends
        assert found.human_ends
        (low, high), (least, most) = found.set_ends, found.human_ends
        drawn.append((found.mean - people, float(low <= people <= high), (high - low) / (most - least)))
    return tuple(np.mean(drawn, axis=0).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--no-table", action="store_true", help="skip the first part")
    parser.add_argument("--judges", type=int, default=None, help="only the first so many")
    options = parser.parse_args()
    with gzip.open(options.folder / "pairs.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        row["passage"] = f"{row['pid']}: {row['passage']}"
    with (options.folder / "reproduced_agreement.csv").open(encoding="utf-8") as file:
        expected = {row["judge"]: row for row in csv.DictReader(file)}
    samples, equal, summary = samples_of(rows), 0, []
    names = sorted(rows[0]["judges"])[: options.judges]
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            grades = {(row["query"], row["passage"]): row["judges"][name] for row in rows}
            folder = Path(place) / name
            made = germane.evaluate(samples, "context_relevance", judge=TableJudge(name, grades))
            report = made.save(folder)
            equal += options.no_table or compare(
                name, folder, options.folder / "human_qrels.txt", expected[name]
            )
            people = {(row["query"], row["passage"]): row["human"] for row in rows}
            truth = {task.item: people[task.query, task.passages[0]] for task in label_tasks(report)}
            if not sum(one.errors + one.incomplete for one in report.summaries):
                summary.append(draw(report, truth, options.draws))
    print(f"{equal} of {len(names)} judges equal to the table in kappa and alpha")
    print(f"{BUDGET} labels, {options.draws} draws per judge ({len(summary)} judges without illegal grades)")
    bias, coverage, width = np.array(summary).T
    print(
        f"context_relevance: |bias| <= {np.abs(bias).max():.4f}, coverage mean {coverage.mean():.3f} worst "
        f"{coverage.min():.3f}, width / human-only median {np.median(width):.3f} most {width.max():.3f}"
    )


if __name__ == "__main__":
    main()
