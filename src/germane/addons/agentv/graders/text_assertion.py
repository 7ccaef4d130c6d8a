"""Text assertions: what an answer contains, equals, begins or ends with, or matches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import regex
from pydantic import BeforeValidator, Field, model_validator

from germane.addons.agentv.graders.transcript import answer_of
from germane.errors import InputError
from germane.evalfiles import Case
from germane.graders import DirectGrader, GraderResult
from germane.samples import PATTERN_SECONDS
from germane.yamltext import as_list

_TESTS: Mapping[str, tuple[Callable[[str, str], bool], str, str]] = {
    "contains": (lambda text, value: value in text, "contains", "does not contain"),
    "icontains": (lambda text, value: value.lower() in text.lower(), "contains", "does not contain"),
    "starts_with": (
        lambda text, value: text.strip().startswith(value.strip()), "starts with", "does not start with"
    ),
    "ends_with": (lambda text, value: text.strip().endswith(value.strip()), "ends with", "does not end with"),
    "equals": (lambda text, value: text.strip() == value.strip(), "equals", "does not equal"),
}  # fmt: skip
_FLAGS = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL, "g": 0, "u": 0}
_END = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<end>\$)", re.DOTALL)
_ENDS = {False: r"\Z", True: r"(?=[\n\r\u2028\u2029]|\Z)"}
"""The meaning of `$` in JavaScript: the end of the text, in multi-line mode that of a line; Python's stands before a last line
break too."""


Test: TypeAlias = Literal[
    "contains", "contains_any", "contains_all", "icontains", "icontains_any", "icontains_all",
    "starts_with", "ends_with", "equals", "regex", "is_json",
]  # fmt: skip
"""The tests of an answer's text."""


class TextAssertion(DirectGrader):
    """1 where the answer passes the test, else 0.

    Attributes:
        test: `contains`, `starts_with`, `ends_with`, `equals` (white space around both does not count), `regex` or
            `is_json`; `contains_any` and `contains_all` take several values; an `i` in front ignores case.
        value: The text to look for (none for `is_json`).
        flags: Of a regular expression: i, m, s. `$` means the end, as in JavaScript. A search that takes longer than 2 s is
            an error of that score.
    """

    type: ClassVar[str] = "text"
    named_by_value: ClassVar[bool] = True
    aliases: ClassVar = {"value": ("values",)}
    computed: ClassVar = ("compatibility", "test")

    test: Test
    value: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(as_list)] = ()
    flags: str = ""

    @property
    def label(self) -> str:
        """The test, and what is looked for where that is one thing."""
        value = self.value if len(self.value) == 1 else ()
        return self.name or "-".join([self.test.replace("_", "-"), *value])

    @property
    def stored_type(self) -> str:
        """The name of the test, under which its scores are stored."""
        return self.test

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.test == "is_json") == bool(self.value):
            fix = "remove its value" if self.value else 'write value: "the text"'
            raise InputError(f"{self.test} takes {'no' if self.value else 'a'} value", fix=fix)
        if len(self.value) > 1 and not self.test.endswith(("_any", "_all")):
            fix = "for several write contains_any or contains_all"
            raise InputError(f"{self.test} takes one value", fix=fix)
        if self.test == "regex":
            try:
                self._pattern()
            except (regex.error, KeyError, RecursionError) as wrong:
                fix = "check its brackets, and that its flags are i, m or s"
                raise InputError(f"the regular expression cannot be read: {wrong}", fix=fix) from None
        return self

    def _pattern(self) -> regex.Pattern[str]:
        end = _ENDS["m" in self.flags or re.match(r"\(\?[a-z]*m", self.value[0]) is not None]
        pattern = _END.sub(lambda match: end if match["end"] else match[0], self.value[0])
        return regex.compile(pattern, sum(_FLAGS[flag] for flag in set(self.flags)))

    def check(self, case: Case) -> GraderResult:
        """Test the answer; skipped if no answer is known, an error if a regular expression takes too long."""
        try:
            return self.unanswered(case) or GraderResult.of_checks([self._tested(answer_of(case))])
        except TimeoutError:
            pattern = f"the regular expression /{self.value[0]}/{self.flags}"
            return GraderResult.failed(f"{pattern} was stopped after {PATTERN_SECONDS:g} s on this answer")

    def _tested(self, text: str) -> tuple[bool, str]:
        """Return whether a text passes the test, and a sentence about it."""
        if self.test == "is_json":
            try:
                json.loads(text)
            except (ValueError, RecursionError):
                return False, "Output is not valid JSON"
            return True, "Output is valid JSON"
        if self.test == "regex":
            passed = self._pattern().search(text, timeout=PATTERN_SECONDS) is not None
            words = f"/{self.value[0]}/{self.flags}"
            return passed, f"Output {'matches' if passed else 'does not match'} pattern {words}"
        test = self.test.removesuffix("_any").removesuffix("_all")
        compare, does, does_not = _TESTS[test]
        results = [value for value in self.value if compare(text, value)]
        note = " (case-insensitive)" if test == "icontains" else ""
        quoted = ", ".join(f'"{value}"' for value in self.value)
        if self.test.endswith("_all"):
            lacking = ", ".join(f'"{value}"' for value in self.value if value not in results)
            all_there = f"Output contains all {len(self.value)} expected strings{note}"
            return not lacking, f"Output missing{note}: {lacking}" if lacking else all_there
        message = f"{does} {quoted}" if results else f"{does_not} {quoted}"
        if self.test.endswith("_any"):
            message = f'contains "{results[0]}"' if results else f"does not contain any of: {quoted}"
        return bool(results), f"Output {message}{note}"
