"""Questions that bring their own wording: a template of the user's, or a text that a script wants answered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Generic, Self, TypeVar

from pydantic import StrictStr

from germane.questions.payload import PayloadModel
from germane.questions.question import Question
from germane.types import FrozenDict, Json

__all__ = ["Completion", "Templated", "Wording", "variables_in"]

A = TypeVar("A")
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
PLAIN = "Do what is asked."


class Wording(str):
    """The name of a prompt that is no file: its text, the variables that are filled in, and the system prompt.

    Attributes:
        text: The template.
        variables: The names that `{{name}}` is replaced for; others stay as they are.
        system: The system prompt; None is the one of every request.
    """

    __slots__ = ("system", "text", "variables")

    text: str
    variables: frozenset[str]
    system: str | None

    def __new__(cls, name: str, text: str, variables: Iterable[str] = (), system: str | None = None) -> Self:
        """A name like any other, that knows these."""
        made = super().__new__(cls, name)
        made.text, made.variables, made.system = text, frozenset(variables), system
        return made

    @property
    def pieces(self) -> tuple[str, ...]:
        """Text and variable names, alternating."""
        pieces, last = [], 0
        for found in _VARIABLE.finditer(self.text):
            if found[1] in self.variables:
                pieces += [self.text[last : found.start()], found[1]]
                last = found.end()
        return (*pieces, self.text[last:])


def variables_in(template: str) -> frozenset[str]:
    """The names of all variables in a template."""
    return frozenset(_VARIABLE.findall(template))


@dataclass(frozen=True, slots=True, kw_only=True)
class Templated(Question[A], Generic[A]):
    """A question worded by a template; `values` are what its variables stand for."""

    template: str
    values: FrozenDict

    @property
    def prompt(self) -> str:
        """The template, under the name of the kind."""
        return Wording(self.kind, self.template, self.values)

    @property
    def about(self) -> str:
        """The values that the template shows."""
        return "\n".join(str(value) for value in self.inputs().values())

    def inputs(self) -> dict[str, Json]:
        """The values that the template shows, by name."""
        shown = variables_in(self.template)
        return {name: value for name, value in self.values.items() if name in shown}


class CompletionPayload(PayloadModel):
    """`{text}`."""

    text: StrictStr


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Question[str]):
    """Answer this text, in whatever form it asks for: what a script puts to the judge that it is lent."""

    kind: ClassVar[str] = "completion"
    Payload: ClassVar[type[PayloadModel]] = CompletionPayload

    text: str
    system: str = ""

    @property
    def prompt(self) -> str:
        """The text itself."""
        return Wording(self.kind, self.text, system=self.system or PLAIN)

    @property
    def about(self) -> str:
        """The text."""
        return self.text

    def inputs(self) -> dict[str, Json]:
        """The text and the system prompt."""
        return {"text": self.text, "system": self.system}

    def judged(self) -> dict[str, Json]:
        """The text."""
        return {"text": self.text}

    def answer(self, payload: CompletionPayload) -> str:
        """The text of the answer."""
        return payload.text

    def typical(self) -> Json:
        """A short answer."""
        return {"text": "The passage answers the question."}
