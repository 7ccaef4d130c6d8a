"""Exceptions that germane raises.

::

    GermaneError
    ├── InputError            something the user gave can be mended: file, flag, value (exit code 2)
    │   ├── MeasureError      a measure's name, parameter or cut-off
    │   └── MissingPart       an optional extra is not installed; names the extra
    ├── JudgeError            a judge cannot be used at all: no key, no such model, endpoint dead
    │   └── MissingKey        it needs an API key and has none: nothing was asked
    ├── AnswerError           one answer of a judge is unusable: not JSON, out of range, wrong count
    │   ├── Miscounted        verdicts of a list are missing, or cannot be told apart
    │   └── Unended           it ends where its limit of length is, not where it should
    ├── TargetError           the system under test failed on one query
    ├── LedgerError           the store of judgements cannot be read or written
    └── Interrupted           the user stopped the run; what was done is kept (exit code 130)
        └── LimitReached      a limit of calls or cost, or of the endpoint, stopped it instead (exit code 3)
            ├── AskedLater    the questions are in batches, whose answers are to be fetched (exit code 3)
            └── NoneAnswered  a round of batches brought failures alone (exit code 3)

An error of one sample never ends an evaluation: it becomes the `why` of that sample's score. What is
raised to the caller is what makes the whole call meaningless, and its text can be shown as it stands.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

__all__ = [
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
]

EXIT_SIGPIPE = 141
"""128 + SIGPIPE: what a shell says of a program whose reader did not want all of it (`| head`)."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A position in a file. Line and column count from 1; 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return `file:line:column`, leaving out what is not known."""
        parts = [self.file, *(str(n) for n in (self.line, self.column) if n)]
        return ":".join(parts)


class GermaneError(Exception):
    """Base class of all germane exceptions. The message states the cause, so no chained traceback is shown."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.__suppress_context__ = True


class InputError(GermaneError):
    """Input that the user can correct: a file, a flag or an argument.

    `place` says where it stands (None = on the command line or in a call), `problem` what is wrong and
    `fix` what to write instead; `str()` is the whole message.
    """

    def __init__(self, problem: str, *, fix: str = "", place: SourceLocation | None = None) -> None:
        self.problem, self.fix, self.place = problem, fix, place
        super().__init__(problem, fix, place)

    def __str__(self) -> str:
        """Return `place: problem; fix` on one line."""
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.problem}{'; ' + self.fix if self.fix else ''}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with its parts, so that a worker process can raise it here."""
        return partial(type(self), self.problem, fix=self.fix, place=self.place), ()

    def at(self, place: SourceLocation | None) -> InputError:
        """Return the same error with its place filled in, unless it has one already."""
        if self.place is None:
            self.place = place
        return self


class Invalid(ValueError):
    """An invalid value: what is wrong, what to write instead, and its path (keys and indices) in the document."""

    def __init__(self, problem: str, fix: str = "", *path: str | int) -> None:
        super().__init__(problem, fix, *path)
        self.problem, self.fix, self.path = problem, fix, path

    def __str__(self) -> str:
        """Return `path problem; fix` on one line."""
        return str(self.error(None))

    def under(self, *steps: str | int) -> Invalid:
        """Return the fault with the container's key in front of its path."""
        self.path = (*steps, *self.path)
        return self

    def error(self, place: SourceLocation | None) -> InputError:
        """Return the InputError with the path in its message, and `place` as its location."""
        where = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in self.path).lstrip(".")
        return InputError(f"{where} {self.problem}".strip(), fix=self.fix, place=place)


class MeasureError(InputError):
    """Unknown or invalid name, parameter or cut-off of a measure."""


def install_extra(name: str) -> str:
    """Return the command that installs an extra; until germane is released it installs from a clone."""
    return f"install the extra {name!r}: pip install '.[{name}]' in the clone of germane"


class MissingPart(InputError):
    """An optional part is not installed; the message names the extra that brings it."""


class JudgeError(GermaneError):
    """The judge cannot be used: no API key, unknown model, or unreachable endpoint."""


class MissingKey(JudgeError):
    """The judge's API key is missing; no request was sent."""


class AnswerError(GermaneError):
    """A judge's answer is unusable: not JSON, out of range, or with wrong counts or ids."""


class Miscounted(AnswerError):
    """An answer about several passages lacks verdicts or confuses them; the passages can be asked about one at a time."""


class Unended(AnswerError):
    """An answer, or a list or text in it, was cut off at its length limit, or repeats itself."""


class TargetError(GermaneError):
    """The system under test failed on one query."""


class LedgerError(GermaneError):
    """The store of judgements cannot be read or written."""


class Interrupted(GermaneError):
    """The user interrupted the run; finished work is kept."""


class LimitReached(Interrupted):
    """The run stopped at a limit of calls or cost, or because the endpoint demands a long wait; finished work is kept."""


def collect_or_raise(fault: InputError, faults: list[InputError] | None) -> None:
    """Append a fault to the list if there is one, else raise it."""
    if faults is None:
        raise fault
    faults.append(fault)


def describe(value: Any) -> str:
    """Return a value as messages show it: its type, and the value itself where that is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    if isinstance(value, int | float):
        return f"the number {value}" if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return f"the text {str(value)!r}" if len(value) <= 40 else f"the text {value[:37]!r}..."
    kind = "an object" if isinstance(value, dict) else ""
    if isinstance(value, list | tuple):
        kind = "a list" if value else "an empty list"
    node = getattr(value, "kind", None)  # of a YAML file
    return kind or (node if isinstance(node, str) else type(value).__name__)


def excerpt(value: Any, most: int = 200) -> str:
    """Return the beginning of a value as messages show it, with the keys of an object before it."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return describe(value)
    start = f"{text[:most]!r}" if isinstance(value, str) else text[:most]
    keys = (
        f"the keys {', '.join(map(repr, list(value)[:20]))} in " if isinstance(value, dict) and value else ""
    )
    return f"{keys}{start}{'...' * (len(text) > most)}"


class NoneAnswered(LimitReached):
    """All requests in a provider's batches failed; finished work is kept, and the rest must be asked live."""


class AskedLater(LimitReached):
    """The questions were sent in a provider's batches; finished work is kept, and --resume fetches the answers."""
