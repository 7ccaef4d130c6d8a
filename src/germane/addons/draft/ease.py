"""How easy the questions are for word search, how far they repeat their passages, and what their number can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from germane.addons.draft.bm25 import terms
from germane.addons.draft.checks import content_words, function_words
from germane.addons.draft.rivals import Search
from germane.questions.text import words
from germane.statistics.intervals import clopper_pearson, mean_interval
from germane.types import Json, Sample

_SPREAD, _POWER = 0.20, 2.8
"""Standard deviation of paired differences of nDCG@10 (TREC DL 2019), and 1.96 + 0.84: found in 4 of 5 cases."""
_COPIED = 0.8


class MeasuredQuestion(NamedTuple):
    """What ease is computed from: `rank` is that of the first gold document by BM25, `overlap` the share of its content words there."""

    query: str
    has_gold: bool
    rank: int | None
    overlap: float | None
    known: float
    margin: float


def measured(query: str, gold: Sequence[str], search: Search) -> MeasuredQuestion:
    """Look a question up in the corpus; its overlap is the mean over its gold documents, of each with its nearest passage."""
    present = [doc for doc in gold if doc in search.of_doc]
    mine, shares = content_words(query), list[float]()
    for doc in present if mine else ():
        bags = [set(content_words(search.passages[at].text)) for at in search.of_doc[doc]]
        shares.append(max(sum(word in bag for word in mine) / len(mine) for bag in bags))
    listed = terms(query)
    scores = np.sort(search.index.scores(query))[::-1][:2]
    margin = float((scores[0] - scores[1]) / scores[0]) if len(scores) == 2 and scores[0] > 0 else 0.0
    known = sum(term in search.index for term in listed) / len(listed) if listed else 0.0
    rank = search.rank(query, present) if present else None
    return MeasuredQuestion(
        query, bool(present), rank, sum(shares) / len(shares) if shares else None, known, margin
    )


def of_sample(sample: Sample, search: Search) -> MeasuredQuestion:
    """Look up a real question, with the gold that it has."""
    gold = [doc for doc, grade in (sample.qrels or {}).items() if grade > 0]
    gold += [doc for group in sample.gold or () for doc in group]
    return measured(sample.query, gold, search)


def _share(values: Sequence[float], clusters: Sequence[str] | None = None) -> dict[str, Json]:
    """A mean of values in 0 to 1 with its interval."""
    if not values:
        return {"mean": None, "interval": None, "n": 0}
    own = None if clusters is None or len(set(clusters)) == len(clusters) else np.array(clusters)
    interval = mean_interval(values, clusters=own, value_range=(0.0, 1.0))
    return {"mean": interval.mean, "interval": list(interval.ends or ()) or None, "n": len(values)}


def _difference(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json] | None:
    """The difference of two independent means, with the interval that follows from theirs (Newcombe 1998)."""
    if one["interval"] is None or other["interval"] is None:
        return None
    (low, high), (low2, high2), a, b = one["interval"], other["interval"], one["mean"], other["mean"]
    d = a - b
    return {
        "mean": d,
        "interval": [
            d - sqrt((a - low) ** 2 + (high2 - b) ** 2),
            d + sqrt((high - a) ** 2 + (b - low2) ** 2),
        ],
    }


def summary(questions: Sequence[MeasuredQuestion], clusters: Sequence[str] | None = None) -> dict[str, Json]:
    """The facts about a set of questions; those of gold over the questions that have some."""
    with_gold = [at for at, question in enumerate(questions) if question.has_gold]
    ranks = [questions[at].rank for at in with_gold]
    theirs = None if clusters is None else [clusters[at] for at in with_gold]
    overlaps = [value for question in questions if (value := question.overlap) is not None]
    asking = [
        float(any(word in function_words() for word in words(question.query))) for question in questions
    ]
    return {
        "n": len(questions),
        "bm25_at_1": _share([float(rank == 1) for rank in ranks], theirs),
        "bm25_at_10": _share([float(rank is not None and rank <= 10) for rank in ranks], theirs),
        "overlap_median": float(np.median(overlaps)) if overlaps else None,
        "overlap": _share(overlaps),
        "overlap_above_0.8": _share([float(value > _COPIED) for value in overlaps]),
        "words_median": float(np.median([len(terms(question.query)) for question in questions]))
        if questions
        else None,
        "without_question_words": _share([1 - value for value in asking]),
        "known_words": _share([question.known for question in questions]),
        "bm25_margin": _share([question.margin for question in questions]),
    }


def compared(drafted: Mapping[str, Json], real: Mapping[str, Json]) -> dict[str, Json]:
    """The drafted set beside real questions: differences, and a word only where the interval excludes 0."""
    names = ("bm25_at_1", "bm25_at_10", "overlap", "without_question_words", "known_words", "bm25_margin")
    differences = {name: _difference(drafted[name], real[name]) for name in names}
    first, verdict = differences["bm25_at_1"], None
    if first is not None and first["interval"][0] > 0:
        verdict = "easier than your users'"
    elif first is not None and first["interval"][1] < 0:
        verdict = "harder than your users'"
    return {"differences": differences, "verdict": verdict}


def precision(clusters: Sequence[str]) -> dict[str, Any]:
    """How precisely this many questions measure; with every document's questions alike at worst (design effect)."""
    n, sizes = len(clusters), list(Counter(clusters).values())
    if not n:
        return {
            "questions": 0,
            "documents": 0,
            "design_effect": None,
            "share_half_width": None,
            "detectable_ndcg_at_10": None,
        }
    effect = sum(size * size for size in sizes) / n
    alone = n / effect
    low, high = clopper_pearson(0.7 * alone, alone)
    return {
        "questions": n,
        "documents": len(sizes),
        "design_effect": round(effect, 4),
        "share_half_width": round((high - low) / 2, 4),
        "detectable_ndcg_at_10": round(_POWER * _SPREAD / sqrt(n), 4),
    }


def interval_of(bad: int, n: int) -> list[float]:
    """The Clopper-Pearson interval of a share."""
    return [float(end) for end in clopper_pearson(bad, n)]
