"""Draft questions in attempts, which are accepted or rejected in order.

An attempt drafts a question from one passage with at most four calls. Passages that may also answer it are
searched for by BM25 and with the user's own retriever.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from germane.addons.draft.passages import BM25, DraftCorpus, Turn, TurnOrder, terms
from germane.addons.draft.questions import (
    Alone,
    Candidate,
    Draft,
    Standalone,
    SufficiencyReversed,
    content_words,
    faults,
    find_quote,
    repeat_of,
    words_to_avoid,
)
from germane.cli.output import say
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
        for file in runs:
            if file.suffix.lower() in {".trec", ".run", ".txt"}:
                for query, docs in read_run(file, fmt="trec").items():
                    self._runs[query] += [Context(id=name) for name in docs]
                continue
            for sample in read_samples(file):
                for name in (sample.id, _normal(sample.query)):
                    self._runs[name] += sample.contexts or ()
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
        """Return the top `k` passages of BM25, of stored results (`runs`) and of the target, each once.

        A passage is (document id, text). Of a document without a text, it is the best passage by BM25.
        """
        found = [(self.passages[at].doc, self.passages[at].text) for at in self.index.search(query, k)]
        pooled = list((self._runs[name] if name in self._runs else self._runs.get(_normal(query), []))[:k])
        if self._target is not None:
            async with self._asking:
                try:
                    answered = await self._target.answer(Sample(id=name, query=query))
                except TargetError as error:
                    problem = f"the target does not answer {query!r}: {error}"
                    raise InputError(problem, fix="see --target") from None
            pooled += (answered.contexts or ())[:k]
        for context in pooled:
            doc, text = context.id or "", context.text or ""
            if not text and doc in self.of_doc:
                scores = self.index.scores(query)
                text = self.passages[max(self.of_doc[doc], key=lambda at: scores[at])].text
            found.append((doc, text))
        return list(dict.fromkeys(pair for pair in found if pair[1].strip()))


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


def spending(attempts: Iterable[Attempt]) -> dict[str, Any]:
    """Return the `calls`, `tokens` and `cost_usd` of all answers of models that the attempts used."""
    answers: dict[str, Judgement] = {
        answer.key: answer for attempt in attempts for answer in attempt.judgements
    }
    usages = [answer.usage for answer in answers.values()]
    costs = [usage.cost_usd for usage in usages if usage.requests]
    cost = None if None in costs else round(sum(filter(None, costs)), 6)
    tokens = {name: sum(getattr(usage, f"{name}_tokens") for usage in usages) for name in ("input", "output")}
    return {"calls": len(usages), "tokens": tokens, "cost_usd": cost}


@dataclass
class Drafter:
    """Drafts questions until enough are accepted, no passages are left, or the first 20 attempts all failed.

    `pool` asks the writer and the judge. With another `seed`, the writer is asked again. `language` "" means
    that of the passage. Up to `ahead` attempts run at the same time. `stopped` is the reason why drafting
    ended early, or "".
    """

    pool: Asker
    search: Search
    order: TurnOrder
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
                # start those that come next if every attempt until then is accepted
                order = self.order.copy()
                room = self.ahead if self.kept else min(self.ahead, FIRST - len(self.attempts))
                for _ in range(max(1, room)):
                    if (turn := order.next()) is None:
                        break
                    if turn.id not in self._tasks:
                        self._tasks[turn.id] = asyncio.ensure_future(self._write(turn))
                    order.settle(turn, kept=True)
                if (turn := self.order.next()) is None:
                    return
                attempt = await self._tasks.pop(turn.id)
                candidate = attempt.candidate
                if candidate is not None and (what := repeat_of(candidate, self._texts, self._bags)):
                    attempt.row, attempt.searched, attempt.rivals = {}, [], 0
                    attempt.dropped = [row for row in attempt.dropped if row["step"] == "check"]
                    attempt.drop(Dropped("check", "repeat", what), candidate)
                self.attempts.append(attempt)
                self.order.settle(turn, kept=bool(attempt.row))
                if len(self.attempts) != FIRST:
                    continue
                kept, wanted, spent = len(self.kept), len(self.order.slots), spending(self.attempts)
                if not kept:
                    self.stopped = f"0 of the first {FIRST} attempts were kept"
                elif kept < wanted:
                    cost, calls = spent["cost_usd"], round(spent["calls"] * wanted / kept)
                    price = "" if cost is None else f", ${cost * wanted / kept:.4f}"
                    say(f"{kept} of {FIRST} attempts accepted: about {calls:,} calls{price} in total")
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

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
        """Make an attempt: ask the writer for candidates, check them, and have the first good one judged.

        A near-miss is accepted if the judge finds no answer in the top 20 passages, in two orders.
        """
        result, question = Attempt(turn), draft_question(turn, self.examples, self.language, self.seed)
        rules = {"answerable": turn.kind != "near-miss", "allow_personal": self.allow_personal}
        try:
            payload = await self._ask(question, result)
            if not payload.candidates:
                result.drop(Dropped("write", "unsuitable", payload.unsuitable))
                return result
            for candidate in payload.candidates[:CANDIDATES]:
                fault = next(
                    faults(candidate, turn.passage.text, question.avoid, self.language, **rules), None
                )
                if fault is None:
                    result.candidate = candidate
                    break
                result.drop(Dropped("check", *fault), candidate)
            else:
                return result
            alone = await self._ask(Standalone(candidate.question), result)
            if not alone.standalone:
                result.drop(Dropped("alone", "not self-contained", alone.reasoning), candidate)
                return result
            if turn.kind != "near-miss":
                await self._round_trip(result, candidate, alone)
                return result
            found = await self.search.top(turn.id, candidate.question, LOOKED_AT)
            for kind in (Sufficiency, SufficiencyReversed):
                verdict = await self._ask(kind(candidate.question, tuple(text for _, text in found)), result)
                if verdict.sufficient:
                    seen: list[Json] = [doc for doc, _ in found]
                    why = Dropped("near-miss", "the corpus answers it", verdict.reasoning, searched=seen)
                    result.drop(why, candidate)
                    return result
            result.searched = [self.search.place_of(*pair) for pair in found]
            facts: dict[str, Json] = {"searched": f"top {LOOKED_AT} of {self.search.name}"}
            result.row = self._row(result, candidate.question, {"answerable": False}, facts)
        except Dropped as dropped:
            result.drop(dropped, result.candidate)
        return result

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
        stating = (listed[rank - 1][0] for rank in verdict.contexts)
        rivals = [doc for doc in dict.fromkeys(stating) if doc and doc not in gold]
        if len(rivals) > MOST_RIVALS:
            detail = f"{len(rivals)} other documents state it"
            raise Dropped("round trip", "not unique", detail, rivals=rivals)
        evidence: list[dict[str, Json]] = []
        for doc, quote in product(gold, dict.fromkeys(candidate.quotes)):
            own = doc == passage.doc
            text, at = (passage.text, passage.start) if own else (self.search.documents[doc], 0)
            if (span := find_quote(quote, text)) is not None:
                start, end = span
                evidence.append({"quote": text[start:end], "doc": doc, "start": at + start, "end": at + end})
        labels: dict[str, Any] = {"reference": answer, "qrels": dict.fromkeys(gold, 1)}
        labels |= {"unsure": dict.fromkeys(rivals, 1)} if rivals else {}
        first, last = (evidence[0][end] - passage.start for end in ("start", "end"))
        known, content = set(content_words(passage.text)), content_words(question)
        facts: dict[str, Json] = {
            "around": passage.text[max(0, first - _AROUND) : last + _AROUND],
            "bm25_rank": self.search.rank(question, gold),
            "overlap": round(sum(word in known for word in content) / len(content), 4) if content else 0.0,
        }
        attempt.row = self._row(attempt, question, {**labels, "evidence": evidence}, facts)
        # the answer is known if 80 % of the content words of the shorter answer occur in the other
        answered, stated = set(content_words(alone.answer)), set(content_words(answer))
        if answered and stated and len(answered & stated) >= 0.8 * min(len(answered), len(stated)):
            attempt.row["tags"].insert(-1, "common-knowledge")
        attempt.rivals = len(rivals)
        attempt.searched = [self.search.place_of(*pair) for pair in listed if pair[0] not in (*gold, *rivals)]

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
