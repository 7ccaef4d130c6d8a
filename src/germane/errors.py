"""Exceptions that germane raises.

::

    GermaneError
    ├── InputError            a file, flag or value is invalid and the user can correct it (exit code 2)
    │   ├── MeasureError      a measure's name, parameter or cut-off is unknown or invalid
    │   └── MissingPart       an optional extra is not installed; the message names the extra
    ├── JudgeError            a judge cannot be used at all: no key, no such model, endpoint dead
    │   └── MissingKey        the judge's API key is missing, and no request was sent
    ├── AnswerError           one answer of a judge is unusable: not JSON, out of range, wrong count
    │   ├── Miscounted        an answer lacks verdicts, or two verdicts name the same passage
    │   └── Unended           an answer was cut off at its length limit
    ├── TargetError           the system under test failed on one query
    ├── LedgerError           the store of judgements cannot be read or written
    └── Interrupted           the user stopped the run; finished work is kept (exit code 130)
        └── LimitReached      a limit of calls or cost, or of the endpoint, stopped the run (exit code 3)
            ├── AskedLater    the questions were sent as batches, and --resume fetches the answers (exit code 3)
            └── NoneAnswered  all requests in a provider's batches failed (exit code 3)

An error in one sample never ends an evaluation: it becomes the `why` of that sample's score. An exception is
raised only if the whole call failed, and its message can be shown to the user unchanged.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Any

__all__ = [
    "COMMANDS",
    "EXIT_SIGPIPE",
    "AnswerError",
    "AskedLater",
    "GermaneError",
    "InputError",
    "Interrupted",
    "Invalid",
    "JudgeError",
    "LedgerError",
    "LimitReached",
    "MeasureError",
    "Miscounted",
    "MissingKey",
    "MissingPart",
    "NoneAnswered",
    "SourceLocation",
    "TargetError",
    "describe",
    "install_extra",
    "option",
]

EXIT_SIGPIPE = 141
"""128 + SIGPIPE: the exit code of a program whose stdout was closed by its reader (`| head`)."""
COMMANDS = list[str]()
"""The running command line, whose flags `option` names; empty in Python."""


def option(flag: str, argument: str = "") -> str:
    """Return an option as the user writes it: the flag in a command, else the argument of the function.

    Without `argument`, that of `--across-judges` is `across_judges`.
    """
    return flag if COMMANDS else argument or flag.removeprefix("--").replace("-", "_")


@dataclass(frozen=True, slots=True, order=True)
class SourceLocation:
    """A position in a file. Line and column count from 1; 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return `file:line:column`, without a line or column that is unknown (0)."""
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])


class GermaneError(Exception):
    """Base class of all exceptions; the message states the cause, so no chained traceback is shown."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.__suppress_context__ = True


class InputError(GermaneError):
    """The error for invalid input that the user can correct: a file, a flag or an argument.

    `problem` says what is wrong, and `fix` says what to write instead. `place` is the position of the invalid
    input in a file; it is None for a flag or an argument. `str()` returns the whole message.
    """

    def __init__(self, problem: str, *, fix: str = "", place: SourceLocation | None = None) -> None:
        self.problem, self.fix, self.place = problem, fix, place
        super().__init__(problem, fix, place)

    def __str__(self) -> str:
        """Return `place: problem; fix` on one line."""
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.problem}{'; ' + self.fix if self.fix else ''}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with all its parts, so that a worker process can send it to its parent."""
        return partial(type(self), self.problem, fix=self.fix, place=self.place), ()

    def at(self, place: SourceLocation | None) -> InputError:
        """Set the error's place (file, line, column), unless it already has a place, and return the error."""
        if self.place is None:
            self.place = place
        return self


class Invalid(ValueError):
    """The error for an invalid value in a document.

    `problem` says what is wrong, `fix` says what to write instead, and `path` leads to the value by keys and
    indices.
    """

    def __init__(self, problem: str, fix: str = "", *path: str | int) -> None:
        super().__init__(problem, fix, *path)
        self.problem, self.fix, self.path = problem, fix, path

    def __str__(self) -> str:
        """Return `path problem; fix` on one line."""
        return str(self.error(None))

    def under(self, *steps: str | int) -> Invalid:
        """Prepend the keys or indices `steps` to the path of the invalid value, and return this error."""
        self.path = (*steps, *self.path)
        return self

    def error(self, place: SourceLocation | None) -> InputError:
        """Return an InputError located at `place`; its message begins with the path of the invalid value."""
        where = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in self.path).lstrip(".")
        return InputError(f"{where} {self.problem}".strip(), fix=self.fix, place=place)


class MeasureError(InputError):
    """The error for an unknown measure, or an invalid parameter or cut-off of a measure."""


def install_extra(name: str) -> str:
    """Return advice on how to install an optional extra of germane, for use as the fix in an error.

    The command works in a clone of germane, because germane is not released yet.
    """
    return f"install the extra {name!r}: pip install '.[{name}]' in the clone of germane"


class MissingPart(InputError):
    """The error for an optional dependency that is not installed; the message names the extra to install."""


class JudgeError(GermaneError):
    """The error for a judge that cannot be used: no API key, unknown model, or unreachable endpoint."""


class MissingKey(JudgeError):
    """The error for a judge whose API key is missing; no request was sent."""


class AnswerError(GermaneError):
    """The error for an unusable answer of a judge: not JSON, out of range, or with wrong counts or ids."""


class Miscounted(AnswerError):
    """An answer lacks verdicts on passages or mixes them up, so that each passage must be judged alone."""


class Unended(AnswerError):
    """The error for an answer that was cut off at its length limit or that repeats itself without end."""


class TargetError(GermaneError):
    """The error for a query on which the system under test failed."""


class LedgerError(GermaneError):
    """The error for a ledger (the store of judgements) that cannot be read or written."""


class Interrupted(GermaneError):
    """Raised when the user interrupts a run; finished work is kept."""


class LimitReached(Interrupted):
    """Raised when a run reaches its limit of calls or cost, or the endpoint asks for a long wait."""


def collect_or_raise(fault: InputError, faults: list[InputError] | None) -> None:
    """Append the error `fault` to the list `faults`, or raise it if `faults` is None."""
    if faults is None:
        raise fault
    faults.append(fault)


def describe(value: Any) -> str:
    """Return a description of a value for error messages, such as "the string 'abc'" or "an empty list"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    if isinstance(value, int | float):
        return f"the number {value}" if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return f"the string {str(value)!r}" if len(value) <= 40 else f"the string {value[:37]!r}..."
    kind = "an object" if isinstance(value, dict) else ""
    if isinstance(value, list | tuple):
        kind = "a list" if value else "an empty list"
    node = getattr(value, "kind", None)  # a Node of a YAML file
    return kind or (node if isinstance(node, str) else f"a value of type {type(value).__name__}")


def excerpt(value: Any, most: int = 200) -> str:
    """Return the start of a value's JSON, up to `most` characters; for an object, its keys come first."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return describe(value)
    start = f"{text[:most]!r}" if isinstance(value, str) else text[:most]
    if isinstance(value, dict) and value:
        start = f"the keys {', '.join(map(repr, list(value)[:20]))} in {start}"
    return f"{start}{'...' * (len(text) > most)}"


# compiled at first use: every command imports this module
_PATH = r" - at (?:`key` in )?`\$([^`]*)`$"
_STEP = r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])"
_WORDS = {
    "str": "a string",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "array": "a list",
}


def explained(error: Exception, value: Any) -> Invalid:
    """Convert a ValidationError of msgspec to an Invalid with the path of the wrong value within `value`."""
    at = re.search(_PATH, str(error))
    path: list[str | int] = []
    for name, number, _ in re.findall(_STEP, at[1] if at else ""):
        if isinstance(value, set | frozenset):  # nothing in it has a place
            break
        step: str | int = name or int(number or 0)
        if not (name or number):  # [...] is a key of qrels or unsure, the only mappings with typed values
            step = next(key for key, n in value.items() if type(n) is not int or n.bit_length() >= 64)
        path.append(step)
        value = getattr(value, name) if hasattr(value, "__struct_fields__") else value[step]
    if isinstance(error.__cause__, Invalid):
        return error.__cause__.under(*path)
    message = str(error)[: at.start()] if at else str(error)
    if at and "`key`" in at[0]:
        fix = 'write document ids as keys: {"d7": 2}'
        return Invalid("has a key that is not a non-empty string", fix, *path)
    if match := re.fullmatch(r"Object missing required field `(\w+)`", message):
        return Invalid(f"has no {match[1]}", f'write "{match[1]}"', *path)
    if match := re.fullmatch(r"Object contains unknown field `(.+)`", message):
        return Invalid("is not a known field", "remove the field or correct its name", *path, match[1])
    expected = message.partition(", got")[0].replace(" | null", "").replace("`", "")
    expected = re.sub(r"^Expected (\w+)", lambda found: _WORDS.get(found[1], found[1]), expected)
    return Invalid(f"is {describe(value)}", f"write {expected}", *path)


class NoneAnswered(LimitReached):
    """Raised when all requests in a provider's batches failed; the rest must be sent without batches."""


class AskedLater(LimitReached):
    """Raised after the questions were sent to a provider's batch API; --resume fetches the answers later."""
