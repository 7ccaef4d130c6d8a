"""Slices of the cases: those with a tag, or with one value of a field of their metadata; each with its own summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.schema import SliceLine
from germane.reports.summary import MeasureSummary, summarise
from germane.types import Sample

__all__ = ["Slice", "slice_lines", "sliced", "slices_of"]

_TAGS = ("tag", "tags")


@dataclass(frozen=True, slots=True)
class Slice:
    """The cases that a name stands for, and the summary of each measure over them."""

    name: str
    summaries: Sequence[MeasureSummary]


def slices_of(samples: Iterable[Sample], by: str) -> dict[str, set[str]]:
    """The ids of the cases of each slice, by its name.

    `by` is "tags" (each tag is a slice), a field of the metadata (each of its values), what stands before the colon in
    tags (`lang` for `lang:de`), or one tag (the cases with it, and those without). InputError where it is none of these.
    """
    tags: dict[str, set[str]] = {}
    fields: dict[str, dict[str, set[str]]] = {}
    everything: dict[str, None] = {}
    for sample in samples:
        everything[sample.id] = None
        for tag in sample.tags:
            tags.setdefault(tag, set()).add(sample.id)
            name, colon, value = tag.partition(":")
            if colon:
                fields.setdefault(name, {}).setdefault(value, set()).add(sample.id)
        for name, value in sample.metadata.items():
            if isinstance(value, str | int | float | bool):
                fields.setdefault(name, {}).setdefault(str(value), set()).add(sample.id)
    if by in fields:
        return {f"{by}={value}": cases for value, cases in sorted(fields[by].items())}
    if by in tags:
        return {by: tags[by], f"not {by}": set(everything) - tags[by]}
    if by in _TAGS and tags:
        return dict(sorted(tags.items()))
    if not everything:
        raise InputError("there are no samples to slice by", fix="slice the report folder of germane run")
    have = f"tags: {', '.join(sorted(tags)[:10]) or 'none'}; metadata: {', '.join(sorted(fields)[:10]) or 'none'}"
    raise InputError(f"no sample has the tag or metadata {by!r}", fix=have)


def sliced(report: ReportData, by: str) -> list[Slice]:
    """The summaries of a report's measures over each slice; InputError where there is none of that name."""
    table, clusters = report.tables.scores, report.tables.clusters()
    samples = table.samples
    found = []
    for name, cases in slices_of(report.samples(), by).items():
        keep = np.array([key[0] in cases for key in samples], np.bool_)
        summaries = [
            replace(line, basis=report[line.measure, line.system].basis)
            for line in summarise(table, clusters=clusters, keep=keep)
        ]
        if summaries:
            found.append(Slice(name, summaries))
    return found


def slice_lines(slices: Iterable[Slice]) -> list[SliceLine]:
    """The slices as scripts read them: one line per slice and system."""
    lines: list[SliceLine] = []
    for one in slices:
        systems = dict.fromkeys(summary.system for summary in one.summaries)
        lines += [
            {
                "slice": one.name,
                "system": system,
                "measures": {s.measure: s.as_json() for s in one.summaries if s.system == system},
            }
            for system in systems
        ]
    return lines
