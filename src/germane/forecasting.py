"""Forecasts what judging would ask: the programs of a run, driven with what is known. Nobody is asked.

Where an answer is not known, a typical one stands in for it; questions that follow from a typical answer are
estimates, and are marked so. What counts as known, cached and shared is what the run would count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from germane.forecast import Forecast, Line
from germane.judges.judge import Judge, Keyring, members_of
from germane.judges.panel import PanelJudge
from germane.ledger.store import Ledger
from germane.judging.spending import Receipts, Tally
from germane.measures.graders import Grader
from germane.measures.scoring import Block, Job, reading_of
from germane.measures.settings import Settings
from germane.prospects import Prospects
from germane.questions import AnyQuestion
from germane.questions.asking import Answer, Program, answered
from germane.routing import needs_judge
from germane.types import Judgement, Usage

__all__ = ["Forecasting", "Known"]


@dataclass(frozen=True, slots=True)
class Known:
    """What need not be asked.

    `own` are the judgements of the evaluation's earlier sessions by key, failures among them that are not to be asked
    again; `receipts` what these sessions have paid for; `ledger` holds everybody's answers.
    """

    own: Mapping[str, Judgement] = field(default_factory=dict)
    ledger: Ledger | None = None
    receipts: Receipts = field(default_factory=Receipts)

    def find(self, question: AnyQuestion, judge: Judge, key: str) -> Answer | None:
        """The answer that holds without asking: usable, or a failure of this evaluation's own."""
        judgement = self.own.get(key)
        if judgement is None and judge.stored and self.ledger is not None:
            judgement = self.ledger.find([key]).get(key)
        answer = None if judgement is None else answered(question, judgement)
        return answer if answer is not None and answer.holds else None


class _Asked(NamedTuple):
    """A question to one judge: what is known of it, and whether it follows from a typical answer.

    `calls` are the questions to judges who cost that it is: of a panel's known answer several.
    """

    key: str
    judge: Judge
    question: AnyQuestion
    answer: Answer | None
    estimated: bool
    calls: int


_Questions = list[tuple[Judge, AnyQuestion]]


class Forecasting:
    """Goes through samples, and knows at the end what judging them would ask.

    Args:
        judge: Whom the questions are for; None where no measure asks.
        known: What need not be asked.
        settings: The evaluation's.
    """

    def __init__(self, judge: Judge | None, known: Known, settings: Settings) -> None:
        self._judge, self._known, self._settings = judge, known, settings
        self._found = Forecast(judge.name if judge is not None else "none needed")
        self._prospects = Prospects(settings)
        self._tally = Tally(known.receipts)
        self._key_of = Keyring()
        self._asked: dict[str, _Questions] = {}

    def look(self, job: Job) -> None:
        """One more sample, as its target answered."""
        self._found.samples += 1
        self._prospects.look(job)
        read: dict[object, Counter[str]] = {}
        for grader in job.graders:
            line = self._line(grader)
            if self._judge is not None and grader.script is None:
                for asked in self._beyond(read, grader, self._questions(job, grader, self._judge)):
                    self._count(line, asked)

    def wait(self, job: Job) -> None:
        """One more sample, whose target has not answered: what a judge would be asked of it is not known."""
        self._found.samples += 1
        self._found.waiting += 1
        for grader in job.graders:
            self._line(grader).waiting += needs_judge([grader])

    def result(self) -> Forecast:
        """The forecast; InputError where a measure cannot be computed for any sample."""
        found = self._found
        if not found.waiting:  # who waits may have what the others lack
            self._prospects.check()
        found.total = _usage([one for asked in self._asked.values() for one in asked])
        for line in found.lines.values():
            line.usage = _usage(self._asked.get(line.measure, ()))
        return found

    def _line(self, grader: Grader) -> Line:
        return self._found.lines.setdefault(grader.name, Line(grader.name))

    def _count(self, line: Line, asked: _Asked) -> None:
        if not asked.calls:
            return
        if not self._tally.first(asked.key):
            line.shared += asked.calls
        elif asked.answer is None:
            line.new += asked.calls
            line.estimated += asked.calls * asked.estimated
            self._asked.setdefault(line.measure, []).append((asked.judge, asked.question))
        elif not asked.answer.usable:
            self._found.failed += asked.calls
        elif asked.key in self._known.receipts:
            self._found.paid += asked.calls
        else:
            line.cached += asked.calls

    @staticmethod
    def _beyond(
        read: dict[object, Counter[str]], grader: Grader, questions: Iterable[_Asked]
    ) -> Iterator[_Asked]:
        """The questions that no measure before has in the same label program: that asks them once for all of them."""
        if grader.measure.definition.family != "ranked":
            yield from questions
            return
        before, mine = read.setdefault(reading_of(grader.measure), Counter()), Counter[str]()
        for asked in questions:
            mine[asked.key] += 1
            if mine[asked.key] > before[asked.key]:
                before[asked.key] += 1
                yield asked

    def _questions(self, job: Job, grader: Grader, judge: Judge) -> Iterator[_Asked]:
        block = Block(jobs=[Job(sample=job.sample, graders=(grader,))], settings=self._settings)
        for program in block.programs():
            yield from self._walk(program, judge)

    def _walk(self, program: Program[object], judge: Judge) -> Iterator[_Asked]:
        """Each question of a program, to those of a panel who are asked."""
        estimated = False
        try:
            questions: Sequence[AnyQuestion] = next(program)
            while True:
                values, unknown = [], False
                for question in questions:
                    asked = self._put(question, judge, estimated=estimated)
                    yield from asked
                    values.append(_value(question, asked))
                    unknown = unknown or any(one.answer is None for one in asked)
                estimated = estimated or unknown
                questions = program.send(tuple(values))
        except StopIteration:
            return

    def _put(self, question: AnyQuestion, judge: Judge, *, estimated: bool) -> list[_Asked]:
        """A question to a judge; to the members of a panel whose answer is not known."""
        key = self._key_of(question, judge)
        answer = self._known.find(question, judge, key)
        if answer is None and isinstance(judge, PanelJudge):
            members = judge.next_members(question, ())
            return [asked for one in members for asked in self._put(question, one, estimated=estimated)]
        calls = sum(one.stored for one in members_of(judge))
        return [_Asked(key, judge, question, answer, estimated, calls)]


def _value(question: AnyQuestion, asked: Sequence[_Asked]) -> object:
    """What the program is told: the first usable answer, a typical one where an answer is still to come, else the failure."""
    known = [one.answer for one in asked if one.answer is not None]
    usable = next((answer.value for answer in known if answer.usable), None)
    if usable is not None:
        return usable
    return known[0].value if len(known) == len(asked) > 0 else question.read(question.typical())


def _usage(asked: Iterable[tuple[Judge, AnyQuestion]]) -> Usage:
    """The requests of these questions as their judges would group them; a judge that sends none uses nothing."""
    by_judge: dict[int, tuple[Judge, list[AnyQuestion]]] = {}
    for judge, question in asked:
        by_judge.setdefault(id(judge), (judge, []))[1].append(question)
    parts: list[Usage] = [
        estimate(group)
        for judge, questions in by_judge.values()
        if (estimate := getattr(judge, "forecast", None)) is not None
        for group in judge.group(questions)
    ]
    unknown = any(part.cost_usd is None for part in parts)
    return Usage(
        requests=sum(part.requests for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cost_usd=None if unknown else sum(part.cost_usd or 0.0 for part in parts),
    )
