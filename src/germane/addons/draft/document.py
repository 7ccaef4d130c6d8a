"""The folder of a drafted set: draft.json with how easy and precise it is, samples, and people's labels."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain
from math import fsum, isnan, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from germane.addons.draft.drafting import Search, draft_question
from germane.addons.draft.passages import DraftCorpus, Passage, Turn, terms
from germane.addons.draft.questions import Standalone, content_words, function_words
from germane.clean import clean, counted
from germane.cli.keyboard import keyboard
from germane.cli.output import print_document, print_lines
from germane.encoding import now
from germane.errors import InputError
from germane.judges import Judge
from germane.questions import AnyQuestion, Sufficiency, Support
from germane.questions.text import words
from germane.samples.files import write_whole
from germane.samples.strictjson import read_json_lines
from germane.statistics.intervals import clopper_pearson, mean_interval
from germane.types import Json, Sample, Usage

KEYS = {
    "f": "fine",
    "n": "nobody would ask this",
    "t": "the text does not say it",
    "w": "answer wrong",
    "a": "not understandable alone",
    "u": "unsure",
}
_PROMPT = ", ".join(f"{key} {name}" for key, name in KEYS.items()) + ", s skip, q quit"


def label(
    folder: Path, *, who: str, budget: int | None, seed: int, json: bool, drop_bad: bool = False, **_: Any
) -> None:
    """Ask a person to label drafted questions until the budget is used up; every answer is saved at once.

    `who` is the name of the person, `seed` the random seed for drawing questions. With `json`, the questions
    are not shown, and the result is printed as JSON. `drop_bad` removes the questions that people labelled as
    bad. Raises InputError if the folder contains no drafted test set.
    """
    document = read_document(folder)
    if document is None:
        raise InputError(f"{folder} has no drafted test set", fix="name the folder that germane draft wrote")
    rows = read_rows(folder / SAMPLES)
    drawn = random.Random(seed).sample(rows, min(budget or len(rows), len(rows)))  # noqa: S311 - a draw that can be repeated
    answered = {row["item"] for row in read_labels(folder, rows, document["searched"]) if row["who"] == who}
    todo = [row for row in drawn if row["id"] not in answered]
    done = len(drawn) - len(todo)
    show: Callable[[str], None] = (lambda _: None) if json else print_lines
    show(f"{len(drawn)} to look at (random, seed {seed}), {done} done; labels of {clean(who)}")
    constant = {"kind": "draft", "scale": "draft", "who": who, "queue": "random", "blind": True}
    constant |= {"design": {"seed": seed, "n": len(drawn), "of": len(rows)}}
    with keyboard() as keys:
        for number, row in enumerate(todo, done + 1):
            show("\n".join(["", f"─── {number} of {len(drawn)} ───", *_shown(row, document), _PROMPT]))
            key = next((key for key in keys if key in {*KEYS, "s", "q"}), "q")
            if key == "q":
                break
            if key != "s":
                own = {"item": row["id"], "sample": row["id"], "query": row["query"], "answer": KEYS[key]}
                earlier = read_rows(folder / LABELS)
                write_rows(folder / LABELS, [*earlier, {**constant, **own, "at": now()}])
    removed = set(document["removed"])
    labels = read_labels(folder, rows, document["searched"])
    checked = document["checked_by_people"] = checked_by_people(labels)
    if drop_bad:
        removed |= {row["item"] for row in labels if row["answer"] not in ("fine", "unsure")}
    document["removed"] = sorted(removed)
    write_document(folder, document)
    write_rows(folder / SAMPLES, settle_rows(rows, labels, removed))
    if json:
        print_document({"schema_version": 1, "checked_by_people": checked, "removed": document["removed"]})
    elif checked is not None:
        low, high = checked["interval"]
        share = f"between {low:.0%} and {high:.0%} of such questions"
        dropped = f"; {counted(len(removed), 'question')} removed" if drop_bad else ""
        print_lines(f"\n{checked['bad']} of {checked['n']} bad: {share}{dropped}")


def _shown(row: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """Return the lines that show a person the question of `row`, a row of samples.jsonl."""
    lines = [f"question  {clean(row['query'])}"]
    if row.get("answerable") is False:
        places = document["searched"].get(row["id"], [])
        docs = ", ".join(dict.fromkeys(clean(str(place["doc"])) for place in places))
        return [*lines, "near-miss: these documents were searched and should not answer it:", f"  {docs}"]
    quotes = [(" ".join(piece["quote"].split()), str(piece["doc"])) for piece in row["evidence"]]
    around = " ".join(row["metadata"]["draft"]["around"].split())
    lines += [f"answer    {clean(row['reference'])}"]
    lines += [f"quote     {clean(quote)}  ({clean(doc)})" for quote, doc in quotes]
    return [*lines, f"around    {clean(around)}"]


SAMPLES, DROPPED, DOCUMENT, LABELS = "samples.jsonl", "dropped.jsonl", "draft.json", "labels.jsonl"
STEPS = ("write", "check", "alone", "round trip", "near-miss", "failed")


class DraftDocument(Struct, kw_only=True):
    """The content of draft.json and of `germane draft --json`: the numbers of questions, their ease, the cost."""

    schema_version: int = 1
    exit_code: int
    n: int
    kept: int
    attempts: int
    corpus: dict[str, Json]
    """digest, documents, passages, and the passages that were skipped, by reason"""
    dropped: dict[str, dict[str, int]]
    """rejected attempts, by step and reason"""
    kinds: dict[str, dict[str, int]]
    """for each kind, the numbers of wanted and accepted questions, of attempts, and of passages"""
    ease: dict[str, Json]
    precision: dict[str, Json]
    rivals: float | None
    """proportion of the questions that another document may answer too"""
    search: str
    searched: dict[str, Json]
    """for each question, the positions of the passages in which the judge found no answer"""
    documents_covered: int
    judge: str
    writer: str
    calls: int
    """number of calls whose answers were used, including calls of earlier runs"""
    tokens: dict[str, int]
    cost_usd: float | None
    seed: int
    stopped: str = ""
    checked_by_people: dict[str, Json] | None = None
    removed: list[str] = []
    """questions that people found bad and that `--drop-bad` removed"""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON Lines file, or [] if it does not exist."""
    return [row for _, row in read_json_lines(path)] if path.exists() else []


def write_rows(path: Path, rows: Iterable[Mapping[str, Json]]) -> None:
    """Write rows as JSON lines."""
    write_whole(path, (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def write_document(folder: Path, document: Mapping[str, Json]) -> None:
    """Write the content of draft.json to the folder."""
    write_whole(folder / DOCUMENT, [json.dumps(document, ensure_ascii=False, indent=1), "\n"])


def read_document(folder: Path) -> dict[str, Any] | None:
    """Return the draft.json of a folder, or None if it is missing or damaged."""
    try:
        document = json.loads((folder / DOCUMENT).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and "corpus" in document else None


def check_folder(folder: Path, source: DraftCorpus) -> dict[str, Any]:
    """Return the folder's draft.json, or {} if it has none.

    Raises InputError if its samples are not drafted ones, or were drafted from another corpus.
    """
    fix = "name another folder with -o"
    before = read_document(folder)
    if before is None:
        if (folder / SAMPLES).exists():
            raise InputError(f"{folder / SAMPLES} was not written by germane draft", fix=fix)
        return {}
    if (digest := before["corpus"]["digest"]) != source.digest:
        drafted = f"{before['corpus'].get('name')} ({digest[:12]})"
        problem = f"{folder} was drafted from {drafted}, not from {source.name} ({source.digest[:12]})"
        raise InputError(problem, fix=f"{fix}; answers in the ledger are used again")
    return before


def read_labels(
    folder: Path, rows: Iterable[Mapping[str, Any]], known: Container[str]
) -> list[dict[str, Any]]:
    """Return people's labels of the questions in `known` (ids), except those with another text in `rows`."""
    queries = {row["id"]: row["query"] for row in rows}
    labels = (label for label in read_rows(folder / LABELS) if label["item"] in known)
    return [label for label in labels if queries.get(label["item"], label["query"]) == label["query"]]


def settle_rows(
    rows: Iterable[dict[str, Any]], labels: Iterable[Mapping[str, Any]], removed: Container[str]
) -> list[dict[str, Any]]:
    """Return the samples (`rows`) whose id is not in `removed`; `looked_at` says if a label is about one."""
    looked_at, kept = {label["item"] for label in labels}, [row for row in rows if row["id"] not in removed]
    for row in kept:
        row["metadata"]["draft"]["looked_at"] = row["id"] in looked_at
    return kept


def checked_by_people(labels: Iterable[Mapping[str, Any]]) -> dict[str, Json] | None:
    """Return how many questions people labelled (`n`), how many as bad, and the proportion's interval."""
    newest = {row["item"]: row["answer"] for row in labels}
    answers = [answer for answer in newest.values() if answer not in (None, "unsure")]
    if not answers:
        return None
    bad = sum(answer != "fine" for answer in answers)
    return {"n": len(answers), "bad": bad, "interval": list(map(float, clopper_pearson(bad, len(answers))))}


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
    content, shares, listed = content_words(query), list[float](), terms(query)
    for doc in present if content else ():
        bags = [set(content_words(search.passages[at].text)) for at in search.of_doc[doc]]
        shares.append(max(sum(word in bag for word in content) / len(content) for bag in bags))
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


def _difference(drafted: Mapping[str, Json], real: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the difference of two independent means, with an interval made of theirs (Newcombe 1998)."""
    if drafted["interval"] is None or real["interval"] is None:
        return None
    (low, high), (low2, high2), a, b = drafted["interval"], real["interval"], drafted["mean"], real["mean"]
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
        "detectable_ndcg_at_10": round(_POWER * _SPREAD * sqrt(effect / n), 4) if n else None,
    }
