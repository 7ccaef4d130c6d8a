"""The four tables: samples, judgements, scores, and what they are made of. Frozen, without logic.

Every value is checked once, where it is made: no NaN, no infinity, nothing that changes afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

__all__ = [
    "MAX_DEPTH",
    "Call",
    "Context",
    "Evidence",
    "FrozenDict",
    "Json",
    "Judgement",
    "Message",
    "RankedPassage",
    "Sample",
    "Score",
    "Status",
    "Step",
    "ToolCall",
    "Usage",
    "freeze",
]

Json: TypeAlias = Any
"""Anything that JSON can say: None, bool, int, float, str, a list or a str-keyed mapping of these."""

Step: TypeAlias = str | int
"""A key of an object or an index of a list, on the path to a value."""

MAX_DEPTH = 100
"""Levels of nesting that are read: deeper input is a mistake or an attack."""

Status = Literal["ok", "skipped", "incomplete", "error"]


class FrozenDict(dict[str, Any]):
    """A dict that refuses to change, so that a frozen value is frozen all the way down."""

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


_FROZEN = frozenset({str, int, bool, type(None), FrozenDict})
_NAMES = frozenset({str})


def freeze(value: Json) -> Json:
    """The same JSON value with mappings and lists frozen; raises ValueError on NaN and infinity."""
    kind = type(value)
    if kind in _FROZEN or isinstance(value, FrozenDict):
        return value
    if kind is list or kind is tuple:
        return tuple(map(freeze, value))
    if kind is dict or isinstance(value, Mapping):
        if _FROZEN.issuperset(map(type, value.values())) and _NAMES.issuperset(map(type, value)):
            return FrozenDict(value)
        return FrozenDict([(str(k), v if type(v) in _FROZEN else freeze(v)) for k, v in value.items()])
    if isinstance(value, list | tuple):
        return tuple(map(freeze, value))
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a number that can be stored")
    return value


def _set(record: object, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(record, name, value)


def _finite(record: object, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{type(record).__name__}.{name} must be a finite number, not {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One retrieved passage. Its rank is its place in its list, from 1.

    `text` is "" where an `id` is all that is known; a passage that is empty is a space.
    `grade` (0-3, or the sample's `grade_scale`) or `relevant` (yes/no, another scale) is a person's label of it.
    `score` is the retriever's own; `start`/`end` are character offsets in the document, where known.
    """

    text: str = ""
    id: str | None = None
    score: float | None = None
    grade: int | None = None
    relevant: bool | None = None
    metadata: FrozenDict = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        _finite(self, "score")
        if not self.text and self.id is None:
            _set(self, text=" ")
        if self.grade is not None and self.relevant is not None:
            raise ValueError("a context has a grade or relevant, not both: they are two scales")
        _set(self, metadata=freeze(self.metadata))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One search of the system: what it asked, what came back, how long it took."""

    query: str | None = None
    contexts: tuple[Context, ...] = ()
    ms: float | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        _finite(self, "ms")
        _set(self, contexts=tuple(self.contexts))


class RankedPassage(NamedTuple):
    """One retrieved passage of a sample: the number of its call and its rank, both from 1, and the call's query."""

    call: int
    rank: int
    query: str
    context: Context


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One use of a tool in a message; `ms` is how long it took, in milliseconds."""

    tool: str
    input: Json = None
    output: Json = None
    id: str | None = None
    ms: float | None = None

    def __post_init__(self) -> None:
        _set(self, input=freeze(self.input), output=freeze(self.output))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation; `content` is text or a list of parts."""

    role: str
    content: Json = None
    tool_calls: tuple[ToolCall, ...] = ()

    def __post_init__(self) -> None:
        _set(self, content=freeze(self.content), tool_calls=tuple(self.tool_calls))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A piece of gold text that survives re-chunking: a quote, or character offsets of a document."""

    quote: str | None = None
    doc: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One query, what came back for it, and whatever is known: one (case, system, trial).

    `contexts` None = not known, () = nothing was retrieved. `calls` are the searches of an agent; a plain
    sample is one call. `qrels` maps a gold document id to its grade (0 or less = not relevant); `gold` is
    groups of ids (every group must be hit, any id of it will do). `messages` is what the system said,
    with its tool calls; `history` what was said before. `error` says why the system gave no usable answer.
    `criterion` is what a good answer does, in words, and no reference. `cluster` names the cases that belong
    together in statistics (None = the case alone). `grade_scale` is the lowest and the highest grade that a
    context may have (None = 0 to 3); ValueError on a grade outside it.
    """

    id: str
    query: str
    system: str = ""
    trial: int = 0
    contexts: tuple[Context, ...] | None = None
    calls: tuple[Call, ...] | None = None
    reference: str | None = None
    criterion: str | None = None
    response: str | None = None
    qrels: FrozenDict | None = None
    gold: tuple[tuple[str, ...], ...] | None = None
    evidence: tuple[Evidence, ...] | None = None
    answerable: bool | None = None
    forbidden: tuple[str, ...] = ()
    history: tuple[Message, ...] = ()
    messages: tuple[Message, ...] = ()
    error: str | None = None
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    grade_scale: tuple[int, int] | None = None
    metadata: FrozenDict = field(default_factory=FrozenDict)

    @property
    def key(self) -> tuple[str, str, int]:
        """What names it within an evaluation: id, system and trial."""
        return self.id, self.system, self.trial

    def __post_init__(self) -> None:
        for name in _LISTS:
            if (value := getattr(self, name)) is not None and type(value) is not tuple:
                _set(self, **{name: tuple(value)})
        if self.gold:
            _set(self, gold=tuple(map(tuple, self.gold)))
        for name in ("qrels", "metadata"):
            if (value := getattr(self, name)) is not None and type(value) is not FrozenDict:
                _set(self, **{name: freeze(value)})
        low, high = self.grade_scale or _GRADES
        for listed in (self.contexts, *(call.contexts for call in self.calls or ())):
            for context in listed or ():
                if context.grade is not None and not low <= context.grade <= high:
                    raise ValueError(
                        f"a grade of sample {self.id!r} is {context.grade}, outside {low} to {high}"
                    )

    def with_contexts(self, changed: Callable[[Context], Context], **more: Any) -> Sample:
        """The sample with every context changed, in the calls too; `more` are other fields that change with them."""
        calls = self.calls and tuple(
            replace(call, contexts=tuple(map(changed, call.contexts))) for call in self.calls
        )
        contexts = None if self.contexts is None else tuple(map(changed, self.contexts))
        return replace(self, contexts=contexts, calls=calls, **more)

    def places(self) -> Iterator[RankedPassage]:
        """Every place of every call; a plain sample is one call."""
        if self.calls:
            calls = [(call.query or self.query, call.contexts) for call in self.calls]
            if self.contexts is not None:  # the final list of an agent, beside its calls
                calls.append((self.query, self.contexts))
        else:
            calls = [(self.query, self.contexts or ())]
        for number, (query, contexts) in enumerate(calls, 1):
            for rank, context in enumerate(contexts, 1):
                yield RankedPassage(number, rank, query, context)


_LISTS = ("contexts", "calls", "gold", "evidence", "forbidden", "history", "messages", "tags", "grade_scale")
_GRADES = (0, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one request cost: requests sent (retries too), tokens, US dollars (None = price unknown)."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:  # noqa: PLW1641 - the dataclass makes its hash
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
    usage: Usage = field(default_factory=Usage)
    ms: float | None = None
    at: str | None = None
    provenance: FrozenDict = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        if self.ms is not None:
            _finite(self, "ms")
        if type(self.answer) not in _FROZEN:
            object.__setattr__(self, "answer", freeze(self.answer))
        if type(self.provenance) is not FrozenDict:
            object.__setattr__(self, "provenance", freeze(self.provenance))

    @property
    def payload(self) -> Json:
        """The answer for whoever reads it once and changes nothing."""
        return self.answer

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Judgement):
            return NotImplemented
        return self is other or _of_judgement(self) == _of_judgement(other)


_of_judgement = attrgetter(*(one.name for one in fields(Judgement)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
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
        """What names its sample within an evaluation: id, system and trial."""
        return self.sample, self.system, self.trial

    def __post_init__(self) -> None:
        _finite(self, "value")
        if (self.value is None) is (self.status == "ok"):
            raise ValueError(f"a score has a value exactly when it is ok: {self.value!r}, {self.status!r}")
        if self.status != "ok" and not self.why:
            raise ValueError(f"a score that is {self.status} says why")
