"""What a report's charts show: measures by cut-off, relevance by rank, differences per query, score against cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import fsum
from pathlib import Path

import numpy as np

from germane.clean import clean
from germane.errors import InputError, MissingPart
from germane.judging.driver import replay
from germane.measures.measure import Measure
from germane.measures.scoring import Block, Job, graders_of
from germane.reports.data import ReportData
from germane.reports.explain import recorded, settings_of
from germane.reports.explain import strips as strips_of
from germane.reports.plots.svg import (
    LEFT,
    RIGHT,
    SERIES,
    WIDTH,
    Chart,
    Frame,
    document,
    marker,
    polyline,
    tag,
    text,
)
from germane.reports.summary import range_of
from germane.statistics.comparison import paired_difference
from germane.tables.cases import CaseScores
from germane.types import Sample

_DEEPEST = 20
"""The last rank and cut-off that is drawn."""
_CUTOFFS = (1, 2, 3, 4, 5, 7, 10, 15, 20)
"""The cut-offs that are computed, beside those of the report."""
_MOST_SERIES = len(SERIES)
_MOST_POINTS = 3_000
_BYTES_PER_TOKEN = 4


def cutoffs(report: ReportData) -> Iterator[Chart]:
    """The mean of each measure with a cut-off, at every cut-off as deep as it was measured.

    A chart of all measures, or with several systems a chart per measure. Reports without samples (of a ranking) are drawn
    from the cut-offs that they hold.
    """
    found = _measured_at(report)
    curves = {
        name: {system: points for system, points in systems.items() if len(points) > 1}
        for name, systems in found.items()
    }
    if len(report.systems) > 1:
        for name, systems in curves.items():
            if systems:
                yield _curves(f"{name} by cut-off", list(systems.items()))
    elif lines := [(name, points) for name, systems in curves.items() for points in systems.values()]:
        yield _curves("Measures by cut-off", lines)


def _measured_at(report: ReportData) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """(cut-off, mean) by the name of the measure without its cut-off, and by system."""
    at: dict[str, dict[str, dict[int, float]]] = {}
    deepest: dict[str, tuple[Measure, int]] = {}
    for summary in report.summaries:
        try:
            measure = Measure.parse(summary.type)
        except InputError:
            continue
        k = measure.cutoff
        if measure.definition.family != "ranked" or not isinstance(k, int) or summary.mean is None:
            continue
        name = str(measure).rpartition("@")[0]
        at.setdefault(name, {}).setdefault(summary.system, {})[k] = summary.mean
        if name not in deepest or k > deepest[name][1]:
            deepest[name] = measure, min(k, _DEEPEST)
    samples = list(report.samples()) if deepest else []
    if samples:
        wanted = [measure @ k for measure, most in deepest.values() for k in _CUTOFFS if k <= most]
        for (system, canonical), mean in _means(report, samples, wanted).items():
            name, _, k_text = canonical.rpartition("@")
            at[name].setdefault(system, {}).setdefault(int(k_text), mean)
    return {name: {system: sorted(means.items()) for system, means in of.items()} for name, of in at.items()}


def _means(
    report: ReportData, samples: Sequence[Sample], measures: Sequence[Measure]
) -> dict[tuple[str, str], float]:
    """The mean of each of these measures over each system's samples, by (system, canonical name); nobody is asked."""
    graders = graders_of(tuple(measures))
    block = Block([Job(sample=sample, graders=graders) for sample in samples], settings_of(report))
    answers = recorded(report)
    outcomes = block.outcomes([replay(program, answers.look_up)[0] for program in block.programs])
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for sample, row in zip(samples, outcomes, strict=True):
        for name, outcome in row.items():
            if outcome.value is not None:
                values.setdefault((sample.system, name), {}).setdefault(sample.id, []).append(outcome.value)
    return {
        key: fsum(fsum(trials) / len(trials) for trials in cases.values()) / len(cases)
        for key, cases in values.items()
    }


def _curves(title: str, lines: Sequence[tuple[str, Sequence[tuple[int, float]]]]) -> Chart:
    shown = lines[:_MOST_SERIES]
    ks = sorted({k for _, points in shown for k, _ in points})
    top = max(1.0, *(value for _, points in shown for _, value in points))
    frame = Frame((min(ks), max(ks)), (0.0, top))
    body = frame.axes("cut-off k", "mean", marks_x=_thinned(ks))
    body += "".join(polyline(frame, points, number) for number, (_, points) in enumerate(shown))
    words = "; ".join(
        f"{name or 'system'} {', '.join(f'@{k} {value:.4f}' for k, value in points)}"
        for name, points in shown
    )
    left = len(lines) - len(shown)
    note = f"{left} more are not drawn" if left else ""
    return Chart(
        kind="cutoffs", title=title, words=words, body=body, series=_series([n for n, _ in shown]), note=note
    )


def _thinned(marks: Sequence[int], most: int = 14) -> Sequence[int]:
    step = -(-len(marks) // most)
    return marks if step == 1 else [*marks[:-1:step], marks[-1]]


def _series(names: Sequence[str]) -> list[tuple[str, str]]:
    return [
        (tag("g", marker(0, 0, number, 4.5), color=f"s{number % len(SERIES)}"), name or "-")
        for number, name in enumerate(names)
    ]


_SHADES = (("relevant", "good"), ("not relevant", "none"))


def ranks(report: ReportData, strips: Sequence[tuple[str, str]] | None = None) -> Chart | None:
    """Of the lists that reach each rank, the share whose context there is relevant, not relevant, or has no label.

    Args:
        report: The report.
        strips: (system, strip) of each sample: a sign per place, ■ or A to D relevant, □ or a to d not, others not known,
            with a bar between calls. None = as the first ranked measure of the report has them.
    """
    if strips is None:
        scores = list(report.scores())
        first = [score for score in scores if score.measure == scores[0].measure]
        strips = [(score.system, strip) for strip, score, _ in strips_of(report, first)] if first else []
    counts: dict[str, list[Counter[str]]] = {system: [] for system in report.systems}
    for system, strip in strips:
        of = counts.setdefault(system, [])
        for call in strip.split("|"):
            for rank, sign in enumerate(call[:_DEEPEST]):
                if rank == len(of):
                    of.append(Counter())
                of[rank][_kind(sign)] += 1
    counts = {system: of for system, of in counts.items() if of}
    if not any("relevant" in rank or "not relevant" in rank for of in counts.values() for rank in of):
        return None
    depth = max(map(len, counts.values()))
    frame = Frame((0.5, depth + 0.5))
    body = frame.axes("rank", "share of the lists", marks_x=_thinned(range(1, depth + 1), 20))
    note = ""
    if len(counts) == 1:
        (of,) = counts.values()
        body += "".join(_bar(frame, rank, count) for rank, count in enumerate(of, 1))
        series = [(_swatch(colour), name) for name, colour in _SHADES]
        if any("no label" in rank for rank in of):
            series.append((_swatch("paper"), "no label"))
    else:
        shown = list(counts.items())[:_MOST_SERIES]
        for number, (_, of) in enumerate(shown):
            points = [(rank, _share(count)) for rank, count in enumerate(of, 1)]
            body += polyline(frame, points, number)
        series = _series([system for system, _ in shown])
        note = f"{len(counts) - len(shown)} more systems are not drawn" if len(counts) > len(shown) else ""
    words = "; ".join(
        f"{system + ' ' if system else ''}{', '.join(f'rank {rank} {_share(count):.2f}' for rank, count in enumerate(of, 1))}"
        for system, of in counts.items()
    )
    title = "Relevant at each rank"
    return Chart(kind="ranks", title=title, words=words, body=body, series=series, note=note)


def _kind(sign: str) -> str:
    return "relevant" if sign in "ABCD■" else "not relevant" if sign in "abcd□" else "no label"


def _share(count: Counter[str]) -> float:
    return count["relevant"] / count.total()


def _bar(frame: Frame, rank: int, count: Counter[str]) -> str:
    left, right = frame.across(rank - 0.36), frame.across(rank + 0.36)
    below, parts = 0.0, []
    for name, colour in _SHADES:
        share = count[name] / count.total()
        if share:
            y, foot = frame.up(below + share), frame.up(below)
            words = f"rank {rank}: {count[name]} of {count.total()} {name}"
            parts.append(
                tag("rect", tag("title", escape(words)), x=left, y=y, width=right - left, height=foot - y,
                    color=colour, fill="currentColor")
            )  # fmt: skip
            below += share
    outline = tag(
        "rect", x=left, y=frame.up(1), width=right - left, height=frame.up(0) - frame.up(1), fill="none",
        color="none", stroke="currentColor",
    )  # fmt: skip
    shown = ""
    if right - left > 26 and count["relevant"]:
        share = _share(count)
        shown = text(
            f"{share:.0%}",
            (left + right) / 2,
            frame.up(share) - 4,
            color="ink",
            text_anchor="middle",
            font_size=11,
        )
    return outline + "".join(parts) + shown


def _swatch(colour: str) -> str:
    inside = tag("rect", x=-5, y=-5, width=10, height=10, rx=2, color=colour, fill="currentColor")
    return inside + tag(
        "rect", x=-5, y=-5, width=10, height=10, rx=2, fill="none", color="axis", stroke="currentColor"
    )


def differences(report: ReportData, baseline: ReportData, measure: str, system: str | None = None) -> Chart:
    """The difference of each query to the baseline, the largest gain first, with the mean and its interval.

    InputError where the two have no query in common.
    """
    system = report.systems[0] if system is None else system
    other = system if system in baseline.systems else baseline.systems[0]
    now, before = report[measure, system], baseline[measure, other]
    sides = [CaseScores(one.tables.scores) for one in (baseline, report)]
    span = range_of(now.type)
    found = [
        side.of(name, (line.measure, line.type), span)
        for side, name, line in zip(sides, (other, system), (before, now), strict=True)
    ]
    values = [
        dict(zip((side.cases[at] for at in one.case.tolist()), one.values.tolist(), strict=True))
        for side, one in zip(sides, found, strict=True)
    ]
    cases = [case for case in values[1] if case in values[0]]
    pairs = np.array([[values[0][case], values[1][case]] for case in cases]).reshape(-1, 2)
    known = ~np.isnan(pairs).any(axis=1)
    pairs = pairs[known]
    if not len(pairs):
        raise InputError(f"no query has {measure} in both reports", fix="compare the same queries")
    shared = {**baseline.tables.clusters(), **report.tables.clusters()}
    ids = [case for case, whole in zip(cases, known.tolist(), strict=True) if whole]
    clusters = [shared.get(case, case) for case in ids] if shared else None
    stats = paired_difference(pairs[:, 0], pairs[:, 1], clusters=clusters, value_range=span)
    change = pairs[:, 1] - pairs[:, 0]
    order = np.argsort(-change, kind="stable")
    ends = stats.interval.ends or (0.0, 0.0)
    low, high = min(float(change.min()), ends[0], 0.0), max(float(change.max()), ends[1], 0.0)
    frame = Frame((0.0, float(len(change))), (low, high) if low < high else (-0.05, 0.05))
    lower = Measure.remembered(now.type).definition.better == "lower"
    step = max(
        len(change) / _MOST_POINTS, 1.0
    )  # of many queries every so manieth: bars thinner than a pixel say no more
    bars = []
    for place in np.arange(0, len(change), step).astype(int).tolist():
        by = float(change[order[place]])
        if by:
            x, y = frame.across(place), frame.up(max(by, 0.0))
            wide = max(frame.across(place + step) - x - (1 if len(change) < 150 else 0), 0.5)
            good = (by > 0) is not lower
            words = f"{ids[int(order[place])]} {by:+.4f}"
            bars.append(
                tag("rect", tag("title", escape(clean(words))), x=x, y=y, width=wide,
                    height=abs(frame.up(0) - frame.up(by)), color="good" if good else "bad", fill="currentColor")
            )  # fmt: skip
    mean = float(change.mean())
    right = WIDTH - RIGHT
    if stats.interval.ends is not None:
        top, foot = frame.up(ends[1]), frame.up(ends[0])
        bars.append(
            tag("rect", x=LEFT, y=top, width=right - LEFT, height=max(foot - top, 1.0), color="s0",
                fill="currentColor", fill_opacity=0.16)
        )  # fmt: skip
    bars.append(
        tag("path", d=f"M{LEFT} {frame.up(mean):.1f}H{right}", color="s0", stroke="currentColor",
            stroke_width=1.5, stroke_dasharray="6 3")
    )  # fmt: skip
    axes = frame.axes(
        "queries, the largest gain first", f"difference in {now.measure}", signed=True, marks_x=()
    )
    interval = "" if stats.interval.ends is None else f", 95% interval {ends[0]:+.4f} to {ends[1]:+.4f}"
    words = f"mean {mean:+.4f}{interval} over {len(change)} queries; {stats.wins} up, {stats.ties} the same, {stats.losses} down"
    return Chart(
        kind="differences",
        title=f"Difference per query, {now.measure}" + (f", {system}" if system else ""),
        words=words,
        body=axes + "".join(bars),
        note=words,
    )


def tokens_of(sample: Sample) -> float | None:
    """About how many tokens the contexts of a sample have: four bytes of text each; None where texts are not known."""
    if sample.contexts is None and sample.calls is None:
        return None
    lists = [call.contexts for call in sample.calls] if sample.calls else [sample.contexts or ()]
    texts = [context.text for contexts in lists for context in contexts]
    return None if texts and not any(texts) else sum(len(one.encode()) for one in texts) / _BYTES_PER_TOKEN


def latency_of(sample: Sample) -> float | None:
    """How long the searches of a sample took, in milliseconds; None where any of them is not known."""
    known = [call.ms for call in sample.calls or ()]
    found = [ms for ms in known if ms is not None]
    return fsum(found) if found and len(found) == len(known) else None


_COSTS: dict[str, tuple[str, Callable[[Sample], float | None]]] = {
    "tokens": ("tokens of the contexts", tokens_of),
    "latency": ("milliseconds of search", latency_of),
}


def scatter(
    report: ReportData, measure: str, cost: Callable[[Sample], float | None], *, kind: str, name: str
) -> Chart | None:
    """A measure against what each query cost: a point per sample, a larger mark at each system's mean; None without any."""
    line = report[measure]
    mine = {n for n, (reported, _) in enumerate(report.tables.scores.measures) if reported == line.measure}
    scores = report.tables.scores
    keys = scores.samples
    values = {
        keys[sample]: value
        for sample, number, value in zip(scores.sample.tolist(), scores.measure.tolist(), scores.value.tolist(), strict=True)
        if number in mine and value == value  # noqa: PLR0124 - NaN
    }  # fmt: skip
    points: dict[str, list[tuple[float, float]]] = {}
    for sample in report.samples():
        value, spent = values.get((sample.id, sample.system, sample.trial)), cost(sample)
        if value is not None and spent is not None:
            points.setdefault(sample.system, []).append((spent, value))
    if not points:
        return None
    every = [point for of in points.values() for point in of]
    low, high = (end(x for x, _ in every) for end in (min, max))
    top = max(1.0, *(y for _, y in every))
    frame = Frame(
        (0.0, high * 1.02 or 1.0) if low < high / 2 else (low * 0.98, high * 1.02 or 1.0), (0.0, top)
    )
    body = frame.axes(name, line.measure)
    shown = list(points.items())[:_MOST_SERIES]
    means = []
    for number, (_, of) in enumerate(shown):
        thinned = of[:: -(-len(of) // _MOST_POINTS)]
        dots = "".join(marker(frame.across(x), frame.up(y), number, 3.2, 0.45) for x, y in thinned)
        x, y = (fsum(values) / len(of) for values in zip(*of, strict=True))
        means.append((x, y))
        ring = tag(
            "g",
            marker(frame.across(x), frame.up(y), number, 7.5),
            stroke="currentColor",
            color=f"s{number % len(SERIES)}",
        )
        halo = tag("circle", cx=frame.across(x), cy=frame.up(y), r=10.5, color="paper", fill="currentColor")
        body += tag("g", dots, color=f"s{number % len(SERIES)}") + halo + ring
    words = "; ".join(
        f"{system + ' ' if system else ''}mean {line.measure} {y:.4f} at {x:,.0f}, over {len(of)} queries"
        for (system, of), (x, y) in zip(shown, means, strict=True)
    )
    return Chart(
        kind=kind, title=f"{line.measure} against {name}", words=words, body=body,
        series=_series([system for system, _ in shown]) if len(shown) > 1 else (), note=f"large mark: {words}",
    )  # fmt: skip


KINDS = ("cutoffs", "ranks", "differences", "tokens", "latency")
"""What can be drawn."""


def charts_of(
    report: ReportData,
    *,
    strips: Sequence[tuple[str, str]] | None = None,
    kinds: Sequence[str] = (),
    measure: str | None = None,
    baseline: ReportData | None = None,
) -> list[Chart]:
    """The charts of these kinds; of all that the report has something for where none is named.

    Args:
        report: The report.
        strips: As of `ranks`.
        kinds: Some of `KINDS`.
        measure: What is compared and set against costs; the first one of the report where it is None.
        baseline: What differences are to.

    Raises:
        InputError: A named kind has nothing to show, or the measure is not in the report.
    """
    if not report.measures:
        raise InputError("the report has no measure to draw")
    chosen = measure or report.measures[0]
    try:
        name = report[chosen].measure
        if baseline is not None:
            _ = baseline[name]
    except KeyError as error:
        raise InputError(str(error.args[0]), fix="name one that is measured: -m NAME") from None
    found: list[Chart] = []
    for kind in kinds or KINDS:
        mine = list(_charts(kind, report, strips, name, baseline))
        if kinds and not mine:
            raise InputError(f"there is nothing to draw as {kind}", fix=_LACKS[kind])
        found += mine
    if not found:
        raise InputError("the report holds nothing that could be drawn", fix="; ".join(_LACKS.values()))
    return found


def _charts(
    kind: str,
    report: ReportData,
    strips: Sequence[tuple[str, str]] | None,
    measure: str,
    baseline: ReportData | None,
) -> Iterator[Chart]:
    """The charts of one kind; none where the report has nothing for it."""
    made: Chart | None = None
    if kind == "cutoffs":
        yield from cutoffs(report)
    elif kind == "differences":
        of = report.systems if baseline is not None else ()
        yield from (differences(report, baseline, measure, system) for system in of if baseline is not None)
    elif kind == "ranks":
        made = ranks(report, strips)
    else:
        name, cost = _COSTS[kind]
        made = scatter(report, measure, cost, kind=kind, name=name)
    if made is not None:
        yield made


_LACKS = {
    "cutoffs": "measure at two cut-offs or deeper than @1, e.g. -m nDCG@10",
    "ranks": "it takes labelled contexts: a ranked measure in a report of germane run",
    "differences": "name what the report is compared with: --baseline REPORT",
    "tokens": "it takes samples whose contexts have texts",
    "latency": 'it takes samples that say how long each search took: "calls": [{"contexts": [...], "ms": 120}]',
}


def write_charts(charts: Sequence[Chart], path: Path) -> None:
    """Write the charts as one .svg or .png; MissingPart where a .png is asked for without the extra `png`."""
    drawn = document(charts)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".png":
        try:
            import resvg_py
        except ImportError:
            raise MissingPart(
                "a .png takes the package resvg-py", fix="pip install 'germane[png]', or write a .svg"
            ) from None
        path.write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=2)))
    else:
        path.write_text(drawn, encoding="utf-8")
