"""Forecast the questions and cost of a run (`--dry-run`), by running it with typical answers, not calls.

A typical answer takes the place of each unknown answer; questions that depend on typical answers are marked
as estimates. The forecast counts known, cached and shared questions as the run does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from math import inf
from typing import TypeAlias

from msgspec import structs

from germane.clean import counted
from germane.evaluation.session import SIZE, Working, answered_blocks
from germane.judges.judge import Judge
from germane.judges.panel import PanelJudge
from germane.judging.asker import Asker
from germane.judging.caller import run_coroutine
from germane.judging.spending import Spent, UsageLog
from germane.ledger.store import Ledger
from germane.measures.scoring import Job
from germane.places.lists import Settings
from germane.questions.asking import Answer
from germane.questions.question import AnyQuestion
from germane.show.table import Table
from germane.tables.scores import SampleKey
from germane.targets.answers import with_sample
from germane.types import Context, Json, Judgement

ASSUMED = 10
"""The number of contexts that a target is assumed to return for a sample that it has not answered yet."""
_TYPICAL = "A passage about as long as most systems return, which says something about what was asked. " * 6
_SECONDS = 0.5
_ToAsk: TypeAlias = tuple[Judge, AnyQuestion]


@dataclass
class ForecastLine:
    """The questions that one measure asks judges that cost money or time.

    `asked` contains the questions without a stored answer, each with its judge. `estimated` counts the
    questions in `asked` that depend on unknown answers. `cached` counts the questions with a stored answer.
    `shared` counts the questions that an earlier measure or sample asks too.
    """

    estimated: int = 0
    cached: int = 0
    shared: int = 0
    asked: list[_ToAsk] = field(default_factory=list)

    def as_json(self) -> dict[str, Json]:
        """Return the measure's entry in the `--json` document."""
        counts = {name: getattr(self, name) for name in ("estimated", "cached", "shared")}
        return {"calls": len(self.asked), **counts, **_spending(_spent(self.asked))}


class Forecast:
    """The questions that an evaluation would ask, with one line per measure.

    `count` evaluates samples without asking a judge, with typical answers in place of those not stored in
    `ledger`, the ledger of the run, or `earlier`, the answers in the report folder. `waiting` is the number
    of samples that their target has not answered yet. `certain` are the questions without a stored answer
    that depend only on known answers, each with its judge.
    """

    def __init__(
        self, judge: Judge | None, settings: Settings, earlier: Ledger | None, ledger: Ledger | None
    ) -> None:
        self.judge = judge.name if judge is not None else "none needed"
        self.samples = self.waiting = 0
        self.lines = dict[str, ForecastLine]()
        self.certain = list[_ToAsk]()
        self._asker = Asker(judge, ledger, earlier=earlier)
        self._settings, self._seen = settings, UsageLog()
        self._waiting: set[SampleKey] = set()
        self._found: dict[str, list[tuple[Judge, Answer | None]]] = {}
        """The known answers under each key; for a panel, one for each member."""

    @property
    def total(self) -> Spent:
        """The expected calls, tokens and cost of all requests; a request for several measures counts once."""
        return _spent(asked for line in self.lines.values() for asked in line.asked)

    @property
    def estimated(self) -> int:
        """The number of questions that depend on unknown answers."""
        return sum(line.estimated for line in self.lines.values())

    def as_json(self) -> dict[str, Json]:
        """Return the `--json` document; its numbers are estimates if samples are waiting."""
        total = self.total
        return {
            "schema_version": 1,
            "judge": self.judge,
            "samples": self.samples,
            "waiting": self.waiting,
            "measures": {name: line.as_json() for name, line in self.lines.items()},
            "requests": total.requests,
            **_spending(total),
        }

    def text(self) -> str:
        """Return the forecast as a table with notes, for the command line."""
        table = Table(["measure", "new calls", "cached", "shared", "~tokens in", "~tokens out", "~price"])
        for name, line in self.lines.items():
            spent = _spent(line.asked)
            counts = (line.cached, line.shared, spent.input_tokens, spent.output_tokens)
            calls = f"{'~' if line.estimated else ''}{len(line.asked):,}"
            table.add([name, calls, *(f"{count:,}" for count in counts), _price(spent)])
        head = f"dry run: {counted(self.samples, 'sample')}, judge {self.judge}; no calls are made"
        total, guessed = self.total, self.estimated
        tokens = f"about {total.input_tokens:,} + {total.output_tokens:,} tokens, " if total.requests else ""
        sent = f"{'about ' if guessed else ''}{counted(total.requests, 'request')}"
        price = _price(total).replace("unknown", "price unknown (give --price IN/OUT)")
        remarks = [f"in all {sent}, {tokens}{price}; requests that measures share count once"]
        if guessed:
            calls = counted(guessed, "call depends", "calls depend")
            remarks.append(f"~ {calls} on answers of other calls, so their number is an estimate")
        if total.requests:
            remarks.append("~ output tokens assume typical answers; a reasoning model writes more")
        if self.waiting:
            waiting = f"{self.waiting:,} of {counted(self.samples, 'sample has', 'samples have')}"
            assumed = f"a dry run asks no target and assumes {ASSUMED} contexts of 150 tokens for each"
            remarks.append(f"{waiting} no answer from their target yet; {assumed}")
        return "\n".join([head, "", *table.plain(), "", *remarks])

    async def count(self, jobs: Iterable[Job], *, size: int = SIZE, seconds: float = inf) -> None:
        """Add the questions about these jobs, `size` jobs at a time; stop after `seconds`."""
        start = time.monotonic()
        async for block in answered_blocks(jobs, self._lookup, self._settings, size=size):
            self._count(block)
            if time.monotonic() - start > seconds:
                break

    def with_typical_answer(self, job: Job) -> Job:
        """Return a job that its target has not answered, with a typical answer.

        If the job has no contexts, it also gets ten typical contexts.
        """
        sample = job.sample
        self._waiting.add(sample.key)
        if sample.contexts is None and sample.calls is None:
            name = f"{sample.id} {sample.system} {sample.trial}"
            texts = (f"{name} {rank}: {_TYPICAL}" for rank in range(1, ASSUMED + 1))
            sample = structs.replace(sample, contexts=tuple(Context(text=text) for text in texts))
        return with_sample(job, structs.replace(sample, response=sample.response or _TYPICAL, error=None))

    async def _lookup(self, asked: Sequence[Sequence[AnyQuestion]]) -> list[Sequence[Answer]]:
        """Return the answers to each list of questions; a typical answer replaces one that is not stored."""
        keyed = [self._asker.keyed(questions) for questions in asked]
        judgements = self._asker.find(chain.from_iterable(keyed))
        answered = list[Sequence[Answer]]()
        for questions, pairs in zip(asked, keyed, strict=True):
            row = list[Answer]()
            for question, (key, judge) in zip(questions, pairs, strict=True):
                found = self._found[key] = self._find(question, key, judge, judgements)
                answers = [answer for _, answer in found if answer is not None]
                if len(answers) < len(found):
                    typical = Judgement(key=key, item="", kind=question.kind, judge=judge.name)
                    row.append(Answer(typical, question.parse(question.typical())))
                else:
                    best = next((answer for answer in answers if answer.usable), answers[0])
                    row.append(Answer(structs.replace(best.judgement, key=key), best.value))
            answered.append(row)
        return answered

    def _find(
        self, question: AnyQuestion, key: str, judge: Judge, judgements: Mapping[str, Judgement]
    ) -> list[tuple[Judge, Answer | None]]:
        """Return the judge (or a panel's members) with the stored answer, or with None without one."""
        answer = self._asker.read(question, judgements[key]) if key in judgements else None
        if answer is not None and not answer.holds:
            answer = None
        if answer is None and isinstance(judge, PanelJudge):
            members = [(member.key(question), member) for member in judge.next_members(question, ())]
            theirs = self._asker.find(members)
            return [pair for member in members for pair in self._find(question, *member, theirs)]
        return [(judge, answer)]

    def _count(self, working: Working) -> None:
        """Add the questions of a block, by measure; a panel's question counts per member."""
        jobs, lines = working.block.jobs, self.lines
        self.samples += len(jobs)
        for job in jobs:
            self.waiting += job.sample.key in self._waiting
            for grader in job.graders:
                lines.setdefault(grader.name, ForecastLine())
        for number, name, program, passages in working.block.asking():
            estimated = jobs[number].sample.key in self._waiting
            for questions, answers in working.programs[program].trace:
                unknown = False
                for at in range(len(answers)) if passages is None else passages:
                    key = answers[at].judgement.key
                    again = self._seen.seen_before(key)
                    for judge, answer in self._found[key]:
                        unknown = unknown or answer is None
                        if not judge.stored:
                            continue
                        if again:
                            lines[name].shared += 1
                        elif answer is not None and answer.usable:
                            lines[name].cached += 1
                        else:
                            lines[name].estimated += estimated
                            lines[name].asked.append((judge, questions[at]))
                            self.certain += [] if estimated else [(judge, questions[at])]
                estimated = estimated or unknown
        self._found.clear()


def _price(spent: Spent) -> str:
    if not spent.requests:
        return "free"
    return "unknown" if spent.cost is None else f"${spent.cost:.4f}"


def _spending(spent: Spent) -> dict[str, Json]:
    fields = spent.as_json()
    return {name: fields[name] for name in ("tokens", "cost_usd")}


def _spent(asked: Iterable[_ToAsk]) -> Spent:
    """Return the expected calls, tokens and cost of these questions."""
    by_judge: dict[int, tuple[Judge, list[AnyQuestion]]] = {}
    for judge, question in asked:
        by_judge.setdefault(id(judge), (judge, []))[1].append(question)
    result = Spent()
    for judge, questions in by_judge.values():
        if (estimate := getattr(judge, "forecast", None)) is not None:
            for together in judge.group(questions):
                result.add(estimate(together))
    return result


def expectation(forecast: Forecast, jobs: Iterable[Job]) -> Spent | None:
    """Return the expected number and cost of a run's calls; None if there are no jobs.

    All jobs are read, but questions are counted for only half a second. If jobs are left by then, the numbers
    are extrapolated, and `estimated` is greater than 0.
    """
    read, seen = iter(jobs), count()
    counted_jobs = (job for job, _ in zip(read, seen, strict=False))
    run_coroutine(forecast.count(counted_jobs, size=50, seconds=_SECONDS))
    read_all = next(seen) + sum(1 for _ in read)
    if not forecast.samples:
        return None
    share, total = read_all / forecast.samples, forecast.total
    calls = sum(len(line.asked) for line in forecast.lines.values())
    return Spent(
        calls=round(calls * share),
        cost_usd=total.cost_usd * share,
        unpriced=total.unpriced,
        estimated=forecast.estimated + (share > 1),
    )
