"""A comparison, and how it looks: in the terminal, and as Markdown, LaTeX, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Literal

from rich.console import Group, RenderableType
from rich.text import Text

from germane.clean import cell, clean, counted, html_table, markdown_text, shorten, some_of
from germane.comparison.parts import MovedQuery
from germane.comparison.schema import ComparedLine, CorrectedChangeLine, MovedLine
from germane.errors import InputError
from germane.reports.pairing import MeasureComparison, Orders, orders_json, taus
from germane.reports.ranking import TextTable
from germane.reports.schema import line_of
from germane.reports.summary import (
    LIKE_THESE,
    canonical_name,
    higher_is_better,
    in_digits,
    interval_in_words,
    p_in_words,
)
from germane.statistics.comparison import DifferenceParts
from germane.statistics.intervals import FEW_DIFFER
from germane.types import Json
from germane.wholetable import HangingText, plain_text

_LONGEST_HEAD = 16
"""Signs of a system's name that fit over a column of means."""

_WORDS = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
_COLOUR = {"pass": "green", "fail": "red", "undecided": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two or more systems over the same cases, each against the first (or against itself in another report).

    `comparison["nDCG@10"]` is a MeasureComparison, with several systems `comparison["nDCG@10", "bm25"]`; `in` and iteration
    are over the measures' names. `str()` is the table that the command line prints.

    `comparisons` hold one row per system and measure, after those over all cases the ones per slice. `verdict` is "pass",
    "fail" or "undecided" against the margins, None where none was given. `only_in` lists the cases that another system does
    not have, `worst` and `best` the queries that moved most by `primary[0]`, by the name of the system.
    """

    systems: tuple[str, ...]
    primary: tuple[str, ...]
    comparisons: tuple[MeasureComparison, ...]
    only_in: Mapping[str, Sequence[str]]
    worst: Mapping[str, Sequence[MovedQuery]] = field(default_factory=dict)
    best: Mapping[str, Sequence[MovedQuery]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def held(self) -> tuple[str, ...]:
        """The systems that are held against another."""
        return tuple(dict.fromkeys(comparison.b for comparison in self.comparisons))

    @property
    def whole(self) -> list[MeasureComparison]:
        """The rows over all cases."""
        return [comparison for comparison in self.comparisons if not comparison.slice]

    @property
    def orders(self) -> Orders:
        """How alike two reports of the same systems order these, by measure."""
        means: dict[str, list[tuple[float, float]]] = {}
        for comparison in self.whole if len({value.a for value in self.comparisons}) > 1 else ():
            if comparison.mean_a is not None and comparison.mean_b is not None:
                means.setdefault(comparison.measure, []).append((comparison.mean_a, comparison.mean_b))
        return {measure: taus(*zip(*both, strict=True)) for measure, both in means.items()}

    @property
    def verdict(self) -> Literal["pass", "fail", "undecided"] | None:
        """The worst of the decisions: undecided before failed, as in every verdict; None where there are none."""
        results = {
            comparison.decision.verdict for comparison in self.comparisons if comparison.decision is not None
        }
        order: dict[Literal["pass", "fail", "undecided"], int] = {"undecided": 0, "fail": 1, "pass": 2}
        return min(results, key=order.__getitem__, default=None)

    @property
    def exit_code(self) -> int:
        """0 passed or no margin was given, 1 failed, 3 undecided."""
        return {"fail": 1, "undecided": 3}.get(self.verdict or "pass", 0)

    def __getitem__(self, name: str | tuple[str, str]) -> MeasureComparison:
        """The comparison of a measure over all cases, of the second system or the one named: `["nDCG@10", "B"]`."""
        measure, system = name if isinstance(name, tuple) else (name, self.held[0])
        wanted = {measure, canonical_name(measure)}
        for comparison in self.whole:
            if comparison.b == system and not wanted.isdisjoint({comparison.measure, comparison.type}):
                return comparison
        have = f"{', '.join(self) or 'none'} of {', '.join(self.held)}"
        raise KeyError(f"{measure} was not compared for {system}; compared: {have}")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(comparison.measure for comparison in self.whole))

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str | tuple) and bool(self[name])
        except KeyError:
            return False

    def to_json(self) -> dict[str, Json]:
        """The document of `germane compare --json`."""
        return _document(self)

    def save(self, path: str | Path) -> None:
        """Write a file: .json, .csv, .md, .tex or .txt; InputError for another extension."""
        path = Path(path)
        render = COMPARISON_FORMATS.get(path.suffix.lower())
        if render is None:
            problem = f"{path}: no comparison is written as {path.suffix or 'a folder'}"
            raise InputError(problem, fix=f"use {', '.join(COMPARISON_FORMATS)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(self), "utf-8")

    def __str__(self) -> str:
        return plain_text(render_comparison(self), 120)

    def _repr_html_(self) -> str:
        lines = [line for comparison in self.whole for line in _remarks(self, comparison)]
        verdict = [] if self.verdict is None else [f"verdict  {_WORDS[self.verdict]}"]
        table = _table(self, self.comparisons, file=True)
        return html_table(table.header, table.rows, [*lines, *self.notes, *verdict])


def render_comparison(found: Comparison) -> RenderableType:
    """The comparison for a rich console."""
    return Group(*(HangingText(part) if isinstance(part, Text) else part for part in _parts(found)))


def _parts(found: Comparison) -> Iterator[RenderableType]:
    """What moved and what to know first, the differences and the verdict last: they stay on a screen of 24 lines."""
    slices = [value for value in found.comparisons if value.slice]
    if slices:
        yield _table(found, slices, slices=True).rich()
        yield Text("  p-values of slices are not adjusted", style="dim")
    for system in found.held:
        for word, moved in (("worse", found.worst), ("better", found.best)):
            if queries := moved.get(system):
                of = f" in {clean(system)}" if len(found.systems) > 2 else ""
                yield Text(f"{word} by {clean(found.primary[0])}{of}")
                yield from map(_moved, queries)
    yield from map(Text, _orders(found))
    yield from (Text(line) for line in _only_in(found, "only in  "))
    yield from (Text(f"note     {clean(note)}") for note in found.notes)
    yield from map(Text, _methods(found))
    heads = _heads(found)
    against: dict[str, dict[str, None]] = {}
    for comparison in found.comparisons:
        against.setdefault(clean(comparison.a), {})[clean(comparison.b)] = None
    for a, others in against.items():
        named = len(found.systems) == 2 and heads[0] != a
        b = ", ".join(others)
        yield Text(f"{heads[1]} {b} against {heads[0]} {a}" if named else f"{b} against {a}")
    yield _table(found, found.whole).rich()
    for comparison in found.whole:
        yield from (Text(f"  {line}", style="dim") for line in _remarks(found, comparison))
    if found.verdict is not None:
        word = _WORDS[found.verdict]
        text = Text(f"verdict  {word} (exit code {found.exit_code})")
        text.stylize(f"bold {_COLOUR[found.verdict]}", 9, 9 + len(word))
        yield text.append("".join(f"\n  {line}" for line in _decisions(found)))


def _methods(found: Comparison) -> Iterator[str]:
    """How intervals and p-values were computed, and of what the intervals are."""
    for head, methods in (
        (f"interval 95%, {LIKE_THESE}: ", {comparison.interval.method for comparison in found.comparisons}),
        ("test     ", {comparison.test or "" for comparison in found.comparisons}),
    ):
        if names := ", ".join(sorted(filter(None, methods))):
            yield f"{head}{names}"


def _heads(found: Comparison) -> tuple[str, ...]:
    """What stands over the means: the systems' names, or their parts where two names are too long for a column."""
    names = tuple(map(clean, found.systems))
    return ("baseline", "new") if len(names) == 2 and max(map(len, names)) > _LONGEST_HEAD else names


_NUMBERS = ("difference", "interval", "p", "p (Holm)", "win/tie/loss", "n")


def _table(
    found: Comparison, rows: Sequence[MeasureComparison], *, slices: bool = False, file: bool = False
) -> TextTable:
    """A line per comparison; with several systems one for each, the first one's above.

    `file`: a line for each system always, with every column, and the slice beside the name of the measure.
    """
    several = file or len(found.systems) > 2
    adjusted = file or any(row.p_holm is not None and row.p_holm != row.p for row in rows)
    visible = [at for at, name in enumerate(_NUMBERS) if adjusted or name != "p (Holm)"]
    heads = [*(["slice"] if slices else []), "measure", *(["system"] if several else [])]
    means = ("mean",) if several else _heads(found)
    table = TextTable([*heads, *means, *(_NUMBERS[at] for at in visible)], names=len(heads))
    groups: dict[tuple[str, str], list[MeasureComparison]] = {}
    for comparison in rows:
        groups.setdefault((comparison.slice, comparison.measure), []).append(comparison)
    for (part, measure), alike in groups.items():
        values = [mean for value in alike for mean in (value.mean_a, value.mean_b) if mean is not None]
        best = (max if higher_is_better(alike[0].type) else min)(values, default=None)
        titles = [*([part] if slices else []), f"{measure} [{part}]" if file and part else measure]
        lines: dict[str, tuple[list[float | None], list[str]]] = {}
        for comparison in alike:
            cells = [_cells(comparison)[at] for at in visible]
            if several:
                lines.setdefault(comparison.a, ([comparison.mean_a], [""] * len(visible)))
                lines[comparison.b] = [comparison.mean_b], cells
            else:
                lines[""] = [comparison.mean_a, comparison.mean_b], cells
            if comparison.corrected is not None:
                corrected = [_corrected_cells(comparison)[at] for at in visible]
                lines[f"{comparison.b}, corrected" if several else "corrected"] = [], corrected
        for system, (of_line, cells) in lines.items():
            names = [*titles, system] if several else [*titles[:-1], f"  {system}" if system else titles[-1]]
            bold = {at for at, mean in enumerate(of_line, len(heads)) if mean is not None and mean == best}
            shown_means = map(in_digits, of_line) if of_line else [""] * len(means)
            table.add([*map(clean, names), *shown_means, *cells], bold)
    return table


def _cells(measure_comparison: MeasureComparison) -> list[str]:
    """What stands under each of the heads of numbers."""
    return [
        in_digits(measure_comparison.difference, "+"),
        interval_in_words(measure_comparison.interval.ends, sign="+"),
        p_in_words(measure_comparison.p),
        p_in_words(measure_comparison.p_holm if measure_comparison.corrected is None else None),
        f"{measure_comparison.wins}/{measure_comparison.ties}/{measure_comparison.losses}",
        str(measure_comparison.n)
        if measure_comparison.n == measure_comparison.due
        else f"{measure_comparison.n}/{measure_comparison.due}",
    ]


def _corrected_cells(measure_comparison: MeasureComparison) -> list[str]:
    """The same of the corrected difference."""
    difference, _, p = measure_comparison.deciding
    return [
        in_digits(difference, "+"),
        _ends(measure_comparison),
        p_in_words(p),
        p_in_words(measure_comparison.p_holm),
        "",
        "",
    ]


def _ends(measure_comparison: MeasureComparison) -> str:
    """The interval that decides."""
    return interval_in_words(measure_comparison.deciding[1].ends, sign="+")


def _name(found: Comparison, measure_comparison: MeasureComparison) -> str:
    return clean(
        f"{measure_comparison.measure}, {measure_comparison.b}"
        if len(found.systems) > 2
        else measure_comparison.measure
    )


def _remarks(found: Comparison, measure_comparison: MeasureComparison) -> Iterator[str]:
    """What must be known to read a difference: what could have been shown, and what it is made of."""
    name, parts = _name(found, measure_comparison), measure_comparison.parts
    if 0 < measure_comparison.wins + measure_comparison.losses < FEW_DIFFER <= measure_comparison.n:
        yield f"{name}: fewer than {FEW_DIFFER} queries differ: large losses in 2% of queries would show in few samples of this size"
    if (corrected := measure_comparison.corrected) is not None:
        alone = interval_in_words(corrected.set_ends, sign="+")
        unsure = (
            f", {corrected.unsure} unsure (the interval covers whatever they are)" if corrected.unsure else ""
        )
        yield (
            f"{name}: decided by the corrected difference: {counted(corrected.labels, 'label')} in {counted(corrected.queries, 'query')}{unsure}; "
            f"of these queries alone {alone}"
        )
    if (
        measure_comparison.corrected is None
        and measure_comparison.mde is not None
        and not measure_comparison.distinguishable
    ):
        ends = measure_comparison.interval.ends
        sure = ends is not None and not ends[0] <= 0 <= ends[1]
        what = "smaller than these queries reliably show" if sure else "not distinguishable"
        yield f"{name}: {what}: {_detectable(measure_comparison)}"
    if measure_comparison.interval.ends is None and measure_comparison.interval.why:
        yield f"{name}: no interval: {measure_comparison.interval.why}"
    if parts is not None and (parts.verdicts or parts.joined):
        text = ", ".join(_part(parts, cause) for cause, part in parts.causes.items() if part)
        share = (
            ""
            if parts.share is None
            else f"; {parts.share:.0%} of what moved is the {measure_comparison.verdicts}"
        )
        yield f"{name}: {text}{share if parts.verdicts else ''}"
        if parts.joined:
            yield f"{name}: what is joined by + cannot be told apart from what is stored"


def _part(parts: DifferenceParts, cause: str) -> str:
    ends = parts.ends.get(cause)
    within = f" ({interval_in_words(ends, sign='+')})" if ends else ""
    return f"{cause} {parts.causes[cause]:+.4f}{within}"


def _only_in(found: Comparison, start: str) -> Iterator[str]:
    for system, cases in found.only_in.items():
        if cases:
            yield f"{start}{clean(system)}: {len(cases)} ({some_of(cases)})"


def _orders(found: Comparison) -> Iterator[str]:
    for measure, (tau, top) in found.orders.items():
        both = f"Kendall's tau {in_digits(tau, digits=3)}, of the better half {in_digits(top, digits=3)}"
        yield f"order    of the systems by {clean(measure)}: {both}"


def _moved(moved_query: MovedQuery) -> Text:
    """What was added to, dropped from and moved in the list of a query, in words."""
    text = ""
    if moved_query.lists is not None:
        moved = [f"{item} {old}->{new}" for item, old, new in moved_query.lists.moved]
        changes = {"added": moved_query.lists.added, "dropped": moved_query.lists.dropped, "moved": moved}
        text = "; ".join(f"{word} {some_of(items, 3)}" for word, items in changes.items() if items)
        text = text or "the same list"
    return Text(
        f"  {moved_query.change:+.4f}  {shorten(moved_query.sample, 80)}  {moved_query.a:.4f} -> {moved_query.b:.4f}  {text}"
    )


def _decisions(found: Comparison) -> Iterator[str]:
    for comparison in found.comparisons:
        if (decision := comparison.decision) is not None:
            needed = (
                f"; {decision.needed:,} queries would likely pass a B that is no worse"
                if decision.needed
                else ""
            )
            held = f"{_name(found, comparison)}, margin {decision.margin:g}: {_ends(comparison)}{needed}"
            yield f"{_WORDS[decision.verdict]:9}  {held}"


def _document(found: Comparison) -> dict[str, Json]:
    return {
        "schema_version": 1,
        "passed": found.exit_code == 0,
        "exit_code": found.exit_code,
        "verdict": found.verdict,
        "systems": list(found.systems),
        "primary": list(found.primary),
        "comparisons": [_row(comparison) for comparison in found.whole],
        "slices": [
            {**_row(comparison), "slice": comparison.slice}
            for comparison in found.comparisons
            if comparison.slice
        ],
        "only_in": {system: list(cases) for system, cases in found.only_in.items()},
        "moved": {
            system: {
                "worst": [_moved_row(query) for query in found.worst.get(system, ())],
                "best": [_moved_row(query) for query in found.best.get(system, ())],
            }
            for system in found.held
        },
        "orders": orders_json(found.orders),
        "notes": list(found.notes),
    }


def _row(measure_comparison: MeasureComparison) -> dict[str, Json]:
    parts, ends, decision = (
        measure_comparison.parts,
        measure_comparison.interval.ends,
        measure_comparison.decision,
    )
    return line_of(
        ComparedLine,
        measure_comparison,
        interval=list(ends) if ends else None,
        interval_method=measure_comparison.interval.method if ends else None,
        interval_why=measure_comparison.interval.why or None,
        estimand="queries",
        level=measure_comparison.interval.level,
        units=measure_comparison.interval.n,
        decision=decision and decision.verdict,
        margin=decision and decision.margin,
        needed_to_decide=decision and decision.needed,
        corrected=_corrected_row(measure_comparison),
        corrected_why=measure_comparison.corrected_why or None,
        parts=parts and _parts_row(parts),
        parts_why=measure_comparison.parts_why or None,
    )


def _parts_row(parts: DifferenceParts) -> dict[str, Json]:
    causes = {**dict.fromkeys(("retrieval", "judge", "labels"), 0.0), **parts.causes}
    ends = {cause: list(both) for cause, both in parts.ends.items()}
    return {**causes, "intervals": ends, "n": parts.n, "share": parts.share}


def _corrected_row(measure_comparison: MeasureComparison) -> dict[str, Json] | None:
    corrected = measure_comparison.corrected
    if corrected is None:
        return None
    ends, alone = corrected.interval.ends, corrected.set_ends
    return line_of(
        CorrectedChangeLine,
        corrected,
        interval=list(ends) if ends else None,
        set_interval=list(alone) if alone else None,
    )


def _moved_row(moved_query: MovedQuery) -> dict[str, Json]:
    names = ("added", "dropped", "moved")
    lists = {
        name: None if moved_query.lists is None else list(getattr(moved_query.lists, name)) for name in names
    }
    return line_of(MovedLine, moved_query, **lists)


def _csv(found: Comparison) -> str:
    rows: list[dict[str, Json]] = []
    for comparison in found.comparisons:
        row: dict[str, Json] = {"slice": comparison.slice, **_row(comparison)}
        parts, ends = row.pop("parts") or {}, row.pop("interval") or (None, None)
        corrected = row.pop("corrected") or {}
        least, most = corrected.get("interval") or (None, None)
        of_parts = {name: parts.get(name) for name in ("retrieval", "judge", "labels")}
        of_parts["joined"] = fsum(part for name, part in parts.items() if "+" in name) if parts else None
        of_corrected = {f"corrected_{name}": corrected.get(name) for name in ("difference", "p", "labels")}
        of_corrected |= {"corrected_low": least, "corrected_high": most}
        rows.append({**row, "low": ends[0], "high": ends[1], **of_parts, **of_corrected})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(map(cell, row.values()) for row in rows)
    return out.getvalue()


def _markdown(found: Comparison) -> str:
    table = _table(found, found.comparisons, file=True)
    lines = [line for comparison in found.whole for line in _remarks(found, comparison)]
    lines += [*_only_in(found, "only in "), *_orders(found), *found.notes]
    parts = [table.markdown(markdown_text), "\n", *(f"- {markdown_text(line, 300)}\n" for line in lines)]
    if found.verdict is not None:
        parts.append(f"\n**{_WORDS[found.verdict].capitalize()}** (exit code {found.exit_code})\n\n")
        parts += [f"- {markdown_text(line, 300)}\n" for line in _decisions(found)]
    return "".join(parts)


COMPARISON_FORMATS: dict[str, Callable[[Comparison], str]] = {
    ".json": lambda found: json.dumps(_document(found), ensure_ascii=False, indent=1) + "\n",
    ".csv": _csv,
    ".md": _markdown,
    ".tex": lambda found: _table(found, found.comparisons, file=True).latex(("hline",) * 3),
    ".txt": lambda found: f"{found}\n",
}
"""What a comparison can be written as, by the file's extension."""


def _detectable(row: MeasureComparison) -> str:
    """The difference that this number of queries can detect, and about how many queries the measured one takes."""
    assert row.mde is not None
    text = f"{row.n:,} queries can detect a difference of {row.mde:.4f} (power 0.8)"
    if not row.difference:
        return text
    needed = float(
        f"{row.n * (row.mde / row.difference) ** 2:.2g}"
    )  # the detectable difference falls with the root of n
    return f"{text}; detecting one of {abs(row.difference):.4f} takes about {needed:,.0f}"
