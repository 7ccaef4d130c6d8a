"""Compare systems on the same queries: which is better, by how much, and what causes the difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from germane.clean import counted, some_of
from germane.comparison.formats import Comparison, MovedLine
from germane.comparison.judged_pairs import DecidedPair, parts_of, verdicts_of
from germane.comparison.regression import regression, within_margin
from germane.errors import InputError, option
from germane.measures.declaration import parse_measures
from germane.places.lists import distinct_contexts, relevant
from germane.reports.data import ReportData
from germane.reports.pairing import (
    MeasureComparison,
    PairedSystems,
    Side,
    adjusted,
    how_judged,
    measures_in_common,
)
from germane.reports.report import find_report, open_together
from germane.reports.summary import (
    canonical_name,
    check_change,
    higher_is_better,
    is_diagnostic,
    limits_of,
    range_of,
    slices_of,
    with_measures,
)
from germane.results.naming import parse_directions, parse_ranges
from germane.statistics.intervals import SAME
from germane.statistics.systems import BestSystem, best_system, decide_change
from germane.tables.cases import texts_of
from germane.types import Json

_MOST_MOVED = 5


def compare(
    a: ReportData | str | Path,
    *more: ReportData | str | Path,
    names: Sequence[str] = (),
    systems: Sequence[str] = (),
    measures: str | Iterable[str] | None = None,
    primary: str | Iterable[str] | None = None,
    margin: Mapping[str, float] | Iterable[str] | None = None,
    by: str | None = None,
    across_judges: bool = False,
    allow_stand_in: bool = False,
    fail_on_regression: bool = False,
    seed: int = 0,
    higher_is_better: Mapping[str, bool] | Iterable[str] = (),
    ranges: Mapping[str, tuple[float, float]] | Iterable[str] = (),
) -> Comparison:
    """Compare each system with the first, on the same queries.

    Args:
        a: The baseline: a Report, report folder, `--json` document, result file of another program, or
            folder of reports (the latest is used). If no other report is given, its systems are compared.
        more: The reports to compare with the baseline.
        names: Names for the systems, the baseline's first. Default: `Report.name`, or the systems' names.
        systems: The systems to compare within one report. With several reports: the system to use from each
            report, or one name for all reports.
        measures: The measures to compare. Default: all that the reports have in common.
        primary: The measures that decide the outcome; p-values are adjusted over them. Default: all that
            measure quality.
        margin: The acceptable loss by measure: {"nDCG@10": 0.02}.
        by: A tag or metadata field. The systems are also compared on each group of queries with the same
            value.
        across_judges: Allow reports of different judges.
        allow_stand_in: Let gates decide on verdicts of a stand-in (the lexical judge).
        fail_on_regression: Add a gate per primary measure that fails if its outcome is "worse".
        seed: The random seed for choosing the best of several systems on halves of the queries.
        higher_is_better: The direction of measures from other programs' files: {"loss": False}, or a list
            of names.
        ranges: The smallest and largest possible value of such measures: {"helpfulness": (1, 5)}.

    Raises:
        InputError: A report, system or measure is missing, the reports have no case in common, the judges
            differ, or a margin exceeds the measure's range.
    """
    reports, guesses = open_together((a, *more), parse_ranges(ranges), parse_directions(higher_is_better))
    against = _paired_sides(reports, systems, names)
    sides = list(dict.fromkeys(chain.from_iterable(zip(*against, strict=True))))
    chosen, first = _measures(sides, measures, primary)
    margins = _margins(() if margin is None else margin, sides, chosen)
    judging = _differing_judges(against, chosen, across_judges=across_judges)
    pairs = [DecidedPair(side, other) for side, other in against]
    compared = [row for pair in pairs for row in _rows(pair, chosen, margins, allow_stand_in=allow_stand_in)]
    rows = adjusted((row.replace(several=len(pairs) > 1) for row in compared), first)
    gates = [within_margin(row) for row in rows if row.decision]
    gates += [regression(row) for row in rows if row.tests and fail_on_regression]
    cut = dict.fromkeys(f"{side.report.left_out} of {side.name}" for side in sides if side.report.left_out)
    gates = [gate.noting("".join(cut)) for gate in gates]
    sliced = [] if by is None else [row for pair in pairs for row in _slices(pair, chosen, by)]
    slices = [row.replace(tests=0) for row in adjusted(sliced, first)]  # a slice has no outcome of its own
    only_in: dict[str, list[str]] = {side.name: [] for side in sides}
    unpaired = []
    for pair in pairs:
        only_a, only_in[pair.b.name] = pair.only_in()
        unpaired.append(len(only_a) + len(only_in[pair.b.name]))
        only_in[pair.a.name] = list(dict.fromkeys([*only_in[pair.a.name], *only_a]))
    judged_rows = [] if any("results" in report.manifest for report in reports) else [*rows, *slices]
    notes = [*guesses, *judging, *_notes(pairs, unpaired, judged_rows, rows), *_remarks(sides, chosen)]
    others = dict.fromkeys(name for side in sides for name in side.types if name not in chosen)
    if measures is None and others:
        notes.append(f"not compared, because a system lacks it: {', '.join(others)}")
    overlaps = {pair.b.name: pair.overlap() for pair in pairs}
    return Comparison(
        systems=tuple(side.name for side in sides),
        primary=tuple(first),
        comparisons=tuple(rows),
        slices=tuple(slices),
        only_in=only_in,
        overlaps={name: overlap for name, overlap in overlaps.items() if overlap},
        moved={pair.b.name: _moved_queries(pair, first[0]) for pair in pairs},
        choices=tuple(_best_systems(pairs, dict.fromkeys((*first, *chosen)), seed)),
        notes=tuple(dict.fromkeys(filter(None, notes))),
        gates=tuple(gates if allow_stand_in else [gate.without_stand_in() for gate in gates]),
        reports=tuple(reports),
    )


def _paired_sides(
    reports: Sequence[ReportData], systems: Sequence[str] = (), names: Sequence[str] = ()
) -> list[tuple[Side, Side]]:
    """Pair the first system with each other one, or the systems of the same names in two reports."""
    if len(reports) == 2 and not systems and all(len(report.systems) > 1 for report in reports):
        a, b = reports
        name_a, name_b = _names([(a, ""), (b, "")], names)
        if common := [system for system in a.systems if system in b.systems]:
            return [
                (Side(f"{name_a}:{system}", a, system), Side(f"{name_b}:{system}", b, system))
                for system in common
            ]
    # of one report, the systems named, or all; of several reports, one system each; the baseline first
    if len(reports) == 1:
        chosen = [(reports[0], system) for system in systems or reports[0].systems]
    elif several := next((report for report in reports if not systems and len(report.systems) > 1), None):
        one = several.systems[0]
        problem = f"{several.where or 'a report'} has several systems: {', '.join(several.systems)}"
        fix = f"name the one to compare: {option(f'--systems {one}', f'systems=[{one!r}]')}"
        raise InputError(problem, fix=fix)
    elif len(systems) in {0, 1, len(reports)}:
        own = systems or [value.systems[0] for value in reports]
        chosen = list(zip(reports, list(own) * (len(reports) // len(own)), strict=True))
        if len(systems) == 1 and any(systems[0] in report.systems for report in reports):
            # a report that names no system has the system ""
            chosen = [(report, "" if report.systems == ("",) else name) for report, name in chosen]
    else:
        problem = f"{option('--systems')} names {len(systems)} systems for {len(reports)} reports"
        raise InputError(problem, fix="name one system for all reports, or one for each")
    for report, system in chosen:
        if system not in report.systems:
            have = ", ".join(name for name in report.systems if name)
            problem = f"unknown system {system!r} in {report.where or 'the report'}"
            unnamed = f"leave {option('--systems')} out: the report's system has no name"
            raise InputError(problem, fix=f"name one of these: {have}" if have else unnamed)
    if len(chosen) < 2:
        fix = "name a second report, or a report of several systems: germane compare A B"
        raise InputError("a comparison needs two systems, but there is only one", fix=fix)
    named = zip(_names(chosen, names), chosen, strict=True)
    first, *others = (Side(name, report, system) for name, (report, system) in named)
    return [(first, other) for other in others]


def _names(chosen: Sequence[tuple[ReportData, str]], names: Sequence[str]) -> Sequence[str]:
    """Return `names`, else the first kind (report, system, folder, both) in which all differ, or letters."""
    n = len(chosen)
    if names:
        if isinstance(names, str) or len(names) != n or len(set(names)) != n:
            fix = f"give {n} different names, the baseline's first"
            raise InputError(
                f"names={names!r} must have one name for each of the {n} compared systems", fix=fix
            )
        return names
    given, stems = [report.given_name for report, _ in chosen], [report.name for report, _ in chosen]
    systems = [system for _, system in chosen]
    letters = [chr(ord("A") + number) for number in range(n)]
    both = zip(stems, systems, letters, strict=True)
    joined = [":".join(filter(None, parts)) or letter for *parts, letter in both]
    choices = (given, systems, stems, joined)
    return next((names for names in choices if all(names) and len(set(names)) == n), letters)


def _measures(
    sides: Sequence[Side], measures: str | Iterable[str] | None, primary: str | Iterable[str] | None
) -> tuple[list[str], list[str]]:
    """Return the measures to compare (default: all in common), and the primary ones (default: of quality)."""
    common = measures_in_common(sides)
    chosen = common if measures is None else _named(sides, measures, common, "measure")
    if not chosen:
        have = "; ".join(f"{side.name}: {', '.join(side.types)}" for side in sides)
        fix = f"add missing measures with germane score REPORT -m ...; measures are {have}"
        raise InputError("the systems have no measure in common", fix=fix)
    if primary is not None:
        return chosen, _named(sides, primary, chosen, "primary")
    return chosen, [name for name in chosen if not is_diagnostic(sides[0].types[name])] or chosen


def _differing_judges(
    against: Sequence[tuple[Side, Side]], measures: Sequence[str], *, across_judges: bool
) -> list[str]:
    """Return how the judging of paired systems differs; an InputError unless `across_judges`."""
    judged = [name for name in measures if verdicts_of(chain.from_iterable(against), name) != "labels"]
    words = (how_judged(*pair, judged) for pair in against if judged)
    differ = list(dict.fromkeys(filter(None, words)))
    if differ and not across_judges:
        problem = f"{differ[0]}: the difference in {judged[0]} may be due to the judge"
        across = option("--across-judges", "across_judges=True")
        fix = f"judge both systems alike, or split the difference with {across}"
        raise InputError(problem, fix=fix)
    return differ


def check_same_data(a: Path, b: Path) -> None:
    """Raise InputError if fewer than half of the smaller report's queries are in the other report."""
    asked = [set(texts_of(find_report(path).samples()).values()) for path in (a, b)]
    if 2 * len(asked[0] & asked[1]) < min(map(len, asked)):
        problem = f"the two latest reports have different queries: {a} and {b}"
        raise InputError(problem, fix="name two reports to compare: germane compare A B")


def comparison_of(baseline: ReportData, report: ReportData) -> dict[str, Json] | None:
    """Return the `--json` document that compares a report with its baseline; None if that is impossible."""
    with suppress(InputError):
        return compare(baseline, report, across_judges=True).to_json()
    return None


def _named(sides: Sequence[Side], chosen: str | Iterable[str], names: Sequence[str], what: str) -> list[str]:
    """Return the measures in `chosen` by their names in the reports; `what` is their name in errors."""
    texts: list[str] = []
    for text in [chosen] if isinstance(chosen, str) else map(str, chosen):
        with suppress(InputError):
            texts += map(str, parse_measures([text]))
            continue
        texts += [text] if text.strip() in names else map(canonical_name, text.split())
    result = []
    for text in texts:
        name = next((name for name in names if text in {name, sides[0].types[name]}), None)
        if name is None:
            fix = f"use a measure of all systems: {', '.join(names) or 'none'}"
            raise InputError(f"the {what} {text} was not computed for all compared systems", fix=fix)
        result.append(name)
    return list(dict.fromkeys(result))


def parse_margins(texts: Iterable[str]) -> dict[str, float]:
    """Return margins by measure from strings like 'nDCG@10: 0.02'. Raises InputError for any other form."""
    result = {}
    for text in texts:
        name, _, number = (field.strip() for field in str(text).rpartition(":"))
        try:
            margin = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            margin = -1.0
        if not name or not margin >= 0:
            problem = f"{option('--margin')} {text!r} is not of the form MEASURE: LOSS"
            raise InputError(problem, fix="write 'nDCG@10: 0.02'")
        result[name] = margin
    return result


def _margins(
    margin: Mapping[str, float] | Iterable[str], sides: Sequence[Side], names: Sequence[str]
) -> dict[str, float]:
    """Return the margins by the names of their measures in the reports."""
    if not hasattr(margin, "__iter__"):
        fix = f'write margin={{"{names[0]}": {margin!r}}}'
        raise InputError(f"margin={margin!r} must be a mapping from measures to losses", fix=fix)
    if isinstance(margin, Mapping):
        margin = [f"{name}: {value}" for name, value in margin.items()]
    result = {}
    for text, value in parse_margins([margin] if isinstance(margin, str) else margin).items():
        name = _named(sides, canonical_name(text), names, "margin's measure")[0]
        check_change(sides[0].types[name], value, f"a margin of {value:g} for {name}")
        result[name] = value
    return result


def _rows(
    pair: DecidedPair, names: Sequence[str], margins: Mapping[str, float], *, allow_stand_in: bool
) -> Iterator[MeasureComparison]:
    """Yield the comparison by each measure, with the parts of the difference and the margin's decision."""
    rows = [pair.decided(name) for name in names]
    if not any(row.due for row in rows):
        first, second = (some_of(list(map(repr, ids)), 2) for ids in pair.only_in())
        ids = f"{pair.a.name} has {first}, {pair.b.name} has {second}"
        problem = f"{pair.a.name} and {pair.b.name} have no query in common: {ids}"
        fix = "compare results of the same samples and ids; without a column id tables pair by query"
        raise InputError(problem, fix=fix)
    split = parts_of(pair, names)
    for row in rows:
        (parts, why), margin = split[row.measure], margins.get(row.measure)
        if margin is None:
            decided = row
        elif row.undecided_why or (row.stand_in and not allow_stand_in):
            decided = row.replace(margin=margin, decision="undecided")
        else:  # whether B is worse than A by the margin or more
            verdict, needed = decide_change(row.gain, margin)
            decided = row.replace(margin=margin, decision=verdict, needed_to_decide=needed)
        yield decided.replace(parts=parts, parts_why=why)


def _slices(pair: PairedSystems, names: Sequence[str], by: str) -> list[MeasureComparison]:
    """Return the comparisons on each group of queries with the same value of `by`, a tag or a field."""
    samples = pair.a.read() if pair.by_query else chain(pair.a.read(), pair.b.read())
    rows = []
    for title, cases in slices_of(samples, by).items():
        keep = np.array([case in cases for case in pair.a.scores.cases], bool)
        rows += [pair.compare(name, keep, title) for name in names]
    return [row for row in rows if row.due]


def _notes(
    pairs: Sequence[DecidedPair],
    unpaired: Sequence[int],
    judged: Iterable[MeasureComparison],
    rows: Iterable[MeasureComparison],
) -> Iterator[str]:
    """Yield notes on queries paired by text, ids of different queries, uncorrected means, narrow intervals."""
    for pair, alone in zip(pairs, unpaired, strict=True):
        if not pair.by_query:
            yield " ".join(map(str, pair.renamed_note() or ()))
            continue
        both = sum(name is not None for name in pair.by_query.values())
        text = f"{pair.a.name} and {pair.b.name} use the same line numbers as ids of different queries: "
        yield f"{text}{counted(both, 'query')} paired by text{f', {alone} not paired' if alone else ''}"
    uncalibrated = (row for row in judged if row.decided_by == "judged" and row.corrected_why)
    yield from with_measures((f"uncalibrated: {row.corrected_why}", row.measure) for row in uncalibrated)
    narrow = (row for row in rows if row.interval.note)
    yield from with_measures((row.interval.note, row.measure) for row in narrow)


def _remarks(sides: Sequence[Side], names: Sequence[str]) -> list[str]:
    """Return the notes on how the means were obtained, with the system's name if not all have the note."""
    rows: dict[str, dict[str, dict[str, None]]] = {}
    for side in sides:
        for summary in side.report.summaries:
            if summary.system == side.system and summary.measure in names:
                for remark in summary.basis.remarks:  # the notes left out are given for the difference
                    if not remark.startswith("uncalibrated") and remark != summary.basis.interval_note:
                        rows.setdefault(remark, {}).setdefault(side.name, {})[summary.measure] = None
    return [
        f"{f'{system}: ' if len(systems) < len(sides) else ''}{remark} ({', '.join(measures)})"
        for remark, systems in rows.items()
        for system, measures in systems.items()
    ]


def _moved_queries(pair: PairedSystems, measure: str) -> dict[Literal["worst", "best"], list[MovedLine]]:
    """Return the queries with the largest losses ("worst") and gains ("best") in a measure."""
    ours, theirs = pair.values(measure)
    change = theirs.values - ours.values
    gain = change if higher_is_better(pair.a.types[measure]) else -change
    order = np.argsort(np.where(np.isnan(gain), 0.0, gain), kind="stable").tolist()
    worst = [row for row in order[:_MOST_MOVED] if gain[row] < -SAME]
    best = [row for row in order[::-1][:_MOST_MOVED] if gain[row] > SAME]
    case_of = {row: pair.a.scores.cases[int(ours.case[row])] for row in (*worst, *best)}
    cases = set(case_of.values())
    in_a = {case: in_b for case in pair.b.scores.cases if (in_b := pair.case_in_a(case)) in cases}
    before = pair.a.first_of(cases)
    after = {in_a[case]: sample for case, sample in pair.b.first_of(in_a).items()}

    def line(row: int) -> MovedLine:
        case, low, high = case_of[row], float(ours.low[row]), float(theirs.low[row])
        a, b = before.get(case), after.get(case)
        gold = None
        if a and b:  # the ranks of each gold document, changed ones first
            old, new = dict[str | None, int](), dict[str | None, int]()
            for sample, rank_of in ((a, old), (b, new)):
                for rank, context in enumerate(distinct_contexts(sample), 1):
                    rank_of.setdefault(context.id, rank)
            names = dict.fromkeys((*relevant(a, 1), *chain.from_iterable(a.gold or ())))
            ranks = [(name, old.get(name), new.get(name)) for name in names]
            gold = sorted(ranks, key=lambda row: row[1] == row[2])
        return MovedLine(case, a.query if a else "", low, high, high - low, gold)

    return {"worst": list(map(line, worst)), "best": list(map(line, best))}


def _best_systems(pairs: Sequence[PairedSystems], measures: Iterable[str], seed: int) -> Iterator[BestSystem]:
    """Yield the best system by each measure of quality, if three or more are compared with the same one."""
    first = pairs[0].a
    if len(pairs) < 2 or any(pair.a is not first for pair in pairs):
        return
    clusters = {case: name for pair in reversed(pairs) for case, name in pair.clusters.items()}
    for name in measures:
        canonical = first.types[name]
        if is_diagnostic(canonical):
            continue
        both = [pair.values(name) for pair in pairs]
        known = [np.asarray(ours.case[ours.complete & theirs.complete]) for ours, theirs in both]
        cases = reduce(np.intersect1d, known)
        if not len(cases):
            continue
        sides = [[side.taken(np.flatnonzero(np.isin(side.case, cases))) for side in pair] for pair in both]
        sign = 1.0 if higher_is_better(canonical) else -1.0
        gains = [sign * (theirs.values - ours.values) for ours, theirs in sides]
        span = limits_of(range_of(canonical), *(side for pair in sides for side in pair))
        found = best_system(
            np.stack([np.zeros(len(cases)), *gains], axis=1),
            clusters=first.scores.clusters_of(sides[0][0].case, clusters),
            value_range=None if span is None else (span[0] - span[1], span[1] - span[0]),
            seed=seed,
        )
        names = [first.name, *(pair.b.name for pair in pairs)]
        yield found.replace(system=names[found.number], measure=name)
