"""A sample's line as pydantic models: one declaration for the reader, its aliases and the published JSON Schema."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    TypeAdapter,
    model_validator,
)
from pydantic import WithJsonSchema as Schema

from germane.samples.validation import Id, JsonObject, JsonValue, Number, Offset, Whole, Wrong, frozen, say
from germane.types import Call, Context, Evidence, FrozenDict, Json, Message, ToolCall

ALIASES: dict[str, tuple[str, ...]] = {
    "id": ("qid", "query_id", "case_id", "_id"),
    "query": ("question", "topic", "user_input", "input"),
    "contexts": ("retrieved_contexts", "retrieval_context", "context", "retrieved_context"),
    "retrieved_context_ids": ("doc_ids",),
    "reference": ("ground_truth", "expected_output", "expected", "reference_answer"),
    "criterion": ("criteria", "expected_outcome", "outcome"),
    "response": ("actual_output", "answer", "candidate_answer", "output"),
    "qrels": ("reference_context_ids", "document_ids", "gold_ids"),
    "messages": ("output_messages",),
}
"""Other names of a sample's fields; each may also be written in camelCase."""
_PASSAGE_ALIASES = {"text": ("content", "page_content"), "id": ("doc_id", "document_id")}
EMPTY = " "
"""A passage whose text is known and empty; "" stands for one whose text is not known, only its id."""

T = TypeVar("T")


def camel(name: str) -> str:
    """`retrieved_contexts` as `retrievedContexts`."""
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _choices(aliases: Mapping[str, tuple[str, ...]], name: str) -> AliasChoices:
    """Every accepted spelling of a field, its own name first."""
    names = (name, *aliases.get(name, ()))
    return AliasChoices(*dict.fromkeys(spelling for one in names for spelling in (one, camel(one))))


def _aliased(aliases: Mapping[str, tuple[str, ...]]) -> ConfigDict:
    generator = AliasGenerator(validation_alias=functools.partial(_choices, aliases))
    return ConfigDict(extra="allow", alias_generator=generator)


def spellings(model: type[BaseModel]) -> dict[str, str]:
    """Each accepted spelling of a model's fields -> the field's name."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [name]
        found |= {str(spelling): name for spelling in choices}
    return found


def _made(kind: type[T], model: type[BaseModel], text_field: str | None = None) -> PlainValidator:
    """A validator that makes a record of `types` by way of a model; a record that is made already passes."""

    def read(value: Json) -> T:
        if isinstance(value, kind):
            return value
        if text_field and isinstance(value, str):
            value = {text_field: value}
        return kind(**dict(model.model_validate(value)))

    shape: Any = model | Annotated[str, Field(min_length=1)] if text_field else model
    return PlainValidator(read, json_schema_input_type=shape)


def _about(description: str, default: Any = None, *, example: Json = None) -> Any:
    """A field with its description in the published schema; `...` as its default: it is needed."""
    return Field(default, description=description, examples=None if example is None else [example])


class PassageLine(BaseModel):
    """A retrieved passage as people write it; keys without a meaning here become its metadata."""

    model_config = _aliased(_PASSAGE_ALIASES)

    text: str | None = _about("the passage")
    id: Id | None = _about("the id of its document")
    score: Number | None = _about("the retriever's own score")
    grade: Whole | None = _about("a person's grade of its relevance, 0 to 3 or in grade_scale")
    relevant: StrictBool | None = _about("a person's yes or no; another scale than grade: one of the two")
    metadata: JsonObject = Field(default_factory=FrozenDict, description="anything else that is known of it")
    start: Offset | None = _about("where it starts in its document, in characters")
    end: Offset | None = _about("where it ends in its document, in characters")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Json) -> Json:
        return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value

    def context(self) -> Context:
        """The context; Wrong where two keys contradict each other, or neither text nor id is there."""
        if self.text is None and self.id is None:
            raise Wrong("has neither text nor id", f"write {_EXAMPLE} or a string")
        if self.grade is not None and self.relevant is not None:
            raise Wrong("has both grade and relevant: they are two scales", "keep one of them")
        metadata = dict(self.metadata)
        for key, value in (self.__pydantic_extra__ or {}).items():
            name = PASSAGE_SPELLINGS.get(key)
            if name is None:
                metadata[key] = value
            elif str(value) != str(getattr(self, name)):
                problem = f"says something else than the other {name} of this context"
                raise Wrong(problem, f"keep one {name}", key)
        metadata |= {k: v for k, v in (("start", self.start), ("end", self.end)) if v is not None}
        return Context(
            text="" if self.text is None else self.text or EMPTY,
            id=self.id,
            score=self.score,
            grade=self.grade,
            relevant=self.relevant,
            metadata=frozen(metadata),
        )


PASSAGE_SPELLINGS = spellings(PassageLine)
_EXAMPLE = '{"id": "d7", "text": "..."}'
_NOTHING = FrozenDict()
_SET_TEXT, _SET_ID, _SET_SCORE, _SET_GRADE, _SET_RELEVANT, _SET_METADATA = (
    getattr(Context, name).__set__ for name in ("text", "id", "score", "grade", "relevant", "metadata")
)


def read_context(value: Json) -> Context:
    """One passage: a string, or an object with at least a text or an id. Raises Wrong or ValidationError.

    The usual shapes are checked and made here, at a third of the constructor's price: most of the time of reading
    a file goes into its passages.
    """
    text: Any
    document = score = grade = None
    if type(value) is str:
        text = value
    elif type(value) is dict:
        text, document = value.get("text"), value.get("id")
        known = (type(text) is str) + (type(document) is str and document != "")
        usual = known > 0
        if len(value) != known:
            score, grade = value.get("score"), value.get("grade")
            known += (type(score) is float and math.isfinite(score)) + (type(grade) is int)
        if not usual or len(value) != known:
            return PassageLine.model_validate(value).context()
    else:
        return _rare_context(value)
    made = object.__new__(Context)
    _SET_TEXT(made, "" if text is None else text or EMPTY)
    _SET_ID(made, document)
    _SET_SCORE(made, score)
    _SET_GRADE(made, grade)
    _SET_RELEVANT(made, None)
    _SET_METADATA(made, _NOTHING)
    return made


def _rare_context(value: Json) -> Context:
    """From Python: a context that is made already, a text of another type, a mapping that is frozen."""
    if isinstance(value, Context):
        return value
    if isinstance(value, dict):
        return read_context(dict(value))
    if isinstance(value, str):
        return Context(text=str(value) or EMPTY)
    raise Wrong(f"is {say(value)}", f"write a string or an object like {_EXAMPLE}")


Contexts = tuple[
    Annotated[Context, PlainValidator(read_context, json_schema_input_type=str | PassageLine)], ...
]


def read_contexts(values: Json) -> tuple[Context, ...]:
    """A ranked list of passages, best first. Raises Wrong or ValidationError."""
    return tuple(map(read_context, values))


class CallLine(BaseModel):
    """One search of an agent."""

    model_config = ConfigDict(extra="forbid")

    query: str | None = _about("what was searched for")
    contexts: Contexts = _about("what came back, best first", ...)
    ms: Number | None = _about("how long it took, in milliseconds")
    source: str | None = _about("which tool or index was asked")


class EvidenceLine(BaseModel):
    """A piece of gold text."""

    model_config = ConfigDict(extra="forbid")

    quote: str | None = _about("the words themselves")
    doc: Id | None = _about("the document they stand in")
    start: Offset | None = _about("where they start in the document, in characters")
    end: Offset | None = _about("where they end")

    @model_validator(mode="after")
    def _located(self) -> EvidenceLine:
        if not self.quote and None in {self.doc, self.start, self.end}:
            fix = 'write {"quote": "..."} or {"doc": "d7", "start": 0, "end": 120}'
            raise Wrong("has neither a quote nor doc, start and end", fix)
        if self.start is not None and self.end is not None and self.start > self.end:
            raise Wrong("ends before it starts", "swap start and end")
        return self


def _tool_call(value: Json) -> ToolCall:
    """One use of a tool, in our own shape or as chat APIs write it."""
    fix = 'write {"tool": "search", "input": {...}, "output": {...}}'
    if isinstance(value, ToolCall):
        return value
    if not isinstance(value, dict):
        raise Wrong(f"is {say(value)}", fix)
    function = value["function"] if isinstance(value.get("function"), dict) else {}
    tool = value.get("tool") or value.get("name") or function.get("name")
    if not isinstance(tool, str):
        raise Wrong("does not name its tool", fix)
    given = value.get("input", value.get("args", function.get("arguments")))
    number = value.get("id")
    times = (value.get(name) for name in ("ms", "duration_ms", "durationMs"))
    took = next((time for time in times if time is not None), None)
    if took is not None and (isinstance(took, bool) or not isinstance(took, int | float) or took < 0):
        raise Wrong(f"took {say(took)}", "write its duration in milliseconds: 120")
    return ToolCall(
        tool=tool,
        input=frozen(given),
        output=frozen(value.get("output")),
        id=None if number is None else str(number),
        ms=took,
    )


class MessageLine(BaseModel):
    """One turn of a conversation; other keys are passed over."""

    role: str = Field(min_length=1)
    content: JsonValue = None
    tool_calls: Annotated[
        tuple[Annotated[ToolCall, PlainValidator(_tool_call), Schema({"type": "object"})], ...],
        BeforeValidator(lambda value: value or ()),
    ] = Field((), validation_alias=AliasChoices("tool_calls", "toolCalls"))


def _conversation(value: Json) -> Json:
    """A bare string is one message of the user."""
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


_ONE_MESSAGE = Annotated[Message, _made(Message, MessageLine)]
Messages = Annotated[
    tuple[_ONE_MESSAGE, ...],
    BeforeValidator(_conversation, json_schema_input_type=str | tuple[MessageLine, ...]),
]


read_messages = TypeAdapter(Messages).validate_python
"""The messages of a conversation. Raises ValidationError."""


def _question(value: str) -> str:
    if not value.strip():
        raise Wrong("is empty", "write the question that was asked")
    return value


def _qrels(value: Json) -> Json:
    """A list of ids is grade 1 for each."""
    return dict.fromkeys(map(_checked_id, value), 1) if isinstance(value, list | tuple) else value


def _checked_id(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise Wrong(f"holds {say(value)}", "write ids: strings that are not empty, or whole numbers")
    return str(value)


def _ordered(scale: tuple[int, int]) -> tuple[int, int]:
    if scale[0] >= scale[1]:
        raise Wrong("does not rise", "write [lowest, highest], as in [0, 4]")
    return scale


_DocumentId = Annotated[str, Field(min_length=1)]
_Grades = dict[_DocumentId, Whole]
_Qrels = Annotated[
    _Grades,
    BeforeValidator(_qrels, json_schema_input_type=_Grades | tuple[Id, ...]),
    AfterValidator(FrozenDict),
]
_Question = Annotated[str, AfterValidator(_question), Schema({"type": "string", "pattern": r"\S"})]
_Calls = tuple[Annotated[Call, _made(Call, CallLine)], ...]
_Evidence = tuple[Annotated[Evidence, _made(Evidence, EvidenceLine, "quote")], ...]
_Scale = Annotated[tuple[Whole, Whole], AfterValidator(_ordered)]


class SampleLine(BaseModel):
    """One line of a JSON Lines file: one query, what came back for it, and what is known."""

    model_config = _aliased(ALIASES)

    id: Id | None = _about("names the case; without one, the number of its line")
    query: _Question = _about("what was asked", ..., example="the question that was asked")
    system: str = _about("which retrieval system answered", "")
    trial: Offset = _about("which repetition, from 0", 0)
    contexts: Contexts | None = _about(
        "what was retrieved, best first; [] = nothing, absent = not known",
        example=["...", {"id": "d7", "text": "..."}],
    )
    retrieved_context_ids: tuple[Id, ...] | None = _about(
        "the document ids of the contexts, in their order", example=["d1", "d2"]
    )
    calls: _Calls | None = _about(
        "the searches of an agent, one ranking each", example=[{"query": "...", "contexts": ["..."]}]
    )
    reference: str | None = _about("the answer that is known to be right")
    criterion: str | None = _about("what a good answer does; never a reference answer")
    response: str | None = _about("what the system answered")
    qrels: _Qrels | None = _about(
        "gold documents and their grades; 0 or less = not relevant", example={"d7": 2, "d9": 0}
    )
    gold: tuple[tuple[Id, ...], ...] | None = _about(
        "groups of ids: every group must be hit, any id of it will do", example=[["d1", "d7"], ["d3"]]
    )
    evidence: _Evidence | None = _about(
        "pieces of gold text; they survive re-chunking", example=[{"quote": "..."}]
    )
    answerable: StrictBool | None = _about("false: nothing in the corpus answers it")
    forbidden: tuple[Id, ...] = _about("documents that must not come back", (), example=["d9"])
    history: Messages = _about("what was said before", (), example=[{"role": "user", "content": "..."}])
    messages: Messages = _about("what the system said, with its tool calls", ())
    error: str | None = _about("why the system gave no usable answer")
    tags: tuple[str, ...] = _about("words to filter and group by", (), example=["tax", "2024"])
    cluster: str | None = _about("names the cases that belong together in statistics; without one, the id")
    grade_scale: _Scale | None = _about(
        "the lowest and the highest grade of a context, if not 0 and 3", example=[0, 4]
    )
    metadata: JsonObject = Field(default_factory=FrozenDict, description="anything else that is known of it")


SPELLINGS = spellings(SampleLine)
