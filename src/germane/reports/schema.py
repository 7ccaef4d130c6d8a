"""The `--json` document, as records: what scripts rely on. It is written, read and described by its JSON Schema from here.

`scripts/reference_pages.py` publishes the schemas in docs/schema.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

IntervalEnds = Annotated[list[float], Meta(min_length=2, max_length=2, description="the lower one first")]
IntegerEnds = Annotated[list[int], Meta(min_length=2, max_length=2, description="the lower one first")]
Bounds = (
    Annotated[tuple[float | None, float | None], Meta(description="the lower one first; null = without end")]
    | None
)


class Line(msgspec.Struct):
    """A JSON object of a document: all its fields, in their order, without those that are UNSET."""


class Tokens(Line):
    """The tokens that were sent to a judge and received from it."""

    input: int
    output: int


class JudgeLine(Line):
    """The judge and its cost, over all sessions of the evaluation.

    `calls` are questions asked and paid for, `cached` those that an earlier evaluation had answered, `shared` those that
    this one had asked already; `errors` are questions that nobody has answered, whether or not a request was sent;
    `requests` include those sent again. `estimated` says that an endpoint did not tell tokens, and the numbers are estimates. `stand_in` is
    the remark on a judge that only stands in for a model.
    """

    source: str | None
    calls: int
    cached: int
    shared: int
    requests: int
    errors: int
    tokens: Tokens
    cost_usd: float | None
    estimated: bool | UnsetType = UNSET
    stand_in: str | UnsetType = UNSET


class BasisLine(Line):
    """The source of the labels that a mean rests on: gold, judge, human or best; `mixed` is the share of people's labels under best.

    `models` and `modes` count judgements by the model that answered and by output mode, `fused` those that shared a request,
    `listed` and `windowed` those asked in a list and in windows, `without_temperature` those of a model that takes none.
    `tokenizer` is how tokens are counted, where the measure counts any.
    `beside` are means that belong beside one of gold labels: the share of its places that is judged, RBP's residual. `remarks` belong to the mean wherever it is shown: `uncalibrated: no human labels`.
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
    remarks: list[str]
    tokenizer: str | UnsetType = UNSET


class CorrectedLine(Line):
    """A judged mean corrected with people's labels, with its 95% interval.

    `interval` is of `estimand`: "queries" = of queries like these; `set_interval` is of these queries, which has no width when
    all is labelled. `labels` were given, in `queries` queries; `ess` labels without the judge would be worth as much. Of
    `unsure` more nobody could tell: the interval covers whatever they are.
    """

    mean: float
    interval: IntervalEnds
    estimand: Literal["queries", "set"]
    set_interval: IntervalEnds | None
    method: str
    labels: int
    queries: int | None
    ess: float | None
    unsure: int


class SampledLine(Line):
    """The number of cases evaluated (`n`), of all cases (`of`), in an order drawn with the `seed`."""

    n: int
    of: int
    seed: int


class MeasureLine(Line, kw_only=True):
    """One measure over all cases; `mean` is null where nothing could be measured.

    `n` cases of `total` have a value; `skipped`, `incomplete` and `errors` count those without, by the worst of their trials.
    `trials` is how often each case was asked, [least, most] where that differs; `trials_failed` counts the trials that are
    incomplete or errors, those of cases with a value too. Both are absent where every case was asked once.

    `interval` is the confidence interval of the mean at `level` over `units` cases or clusters of cases; null where there
    is none, for the reason in `interval_why`. `estimand` says of what: "queries" = of queries like these.
    """

    mean: float | None
    interval: IntervalEnds | None
    interval_method: str | None
    level: float | None
    units: int | None
    interval_why: str | None
    estimand: Literal["queries", "set"]
    mean_bounds: IntervalEnds | None
    n: int
    total: int
    trials: int | IntegerEnds | UnsetType = UNSET
    trials_failed: int | UnsetType = UNSET
    skipped: int
    incomplete: int
    errors: int
    basis: BasisLine
    corrected: CorrectedLine | None
    corrected_why: str | None
    sampled: SampledLine | None


class ScoreRow(Line):
    """One measure of one sample. `value` is null unless `status` is ok; `why` says why, or notes something."""

    sample: str
    system: str
    trial: int
    measure: str
    type: str
    value: float | None
    status: Literal["ok", "skipped", "incomplete", "error"]
    why: str | None
    bounds: Bounds


class ResultRow(Line):
    """The result of one grader in a case, in words; reports of more than 5,000 scores leave it out."""

    measure: str
    score: float | None
    status: str
    why: str | None
    hits: list[str]
    misses: list[str]
    reasoning: str
    details: dict[str, Any]


class CaseRow(Line):
    """The score of one sample over all of its graders, and the verdict on it."""

    sample: str
    score: float | None
    verdict: Literal["pass", "borderline", "fail", "undecided", "skipped"] | None
    failed_required: list[str]
    system: str | UnsetType = UNSET
    trial: int | UnsetType = UNSET
    results: list[ResultRow] | UnsetType = UNSET


DecidedBy = Literal["corrected", "judged", "gold", "labels"]
"""The figures that decide: the judge's corrected by people's labels, the judge's own, gold, or people's labels alone."""


class GateRow(Line):
    """The result of one gate; `word` is the outcome as it is printed, `passed (stand-in)` where a stand-in judged.

    `sentence` says the result of a gate on a change: "nDCG@10 got worse: -0.14 (...)".
    """

    gate: str
    outcome: Literal["passed", "failed", "undecided"]
    word: str
    detail: str
    decided_by: DecidedBy | None
    sentence: str | None = None


class SystemLine(Line):
    """The measures of one of several systems."""

    system: str
    measures: dict[str, MeasureLine]


class SliceLine(SystemLine):
    """The measures of one system over one slice of the cases."""

    slice: str


class RankedLine(Line):
    """One system in its place, and its paired difference from the first over `difference_n` cases; null for the first itself.

    `mde` is the smallest difference that this number of cases could have shown; a smaller one is not `distinguishable`.
    """

    system: str
    mean: float | None
    interval: IntervalEnds | None
    difference: float | None
    difference_interval: IntervalEnds | None
    difference_n: int | None
    p: float | None
    p_holm: float | None
    mde: float | None
    distinguishable: bool | None


class RankingLine(Line):
    """The systems by one measure, the best first."""

    measure: str
    systems: list[RankedLine]


class SearchLine(Line):
    """The searches number `call` of a system's samples; `samples` made at least this number of searches.

    `first` is how many samples had their first relevant document from it, `recall` the mean share of the gold documents that
    had come by then, over all samples with gold (one that made fewer searches keeps what it had), with its 95% interval.
    `spare` counts those made after all gold had come. The four are null where no gold documents are known. `repeated` counts
    those that asked what the same sample had asked before.
    """

    system: str
    call: int
    samples: int
    first: int | None
    recall: float | None
    interval: Annotated[tuple[float, float], Meta(description="the lower one first")] | None
    spare: int | None
    repeated: int


class FileLine(SystemLine):
    """The measures of one system over the cases of one of several eval files."""

    file: str


class CorpusLine(Line):
    """The documents that were searched: a digest of their ids and texts, how many there are, and the file's or folder's name."""

    digest: str
    documents: int
    name: str


class Document(Line, kw_only=True):
    """The document of `--json`. `measures` where there is one system, `systems` and `ranking` where there are several.

    Where several eval files were run, `files` has the means over each one's own cases; where samples made several searches,
    `by_call` what each of them brought.

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
    measures: dict[str, MeasureLine] | UnsetType = UNSET
    systems: list[SystemLine] | UnsetType = UNSET
    files: list[FileLine] | UnsetType = UNSET
    slices: list[SliceLine] | UnsetType = UNSET
    by_call: list[SearchLine] | UnsetType = UNSET
    ranking: list[RankingLine] | UnsetType = UNSET
    scores: list[ScoreRow] | UnsetType = UNSET
    cases: list[CaseRow]
    corpus: CorpusLine | UnsetType = UNSET
    stopped: str | UnsetType = UNSET


class ScoredDocument(Line):
    """The part of a document that `compare` and a baseline read; `reports` where it is of several evaluations."""

    schema_version: int = 1
    scores: list[ScoreRow] | UnsetType = UNSET
    judge: dict[str, Any] | None = None
    corpus: dict[str, Any] | None = None
    reports: dict[str, Any] | UnsetType = UNSET


class Documents(Line):
    """The document of `--json` where a run was several evaluations: that of each under its path, and the exit code of all."""

    schema_version: Literal[1]
    passed: bool
    exit_code: int
    reports: dict[str, Document]


class LabelLine(Line):
    """Somebody's label of a place: gold, a judge's, a person's. `grade` and `relevant` are null where the judge failed.

    `votes` is what each member of a panel said, `probabilities` those of the grades from 0 up (of no and yes) where the
    judge gives them.
    """

    source: Literal["gold", "judge", "human"]
    grade: float | bool | None
    relevant: bool | None
    who: str | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET
    votes: list[str] | UnsetType = UNSET
    probabilities: list[float] | UnsetType = UNSET


class PlaceLine(Line):
    """A passage that came back, at its `rank` from 1, with everybody's label; `score` is the retriever's."""

    rank: int
    id: str | None
    score: float | None
    text: str
    item: str
    labels: list[LabelLine]


class CallLine(Line):
    """One search: what was searched for, and what came back, best first; or the `final` list, handed back apart from the searches."""

    query: str
    contexts: list[PlaceLine]
    final: bool | UnsetType = UNSET


class MissingLine(Line):
    """A gold document that did not come back."""

    id: str
    grade: int


class SupportLine(Line):
    """The numbers of the `contexts` (from 1) that support one claim or nugget."""

    text: str
    contexts: list[int]
    reason: str


class MatrixLine(Line):
    """The contexts that support each claim or nugget."""

    kind: str
    rows: list[SupportLine]


class ChangedLine(Line):
    """A move that would change a score: the value after it, and the difference."""

    what: str
    value: float
    difference: float


class ExplainedLine(Line):
    """One measure of a sample: its score and why it is so.

    `formula` is the measure's, `numbers` the same with this sample's numbers; `hits` and `misses` are what counted and what
    did not; `panel` what the members of a panel said; `details` what a grader of an eval file found; `changes` the moves of a
    context that would change the score most.
    """

    measure: str
    value: float | None
    status: Literal["ok", "skipped", "incomplete", "error"]
    why: str | None
    bounds: Bounds
    formula: str | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET
    panel: list[dict[str, Any]] | UnsetType = UNSET
    numbers: str | UnsetType | None = UNSET
    changes: list[ChangedLine] | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    band: str | UnsetType = UNSET
    hits: list[str] | UnsetType = UNSET
    misses: list[str] | UnsetType = UNSET


class ExplainDocument(Line):
    """The document of `germane explain --json`: everything that is known of one sample's scores."""

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


def line_of(kind: type[Line], of: object, /, **more: object) -> dict[str, Any]:
    """A line of this kind as a JSON object: each of its fields in order, from `more` or else from the attribute of that name.

    Tuples become lists.
    """
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    values = {key: more[name] if name in more else getattr(of, name) for name, key in names}
    lists = {key: list(value) for key, value in values.items() if isinstance(value, tuple)}
    return {key: value for key, value in {**values, **lists}.items() if value is not UNSET}


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a document, or of either of several (A | B)."""
    results, lines = msgspec.json.schema_components(get_args(kind) or (kind,), ref_template="#/$defs/{name}")
    for line in lines.values():
        line["description"] = cleandoc(line.get("description", ""))
    one_of = results[0] if len(results) == 1 else {"anyOf": [*results]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **one_of, "$defs": lines}
