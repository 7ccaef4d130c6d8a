"""Reads LongMemEval and LoCoMo, questions about long conversations, from their own JSON documents.

- LongMemEval: a list of questions with `haystack_sessions`. Gold are the sessions in `answer_session_ids`; the turns with
  `has_answer` are evidence. A question whose id ends with `_abs` cannot be answered.
- LoCoMo: a list of conversations with `qa`. Gold are the turns (`D1:3`) that `evidence` names, whose texts are quoted; a question
  of category 5 (adversarial) cannot be answered.

The conversations are the corpus that is searched, and no part of a sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from germane.types import Json

_TURN = re.compile(r"D\d+:\d+")
_ADVERSARIAL = 5


def rows_of_collection(document: Json) -> Iterator[tuple[int, dict[str, Json]]] | None:
    """Iterate over the rows of a LongMemEval or LoCoMo document with the index of each entry; None for another document."""
    first = document[0] if isinstance(document, list) and document else None
    if not isinstance(first, dict):
        return None
    if {"question_id", "haystack_sessions"} <= first.keys():
        return _long_mem_eval(document)
    return _locomo(document) if {"conversation", "qa"} <= first.keys() else None


def _long_mem_eval(document: list[Json]) -> Iterator[tuple[int, dict[str, Json]]]:
    for index, entry in enumerate(document):
        record: dict[str, Any] = entry if isinstance(entry, dict) else {}
        name = record.get("question_id")
        turns = [turn for session in _listed(record.get("haystack_sessions")) for turn in _listed(session)]
        quotes = [
            turn.get("content") for turn in turns if isinstance(turn, dict) and turn.get("has_answer") is True
        ]
        row = {
            "id": name,
            "query": record.get("question"),
            "reference": _text(record.get("answer")),
            "qrels": _ids(record.get("answer_session_ids")),
            "evidence": [{"quote": quote} for quote in quotes if isinstance(quote, str) and quote.strip()],
            "tags": _tags(type=record.get("question_type")),
            "metadata": {"question_date": record.get("question_date")},
        }
        yield index, _sample(row, answerable=not (isinstance(name, str) and name.endswith("_abs")))


def _locomo(document: list[Json]) -> Iterator[tuple[int, dict[str, Json]]]:
    for index, entry in enumerate(document):
        record: dict[str, Any] = entry if isinstance(entry, dict) else {}
        name = record.get("sample_id", index + 1)
        texts = _turns(record.get("conversation"))
        for number, asked in enumerate(_listed(record.get("qa")), 1):
            question: dict[str, Any] = asked if isinstance(asked, dict) else {}
            listed = " ".join(value for value in _listed(question.get("evidence")) if isinstance(value, str))
            turns = list(dict.fromkeys(_TURN.findall(listed)))  # some entries name several in one text
            category = question.get("category")
            row = {
                "id": f"{name}-{number}",
                "query": question.get("question"),
                "reference": _text(question.get("answer")),
                "qrels": dict.fromkeys(turns, 1),
                "evidence": [{"quote": texts[turn]} for turn in turns if turn in texts],
                "tags": _tags(category=category),
                "cluster": _text(name),
            }
            yield index, _sample(row, answerable=category != _ADVERSARIAL)


def _turns(conversation: Json) -> dict[str, str]:
    """Return the text of each turn of a conversation, by its id."""
    sessions = conversation.values() if isinstance(conversation, dict) else ()
    turns = [turn for session in sessions for turn in _listed(session) if isinstance(turn, dict)]
    results = ((turn.get("dia_id"), turn.get("text")) for turn in turns)
    return {
        turn: text
        for turn, text in results
        if isinstance(turn, str) and isinstance(text, str) and text.strip()
    }


def _sample(row: dict[str, Json], *, answerable: bool) -> dict[str, Json]:
    """Return the row without empty fields; a question that cannot be answered has `answerable: false`."""
    kept = {name: value for name, value in row.items() if value not in (None, [], {})}
    return kept if answerable else {**kept, "answerable": False}


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _text(value: Json) -> Json:
    """Return a number as text; some answers are numbers."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _ids(value: Json) -> Json:
    return (
        dict.fromkeys(value, 1)
        if isinstance(value, list) and all(isinstance(value, str) for value in value)
        else value
    )


def _tags(**of: Json) -> list[str]:
    return [f"{name}:{value}" for name, value in of.items() if isinstance(value, str | int) and value != ""]
