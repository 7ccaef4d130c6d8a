"""People's labels after the corpus changed: which of them hold of the new documents, and bounds where they do not."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from germane import Report, Sample, evaluate
from germane.labelling.corpus import Corpus, carry_labels
from germane.samples import read_samples
from germane.tables.labels import Label, labels_on, relevance_item
from tests.command import invoke

WORDS = [f"word{n}" for n in range(120)]


def text(first: int, last: int) -> str:
    return " ".join(WORDS[first:last])


OLD = {
    "a": (text(0, 20), 3),  # stays
    "b": (text(20, 40), 2),  # a larger document holds it
    "c": (text(40, 60), 2),  # cut in two
    "d": (text(60, 80), 0),  # cut in two: neither half is relevant
    "e": (text(80, 100), 0),  # a larger document holds it: what else is in it may be relevant
    "f": ("gone for good", 1),
}
NEW = {
    "a2": text(0, 20), "b2": text(20, 40) + " and more", "c1": text(40, 50), "c2": text(50, 60),
    "d1": text(60, 70), "d2": text(70, 80), "e2": "more and " + text(80, 100),
}  # fmt: skip


def answers(labels: Iterable[Label]) -> dict[str, Any]:
    """What the labels say of each new document, by its text."""
    of = {label.item: label.answer for label in labels}
    texts = [*NEW.values(), *(text(at, at + size) for at in range(120) for size in range(1, 21))]
    return {one: of[item] for one in texts if (item := relevance_item("words?", one)) in of}


def labels_of(samples: Iterable[Sample]) -> list[Label]:
    """The labels that the samples' contexts have."""
    return [label for sample in samples for label in labels_on(sample)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    contexts = [{"id": name, "text": passage, "grade": grade} for name, (passage, grade) in OLD.items()]
    Path("samples.jsonl").write_text(json.dumps({"id": "q", "query": "words?", "contexts": contexts}))
    Path("new.jsonl").write_text(
        "".join(json.dumps({"id": name, "text": one}) + "\n" for name, one in NEW.items())
    )
    return tmp_path


def test_labels_hold_of_what_holds_or_lies_within(folder: Path) -> None:
    """Relevant: of documents that hold the passage; not relevant: of documents that lie within it; else the person is unsure."""
    samples = list(read_samples(folder / "samples.jsonl"))
    carried, counts = carry_labels(labels_of(samples), samples, Corpus(folder / "new.jsonl"))
    assert counts == {"same": 1, "carried": 2, "unsure": 2, "lost": 1, "others": 0}
    assert {name: answers(carried).get(one, "none") for name, one in NEW.items()} == {
        "a2": 3, "b2": 2, "c1": None, "c2": None, "d1": 0, "d2": 0, "e2": None,
    }  # fmt: skip
    assert invoke("labels", "move", "samples.jsonl", "--corpus", "new.jsonl", "-o", "moved.jsonl").code == 0
    contexts = [{"id": name, "text": one} for name, one in NEW.items()]
    Path("ready.jsonl").write_text(json.dumps({"id": "q", "query": "words?", "contexts": contexts}))
    words = (
        "--judge",
        "labels",
        "--labels",
        "moved.labels.jsonl",
        "--max-unmeasured",
        "1",
        "-o",
        "report",
        "--json",
    )
    found = invoke("run", "ready.jsonl", "-m", "P(labels=human)@7", *words).json["measures"][
        "P(labels=human)@7"
    ]
    assert found["mean_bounds"] == [pytest.approx(2 / 7), pytest.approx(5 / 7)]


def test_labels_of_a_report_are_moved(folder: Path) -> None:
    """Those that stand in labels.jsonl of a report, with who gave them."""
    rows = [
        {
            "id": "q",
            "query": "words?",
            "contexts": [{"id": name, "text": one} for name, (one, _) in OLD.items()],
        }
    ]
    evaluate(rows, "context_precision", judge="lexical").save("report")
    csv = "sample,id,grade,who\n" + "".join(f"q,{name},{grade},ann\n" for name, (_, grade) in OLD.items())
    (folder / "people.csv").write_text(csv)
    words = ("labels", "move", "report", "--corpus", "new.jsonl", "-o", "moved.jsonl", "--json")
    assert "labels" not in invoke(*words).json
    assert invoke("label", "report", "--import", "people.csv").code == 0
    counts = {"same": 1, "carried": 2, "unsure": 2, "lost": 1, "others": 0}
    assert invoke(*words).json["labels"] == counts
    written = (folder / "moved.labels.jsonl").read_bytes()
    assert {json.loads(line)["who"] for line in written.splitlines()} == {"ann"}
    assert "people's labels: 1 same, 2 carried, 2 unsure, 1 lost" in invoke(*words[:-1]).out
    assert len(list(Report.open("report").labels())) == 6


def test_bounds_of_moved_labels_hold_the_true_mean(folder: Path) -> None:
    """20 draws of documents with one relevant word, cut anew: the mean over moved labels bounds that of labels given anew."""
    rng, widths = random.Random(3), list[float]()
    for _ in range(20):
        relevant = set(rng.sample(range(120), 12))

        def cut(sizes: list[int], relevant: set[int] = relevant) -> list[tuple[str, int]]:
            found, at = [], 0
            while at < 120:
                size = rng.choice(sizes)
                found.append(
                    (text(at, at + size), 3 * any(one in relevant for one in range(at, min(120, at + size))))
                )
                at += size
            return found

        def row(chunks: Sequence[tuple[str, int | None]]) -> dict[str, Any]:
            contexts = [
                {"text": passage, **({} if grade is None else {"grade": grade})} for passage, grade in chunks
            ]
            return {"id": "q", "query": "words?", "contexts": contexts}

        old, new = cut([5, 8, 13]), cut([4, 8, 20])
        (folder / "samples.jsonl").write_text(json.dumps(row(old)))
        (folder / "new.jsonl").write_text(
            "".join(json.dumps({"id": f"n{n}", "text": one}) + "\n" for n, (one, _) in enumerate(new))
        )
        samples = list(read_samples(folder / "samples.jsonl"))
        carried, _ = carry_labels(labels_of(samples), samples, Corpus(folder / "new.jsonl"))
        shown = rng.sample(new, 5)
        measure = "P(labels=human)@5"
        known = answers(carried)
        exact = evaluate([row(shown)], measure)[measure].mean
        bounded = evaluate([row([(one, known.get(one)) for one, _ in shown])], measure)[measure]
        low, high = bounded.mean_bounds or (bounded.mean, bounded.mean)
        assert exact is not None
        if low is not None and high is not None:  # else nothing is known of what was shown
            assert low - 1e-9 <= exact <= high + 1e-9
            widths.append(high - low)
    assert len(widths) > 10
    assert 0.1 < sum(widths) / len(widths) < 0.9
