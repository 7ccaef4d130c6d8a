"""A system with fixed answers: for examples, and for trying out an eval file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from germane.errors import InputError, TargetError
from germane.samples.section import Section
from germane.targets.answers import complete
from germane.targets.entry import Entry
from germane.targets.target import Asked, sample_of
from germane.types import Json, Sample

__all__ = ["MockTarget", "open_mock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MockTarget:
    """Gives `responses[id]`, else `response`: a text, or a mapping with response, contexts, messages."""

    name: str
    response: Json = None
    responses: Mapping[str, Json]
    workers: int = 100
    live: ClassVar[bool] = False

    async def answer(self, asked: Asked) -> Sample:
        """The fixed answer; TargetError where there is none for this id."""
        identity = sample_of(asked).id
        said = self.responses.get(identity, self.response)
        if said is None:
            raise TargetError(f"there is no response for {identity!r}")
        return complete(asked, said)

    async def close(self) -> None:
        """Nothing to let go of."""


def open_mock(entry: Entry, section: Section) -> MockTarget:
    """The mock that an entry of a targets file describes."""
    node = section.take("response")
    responses = section.section("responses")
    if node is None and responses is None:
        raise InputError(
            f"the mock {entry.name} has no response", fix="write response: text", place=entry.place
        )
    return MockTarget(
        name=entry.name,
        workers=entry.workers or 100,
        response=None if node is None else node.text if node.text is not None else node.json(),
        responses={
            key: inner.text if inner.text is not None else inner.json()
            for key, inner in (responses.rest() if responses else ())
        },
    )
