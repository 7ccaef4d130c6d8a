"""Measure one case of another tool: convert its values to a sample, evaluate it, return explained scores."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from germane.errors import InputError, describe
from germane.evaluation.evaluate import aevaluate, asked_graders
from germane.evaluation.session import Session, keeps_answers, open_ledger
from germane.evaluation.spec import Spec, pick_judge
from germane.judges import load_judge
from germane.judges.client.providers import PROVIDERS
from germane.judges.judge import Judge, members_of
from germane.judges.llm import model_of
from germane.judging.asker import Asker
from germane.judging.caller import run_coroutine
from germane.ledger.store import Ledger
from germane.measures.declaration import needs_judge
from germane.measures.explaining import Explanation
from germane.measures.scoring import Job
from germane.places.lists import Settings
from germane.reports.report import Report
from germane.samples.frames import fields_of, records
from germane.samples.reading import read_questions, samples_from
from germane.types import Json, Judgement, Sample, Score

__all__ = ["Measured", "SharedJudge", "required", "row_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One score of a sample, with its explanation.

    `source` is "gold", "human" or the judge's name. `judgements` are the judgements of all measures that were
    computed in the same call.
    """

    sample: Sample
    score: Score
    explanation: Explanation
    source: str
    judgements: tuple[Judgement, ...]

    @property
    def problem(self) -> str:
        """The status, reason and bounds of a score without a value, as a string; "" if there is a value."""
        if self.score.value is not None:
            return ""
        bounds = self.score.bounds
        could = f" (it is between {bounds[0]:g} and {bounds[1]:g})" if bounds else ""
        return f"{self.score.status}: {self.score.why}{could}"

    @property
    def reason(self) -> str:
        """The explanation on one line: what was found, then every miss."""
        return "; ".join([self.explanation.reasoning, *self.explanation.misses])

    @property
    def verdicts(self) -> list[bool]:
        """The verdicts that the score is computed from, in order, without unanswered questions.

        For context_recall there is one verdict per claim (True: it is supported), for context_relevancy one
        per statement, and for other measures one per ranked context (True: it is relevant).
        """
        if self.score.type == "context_recall":
            return [bool(positions) for positions in self.support]
        if self.score.type == "context_relevancy":
            answers = self._answers("statements")
            return [value["relevant"] for answer in answers for value in answer["statements"]]
        checks = (check["relevant"] for check in self.explanation.relevance_checks)
        return [relevant for relevant in checks if relevant is not None]

    @property
    def support(self) -> list[tuple[int, ...]]:
        """The numbers (from 1) of the contexts that support each judged claim, one tuple per claim."""
        items = [item for answer in self._answers("support") for item in answer["claims"]]
        return [tuple(item["contexts"]) for item in sorted(items, key=lambda item: int(item["claim"]))]

    def _answers(self, kind: str) -> Iterator[Json]:
        return (row.answer for row in self.judgements if row.kind == kind and row.error is None)


class SharedJudge:
    """The judge and ledger of one evaluator, which may be called from several threads and event loops.

    Both are opened once, in one event loop that runs in its own thread, so that all calls use the same
    connections, limits and answers. A judge that runs the user's code is asked in the caller's event loop, if
    there is one.

    Args:
        given: The judge that was passed to the evaluator. None: the judge of GERMANE_JUDGE or the config.
        ledger: The ledger in which answers are stored. None: no answers are stored.
    """

    def __init__(self, given: Any, ledger: str | Path | None = None) -> None:
        self.given, self._place = given, ledger
        self._lock = threading.Lock()
        self._judge: Any = None
        self._session: _Session | None = None

    def measure(
        self, row: Mapping[str, Json], measures: str | Sequence[str], against: str = "auto"
    ) -> tuple[Measured, ...]:
        """Measure one case, synchronously: see `ameasure`."""
        return run_coroutine(self.ameasure(row, measures, against))

    async def ameasure(
        self, row: Mapping[str, Json], measures: str | Sequence[str], against: str = "auto"
    ) -> tuple[Measured, ...]:
        """Measure one case, given as a row with the usual field names, and return a result per measure.

        `against` is what relevance is judged against, as for `--against`: auto, query, reference, ...
        """
        samples = list(samples_from(records([row])))
        report, (sample,) = await self.areport(samples, measures, against), samples
        judgements = tuple(report.judgements())
        names = sorted({judgement.judge for judgement in judgements}) or [str(report.judge.source)]
        judges = ", ".join(names)
        return tuple(
            Measured(
                sample=sample,
                score=score,
                explanation=report.explain(
                    sample.id, score.measure, system=sample.system, trial=sample.trial
                ),
                source=judges if (source := report[score.measure].basis.source) == "judge" else source,
                judgements=judgements,
            )
            for score in report.scores()
        )

    async def areport(
        self, samples: Sequence[Sample], measures: str | Sequence[str], against: str = "auto"
    ) -> Report:
        """Judge and score these samples, and return the report; see `ameasure` for the arguments."""
        session = self._shared() if needs_judge(asked_graders(measures)) else None
        if session is not None:
            asked = asyncio.run_coroutine_threadsafe(session.report(samples, measures, against), _loop())
            return await asyncio.wrap_future(asked)
        own = judge_of(self.given)
        return await aevaluate(samples, measures, judge=own, against=against, ledger=self._place)

    def _shared(self) -> _Session | None:
        """Return the judge's session; None if there is no judge, or if the judge runs the user's code."""
        with self._lock:
            if self._judge is None and (given := judge_of(self.given)) is not None:
                self._judge = judge = load_judge(given)
                models = map(model_of, members_of(judge))
                # only judges of known providers, which are asked over germane's own connections
                if keeps_answers(judge) and all(llm and llm.service.provider in PROVIDERS for llm in models):
                    self._session = session = _Session(judge, self._place)

                    def end() -> None:
                        asyncio.run_coroutine_threadsafe(session.close(), _loop())

                    weakref.finalize(self, end).atexit = False
            return self._session


_REMEMBERED = 10_000
"""The number of cached answers after which a session starts anew, to limit memory."""


class _Session:
    """A judge with an open Asker and ledger, which are used only in the event loop that `_loop` returns."""

    def __init__(self, judge: Judge, place: str | Path | None) -> None:
        self._judge, self._place = judge, place
        self._users, self._free = 0, asyncio.Condition()
        self._opened = AsyncExitStack()
        self._asker: Asker | None = None
        self._ledger: Ledger | None = None

    async def report(self, samples: Sequence[Sample], measures: str | Sequence[str], against: str) -> Report:
        graders, settings = asked_graders(measures), Settings.of(against, None)
        jobs = (Job(sample=sample, graders=graders) for sample in read_questions(samples))
        async with self._free:
            # another Asker is needed if the judge or questions failed, or if too much is cached
            while (old := self._asker) is not None and (
                old.failed or (not self._users and (old.spent.errors > 0 or old.answered > _REMEMBERED))
            ):
                if self._users:
                    await self._free.wait()
                else:
                    await self.close()
            if self._asker is None:
                if (ledger := open_ledger(self._place)) is not None:
                    self._opened.callback(ledger.close)
                self._ledger = ledger
                self._asker = await self._opened.enter_async_context(Asker(self._judge, ledger))
                _sessions.add(self)
            self._users += 1
            asker = self._asker
        try:
            session = Session(self._judge, settings, self._ledger, asker=asker)
            await session.run(jobs)
            return session.report()
        finally:
            async with self._free:
                self._users -= 1
                self._free.notify_all()

    async def close(self) -> None:
        """Store the answers to requests in flight, and close the ledger and the judge's connections."""
        if self._asker is not None:
            self._asker.stop()
        self._asker = None
        _sessions.discard(self)
        await self._opened.aclose()


_LAST_SECONDS = 5.0
"""Seconds that connections and ledgers have to close when the process ends."""
_sessions: set[_Session] = set()
_starting = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        return _loop_of(os.getpid())


@cache
def _loop_of(_process: int) -> asyncio.AbstractEventLoop:
    """Return an event loop in a daemon thread; when the process ends, all sessions are closed."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="germane-integrations", daemon=True).start()

    async def end() -> None:
        await asyncio.gather(*[session.close() for session in _sessions])

    def close() -> None:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), loop).result(_LAST_SECONDS)

    atexit.register(close)
    return loop


def row_of(inputs: Any, output: Any, expected: Any) -> dict[str, Json]:
    """Return a row from the separate input, output and expected values of other tools.

    A mapping, or an object with attributes, supplies its fields, under any name that a data file may use. A
    string is the query (in `inputs`), the response (in `output`) or the reference (in `expected`). A list
    contains the contexts (in `output`) or the gold ids (in `expected`).
    """
    return {
        **_fields(inputs, text="query"),
        **_fields(output, text="response", sequence="contexts"),
        **_fields(expected, text="reference", sequence="qrels"),
    }


def _fields(value: Any, *, text: str, sequence: str | None = None) -> dict[str, Json]:
    if isinstance(value, str):
        return {text: value}
    value = value.tolist() if hasattr(value, "tolist") else value  # a NumPy array
    if isinstance(value, AbstractSet) and sequence == "qrels":
        return {sequence: sorted(value, key=str)}
    if isinstance(value, Sequence) and not isinstance(value, bytes) and sequence is not None:
        return {sequence: list(value)}
    if value is None:
        return {}
    fields = value if isinstance(value, Mapping) else fields_of(value) or getattr(value, "__dict__", None)
    if not fields and not isinstance(value, Mapping):
        lists = {"qrels": "a string, a list of ids", "contexts": "a string, a list of contexts"}
        fix = f"give {lists.get(sequence or '', 'a string')} or a mapping with the fields of a sample"
        raise InputError(f"the {text} cannot be {describe(value)}", fix=fix)
    return dict(fields or {})


def judge_of(model: Any) -> Any:
    """Return the judge, or its name, for the argument `model` of a call.

    A model name without a provider (`gpt-4o-mini`) gets the provider `openai:`. If `model` is None, the judge
    that GERMANE_JUDGE or the config names is returned, or None if they name no judge.
    """
    if model is None:
        spec = Spec().in_project()
        named = spec.environment.get("judge")
        return pick_judge(spec.but(judge=_with_provider(named)) if named else spec)
    return _with_provider(model) if isinstance(model, str) else model


def _with_provider(names: str) -> str:
    return " ".join(f"openai:{name}" if _BARE.fullmatch(name) else name for name in names.split())


_BARE = re.compile(r"[\w.]+-[\w.-]+|gpt[\w.]+|o\d")


def required(value: Json, name: str, tool: str, error: type[InputError] = InputError) -> Json:
    """Return `value`. If it is None, raise `error`, which says that `tool` needs the argument `name`."""
    if value is None:
        raise error(f"{tool} needs {name}", fix=f"give {name}=...")
    return value
