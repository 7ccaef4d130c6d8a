"""Evaluate samples from Python, or score a stored report again with other measures."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from itertools import chain, islice
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from msgspec import structs

from germane.clean import counted
from germane.encoding import encode_record
from germane.errors import InputError, describe
from germane.evaluation.session import Session, evaluate_jobs
from germane.folder.files import read_manifest
from germane.folder.tables import StoredTables
from germane.folder.writer import FolderWriter
from germane.judges.judge import Judge, Judges, LabelsJudge, no_judge
from germane.judging.asker import Asker
from germane.judging.caller import run_coroutine
from germane.judging.spending import Budget, Spent, check_price
from germane.judging.stored_answers import StoredAnswers
from germane.measures.declaration import Grader, graders_of, listed_measures, needs_judge
from germane.measures.measure import Measure
from germane.measures.scoring import Job
from germane.places.lists import Settings
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.reports.summary import MeasureSummary, slices_of
from germane.samples.reading import SampleSource, read_questions
from germane.tables.labels import LabelBook
from germane.targets.answers import PlannedCase, prepared
from germane.types import Json, Sample

__all__ = ["aevaluate", "evaluate", "rescore"]

if TYPE_CHECKING:
    from germane.graders.grader import CaseGrader
    from germane.ledger.store import Ledger
    from germane.targets.target import Target

P = ParamSpec("P")
T = TypeVar("T")

Asked: TypeAlias = "Measure | str | CaseGrader"
"""A measure, its name, or a grader."""


async def aevaluate(
    samples: SampleSource | Iterable[str],
    measures: Asked | Iterable[Asked] | None = None,
    *,
    target: Any = None,
    workers: int | None = None,
    judge: Judges | None = None,
    against: str = "auto",
    scale: str = "graded",
    rubric: str = "trec",
    ledger: Ledger | Path | str | None = None,
    replay: Path | str | None = None,
    gates: str | Iterable[str] = (),
    max_unmeasured: float = 0.05,
    allow_stand_in: bool = False,
    max_cost: float | None = None,
    max_calls: int | None = None,
    folder: Path | str | None = None,
    progress: bool | None = None,
) -> Report:
    """Judge and score samples, or the results of a system for queries, and return a report.

    Args:
        samples: Samples or mappings with a sample's keys (other tools' names are understood), a DataFrame, or a file's path. Contexts
            may be documents of LangChain or nodes of LlamaIndex. With a `target`, plain questions will do.
        measures: Measures or their names (`[context_precision @ 5, "nDCG@10"]`), or graders. Default: follow from the data, as in
            `germane run`.
        target: The system to query: a function of the query (asynchronous or not) that returns contexts, an answer, or both in a
            mapping; a retriever, engine or pipeline of LangChain, LlamaIndex or Haystack; or a `germane.targets.Target`. An
            exception is the error of that sample only.
        workers: The number of queries sent at the same time (default 4). A function that is not asynchronous
            runs in as many threads, or in the calling thread if `workers` is 1.
        judge: A judge or its name (`"openai:gpt-4o-mini"`, `"labels"`, `"lexical"`), a chat model of LangChain, a function from
            prompt to text, or a list of these, which vote as a panel. Required if a measure needs one.
        against: Judge relevance against auto, query, reference, response or criterion.
        scale: Ask for grades (graded, 0-3) or yes and no (binary).
        rubric: Wording of the grades: trec (UMBRELA) or usefulness.
        replay: A ledger or an export of one to answer from without judge calls; missing answers make the verdict undecided.
        ledger: A path or ledger where answers are stored for later evaluations. None stores no answers.
        gates: A gate or gates to decide, such as `"lower(nDCG@10)>=0.7"`; see `Report.verdict`.
        max_unmeasured: Proportion of scores that may be missing before the verdict is undecided.
        allow_stand_in: Let gates decide on verdicts of a stand-in for a model (`"lexical"`).
        max_cost: Stop with LimitReached before the judge costs more than this many US dollars. The answers
            so far are stored.
        max_calls: Stop with LimitReached before the judge is called more often than this.
        folder: Write the report to this folder, block by block. The same call again continues an interrupted
            evaluation.
        progress: Show a progress line; None = only in a notebook.

    Returns:
        A Report: `print(report)` shows the command line's table, `report["nDCG@10"].mean` is a number.

    Raises:
        InputError: A sample, measure, judge, ledger or gate is invalid.
        LedgerError: The ledger cannot be read or written. Stored answers are not asked again.
        JudgeError: The judge cannot be used at all. A single failed answer becomes its score's `why` instead.
        LimitReached: A limit was reached, or an endpoint asks to wait longer than a call may take.

    `evaluate` also works inside a running event loop (a notebook), in a worker thread; `await aevaluate(...)` is the same
    for asynchronous code.
    """
    _check_types(locals())
    if replay is not None and ledger is not None:
        raise InputError("replay= and ledger= cannot be given together", fix="leave out ledger=")
    questions = read_questions(samples, partial(_log.warning, "%s"), asked=target is not None)
    if measures is None:
        measures, questions = _defaults(questions, judge, asked=target is not None)
    graders = asked_graders(measures)
    who = None
    if needed := needs_judge(graders):
        if judge is None:
            raise no_judge(needed)
        from germane.judges import load_judge

        who = load_judge(judge)
    check_price(who, max_cost)
    settings = Settings.of(against, scale, rubric)
    if isinstance(who, LabelsJudge):
        settings = settings.with_judge(str(who.identity["reads"]))
    parsed = [Gate.parse(gate) for gate in ([gates] if isinstance(gates, str) else gates)]
    queried = None if target is None else _target_of(target, workers)
    jobs: Iterable[Job] = (Job(sample=sample, graders=graders) for sample in questions)
    stored: Mapping[str, Json] = {}
    if folder is not None:
        folder = Path(folder)
        jobs, stored = _continued(folder, jobs, answered=queried is not None)
    # without importing IPython; a notebook's shell has a kernel
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    shows = getattr(shell, "kernel", None) is not None if progress is None else progress
    asking: dict[str, Any] = {}
    if shows and who is not None:
        asking["on_progress"] = partial(_show_progress, who)
    with Session(
        who,
        settings,
        ledger,
        replay=replay,
        folder=folder,
        stored=stored,
        no_cache=ledger is None and replay is None,
        budget=Budget(max_cost, max_calls),
        **asking,
    ) as session:
        session.start()
        if queried is not None:
            jobs = await _answered(session, jobs, queried, shows=shows)
        async with session.asker:
            await session.run(jobs)
        report = session.report(gates=parsed, max_unmeasured=max_unmeasured, allow_stand_in=allow_stand_in)
        if session.writer is not None:
            report.finish(session.writer)
        return report


_KINDS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("against scale rubric", (str,), "a string"),
    ("replay folder", (str, PathLike), "a path"),
    ("max_cost max_unmeasured", (Real,), "a number"),
    ("max_calls", (Integral,), "an integer"),
    ("allow_stand_in progress", (bool,), "True or False"),
    ("gates", (Iterable,), "a gate or a list of gates"),
)
"""The types of the arguments of `evaluate`; others are checked where they are read."""


def _check_types(given: Mapping[str, Any]) -> None:
    """Raise InputError if an argument of `evaluate` has a wrong type; None is no value."""
    for names, kinds, what in _KINDS:
        for name in names.split():
            value = given[name]
            truth = isinstance(value, bool) and bool not in kinds  # True is also a number
            missing = value is None and name not in {"gates", "max_unmeasured"}
            if not missing and (truth or not isinstance(value, kinds)):
                raise InputError(f"{name} is {describe(value)}, not {what}", fix=f"give {name}= {what}")
    ledger, gates = given["ledger"], given["gates"]
    if not 0 <= given["max_unmeasured"] <= 1:
        problem = f"max_unmeasured is {given['max_unmeasured']}, not a share"
        raise InputError(problem, fix="give max_unmeasured= a number from 0 to 1")
    if not isinstance(ledger, str | Path | None) and not hasattr(ledger, "place"):
        raise InputError(f"ledger is {describe(ledger)}, not a path or a ledger", fix="give ledger= a path")
    for gate in gates if isinstance(gates, list | tuple | bytes) else ():
        if not isinstance(gate, str):
            fix = "write gates='lower(nDCG@10)>=0.7'"
            raise InputError(f"gates contains {describe(gate)}, not a string", fix=fix)


def _defaults(
    samples: Iterable[Sample], judge: Judges | None, *, asked: bool
) -> tuple[Sequence[str], Iterator[Sample]]:
    """Return the default measures for these samples, and an iterator over all of them."""
    from germane.evaluation.spec import LOOKED_AT, default_measures
    from germane.judges import load_judge

    rest = iter(samples)
    first = list(islice(rest, LOOKED_AT))
    name = "" if judge is None else load_judge(judge).name
    return default_measures(first, name, asked=asked)[0], chain(first, rest)


def _target_of(target: Any, workers: int | None) -> Target:
    """Return `target` as a Target with this number of workers; functions and retrievers are wrapped."""
    from germane.targets.python import PythonTarget
    from germane.targets.target import Target

    if workers is not None and (type(workers) is not int or workers < 1):
        raise InputError(f"workers is {describe(workers)}, not an integer >= 1", fix="write workers=4")
    if not isinstance(target, Target):
        return PythonTarget.calling(target, workers or 4)
    return target if workers is None else target.model_copy(update={"workers": workers})


def _continued(
    folder: Path, jobs: Iterable[Job], *, answered: bool
) -> tuple[Iterable[Job], Mapping[str, Json]]:
    """Return the jobs, and the manifest of the evaluation to continue ({}: there is none in the folder)."""
    writer = FolderWriter(folder)
    if not (folder / "manifest.json").exists():
        writer.refuse_other("name a new folder")
        return jobs, {}
    stored = read_manifest(folder)
    if stored.get("status") != "complete":
        return jobs, stored
    blank = Sample(id="", query="")
    unanswered = {name: getattr(blank, name) for name in _ANSWERS if answered}

    def asked(samples: Iterable[Sample]) -> list[bytes]:
        return sorted(encode_record(structs.replace(sample, **unanswered)) for sample in samples)

    jobs = list(jobs)
    if asked(Report.open(folder).samples()) != asked(job.sample for job in jobs):
        writer.refuse_other("name a new folder")
    return jobs, stored


_ANSWERS = ("response", "messages", "contexts", "calls", "stages", "error", "metadata")
"""The fields of a sample that a system's answer sets."""


def _show(text: str, *, last: bool) -> None:
    """Write a line of progress to stderr, over the previous line."""
    print(f"\r{text}", end="\n" if last else "", file=sys.stderr, flush=True)  # noqa: T201 - it was asked for


def _show_progress(judge: Judge, asker: Asker) -> None:
    every = max(1, asker.expected // 100)
    if asker.answered % every in {0, asker.expected % every}:
        spent = f", ${asker.spent.cost:.4f}" if asker.spent.cost else ""
        text = f"{judge.name}: {asker.answered:,} of {counted(asker.expected, 'question')} answered{spent}"
        _show(text, last=asker.answered == asker.expected)


async def _answered(session: Session, jobs: Iterable[Job], target: Target, *, shows: bool) -> list[Job]:
    """Query the target about the jobs, and return them with its answers; `shows` prints the progress."""

    def show(done: int, total: int) -> None:
        if shows:
            _show(f"{target.name}: {done:,} of {counted(total, 'question')} asked", last=done == total)

    cases = [PlannedCase(sample=job.sample, graders=job.graders, target=target.name) for job in jobs]
    answered = await session.ask_targets(cases, {(target.name, None): target}, show)
    return [prepared(case, lambda sample: sample, session.tables.notes) for case in answered]


_log = logging.getLogger("germane")


def _waited_for(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    @wraps(work)
    def wait(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_coroutine(work(*args, **kwargs))

    return wait


evaluate = _waited_for(aevaluate)
evaluate.__name__ = evaluate.__qualname__ = "evaluate"


def asked_graders(measures: Asked | Iterable[Asked]) -> tuple[Grader, ...]:
    """Return measures, measure names and graders as graders.

    Raises InputError if there are none, or if two of them have the same name.
    """
    result: dict[Grader, None] = {}
    for value in listed_measures(measures):
        result[Grader(measure=value) if isinstance(value, Measure) else value.scored] = None
    if not result:
        raise InputError("no measure is given", fix='name one, e.g. "nDCG@10" or context_precision @ 5')
    names = [grader.name for grader in result]
    if twice := next((name for name in names if names.count(name) > 1), None):
        fix = 'give one a name: name="b"'
        raise InputError(f"graders must have different names; {twice!r} occurs twice", fix=fix)
    return tuple(result)


_OF_ROWS = {"labels_size", "graders", "notes", "beside", "prompts", "reads"}
_OF_ROWS |= {"references", "asked", "files", "status", "changes", "declared"}
"""The entries of a manifest that describe its rows, and therefore change when a report is scored again."""


def rescore(
    report: Path | str,
    measures: Sequence[Measure],
    *,
    gates: Iterable[str] = (),
    allow_stand_in: bool = False,
    by: str | None = None,
    folder: Path | str | None = None,
) -> Report:
    """Score a stored report again with these measures, without judge calls, and return the new report.

    The samples and judgements in the report's folder are read one by one, and the new report is written to
    `folder` or a temporary folder. If `measures` is empty, the scores stay the same, and only gates are
    decided again: `gates`, or the report's own gates if `gates` is empty. `by` is the field to slice by.
    Raises InputError if a measure needs verdicts that the report does not contain.
    """
    parsed = [Gate.parse(gate) for gate in gates]
    changed = ({} if by is None else {"by": by}) | ({"allow_stand_in": True} if allow_stand_in else {})
    if not measures:
        same = Report.open(report)
        if by is not None:
            same.slices(by)  # an unknown name is an error here
        left_out = {"changes"} if gates else set()
        entries = {name: value for name, value in same.manifest.items() if name not in left_out} | changed
        again = Report.build(same.tables, entries, gates=parsed or None)
        return again if folder is None else again.save(folder)
    source = StoredTables.open(report)
    if by is not None:
        slices_of(source.samples, by)
    answers, people = StoredAnswers(source.judgements), list(source.people())
    existed = folder is not None and Path(folder).exists()
    writer = FolderWriter.temporary(source) if folder is None else FolderWriter(folder).lock()
    try:
        if folder is not None:
            writer.refuse_other()
            writer.start()
        settings = Settings.stored(source.manifest, LabelBook(people) or None)
        graders = graders_of(tuple(measures))
        jobs = (Job(sample=sample, graders=graders) for sample in source.samples)
        run_coroutine(evaluate_jobs(jobs, answers.lookup, writer, settings))
        writer.append_labels(people)
        writer.flush()
        entry = {**(source.manifest.get("judge") or {}), **Spent(cached=answers.answered).as_json()}
        kept = {name: value for name, value in source.manifest.items() if name not in _OF_ROWS}
        scored = Report.build(writer.tables, {**kept, "judge": entry, **changed}, gates=parsed)
        if answers.unknown:
            _require_verdicts(scored.summaries, source)
        if folder is not None:
            scored.finish(writer)
    except BaseException:
        if not existed:
            shutil.rmtree(writer.path, ignore_errors=True)
        raise
    finally:
        writer.close()
    return scored


def _require_verdicts(summaries: Iterable[MeasureSummary], source: StoredTables) -> None:
    for summary in summaries:
        if summary.n == 0 and any("no stored judgement" in why for why, _ in summary.why):
            again = f"germane run --resume {source.folder or 'REPORT'} -m '{summary.measure}'"
            problem = f"{summary.measure} needs verdicts that are not in this report"
            raise InputError(problem, fix=f"ask the judge for them: {again}")
