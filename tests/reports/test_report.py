"""The report as an object: what is in it, its tables for pandas and polars, and means that say what they rest on."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars
import pytest
from msgspec.structs import replace

from germane import compare, evaluate
from germane.errors import InputError, MissingPart
from germane.evaluation.evaluate import rescore
from germane.folder.tables import BlockRows, StoredTables
from germane.measures import Measure
from germane.places.lists import PlaceRow
from germane.reports.formats import write
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.reports.summary import interval_in_words
from germane.tables.judgements import JudgementTable
from germane.tables.labels import Label, labels_on
from germane.tables.scores import ScoreTable
from germane.types import Context, FrozenDict, Judgement, Sample, Score

CONTEXTS = (Context(text="a", grade=3), Context(text="b", grade=0))
SAMPLES = [Sample(id=f"q{n}", query=f"q {n}", contexts=CONTEXTS) for n in range(2)]
LEXICAL = {"judge": {"source": "lexical", "stand_in": "lexical stands in for a model"}}
MODEL = {"judge": {"source": "openai:m"}}


def labels_of(samples: list[Sample]) -> list[Label]:
    table = list[Label]()
    for sample in samples:
        table += labels_on(sample)
    return table


def relevance(number: int, **how: Any) -> Judgement:
    return Judgement(
        key=f"k{number}",
        item=f"i{number}",
        kind="relevance",
        judge="m",
        answer={"grade": 2},
        provenance=FrozenDict(how),
    )


def part_of(measure: str, judgements: list[Judgement], *values: float | None) -> BlockRows:
    why = [None if value is not None else "the model was ill" for value in values]
    scores = [
        Score(
            sample=f"q{n}",
            measure=measure,
            type=measure,
            value=value,
            why=why[n],
            status="error" if why[n] else "ok",
        )
        for n, value in enumerate(values)
    ]
    places = [PlaceRow(j.item, j.kind, f"q{n}", call=1, rank=1) for n, j in enumerate(judgements)]
    return BlockRows(scores=ScoreTable(scores), judgements=JudgementTable(judgements), places=places)


def test_what_is_in_a_report() -> None:
    """`in`, iteration and a KeyError that lists what there is."""
    report = evaluate(SAMPLES, "context_precision@2 P(rel=2,labels=human)@1", judge="labels")
    assert list(report) == ["context_precision@2", "P(labels=human,rel=2)@1"]
    assert "contextprecision@2" in report
    assert Measure.parse("context_precision@2") in report
    for absent in ("AP", "no such measure", ("context_precision@2", "bm25"), 3):
        assert absent not in report
    with pytest.raises(
        KeyError, match="no such measure was not computed; computed measures: context_precision@2, P"
    ):
        report["no such measure"]
    with pytest.raises(KeyError, match="not computed for bm25"):
        report["context_precision@2", "bm25"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_without_a_table_s_name_a_frame_has_one_row_per_sample(library: str) -> None:
    """A column per measure, and the reason of what is missing."""
    rows = [*SAMPLES, Sample(id="bare", query="no gold", contexts=())]
    frame = getattr(evaluate(rows, "context_precision@2 R@1", judge="labels"), f"to_{library}")()
    assert list(frame.columns) == ["sample", "query", "system", "trial", "context_precision@2", "R@1", "why"]
    assert list(frame["sample"]) == [*(sample.id for sample in SAMPLES), "bare"]
    assert "no gold" in list(frame["query"])
    assert "R@1: skipped: " in list(frame["why"])[-1]


def test_a_pickled_report_is_the_same(tmp_path: Path) -> None:
    """Of memory, and of a folder, as caches and pools of processes want it."""
    report = evaluate(SAMPLES, "context_precision@2 R@1", judge="labels")
    for one in (report, report.save(tmp_path / "r")):
        again = pickle.loads(pickle.dumps(one))
        assert (str(again), list(again.places())) == (str(one), list(report.places()))


def test_an_explanation_asks_for_the_system() -> None:
    """A sample of a report with several systems has several scores."""
    rows = [replace(sample, system=name) for sample in SAMPLES for name in ("a", "b")]
    with pytest.raises(KeyError, match="was not computed for q0; give system= one of a, b"):
        evaluate(rows, "context_precision@2", judge="labels").explain("q0", "context_precision@2")


@pytest.mark.parametrize("ending", ["html", "json", "jsonl", "csv", "md", "txt", "xml", "svg"])
def test_saved_under_a_known_ending_a_report_is_that_file(tmp_path: Path, ending: str) -> None:
    """As `-o` writes it; any other name is a folder."""
    report = evaluate(SAMPLES, "context_precision@2", judge="labels")
    assert report.save(tmp_path / f"x.{ending}") is report
    assert (tmp_path / f"x.{ending}").stat().st_size > 100
    for name in ("report", "v1.2"):
        assert report.save(tmp_path / name).folder == tmp_path / name
    with pytest.raises(InputError, match=r"ends in \.pdf, which is not a report format"):
        report.save(tmp_path / "x.pdf")


def test_a_picture_and_a_table_are_saved_under_their_endings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """.png holds the report's charts, .parquet the table of scores; without the extra the error names it."""
    sample = {"query": "q", "qrels": {"a": 1, "b": 1}, "contexts": [{"id": "b"}, {"id": "c"}, {"id": "a"}]}
    report = evaluate([sample], "nDCG@3 nDCG@1")
    report.save(tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    report.save(tmp_path / "x.parquet")
    scores = polars.read_parquet(tmp_path / "x.parquet")
    assert scores["value"].to_list() == [score.value for score in report.scores()]
    for module, ending, extra in (("resvg_py", "png", "png"), ("polars", "parquet", "tables")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingPart, match=f"extra '{extra}'"):
            report.save(tmp_path / f"y.{ending}")
        assert not (tmp_path / f"y.{ending}").exists()


def test_a_notebook_shows_the_table_and_the_worst_queries() -> None:
    """The same text as the terminal, with the verdict last and texts escaped."""
    context = Context(text="a", grade=0)
    rows = [*SAMPLES, Sample(id="<b>", query="<i>", contexts=(context, context))]
    report = evaluate(rows, "context_precision@2", judge="labels")
    assert repr(report["context_precision@2"]).startswith("<context_precision@2 ")
    shown = report._repr_html_()
    assert "context_precision@2" in shown
    assert "□□" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.index("□□") < shown.index("verdict  no gates")


def test_an_absent_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars comes with the extra `tables`."""
    report = evaluate(SAMPLES, "P@1", judge=None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingPart, match=r"pip install '\.\[tables\]'"):
        report.to_polars()


def test_a_mean_does_not_contradict_its_bounds() -> None:
    """Where failures took samples out, the mean says over how many it is and what it would be over all."""
    report = Report.build(part_of("context_precision@1", [], *[1.0] * 7, *[None] * 3), MODEL)
    assert report["context_precision@1"].in_words() == "1.0000 over 7 of 10 (0.70 to 1.00 over all)"
    assert "1.0000 over 7 of 10 (0.70 to 1.00 over all)" in str(report)
    whole = Report.build(part_of("context_precision@1", [], 1.0, 0.0), MODEL)
    assert whole["context_precision@1"].in_words() == "0.5000"


def test_bounds_are_rounded_outwards() -> None:
    """A third is not 0.33 to 0.33."""
    report = Report.build(part_of("context_precision@1", [], 1.0, 1.0, None), MODEL)
    assert report["context_precision@1"].in_words() == "1.0000 over 2 of 3 (0.66 to 1.00 over all)"


def test_an_interval_without_width_is_one_number() -> None:
    """Where everything is labelled nothing is left to round outwards."""
    assert interval_in_words((0.8453, 0.8453), 3) == "0.845"
    assert interval_in_words((0.8453, 0.8454), 3) == "0.845 to 0.846"


def test_how_much_is_judged_stands_beside_ranked_measures() -> None:
    """And RBP's residual; not where everything is judged, nor a second time where it was asked for."""
    contexts = [{"id": "d1", "text": "a"}, {"id": "d2", "text": "b"}, {"id": "d3", "text": "c"}]
    sample = {"query": "q", "qrels": {"d1": 1, "d2": 0}, "contexts": contexts}
    samples = [{**sample, "id": "1"}, {**sample, "id": "2", "contexts": contexts[:2]}]
    report = evaluate(samples, ["nDCG@3", "P@2", "RBP(p=0.5)@3"])
    shown = " ".join(str(report).split())
    assert "83% of the top-3 results have a gold label (nDCG@3, RBP(p=0.5)@3)" in shown
    assert "top-2" not in shown
    assert (
        "RBP(p=0.5,part=residual)@3 0.2500 (RBP(p=0.5)@3)" in shown
    )  # 2 ** -2 of the first, as much of the second
    assert report["nDCG@3"].as_json()["basis"]["beside"] == {"Judged@3": pytest.approx(5 / 6)}
    asked = evaluate(samples, ["nDCG@3", "Judged@3"])
    assert asked["Judged@3"].mean == pytest.approx(5 / 6)
    assert asked["nDCG@3"].basis.beside == {}


def test_a_mean_that_a_model_judged_is_uncalibrated(tmp_path: Path) -> None:
    """Said wherever it is printed; gold and people's labels need no calibration."""
    judgements = [
        relevance(1, mode="schema", model="m-1", fused=("a", "b")),
        relevance(2, mode="tool", model="m-1"),
    ]
    report = Report.build(part_of("context_precision@1", judgements, 1.0, 0.5), MODEL)
    assert "uncalibrated: no human labels (context_precision@1)" in str(report)
    assert report["context_precision@1"].as_json()["basis"] == {
        "source": "judge",
        "calibrated": False,
        "models": {"m-1": 2},
        "modes": {"schema": 1, "tool": 1},
        "fused": 1,
        "with_reference": None,
        "without_reference": None,
        "mixed": None,
        "beside": {},
        "remarks": ["uncalibrated: no human labels"],
    }
    for ending in ("json", "jsonl", "html", "md", "csv", "txt"):
        write(report, tmp_path / f"report.{ending}")
        assert "uncalibrated: no human labels" in (tmp_path / f"report.{ending}").read_text("utf-8"), ending
    assert "uncalibrated: no human labels (context_precision@1)" in compare(report, report).notes
    for measure, source in (("RR", "gold"), ("P(labels=human)@1", "human")):
        other = Report.build(part_of(measure, [], 1.0), MODEL)
        assert other[measure].basis.source == source
        assert "uncalibrated" not in str(other)
    labelled = Report.build(part_of("context_precision@1", [], 1.0), {"judge": {"source": "labels"}})
    assert labelled["context_precision@1"].basis.source == "human"


def test_only_the_kinds_that_a_measure_reads_are_its_basis() -> None:
    """Where the evaluation says which kinds it asked."""
    part = part_of("context_recall", [relevance(1, model="m-1")], 1.0)
    part.judgements.add(Judgement(key="s", kind="support", judge="m", provenance=FrozenDict(model="m-2")))
    part.reads = {"context_recall": {"support"}}
    assert Report.build(part, MODEL)["context_recall"].basis.models == {"m-2": 1}


def test_the_gate_of_a_judge_that_stands_in_says_so() -> None:
    """It decides nothing, pass or fail, unless it may: then the verdict and the gate's line say so; gold decides."""
    part = part_of("context_precision@1", [relevance(1)], 1.0)
    for gate in ("context_precision@1>=0.5", "context_precision@1<0.5"):
        refused = Report.build(part, LEXICAL, gates=[Gate.parse(gate)])
        assert refused.verdict.exit_code == 3
        assert "judged by a stand-in for a model, which decides nothing" in refused.verdict.lines()[1]
    gates = [Gate.parse("context_precision@1>=0.5")]
    gated = Report.build(part, LEXICAL, gates=gates, allow_stand_in=True)
    assert gated.verdict.exit_code == 0
    assert gated.verdict.lines() == [
        "verdict  passed (stand-in) (exit code 0)",
        "  passed (stand-in)  mean(context_precision@1)>=0.5  mean 1.0000, decided on the point; measured on 1 of 1 sample",
    ]
    document = gated.to_json()
    assert (document["gates"][0]["word"], document["verdict"]) == (
        "passed (stand-in)",
        ["the gate passed (stand-in)"],
    )
    gold = Report.build(part_of("RR", [], 1.0), LEXICAL, gates=[Gate.parse("RR>=0.5")])
    assert gold.verdict.word == "passed"


def test_labels_best_are_marked_as_a_mix_and_cannot_be_gated() -> None:
    """With the share of places that people labelled; a label that was taken back is none."""
    measure = "P(labels=best)@1"
    part = part_of(measure, [relevance(n) for n in range(3)], 1.0, 0.5, 0.0)
    label, other = labels_of(SAMPLES[:1])
    part.labels.extend([label, other, replace(other, answer=None, reason="taken back")])
    report = Report.build(part, MODEL)
    assert "mixed: 25% human, not a corrected estimate" in str(report)
    assert report[measure].as_json()["basis"]["mixed"] == 0.25
    with pytest.raises(InputError, match="is on labels=best"):
        Report.build(part, MODEL, gates=[Gate.parse(f"{measure}>=0")])


def test_labels_that_came_after_the_scores_are_told_of(tmp_path: Path) -> None:
    """Until they are scored again, by a measure that reads them; others do not mind."""
    evaluate(SAMPLES, "P(labels=human)@1").save(tmp_path / "r")
    folder = StoredTables.open(tmp_path / "r")
    assert "were added since" not in str(Report.open(tmp_path / "r"))
    folder.append_labels(replace(label, who="me", answer=0) for label in list(folder.labels)[:1])
    assert "people's labels were added since" in str(Report.open(tmp_path / "r"))
    again = rescore(tmp_path / "r", [Measure.parse("P(labels=human)@1")], folder=tmp_path / "again")
    assert "were added since" not in str(again)
    assert "were added since" not in str(Report.open(tmp_path / "again"))


def test_a_gate_on_verdicts_with_and_without_reference_is_undecided() -> None:
    """Until --against says what relevance is held against."""
    judgements = [
        relevance(1, against="reference"),
        relevance(2, against="reference"),
        relevance(3, against="query"),
    ]
    part = part_of("context_precision@1", judgements, 1.0, 1.0)
    report = Report.build(part, MODEL, gates=[Gate.parse("context_precision@1>=0.5")])
    assert report.verdict.exit_code == 3
    assert "--against reference" in report.verdict.lines()[1]
    assert "verdicts: 2 with reference, 1 without (context_precision@1)" in str(report)


def test_references_are_counted_per_measure() -> None:
    """A measure whose own verdicts are all of one kind says nothing of those of another measure; a gate on it decides."""
    calls = [
        {"query": "tower height", "contexts": ["the tower is 300 m tall"]},
        {"query": "tower", "contexts": ["x"]},
    ]
    row = {"id": "a", "query": "how tall is the tower", "reference": "300 m", "calls": calls}
    both = ["context_precision", "context_precision(against=call)"]
    report = evaluate([row], both, judge="lexical", gates=["mean(context_precision)>=0"], allow_stand_in=True)
    assert "with reference" not in str(report)
    assert report.verdict.exit_code == 0
    bases = {name: report[name].basis for name in both}
    assert [(one.with_reference, one.without_reference) for one in bases.values()] == [(2, 0), (0, 2)]


def test_references_of_one_measure_that_differ_are_told() -> None:
    """Beside a measure of one kind the mixed one alone has the note."""
    contexts = [{"query": "tower", "contexts": ["the tower is 300 m tall"]}]
    rows = [{"id": "a", "query": "how tall", "reference": "300 m", "calls": contexts}, {"id": "b", "query": "how old", "calls": contexts}]  # fmt: skip
    report = evaluate(rows, ["context_precision", "context_precision(against=call)"], judge="lexical")
    assert "verdicts: 1 with reference, 1 without (context_precision)" in str(report)


def test_notes_and_counts_come_from_the_tables(tmp_path: Path) -> None:
    """What a manifest says of the rows is what was added, and stands when the report is opened."""
    part = part_of("context_precision@1", [relevance(1, mode="schema")], 1.0)
    part.notes = Counter({"a note": 2})
    part.prompts = {"relevance": "hash"}
    Report.build(part, MODEL).save(tmp_path)
    manifest = Report.open(tmp_path).manifest
    assert manifest["notes"] == {"a note": 2}
    assert manifest["prompts"] == {"relevance": "hash"}
    assert manifest["asked"] == {"relevance": {"n": 1, "mode": {"schema": 1}}}
    assert "note     2 a note" in str(Report.open(tmp_path))
