"""Dicts to samples and back: one row in, one Sample out, whatever file or table it came from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from operator import attrgetter
from typing import Any, TypeAlias

from pydantic import ValidationError

from germane.encoding import encode
from germane.errors import InputError, Place
from germane.samples.files import Notice, Warn, nearest
from germane.samples.models import SPELLINGS, SampleLine
from germane.samples.validation import Wrong, frozen, say, wrong_in
from germane.types import Context, FrozenDict, Json, Sample, Step

Columns: TypeAlias = Mapping[str, str]
Where: TypeAlias = Callable[[Sequence[Step]], Place]
"""The place of what stands at a path of a row."""

_validate = SampleLine.__pydantic_validator__.validate_python  # `model_validate` without its Python frame
_IDS = "retrieved_context_ids"
_GRADES = (
    'write 0, 1, 2 or 3; a yes or no is "relevant": true or false; another scale is "grade_scale": [0, 4]'
)


def parse_columns(text: str) -> dict[str, str]:
    """`query=Query,contexts=Context` as a mapping of our names to the file's."""
    columns: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        ours, equals, named = (piece.strip() for piece in part.partition("="))
        if not equals or not named:
            raise InputError(f"{part!r} maps no column", fix="write OURS=THEIRS, as in query=Question")
        columns[ours] = named
    check_columns(columns)
    return columns


def check_columns(columns: Columns) -> None:
    """InputError where a mapping names a field that samples do not have."""
    for ours in columns:
        if ours not in SPELLINGS:
            near = nearest(ours, SPELLINGS)
            fix = f"did you mean {near}?" if near else f"write one of {', '.join(SampleLine.model_fields)}"
            raise InputError(f"columns: a sample has no field {ours!r}", fix=fix)


class RowReader:
    """Rows to samples; `columns` maps our field names to the names used in the rows, `warn` gets what looks wrong.

    A row without an id has `prefix` and its number for one.
    """

    def __init__(self, columns: Columns | None = None, warn: Warn | None = None, prefix: str = "") -> None:
        self._warn, self._prefix = warn, prefix
        check_columns(columns or {})
        self._mapped = {key: SPELLINGS[ours] for ours, key in (columns or {}).items()}
        self._taken = set(self._mapped.values())
        self._absent = set(self._mapped)

    def field_of(self, key: str) -> str | None:
        """The field that a key of a row means; None = metadata."""
        name = self._mapped.get(key) or SPELLINGS.get(key)
        return None if name in self._taken and key not in self._mapped else name

    def read(self, row: Json, number: int, where: Where) -> Sample:
        """The sample that a row describes; `number` is its id where it has none. Raises InputError."""
        try:
            return self._sample(row, number, where)
        except Wrong as wrong:
            raise wrong.error(where(wrong.path)) from None

    def faults_of(self, row: dict[str, Json], number: int, where: Where) -> list[InputError]:
        """Every fault of a row: each is looked for in what the others leave."""
        found: list[InputError] = []
        left = dict(row)
        while True:
            try:
                self._sample(left, number, where)
            except Wrong as wrong:
                found.append(wrong.error(where(wrong.path)))
                key = wrong.path[0] if wrong.path else None
                if key not in left or SPELLINGS.get(str(key)) == "query":
                    return found
                del left[str(key)]
            else:
                return found

    def _sample(self, row: Json, number: int, where: Where) -> Sample:
        if not isinstance(row, dict):
            fix = 'write {"id": "q1", "query": "..."}'
            raise Wrong(f"a sample is an object, and this is {say(row)}", fix)
        known, more = self._mapped_row(row) if self._mapped else (row, {})
        try:
            line = _validate({key: value for key, value in known.items() if value is not None})
        except ValidationError as error:
            raise self._named(wrong_in(error, known)) from None
        values = line.__dict__
        if line.__pydantic_extra__:
            more |= line.__pydantic_extra__
            if self._warn is not None:
                self._warn_of(row, line.__pydantic_extra__, where)
        if (ids := values.pop(_IDS)) is not None:
            values["contexts"] = _with_ids(values["contexts"], ids)
        if values["id"] is None:
            values["id"] = f"{self._prefix}{number}"
        if more:
            values["metadata"] = frozen({**values["metadata"], **more})
        graded = values["calls"] or [c for c in values["contexts"] or () if c.grade is not None]
        if graded and (wrong := _misgraded(values, known)) is not None:
            raise self._named(wrong)
        return _made(values)

    def _mapped_row(self, row: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
        """The row under our own names, and what is metadata because another column has its field."""
        known: dict[str, Json] = {}
        more: dict[str, Json] = {}
        self._absent -= row.keys()
        for key, value in row.items():
            name = self.field_of(key)
            known_or_more = more if name is None and key in SPELLINGS else known
            known_or_more[self._mapped.get(key, key)] = value
        return known, more

    def warn_of_absent(self, file: Place) -> None:
        """A notice for each mapped name that no row had."""
        if self._warn is None:
            return
        for key in sorted(self._absent):
            problem = f"no row has {key!r}, which {self._mapped[key]} is mapped to"
            self._warn(Notice(problem, "check the name in columns: upper and lower case are two", file))

    def _named(self, wrong: Wrong) -> Wrong:
        """The fault with the row's own name for its field, and with an example of that field."""
        if not wrong.path:
            wrong.problem = (
                f"this sample {wrong.problem}" if wrong.problem.startswith("has no") else wrong.problem
            )
            return wrong
        field = SPELLINGS.get(str(wrong.path[0]), "")
        if len(wrong.path) == 1 and field in SampleLine.model_fields:
            example = SampleLine.model_fields[field].examples
            wrong.fix = f"write {encode(example[0]).decode()}" if example else wrong.fix
        keys = {ours: key for key, ours in self._mapped.items()}
        wrong.path = (keys.get(str(wrong.path[0]), wrong.path[0]), *wrong.path[1:])
        return wrong

    def _warn_of(self, row: dict[str, Json], extra: dict[str, Json], where: Where) -> None:
        """A notice for each key that is probably misspelt, or a second spelling with another value."""
        assert self._warn is not None
        for key in extra:
            name = self.field_of(key)
            if name is not None:
                read = next(k for k, n in SPELLINGS.items() if n == name and row.get(k) is not None)
                if row[read] != row[key]:
                    problem = f"{read!r} and {key!r} both mean {name}; {read!r} is read"
                    self._warn(Notice(problem, "keep one of them", where((key,))))
            elif near := _near(key):
                problem = f"the field {key!r} is not known and kept as metadata"
                self._warn(Notice(problem, f"did you mean {near!r}?", where((key,))))


@functools.lru_cache(maxsize=4096)
def _near(key: str) -> str | None:
    return None if key in SPELLINGS else nearest(key, SPELLINGS)


def _with_ids(contexts: tuple[Context, ...] | None, ids: tuple[str, ...]) -> tuple[Context, ...]:
    """Contexts with ids that stood beside them; without contexts, contexts that are ids only."""
    if contexts is None:
        return tuple(Context(id=document) for document in ids)
    if len(contexts) != len(ids):
        counts = f"{len(ids)} ids for {len(contexts)} contexts"
        raise Wrong(f"gives {counts}", "write one id for each context, in the same order", _IDS)
    for number, (context, document) in enumerate(zip(contexts, ids, strict=True)):
        if context.id not in {None, document}:
            problem = f"is {document!r}, but that context has the id {context.id!r}"
            raise Wrong(problem, "keep one", _IDS, number)
    return tuple(replace(context, id=document) for context, document in zip(contexts, ids, strict=True))


def _misgraded(values: dict[str, Any], row: dict[str, Json]) -> Wrong | None:
    """The first context whose grade is outside the sample's scale."""
    low, high = scale = values["grade_scale"] or (0, 3)
    for path, contexts in _lists(values):
        for place, context in enumerate(contexts):
            if (grade := context.grade) is not None and not low <= grade <= high:
                fix = _GRADES if scale == (0, 3) else f"write a grade from {low} to {high}"
                own = [key for key in row if SPELLINGS.get(key) == path[0] and row[key] is not None]
                return Wrong(f"is {say(grade)}", fix, *own[:1], *path[1:], place, "grade")
    return None


def _lists(values: dict[str, Any]) -> Iterator[tuple[tuple[Step, ...], tuple[Context, ...]]]:
    """The ranked lists of a sample, each with its path."""
    yield ("contexts",), values["contexts"] or ()
    for number, call in enumerate(values["calls"] or ()):
        yield ("calls", number, "contexts"), call.contexts


_SETTERS = [(field.name, getattr(Sample, field.name).__set__) for field in fields(Sample)]


def _made(values: dict[str, Any]) -> Sample:
    """A sample of checked and frozen values, at a third of the constructor's price."""
    made = object.__new__(Sample)
    for name, put in _SETTERS:
        put(made, values[name])
    return made


_AS_IT_IS = frozenset({str, int, float, bool, type(None)})


def sample_to_json(sample: Sample) -> dict[str, Json]:
    """The sample as a JSON object that reads back equal, without what is at its default.

    `contexts: []` says that nothing came back.
    """
    shown: dict[str, Json] = _json(sample)
    return shown


def _json(value: Any) -> Json:
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is Context:
        return _context_json(value)
    if isinstance(value, FrozenDict):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if not hasattr(kind, "__dataclass_fields__"):
        return value
    names, defaults, read = _fields(kind)  # type: ignore[arg-type]  # a class is hashable
    return {
        name: item if type(item) in _AS_IT_IS else _json(item)
        for name, default, item in zip(names, defaults, read(value), strict=True)
        if item != default or (name == "contexts" and item == ())
    }


def _context_json(context: Context) -> dict[str, Json]:
    """As the general way has it, at a quarter of its price: there are many contexts."""
    shown: dict[str, Json] = {"text": context.text} if context.text else {}
    if context.id is not None:
        shown["id"] = context.id
    if context.score is not None:
        shown["score"] = context.score
    if context.grade is not None:
        shown["grade"] = context.grade
    if context.relevant is not None:
        shown["relevant"] = context.relevant
    if context.metadata:
        shown["metadata"] = _json(context.metadata)
    return shown


@functools.lru_cache(maxsize=32)
def _fields(kind: Any) -> tuple[list[str], list[object], Callable[[Any], tuple[Any, ...]]]:
    """A record's field names, their defaults, and how to read them all."""
    names = [f.name for f in fields(kind)]
    defaults = [f.default if f.default_factory is MISSING else f.default_factory() for f in fields(kind)]
    return names, defaults, attrgetter(*names)
