"""A grader that compares the fields of a structured answer with those of the expected answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from math import fsum, isfinite
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from germane.addons.agentv.graders.llm_grader import capped
from germane.addons.agentv.graders.transcript import (
    ABSENT,
    answer_of,
    json_in,
    plain_number,
    reference_of,
    same,
    value_at,
)
from germane.evalfiles import Case, content_text
from germane.evalfiles.model import Flag, Texts, YamlModel
from germane.graders import DirectGrader, GraderResult, Number
from germane.types import Json


class FieldRule(YamlModel):
    """The rule by which one field is compared.

    Attributes:
        path: The path of the field in the answer, such as `invoice.lines[0].amount`.
        match: `exact` (types are compared too: 1 does not equal "1"), `numeric_tolerance` or `date` (year,
            month and day).
        required: If false, a field that is missing in the answer is left out; otherwise it scores 0.
        weight: The weight of the field in the mean.
        tolerance: The largest allowed difference of a number from the expected one.
        relative: If true, `tolerance` is a proportion of the expected number (unless that is 0).
        formats: Date formats to try first, such as `DD/MM/YYYY`, `YYYY-MM-DD` or `DD-MMM-YYYY`.
    """

    what = "a field"

    path: Annotated[str, Field(min_length=1)]
    match: Literal["exact", "numeric_tolerance", "date"] = "exact"
    required: Flag = True
    weight: Number = 1.0
    tolerance: Number = 0.0
    relative: Flag = False
    formats: Texts = ()


_Comparison: TypeAlias = tuple[bool | None, str]
"""A boolean that says whether a field matches (None = it does not count), and the result in words."""


class FieldAccuracy(DirectGrader):
    """Scores a structured answer: the weight of the matching fields divided by the weight of all fields.

    With `aggregation="all_or_nothing"`, the score is 1 if all fields match, else 0. The expected data are
    read from the last expected message of the assistant that contains data or, without one, from the
    reference answer.
    """

    type: ClassVar[str] = "field_accuracy"

    fields: Annotated[tuple[FieldRule, ...], Field(min_length=1)]
    aggregation: Literal["weighted_average", "all_or_nothing"] = "weighted_average"

    def check(self, case: Case) -> GraderResult:
        """Compare every field with the expected data.

        The result is skipped if the case has no answer. The score is 0 if the answer is not JSON.
        """
        if unknown := self.unanswered(case):
            return unknown
        try:
            answer = json_in(answer_of(case))
        except ValueError:
            why, miss = "Candidate answer is not valid JSON", "Failed to parse candidate answer as JSON"
            return GraderResult(score=0.0, misses=(miss,), reasoning=why)
        expected = _expected(case)
        if expected is None:
            why = "Could not extract expected data from expected_messages"
            return self.absent("No expected data found in expected_messages", why)
        rows = [
            self._compared(rule, value_at(answer, rule.path), value_at(expected, rule.path))
            for rule in self.fields
        ]
        hits = tuple(text for met, text in rows if met is not False)
        misses = tuple(text for met, text in rows if met is False)
        pairs = zip(self.fields, rows, strict=True)
        counted = [(rule.weight, met) for rule, (met, _) in pairs if met is not None]
        total = fsum(weight for weight, _ in counted)
        score = fsum(weight for weight, met in counted if met) / (total or 1.0)
        if self.aggregation == "all_or_nothing":
            score = float(not misses)
        elif not total and not self.agentv:
            return GraderResult.skipped("no field that counts is in the answer")
        message = f"{len(hits)}/{len(rows)} fields matched"
        result = GraderResult(score=min(1.0, score), hits=hits, misses=misses, reasoning=message)
        return capped(result, agentv=self.agentv)

    def _compared(self, rule: FieldRule, actual: Json, right: Json) -> _Comparison:
        """Compare one field's value in the answer, `mine`, with the expected value, `right`.

        Return (whether the field matches, the result in words). The first is None if the field is optional
        and missing in the answer.
        """
        path, text = rule.path, ""
        if right is ABSENT:
            return True, f"{path}: no expected value"
        if actual is ABSENT:
            optional = None, f"{path}: optional field missing"
            return (False, f"{path} (required, missing)") if rule.required else optional
        kinds = _kind(actual), _kind(right)
        if rule.match == "exact":
            differs = "value mismatch"
            if kinds[0] != kinds[1]:
                differs = f"type mismatch: got {kinds[0]}, expected {kinds[1]}"
            met = same(actual, right)
            text = "" if met else differs
        elif rule.match == "numeric_tolerance":
            value, target = (_number(data, prefix=self.agentv) for data in (actual, right))
            if value is None or target is None:
                return False, f"{path} (non-numeric value)"
            if not (isfinite(value) and isfinite(target)):
                return False, f"{path} (invalid numeric value)"
            off = abs(value - target)
            met = (off / abs(target) if rule.relative and target else off) <= rule.tolerance
            rounded = Decimal(off).quantize(Decimal("0.01"), ROUND_HALF_UP) if off < 1e15 else f"{off:.2f}"
            text = f"within tolerance: diff={rounded}"
            if not met:
                text = f"outside tolerance: diff={rounded}, tolerance={plain_number(rule.tolerance)}"
        else:
            pairs = zip((actual, right), kinds, strict=True)
            texts = [plain_number(x) if kind == "number" else str(x).strip() for x, kind in pairs]
            formats = () if self.agentv else rule.formats  # AgentV parses as JavaScript does, then by formats
            day, target_day = (date_in(written, formats) for written in texts)
            if day is None or target_day is None:
                return False, f"{path} (unparseable {'expected' if day else 'candidate'} date)"
            met = day == target_day
            text = "" if met else f"date mismatch: got {day}, expected {target_day}"
        return met, f"{path} ({text})" if text else path


def _expected(case: Case) -> Json:
    """Return the data in the last expected assistant message that contains data."""
    messages = reversed(case.expected_messages)
    contents = [message.content for message in messages if message.role == "assistant"]
    for content in [*contents, reference_of(case)]:
        listed = isinstance(content, list | tuple)
        parts = listed and any(isinstance(element, Mapping) and "type" in element for element in content)
        if isinstance(content, Mapping) or (listed and not parts):
            return content
        try:
            if (data := json_in(content_text(content))) is not None:
                return data
        except ValueError:
            continue
    return None


def _kind(value: Json) -> str:
    """Return the name of a value's type in JavaScript, such as "number"."""
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string" if isinstance(value, str) else "object"


_PREFIX = re.compile(r"\s*([+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))")


def _number(value: Json, *, prefix: bool) -> float | None:
    """Return a number, or the number in a string, as a float; else None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _PREFIX.match(value) if isinstance(value, str) else None
    if match is None or not isinstance(value, str):
        return None
    return float(match[1]) if prefix or match.end() == len(value.rstrip()) else None


_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_NAMES = {name: n for n, month in enumerate(_MONTHS, 1) for name in (month, month[:3])} | {"sept": 9}
_USUAL = tuple(map(re.compile, (
    r"(?P<y>\d{4})(?:[-/](?P<m>\d{1,2})(?:[-/](?P<d>\d{1,2}))?)?(?:[T ].*)?",
    r"(?P<d>\d{1,2})[-\s]+(?P<n>[A-Za-z]{3,9})\.?,?[-\s]+(?P<y>\d{4})",
    r"(?P<n>[A-Za-z]{3,9})\.?[-\s]+(?P<d>\d{1,2}),?[-\s]+(?P<y>\d{4})",
    r"(?P<m>\d{1,2})[/-](?P<d>\d{1,2})[/-](?P<y>\d{4})",
    r"(?P<d>\d{1,2})[/-](?P<m>\d{1,2})[/-](?P<y>\d{4})",
)))  # fmt: skip
"""The forms of dates: ISO 8601, with the name of a month, or numbers with the month or the day first."""
_UNITS = {"%": "%%", "YYYY": "%Y", "MMM": "%b", "MM": "%m", "DD": "%d"}
_UNIT = re.compile("|".join(_UNITS))


def date_in(text: str, formats: Sequence[str] = ()) -> date | None:
    """Return the date written in a text, or None if it is not a date.

    `formats`, such as `DD/MM/YYYY`, are tried first. Then the date may be in ISO 8601, with the name of a
    month, or in numbers. In numbers, the month is first; if that is not a date, the day is first.
    """
    for form in formats:
        with suppress(ValueError, re.error):  # re.error: a unit occurs twice in the format
            return datetime.strptime(text, _UNIT.sub(lambda unit: _UNITS[unit[0]], form)).date()  # noqa: DTZ007
    for pattern in _USUAL:
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            month = _NAMES.get(str(parts["n"]).casefold(), 0) if "n" in parts else int(parts.get("m") or 1)
            with suppress(ValueError):
                return date(int(parts.get("y") or 0), month, int(parts.get("d") or 1))
    return None
