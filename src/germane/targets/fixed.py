"""Systems whose answers are known beforehand: fixed ones for examples, and recorded ones joined by id."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PrivateAttr

from germane.errors import InputError, Place, TargetError
from germane.samples.reading import read_samples
from germane.samples.yamltext import Node, Scalar, WholeNumber, plain_value
from germane.targets.target import Asked, Target, complete, merged, sample_of
from germane.types import Json, Sample


def _response(value: Any) -> Json:
    """A response as it was written: `no` is the text "no"."""
    if isinstance(value, Node) and value.text is not None:
        return value.text
    return str(value) if isinstance(value, Scalar) else plain_value(value)


def _responses(value: Any) -> Any:
    pairs = value.pairs if isinstance(value, Node) else value
    return {key: _response(inner) for key, inner in pairs.items()} if isinstance(pairs, dict) else value


class MockTarget(Target):
    """Gives `responses[id]`, else `response`: a text, or a mapping with response, contexts, messages."""

    live: ClassVar[bool] = False

    workers: WholeNumber = 100
    response: Annotated[Any, BeforeValidator(_response)] = None
    responses: Annotated[dict[str, Any], BeforeValidator(_responses)] = Field(default_factory=dict)

    def open(self, place: Place, folder: Path, evals: Path) -> None:
        """One of the two is needed."""
        del folder, evals
        if self.response is None and not self.responses:
            raise InputError(f"the mock {self.name} has no response", fix="write response: text", place=place)

    async def answer(self, asked: Asked) -> Sample:
        """The fixed answer; TargetError where there is none for this id."""
        identity = sample_of(asked).id
        answer = self.responses.get(identity, self.response)
        if answer is None:
            raise TargetError(f"there is no response for {identity!r}")
        return complete(asked, answer)


class RecordedTarget(Target):
    """Gives the recorded answer of the same id and trial; a single recorded trial serves all.

    `path` is a file of samples; `system` picks one of several in it.
    """

    live: ClassVar[bool] = False
    aliases: ClassVar = {"path": ("file", "samples")}

    workers: WholeNumber = 100
    path: str = ""
    system: str | None = None
    _answers: dict[tuple[str, str, int], Sample] = PrivateAttr(default_factory=dict)

    def open(self, place: Place, folder: Path, evals: Path) -> None:
        """Read the file."""
        del evals
        if not self.path:
            fix = "write path: answers.jsonl"
            raise InputError(f"the target {self.name} names no file", fix=fix, place=place)
        for sample in read_samples((folder / self.path).resolve()):
            if self.system in {None, sample.system}:
                self._answers[sample.system, sample.id, sample.trial] = sample
        systems = sorted({system for system, _, _ in self._answers})
        if len(systems) != 1:
            problem = f"{self.path} holds {', '.join(map(repr, systems)) or 'no'} as systems"
            raise InputError(problem, fix="write system: with the one that is meant", place=place)

    async def answer(self, asked: Asked) -> Sample:
        """The answer on record; TargetError where there is none for this id."""
        sample, (system, *_) = sample_of(asked), next(iter(self._answers))
        trials = (self._answers.get((system, sample.id, trial)) for trial in (sample.trial, 0))
        found = next(filter(None, trials), None)
        if found is None:
            raise TargetError(f"{self.path} has no answer for the id {sample.id!r}")
        return merged(asked, found)
