"""Targets with known answers: fixed answers from the targets file, or recorded answers from samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from germane.clean import shorten
from germane.errors import InputError, Invalid, SourceLocation, TargetError
from germane.evalfiles import Case
from germane.evalfiles.model import Scalar, WholeNumber, plain_value
from germane.samples.reading import read_samples
from germane.tables.cases import are_line_numbers, ids_of, texts_of
from germane.targets.target import Target
from germane.types import Json, Sample
from germane.yamltext import Node


def _response(value: Any) -> Json:
    """Return a response in a YAML file: a scalar as the string that was written (`no` is "no"), else JSON."""
    if isinstance(value, Node) and value.text is not None:
        return value.text
    return str(value) if isinstance(value, Scalar) else plain_value(value)


def _responses(value: Any) -> Any:
    pairs = value.pairs if isinstance(value, Node) else value
    return {key: _response(inner) for key, inner in pairs.items()} if isinstance(pairs, dict) else value


class MockTarget(Target):
    """A target with fixed answers: `responses[id]` for the case with that id, `response` for all others.

    An answer is a string, or a mapping with response, contexts or messages.
    """

    live: ClassVar[bool] = False

    workers: WholeNumber = 100
    response: Annotated[Any, BeforeValidator(_response)] = None
    responses: Annotated[dict[str, Any], BeforeValidator(_responses)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _answers(self) -> Self:
        if self.response is None and not self.responses:
            raise Invalid("has no response", "write response: TEXT, or responses: {CASE_ID: TEXT}")
        return self

    async def ask(self, case: Case) -> Any:
        """Return the fixed answer to a case. Raises TargetError if the target has no answer to it."""
        answer = self.responses.get(case.sample.id, self.response)
        if answer is None:
            problem = f"the target has no response for the case {case.sample.id!r}"
            raise TargetError(f"{problem}; add it to responses:")
        return answer


class RecordedTarget(Target):
    """A target with recorded answers: it answers a case with the sample of the same id and trial in a file.

    If the file contains only trial 0, the same answer is used for every trial. If its ids are only line
    numbers, the sample with the same query is used instead.

    Attributes:
        path: The file of samples, relative to the targets file.
        system: The system whose samples are used, if the file has several.
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

    def open(self, location: SourceLocation, folder: Path) -> None:
        """Read the recorded answers. Raises InputError unless they come from exactly one system."""
        read = read_samples((folder / self.path).resolve())
        samples = [sample for sample in read if self.system in {None, sample.system}]
        systems = {sample.system for sample in samples}
        if len(systems) != 1:
            what = f"no answers of the system {self.system!r}" if self.system else "no answers"
            if systems:
                what = f"answers of several systems: {', '.join(map(repr, sorted(systems)))}"
            fix = "write system: NAME, with a system in the file"
            raise InputError(f"{self.path} has {what}", fix=fix, place=location)
        self._recorded = {(sample.id, sample.trial): sample for sample in samples}
        self._trials = {sample.trial for sample in samples}
        if are_line_numbers(texts := texts_of(samples)):
            self._ids = ids_of(texts)

    async def ask(self, case: Case) -> Sample:
        """Return the recorded answer to a case. Raises TargetError if no answer is recorded for it."""
        sample = case.sample
        same, known = self._ids.get(" ".join(sample.query.split()), []), sample.id
        if known not in same and self._ids:
            if len(same) != 1:
                found = f"{len(same) or 'no'} answers to the query {sample.query[:60]!r}"
                raise TargetError(f"{self.path} has no ids, and {found}; give each sample an id")
            (known,) = same
        result = self._recorded.get((known, 0 if self._trials == {0} else sample.trial))
        if result is None:
            problem = f"{self.path} has no answer for trial {sample.trial} of the id {sample.id!r}"
            raise TargetError(f"{problem}; record the answer of this case")
        if result.query.split() != sample.query.split():
            name, expected, in_file = (shorten(text, 40) for text in (sample.id, sample.query, result.query))
            self._otherwise[sample.id] = f"{name} is {expected!r} in the case, {in_file!r} in the file"
        return result

    @property
    def notes(self) -> dict[str, int]:
        """A note with the first id whose recorded query differs, mapped to the number of such ids."""
        first = next(iter(self._otherwise.values()), "")
        return {f"x an id with another query in {self.path}: {first}": len(self._otherwise)} if first else {}
