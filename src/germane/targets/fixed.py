"""Systems with known answers: fixed ones for examples, and recorded ones joined by id or query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from germane.clean import shorten
from germane.errors import InputError, Invalid, SourceLocation, TargetError
from germane.evalfiles.case import Case
from germane.samples.reading import read_samples
from germane.tables.counterparts import are_line_numbers, ids_of, texts_of
from germane.targets.target import Target
from germane.types import Json, Sample
from germane.yamltext import Node, Scalar, WholeNumber, plain_value


def _response(value: Any) -> Json:
    """Return a response as written: `no` is the text "no"."""
    if isinstance(value, Node) and value.text is not None:
        return value.text
    return str(value) if isinstance(value, Scalar) else plain_value(value)


def _responses(value: Any) -> Any:
    pairs = value.pairs if isinstance(value, Node) else value
    return {key: _response(inner) for key, inner in pairs.items()} if isinstance(pairs, dict) else value


class MockTarget(Target):
    """Answers with `responses[id]`, else `response`: a text, or a mapping with response, contexts, messages."""

    live: ClassVar[bool] = False

    workers: WholeNumber = 100
    response: Annotated[Any, BeforeValidator(_response)] = None
    responses: Annotated[dict[str, Any], BeforeValidator(_responses)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _answers(self) -> Self:
        if self.response is None and not self.responses:
            raise Invalid("has no response", "write response: text")
        return self

    async def ask(self, case: Case) -> Any:
        """Return the fixed answer; TargetError if there is none for this id."""
        answer = self.responses.get(case.sample.id, self.response)
        if answer is None:
            raise TargetError(f"no response for {case.sample.id!r}")
        return answer


class RecordedTarget(Target):
    """Answers with the recording of the same id and trial; a recording of trial 0 alone serves all trials.

    Where ids are the numbers of lines, the answer to the same query counts, whatever its line. `path` is a file of samples; `system`
    picks one of several in it.
    """

    live: ClassVar[bool] = False
    aliases: ClassVar = {"path": ("file", "samples")}

    workers: WholeNumber = 100
    path: Annotated[str, Field(examples=["answers.jsonl"])]
    system: str | None = None
    _recorded: dict[tuple[str, int], Sample] = PrivateAttr(default_factory=dict)
    _trials: set[int] = PrivateAttr(default_factory=set)
    _ids: dict[str, list[str]] = PrivateAttr(default_factory=dict)
    _otherwise: dict[str, str] = PrivateAttr(default_factory=dict)

    def open(self, location: SourceLocation, folder: Path, evals: Path) -> None:
        """Read the recorded answers, which must be of one system."""
        del evals
        read = read_samples((folder / self.path).resolve())
        samples = [sample for sample in read if self.system in {None, sample.system}]
        systems = {sample.system for sample in samples}
        if len(systems) != 1:
            problem = f"{self.path} holds {', '.join(map(repr, sorted(systems))) or 'no'} as systems"
            raise InputError(problem, fix="write system: with the one that is meant", place=location)
        self._recorded = {(sample.id, sample.trial): sample for sample in samples}
        self._trials = {sample.trial for sample in samples}
        if are_line_numbers(texts := texts_of(samples)):
            self._ids = ids_of(texts)

    def _id_of(self, sample: Sample) -> str:
        """Return the id of the recorded answer; where ids are line numbers, that of the same query, of which there must be one."""
        same = self._ids.get(" ".join(sample.query.split()), [])
        if sample.id in same or not (self._ids and are_line_numbers([sample.id])):
            return sample.id
        if len(same) != 1:
            problem = f"{self.path} has {len(same) or 'no'} answers to {sample.query[:60]!r}, and ids that are line numbers"
            raise TargetError(f"{problem}; give each sample an id")
        return same[0]

    async def ask(self, case: Case) -> Sample:
        """Return the recorded answer; TargetError if there is none for this id or query and this trial."""
        sample = case.sample
        result = self._recorded.get((self._id_of(sample), 0 if self._trials == {0} else sample.trial))
        if result is None:
            raise TargetError(f"{self.path} has no answer for trial {sample.trial} of the id {sample.id!r}")
        if result.query.split() != sample.query.split():
            here, there = shorten(sample.query, 40), shorten(result.query, 40)
            self._otherwise[sample.id] = f"{shorten(sample.id, 40)} is {here!r} here and {there!r} there"
        return result

    @property
    def notes(self) -> dict[str, int]:
        """The number of ids recorded with another query, and the first of them."""
        first = next(iter(self._otherwise.values()), "")
        return {f"x an id with another query in {self.path}: {first}": len(self._otherwise)} if first else {}
