"""Whose labels each mean is computed from, and the means corrected with people's labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import fsum
from typing import TYPE_CHECKING

from germane.errors import InputError
from germane.folder.tables import Tables
from germane.measures.declaration import belonging_to
from germane.measures.measure import UNKNOWN, Declared, Measure, declared, define
from germane.places.table import Source
from germane.reports.summary import Basis, MeasureSummary, Sampled, known_measure, summarise
from germane.tables.judgements import JUDGE_COUNTS, AskedCounts, JudgeLine
from germane.tables.labels import LabelBook
from germane.types import FrozenDict, Json

if TYPE_CHECKING:
    from germane.reports.correct import Corrections

__all__ = ["judge_in_all", "panel_notes"]

_USUAL = Declared((0.0, 1.0), higher=True)
_STATED: dict[str, Declared] = {}
"""The range and direction of each measure of a file that is not loaded, as the opened reports declare it."""


def summaries_of(
    tables: Tables, manifest: Mapping[str, Json], *, corrected: bool = True
) -> tuple[list[MeasureSummary], Corrections | None]:
    """Return a summary per measure and system, and the `Corrections` of judged means; None without labels."""
    stated = {text.rpartition(" [")[0]: declared(text) for text in manifest.get("declared", ())}
    if tables.is_complete:  # what it does not declare has the usual range
        stated = {**dict.fromkeys((name for _, name in tables.scores.measures), _USUAL), **stated}
    for name, own in stated.items():
        unknown = Measure.remembered(name).definition
        if unknown.formula == UNKNOWN and own is not None and declared(name) is None:
            if (other := _STATED.setdefault(name, own)) != own:
                problem = f"two reports declare {name} differently:{own.type_of('')} and{other.type_of('')}"
                fix = "run or score both with the same definition, or give one measure another name"
                raise InputError(problem, fix=fix)
            define(replace(unknown, range=own.range, better=own.better))
    corrections, summaries = None, list[MeasureSummary]()
    labelled, mixed = cache(lambda: _labelled(tables)), cache(lambda: _mixed(tables))  # read once, if at all
    for line in summarise(tables.scores, clusters=tables.clusters()):
        basis = basis_of(tables, manifest, line, labelled, mixed)
        mean, why = None, ""
        if basis.source == "judge":
            why = "nothing was measured" if line.mean is None else "no human labels"
            if len(tables.labels):
                from germane.reports import correct  # not at the top: `germane rank` asks no questions

                corrections = corrections or correct.Corrections(tables, manifest)
                mean, why = corrections.corrected_mean(line) if corrected else (None, why)
                basis = basis.replace(calibrated=basis.calibrated or mean is not None)
        sampled = Sampled(**drawn) if (drawn := manifest.get("sampled")) else None
        summaries.append(line.replace(basis=basis, corrected=mean, corrected_why=why, sampled=sampled))
    return summaries, corrections


def basis_of(
    tables: Tables,
    manifest: Mapping[str, Json],
    line: MeasureSummary,
    labelled: Callable[[], int],
    mixed: Callable[[], float | None],
) -> Basis:
    """Return the basis of a system's mean, that is, whose labels it is computed from."""
    canonical, measure, judge = line.type, known_measure(line.type), JudgeLine.stored(manifest.get("judge"))
    reads, asked = manifest.get("reads") or {}, manifest.get("asked") or {}
    source: Source = "judge"
    if measure is not None and measure.definition.family == "ranked":
        source = measure.labels
    elif measure is None:  # its file is not loaded; a document of scores does not say what was asked
        source = "judge" if reads.get(canonical) or "reads" not in manifest else "gold"
    elif not measure.definition.asks:
        source = "judge" if measure.definition.family == "graded" and reads.get(canonical) else "gold"
    if source == "judge" and measure is not None:  # the judges `labels` and `gold` repeat people's and gold's
        answered: dict[str, Source] = {"labels": "human", "gold": "gold"}
        source = answered.get(str(judge.identity.get("judge") or judge.source or ""), source)
    outdated = tables.labels_added() and Measure.remembered(canonical).labels in {"human", "best"}
    note = line.basis.interval_note
    if source in {"gold", "human"}:
        means = (manifest.get("beside") or {}).get(line.system) or {}
        own = {name for _, name in tables.scores.measures} if means else set()
        names = [str(measure) for measure in belonging_to([Measure.parse(canonical)])] if means else ()
        beside = {name: means[name] for name in names if name in means and name not in own}
        return Basis(source=source, beside=FrozenDict(beside), outdated=outdated, interval_note=note)
    kinds = reads.get(canonical) or (["relevance"] if source == "best" else list(asked))
    counts = [asked[kind] for kind in kinds if kind in asked]
    models, modes = (
        FrozenDict(sum((Counter(count.get(name, {})) for count in counts), Counter[str]()))
        for name in ("model", "mode")
    )
    references = {"with_reference", "without_reference"}
    of_measure = (manifest.get("references") or {}).get(canonical)
    with_counts = [of_measure] if of_measure else [count for count in counts if references & count.keys()]
    return Basis(
        source=source,
        calibrated=False,
        models=models,
        modes=modes,
        fused=sum(count.get("fused", 0) for count in counts),
        **{name: sum(count.get(name, 0) for count in with_counts) for name in references if with_counts},
        mixed=mixed() if source == "best" else None,
        labels=labelled(),
        stand_in=bool(judge.stand_in) and set(kinds) != {"script"},
        outdated=outdated,
        interval_note=note,
    )


def _labelled(tables: Tables) -> int:
    """Return the number of people's labels; labels without an answer are not counted."""
    answers = {(label.item, label.who): label.answer for label in tables.labels}
    return sum(answer is not None for answer in answers.values())


def _mixed(tables: Tables) -> float | None:
    """Return the proportion of passages labelled by people among all labelled or judged ones, or None."""
    book = LabelBook(tables.labels)
    labels = [label for label in tables.labels if label.kind == "relevance" and label.item in book]
    people = len({(label.sample, label.system, label.call, label.rank) for label in labels})
    labelled = {label.item for label in labels}
    judged = sum(row.kind == "relevance" and row.item not in labelled for row in tables.places)
    return people / (people + judged) if people + judged else None


def judge_in_all(entries: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Join entries on the judge: counts and costs are summed (None if unknown), the rest is the first's."""
    counts = {name: sum(entry[name] for entry in entries) for name in JUDGE_COUNTS}
    tokens = {name: sum(entry["tokens"][name] for entry in entries) for name in ("input", "output")}
    costs = [entry["cost_usd"] for entry in entries]
    return {
        **entries[0],
        **counts,
        "tokens": tokens,
        "estimated": any(entry["estimated"] for entry in entries),
        "cost_usd": None if None in costs else sum(costs),
    }


def panel_notes(asked: AskedCounts) -> dict[str, int]:
    """Return {note on how far a panel of judges agreed: number of questions}; {} without a panel."""
    panel = sum(n for (_, field, _), n in asked.items() if field == "panel")
    if not panel:
        return {}
    voted = [(float(value), n) for (_, field, value), n in asked.items() if field == "agreement"]
    lost = sum(n for (_, field, _), n in asked.items() if field == "failed")
    mean = fsum(value * n for value, n in voted) / sum(n for _, n in voted) if voted else 0.0
    words = f"mean agreement {mean:.2f}" if voted else "no question was put to a vote"
    others = f"{lost} without the answer of a member" if lost else "every member answered"
    return {f"questions to the panel: {words}, {others}": panel}
