"""Measure how easy, how precise and how expensive a set of drafted questions is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from math import fsum, isnan, sqrt
from typing import Any, NamedTuple

import numpy as np

from germane.addons.draft.bm25 import terms
from germane.addons.draft.checks import content_words, function_words
from germane.addons.draft.drafting import draft_question
from germane.addons.draft.passages import Passage, Turn
from germane.addons.draft.questions import Standalone
from germane.addons.draft.rivals import Search
from germane.judges import Judge
from germane.questions import AnyQuestion, Sufficiency, Support
from germane.questions.text import words
from germane.statistics.intervals import clopper_pearson, mean_interval
from germane.types import Json, Sample, Usage

KEPT = {"low": 0.8, "typical": 0.54, "high": 0.2}
"""Assumed acceptance rates (accepted questions / attempts): a guess until a run has made 20 attempts."""
_LOOKED_AT = 8


def forecast(
    n: int,
    turns: Sequence[Turn],
    judges: tuple[Judge, Judge],
    examples: Sequence[str],
    others: Sequence[Passage],
) -> dict[str, Json]:
    """Estimate the calls, tokens and cost of drafting n questions, for several assumed acceptance rates."""
    judge, writer = judges
    first, texts = turns[:_LOOKED_AT], tuple(passage.text for passage in others[:20])
    misses = sum(turn.kind == "near-miss" for turn in turns) / len(turns) if turns else 0.0
    question = "How many days off are there when a child is born?"
    claim = "Parents are entitled to ten working days when a child is born."
    usages = (
        _mean(writer, [draft_question(turn, examples) for turn in first]),
        _mean(judge, [Standalone(question)]),
        _mean(judge, [Support((claim,), (turn.passage.text, *texts[:9])) for turn in first]),
        _mean(judge, [Sufficiency(question, texts)] if texts else []),
    )
    result: dict[str, Json] = {}
    for name, share in KEPT.items():
        attempts = min(n / share, 4.0 * n)
        last = attempts * min(1.0, share / 0.8)  # attempts that reach the last step, which .8 of them pass
        counts = (attempts, min(attempts, last / 0.85), last * (1 - misses), 2 * last * misses)
        steps = [(count, usage) for count, usage in zip(counts, usages, strict=True) if count]
        read, written, cost = (fsum(count * usage[at] for count, usage in steps) for at in range(3))
        tokens = {"input": round(read), "output": round(written)}
        price = None if isnan(cost) else round(cost, 4)
        calls = {"calls": round(sum(counts)), "attempts": round(attempts)}
        result[name] = {**calls, "tokens": tokens, "cost_usd": price}
    return result


def _mean(judge: Judge, questions: Sequence[AnyQuestion]) -> Sequence[float]:
    """Return the mean (input tokens, output tokens, cost in dollars) of asking one of the questions."""
    estimate = getattr(judge, "forecast", None)
    usages: list[Usage] = [estimate((question,)) for question in questions] if estimate is not None else []
    rows = [(usage.input_tokens, usage.output_tokens, usage.cost_usd) for usage in usages]
    means: list[float] = np.array(rows or [(0, 0, 0)], float).mean(axis=0).tolist()
    return means


_SPREAD, _POWER = 0.20, 2.8
"""The standard deviation of paired differences of nDCG@10 (TREC DL 2019); 1.96 + 0.84, for a power of 0.8."""
_COPIED = 0.8


class MeasuredQuestion(NamedTuple):
    """How easily a question's gold is found in the corpus.

    `rank` is the best BM25 rank of a gold document, `overlap` the proportion of the question's content words
    that its gold contains, `known` that of its terms that occur in the corpus, and `margin` the difference of
    the first and second BM25 score, divided by the first.
    """

    query: str
    has_gold: bool
    rank: int | None
    overlap: float | None
    known: float
    margin: float


def measured(query: str, gold: Sequence[str], search: Search) -> MeasuredQuestion:
    """Search the corpus for the question `query`, and return how easily BM25 finds its gold."""
    present = [doc for doc in gold if doc in search.of_doc]
    mine, shares, listed = content_words(query), list[float](), terms(query)
    for doc in present if mine else ():
        bags = [set(content_words(search.passages[at].text)) for at in search.of_doc[doc]]
        shares.append(max(sum(word in bag for word in mine) / len(mine) for bag in bags))
    scores = np.sort(search.index.scores(query))[::-1][:2]
    margin = float((scores[0] - scores[1]) / scores[0]) if len(scores) == 2 and scores[0] > 0 else 0.0
    known = sum(term in search.index for term in listed) / len(listed) if listed else 0.0
    overlap = sum(shares) / len(shares) if shares else None
    return MeasuredQuestion(query, bool(present), search.rank(query, present), overlap, known, margin)


def _share(values: Sequence[float], clusters: Sequence[str] | None = None) -> dict[str, Json]:
    """Return the `mean` of values from 0 to 1, its confidence `interval`, and the number of values (`n`)."""
    if not values:
        return {"mean": None, "interval": None, "n": 0}
    own = None if clusters is None or len(set(clusters)) == len(clusters) else np.array(clusters)
    interval = mean_interval(values, clusters=own, value_range=(0.0, 1.0))
    return {"mean": interval.mean, "interval": list(interval.ends or ()) or None, "n": len(values)}


def summary(questions: Sequence[MeasuredQuestion], clusters: Sequence[str] | None = None) -> dict[str, Json]:
    """Return how easy a set of questions is, such as for what proportion BM25 ranks a gold document first."""
    with_gold = [at for at, question in enumerate(questions) if question.has_gold]
    ranks = [questions[at].rank or np.inf for at in with_gold]
    theirs = None if clusters is None else [clusters[at] for at in with_gold]
    overlaps = [value for question in questions if (value := question.overlap) is not None]
    lengths = [len(terms(question.query)) for question in questions]
    telegraphic = [float(function_words().isdisjoint(words(question.query))) for question in questions]
    return {
        "n": len(questions),
        "bm25_at_1": _share([float(rank == 1) for rank in ranks], theirs),
        "bm25_at_10": _share([float(rank <= 10) for rank in ranks], theirs),
        "overlap_median": float(np.median(overlaps)) if overlaps else None,
        "overlap": _share(overlaps),
        "overlap_above_0.8": _share([float(value > _COPIED) for value in overlaps]),
        "words_median": float(np.median(lengths)) if lengths else None,
        "without_question_words": _share(telegraphic),
        "known_words": _share([question.known for question in questions]),
        "bm25_margin": _share([question.margin for question in questions]),
    }


def _difference(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the difference of two independent means, with an interval made of theirs (Newcombe 1998)."""
    if one["interval"] is None or other["interval"] is None:
        return None
    (low, high), (low2, high2), a, b = one["interval"], other["interval"], one["mean"], other["mean"]
    ends = -sqrt((a - low) ** 2 + (high2 - b) ** 2), sqrt((high - a) ** 2 + (b - low2) ** 2)
    return {"mean": a - b, "interval": [a - b + end for end in ends]}


def compared(drafted: Mapping[str, Json], real: Mapping[str, Json]) -> dict[str, Json]:
    """Return the `differences` in ease, drafted minus real questions, and the `verdict` which are easier."""
    names = ("bm25_at_1", "bm25_at_10", "overlap", "without_question_words", "known_words", "bm25_margin")
    differences = {name: _difference(drafted[name], real[name]) for name in names}
    low, high = (differences["bm25_at_1"] or {"interval": (0, 0)})["interval"]
    verdict = "easier than your users'" if low > 0 else "harder than your users'" if high < 0 else None
    return {"differences": differences, "verdict": verdict}


def of_set(
    rows: Sequence[Mapping[str, Any]], clusters: Sequence[str], real: Sequence[Sample], search: Search
) -> dict[str, Json]:
    """Return how easy drafted questions are for keyword search, compared with `real` questions if given."""
    drafted = [measured(row["query"], list(row.get("qrels") or ()), search) for row in rows]
    own = summary(drafted, clusters)
    if not real:
        return {"drafted": own}
    measured_real = list[MeasuredQuestion]()
    for sample in real:
        relevant = [doc for doc, grade in (sample.qrels or {}).items() if grade > 0]
        gold = [*relevant, *chain.from_iterable(sample.gold or ())]
        measured_real.append(measured(sample.query, gold, search))
    theirs = summary(measured_real)
    return {"drafted": own, "like": theirs, **compared(own, theirs)}


def precision(clusters: Sequence[str]) -> dict[str, Any]:
    """Return how precise a mean over drafted questions is; `clusters` names each question's document.

    In the worst case, all questions of a document have the same result.
    """
    n, sizes = len(clusters), list(Counter(clusters).values())
    effect = sum(size * size for size in sizes) / n if n else 1.0
    low, high = clopper_pearson(0.7 * n / effect, n / effect) if n else (0.0, 0.0)
    return {
        "questions": n,
        "documents": len(sizes),
        "design_effect": round(effect, 4) if n else None,
        "share_half_width": round((high - low) / 2, 4) if n else None,
        "detectable_ndcg_at_10": round(_POWER * _SPREAD / sqrt(n), 4) if n else None,
    }
