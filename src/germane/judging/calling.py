"""One group of questions on its way to a model: asked, read, asked again, until each has an answer or an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

from germane.errors import AnswerError
from germane.judging.endpoint import Endpoint, Rejected, Spending, Unanswered
from germane.judging.judge import AnyQuestion, Reply
from germane.judging.ladder import ROOM, RUNGS, Answered, Correction, Habits, Refused, TooLong, answered
from germane.judging.patience import Deadline
from germane.judging.prices import Price
from germane.judging.prompting import Prompts
from germane.judging.reading import Ask, Reading, readings, word
from germane.judging.windows import Window, halves, joined
from germane.types import FrozenDict, Json, Usage

__all__ = ["Call"]

NOTED = 4000
"""Characters of an unusable answer that are shown to the model again."""

SHORT, DENSE, FULL = 4000, 8, {1024 << n for n in range(8)}
"""A prompt of more than SHORT characters was cut off on its way where the server read less than one token in DENSE
characters (whatever the script, there are two to eight times as many), or exactly as many as a context of the usual
sizes holds. Ollama does so and says nothing."""


class Call:
    """One group of questions: one Reading, or a list of them."""

    def __init__(
        self, endpoint: Endpoint, habits: Habits, prompts: Prompts, items: Sequence[Reading]
    ) -> None:
        self.endpoint, self.habits, self.prompts, self.items = endpoint, habits, prompts, items
        self.spending, self._deadline = Spending(), Deadline(endpoint.patience.deadline)
        self._windows: list[Window] = []
        self._payloads: dict[int, Json] = {}
        self._errors: dict[int, str] = {}
        self._rung = 0
        self._model = ""
        self._room: int | None = None
        self._note: Correction | None = None

    async def run(self) -> None:
        """Ask all together; then, of a list, what is still open one by one."""
        try:
            async with self._deadline:
                await self._ask(self.items)
                if len(self.items) > 1:
                    for item in self._open(self.items):
                        await self._ask([item])
        except TimeoutError:
            self._fail(f"no answer within {self._deadline.seconds:g} s", self.items)
        except Unanswered as error:
            self._fail(str(error), self.items)

    def replies(self, questions: Sequence[AnyQuestion], price: Price | None) -> list[Reply]:
        """One reply a question; what the call cost stands on the first."""
        ms = (monotonic() - self.spending.started) * 1000
        told = self._provenance()
        usage, found = self._usage(price), []
        for question in questions:
            payload, error = self._payloads.get(id(question)), None
            if payload is None:
                error = self._errors.get(id(question), "the model gave no answer")
            found.append(Reply(payload=payload, error=error, usage=usage, ms=ms, provenance=told))
            usage = _NOTHING
        return found

    def _usage(self, price: Price | None) -> Usage:
        spent = self.spending
        tokens = spent.input_tokens, spent.output_tokens
        cost = None if price is None else price.cost(*tokens, spent.cached_tokens)
        return Usage(requests=spent.requests, input_tokens=tokens[0], output_tokens=tokens[1], cost_usd=cost)

    def _provenance(self) -> FrozenDict:
        """How it came about, as far as it is out of the ordinary."""
        spent = self.spending
        counts = {"reasked": spent.reasked, "waits": spent.waits, "faults": spent.faults}
        told: dict[str, Json] = {name: count for name, count in counts.items() if count}
        if self._rung:
            told["rung"] = RUNGS[self._rung]
        if self._model and self._model != self.habits.model:
            told["model"] = self._model
        if len(self.items) > 1:
            told["list"] = len(self.items)
        if self._windows:
            told["windows"] = len(self._windows)
        if spent.estimated:
            told["tokens"] = "estimated"
        return FrozenDict(told)

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

    async def _ask(self, items: Sequence[Reading]) -> None:
        """An answer or an error for each; what is too long for the model is asked in windows where that can be."""
        window = Window(items[0].questions[0])
        windowed = len(items) == len(items[0].questions) == 1 and bool(halves(window))
        try:
            if windowed and not self._fits(items):
                await self._in_windows(window)
                return
            try:
                await self._attempts(items)
            except TooLong:
                if not windowed:
                    raise
                await self._in_windows(window)
        except (Refused, Rejected) as error:
            self._fail(str(error), items)

    def _fits(self, items: Sequence[Reading]) -> bool:
        """Whether these may fit into one request, as far as is known."""
        habits = self.habits
        return not habits.too_long or len(habits.body(word(items, self.prompts))) < habits.too_long

    async def _in_windows(self, whole: Window) -> None:
        """Ask about halves of the contexts, and halves of these, until they fit; then put the answers together."""
        todo, answers = list(halves(whole)), []
        while todo:
            window = todo.pop(0)
            question, smaller = window.question, halves(window)
            items = readings([question], self.prompts)
            if smaller and not self._fits(items):
                todo[:0] = smaller
                continue
            try:
                await self._attempts(items)
            except TooLong as error:
                if not smaller:
                    raise Refused(f"context {window.start + 1} alone is too long: {error}") from None
                todo[:0] = smaller
                continue
            self._windows.append(window)
            if id(question) not in self._payloads:
                raise Refused(self._errors[id(question)])
            answers.append((window, self._payloads[id(question)]))
        try:
            self._payloads[id(whole.question)] = joined(whole.question, answers)
        except AnswerError as error:
            raise Refused(str(error)) from None

    async def _attempts(self, items: Sequence[Reading]) -> None:
        """As many attempts at a usable answer as there are, each told what was wrong with the one before."""
        self._note = self._room = None
        attempts = self.endpoint.patience.attempts
        problem = ""
        for _ in range(attempts):
            ask = word(items, self.prompts)
            problem = self._take(ask, await self._send(ask))
            left = list(self._open(items))
            if not left or (len(items) > 1 and len(left) < len(items)):
                return
            if len(items) == 1 and left[0] is not items[0]:
                items, self._note = left[:1], Correction("", problem)
            self.spending.reasked += 1
        self.spending.reasked -= 1
        self._fail(f"no usable answer in {attempts} attempts; the last: {problem}", items)

    def _take(self, ask: Ask, got: Answered) -> str:
        """Keep what can be used of an answer; says what was wrong, and notes it for the next attempt."""
        if got.cut:
            used = got.output_tokens or 0
            self._room = max(2 * (self._room or self.habits.limit or 0), 2 * used, ROOM)
            return "it was cut off at the token limit"
        try:
            parts = list(ask.split(got.payload()))
        except AnswerError as error:
            self.habits.no_json()
            self._note = Correction(got.text[:NOTED], str(error))
            return str(error)
        problem = ""
        for question, part in parts:
            problem = self._keep(question, part) or problem
        if problem:
            self._note = Correction(got.text[:NOTED], problem)
        elif self._note is None:
            self.habits.worked(self._rung)
        return problem

    def _keep(self, question: AnyQuestion, part: Json | AnswerError) -> str:
        """Keep one question's part if it can be read; else says what is wrong with it."""
        if isinstance(part, AnswerError):
            return str(part)
        try:
            question.read(part)
        except AnswerError as error:
            return str(error)
        except (TypeError, ValueError, KeyError, AttributeError):
            return "the answer is not of the shape that the JSON Schema says"
        self._payloads[id(question)] = part
        return ""

    async def _send(self, ask: Ask) -> Answered:
        """One answer of the model, stepping down the ladder where the endpoint does not take the request."""
        habits = self.habits
        while True:
            self._rung = max(self._rung, habits.rung)
            version = habits.version
            body = habits.body(ask, self._note, self._room, self._rung)
            try:
                response = await self.endpoint.post(body, self.spending, self._deadline)
            except Rejected as error:
                if error.too_long:
                    habits.refused(len(body))
                    raise TooLong(
                        f"the texts are too long for the model: about {_tokens(len(body)):,} tokens ({error})"
                    ) from None
                if habits.version == version:
                    self._step_down(error)
                continue
            got = answered(response)
            self._count(got, len(body))
            if self._note is None:
                self._whole(ask, got, len(body))
            return got

    def _whole(self, ask: Ask, got: Answered, size: int) -> None:
        """TooLong where the server cannot have read all of the prompt."""
        if got.input_tokens is None or len(ask.user) <= SHORT:
            return
        told, habits = got.input_tokens + got.cached_tokens, self.habits
        full = told in FULL and told * 4 < len(ask.user)
        sparse = told * DENSE < len(ask.user) and told * DENSE < len(" ".join(ask.user.split()))
        if full or sparse or (habits.reads and told >= 0.95 * habits.reads):
            habits.reads = max(told, habits.reads)
            habits.refused(4 * told)
            raise TooLong(
                f"the server read {told:,} tokens of about {_tokens(size):,}: it cuts off in silence what is longer"
                " than its context; give the model a longer one (Ollama: OLLAMA_CONTEXT_LENGTH)"
            )

    def _step_down(self, error: Rejected) -> None:
        """Learn from an error what to leave out, or raise it."""
        said = error.text.lower()
        if any(words in said for words in _FILTERED):
            raise Refused(f"the provider's content filter refused the texts ({error})")
        if self.habits.learn(said, self._rung):
            return
        if self.habits.proven or self._rung == len(RUNGS) - 1:
            raise error
        self._rung += 1

    def _count(self, got: Answered, size: int) -> None:
        spent = self.spending
        sent, back = got.input_tokens, got.output_tokens
        if sent is None or back is None:
            spent.estimated = True
            sent, back = size // 4, len(got.text.encode("utf-8", "replace")) // 4
        spent.input_tokens += sent
        spent.output_tokens += back
        spent.cached_tokens += got.cached_tokens
        self.endpoint.used(sent + back, size)
        self._model = got.model


_NOTHING = Usage(cost_usd=0.0)
_FILTERED = ("content_filter", "content management policy", "content policy", "moderation", "flagged")


def _tokens(size: int) -> int:
    """About how many tokens a request of so many bytes is."""
    return size // 4
