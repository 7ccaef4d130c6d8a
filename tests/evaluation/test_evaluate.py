"""The Python API as a user writes it."""

import asyncio
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import germane
from germane import Context, GermaneError, InputError, Sample, aevaluate, evaluate, read_samples
from germane.judges import FakeJudge, LabelsJudge, LLMJudge, LocalJudge
from germane.measures import AP, P, context_precision, context_recall, nDCG
from germane.types import FrozenDict, Score
from tests.server import ModelServer

SAMPLES = [
    Sample(
        id="q1",
        query="how long does coffee steep",
        reference="Four minutes.",
        qrels=FrozenDict(a=2),
        contexts=(
            Context(text="it steeps four minutes", id="a", grade=3),
            Context(text="plants", id="b", grade=0),
        ),
    ),
    Sample(id="q2", query="what eats aphids", qrels=FrozenDict(c=1), contexts=()),
]


def test_evaluate_returns_a_report_that_reads_like_one() -> None:
    """Numbers by name or by measure, the worst queries, the table of the command line."""
    report = evaluate(
        SAMPLES, [context_precision @ 5, nDCG @ 10, AP(rel=2), P(rel=2) @ 1], judge=LabelsJudge()
    )
    assert report["nDCG@10"].mean == pytest.approx(0.5)
    assert report[context_precision @ 5].mean == pytest.approx(0.5)
    assert report["AP(rel=2)"].n == 1
    assert [score.sample for score in report.worst("context_precision@5", 1)] == ["q2"]
    assert "context_precision@5" in str(report)
    assert "exit code" in str(report)
    with pytest.raises(KeyError, match="computed measures: context_precision@5"):
        report["RR"]


def test_plain_dicts_will_do_and_names_will_do() -> None:
    """Rows with another tool's names, measures as text, a judge by name."""
    rows = [{"user_input": "a", "retrieved_contexts": ["a b"], "ground_truth": "a b"}]
    assert evaluate(rows, "context_precision@3 context_recall", judge="lexical")["context_recall"].mean == 1.0


def test_it_works_inside_a_running_loop() -> None:
    """In a notebook, where a loop runs already, evaluate() still returns; aevaluate() is the same coroutine."""

    async def cell() -> tuple[float | None, float | None]:
        inside = evaluate(SAMPLES, "RR")
        awaited = await aevaluate(SAMPLES, "RR")
        return inside["RR"].mean, awaited["RR"].mean

    assert asyncio.run(cell()) == (0.5, 0.5)


def test_a_report_is_saved_and_opened(tmp_path: Path) -> None:
    """What is saved reads back to the same numbers, scores and samples."""
    report = evaluate(
        SAMPLES, [context_precision @ 5], judge="labels", gates=["mean(context_precision@5)>=0.6"]
    )
    report.save(tmp_path / "r")
    again = germane.Report.open(tmp_path / "r")
    assert again["context_precision@5"] == report["context_precision@5"]
    assert list(again.scores()) == list(report.scores())
    assert list(again.samples()) == SAMPLES
    assert again.verdict == report.verdict
    assert report.verdict.exit_code == 1


def test_one_gate_is_a_string() -> None:
    report = evaluate(SAMPLES, "context_precision@5", judge="labels", gates="mean(context_precision@5)>=0.6")
    assert [gate.gate for gate in report.verdict.gates] == ["mean(context_precision@5)>=0.6"]


def test_a_model_judges_over_http() -> None:
    """LLMJudge against a real server: scored, and the cost line counts what was sent."""
    with ModelServer() as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k")
        report = evaluate(SAMPLES, [context_precision @ 5, context_recall], judge=judge)
        assert server.count == report.manifest["judge"]["requests"] == 4
    assert report["context_precision@5"].n == 2


def test_a_fake_judge_serves_users_tests() -> None:
    """Answers by a function: the measure's own arithmetic is what is tested."""
    judge = FakeJudge(
        lambda question: {"reasoning": "", "grade": 3 if "coffee" in str(question.inputs()) else 0}
    )
    assert evaluate(SAMPLES, context_precision @ 1, judge=judge)["context_precision@1"].mean == 0.5


class Half:
    """A judge that lacks half of what a judge has."""

    name, identity, stored, stand_in = "half", FrozenDict(), False, ""
    prompt_hash = close = None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate(SAMPLES, []), "no measure"),
        (lambda: evaluate(SAMPLES, [P]), "needs a cut-off"),
        (lambda: evaluate(SAMPLES, "context_recall"), "need a judge"),
        (lambda: evaluate([{"id": "x"}], "RR"), "query"),
        (lambda: evaluate(SAMPLES, "RR", gates=["AP>=0.5"]), "is not measured"),
        (lambda: evaluate(SAMPLES, "context_precision", judge="lexicl"), "unknown provider"),
        (lambda: evaluate(SAMPLES, "context_precision", judge=3), "3 is not a judge"),  # type: ignore[arg-type]
        (lambda: evaluate(SAMPLES, "context_precision", judge=Half()), "has no attribute"),  # type: ignore[arg-type]
        (
            lambda: evaluate(SAMPLES, "context_precision", judge=LocalJudge()),
            "the name of the judge .* is ''",
        ),
        (
            lambda: evaluate(SAMPLES, "context_precision", judge=[FakeJudge(name=" ")]),
            "the name of the judge",
        ),
        (lambda: read_samples("nowhere.jsonl"), "no such file"),
        (lambda: evaluate([{"query": "q"}], [3]), "the list of measures contains the number 3"),  # type: ignore[list-item]
    ],
)
def test_mistakes_are_input_errors(call: object, message: str) -> None:
    """What the caller can mend is said in one sentence."""
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("name", ["against", "scale", "rubric", "replay", "folder", "ledger", "max_cost",
                                  "max_calls", "max_unmeasured", "workers", "gates", "progress", "judge",
                                  "target", "measures", "samples", "allow_stand_in"])  # fmt: skip
@pytest.mark.parametrize("value", [1, 1.5, "x", [1], {"a": 1}, object(), True, b"x", None, math.nan])
def test_arguments_of_a_wrong_type_are_input_errors(name: str, value: Any, tmp_path: Path) -> None:
    """One error that names the argument or what it should be, never a TypeError from within."""
    given = {"samples": [{"query": "q", "contexts": [{"id": "a"}], "qrels": {"a": 1}}], "measures": "RR"}
    value = str(tmp_path / "x") if name in {"folder", "ledger", "replay"} and value == "x" else value
    with suppress(GermaneError):
        evaluate(**{**given, name: value})
    if name == "max_unmeasured" and isinstance(value, float):
        with pytest.raises(InputError, match="a number from 0 to 1"):
            evaluate([], "RR", max_unmeasured=value)
    if name in {"folder", "against", "progress"} and not isinstance(value, str | bool | None):
        with pytest.raises(InputError, match=name):
            evaluate(**{**given, name: value})


@pytest.mark.parametrize("contexts", [["text"], [None], [{"text": "a"}]])
def test_a_sample_holds_contexts(contexts: Any) -> None:
    """A record of ours made of something else says so at once; a mapping's contexts may be texts."""
    with pytest.raises(ValueError, match="contexts contains an entry that is not a Context"):
        Sample(id="a", query="q", contexts=contexts)


def test_frozen_means_frozen() -> None:
    """Neither a field nor anything inside one can be changed, and a changed copy leaves the original alone."""
    sample = SAMPLES[0]
    with pytest.raises(AttributeError):
        sample.query = "x"  # type: ignore[misc]
    assert sample.qrels is not None
    with pytest.raises(TypeError):
        sample.qrels["z"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        sample.metadata.update(a=1)
    assert isinstance(sample.contexts, tuple)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_there_is_no_nan_anywhere(bad: float) -> None:
    """A score, a retriever's score and metadata refuse what is not a number."""
    with pytest.raises(ValueError, match="finite"):
        Score(sample="s", measure="m", type="m", value=bad)
    with pytest.raises(ValueError, match="finite"):
        Context(text="x", score=bad)
    with pytest.raises(ValueError, match=r"not a finite number|which JSON cannot represent"):
        Context(text="x", metadata={"a": bad})


def test_scores_are_plain_json() -> None:
    """The document of a report has no NaN and survives JSON."""
    document = evaluate(SAMPLES, "RR nDCG@10").to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_a_score_explains_itself() -> None:
    """Hits and misses with positions, the working at each rank, the fixed line of reasoning."""
    report = evaluate(SAMPLES, [context_precision @ 5], judge="labels")
    why = report.explain("q1", "context_precision@5")
    assert why.hits == ("Position 1: Relevant",)
    assert why.misses == ("Position 2: Not relevant",)
    assert why.reasoning == "1/2 chunks relevant, precision score: 1.00"
    assert report.explain("q2", context_precision @ 5).misses == ("No context retrieved",)
    with pytest.raises(KeyError, match="q9"):
        report.explain("q9", context_precision @ 5)


def test_measures_that_need_a_judge_are_named():
    """Those alone that ask one."""
    rows = [{"query": "a", "contexts": ["t"], "reference": "r"}]
    with pytest.raises(InputError, match="need a judge: context_precision, context_recall; "):
        evaluate(rows, "context_precision RR context_recall")
