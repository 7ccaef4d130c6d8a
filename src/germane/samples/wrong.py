"""A value of the input that cannot be used, on its way up to whoever knows the file and the line."""

from __future__ import annotations

from germane.errors import InputError, Place
from germane.types import Json

__all__ = ["Wrong", "say"]

Step = str | int


class Wrong(Exception):
    """What is wrong with a value and what to write instead; `path` grows while it climbs to the sample."""

    def __init__(self, problem: str, fix: str = "", *path: Step) -> None:
        super().__init__(problem, fix)
        self.problem, self.fix, self.path = problem, fix, path

    def under(self, *steps: Step) -> Wrong:
        """The same fault, seen from the container of the value."""
        self.path = (*steps, *self.path)
        return self

    def error(self, place: Place | None) -> InputError:
        """The error that the user reads."""
        where = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in self.path).lstrip(".")
        return InputError(f"{where} {self.problem}".strip(), fix=self.fix, place=place)


def say(value: Json) -> str:
    """A value in a message: its kind, and what it is where that is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"[:40]
    if isinstance(value, str):
        return f"the text {value!r}" if len(value) <= 40 else f"the text {value[:37]!r}..."
    return (
        "a list"
        if isinstance(value, list | tuple)
        else "an object"
        if isinstance(value, dict)
        else type(value).__name__
    )
