"""Forecast the questions and cost of a run (`--dry-run`): the same evaluation with counted instead of asked questions.

Where an answer is not known, a typical one stands in for it; questions that follow from a typical answer are estimates,
and are marked so. What counts as known, cached and shared is what the run would count.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from math import fsum, inf
from typing import NamedTuple, TypeAlias

from msgspec import structs

from germane.addons import all_of, load
from germane.clean import counted
from germane.evaluation.choice import Router, needs_judge
from germane.evaluation.evaluation import SIZE, Working, answered_blocks, run_coroutine
from germane.judges.judge import Judge, members_of
from germane.judges.panel import PanelJudge
from germane.judging.asker import Asker
from germane.judging.spending import Spent, UsageLog
from germane.ledger.store import Ledger
from germane.measures.scoring import Job
from germane.places.settings import Settings
from germane.questions.asking import Answer
from germane.questions.question import AnyQuestion
from germane.show.table import Table
from germane.tables.scores import SampleKey
from germane.targets.answers import with_sample
from germane.types import Context, Json, Judgement

_ToAsk: TypeAlias = tuple[Judge, AnyQuestion]


@dataclass
class ForecastLine:
    """One measure's questions that cost something.

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
    asked: list[_ToAsk] = field(default_factory=list)

    @cached_property
    def spent(self) -> Spent:
        """The cost of this measure if it were the only one."""
        return sum((spent for _, spent in _spent(self.asked)), Spent())

    def as_json(self) -> dict[str, Json]:
        """Return an entry of the `--json` document; its numbers are estimates if samples are waiting."""
        counts = {name: getattr(self, name) for name in ("estimated", "cached", "shared", "waiting")}
        return {"calls": self.new, **counts, **_spending(self.spent)}


@dataclass
class Forecast:
    """The questions of a run, one line per measure.

    Of a run that is continued, `paid` are questions that its earlier sessions have paid for, and `failed` those that
    failed then and are not asked again. `waiting` are samples that no target has answered yet. `took` are the milliseconds
    of each request whose answers are known. `until`: fewer may be asked.
    """

    judge: str
    samples: int = 0
    lines: dict[str, ForecastLine] = field(default_factory=dict)
    paid: int = 0
    waiting: int = 0
    max_cost: float | None = None
    max_calls: int | None = None
    took: list[float] = field(default_factory=list)
    until: bool = False
    certain: list[_ToAsk] = field(default_factory=list)
    """The new questions that follow from no answer which is not known yet, each with its judge."""

    @property
    def seconds(self) -> float | None:
        """Mean seconds per request of the known answers; None without any."""
        return fsum(self.took) / len(self.took) / 1000 if self.took else None

    @cached_property
    def total(self) -> Spent:
        """The requests, if questions share them."""
        return sum((spent for _, spent in self._by_judge), Spent())

    @cached_property
    def _by_judge(self) -> list[tuple[Judge, Spent]]:
        return _spent(value for line in self.lines.values() for value in line.asked)

    @cached_property
    def later_usd(self) -> float | None:
        """The cost of the requests in batches; None if a price is unknown or a provider has no batches."""
        costs = [_later(judge, spent) for judge, spent in self._by_judge if spent.requests]
        return fsum(costs) if costs and None not in costs else None  # type: ignore[arg-type]

    @property
    def calls(self) -> int:
        """Questions that would go to a judge, as far as known."""
        return sum(line.new for line in self.lines.values())

    @property
    def estimated(self) -> int:
        """Those of the questions that follow from unknown answers."""
        return sum(line.estimated for line in self.lines.values())

    def limits(self) -> Iterator[tuple[str, str, bool]]:
        """Yield the limits that are set: name, flag, and whether the run would be stopped by it."""
        if self.max_calls is not None:
            reached = self.calls > self.max_calls
            yield "max_calls", f"--max-calls {self.max_calls}", reached
        if self.max_cost is not None:
            reached = (self.total.cost or 0.0) > self.max_cost
            yield "max_cost", f"--max-cost {self.max_cost:g}", reached

    def as_json(self) -> dict[str, Json]:
        """Return the `--json` document; its numbers are estimates if samples are waiting."""
        return {
            "schema_version": 1,
            "judge": self.judge,
            "samples": self.samples,
            "waiting": self.waiting,
            "measures": {name: line.as_json() for name, line in self.lines.items()},
            "paid": self.paid,
            "requests": self.total.requests,
            "seconds_per_request": self.seconds,
            **_spending(self.total),
            "cost_usd_later": self.later_usd,
            "limits": {name: {"reached": reached} for name, _, reached in self.limits()},
        }

    def text(self) -> str:
        """Return the forecast as a table with notes."""
        lines = list(self.lines.values())
        names = [name for name in ("cached", "shared") if any(getattr(line, name) for line in lines)]
        table = Table(["measure", "new calls", *names, "~tokens in", "~tokens out", "~price"])
        for line in lines:
            counts = (getattr(line, name) for name in names)
            tokens = line.spent.input_tokens, line.spent.output_tokens
            calls = f"{'~' if line.estimated else ''}{line.new:,}"
            table.add(
                [line.measure, calls, *(f"{count:,}" for count in (*counts, *tokens)), _price(line.spent)]
            )
        head = f"dry run: {counted(self.samples, 'sample')}, judge {self.judge}; no calls are made"
        return "\n".join([head, "", *table.plain(), "", *self._remarks()])

    def _remarks(self) -> Iterator[str]:
        """Yield the notes on the forecast: totals, time, and what is estimated."""
        total, lines = self.total, self.lines.values()
        tokens = f"about {total.input_tokens:,} + {total.output_tokens:,} tokens, " if total.requests else ""
        guessed = self.estimated
        if self.until:
            yield "--until stops as soon as it has seen enough: this is what all cases would ask"
        later = f"; in batches (--later) ${self.later_usd:.4f}" if self.later_usd else ""
        yield f"in all {'about ' if guessed else ''}{counted(total.requests, 'request')}, {tokens}{_price(total)}{later}"
        if self.seconds is not None and total.requests:
            whole = datetime.timedelta(seconds=round(self.seconds * total.requests))
            yield f"~ {self.seconds:.1f} s per request by the answers that are stored: {whole} one after another"
        if guessed:
            yield f"~ {counted(guessed, 'call follows', 'calls follow')} from answers that are not known yet: an estimate"
        if total.requests:
            yield "~ tokens in are counted from the texts, tokens out are those of typical answers: a model that reasons writes more"
        if sum(line.spent.requests for line in lines) > total.requests:
            yield "measures share requests: each line has them in full, the sum has them once"
        if self.waiting:
            yield f"{self.waiting:,} of {counted(self.samples, 'sample has', 'samples have')} no answer of their target yet, and a dry run asks no target:"
            yield (
                f"  {ASSUMED} contexts of 150 tokens are assumed of each. To know: run with --max-calls 0, which asks the "
                "targets and nobody else, then --resume REPORT --dry-run"
            )
        if self.paid:
            yield f"{counted(self.paid, 'question is', 'questions are')} answered in earlier sessions of this evaluation"
        words = {True: "would stop this run", False: "would be enough"}
        for _, flag, reached in self.limits():
            yield f"{flag} {words[reached]}, by this estimate"


def _price(spent: Spent) -> str:
    if not spent.requests:
        return "free"
    return "price unknown (give --price IN/OUT)" if spent.cost is None else f"${spent.cost:.4f}"


def _spending(spent: Spent) -> dict[str, Json]:
    fields = spent.as_json()
    return {name: fields[name] for name in ("tokens", "cost_usd")}


class _LookedUp(NamedTuple):
    """A question to one judge, and its known answer if there is one.

    `calls` are the questions to judges who cost that it is: of a panel's known answer several.
    """

    key: str
    judge: Judge
    question: AnyQuestion
    answer: Answer | None
    calls: int


class Forecaster:
    """Evaluates samples without asking: known answers are used, and a typical answer in place of every other.

    `forecast` is what judging the samples would ask.

    Args:
        judge: The judge of the questions; None where no measure asks.
        settings: The evaluation's.
        earlier: The answers in the folder of the evaluation.
        ledger: Everybody's answers.
        usage_log: The questions that these sessions have paid for.
    """

    def __init__(
        self,
        judge: Judge | None,
        settings: Settings,
        earlier: Ledger | None = None,
        ledger: Ledger | None = None,
        usage_log: UsageLog | None = None,
    ) -> None:
        self.forecast = Forecast(judge.name if judge is not None else "none needed")
        self._asker = Asker(Router(judge), ledger, earlier=earlier)
        self._settings, self._usage_log = settings, usage_log or UsageLog()
        self._seen, self._timed = UsageLog(), UsageLog()
        self._waiting: set[SampleKey] = set()
        self._asked: dict[str, list[_LookedUp]] = {}
        """The questions that were asked under each key; of a panel whose answer is not known, its members."""

    async def count(self, jobs: Iterable[Job], *, size: int = SIZE, seconds: float = inf) -> None:
        """Count the questions of more samples, `size` at once; if that takes longer than `seconds`, only of the first."""
        start = time.monotonic()
        async for block in answered_blocks(jobs, self.lookup, self._settings, size=size):
            self._count(block)
            if time.monotonic() - start > seconds:
                break

    def waiting(self, job: Job) -> Job:
        """Return a job whose target has not answered with a typical answer and, without contexts, ten assumed ones."""
        sample = job.sample
        self._waiting.add(sample.key)
        if sample.contexts is None and sample.calls is None:
            name = f"{sample.id} {sample.system} {sample.trial}"
            texts = (f"{name} {rank}: {_TYPICAL}" for rank in range(1, ASSUMED + 1))
            sample = structs.replace(sample, contexts=tuple(Context(text=text) for text in texts))
        response = sample.response or _TYPICAL
        return with_sample(job, structs.replace(sample, response=response, error=None))

    async def lookup(self, asked: Sequence[Sequence[AnyQuestion]]) -> list[Sequence[Answer]]:
        """Return an answer to each question: the stored one, else a typical one."""
        keyed = [self._asker.keyed(questions) for questions in asked]
        judgements = self._asker.find(chain.from_iterable(keyed))
        return [
            [
                self._answer(question, key, judge, judgements)
                for question, (key, judge) in zip(questions, pairs, strict=True)
            ]
            for questions, pairs in zip(asked, keyed, strict=True)
        ]

    def _answer(
        self, question: AnyQuestion, key: str, judge: Judge, judgements: Mapping[str, Judgement]
    ) -> Answer:
        """Return the first usable answer, a typical one while an answer is outstanding, else the failure."""
        asked = self._asked[key] = self._look_up(question, key, judge, judgements)
        answers = [looked_up.answer for looked_up in asked if looked_up.answer is not None]
        if len(answers) < len(asked) or not answers:
            typical = Answer(Judgement(key=key, item="", kind=question.kind, judge=judge.name), None)
            answers.append(structs.replace(typical, value=question.parse(question.typical())))
        best = next((answer for answer in answers if answer.usable), answers[0])
        return (
            best
            if best.judgement.key == key
            else Answer(structs.replace(best.judgement, key=key), best.value)
        )

    def _look_up(
        self, question: AnyQuestion, key: str, judge: Judge, judgements: Mapping[str, Judgement]
    ) -> list[_LookedUp]:
        judgement = judgements.get(key)
        if judgement is not None and judgement.ms is not None and not self._timed.seen_before(key):
            self.forecast.took.append(judgement.ms)
        answer = None if judgement is None else self._asker.read(question, judgement)
        if answer is not None and not answer.holds:
            answer = None
        if answer is None and isinstance(judge, PanelJudge):
            members = [
                (next_member.key(question), next_member) for next_member in judge.next_members(question, ())
            ]
            theirs = self._asker.find(members)
            return [asked for member in members for asked in self._look_up(question, *member, theirs)]
        return [_LookedUp(key, judge, question, answer, sum(judge.stored for judge in members_of(judge)))]

    def _count(self, working: Working) -> None:
        jobs, asked, lines = working.block.jobs, self._asked, self.forecast.lines
        self.forecast.samples += len(jobs)
        for job in jobs:
            waits = job.sample.key in self._waiting
            self.forecast.waiting += waits
            for grader in job.graders:
                line = lines.setdefault(grader.name, ForecastLine(grader.name))
                line.waiting += waits and bool(needs_judge([grader]))
        for number, name, program, passages in working.block.asking():
            estimated = jobs[number].sample.key in self._waiting
            for _, answers in working.programs[program].trace:
                heard = [answers[at] for at in passages] if passages is not None else answers
                questions = [looked_up for answer in heard for looked_up in asked[answer.judgement.key]]
                for question in questions:
                    self._count_one(lines[name], question, estimated=estimated)
                estimated = estimated or any(looked_up.answer is None for looked_up in questions)
        asked.clear()

    def _count_one(self, line: ForecastLine, asked: _LookedUp, *, estimated: bool) -> None:
        """Count a question; `estimated` if it follows from a typical answer."""
        if not asked.calls:
            return
        if self._seen.seen_before(asked.key):
            line.shared += asked.calls
        elif asked.answer is None or not asked.answer.usable:
            line.new += asked.calls
            line.estimated += asked.calls * estimated
            line.asked.append((asked.judge, asked.question))
            if not estimated and asked.judge.stored:
                self.forecast.certain.append((asked.judge, asked.question))
        elif self._usage_log.has_paid(asked.answer.judgement, asked.answer.children):
            self.forecast.paid += asked.calls
        else:
            line.cached += asked.calls


_SECONDS = 0.5


def expectation(forecaster: Forecaster, jobs: Iterable[Job]) -> Spent | None:
    """Return the expected number of calls of a run, and their cost; None without jobs.

    All jobs are read, but questions are only counted for half a second; `estimated` says that the rest is extrapolated.
    """
    read, seen = iter(jobs), count()
    run_coroutine(
        forecaster.count((job for job, _ in zip(read, seen, strict=False)), size=50, seconds=_SECONDS)
    )
    forecast, read_all = forecaster.forecast, next(seen) + sum(1 for _ in read)
    if not forecast.samples:
        return None
    share, total = read_all / forecast.samples, forecast.total
    return Spent(
        calls=round(forecast.calls * share),
        cost_usd=total.cost_usd * share,
        unpriced=total.unpriced,
        estimated=forecast.estimated + (share > 1),
    )


ASSUMED = 10
"""Contexts that a target is assumed to return where it has not been asked."""
_TYPICAL = "A passage about as long as most systems return, which says something about what was asked. " * 6


def _spent(asked: Iterable[_ToAsk]) -> list[tuple[Judge, Spent]]:
    """Return the cost of these questions' requests by judge; 0 for a judge without requests."""
    by_judge: dict[int, tuple[Judge, list[AnyQuestion]]] = {}
    for judge, question in asked:
        by_judge.setdefault(id(judge), (judge, []))[1].append(question)
    result = []
    for judge, questions in by_judge.values():
        if (estimate := getattr(judge, "forecast", None)) is not None:
            result.append((judge, Spent()))
            for together in judge.group(questions):
                result[-1][1].add(estimate(together))
    return result


def _later(judge: Judge, spent: Spent) -> float | None:
    """Return the cost of that usage in the provider's batches; None without batches or a known price."""
    prices = (load(source.price)(judge) for source in all_of("sources").values())
    price = next((price for price in prices if price is not None), None)
    return None if price is None else price.cost(spent.input_tokens, spent.output_tokens)
