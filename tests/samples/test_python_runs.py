"""Runs and gold of Python code: mappings, lists and rows in the shapes that people have, with ids as text on both sides."""

import math
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from germane import evaluate
from germane.errors import InputError
from germane.evaluation.rank import rank
from germane.samples import samples_from

ScoredDoc = namedtuple("ScoredDoc", "query_id doc_id score")  # noqa: PYI024 - as ir_measures has them
Qrel = namedtuple("Qrel", "query_id doc_id relevance iteration")  # noqa: PYI024


@dataclass
class Hit:
    qid: object
    docno: object
    score: float


PAIRS = [("q", 10, 2.0), ("q", "20", 1.0)]
RUNS = {
    "ids as numbers": {"q": {10: 2.0, 20: 1.0}},
    "ids of numpy": {"q": {np.int64(10): np.float32(2), np.int64(20): np.int8(1)}},
    "whole floats": {"q": {10.0: 2, 20.0: 1}},
    "bytes": {b"q": {b"10": 2, b"20": 1}},
    "a list": {"q": ["10", "20"]},
    "a tuple of numbers": {"q": (10, 20.0)},
    "an array": {"q": np.array([10, 20])},
    "objects": {"q": [{"id": "10"}, {"id": 20}]},
    "pairs with scores": {"q": [("20", 1.0), (10, 2)]},
    "rows as mappings": [{"query_id": q, "doc_id": d, "score": s} for q, d, s in PAIRS],
    "named tuples": [ScoredDoc(*row) for row in PAIRS],
    "a generator of rows": (ScoredDoc(*row) for row in reversed(PAIRS)),
    "tuples": PAIRS,
    "data classes": [Hit(*row) for row in PAIRS],
    "rows as samples": [{"id": "q", "retrieved_context_ids": np.array([10, 20])}],
}
GOLD = {
    "text": {"q": {"20": 1}},
    "a number": {"q": {20: 1}},
    "numbers of numpy": {np.str_("q"): {np.int32(20): np.int64(1)}},
    "a whole float": {"q": {20.0: 1.0}},
    "yes": {"q": {"20": True}},
    "bytes": {b"q": {b"20": 1}},
    "a list": {"q": ["20"]},
    "a set": {"q": {20}},
    "named tuples": [Qrel("q", "20", 1, "0")],
    "a generator of rows": (Qrel("q", 20, 1, "0") for _ in range(1)),
    "rows as mappings": [{"query_id": "q", "doc_id": 20, "relevance": 1}],
    "tuples": [("q", "20", 1)],
    "a list of graded objects": {"q": [{"doc_id": 10, "relevance": 0}, {"doc_id": "20", "relevance": 1}]},
    "graded objects and an id": {"q": [{"id": "10", "grade": 0}, "20"]},
    "pairs with grades": {"q": [("10", 0), ("20", 1)]},
}


@pytest.mark.parametrize("shape", RUNS)
def test_shapes_of_runs(shape):
    """Each is the same ranking."""
    assert rank(RUNS[shape], {"q": {"20": 1}}, "RR")["RR"].mean == 0.5


@pytest.mark.parametrize("shape", GOLD)
def test_shapes_of_gold(shape):
    """Each is the same gold."""
    assert rank({"q": {10: 2.0, "20": 1.0}}, GOLD[shape], "RR")["RR"].mean == 0.5


@pytest.mark.parametrize(
    ("run", "gold", "message"),
    [
        ({"q": "20"}, None, "query q is the string '20'"),
        ({"q": {"20", "10"}}, None, "query q is a set, which has no order"),
        ({"q": None}, None, "query q is null"),
        ({"q": [None]}, None, "query q has contexts without a document id"),
        ({"q": [["20", "10"]]}, None, "query q has contexts without a document id"),
        ({"q": [("20", "1.0")]}, None, "query q has contexts without a document id"),
        ({"q": iter(["20"])}, None, "query q is"),
        ({"q": [20.5]}, None, "query q has contexts without a document id"),
        ({"q": {"20": "much"}}, None, "query q: the score 'much' is not a number"),
        ({"q": {"20": None}}, None, "query q: the score null is not a number"),
        ({"q": {"20": math.nan}}, None, "query q is NaN"),
        ({"q": {20: 1, "20": 2}}, None, "query q has the same document twice"),
        ({1.5: ["20"]}, None, "query 1.5 is the number 1.5"),
        ({7: ["20"], "7": ["20"]}, None, "query 7 occurs twice"),
        ({"q": [b"\xff"]}, None, "bytes that are not UTF-8"),
        (5, None, "the number 5 is not a run"),
        ([5], None, "run:1: this row is 5, not a JSON object"),
        (None, {"q": "20"}, "query q is the string '20'"),
        (None, {"q": {"20": None}}, "query q: the grade null is not a number"),
        (None, {"q": {"20": math.nan}}, "query q: the grade 'nan' is not a whole number"),
        (None, {"q": {"20": 0.5}}, "query q: the grade '0.5' is not a whole number"),
        (None, {}, "no gold"),
    ],
)
def test_other_shapes_are_errors(run, gold, message):
    """One sentence names the query and what is wrong there."""
    with pytest.raises(InputError, match=message):
        rank({"q": ["20"]} if run is None else run, {"q": {"20": 1}} if gold is None else gold, "RR")


def _endless(kind):
    loop = kind()
    loop.append(loop) if kind is list else loop.update(a=loop)
    return loop


def _deep(levels):
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [_endless(list), _endless(dict), _deep(150), _deep(5000)])
def test_endless_and_deep_values_are_errors(value):
    """A value that contains itself ends in one sentence, wherever it is in samples, runs and gold."""
    row = {"query": "a", "qrels": {"20": 1}, "contexts": [{"id": "20", "text": "t"}]}
    inside = {"contexts": [{"text": "t", "metadata": {"x": value}}]}
    for more in ({"x": value}, {"qrels": value}, {"tags": value}, {"history": value}, inside):
        with pytest.raises(InputError):
            evaluate([{**row, **more}], "RR")
        with pytest.raises(InputError):
            list(samples_from([{**row, **more}]))
    for run in ({"q": value}, [("q", "20", value)], [{"query_id": "q", "doc_id": value}]):
        with pytest.raises(InputError):
            rank(run, {"q": {"20": 1}}, "RR")
        with pytest.raises(InputError):
            rank({"q": ["20"]}, run, "RR")


@pytest.mark.parametrize("value", [Decimal("1.5"), 1j, 10**5000, object(), b"1", {1}, Path("a")], ids=type)
def test_numbers_of_no_kind_are_errors(value):
    """A score or a grade of another type is named in one sentence."""
    for run, gold in (({"q": {"20": value}}, {"q": {"20": 1}}), ({"q": ["20"]}, {"q": {"20": value}})):
        with pytest.raises(InputError, match="is not a number"):
            rank(run, gold, "RR")


def test_bare_tuples_that_may_be_ranks():
    """Rows of three are read as the rows of a table without a header."""
    rows = [("q", "10", 1), ("q", "20", 2), ("q", "30", 3)]
    assert rank(rows, {"q": ["20"]}, "RR")["RR"].mean == 0.5
    with pytest.raises(InputError, match="may hold ranks or scores"):
        rank([rows[2], *rows[:2]], {"q": ["20"]}, "RR")
    with pytest.raises(InputError, match="run:2: query q has results with and without scores"):
        rank([("q", "10", 2.5), ("q", "20", None), ("q", "30", 0.5)], {"q": ["20"]}, "RR")


def test_a_named_index_of_pandas_is_columns():
    """A frame whose index has the ids is read as its rows are."""
    pandas = pytest.importorskip("pandas")
    rows = {"query_id": ["q", "q"], "doc_id": ["10", "20"], "score": [2.0, 1.0]}
    graded = pandas.DataFrame({"query_id": ["q"], "doc_id": ["20"]}).set_index("query_id")
    assert rank(pandas.DataFrame(rows).set_index(["query_id", "doc_id"]), graded, "RR")["RR"].mean == 0.5


@pytest.mark.parametrize("kind", [tuple, list])
def test_numbers_without_a_name_are_never_read_in_silence(kind):
    """Rows of three are a table without a header."""
    rows = [kind(("q", f"{at}0", at)) for at in (1, 2, 3)]
    read = rank(rows, {"q": {"20": 1}}, "RR")
    assert (read["RR"].mean, "read as the rank" in read.manifest["notes"][0]) == (0.5, True)
    with pytest.raises(InputError, match="may hold ranks or scores"):
        rank([rows[1], rows[0], rows[2]], {"q": {"20": 1}}, "RR")


FRAMES = {
    "arrays of ids, as read_parquet gives them": pd.DataFrame(
        {"qid": ["q"], "doc_ids": [np.array(["10", "20"])]}
    ),
    "arrays of ids and scores": pd.DataFrame(
        {"qid": ["q"], "doc_ids": [np.array([20, 10])], "scores": [np.array([1.0, 2.0])]}
    ),
    "lists of objects": pd.DataFrame({"qid": ["q"], "doc_ids": [[{"id": "10"}, {"id": "20"}]]}),
    "a lazy frame": pl.LazyFrame({"qid": ["q", "q"], "docno": [10, 20], "score": [2.0, 1.0]}),
}


@pytest.mark.parametrize("run", FRAMES.values(), ids=FRAMES)
def test_frames_are_runs(run):
    """Cells may hold arrays; a lazy frame is collected."""
    for gold in ({"q": ["20"]}, pd.DataFrame({"id": ["q"], "gold_ids": [np.array([20])]})):
        assert rank(run, gold, "RR")["RR"].mean == 0.5


def test_a_score_of_a_frame_that_is_no_number_is_an_error():
    """It is named with its row; a missing one too."""
    for scores, said in (([2, "x"], "run:2: the score 'x' is not a number"), ([1, math.nan], "is NaN")):
        frame = pd.DataFrame({"qid": ["q", "q"], "docno": ["10", "20"], "score": scores})
        with pytest.raises(InputError, match=said):
            rank(frame, {"q": ["20"]}, "RR")


def test_a_lazy_frame_has_samples():
    """It is collected."""
    rows: Any = pl.LazyFrame({"query": ["q"], "retrieved_context_ids": [["10", "20"]], "qrels": [["20"]]})
    assert evaluate(rows, "RR")["RR"].mean == 0.5
