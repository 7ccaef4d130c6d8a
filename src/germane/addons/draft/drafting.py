"""The attempts: one passage, one attempt, at most three calls; decided in their order, whenever answers arrive."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from germane.addons.draft.bm25 import terms
from germane.addons.draft.checks import Earlier, content_words, faults, find_quote, words_to_avoid
from germane.addons.draft.drawing import Turn, TurnOrder
from germane.addons.draft.passages import Passage
from germane.addons.draft.questions import Alone, Candidate, Draft, Standalone, reversed_order
from germane.addons.draft.rivals import Search, gold_contexts
from germane.judging.pool import Pool
from germane.questions import Question, Sufficiency, Support
from germane.questions.asking import Unanswered
from germane.types import Json, Judgement

A = TypeVar("A")
_AROUND = 300
"""Characters around a quote that a person is shown."""
FIRST, EXAMPLES, ROUND_TRIP, LOOKED_AT, MOST_RIVALS = 20, 3, 9, 20, 2
"""Attempts after which nothing kept ends it, examples shown, other passages of a round trip, passages of a near-miss, rivals at most."""


class Dropped(Exception):
    """An attempt, or one of its candidates, is dropped: at which step, for which reason, by what."""

    def __init__(self, step: str, reason: str, detail: str = "", **more: Json) -> None:
        self.step, self.reason, self.detail, self.more = step, reason, detail, more
        super().__init__(f"{step}: {reason}")


@dataclass
class Attempt:
    """What one passage came to: the kept question, or why there is none; the answers that it rests on."""

    turn: Turn
    number: int = 0
    row: dict[str, Any] = field(default_factory=dict)
    dropped: list[dict[str, Json]] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    searched: list[dict[str, Json]] = field(default_factory=list)
    rivals: int = 0

    @property
    def kept(self) -> bool:
        """True if a question was kept."""
        return bool(self.row)


@dataclass(frozen=True)
class DraftOptions:
    """What is drafted: the options that decide about an attempt."""

    seed: int = 0
    language: str = ""
    examples: tuple[str, ...] = ()
    allow_personal: bool = False


class Drafter:
    """Draws questions until there are n, and stops where the design says so.

    Args:
        pool: Asks the writer and the judge, through the ledger.
        search: Looks for rivals.
        order: The turns.
        plan: The options.
        ahead: Attempts that are begun before those in front of them are decided.
    """

    def __init__(
        self,
        pool: Pool,
        search: Search,
        order: TurnOrder,
        plan: DraftOptions,
        *,
        ahead: int,
        progress: Callable[[Drafter], None] = lambda _: None,
    ) -> None:
        self.pool, self.search, self.order, self.plan = pool, search, order, plan
        self.attempts: list[Attempt] = []
        self.stopped = ""
        self._ahead, self._progress = ahead, progress
        self._tasks: dict[str, asyncio.Task[_Written]] = {}
        self._earlier = Earlier()

    @property
    def kept(self) -> list[Attempt]:
        """The attempts whose question is kept, in order."""
        return [attempt for attempt in self.attempts if attempt.kept]

    async def run(self) -> None:
        """Decide attempt after attempt; those ahead are on their way meanwhile."""
        try:
            while True:
                self._begin_ahead()
                turn = self.order.next()
                if turn is None:
                    return
                attempt = await self._decide(turn)
                attempt.number = len(self.attempts) + 1
                self.attempts.append(attempt)
                self.order.settle(turn, kept=attempt.kept)
                self._progress(self)
                if len(self.attempts) == FIRST and not self.kept:
                    self.stopped = f"0 of the first {FIRST} attempts were kept"
                    return
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begin_ahead(self) -> None:
        """Begin the attempts that come next if all are kept."""
        order = self.order.copy()
        room = self._ahead if self.kept else min(self._ahead, FIRST - len(self.attempts))
        for _ in range(max(1, room)):
            if (turn := order.next()) is None:
                return
            if turn.id not in self._tasks:
                self._tasks[turn.id] = asyncio.ensure_future(self._write(turn))
            order.settle(turn, kept=True)

    async def _decide(self, turn: Turn) -> Attempt:
        """The attempt, now that all before it are decided: a repeat is one of an earlier attempt."""
        if turn.id not in self._tasks:
            self._tasks[turn.id] = asyncio.ensure_future(self._write(turn))
        written = await self._tasks[turn.id]
        del self._tasks[turn.id]
        attempt = Attempt(turn, judgements=written.judgements[:])
        self._drop(attempt, written.faults)
        for candidate in written.candidates:
            if what := self._earlier.repeats(candidate):
                self._drop(attempt, [(candidate, Dropped("check", "repeat", what))])
                continue
            self._earlier.add(candidate)
            follow = (
                written.followed
                if candidate is written.candidates[0] and written.followed
                else await self._follow(turn, candidate)
            )
            attempt.judgements += follow.judgements
            attempt.row, attempt.searched, attempt.rivals = follow.row, follow.searched, follow.rivals
            if attempt.kept:
                self._sign(attempt)
            if follow.dropped is not None:
                self._drop(attempt, [(candidate, follow.dropped)])
            break
        return attempt

    def _drop(self, attempt: Attempt, dropped: Sequence[tuple[Candidate | None, Dropped]]) -> None:
        turn = attempt.turn
        for candidate, why in dropped:
            place = {"doc": turn.passage.doc, "start": turn.passage.start, "end": turn.passage.end}
            said = (
                {}
                if candidate is None
                else {"question": candidate.question, "answer": candidate.answer, "quotes": candidate.quotes}
            )
            attempt.dropped.append(
                {
                    "id": turn.id,
                    "kind": turn.kind,
                    "style": turn.style,
                    "step": why.step,
                    "reason": why.reason,
                    "detail": why.detail,
                    **place,
                    **said,
                    **why.more,
                }
            )

    # One attempt on its way

    async def _ask(self, question: Question[A], judgements: list[Judgement]) -> A:
        """The answer; Dropped where there is none: a failure is no answer, and is asked again by the next run."""
        (answer,) = await self.pool.judge([question])
        judgements.append(answer.judgement)
        if isinstance(answer.value, Unanswered):
            raise Dropped("failed", _failure(answer.value.why), answer.value.why)
        value: A = answer.value
        return value

    async def _write(self, turn: Turn) -> _Written:
        """Ask for candidates, check them, and follow the first that passes."""
        passage, plan, result = turn.passage, self.plan, _Written()
        avoid = words_to_avoid(passage.text) if turn.kind == "paraphrased" else ()
        at = int(passage.digest[:8], 16)
        examples = tuple(
            plan.examples[(at + n) % len(plan.examples)] for n in range(min(EXAMPLES, len(plan.examples)))
        )
        question = Draft(
            form=turn.kind, style=turn.style, passage=passage.text, headings=passage.headings,
            language=plan.language, avoid=avoid, examples=examples, seed=plan.seed,
        )  # fmt: skip
        try:
            payload = await self._ask(question, result.judgements)
        except Dropped as why:
            result.faults.append((None, why))
            return result
        if not payload.candidates:
            result.faults.append((None, Dropped("write", "unsuitable", payload.unsuitable)))
        for candidate in payload.candidates:
            found = faults(
                candidate, passage.text, avoid, plan.language,
                answerable=turn.kind != "near-miss", allow_personal=plan.allow_personal,
            )  # fmt: skip
            fault = next(found, None)
            if fault is None:
                result.candidates.append(candidate)
            else:
                result.faults.append((candidate, Dropped("check", *fault)))
        if result.candidates:
            result.followed = await self._follow(turn, result.candidates[0])
        return result

    async def _follow(self, turn: Turn, candidate: Candidate) -> _Followed:
        """The calls after writing: alone, then the round trip, of a near-miss the search for an answer."""
        result = _Followed()
        try:
            alone = await self._ask(Standalone(candidate.question), result.judgements)
            _check_alone(alone)
            if turn.kind == "near-miss":
                await self._look_for_answer(turn, candidate, result)
            else:
                await self._round_trip(turn, candidate, alone, result)
        except Dropped as why:
            result.dropped, result.row = why, {}
        return result

    async def _look_for_answer(self, turn: Turn, candidate: Candidate, result: _Followed) -> None:
        """A near-miss is kept where the first 20 passages are found insufficient twice, in two orders."""
        found = await self.search.top(turn.id, candidate.question, LOOKED_AT)
        result.searched = [self.search.place_of(*pair) for pair in found]
        texts = tuple(text for _, text in found)
        for question in (
            Sufficiency(candidate.question, texts),
            reversed_order(Sufficiency(candidate.question, texts)),
        ):
            verdict = await self._ask(question, result.judgements)
            if verdict.sufficient:
                raise Dropped(
                    "near-miss",
                    "the corpus answers it",
                    verdict.reasoning,
                    searched=[doc for doc, _ in found],
                )
        result.row = {**self._row(turn, candidate), "answerable": False, **self._rest(turn, ("near-miss",))}
        result.row["metadata"]["draft"]["searched"] = f"top {LOOKED_AT} of {self.search.name}"

    async def _round_trip(self, turn: Turn, candidate: Candidate, alone: Alone, result: _Followed) -> None:
        """The answer as a claim, put to the passage among others: its own must state it, and few others."""
        passage, holders = turn.passage, self.search.holders(candidate.quotes)
        gold = list(dict.fromkeys([passage.doc, *holders]))
        if len(gold) > 1 + MOST_RIVALS:
            raise Dropped("round trip", "not unique", f"{len(gold)} documents hold the quote")
        claim = (
            candidate.answer.strip()
            if len(terms(candidate.answer)) > 5
            else f"{candidate.question.strip()} {candidate.answer.strip()}"
        )
        found = await self.search.top(turn.id, candidate.question, ROUND_TRIP + 1)
        listed = gold_contexts(passage, found, ROUND_TRIP if self.search.name == "BM25" else 2 * ROUND_TRIP)
        (verdict,) = await self._ask(Support((claim,), tuple(text for _, text in listed)), result.judgements)
        states = [listed[rank - 1] for rank in verdict.contexts]
        if passage.text not in [text for _, text in states]:
            raise Dropped("round trip", "wrong gold", verdict.reasoning)
        rivals = list(dict.fromkeys(doc for doc, _ in states if doc and doc not in gold))
        if len(rivals) > MOST_RIVALS:
            raise Dropped(
                "round trip", "not unique", f"{len(rivals)} other documents state it", rivals=rivals
            )
        result.rivals = len(rivals)
        evidence = self._evidence(passage, candidate.quotes, gold)
        known = alone.answer.strip() and _same_answer(alone.answer, candidate.answer)
        result.row = {
            **self._row(turn, candidate),
            "reference": candidate.answer.strip(),
            "qrels": dict.fromkeys(gold, 1),
            **({"unsure": dict.fromkeys(rivals, 1)} if rivals else {}),
            "evidence": evidence,
            **self._rest(turn, (turn.kind, *(("common-knowledge",) if known else ()))),
        }
        own = set(content_words(passage.text))
        mine = content_words(candidate.question)
        facts = result.row["metadata"]["draft"]
        first, last = evidence[0]["start"] - passage.start, evidence[0]["end"] - passage.start
        facts["around"] = passage.text[max(0, first - _AROUND) : last + _AROUND]
        facts["bm25_rank"] = self.search.rank(candidate.question, gold)
        facts["overlap"] = round(sum(word in own for word in mine) / len(mine), 4) if mine else 0.0
        others = [pair for pair in listed if pair[0] not in gold and pair[0] not in rivals]
        result.searched = [self.search.place_of(*pair) for pair in others]

    def _evidence(
        self, passage: Passage, quotes: Sequence[str], gold: Sequence[str]
    ) -> list[dict[str, Json]]:
        """The places of the quotes, in the passage first and then in the other documents that hold them."""
        result: list[dict[str, Json]] = []
        for doc, quote in itertools.product(gold, dict.fromkeys(quotes)):
            own = doc == passage.doc
            text, offset = (passage.text, passage.start) if own else (self.search.documents[doc], 0)
            if (span := find_quote(quote, text)) is not None:
                first, last = span
                result.append(
                    {"quote": text[first:last], "doc": doc, "start": offset + first, "end": offset + last}
                )
        return result

    def _sign(self, attempt: Attempt) -> None:
        """Say who wrote the question, with which prompt, and where the answer is kept."""
        written, facts = attempt.judgements[0], attempt.row["metadata"]["draft"]
        served = written.provenance.get("model")
        own = {"writer": written.judge, "served": served, "prompt": written.prompt, "key": written.key}
        attempt.row["metadata"]["draft"] = {name: value for name, value in own.items() if value} | facts

    def _row(self, turn: Turn, candidate: Candidate) -> dict[str, Any]:
        return {"id": turn.id, "query": " ".join(candidate.question.split())}

    def _rest(self, turn: Turn, tags: Sequence[str]) -> dict[str, Any]:
        facts: dict[str, Json] = {
            "kind": turn.kind,
            "style": turn.style,
            "seed": self.plan.seed,
            "looked_at": False,
        }
        return {
            "cluster": turn.passage.doc,
            "tags": ["drafted", *tags, turn.style],
            "metadata": {"draft": facts},
        }


@dataclass
class _Followed:
    """What the calls about one candidate came to."""

    row: dict[str, Any] = field(default_factory=dict)
    dropped: Dropped | None = None
    judgements: list[Judgement] = field(default_factory=list)
    searched: list[dict[str, Json]] = field(default_factory=list)
    rivals: int = 0


@dataclass
class _Written:
    """What the writer gave for one passage: candidates that passed, faults of the others, and how the first went on."""

    candidates: list[Candidate] = field(default_factory=list)
    faults: list[tuple[Candidate | None, Dropped]] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    followed: _Followed | None = None


def _check_alone(alone: Alone) -> None:
    if not alone.standalone:
        raise Dropped("alone", "not self-contained", alone.reasoning)


def _failure(why: str) -> str:
    """The reason of a failed call, without what differs from one to the next."""
    if why.startswith("not in "):
        return "no stored answer"
    if why.startswith(("no usable answer", "unusable answer")):
        return "unusable answer"
    if match := re.search(r"\b(?:HTTP|status|error) ?(?:code )?:?([45]\d\d)\b|\b([45]\d\d)\b", why):
        return f"HTTP {match[1] or match[2]}"
    if re.search(r"time|answer within|hang", why, re.IGNORECASE):
        return "no answer in time"
    return "unusable answer" if re.search(r"unusable|JSON|answer", why) else "request failed"


def _same_answer(known: str, reference: str) -> bool:
    """True if most content words of the shorter of two answers stand in the other."""
    a, b = set(content_words(known)), set(content_words(reference))
    return bool(a and b) and len(a & b) >= 0.8 * min(len(a), len(b))
