"""Converts the rows of any file or table (mappings) to Samples, and Samples back to JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

from msgspec import structs

from germane.addons import absent
from germane.clean import counted, fold
from germane.encoding import encode, encode_record
from germane.errors import InputError, Invalid, SourceLocation, describe, option
from germane.samples.cells import CellCounts, TableRow, is_joined_ids, read_cell, yes_no
from germane.samples.contexts import without_errors
from germane.samples.fields import FIELDS, IDS, SPELLINGS, KeyPlan, converted
from germane.samples.files import Notice, Notices, Warn, nearest
from germane.types import Context, Json, Sample, Step

Columns: TypeAlias = Mapping[str, str]
Locate: TypeAlias = Callable[[Sequence[Step]], SourceLocation]
Row: TypeAlias = tuple[int, Json, Locate]
"""A row: its number, its value, and a function that returns the SourceLocation of a path within the value.

A sample without an id gets the number as its id.
"""

_OF_GOLDENS = {
    "expected_output",
    "expectedOutput",
    "actual_output",
    "actualOutput",
    "retrieval_context",
    "retrievalContext",
}
"""Keys of DeepEval's goldens.

In a row with one of these keys, `context` holds the ideal passages, not the retrieved ones.
"""
_OF_IDS = {IDS, "qrels", "forbidden"}


def parse_columns(text: str) -> dict[str, str]:
    """Parse a string like `query=Query,contexts=Context` to a mapping from fields to column names."""
    columns: dict[str, str] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        ours, _, named = map(str.strip, pair.partition("="))
        if not named:
            problem = f"{pair!r} in the columns is not FIELD=COLUMN"
            raise InputError(problem, fix="write a field of germane and a column of the file: query=Question")
        columns[ours] = named
    check_columns(columns)
    return columns


def check_columns(columns: Columns) -> None:
    """Raise InputError if a mapping of columns has a key that is not a field of a sample."""
    for ours in columns:
        if ours not in SPELLINGS:
            near = nearest(ours, SPELLINGS)
            fix = f"did you mean {near}?" if near else f"write one of {', '.join(FIELDS)}"
            raise InputError(
                f"{ours!r} is not a field of a sample, so no column can be named for it", fix=fix
            )


class RowReader:
    """Converts rows (mappings) to Samples.

    Args:
        columns: Maps germane's field names to the names in the rows.
        warn: Called with a Notice for each suspicious field.
        prefix: A row without an id gets this prefix and its row number as its id.
    """

    def __init__(self, columns: Columns | None = None, warn: Warn | None = None, prefix: str = "") -> None:
        self.warn, self.columns = Notices(warn), columns
        self._prefix = prefix
        if columns:
            check_columns(columns)
        self._mapped = {key: SPELLINGS[ours] for ours, key in (columns or {}).items()}
        self._taken = set(self._mapped.values())
        self._absent = set(self._mapped)
        self._plans: dict[tuple[Any, ...], tuple[KeyPlan, list[Any]]] = {}
        self._headings = functools.lru_cache(maxsize=1000)(self._headings_of)
        self._cells, self._table_rows = CellCounts(), 0

    def field_of(self, key: str, among: Iterable[str] = ()) -> str | None:
        """Return the sample field that `key` means in a row with the keys `among`; None for metadata."""
        if key in self._mapped:
            return self._mapped[key]
        if key == "context" and not _OF_GOLDENS.isdisjoint(among):
            return None
        return None if (name := SPELLINGS.get(key)) in self._taken else name

    def read(self, row: Json, number: int, where: Locate) -> Sample:
        """Convert a row to a Sample. A row without an id gets the prefix and `number` as its id.

        Raises InputError if the row is invalid; `where` maps a path within the row to its location.
        """
        if isinstance(row, Sample):
            return row
        if not isinstance(row, dict):
            fix = 'write {"id": "q1", "query": "..."}'
            raise InputError(f"this sample is {describe(row)}, not an object", fix=fix, place=where(()))
        plan: KeyPlan | None = None
        try:
            if isinstance(row, TableRow):
                row = self._values(row, where)
            keys = among = tuple(row)
            if type(None) in map(type, row.values()):
                row = {key: value for key, value in row.items() if value is not None}
                keys = tuple(row)
            plan, keys_of_ids = self._plans.get((keys, among)) or self._plan_of(keys, among, where)
            for key in keys_of_ids:
                if isinstance(ids := row[key], list) and len(ids) == 1 and is_joined_ids(ids[0]):
                    self._cells.add("ids", key, where((key,)))  # such as `d1;d2`
            values = plan.read(row)
            if IDS in values:
                values["contexts"] = _with_ids(values.get("contexts"), values.pop(IDS))
            if "calls" in values:
                values["calls"], failed = without_errors(values["calls"])
                values["error"] = values.get("error") or failed
            values.setdefault("id", f"{self._prefix}{number}")
            return converted(values, Sample)
        except Invalid as wrong:
            if plan is not None:
                _explain(wrong, plan, row)
            raise wrong.error(where(wrong.path)) from None

    def _plan_of(
        self, keys: tuple[Any, ...], among: tuple[Any, ...], where: Locate
    ) -> tuple[KeyPlan, list[Any]]:
        """Return the plan for rows with the keys `among`, of which `keys` have values; warn about keys."""
        self._absent.difference_update(keys)
        names = [key for key in (*self._mapped, *SPELLINGS) if key in keys]
        plan = KeyPlan.of(keys, {key: self.field_of(key, among) for key in names}, FIELDS)
        for key in plan.others:
            if meant := self.field_of(key, among):
                problem = f"the field {key!r} is ignored, since another field is also read as {meant}"
                self.warn(Notice(problem, f"keep only one field for {meant}", where((key,))))
            elif near := _nearest_field(key):
                problem = f"the field {key!r} is unknown and kept as metadata"
                self.warn(Notice(problem, f"did you mean {near!r}?", where((key,))))
        if len(self._plans) == 1000:  # a file with other keys in each row needs no more memory
            self._plans.clear()
        self._plans[keys, among] = made = plan, [key for key, name, _ in plan.fields if name in _OF_IDS]
        return made

    def _headings_of(self, names: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a table's headings; one like `Retrieved Contexts` becomes the known name `retrieved_contexts`."""
        known, result = {fold(key): key for key in reversed(SPELLINGS)}, dict[Any, None]()
        for name in names:
            kept = name in SPELLINGS or name in self._mapped or not isinstance(name, str)
            heading = name if kept else known.get(fold(name), name)
            result[name if heading in (*names, *result) else heading] = None
        return tuple(result)

    def _values(self, row: TableRow, where: Locate) -> dict[str, Json]:
        """Parse the cells of a table's row; return their values by column."""
        self._table_rows += 1
        cells = zip(self._headings(tuple(row)), row.values(), strict=True)
        values = {name: cell for name, cell in cells if name != ""}
        for name, cell in values.items():
            field = self.field_of(name, values)
            if isinstance(cell, str):
                try:
                    values[name], doubt = read_cell(cell, field)
                except Invalid as wrong:
                    raise wrong.under(name) from None
                if doubt:
                    self._cells.add(doubt, name, where((name,)))
            elif field == "answerable":
                values[name] = yes_no(cell)
            elif field in _OF_IDS and isinstance(cell, Real):
                values[name] = [cell]  # a single id
        return values

    def warn_at_end(self, file: SourceLocation) -> None:
        """Warn about names in `columns` that occurred in no row of `file`, and about doubtful cells."""
        for notice in self._cells.notices(self._table_rows):
            self.warn(notice)
        for key in sorted(self._absent):
            problem = f"no row has the column {key!r}, which is given for the field {self._mapped[key]}"
            self.warn(Notice(problem, "check the name, also upper and lower case", file))


def _explain(wrong: Invalid, plan: KeyPlan, row: Mapping[str, Json]) -> None:
    """Put the row's own key into the path of an error, and an example value into its fix."""
    if not wrong.path:
        subject = "this sample " * wrong.problem.startswith(("has no", "is nested", "contains"))
        wrong.problem = f"{subject}{wrong.problem}"
        if wrong.problem.endswith("has no query") and row:
            fields = ", ".join(map(repr, list(row)[:10]))
            wrong.problem += f"; its fields are {fields}"
            others = ", ".join(FIELDS["query"].names)
            named = option("--columns query=NAME", 'columns={"query": "NAME"}')
            wrong.fix = f"{wrong.fix}, or one of {others}, or give its name: {named}"
            if owner := absent("readers", *map(fold, row)):
                need = f"exports of traces need the add-on {owner}, which is not installed"
                wrong.fix = f"write samples: {need}"
        return
    field = str(wrong.path[0])
    names = {name: key for key, name, _ in plan.fields}
    wrong.path = (names.get(field, field), *wrong.path[1:])
    example = FIELDS[field].example if field in FIELDS and not (field == IDS and wrong.fix) else None
    if len(wrong.path) == 1 and example is not None:
        wrong.fix = f"write {encode(example).decode()}"


@functools.lru_cache(maxsize=4096)
def _nearest_field(key: str) -> str | None:
    return None if key in {*SPELLINGS, "documents", "reference_contexts"} else nearest(key, SPELLINGS)


def _with_ids(contexts: Json, ids: Json) -> Json:
    """Return the contexts with the document ids in the list `ids`."""
    if not isinstance(ids, list | tuple):
        raise Invalid(f"is {describe(ids)}, not a list of ids", 'write a list: ["d1", "d2"]', IDS)
    if contexts is None:
        return tuple([Context(id=name) for name in ids])
    if not isinstance(contexts, list | tuple):
        return contexts  # creating the record then raises the error
    if len(contexts) != len(ids):
        counts = f"{counted(len(ids), 'id')} for {counted(len(contexts), 'context')}"
        raise Invalid(f"has {counts}", "write one id for each context, in the same order", IDS)
    made = []
    for number, (context, document) in enumerate(zip(contexts, ids, strict=True)):
        own = context.id if isinstance(context, Context) else context.get("id")
        if own not in {None, document}:
            problem = f"is {document!r}, but the context itself has the id {own!r}"
            raise Invalid(problem, "write one of the two ids", IDS, number)
        fields = structs.asdict(context) if own is None and isinstance(context, Context) else context
        made.append(context if own else {**fields, "id": document})
    return made


def sample_to_json(sample: Sample) -> dict[str, Json]:
    """Return a sample as JSON, from which an equal one is read, without fields at their default.

    `contexts: []` means that nothing was retrieved.
    """
    fields: dict[str, Json] = json.loads(encode_record(sample))  # json keeps integers of any size
    return fields
