"""Majority votes: combine several answers to one question, field by field, according to the JSON Schema.

The majority decides on grades, yes or no, enums (whose best value is first) and context numbers. Free text is
taken from a vote that agrees with the majority.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from germane.encoding import Json

__all__ = ["Vote", "of_lists"]

Answer: TypeAlias = Mapping[str, Json]
Schemas: TypeAlias = Mapping[str, Mapping[str, Json]]  # the properties of an object, by name


class Vote(NamedTuple):
    """The result of a vote: the verdict as a payload, and the proportion of votes that agree with it."""

    payload: dict[str, Json]  # the verdict, as the question can parse it
    agreement: (
        float  # the proportion of votes that agree with the verdict; for a list, the mean over its items
    )


def verdict_parts(schema: Mapping[str, Json], verdicts: tuple[str, str]) -> Schemas:
    """Return the JSON Schema of each field of a verdict in a list, except the subject's number.

    `schema` is the schema of the whole answer. `verdicts` names the list and the field with the number.
    """
    name, number = verdicts
    fields: Schemas = schema["properties"][name]["items"]["properties"]
    return {key: field for key, field in fields.items() if key != number}


def of_lists(answers: Sequence[Answer], schema: Mapping[str, Json], verdicts: tuple[str, str]) -> Vote:
    """Return the vote on several lists of verdicts about the same subjects, separately for each subject."""
    name, number = verdicts
    fields = verdict_parts(schema, verdicts)
    rows = [{item[number]: item for item in answer[name]} for answer in answers]
    voted = {n: of_verdicts([row[n] for row in rows], fields) for n in sorted(rows[0])}
    agreement = math.fsum(vote.agreement for vote in voted.values()) / len(voted) if voted else 1.0
    return Vote({name: [{number: n, **vote.payload} for n, vote in voted.items()]}, agreement)


def of_verdicts(answers: Sequence[Answer], fields: Schemas) -> Vote:
    """Return the vote on several verdicts: the majority of each field. `fields` are the fields' JSON Schemas.

    Free text is taken from the vote that agrees with the majority in the most fields.
    """
    decided: dict[str, Json] = {}
    for name, field in fields.items():
        values: list[Any] = [answer.get(name) for answer in answers]
        if field["type"] == "array":
            decided[name] = _named(values)
        elif field["type"] in {"integer", "boolean"}:
            decided[name] = _number(values)
        elif "enum" in field:
            worst_first = list(field["enum"])[::-1]
            decided[name] = worst_first[_number([worst_first.index(value) for value in values])]
    agree = [
        all(
            bool(answer[name]) is bool(verdict) if isinstance(verdict, list) else answer[name] == verdict
            for name, verdict in decided.items()
        )
        for answer in answers
    ]
    # the reason is that of the vote that agrees most; among equals, of the first that gives a reason
    same = [sum(_equal(answer[name], value) for name, value in decided.items()) for answer in answers]
    free = [name for name in fields if name not in decided]
    texts = [{name: answer[name] for name in free if answer.get(name)} for answer in answers]
    closest = max(range(len(answers)), key=lambda n: (same[n], bool(texts[n])))
    verdict = {**texts[closest], **decided}
    return Vote({name: verdict[name] for name in fields if name in verdict}, sum(agree) / len(agree))


def in_short(answer: Answer, fields: Schemas) -> str:
    """Return a verdict as a short string without its reason.

    The string is the grade, yes or no, the numbers of the contexts (`by 1 and 3`), or the length of the list.
    """
    for name, field in fields.items():
        if field["type"] == "array" and field["items"]["type"] != "integer":
            return f"{len(answer[name])} {name}"
    voted = [name for name, field in fields.items() if field["type"] != "string" or "enum" in field]
    value = next((answer[name] for name in voted if fields[name]["type"] != "array"), None)
    if value is None:
        numbers = [str(number) for name in voted for number in answer[name]]
        return f"by {' and '.join(numbers)}" if numbers else "no"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _number(values: Sequence[int]) -> int:
    """Return the lower median, where yes is above no.

    At every threshold, it agrees with the majority of the votes. The most frequent value would not always: of
    the votes 0, 0, 2, 2 and 3, the majority is at least 2, but 0 is as frequent as 2.
    """
    return sorted(values)[(len(values) - 1) // 2]


def _named(values: Sequence[Sequence[int]]) -> list[int]:
    """Return the context numbers that are in more than half of the votes.

    If there is none, but more than half of the votes contain a number, return the most frequent numbers.
    """
    enough = (len(values) + 1) / 2
    counts = Counter(number for numbers in values for number in set(numbers))
    if sum(map(bool, values)) < enough or not counts:
        return []
    most = min(enough, max(counts.values()))
    return sorted(number for number, count in counts.items() if count >= most)


def _equal(vote: Json, verdict: Json) -> bool:
    return set(vote) == set(verdict) if isinstance(verdict, list) else vote == verdict
