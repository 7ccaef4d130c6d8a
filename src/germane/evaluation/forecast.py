"""What a run would ask and what that would cost (`--dry-run`): its programs driven with what is known, nobody asked.

Where an answer is not known, a typical one stands in for it; questions that follow from a typical answer are estimates,
and are marked so. What counts as known, cached and shared is what the run would count.
"""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import fsum
from typing import NamedTuple, TypeAlias

from msgspec import structs

from germane.evaluation.choice import needs_judge
from germane.evaluation.options import Expected
from germane.judges.judge import Judge, members_of
from germane.judges.panel import PanelJudge
from germane.judges.script import ScriptJudge
from germane.judging.spending import Receipts
from germane.ledger.store import Ledger
from germane.measures.labels import Settings
from germane.measures.scoring import Block, Grader, Job
from germane.questions.asking import Answer, Program, answered
from germane.questions.question import AnyQuestion
from germane.questions.script import Script
from germane.tables.stored import EarlierJudgements
from germane.types import Context, Json, Usage

_Asked: TypeAlias = tuple[Judge, AnyQuestion]


@dataclass
class ForecastLine:
    """One measure's questions that cost.

    `new` are to be asked, of these `estimated` follow from answers that are not known yet; `cached` are known from
    earlier evaluations, `shared` are asked for an earlier measure or sample. `waiting` are samples whose questions
    cannot be known before a target has answered. `asked` are the new questions, each with its judge.
    """

    measure: str
    new: int = 0
    estimated: int = 0
    cached: int = 0
    shared: int = 0
    waiting: int = 0
    asked: list[_Asked] = field(default_factory=list)

    @cached_property
    def usage(self) -> Usage:
        """What the measure would cost by itself."""
        return _usage(self.asked)

    def as_json(self) -> dict[str, Json]:
        """For `--json`. Where samples are waiting, they are estimates."""
        counts = {name: getattr(self, name) for name in ("estimated", "cached", "shared", "waiting")}
        return {"calls": self.new, **counts, **_spending(self.usage)}


@dataclass
class Forecast:
    """What a run would ask, one line per measure.

    Of a run that is continued, `paid` are questions that its earlier sessions have paid for, and `failed` those that
    failed then and are not asked again. `waiting` are samples that no target has answered yet. `took` are the milliseconds
    of each request whose answers are known. `until`: fewer may be asked.
    """

    judge: str
    samples: int = 0
    lines: dict[str, ForecastLine] = field(default_factory=dict)
    paid: int = 0
    failed: int = 0
    waiting: int = 0
    max_cost: float | None = None
    max_calls: int | None = None
    took: list[float] = field(default_factory=list)
    until: bool = False
    certain: list[_Asked] = field(default_factory=list)
    """The new questions that follow from no answer which is not known yet, each with its judge."""

    @property
    def seconds(self) -> float | None:
        """Seconds that a request took in the mean, by the answers that are known; None where none is."""
        return fsum(self.took) / len(self.took) / 1000 if self.took else None

    @cached_property
    def total(self) -> Usage:
        """The requests once questions share them."""
        return _usage(one for line in self.lines.values() for one in line.asked)

    @property
    def calls(self) -> int:
        """Questions that would be put to a judge, as far as that is known."""
        return sum(line.new for line in self.lines.values())

    @property
    def estimated(self) -> int:
        """Those of them that follow from answers that are not known yet."""
        return sum(line.estimated for line in self.lines.values())

    def limits(self) -> Iterator[tuple[str, str, bool]]:
        """Each limit that is set: its name, its flag, and whether the run would be stopped by it."""
        if self.max_calls is not None:
            reached = self.calls > self.max_calls
            yield "max_calls", f"--max-calls {self.max_calls}", reached
        if self.max_cost is not None:
            reached = (self.total.cost_usd or 0.0) > self.max_cost
            yield "max_cost", f"--max-cost {self.max_cost:g}", reached

    def as_json(self) -> dict[str, Json]:
        """For `--json`. Where samples are waiting, they are estimates."""
        return {
            "schema_version": 1,
            "judge": self.judge,
            "samples": self.samples,
            "waiting": self.waiting,
            "measures": {name: line.as_json() for name, line in self.lines.items()},
            "paid": self.paid,
            "failed": self.failed,
            "requests": self.total.requests,
            "seconds_per_request": self.seconds,
            **_spending(self.total),
            "limits": {name: {"reached": reached} for name, _, reached in self.limits()},
        }

    def text(self) -> str:
        """A table that a person reads."""
        head = f"{'measure':34} {'new calls':>12} {'cached':>8} {'shared':>8} {'~tokens in':>11} {'~tokens out':>11}  ~price"
        lines = [f"dry run: {self.samples} samples, judge {self.judge}; nobody is asked", "", head]
        for line in self.lines.values():
            calls, used = f"{'~' if line.estimated else ''}{line.new:,}", line.usage
            lines.append(
                f"{line.measure:34} {calls:>12} {line.cached:>8,} {line.shared:>8,} "
                f"{used.input_tokens:>11,} {used.output_tokens:>11,}  {_price(used)}"
            )
        return "\n".join([*lines, "", *self._remarks()])

    def _remarks(self) -> Iterator[str]:
        total, lines = self.total, self.lines.values()
        tokens = f"about {total.input_tokens:,} + {total.output_tokens:,} tokens, " if total.requests else ""
        guessed = self.estimated
        if self.until:
            yield "--until stops as soon as it has seen enough: this is what all cases would ask"
        yield f"in all {'about ' if guessed else ''}{total.requests:,} requests, {tokens}{_price(total)}"
        if self.seconds is not None and total.requests:
            whole = datetime.timedelta(seconds=round(self.seconds * total.requests))
            yield f"~ {self.seconds:.1f} s per request by the answers that are stored: {whole} one after another"
        if guessed:
            yield f"~ {guessed:,} calls follow from answers that are not known yet: an estimate"
        if total.requests:
            yield "~ tokens in are counted from the texts, tokens out are those of typical answers: a model that reasons writes more"
        if sum(line.usage.requests for line in lines) > total.requests:
            yield "measures share requests: each line has them in full, the sum has them once"
        if self.waiting:
            yield f"{self.waiting:,} of {self.samples:,} samples have no answer of their target yet, and a dry run asks no target:"
            yield f"  {ASSUMED} contexts of 150 tokens are assumed of each. To know: run with --max-calls 0, which asks the"
            yield "  targets and nobody else, then --resume REPORT --dry-run"
        if self.paid:
            yield f"{self.paid:,} questions are answered in earlier sessions of this evaluation"
        if self.failed:
            yield f"{self.failed:,} questions failed in earlier sessions: asked again only with --retry-errors"
        words = {True: "would stop this run", False: "would be enough"}
        for _, flag, reached in self.limits():
            yield f"{flag} {words[reached]}, by this estimate"


def _price(usage: Usage) -> str:
    if not usage.requests:
        return "free"
    if usage.cost_usd is None:
        return "price unknown"
    return f"${usage.cost_usd:.4f}"


def _spending(usage: Usage) -> dict[str, Json]:
    tokens = {"input": usage.input_tokens, "output": usage.output_tokens}
    return {"tokens": tokens, "cost_usd": usage.cost_usd}


class _Known(NamedTuple):
    """A question to one judge: what is known of it, and whether it follows from a typical answer.

    `calls` are the questions to judges who cost that it is: of a panel's known answer several.
    """

    key: str
    judge: Judge
    question: AnyQuestion
    answer: Answer | None
    estimated: bool
    calls: int


class Forecaster:
    """Goes through samples; `found` is what judging them would ask.

    Args:
        judge: Whom the questions are for; None where no measure asks.
        settings: The evaluation's.
        known: The judgements of the evaluation's earlier sessions, with failures that are not to be asked again.
        ledger: Everybody's answers.
        receipts: What these sessions have paid for.
    """

    def __init__(
        self,
        judge: Judge | None,
        settings: Settings,
        known: EarlierJudgements | None = None,
        ledger: Ledger | None = None,
        receipts: Receipts | None = None,
    ) -> None:
        self.found = Forecast(judge.name if judge is not None else "none needed")
        self._judge, self._settings = judge, settings
        self._known, self._ledger = known or EarlierJudgements(), ledger
        self._receipts, self._seen, self._timed = receipts or Receipts(), Receipts(), Receipts()
        self._scripts = ScriptJudge()

    def look(self, job: Job, *, assumed: bool = False) -> None:
        """Count one more sample, as its target answered; `assumed`: as it might have."""
        self.found.samples += 1
        read: dict[object, Counter[str]] = {}
        for grader in job.graders:
            line = self._line(grader)
            if self._judge is not None:
                block = Block(jobs=[replace(job, graders=(grader,))], settings=self._settings)
                programs = (self._walk(program, self._judge, assumed) for program in block.programs)
                for asked in self._further(read, grader, chain.from_iterable(programs)):
                    self._count(line, asked)

    def wait(self, job: Job) -> None:
        """Count one more sample, whose target has not answered: ten contexts are assumed in the place of its own."""
        self.found.waiting += 1
        self.look(_with_assumed(job), assumed=True)
        for grader in job.graders:
            self._line(grader).waiting += needs_judge([grader])

    def _line(self, grader: Grader) -> ForecastLine:
        return self.found.lines.setdefault(grader.name, ForecastLine(grader.name))

    def _count(self, line: ForecastLine, asked: _Known) -> None:
        if not asked.calls:
            return
        if not self._seen.first(asked.key):
            line.shared += asked.calls
        elif asked.answer is None:
            line.new += asked.calls
            line.estimated += asked.calls * asked.estimated
            line.asked.append((asked.judge, asked.question))
            if not asked.estimated and asked.judge.stored:
                self.found.certain.append((asked.judge, asked.question))
        elif not asked.answer.usable:
            self.found.failed += asked.calls
        elif asked.key in self._receipts:
            self.found.paid += asked.calls
        else:
            line.cached += asked.calls

    @staticmethod
    def _further(
        read: dict[object, Counter[str]], grader: Grader, questions: Iterable[_Known]
    ) -> Iterator[_Known]:
        """The questions that no measure before has in the same label program, which asks them once for all of them."""
        if grader.by is not None or grader.measure.definition.family != "ranked":
            yield from questions
            return
        before, mine = read.setdefault(grader.measure.choice, Counter()), Counter[str]()
        for asked in questions:
            mine[asked.key] += 1
            if mine[asked.key] > before[asked.key]:
                before[asked.key] += 1
                yield asked

    def _walk(self, program: Program[object], judge: Judge, estimated: bool) -> Iterator[_Known]:
        """Each question of a program, to those of a panel who are asked."""
        try:
            questions: Sequence[AnyQuestion] = next(program)
            while True:
                values, unknown = [], False
                for question in questions:
                    asked = self._put(question, judge, estimated)
                    yield from asked
                    values.append(_value(question, asked))
                    unknown = unknown or any(one.answer is None for one in asked)
                estimated = estimated or unknown
                questions = program.send(tuple(values))
        except StopIteration:
            return

    def _put(self, question: AnyQuestion, judge: Judge, estimated: bool) -> list[_Known]:
        """A question to a judge; to the members of a panel whose answer is not known. Scripts are not run."""
        judge = self._scripts if isinstance(question, Script) else judge
        key = judge.key(question)
        answer = self._answer(question, judge, key)
        if answer is None and isinstance(judge, PanelJudge):
            members = judge.next_members(question, ())
            return [asked for one in members for asked in self._put(question, one, estimated)]
        calls = sum(one.stored for one in members_of(judge))
        return [_Known(key, judge, question, answer, estimated, calls)]

    def _answer(self, question: AnyQuestion, judge: Judge, key: str) -> Answer | None:
        """The answer that holds without asking: usable, or a failure of this evaluation's own."""
        judgement = self._known.find([key]).get(key)
        if judgement is None and judge.stored and self._ledger is not None:
            judgement = self._ledger.find([key]).get(key)
        if judgement is not None and judgement.ms is not None and self._timed.first(judgement.key):
            self.found.took.append(judgement.ms)
        answer = None if judgement is None else answered(question, judgement)
        return answer if answer is not None and answer.holds else None


class Expectation:
    """What a run that starts will ask in all, for its progress: counted over its first samples, half a second of them."""

    _SECONDS = 0.5

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster, self._seen, self._used = forecaster, 0, 0.0

    def look(self, job: Job) -> None:
        """One more sample of the run."""
        self._seen += 1
        if self._used < self._SECONDS:
            start = time.monotonic()
            self._forecaster.look(job)
            self._used += time.monotonic() - start

    def total(self) -> Expected | None:
        """Calls and price of all samples, as those looked at have them; None where there was no sample to look at."""
        found = self._forecaster.found
        if not found.samples:
            return None
        share, cost = self._seen / found.samples, found.total.cost_usd
        return Expected(
            calls=round(found.calls * share),
            cost_usd=None if cost is None else cost * share,
            exact=share == 1 and not found.estimated,
        )


ASSUMED = 10
"""Contexts that a target is assumed to return where it has not been asked."""
_TYPICAL = "A passage about as long as most systems return, which says something about what was asked. " * 6


def _with_assumed(job: Job) -> Job:
    """The job with contexts and an answer of typical length where its sample has none."""
    sample = job.sample
    if sample.contexts is None and sample.calls is None:
        texts = (
            f"{sample.id} {sample.system} {sample.trial} {rank}: {_TYPICAL}" for rank in range(1, ASSUMED + 1)
        )
        sample = structs.replace(sample, contexts=tuple(Context(text=text) for text in texts), error=None)
    sample = structs.replace(sample, response=sample.response or _TYPICAL, error=None)
    return replace(job, sample=sample, case=None if job.case is None else replace(job.case, sample=sample))


def _value(question: AnyQuestion, asked: Sequence[_Known]) -> object:
    """What the program is sent: the first usable answer, a typical one where an answer is still to come, else the failure."""
    known = [one.answer for one in asked if one.answer is not None]
    usable = next((answer.value for answer in known if answer.usable), None)
    if usable is not None:
        return usable
    return known[0].value if len(known) == len(asked) > 0 else question.read(question.typical())


def _usage(asked: Iterable[_Asked]) -> Usage:
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
