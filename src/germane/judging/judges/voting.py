"""How several answers to one question become one.

The question's schema says what can be voted on, and nothing else is: a grade, a yes or no, one word of several
(listed best first), which contexts something rests on, and lists whose items name by a number what they are about.
Free text cannot: it is taken from a vote that agrees with the verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from germane.errors import AnswerError, InputError
from germane.judging.judge import AnyQuestion
from germane.types import Json

__all__ = ["Vote", "can_vote", "check_vote", "combined", "in_short"]

HELPS = 2
"""The grade from which a passage counts as relevant where another vote only says yes or no."""

Answer: TypeAlias = Mapping[str, Json]
Schemas: TypeAlias = Mapping[str, Mapping[str, Json]]
"""What an object may hold, by name."""


@dataclass(frozen=True, slots=True)
class Vote:
    """Who said what."""

    judge: str
    answer: Answer


def check_vote(how: str) -> None:
    """InputError where there is no such way of voting."""
    if how not in {"majority", "mean"}:
        raise InputError(f"there is no vote {how!r}", fix="write majority or mean")


def can_vote(question: AnyQuestion) -> bool:
    """Whether answers can be voted on: not where members draw up lists of their own."""
    listed = _list_of(question)
    return listed is None or _number_of(listed[1]) is not None


def combined(question: AnyQuestion, votes: Sequence[Vote], how: str) -> tuple[Json, dict[str, Json]]:
    """One payload that the question can read, and its provenance: votes, the way of voting, agreement.

    There is no agreement where one alone voted, and none where the votes are not about the same things: the first
    stands then.
    """
    shown = {"votes": [{"judge": vote.judge, "answer": vote.answer} for vote in votes], "vote": how}
    answers = [vote.answer for vote in votes]
    payload, more = _decided(question, answers, how) if can_vote(question) else (None, {})
    try:
        question.read(payload)
    except AnswerError:  # not about the same things, or a verdict that lost its grounds
        return answers[0], {**shown, "vote": "first"}
    if len(votes) == 1:
        more.pop("agreement", None)
    return payload, {**shown, **more}


def in_short(question: AnyQuestion, answer: Answer) -> str:
    """A vote without its reasons: `3`, `yes`, `1: yes, 2: no`; of a list of its own how long that is."""
    listed = _list_of(question)
    if listed is None:
        (one,), parts = _on_one_scale([answer], question.schema()["properties"])
        return _value(one, parts)
    name, items = listed
    number = _number_of(items)
    if number is None:
        return f"{len(answer[name])} {name}"
    parts = {key: part for key, part in items.items() if key != number}
    rows = sorted(question.placed(answer)[name], key=lambda item: item[number])
    return ", ".join(f"{item[number]}: {_value(item, parts)}" for item in rows)


def _value(answer: Answer, parts: Schemas) -> str:
    """The verdict: the number or word, else the contexts that are named."""
    voted = [name for name, part in parts.items() if part["type"] != "string" or "enum" in part]
    value = next((answer[name] for name in voted if parts[name]["type"] != "array"), None)
    if value is None:
        numbers = [str(number) for name in voted for number in answer[name]]
        return f"by {' and '.join(numbers)}" if numbers else "no"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _list_of(question: AnyQuestion) -> tuple[str, Schemas] | None:
    """The list that the answer is, by its name, and what its items hold; None where it is one verdict."""
    parts: Schemas = question.schema()["properties"]
    lists = (
        (name, part["items"].get("properties", {})) for name, part in parts.items() if part["type"] == "array"
    )
    return next(lists, None)


def _number_of(items: Schemas) -> str | None:
    """The name under which an item says what it is about."""
    return next((name for name, part in items.items() if part["type"] == "integer"), None)


def _decided(
    question: AnyQuestion, answers: Sequence[Answer], how: str
) -> tuple[dict[str, Json], dict[str, Json]]:
    listed = _list_of(question)
    if listed is None:
        return _verdict(*_on_one_scale(answers, question.schema()["properties"]), how)
    name, items = listed
    number = _number_of(items)
    rows = [{item[number]: item for item in answer[name]} for answer in answers]
    parts = {key: part for key, part in items.items() if key != number}
    voted = {n: _verdict([row[n] for row in rows], parts, how) for n in sorted(rows[0])}
    agreements = [more["agreement"] for _, more in voted.values()]
    agreement = math.fsum(agreements) / len(agreements) if agreements else 1.0
    return {name: [{number: n, **item} for n, (item, _) in voted.items()]}, {"agreement": agreement}


def _on_one_scale(answers: Sequence[Answer], parts: Schemas) -> tuple[Sequence[Answer], Schemas]:
    """Grades become a yes or no where another vote says no more than that."""
    if "grade" not in parts or all("grade" in answer for answer in answers):
        return answers, parts
    scale = {
        **{name: part for name, part in parts.items() if name != "grade"},
        "relevant": {"type": "boolean"},
    }
    return [
        {**answer, "relevant": answer["grade"] >= HELPS} if "grade" in answer else answer
        for answer in answers
    ], scale


def _verdict(answers: Sequence[Answer], parts: Schemas, how: str) -> tuple[dict[str, Json], dict[str, Json]]:
    """One object out of several: what can be voted on by vote, the rest from the first vote that agrees most."""
    decided: dict[str, Json] = {}
    means: dict[str, Json] = {}
    for name, part in parts.items():
        said: list[Any] = [answer.get(name) for answer in answers]
        if part["type"] == "array":
            decided[name] = _named(said, how)
        elif part["type"] in {"integer", "boolean"}:
            decided[name], exact = _number(said, how)
            means |= {"mean": exact} if how == "mean" else {}
        elif "enum" in part:
            worst_first = list(part["enum"])[::-1]
            decided[name] = worst_first[_number([worst_first.index(one) for one in said], how)[0]]
    agree = [all(_agrees(answer[name], verdict) for name, verdict in decided.items()) for answer in answers]
    closest = min(answers, key=lambda answer: (_far(answer, decided), not _reasons(answer, parts, decided)))
    verdict = {**_reasons(closest, parts, decided), **decided}
    return {name: verdict[name] for name in parts if name in verdict}, {
        **means,
        "agreement": sum(agree) / len(agree),
    }


def _reasons(answer: Answer, parts: Schemas, decided: Answer) -> dict[str, Json]:
    """The texts of a vote that say something."""
    return {name: answer[name] for name in parts if name not in decided and answer.get(name)}


def _number(said: Sequence[int], how: str) -> tuple[int, float]:
    """A grade or a yes or no, and the exact mean.

    By majority: the highest that more than half of the votes reach. That is their lower median, and of yes and no
    what most say. Grades have an order, so the most frequent of 0, 0, 2, 2 and 3 would call irrelevant what three of
    five call relevant; the median says at every threshold what most votes say there.
    """
    mean = Fraction(sum(map(int, said)), len(said))
    chosen = math.floor(mean + Fraction(1, 2)) if how == "mean" else sorted(said)[(len(said) - 1) // 2]
    return type(said[0])(chosen), float(mean)


def _named(said: Sequence[Sequence[int]], how: str) -> list[int]:
    """What something rests on: nothing unless enough votes name anything; then what enough name, else what is named most.

    As of a yes or no: by majority more than half are enough, by the mean half, which is rounded up.
    """
    enough = len(said) / 2 if how == "mean" else (len(said) + 1) / 2
    counts = Counter(number for numbers in said for number in set(numbers))
    if sum(map(bool, said)) < enough or not counts:
        return []
    most = min(enough, max(counts.values()))
    return sorted(number for number, count in counts.items() if count >= most)


def _agrees(one: Json, verdict: Json) -> bool:
    return bool(one) is bool(verdict) if isinstance(verdict, list) else bool(one == verdict)


def _far(answer: Answer, verdict: Answer) -> float:
    """How far a vote is from the verdict."""
    return sum(_distance(answer[name], one) for name, one in verdict.items())


def _distance(one: Json, verdict: Json) -> float:
    if isinstance(verdict, int):
        return abs(int(one) - verdict)
    return float(set(one) != set(verdict)) if isinstance(verdict, list) else float(one != verdict)
