"""One loop for every shape of sample, wherever answers come from and rows go; what is stored answers first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.evaluation.evaluate import rescore
from germane.evaluation.run import run
from germane.evaluation.spec import Spec
from germane.folder.files import SCHEMA_VERSION, TableFile, judgement_in
from germane.judges import FakeJudge, LLMJudge
from germane.judging.stored_answers import StoredAnswers
from germane.measures.declaration import parse_measures
from germane.questions import Relevance
from germane.reports.report import Report
from germane.tables.judgements import judgement_line
from germane.types import FrozenDict, Json, Judgement
from tests.server import ModelServer

MEASURES = ["context_precision@2", "nDCG(labels=judge)@3", "AP", "RR(labels=human)", "Judged@3"]
SHAPES: list[dict[str, Any]] = [
    {},
    {"metadata": {"a": 1}},
    {"tags": ["t"], "unknown": [1]},
    {"trial": 1, "system": "s", "cluster": "c"},
]


def row(shape: int, number: int) -> dict[str, Any]:
    contexts: list[dict[str, Any]] = [
        {"id": f"d{k}", "text": f"passage {number} {k}", "grade": (number + k) % 4} for k in range(3)
    ]
    if shape % 2:
        contexts[1] |= {"score": 7, "metadata": {"page": 2}}
    return {
        "id": f"q{number}",
        "query": f"q {number}",
        "contexts": contexts,
        "qrels": {"d1": 1},
        **SHAPES[shape],
    }


def as_calls(sample: dict[str, Any]) -> dict[str, Any]:
    """The same list as one search of an agent."""
    return {
        **{k: v for k, v in sample.items() if k != "contexts"},
        "calls": [{"contexts": sample["contexts"]}],
    }


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("calls", [False, True])
def test_every_shape_has_the_same_scores(shape: int, calls: bool) -> None:
    """Whole-number scores, metadata, unknown keys, contexts that are unlike each other, searches of an agent."""
    plain = [row(0, number) for number in range(8)]
    odd = [row(shape, number) for number in range(8)]
    found = [
        [(score.sample, score.measure, score.value, score.status, score.why) for score in report.scores()]
        for report in (
            evaluate(rows, MEASURES, judge="labels")
            for rows in (plain, [as_calls(one) for one in odd] if calls else odd)
        )
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("judge", ["labels", "gold"])
def test_labels_are_no_judgements(judge: str, tmp_path: Path) -> None:
    """Labels are read where they stand: no judgement rows, and items that `label` can draw from; scored again alike."""
    file = tmp_path / "samples.jsonl"
    file.write_text("".join(json.dumps(row(0, number)) + "\n" for number in range(5)), "utf-8")
    measures = ("context_precision@2",)
    run(Spec.of(paths=(str(file),), measures=measures, judge=judge, folder=str(tmp_path / "r")))
    report = Report.open(tmp_path / "r")
    assert report.manifest["schema_version"] == SCHEMA_VERSION == 4
    assert list(report.judgements()) == []
    assert [(one.kind, one.rank) for one in report.places()] == [("relevance", 1), ("relevance", 2)] * 5
    again = rescore(tmp_path / "r", parse_measures(measures), folder=tmp_path / "again")
    assert list(again.scores()) == list(report.scores())
    assert (
        report.explain("q1", measures[0]).hits
        == evaluate([row(0, 1)], measures, judge=judge).explain("q1", measures[0]).hits
    )


@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize("however", [False, True])
def test_the_first_judgement_of_an_item_counts(in_folder: bool, however: bool, tmp_path: Path) -> None:
    """Of several with one item and its settings: in memory and in a file."""
    question = Relevance(query="q", passage="p")
    how = FrozenDict(question.settings())
    rows = [
        Judgement(
            key=f"{n:032}",
            item=question.item,
            kind="relevance",
            judge="m",
            answer={"grade": n},
            provenance=how,
        )
        for n in (3, 1, 2)
    ]
    stored: Any = rows
    if in_folder:
        (tmp_path / "judgements.jsonl").write_bytes(b"".join(map(judgement_line, rows)))
        stored = TableFile(tmp_path / "judgements.jsonl", judgement_in)
    ((found,),) = StoredAnswers(stored, however=however).values([[question]])
    assert found.grade == 3


BESIDE: dict[str, list[dict[str, Any]]] = {
    "context_relevancy(unit=context)": [{"reference": "yes"}, {"reference": "no"}],
    "context_relevancy(unit=context)@3": [{"criterion": "yes"}, {"criterion": "no"}],
    "nugget_recall": [
        {"query": query, "reference": "It is so.", "nuggets": ["It is so."]} for query in ("yes", "no")
    ],
}
"""Two samples whose questions have the same items, and show something else beside them."""


@pytest.mark.parametrize("measure", list(BESIDE))
def test_verdicts_on_one_item_are_told_apart_by_what_was_shown(tmp_path: Path, measure: str) -> None:
    """Scored again each sample has the verdict that was given beside its own reference, criterion or query."""
    rows = [
        {"id": str(n), "query": "q", "contexts": ["passage"], **row} for n, row in enumerate(BESIDE[measure])
    ]

    def judged(question: Any) -> Json:
        agreed = "yes" in {getattr(question, name, None) for name in ("query", "reference", "criterion")}
        if question.kind == "relevance":
            return {"grade": 3 * agreed, "reasoning": ""}
        support = "support" if agreed else "not_support"
        return {"nuggets": [{"nugget": 1, "reasoning": "", "support": support}]}

    judge, against = FakeJudge(judged), "criterion" if "criterion" in BESIDE[measure][0] else "reference"
    report = evaluate(rows, [measure], judge=judge, against=against, folder=tmp_path / "r")
    assert [score.value for score in report.scores()] == [1.0, 0.0]
    again = rescore(tmp_path / "r", parse_measures([measure]))
    assert [score.value for score in again.scores()] == [1.0, 0.0]


def test_a_library_call_goes_on_in_its_folder(tmp_path: Path) -> None:
    """What was answered before a limit stopped it is not asked again, and nothing but the report is left."""
    with ModelServer() as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k")
        samples = [{"id": f"q{n}", "query": "q", "contexts": [f"passage {n}"]} for n in range(6)]
        with pytest.raises(Exception, match="max_calls=4: 4 calls"):
            evaluate(samples, "context_precision", judge=judge, folder=tmp_path / "r", max_calls=4)
        assert server.count == 4
        unfinished = Report.unfinished(tmp_path / "r")
        assert unfinished.judge.calls == 4
        assert "repeat the call" in str(unfinished)
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k")
        report = evaluate(samples, "context_precision", judge=judge, folder=tmp_path / "r")
        assert server.count == 6
        assert report["context_precision"].n == 6
        assert (report.judge.calls, report.judge.cached) == (6, 0)  # of both sessions, as for `germane run`
    assert list(Report.open(tmp_path / "r").scores()) == list(report.scores())
    assert not [
        file.name for file in (tmp_path / "r").iterdir() if "ledger" in file.name or ".part" in file.name
    ]
    again = evaluate(samples, "context_relevance", judge=judge, folder=tmp_path / "r")
    assert (again["context_relevance"].n, server.count) == (6, 6)  # nothing is asked again
    for others in (samples[:5], [{**samples[0], "contexts": ["x"]}, *samples[1:]]):
        with pytest.raises(InputError, match="already holds a report"):
            evaluate(others, "context_precision", judge=judge, folder=tmp_path / "r")


@pytest.mark.parametrize(
    "mistake",
    [
        {"scale": "grded"},
        {"against": "all"},
        {"rubric": "usefull"},
        {"rubric": "usefulness", "scale": "binary"},
        {"gates": ["mean(RR"]},
        {"measures": "RRR"},
    ],
)
def test_a_mistake_in_an_argument_leaves_the_report_as_it_was(
    tmp_path: Path, mistake: dict[str, Any]
) -> None:
    """A complete report stays complete, byte for byte."""
    call: dict[str, Any] = {"measures": "context_precision", "judge": "lexical", "folder": tmp_path / "r"}
    samples = [{"id": "q", "query": "q", "contexts": ["q"]}]
    evaluate(samples, **call)
    before = {file.name: file.read_bytes() for file in (tmp_path / "r").iterdir()}
    with pytest.raises(InputError):
        evaluate(samples, **call | mistake)
    assert {file.name: file.read_bytes() for file in (tmp_path / "r").iterdir()} == before


def test_a_ledger_in_the_report_folder_stays(tmp_path: Path) -> None:
    """What the caller names is not deleted with germane's own files when the report is complete."""
    where: dict[str, Any] = {"folder": tmp_path / "r", "ledger": tmp_path / "r" / "ledger.sqlite"}
    samples = [{"id": "q", "query": "q", "contexts": ["q"]}]
    with ModelServer() as server:
        for _ in range(2):
            judge = LLMJudge("openai:test", base_url=server.url, api_key="k")
            evaluate(samples, "context_precision", judge=judge, **where)
            assert (server.count, where["ledger"].exists()) == (1, True)


def test_a_question_is_made_only_for_what_no_store_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A second evaluation makes one example a sample, to know wording and settings, and none for a passage that is known."""
    samples = [row(0, number) for number in range(4)]
    asked: list[str] = []

    def judged(question: Any) -> dict[str, Any]:
        asked.append(question.passage)
        return {"grade": 2, "reasoning": ""}

    evaluate(samples, "context_precision", judge=FakeJudge(judged, stored=True), ledger=tmp_path / "l.sqlite")
    made: list[str] = []
    created = Relevance.__init__

    def counted(self: Relevance, **fields: Any) -> None:
        made.append(fields["passage"])
        created(self, **fields)

    monkeypatch.setattr(Relevance, "__init__", counted)
    samples[0]["contexts"][2] = {"text": "another"}
    evaluate(samples, "context_precision", judge=FakeJudge(judged, stored=True), ledger=tmp_path / "l.sqlite")
    assert asked[12:] == ["another"]
    assert len(made) == len(samples) + 1
