"""Ranked results and gold from JSON lines (one sample, one result or one grade a line) or one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from germane.errors import InputError, Place
from germane.samples.opening import decoded, numbered_lines
from germane.samples.results import Found, Graded
from germane.samples.results_names import id_list, roles

__all__ = ["found", "graded"]

_RUN_ROLES = ("query", "doc", "docs", "score", "rank")
_GOLD_ROLES = ("query", "doc", "gold", "grade")
_RUN = 'write {"id": "q1", "contexts": [{"id": "d7"}]} or {"query_id": "q1", "doc_id": "d7", "score": 1.5}'
_QRELS = 'write {"id": "q1", "qrels": {"d7": 2}} or {"query_id": "q1", "doc_id": "d7", "relevance": 2}'


def found(stream: BinaryIO, name: str, *, whole: bool) -> Iterator[Found]:
    """The results of a run: samples with contexts, single results, or {query: {document: score}}."""
    for line, record in _records(stream, name, whole=whole):
        place = Place(name, line)
        key = roles(list(record), _RUN_ROLES)
        if "query" not in key or not isinstance(record[key["query"]], str | int):
            yield from _mapped(record, line, place)
        elif "doc" in key:
            score = record[key["score"]] if "score" in key else None
            if score is None and "rank" in key:
                score = -_number(record[key["rank"]], "rank", place)
            yield Found(
                line,
                *_ids(record, key, place, _RUN),
                None if score is None else _number(score, "score", place),
            )
        elif record.get("calls"):
            raise InputError(
                "this sample has several calls", fix="use germane run, which ranks per call", place=place
            )
        elif "docs" in key and record[key["docs"]] is not None:
            _no_bare_texts(key["docs"], record, place)
            yield from _listed(line, str(record[key["query"]]), record[key["docs"]], place)


def graded(stream: BinaryIO, name: str, *, whole: bool) -> Iterator[Graded]:
    """The grades of gold: samples with qrels or a list of relevant ids, single grades, or {query: {document: grade}}."""
    for line, record in _records(stream, name, whole=whole):
        place = Place(name, line)
        key = roles(list(record), _GOLD_ROLES)
        if "query" not in key or not isinstance(record[key["query"]], str | int):
            for query, known in record.items():
                yield from _grades(line, query, known, place)
        elif "doc" in key:
            grade = _grade(record[key["grade"]], place) if "grade" in key else 1
            yield Graded(line, *_ids(record, key, place, _QRELS), grade)
        elif "gold" in key and record[key["gold"]] is not None:
            yield from _grades(line, str(record[key["query"]]), record[key["gold"]], place)


def _no_bare_texts(name: str, record: Mapping[str, Any], place: Place) -> None:
    """A bare string among `doc_ids` is an id; among a sample's `contexts` it is a text."""
    listed = record[name]
    if name == "contexts" and isinstance(listed, list) and any(isinstance(item, str) for item in listed):
        raise InputError("these contexts are texts without ids, and gold is about ids", fix=_RUN, place=place)


def _mapped(record: Mapping[str, Any], line: int, place: Place) -> Iterator[Found]:
    if not all(isinstance(listed, Mapping | list) for listed in record.values()):
        raise InputError("there is no query id here", fix=_RUN, place=place)
    for query, listed in record.items():
        yield from _listed(line, query, listed, place)


def _listed(line: int, query: str, listed: Any, place: Place) -> Iterator[Found]:
    yield Found(line, query, None, None)
    if isinstance(listed, Mapping):
        yield from (Found(line, query, doc, _number(score, "score", place)) for doc, score in listed.items())
        return
    if (ids := id_list(listed)) is None:
        raise InputError(f"query {query} has contexts without an id", fix=_RUN, place=place)
    yield from (Found(line, query, doc, None) for doc in ids)


def _grades(line: int, query: str, known: Any, place: Place) -> Iterator[Graded]:
    yield Graded(line, query, None, 0)
    if isinstance(known, Mapping):
        yield from (Graded(line, query, doc, _grade(grade, place)) for doc, grade in known.items())
        return
    if (ids := id_list(known)) is None:
        raise InputError(
            f"the gold of query {query} is neither a list of ids nor grades", fix=_QRELS, place=place
        )
    yield from (Graded(line, query, doc, 1) for doc in ids)


def _records(stream: BinaryIO, name: str, *, whole: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    if whole:
        parsed = _parse(stream.read(), name, 1)
        for record in parsed if isinstance(parsed, list) else [parsed]:
            yield 0, _object(record, Place(name))
        return
    for number, line in numbered_lines(stream):
        yield number, _object(_parse(line, name, number), Place(name, number))


def _parse(text: bytes, name: str, line: int) -> Any:
    try:
        return json.loads(decoded(text, name, line), object_pairs_hook=_unique)
    except json.JSONDecodeError as fault:
        place = Place(name, line + fault.lineno - 1, fault.colno)
        raise InputError(f"this is not JSON: {fault.msg}", fix=_RUN, place=place) from None
    except _Twice as twice:
        raise InputError(
            f"{twice} stands here twice", fix="keep one of them", place=Place(name, line)
        ) from None
    except RecursionError:
        raise InputError("this is nested too deeply", fix=_RUN, place=Place(name, line)) from None


class _Twice(Exception):
    """A key that an object holds twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        seen: set[str] = set()
        raise _Twice(next(repr(key) for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return record


def _object(record: Any, place: Place) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise InputError(f"{json.dumps(record)[:60]} is no JSON object", fix=_RUN, place=place)
    return record


def _ids(record: Mapping[str, Any], key: Mapping[str, str], place: Place, fix: str) -> tuple[str, str]:
    query, doc = record[key["query"]], record[key["doc"]]
    if isinstance(doc, bool) or not isinstance(doc, str | int):
        raise InputError(f"{json.dumps(doc)[:60]} is no document id", fix=fix, place=place)
    return str(query), str(doc)


def _number(value: Any, what: str, place: Place) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"the {what} {json.dumps(value)[:60]} is not a number"
        raise InputError(problem, fix=f"write {what} as a number", place=place)
    return float(value)


def _grade(value: Any, place: Place) -> int:
    number = float(value) if isinstance(value, bool) else _number(value, "grade", place)
    if not number.is_integer():
        raise InputError(f"the grade {value} is not a whole number", fix="write e.g. 0, 1 or 2", place=place)
    return int(number)
