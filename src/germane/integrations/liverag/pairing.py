"""Which result answers which question: document ids as LiveRAG spells them, one pair of retrieved and gold ids a question."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from germane.errors import InputError, Place
from germane.samples.files import JsonFault, decode
from germane.samples.validation import Wrong, say

Id: TypeAlias = str | int

_URN = re.compile(r"<(urn:uuid:[^>]+)>")
_OPENS_A_LIST = ("[", "(", "{")
_LIST = 'write a JSON list, ["<urn:uuid:...>"]; [] says that there is none'


def document_of(chunk: Id) -> str:
    """The document of a chunk: `<urn:uuid:U>` of `doc-<urn:uuid:U>::chunk-3`; any other id is itself."""
    text = str(chunk)
    match = _URN.search(text)
    return f"<{match[1]}>" if match else text


def ids_in(value: object, *, strict: bool = True) -> tuple[Id, ...]:
    """The ids in a list, or in a text that is a JSON list, a Python list literal, or one id.

    A text that begins like a list and is none, and two documents in what should be one id, raise Wrong; with
    `strict=False` such a text is one id, as the original reads it.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        value = _parsed(value.strip(), strict=strict)
    if isinstance(value, dict) or not isinstance(value, Iterable):
        raise Wrong(f"is {say(value)}", _LIST)
    return tuple(_checked(one, strict=strict) for one in value)


def _parsed(text: str, *, strict: bool) -> object:
    """What a cell says: a list, or a list of the one id that it is."""
    if not text:
        return []
    for read in (decode, ast.literal_eval):
        try:
            found = read(text)
        except (JsonFault, SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        if found is None:
            return []
        if isinstance(found, str):
            return [found]
        return found if isinstance(found, list | tuple | set | dict) else [text]
    if strict and text.startswith(_OPENS_A_LIST):
        raise Wrong(f"is a list that cannot be read: {say(text)}", _LIST)
    return [text]


def _checked(one: object, *, strict: bool) -> Id:
    if isinstance(one, bool) or not isinstance(one, str | int) or one == "":
        raise Wrong(f"holds {say(one)}", "an id is a string that is not empty")
    if strict and isinstance(one, str) and len(_URN.findall(one)) > 1:
        raise Wrong(f"holds several documents in one id: {say(one)}", _LIST)
    return one


_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Listed:
    """One result or one reference: its question and its ids as they were written."""

    qid: Id | None
    ids: tuple[Id, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Pair:
    """One question: the distinct documents that came back, best first, and the gold documents."""

    qid: Id
    retrieved: tuple[str, ...]
    gold: frozenset[Id]


def listed(records: Iterable[Any], name: str, *, strict: bool = True) -> Iterator[Listed]:
    """Each record's qid and the ids in its attribute or key `name`; InputError where they cannot be used."""
    for number, record in enumerate(records, 1):
        known = _get(record, "place", None)
        here = Place("results" if name == "doc_ids" else "references", number)
        place = known if isinstance(known, Place) else here
        qid, value = _get(record, "qid", None), _get(record, name, _ABSENT)
        if not (qid is None or (isinstance(qid, str | int) and not isinstance(qid, bool))):
            raise InputError(f"qid is {say(qid)}", fix="write a string or a whole number", place=place)
        if value is _ABSENT or (value is None and name == "doc_ids"):
            raise InputError(f"there is no {name}", fix=f'write "{name}": [...]', place=place)
        try:
            yield Listed(qid, ids_in(value, strict=strict), place)
        except Wrong as wrong:
            raise wrong.under(name).error(place) from None


def _get(record: Any, name: str, default: Any) -> Any:
    return record.get(name, default) if isinstance(record, Mapping) else getattr(record, name, default)


def paired(results: Iterable[Listed], references: Iterable[Listed]) -> tuple[list[Pair], list[str]]:
    """One pair for every reference, those with a result first, in the results' order; and what is worth saying.

    qids are compared as text; a missing one is the record's number. Gold ids are normalised as retrieved ones are.
    """
    gold, found = _by_qid(references, "reference"), _by_qid(results, "result")
    common = [qid for qid in found if qid in gold]
    if gold and found and not common:
        shown = f"the results have {say(next(iter(found)))}, the references {say(next(iter(gold)))}"
        raise InputError(f"no qid of the results is among the references: {shown}", fix="give the same qids")
    absent = [qid for qid in gold if qid not in found]
    pairs = [
        Pair(
            qid=qid,
            retrieved=tuple(dict.fromkeys(map(document_of, found[qid].ids if qid in found else ()))),
            gold=frozenset(map(document_of, gold[qid].ids)),
        )
        for qid in (*common, *absent)
    ]
    repeated = sum(len(found[pair.qid].ids) - len(pair.retrieved) for pair in pairs if pair.qid in found)
    respelt = sum(document_of(one) != one for entry in gold.values() for one in entry.ids)
    retyped = sum(type(found[qid].qid) is not type(gold[qid].qid) for qid in common)
    return pairs, [
        *_counted("questions with gold and no result, counted 0", len(absent)),
        *_counted("results without a reference, left out", len(found) - len(common)),
        *_counted("empty results, counted 0 in nDCG@10 too", sum(not found[qid].ids for qid in common)),
        *_counted("chunks of a document that stands higher in the same list, dropped", repeated),
        *_counted("gold ids with a document's id inside, read as that document", respelt),
        *_counted("qids that are a number in one file and text in the other, compared as text", retyped),
        *_counted("references that name no document, skipped", sum(not pair.gold for pair in pairs)),
    ]


def _counted(what: str, count: int) -> list[str]:
    return [f"{what}: {count}"] if count else []


def _by_qid(entries: Iterable[Listed], what: str) -> dict[Id, Listed]:
    known: dict[Id, Listed] = {}
    for number, entry in enumerate(entries, 1):
        qid = str(number) if entry.qid in {None, ""} else str(entry.qid)
        if qid in known:
            problem = f"the qid {qid!r} is there already, at {known[qid].place}"
            raise InputError(problem, fix=f"keep one {what} a question", place=entry.place)
        known[qid] = entry
    return known


def matched(results: Iterable[Listed], references: Iterable[Listed]) -> list[tuple[Listed, frozenset[Id]]]:
    """The results that the original looks at, each with its gold: qids match by value and type, 0 and "" never."""
    gold = {entry.qid: frozenset(entry.ids) for entry in references}
    return [(entry, gold[entry.qid]) for entry in results if entry.qid and entry.qid in gold]
