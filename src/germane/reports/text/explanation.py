"""The document of `germane explain` and its printed lines: passages with labels, missing gold, scores."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from germane.clean import clean, shorten
from germane.encoding import Line
from germane.reports.summary import in_digits
from germane.show.table import Table
from germane.tables.scores import Bounds


class LabelLine(Line):
    """The label of one retrieved passage by one source: gold, the judge or a person.

    `grade` and `relevant` are null if the judge failed.
    """

    source: Literal["gold", "judge", "human"]
    grade: float | bool | None
    relevant: bool | None
    who: str | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET


class PlaceLine(Line):
    """A retrieved passage at its `rank` (from 1), with the label by each source.

    `score` is the retriever's score.
    """

    rank: int
    id: str | None
    score: float | None
    text: str
    item: str
    labels: list[LabelLine]


class CallLine(Line):
    """One search: its query and the retrieved passages, best first.

    If `final`, it is an agent's final list instead.
    """

    query: str
    contexts: list[PlaceLine]
    final: bool | UnsetType = UNSET


class MissingLine(Line):
    """A gold document that was not retrieved."""

    id: str
    grade: int


class SupportLine(Line):
    """The numbers of the `contexts` (from 1) that support one claim or nugget."""

    text: str
    contexts: list[int]
    reason: str


class MatrixLine(Line):
    """A table of the contexts that support each claim or nugget.

    `kind` is the kind of the judge's question.
    """

    kind: str
    rows: list[SupportLine]


class ExplainedLine(Line):
    """One measure of a sample: its score and the reasons for it.

    `formula` is the measure's formula, and `numbers` is the formula with this sample's numbers. `hits` are
    the items that counted, and `misses` are the items that did not count. `details` contains the findings of
    an eval file's grader.
    """

    measure: str
    value: float | None
    status: Literal["ok", "skipped", "incomplete", "error"]
    why: str | None
    bounds: Bounds
    formula: str | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET
    numbers: str | UnsetType | None = UNSET
    reasoning: str | UnsetType = UNSET
    band: str | UnsetType = UNSET
    hits: list[str] | UnsetType = UNSET
    misses: list[str] | UnsetType = UNSET


class ExplainDocument(Line):
    """The document of `germane explain --json`: one sample with its passages, labels, gold and scores."""

    sample: str
    system: str
    trial: int
    query: str
    reference: str | None
    criterion: str | None
    response: str | None
    error: str | None
    tags: list[str]
    calls: list[CallLine]
    missing: list[MissingLine]
    matrices: list[MatrixLine]
    measures: list[ExplainedLine]


def lines_of(facts: ExplainDocument, width: int = 100) -> Iterator[str]:
    """Yield the printed lines of a sample's explanation, wrapped to `width` columns."""
    wrap = functools.partial(textwrap.wrap, width=width, break_long_words=False, break_on_hyphens=False)
    system = f"  [{facts.system}]" if facts.system else ""
    yield from wrap(f"{clean(facts.sample)}{system}  {clean(facts.query)}", subsequent_indent="  ")
    for name in ("reference", "criterion", "error"):
        if text := getattr(facts, name):
            yield from wrap(f"{name}  {clean(text)}", subsequent_indent="  ")
    for number, call in enumerate(facts.calls, 1):
        yield ""
        if call.final:
            yield "handed back in the end"
        elif len(facts.calls) > 1:
            yield from wrap(f"call {number} searched for {clean(call.query)}", subsequent_indent="  ")
        yield from _rank_table(call.contexts, width) if call.contexts else ["nothing came back"]
    if not facts.calls:
        yield from ("", "no context came back")
    if facts.missing:
        names = ", ".join(f"{clean(gold.id)} (grade {gold.grade})" for gold in facts.missing)
        yield from ("", *wrap(f"missing gold: {names}", subsequent_indent="  "))
    for row in facts.measures:
        yield ""
        for line in _measure_lines(row):
            indent = " " * (len(line) - len(line.lstrip()))
            yield from wrap(line, subsequent_indent=f"{indent}  ", drop_whitespace=True) or [line]


def _rank_table(contexts: Sequence[PlaceLine], width: int) -> Iterator[str]:
    """Yield the lines of a table of passages by rank, with their labels and the labels' reasons."""
    table = Table(["rank", "", "label", "id", "score"], "rlllr")
    words = {True: "yes", False: "no", None: "failed"}
    for context in contexts:
        labels = []
        for label in context.labels:
            grade = label.grade  # True and False are shown as yes and no, but 1 and 0 are grades
            word = words[grade] if grade is None or isinstance(grade, bool) else grade
            labels.append(f"{label.source} {word}")
        name, score = shorten(context.id or "", 24), "" if context.score is None else f"{context.score:g}"
        table.add([context.rank, _sign_of(context.labels), ", ".join(labels) or "unjudged", name, score])
    head, *lines = table.plain()
    indent, left = " " * head.index("label"), max(width - len(head) - 2, 16)
    yield f"{head}  passage"
    for line, context in zip(lines, contexts, strict=True):
        yield f"{line.ljust(len(head))}  {shorten(context.text, left)}".rstrip()
        for label in context.labels:
            if label.reason:
                text = f"{indent}{label.source}: {clean(label.reason)}"
                yield from textwrap.wrap(text, width, subsequent_indent=f"{indent}  ", break_long_words=False)


def _sign_of(labels: Sequence[LabelLine]) -> str:
    """Return ■ if a label is relevant, else □ if one is not, ? if the judge failed, · without labels."""
    verdicts = {label.relevant for label in labels}
    return "■" if True in verdicts else "□" if False in verdicts else "?" if verdicts else "·"


def _measure_lines(row: ExplainedLine) -> Iterator[str]:
    value = in_digits(row.value)
    between = f"  between {row.bounds[0]:.4f} and {row.bounds[1]:.4f}" if row.bounds else ""
    why = f"  {row.status}: {clean(row.why)}" if row.why else ""
    yield f"{clean(row.measure)} = {value}{between}{why}"
    if row.formula is not UNSET:
        yield f"  formula  {row.formula}"
    if row.numbers:
        yield f"  numbers  {row.numbers} = {value}"
    if row.reasoning:
        yield f"  {clean(row.reasoning)}" + (f"  ({row.band})" if row.band else "")
    yield from (f"  + {clean(hit)}" for hit in row.hits or ())
    yield from (f"  - {clean(miss)}" for miss in row.misses or ())
