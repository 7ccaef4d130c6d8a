"""The formats of a comparison: terminal, Markdown, LaTeX, JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal

from rich.console import RenderableType
from rich.text import Text

from germane.clean import clean, counted, markdown_text, shorten, some_of
from germane.encoding import Line, internal
from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.formats import write
from germane.reports.gates import ORDER, GateResult
from germane.reports.pairing import OUTCOMES, MarginResult, MeasureComparison
from germane.reports.summary import (
    LIKE_THESE,
    canonical_name,
    higher_is_better,
    in_digits,
    interval_in_words,
    p_in_words,
)
from germane.samples.files import write_whole
from germane.show.table import Stack, Table, csv_lines, plain_text
from germane.statistics.intervals import Interval
from germane.statistics.systems import BestSystem, Overlap
from germane.types import FrozenDict, Json

_LONGEST_HEAD = 16  # the most characters of a system's name that fit over a column of means
_FEW_DIFFERING = 10  # if fewer queries than this differ, a note warns that rare large losses may go unseen

_COLOUR = {"passed": "green", "failed": "red", "undecided": "yellow"}
_OF_OUTCOME = {"better": "bold green", "worse": "bold red", "same": "bold"}
_MOST_MOVED, _MOST_NOTES, _LINE = 3, 3, 78
"""In the terminal: the most queries shown as worse (or better), lines of notes, characters of a query."""


class MovedLine(Line):
    """A query whose score changed from `a` to `b`.

    `gold` lists the id, the old rank and the new rank of each gold document. A rank is null if the document
    was not retrieved.
    """

    sample: str
    query: str
    a: float
    b: float
    change: float
    gold: list[tuple[str, int | None, int | None]] | None = None


class Comparison(
    Line, kw_only=True, rename=internal("reports", overlaps="rank_biased_overlap", choices="best")
):
    """Two or more systems on the same cases, each compared with the first (or with itself in another report).

    `verdict` is the worst result of the gates ("pass", "fail" or "undecided"), or None if there are no gates.
    `exit_code` is 0 (passed, or no gates), 1 (failed) or 3 (undecided).

    `comparison["nDCG@10"]` is a MeasureComparison; with several systems, write `comparison["nDCG@10",
    "bm25"]`. `in` and iteration use the measures' names. `str()` is what the command line prints: first
    `sentences`, one per primary measure. `to_json` is the document of `germane compare --json`.

    `comparisons` contains a row per system and measure over all cases, `slices` the same for each group of
    cases. `gates` are the results for margins and for `fail_on_regression`. `only_in` lists, by system, the
    queries that other systems lack. `overlaps` (in the document `rank_biased_overlap`) says, by system, how
    similar its lists are to the first system's, if the lists are stored. `choices` (in the document `best`)
    lists the best system by each measure, primary measures first, if three or more systems are compared with
    the same one. `moved` lists, by system, the queries with the largest losses and gains in `primary[0]`.
    """

    schema_version: Literal[1] = 1
    passed: bool = True
    exit_code: int = 0
    verdict: MarginResult | None = None
    gates: Sequence[GateResult] = ()
    systems: Sequence[str]
    primary: Sequence[str]
    comparisons: Sequence[MeasureComparison]
    slices: Sequence[MeasureComparison] = ()
    only_in: Mapping[str, Sequence[str]]
    overlaps: Mapping[str, Overlap] = FrozenDict()
    moved: Mapping[str, Mapping[Literal["worst", "best"], Sequence[MovedLine]]] = FrozenDict()
    choices: Sequence[BestSystem] = ()
    notes: Sequence[str] = ()
    reports: Sequence[Any] = ()

    def __post_init__(self) -> None:
        outcomes = {gate.outcome for gate in self.gates}
        self.verdict = next((word for word in OUTCOMES if OUTCOMES[word] in outcomes), None)
        self.exit_code = {"fail": 1, "undecided": 3}.get(self.verdict or "pass", 0)
        self.passed = self.exit_code == 0

    @property
    def sentences(self) -> list[str]:
        """One sentence per primary measure with its outcome over all cases."""
        return [row.in_words for row in self.comparisons if row.in_words]

    @property
    def rows(self) -> list[MeasureComparison]:
        """The comparisons over all cases, followed by the comparisons of each slice."""
        return [*self.comparisons, *self.slices]

    @property
    def candidates(self) -> tuple[str, ...]:
        """The names of the systems that are compared with the first."""
        return tuple(dict.fromkeys(row.b for row in self.comparisons))

    def __getitem__(self, name: str | tuple[str, str]) -> MeasureComparison:
        """Return the comparison of a measure for the second system, or for the named one: `["nDCG@10", "B"]`.

        Raises KeyError if the measure was not compared for this system.
        """
        measure, system = name if isinstance(name, tuple) else (name, self.candidates[0])
        names = {measure, canonical_name(measure)}
        for row in self.comparisons:
            if row.b == system and not names.isdisjoint({row.measure, row.type}):
                return row
        have = f"{', '.join(self) or 'none'} of {', '.join(self.candidates)}"
        raise KeyError(f"{measure} was not compared for {system}; compared measures: {have}")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(row.measure for row in self.comparisons))

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str | tuple) and bool(self[name])
        except KeyError:
            return False

    def to_json(self) -> dict[str, Json]:
        """Return the document of `germane compare --json`."""
        return self.as_json()

    def last_report(self) -> ReportData:
        """Return the last report as its own page shows it: with the means that people's labels correct."""
        last = self.reports[-1]
        shown: ReportData = last.open(last.folder) if last.folder else last
        return shown

    def save(self, path: str | Path, **page: Any) -> None:
        """Write a .html, .json, .csv, .md, .tex or .txt file. Raises InputError for another extension.

        The .html page is the page of the second report; `page` holds further sections for this page.
        """
        path = Path(path)
        if path.suffix.lower() == ".html":
            if len(self.reports) != 2 or len(self.candidates) > 1:
                fix = "compare two reports, or write .md"
                raise InputError(f"{path}: an .html page compares two reports, with one system each", fix=fix)
            write(self.last_report(), path, baseline=self.reports[0], comparison=self.to_json(), **page)
            return
        render = COMPARISON_FORMATS.get(path.suffix.lower())
        if render is None:
            problem = f"{path}: a comparison cannot be written as {path.suffix or 'a folder'}"
            raise InputError(problem, fix=f"use .html, {', '.join(COMPARISON_FORMATS)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, [render(self)])

    def __str__(self) -> str:
        return plain_text(render_comparison(self), 120)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return f"<Comparison {', '.join(self.systems)}: {'; '.join(self.sentences)}>"


def render_comparison(comparison: Comparison, *, every: bool = False) -> RenderableType:
    """Return the comparison for a rich console; at most three lines of notes, or all if `every` is true."""
    rows = _sections(comparison, every=every)
    return Stack(Text(clean(row)) if isinstance(row, str) else row for row in rows)


def _sections(comparison: Comparison, *, every: bool) -> Iterator[RenderableType]:
    """Yield the lines and tables in order: outcomes, differences, moved queries, notes, methods, verdict."""
    for row in comparison.comparisons:
        if row.in_words:
            yield Text(clean(row.in_words), style=_OF_OUTCOME.get(row.outcome or "", ""))
    yield from _best_of(comparison)
    heads = _heads(comparison)
    for a in dict.fromkeys(row.a for row in comparison.comparisons):
        b = ", ".join(dict.fromkeys(row.b for row in comparison.comparisons if row.a == a))
        if len(comparison.systems) != 2 or heads[0] != clean(a):  # otherwise the table's head names them
            yield f"{heads[1]} {b} against {heads[0]} {a}" if len(heads) == 2 else f"{b} against {a}"
    yield _table(comparison, comparison.comparisons)
    for row in comparison.comparisons:
        yield from (Text(f"  {line}", style="dim") for line in _remarks(comparison, row))
    if comparison.slices:
        yield _table(comparison, comparison.slices)
    for system, moved in comparison.moved.items():
        suffix = f" in {system}" if len(comparison.systems) > 2 else ""
        for word, queries in (("worse", moved["worst"]), ("better", moved["best"])):
            title = [f"{word} by {comparison.primary[0]}{suffix}"] if queries else []
            yield from (*title, *map(_moved, queries[:_MOST_MOVED]))
    yield from _lists(comparison, "lists    ", "only in  ")
    kept = len(comparison.notes) if every or len(comparison.notes) <= _MOST_NOTES else _MOST_NOTES - 1
    yield from (f"note     {note}" for note in comparison.notes[:kept])
    if hidden := len(comparison.notes) - kept:
        yield f"note     {counted(hidden, 'more note')}: -v and the page show them"
    if intervals := ", ".join(sorted({row.interval.method for row in comparison.rows} - {""})):
        yield f"95% confidence intervals ({LIKE_THESE}): {intervals}"
    if comparison.verdict is not None:
        word = OUTCOMES[comparison.verdict]
        text = Text(f"verdict  {word} (exit code {comparison.exit_code})")
        text.stylize(f"bold {_COLOUR[word]}", 9, 9 + len(word))
        yield text.append("".join(f"\n  {clean(line)}" for line in _decisions(comparison)))


def _best_of(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence per primary measure on the best of three or more systems and its held-out gain."""
    shown = {row.measure for row in comparison.comparisons if row.outcome and not row.stand_in}
    first = comparison.systems[0]
    for line in comparison.choices:
        if line.measure in shown and line.held_out is not None:
            ends = interval_in_words(line.ends, 3, "+")
            seen = f"{line.gain:+.3f} over {first} on these queries,"
            gains = "the first; choosing again gains" if line.system == first else seen
            holds = f"{line.held_out:+.3f} on the held-out half of the queries (95% interval {ends})"
            yield f"best in {line.measure}: {line.system}, {gains} {holds}"


def _heads(comparison: Comparison) -> tuple[str, ...]:
    """Return the headings of the columns of means: the systems' names, or baseline and new if too long."""
    names = tuple(map(clean, comparison.systems))
    return ("baseline", "new") if len(names) == 2 and max(map(len, names)) > _LONGEST_HEAD else names


_NUMBERS = ("difference", "interval", "p", "p (Holm)", "win/tie/loss", "n")


def _table(comparison: Comparison, rows: Sequence[MeasureComparison], *, every: bool = False) -> Table:
    """Return a table with a row per comparison, and a second row if labels correct the difference."""
    several, sliced = len(comparison.systems) > 2, any(row.slice for row in rows)
    adjusted = any(row.p_holm is not None and row.p_holm != row.p for row in rows)
    left_out = "" if every else "p" if adjusted else "p (Holm)"
    numbers = [name for name in _NUMBERS if name != left_out]
    heads = [*["slice"] * sliced, "measure", *["system"] * several]
    means = ("baseline", "mean") if several else _heads(comparison)
    table = Table([*heads, *means, *numbers], "l" * len(heads) + "r")
    if sliced:
        tests = sum(bool(row.slice) and row.p_holm is not None for row in rows)
        table.notes.append(f"p-values are adjusted over all {tests} tests of slices (Holm)")
    for row in rows:
        names = [*[row.slice or ""] * sliced, row.measure, *[row.b] * several]
        pair = (row.mean_a, row.mean_b)
        best = (max if higher_is_better(row.type) else min)((m for m in pair if m is not None), default=None)
        bold = {at for at, mean in enumerate(pair, len(heads)) if mean is not None and mean == best}
        n = str(row.n) if row.n == row.due else f"{row.n}/{row.due}"
        rest = {"win/tie/loss": f"{row.wins}/{row.ties}/{row.losses}", "n": n}
        judged = (row.difference, row.interval, row.p)
        cells = _cells(*judged, row.p_holm if row.corrected is None else None) | rest
        table.add([*names, *map(in_digits, pair), *(cells[name] for name in numbers)], bold)
        if row.corrected is not None:
            cells = _cells(*row.deciding, row.p_holm)
            names[-1] += ", corrected"
            table.add([*names, "", "", *(cells.get(name, "") for name in numbers)])
    return table


def _cells(
    difference: float | None, interval: Interval, p: float | None, p_holm: float | None
) -> dict[str, str]:
    """Return a difference, its interval and its p-values as strings, by column heading."""
    change = in_digits(difference, "+"), interval_in_words(interval.ends, sign="+")
    return dict(zip(_NUMBERS, (*change, p_in_words(p), p_in_words(p_holm)), strict=False))


def _remarks(comparison: Comparison, row: MeasureComparison) -> Iterator[str]:
    """Yield the notes printed below a measure's difference, such as its two parts."""
    name = clean(f"{row.measure}, {row.b}" if len(comparison.systems) > 2 else row.measure)
    ends, parts = row.interval.ends, row.parts
    if 0 < row.wins + row.losses < _FEW_DIFFERING <= row.n:
        yield f"{name}: fewer than {_FEW_DIFFERING} queries differ: a sample of this size rarely shows large losses in 2% of queries"
    if (corrected := row.corrected) is not None:
        labels = f"{counted(corrected.labels, 'label')} in {counted(corrected.queries, 'query')}"
        if corrected.unsure:
            labels += f", {corrected.unsure} unsure (the interval allows for both answers)"
        alone = interval_in_words(corrected.set_ends, sign="+")
        yield f"{name}: decided by the corrected difference ({labels}); for these queries alone {alone}"
    if ends is None and row.interval.why:
        yield f"{name}: no interval: {row.interval.why}"
    if parts is not None and parts.labels:
        yield f"{name}: retrieval {parts.retrieval:+.4f}, other labels on the same passages {parts.labels:+.4f}"


def _lists(comparison: Comparison, overlaps: str = "", only_in: str = "only in ") -> Iterator[str]:
    """Yield lines on the overlap of the systems' lists, and on the queries that only one system has."""
    for system, overlap in comparison.overlaps.items():
        suffix = f" of {system}" if len(comparison.candidates) > 1 else ""
        yield f"{overlaps}rank-biased overlap{suffix}: {overlap}"
    for system, cases in comparison.only_in.items():
        if cases:
            yield f"{only_in}{system}: {len(cases)} ({some_of(cases)})"


def _moved(query: MovedLine) -> str:
    """Return one line for a query that moved: change, query, old and new rank of a gold document."""
    changed = [row for row in query.gold or () if row[1] != row[2]]
    ranks = ""
    if changed:
        (name, old, new), others = changed[0], len(changed) - 1
        more = f" and {others} more" if others else ""
        ranks = f"{shorten(name, 32, end=18)}: {old or '-'} -> {new or '-'}{more}"
    head = f"  {query.change:+.4f}  {shorten(query.sample, 40)} "
    room = _LINE - len(head) - len(ranks) - 2
    question = shorten(query.query, max(room, 24)) or f"{query.a:.4f} -> {query.b:.4f}"
    return f"{head}{question}{'  ' if ranks else ''}{ranks}"


def _decisions(comparison: Comparison) -> Iterator[str]:
    """Yield one line per gate, failed gates first."""
    for gate in sorted(comparison.gates, key=lambda gate: ORDER.index(gate.outcome)):
        yield f"{gate.word:9}  {gate.text}"


def _csv(comparison: Comparison) -> str:
    rows: list[dict[str, Json]] = []
    for compared in comparison.rows:
        row: dict[str, Json] = {"slice": compared.slice or "", **compared.as_json()}
        parts, ends = row.pop("parts") or {}, row.pop("interval") or (None, None)
        corrected = row.pop("corrected") or {}
        low, high = corrected.get("interval") or (None, None)
        row |= {"low": ends[0], "high": ends[1]} | {name: parts.get(name) for name in ("retrieval", "labels")}
        row |= {f"corrected_{name}": corrected.get(name) for name in ("difference", "p", "labels")}
        rows.append({**row, "corrected_low": low, "corrected_high": high})
    return "".join(csv_lines([rows[0], *(row.values() for row in rows)]))


def _markdown(comparison: Comparison) -> str:
    def bullets(lines: Iterable[str]) -> str:
        return "".join(f"- {markdown_text(line, 300)}\n" for line in lines)

    head = "".join(f"**{markdown_text(sentence, 400)}**  \n" for sentence in comparison.sentences)
    table = _table(comparison, comparison.rows, every=True).markdown()
    remarks = (line for row in comparison.comparisons for line in _remarks(comparison, row))
    notes = bullets((*_best_of(comparison), *remarks, *_lists(comparison), *comparison.notes))
    text = f"{head}{chr(10) if head else ''}{table}\n{notes}"
    if comparison.verdict is None:
        return text
    verdict = f"\n**{OUTCOMES[comparison.verdict].capitalize()}** (exit code {comparison.exit_code})"
    return f"{text}{verdict}\n\n{bullets(_decisions(comparison))}"


COMPARISON_FORMATS: dict[str, Callable[[Comparison], str]] = {
    ".json": lambda comparison: json.dumps(comparison.to_json(), ensure_ascii=False, indent=1) + "\n",
    ".csv": _csv,
    ".md": _markdown,
    ".tex": lambda comparison: _table(comparison, comparison.rows, every=True).tex(("hline",) * 3),
    ".txt": lambda comparison: f"{plain_text(render_comparison(comparison, every=True), 120)}\n",
}
"""The functions that render a comparison, by file extension."""
