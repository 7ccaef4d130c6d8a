"""Dicts to samples and back: one row in, one Sample out, whatever file or table it came from; plain rows as columns."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import orjson
from pydantic import ValidationError

from germane.encoding import encode
from germane.errors import InputError, Place
from germane.samples.files import JsonFault, Notice, Warn, decode, nearest
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
        if columns:
            check_columns(columns)
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

    def faults_of(self, row: Json, number: int, where: Where) -> list[InputError]:
        """Every fault of a row: each is looked for in what the others leave."""
        found: list[InputError] = []
        left = dict(row) if isinstance(row, dict) else row
        while True:
            try:
                self._sample(left, number, where)
            except Wrong as wrong:
                found.append(wrong.error(where(wrong.path)))
                key = wrong.path[0] if wrong.path else None
                missing = key not in left if isinstance(left, dict) else True
                if missing and (not isinstance(left, dict) or "query" in left):
                    return found
                left.pop(str(key), None)
                if missing or SPELLINGS.get(str(key)) == "query":
                    left["query"] = "-"  # to see what else is wrong
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
            wrong.problem = f"{'this sample ' * wrong.problem.startswith('has no')}{wrong.problem}"
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
    called = enumerate(values["calls"] or ())
    lists = [(("calls", number, "contexts"), call.contexts) for number, call in called]
    for path, contexts in [(("contexts",), values["contexts"] or ()), *lists]:
        for place, context in enumerate(contexts):
            if (grade := context.grade) is not None and not low <= grade <= high:
                fix = _GRADES if scale == (0, 3) else f"write a grade from {low} to {high}"
                own = [key for key in row if SPELLINGS.get(key) == path[0] and row[key] is not None]
                return Wrong(f"is {say(grade)}", fix, *own[:1], *path[1:], place, "grade")
    return None


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


class PlainContexts(NamedTuple):
    """The contexts of a plain row: as they are written, and as columns, of which None = they have none.

    `grades` are people's: whole numbers from 0 to 3, or True and False. `keys` counts the keys of all of them in the file.
    """

    shown: list[dict[str, Json]]
    texts: list[str] | None = None
    ids: list[str] | None = None
    grades: list[int] | None = None
    keys: int = 0


class PlainRow(NamedTuple):
    """A sample of one ranking, checked as `RowReader` checks it, without an object for each passage.

    `shown` is its line as `sample_to_json` writes it, `line` the bytes of that.
    """

    id: str
    system: str
    trial: int
    query: str
    shown: dict[str, Json]
    line: bytes
    contexts: PlainContexts
    qrels: dict[str, int] | None
    tags: Sequence[str]

    @property
    def reference(self) -> str | None:
        """The answer that is known to be right."""
        return self.shown.get("reference")

    @property
    def criterion(self) -> str | None:
        """What a good answer does."""
        return self.shown.get("criterion")

    @property
    def sample(self) -> Sample:
        """The sample, made when somebody looks at it."""
        return RowReader().read(self.shown, 0, lambda _: Place("samples"))


_TEXT_FIELDS = ("query", "system", "reference", "criterion", "response", "cluster")
_ORDER = ("id", "query", "system", "trial", "contexts", "reference", "criterion", "response", "qrels", "tags",
          "cluster")  # fmt: skip
"""The fields of a plain row, as a line of samples.jsonl has them."""
_PLAIN_FIELDS = {*_ORDER, _IDS}
_OF_CONTEXT = ("text", "id", "score", "grade", "relevant")
_HIGHEST = 3
_STR = {str}


class _Odd(Exception):
    """A row is not plain."""


def plain_row(line: bytes, number: int, *, own: bool = False) -> PlainRow | None:
    """The row in a line of JSONL; None where it is anything but plain: the careful reader then says what it is.

    `number` is its id where it has none. A line of our `own` has no key twice.
    """
    try:
        row = orjson.loads(line)
        return _plain(row, line, number, own=own) if type(row) is dict else None
    except (ValueError, _Odd):
        return None


def _plain(row: dict[str, Json], line: bytes, number: int, *, own: bool) -> PlainRow:
    names = _named(tuple(row))
    if names is None:
        raise _Odd
    known = dict(zip(names, row.values(), strict=True))
    get = known.get
    for field in _TEXT_FIELDS:
        if field in known and type(known[field]) is not str:
            raise _Odd
    name, trial, tags = _name(get("id", str(number))), get("trial", 0), get("tags", ())
    if type(trial) is not int or trial < 0 or not _shows(known["query"]):
        raise _Odd
    if tags != () and not (type(tags) is list and {*map(type, tags)} <= _STR):
        raise _Odd
    qrels = _gold(known["qrels"]) if "qrels" in known else None
    columns = _of_ids(known[_IDS]) if _IDS in known else _contexts(known["contexts"])
    graded = len(known["qrels"]) if type(get("qrels")) is dict else 0
    if not (own or _each_key_once(line, len(row) + columns.keys + graded)):
        raise _Odd
    known["id"], known["contexts"], known["qrels"] = name, columns.shown, qrels
    shown = {key: known[key] for key in _ORDER if key in known and known[key] is not None}
    for field, default in (("system", ""), ("trial", 0), ("tags", [])):
        if field in shown and shown[field] == default:
            del shown[field]
    line = line if own else encode(shown) + b"\n"
    return PlainRow(name, get("system", ""), trial, known["query"], shown, line, columns, qrels, tags)


@functools.lru_cache(maxsize=1000)
def _named(keys: tuple[str, ...]) -> tuple[str, ...] | None:
    """The fields that these keys mean; None where one is no field of a plain row, or two mean the same."""
    names = tuple(SPELLINGS.get(key, "") for key in keys)
    ranked = ("contexts" in names) + (_IDS in names)
    plain = set(names) <= _PLAIN_FIELDS and len(set(names)) == len(names) and "query" in names
    return names if plain and ranked == 1 else None


def _name(value: Json) -> str:
    if type(value) is str and value:
        return value
    if type(value) is int:
        return str(value)
    raise _Odd


def _gold(value: Json) -> dict[str, int]:
    if type(value) is dict and "" not in value and {*map(type, value.values())} <= {int}:
        return value
    if type(value) is list and _are_ids(value):
        return dict.fromkeys(value, 1)
    raise _Odd


def _are_ids(values: list[Json]) -> bool:
    return {*map(type, values)} <= _STR and "" not in values


def _shows(text: str) -> bool:
    """Whether a text surely shows something: its first character that is no white space can be printed."""
    return text[:1].isalnum() or ((start := text.strip()[:1]) != "" and start.isprintable())


def _of_ids(ids: Json) -> PlainContexts:
    if type(ids) is not list or not _are_ids(ids):
        raise _Odd
    return PlainContexts([{"id": one} for one in ids], None, ids)


def _contexts(values: Json) -> PlainContexts:
    if type(values) is not list:
        raise _Odd
    kinds = {*map(type, values)}
    if kinds <= _STR:
        _check_passages(values)
        return PlainContexts([{"text": text} for text in values], values)
    if kinds != {dict}:
        raise _Odd
    keys = tuple(values[0])
    try:
        columns = {key: [value[key] for value in values] for key in keys}
    except KeyError:
        raise _Odd from None
    if {*map(len, values)} != {len(keys)}:
        raise _Odd
    order = _ordered(keys)
    texts, ids = columns.get("text"), columns.get("id")
    if texts is not None:
        _check_passages(texts)
    if ids is not None and not _are_ids(ids):
        raise _Odd
    grades = _checked_numbers(columns)
    shown = values if order == keys else [{key: value[key] for key in order} for value in values]
    return PlainContexts(shown, texts, ids, grades, len(keys) * len(values))


@functools.lru_cache(maxsize=1000)
def _ordered(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of a plain context in the order in which they are written."""
    order = tuple(key for key in _OF_CONTEXT if key in keys)
    if len(order) != len(keys) or not {"text", "id"} & set(keys) or {"grade", "relevant"} <= set(keys):
        raise _Odd
    return order


def _check_passages(texts: list[Json]) -> None:
    if not ({*map(type, texts)} <= _STR and all(map(_shows, texts))):
        raise _Odd


def _checked_numbers(columns: Mapping[str, list[Json]]) -> list[int] | None:
    """The grades, where there are any: whole numbers from 0 to 3, or True and False."""
    scores, grades, relevant = columns.get("score"), columns.get("grade"), columns.get("relevant")
    if scores is not None and not ({*map(type, scores)} == {float} and all(map(math.isfinite, scores))):
        raise _Odd
    if grades is not None and ({*map(type, grades)} != {int} or min(grades) < 0 or max(grades) > _HIGHEST):
        raise _Odd
    if relevant is not None and {*map(type, relevant)} != {bool}:
        raise _Odd
    return relevant if grades is None else grades


def _each_key_once(line: bytes, keys: int) -> bool:
    """Whether no key comes twice in an object, which orjson passes over; `keys` are left of all in the line."""
    if line.count(b'":') == keys and b" :" not in line and b"\t:" not in line and b"\r:" not in line:
        return True
    try:
        decode(line.decode())
    except (JsonFault, UnicodeDecodeError):
        return False
    return True
