"""`--dry-run`: what a run would ask, of whom, and what that would cost. Nobody is asked.

The same programs as in a run are driven with what the ledger knows; where an answer is not known, a typical one
stands in for it. Questions that follow from a typical answer are estimates, and are marked so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from germane.judging.judge import AnyQuestion, Judge
from germane.judging.judges.panel import PanelJudge
from germane.judging.ledger import Ledger
from germane.judging.programs import Program, answered
from germane.judging.questions import key_of
from germane.measures.graders import Grader
from germane.measures.scoring import Block, Job
from germane.measures.settings import Settings
from germane.prospects import Prospects
from germane.types import Json, Usage

__all__ = ["Forecast", "Line", "forecast_jobs"]


_NOTHING = Usage(cost_usd=0.0)


@dataclass(slots=True)
class Line:
    """One measure's questions that cost: new ones (of these `estimated`), known ones, and those an earlier measure asks."""

    measure: str
    new: int = 0
    estimated: int = 0
    cached: int = 0
    shared: int = 0
    questions: list[tuple[Judge, AnyQuestion]] = field(default_factory=list)
    usage: Usage = _NOTHING

    def as_json(self) -> dict[str, Json]:
        """For `--json`."""
        return {
            "calls": self.new,
            "estimated": self.estimated,
            "cached": self.cached,
            "shared": self.shared,
            "tokens": {"input": self.usage.input_tokens, "output": self.usage.output_tokens},
            "cost_usd": self.usage.cost_usd,
        }


@dataclass(slots=True)
class Forecast:
    """What a run would ask, a line a measure; `total` are the requests once questions share them."""

    judge: str
    samples: int = 0
    lines: dict[str, Line] = field(default_factory=dict)
    total: Usage = _NOTHING
    max_cost: float | None = None
    max_calls: int | None = None

    @property
    def calls(self) -> int:
        """Questions that would be put to a judge."""
        return sum(line.new for line in self.lines.values())

    def limits(self) -> Iterator[tuple[str, str, bool]]:
        """Each limit that is set: its name, its flag, and whether the run would be stopped by it."""
        if self.max_calls is not None:
            yield "max_calls", f"--max-calls {self.max_calls}", self.calls > self.max_calls
        if self.max_cost is not None:
            yield "max_cost", f"--max-cost {self.max_cost:g}", (self.total.cost_usd or 0.0) > self.max_cost

    def as_json(self) -> dict[str, Json]:
        """For `--json`."""
        return {
            "schema_version": 1,
            "judge": self.judge,
            "samples": self.samples,
            "measures": {name: line.as_json() for name, line in self.lines.items()},
            "requests": self.total.requests,
            "tokens": {"input": self.total.input_tokens, "output": self.total.output_tokens},
            "cost_usd": self.total.cost_usd,
            "limits": {name: {"reached": reached} for name, _, reached in self.limits()},
        }

    def text(self) -> str:
        """A table a person reads."""
        head = f"{'measure':34} {'new calls':>12} {'cached':>8} {'shared':>8} {'~tokens in':>11} {'~tokens out':>11}  ~price"
        return "\n".join(
            [
                f"dry run: {self.samples} samples, judge {self.judge}; nobody is asked",
                "",
                head,
                *map(_row, self.lines.values()),
                "",
                *self._total(),
            ]
        )

    def _total(self) -> Iterator[str]:
        total, lines = self.total, self.lines.values()
        tokens = f"about {total.input_tokens:,} + {total.output_tokens:,} tokens, " if total.requests else ""
        guessed = sum(line.estimated for line in lines)
        yield (f"in all {'about ' if guessed else ''}{total.requests:,} requests, {tokens}{_price(total)}")
        if guessed:
            yield f"~ {guessed:,} calls follow from answers that are not known yet: an estimate"
        if total.requests:
            yield "~ tokens in are counted from the texts, tokens out are those of typical answers: a model that reasons writes more"
        if sum(line.usage.requests for line in lines) > total.requests:
            yield "measures share requests: each line has them in full, the sum has them once"
        for _, flag, reached in self.limits():
            yield f"{flag} would {'stop this run' if reached else 'be enough'}, by this estimate"


def _row(line: Line) -> str:
    calls, used = f"{'~' if line.estimated else ''}{line.new:,}", line.usage
    return (
        f"{line.measure:34} {calls:>12} {line.cached:>8,} {line.shared:>8,} "
        f"{used.input_tokens:>11,} {used.output_tokens:>11,}  {_price(used)}"
    )


def _price(usage: Usage) -> str:
    if not usage.requests:
        return "free"
    return "price unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"


def forecast_jobs(
    jobs: Iterable[Job], judge: Judge | None, ledger: Ledger | None, settings: Settings
) -> Forecast:
    """What judging these jobs would ask; InputError where a measure cannot be computed for any of them."""
    found = Forecast(judge.name if judge is not None else "none needed")
    seen: set[str] = set()
    prospects = Prospects(settings)
    for job in jobs:
        found.samples += 1
        prospects.look(job)
        for grader in job.graders:
            line = found.lines.setdefault(grader.name, Line(grader.name))
            if judge is not None and grader.script is None:
                _count(line, _questions(job, grader, judge, ledger, settings), seen)
    prospects.check()
    if judge is not None:
        everything = [question for line in found.lines.values() for question in line.questions]
        found.total = _usage(everything)
        for line in found.lines.values():
            line.usage = _usage(line.questions)
    return found


def _count(line: Line, asked: Iterable[_Asked], seen: set[str]) -> None:
    for key, judge, question, known, estimated in asked:
        if not judge.stored:
            continue
        if key in seen:
            line.shared += 1
        elif known:
            line.cached += 1
        else:
            line.new += 1
            line.estimated += estimated
            line.questions.append((judge, question))
        seen.add(key)


def _questions(
    job: Job, grader: Grader, judge: Judge, ledger: Ledger | None, settings: Settings
) -> Iterator[_Asked]:
    block = Block(jobs=[Job(sample=job.sample, graders=(grader,))], settings=settings)
    for program in block.programs():
        yield from _walk(program, judge, ledger)


class _Asked(NamedTuple):
    """One question to one judge: its key, whether its answer is known, whether it is an estimate itself."""

    key: str
    judge: Judge
    question: AnyQuestion
    known: bool
    estimated: bool


def _walk(program: Program[object], judge: Judge, ledger: Ledger | None) -> Iterator[_Asked]:
    """Each question of a program, to those of a panel who are asked. Of what is known the first answer is taken."""
    guessed = False
    try:
        questions: Sequence[AnyQuestion] = next(program)
        while True:
            answers, unknown = [], False
            for question in questions:
                members = judge.next_members(question, ()) if isinstance(judge, PanelJudge) else (judge,)
                known = [_known(question, member, ledger) for member in members]
                for member, (key, answer) in zip(members, known, strict=True):
                    yield _Asked(key, member, question, answer is not None, guessed)
                said = next((answer for _, answer in known if answer is not None), question.typical())
                answers.append(question.read(said))
                unknown = unknown or any(answer is None for _, answer in known)
            guessed = guessed or unknown
            questions = program.send(tuple(answers))
    except StopIteration:
        return


def _known(question: AnyQuestion, judge: Judge, ledger: Ledger | None) -> tuple[str, Json]:
    key = key_of(question, judge.identity, judge.prompt_hash(question))
    found = ledger.get([key]) if ledger is not None and judge.stored else {}
    usable = key in found and answered(question, found[key]).usable
    return key, found[key].answer if usable else None


def _usage(asked: Sequence[tuple[Judge, AnyQuestion]]) -> Usage:
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
