"""Diagnose one system's retrieval from stored labels: what would raise a measure, and what failed.

No judge is asked.

The changes are the retrieved documents in their best order, all relevant documents on top, another cut-off k,
and irrelevant passages dropped. The effect of each change is a paired difference over the same queries. The
effect of a perfect step is a limit: the most that a real step could gain. Another cut-off has its effect on
these lists.

Three measures tell for each wrong answer whether retrieval or generation failed: context_recall (do the
contexts contain the reference's claims), nugget_recall(text=response) (does the response state these claims)
and faithfulness (do the contexts support the response). For a query, the answer is yes if the measure's value is
at least one half.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import fsum
from typing import Any, Literal, TypeAlias, TypeGuard, get_args

import numpy as np
from msgspec import UNSET, UnsetType
from rich.console import RenderableType
from rich.text import Text

from germane.clean import clean, counted, shorten, some_of
from germane.encoding import Line, batched, json_of
from germane.errors import InputError
from germane.judging.stored_answers import BLOCK, StoredAnswers
from germane.measures.bounds import least_level, open_holes, sample_means
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome, applicable
from germane.measures.scoring import outcomes_of
from germane.places.lists import Settings
from germane.places.places import Places
from germane.places.table import Floats, RankedLabels
from germane.reports.data import ReportData
from germane.reports.explain import settings_of
from germane.reports.summary import (
    LIKE_THESE,
    in_digits,
    interval_in_words,
    is_diagnostic,
    known_measure,
    p_in_words,
)
from germane.show.table import Stack, Table
from germane.statistics.intervals import SAME, IntervalEnds, mean_interval
from germane.statistics.systems import holm, paired_difference
from germane.types import Json, Sample

_Changed: TypeAlias = tuple["ChangeRow", Floats]
"""A change, and the measure's value for each sample after the change."""
_DEPTHS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000)
HALF = 0.5
"""The smallest value of each of the three measures that counts as yes."""
_NEEDED = ("context_recall", "nugget_recall(text=response)", "faithfulness")
BlameKind: TypeAlias = Literal["answered", "not_retrieved", "ignored", "unsupported", "unknown"]
"""The outcome of a query; `BlameLine` explains each."""
_Case: TypeAlias = tuple[Sample, list[Outcome]]  # a sample with the outcomes of the three measures


_SHOWN = 10  # the number of queries shown per system
_WORDS: dict[BlameKind, str] = {
    "answered": "answered from the contexts",
    "not_retrieved": "not retrieved",
    "ignored": "retrieved and ignored",
    "unsupported": "answered without support",
    "unknown": "unknown",
}


class ChangeRow(Line):
    """One change of the lists: the measure's mean after the change, and the paired difference from before.

    `limit` is true if the change is a perfect step, so that a real step gains at most this. `k` is the new
    cut-off, `dropped` the proportion of passages that the change drops. `p_holm` is adjusted over the
    changes.
    """

    change: str
    kind: Literal["rerank", "ideal", "k", "filter"]
    limit: bool
    k: int | None
    dropped: float | None
    mean: float | None
    difference: float | None
    interval: IntervalEnds | None
    p: float | None
    p_holm: float | None
    wins: int
    ties: int
    losses: int


class GainRow(Line):
    """A query that would gain from a change: its current `value`, the best change, and the gain."""

    sample: str
    trial: int
    query: str
    value: float
    change: str
    gain: float


class BlameLine(Line):
    """The queries with one outcome: their number, their proportion of all queries (`share`), and their ids.

    A query whose trials have several outcomes is named in each, and counts in `share` by its trials.
    The outcomes are `answered`: the response states the answer, and the contexts support it. `not_retrieved`:
    neither the response nor the contexts contain the answer. `ignored`: the contexts contain the answer, but
    the response does not. `unsupported`: the response states the answer, but the contexts do not support the
    response. `unknown`: a verdict is missing; `add` names the measures whose verdicts are missing.
    """

    count: int
    share: float
    interval: IntervalEnds | None
    queries: list[str]
    add: list[str] | UnsetType = UNSET


Blame: TypeAlias = dict[BlameKind, BlameLine]
"""The queries with a reference and a response, by outcome."""


class SystemDiagnosis(Line, kw_only=True):
    """The diagnosis of one system: the changes that would raise a measure, and whether retrieval failed.

    `n` of the system's `total` cases have a value of the measure. `measure` and `mean` are null if the
    report has no ranked measure. `blame` says, for the queries with a reference and a response, whether
    retrieval or generation failed; it is null if there are no such queries. For one system `germane diagnose
    --json` prints this record with a `schema_version`. For several systems it prints a list of these records
    as `systems`.
    """

    schema_version: Literal[1] | UnsetType = UNSET
    system: str | UnsetType = UNSET
    measure: str | None = None
    n: int = 0
    total: int
    mean: float | None = None
    changes: Sequence[ChangeRow] = ()
    queries: Sequence[GainRow] = ()
    notes: Sequence[str] = ()
    blame: Blame | None = None


def diagnose(report: ReportData, measure: str | Measure | None = None) -> list[SystemDiagnosis]:
    """Return the changes that would help each system of a report, by one ranked measure.

    If `measure` is None, the report's first ranked measure is used. If the report has no ranked measure, no
    changes are computed, but its verdicts may still show whether retrieval or generation failed.

    Raises:
        InputError: The measure is not a ranked measure of quality, or the report lacks the labels that it
            needs.
    """
    labels = settings_of(report), StoredAnswers(report.tables.judgements)
    blames = _blames(report, *labels)
    try:
        diagnoses = list(_diagnoses(report, measure, *labels))
    except InputError:
        if measure is not None or not any(map(is_shown, blames.values())):
            raise
        sizes = Counter(system for system, _ in {(sample.system, sample.id) for sample in report.samples()})
        diagnoses = [SystemDiagnosis(system=system, total=total) for system, total in sizes.items()]
    for diagnosis in diagnoses:
        diagnosis.blame = blames.get(str(diagnosis.system))
    return diagnoses


def _diagnoses(
    report: ReportData, asked: str | Measure | None, settings: Settings, answers: StoredAnswers
) -> Iterator[SystemDiagnosis]:
    """Yield the diagnosis of each system by the `asked` measure, or the first ranked one of quality."""

    def ranks(measure: Measure) -> bool:
        quality = not is_diagnostic(str(measure)) and measure.definition.better == "higher"
        return measure.definition.family == "ranked" and quality

    if asked is None:
        measure = next(filter(ranks, _measures_of(report)), None)
        problem = f"the report has no ranked measure (its measures: {', '.join(report.measures) or 'none'})"
    else:
        measure = (asked if isinstance(asked, Measure) else Measure.parse(asked)).require_cutoff()
        problem = f"{measure} is not a ranked measure, or does not measure quality"
    if measure is None or not ranks(measure):
        raise InputError(problem, fix="name a ranked measure, e.g. -m nDCG@10")
    systems: dict[str, list[Sample]] = {}
    for sample in report.samples():
        systems.setdefault(sample.system, []).append(sample)
    if not systems:
        problem = f"{report.where or 'the report'} has no samples, which the diagnosis needs"
        raise InputError(problem, fix="name the folder that `germane run` wrote")
    listed = {system: _Lists(measure, samples, settings, answers) for system, samples in systems.items()}
    if not any(lists.samples for lists in listed.values()):
        whys = dict.fromkeys(why for lists in listed.values() for why in lists.left)
        problem = f"{measure} cannot be computed for any sample: {'; '.join(whys)}"
        raise InputError(problem, fix="name a measure for which the report has labels, e.g. -m nDCG@10")
    for system, lists in listed.items():
        if lists.samples:
            yield lists.diagnosis(system, len({sample.id for sample in systems[system]}))


def _by_case(samples: Sequence[Sample]) -> tuple[dict[str, str], Callable[[Floats], Floats]]:
    """Return the cluster of each case, and a function that averages values over the trials of each case."""
    clusters = {sample.id: sample.id if sample.cluster is None else sample.cluster for sample in samples}
    number = {name: at for at, name in enumerate(clusters)}
    cases = [number[sample.id] for sample in samples]
    return clusters, lambda values: np.bincount(cases, values) / np.bincount(cases)


class _Lists:
    """The labelled lists of one system's samples, on which a measure is computed before and after each change."""

    def __init__(
        self, measure: Measure, samples: Iterable[Sample], settings: Settings, answers: StoredAnswers
    ) -> None:
        self.measure, self.left, self.notes = measure, dict[str, None](), list[str]()
        self.places = places = Places(measure.choice, settings)
        for sample in samples:
            if refused := applicable(measure, sample, settings):
                self.left[refused.why or "the measure does not apply to the sample"] = None
            else:
                places.add([sample])
        answers.label(places)
        self.table = places.table
        missing = places.missing_in(measure.depth, holes=open_holes(measure))
        if missing.any():
            self.left["the sample has passages without a label"] = None
        self.counted = np.flatnonzero(~missing)
        self.samples = [places.samples[row] for row in self.counted.tolist()]
        clusters, self.per_case = _by_case(self.samples)
        self.clusters = [*clusters.values()]

    def diagnosis(self, system: str, total: int) -> SystemDiagnosis:
        now = self.values(self.measure, self.table)
        changes = list(self.changes(now))
        rows = [row for row, _ in changes]
        for row, p in zip(rows, holm([row.p or 0.0 for row in rows]), strict=True):
            row.p_holm = None if row.p is None else p
        return SystemDiagnosis(
            system=system,
            measure=str(self.measure),
            n=len(self.clusters),
            total=total,
            mean=float(self.per_case(now).mean()),
            changes=rows,
            queries=list(self.gains(now, changes)),
            notes=self.notes,
        )

    def values(self, measure: Measure, table: RankedLabels) -> Floats:
        """Return a measure's value for each sample whose labels are complete, from the labels in `table`."""
        return sample_means(measure, table.within(measure.depth), self.places.rows)[self.counted]

    def changes(self, now: Floats) -> Iterator[_Changed]:
        """Yield each change with the values after it; changes that cannot be computed become notes."""
        measure, table = self.measure, self.table
        reranked = self.values(measure, table.reranked())
        yield self.change(now, reranked, "rerank", "perfect reranking of the retrieved documents")
        if measure.labels == "gold" and measure.settings.get("ideal", "all") == "all":
            ideal = self.values(measure, table.ideal)
            yield self.change(now, ideal, "ideal", "all relevant documents retrieved and ranked first")
        k, length = measure.k, int(table.length.max(initial=0))
        others = [depth for depth in _DEPTHS if depth <= length] if isinstance(k, int) else []
        if not isinstance(k, int):
            self.notes.append(f"{measure} has no cut-off k, so no other k was tried")
            k = 0
        below, above = [other for other in others if other < k], [other for other in others if other > k]
        for depth in (*below[-2:], *above[:3]):  # as far down as the lists have labels
            other = measure @ depth
            if other.labels != "gold" and self.places.missing_in(depth, holes=True)[self.counted].any():
                why = f"not every passage down to rank {depth} has a label"
                self.notes.append(f"k = {depth} was not tried: {why}")
                break
            yield self.change(now, self.values(other, table), "k", f"k = {depth} instead of {k}", k=depth)
        mask = table.judged if measure.labels != "gold" else np.ones(len(table.gain), np.bool_)
        useless = mask & (table.level < least_level(measure))
        share = float(useless.mean()) if len(useless) else 0.0
        kept = self.values(measure, table.kept(~useless))
        yield self.change(now, kept, "filter", "irrelevant passages removed", dropped=share)

    def change(self, before: Floats, after: Floats, kind: Any, change: str, **more: float) -> _Changed:
        """Return the row of a change that turns the values `before` into `after`, together with `after`."""
        both, ends = map(self.per_case, (before, after)), self.measure.definition.range
        by = paired_difference(*both, clusters=self.clusters, value_range=ends)
        if (note := by.interval.note) and note not in self.notes:
            self.notes.append(note)
        numbers = {name: getattr(by, name) for name in ("difference", "p", "wins", "ties", "losses")}
        fields: dict[str, Any] = {"k": None, "dropped": None, **more, "limit": kind != "k", "p_holm": None}
        row = ChangeRow(change, kind, mean=by.mean_b, interval=by.interval.ends, **fields, **numbers)
        return row, after

    def gains(self, before: Floats, changes: Sequence[_Changed]) -> Iterator[GainRow]:
        """Yield the queries that gain from reordering or dropping passages, else from retrieving all gold."""
        kept = [(row.change, after - before) for row, after in changes if row.kind not in {"k", "ideal"}]
        if not any((gain > SAME).any() for _, gain in kept):
            kept = [(row.change, after - before) for row, after in changes if row.kind == "ideal"]
        if not kept:
            return
        gained = np.stack([gain for _, gain in kept])
        most = gained.max(axis=0)
        for row in np.argsort(-most, kind="stable").tolist():
            if most[row] <= SAME:
                return
            sample, (change, _) = self.samples[row], kept[int(gained[:, row].argmax())]
            yield GainRow(sample.id, sample.trial, sample.query, float(before[row]), change, float(most[row]))


def is_shown(blame: Blame | None) -> TypeGuard[Blame]:
    """Return True if at least one of the three measures has stored verdicts for all queries of `blame`."""
    return blame is not None and len(blame["unknown"].add or ()) < len(_NEEDED)


def _blames(report: ReportData, settings: Settings, answers: StoredAnswers) -> dict[str, Blame]:
    """Return, for each system, its queries by outcome (e.g. not retrieved), from stored verdicts.

    Queries without a reference or a response are left out. A system without other queries is left out too.
    """
    own = {(known.name, known.settings.get("text")): known for known in reversed(_measures_of(report))}
    needed = map(Measure.parse, _NEEDED)  # with their parameters in the report, if it has them
    measures = [own.get((measure.name, measure.settings.get("text")), measure) for measure in needed]
    cases = defaultdict[str, list[_Case]](list)
    answered = (sample for sample in report.samples() if sample.reference and sample.response)
    samples = (sample for sample in answered if sample.answerable is not False and not sample.failed)
    for chunk in batched(samples, BLOCK):
        results = outcomes_of(measures, chunk, settings, answers.values)
        for sample, outcomes in zip(chunk, results, strict=True):
            cases[sample.system].append((sample, outcomes))
    blames = dict[str, Blame]()
    for system, of_system in cases.items():
        kinds = np.array([_kind_of(outcomes) for _, outcomes in of_system])
        clusters, per_case = _by_case([sample for sample, _ in of_system])
        blame = blames[system] = {}
        for kind in get_args(BlameKind):
            marked = per_case(kinds == kind)
            ends = mean_interval(marked, clusters=[*clusters.values()], value_range=(0.0, 1.0)).ends
            ids = [name for name, share in zip(clusters, marked, strict=True) if share]
            blame[kind] = BlameLine(len(ids), float(marked.mean()), ends, ids)
        both = zip(measures, zip(*(outcomes for _, outcomes in of_system), strict=True), strict=True)
        blame["unknown"].add = [str(measure) for measure, column in both if not _are_known(column)]
    return blames


def _measures_of(report: ReportData) -> list[Measure]:
    """Return the report's measures that germane defines, without graders from elsewhere."""
    return list(filter(None, (known_measure(report[name].type) for name in report.measures)))


def _are_known(outcomes: Iterable[Outcome]) -> bool:
    """Return True if each outcome has its verdicts, or was skipped because the response makes no claims."""
    return all(outcome.status in {"ok", "skipped"} for outcome in outcomes)


def _kind_of(outcomes: Sequence[Outcome]) -> BlameKind:
    held, stated, faithful = outcomes
    if not _are_known(outcomes) or held.value is None or stated.value is None:
        return "unknown"
    answered = stated.value >= HALF
    # Of the claims that the response states (or lacks, if it is wrong), the proportion that the contexts
    # contain. It is over all claims if the sample has nuggets of its own, because these are other claims.
    wanted = {item.text for item in stated.items if bool(item.held) is answered}
    same = [float(bool(item.held)) for item in held.items if item.text in wanted]
    retrieved = (fsum(same) / len(same) if same else held.value) >= HALF
    if not answered:
        return "ignored" if retrieved else "not_retrieved"
    supported = retrieved and (faithful.value is None or faithful.value >= HALF)
    return "answered" if supported else "unsupported"


def diagnosis_page(systems: Sequence[SystemDiagnosis]) -> Json:
    """Return the diagnoses as JSON for the report's HTML page, with `blame` replaced by one line of text.

    `blame` says whether retrieval or generation failed; it is null if too few verdicts are stored.
    """
    rows = json_of(systems)
    for row, system in zip(rows, systems, strict=True):
        row["blame"] = blame_in_words(system.blame) if is_shown(system.blame) else None
    return rows


def render_diagnosis(systems: Sequence[SystemDiagnosis]) -> RenderableType:
    """Return each system's diagnosis for a rich console: the changes that would help, and what failed."""
    return Stack(line for diagnosis in systems for line in _helps(diagnosis))


def _helps(diagnosis: SystemDiagnosis) -> Iterator[RenderableType]:
    if diagnosis.system:
        yield Text(f"\n{clean(diagnosis.system)}", style="bold")
    if diagnosis.mean is not None:
        measured = "" if diagnosis.n == diagnosis.total else f"{diagnosis.n:,} of "
        over = f"{measured}{counted(diagnosis.total, 'query')}"
        heads = ["change", "", "mean", "difference", "interval", "p (Holm)", "win/tie/loss", "drops"]
        title = f"{diagnosis.measure} is {diagnosis.mean:.4f} over {over}; what would change it"
        notes = [
            f"paired differences with 95% confidence intervals ({LIKE_THESE})",
            "at most: the gain of a perfect step",
        ]
        table = Table(heads, "llr", title=title, notes=notes)
        for line in diagnosis.changes:
            names = [line.change, "at most" if line.limit else ""]
            change = [in_digits(line.difference, "+"), interval_in_words(line.interval, sign="+")]
            counts = f"{line.wins}/{line.ties}/{line.losses}"
            dropped = "" if line.dropped is None else f"{line.dropped:.0%}"
            table.add([*names, in_digits(line.mean), *change, p_in_words(line.p_holm), counts, dropped], {3})
        yield table
        gains = Table(
            ["query", "text", "change", "now", "gain"], "lllr", title="queries with the largest gain"
        )
        if (more := len(diagnosis.queries) - _SHOWN) > 0:
            gains.notes.append(f"and {more:,} more: --json lists them")
        for query in diagnosis.queries[:_SHOWN]:
            name = shorten(query.sample, 40) + (f" #{query.trial}" if query.trial else "")
            asked, gain = shorten(query.query, 40), in_digits(query.gain, "+")
            gains.add([name, asked, query.change, in_digits(query.value), gain])
        if gains.rows:
            yield gains
    if is_shown(diagnosis.blame):
        yield Text(clean(blame_in_words(diagnosis.blame)))
        failed: tuple[BlameKind, ...] = ("not_retrieved", "ignored", "unsupported")
        for name in failed:
            if diagnosis.blame[name].count:
                first = some_of(diagnosis.blame[name].queries, 5)
                yield Text(clean(f"  {_WORDS[name]}: {first}"))
    yield from (Text(f"note     {clean(note)}") for note in diagnosis.notes)


def blame_in_words(blame: Blame) -> str:
    """Return one line with each outcome's proportion and interval, and the measures that lack verdicts."""
    missing = blame["unknown"].add or () if blame["unknown"].count else ()
    command = f"germane run --resume REPORT -m 'ITS MEASURES {' '.join(missing)}'"  # -m replaces its measures
    add = f"; verdicts of {' and '.join(missing)} are missing: {command}" if missing else ""
    if blame["unknown"].share == 1:
        return f"retrieval or generation: unknown{add}"
    parts = []
    for name, line in blame.items():
        if line.count:
            ends = f", {line.interval[0]:.0%} to {line.interval[1]:.0%}" if line.interval else ""
            parts.append(f"{_WORDS[name]} {line.count} ({line.share:.0%}{ends})")
    return f"retrieval or generation: {', '.join(parts)}{add}"
