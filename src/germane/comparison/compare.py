"""Systems compared over the same queries: did the change help, by how much, and what is the difference made of?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np

from germane.clean import counted
from germane.comparison.choosing import best_systems
from germane.comparison.corrected import DecidedPair
from germane.comparison.decomposition import other_corpus, split_by_cause
from germane.comparison.formats import Comparison
from germane.comparison.parts import (
    SharedSamples,
    compared,
    how_judged,
    mixed_scores,
    moved_queries,
    renamed_note,
    served_models,
    verdicts_of,
)
from germane.comparison.regression import regression, within_margin
from germane.errors import InputError
from germane.measures.declaration import parse_measures
from germane.reports.data import ReportData
from germane.reports.pairing import (
    MeasureComparison,
    PairedSystems,
    Side,
    adjusted,
    measures_in_common,
    pairs_of,
)
from germane.reports.report import find_report, is_of_results, open_together
from germane.reports.summary import canonical_name, check_change, is_diagnostic, slices_of
from germane.results.naming import parse_directions, parse_ranges
from germane.statistics.comparison import Decision, TestName
from germane.statistics.ranking import Overlap
from germane.tables.counterparts import texts_of
from germane.types import Json


def compare(
    a: ReportData | str | Path,
    *more: ReportData | str | Path,
    names: Sequence[str] = (),
    systems: Sequence[str] = (),
    measures: str | Iterable[str] | None = None,
    primary: str | Iterable[str] | None = None,
    margin: Mapping[str, float] | Iterable[str] | None = None,
    cluster: str | Mapping[str, str] | None = None,
    by: str | None = None,
    across_judges: bool = False,
    allow_stand_in: bool = False,
    fail_on_regression: bool = False,
    test: TestName = "interval",
    seed: int = 0,
    higher_is_better: Mapping[str, bool] | Iterable[str] = (),
    ranges: Mapping[str, tuple[float, float]] | Iterable[str] = (),
) -> Comparison:
    """Compare systems on the same queries, each with the first.

    Args:
        a: The baseline: a Report, report folder, `--json` document, result file of another program, or folder of reports (the
            latest). Alone, its systems are compared.
        more: The others.
        names: Names of the systems, the first one's first. Default: `Report.name`, or the systems' names.
        systems: Systems to compare within one report; with several reports, the system of each, or one name for all.
        measures: Measures to compare. Default: all in common.
        primary: Measures that decide the outcome, over which p-values are adjusted. Default: all that measure quality.
        margin: The acceptable loss by measure: {"nDCG@10": 0.02}.
        cluster: The metadata field that clusters samples, or the cluster by case id. Default: `Sample.cluster`.
        by: A tag or metadata field; each of its slices is compared too.
        across_judges: Allow reports of different judges.
        allow_stand_in: Let gates decide on verdicts of a stand-in (the lexical judge).
        fail_on_regression: Add a gate per primary measure that fails if its outcome is "worse".
        test: "interval" for the p-value of the interval, "sign-flip" for a permutation test.
        seed: Random seed of the permutation test, and of the halves of the queries that choose the best of several systems.
        higher_is_better: Direction of measures of other programs' files: {"loss": False}, or names.
        ranges: Smallest and largest value of such measures: {"helpfulness": (1, 5)}.

    Raises:
        InputError: A report, system or measure is missing, no case is in both, the judges differ, or a margin exceeds the
            measure's range.
    """
    reports, guesses = open_together((a, *more), parse_ranges(ranges), parse_directions(higher_is_better))
    against = pairs_of(reports, systems, names)
    sides = list(dict.fromkeys([*(side for side, _ in against), *(other for _, other in against)]))
    common = measures_in_common(sides)
    chosen = common if measures is None else _named(sides, measures, common, "measure")
    if not chosen:
        have = "; ".join(f"{side.name}: {', '.join(side.types)}" for side in sides)
        fix = f"score them alike (germane score REPORT -m ...): {have}"
        raise InputError("no measure is in all of them", fix=fix)
    tested = [name for name in chosen if not is_diagnostic(sides[0].types[name])]
    first = tested or chosen if primary is None else _named(sides, primary, chosen, "primary")
    margins = _margins(() if margin is None else margin, sides, chosen)
    judged = [name for name in chosen if verdicts_of(sides, name) != "labels"]
    differ = list(dict.fromkeys(words for pair in against if (words := how_judged(*pair, judged))))
    if differ and judged and not across_judges:
        raise InputError(
            f"{differ[0]}: the difference in {judged[0]} may be the judge's",
            fix="judge both alike, or split the difference with --across-judges (across_judges=True)",
        )
    pairs = [DecidedPair(side, other, _clusters(side, other, cluster), test, seed) for side, other in against]
    shared_of = {pair: SharedSamples(pair) for pair in pairs}
    rows: list[MeasureComparison] = []
    notes = [*guesses, *(differ if judged else [])]
    for pair in pairs:
        mine = [compared(pair, name) for name in chosen]
        if not any(comparison.due for comparison in mine):
            problem = f"{pair.a.name} and {pair.b.name} have no query in common"
            raise InputError(problem, fix="compare the same queries")
        rows += [
            _decided(row, margins, allow_stand_in=allow_stand_in)
            for row in _split(pair, mine, shared_of[pair])
        ]
        notes += [note] if not differ and (note := served_models(pair.a, pair.b, judged)) else []
        if judged and (pair.a.report.tables is pair.b.report.tables or not differ):
            notes += _covered(pair)
    rows = adjusted(rows, first)
    several = len(pairs) > 1
    gates = [within_margin(row, several=several) for row in rows if row.decision]
    gates += [regression(row, several=several) for row in rows if row.tests and fail_on_regression]
    if by is not None:
        sliced = [row for pair in pairs for row in _slices(pair, chosen, by)]
        rows += [row.replace(tests=0) for row in adjusted(sliced, first)]  # a slice has no outcome of its own
    only_in: dict[str, list[str]] = {side.name: [] for side in sides}
    overlaps: dict[str, Overlap] = {}
    for pair in pairs:
        if other_corpus(pair):
            notes.append(f"{pair.a.name} and {pair.b.name} searched different documents (--corpus)")
        only_a, only_in[pair.b.name] = pair.only_in()
        overlaps |= {pair.b.name: overlap} if (overlap := shared_of[pair].overlap()) else {}
        notes += _paired(pair, len(only_a), len(only_in[pair.b.name]), shared_of[pair].all_renamed())
        only_in[pair.a.name] = list(dict.fromkeys([*only_in[pair.a.name], *only_a]))
    judged_here = [] if any(map(is_of_results, reports)) else rows
    notes += [*_uncalibrated(judged_here), *_too_narrow(rows), *_remarks(sides, chosen)]
    if measures is None:
        others = dict.fromkeys(name for side in sides for name in side.types if name not in chosen)
        notes += [f"not in all of them, not compared: {', '.join(others)}"] if others else []
    moved = {pair.b.name: moved_queries(pair, first[0]) for pair in pairs}
    return Comparison(
        systems=tuple(side.name for side in sides),
        primary=tuple(first),
        comparisons=tuple(rows),
        only_in=only_in,
        overlaps=overlaps,
        worst={name: worst for name, (worst, _) in moved.items()},
        best={name: best for name, (_, best) in moved.items()},
        choices=tuple(best_systems(pairs, dict.fromkeys((*first, *chosen)), seed)),
        notes=tuple(dict.fromkeys(notes)),
        gates=tuple(gates if allow_stand_in else [gate.without_stand_in() for gate in gates]),
        reports=tuple(reports),
    )


def check_same_data(a: Path, b: Path) -> None:
    """InputError where fewer than half of either report's queries are in the other."""
    asked = [set(texts_of(find_report(path).samples()).values()) for path in (a, b)]
    if 2 * len(asked[0] & asked[1]) < min(map(len, asked)):
        problem = f"the two latest reports are of different data: {a} and {b}"
        raise InputError(problem, fix="name two: germane compare A B")


def comparison_of(baseline: ReportData, report: ReportData) -> dict[str, Json] | None:
    """The document of `germane compare --json` of a report and its baseline; None where they cannot be compared as a whole."""
    with suppress(InputError):
        return compare(baseline, report, across_judges=True).to_json()
    return None


def _named(sides: Sequence[Side], chosen: str | Iterable[str], names: Sequence[str], what: str) -> list[str]:
    """The reported names of these measures."""
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
            fix = f"in all: {', '.join(names) or 'none'}"
            raise InputError(f"the {what} {text} is not in all of them", fix=fix)
        result.append(name)
    return list(dict.fromkeys(result))


def parse_margins(texts: Iterable[str]) -> dict[str, float]:
    """Margins by measure, from texts like 'nDCG@10: 0.02'; InputError for another text."""
    result = {}
    for text in texts:
        name, _, number = (field.strip() for field in text.rpartition(":"))
        try:
            margin = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            margin = -1.0
        if not name or not margin >= 0:
            problem = f"--margin {text!r} is not a measure with the loss that is acceptable"
            raise InputError(problem, fix="write 'nDCG@10: 0.02'")
        result[name] = margin
    return result


def _margins(
    margin: Mapping[str, float] | Iterable[str], sides: Sequence[Side], names: Sequence[str]
) -> dict[str, float]:
    """Margins by the reported names of measures; InputError where one is beyond its measure's range."""
    if not hasattr(margin, "__iter__"):
        fix = f'write margin={{"{names[0]}": {margin!r}}}'
        raise InputError(f"margin={margin!r} names no measure", fix=fix)
    texts = [margin] if isinstance(margin, str) else margin
    margins = texts if isinstance(texts, Mapping) else parse_margins(texts)
    result = {
        _named(sides, canonical_name(text), names, "margin's measure")[0]: value
        for text, value in margins.items()
    }
    for name, value in result.items():
        check_change(sides[0].types[name], value, f"a margin of {value:g} for {name}")
    return result


def _decided(
    row: MeasureComparison, margins: Mapping[str, float], *, allow_stand_in: bool
) -> MeasureComparison:
    """The row with its decision; undecided where a stand-in judged, unless that is allowed."""
    if (margin := margins.get(row.measure)) is None:
        return row
    undecided = row.stand_in and not allow_stand_in
    return row.replace(decision=Decision("undecided", margin) if undecided else row.decide(margin))


def _clusters(a: Side, b: Side, cluster: str | Mapping[str, str] | None) -> Mapping[str, str] | None:
    if cluster is None or isinstance(cluster, Mapping):
        return cluster
    result: dict[str, str] = {}
    for side in (b, a):
        seen = set[str]()
        for sample in side.read():
            if sample.id not in seen and cluster in sample.metadata:
                result[sample.id] = str(sample.metadata[cluster])
            seen.add(sample.id)
    if not result and (is_of_results(a.report) or is_of_results(b.report)):
        raise InputError("a result file has no metadata", fix="name its column of clusters cluster")
    if not result:
        fix = "name a field of the samples' metadata as the cluster"
        raise InputError(f"no sample has the metadata {cluster!r}", fix=fix)
    return result


def _split(
    pair: PairedSystems, rows: Sequence[MeasureComparison], shared: SharedSamples
) -> list[MeasureComparison]:
    """The rows with what their differences are made of."""
    mixed, refused = mixed_scores(pair, [row.measure for row in rows], shared)
    results = []
    for row in rows:
        name = row.measure
        parts = (
            split_by_cause(pair, name, mixed[name])
            if name in mixed
            else refused.get(name, "it was not measured in both")
        )
        verdicts = verdicts_of((pair.a, pair.b), name)
        split, why = (None, parts) if isinstance(parts, str) else (parts, "")
        results.append(row.replace(parts=split, verdicts=verdicts, parts_why=why))
    return results


def _covered(pair: PairedSystems) -> list[str]:
    """The share of B's distinct judged items that had been judged for A."""
    ours, theirs = (
        {row.item for row in side.report.places() if row.system == side.system} for side in (pair.a, pair.b)
    )
    both, all_of_b = len(ours & theirs), f"the {len(theirs):,} items judged for {pair.b.name}"
    return [f"{both:,} of {all_of_b} were already judged for {pair.a.name}"] if theirs else []


def _paired(
    pair: PairedSystems, only_a: int, only_b: int, renamed: Sequence[tuple[str, str, str]]
) -> list[str]:
    """The note that queries were paired by their texts, or that an id has two texts."""
    if pair.by_query:
        both = sum(name is not None for name in pair.by_query.values())
        text = f"{pair.a.name} and {pair.b.name} have line numbers as ids, but these are different queries: "
        text += f"{counted(both, 'query')} paired by text"
        return [f"{text}, {only_a + only_b} not paired" if only_a + only_b else text]
    return [" ".join(map(str, note)) for note in renamed_note(pair, renamed)]


def _slices(pair: PairedSystems, names: Sequence[str], by: str) -> list[MeasureComparison]:
    samples = pair.a.read() if pair.by_query else chain(pair.a.read(), pair.b.read())
    numbers = pair.a.scores.numbers
    rows = []
    for title, cases in slices_of(samples, by).items():
        keep = np.zeros(len(numbers), bool)
        keep[[numbers[case] for case in cases if case in numbers]] = True
        rows += [pair.compare(name, keep, title) for name in names]
    return [row for row in rows if row.due]


def _uncalibrated(rows: Iterable[MeasureComparison]) -> list[str]:
    """The differences that rest on a judge alone, and why people's labels do not correct them."""
    result: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.decided_by == "judged" and row.corrected_why:
            result.setdefault(row.corrected_why, {})[row.measure] = None
    return [f"uncalibrated: {why} ({', '.join(measures)})" for why, measures in result.items()]


def _too_narrow(rows: Iterable[MeasureComparison]) -> list[str]:
    """The notes on intervals of differences that are too narrow, over all cases."""
    result: dict[str, dict[str, None]] = {}
    for row in rows:
        if (note := row.interval.note) and not row.slice:
            result.setdefault(note, {})[row.measure] = None
    return [f"{note} ({', '.join(measures)})" for note, measures in result.items()]


def _remarks(sides: Sequence[Side], names: Sequence[str]) -> list[str]:
    """The remarks on the basis of the means, each with its measures, and with its system where it does not concern all."""
    result: dict[str, dict[str, dict[str, None]]] = {}
    for side in sides:
        for summary in side.report.summaries:
            if summary.system == side.system and summary.measure in names:
                for remark in summary.basis.remarks:  # what follows is said of the difference
                    if not remark.startswith("uncalibrated") and remark != summary.basis.interval_note:
                        result.setdefault(remark, {}).setdefault(side.name, {})[summary.measure] = None
    return [
        f"{f'{system}: ' if len(systems) < len(sides) else ''}{remark} ({', '.join(measures)})"
        for remark, systems in result.items()
        for system, measures in systems.items()
    ]
