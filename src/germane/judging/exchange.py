"""Requests of one call to a model: each is worded as the endpoint takes it, until there is an answer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from germane.errors import AnswerError, JudgeError
from germane.judging.attempts import Rejected, Spending
from germane.judging.completions import Answered, Refused, answered
from germane.judging.endpoint import Endpoint
from germane.judging.gate import BYTES
from germane.judging.ladder import LOWEST, ROOM, Correction, Habits
from germane.judging.patience import Deadline
from germane.judging.scouting import Superseded
from germane.judging.statuses import fewer, filtered, unfinished, unfit
from germane.judging.truncation import LONGER
from germane.questions.reading import Ask

__all__ = ["Exchange", "TooLong"]

WELL_BELOW = 2
"""An answer cut at this part of its limit was not cut by that limit."""

STEPS = 12
"""Requests for one answer at most, whatever the endpoint does not take."""

HOPELESS = 30
"""Rejections that teach nothing after which an endpoint is given up that never answered."""


class TooLong(Refused):
    """The texts are more than the model takes at once: `most` bytes of a request about them, as this answer shows."""

    def __init__(self, why: str, most: int) -> None:
        super().__init__(why)
        self.most = most


class Exchange:
    """What one call has sent and learned: `rung` of the ladder, `spending`, the `model` that answered last."""

    def __init__(self, endpoint: Endpoint, habits: Habits, deadline: Deadline) -> None:
        self.endpoint, self.habits = endpoint, habits
        self.spending, self.rung, self.model = Spending(), 0, ""
        self._deadline = deadline
        self._sent: tuple[int, int | None] = (0, None)
        self._name = ""
        self._worded: tuple[object, bytes] | None = None
        self._room = self._most = self._had = self._short = 0

    def begin(self) -> None:
        """Another question: how much room the answer needs is not known yet."""
        self._room = self._most = self._had = 0
        self.spending.begin()

    def widen(self, got: Answered, *, heeded: bool = True) -> None:
        """Give the next answer more room, since this one was cut off; Refused where there is no more.

        A limit that the server did not heed is not what the answer had.
        """
        limit = self._sent[1] or 0  # not what is named by now: others may have learned of it meanwhile
        if not limit and (got.output_tokens or ROOM) < ROOM:
            self.habits.limited()
        self._had = max(got.output_tokens or 0, limit if heeded else 0, 1)
        self._room = max(2 * self._had, 2 * limit, ROOM)
        self._check_room("it was cut off there")

    def give_room(self, got: Answered) -> bool:
        """Name a limit for the next answer where this one has no end; whether it was so.

        A limit of the server's own may have cut it off, which is known when a longer answer can be used.
        """
        if self._sent[1] is not None or got.text.count("{") <= got.text.count("}"):
            return False
        self._room, self._short = ROOM, got.output_tokens or 0
        return True

    def usable(self, got: Answered) -> None:
        """This answer can be used: was it room that the one before lacked?"""
        if self._short and (got.output_tokens or 0) > self._short:
            self.habits.limited()
        self._short = 0

    async def send(self, ask: Ask, note: Correction | None = None) -> Answered:
        """One answer of the model, stepping down the ladder where the endpoint does not take the request.

        Raises:
            Refused: the model or its provider declined; TooLong where that is for the length of the texts.
            Rejected: the endpoint does not take the request, however it is worded.
            AnswerError: the endpoint itself threw the answer away.
            JudgeError: it took no request of any call so far.
        """
        try:
            return await self._send(ask, note)
        finally:
            self.habits.scouting.end(self)

    async def _send(self, ask: Ask, note: Correction | None) -> Answered:
        for step in range(1, STEPS + 1):
            await self._turn()
            size = len(self._body(ask, note))
            try:
                got = await self._post(ask, note, size)
            except Superseded:
                continue
            except Rejected as error:
                if unfinished(error.text):
                    return Answered("", "length")
                await self._rejected(ask, error, size, last=step == STEPS)
                continue
            if got.cut and self._unheeded(got):
                self.widen(got, heeded=False)
                continue
            if note is None:
                await self._whole(ask, got, size)
            return got
        raise AnswerError("the endpoint was busy with finding out what it takes")

    async def _turn(self) -> None:
        """Wait, with the clock stopped, for a call that is finding out what the endpoint takes."""
        if self.habits.scouting.waits(self):
            with self._deadline.held():
                await self.habits.scouting.turn()

    def _body(self, ask: Ask, note: Correction | None) -> bytes:
        """The request, as it leaves: what was learned while it waited for its place is in it."""
        habits = self.habits
        if habits.hopeless:
            raise JudgeError(f"{self.endpoint.transport.url} cannot be used: {habits.hopeless}")
        if habits.scouting.waits(self):
            raise Superseded
        self.rung = max(self.rung, habits.rung)
        self._sent, self._name = (habits.version, self._limit()), habits.limit_name.name
        wording = (ask, note, self.rung, *self._sent)
        if self._worded is None or self._worded[0] != wording:
            self._worded = wording, habits.body(ask, note, self._sent[1], self.rung)
        return self._worded[1]

    async def _post(self, ask: Ask, note: Correction | None, size: int) -> Answered:
        body = partial(self._body, ask, note)
        typical = partial(_typical, ask)
        response = await self.endpoint.post(body, size, typical, self.spending, self._deadline)
        self.habits.heard = True
        got = answered(response, ask.name)
        self._count(got, size)
        return replace(got, finish="length") if self._at_the_limit(got) else got

    def _at_the_limit(self, got: Answered) -> bool:
        """Whether an answer that is no JSON used all of its tokens: cut off, whatever the server calls it."""
        limit = self._sent[1]
        if got.cut or limit is None or (got.output_tokens or 0) < limit:
            return False
        try:
            got.payload()
        except AnswerError:
            return True
        return False

    def _unheeded(self, got: Answered) -> bool:
        """Whether to ask again, since the server passed over the limit that it was sent and cut at one of its own."""
        limit = self._sent[1]
        return bool(
            limit
            and got.output_tokens is not None
            and WELL_BELOW * got.output_tokens < limit
            and self.habits.unheeded(self._name)
        )

    def _limit(self) -> int | None:
        """Tokens that the answer may have: ours or the user's limit, but no more than the model allows; None = not sent."""
        if not self.habits.limit_name.name:
            return None
        wanted, most = self._room or self.habits.limit, [n for n in (self._most, self.habits.most) if n]
        return min([wanted, *most]) if wanted else None

    def _check_room(self, why: str) -> None:
        if self._had and not self.habits.limit_name.name:
            raise Refused("the answer was cut off, and the endpoint takes no limit that could be raised")
        if (limit := self._limit()) is not None and limit <= self._had:
            raise Refused(f"the answer is longer than the {limit:,} tokens that the endpoint allows ({why})")

    async def _rejected(self, ask: Ask, error: Rejected, size: int, *, last: bool) -> None:
        """Learn from a rejection how to ask instead, or raise it."""
        version, limit = self._sent
        if limit and (less := fewer(error.text, limit)):
            self._lower(less, error)
        elif error.too_long:
            why = f"the texts are too long for the model: about {size // 4:,} tokens ({error})"
            raise self._too_long(ask, size, why)
        elif filtered(error.text):
            raise Refused(f"the provider's content filter refused the texts ({error})")
        elif unfit(error.text):
            raise AnswerError(f"the endpoint says that it is not of the schema: {error.text}")
        else:
            self.habits.scouting.start(self)
            await self._turn()
            if self.habits.version == version:
                self._step_down(error, limited=limit is not None)
        if last:
            raise error

    def _lower(self, most: int, error: Rejected) -> None:
        """Ask for no more tokens than that; what is left beside this prompt is no other call's business."""
        self._most = min(most, self._most or most)
        if "context" not in error.text.lower():
            self.habits.most = min(most, self.habits.most or most)
        self._check_room(str(error))

    def _step_down(self, error: Rejected, *, limited: bool) -> None:
        """Leave out what the error names, or try one rung lower; raise it where nothing is left to try."""
        habits = self.habits
        if habits.learn(error.text.lower(), self.rung, limited=limited):
            self._check_room(str(error))
            return
        habits.rejected += 1
        if habits.rejected >= HOPELESS and not habits.heard:
            habits.hopeless = f"it took none of {HOPELESS} requests, the last: {error}"
        if habits.proven or self.rung == LOWEST:
            raise error
        self.rung += 1

    async def _whole(self, ask: Ask, got: Answered, size: int) -> None:
        """TooLong where the server cannot have read all of the prompt."""
        if got.input_tokens is not None and await self._cut_off(
            ask, told := got.input_tokens + got.cached_tokens
        ):
            why = (
                f"the server read {told:,} tokens of about {size // 4:,}: it cuts off in silence what is longer"
                " than its context; give the model a longer one (Ollama: OLLAMA_CONTEXT_LENGTH)"
            )
            raise self._too_long(ask, min(size, BYTES * told), why)
        self.habits.sizes.read(size)

    def _too_long(self, ask: Ask, most: int, why: str) -> TooLong:
        if len(ask.items) > 1:
            self.habits.sizes.refused(most)
        return TooLong(why, most)

    async def _cut_off(self, ask: Ask, told: int) -> bool:
        """Whether the server stopped reading after so many tokens, by what is known of it or by a test."""
        truncation = self.habits.truncation
        if truncation.known(told, ask.user):
            return True
        return truncation.suspected(told, ask.user) and await self._cuts(ask, told)

    async def _cuts(self, ask: Ask, told: int) -> bool:
        """Whether something longer is as many tokens to the server."""
        longer = replace(ask, user=ask.user + LONGER)
        try:
            again = await self._post(longer, None, len(self.habits.body(longer)))
        except Rejected as error:
            return error.too_long
        return self.habits.truncation.proven(told, (again.input_tokens or 0) + again.cached_tokens)

    def _count(self, got: Answered, size: int) -> None:
        spent = self.spending
        sent, back = got.input_tokens, got.output_tokens
        if sent is None or back is None:
            spent.estimated = True
            sent, back = size // 4, len(got.text.encode("utf-8", "replace")) // 4
        spent.input_tokens += sent
        spent.output_tokens += back
        spent.cached_tokens += got.cached_tokens
        self.endpoint.used(spent, sent + got.cached_tokens, back)
        self.model = got.model


def _typical(ask: Ask) -> int:
    """Tokens of an answer that a model may give."""
    return sum(len(str(question.typical())) for item in ask.items for question in item.questions) // BYTES
