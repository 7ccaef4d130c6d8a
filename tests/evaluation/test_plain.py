"""Labels that stand in plain rows are scored from columns: with the same report as one sample at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from germane.errors import InputError
from germane.evaluation import unit
from germane.evaluation.evaluate import rescore
from germane.evaluation.options import Options
from germane.evaluation.plan import Plan
from germane.evaluation.run import run
from germane.measures.declaration import parse_measures
from germane.tables import Label, ReportFolder
from germane.tables.part import WrittenPart
from germane.types import Json

GOLD = ("nDCG@10 AP RR(rel=2) P@2 R@2 Judged@3 AP(holes=condensed) bpref num_rel SetF nDCG(over=final)@1",)
LABELS = (
    "context_precision@2 nDCG(labels=judge)@3 context_relevancy(unit=context) AP@3 RR(labels=human) P(labels=human)@2",
)


def written(folder: Path, rows: Sequence[Json]) -> Path:
    file = folder / "samples.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def files_of(options: Options, folder: Path) -> dict[str, str]:
    """The files of the report, without what tells two sessions apart."""
    run(replace(options, folder=str(folder), ledger=str(folder) + ".sqlite"))
    found = {file.name: file.read_text("utf-8") for file in folder.glob("*.jsonl")}
    found["judgements.jsonl"] = re.sub(r'"at":"[^"]*",?', "", found["judgements.jsonl"])
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    options_of = manifest.pop("options")
    for name in ("created", "files"):
        manifest.pop(name)
    for name in ("folder", "ledger"):
        options_of.pop(name)
    return {**found, "manifest": json.dumps([manifest, options_of], indent=1)}


def both(options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The two ways lead to the same files; returns how many units were scored from columns."""
    parts: list[WrittenPart] = []
    made = unit.PlainMeasures.part

    def counted(self: unit.PlainMeasures, rows: Any) -> WrittenPart | None:
        part = made(self, rows)
        parts.extend([] if part is None else [part])
        return part

    monkeypatch.setattr(unit.PlainMeasures, "part", counted)
    fast = files_of(options, tmp_path / "fast")
    monkeypatch.setattr(Plan, "plain", None)
    number = len(parts)
    assert fast == files_of(options, tmp_path / "careful")
    assert len(parts) == number
    return number


def gold_rows(n: int) -> list[dict[str, Json]]:
    rows: list[dict[str, Json]] = []
    for number in range(n):
        ids = [f"d{(number * 7 + rank * 3) % 11 % (number % 4 + 2)}" for rank in range(number % 6)]
        qrels: dict[str, Json] | None = {f"d{(number + one) % 11}": one - 1 for one in range(number % 5)}
        rows.append(
            {"id": f"q{number}", "query": f"question {number}", "doc_ids": ids, "system": f"s{number % 2}"}
        )
        if number % 9:
            rows[-1]["qrels"] = qrels
    return rows


def labelled_rows(n: int) -> list[dict[str, Json]]:
    rows: list[dict[str, Json]] = []
    for number in range(n):
        label = "relevant" if number % 5 == 4 else "grade"
        contexts = [
            {
                "text": f"passage {number % 3}.{rank}",
                "id": f"d{rank}",
                label: (number + rank) % 4 if label == "grade" else bool(rank % 2),
            }
            for rank in range(number % 6)
        ]
        row: dict[str, Json] = {
            "query": f"question {number % 4}",
            "contexts": contexts,
            "tags": ["even"] * (number % 2 == 0),
        }
        row |= {"qrels": {"d1": 1, "d9": 2}} if number % 3 else {}
        row |= {"reference": f"answer {number}"} if number % 4 == 1 else {}
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    ("more", "size"), [({}, 1000), ({}, 7), ({"wanted": "q1*"}, 4), ({"limit": 9}, 4), ({"sample": 12}, 5)]
)
def test_gold_by_id(more: dict[str, Any], size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two systems, rows without qrels or relevant documents, repeated documents, gates, filters, limits and draws."""
    monkeypatch.setattr(unit, "PLAIN_SIZE", size)
    file = written(tmp_path, gold_rows(40))
    options = Options(paths=(str(file),), measures=GOLD, gates=("mean(AP)>=0.1",), **more)
    assert both(options, tmp_path, monkeypatch)


@pytest.mark.parametrize("against", [None, "query"])
def test_labels_of_people(against: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Grades, yes or no, references, passages that come again in other samples, gold and labels side by side."""
    file = written(tmp_path, labelled_rows(40))
    options = Options(paths=(str(file),), measures=LABELS, judge="labels", against=against, by="even")
    assert both(options, tmp_path, monkeypatch)


ODD: list[dict[str, Json]] = [
    {"id": "calls", "query": "q", "calls": [{"contexts": [{"text": "a", "grade": 1}]}], "qrels": {"d1": 1}},
    {"id": "hole", "query": "q", "contexts": [{"text": "a", "grade": 2}, {"text": "b"}], "qrels": {"d1": 1}},
    {"id": "mixed", "query": "q", "contexts": [{"text": "a", "grade": 2}, {"text": "b", "relevant": True}]},
    {"id": "unknown", "query": "q"},
    {"id": "twice", "query": "q", "contexts": [{"text": "a", "grade": 1}, {"text": "a", "grade": 1}]},
    {"id": "other", "query": "q", "contexts": [{"text": "a", "grade": 4}], "grade_scale": [0, 4]},
    {"id": "no", "query": "q", "contexts": [{"text": "a", "grade": 1}], "answerable": False},
    {"id": "empty", "query": "q", "contexts": [{"text": "\u200b", "grade": 1}]},
    {"id": "only id", "query": "q", "contexts": [{"id": "d1", "grade": 1}], "qrels": {"d1": 1}},
    {"id": "meta", "query": "q", "contexts": [{"text": "a", "grade": 3}], "lang": "de", "qrels": {"a": 1}},
]


@pytest.mark.parametrize("odd", ODD, ids=lambda row: str(row["id"]))
def test_an_odd_row_goes_the_careful_way(
    odd: dict[str, Json], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between plain ones, whose order and scores stay as they are."""
    monkeypatch.setattr(unit, "PLAIN_SIZE", 5)
    rows = labelled_rows(20)
    file = written(tmp_path, [*rows[:8], odd, *rows[8:]])
    options = Options(paths=(str(file),), measures=LABELS, judge="labels", max_unmeasured=1.0)
    assert both(options, tmp_path, monkeypatch)


def test_a_fault_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same message either way, and no report is left."""
    rows = [*gold_rows(12), {"id": "bad", "query": "q", "doc_ids": ["d1"], "qrels": {"d1": "high"}}]
    options = Options(paths=(str(written(tmp_path, rows)),), measures=GOLD)
    messages = []
    for plain in (True, False):
        if not plain:
            monkeypatch.setattr(Plan, "plain", None)
        with pytest.raises(InputError) as fault:
            files_of(options, tmp_path / f"report{plain}")
        assert not (tmp_path / f"report{plain}").exists()
        messages.append(str(fault.value))
    assert messages[0] == messages[1]
    assert ":13:" in messages[0]


@pytest.mark.parametrize(
    ("measures", "judge"),
    [
        (("nDCG@10 faithfulness",), "lexical"),
        (("context_precision@5",), "lexical"),
        (("AP(holes=bounds)",), None),
        (("context_precision(labels=best)@5",), "labels"),
        (("context_precision(against=call)@5",), "labels"),
    ],
)
def test_measures_that_need_more_are_not_scored_from_columns(
    measures: tuple[str, ...], judge: str | None, tmp_path: Path
) -> None:
    """A judge that reads, bounds, and what is held against something else."""
    file = written(tmp_path, labelled_rows(3))
    assert Plan(Options(paths=(str(file),), measures=measures, judge=judge), print).plain is None


def rescored(source: Path, measures: Sequence[str], folder: Path) -> dict[str, str]:
    """The files of a report that is scored again."""
    rescore(source, parse_measures(measures), folder=folder)
    found = {file.name: file.read_text("utf-8") for file in folder.glob("*.jsonl")}
    return {**found, "manifest": (folder / "manifest.json").read_text("utf-8")}


SCORED = ["context_precision@1", "nDCG(labels=judge)@2", "context_relevancy(unit=context) AP RR(rel=2) R@2"]


@pytest.mark.parametrize("judge", ["labels", "lexical"])
@pytest.mark.parametrize("odd", [None, ODD[1], ODD[4], ODD[9]], ids=["plain", "hole", "twice", "meta"])
def test_a_report_is_scored_again_from_columns(
    judge: str, odd: dict[str, Json] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same report as by one sample at a time, also where an answer is missing, and as from memory."""
    monkeypatch.setattr(unit, "PLAIN_SIZE", 7)
    rows = labelled_rows(30)
    file = written(tmp_path, [*rows[:8], *([odd] if odd else []), *rows[8:]])
    measures = ("context_precision@3 nDCG(labels=judge)@5",)
    options = Options(paths=(str(file),), measures=measures, judge=judge, max_unmeasured=1.0)
    source = tmp_path / "source"
    files_of(options, source)
    person = Label(item="i", kind="relevance", answer=2, scale="graded", who="ann", queue="random")
    ReportFolder(source).append_labels([person])
    parts: list[WrittenPart | None] = []
    made = unit.PlainMeasures.part

    def counted(self: unit.PlainMeasures, rows: Any) -> WrittenPart | None:
        parts.append(made(self, rows))
        return parts[-1]

    monkeypatch.setattr(unit.PlainMeasures, "part", counted)
    fast = rescored(source, SCORED, tmp_path / "fast")
    assert any(parts)
    report = rescore(source, parse_measures(SCORED))
    assert report.folder is None
    assert [label.who for label in report.labels()].count("ann") == 1
    report.save(tmp_path / "saved")
    monkeypatch.setattr(unit.PlainMeasures, "of", lambda *_: None)
    assert fast == rescored(source, SCORED, tmp_path / "careful")
    for name in fast.keys() - {"manifest"}:
        assert (tmp_path / "saved" / name).read_text("utf-8") == fast[name]


def test_verdicts_that_a_report_does_not_hold_are_named(tmp_path: Path) -> None:
    """A judged measure of a gold report, and one that looks deeper; nothing is left of the report that was not made."""
    file = written(tmp_path, [row for row in labelled_rows(12) if row["contexts"]])
    run(Options(paths=(str(file),), measures=("AP",), folder=str(tmp_path / "gold")))
    with pytest.raises(InputError, match="needs verdicts that this report does not hold"):
        rescore(tmp_path / "gold", parse_measures(["context_precision@5"]), folder=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    options = Options(paths=(str(file),), measures=("context_precision@1",), judge="labels")
    run(replace(options, folder=str(tmp_path / "labels")))
    deeper = rescore(tmp_path / "labels", parse_measures(["context_precision@2"])).summaries[0]
    assert (deeper.n, deeper.incomplete) == (6, 4)
