"""Text assertions: what an answer contains, equals, begins or ends with, or matches."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, Self, TypeAlias

import regex
from pydantic import model_validator

from germane.addons.agentv.graders.transcript import answer_of
from germane.errors import InputError
from germane.evalfiles import Case
from germane.graders import DirectGrader, GraderResult
from germane.samples import PATTERN_SECONDS

_TESTS: Mapping[str, tuple[Callable[[str, str], bool], str, str]] = {
    "contains": (lambda text, value: value in text, "contains", "does not contain"),
    "icontains": (lambda text, value: value.lower() in text.lower(), "contains", "does not contain"),
    "starts_with": (
        lambda text, value: text.strip().startswith(value.strip()), "starts with", "does not start with"
    ),
    "ends_with": (lambda text, value: text.strip().endswith(value.strip()), "ends with", "does not end with"),
    "equals": (lambda text, value: text.strip() == value.strip(), "equals", "does not equal"),
    "regex": (
        lambda text, value: regex.search(value, text, timeout=PATTERN_SECONDS) is not None,
        "matches",
        "does not match",
    ),
}  # fmt: skip
"""Each test of a text and a value, and the verb for either result."""

Test: TypeAlias = Literal["contains", "icontains", "starts_with", "ends_with", "equals", "regex", "is_json"]
"""The tests of an answer's text."""


class TextAssertion(DirectGrader):
    """1 where the answer passes the test, else 0.

    Attributes:
        test: `contains` (`icontains` ignores case), `starts_with`, `ends_with`, `equals` (white space around both does not
            count), `regex` or `is_json`.
        value: The text to look for (none for `is_json`). A regular expression is Python's; a search of more than 2 s is an error.
    """

    type: ClassVar[str] = "text"
    named_by_value: ClassVar[bool] = True
    computed: ClassVar = ("compatibility", "test")
    refused: ClassVar = DirectGrader.refused | {"flags", "values"}

    test: Test
    value: str = ""

    @property
    def label(self) -> str:
        """The test and its value."""
        return self.name or "-".join(filter(None, [self.test.replace("_", "-"), self.value]))

    @property
    def stored_type(self) -> str:
        """The name of the test, under which its scores are stored."""
        return self.test

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.test == "is_json") == bool(self.value):
            fix = "remove its value" if self.value else 'write value: "the text"'
            raise InputError(f"{self.test} takes {'no' if self.value else 'a'} value", fix=fix)
        if self.test == "regex":
            try:
                regex.compile(self.value)
            except (regex.error, RecursionError) as wrong:
                problem = f"the regular expression cannot be read: {wrong}"
                raise InputError(problem, fix="check its brackets") from None
        return self

    def check(self, case: Case) -> GraderResult:
        """Test the answer; skipped if no answer is known, an error if a regular expression takes too long."""
        if unknown := self.unanswered(case):
            return unknown
        text = answer_of(case)
        if self.test == "is_json":
            passed = _is_json(text)
            return GraderResult.of_checks([(passed, f"Output is {'' if passed else 'not '}valid JSON")])
        compare, does, does_not = _TESTS[self.test]
        try:
            passed = compare(text, self.value)
        except TimeoutError:
            why = f"the regular expression {self.value!r} was stopped after {PATTERN_SECONDS:g} s on this answer"
            return GraderResult.failed(why)
        return GraderResult.of_checks([(passed, f'Output {does if passed else does_not} "{self.value}"')])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
