"""How a comparison looks: in the terminal, and as Markdown, LaTeX, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from germane.clean import cell, clean, html_table, shorten
from germane.comparison.planning import Overlap, Ranked, RankedSystems
from germane.comparison.result import ComparisonData, MeasureComparison, MovedQuery, higher_is_better
from germane.comparison.schema import ComparedLine, ComparisonDocument, MovedLine, PartsLine
from germane.errors import InputError
from germane.reports.ranking import TextTable
from germane.reports.schema import line_of
from germane.reports.summary import in_digits, interval_in_words
from germane.types import Json
from germane.wholetable import plain_text

_SHOWN = 10
"""Ids and items that are named before the others are only counted."""

_LONGEST_HEAD = 16
"""Signs of a system's name that fit over a column of means."""

_WORDS = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
_COLOUR = {"pass": "green", "fail": "red", "undecided": "yellow"}


def comparison_text(found: ComparisonData, width: int = 120) -> str:
    """The comparison as plain text."""
    return plain_text(render_comparison(found), width)


def comparison_html(found: ComparisonData) -> str:
    """The comparison as a table for a notebook."""
    heads = ["slice", "measure", "system", "baseline", "mean", *_NUMBERS[:3], *_NUMBERS[4:]]
    rows = [
        [
            one.slice or "all",
            one.measure,
            one.b,
            in_digits(one.mean_a),
            in_digits(one.mean_b),
            *_cells(one, adjusted=False),
        ]
        for one in found.comparisons
    ]
    if not any(one.slice for one in found.comparisons):
        heads, rows = heads[1:], [row[1:] for row in rows]
    lines = [line for one in _whole(found) for line in _remarks(found, one)]
    verdict = [] if found.verdict is None else [f"verdict  {_WORDS[found.verdict]}"]
    return html_table(heads, rows, [*lines, *found.notes, *verdict])


def render_comparison(found: ComparisonData) -> RenderableType:
    """The comparison for a rich console."""
    return Group(*_parts(found))


def _parts(found: ComparisonData) -> Iterator[RenderableType]:
    yield from map(Text, _titles(found))
    yield _table(found, _whole(found)).rich()
    for one in _whole(found):
        for line in _remarks(found, one):
            yield Text(f"  {line}", style="dim")
    slices = [one for one in found.comparisons if one.slice]
    if slices:
        yield _table(found, slices, slices=True).rich()
        yield Text("  p-values of slices are not adjusted", style="dim")
    for system in found.held:
        yield from _moved(found, system)
    yield from map(Text, _footnotes(found))
    if found.verdict is not None:
        yield _verdict(found)


def _titles(found: ComparisonData) -> Iterator[str]:
    """Which systems are compared with which."""
    heads = _heads(found)
    against: dict[str, dict[str, None]] = {}
    for one in found.comparisons:
        against.setdefault(clean(one.a), {})[clean(one.b)] = None
    for a, others in against.items():
        b = ", ".join(others)
        named = len(found.systems) == 2 and heads[0] != a
        yield f"{heads[1]} {b} against {heads[0]} {a}" if named else f"{b} against {a}"


def _whole(found: ComparisonData) -> list[MeasureComparison]:
    return [one for one in found.comparisons if not one.slice]


def _heads(found: ComparisonData) -> tuple[str, ...]:
    """What stands over the means: the systems' names, or their parts where two names are too long for a column."""
    names = tuple(map(clean, found.systems))
    return ("baseline", "new") if len(names) == 2 and max(map(len, names)) > _LONGEST_HEAD else names


def _table(
    found: ComparisonData, rows: Sequence[MeasureComparison], *, slices: bool = False, file: bool = False
) -> TextTable:
    """A line per comparison; with several systems one for each, the first one's above.

    `file`: a line for each system always, with every column, and the slice beside the name of the measure.
    """
    several = file or len(found.systems) > 2
    adjusted = file or any(one.p_holm is not None and one.p_holm != one.p for one in rows)
    heads = [*(["slice"] if slices else []), "measure", *(["system"] if several else [])]
    numbers = [name for name in _NUMBERS if adjusted or name != "p (Holm)"]
    table = TextTable([*heads, *(("mean",) if several else _heads(found)), *numbers], names=len(heads))
    groups: dict[tuple[str, str], list[MeasureComparison]] = {}
    for one in rows:
        groups.setdefault((one.slice, one.measure), []).append(one)
    for (part, measure), alike in groups.items():
        values = [mean for one in alike for mean in (one.mean_a, one.mean_b) if mean is not None]
        best = (max if higher_is_better(alike[0].type) else min)(values, default=None)
        titles = [*([part] if slices else []), f"{measure} [{part}]" if file and part else measure]
        lines: dict[str, tuple[list[float | None], list[str]]] = {}
        for one in alike:
            cells = _cells(one, adjusted=adjusted)
            if several:
                lines.setdefault(one.a, ([one.mean_a], [""] * len(numbers)))
                lines[one.b] = [one.mean_b], cells
            else:
                lines[""] = [one.mean_a, one.mean_b], cells
        for system, (means, cells) in lines.items():
            names = [*titles, *([system] if several else [])]
            bold = {at for at, mean in enumerate(means, len(heads)) if mean is not None and mean == best}
            table.add([*map(clean, names), *map(in_digits, means), *cells], bold)
    return table


_NUMBERS = ("difference", "interval", "p", "p (Holm)", "win/tie/loss", "n")


def _cells(one: MeasureComparison, *, adjusted: bool) -> list[str]:
    wins = f"{one.wins}/{one.ties}/{one.losses}"
    holm = [_p(one.p_holm)] if adjusted else []
    return [in_digits(one.difference, "+"), _ends(one), _p(one.p), *holm, wins, _count(one)]


def _ends(one: MeasureComparison) -> str:
    return interval_in_words(one.interval.ends, sign="+")


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}" if value >= 0.00005 else f"{value:.1g}"


def _count(one: MeasureComparison) -> str:
    return str(one.n) if one.n == one.due else f"{one.n}/{one.due}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(shorten(name, 40) for name in names[:_SHOWN]) + more


def _remarks(found: ComparisonData, one: MeasureComparison) -> Iterator[str]:
    """What must be known to read a difference: what could have been shown, and what it is made of."""
    name = clean(one.measure) + (f", {clean(one.b)}" if len(found.systems) > 2 else "")
    if one.mde is not None and not one.distinguishable:
        ends = one.interval.ends
        sure = ends is not None and not ends[0] <= 0 <= ends[1]
        what = "smaller than these queries reliably show" if sure else "not distinguishable"
        needed = f"; {one.needed:,} would show this one" if one.needed else ""
        yield f"{name}: {what}: {one.n:,} queries show a difference of {one.mde:.4f} with power 0.8{needed}"
    if one.interval.ends is None and one.interval.why:
        yield f"{name}: no interval: {one.interval.why}"
    if one.parts is not None and one.parts.verdicts:
        whose = one.verdicts
        over = "" if one.parts.n == one.n else f", over {one.parts.n} of {one.n} queries"
        share = "" if one.parts.share is None else f" ({one.parts.share:.0%} of what moved is the {whose})"
        yield f"{name}: retrieval {one.parts.retrieval:+.4f}, {whose} {one.parts.verdicts:+.4f}{share}{over}"


def _footnotes(found: ComparisonData) -> Iterator[str]:
    yield from _orders(found)
    for system, cases in found.only_in.items():
        if cases:
            yield f"only in  {clean(system)}: {len(cases)} ({_some(cases)})"
    yield from (f"note     {clean(note)}" for note in found.notes)
    if tests := sorted({one.test for one in found.comparisons if one.test}):
        yield f"test     {', '.join(tests)}"


def _orders(found: ComparisonData) -> Iterator[str]:
    for measure, both in found.orders.items():
        tau, top = ("-" if value is None else f"{value:.3f}" for value in both)
        yield f"order    of the systems by {clean(measure)}: Kendall's tau {tau}, of the better half {top}"


def _moved(found: ComparisonData, system: str) -> Iterator[RenderableType]:
    for word, queries in (("worse", found.worst.get(system, ())), ("better", found.best.get(system, ()))):
        if queries:
            of = f" in {clean(system)}" if len(found.systems) > 2 else ""
            yield Text(f"{word} by {clean(found.primary[0])}{of}")
            for one in queries:
                yield Text(
                    f"  {one.change:+.4f}  {shorten(one.sample, 80)}  {one.a:.4f} -> {one.b:.4f}  {_changes(one)}"
                )


def _changes(one: MovedQuery) -> str:
    """What was added to, dropped from and moved in the list, in words."""
    if one.lists is None:
        return ""
    moved = [f"{item} {old}->{new}" for item, old, new in one.lists.moved]
    words = (("added", one.lists.added), ("dropped", one.lists.dropped), ("moved", moved))
    shown = "; ".join(f"{word} {_few(items)}" for word, items in words if items)
    return shown or "the same list"


def _few(items: Sequence[str], most: int = 3) -> str:
    return ", ".join(shorten(item, 40) for item in items[:most]) + (
        f" and {len(items) - most} more" if len(items) > most else ""
    )


def _verdict(found: ComparisonData) -> Text:
    verdict = found.verdict or "pass"
    text = Text(f"verdict  {_WORDS[verdict]} (exit code {found.exit_code})")
    text.stylize(f"bold {_COLOUR[verdict]}", 9, 9 + len(_WORDS[verdict]))
    for one in found.comparisons:
        if one.decision is not None:
            text.append(f"\n  {_decided(found, one)}")
    return text


def _decided(found: ComparisonData, one: MeasureComparison) -> str:
    assert one.decision is not None
    of = f", {clean(one.b)}" if len(found.systems) > 2 else ""
    needed = f"; {one.decision.needed:,} queries would decide it" if one.decision.needed else ""
    word = _WORDS[one.decision.verdict]
    return f"{word:9}  {clean(one.measure)}{of}, margin {one.decision.margin:g}: {_ends(one)}{needed}"


def ranking_text(found: RankedSystems) -> str:
    """The systems in order as plain text: means with intervals, and which are not distinguishable from the first."""
    names = [clean(one.system) or "-" for one in found.systems]
    width = max(map(len, names))
    lines = [f"systems by {clean(found.measure)}"]
    for name, one in zip(names, found.systems, strict=True):
        lines.append(
            f"  {name:{width}}  {one.summary.mean:.4f} ({one.summary.interval_in_words()}){_behind(one)}"
        )
    for other, (tau, top) in found.orders.items():
        shown = ["-" if value is None else f"{value:.3f}" for value in (tau, top)]
        lines.append(f"  the same order by {clean(other)}: tau {shown[0]}, top half {shown[1]}")
    return "\n".join(lines)


def _behind(one: Ranked) -> str:
    if one.behind is None:
        return ""
    shown = f"  {in_digits(one.behind.difference, '+')} ({_ends(one.behind)})  p {_p(one.behind.p_holm)}"
    return shown + ("" if one.behind.distinguishable else "  not distinguishable")


def overlap_text(found: Overlap, most: int = 10) -> str:
    """How alike two systems' lists are, and the queries that differ most."""
    differing, k = found.differing, found.k
    both = f"{len(found.queries):,} queries in both: RBO {found.rbo:.4f} (p = {found.p:g})"
    new = f"{found.new:,} of {found.total:,} results of B are not in A's first {k}"
    lines = [f"{both}, overlap@{k} {found.overlap:.4f}", f"{len(differing):,} differ in the first {k}; {new}"]
    lines += [
        f"  {shorten(one.query, 40)}  RBO {one.rbo:.4f}  overlap@{k} {one.overlap:.4f}"
        for one in differing[:most]
    ]
    if len(differing) > most:
        lines.append(f"  and {len(differing) - most:,} more")
    for name, cases in zip("AB", found.only_in, strict=True):
        if cases:
            lines.append(f"only in {name}: {len(cases)} ({_some(cases)})")
    return "\n".join(lines)


def comparison_document(found: ComparisonData) -> ComparisonDocument:
    """The document of `--json`; its schema is published."""
    return {
        "schema_version": 1,
        "passed": found.exit_code == 0,
        "exit_code": found.exit_code,
        "verdict": found.verdict,
        "systems": list(found.systems),
        "primary": list(found.primary),
        "comparisons": [_row(one) for one in found.comparisons if not one.slice],
        "slices": [{**_row(one), "slice": one.slice} for one in found.comparisons if one.slice],
        "only_in": {system: list(cases) for system, cases in found.only_in.items()},
        "moved": {
            system: {
                "worst": [_moved_row(one) for one in found.worst.get(system, ())],
                "best": [_moved_row(one) for one in found.best.get(system, ())],
            }
            for system in found.held
        },
        "orders": {name: {"tau": tau, "top_half": top} for name, (tau, top) in found.orders.items()},
        "notes": list(found.notes),
    }


def _row(one: MeasureComparison) -> ComparedLine:
    parts, ends, decision = one.parts, one.interval.ends, one.decision
    found: ComparedLine = line_of(
        ComparedLine,
        one,
        interval=list(ends) if ends else None,
        interval_method=one.interval.method if ends else None,
        interval_why=one.interval.why or None,
        level=one.interval.level,
        units=one.interval.n,
        decision=decision and decision.verdict,
        margin=decision and decision.margin,
        needed_to_decide=decision and decision.needed,
        parts=parts
        and line_of(
            PartsLine,
            parts,
            judge=parts.verdicts if one.verdicts == "judge" else 0.0,
            labels=parts.verdicts if one.verdicts == "labels" else 0.0,
        ),
        parts_why=one.parts_why or None,
    )
    return found


def _moved_row(one: MovedQuery) -> MovedLine:
    names = ("added", "dropped", "moved")
    lists = {name: None if one.lists is None else list(getattr(one.lists, name)) for name in names}
    found: MovedLine = line_of(MovedLine, one, **lists)
    return found


def _json(found: ComparisonData) -> str:
    return json.dumps(comparison_document(found), ensure_ascii=False, indent=1) + "\n"


def _csv(found: ComparisonData) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head: list[str] | None = None
    for one in found.comparisons:
        row: dict[str, Json] = {"slice": one.slice, **_row(one)}
        parts, ends = row.pop("parts") or {}, row.pop("interval") or (None, None)
        row |= {"low": ends[0], "high": ends[1]}
        row |= {name: parts.get(name) for name in ("retrieval", "judge", "labels")}
        if head is None:
            head = list(row)
            writer.writerow(head)
        writer.writerow([cell(row[name]) for name in head])
    return out.getvalue()


def _markdown(found: ComparisonData) -> str:
    table = _table(found, found.comparisons, file=True)
    lines = [table.markdown(_safe, rule="---")]
    lines += [f"- {_safe(line)}" for one in _whole(found) for line in _remarks(found, one)]
    for system, cases in found.only_in.items():
        if cases:
            lines.append(f"- only in {_safe(system)}: {len(cases)} ({_safe(_some(cases))})")
    lines += [f"- {_safe(line)}" for line in (*_orders(found), *found.notes)]
    if found.verdict is not None:
        lines += ["", f"**{_WORDS[found.verdict].capitalize()}** (exit code {found.exit_code})", ""]
        lines += [f"- {_safe(_decided(found, one))}" for one in found.comparisons if one.decision]
    return "\n".join(lines) + "\n"


def _safe(text: str) -> str:
    return re.sub(r"[\\|`*_<>\[\]]", r"\\\g<0>", shorten(text, 300))


def _latex(found: ComparisonData) -> str:
    return _table(found, found.comparisons, file=True).latex(("hline",) * 3)


def _text(found: ComparisonData) -> str:
    return comparison_text(found) + "\n"


COMPARISON_FORMATS: dict[str, Callable[[ComparisonData], str]] = {
    ".json": _json,
    ".csv": _csv,
    ".md": _markdown,
    ".tex": _latex,
    ".txt": _text,
}
"""What a comparison can be written as, by the file's extension."""


def write_comparison(found: ComparisonData, path: Path) -> None:
    """Write a comparison to a file; InputError where it has no known extension."""
    render = COMPARISON_FORMATS.get(path.suffix.lower())
    if render is None:
        raise InputError(
            f"{path}: no comparison is written as {path.suffix or 'a folder'}",
            fix=f"use {', '.join(COMPARISON_FORMATS)}",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(found), "utf-8")
