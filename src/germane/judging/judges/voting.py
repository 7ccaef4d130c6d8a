"""How several answers to one question become one.

The question's schema says what can be voted on: a grade, a yes or no, one word of several (listed best first), which
contexts something rests on, and lists whose items name by a number what they are about. Free text cannot: it is taken
from a vote that agrees with the verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from germane.errors import AnswerError
from germane.judging.judge import AnyQuestion
from germane.types import Json

__all__ = ["Vote", "combined"]

HELPS = 2
"""The grade from which a passage counts as relevant where another vote only says yes or no."""

Answer: TypeAlias = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Vote:
    """Who said what."""

    judge: str
    answer: Answer


def combined(question: AnyQuestion, votes: Sequence[Vote], how: str) -> tuple[Json, dict[str, Json]]:
    """One payload that the question can read, and its provenance: votes, the way of voting, agreement."""
    shown = {"votes": [{"judge": vote.judge, "answer": vote.answer} for vote in votes], "vote": how}
    answers = _on_one_scale([vote.answer for vote in votes])
    properties = question.schema()["properties"]
    listed = next((name for name, part in properties.items() if part.get("type") == "array"), None)
    if listed is None:
        verdict, more = _verdict(answers, properties, how)
        return verdict, {**shown, **more}
    payload, agreement = _list(answers, listed, properties[listed]["items"].get("properties", {}), how)
    try:
        question.read(payload)
    except AnswerError:  # not about the same things, or a verdict that lost its grounds
        return answers[0], {**shown, "vote": "first", "agreement": None}
    return payload, {**shown, "agreement": agreement} if agreement is not None else {
        **shown,
        "vote": "first",
        "agreement": None,
    }


def _list(answers: Sequence[Answer], name: str, properties: Answer, how: str) -> tuple[Json, float | None]:
    """The list, voted item by item where a number says which belong together; else the first one, without agreement."""
    number = next((key for key, part in properties.items() if part.get("type") == "integer"), None)
    if number is None:
        return answers[0], None
    rows = [{item[number]: item for item in answer[name]} for answer in answers]
    voted = {n: _verdict([row[n] for row in rows], properties, how, number) for n in sorted(rows[0])}
    agreements = [more["agreement"] for _, more in voted.values()]
    agreement = math.fsum(agreements) / len(agreements) if agreements else 1.0
    return {name: [{**item, number: n} for n, (item, _) in voted.items()]}, agreement


def _on_one_scale(answers: Sequence[Answer]) -> list[Answer]:
    """Grades become a yes or no where another vote says no more than that."""
    if len({"grade" in answer for answer in answers}) == 1:
        return list(answers)
    return [_yes_or_no(answer) if "grade" in answer else answer for answer in answers]


def _yes_or_no(answer: Answer) -> Answer:
    rest = {name: value for name, value in answer.items() if name != "grade"}
    return {**rest, "relevant": answer["grade"] >= HELPS}


def _verdict(
    answers: Sequence[Answer], properties: Answer, how: str, number: str | None = None
) -> tuple[dict[str, Json], dict[str, Json]]:
    """One object out of several: what can be voted on by vote, the rest from the first vote that agrees most."""
    decided: dict[str, Json] = {}
    means: dict[str, Json] = {}
    for name in answers[0].keys() - {number}:
        said = [answer[name] for answer in answers]
        words = properties.get(name, {}).get("enum", ())
        if all(isinstance(one, list | tuple) for one in said):
            decided[name] = _named(said, how)
        elif all(isinstance(one, int) for one in said):
            decided[name], exact = _number(said, how)
            means |= {"mean": exact} if how == "mean" else {}
        elif words:
            worst_first = list(words)[::-1]
            decided[name] = worst_first[_number([worst_first.index(one) for one in said], how)[0]]
    agree = [all(_agrees(answer[name], verdict) for name, verdict in decided.items()) for answer in answers]
    closest = min(
        answers, key=lambda answer: sum(_distance(answer[name], one) for name, one in decided.items())
    )
    return {**closest, **decided}, {**means, "agreement": sum(agree) / len(agree)}


def _number(said: Sequence[int], how: str) -> tuple[int, float]:
    """A grade or a yes or no, and the exact mean."""
    mean = Fraction(sum(map(int, said)), len(said))
    counts = Counter(said)
    tied = sorted(value for value, count in counts.items() if count == max(counts.values()))
    chosen = math.floor(mean + Fraction(1, 2)) if how == "mean" else tied[(len(tied) - 1) // 2]
    return type(said[0])(chosen), float(mean)


def _named(said: Sequence[Sequence[int]], how: str) -> list[int]:
    """What something rests on: nothing unless most votes name anything; then what most name, else what is named most."""
    enough = len(said) / 2 if how == "mean" else (len(said) + 1) / 2
    counts = Counter(number for numbers in said for number in set(numbers))
    if sum(map(bool, said)) < enough or not counts:
        return []
    most = min(enough, max(counts.values()))
    return sorted(number for number, count in counts.items() if count >= most)


def _agrees(one: Json, verdict: Json) -> bool:
    return bool(one) is bool(verdict) if isinstance(verdict, list) else bool(one == verdict)


def _distance(one: Json, verdict: Json) -> float:
    if isinstance(verdict, int):
        return abs(int(one) - verdict)
    return float(set(one) != set(verdict)) if isinstance(verdict, list) else float(one != verdict)
