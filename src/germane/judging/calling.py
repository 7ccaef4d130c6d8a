"""One group of questions on its way to a model: asked, read, asked again, until each has an answer or an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

from germane.errors import AnswerError, GermaneError
from germane.judges.judge import Reply
from germane.judging.attempts import Rejected, Unanswered
from germane.judging.completions import Answered, Refused
from germane.judging.endpoint import Endpoint
from germane.judging.exchange import Exchange, TooLong
from germane.judging.ladder import RUNGS, Correction, Habits
from germane.judging.patience import Deadline
from germane.judging.prices import Price
from germane.questions import AnyQuestion, Miscounted
from germane.questions.prompts import Prompts
from germane.questions.reading import Ask, Reading, readings, word
from germane.types import FrozenDict, Json, Usage

__all__ = ["Call"]

LISTED = 2
"""Attempts at a list of which nothing can be used: then each of its texts has attempts of its own."""

CUT = "it was cut off at the token limit"

NOTED = 4000
"""Characters of an unusable answer that are shown to the model again."""

SAID = 300
"""Characters of what was wrong with it."""


class Call:
    """One group of questions: one Reading, or a list of them."""

    def __init__(
        self, endpoint: Endpoint, habits: Habits, prompts: Prompts, items: Sequence[Reading]
    ) -> None:
        self.habits, self.prompts, self.items = habits, prompts, items
        self._attempts, self._deadline = endpoint.patience.attempts, Deadline(endpoint.patience.deadline)
        self.exchange = Exchange(endpoint, habits, self._deadline)
        self._windows: list[AnyQuestion] = []
        self._parts: list[AnyQuestion] = []
        self._payloads: dict[int, Json] = {}
        self._errors: dict[int, str] = {}
        self._listed: dict[int, dict[str, Json]] = {}
        self._miscounted = self._spent = False
        self._alone = 0
        self._single: set[int] = set()
        self._note: Correction | None = None

    async def run(self) -> None:
        """Ask all together; then what came to nothing apart: of a list its texts, of one text its questions."""
        try:
            async with self._deadline:
                await self._ask(self.items)
                for item in self._apart():
                    await self._ask([item])
        except TimeoutError:
            self._fail(f"no answer within {self._deadline.seconds:g} s", self.items)
        except GermaneError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one answer holds, it fails its own questions alone
            self._fail(
                f"the answer could not be read: {type(error).__name__}: {str(error)[:SAID]}", self.items
            )

    def replies(self, questions: Sequence[AnyQuestion], price: Price | None) -> list[Reply]:
        """One reply a question; what the call cost stands on the first."""
        ms = (monotonic() - self.exchange.spending.started) * 1000
        told = self._provenance()
        usage, found = self._usage(price), []
        for question in questions:
            payload, error = self._payloads.get(id(question)), None
            if payload is None:
                error = self._errors.get(id(question), "the model gave no answer")
            came = FrozenDict(told | self._listed.get(id(question), {}))
            found.append(Reply(payload=payload, error=error, usage=usage, ms=ms, provenance=came))
            usage = _NOTHING
        return found

    def _usage(self, price: Price | None) -> Usage:
        spent = self.exchange.spending
        tokens = spent.input_tokens, spent.output_tokens
        cost = None if price is None else price.cost(*tokens, spent.cached_tokens)
        return Usage(requests=spent.requests, input_tokens=tokens[0], output_tokens=tokens[1], cost_usd=cost)

    def _provenance(self) -> dict[str, Json]:
        """How all of it came about, as far as that is out of the ordinary."""
        spent = self.exchange.spending
        counts = {"reasked": spent.reasked, "waits": spent.waits, "faults": spent.faults}
        told: dict[str, Json] = {name: count for name, count in counts.items() if count}
        if self.exchange.rung:
            told["rung"] = RUNGS[self.exchange.rung]
        if self.exchange.model not in {"", self.habits.model}:
            told["model"] = self.exchange.model
        if self._windows:
            told["windows"] = len(self._windows)
        if self._parts or self._alone:
            told["singly"] = len(self._parts) + self._alone
        if spent.estimated:
            told["tokens"] = "estimated"
        return told

    def _fail(self, why: str, items: Sequence[Reading]) -> None:
        for item in items:
            for question in item.questions:
                self._errors[id(question)] = why

    def _open(self, items: Sequence[Reading]) -> Iterator[Reading]:
        """What has no answer yet."""
        for item in items:
            left = [question for question in item.questions if id(question) not in self._payloads]
            if len(left) == len(item.questions):
                yield item
            elif left:
                yield from readings(left, self.prompts)

    def _apart(self) -> list[Reading]:
        """What may fare better apart: nothing in an outage, or where the model would refuse the same text again."""
        if self.exchange.endpoint.gate.circuit.open:
            return []
        if len(self.items) > 1:
            return list(self._open([item for item in self.items if id(item) not in self._single]))
        questions = [question for item in self._open(self.items) for question in item.questions]
        if len(questions) < 2 or not (self._spent and self.habits.proven):
            return []
        self._alone = len(questions)
        return readings(questions, self.prompts, fuse=False)

    async def _ask(self, items: Sequence[Reading]) -> None:
        """An answer or an error for each; what is too long for the model is asked in parts where that can be."""
        if len(items) == 1:
            self._single.add(id(items[0]))
        try:
            try:
                await self._together(items)
            except TooLong as error:
                await self._in_parts(items, error)
        except (Refused, Rejected) as error:
            self._fail(str(error), items)
        except Unanswered as error:
            self._spent = True
            self._fail(str(error), items)

    async def _together(self, items: Sequence[Reading]) -> None:
        """Ask in one request; TooLong without asking where a list of that size was too long before."""
        sizes = self.habits.sizes
        if len(items) > 1 and sizes.least and not sizes.fits(self._size(items)):
            raise TooLong("such a list was too long before", sizes.least)
        await self._answers(items)

    def _size(self, items: Sequence[Reading]) -> int:
        return len(self.habits.body(word(items, self.prompts)))

    async def _in_parts(self, items: Sequence[Reading], error: TooLong) -> None:
        """Ask a list as two, and about many contexts in windows; nothing else can be split."""
        if len(items) > 1:
            middle = len(items) // 2
            await self._ask(items[:middle])
            await self._ask(items[middle:])
            return
        question = items[0].questions[0]
        if len(items[0].questions) > 1 or question.halves() is None:
            raise error
        await self._in_windows(question, error.most)

    async def _in_windows(self, whole: AnyQuestion, most: int) -> None:
        """Ask about halves of the contexts, and halves of these, until they fit; then put the answers together.

        Each is asked before it is split, unless its request has `most` bytes: texts differ in tokens a byte.
        """
        todo: list[AnyQuestion] = list(whole.halves() or ())
        answers: list[tuple[AnyQuestion, Json]] = []
        while todo:
            question = todo.pop(0)
            smaller = question.halves()
            items = readings([question], self.prompts)
            if smaller and self._size(items) >= most:
                todo[:0] = smaller
                continue
            try:
                await self._answers(items)
            except TooLong as error:
                if not smaller:
                    raise Refused(f"{whole.named(question)} alone is too long: {error}") from None
                todo[:0] = smaller
                continue
            self._windows.append(question)
            if id(question) not in self._payloads:
                raise Refused(self._errors[id(question)])
            answers.append((question, self._payloads[id(question)]))
        try:
            self._payloads[id(whole)] = whole.merge(answers)
        except AnswerError as error:
            raise Refused(str(error)) from None

    async def _answers(self, items: Sequence[Reading]) -> None:
        """An answer, or an error, for each; what a model cannot count together is asked one by one."""
        await self._attempt(items)
        left = [question for item in self._open(items) for question in item.questions]
        parts = left[0].singly() if self._miscounted and len(left) == 1 else ()
        self._parts += parts
        for part in parts:
            await self._attempt(readings([part], self.prompts))
            if id(part) not in self._payloads:
                self._errors[id(left[0])] = f"asked one by one too: {self._errors[id(part)]}"
                return
        if parts:
            self._payloads[id(left[0])] = left[0].join([self._payloads[id(part)] for part in parts])

    async def _attempt(self, items: Sequence[Reading]) -> None:
        """As many attempts at a usable answer as there are, each told what was wrong with the one before."""
        self._note, problem = None, ""
        self.exchange.begin()
        spending = self.exchange.spending
        attempt = 0
        for attempt in range(1, self._attempts + 1):
            spending.reasked += attempt > 1
            problem = await self._try(word(items, self.prompts))
            left = list(self._open(items))
            if not left or (len(items) > 1 and len(left) < len(items)):
                return
            if len(items) > 1 and attempt >= LISTED and problem != CUT:
                break
            if len(items) == 1 and left[0] is not items[0]:
                items, self._note = left[:1], Correction("", problem)
        self._spent = True
        self._fail(f"no usable answer in {attempt} attempts; the last: {problem}", items)

    async def _try(self, ask: Ask) -> str:
        """Ask once, and keep what can be used; says what was wrong, and notes it for the next attempt."""
        self._miscounted = False
        try:
            got = await self.exchange.send(ask, self._note)
        except AnswerError as error:
            self._note = Correction("", str(error)[:SAID])
            return self._note.problem
        except TooLong:
            if self._note is None:
                raise
            self._note = None  # what it was told made it too long, not the texts
            return "what was wrong with the answer before is too long to be told"
        if got.cut:
            self.exchange.widen(got)
            return CUT
        problem = self._take(ask, got)
        if problem:
            without_end = self.exchange.give_room(got)
            self._note = Correction(got.text[:NOTED], problem)
            if not (self._miscounted or without_end):
                self.habits.shapeless()
            return problem
        self.exchange.usable(got)
        if self._note is None:
            self.habits.worked(self.exchange.rung)
        return ""

    def _take(self, ask: Ask, got: Answered) -> str:
        """Keep what can be used of an answer; says what is wrong with the rest."""
        try:
            parts = list(ask.split(got.payload()))
        except AnswerError as error:
            return str(error)[:SAID]
        problem, places = "", ask.places()
        for question, part in parts:
            if wrong := self._keep(question, part):
                problem = wrong
            elif place := places.get(id(question)):
                self._listed[id(question)] = {"list": len(ask.items), "place": place}
        return problem

    def _keep(self, question: AnyQuestion, part: Json | AnswerError) -> str:
        """Keep one question's part if it can be read; else says what is wrong with it."""
        if isinstance(part, AnswerError):
            return str(part)[:SAID]
        try:
            part = question.checked(part)
        except AnswerError as error:
            self._miscounted = isinstance(error, Miscounted)
            return str(error)[:SAID]
        except Exception:  # noqa: BLE001 - what a model may write into an answer nobody can list
            return "the answer is not of the shape that the JSON Schema says"
        self._payloads[id(question)] = part
        return ""


_NOTHING = Usage(cost_usd=0.0)
