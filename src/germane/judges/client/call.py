"""One group of questions: asked, read, asked again, until each has an answer or an error.

What comes back wrong is asked again with what was wrong with it. A list that stays wrong is asked text by text, a
Reading that stays wrong question by question, verdicts that a model cannot keep apart one by one, and contexts that
are too long for the model in windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import monotonic

from germane.errors import AnswerError, GermaneError
from germane.judges.client.client import CallState, ModelClient
from germane.judges.client.errors import NoAnswer, Refused, Rejected, TooLong
from germane.judges.client.output import MODES, Correction
from germane.judges.client.parsing import Completion
from germane.judges.client.prices import Price
from germane.judges.judge import Reply
from germane.questions.payload import Miscounted
from germane.questions.prompts import Prompts
from germane.questions.question import AnyQuestion
from germane.questions.reading import Ask, Reading, readings, word
from germane.types import FrozenDict, Json, Usage

_CUT = "it was cut off at the token limit"
_FREE = Usage(cost_usd=0.0)
_SHOWN = 4000
"""Characters of an unusable answer that are shown to the model again."""
_PROBLEM = 300
"""Characters of what was wrong with it."""


class GroupCall:
    """One call of the model judge.

    Args:
        client: Sends the requests.
        prompts: The wording.
        items: The Readings that share a request: one, or a list.
    """

    def __init__(self, client: ModelClient, prompts: Prompts, items: Sequence[Reading]) -> None:
        self.client, self.prompts, self.items = client, prompts, items
        self.state = CallState(client.policy.deadline)
        self._payloads: dict[int, Json] = {}
        self._errors: dict[int, str] = {}
        self._how: dict[int, dict[str, Json]] = {}
        self._asked_alone: set[int] = set()
        self._miscounted = self._spent = False
        self._note: Correction | None = None
        self._windows: dict[int, list[tuple[AnyQuestion, Json]]] = {}
        self._singly: list[AnyQuestion] = []  # kept alive, since what is known of them is found by their id()

    async def run(self) -> None:
        """Ask all together, then apart what came to nothing: of a list its texts, of a Reading its questions."""
        try:
            await self._ask(self.items)
            for item in self._apart():
                await self._ask([item])
        except GermaneError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one answer holds, it fails its own questions alone
            why = f"the answer could not be read: {type(error).__name__}: {str(error)[:_PROBLEM]}"
            self._fail(why, self.items)

    def replies(self, questions: Sequence[AnyQuestion], price: Price | None) -> list[Reply]:
        """One reply per question; usage and time stand on the first."""
        common, found = self._provenance(), []
        usage, ms = self.state.usage(price), (monotonic() - self.state.started) * 1000
        for place, question in enumerate(questions):
            one, error = id(question), None
            if (payload := self._payloads.get(one)) is None:
                error = self._errors.get(one, "the model gave no answer")
            windows = self._windows.get(one, ())
            how = self._how.get(one, {"windows": len(windows)} if windows else {})
            reply = Reply(
                payload=payload,
                error=error,
                usage=_FREE if place else usage,
                ms=None if place else ms,
                request=self.state.id,
                provenance=FrozenDict(common | how),
            )
            children = [
                (window, replace(reply, payload=part, usage=_FREE, ms=None)) for window, part in windows
            ]
            found.append(replace(reply, children=tuple(children)) if children else reply)
        return found

    def _provenance(self) -> dict[str, Json]:
        """How the call was asked and answered; what is as usual is left out, but for mode and model."""
        state, known = self.state, self.client.capabilities
        found: dict[str, Json] = {
            "mode": MODES[state.mode],
            "model": state.model,
            "fingerprint": state.fingerprint,
            "left_out": known.left_out,
            "singly": len(self._singly),
            "reasked": state.reasked,
            "waits": state.waits,
            "faults": state.faults,
            "tokens": "estimated" if state.estimated else "",
        }
        return {name: value for name, value in found.items() if value}

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
        """What may fare better apart: nothing in an outage, or where the model never gave a usable answer."""
        if self.client.breaker.open:
            return []
        if len(self.items) > 1:
            return list(self._open([item for item in self.items if id(item) not in self._asked_alone]))
        questions = [question for item in self._open(self.items) for question in item.questions]
        if len(questions) < 2 or not (self._spent and self.client.capabilities.proven):
            return []
        self._singly += questions
        return readings(questions, self.prompts, fuse=False)

    async def _ask(self, items: Sequence[Reading]) -> None:
        """An answer or an error for each question; what is too long for the model is asked in parts."""
        if len(items) == 1:
            self._asked_alone.add(id(items[0]))
        try:
            try:
                await self._answers(items)
            except TooLong as error:
                if len(items) > 1:
                    for half in (items[: len(items) // 2], items[len(items) // 2 :]):
                        await self._ask(half)
                    return
                if len(items[0].questions) > 1:
                    raise
                await self._in_windows(items[0].questions[0], error)
        except (Refused, Rejected, AnswerError) as error:
            self._fail(str(error), items)
        except NoAnswer as error:
            self._spent = True
            self._fail(str(error), items)

    async def _in_windows(self, question: AnyQuestion, error: TooLong) -> None:
        """Ask about halves of the contexts, and halves of these, until they fit; then put the answers together.

        Raises:
            Refused: One context alone is too long, or a window has no answer: there is no verdict from the others.
            AnswerError: Nothing about the whole follows from the windows.
        """
        todo = list(question.halves() or ())
        if not todo:
            raise error
        windows = self._windows.setdefault(id(question), [])
        while todo:
            window = todo.pop(0)
            try:
                await self._answers(readings([window], self.prompts))
            except TooLong as long:
                if not (smaller := window.halves()):
                    raise Refused(f"{question.named(window)} alone is too long: {long}") from None
                todo[:0] = smaller
                continue
            if id(window) not in self._payloads:
                raise Refused(self._errors[id(window)])
            windows.append((window, self._payloads[id(window)]))
        self._payloads[id(question)] = question.merge(windows)

    async def _answers(self, items: Sequence[Reading]) -> None:
        """An answer or an error for each question; verdicts that a model cannot keep apart are asked one by one."""
        await self._attempts(items)
        left = [question for item in self._open(items) for question in item.questions]
        parts = left[0].singly() if self._miscounted and len(left) == 1 else ()
        self._singly += parts
        for part in parts:
            await self._attempts(readings([part], self.prompts))
            if id(part) not in self._payloads:
                self._errors[id(left[0])] = f"asked one by one too: {self._errors[id(part)]}"
                return
        if parts:
            self._payloads[id(left[0])] = left[0].join([self._payloads[id(part)] for part in parts])
            self._how[id(left[0])] = {}

    async def _attempts(self, items: Sequence[Reading]) -> None:
        """Ask until there is a usable answer or no attempt left; each shows what was wrong with the one before."""
        self._note, problem, policy = None, "", self.client.policy
        self.state.failures = self.state.room = 0  # of this question
        attempt = 0
        for attempt in range(1, policy.attempts + 1):
            self.state.reasked += attempt > 1
            problem = await self._attempt(word(items, self.prompts))
            left = list(self._open(items))
            if not left or (len(items) > 1 and len(left) < len(items)):
                return
            if len(items) > 1 and attempt >= policy.list_attempts and problem != _CUT:
                break
            if len(items) == 1 and left[0] is not items[0]:
                items, self._note = left[:1], Correction("", problem)
        self._spent = True
        self._fail(f"no usable answer in {attempt} attempts; the last: {problem}", items)

    async def _attempt(self, ask: Ask) -> str:
        """Ask once and keep what can be used; what was wrong, which is noted for the next attempt."""
        self._miscounted = False
        try:
            got = await self.client.complete(ask, self.state, self._note)
        except AnswerError as error:
            self._note = Correction("", str(error)[:_PROBLEM])
            return self._note.problem
        except TooLong:
            if self._note is None:
                raise
            self._note = None  # the correction made it too long, not the texts
            return "what was wrong with the answer before is too long to be sent"
        if got.cut:
            self.client.widen(got, self.state)
            return _CUT
        capabilities = self.client.capabilities
        if problem := self._keep_all(ask, got):
            self._note = Correction(got.text[:_SHOWN], problem)
            if not (self._miscounted or got.problem):
                capabilities.shapeless()
        elif self._note is None:
            capabilities.usable(self.state.mode)
        return problem

    def _keep_all(self, ask: Ask, got: Completion) -> str:
        """Keep what can be used of an answer; what is wrong with the rest."""
        try:
            parts = list(ask.split(got.payload()))
        except AnswerError as error:
            return str(error)[:_PROBLEM]
        problem, places = "", ask.places()
        fused = {id(question): item for item in ask.items for question in item.questions}
        for question, part in parts:
            if wrong := self._keep(question, part):
                problem = wrong
                continue
            how: dict[str, Json] = {}
            if len(others := fused[id(question)].questions) > 1:
                how["fused"] = tuple(other.kind for other in others)
            if place := places.get(id(question)):
                how |= {"list_size": len(ask.items), "place": place}
            self._how[id(question)] = how
        return problem

    def _keep(self, question: AnyQuestion, part: Json | AnswerError) -> str:
        """Keep the answer to one question if it can be read, else what is wrong with it."""
        if isinstance(part, AnswerError):
            return str(part)[:_PROBLEM]
        try:
            part = question.checked(part)
        except AnswerError as error:
            self._miscounted = isinstance(error, Miscounted)
            return str(error)[:_PROBLEM]
        except Exception:  # noqa: BLE001 - a model may write anything into an answer
            return "the answer is not of the shape that the JSON Schema says"
        self._payloads[id(question)] = part
        return ""
