"""`evaluate(questions, measures, target=...)`: systems are asked as they are, from Python."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from germane import InputError, Sample, aevaluate, evaluate
from germane.judges import FakeJudge

DOCS = {"d1": "the moon makes the tides", "d2": "coffee is roasted", "d3": "plants need light"}
QUESTIONS = [
    {"id": "a", "question": "what makes the tides", "qrels": {"d1": 1}},
    {"id": "b", "question": "how is coffee made", "qrels": {"d2": 1}},
]


def search(query: str) -> list[str]:
    """Ids, the one with most words in common first."""
    words = set(query.split())
    return sorted(DOCS, key=lambda name: -len(words & set(DOCS[name].split())))[:2]


def plain(query: str) -> list[dict[str, str]]:
    return [{"id": name, "text": DOCS[name]} for name in search(query)]


async def awaited(query: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"response": "because", "contexts": plain(query)}


class LangChainLike:
    """Its documents have `page_content`."""

    def invoke(self, query: str, config: Any = None) -> list[Any]:
        return [SimpleNamespace(page_content=DOCS[name], id=name, metadata={}) for name in search(query)]


class LlamaIndexLike:
    """Its nodes stand in a record with their score."""

    def retrieve(self, query: str) -> list[Any]:
        def node(name: str) -> Any:
            return SimpleNamespace(get_content=lambda: DOCS[name], node_id=name, metadata={})

        return [SimpleNamespace(node=node(name), score=0.5) for name in search(query)]


class HaystackLike:
    """A component is run with the query, and returns its outputs by name."""

    def run(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        found = (SimpleNamespace(content=DOCS[name], meta={}, id=name, score=1.0) for name in search(query))
        return {"documents": list(found)}


class HaystackPipeline(HaystackLike):
    """A pipeline is run with the inputs of its components."""

    def inputs(self) -> dict[str, Any]:
        return {"retriever": {"query": {}, "top_k": {}}}

    def run(self, data: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return {"retriever": super().run(**data["retriever"])}


class Callable:
    def __call__(self, query: str) -> list[dict[str, str]]:
        return plain(query)


@pytest.mark.parametrize(
    "target",
    [plain, awaited, Callable(), LangChainLike(), LlamaIndexLike(), HaystackLike(), HaystackPipeline()],
    ids=lambda one: getattr(one, "__name__", type(one).__name__),
)
def test_a_system_is_asked_as_it_is(target: Any) -> None:
    """A function, asynchronous or not, and the retrievers of three libraries."""
    report = evaluate(QUESTIONS, "RR R@2", target=target)
    assert report["RR"].mean == 1.0
    assert next(context.id for sample in report.samples() for context in sample.contexts or ()) == "d1"


def test_documents_without_ids_are_never_a_silent_zero() -> None:
    """The id in the metadata counts; where there is none at all, measures over gold are skipped."""

    class Bare(LangChainLike):
        def invoke(self, query: str, config: Any = None) -> list[Any]:
            return [
                SimpleNamespace(page_content=DOCS[name], id=None, metadata=self.of(name))
                for name in search(query)
            ]

        def of(self, name: str) -> dict[str, str]:
            return {"source": f"{name}.pdf"}

    class Named(Bare):
        def of(self, name: str) -> dict[str, str]:
            return {"doc_id": name}

    assert evaluate(QUESTIONS, "RR", target=Named())["RR"].mean == 1.0
    found = evaluate(QUESTIONS, "RR nDCG@2", target=Bare())
    assert (found["RR"].n, found["RR"].skipped, found.verdict.exit_code) == (0, 2, 2)
    assert any("no context has a document id" in str(reason) for reason in found.verdict.reasons)


@pytest.mark.parametrize(
    "questions",
    [
        [one["question"] for one in QUESTIONS],
        QUESTIONS,
        [Sample(id="a", query="what makes the tides"), Sample(id="b", query="how is coffee made")],
        pd.DataFrame(QUESTIONS),
    ],
    ids=["texts", "dicts", "samples", "frame"],
)
def test_questions_come_in_any_shape(questions: Any) -> None:
    """Texts are questions where a system is asked for the contexts."""
    report = evaluate(questions, "context_redundancy", target=plain)
    assert [sample.query for sample in report.samples()] == ["what makes the tides", "how is coffee made"]
    assert report["context_redundancy"].n == 2


class Panic(BaseException):
    """An exception as extensions in Rust raise it."""


@pytest.mark.parametrize(
    "error", [KeyError("coffee"), asyncio.CancelledError(), Panic("no index"), InputError("no such field")]
)
def test_what_a_system_raises_is_the_error_of_that_sample(error: BaseException) -> None:
    """The others are scored; the reason names the system and what it raised."""

    async def picky(query: str) -> list[dict[str, str]]:
        if "coffee" in query:
            raise error
        return plain(query)

    report = evaluate(QUESTIONS, "RR", target=picky)
    assert (report["RR"].n, report["RR"].errors) == (1, 1)
    assert f"target picky: {type(error).__name__}" in str(report)


def test_a_notebook_shows_why_scores_are_missing() -> None:
    """With the text of a hostile error escaped; and what `print` notes."""

    def broken(query: str) -> list[str]:
        raise KeyError("<b>")

    page = evaluate(QUESTIONS, "RR", target=broken)._repr_html_()
    assert "2 x target broken: KeyError: &#x27;&lt;b&gt;&#x27; (RR)" in page


def test_gold_that_occurs_nowhere_is_noted() -> None:
    """In print and in a notebook, as `germane run` says it."""
    report = evaluate(QUESTIONS, "RR", target=lambda _: [{"id": "D1", "text": "x"}])
    for text in (str(report), report._repr_html_()):
        assert "2 of 2 gold ids occur in no retrieved list: d1, d2" in text


def test_the_same_call_goes_on_in_its_folder(tmp_path: Path) -> None:
    """Answers are kept, and said to be; another question of the same id is asked."""
    asked: list[str] = []

    def counted(query: str) -> list[dict[str, str]]:
        asked.append(query)
        return plain(query)

    for _ in range(2):
        report = evaluate(QUESTIONS, "RR", target=counted, folder=tmp_path / "r")
        assert (report["RR"].mean, len(asked)) == (1.0, 2)
    with pytest.raises(InputError, match="already holds a report"):
        evaluate(
            [{**QUESTIONS[0], "question": "x"}, QUESTIONS[1]], "RR", target=counted, folder=tmp_path / "r"
        )


@pytest.mark.parametrize("target", [3, "retriever", object()])
def test_what_cannot_be_asked_is_refused(target: Any) -> None:
    """An object without a method that answers a query."""
    with pytest.raises(InputError, match="cannot be queried"):
        evaluate(QUESTIONS, "RR", target=target)


def test_answers_are_kept_until_the_report_is_complete(tmp_path: Path) -> None:
    """The same call with a folder goes on after an interruption: no question is asked again."""
    asked: list[str] = []

    def counted(query: str) -> list[dict[str, str]]:
        asked.append(query)
        return plain(query)

    class Broken(FakeJudge):
        async def answer(self, questions: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(QUESTIONS, "context_precision", target=counted, judge=Broken(), folder=tmp_path / "r")
    report = evaluate(
        QUESTIONS, "context_precision", target=counted, judge=FakeJudge(), folder=tmp_path / "r"
    )
    assert len(asked) == 2
    assert report["context_precision"].n == 2


def test_it_works_where_a_loop_runs() -> None:
    """In a notebook, both spellings."""

    async def cell() -> tuple[float | None, float | None]:
        inside = evaluate(QUESTIONS, "RR", target=plain)
        return inside["RR"].mean, (await aevaluate(QUESTIONS, "RR", target=awaited))["RR"].mean

    assert asyncio.run(cell()) == (1.0, 1.0)


def test_answerable_is_read_as_tables_have_it() -> None:
    """A column of booleans in which one is missing is one of 1.0, 0.0 and NaN; a column of texts has "true"."""
    given = [True, 1.0, np.float64(1), "true", "True", 0.0, False, "false", math.nan, None]
    rows = pd.DataFrame({"query": [str(one) for one in given], "contexts": [["a"]] * 10})
    rows["answerable"] = pd.Series(given, dtype=object)
    report = evaluate(rows, "context_redundancy")
    assert [sample.answerable for sample in report.samples()] == [True] * 5 + [False] * 3 + [None] * 2
    with pytest.raises(InputError, match="answerable"):
        evaluate([{"query": "a", "contexts": ["b"], "answerable": "perhaps"}], "context_redundancy")


def test_unknown_columns_are_listed_with_the_names_that_are_read() -> None:
    """The error about a missing query names the columns that are there."""
    with pytest.raises(InputError, match=r"its fields are 'Frage'.*user_input"):
        evaluate(pd.DataFrame({"Frage": ["a"]}), "RR")
