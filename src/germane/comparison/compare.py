"""Systems compared over the same queries: did the change help, by how much, and what is the difference made of?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from germane.comparison.documents import find_report
from germane.comparison.formats import comparison_document, comparison_html, comparison_text, write_comparison
from germane.comparison.pairing import Compared, Pair, Side, measures_in_common, pairs_of
from germane.comparison.parts import covered, how_judged, mixed_scores, moved_queries, verdicts_of
from germane.comparison.regression import parse_margins
from germane.comparison.result import ComparisonData, MeasureComparison, adjusted
from germane.comparison.schema import ComparisonDocument
from germane.errors import InputError
from germane.measures.declaration import parse_measures
from germane.reports.data import ReportData, slices_of
from germane.reports.report import Report
from germane.reports.summary import canonical_name


class Comparison(ComparisonData):
    """Two or more systems over the same cases, each against the first.

    `comparison["nDCG@10"]` is a MeasureComparison, with several systems `comparison["nDCG@10", "bm25"]`; `verdict` is
    "pass", "fail" or "undecided" against the margins, None where none was given. `in` and iteration are over the measures'
    names. `str()` is the table that the command line prints.
    """

    __slots__ = ()

    def to_json(self) -> ComparisonDocument:
        """The document of `germane compare --json`."""
        return comparison_document(self)

    def save(self, path: str | Path) -> None:
        """Write a file: .json, .csv, .md, .tex or .txt; InputError for another extension."""
        write_comparison(self, Path(path))

    def __str__(self) -> str:
        return comparison_text(self)

    def _repr_html_(self) -> str:
        return comparison_html(self)


def compare(
    a: ReportData | str | Path,
    *more: ReportData | str | Path,
    systems: Sequence[str] = (),
    measures: str | Iterable[str] | None = None,
    primary: str | Iterable[str] | None = None,
    margin: Mapping[str, float] | Iterable[str] | None = None,
    cluster: str | Mapping[str, str] | None = None,
    by: str | None = None,
    across_judges: bool = False,
    seed: int = 0,
) -> Comparison:
    """Compare systems over the same cases: every other one against the first.

    Per measure: the paired difference with its interval, a sign-flip test, Holm's adjustment over the primary measures,
    wins, ties and losses, the smallest difference that so many cases could have shown, what the difference is made of,
    and the decision against a margin. Of two reports that hold the same several systems each system is compared with
    itself, and `orders` says how alike the two order them.

    Args:
        a: What the others are held against: a Report, a report folder, a `--json` document, or a folder of reports, of
            which the latest is taken. Alone, its systems are compared.
        more: The others.
        systems: Of one report: the systems to compare. Of several: the system of each, or one name for all.
        measures: The measures to compare; None = all that every system has.
        primary: The measures that the finding rests on, over which p-values are adjusted; None = all compared.
        margin: The loss that is acceptable by measure, 0 or more: {"nDCG@10": 0.02}.
        cluster: The field of the samples' metadata that names their cluster, or the cluster by the case's id; None =
            `Sample.cluster`.
        by: A tag, or a field of metadata: each of its slices is compared too.
        across_judges: Compare what different judges judged; the difference is then split into retrieval and judge.
        seed: Seed of the random flips of the tests.

    Raises:
        InputError: A report, system or measure is not there, no case is in both, or different judges judged them.
    """
    against = pairs_of([_compared(one) for one in (a, *more)], systems)
    sides = list(dict.fromkeys([*(one for one, _ in against), *(other for _, other in against)]))
    names = _chosen(sides, measures)
    first = names if primary is None else _named(sides, primary, names, "primary")
    margins = _margins(sides, margin, names)
    differ = list(dict.fromkeys(words for pair in against if (words := how_judged(*pair))))
    judged = [name for name in names if verdicts_of(sides, name) != "labels"]
    if differ and judged and not across_judges:
        raise InputError(
            f"{differ[0]}: the difference in {judged[0]} may be the judge's",
            fix="judge both alike, or split the difference with --across-judges (across_judges=True)",
        )
    pairs = [Pair(one, other, _clusters(one, other, cluster), seed) for one, other in against]
    rows: list[MeasureComparison] = []
    notes = list(differ) if judged else []
    for pair in pairs:
        mine = [pair.compare(name) for name in names]
        if not any(one.due for one in mine):
            raise InputError(
                f"{pair.a.name} and {pair.b.name} have no query in common", fix="compare the same queries"
            )
        rows += _split(pair, mine)
        if pair.a.report.tables is pair.b.report.tables or not differ:
            seen = covered(pair) if judged else None
            if seen:
                notes.append(
                    f"{pair.a.name}'s verdicts cover {seen['covered']} of {pair.b.name}'s {seen['items']} items"
                )
    decided = (
        replace(one, decision=one.decide(margins[one.measure])) if one.measure in margins else one
        for one in rows
    )
    rows = adjusted(decided, first)
    for pair in pairs:
        rows += _slices(pair, names, by)
    moved = {pair.b.name: moved_queries(pair, first[0]) for pair in pairs}
    return Comparison(
        systems=tuple(side.name for side in sides),
        primary=tuple(first),
        comparisons=tuple(rows),
        only_in=_only_in(sides, pairs),
        worst={name: worst for name, (worst, _) in moved.items()},
        best={name: best for name, (_, best) in moved.items()},
        notes=tuple(dict.fromkeys([*notes, *_remarks(sides, names), *_left_out(sides, names, measures)])),
    )


def comparison_of(baseline: ReportData, report: ReportData) -> ComparisonDocument | None:
    """What `germane compare --json` says of a report and its baseline; None where they cannot be compared as a whole."""
    with suppress(InputError):
        return compare(baseline, report, across_judges=True).to_json()
    return None


def _compared(one: ReportData | str | Path) -> Compared:
    if isinstance(one, ReportData):
        return Compared(one)
    return Compared(find_report(one, Report.open), str(one))


def _chosen(sides: Sequence[Side], measures: str | Iterable[str] | None) -> list[str]:
    common = measures_in_common(sides)
    if measures is not None:
        return _named(sides, measures, common, "measure")
    if not common:
        have = "; ".join(f"{side.name}: {', '.join(side.measures)}" for side in sides)
        raise InputError(
            "no measure is in all of them", fix=f"score them alike (germane score REPORT -m ...): {have}"
        )
    return common


def _named(sides: Sequence[Side], wanted: str | Iterable[str], names: Sequence[str], what: str) -> list[str]:
    """The reported names of these measures."""
    texts = [wanted] if isinstance(wanted, str) else list(map(str, wanted))
    try:
        listed = [str(measure) for text in texts for measure in parse_measures([text])]
    except InputError:
        listed = texts
    found = []
    for text in listed:
        name = next((name for name in names if text in sides[0].measures[name]), None)
        if name is None:
            raise InputError(
                f"the {what} {text} is not in all of them", fix=f"in all: {', '.join(names) or 'none'}"
            )
        found.append(name)
    return list(dict.fromkeys(found))


def _margins(
    sides: Sequence[Side], margin: Mapping[str, float] | Iterable[str] | None, names: Sequence[str]
) -> dict[str, float]:
    given = margin if isinstance(margin, Mapping) else parse_margins(margin or ())
    return {
        _named(sides, canonical_name(text), names, "margin's measure")[0]: value
        for text, value in given.items()
    }


def _clusters(a: Side, b: Side, cluster: str | Mapping[str, str] | None) -> Mapping[str, str]:
    if isinstance(cluster, Mapping):
        return cluster
    if cluster is None:
        return {**b.report.tables.clusters(), **a.report.tables.clusters()}
    found = {
        case: str(trials[0].metadata[cluster])
        for side in (b, a)
        for case, trials in side.samples.items()
        if cluster in trials[0].metadata
    }
    if not found:
        raise InputError(
            f"no sample has the metadata {cluster!r}",
            fix="name a field of the samples' metadata as the cluster",
        )
    return found


def _split(pair: Pair, rows: Sequence[MeasureComparison]) -> list[MeasureComparison]:
    """The rows with what their differences are made of."""
    if pair.a.of is pair.b.of:  # one report holds one verdict per item: all of the difference is retrieval
        none = np.full(len(pair.a.of.scores.cases), np.nan)
        mixed = {}
        for one in rows:
            _, theirs = pair.values(one.measure)
            mixed[one.measure] = none.copy()
            mixed[one.measure][theirs.case] = theirs.values
        refused: dict[str, str] = {}
    else:
        mixed, refused = mixed_scores(pair, [one.measure for one in rows])
    found = []
    for one in rows:
        parts = pair.split(one.measure, mixed[one.measure]) if one.measure in mixed else None
        why = "" if parts else refused.get(one.measure, "no query has the verdicts that it takes")
        found.append(
            replace(one, parts=parts, verdicts=verdicts_of((pair.a, pair.b), one.measure), parts_why=why)
        )
    return found


def _slices(pair: Pair, names: Sequence[str], by: str | None) -> list[MeasureComparison]:
    if by is None:
        return []
    samples = (s for side in (pair.a, pair.b) for trials in side.samples.values() for s in trials)
    numbers = pair.a.of.scores.numbers
    found = []
    for title, cases in slices_of(samples, by).items():
        keep = np.zeros(len(numbers), bool)
        keep[[numbers[case] for case in cases if case in numbers]] = True
        found += [pair.compare(name, keep, title) for name in names]
    return [one for one in found if one.due]


def _only_in(sides: Sequence[Side], pairs: Sequence[Pair]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {side.name: [] for side in sides}
    for pair in pairs:
        only_a, only_b = pair.only_in()
        mine = found[pair.a.name]
        mine += [case for case in only_a if case not in set(mine)]
        found[pair.b.name] = only_b
    return found


def _remarks(sides: Sequence[Side], names: Sequence[str]) -> list[str]:
    """What must be said of the means' basis, each with the measures that it concerns, and the system where not all."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for side in sides:
        for summary in side.report.summaries:
            if summary.system == side.system and summary.measure in names:
                for remark in summary.basis.remarks():
                    found.setdefault(remark, {}).setdefault(side.name, {})[summary.measure] = None
    notes: dict[str, None] = {}
    for remark, systems in found.items():
        for system, measures in systems.items():
            of = f"{system}: " if len(systems) < len(sides) else ""
            notes[f"{of}{remark} ({', '.join(measures)})"] = None
    return list(notes)


def _left_out(sides: Sequence[Side], names: Sequence[str], measures: object) -> list[str]:
    """Which measures are not compared because one of the systems does not have them."""
    if measures is not None:
        return []
    every = dict.fromkeys(name for side in sides for name in side.measures if name not in names)
    return [f"not in all of them, not compared: {', '.join(every)}"] if every else []
