"""Draft questions in attempts, which are accepted or rejected in order.

An attempt drafts a question from one passage with at most four calls. Passages that may also answer it are searched for
by BM25 and with the user's own retriever.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from germane.addons.draft.checks import content_words, faults, find_quote, repeat_of, words_to_avoid
from germane.addons.draft.passages import BM25, DraftCorpus, Passage, Turn, TurnOrder, terms
from germane.addons.draft.questions import (
    Alone,
    Candidate,
    Draft,
    DraftPayload,
    Standalone,
    SufficiencyReversed,
)
from germane.errors import InputError, TargetError
from germane.judging.asker import Asker
from germane.questions import Question, Sufficiency, Support
from germane.questions.asking import Unanswered
from germane.samples import read_samples
from germane.samples.runs.hits import read_run
from germane.targets import Target
from germane.types import Context, Json, Judgement, Sample


class Search:
    """A search for passages that may also answer a question: by BM25, and in the results of other systems.

    The other systems are the pool; their results never become gold. `runs` are files of stored results
    (samples or TREC runs), in which a question is found by its id or its text. `target` is a system that is
    queried for each question.
    """

    def __init__(self, source: DraftCorpus, runs: Sequence[Path] = (), target: Target | None = None) -> None:
        self.passages, self.documents = source.passages, source.documents
        self._folded = {doc: " ".join(text.split()) for doc, text in source.documents.items()}
        self.index = BM25([passage.text for passage in source.passages])
        self.of_doc = defaultdict[str, list[int]](list)
        for at, passage in enumerate(self.passages):
            self.of_doc[passage.doc].append(at)
        self._target, self._asking = target, asyncio.Semaphore(target.workers if target else 1)
        self._runs = defaultdict[str, list[Context]](list)
        for names, contexts in (pair for file in runs for pair in _results(file)):
            for name in names:
                self._runs[name] += contexts
        self.name = "BM25 and the pool" if runs or target else "BM25"

    def place_of(self, doc: str, text: str) -> dict[str, Json]:
        """Return the document and offsets of a passage; only the document if it contains no such passage."""
        for place in (self.passages[at] for at in self.of_doc.get(doc, ())):
            if place.text == text:
                return {"doc": doc, "start": place.start, "end": place.end}
        return {"doc": doc}

    def holders(self, quotes: Sequence[str]) -> list[str]:
        """Return the documents that contain every one of these quotes verbatim, except for white space."""
        folded = [" ".join(quote.split()) for quote in quotes]
        texts = self._folded.items()
        return [doc for doc, text in texts if all(q in text and find_quote(q, text) for q in folded)]

    def rank(self, query: str, docs: Sequence[str]) -> int | None:
        """Return the best BM25 rank of these documents among all documents."""
        found = dict.fromkeys(self.passages[at].doc for at in self.index.search(query, 0))
        return next((rank for rank, doc in enumerate(found, 1) if doc in docs), None)

    async def top(self, name: str, query: str, k: int) -> list[tuple[str, str]]:
        """Return the top `k` passages of BM25, of stored results (`runs`) and of the target, each once."""
        found = [(self.passages[at].doc, self.passages[at].text) for at in self.index.search(query, k)]
        pooled = self._runs[name] if name in self._runs else self._runs.get(_normal(query), [])
        live = await self._of_target(name, query)
        found += [self._as_passage(context, query) for context in [*pooled[:k], *live[:k]]]
        return list(dict.fromkeys(pair for pair in found if pair[1].strip()))

    async def _of_target(self, name: str, query: str) -> Sequence[Context]:
        """Return the contexts that the target retrieves for a query, or () without a target."""
        if self._target is None:
            return ()
        async with self._asking:
            try:
                return (await self._target.answer(Sample(id=name, query=query))).contexts or ()
            except TargetError as error:
                problem = f"the target does not answer {query!r}: {error}"
                raise InputError(problem, fix="see --target") from None

    def _as_passage(self, context: Context, query: str) -> tuple[str, str]:
        """Return a context as (document id, text)."""
        doc, text = context.id or "", context.text or ""
        if text or doc not in self.of_doc:
            return doc, text
        scores = self.index.scores(query)
        return doc, self.passages[max(self.of_doc[doc], key=lambda at: scores[at])].text


def _results(file: Path) -> Iterator[tuple[Sequence[str], Sequence[Context]]]:
    """Yield (names of the query, its contexts) for each query of a TREC run or each sample of a file."""
    if file.suffix.lower() in {".trec", ".run", ".txt"}:
        for query, docs in read_run(file, fmt="trec").items():
            yield (query,), [Context(id=name) for name in docs]
        return
    for sample in read_samples(file):
        yield (sample.id, _normal(sample.query)), sample.contexts or ()


def _normal(query: str) -> str:
    return " ".join(query.casefold().split())


A = TypeVar("A")
_AROUND = 300
"""The number of characters around a quote that a person is shown."""
FIRST, EXAMPLES, CANDIDATES = 20, 3, 2
"""Attempts after which drafting ends if all failed; examples for the writer; candidates per attempt."""
ROUND_TRIP, LOOKED_AT, MOST_RIVALS = 9, 20, 2
"""Other passages in a round trip; passages searched for a near-miss; the most rivals allowed."""


_FAILURES = {
    "has no answer to this question": "no stored answer",
    r"\b[45]\d\d\b": "HTTP {}",
    "(?i)time|hang": "no answer in time",
    "unusable|JSON|answer": "unusable answer",
    "": "request failed",
}
"""The reasons for failed calls, by patterns of their errors; the first pattern that matches is used."""


def draft_question(turn: Turn, shown: Sequence[str], language: str = "", seed: int = 0) -> Draft:
    """Return the request to the writer for the attempt `turn`, with up to three examples from `shown`."""
    passage = turn.passage
    at = int(passage.digest[:8], 16)
    return Draft(
        form=turn.kind,
        style=turn.style,
        passage=passage.text,
        headings=passage.headings,
        language=language,
        avoid=words_to_avoid(passage.text) if turn.kind == "paraphrased" else (),
        examples=tuple(shown[(at + n) % len(shown)] for n in range(min(EXAMPLES, len(shown)))),
        seed=seed,
    )


class Dropped(Exception):
    """Raised to reject an attempt or one of its candidates.

    `step` is the step that rejected it and `reason` the reason; `detail` and `more` are the evidence.
    """

    def __init__(self, step: str, reason: str, detail: str = "", **more: Json) -> None:
        self.fields = {"step": step, "reason": reason, "detail": detail}
        self.more = more
        super().__init__(f"{step}: {reason}")


@dataclass
class Attempt:
    """An attempt to draft a question, and its result.

    `row` is the sample if a question was accepted, else {}. `searched` are the positions of the passages in
    which no answer was found, and `rivals` is the number of other documents that may answer the question.
    `candidate` is the first one that passed the checks that need no call.
    """

    turn: Turn
    row: dict[str, Any] = field(default_factory=dict)
    dropped: list[dict[str, Json]] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    searched: list[dict[str, Json]] = field(default_factory=list)
    rivals: int = 0
    candidate: Candidate | None = None

    def drop(self, why: Dropped, candidate: Candidate | None = None) -> None:
        """Add a rejected candidate and the reason to `dropped`; None = the attempt has no candidate."""
        turn, place = self.turn, self.turn.passage
        row: dict[str, Json] = {"id": turn.id, "kind": turn.kind, "style": turn.style, **why.fields}
        row |= {"doc": place.doc, "start": place.start, "end": place.end}
        self.dropped.append({**row, **(candidate.model_dump() if candidate else {}), **why.more})


@dataclass
class Drafter:
    """Drafts questions until enough are accepted, no passages are left, or the first 20 attempts all failed.

    `pool` asks the writer and the judge, and `progress` is called with the number of attempts so far. With
    another `seed`, the writer is asked again. `language` "" means that of the passage. Up to `ahead` attempts
    run at the same time. `stopped` is the reason why drafting ended early, or "".
    """

    pool: Asker
    search: Search
    order: TurnOrder
    progress: Callable[[int], None]
    seed: int = 0
    language: str = ""
    examples: tuple[str, ...] = ()
    allow_personal: bool = False
    ahead: int = 1
    attempts: list[Attempt] = field(default_factory=list, init=False)
    stopped: str = field(default="", init=False)
    _texts: set[str] = field(default_factory=set, init=False)
    _bags: list[frozenset[str]] = field(default_factory=list, init=False)
    _tasks: dict[str, asyncio.Task[Attempt]] = field(default_factory=dict, init=False)

    @property
    def kept(self) -> list[Attempt]:
        """The attempts whose question was accepted, in order."""
        return [attempt for attempt in self.attempts if attempt.row]

    async def run(self) -> None:
        """Draft questions until enough are accepted, no attempts are left, or the first 20 all fail."""
        try:
            while not self.stopped:
                self._begin_ahead()
                if (turn := self.order.next()) is None:
                    return
                attempt = await self._tasks.pop(turn.id)
                self._check_repeat(attempt)
                self.attempts.append(attempt)
                self.order.settle(turn, kept=bool(attempt.row))
                self.progress(len(self.attempts))
                if len(self.attempts) == FIRST and not self.kept:
                    self.stopped = f"0 of the first {FIRST} attempts were kept"
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _begin_ahead(self) -> None:
        """Start up to `ahead` attempts: those that come next if every attempt until then is accepted."""
        order = self.order.copy()
        room = self.ahead if self.kept else min(self.ahead, FIRST - len(self.attempts))
        for _ in range(max(1, room)):
            if (turn := order.next()) is None:
                return
            if turn.id not in self._tasks:
                self._tasks[turn.id] = asyncio.ensure_future(self._write(turn))
            order.settle(turn, kept=True)

    def _check_repeat(self, attempt: Attempt) -> None:
        """Reject an attempt's question if it repeats an earlier one; call it for each attempt in order."""
        candidate = attempt.candidate
        if candidate is not None and (what := repeat_of(candidate, self._texts, self._bags)):
            attempt.row, attempt.searched, attempt.rivals = {}, [], 0
            attempt.dropped = [row for row in attempt.dropped if row["step"] == "check"]
            attempt.drop(Dropped("check", "repeat", what), candidate)

    async def _ask(self, question: Question[A], attempt: Attempt) -> A:
        """Return a model's answer, which is added to the attempt's; raise Dropped if it is unusable."""
        (answer,) = await self.pool.judge([question])
        attempt.judgements.append(answer.judgement)
        if isinstance(answer.value, Unanswered):
            why = answer.value.why
            reasons = ((re.search(pattern, why), reason) for pattern, reason in _FAILURES.items())
            raise Dropped("failed", next(text.format(found[0]) for found, text in reasons if found), why)
        value: A = answer.value
        return value

    async def _write(self, turn: Turn) -> Attempt:
        """Make an attempt: ask the writer for candidates, check them, and have the first good one judged."""
        result, question = Attempt(turn), draft_question(turn, self.examples, self.language, self.seed)
        try:
            self._check(result, await self._ask(question, result), question.avoid)
            if (candidate := result.candidate) is not None:
                alone = await self._ask(Standalone(candidate.question), result)
                if not alone.standalone:
                    result.drop(Dropped("alone", "not self-contained", alone.reasoning), candidate)
                elif turn.kind == "near-miss":
                    await self._look_for_answer(result, candidate)
                else:
                    await self._round_trip(result, candidate, alone)
        except Dropped as why:
            result.drop(why, result.candidate)
        return result

    def _check(self, attempt: Attempt, payload: DraftPayload, avoid: tuple[str, ...]) -> None:
        """Set `candidate` to the writer's first one without a fault; no calls are made."""
        if not payload.candidates:
            raise Dropped("write", "unsuitable", payload.unsuitable)
        turn = attempt.turn
        rules = {"answerable": turn.kind != "near-miss", "allow_personal": self.allow_personal}
        for candidate in payload.candidates[:CANDIDATES]:
            fault = next(faults(candidate, turn.passage.text, avoid, self.language, **rules), None)
            if fault is None:
                attempt.candidate = candidate
                return
            attempt.drop(Dropped("check", *fault), candidate)

    async def _look_for_answer(self, attempt: Attempt, candidate: Candidate) -> None:
        """Accept a near-miss if the judge finds no answer in the top 20 passages, in two orders."""
        found = await self.search.top(attempt.turn.id, candidate.question, LOOKED_AT)
        texts = tuple(text for _, text in found)
        for question in (Sufficiency, SufficiencyReversed):
            verdict = await self._ask(question(candidate.question, texts), attempt)
            if verdict.sufficient:
                searched = [doc for doc, _ in found]
                raise Dropped("near-miss", "the corpus answers it", verdict.reasoning, searched=searched)
        attempt.searched = [self.search.place_of(*pair) for pair in found]
        facts: dict[str, Json] = {"searched": f"top {LOOKED_AT} of {self.search.name}"}
        attempt.row = self._row(attempt, candidate.question, {"answerable": False}, facts)

    async def _round_trip(self, attempt: Attempt, candidate: Candidate, alone: Alone) -> None:
        """Accept the question if its passage states the answer and few others do; else raise Dropped."""
        passage, question, answer = attempt.turn.passage, candidate.question.strip(), candidate.answer.strip()
        gold = list(dict.fromkeys([passage.doc, *self.search.holders(candidate.quotes)]))
        if len(gold) > 1 + MOST_RIVALS:
            raise Dropped("round trip", "not unique", f"{len(gold)} documents hold the quote")
        claim = answer if len(terms(answer)) > 5 else f"{question} {answer}"
        found = await self.search.top(attempt.turn.id, question, ROUND_TRIP + 1)
        others = [pair for pair in found if pair[1] != passage.text]
        most = ROUND_TRIP if self.search.name == "BM25" else 2 * ROUND_TRIP
        listed = [(passage.doc, passage.text), *others[:most]]
        (verdict,) = await self._ask(Support((claim,), tuple(text for _, text in listed)), attempt)
        if 1 not in verdict.contexts:
            raise Dropped("round trip", "wrong gold", verdict.reasoning)
        states = (listed[rank - 1][0] for rank in verdict.contexts)
        rivals = [doc for doc in dict.fromkeys(states) if doc and doc not in gold]
        if len(rivals) > MOST_RIVALS:
            stated = f"{len(rivals)} other documents state it"
            raise Dropped("round trip", "not unique", stated, rivals=rivals)
        evidence = self._evidence(passage, candidate.quotes, gold)
        labels: dict[str, Any] = {"reference": answer, "qrels": dict.fromkeys(gold, 1)}
        labels |= {"unsure": dict.fromkeys(rivals, 1)} if rivals else {}
        first, last = (evidence[0][end] - passage.start for end in ("start", "end"))
        own, mine = set(content_words(passage.text)), content_words(question)
        facts: dict[str, Json] = {
            "around": passage.text[max(0, first - _AROUND) : last + _AROUND],
            "bm25_rank": self.search.rank(question, gold),
            "overlap": round(sum(word in own for word in mine) / len(mine), 4) if mine else 0.0,
        }
        attempt.row = self._row(attempt, question, {**labels, "evidence": evidence}, facts)
        if _same_answer(alone.answer, answer):
            attempt.row["tags"].insert(-1, "common-knowledge")
        attempt.rivals = len(rivals)
        attempt.searched = [self.search.place_of(*pair) for pair in listed if pair[0] not in (*gold, *rivals)]

    def _evidence(
        self, passage: Passage, quotes: Sequence[str], gold: Sequence[str]
    ) -> list[dict[str, Json]]:
        """Return a row (quote, doc, start, end) for each quote and each document of `gold` (ids) with it."""
        result: list[dict[str, Json]] = []
        for doc, quote in product(gold, dict.fromkeys(quotes)):
            own = doc == passage.doc
            text, at = (passage.text, passage.start) if own else (self.search.documents[doc], 0)
            if (span := find_quote(quote, text)) is not None:
                start, end = span
                result.append({"quote": text[start:end], "doc": doc, "start": at + start, "end": at + end})
        return result

    def _row(
        self, attempt: Attempt, query: str, labels: dict[str, Any], facts: dict[str, Json]
    ) -> dict[str, Any]:
        """Return the sample of an accepted question as a row of samples.jsonl."""
        turn, by = attempt.turn, attempt.judgements[0]
        served = by.provenance.get("model")
        source = {"writer": by.judge, "served": served, "prompt": by.prompt, "key": by.key}
        drawn = {"kind": turn.kind, "style": turn.style, "seed": self.seed, "looked_at": False}
        about = {name: value for name, value in source.items() if value} | drawn | facts
        row = {"id": turn.id, "query": " ".join(query.split()), **labels, "cluster": turn.passage.doc}
        return {**row, "tags": ["drafted", turn.kind, turn.style], "metadata": {"draft": about}}


def _same_answer(known: str, reference: str) -> bool:
    """Return True if at least 80 % of the content words of the shorter answer occur in the other answer."""
    a, b = set(content_words(known)), set(content_words(reference))
    return bool(a and b) and len(a & b) >= 0.8 * min(len(a), len(b))
