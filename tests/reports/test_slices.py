"""Slices: each tag or value with its own means, counts and intervals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.reports.formats import FORMATS
from germane.reports.summary import summarise
from tests.command import invoke

SAMPLES = [
    {
        "id": f"q{n}",
        "query": "q",
        "qrels": {"a": 1},
        "contexts": [{"id": "a" if n % 3 else "b", "text": "t"}],
        "tags": ["lang:de" if n % 2 else "lang:en", *(["hard"] if n < 4 else [])],
        "metadata": {"topic": n // 5},
    }
    for n in range(10)
]


@pytest.mark.parametrize(
    ("by", "counts"),
    [
        ("lang", {"lang=de": 5, "lang=en": 5}),
        ("topic", {"topic=0": 5, "topic=1": 5}),
        ("hard", {"hard": 4, "not hard": 6}),
        ("tags", {"hard": 4, "lang:de": 5, "lang:en": 5}),
    ],
)
def test_slices_are_tags_or_values(by: str, counts: dict[str, int]) -> None:
    """A field of the metadata, the part of a tag before the colon, one tag, or every tag."""
    report = evaluate(SAMPLES, "RR")
    assert {one.name: one.summaries[0].n for one in report.slices(by)} == counts


def test_a_slice_is_the_report_over_its_cases_alone() -> None:
    """Mean and interval are those of an evaluation of just these samples."""
    hard, _ = evaluate(SAMPLES, "RR").slices("hard")
    (alone,) = summarise(evaluate(SAMPLES[:4], "RR").scores())
    assert hard.summaries[0].mean == alone.mean == 0.5
    assert hard.summaries[0].interval == alone.interval


def test_slices_are_in_every_format() -> None:
    """The table, Markdown and the document; none where nobody asked."""
    report = evaluate(SAMPLES, "RR")
    assert "slices" not in report.to_json()
    report.by = "lang"
    assert "lang=de" in str(report)
    assert "| lang=de | RR | 0.6000 |" in "".join(FORMATS[".md"](report))
    lines = report.to_json()["slices"]
    assert [line["slice"] for line in lines] == ["lang=de", "lang=en"]
    assert lines[0]["measures"]["RR"]["n"] == 5


def test_an_unknown_slice_names_what_there_is() -> None:
    """As an error where it was asked for; in a report that is being printed as a line."""
    report = evaluate(SAMPLES, "RR")
    with pytest.raises(
        InputError,
        match=r"metadata field 'color'; use one of the samples' tags or fields: hard, lang:de, lang:en, topic",
    ):
        report.slices("color")
    report.by = "color"
    assert "no slices: no sample has a tag or a metadata field 'color'" in str(report)
    assert all(FORMATS[suffix](report) for suffix in (".html", ".md", ".jsonl"))


def test_slices_are_those_of_their_own_samples():
    """Many slices, several systems and trials: each mean is that of the slice alone, and gates on slices agree."""
    rows = [
        {"id": f"q{n // 2}", "trial": 1732780000000 * (n % 2), "query": "a", "system": system, "qrels": ["d"],
         "contexts": [{"id": "d" if (n // 2) % 3 else "e", "text": "t"}], "metadata": {"s": f"s{n // 2 % 50:02}"}}
        for system in ("a", "b") for n in range(600)
    ]  # fmt: skip
    report = evaluate(rows, "RR R@1", gates=["min(mean(RR) by s)>=0.1"])
    slices = report.slices("s")
    assert len(slices) == 50
    assert [gate.outcome for gate in report.verdict.gates] == ["passed"] * 2
    for one in slices:
        number = int(one.name.rpartition("s")[2])
        mine = [case for case in range(300) if case % 50 == number]
        expected = sum(case % 3 > 0 for case in mine) / len(mine)
        assert [line.mean for line in one.summaries] == pytest.approx([expected] * 4)
        assert {line.due for line in one.summaries} == {len(mine)}


def test_an_eval_file_names_its_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `--by` does, which goes before it; germane.toml holds where neither says anything."""
    monkeypatch.chdir(tmp_path)
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in SAMPLES), "utf-8")
    Path("plain.yaml").write_text("measures: RR\ndata: s.jsonl\n", "utf-8")
    Path("e.yaml").write_text("by: lang\nmeasures: RR\ndata: s.jsonl\n", "utf-8")
    Path("germane.toml").write_text('by = "topic"\n', "utf-8")

    def slices(*words: str) -> list[str]:
        return [row["slice"] for row in json.loads(invoke("run", *words, "--json").out)["slices"]]

    assert slices("e.yaml") == slices("plain.yaml", "--by", "lang") == ["lang=de", "lang=en"]
    assert slices("e.yaml", "--by", "hard") == ["hard", "not hard"]
    assert slices("plain.yaml") == ["topic=0", "topic=1"]
