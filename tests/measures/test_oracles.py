"""The ranked measures equal trec_eval's own code (through pytrec_eval) and scikit-learn, on thousands of random cases."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import average_precision_score, f1_score, ndcg_score, precision_score, recall_score

from germane.evaluation.rank import rank, rank_part
from germane.measures import Measure

TREC = {
    "map": "AP",
    "map_cut_3": "AP@3",
    "map_cut_10": "AP@10",
    "ndcg": "nDCG",
    "ndcg_cut_3": "nDCG@3",
    "ndcg_cut_10": "nDCG@10",
    "P_1": "P@1",
    "P_3": "P@3",
    "P_10": "P@10",
    "recall_3": "R@3",
    "recall_10": "R@10",
    "recip_rank": "RR",
    "bpref": "bpref",
    "Rprec": "Rprec",
    "success_1": "Success@1",
    "success_3": "Success@3",
    "set_P": "SetP",
    "set_recall": "SetR",
    "set_F": "SetF",
    "num_ret": "num_ret",
    "num_rel": "num_rel",
    "num_rel_ret": "num_rel_ret",
    "iprec_at_recall_0.00": "IPrec@0",
    "iprec_at_recall_0.10": "IPrec@0.1",
    "iprec_at_recall_0.50": "IPrec@0.5",
    "iprec_at_recall_1.00": "IPrec@1",
}
ASKED = {"map", "map_cut.3,10", "ndcg", "ndcg_cut.3,10", "P.1,3,10", "recall.3,10", "recip_rank"} | {
    "bpref", "Rprec", "success.1,3", "set_P", "set_recall", "set_F",
    "num_ret", "num_rel", "num_rel_ret", "iprec_at_recall.0,0.1,0.5,1",
}  # fmt: skip

documents = st.sampled_from([f"d{i}" for i in range(14)] + ["D1", "é", "z-9"])
# at least one grade of 0 or more: without any, trec_eval reads the previous query's levels (and may never return)
qrels = st.dictionaries(documents, st.integers(-1, 3), min_size=1, max_size=10).filter(
    lambda known: max(known.values()) >= 0
)
unsigned = st.dictionaries(documents, st.integers(0, 3), min_size=1, max_size=10)
# halves are exact in pytrec_eval's single precision; few of them, so that ties are common
runs = st.dictionaries(documents, st.integers(-4, 4).map(lambda n: n / 2), min_size=1, max_size=14)
queries = st.lists(st.tuples(qrels, runs), min_size=1, max_size=4)


def compare(
    cases: list[tuple[dict[str, int], dict[str, float]]], rel: int = 1, *, condensed: bool = False
) -> None:
    gold = {f"q{i}": known for i, (known, _) in enumerate(cases)}
    run = {f"q{i}": found for i, (_, found) in enumerate(cases)}
    oracle = pytrec_eval.RelevanceEvaluator(gold, ASKED, relevance_level=rel, judged_docs_only_flag=condensed)
    expected = oracle.evaluate(run)
    wanted: dict[str, list[str]] = {}  # what trec_eval calls each of our measures
    for theirs, ours in TREC.items():
        measure = Measure.parse(ours)
        assert Measure.parse(theirs) == measure
        if condensed and ours == "num_ret":
            continue  # trec_eval's -J counts what is judged; here num_ret is what came back
        if "rel" in measure.definition.params:
            measure = measure(rel=rel)
        if condensed and "holes" in measure.definition.params:
            measure = measure(holes="condensed")
        wanted.setdefault(str(measure), []).append(theirs)
    scores = list(rank_part(run, gold, list(map(Measure.parse, wanted))).scores)
    assert {score.type for score in scores} == wanted.keys()
    for score in scores:
        for theirs in wanted[score.type]:
            value = expected[score.sample][theirs]
            # trec_eval divides 0 by 0 in a few measures where nothing is relevant; here that is 0
            value = 0.0 if math.isnan(value) else value
            assert score.value == pytest.approx(value, abs=1e-9), f"{theirs} of {score.sample}"


@settings(max_examples=400)
@given(queries)
def test_equal_to_trec_eval(cases: list[tuple[dict[str, int], dict[str, float]]]) -> None:
    """Ties, unjudged documents, negative grades and negative scores, all as trec_eval has them."""
    compare(cases)


@pytest.mark.equals("pytrec-eval-terrier", what="the same at `-l 2` to `-l 4`: our `rel`", within="1e-9")
@settings(max_examples=200)
@given(queries, st.integers(2, 4))
def test_equal_to_trec_eval_at_other_thresholds(
    cases: list[tuple[dict[str, int], dict[str, float]]], rel: int
) -> None:
    """Our `rel` is the option `-l` of trec_eval."""
    compare(cases, rel)


@pytest.mark.equals(
    "pytrec-eval-terrier",
    what="the same with `-J`: our `holes=condensed`",
    within="1e-9",
    but="num_ret is what came back, and a negative grade is a judgement",
)
@settings(max_examples=200)
@given(st.lists(st.tuples(unsigned, runs), min_size=1, max_size=4))
def test_condensed_lists_are_equal_to_judged_documents_only(
    cases: list[tuple[dict[str, int], dict[str, float]]],
) -> None:
    """Condensed lists are trec_eval's -J, but for negative grades: these are judged here, and not there."""
    compare(cases, condensed=True)


distinct = st.lists(st.integers(0, 3), min_size=2, max_size=12).flatmap(
    lambda found: st.tuples(st.just(found), st.permutations(range(len(found))))
)


@pytest.mark.equals(
    "scikit-learn", what="AP, nDCG@k, P@k, R@k, F1@k where all is judged and nothing is tied", within="1e-12"
)
@settings(max_examples=100)
@given(distinct, st.integers(1, 12))
def test_equal_to_scikit_learn(case: tuple[list[int], list[int]], k: int) -> None:
    """Where the definitions agree (all is judged and retrieved, no ties), so do the values."""
    found, order = case
    scores = [float(place) for place in order]
    truth = np.array([grade >= 1 for grade in found])
    run = {"q": {f"d{i}": score for i, score in enumerate(scores)}}
    gold = {"q": {f"d{i}": grade for i, grade in enumerate(found)}}
    k = min(k, len(found))
    part = rank_part(run, gold, f"AP nDCG@{k} SetP P@{k} R@{k} F1@{k}")
    got = {score.measure: score.value for score in part.scores}
    top = np.zeros(len(found), dtype=bool)
    top[np.argsort(-np.array(scores))[:k]] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        warnings.filterwarnings("ignore", message="No positive class")
        expected = {
            "AP": average_precision_score(truth, scores) if truth.any() else 0.0,
            f"nDCG@{k}": ndcg_score([found], [scores], k=k),
            "SetP": truth.mean(),
            f"P@{k}": precision_score(truth, top, zero_division=0),
            f"R@{k}": recall_score(truth, top, zero_division=0),
            f"F1@{k}": f1_score(truth, top, zero_division=0),
        }
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, abs=1e-12), name


@pytest.mark.equals("TREC's gdeval.pl", what="ERR@5, ERR@20", within="its five digits")
@pytest.mark.parametrize(
    ("grades", "at_5", "at_20"),
    [
        ([4, 4, 0, 1, 2, 1, 0, None, None, None, None, None, None, 3, 2, None], 0.967, 0.96713),
        ([3, 0, None, 2, None, None, None, None, None, 0, 3, 1, None, None, None], 0.46387, 0.48338),
        ([None, None, 0, 3, 1, 1, None, None, None, None, 0, 2, 4, None], 0.11641, 0.15859),
        ([None, None, 1, 2, None, 3, 3, 1, 0, None, 0, 0, None, 4, None, None, None, 3, None, 4, None], 0.06478, 0.16483),
    ],
)  # fmt: skip
def test_equal_to_gdeval(grades: list[int | None], at_5: float, at_20: float) -> None:
    """ERR of a list with these grades by rank, as TREC's gdeval.pl printed it, to its five digits."""
    gold = {f"d{rank:02}": grade for rank, grade in enumerate(grades) if grade is not None}
    got = rank({"q": [f"d{place:02}" for place in range(len(grades))]}, {"q": gold}, "ERR@5 ERR@20")
    assert got["ERR@5"].mean == pytest.approx(at_5, abs=5.1e-6)
    assert got["ERR@20"].mean == pytest.approx(at_20, abs=5.1e-6)
