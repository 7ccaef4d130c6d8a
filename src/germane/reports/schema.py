"""The shape of the `--json` document, as types: what scripts rely on. Its JSON Schema is generated from here.

`python -m germane.reports.schema` prints the schema.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

Pair = Annotated[list[float], "two numbers, the lower one first"]


class Tokens(TypedDict):
    """Tokens sent and received."""

    input: int
    output: int


class JudgeLine(TypedDict):
    """Who judged, and what that cost, over all sessions of the evaluation.

    `calls` are questions asked and paid for, `cached` those that an earlier evaluation had answered, `shared` those that
    this one had asked already; `errors` are questions that nobody has answered, whether or not a request was sent;
    `requests` include those sent again. `estimated` says that an endpoint did not tell tokens: they are about so many. `stand_in` is what
    must be said of a judge that only stands in for a model.
    """

    source: str | None
    calls: int
    cached: int
    shared: int
    requests: int
    errors: int
    tokens: Tokens
    estimated: NotRequired[bool]
    stand_in: NotRequired[str]
    cost_usd: float | None


class BasisLine(TypedDict):
    """Whose labels a mean rests on: gold, judge, human or best; `mixed` is the share of people's labels under best.

    `models` and `modes` count judgements by the model that answered and by output mode, `fused` those that shared a request,
    `listed` and `windowed` those asked in a list and in windows, `without_temperature` those of a model that takes none.
    `tokenizer` is how tokens are counted, where the measure counts any.
    `beside` are means that belong beside one of gold labels: the share of its places that is judged, RBP's residual. `remarks` are what must be said wherever the mean is shown: `uncalibrated: no human labels`.
    """

    source: Literal["gold", "judge", "human", "best"]
    calibrated: bool
    models: dict[str, int]
    modes: dict[str, int]
    fused: int
    listed: int
    windowed: int
    without_temperature: int
    with_reference: int | None
    without_reference: int | None
    mixed: float | None
    beside: dict[str, float]
    tokenizer: NotRequired[str]
    remarks: list[str]


class CorrectedLine(TypedDict):
    """A judged mean corrected with people's labels, with its 95% interval.

    `interval` is of `estimand`: "queries" = of queries like these; `set_interval` is of these queries, which has no width when
    all is labelled. `labels` were given, in `queries` queries; `ess` labels without the judge would be worth as much. Of
    `unsure` more nobody could tell: the interval covers whatever they are.
    """

    mean: float
    interval: Pair
    estimand: Literal["queries", "set"]
    set_interval: Pair | None
    method: str
    labels: int
    queries: int | None
    ess: float | None
    unsure: int


class MeasureLine(TypedDict):
    """One measure over all cases; `mean` is null where nothing could be measured.

    `interval` is the confidence interval of the mean at `level` over `units` cases or clusters of cases; null where there
    is none, for the reason in `interval_why`. `estimand` says of what: "queries" = of queries like these.
    """

    mean: float | None
    interval: Pair | None
    interval_method: str | None
    level: float | None
    units: int | None
    interval_why: str | None
    estimand: Literal["queries", "set"]
    mean_bounds: Pair | None
    n: int
    total: int
    skipped: int
    incomplete: int
    errors: int
    basis: BasisLine
    corrected: CorrectedLine | None
    corrected_why: str | None


class ScoreRow(TypedDict):
    """One measure of one sample. `value` is null unless `status` is ok; `why` says why, or notes something."""

    sample: str
    system: str
    trial: int
    measure: str
    type: str
    value: float | None
    status: Literal["ok", "skipped", "incomplete", "error"]
    why: str | None
    bounds: Annotated[list[float | None], "two numbers, the lower one first; null = without end"] | None


class ResultRow(TypedDict):
    """What one grader found in a case, in words; reports of more than 5,000 scores leave it out."""

    measure: str
    score: float | None
    status: str
    why: str | None
    hits: list[str]
    misses: list[str]
    reasoning: str
    details: dict[str, object]


class CaseRow(TypedDict):
    """One sample's graders taken together."""

    sample: str
    system: NotRequired[str]
    trial: NotRequired[int]
    score: float | None
    verdict: Literal["pass", "borderline", "fail", "undecided", "skipped"] | None
    failed_required: list[str]
    results: NotRequired[list[ResultRow]]


DecidedBy = Literal["corrected", "judged", "gold", "labels"]
"""Whose figures decide: the judge's corrected by people's labels, the judge's own, gold, or people's labels alone."""


class GateRow(TypedDict):
    """What became of one gate; `word` is the outcome as it is printed, `passed (stand-in)` where a stand-in judged."""

    gate: str
    outcome: Literal["passed", "failed", "undecided"]
    word: str
    detail: str
    decided_by: DecidedBy | None


class SystemLine(TypedDict):
    """The measures of one of several systems."""

    system: str
    measures: dict[str, MeasureLine]


class SliceLine(TypedDict):
    """The measures of one system over one slice of the cases."""

    slice: str
    system: str
    measures: dict[str, MeasureLine]


class RankedLine(TypedDict):
    """One system in its place, and its paired difference from the first; null for the first itself.

    `mde` is the smallest difference that so many cases could have shown; a smaller one is not `distinguishable`.
    """

    system: str
    mean: float | None
    interval: Pair | None
    difference: float | None
    difference_interval: Pair | None
    p: float | None
    p_holm: float | None
    mde: float | None
    distinguishable: bool | None


class OrderLine(TypedDict):
    """How alike two sources of labels order the systems: Kendall's tau-b, of all and of the better half."""

    tau: float | None
    top_half: float | None


class RankingLine(TypedDict):
    """The systems by one measure, the best first; `orders` by the same measure over other labels."""

    measure: str
    systems: list[RankedLine]
    orders: dict[str, OrderLine]


class FileLine(TypedDict):
    """The measures of one system over the cases of one of several eval files."""

    file: str
    system: str
    measures: dict[str, MeasureLine]


class Document(TypedDict):
    """The document of `--json`. `measures` where there is one system, `systems` and `ranking` where there are several.

    Where several eval files were run, `files` has the means over each one's own cases.

    `stopped` says why the run did not come to its end, and how it is continued; the rest is then what is known so far.
    """

    schema_version: Literal[1]
    passed: bool
    exit_code: int
    report: str | None
    judge: JudgeLine
    verdict: list[str]
    gates: list[GateRow]
    notes: list[str]
    measures: NotRequired[dict[str, MeasureLine]]
    systems: NotRequired[list[SystemLine]]
    files: NotRequired[list[FileLine]]
    slices: NotRequired[list[SliceLine]]
    ranking: NotRequired[list[RankingLine]]
    scores: NotRequired[list[ScoreRow]]
    cases: list[CaseRow]
    stopped: NotRequired[str]


class ScoredDocument(TypedDict):
    """What `compare` and a baseline read of a document."""

    scores: list[ScoreRow]
    judge: NotRequired[dict[str, Any] | None]


class Documents(TypedDict):
    """The document of `--json` where a run was several evaluations: that of each under its path, and the exit code of all."""

    schema_version: Literal[1]
    passed: bool
    exit_code: int
    reports: dict[str, Document]


def line_of(kind: Any, of: object, **more: object) -> Any:
    """A line of this kind: each of its fields in order, from `more` or else from the attribute of that name."""
    names = kind.__annotations__
    return {name: more[name] if name in more else getattr(of, name) for name in names}


def schema_of(kind: Any) -> dict[str, object]:
    """The JSON Schema of a document."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(kind).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def document_schema() -> dict[str, object]:
    """The JSON Schema of the document."""
    return schema_of(Document)


if __name__ == "__main__":
    print(json.dumps(document_schema(), indent=1, ensure_ascii=False))  # noqa: T201
