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
from germane.judging.programs import Program
from germane.judging.questions import key_of
from germane.measures.graders import Grader
from germane.measures.labels import Settings
from germane.measures.scoring import Block, Job
from germane.types import Json, Usage

__all__ = ["Forecast", "Line", "forecast_jobs"]


@dataclass(slots=True)
class Line:
    """One measure's questions: new ones (of these `estimated`), known ones, and those an earlier measure asks."""

    measure: str
    new: int = 0
    estimated: int = 0
    cached: int = 0
    shared: int = 0
    questions: list[tuple[Judge, AnyQuestion]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

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
    total: Usage = field(default_factory=Usage)
    priced: bool = False

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
        }

    def text(self) -> str:
        """A table a person reads."""
        head = f"{'measure':34} {'new calls':>12} {'cached':>8} {'shared':>8} {'tokens in':>11} {'tokens out':>11}  price"
        lines = [f"dry run: {self.samples} samples, judge {self.judge}; nobody is asked", "", head]
        for line in self.lines.values():
            calls = f"{'~' if line.estimated else ''}{line.new:,}"
            used = line.usage
            lines.append(
                f"{line.measure:34} {calls:>12} {line.cached:>8,} {line.shared:>8,} "
                f"{used.input_tokens:>11,} {used.output_tokens:>11,}  {_price(used, self.priced)}"
            )
        estimated = sum(line.estimated for line in self.lines.values())
        total = self.total
        lines += [
            "",
            f"in all {'about ' if estimated else ''}{total.requests:,} requests, "  # noqa: ISC004 - one line
            f"{total.input_tokens:,} + {total.output_tokens:,} tokens, {_price(total, self.priced)}",
        ]
        if estimated:
            lines.append(f"~ {estimated:,} calls follow from answers that are not known yet: an estimate")
        return "\n".join(lines)


def _price(usage: Usage, priced: bool) -> str:
    if not priced:
        return "free" if usage.requests == 0 and usage.cost_usd == 0.0 else "price unknown"
    return f"${usage.cost_usd or 0.0:.4f}"


def forecast_jobs(
    jobs: Iterable[Job], judge: Judge | None, ledger: Ledger | None, settings: Settings
) -> Forecast:
    """What judging these jobs would ask."""
    found = Forecast(judge.name if judge is not None else "none needed")
    seen: set[str] = set()
    for job in jobs:
        found.samples += 1
        for grader in job.graders:
            line = found.lines.setdefault(grader.name, Line(grader.name))
            if judge is not None and grader.script is None:
                _count(line, _questions(job, grader, judge, ledger, settings), seen)
    if judge is not None:
        everything = [question for line in found.lines.values() for question in line.questions]
        found.total = _usage(everything)
        for line in found.lines.values():
            line.usage = _usage(line.questions)
        found.priced = found.total.requests > 0 and found.total.cost_usd is not None
    return found


def _count(line: Line, asked: Iterable[_Asked], seen: set[str]) -> None:
    for key, judge, question, known, estimated in asked:
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
    return key, found[key].answer if key in found else None


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
