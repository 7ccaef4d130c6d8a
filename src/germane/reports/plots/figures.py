"""The charts of a report: measures by cut-off, relevance by rank, differences per query, score against cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import TypeAlias

import numpy as np

from germane.clean import counted
from germane.errors import InputError, MissingPart, install_extra
from germane.judging.driver import result_of
from germane.measures.measure import Measure
from germane.measures.scoring import Block, Job, graders_of
from germane.reports.data import ReportData
from germane.reports.explain import recorded, settings_of
from germane.reports.explain import strips as strips_of
from germane.reports.pairing import PairedSystems, sides_of
from germane.reports.plots.svg import (
    LEFT,
    OUTLINE,
    RIGHT,
    SERIES,
    WIDTH,
    Chart,
    Frame,
    document,
    marker,
    polyline,
    rect,
    tag,
    text,
)
from germane.reports.summary import higher_is_better, in_digits, interval_in_words
from germane.samples.files import write_whole
from germane.types import Sample

_DEEPEST = 20
"""The last rank and cut-off that is drawn."""
_CUTOFFS = (1, 2, 3, 4, 5, 7, 10, 15, 20)
"""The cut-offs that are computed in addition to those of the report."""
_MOST_SERIES = len(SERIES)
_MOST_POINTS = 3_000
_BYTES_PER_TOKEN = 4
Points: TypeAlias = Sequence[tuple[int, float]]


def cutoffs(report: ReportData) -> Iterator[Chart]:
    """The mean of each measure with a cut-off, at every cut-off as deep as it was measured.

    A chart of all measures, or with several systems a chart per measure. Reports without samples (of a ranking) are drawn
    from the cut-offs that they hold.
    """
    curves: dict[str, dict[str, Points]] = {}
    cut = [line for line in report.summaries if "@" in line.type]
    sources = {line.type.rpartition("@")[0]: line.basis.source for line in cut}
    mixed = len({line.basis.source for line in report.summaries}) > 1
    for (measure, system), means in _measured_at(report).items():
        if len(means) > 1:
            name = f"{measure} ({sources[measure]})" if mixed and measure in sources else measure
            curves.setdefault(name, {})[system] = sorted(means.items())
    if len(report.systems) > 1:
        yield from (_curves(f"{name} by cut-off", systems) for name, systems in curves.items())
    elif curves:
        lines = {name: points for name, systems in curves.items() for points in systems.values()}
        yield _curves("Measures by cut-off", lines)


def _measured_at(report: ReportData) -> dict[tuple[str, str], dict[int, float]]:
    """The mean at each cut-off, by the name of the measure without its cut-off and by system; nobody is asked."""
    at: dict[tuple[str, str], dict[int, float]] = {}
    deepest: dict[str, Measure] = {}
    for summary in report.summaries:
        measure = Measure.remembered(summary.type)
        k, name = measure.cutoff, summary.type.rpartition("@")[0]
        if measure.definition.family == "ranked" and isinstance(k, int) and summary.mean is not None:
            at.setdefault((name, summary.system), {})[k] = summary.mean
            deepest[name] = max(deepest.get(name, measure), measure, key=lambda value: value.k or 0)
    samples = list(report.samples()) if deepest else []
    if not samples:
        return at
    measures = [of @ k for of in deepest.values() for k in _CUTOFFS if k <= min(of.k or 0, _DEEPEST)]
    graders = graders_of(tuple(measures))
    block = Block([Job(sample=sample, graders=graders) for sample in samples], settings_of(report))
    answers = recorded(report)
    outcomes = block.outcomes([result_of(program, answers.look_up) for program in block.programs])
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for sample, row in zip(samples, outcomes, strict=True):
        for canonical, outcome in row.items():
            if outcome.value is not None:
                cases = values.setdefault((canonical, sample.system), {})
                cases.setdefault(sample.id, []).append(outcome.value)
    for (canonical, system), cases in values.items():
        name, _, cut = canonical.rpartition("@")
        mean = fsum(fsum(trials) / len(trials) for trials in cases.values()) / len(cases)
        at.setdefault((name, system), {}).setdefault(int(cut), mean)
    return at


def _curves(title: str, lines: Mapping[str, Points]) -> Chart:
    ks = sorted({k for points in lines.values() for k, _ in points})
    top = max(1.0, *(value for points in lines.values() for _, value in points))
    frame = Frame((min(ks), max(ks)), (0.0, top))
    drawn, series, note = _lines(frame, lines)
    words = "; ".join(
        f"{name or 'system'} {', '.join(f'@{k} {value:.4f}' for k, value in points)}"
        for name, points in list(lines.items())[:_MOST_SERIES]
    )
    body = frame.axes("cut-off k", "mean", marks_x=_thinned(ks)) + drawn
    return Chart(kind="cutoffs", title=title, words=words, body=body, series=series, note=note)


def _lines(frame: Frame, lines: Mapping[str, Points]) -> tuple[str, list[tuple[str, str]], str]:
    """The lines as far as there are colours for them, their names, and how many are not drawn."""
    drawn_lines = dict(list(lines.items())[:_MOST_SERIES])
    left = len(lines) - len(drawn_lines)
    drawn = "".join(polyline(frame, points, number) for number, points in enumerate(drawn_lines.values()))
    return drawn, _series(drawn_lines), f"{left} more are not drawn" if left else ""


def _thinned(marks: Sequence[int], most: int = 14) -> Sequence[int]:
    step = -(-len(marks) // most)
    return marks if step == 1 else [*marks[:-1:step], marks[-1]]


def _series(names: Iterable[str]) -> list[tuple[str, str]]:
    return [
        (tag("g", marker(0, 0, number, 4.5), color=f"s{number % len(SERIES)}"), name or "-")
        for number, name in enumerate(names)
    ]


_SHADES = (("relevant", "good"), ("not relevant", "none"))


def ranks(
    report: ReportData, strips: Sequence[tuple[str, str]] | None = None, whose: str = ""
) -> Chart | None:
    """The share of lists whose context at each rank is relevant, not relevant, or has no label, of those that reach the rank.

    None where no place at all is relevant.

    Args:
        report: The report.
        strips: (system, strip) of each sample: a sign per place, ■ or A to D relevant, □ or a to d not, others not known,
            with a bar between calls. None = as the first ranked measure of the report has them.
        whose: Whose labels they show, in words.
    """
    if strips is None:
        first = [score for score in report.scores() if score.measure == report.measures[0]]
        strips = [(score.system, strip) for strip, score, _ in strips_of(report, first)] if first else []
    kinds = dict.fromkeys("ABCD■", "relevant") | dict.fromkeys("abcd□", "not relevant")
    counts: dict[str, list[Counter[str]]] = {system: [] for system in report.systems}
    for system, strip in strips:
        of = counts.setdefault(system, [])
        for call in strip.split("|"):
            for rank, sign in enumerate(call[:_DEEPEST]):
                if rank == len(of):
                    of.append(Counter())
                of[rank][kinds.get(sign, "no label")] += 1
    counts = {system: of for system, of in counts.items() if of}
    if not any("relevant" in rank for of in counts.values() for rank in of):
        return None
    depth = max(map(len, counts.values()))
    names = "relevant", *["not relevant"] * (len(counts) == 1)
    most = max(sum(rank[name] for name in names) / rank.total() for of in counts.values() for rank in of)
    top = next(end for end in (0.1, 0.2, 0.5, 1.0) if most <= end * 0.95 or end == 1.0)
    frame = Frame((0.5, depth + 0.5), (0.0, top))
    body = frame.axes("rank", "share of the lists", marks_x=_thinned(range(1, depth + 1), 20))
    note = ""
    if len(counts) == 1:
        (of,) = counts.values()
        body += "".join(_bar(frame, rank, count) for rank, count in enumerate(of, 1))
        series = [(_swatch(colour), name) for name, colour in _SHADES]
        if any("no label" in rank for rank in of):
            series.append((_swatch("paper"), "no label"))
    else:
        shares = {
            name: [(rank, _share(count)) for rank, count in enumerate(of, 1)] for name, of in counts.items()
        }
        drawn, series, note = _lines(frame, shares)
        body += drawn
    judged = {
        name: ", ".join(f"rank {rank} {_share(count):.2f}" for rank, count in enumerate(of, 1))
        for name, of in counts.items()
    }
    words = "; ".join(f"{name} {text}" if name else text for name, text in judged.items())
    title = "Relevant at each rank" + (f", by {whose}" if whose else "")
    return Chart(kind="ranks", title=title, words=words, body=body, series=series, note=note)


def _share(count: Counter[str]) -> float:
    return count["relevant"] / count.total()


def _bar(frame: Frame, rank: int, count: Counter[str]) -> str:
    left, right = frame.across(rank - 0.36), frame.across(rank + 0.36)
    below, body = 0.0, rect(left, frame.up(frame.y[1]), right, frame.up(0), "none", **OUTLINE)
    for name, colour in _SHADES:
        if share := count[name] / count.total():
            words = f"rank {rank}: {count[name]} of {count.total()} {name}"
            body += rect(left, frame.up(below + share), right, frame.up(below), colour, words)
            below += share
    if right - left > 26 and count["relevant"]:
        share, at = _share(count), {"text_anchor": "middle", "font_size": 11}
        body += text(f"{share:.0%}", (left + right) / 2, frame.up(share) - 4, color="ink", **at)
    return body


def _swatch(colour: str) -> str:
    return rect(-5, -5, 5, 5, colour, rx=2) + rect(-5, -5, 5, 5, "axis", rx=2, **OUTLINE)


def differences(report: ReportData, baseline: ReportData, measure: str, system: str | None = None) -> Chart:
    """The difference of each query to the baseline, the largest gain first, with the mean and its interval.

    InputError where the two have no query in common.
    """
    system = report.systems[0] if system is None else system
    other = system if system in baseline.systems else baseline.systems[0]
    before, now = sides_of([baseline, report], [other, system])
    pair, name = PairedSystems(before, now), report.reported(measure)
    ours, theirs = pair.values(name)
    gain = theirs.values - ours.values
    labelled = np.flatnonzero(~np.isnan(gain))
    if not len(labelled):
        raise InputError(f"no query has {measure} in both reports", fix="compare the same queries")
    order = labelled[np.argsort(-gain[labelled], kind="stable")]
    change = gain[order]
    comparison = pair.compare(name)
    ends = comparison.interval.ends
    low, high = (end([*change[[0, -1]].tolist(), *(ends or ()), 0.0]) for end in (min, max))
    frame = Frame((0.0, float(len(change))), (low, high) if low < high else (-0.05, 0.05))
    higher = higher_is_better(comparison.type)
    step = max(len(change) / _MOST_POINTS, 1.0)  # bars thinner than a pixel say no more
    gap = 1 if len(change) < 150 else 0
    body = frame.axes("queries, the largest gain first", f"difference in {name}", signed=True, marks_x=())
    for position in np.arange(0, len(change), step).astype(int).tolist():
        if by := float(change[position]):
            words = f"{pair.a.scores.cases[int(ours.case[order[position]])]} {by:+.4f}"
            left, right = frame.across(position), frame.across(position + step) - gap
            foot, top = sorted((frame.up(0), frame.up(by)), reverse=True)
            colour = "good" if (by > 0) is higher else "bad"
            body += rect(left, top, max(right, left + 0.5), foot, colour, words)
    right = WIDTH - RIGHT
    if ends is not None:
        top, foot = frame.up(ends[1]), frame.up(ends[0])
        body += rect(LEFT, top, right, max(foot, top + 1.0), "s0", fill_opacity=0.16)
    body += tag(
        "path", d=f"M{LEFT} {frame.up(float(change.mean())):.1f}H{right}", color="s0", stroke="currentColor",
        stroke_width=1.5, stroke_dasharray="6 3",
    )  # fmt: skip
    interval = "" if ends is None else f", 95% interval {interval_in_words(ends, sign='+')}"
    up, down = (comparison.wins, comparison.losses) if higher else (comparison.losses, comparison.wins)
    words = f"mean {in_digits(comparison.difference, '+')}{interval} over {counted(comparison.n, 'query')}; {up} up, {comparison.ties} the same, {down} down"
    title = f"Difference per query, {name}" + (f", {system}" if system else "")
    return Chart(kind="differences", title=title, words=words, body=body, note=words)


def tokens_of(sample: Sample) -> float | None:
    """About how many tokens the contexts of a sample have: four bytes of text each; None where texts are not known."""
    if sample.contexts is None and sample.calls is None:
        return None
    lists = [call.contexts for call in sample.calls] if sample.calls else [sample.contexts or ()]
    texts = [context.text for contexts in lists for context in contexts]
    return None if texts and not any(texts) else sum(len(text.encode()) for text in texts) / _BYTES_PER_TOKEN


def latency_of(sample: Sample) -> float | None:
    """The time that the searches of a sample took, in milliseconds; None where any of them is not known."""
    times = [call.ms for call in sample.calls or ()]
    results = [ms for ms in times if ms is not None]
    return fsum(results) if results and len(results) == len(times) else None


_COSTS: dict[str, tuple[str, Callable[[Sample], float | None]]] = {
    "tokens": ("tokens of the contexts", tokens_of),
    "latency": ("milliseconds of search", latency_of),
}


def scatter(
    report: ReportData, measure: str, cost: Callable[[Sample], float | None], *, kind: str, what: str
) -> Chart | None:
    """A measure against what each query cost: a point per sample, a larger mark at each system's mean; None without any."""
    name, table = report[measure].measure, report.tables.scores
    rows = table.rows_of((name, report[measure].type))
    keys = map(table.samples.__getitem__, table.sample[rows].tolist())
    values = dict(zip(keys, table.value[rows].tolist(), strict=True))
    points: dict[str, list[tuple[float, float]]] = {}
    for sample in report.samples():
        value, spent = values.get(sample.key), cost(sample)
        if value is not None and spent is not None:
            points.setdefault(sample.system, []).append((spent, value))
    if not points:
        return None
    every = [point for of in points.values() for point in of]
    low, high = (end(x for x, _ in every) for end in (min, max))
    top = max(1.0, *(y for _, y in every))
    frame = Frame((0.0 if low < high / 2 else low * 0.98, high * 1.02 or 1.0), (0.0, top))
    body, words = frame.axes(what, name), []
    drawn_points = dict(list(points.items())[:_MOST_SERIES])
    for number, (system, of) in enumerate(drawn_points.items()):
        colour = f"s{number % len(SERIES)}"
        thinned = of[:: -(-len(of) // _MOST_POINTS)]
        dots = "".join(marker(frame.across(x), frame.up(y), number, 3.2, 0.45) for x, y in thinned)
        x, y = (fsum(values) / len(of) for values in zip(*of, strict=True))
        at = frame.across(x), frame.up(y)
        body += tag("g", dots, color=colour)
        body += tag("circle", cx=at[0], cy=at[1], r=10.5, color="paper", fill="currentColor")
        body += tag("g", marker(*at, number, 7.5), stroke="currentColor", color=colour)
        mean = f"mean {name} {y:.4f} at {x:,.0f}, over {counted(len(of), 'query')}"
        words.append(f"{system} {mean}" if system else mean)
    return Chart(
        kind=kind, title=f"{name} against {what}", words="; ".join(words), body=body,
        series=_series(drawn_points) if len(drawn_points) > 1 else (), note=f"large mark: {'; '.join(words)}",
    )  # fmt: skip


_LACKS = {
    "cutoffs": "measure at two cut-offs or deeper than @1, e.g. -m nDCG@10",
    "ranks": "it takes labelled contexts: a ranked measure in a report of germane run",
    "differences": "name what the report is compared with: --baseline REPORT",
    "tokens": "it takes samples whose contexts have texts",
    "latency": 'it takes samples that say how long each search took: "calls": [{"contexts": [...], "ms": 120}]',
}
"""The fix for a report that lacks the data of a kind of chart, by kind."""
KINDS = tuple(_LACKS)
"""The kinds of charts that `germane plot` draws, as `--kind` names them."""


def charts_of(
    report: ReportData,
    *,
    strips: Sequence[tuple[str, str]] | None = None,
    kinds: Sequence[str] = (),
    measure: str | None = None,
    baseline: ReportData | None = None,
) -> list[Chart]:
    """The charts of these kinds; of all that say something of the report where none is named.

    A measure against costs says something of several systems: one alone costs about the same for every query.

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
    name = report.reported(measure or report.measures[0])
    if baseline is not None:
        baseline.reported(name)
    charts: list[Chart] = []
    for kind in kinds or [kind for kind in KINDS if kind not in _COSTS or len(report.systems) > 1]:
        mine = [chart for chart in _charts(kind, report, strips, name, baseline) if chart is not None]
        if kinds and not mine:
            raise InputError(f"nothing to draw as {kind}", fix=_LACKS[kind])
        charts += mine
    if not charts:
        raise InputError("the report holds nothing that could be drawn", fix="; ".join(_LACKS.values()))
    return charts


def _charts(
    kind: str,
    report: ReportData,
    strips: Sequence[tuple[str, str]] | None,
    measure: str,
    baseline: ReportData | None,
) -> Iterator[Chart | None]:
    """The charts of one kind; None where the report has nothing for it."""
    if kind == "cutoffs":
        yield from cutoffs(report)
    elif kind == "ranks":
        yield ranks(report, strips)
    elif kind in _COSTS:
        what, cost = _COSTS[kind]
        yield scatter(report, measure, cost, kind=kind, what=what)
    elif baseline is not None:
        yield from (differences(report, baseline, measure, system) for system in report.systems)


def report_svg(report: ReportData) -> Iterator[str]:
    """The charts of a report as one SVG document."""
    yield document(charts_of(report))


def report_png(report: ReportData) -> bytes:
    """The charts of a report as a PNG."""
    return _png(document(charts_of(report)))


def _png(drawn: str) -> bytes:
    """An SVG document as a PNG; MissingPart without the extra `png`."""
    try:
        import resvg_py
    except ImportError:
        fix = f"{install_extra('png')}, or write a .svg"
        raise MissingPart("a .png takes the package resvg-py", fix=fix) from None
    return bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=2))


def write_charts(charts: Sequence[Chart], path: Path) -> None:
    """Write the charts to a .svg or .png file."""
    drawn = document(charts)
    data = _png(drawn) if path.suffix.lower() == ".png" else drawn.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)
