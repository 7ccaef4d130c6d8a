"""What to evaluate: files and folders in, cases with their graders out."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from germane.errors import InputError, Place
from germane.measures.graders import CODE_JUDGE, Grader, graders_of
from germane.measures.loading import named
from germane.measures.measure import Measure
from germane.reports.gates import Gate
from germane.samples.contexts import compile_rule
from germane.samples.evalfile import Case, EvalFile, GraderSpec, read_eval_file
from germane.samples.files import Notice, Warn
from germane.samples.reading import Seen, read_samples
from germane.setup import ASKED
from germane.types import Json, Sample

__all__ = ["Item", "Suite", "load_suite"]

_YAML = (".yaml", ".yml")
_NOT_RUN = {
    *("llm_judge", "llm_grader", "rubric", "rubrics", "field_accuracy", "tool_trajectory", "composite"),
    *("latency", "cost", "token_usage", "execution_metrics", "contains", "regex", "is_json", "equals"),
}
"""Kinds of grader that an eval file of another runner may name and that are no retrieval measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One case: its sample (answered or not), what it is graded by, and the system to ask ("" = none)."""

    sample: Sample
    graders: tuple[Grader, ...]
    specs: Mapping[str, GraderSpec] = field(default_factory=dict)
    case: Case | None = None
    target: str = ""
    targets_file: Path | None = None
    folder: Path = field(default_factory=Path)
    contexts_from: Literal["auto", "text"] = "auto"


@dataclass(slots=True)
class Suite:
    """Everything that a run's paths say, with the measures and targets that flags put in their place.

    `measures` replace a file's own; `usual` are for samples that nobody names measures for.
    """

    paths: tuple[Path, ...]
    files: Mapping[Path, EvalFile]
    measures: tuple[Measure, ...] = ()
    usual: tuple[Measure, ...] = ()
    targets: tuple[str, ...] = ()
    targets_file: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    doc_id: str | None = None
    wanted: str | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    warn: Warn = field(default=lambda _: None)

    def items(self) -> Iterator[Item]:
        """The cases, in the order of the paths; filtered, sampled and cut as asked for."""
        chosen: Iterable[Item] = self._named()
        if self.sample is not None:
            chosen = _drawn(chosen, self.sample, self.seed)
        for number, item in enumerate(chosen):
            if self.limit is not None and number >= self.limit:
                return
            yield item

    def _named(self) -> Iterator[Item]:
        seen = Seen()
        several = len(self.paths) + sum(len(file.data) for file in self.files.values()) > 1
        for number, path in enumerate(self.paths):
            for item in self._of(path):
                if self.wanted is None or _wanted(item.sample, self.wanted):
                    if several:  # one file alone has been checked by its reader
                        self._once(item.sample, number, seen)
                    yield item

    def _once(self, sample: Sample, number: int, seen: Seen) -> None:
        known = len(seen)
        first = seen.first((sample.id, sample.system, sample.trial), number)
        if len(seen) == known:
            path, other = self.paths[number], self.paths[first]
            where = f"in {other} and in {path}" if first != number else f"twice in what {path} names"
            raise InputError(
                f"the id {sample.id!r} stands {where}",
                fix="give each file's samples a `system`, or run the files one by one",
            )

    def document_ids(self) -> Callable[[Sample], Sample]:
        """The rule that makes document ids of chunk ids: by flag, else the files' own."""
        return compile_rule(self.doc_id or self.setting("doc_id"))

    def _of(self, path: Path) -> Iterator[Item]:
        file = self.files.get(path)
        if file is None:
            if not (self.measures or self.usual):
                raise InputError(
                    f"{path}: no measure was asked for", fix='name one: -m "context_precision@5 nDCG@10"'
                )
            yield from self._asked(read_samples(path, columns=dict(self.columns), warn=self.warn), None, path)
            return
        for case in file.cases:
            yield from self._case(file, case)
        for data in file.data:
            yield from self._asked(
                read_samples(data, columns=self._columns(file), warn=self.warn), file, path
            )

    def _columns(self, file: EvalFile) -> dict[str, str]:
        return {**dict(file.columns), **dict(self.columns)}

    def _case(self, file: EvalFile, case: Case) -> Iterator[Item]:
        specs = case.graders
        graders = graders_of(self.measures) if self.measures else self.graders(specs)
        if not graders:
            raise InputError(
                "this case is graded by nothing", fix="name evaluators, or measures", place=case.place
            )
        for target, system in self._targets(case.target or file.target, case.sample):
            yield Item(
                sample=replace(case.sample, system=system),
                graders=graders,
                specs={} if self.measures else {spec.name: spec for spec in specs},
                case=case,
                target=target,
                targets_file=self.targets_file or file.targets_file,
                folder=file.path.parent,
                contexts_from=file.contexts_from,
            )

    def _asked(self, samples: Iterable[Sample], file: EvalFile | None, path: Path) -> Iterator[Item]:
        specs = () if file is None else file.measures
        named = self.measures or (self.usual if file is None else ())
        graders = graders_of(named) if named else self.graders(specs)
        if not graders:
            raise InputError(
                f"{path}: no measure was asked for", fix="write measures: [...] in the file, or -m"
            )
        for sample in samples:
            for target, system in self._targets(file.target if file else None, sample):
                yield Item(
                    sample=replace(sample, system=system) if system != sample.system else sample,
                    graders=graders,
                    specs={} if self.measures else {spec.name: spec for spec in specs},
                    target=target,
                    targets_file=self.targets_file or (file.targets_file if file else None),
                    folder=path.parent,
                    contexts_from=file.contexts_from if file else "auto",
                )

    def graders(self, specs: Iterable[GraderSpec]) -> tuple[Grader, ...]:
        """The graders that these entries describe; kinds that germane does not run are left out, with a warning."""
        found = []
        for spec in specs:
            if spec.type.replace("-", "_") not in _NOT_RUN:
                found.append(grader_of(spec))
            elif spec.required is not None:
                problem = (
                    f"the required grader {spec.name} is of type {spec.type}, which germane does not run"
                )
                raise InputError(
                    problem, fix="drop `required`, or grade with a measure or a code_judge", place=spec.place
                )
            else:
                problem = (
                    f"the grader {spec.name} is of type {spec.type}, which germane does not run: left out"
                )
                self.warn(Notice(problem, "grade with a measure or a code_judge", spec.place))
        return tuple(found)

    def _targets(self, declared: str | None, sample: Sample) -> Iterator[tuple[str, str]]:
        """The systems to ask, each with the name it is reported under: only several need telling apart."""
        named = self.targets or ((declared,) if declared else ())
        if not named:
            yield "", sample.system
        for target in named:
            yield target, target if len(named) > 1 else sample.system

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The gates that the files declare."""
        return tuple(Gate.parse(text, place) for file in self.files.values() for text, place in file.gates)

    def all_graders(self) -> tuple[Grader, ...]:
        """Every grader that any case has; nothing of the data is read for it."""
        if self.measures:
            return graders_of(self.measures)
        plain = len(self.files) < len(self.paths)
        found = dict.fromkeys(graders_of(self.usual)) if plain else {}
        for file in self.files.values():
            for specs in (file.measures, *(case.graders for case in file.cases)):
                found.update(dict.fromkeys(self.graders(specs)))
        return tuple(found)

    def check(self, look: Callable[[Item], None] = lambda _: None, most: int = 100_000_000) -> None:
        """Read everything once, as far as it is not too large, so that a bad line is found before money is spent.

        `look` is called with each case.
        """
        data = [*self.files.values()]
        sizes = [
            path.stat().st_size for path in (*self.paths, *(path for file in data for path in file.data))
        ]
        if sum(sizes) <= most:
            for item in self.items():
                look(item)

    def asking(self) -> dict[str, Json]:
        """How judges are asked, as far as the files say."""
        found = {name: self.setting(name) for name in ASKED}
        return {name: value for name, value in found.items() if value is not None}

    def setting(self, name: str) -> Json:
        """One setting of the evaluation (judge, against, repeat) that the files agree on; None where none names it."""
        found = {value: file for file in self.files.values() if (value := getattr(file, name)) is not None}
        if len(found) > 1:
            values = " and ".join(map(str, found))
            raise InputError(
                f"the eval files name different values of {name}: {values}",
                fix=f"run them one by one, or give --{name}",
            )
        return next(iter(found), None)


def grader_of(spec: GraderSpec) -> Grader:
    """The grader that an eval file's entry describes; InputError where its type is not known."""
    script = spec.script is not None
    try:
        measure = CODE_JUDGE if script else _measure(spec)
    except InputError as error:
        raise error.at(spec.place) from None
    return Grader(
        measure=measure,
        name="" if spec.name == spec.type else spec.name,
        weight=spec.weight,
        required=spec.required,
        strict=spec.strict,
        expected_relevant_count=spec.expected_relevant_count,
    )


def _measure(spec: GraderSpec) -> Measure:
    """The measure of a grader: its type, with the parameters and the cut-off `k` that stand beside it."""
    measure = named(spec.type, spec.cwd, lenient=True)
    if measure == CODE_JUDGE:
        raise InputError(f"the grader {spec.name} has no script", fix="write script: [python3, grade.py]")
    params = {name: value for name, value in spec.config.items() if name in measure.definition.params}
    measure = measure(**{**params, **spec.params}) if params or spec.params else measure
    k = spec.config.get("k", spec.config.get("cutoff"))
    return (measure if k is None else measure @ k).require_cutoff()


def _wanted(sample: Sample, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for text in (sample.id, *sample.tags))


def _drawn(items: Iterable[Item], size: int, seed: int) -> list[Item]:
    """`size` cases drawn without replacement, in their original order; the same for the same seed."""
    everything = list(items)
    if size >= len(everything):
        return everything
    places = sorted(random.Random(seed).sample(range(len(everything)), size))  # noqa: S311 - a sample, not a secret
    return [everything[place] for place in places]


def load_suite(paths: Sequence[Path], warn: Warn) -> tuple[tuple[Path, ...], dict[Path, EvalFile]]:
    """The files that these paths name (folders are searched for eval files), and the eval files among them, read."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = [file for file in sorted(path.rglob("*")) if _is_eval_file(file)]
            if not inside:
                raise InputError(
                    "there is no eval file in this folder", fix="name a file", place=Place(str(path))
                )
            found += inside
        elif not path.exists():
            raise InputError("there is no such file or folder", fix="check the path", place=Place(str(path)))
        else:
            found.append(path)
    files = {path: read_eval_file(path, warn=warn) for path in found if path.suffix in _YAML}
    return tuple(dict.fromkeys(found)), files


def _is_eval_file(file: Path) -> bool:
    """Whether a file in a folder is meant as an eval file: YAML, not targets, not hidden."""
    hidden = any(part.startswith(".") for part in file.parts)
    return file.suffix in _YAML and file.stem != "targets" and not hidden and file.is_file()
