"""Helpers for tests: assertions about what a retriever returned, and a judge with scripted answers.

The pytest plugin (`germane.pytest_plugin`) provides a Recorder as the fixture `germane`, and decides its
gates at the end of the session.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from msgspec import structs

from germane.encoding import canonical
from germane.errors import GermaneError, InputError, SourceLocation
from germane.evaluation.evaluate import asked_graders, evaluate
from germane.evaluation.session import keeps_answers
from germane.evaluation.spec import Spec, ledger_address, pick_judge, read_config
from germane.folder.tables import BlockRows, merge
from germane.judges import load_judge
from germane.judges.judge import FakeJudge, Judges
from germane.measures.declaration import needs_judge
from germane.places.lists import rankings
from germane.reports.basis import judge_in_all
from germane.reports.explain import Explainer, lines_of, result_row
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.reports.summary import known_measure
from germane.samples import Notices
from germane.samples.reading import read_questions
from germane.samples.rows import sample_to_json
from germane.tables.judgements import GRADED, JudgementTable
from germane.tables.scores import ScoreTable
from germane.types import Json, Sample

__all__ = ["FakeJudge", "Recorder", "assert_retrieval"]

Retrieved: TypeAlias = "Sample | Mapping[str, Json]"
"""A query and what the system retrieved: a Sample, or a mapping with the keys of a sample in JSON Lines."""


class RecordedSample(NamedTuple):
    """One recorded sample: the manifest and the rows (samples, judgements, scores) of its report."""

    manifest: Mapping[str, Json]
    part: BlockRows


def assert_retrieval(
    sample: Retrieved,
    *checks: str,
    judge: Judges | None = None,
    ledger: Path | str | None = None,
    allow_stand_in: bool = False,
    **fields: Any,
) -> None:
    """Raise AssertionError if a measure of one sample is below its threshold.

    The error's message shows the ranked list with all labels, the missing gold, and each measure's formula
    with its numbers.

    Args:
        sample: The sample, or a mapping with the keys of a sample in JSONL.
        checks: The thresholds, written as gates: `"RR>=0.5"`, `"context_recall>=0.8"`.
        judge: The judge. Default: GERMANE_JUDGE or germane.toml.
        ledger: The ledger for the judge's answers. Default: the project's ledger.
        allow_stand_in: Whether to decide a check whose judge was the lexical stand-in. By default such a
            check fails.
        fields: Fields of the sample to set or replace: `contexts=search(query)`.

    Raises:
        AssertionError: A check fails, or cannot be decided because a verdict is missing.
        InputError: The sample or a check is invalid.
    """
    __tracebackhide__ = True
    try:
        gates = [Gate.parse(check) for check in checks]
        alone = not any(gate.how == "change" or gate.by for gate in gates)
        if not gates or not alone:
            refused = "a check of one sample cannot use change(...) or a slice: there is no baseline and no other sample"
            problem = "assert_retrieval has no check" if alone else refused
            raise InputError(problem, fix='write assert_retrieval(sample, "RR>=0.5")')
        measures, measured = [gate.measure for gate in gates], _sample_of(sample, fields, "sample")
        report = _measured(measured, measures, judge, ledger, checks, allow_stand_in=allow_stand_in)
    except GermaneError as error:
        raise error.with_traceback(None) from None  # pytest shows the line of the test
    if report.verdict.passed:
        return
    facts = Explainer(report).facts(next(report.samples()), list(report.scores()))
    raise AssertionError("\n".join([*report.verdict.lines(), "", *lines_of(facts, 100)]))


@dataclass(slots=True)
class Recorder:
    """Measures and records the samples of one test; the fixture `germane` is a Recorder.

    Attributes:
        name: The name of the test. It is the id of a sample that has no id.
        records: The recorded samples.
    """

    name: str
    records: list[RecordedSample] = field(default_factory=list, repr=False)

    def record(
        self,
        sample: Retrieved | None = None,
        *,
        measures: Any,
        judge: Judges | None = None,
        ledger: Path | str | None = None,
        **fields: Any,
    ) -> Report:
        """Measure the results for one query, and record them for the gates at the end of the session.

        Args:
            sample: A Sample, or a mapping with the keys of a sample in JSONL. Default: `fields` is the whole
                sample.
            measures: The measures, as a string (`"RR nDCG@2"`) or a list.
            judge: The judge. Default: GERMANE_JUDGE or germane.toml.
            ledger: The ledger for the judge's answers. Default: the project's ledger.
            fields: Fields of the sample: `query=`, `contexts=`, `qrels=`, `reference=`, `tags=`, ...

        Returns:
            The report of this sample alone: `germane.record(...)["RR"].mean`.

        Raises:
            InputError: The sample or a measure is invalid.
        """
        __tracebackhide__ = True
        number = len(self.records) + 1
        name = self.name if number == 1 else f"{self.name} {number}"
        try:
            report = _measured(_sample_of(sample, fields, name), measures, judge, ledger)
        except GermaneError as error:
            raise error.with_traceback(None) from None  # pytest shows the line of the test
        part: Any = report.tables  # in memory they are BlockRows
        self.records.append(RecordedSample(report.manifest, part))
        return report


def _sample_of(retrieved: Any, fields: Mapping[str, Any], name: str) -> Sample:
    """Return a Sample made of `retrieved` and `fields`. If neither has an id, the id is `name`."""
    if not isinstance(retrieved, Sample | Mapping | None):
        what = repr(retrieved) if isinstance(retrieved, str) else f"a {type(retrieved).__name__}"
        problem = f"the sample is {what}, not a mapping or a Sample"
        raise InputError(problem, fix="name each field: query=..., contexts=..., qrels=...")
    row = sample_to_json(retrieved) if isinstance(retrieved, Sample) else dict(retrieved or {})
    notices = Notices()
    (sample,) = read_questions([{"id": name, **row, **fields}], notices)
    messages = [str(notice) for notice in notices]
    contexts = [context for _, contexts in rankings(sample) for context in contexts]
    texts = [context.text for context in contexts if context.id is None]
    given_id = next((text for text in texts if text in (sample.qrels or {})), "")
    if given_id and len(texts) == len(contexts):
        fix = f'write {{"id": {json.dumps(given_id)}}}'
        messages.append(
            f"the context {given_id!r} is read as the text of a passage, but qrels has it as an id: {fix}"
        )
    for message in messages:
        warnings.warn(message, stacklevel=3)  # the line of the test
    return sample


def _measured(
    sample: Sample,
    measures: Any,
    judge: Judges | None,
    ledger: Path | str | None,
    gates: Sequence[str] = (),
    *,
    allow_stand_in: bool = False,
) -> Report:
    """Evaluate one sample with the settings of the project's config, and return its report."""
    spec = Spec().in_project()
    how = {name: value for name in ("against", "scale", "rubric") if (value := getattr(spec, name))}
    if needed := needs_judge(asked_graders(measures)):
        judge = pick_judge(spec, needed) if judge is None else load_judge(judge)
        if ledger is None and keeps_answers(judge):
            ledger = ledger_address()
    how |= {"max_unmeasured": spec.max_unmeasured, "allow_stand_in": allow_stand_in, "progress": False}
    return evaluate([sample], measures, judge=judge, ledger=ledger, gates=gates, **how)


def report_of(
    records: Mapping[str, Sequence[RecordedSample]],
    asked: Iterable[str] = (),
    configured: Iterable[str] = (),
    *,
    allow_stand_in: bool = False,
) -> tuple[Report, list[str]]:
    """Return one report of all recorded samples, and the configured gates whose measure was not recorded.

    `records` maps tests to their samples. Samples of one system with equal queries and equal gold are trials
    of one case. `asked` are the gates given on the command line, and `configured` the gates in pytest's
    settings. Only a gate in `configured` or germane.toml may name a measure that was not recorded. Raises
    InputError if an id has several queries, if several judges were used, or if a measure is unknown.
    """
    ordered = [(name, record) for name in sorted(records) for record in records[name]]
    parts, repeats = _with_trials(ordered)
    measured = sorted({name for part in parts for pair in part.scores.measures for name in pair})
    gates, unmeasured = list(map(Gate.parse, asked)), list[str]()
    for gate in gates:
        gate.check_named(measured)
    config, file = read_config()
    of_config = (Gate.parse(text, SourceLocation(file.name)) for text in config.get("gates", ()))
    for gate in (*map(Gate.parse, configured), *of_config):
        if gate.measure not in measured and known_measure(gate.measure) is not None:
            unmeasured.append(str(gate))
            continue
        gate.check_named(measured)
        gates.append(gate)
    manifests = [record.manifest for _, record in ordered]
    judged = [manifest for manifest in manifests if manifest["judge"]["source"] is not None]
    names = list(dict.fromkeys(manifest["judge"]["source"] for manifest in judged))
    if len(names) > 1:
        problem = f"the tests of this session used several judges: {', '.join(names)}"
        raise InputError(problem, fix="give every germane.record(...) the same judge=")
    first = [*judged, *manifests][0]
    made = {name: first[name] for name in ("germane", "created", "settings", "judge")}
    made |= {"made_by": "pytest", "allow_stand_in": allow_stand_in}
    if judged:
        made["judge"] = judge_in_all([manifest["judge"] for manifest in judged])
    merged = merge(parts)
    if repeats:
        merged.notes["repeats of a query with equal gold are trials of its case"] += repeats
    return Report.build(merged, made, gates=gates), unmeasured


_GOLD = ("qrels", "gold", "evidence", "reference", "criterion", "answerable", "forbidden", "unsure")
_OF_CASE = ("query", "history", *_GOLD)
"""The fields of a sample that make up its case: the query and the gold."""


def _with_trials(ordered: Sequence[tuple[str, RecordedSample]]) -> tuple[list[BlockRows], int]:
    """Return the rows of each sample, and how many samples got the id of an earlier sample or another trial.

    Samples with equal queries and gold become trials of one case. `ordered` are pairs of a test's name and a
    sample. Raises InputError if one id has two queries or different gold.
    """
    id_of: dict[bytes, str] = {}
    case_of: dict[tuple[str, str, int], bytes] = {}
    parts, repeats = list[BlockRows](), 0
    for name, record in ordered:
        (sample,) = record.part.samples
        row = sample_to_json(sample)
        case = canonical([sample.system, {field: row.get(field) for field in _OF_CASE}])
        case_id, trial = id_of.setdefault(case, sample.id), sample.trial
        while case_of.get((case_id, sample.system, trial)) == case:
            trial += 1
        if (case_id, sample.system, trial) in case_of:
            problem = f"the test {name} recorded the id {sample.id!r}, which already has another query or other gold"
            raise InputError(problem, fix="give each query its own id=, or a system= or trial=")
        case_of[case_id, sample.system, trial] = case
        renamed = structs.replace(sample, id=case_id, trial=trial)
        repeats += renamed.key != sample.key
        named = {"sample": renamed.id, "trial": renamed.trial}
        judgements = (
            result_row(renamed, row.provenance["of"][-1], row.answer) if row.kind == GRADED else row
            for row in record.part.judgements
        )
        part = replace(
            record.part,
            samples=[renamed],
            judgements=JudgementTable(judgements),
            places=[structs.replace(row, **named) for row in record.part.places],
            scores=ScoreTable(structs.replace(score, **named) for score in record.part.scores),
        )
        parts.append(part)
    return parts, repeats
