"""Runs programs: against the pool, against stored answers, or only counting. The same generators every time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from germane.judging.asking import Answerer
from germane.judging.judge import AnyQuestion
from germane.judging.programs import Program, answered
from germane.types import Judgement

__all__ = ["Trace", "drive", "replay", "run_program"]

R = TypeVar("R")

Trace = list[tuple[AnyQuestion, Judgement]]
"""Which judgement answered which question of one program, in the order of asking."""


async def run_program(program: Program[R], answerer: Answerer, trace: Trace) -> R:
    """One program's result; what it asked is appended to `trace`."""
    try:
        questions = next(program)
        while True:
            answers = await answerer.judge(questions)
            trace.extend(zip(questions, [answer.judgement for answer in answers], strict=True))
            questions = program.send(tuple([answer.value for answer in answers]))
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]


async def drive(programs: Sequence[Program[R]], answerer: Answerer) -> tuple[list[R], list[Trace]]:
    """The results of all programs and what each asked, in their order, each as fast as its answers come.

    All programs ask their first questions before the first is answered, so a judge sees them together.
    """
    traces: list[Trace] = [[] for _ in programs]
    tasks = [
        asyncio.ensure_future(run_program(p, answerer, t)) for p, t in zip(programs, traces, strict=True)
    ]
    try:
        results = await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    return results, traces


def replay(
    program: Program[R], look_up: Callable[[Sequence[AnyQuestion]], Sequence[Judgement]]
) -> tuple[R, list[tuple[AnyQuestion, Any]]]:
    """A program's result from stored judgements, with no event loop, and what it asked with each typed answer."""
    exchange: list[tuple[AnyQuestion, Any]] = []
    try:
        questions = next(program)
        while True:
            values = tuple(answer.value for answer in map(answered, questions, look_up(questions)))
            exchange.extend(zip(questions, values, strict=True))
            questions = program.send(values)
    except StopIteration as finished:
        return finished.value, exchange
