"""Declares mappings in YAML files as pydantic models, whose errors name the line and column of a key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    StrictBool,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from germane.clean import fold
from germane.errors import InputError, Invalid, SourceLocation, collect_or_raise, describe
from germane.samples.files import Notice, nearest
from germane.types import FrozenDict, Json, Step, freeze
from germane.yamltext import Node

__all__ = [
    "Count", "Flag", "JsonMapping", "Keys", "Number", "Positive", "Scalar", "Share", "Texts", "WholeNumber", "YamlModel",
    "all_faults", "as_list", "folder_of", "for_model", "names_of", "plain", "plain_value", "read_model",
]  # fmt: skip


class Scalar(str):
    """The text of a YAML scalar, in the form passed to pydantic; `node` is the scalar's node."""

    __slots__ = ("node",)
    node: Node


def for_model(node: Node) -> Any:
    """Convert a node for pydantic: a scalar becomes a Scalar, a list a list, and a mapping stays a Node."""
    if node.items is not None:
        return [for_model(item) for item in node.items]
    if node.text is None:
        return node
    scalar = Scalar(node.text)
    scalar.node = node
    return scalar


def all_faults(error: ValidationError) -> list[tuple[tuple[Step, ...], Invalid]]:
    """Return (path of the invalid value, its error in germane's wording) for each error that pydantic found.

    An error of a value is left out if a value inside it also has one.
    """
    results: list[tuple[tuple[Step, ...], Invalid]] = []
    for fault in error.errors(include_url=False):
        loc, kind, cause = fault["loc"], fault["type"], fault.get("ctx", {}).get("error")
        if isinstance(cause, Invalid):
            wrong = cause
        elif kind == "missing":
            wrong = Invalid(f"has no {loc[-1]}", f'write "{loc[-1]}"')
        elif kind == "extra_forbidden":
            wrong = Invalid("is not a known field", "remove the field or correct its name")
        else:
            fix = re.sub(r"^\w+ should (?:be|have) (?!greater|less)", "write ", fault["msg"])
            fix = re.sub(r"^\w+ should be", "write a number", fix).partition(" after validation")[0]
            wrong = Invalid(f"is {describe(fault['input'])}", fix)
        results.append((loc, wrong))
    above = {loc[:depth] for loc, _ in results for depth in range(len(loc))}
    return [(loc, wrong) for loc, wrong in results if loc not in above]


def no_word(value: Json) -> Json:
    """Return the value of a number field. Raises Invalid for strings and booleans: pydantic converts them."""
    if isinstance(value, str | bytes | bool):
        raise Invalid(f"is {describe(value)}, not a number", "write a number, such as 0.5")
    return value


Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(no_word)]


def plain_value(value: Any) -> Json:
    """Return the JSON value of a YAML field, which pydantic passes as a Scalar, list or Node."""
    if isinstance(value, Scalar):
        return value.node.json()
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    return value.json() if isinstance(value, Node) else value


def folder_of(info: ValidationInfo | Keys) -> Path:
    """Return the folder of the validation context, to which paths in the file are relative."""
    folder: Path = (info.context or {}).get("folder", Path())
    return folder


def as_list(value: Any) -> Any:
    """Return a list or tuple as a list, and a single value as a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _mapping(value: Any) -> FrozenDict:
    if not isinstance(value, Node | dict) or (isinstance(value, Node) and value.pairs is None):
        raise Invalid(f"is {describe(value)}, not a mapping", "write a mapping: key: value")
    return FrozenDict(freeze(plain_value(value)))


plain = BeforeValidator(plain_value)
Flag = Annotated[StrictBool, plain]
Positive = Annotated[Number, Field(ge=0.001), plain]
WholeNumber = Annotated[int, Field(strict=True, ge=0, lt=2**63), plain]
Count = Annotated[int, Field(strict=True, ge=1, lt=2**63), plain]
Share = Annotated[Number, Field(ge=0.0, le=1), plain]
Texts = Annotated[tuple[str, ...], BeforeValidator(as_list)]
JsonMapping = Annotated[FrozenDict, PlainValidator(_mapping, json_schema_input_type=dict[str, Any])]


@dataclass(slots=True)
class Keys:
    """The keys of a mapping that is being read, sorted into known and unknown keys.

    `values` maps fields to the values of known keys, `others` unknown keys to their nodes. `what` names the
    mapping in errors, and `context` is the validation context of YamlModel.
    """

    what: str
    node: Node
    values: dict[str, Any]
    others: dict[str, Node]
    context: Mapping[str, Any]

    def warn(self, problem: str, fix: str, location: SourceLocation) -> None:
        """Pass a Notice to the function `warn` of the validation context, if there is one."""
        if (warn := self.context.get("warn")) is not None:
            warn(Notice(problem, fix, location))

    def refuse(self, key: str, names: Iterable[str], instead: str = "") -> bool:
        """Report an unknown key that probably misspells one of `names`, and return whether it does.

        `instead` is added to the fix.
        """
        if (near := nearest(key, names)) is None:
            return False
        self.fault(f"{self.what} has the unknown key {key!r}", f"did you mean {near!r}?{instead}", key)
        return True

    def fault(self, problem: str, fix: str, key: str) -> None:
        """Append an error located at `key` to `faults` of the validation context, or raise it."""
        collect_or_raise(InputError(problem, fix=fix, place=self.node.keys[key]), self.context.get("faults"))


class YamlModel(BaseModel):
    """Base class of the models for mappings in a YAML file.

    Keys may be written in snake_case, camelCase or kebab-case. A key whose value is null counts as absent.

    Attributes:
        what: The name of the mapping in messages.
        aliases: Maps a field to its other names.
        text_field: The field that is set if a string is written in place of the mapping.
        computed: Fields that cannot be set in the file.
        nodes: Fields whose values stay Nodes.
        ignored: Known keys without effect.
        unread: Maps each key of AgentV that germane does not support to advice on what to write instead.
        refused: Keys (folded) of other tools that would change scores. Such a key is an error.
        any_key: Whether a misspelt key causes a warning instead of an error.

    The validation context may contain `folder`, to which paths in the file are relative; `warn`, which is
    called with a Notice for every unknown key; and `faults`, a list to which errors about misspelt keys are
    appended. Without `faults` these errors are raised.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    what: ClassVar[str] = "this"
    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    text_field: ClassVar[str] = ""
    computed: ClassVar[tuple[str, ...]] = ()
    nodes: ClassVar[tuple[str, ...]] = ()
    ignored: ClassVar[tuple[str, ...]] = ()
    unread: ClassVar[Mapping[str, str]] = {}
    refused: ClassVar[frozenset[str]] = frozenset()
    any_key: ClassVar[bool] = False

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Report each unknown key: as an error if it resembles a known key, else as a warning.

        Subclasses also set their computed fields here.
        """
        for key in keys.others:
            if key.startswith(("$", "x-", "_")):
                continue
            problem = f"{keys.what} has the unknown key {key!r}"
            if fold(key) in cls.refused:
                keys.fault(
                    f"{keys.what} has the key {key!r}, which germane does not support", "remove the key", key
                )
                continue
            fix, names = cls.unread.get(fold(key)), (*cls.spellings(), *cls.ignored)
            if fix is None and cls.any_key and (near := nearest(key, names)):
                fix = f"did you mean {near!r}?"
            if fix is not None or not keys.refuse(key, names):
                keys.warn(f"{problem}: it is ignored", fix or "remove it", keys.node.keys[key])

    @classmethod
    def spellings(cls) -> dict[str, str]:
        """Return a mapping from every accepted key to its field."""
        fields = [name for name in cls.model_fields if name not in cls.computed]
        return {spelling: name for name in fields for spelling in (name, *cls.aliases.get(name, ()))}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON Schema of the mapping, or of the string in its place (`text_field`)."""
        schema = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [schema["properties"][cls.text_field], schema]} if cls.text_field else schema

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: Callable[[Any], Self], info: ValidationInfo) -> Self:
        if isinstance(value, str) and cls.text_field:
            value = {cls.text_field: value}
        if isinstance(value, dict):
            names = names_of(cls)
            return handler({names.get(fold(str(key)), key): inner for key, inner in value.items()})
        if isinstance(value, cls):
            return handler(value)
        if not isinstance(value, Node) or value.pairs is None:
            raise Invalid(f"is {describe(value)}, not a mapping", "write a mapping: key: value")
        names, ignored, seen = names_of(cls), set(map(fold, cls.ignored)), dict[str, str]()
        keys = Keys(cls.what, value, {}, {}, info.context or {})
        for key, inner in value.pairs.items():
            if (first := seen.setdefault(fold(key), key)) != key:
                problem = f"{first!r} and {key!r} are the same key in two spellings"
                raise InputError(problem, fix=f"keep {first} or {key}", place=value.keys[key])
            name = names.get(fold(key))
            if name is None:
                if fold(key) not in ignored:
                    keys.others[key] = inner
            elif not inner.is_null():
                if name in keys.values:
                    problem = f"{value.spelt[name]!r} and {key!r} are two names of the key {name}"
                    raise InputError(problem, fix=f"keep {value.spelt[name]} or {key}", place=value.keys[key])
                keys.values[name] = inner if name in cls.nodes else for_model(inner)
                value.spelt[name] = key
        cls.complete(keys)
        return handler(keys.values)


@cache
def names_of(model: type[YamlModel]) -> dict[str, str]:
    """Return a mapping from every accepted key, folded (lower case, no separators), to its field."""
    return {fold(spelling): name for spelling, name in model.spellings().items()}


M = TypeVar("M", bound=YamlModel)


def read_model(model: type[M], node: Node, faults: list[InputError] | None = None, **context: Any) -> M:
    """Validate a mapping and return it as an instance of `model`; `context` is as in YamlModel.

    Raises InputError for the first error. If `faults` is given, the other errors are appended to it.
    """
    try:
        return model.model_validate(node, context={**context, "faults": faults})
    except ValidationError as error:
        found = all_faults(error)
    errors: list[InputError] = []
    for loc, wrong in found:
        wrong.path, inner = node.follow((*loc, *wrong.path))
        if not wrong.path:
            wrong.problem = f"{model.what} {wrong.problem}"
        if loc and wrong.problem.endswith(f"has no {loc[-1]}"):
            field = model.model_fields.get(str(loc[-1])) if len(loc) == 1 else None
            wrong.fix = f"write {loc[-1]}: {field.examples[0] if field and field.examples else '...'}"
        errors.append(wrong.error(inner.location))
    if faults is not None:
        faults += errors[1:]
    raise errors[0]
