"""Finds the columns and keys that hold query, document, score, rank and grade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from germane.clean import fold
from germane.errors import InputError, SourceLocation
from germane.samples.fields import RESULT
from germane.samples.runs.detecting import refuse_shifted
from germane.samples.runs.results import NAME_THEM, RUN, Kind

BETWEEN = {"tsv": "\t", "csv": ","}


def roles_of(names: Sequence[str], kind: Kind, columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the column of each role; `columns` (a role or one of its names -> column) takes precedence."""
    folded = {fold(name): name for name in reversed(names)}
    chosen = {role(key, kind.roles): name for key, name in (columns or {}).items()}
    result = {}
    for ours in kind.roles:
        by_flag = [chosen[ours]] if ours in chosen else []
        candidates = [*by_flag, *(folded[fold(name)] for name in RESULT[ours].names if fold(name) in folded)]
        if hit := next((name for name in candidates if name in names), None):
            result[ours] = hit
    return result


@lru_cache(maxsize=64)
def roles_of_keys(keys: tuple[str, ...], kind: Kind, columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return `roles_of` for the keys of a record, cached."""
    return roles_of(keys, kind, dict(columns))


def role(key: str, allowed: Sequence[str] = ()) -> str:
    """Return the role that a key of `--columns` names. Raises InputError."""
    for ours in (*allowed, *RESULT):
        if fold(key) == fold(ours) or fold(key) in {fold(name) for name in RESULT[ours].names}:
            return ours
    fix = "write query=, doc=, docs=, score=, rank= or grade="
    raise InputError(f"--columns does not know {key!r}", fix=fix)


def chosen_key(columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return the chosen column of the document's id by its role; it may be a key in a list of documents."""
    return {"doc": name for key, name in (columns or {}).items() if role(key) == "doc"}  # noqa: B035


def table_columns(
    head: Sequence[str], location: SourceLocation, kind: Kind, columns: Mapping[str, str] | None
) -> tuple[dict[str, int], bool]:
    """Return the index of each role's column by a table's first row, and True if that row is a header. Raises InputError."""
    header = roles_of(head, kind, columns)
    named = "query" in header and len(header) > 1
    if columns and not named:
        problem = f"the header has no such columns: {', '.join(head)[:200]}"
        raise InputError(problem, fix="--columns query=...,doc=...", place=location)
    if not named and len(head) not in kind.bare:
        few, many = min(kind.bare), max(kind.bare)
        problem = f"a table without a header has {few} to {many} columns, this line {len(head)}"
        raise InputError(problem, fix=NAME_THEM.format("score"), place=location)
    positions = {role: head.index(column) for role, column in header.items()}
    if not named:
        if kind is RUN:
            refuse_shifted(head, location)
        positions = {role: at for at, role in enumerate(kind.bare[len(head)]) if role}
    if "doc" not in positions and kind.list_role not in positions:
        fix = NAME_THEM.format(kind.roles[-1])
        raise InputError("no column holds the document", fix=fix, place=location)
    return positions, named


def frame_roles(
    names: Sequence[str], name: str, columns: Mapping[str, str] | None, kind: Kind = RUN
) -> dict[str, str]:
    """Return the column of each role. Raises InputError where none holds the query or none the documents."""
    result = roles_of(names, kind, columns)
    if "query" not in result or not {"doc", kind.list_role} & set(result):
        fix = "name them query_id and doc_id, or say columns={'query': ..., 'doc': ...}"
        raise InputError(
            f"no columns hold query and document: {', '.join(names)[:200]}",
            fix=fix,
            place=SourceLocation(name),
        )
    return result
