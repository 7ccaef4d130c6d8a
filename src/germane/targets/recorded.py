"""A system that answered before: its answers stand in a file of samples, and are joined by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from germane.errors import InputError, TargetError
from germane.samples.reading import read_samples
from germane.samples.section import Section
from germane.targets.answers import merged
from germane.targets.entry import Entry
from germane.targets.target import Asked, sample_of
from germane.types import Sample

__all__ = ["RecordedTarget", "open_recorded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTarget:
    """Gives the recorded answer of the same id and trial; a single recorded trial serves all."""

    name: str
    answers: Mapping[tuple[str, int], Sample]
    file: str
    workers: int = 100
    live: ClassVar[bool] = False

    async def answer(self, asked: Asked) -> Sample:
        """The answer on record; TargetError where there is none for this id."""
        sample = sample_of(asked)
        found = self.answers.get((sample.id, sample.trial)) or self.answers.get((sample.id, 0))
        if found is None:
            raise TargetError(f"{self.file} has no answer for the id {sample.id!r}")
        return merged(asked, found)

    async def close(self) -> None:
        """Nothing to let go of."""


def open_recorded(entry: Entry, section: Section) -> RecordedTarget:
    """The recording that an entry of a targets file describes; `system` picks one of several in its file."""
    named = section.text("path", "file", "samples")
    if not named:
        fix = "write path: answers.jsonl"
        raise InputError(f"the target {entry.name} names no file", fix=fix, place=entry.place)
    system = section.text("system")
    found = [s for s in read_samples(entry.path(named)) if system is None or s.system == system]
    systems = sorted({sample.system for sample in found})
    if len(systems) != 1:
        problem = f"{named} holds {', '.join(map(repr, systems)) or 'no'} as systems"
        raise InputError(problem, fix="write system: with the one that is meant", place=entry.place)
    return RecordedTarget(
        name=entry.name,
        answers={(sample.id, sample.trial): sample for sample in found},
        file=named,
        workers=entry.workers or 100,
    )
