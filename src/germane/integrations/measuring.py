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
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from germane.errors import InputError, describe
from germane.evaluation.choice import (
    Router,
    keeps_answers,
    needs_judge,
    open_ledger,
    pick_judge,
    settings_of,
)
from germane.evaluation.evaluate import aevaluate, asked_graders, report_on
from germane.evaluation.evaluation import run_coroutine
from germane.evaluation.spec import Spec
from germane.judges import load_judge
from germane.judges.client.providers import PROVIDERS
from germane.judges.judge import Judge, members_of
from germane.judges.llm import model_of
from germane.judging.asker import Asker
from germane.ledger.store import Ledger
from germane.measures.explaining import Explanation
from germane.measures.scoring import Job
from germane.reports.report import Report
from germane.samples.frames import fields_of, records
from germane.samples.reading import read_questions, samples_from
from germane.types import Json, Judgement, Sample, Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One score; `source` is "gold", "human" or the judge, `judgements` are those of the whole call."""

    sample: Sample
    score: Score
    explanation: Explanation
    source: str
    judgements: tuple[Judgement, ...]

    @property
    def problem(self) -> str:
        """The status, reason and bounds of a score without a value, as text; "" if there is a value."""
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
        """The verdicts that the score counts: on each claim (recall), each statement (relevancy), else each ranked context.

        They are in order; questions without an answer are left out.
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
        """For each judged claim, the numbers (from 1) of the contexts that support it."""
        items = [item for answer in self._answers("support") for item in answer["claims"]]
        return [tuple(item["contexts"]) for item in sorted(items, key=lambda item: int(item["claim"]))]

    def _answers(self, kind: str) -> Iterator[Json]:
        return (row.answer for row in self.judgements if row.kind == kind and row.error is None)


class SharedJudge:
    """The judge and ledger of one evaluator, which may be called from several threads and event loops.

    Both are opened once and belong to one event loop in a thread of its own, so that all calls share
    connections, limits and questions. A judge that runs the user's code is asked in the caller's event loop,
    if there is one.

    Args:
        given: The judge that was passed to the evaluator; None = GERMANE_JUDGE or the config.
        ledger: Where answers are kept.
    """

    def __init__(self, given: Any, ledger: str | Path | None = None) -> None:
        self.given, self._place = given, ledger
        self._lock = threading.Lock()
        self._judge: Judge | None = None
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
        return _measured(await self.areport(samples, measures, against), *samples)

    async def areport(
        self, samples: Sequence[Sample], measures: str | Sequence[str], against: str = "auto"
    ) -> Report:
        """Return the report on these samples."""
        judge = self._shared(measures)
        models = () if judge is None else map(model_of, members_of(judge))
        # judges that are asked over their own connections and run no code of the user's
        if judge is not None and all(each and each.service.provider in PROVIDERS for each in models):
            asked = asyncio.run_coroutine_threadsafe(self._report(judge, samples, measures, against), _loop())
            return await asyncio.wrap_future(asked)
        own = judge_of(self.given)
        return await aevaluate(samples, measures, judge=own, against=against, ledger=self._place)

    def _shared(self, measures: str | Sequence[str]) -> Judge | None:
        """Return the judge, created on first use; None if no answers of a judge have to be stored."""
        if not needs_judge(asked_graders(measures)):
            return None
        with self._lock:
            if self._judge is None:
                judge = judge_of(self.given)
                self._judge = None if judge is None else load_judge(judge)
            return self._judge if keeps_answers(self._judge) else None

    async def _report(
        self, judge: Judge, samples: Sequence[Sample], measures: str | Sequence[str], against: str
    ) -> Report:
        """Compute the report; must run in the event loop that owns the judge's connections."""
        graders = asked_graders(measures)
        settings = settings_of(Spec.of(against=against), judge)
        session = self._session
        if session is None or session.judge is not judge or session.is_used_up:
            if session is not None:
                session.closing.set()
            self._session = session = _Session(judge, self._place, session.task if session else None)
            later = asyncio.get_running_loop().call_soon_threadsafe
            weakref.finalize(self, later, session.closing.set).atexit = False
        async with session as (asker, ledger):
            jobs = (Job(sample=sample, graders=graders) for sample in read_questions(samples))
            return await report_on(jobs, settings, judge, ledger, asker=asker)


_REMEMBERED = 10_000
"""The number of cached answers after which a session ends, to limit memory."""


class _Session:
    """A judge with an open ledger and an Asker, in the event loop of `_loop`; it starts after `before` ends.

    It ends when `closing` is set and it has no users.
    """

    def __init__(self, judge: Judge, place: str | Path | None, before: asyncio.Task[None] | None) -> None:
        self.judge = judge
        self.closing = asyncio.Event()
        self._users, self._idle = 0, asyncio.Event()
        self._opened: asyncio.Future[tuple[Asker, Ledger | None]] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(place, before))
        _sessions.add(self)

    @property
    def is_used_up(self) -> bool:
        """True if a new session is needed: the judge or questions failed, or too much is cached."""
        if not self._opened.done() or self._opened.exception() is not None:
            return self._opened.done()
        asker = self._opened.result()[0]
        return asker.failed or (not self._users and (asker.spent.errors > 0 or asker.answered > _REMEMBERED))

    async def _run(self, place: str | Path | None, before: asyncio.Task[None] | None) -> None:
        """Keep the ledger and asker open in one task, since context variables must be reset in the task that set them."""
        if before is not None:  # its end closes the connections of the judge, which may be the same one
            await asyncio.wait([before])
        try:
            with ExitStack() as opened:
                ledger = open_ledger(place)
                if ledger is not None:
                    opened.callback(ledger.close)
                async with Asker(Router(self.judge), ledger) as asker:
                    self._opened.set_result((asker, ledger))
                    await self.closing.wait()
                    if self._users:
                        await self._idle.wait()
        except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            _sessions.discard(self)

    async def __aenter__(self) -> tuple[Asker, Ledger | None]:
        self._users += 1
        self._idle.clear()
        asker, ledger = await self._opened
        return asker, ledger

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self._idle.set()


_LAST_SECONDS = 5.0
"""Seconds that connections and ledgers have to close when the process ends."""
_sessions: set[_Session] = set()
_starting = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop in which this process's integrations ask judges."""
    with _starting:
        return _loop_of(os.getpid())


@cache
def _loop_of(_process: int) -> asyncio.AbstractEventLoop:
    """Return an event loop in a daemon thread, closed at exit; one per process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="germane-integrations", daemon=True).start()

    async def end() -> None:
        for session in _sessions:
            session.closing.set()
        await asyncio.gather(*[session.task for session in _sessions])

    def close() -> None:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), loop).result(_LAST_SECONDS)

    atexit.register(close)
    return loop


def _measured(report: Report, sample: Sample) -> tuple[Measured, ...]:
    """Return the scores of a report on one sample."""
    judgements = tuple(report.judgements())
    judges = sorted({judgement.judge for judgement in judgements}) or [str(report.judge.source)]
    return tuple(
        Measured(
            sample=sample,
            score=score,
            explanation=report.explain(sample.id, score.measure, system=sample.system, trial=sample.trial),
            source=", ".join(judges) if (of := report[score.measure].basis.source) == "judge" else of,
            judgements=judgements,
        )
        for score in report.scores()
    )


def row_of(inputs: Any, output: Any, expected: Any) -> dict[str, Json]:
    """Return a row from the separate input, output and expected values of other tools.

    A mapping, or an object with attributes, supplies its fields under any name that a data file may have. A
    text is the query (as input), the response (as output) or the reference (as expected value); a list is
    the contexts (as output) or the gold ids (as expected value).
    """
    return {
        **_fields(inputs, text="query"),
        **_fields(output, text="response", sequence="contexts"),
        **_fields(expected, text="reference", sequence="qrels"),
    }


def _fields(value: Any, *, text: str, sequence: str | None = None) -> dict[str, Json]:
    if isinstance(value, str):
        return {text: value}
    value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
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
    """Return the judge of a call: as given, a bare model name (`gpt-4o-mini`) as OpenAI's, None = GERMANE_JUDGE or the config."""
    if model is None:
        spec = Spec().in_project()
        named = spec.environment.get("judge")
        return pick_judge(spec.but(judge=_with_provider(named)) if named else spec)
    return _with_provider(model) if isinstance(model, str) else model


def _with_provider(names: str) -> str:
    """Return the names of judges, with `openai:` before bare names of OpenAI's models."""
    return " ".join(f"openai:{name}" if _BARE.fullmatch(name) else name for name in names.split())


_BARE = re.compile(r"[\w.]+-[\w.-]+|gpt[\w.]+|o\d")


def required(value: Json, name: str, tool: str, error: type[InputError] = InputError) -> Json:
    """Return the value of the field `name`, or raise `error`, which names `tool`, if it is None."""
    if value is None:
        raise error(f"{tool} needs {name}", fix=f"give {name}=...")
    return value
