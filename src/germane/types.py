"""The immutable records: samples with contexts, calls and messages, judged items, judgements and scores.

Each record checks its values when it is created: no NaN, no infinity, nothing that can be changed later.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from math import isfinite
from operator import attrgetter
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr, replace

from germane.errors import Invalid, describe

__all__ = [
    "Call",
    "Context",
    "Evidence",
    "FrozenDict",
    "Json",
    "Judgement",
    "Message",
    "Record",
    "Sample",
    "Score",
    "Stage",
    "Status",
    "Step",
    "ToolCall",
    "Usage",
    "freeze",
    "key_of",
]

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or a list or a str-keyed mapping of JSON values."""

Scale: TypeAlias = Literal["graded", "binary"]
"""The scale of a judge's relevance: grades from 0 to 3, or yes and no."""

Step: TypeAlias = str | int
"""A key of an object or an index of a list, on the path to a value."""

MAX_DEPTH = 100
"""The maximum number of nested lists and objects in input, because deeper input is a mistake or an attack."""

TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep", f"nest at most {MAX_DEPTH} lists and objects"
"""The problem and the fix of the error for deeper input."""

Status = Literal["ok", "skipped", "incomplete", "error"]
STATUSES: tuple[Status, ...] = get_args(Status)


class FrozenDict(dict[str, Any]):
    """An immutable dict, for frozen records."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a record's mapping cannot be changed; change a copy: dict(mapping)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)


NOTHING = FrozenDict()
"""The empty metadata."""
FROZEN = frozenset({str, int, bool, type(None), FrozenDict})
"""The types whose values are returned unchanged by `freeze`."""


def freeze(value: Json, levels: int = MAX_DEPTH) -> Json:
    """Return an immutable copy of a JSON value: mappings become FrozenDicts, lists become tuples.

    Raises Invalid for NaN, infinity, and nesting deeper than `levels`.
    """
    kind = type(value)
    if kind is dict and levels:
        for key, inner in value.items():
            if type(inner) not in FROZEN or type(key) is not str:
                break
        else:
            return FrozenDict(value)
    if kind in FROZEN:
        return value
    if levels == 0 and isinstance(value, Mapping | list | tuple):
        raise Invalid(*TOO_DEEP)
    if isinstance(value, Mapping):
        return FrozenDict([(str(key), freeze(value, levels - 1)) for key, value in value.items()])
    if isinstance(value, list | tuple):
        return tuple([freeze(value, levels - 1) for value in value])
    if isinstance(value, float) and not isfinite(value):
        raise Invalid(f"contains {value}, which JSON cannot represent", "write null or leave the field out")
    if isinstance(value, set | frozenset):
        return tuple([freeze(member, levels - 1) for member in sorted(value, key=repr)])
    # records hold only immutable values
    return value if kind is float or isinstance(value, Hashable) else str(value)


def _check_finite(name: str, value: float | None, *, duration: bool = False) -> None:
    """Raise Invalid, with the name of the field, if a number is NaN or infinite, or a duration negative."""
    if value is not None and not isfinite(value):
        raise Invalid(f"is {value}, not a finite number", "write a finite number or leave it out", name)
    if duration and value is not None and value < 0:
        fix = "write milliseconds >= 0, or leave the field out"
        raise Invalid(f"is {value}, a negative duration", fix, name)


Id: TypeAlias = Annotated[str, Meta(min_length=1)]
"""A non-empty id; files may also write it as a whole number."""
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number that fits in 64 bits, as table columns need."""
Offset: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0, lt=2**63)]
Metadata: TypeAlias = Annotated[Any, Meta(extra_json_schema={"type": "object"})]
"""A FrozenDict; declared as Any, because msgspec would copy it before the record freezes it."""


def _frozen_object(value: Json) -> FrozenDict:
    """Return a record's metadata as a FrozenDict. Raises Invalid if the value is not an object."""
    frozen = freeze(value)
    if type(frozen) is FrozenDict or value is None:
        return frozen or NOTHING
    raise Invalid(f"is {describe(value)}, not an object", 'write an object: {"name": value}', "metadata")


class Record(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """Base class of all records.

    A record is immutable and compared by its fields. Its JSON leaves out fields that have their default
    value.
    """


class Context(Record, frozen=True, kw_only=True):
    """One retrieved passage. Its rank is its position in the list of contexts, from 1.

    `text` is "" if only the `id` is known, and a single space if the passage is empty. `grade` (0-3, or
    within the sample's `grade_scale`) or `relevant` (True or False, on the binary scale) is a person's label.
    `score` is the retriever's own score.
    """

    text: str = ""
    id: Id | None = None
    score: float | None = None
    grade: Whole | None = None
    relevant: bool | None = None
    metadata: Metadata = NOTHING

    def __post_init__(self) -> None:
        if self.score is not None and not isfinite(self.score):
            _check_finite("score", self.score)
        if not self.text and self.id is None:
            force_setattr(self, "text", " ")
        if self.grade is not None and self.relevant is not None:
            problem = "has both grade and relevant, which are two scales"
            raise Invalid(problem, "keep either grade or relevant")
        if self.metadata is not NOTHING and (type(self.metadata) is not FrozenDict or not self.metadata):
            force_setattr(self, "metadata", _frozen_object(self.metadata))

    @property
    def passage(self) -> str:
        """The text of the passage, or its document id if it has no text."""
        return self.text if self.text.strip() or self.id is None else self.id


class Call(Record, frozen=True, kw_only=True):
    """One search by the system: its query, the contexts found, the duration in ms and the tool (`source`)."""

    query: str | None = None
    contexts: tuple[Context, ...]
    ms: float | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        _check_finite("ms", self.ms, duration=True)
        if type(self.contexts) is not tuple:
            force_setattr(self, "contexts", tuple(self.contexts))


class ToolCall(Record, frozen=True, kw_only=True):
    """One call of a tool in a message: the tool's name, input and output, and the duration in ms."""

    tool: str
    input: Json = None
    output: Json = None
    id: str | None = None
    ms: float | None = None

    def __post_init__(self) -> None:
        _check_finite("ms", self.ms, duration=True)
        force_setattr(self, "input", freeze(self.input))
        force_setattr(self, "output", freeze(self.output))


class Message(Record, frozen=True, kw_only=True):
    """One message of a conversation; `content` is a string or a list of content parts, as in chat APIs."""

    role: Annotated[str, Meta(min_length=1)]
    content: Json = None
    tool_calls: tuple[ToolCall, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "content", freeze(self.content))
        force_setattr(self, "tool_calls", tuple(self.tool_calls))


class Evidence(Record, frozen=True, kw_only=True):
    """A piece of gold text, given as a quote or as character offsets in a document.

    It stays valid if the documents are split into chunks in another way.
    """

    quote: str | None = None
    doc: Id | None = None
    start: Offset | None = None
    end: Offset | None = None

    def __post_init__(self) -> None:
        if not self.quote and None in {self.doc, self.start, self.end}:
            fix = 'write {"quote": "..."} or {"doc": "d7", "start": 0, "end": 120}'
            raise Invalid("has neither a quote nor doc, start and end", fix)
        if self.start is not None and self.end is not None and self.start > self.end:
            raise Invalid(f"has start {self.start} after end {self.end}", "swap start and end")


class Stage(Record, frozen=True, kw_only=True):
    """One step of the retrieval, such as a reranker: its name and the document ids returned, best first."""

    name: Id
    ids: tuple[Id, ...]

    def __post_init__(self) -> None:
        force_setattr(self, "ids", tuple(self.ids))


class Sample(Record, frozen=True, kw_only=True):
    """One query with its retrieved contexts and its gold, for one case, system and trial.

    `contexts` is None if they are unknown and () if nothing was retrieved. `calls` are the searches of an
    agent; a sample without `calls` is one search. `stages` are the document ids that each step of the
    retrieval returned. `qrels` maps a gold document id to its grade (0 or less means not relevant). `gold` is
    a list of groups of ids; one id of every group must be retrieved. `messages` are the system's messages
    with their tool calls; `history` are the messages before the query. `error` says why the system gave no
    usable answer. `reference` is a correct answer, whereas `criterion` only describes a good answer. Cases
    with the same `cluster` are one unit in statistics. `grade_scale` is the lowest and the highest grade of a
    context (None means 0 to 3); a grade outside the scale raises ValueError. `unsure` maps each document that
    may be relevant to the grade that it would have; an id that begins with * stands for an unknown document.
    """

    id: Id
    query: str
    system: str = ""
    trial: Offset = 0
    contexts: tuple[Context, ...] | None = None
    calls: tuple[Call, ...] | None = None
    stages: tuple[Stage, ...] = ()
    reference: str | None = None
    criterion: str | None = None
    response: str | None = None
    qrels: Mapping[Id, Whole] | None = None
    gold: tuple[tuple[Id, ...], ...] | None = None
    evidence: tuple[Evidence, ...] | None = None
    answerable: bool | None = None
    forbidden: tuple[Id, ...] = ()
    unsure: Mapping[Id, Whole] | None = None
    history: tuple[Message, ...] = ()
    messages: tuple[Message, ...] = ()
    error: str | None = None
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    grade_scale: tuple[Whole, Whole] | None = None
    metadata: Metadata = NOTHING

    @property
    def key(self) -> tuple[str, str, int]:
        """The sample's identity within an evaluation: id, system and trial."""
        return key_of(self)

    @property
    def failed(self) -> bool:
        """True if the system failed on this sample, so that all of its scores are errors.

        An answer without contexts is not a failure.
        """
        listed = self.contexts is not None or self.calls is not None
        return self.error is not None and (listed or (self.response is None and not self.messages))

    def __post_init__(self) -> None:
        values = _lists_of(self)
        if not _LIST_TYPES.issuperset(map(type, values)):
            for name, value in zip(_LISTS, values, strict=True):
                if value is not None and type(value) is not tuple:
                    force_setattr(self, name, tuple(value))
        if self.gold:
            force_setattr(self, "gold", tuple(map(tuple, self.gold)))
        for name in ("qrels", "unsure"):
            if (value := getattr(self, name)) is not None:
                force_setattr(self, name, freeze(value) or NOTHING)
        if self.metadata is not NOTHING:
            force_setattr(self, "metadata", _frozen_object(self.metadata))
        if self.stages and len({stage.name for stage in self.stages}) < len(self.stages):
            raise Invalid("has two stages with the same name", "give each stage its own name", "stages")
        low, high = self.grade_scale or (0, 3)
        if low >= high:
            problem = f"is [{low}, {high}], whose first grade is not below the second"
            raise Invalid(problem, "write [lowest, highest], as in [0, 4]", "grade_scale")
        try:
            lists: list[tuple[tuple[Step, ...], tuple[Context, ...]]] = [(("contexts",), self.contexts or ())]
            lists += [(("calls", at, "contexts"), call.contexts) for at, call in enumerate(self.calls or ())]
            for path, contexts in lists:
                for rank, context in enumerate(contexts):
                    if context.grade is not None and not low <= context.grade <= high:
                        fix = _GRADE if self.grade_scale is None else f"write a grade from {low} to {high}"
                        problem = f"is the number {context.grade}, outside the scale {low} to {high}"
                        raise Invalid(problem, fix, *path, rank, "grade")
        except AttributeError:
            problem = "contains an entry that is not a Context"
            raise Invalid(problem, 'write Context(text="...")', "contexts") from None

    def with_contexts(self, changed: Callable[[Context], Context], **more: Any) -> Sample:
        """Return a copy with `changed` applied to each context, also in calls, and the fields `more` set."""
        contexts = self.contexts and tuple(map(changed, self.contexts))
        calls = self.calls and tuple(replace(c, contexts=tuple(map(changed, c.contexts))) for c in self.calls)
        return replace(self, contexts=contexts, calls=calls, **more)

    def lists(self) -> list[tuple[str, tuple[Context, ...]]]:
        """Return each ranking as (query, contexts): one per call, and then the sample's own contexts.

        The sample's own contexts are left out if they are None.
        """
        lists = [(call.query or self.query, call.contexts) for call in self.calls or ()]
        return lists if self.contexts is None else [*lists, (self.query, self.contexts)]

    def retrieved(self) -> Iterator[Context]:
        """Return an iterator over the contexts of all calls and the sample's own contexts."""
        return (context for _, contexts in self.lists() for context in contexts)


key_of: Callable[[Sample], tuple[str, str, int]] = attrgetter("id", "system", "trial")
_LISTS = tuple(name for name, kind in Sample.__annotations__.items() if kind.startswith("tuple["))
_lists_of = attrgetter(*_LISTS)
_LIST_TYPES = frozenset({tuple, type(None)})
_GRADE = (
    'write 0, 1, 2 or 3; for a yes or no write "relevant": true or false; '
    'for other grades set the scale: "grade_scale": [0, 4]'
)


class Usage(
    Record,
    frozen=True,
    kw_only=True,
    omit_defaults=False,
    rename={"input_tokens": "input", "output_tokens": "output"},
):
    """The cost of one question: HTTP requests sent (including retries), tokens, and US dollars.

    `cost_usd` is None if the price is unknown.
    """

    requests: Offset = 0
    input_tokens: Offset = 0
    output_tokens: Offset = 0
    cost_usd: _Amount | None = None


class Judgement(Record, frozen=True, kw_only=True):
    """A judge's answer to one question, or the error if there is no answer.

    `key` identifies the question and the judge in the ledger. `item` is a digest of the judged texts; it does
    not depend on judge, prompt, scale or reference. `answer` is the JSON payload of the `judge`, and `prompt`
    the hash of the prompt. If this judgement is one of several that were merged (of a panel's members, of
    repetitions, or of parts of a list), `parent` is the key of the merged judgement. `request` identifies the
    HTTP request. If one request produced several judgements, `usage` and `ms` (milliseconds) are stored only
    on one of them. `at` is the time of the answer (UTC). `provenance` says how the question was asked: fused
    kinds, batch size and position, output mode, model, ...
    """

    key: str
    item: str = ""
    kind: str
    judge: str
    prompt: str = ""
    answer: Json = None
    error: str | None = None
    parent: str | None = None
    request: str | None = None
    usage: Usage = Usage()
    ms: _Amount | None = None
    at: str | None = None
    provenance: Mapping[str, Any] = NOTHING

    def __post_init__(self) -> None:
        _check_finite("ms", self.ms)
        if type(self.answer) not in FROZEN:
            force_setattr(self, "answer", freeze(self.answer))
        if type(self.provenance) is not FrozenDict:
            force_setattr(self, "provenance", freeze(self.provenance))


def check_score(score: Any) -> None:
    """Raise ValueError unless the value, status, reason (`why`) and bounds of a score fit together."""
    value, status, why, bounds = score.value, score.status, score.why, score.bounds
    _check_finite("value", value)
    if status not in STATUSES or (status == "ok") is (value is None):
        fix = f"give a value with the status ok, and None with {' or '.join(STATUSES[1:])}"
        raise ValueError(f"a score has the value {value!r} and the status {status!r}; {fix}")
    if status != "ok" and not (why and isinstance(why, str)):
        raise ValueError(f"a score with the status {status!r} has no reason; give it as why=")
    if bounds is not None and (len(bounds) != 2 or (None not in bounds and not bounds[0] <= bounds[1])):
        raise ValueError(f"a score has the bounds {bounds}; give two numbers, the lower one first")


class Score(Record, frozen=True, kw_only=True):
    """The value of one measure for one sample, or the reason (`why`) if there is no value.

    `measure` is the name in the report, and `type` is the measure's canonical name. `bounds` are the lowest
    and the highest value that an incomplete score can have when all labels are known.
    """

    sample: str
    measure: str
    type: str
    system: str = ""
    trial: int = 0
    value: float | None = None
    status: Status = "ok"
    why: str | None = None
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_score(self)

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of the sample that the score belongs to: id, system and trial."""
        return self.sample, self.system, self.trial
