"""Helpers for tests: assertions about what a retriever returned, cases of an eval file, and a judge with scripted answers.

The pytest plugin (`germane.pytest_plugin`) brings the fixture `germane`, a Recorder, and decides at the end of a session.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import structs

from germane.clean import counted
from germane.comparison.regression import settle_changes
from germane.encoding import canonical, encode
from germane.errors import GermaneError, InputError
from germane.evalfiles import Case, EvalFile
from germane.evaluation.choice import ledger_address, needs_judge, open_ledger, pick_judge, settings_of
from germane.evaluation.evaluate import asked_graders, report_on
from germane.evaluation.evaluation import run_coroutine
from germane.evaluation.plan import Plan, named_files, names_of
from germane.evaluation.spec import IN_FILES, Spec, read_config
from germane.folder.manifest import read_manifest
from germane.folder.rows import BlockRows, merge
from germane.judges import load_judge
from germane.judges.fake import FakeJudge
from germane.judges.judge import Judge, Judges
from germane.measures.graders import Grader
from germane.measures.scoring import Job
from germane.places.lists import rankings
from germane.reports.data import ReportData
from germane.reports.explain import Explainer, result_row
from germane.reports.gates import POINT, Gate
from germane.reports.manifest import judge_in_all
from germane.reports.report import Report
from germane.reports.summary import known_measure
from germane.reports.text.explanation import lines_of
from germane.samples import Notices
from germane.samples.contexts import compile_rule
from germane.samples.reading import read_questions
from germane.samples.rows import sample_to_json
from germane.tables.judgements import GRADED, JudgementTable
from germane.tables.scores import ScoreTable
from germane.types import Json, Sample

if TYPE_CHECKING:
    import pytest

__all__ = ["FakeJudge", "Recorder", "RetrievalCase", "assert_retrieval", "germane_cases"]

Retrieved: TypeAlias = "Sample | RetrievalCase | Mapping[str, Json]"
"""The results of a system for one query: a sample, a case of an eval file, or a mapping with the keys of a sample line."""


class RecordedSample(NamedTuple):
    """One recorded sample: its manifest and rows, and the eval file of its case with the file's gates."""

    manifest: Mapping[str, Json]
    part: BlockRows
    file: str = ""
    gates: tuple[Gate, ...] = ()


_WIDTH = 100


@dataclass(frozen=True, slots=True)
class RetrievalCase:
    """One case of an eval file: its sample, its graders, and the file, whose judge, settings and gates hold for it."""

    sample: Sample
    graders: tuple[Grader, ...]
    case: Case | None = None
    file: EvalFile | None = None

    @property
    def id(self) -> str:
        """The id of the sample that the case is about."""
        return self.sample.id

    @property
    def query(self) -> str:
        """The query of the sample that the case is about."""
        return self.sample.query


_ONE_SAMPLE = "; measured on 1 of 1 sample"
"""The end of a gate's detail that says nothing here, where there is one sample."""


def germane_cases(*patterns: str | Path, argument: str = "case") -> pytest.MarkDecorator:
    """Return the cases of eval files as parameters of a test, each named by its id.

    ::

        @germane_cases("evals/*.yaml")
        def test_retrieval(case, germane):
            germane.record(case, contexts=search(case.query))

    Args:
        patterns: Paths of eval files, in which * and ? may stand: relative to the working directory, else to the folder of
            the test's file.
        argument: The test's parameter that gets the RetrievalCase.

    Raises:
        InputError: No such file, or something in it is wrong.
    """
    import pytest

    beside = Path(sys._getframe(1).f_code.co_filename).parent  # noqa: SLF001 - the caller's file
    __tracebackhide__ = True
    with _ShortTraceback():
        paths = [path for pattern in patterns for path in _matching(str(pattern), beside)]
        loaded, files = named_files(paths, lambda _: None)
        plan = Plan(loaded, files)
        for file in files.values():
            measured = sorted(names_of(plan.graders_of_files([file])))
            for gate in starmap(Gate.parse, file.gates):
                gate.check_named(measured)
        cases = [
            RetrievalCase(planned.sample, planned.graders, planned.case, files.get(planned.source))
            for planned in plan.matching()
        ]
    return pytest.mark.parametrize(argument, cases, ids=[case.id for case in cases])


def _matching(pattern: str, beside: Path) -> list[Path]:
    for folder in (Path(), beside):
        if paths := sorted(folder.glob(pattern)) if not Path(pattern).is_absolute() else [Path(pattern)]:
            return paths
    raise InputError(
        f"no eval file is called {pattern}", fix=f"name one relative to {Path.cwd()} or {beside}"
    )


def assert_retrieval(
    sample: Retrieved,
    *checks: str,
    judge: Judges | None = None,
    ledger: Path | str | None = None,
    allow_stand_in: bool = False,
    **fields: Any,
) -> None:
    """Raise AssertionError if a measure of one sample is below its threshold.

    The message is the ranked list with everybody's labels, the gold that did not come back, and each formula with its numbers.

    Args:
        sample: What was retrieved: a sample, or a mapping with its keys.
        checks: `"RR>=0.5"`, `"context_recall>=0.8"`: as gates are written.
        judge: Who answers; without one the judge of the case's eval file, GERMANE_JUDGE or germane.toml, where a measure asks.
        ledger: Where answers are kept; without one the project's ledger.
        allow_stand_in: Decide on what a stand-in for a model judged (`"lexical"`), which else is undecided.
        fields: Fields of the sample that are given here: `contexts=search(query)`.

    Raises:
        AssertionError: A check fails, or cannot be decided because a verdict is missing.
        InputError: The sample or a check cannot be used as given.
    """
    __tracebackhide__ = True

    with _ShortTraceback():
        gates = [Gate.parse(check) for check in checks]
        if not gates:
            raise InputError("nothing is asserted", fix='write assert_retrieval(sample, "RR>=0.5")')
        if any(gate.how == "change" or gate.by for gate in gates):
            problem = "one sample has no baseline and no slices"
            raise InputError(problem, fix='write assert_retrieval(sample, "RR>=0.5")')
        taken = _case_of(sample, fields, "sample")
        case = replace(taken, graders=asked_graders([gate.measure for gate in gates]))
        report = _measured(case, judge, ledger, gates, allow_stand_in=allow_stand_in)
    if report.verdict.passed:
        return
    facts = Explainer(report).facts(next(report.samples()), list(report.scores()), changes=False)
    written = {str(gate): check for gate, check in zip(gates, checks, strict=True)}
    results = sorted(report.verdict.gates, key=lambda result: list(written).index(result.gate))
    lines = []
    for result in results:
        detail = (
            result.detail.removesuffix(_ONE_SAMPLE)
            .removesuffix(POINT)
            .removeprefix("mean ")
            .replace("--allow-stand-in", "allow_stand_in=True")
        )
        lines.append(f"{result.outcome:9}  {written[result.gate]}  {detail}")
    if all(gate.outcome == "passed" for gate in report.verdict.gates):
        lines += report.verdict.reasons
    raise AssertionError("\n".join([*lines, "", *lines_of(facts, _WIDTH)]))


@dataclass(slots=True)
class Recorder:
    """The records of one test: the fixture `germane`.

    Attributes:
        name: The test, after which samples without an id are named.
        records: What was recorded.
    """

    name: str
    records: list[RecordedSample] = field(default_factory=list, repr=False)

    def record(
        self,
        sample: Retrieved | None = None,
        *,
        measures: Any = None,
        judge: Judges | None = None,
        ledger: Path | str | None = None,
        **fields: Any,
    ) -> Report:
        """Measure what was retrieved for one query, for the end of the session, where the gates are decided.

        Args:
            sample: A sample, a case of an eval file, or a mapping with the keys of a sample line; None = the fields alone.
            measures: `"RR nDCG@2"`, or a list; of a case of an eval file those of the file where none is given.
            judge: Who answers; without one the judge of the case's eval file, GERMANE_JUDGE or germane.toml, where a
                measure asks.
            ledger: Where answers are kept; without one the project's ledger.
            fields: Fields of the sample: `query=`, `contexts=`, `qrels=`, `reference=`, `tags=`, ...

        Returns:
            The report of this sample alone: `germane.record(...)["RR"].mean`.

        Raises:
            InputError: The sample or a measure cannot be used as given.
        """
        __tracebackhide__ = True
        number = len(self.records) + 1
        name = self.name if number == 1 else f"{self.name} {number}"
        with _ShortTraceback():
            case = _case_of(sample, fields, name)
            if measures is not None:
                case = replace(case, graders=asked_graders(measures))
            if not case.graders:
                raise InputError("no measure was asked for", fix='name one: measures="RR nDCG@10"')
            report = _measured(case, judge, ledger)
        part: Any = report.tables  # in memory they are BlockRows
        path, gates = (str(case.file.path), case.file.gates) if case.file else ("", ())
        self.records.append(RecordedSample(report.manifest, part, path, tuple(starmap(Gate.parse, gates))))
        return report


class _ShortTraceback:
    """Raise an error without this package's frames, so that pytest shows the line of the test."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        __tracebackhide__ = True
        if isinstance(error, GermaneError):
            raise error.with_traceback(None) from None


def _case_of(retrieved: Retrieved | None, fields: Mapping[str, Any], name: str) -> RetrievalCase:
    """Return the case with these fields set in its sample; a sample without an id gets the id `name`."""
    value: object = retrieved
    if not isinstance(value, Sample | RetrievalCase | Mapping | None):
        what = repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
        problem = f"a sample is a mapping, a Sample or a case, not {what}"
        raise InputError(problem, fix="name each field: query=..., contexts=..., qrels=...")
    case = retrieved if isinstance(retrieved, RetrievalCase) else None
    brought: Any = case.sample if case else retrieved
    row = sample_to_json(brought) if isinstance(brought, Sample) else dict(brought or {})
    notices = Notices()
    (sample,) = read_questions([{"id": name, **row, **fields}], notices)
    messages = [str(notice) for notice in notices]
    contexts = [context for _, contexts in rankings(sample) for context in contexts]
    texts = [context.text for context in contexts if context.id is None]
    if len(texts) == len(contexts) and (
        given_id := next((text for text in texts if text in (sample.qrels or {})), "")
    ):
        messages.append(
            f'contexts are texts, and {given_id!r} is an id of qrels: write {{"id": {json.dumps(given_id)}}}'
        )
    for message in messages:
        warnings.warn(message, stacklevel=3)  # the line of the test
    if case is None:
        return RetrievalCase(sample, ())
    return replace(case, sample=compile_rule(case.file.doc_id if case.file else None)(sample))


def _measured(
    asked: RetrievalCase,
    judge: Judges | None,
    ledger: Path | str | None,
    gates: Sequence[Gate] = (),
    *,
    allow_stand_in: bool = False,
) -> Report:
    """Evaluate one sample by the graders of its case, and return the report."""
    sample, graders, case, file = asked.sample, asked.graders, asked.case, asked.file
    spec = (
        Spec.of(allow_stand_in=allow_stand_in)
        .in_project()
        .in_files({name: getattr(file, name) for name in IN_FILES} if file else {})
    )
    who: Judge | None = None
    if needed := needs_judge(graders):
        who = pick_judge(spec, needed) if judge is None else load_judge(judge)
    settings = settings_of(spec, who)
    keeps = who is not None and who.stored
    opened = open_ledger(ledger or ledger_address()) if keeps else None
    with nullcontext() if opened is None else closing(opened):
        jobs = [Job(sample=sample, graders=graders, case=case and replace(case, sample=sample))]
        work = report_on(jobs, settings, who, opened, spec=spec, gates=gates)
        return run_coroutine(work)


def report_of(
    records: Mapping[str, Sequence[RecordedSample]],
    asked: Iterable[str] = (),
    configured: Iterable[str] = (),
    baseline: ReportData | None = None,
    *,
    every: bool = True,
    allow_stand_in: bool = False,
) -> tuple[Report, list[str]]:
    """Return one report of what tests recorded, with its gates decided, and the gates whose measure no test recorded.

    Records of a system with equal queries and equal gold are trials of one case. `asked` are gates of the command, `configured` those of
    the settings, to which germane.toml and the eval files add theirs; without `every` test these may name what is not known. With a
    `baseline` and no gate on a change, no measure may be worse than there for certain. InputError where two tests recorded
    different samples under one id, different judges judged, or a gate of the command names what was not measured.
    """
    pairs = ((name, value) for name in records for value in records[name])
    ordered = sorted(pairs, key=lambda pair: (pair[1].file, pair[0]))  # those of an eval file stand together
    gates, unmeasured = _gates_on([record for _, record in ordered], asked, configured, every=every)
    parts, notes = _with_trials(ordered)
    seen: dict[tuple[str, str, int], str] = {}
    for (name, _), part in zip(ordered, parts, strict=True):
        for sample in part.samples:
            if sample.key in seen:
                problem = f"the id {sample.id!r} was recorded by {seen[sample.key]} and by {name}"
                raise InputError(problem, fix="give each its own id=, or a system= or trial=")
            seen[sample.key] = name
    manifests = [record.manifest for _, record in ordered]
    judged = [manifest for manifest in manifests if manifest["judge"]["source"] is not None]
    judges = [manifest["judge"] for manifest in judged]
    names = list(dict.fromkeys(judge["source"] for judge in judges))
    if len(names) > 1:
        raise InputError(f"different judges judged: {', '.join(names)}", fix="record with one judge")
    if len(ways := dict.fromkeys(encode(manifest["settings"]).decode() for manifest in judged)) > 1:
        problem = f"different settings of the judge: {' and '.join(ways)}"
        raise InputError(problem, fix="let the eval files agree, or run their tests one by one")
    first = [*judged, *manifests][0]
    made = {name: first[name] for name in ("germane", "created", "settings", "judge")}
    made |= {"made_by": "pytest", "allow_stand_in": allow_stand_in}
    if len(files := Counter(record.file or "no eval file" for _, record in ordered)) > 1:
        made["eval_files"] = list(map(list, files.items()))
    if judges:
        made["judge"] = judge_in_all(judges)
    merged = merge(parts)
    merged.notes += notes
    report = Report.build(merged, made, gates=gates)
    if baseline is not None:
        settle_changes(report, baseline, every=not any(gate.how == "change" for gate in gates))
    return report, unmeasured


def save_report(report: Report, path: Path) -> str:
    """Write the report; the one of an earlier session is replaced, that of another evaluation is not.

    Return a warning where the replaced one holds samples that this session did not record, as after `pytest --lf`.
    """
    earlier = (path / "manifest.json").exists() and read_manifest(path).get("made_by") == "pytest"
    before: set[tuple[str, str, int]] = set()
    if earlier:
        with suppress(GermaneError, OSError):  # a damaged one is replaced as well
            before = {sample.key for sample in Report.open(path).samples()}
    lost = len(before - {sample.key for sample in report.samples()})
    report.save(path, force=earlier)
    note = f"; the report that it replaces held {counted(lost, 'sample')} that were not recorded now"
    return note if lost else ""


def _gates_on(
    recorded: Sequence[RecordedSample], asked: Iterable[str], configured: Iterable[str], *, every: bool
) -> tuple[list[Gate], list[str]]:
    """Return the gates to decide on these records, and the configured ones whose measure no test recorded: see `report_of`."""
    pairs = {
        (record.file, name) for record in recorded for pair in record.part.scores.measures for name in pair
    }
    measured = sorted({name for _, name in pairs})
    gates, unmeasured = list(map(Gate.parse, asked)), list[str]()
    for gate in gates:
        gate.check_named(measured)
    project = map(str, read_config()[0].get("gates", ()))
    of_files = dict.fromkeys(gate for record in recorded for gate in record.gates)
    for gate in (*map(Gate.parse, (*configured, *project)), *of_files):
        place = gate.location
        if (gate.measure in measured) if place is None else (place.file, gate.measure) in pairs:
            gates.append(gate)
            continue
        if place is None and every and known_measure(gate.measure) is None:
            gate.check_named(measured)  # misspelt, or a grader that is gone
        unmeasured.append(str(gate))
    return gates, unmeasured


_OF_CASE = (
    "query", "history", "qrels", "gold", "evidence", "reference", "criterion", "answerable", "forbidden",
    "unsure",
)  # fmt: skip
"""The fields of a sample that say what was asked and what is right."""
_REPEATS = "repeats of a query with equal gold are trials of its case"
_SAME_CLUSTER = "samples repeat the query and the gold of another id: they count as one unit"


def _with_trials(ordered: Sequence[tuple[str, RecordedSample]]) -> tuple[list[BlockRows], Counter[str]]:
    """Return the parts of the records; repeats of a query with the same gold become trials of one case, which a note counts.

    A sample that its test gave an id keeps it: those of several ids share a cluster, unless they have their own.
    """
    cases: dict[bytes, list[int]] = {}
    for number, (_, record) in enumerate(ordered):
        row = sample_to_json(record.part.samples[0])
        case = [record.file, row.get("system"), {name: row.get(name) for name in _OF_CASE}]
        cases.setdefault(canonical(case), []).append(number)
    parts, notes = [record.part for _, record in ordered], Counter[str]()
    for numbers in cases.values():
        keys: dict[tuple[str, str, int], int] = {}
        for number in numbers:
            name, sample = ordered[number][0], parts[number].samples[0]
            unnamed = sample.id == name or sample.id.startswith(f"{name} ")
            case_id = parts[numbers[0]].samples[0].id if unnamed else sample.id
            trials = (sample.trial, *range(len(numbers)))
            trial = next(trial for trial in trials if (case_id, sample.system, trial) not in keys)
            keys[case_id, sample.system, trial] = number
            notes[_REPEATS] += (case_id, trial) != (sample.id, sample.trial)
        ids = {key[0] for key in keys}
        clusters = {parts[number].samples[0].cluster for number in numbers}
        shared = len(ids) > 1 and clusters == {None}
        notes[_SAME_CLUSTER] += len(ids) - 1 if shared else 0
        for (case_id, _, trial), number in keys.items():
            part = parts[number]
            sample = part.samples[0]
            cluster = min(ids) if shared else sample.cluster
            parts[number] = _renamed(part, structs.replace(sample, id=case_id, trial=trial, cluster=cluster))
    return parts, +notes


def _renamed(part: BlockRows, sample: Sample) -> BlockRows:
    """Return a part with its rows renamed to a sample with another id or trial."""
    named = {"sample": sample.id, "trial": sample.trial}
    judgements = (
        result_row(sample, row.provenance["of"][-1], row.answer) if row.kind == GRADED else row
        for row in part.judgements
    )
    return replace(
        part,
        samples=[sample],
        places=[structs.replace(row, **named) for row in part.places],
        judgements=JudgementTable(judgements),
        scores=ScoreTable(structs.replace(score, **named) for score in part.scores),
    )
