"""How a comparison looks: in the terminal, and as Markdown, LaTeX, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from germane.clean import cell, clean, html_table, shorten
from germane.comparison.planning import Overlap, Ranked, RankedSystems
from germane.comparison.result import ComparisonData, MeasureComparison, MovedQuery, higher_is_better
from germane.comparison.schema import ComparedLine, ComparisonDocument, MovedLine, PartsLine
from germane.errors import InputError
from germane.reports.schema import line_of
from germane.reports.summary import interval_in_words
from germane.types import Json
from germane.wholetable import WholeTable

__all__ = [
    "COMPARISON_FORMATS",
    "comparison_document",
    "comparison_html",
    "comparison_text",
    "overlap_text",
    "ranking_text",
    "render_comparison",
    "write_comparison",
]

_SHOWN = 10
"""Ids and items that are named before the others are only counted."""

_LONGEST_HEAD = 16
"""Signs of a system's name that fit over a column of means."""

_WORDS = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
_COLOUR = {"pass": "green", "fail": "red", "undecided": "yellow"}


def comparison_text(found: ComparisonData, width: int = 120) -> str:
    """The comparison as plain text."""
    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True, highlight=False, legacy_windows=False)
    console.print(render_comparison(found))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def comparison_html(found: ComparisonData) -> str:
    """The comparison as a table for a notebook."""
    heads = [
        "slice",
        "measure",
        "system",
        "baseline",
        "mean",
        "difference",
        "interval",
        "p",
        "win/tie/loss",
        "n",
    ]
    rows = [
        [
            one.slice or "all",
            one.measure,
            one.b,
            "-" if one.mean_a is None else f"{one.mean_a:.4f}",
            "-" if one.mean_b is None else f"{one.mean_b:.4f}",
            _signed(one.difference),
            _ends(one),
            _p(one.p),
            f"{one.wins}/{one.ties}/{one.losses}",
            _count(one),
        ]
        for one in found.comparisons
    ]
    shown = rows if any(one.slice for one in found.comparisons) else [row[1:] for row in rows]
    lines = [line for one in _whole(found) for line in _remarks(found, one)]
    verdict = [] if found.verdict is None else [f"verdict  {_WORDS[found.verdict]}"]
    return html_table(heads if shown is rows else heads[1:], shown, [*lines, *found.notes, *verdict])


def render_comparison(found: ComparisonData) -> RenderableType:
    """The comparison for a rich console."""
    return Group(*_parts(found))


def _parts(found: ComparisonData) -> Iterator[RenderableType]:
    yield from map(Text, _titles(found))
    yield _table(found, _whole(found))
    for one in _whole(found):
        for line in _remarks(found, one):
            yield Text(f"  {line}", style="dim")
    slices = [one for one in found.comparisons if one.slice]
    if slices:
        yield _table(found, slices, slices=True)
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


def _table(found: ComparisonData, rows: Sequence[MeasureComparison], *, slices: bool = False) -> Table:
    table = WholeTable(box=box.SIMPLE_HEAD, pad_edge=False)
    several = len(found.systems) > 2
    adjusted = any(one.p_holm is not None and one.p_holm != one.p for one in rows)
    for heading, wanted in (("slice", slices), ("measure", True), ("system", several)):
        if wanted:
            table.add_column(heading)
    means = ("mean",) if several else _heads(found)
    for heading in (
        *means,
        "difference",
        "interval",
        "p",
        *(["p (Holm)"] if adjusted else []),
        "win/tie/loss",
    ):
        table.add_column(Text(heading), justify="right", no_wrap=heading == "interval")
    table.add_column("n", justify="right")
    shown: set[tuple[str, str, str]] = set()
    places = {
        name: place for place, name in enumerate(dict.fromkeys((one.slice, one.measure) for one in rows))
    }
    for one in sorted(rows, key=lambda row: places[row.slice, row.measure]):
        names = [Text(clean(one.slice))] if slices else []
        names.append(Text(clean(one.measure)))
        best = _best(rows, one)
        if several and (one.slice, one.measure, one.a) not in shown:
            shown.add((one.slice, one.measure, one.a))
            empty = [""] * (4 + adjusted + 1)
            table.add_row(*names, Text(clean(one.a)), _number(one.mean_a, best=best), *empty)
        if several:
            names.append(Text(clean(one.b)))
        values = [one.mean_b] if several else [one.mean_a, one.mean_b]
        cells = [_number(value, best=best) for value in values]
        cells += [Text(_signed(one.difference)), Text(_ends(one))]
        cells += [Text(_p(one.p)), *([Text(_p(one.p_holm))] if adjusted else [])]
        cells += [Text(f"{one.wins}/{one.ties}/{one.losses}"), Text(_count(one))]
        table.add_row(*names, *cells)
    return table


def _best(rows: Iterable[MeasureComparison], of: MeasureComparison) -> float | None:
    """The best mean of any system on the measure."""
    alike = [one for one in rows if (one.measure, one.slice) == (of.measure, of.slice)]
    means = [mean for one in alike for mean in (one.mean_a, one.mean_b) if mean is not None]
    return (max if higher_is_better(of.type) else min)(means, default=None)


def _number(value: float | None, *, best: float | None) -> Text:
    shown = "-" if value is None else f"{value:.4f}"
    return Text(shown, style="bold" if value is not None and value == best else "")


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


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
    shown = f"  {_signed(one.behind.difference)} ({_ends(one.behind)})  p {_p(one.behind.p_holm)}"
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


_HEAD = ("difference", "interval", "p", "p (Holm)", "win/tie/loss", "n")


def _cells(one: MeasureComparison) -> list[str]:
    wins = f"{one.wins}/{one.ties}/{one.losses}"
    return [_signed(one.difference), _ends(one), _p(one.p), _p(one.p_holm), wins, _count(one)]


def _lines(found: ComparisonData, bold: str) -> Iterator[list[str]]:
    """Rows of (measure, system, mean, ...), the first system's line of each measure first; the best mean is bold."""
    for one in {(one.measure, one.slice): one for one in found.comparisons}.values():
        alike = [o for o in found.comparisons if (o.measure, o.slice) == (one.measure, one.slice)]
        best = _best(alike, one)
        title = f"{one.measure} [{one.slice}]" if one.slice else one.measure

        def mean(value: float | None, best: float | None = best) -> str:
            shown = "-" if value is None else f"{value:.4f}"
            return bold.replace("@", shown) if value is not None and value == best else shown

        shown: set[str] = set()
        for other in alike:
            if other.a not in shown:
                shown.add(other.a)
                yield [title, other.a, mean(other.mean_a), *[""] * len(_HEAD)]
            yield [title, other.b, mean(other.mean_b), *_cells(other)]


def _markdown(found: ComparisonData) -> str:
    head = ["measure", "system", "mean", *_HEAD]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for title, system, mean, *more in _lines(found, "**@**"):
        lines.append(f"| {' | '.join([_escaped(title), _escaped(system), mean, *more])} |")
    lines.append("")
    lines += [f"- {_escaped(line)}" for one in _whole(found) for line in _remarks(found, one)]
    for system, cases in found.only_in.items():
        if cases:
            lines.append(f"- only in {_escaped(system)}: {len(cases)} ({_escaped(_some(cases))})")
    lines += [f"- {_escaped(line)}" for line in (*_orders(found), *found.notes)]
    if found.verdict is not None:
        lines += ["", f"**{_WORDS[found.verdict].capitalize()}** (exit code {found.exit_code})", ""]
        lines += [f"- {_escaped(_decided(found, one))}" for one in found.comparisons if one.decision]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    shown = shorten(text, 300)
    for char in "\\|`*_<>[]":
        shown = shown.replace(char, f"\\{char}")
    return shown


def _latex(found: ComparisonData) -> str:
    head = ["measure", "system", "mean", *_HEAD]
    lines = [
        r"\begin{tabular}{ll" + "r" * (len(head) - 2) + "}",
        r"\hline",
        " & ".join(head) + r" \\",
        r"\hline",
    ]
    for title, system, mean, *more in _lines(found, r"\textbf{@}"):
        lines.append(" & ".join([_tex(title), _tex(system), mean, *map(_tex, more)]) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"]) + "\n"


_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def _tex(text: str) -> str:
    escaped = {**_TEX, **{char: f"\\{char}" for char in "&%$#_{}"}}
    return "".join(escaped.get(char, char) for char in clean(text))


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
