"""The data of a report: samples, verdicts, labels and scores, and the means computed from them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import groupby
from math import fsum, inf
from operator import mul
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from germane.encoding import Line, internal
from germane.errors import InputError
from germane.folder.tables import Tables
from germane.measures.declaration import STRICT, Grader, verdict_of
from germane.measures.measure import Measure
from germane.places.lists import PlaceRow
from germane.reports.gates import GateResult, Verdict, decide
from germane.reports.summary import MeasureSummary, canonical_name, higher_is_better, slices_of, summarise
from germane.tables.cases import CaseScores
from germane.tables.judgements import JudgeLine
from germane.tables.labels import Label
from germane.tables.scores import Frame, SampleKey, to_frame
from germane.types import Json, Judgement, Sample, Score, freeze

__all__ = ["ReportData", "models_in"]

_FILE = re.compile(r"\.(json|jsonl|ndjson|csv|tsv|txt|eval)(\.gz|\.zst)?$")
"""The ending of a report file, which is not part of the report's name."""


CASE_SCORE = "score of each case"  # the gate of `execution: {threshold: 0.8}`
CaseVerdict = Literal["pass", "borderline", "fail", "undecided", "skipped"]
"""The verdict on a case over all of its graders."""


class CaseResult(Line, kw_only=True, rename=internal("undecided_required")):
    """The score of one sample over all graders, with its verdict.

    `score` is the weighted mean of the graders' scores, without skipped graders. It is null if a score could
    not be computed. If lower values of a measure are better, its scores are converted first, for example to 1
    - noise_sensitivity or 1 / (1 + leaks).

    `verdict` is null if the eval file declares no grader, `required` or threshold, because different measures
    have no common limit. It is "undecided" if a score is missing or a stand-in for a model judged.
    `failed_required` names the required graders whose score is below their threshold.
    """

    sample: str
    score: float | None
    verdict: CaseVerdict | None
    failed_required: Sequence[str] = ()
    system: str | UnsetType = UNSET
    trial: int | UnsetType = UNSET
    undecided_required: Sequence[str] = ()  # required graders without a score

    @property
    def key(self) -> SampleKey:
        """The key of the sample: its id, system and trial."""
        return self.sample, self.system or "", self.trial or 0

    @property
    def failed(self) -> bool:
        """True if the verdict on the case is "fail"."""
        return self.verdict == "fail"


def case_of(
    key: SampleKey, scores: Sequence[Score], graders: Mapping[str, Grader], open_to: Collection[str]
) -> CaseResult:
    """Return a case's score over all graders, and its verdict.

    `open_to` names measures judged by a stand-in for a model; a verdict that depends on them is undecided.
    """
    rows = [(score, graders.get(score.measure)) for score in scores]
    due = [(score, grader) for score, grader in rows if score.status != "skipped"]
    weights = [1.0 if grader is None else grader.weight for _, grader in due]
    values = [_good(grader, score.value) for score, grader in due if score.value is not None]
    mean = None
    if len(values) == len(due) and fsum(weights) > 0:
        mean = fsum(map(mul, weights, values)) / fsum(weights)
    below, strict = dict[str, bool | None](), set[str]()
    for score, grader in rows:
        if grader is not None and grader.required is not None:
            # undecided if missing verdicts leave both open
            ends = (score.value, score.value) if score.value is not None else score.bounds
            low, high = sorted(round(_good(grader, end), 12) for end in ends) if ends else (-inf, inf)
            limit = grader.required
            below[score.measure] = True if high < limit else False if low >= limit else None
        if grader is not None and grader.strict and (score.why or "").startswith(STRICT):
            strict.add(score.measure)
    least = next((grader.threshold for grader in graders.values() if grader.threshold is not None), None)
    if least is not None:
        below[CASE_SCORE] = None if mean is None else round(mean, 12) < least
    failed = tuple(name for name, is_below in below.items() if is_below)
    undecided = tuple(name for name, is_below in below.items() if is_below is None)
    unsure = {score.measure for score, _ in due}.intersection(open_to)
    verdict: CaseVerdict | None = None
    if any(grader.declares for grader in graders.values()):
        if {*failed, *strict} - unsure - ({CASE_SCORE} if unsure else set()):
            verdict = "fail"
        elif undecided or unsure or (due and mean is None):
            verdict = "undecided"
        elif mean is None:
            verdict = "skipped"
        else:
            verdict = verdict_of(mean)
    sample, system, trial = key
    named: dict[str, Json] = {"system": system, "trial": trial} if system or trial else {}
    required: dict[str, Json] = {"failed_required": failed, "undecided_required": undecided}
    return CaseResult(sample=sample, score=mean, verdict=verdict, **required, **named)


def _good(grader: Grader | None, value: float) -> float:
    return value if grader is None else grader.measure.definition.good(value)


def dump_grader(grader: Grader) -> dict[str, Json]:
    """Return a grader's declaration as the JSON object that manifest.json stores."""
    row = {field.name: getattr(grader, field.name) for field in fields(grader) if field.name != "by"}
    return {**row, "measure": str(grader.measure)}


def load_grader(row: Mapping[str, Json]) -> Grader:
    """Return the grader in a JSON object that `dump_grader` wrote."""
    return Grader(**{**row, "measure": Measure.remembered(row["measure"]), "options": freeze(row["options"])})


class ReportData:
    """The result of an evaluation: its tables, manifest, verdict, and a summary per measure and system.

    Attributes:
        folder: The report folder; None if the report is in memory.
        where: The path with which the report was opened.
        stopped: The reason why the evaluation stopped early; "" if it did not.
        corrections: The `Corrections` of the judged means; None without labels.
        given_name: The name set by the user.
        by: The tag or metadata field that defines the report's slices; None if it has no slices.
    """

    def __init__(
        self,
        tables: Tables,
        manifest: Mapping[str, Json],
        verdict: Verdict,
        summaries: Sequence[MeasureSummary],
        corrections: Any = None,
        *,
        stopped: str = "",
    ) -> None:
        self.tables, self.manifest, self.verdict, self.summaries = tables, manifest, verdict, tuple(summaries)
        self.folder, self.corrections = tables.folder, corrections
        self.where = str(self.folder or "")
        self.stopped = stopped
        self.by: str | None = manifest.get("by")
        self.given_name = ""

    @property
    def inputs(self) -> list[Path]:
        """The files of samples and labels that `germane run` read for this report."""
        options = self.manifest.get("options") or {}
        names = [*options.get("paths", ()), *filter(None, [options.get("labels")])]
        return [Path(self.manifest.get("cwd", ""), name) for name in names]

    @property
    def name(self) -> str:
        """The report's name in comparisons.

        It is the name set by the user, or else the name of the folder or file, or else "".
        """
        return self.given_name or _FILE.sub("", Path(self.where).name)

    @name.setter
    def name(self, name: str) -> None:
        self.given_name = name

    @cached_property
    def judge(self) -> JudgeLine:
        """The judge and its cost; `source` is None if no judge was asked."""
        return JudgeLine.stored(self.manifest.get("judge"))

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """The names of the measured systems, in order of appearance; ("",) if the only system has no name."""
        return tuple(dict.fromkeys(summary.system for summary in self.summaries)) or ("",)

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures as reported, in the order in which they were requested."""
        return tuple(dict.fromkeys(summary.measure for summary in self.summaries))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the reported names of the measures."""
        return iter(self.measures)

    def __contains__(self, name: object) -> bool:
        """Return True if the report has a summary of this measure, or of this pair (measure, system).

        Aliases of the measure's name are found too.
        """
        try:
            return isinstance(name, str | Measure | tuple) and bool(self[name])
        except KeyError:
            return False

    def __getitem__(self, name: str | Measure | tuple[str | Measure, str]) -> MeasureSummary:
        """Return the summary of a measure, or of a pair (measure, system). Raises KeyError if there is none.

        If only the measure is given, the first system's summary is returned.
        """
        measure, system = name if isinstance(name, tuple) else (name, None)
        names = {str(measure), canonical_name(str(measure))}
        for summary in self.summaries:
            if not names.isdisjoint({summary.measure, summary.type}) and system in {None, summary.system}:
                return summary
        have = ", ".join(self.measures) or "none"
        if system is not None and system not in self.systems:
            have = f"{have} of {', '.join(self.systems)}"
        raise KeyError(
            f"{measure} was not computed{f' for {system}' if system else ''}; computed measures: {have}"
        )

    def reported(self, measure: str) -> str:
        """Return a measure's reported name, given any of its names.

        Raises InputError if it was not computed.
        """
        try:
            return self[measure].measure
        except KeyError as error:
            raise InputError(str(error.args[0]), fix="name one of these") from None

    def slices(self, by: str) -> list[Slice]:
        """Return the slices of the cases defined by `by`, each with its summaries.

        `by` is a tag, a metadata field, or "tags" for one slice per tag. Raises InputError if no sample is in
        any slice.
        """
        numbers, case, slices = self.case_scores.numbers, self.case_scores.case, list[Slice]()
        for name, ids in slices_of(self.samples(), by).items():
            keep = np.flatnonzero(np.isin(case, [numbers[id_] for id_ in ids if id_ in numbers]))
            if summaries := [line.replace(slice=name) for line in self.summaries_of(keep)]:
                slices.append(Slice(name, summaries, keep))
        return slices

    def own_slices(self) -> tuple[list[Slice], str]:
        """Return (slices defined by the report's `by`, ""), or ([], reason) if there are none.

        The reason is "" if the report has no `by`.
        """
        if not self.by:
            return [], ""
        try:
            return self.slices(self.by), ""
        except InputError as error:
            return [], str(error)

    @cached_property
    def case_scores(self) -> CaseScores:
        """The scores grouped by system, measure and case; every mean is computed from them."""
        return CaseScores(self.tables.scores)

    @cached_property
    def files(self) -> tuple[Slice, ...]:
        """One slice per eval file, with the summaries over the cases of that file.

        It is empty unless several files ran.
        """
        slices, start, why = [], 0, "people's labels correct the mean over all files"
        for name, count in self.manifest.get("eval_files") or ():
            keep = np.arange(start, start + count, dtype=np.int64)
            slices.append(Slice(name, self.summaries_of(keep, why), keep))
            start += count
        return tuple(slices)

    def summaries_of(self, keep: NDArray[np.int64], why: str = "") -> list[MeasureSummary]:
        """Return the summaries over the samples with the indices `keep`; their means are not corrected.

        `why` is the reason that the summaries state for not being corrected.
        """
        bases = {(line.measure, line.type, line.system): line.basis for line in self.summaries}
        lines = summarise(self.case_scores, clusters=self.tables.clusters(), keep=keep)
        for line in lines:
            basis = bases[line.measure, line.type, line.system]
            line.basis = basis.replace(interval_note=line.basis.interval_note)
            line.corrected_why = why or None
        return lines

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of the report in input order."""
        return iter(self.tables.samples)

    def samples_of(self, keys: Collection[SampleKey]) -> dict[SampleKey, Sample]:
        """Return the samples with these keys (id, system, trial), by key.

        Keys without a sample are left out.
        """
        return {sample.key: sample for sample in self.tables.samples_of(keys)}

    def places(self) -> Iterator[PlaceRow]:
        """Yield a row for each passage, text or claim that was judged, with its rank, in input order."""
        return iter(self.tables.places)

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judge's verdicts, each with the model, prompt and price of its question."""
        return iter(self.tables.judgements)

    def labels(self) -> Iterator[Label]:
        """Yield all labels, each with the labelled item, the person and the time."""
        return iter(self.tables.labels)

    def scores(self) -> Iterator[Score]:
        """Yield the scores, ordered by sample (in input order) and then by measure."""
        return iter(self.tables.scores)

    def to_pandas(self) -> Frame:
        """Return a pandas DataFrame with one row per sample.

        The columns are id, query, system, trial, each measure's value, and `why`, the reasons for missing
        values.
        """
        return to_frame(self._columns(), "pandas")

    def to_polars(self) -> Frame:
        """Return the table of `to_pandas` as a polars DataFrame.

        Polars is installed with the extra `tables`.
        """
        return to_frame(self._columns(), "polars")

    def _columns(self) -> dict[str, Sequence[Json]]:
        rows: dict[SampleKey, dict[str, Json]] = {}
        for score in self.tables.scores:
            row = rows.setdefault(score.key, {})
            row[score.measure] = score.value
            if score.status != "ok":
                row.setdefault("", []).append(f"{score.measure}: {score.status}: {score.why}")
        queries = {sample.key: sample.query for sample in self.tables.samples}
        results: dict[str, Sequence[Json]] = {"sample": [key[0] for key in rows]}
        if queries:
            results["query"] = [queries.get(key) for key in rows]
        results |= {"system": [key[1] for key in rows], "trial": [key[2] for key in rows]}
        results |= {name: [row.get(name) for row in rows.values()] for name in self.measures}
        return results | {"why": ["; ".join(row.get("", ())) or None for row in rows.values()]}

    def add_note(self, count: int, note: str) -> None:
        """Add a note to the manifest; it is shown as `count` followed by `note`, such as "3 gold ids ..."."""
        self.manifest = {**self.manifest, "notes": {**self.manifest.get("notes", {}), note: count}}

    @property
    def left_out(self) -> str:
        """What --filter and --limit left out, as a clause for the line of a gate; "" if nothing."""
        counts = self.manifest.get("left_out", {})
        words = "; --filter left out {filter:,} of the cases" if "filter" in counts else ""
        words += "; --limit left out every case after the first {limit:,}" if "limit" in counts else ""
        return words.format(**counts)

    def decide(self, results: Sequence[GateResult]) -> None:
        """Set `verdict`, computed from the results of all gates and the proportion of missing scores."""
        if not self.manifest.get("allow_stand_in"):
            results = [result.without_stand_in() for result in results]
        limit, over = self.manifest.get("max_unmeasured", 0.05), self.manifest.get("over", "")
        self.verdict = decide(results, self.summaries, max_unmeasured=limit, over=over)

    def cases(self) -> Iterator[CaseResult]:
        """Yield the result of each sample over all its graders: score, verdict, failed required graders."""
        open_to = frozenset[str]() if self.manifest.get("allow_stand_in") else self.stand_ins
        for key, scores in groupby(self.scores() if self.grader_sets else (), key=lambda score: score.key):
            yield case_of(key, list(scores), self.graders_of(key), open_to)

    @cached_property
    def has_verdicts(self) -> bool:
        """True if cases have verdicts, because the eval file declares a grader, `required` or a threshold."""
        return any(grader.declares for graders in self.grader_sets for grader in graders.values())

    def decided_cases(self) -> Iterator[CaseResult]:
        """Return an iterator over the results of all cases if cases have verdicts, else over none."""
        return self.cases() if self.has_verdicts else iter(())

    def failed(self) -> list[CaseResult]:
        """Return the results of the failed cases, lowest score first."""
        failed = (case for case in self.decided_cases() if case.failed)
        return sorted(failed, key=lambda case: case.score or 0.0)

    @cached_property
    def stand_ins(self) -> frozenset[str]:
        """The reported names of measures judged by a stand-in for a model, such as the lexical judge."""
        return frozenset(line.measure for line in self.summaries if line.basis.stand_in)

    def graders_of(self, key: SampleKey) -> Mapping[str, Grader]:
        """Return the graders of a sample, by reported name."""
        return self.grader_sets[self._numbers.get(key, 0)] if self.grader_sets else {}

    @cached_property
    def _numbers(self) -> Mapping[SampleKey, int]:
        """The index in `grader_sets` of each sample's graders, by sample key; index 0 is left out."""
        return self.tables.grader_numbers() if len(self.grader_sets) > 1 else {}

    @cached_property
    def grader_sets(self) -> list[dict[str, Grader]]:
        """The distinct sets of graders; each maps reported names to graders."""
        sets = self.manifest.get("graders") or ()
        return [{row["name"]: load_grader(row) for row in rows} for rows in sets]

    def worst(self, measure: str | Measure, n: int = 10, system: str | None = None) -> list[Score]:
        """Return the `n` worst scores of a measure, worst first; equal scores are in input order.

        If lower values of the measure are better, the worst scores are the highest.
        """
        if n < 0:
            raise InputError(f"n is {n!r}, not a number of scores", fix="write n=10")
        summary = self[measure] if system is None else self[measure, system]
        rows = self.tables.scores.rows_of((summary.measure, summary.type), system)
        value = self.tables.scores.taken(rows).value
        order = np.argsort(value if higher_is_better(summary.type) else -value, kind="stable")
        return list(self.tables.scores.rows(rows[order[:n]].tolist()))


@dataclass(frozen=True, slots=True)
class Slice:
    """A group of cases, by tag, metadata field or eval file.

    `summaries` are over the cases of the group, and `keep` contains the indices of their samples.
    """

    name: str
    summaries: Sequence[MeasureSummary]
    keep: NDArray[np.int64] = field(repr=False)


def models_in(identity: Mapping[str, Json]) -> Iterator[str]:
    """Yield the models that a judge asks, or that a panel's members ask, given its identity."""
    if identity.get("model"):
        yield str(identity["model"])
    for member in identity.get("panel") or ():
        yield from models_in(member)
