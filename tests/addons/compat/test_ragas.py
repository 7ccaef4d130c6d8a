"""Ragas' call shape: one row scored, a data set evaluated, nothing ever NaN."""

from types import SimpleNamespace

import pytest

from germane.addons.compat.ragas import (
    Metric,
    context_precision,
    context_recall,
    context_utilization,
    evaluate,
)
from germane.errors import AnswerError, InputError
from germane.judges import LLMJudge
from germane.testing import FakeJudge
from tests.server import ModelServer

OLD = {"question": "q", "contexts": ["no", "yes"], "ground_truth": "one. two.", "answer": "a"}
NEW = {"user_input": "q", "retrieved_contexts": ["no", "yes"], "reference": "one. two.", "response": "a"}


def answer(question):
    if question.kind == "relevance":
        if question.passage == "broken":
            raise AnswerError("it broke")
        return {"grade": 3 if question.passage == "yes" else 0, "reasoning": ""}
    if question.kind == "claims":
        return {"claims": ["one", "two"]}
    return {"claims": [{"claim": n, "reasoning": "", "contexts": [1] if n == 1 else []} for n in (1, 2)]}


@pytest.fixture
def judge():
    return FakeJudge(answer)


@pytest.mark.parametrize("row", [OLD, NEW])
def test_one_row_in_either_generations_columns(row, judge):
    """context_precision of N Y is .5, context_recall of one claim of two is .5."""
    assert context_precision.score(row, llm=judge) == 0.5
    assert context_recall.score(row, llm=judge) == 0.5


def test_a_judge_is_named_or_found_in_the_environment(monkeypatch, tmp_path):
    """Never a default model: without any it is an error that says what to write."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="name one"):
        context_precision.score(OLD)
    monkeypatch.setenv("GERMANE_JUDGE", "labels")
    labelled = {"question": "q", "contexts": [{"text": "a", "grade": 0}, {"text": "b", "grade": 3}]}
    assert context_precision.score(labelled) == 0.5


def test_utilization_is_judged_against_the_answer(judge):
    """Ragas' context precision without a reference."""
    assert context_utilization.score(OLD, llm=judge) == 0.5
    assert {question.response for question in judge.asked} == {"a"}
    assert {question.reference for question in judge.asked} == {None}


DATASETS = {
    "rows": [OLD, OLD],
    "objects": [SimpleNamespace(**NEW), SimpleNamespace(model_dump=lambda: NEW)],
    "columns": {name: [value, value] for name, value in OLD.items()},
    "frame": SimpleNamespace(columns=list(OLD), to_dict=lambda _: [OLD, OLD]),
}


@pytest.mark.parametrize("shape", DATASETS)
def test_a_data_set_in_any_shape(shape, judge):
    """Rows, objects, columns or a data frame: a value a row and metric, and means."""
    result = evaluate(DATASETS[shape], [context_precision, context_recall], llm=judge)
    assert result["context_recall"] == [0.5, 0.5]
    assert result.scores[0] == {"context_precision": 0.5, "context_recall": 0.5}
    assert str(result) == "{context_precision: 0.5000, context_recall: 0.5000}"


def test_what_could_not_be_measured_is_none_with_why(judge):
    """A missing reference and a failing judge: None, the reason beside it, and left out of the mean."""
    rows = [
        OLD,
        {**OLD, "contexts": ["broken", "yes"]},
        {"question": "r", "contexts": ["yes"], "ground_truth": float("nan")},
        {"question": "s", "contexts": None, "ground_truth": "one."},
    ]
    result = evaluate(rows, [context_precision, context_recall], llm=judge)
    assert result["context_precision"] == [0.5, None, 1.0, None]
    assert result["context_recall"] == [0.5, 0.5, None, None]
    assert result.why[1]["context_precision"].startswith("incomplete: 1 of 2 verdicts missing")
    assert result.why[2] == {"context_recall": "skipped: the sample has no reference"}
    assert result.why[3]["context_recall"] == "skipped: the sample's contexts are not known"
    assert result.means == {"context_precision": 0.75, "context_recall": 0.5}


def test_nothing_measured_has_no_mean(judge):
    """Not 0, not NaN."""
    result = evaluate([{"question": "q", "contexts": ["yes"]}], [context_recall], llm=judge)
    assert result.means == {"context_recall": None}
    assert "not measured" in str(result)


def test_all_metrics_share_one_verdict(judge):
    """Two measures of relevance ask once a passage."""
    evaluate([OLD], [context_precision, Metric("position", "context_position")], llm=judge)
    assert len(judge.asked) == 2


def test_columns_can_be_mapped_and_old_ground_truths_are_read(judge):
    """`column_map` as Ragas has it; a list of ground truths is one reference."""
    row = {"Query": "q", "contexts": ["yes"], "ground_truths": ["one.", "two."]}
    result = evaluate([row], [context_recall], llm=judge, column_map={"question": "Query"})
    assert result["context_recall"] == [0.5]
    assert judge.asked[0].text == "one.\ntwo."


def test_one_old_ground_truth_is_the_reference(judge):
    """A string is not a list of letters."""
    row = {"question": "q", "contexts": ["yes"], "ground_truths": "one. two."}
    evaluate([row], [context_recall], llm=judge)
    assert judge.asked[0].text == "one. two."


@pytest.mark.parametrize(
    ("dataset", "problem"),
    [
        (
            {"question": ["q", "r"], "contexts": [["yes"]]},
            "columns of a data set must be lists of the same length",
        ),
        ({"question": "q", "contexts": ["yes"]}, "columns of a data set must be lists of the same length"),
        ({"question": ["q"], "contexts": None}, "columns of a data set must be lists of the same length"),
        ([1], "a row of the data set is the number 1"),
        ([{"question": "q", "contexts": ["yes"], "ground_truths": [1]}], "ground_truth is a list"),
    ],
)
def test_what_is_no_data_set_is_an_error(dataset, problem, judge):
    with pytest.raises(InputError, match=problem):
        evaluate(dataset, [context_recall], llm=judge)


def test_gold_ids_need_no_judge(monkeypatch, tmp_path):
    """Ragas' id-based metrics: any of germane's measures under a name."""
    monkeypatch.chdir(tmp_path)
    row = {"user_input": "q", "retrieved_context_ids": ["a", "b"], "reference_context_ids": ["b", "c"]}
    result = evaluate([row], [Metric("id_recall", "SetR"), Metric("id_precision", "SetP")])
    assert result.scores[0] == {"id_recall": 0.5, "id_precision": 0.5}


def test_the_same_name_twice_is_an_error(judge):
    """Its column would be ambiguous."""
    with pytest.raises(InputError, match="must be unique"):
        evaluate([OLD], [context_recall, context_recall], llm=judge)


def test_a_model_over_http():
    """The same with a language model behind an OpenAI-compatible endpoint."""
    with ModelServer() as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="test")
        result = evaluate([OLD, {**NEW, "user_input": "r"}], llm=judge)
    assert all(value is not None for row in result.scores for value in row.values())
