"""The records: samples with their contexts, calls and messages, items, judgements and scores. Frozen, without logic.

Every value is checked once, where it is made: no NaN, no infinity, nothing that changes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from math import isfinite
from operator import attrgetter
from typing import Annotated, Any, Literal, NoReturn, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import fields, force_setattr, replace

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
"""Anything that JSON can say: None, bool, int, float, str, a list or a str-keyed mapping of these."""

Scale: TypeAlias = Literal["graded", "binary"]
"""The scale of a judge's relevance: grades from 0 to 3, or yes and no."""

Step: TypeAlias = str | int
"""A key of an object or an index of a list, on the path to a value."""

MAX_DEPTH = 100
"""Levels of nesting that are read: deeper input is a mistake or an attack."""

Status = Literal["ok", "skipped", "incomplete", "error"]


class FrozenDict(dict[str, Any]):
    """An immutable dict, for frozen records."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is frozen; make a changed copy with dict(...)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, _: object) -> FrozenDict:
        return self


NOTHING = FrozenDict()
"""The metadata of what has none."""
FROZEN = frozenset({str, int, bool, type(None), FrozenDict})
"""The types of values that `freeze` leaves as they are."""


def freeze(value: Json, levels: int = MAX_DEPTH) -> Json:
    """Return the same JSON value with mappings and lists frozen; raises Invalid on NaN, infinity, and nesting deeper than `levels`."""
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
        raise Invalid(f"is nested more than {MAX_DEPTH} levels deep", "write it flatter")
    if isinstance(value, Mapping):
        return FrozenDict([(str(key), freeze(value, levels - 1)) for key, value in value.items()])
    if isinstance(value, list | tuple):
        return tuple([freeze(value, levels - 1) for value in value])
    if isinstance(value, float) and not isfinite(value):
        problem = f"holds {value}, which is not a number that can be stored"
        raise Invalid(problem, "write null or leave the field out")
    if isinstance(value, set | frozenset):
        return tuple([freeze(member, levels - 1) for member in sorted(value, key=repr)])
    # what can change is not a part of a record
    return value if kind is float or isinstance(value, Hashable) else str(value)


def _set(record: msgspec.Struct, **fields: object) -> None:
    for name, value in fields.items():
        force_setattr(record, name, value)


def _check_finite(name: str, value: float | None) -> None:
    if value is not None and not isfinite(value):
        raise Invalid(f"is {value}", "write a finite number or leave the field out", name)


def _check_duration(ms: float | None) -> None:
    if ms is not None:
        _check_finite("ms", ms)
        if ms < 0:
            raise Invalid(f"is {ms}", "write milliseconds from 0, or leave the field out", "ms")


Id: TypeAlias = Annotated[str, Meta(min_length=1)]
"""A name that is not empty; in files it may be a whole number."""
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number that a column of a table can hold."""
Offset: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0, lt=2**63)]
Metadata: TypeAlias = Annotated[Any, Meta(extra_json_schema={"type": "object"})]
"""A FrozenDict: the record freezes what it is given, so that msgspec need not copy it first."""


def _frozen_object(value: Json) -> FrozenDict:
    """Return the metadata of a record; raises Invalid where it is not an object."""
    frozen = freeze(value)
    if type(frozen) is FrozenDict or value is None:
        return frozen or NOTHING
    raise Invalid(f"is {describe(value)}", 'write an object: {"name": value}', "metadata")


class Record(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """Base class of all records: immutable, compared by fields, written to JSON without fields at their default."""


class Context(Record, frozen=True, kw_only=True):
    """One retrieved passage. Its rank is its place in its list, from 1.

    `text` is "" where an `id` is all that is known; a passage that is empty is a space.
    `grade` (0-3, or the sample's `grade_scale`) or `relevant` (yes/no, another scale) is a person's label of it.
    `score` is the retriever's own; `start`/`end` are character offsets in the document, where known.
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
            _set(self, text=" ")
        if self.grade is not None and self.relevant is not None:
            raise Invalid("has both grade and relevant: they are two scales", "keep one of them")
        if self.metadata is not NOTHING and (type(self.metadata) is not FrozenDict or not self.metadata):
            force_setattr(self, "metadata", _frozen_object(self.metadata))

    @property
    def passage(self) -> str:
        """The text of the passage, or its id where there is no text."""
        return self.text if self.text.strip() or self.id is None else self.id


class Call(Record, frozen=True, kw_only=True):
    """One search of the system: what it asked, what came back, how long it took."""

    query: str | None = None
    contexts: tuple[Context, ...]
    ms: float | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        _check_duration(self.ms)
        if type(self.contexts) is not tuple:
            _set(self, contexts=tuple(self.contexts))


class ToolCall(Record, frozen=True, kw_only=True):
    """One use of a tool in a message; `ms` is how long it took, in milliseconds."""

    tool: str
    input: Json = None
    output: Json = None
    id: str | None = None
    ms: float | None = None

    def __post_init__(self) -> None:
        _check_duration(self.ms)
        _set(self, input=freeze(self.input), output=freeze(self.output))


class Message(Record, frozen=True, kw_only=True):
    """One turn of a conversation; `content` is text or a list of parts."""

    role: Annotated[str, Meta(min_length=1)]
    content: Json = None
    tool_calls: tuple[ToolCall, ...] = ()

    def __post_init__(self) -> None:
        _set(self, content=freeze(self.content), tool_calls=tuple(self.tool_calls))


class Evidence(Record, frozen=True, kw_only=True):
    """A piece of gold text that survives re-chunking: a quote, or character offsets of a document."""

    quote: str | None = None
    doc: Id | None = None
    start: Offset | None = None
    end: Offset | None = None

    def __post_init__(self) -> None:
        if not self.quote and None in {self.doc, self.start, self.end}:
            fix = 'write {"quote": "..."} or {"doc": "d7", "start": 0, "end": 120}'
            raise Invalid("has neither a quote nor doc, start and end", fix)
        if self.start is not None and self.end is not None and self.start > self.end:
            raise Invalid("ends before it starts", "swap start and end")


class Stage(Record, frozen=True, kw_only=True):
    """The document ids that one step of the retrieval handed on, best first."""

    name: Id
    ids: tuple[Id, ...]

    def __post_init__(self) -> None:
        _set(self, ids=tuple(self.ids))


class Sample(Record, frozen=True, kw_only=True):
    """One query, what was retrieved for it, and what is known about it, for one (case, system, trial).

    `contexts` None = not known, () = nothing was retrieved. `calls` are the searches of an agent; a plain
    sample is one call. `stages` are what each step of the retrieval handed on, in their order. `qrels` maps a gold document id to its grade (0 or less = not relevant); `gold` is
    groups of ids (every group must be hit, any id of it will do). `messages` is what the system said,
    with its tool calls; `history` what was said before. `error` says why the system gave no usable answer.
    `criterion` is what a good answer does, in words, and no reference. `cluster` names the cases that belong
    together in statistics (None = the case alone). `grade_scale` is the lowest and the highest grade that a
    context may have (None = 0 to 3); ValueError on a grade outside it. `unsure` are documents that may be relevant with the
    grade that they would have then; an id that begins with * stands for a document that is not known.
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
        """Its identity within an evaluation: id, system and trial."""
        return key_of(self)

    @property
    def failed(self) -> bool:
        """True if the sample as a whole failed; contexts that were not found in an answer do not count."""
        listed = self.contexts is not None or self.calls is not None
        return self.error is not None and (listed or (self.response is None and not self.messages))

    def __post_init__(self) -> None:
        if self.metadata is not NOTHING or _rare_fields_of(self) != _RARE_DEFAULTS:
            self._freeze_rare_fields()
        if self.contexts is not None and type(self.contexts) is not tuple:
            _set(self, contexts=tuple(self.contexts))
        if self.qrels is not None:
            force_setattr(self, "qrels", freeze(self.qrels) or NOTHING)
        unusual = bool(self.calls) or self.grade_scale is not None
        try:
            for context in self.contexts or ():
                if context.grade is not None and not 0 <= context.grade <= 3:
                    unusual = True
            if unusual:
                self._check_grades()
        except AttributeError:
            raise Invalid("must hold Context objects", 'write Context(text="...")', "contexts") from None

    def _freeze_rare_fields(self) -> None:
        for name in _RARE_LISTS:
            if (value := getattr(self, name)) is not None and type(value) is not tuple:
                force_setattr(self, name, tuple(value))
        if self.gold:
            _set(self, gold=tuple(map(tuple, self.gold)))
        for name in _RARE_MAPPINGS:
            if (value := getattr(self, name)) is not None:
                force_setattr(self, name, freeze(value) or NOTHING)
        if self.metadata is not NOTHING:
            force_setattr(self, "metadata", _frozen_object(self.metadata))
        if len({stage.name for stage in self.stages}) < len(self.stages):
            raise Invalid("names a stage twice", "give each stage a name of its own", "stages")

    def _check_grades(self) -> None:
        low, high = self.grade_scale or _GRADES
        if low >= high:
            raise Invalid("does not rise", "write [lowest, highest], as in [0, 4]", "grade_scale")
        for path, contexts in self._lists():
            for rank, context in enumerate(contexts):
                if context.grade is not None and not low <= context.grade <= high:
                    fix = _GRADE if self.grade_scale is None else f"write a grade from {low} to {high}"
                    raise Invalid(f"is the number {context.grade}", fix, *path, rank, "grade")

    def _lists(self) -> Iterator[tuple[tuple[Step, ...], tuple[Context, ...]]]:
        """Yield every ranking in it, with its path."""
        if self.contexts:
            yield ("contexts",), self.contexts
        for number, call in enumerate(self.calls or ()):
            yield ("calls", number, "contexts"), call.contexts

    def with_contexts(self, changed: Callable[[Context], Context], **more: Any) -> Sample:
        """Return a copy with `change` applied to every context, in calls too; `more` holds other fields to replace."""
        calls = self.calls and tuple(
            replace(call, contexts=tuple(map(changed, call.contexts))) for call in self.calls
        )
        contexts = None if self.contexts is None else tuple(map(changed, self.contexts))
        return replace(self, contexts=contexts, calls=calls, **more)

    def lists(self) -> list[tuple[str, tuple[Context, ...]]]:
        """Return the query and the contexts of each call, then the final list if there is one; a plain sample is one list."""
        lists = [(call.query or self.query, call.contexts) for call in self.calls or ()]
        return lists if self.contexts is None else [*lists, (self.query, self.contexts)]

    def retrieved(self) -> Iterator[Context]:
        """Iterate over the contexts of all lists."""
        return (context for _, contexts in self.lists() for context in contexts)


key_of: Callable[[Sample], tuple[str, str, int]] = attrgetter("id", "system", "trial")
_RARE_LISTS = (
    "calls",
    "stages",
    "gold",
    "evidence",
    "forbidden",
    "history",
    "messages",
    "tags",
    "grade_scale",
)
_RARE_MAPPINGS = ("unsure",)
_rare_fields_of = attrgetter(*_RARE_LISTS, *_RARE_MAPPINGS)
_DEFAULTS = {field.name: field.default for field in fields(Sample)}
_RARE_DEFAULTS = tuple(_DEFAULTS[name] for name in (*_RARE_LISTS, *_RARE_MAPPINGS))
_GRADES = (0, 3)
_GRADE = (
    'write 0, 1, 2 or 3; a yes or no is "relevant": true or false; '
    'what is outside 0 to 3 needs another scale: "grade_scale": [0, 4]'
)


class Usage(
    Record,
    frozen=True,
    kw_only=True,
    omit_defaults=False,
    rename={"input_tokens": "input", "output_tokens": "output"},
):
    """The cost of one request: requests sent (retries too), tokens, US dollars (None = price unknown)."""

    requests: Offset = 0
    input_tokens: Offset = 0
    output_tokens: Offset = 0
    cost_usd: _Amount | None = None


class Judgement(Record, frozen=True, kw_only=True):
    """One answered question, or the error that stands in its place.

    `key` names the question and the judge (the ledger's key), `item` what was judged: a digest without judge,
    prompt, scale or reference. `answer` is the payload that the question's own `read` understands; `judge` gave it;
    `prompt` is the hash of the prompt it was asked with. `parent` is the key of the judgement that this one was
    merged into, as a member of a panel, a replica or a window. `request` names the HTTP request that brought the
    answer: `usage` and `ms` (milliseconds) stand on one judgement per request. `at` is the time of the answer (UTC).
    `provenance` says how it was asked: the fused kinds, the list size and place, the output mode, the model, ...
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
        if self.ms is not None:
            _check_finite("ms", self.ms)
        if type(self.answer) not in FROZEN:
            force_setattr(self, "answer", freeze(self.answer))
        if type(self.provenance) is not FrozenDict:
            force_setattr(self, "provenance", freeze(self.provenance))


class PlaceRow(msgspec.Struct, frozen=True, gc=False):
    """One item that a judge or a person was asked about: a place of a ranking, a text or a claim.

    `item` is the digest of what it was about. `call` and `rank` count from 1 and are None where it is not one passage; of a
    passage `document` is its id and `gold` that document's grade, None where there is none. A part of a larger question (one claim
    of several) says `of` which item and which `part` it is, from 1.
    """

    item: str
    kind: str
    sample: str
    system: str = ""
    trial: int = 0
    call: Annotated[int, Meta(ge=1)] | None = None
    rank: Annotated[int, Meta(ge=1)] | None = None
    document: str | None = None
    gold: int | None = None
    of: str | None = None
    part: Annotated[int, Meta(ge=1)] | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of its sample: id, system and trial."""
        return self.sample, self.system, self.trial


class Score(Record, frozen=True, kw_only=True):
    """One value of one measure for one sample, or why there is none.

    `measure` is the name it is reported under, `type` the measure's canonical name. `value` is None unless
    `status` is "ok"; `bounds` hold what an incomplete score can still become.
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

    @property
    def key(self) -> tuple[str, str, int]:
        """The identity of its sample within an evaluation: id, system and trial."""
        return self.sample, self.system, self.trial

    def __post_init__(self) -> None:
        _check_finite("value", self.value)
        if (self.value is None) is (self.status == "ok"):
            raise ValueError(f"a score has a value exactly when it is ok: {self.value!r}, {self.status!r}")
        if self.status != "ok" and not self.why:
            raise ValueError(f"a score that is {self.status} says why")
