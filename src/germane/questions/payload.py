"""The payloads of answers: pydantic types, their JSON Schema, and validation errors as text.

2.0 and "2" are read as the number 2. Any other value of a wrong type raises an AnswerError, whose text can be
sent to the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, Self, TypeAlias, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    StringConstraints,
    ValidationError,
    create_model,
)

from germane.encoding import Json
from germane.errors import AnswerError, Unended, describe

__all__ = ["Limits"]

REASON_LENGTH, TEXT_LENGTH, LIST_LENGTH = 600, 1500, 64
"""Generous limits: characters of a reason, characters of any other string, least `maxItems` of a list."""
_OVERHEAD, _CHARACTERS, _DRAWN_UP = 16, 3, 128
"""Tokens of a field without its value, characters of a reason per token, and tokens of a list about a short text."""


class Limits(NamedTuple):
    """The limits on the length of an answer. They are not part of keys or prompt hashes."""

    size: int = 0  # the text's length in bytes; a list of things in it has at most one entry per four bytes
    numbers: int = LIST_LENGTH  # the maximum number of contexts in one list
    verdicts: str = ""  # the name of the list with one verdict per subject
    subjects: int = 0
    bytes_each: int = 1  # per character of the text, since tokens correspond to bytes in every script

    def limit(self, schema: Mapping[str, Json], name: str = "") -> tuple[dict[str, Json], int]:
        """Return a field's schema with generous `maxItems` and `maxLength`, and its most tokens."""
        kind, length = schema.get("type"), schema.get("maxLength", 0)
        if kind == "object":
            inner = {key: self.limit(value, key) for key, value in schema["properties"].items()}
            tokens = sum(_OVERHEAD + count for _, count in inner.values())
            return {**schema, "properties": {key: limited for key, (limited, _) in inner.items()}}, tokens
        if kind == "array":
            items, each = self.limit(schema["items"], name)
            if name == self.verdicts:
                most, tokens = self.subjects, self.subjects * each
            elif schema["items"].get("type") == "integer":
                most, tokens = self.numbers, _CHARACTERS * self.numbers
            else:
                most, tokens = max(LIST_LENGTH, self.size // 4), _DRAWN_UP + self.size
            return {"maxItems": most, **schema, "items": items}, tokens
        if kind == "string" and "enum" not in schema and "const" not in schema:
            length = length or (REASON_LENGTH if name.endswith("reasoning") else TEXT_LENGTH)
            return {"maxLength": length, **schema}, length * self.bytes_each // _CHARACTERS
        return dict(schema), length * self.bytes_each // _CHARACTERS

    def check(self, payload: Json, schema: Mapping[str, Json], name: str = "") -> None:
        """Raise Unended if a list or string in the field `name` is as long as a limit that `limit` adds."""
        if isinstance(payload, dict):
            for key, field in schema["properties"].items():
                if key in payload:
                    self.check(payload[key], field, key)
        elif isinstance(payload, list | tuple | str):
            keyword, unit = ("maxLength", "characters") if isinstance(payload, str) else ("maxItems", "items")
            most = (
                None
                if keyword in schema or name == self.verdicts
                else self.limit(schema, name)[0].get(keyword)
            )
            if most is not None and len(payload) == most:  # a longer one shows that the server sets no limit
                raise Unended(
                    f'"{name}" reached its limit of {most:,} {unit} and may be incomplete: write less'
                )
            for item in () if isinstance(payload, str) else payload:
                self.check(item, schema["items"], name)


class PayloadModel(BaseModel):
    """The base class of all payload types. Properties that the schema does not name are ignored."""

    model_config = ConfigDict(extra="ignore")

    @classmethod
    def model_read(cls, payload: Json) -> Self:
        """Return a payload as an instance of this type. Raises AnswerError if it is invalid."""
        if not isinstance(payload, dict):
            raise AnswerError(f"the answer must be a JSON object, not {describe(payload)}")
        try:
            return cls.__pydantic_validator__.validate_python(payload)  # type: ignore[no-any-return]
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            if first["type"] == "missing":
                raise AnswerError(f'the answer lacks "{where}"') from None
            empty = first["type"] == "string_pattern_mismatch"
            problem = "Input should be a non-empty string" if empty else first["msg"]
            given = "null" if first["input"] is None else repr(first["input"])[:80]
            raise AnswerError(f'"{where}": {problem.replace("tuple", "list")}, not {given}') from None

    @classmethod
    @cache
    def model_schema(cls) -> dict[str, Json]:
        """Return the strict JSON Schema, without default, title or `$ref`.

        Every property is required, and no other properties are allowed. A range of integers is written as
        `minimum` and `maximum`, because Gemini accepts no integer `enum`.
        """
        whole = cls.model_json_schema()
        return _plain(whole, whole.get("$defs", {}))

    @classmethod
    def model_descriptions(cls) -> list[str]:
        """Return the descriptions of all fields (`grade: 0 to 3`), which are part of the prompt hash."""
        fields = cls.model_fields
        lines = [f"{name}: {field.description}" for name, field in fields.items() if field.description]
        for field in fields.values():
            for inner in get_args(field.annotation):
                if isinstance(inner, type) and issubclass(inner, PayloadModel):
                    lines += inner.model_descriptions()
        return lines


def list_payload(**lists: Any) -> type[PayloadModel]:
    """Return a payload type whose only field is a list: `list_payload(claims=tuple[Text, ...])`."""
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in lists.items()}
    return create_model("ListPayload", __base__=PayloadModel, **fields)


def _whole(value: object) -> object:
    """Return 2 for 2.0, "2" and "2.0", and other values unchanged."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and (digits := _DIGITS.fullmatch(value.strip())):
        return int(digits[1])
    return value


_DIGITS = re.compile(r"(-?[0-9]{1,9})(?:\.0+)?")

# a whole number, which may be written as 2, 2.0 or "2"
Whole: TypeAlias = Annotated[int, BeforeValidator(_whole), Field(strict=True)]
YesNo: TypeAlias = StrictBool  # true or false; a string such as "yes" is rejected
_TEXT = StringConstraints(strict=True, strip_whitespace=True, pattern=r"[^\p{C}\p{Z}]")
Text: TypeAlias = Annotated[str, _TEXT]
"""A string with visible characters, stripped.

A string of white space or invisible characters is rejected. It is not removed from lists, because that would
change the numbers of the entries after it.
"""
Numbers: TypeAlias = tuple[Whole, ...]  # the numbers, from 1, of contexts in a question
Reason: TypeAlias = Annotated[StrictStr, BeforeValidator(lambda value: "" if value is None else value)]
"""The reason, in the judge's words.

It may be missing or null, because weak models, people and rules give none.
"""


def _plain(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Json]:
    """Return a schema made by pydantic in the form of `model_schema`; `shared` are its definitions."""
    if "$ref" in schema:  # use only the field's own description, not the docstring of the class
        described = {"description": schema["description"]} if "description" in schema else {}
        return {**_plain(shared[schema["$ref"].rpartition("/")[2]], shared), **described}
    if schema.get("type") == "object":
        inner = {name: _plain(value, shared) for name, value in schema["properties"].items()}
        strict = {"properties": inner, "required": list(inner), "additionalProperties": False}
        return {"type": "object", **strict}
    dropped = {"title", "default", "pattern"}
    kept = {name: value for name, value in schema.items() if name not in dropped}
    return {**kept, "items": _plain(schema["items"], shared)} if "items" in schema else kept


class GradePayload(PayloadModel):
    """The payload for Relevance on the graded scale: `{reasoning, grade}`."""

    reasoning: Reason = Field("", description="1-2 sentences in the passage's language")
    grade: Whole = Field(ge=0, le=3, description="0 to 3")


class RelevantPayload(PayloadModel):
    """The payload for Relevance on the binary scale: `{reasoning, relevant}`."""

    reasoning: Reason = Field("", description="1-2 sentences in the passage's language")
    relevant: YesNo


Probability: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class GradeDistribution(GradePayload):
    """The payload `{grade, probabilities}`: a probability per grade from 0 to 3; `grade` has the highest."""

    probabilities: list[Probability] = Field(min_length=4, max_length=4)


class RelevantDistribution(RelevantPayload):
    """The payload `{relevant, probabilities}`: the probabilities of no and yes; `relevant` has the higher."""

    probabilities: list[Probability] = Field(min_length=2, max_length=2)
