"""What every system under test is to the rest of the program: a name, and a way to answer one query."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from germane.samples.cases import Case
from germane.types import Sample

__all__ = ["Asked", "Target", "sample_of"]

Asked: TypeAlias = Case | Sample
"""What a target is asked: a case of an eval file, or a sample that has no answer yet."""


class Target(Protocol):
    """A system that answers queries."""

    @property
    def name(self) -> str:
        """The name it has in the targets file."""
        ...

    @property
    def workers(self) -> int:
        """How many queries it takes at once."""
        ...

    @property
    def live(self) -> bool:
        """Whether asking it asks a system, which may cost something: not where its answers are on record."""
        ...

    async def answer(self, asked: Asked) -> Sample:
        """The sample, completed with what the system said and handed over; TargetError where it failed.

        Contexts that are only in the text or in tool calls are found afterwards, by `find_contexts`.
        """
        ...

    async def close(self) -> None:
        """Let go of whatever it holds."""
        ...


def sample_of(asked: Asked) -> Sample:
    """The sample in what is asked."""
    return asked.sample if isinstance(asked, Case) else asked
