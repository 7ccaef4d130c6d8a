"""Formats of a diagnosis: for the terminal, as JSON, and as the data of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import to_builtins
from rich.console import RenderableType
from rich.text import Text

from germane.clean import clean, counted, shorten
from germane.diagnosis.schema import DepthRow, DocumentRow, StageRow, SystemDiagnosis, SystemStages
from germane.diagnosis.stages import StagesReport
from germane.reports.ranking import TextTable
from germane.reports.schema import line_of
from germane.reports.summary import LIKE_THESE, in_digits, interval_in_words, p_in_words
from germane.reports.text.wholetable import hanging
from germane.types import Json

_BAR = 24
"""Signs of a bar of all relevant documents."""
_SHOWN = 10
"""The number of lost documents that are shown of a system."""


def _document(systems: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """A document of these systems: a single one is the document itself, and goes without its name."""
    if len(systems) > 1:
        return {"schema_version": 1, "systems": systems}
    return {"schema_version": 1, **{name: value for name, value in systems[0].items() if name != "system"}}


def stages_document(reports: Sequence[StagesReport]) -> dict[str, Json]:
    """The document of `germane stages --json`."""
    return _document([_system(report) for report in reports])


def stages_page(reports: Sequence[StagesReport]) -> Json:
    """The stages as the page shows them: no document by name."""
    return [{**_system(report), "documents": []} for report in reports]


def _system(report: StagesReport) -> dict[str, Json]:
    lines = {"stages": report.stages, "documents": report.documents(), "notes": report.journeys.notes}
    lists = {name: to_builtins(list(of)) for name, of in lines.items()}
    return line_of(SystemStages, report, known=report.relevant, ends=report.counts(), **lists)


def render_stages(reports: Sequence[StagesReport], *, every: bool = False) -> RenderableType:
    """The stages of each system for a rich console; `every`: with every relevant document."""
    return hanging(line for report in reports for line in _stages(report, every=every))


def _stages(report: StagesReport, *, every: bool) -> Iterator[RenderableType]:
    if report.system:
        yield Text(f"\n{clean(report.system)}", style="bold")
    yield Text(f"{counted(report.relevant, 'relevant document')} of {counted(report.queries, 'query')}")
    heads = ["stage", "share of them", "in", "lost", "saved", "recall", "interval"]
    changes = ["change", "interval of the change"] if len(report.stages) > 1 else []
    table = TextTable([*heads, *changes], names=2)
    for stage in report.stages:
        bar = "█" * round(_BAR * stage.relevant / report.relevant)
        row = [
            clean(stage.name),
            bar,
            f"{stage.relevant:,}",
            f"{stage.lost:,}" if stage.lost else "-",
            f"{stage.saved:,}" if stage.saved else "-",
            in_digits(stage.recall),
            interval_in_words(stage.interval),
        ]
        if stage is not report.stages[0]:
            row += [in_digits(stage.difference, "+"), interval_in_words(stage.difference_interval, sign="+")]
        table.add(row + [""] * (len(table.header) - len(row)), {5})
    yield table.rich()
    yield Text(f"  intervals: 95%, {LIKE_THESE}", style="dim")
    for before, stage in zip(report.stages, report.stages[1:], strict=False):
        if words := _in_depth(before, stage):
            yield Text(f"  {words}")
    yield Text("ends     " + ", ".join(f"{count:,} {where}" for where, count in report.counts().items()))
    documents = list(report.documents()) if every else list(islice(report.documents(lost=True), _SHOWN))
    if documents:
        yield Text("every relevant document" if every else "lost, the best first")
        yield _documents(report, documents)
    more = report.relevant - report.stages[-1].relevant - len(documents)
    if more > 0 and not every:
        yield Text(f"  and {more:,} more: -q prints every document, --json too", style="dim")
    yield from (Text(f"note     {clean(note)}") for note in report.journeys.notes)


def _in_depth(before: StageRow, stage: StageRow) -> str:
    """The share that a stage keeps of what it got, and how deep its list would have to be."""
    if stage.kept is None or stage.kept.keeps is None or not stage.lost:
        return ""
    words = f"{clean(stage.name)} keeps {_share(stage.kept)} of what {clean(before.name)} had"
    if stage.depth >= before.depth:
        return words
    same = next((line for line in stage.depths if line.depth == stage.depth), None)
    words += f", with {stage.depth} of its {counted(before.depth, 'place')}"
    if same is not None and same.keeps is not None and abs(same.keeps - stage.kept.keeps) >= 0.005:
        words += f" (its first {stage.depth} hold {same.keeps:.0%})"
    if stage.deeper is not None:
        words += f"; depth {stage.deeper.depth} instead of {stage.depth} keeps {_share(stage.deeper)}"
    return words


def _share(row: DepthRow) -> str:
    ends = row.interval
    return f"{row.keeps:.0%}" + ("" if ends is None else f" ({ends[0]:.0%} to {ends[1]:.0%})")


def _documents(report: StagesReport, documents: Sequence[DocumentRow]) -> RenderableType:
    heads = ["query", "document", "what became of it", "grade", *map(clean, report.journeys.names)]
    table = TextTable(heads, names=3)
    for row in documents:
        where = f"lost at {row.lost}" if row.where == "lost" else row.where
        ranks = (str(rank) if rank else "-" for rank in row.ranks.values())
        names = [shorten(row.sample, 40), shorten(row.document, 60), clean(where)]
        table.add([*names, str(row.grade), *ranks])
    return table.rich()


# What would help


def diagnosis_document(systems: Sequence[SystemDiagnosis]) -> dict[str, Json]:
    """The document of `germane diagnose --json`."""
    return _document(to_builtins(systems))


def diagnosis_page(systems: Sequence[SystemDiagnosis], *, text: bool) -> Json:
    """The diagnoses as the page shows them; without `text` no query."""
    rows = to_builtins(systems)
    for query in (query for row in rows if not text for query in row["queries"]):
        del query["query"]
    return rows


def render_diagnosis(systems: Sequence[SystemDiagnosis]) -> RenderableType:
    """The changes that would help each system, for a rich console."""
    return hanging(line for diagnosis in systems for line in _helps(diagnosis))


def _helps(diagnosis: SystemDiagnosis) -> Iterator[RenderableType]:
    if diagnosis.system:
        yield Text(f"\n{clean(diagnosis.system)}", style="bold")
    some = "" if diagnosis.n == diagnosis.total else f"{diagnosis.n:,} of "
    over = f"{some}{counted(diagnosis.total, 'sample')}"
    yield Text(f"{clean(diagnosis.measure)} is {diagnosis.mean:.4f} over {over}; what would change it")
    heads = ["change", "", "mean", "difference", "interval", "p (Holm)", "win/tie/loss", "drops"]
    table = TextTable(heads, names=2)
    for line in diagnosis.changes:
        numbers = [
            in_digits(line.mean),
            in_digits(line.difference, "+"),
            interval_in_words(line.interval, sign="+"),
            p_in_words(line.p_holm),
            f"{line.wins}/{line.ties}/{line.losses}",
            "" if line.dropped is None else f"{line.dropped:.0%}",
        ]
        table.add([line.change, "at most" if line.limit else "", *numbers], {3})
    yield table.rich()
    yield Text(f"  differences are paired; intervals: 95%, {LIKE_THESE}", style="dim")
    yield Text("  at most: what a perfect step would bring, which nobody has", style="dim")
    if any(line.kind == "floor" for line in diagnosis.changes):
        yield Text("  the floor is chosen for each half of the queries on the other half", style="dim")
    if diagnosis.queries:
        yield Text("queries that would gain most")
        gains = TextTable(["query", "asked", "by", "now", "gain"], names=3)
        for query in diagnosis.queries[:_SHOWN]:
            name = shorten(query.sample, 40) + (f" #{query.trial}" if query.trial else "")
            asked = shorten(query.query, 50)
            gains.add([name, asked, query.change, in_digits(query.value), in_digits(query.gain, "+")])
        yield gains.rich()
        if len(diagnosis.queries) > _SHOWN:
            yield Text(f"  and {len(diagnosis.queries) - _SHOWN:,} more: --json lists them", style="dim")
    yield from (Text(f"note     {clean(note)}") for note in diagnosis.notes)
