"""Records of `germane explain --json`: retrieved passages with their labels, measures with their numbers."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from germane.encoding import Line
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
    """A retrieved passage at its `rank` (from 1), with the label of each source; `score` is the retriever's."""

    rank: int
    id: str | None
    score: float | None
    text: str
    item: str
    labels: list[LabelLine]


class CallLine(Line):
    """One search: its query and the retrieved passages, best first; or, if `final`, an agent's final list."""

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
    """A table of the contexts that support each claim or nugget; `kind` is the kind of the judge's question."""

    kind: str
    rows: list[SupportLine]


class ExplainedLine(Line):
    """One measure of a sample: its score and the reasons for it.

    `formula` is the measure's formula, `numbers` the formula with this sample's numbers. `hits` and `misses`
    are the items that counted and those that did not. `details` holds the findings of an eval file's grader.
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
    """The document that `germane explain --json` prints: one sample with its passages, labels, gold and scores."""

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
