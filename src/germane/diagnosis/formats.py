"""Print stages and diagnoses: for the terminal, as JSON, and as data for the report's HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import UNSET
from rich.console import RenderableType
from rich.text import Text

from germane.clean import clean, counted, shorten, some_of
from germane.diagnosis.diagnosis import Blame, BlameKind, SystemDiagnosis, is_shown
from germane.diagnosis.stages import SystemStages
from germane.encoding import json_of
from germane.reports.summary import LIKE_THESE, in_digits, interval_in_words, p_in_words
from germane.show.table import Stack, Table
from germane.types import Json

_BAR = 24  # the length in characters of a bar that stands for all relevant documents
_SHOWN = 10  # the number of lost documents shown per system
_WORDS: dict[BlameKind, str] = {
    "answered": "answered from the contexts",
    "not_retrieved": "not retrieved",
    "ignored": "retrieved and ignored",
    "unsupported": "answered without support",
    "unknown": "unknown",
}


def document_of(systems: Sequence[SystemDiagnosis] | Sequence[SystemStages]) -> Json:
    """Return the JSON document of one system's record, or of several under `systems`."""
    if len(systems) > 1:
        return {"schema_version": 1, "systems": json_of(systems)}
    return systems[0].replace(schema_version=1, system=UNSET).as_json()


def stages_document(systems: Sequence[SystemStages]) -> Json:
    """Return the document that `germane stages --json` prints, with a row for every relevant document."""
    return document_of([system.replace(rows=list(system.documents())) for system in systems])


def render_stages(reports: Sequence[SystemStages], *, every: bool = False) -> RenderableType:
    """Return each system's stages for a rich console, with the lost documents, or all if `every` is true."""
    return Stack(line for report in reports for line in _stages(report, every=every))


def _stages(report: SystemStages, *, every: bool) -> Iterator[RenderableType]:
    if report.system:
        yield Text(f"\n{clean(report.system)}", style="bold")
    yield Text(f"{counted(report.relevant, 'relevant document')} of {counted(report.queries, 'query')}")
    heads = ["stage", "share of them", "in", "lost", "saved", "recall", "interval"]
    changes = ["change", "interval of the change"] if len(report.stages) > 1 else []
    table = Table([*heads, *changes], "llr", notes=[f"95% confidence intervals ({LIKE_THESE})"])
    for stage in report.stages:
        bar = "█" * round(_BAR * stage.relevant / report.relevant)
        counts = [f"{n:,}" if n else "-" for n in (stage.lost, stage.saved)]
        recall = in_digits(stage.recall), interval_in_words(stage.interval)
        row = [stage.name, bar, f"{stage.relevant:,}", *counts, *recall]
        if stage is not report.stages[0]:
            row += [in_digits(stage.difference, "+"), interval_in_words(stage.difference_interval, sign="+")]
        table.add(row + [""] * (len(table.heads) - len(row)), {5})
    yield table
    yield Text("ends     " + ", ".join(f"{count:,} {where}" for where, count in report.ends.items()))
    documents = list(report.documents()) if every else list(islice(report.documents(lost=True), _SHOWN))
    more = report.relevant - report.stages[-1].relevant - len(documents)
    heads = ["query", "document", "outcome", "grade", *report.ranked.names]
    table = Table(
        heads, "lllr", title="every relevant document" if every else "lost documents, best ranks first"
    )
    if more > 0 and not every:
        table.notes.append(f"and {more:,} more: -q or --json prints every document")
    for document in documents:
        where = f"lost at {document.lost}" if document.where == "lost" else document.where
        names = shorten(document.sample, 40), shorten(document.document, 60), where
        table.add([*names, document.grade, *(rank or "-" for rank in document.ranks.values())])
    if documents:
        yield table
    yield from (Text(f"note     {clean(note)}") for note in report.notes)


def diagnosis_page(systems: Sequence[SystemDiagnosis]) -> Json:
    """Return the diagnoses as JSON for the report's HTML page, with `blame` replaced by one line of text.

    `blame` says whether retrieval or generation failed; it is null if too few verdicts are stored.
    """
    rows = json_of(systems)
    for row, system in zip(rows, systems, strict=True):
        row["blame"] = blame_in_words(system.blame) if is_shown(system.blame) else None
    return rows


def render_diagnosis(systems: Sequence[SystemDiagnosis]) -> RenderableType:
    """Return each system's diagnosis for a rich console: the changes that would help, and what failed."""
    return Stack(line for diagnosis in systems for line in _helps(diagnosis))


def _helps(diagnosis: SystemDiagnosis) -> Iterator[RenderableType]:
    if diagnosis.system:
        yield Text(f"\n{clean(diagnosis.system)}", style="bold")
    if diagnosis.mean is not None:
        yield from _changes(diagnosis, diagnosis.mean)
    if is_shown(diagnosis.blame):
        yield from (Text(clean(line)) for line in blame_lines(diagnosis.blame))
    yield from (Text(f"note     {clean(note)}") for note in diagnosis.notes)


def _changes(diagnosis: SystemDiagnosis, mean: float) -> Iterator[RenderableType]:
    some = "" if diagnosis.n == diagnosis.total else f"{diagnosis.n:,} of "
    over = f"{some}{counted(diagnosis.total, 'sample')}"
    heads = ["change", "", "mean", "difference", "interval", "p (Holm)", "win/tie/loss", "drops"]
    title = f"{diagnosis.measure} is {mean:.4f} over {over}; what would change it"
    notes = [
        f"paired differences with 95% confidence intervals ({LIKE_THESE})",
        "at most: the gain of a perfect step",
    ]
    table = Table(heads, "llr", title=title, notes=notes)
    for line in diagnosis.changes:
        names = [line.change, "at most" if line.limit else ""]
        change = [in_digits(line.difference, "+"), interval_in_words(line.interval, sign="+")]
        counts = f"{line.wins}/{line.ties}/{line.losses}"
        dropped = "" if line.dropped is None else f"{line.dropped:.0%}"
        table.add([*names, in_digits(line.mean), *change, p_in_words(line.p_holm), counts, dropped], {3})
    yield table
    gains = Table(["query", "text", "change", "now", "gain"], "lllr", title="queries with the largest gain")
    if (more := len(diagnosis.queries) - _SHOWN) > 0:
        gains.notes.append(f"and {more:,} more: --json lists them")
    for query in diagnosis.queries[:_SHOWN]:
        name = shorten(query.sample, 40) + (f" #{query.trial}" if query.trial else "")
        asked, gain = shorten(query.query, 40), in_digits(query.gain, "+")
        gains.add([name, asked, query.change, in_digits(query.value), gain])
    if gains.rows:
        yield gains


def blame_in_words(blame: Blame) -> str:
    """Return one line with each outcome's proportion and interval, and the measures that lack verdicts."""
    missing = blame["unknown"].add or () if blame["unknown"].count else ()
    add = f"; add -m '{' '.join(missing)}'" if missing else ""
    if blame["unknown"].share == 1:
        return f"retrieval or generation: unknown{add}"
    parts = []
    for name, line in blame.items():
        if line.count:
            ends = f", {line.interval[0]:.0%} to {line.interval[1]:.0%}" if line.interval else ""
            parts.append(f"{_WORDS[name]} {line.count} ({line.share:.0%}{ends})")
    return f"retrieval or generation: {', '.join(parts)}{add}"


def blame_lines(blame: Blame) -> Iterator[str]:
    """Yield the printed lines: the proportion of each outcome, then the first queries of each bad outcome."""
    yield blame_in_words(blame)
    for name in ("not_retrieved", "ignored", "unsupported"):
        if blame[name].count:
            yield f"  {_WORDS[name]}: {some_of(blame[name].queries, 5)}"
