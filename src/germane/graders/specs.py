"""The grader that scores a case by a measure, and how graders are created from their mappings in eval files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import structs
from pydantic import InstanceOf, PlainValidator

from germane.addons import GraderType, absent, all_of, load
from germane.clean import fold
from germane.errors import InputError, Invalid, SourceLocation, collect_or_raise, describe
from germane.evalfiles import Case
from germane.evalfiles.evalfile import EvalFile, GraderSpec
from germane.evalfiles.model import Flag, Texts, WholeNumber, read_model
from germane.graders.grader import CaseGrader, GraderResult, together
from germane.measures.declaration import DECLARED, FILE_MARK, Grader, find_measure
from germane.measures.explaining import CANNOT, Explanation, explain_judged, explain_ranked
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import Block, Job
from germane.places.lists import Settings
from germane.questions.asking import Program
from germane.samples.files import Warn, nearest
from germane.types import Context, FrozenDict, Json, Sample
from germane.yamltext import Node, node_of

NOT_FOUND = "No retrieved context found in candidate answer"


def _read_measure(measure: Any) -> Any:
    if not isinstance(measure, Measure | str):
        raise Invalid(f"is {describe(measure)}, not a measure", "write a measure's name: context_precision@5")
    return Measure.parse(measure) if isinstance(measure, str) else measure


class MeasureGrader(CaseGrader):
    """A grader whose score is the value of a measure.

    Attributes:
        measure: The measure or its name: `context_precision @ 5`, `"nDCG@10"`.
        strict: Fail the case if any context is irrelevant; the score is unchanged.
        expected_relevant_count: The number of relevant contexts to find; fewer are reported as a miss.
        contexts: Passages to grade instead of the retrieved passages.
        settings: The scale of relevance, and the text that relevance is judged against.
    """

    type: ClassVar[str] = "measure"
    aliases: ClassVar = {
        "min_score": ("threshold",),
        "strict": ("strict_mode",),
        "contexts": ("retrieval_context", "retrieved_context", "retrieved_contexts"),
    }
    computed: ClassVar = ("compatibility", "settings")

    measure: Annotated[Measure, PlainValidator(_read_measure, json_schema_input_type=str)]
    strict: Flag = False
    expected_relevant_count: WholeNumber | None = None
    contexts: Texts | None = None
    settings: InstanceOf[Settings] = Settings()

    @property
    def label(self) -> str:
        """The grader's name in reports: `name`, or else the measure's name."""
        return self.name or str(self.measure)

    @property
    def asks(self) -> bool:
        """True if the measure needs a judge."""
        return self.measure.asks

    @property
    def scored(self) -> Grader:
        """The Grader that an evaluation uses in place of this one.

        It calls this grader for each case only if an option changes the contexts or the measure's values.
        """
        if self.agentv or self.contexts is not None:
            return replace(self.plain, strict=True, by=self, expected_relevant_count=None)
        return self.plain

    @property
    def plain(self) -> Grader:
        """The measure as a Grader, without the options that change its contexts or its values."""
        return Grader(
            measure=self.measure,
            name=self.name,
            weight=self.weight,
            required=self.gate,
            strict=self.strict,
            expected_relevant_count=self.expected_relevant_count,
            options=DECLARED,
        )

    def compute(self, case: Case) -> Program[GraderResult]:
        """Compute the measure for a case: a generator that yields questions for the judge.

        It returns the value of the measure with its explanation.
        """
        sample = case.sample
        if self.contexts is not None:
            contexts = tuple(Context(text=text) for text in self.contexts)
            sample = structs.replace(sample, contexts=contexts, calls=None)
        block = Block(jobs=[Job(sample=sample, graders=(self.plain,))], settings=self.settings)
        results = yield from together(block.programs)
        outcome = block.outcomes(results)[0][self.label]
        if (placed := block.places(0, self.measure)) is not None:
            explained = explain_ranked(self.measure, replace(outcome, why=None), *placed)
        elif results:
            explained = explain_judged(self.measure, outcome, results[0])
        else:
            explained = Explanation(outcome=outcome, reasoning=outcome.why or "")
        return self.result(sample, outcome, explained)

    def result(self, sample: Sample, outcome: Outcome, explanation: Explanation) -> GraderResult:
        """Return the `outcome` of the measure for `sample`, and its `explanation`, as a GraderResult."""
        if outcome.value is None:
            absent = sample.contexts is None and sample.calls is None
            needed = "contexts" in self.measure.definition.needs
            if self.agentv and absent and needed and outcome.status == "skipped":
                return GraderResult(score=0.0, verdict="fail", misses=(NOT_FOUND,), reasoning=CANNOT)
            return GraderResult(
                score=None, status=outcome.status, why=outcome.why, bounds=outcome.bounds,
                hits=explanation.hits, misses=explanation.misses, reasoning=explanation.reasoning,
            )  # fmt: skip
        failed = self.strict and any(check["relevant"] is False for check in explanation.relevance_checks)
        return GraderResult(
            score=outcome.value,
            verdict="fail" if failed else None,
            hits=explanation.hits,
            misses=tuple(explanation.missed(self.expected_relevant_count)),
            reasoning=explanation.reasoning,
            details=FrozenDict(explanation.as_json()["details"]),
        )


@cache
def _kinds(*, installed: bool = False) -> dict[str, tuple[str, GraderType]]:
    """Return the canonical name and the grader type for each name and alias of add-ons' grader types."""
    types = all_of("graders", installed=installed)
    return {fold(name): (main, kind) for main, kind in types.items() for name in (main, *kind.aliases)}


class NotImported(InputError):
    """Raised for a measure in a Python file if imports are not allowed; `problem` is the measure's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The settings for all graders of one eval file.

    Attributes:
        folder: The eval file's folder, from which relative paths start.
        warn: Called with a Notice for each unknown key.
        compatibility: "agentv" to compute the values of AgentV 2.1.
        settings: The scale of relevance, and the text that relevance is judged against.
        imports: Whether Python files with measures are imported. If not, NotImported is raised for them.
    """

    folder: Path = Path()
    warn: Warn | None = None
    compatibility: Literal["agentv"] | None = None
    settings: Settings = field(default_factory=Settings)
    imports: bool = True


def grader_of(
    spec: Json | Node, where: Where = Where(), faults: list[InputError] | None = None
) -> CaseGrader:
    """Return the grader described by an entry of an eval file: a mapping, or the name of a measure.

    Options may be written at the top level or under `config`, in snake_case, camelCase or kebab-case. Raises
    InputError with the location; further errors are appended to `faults` if given.
    """
    node = spec if isinstance(spec, Node) else node_of(spec, SourceLocation("grader"))
    try:
        kind, node, fixed = _resolve_type(node, where)
        context = {"folder": where.folder, "warn": where.warn, "grader_of": partial(grader_of, where=where)}
        fixed["compatibility"] = where.compatibility
        return read_model(kind, node, faults, fixed=fixed, **context)
    except InputError as error:
        raise error.at(node.location) from None


def _keys(node: Node) -> set[str]:
    return {fold(key) for key, inner in (node.pairs or {}).items() if not inner.is_null()}


def _pop_value(node: Node, *names: str) -> tuple[Node | None, Node]:
    """Return the value under one of the keys `names`, in any spelling, and the mapping without these keys."""
    folded, pairs = set(map(fold, names)), dict(node.pairs or {})
    taken = [pairs.pop(key) for key in [*pairs] if fold(key) in folded]
    value = next((inner for inner in taken if not inner.is_null()), None)
    return value, replace(node, pairs=pairs) if taken else node


def _resolve_type(node: Node, where: Where) -> tuple[type[CaseGrader], Node, dict[str, Any]]:
    """Return a grader's class, its options, and the fields that its type implies, as `node` describes it.

    The type is written under `type` or `measure`, or implied by other keys.
    """
    if node.text is not None and not node.is_null():
        node = Node(node.location, pairs={"type": node}, keys={"type": node.location})
    fix = "write type: context_precision@5"
    if node.pairs is None:
        raise InputError("this grader is neither a mapping nor the name of a measure", fix=fix)
    written, node = _pop_value(node, "type")
    measured, node = _pop_value(node, "measure", "metric")
    keys = _keys(node)
    if written is None and not keys & {"script", "command"}:
        written = measured
    if written is not None and not written.text:
        raise InputError(f"the type of this grader must be a string, not {written.kind}", fix=fix)
    if written is not None:
        name = str(written.text).strip()
    elif keys & {"script", "command"}:
        name = "code_judge"
    elif keys & {"rubrics", "rubric"}:
        name = "llm_judge"
    else:
        raise InputError("this grader has no type", fix=fix)
    _, kind = _kinds().get(fold(name), ("", None))
    if kind is None:
        try:
            measure, opened = _measure(name, _opened(node), where)
        except InputError as unknown:
            _, kind = _kinds(installed=not isinstance(unknown, NotImported)).get(fold(name), ("", None))
            if kind is None:
                raise
        else:
            return MeasureGrader, opened, {"measure": measure, "settings": where.settings}
    made: type[CaseGrader] = load(kind.make)
    return made, _opened(node) if made.opens_config else node, dict(kind.fixed)


def _opened(node: Node) -> Node:
    """Return a mapping with the options under `config` moved to the top level."""
    config, rest = _pop_value(node, "config")
    if config is None or config.pairs is None:
        return node
    inner = {key: value for key, value in config.pairs.items() if fold(key) not in _keys(rest)}
    return replace(rest, pairs={**(rest.pairs or {}), **inner}, keys={**config.keys, **rest.keys})


def _measure(text: str, node: Node, where: Where) -> tuple[Measure, Node]:
    """Return the measure that `text`, the grader's type, names, and the grader's other options.

    Options in `node` that are parameters of the measure, or its cut-off `k`, are set in the measure. All
    others are returned.
    """
    if not where.imports and FILE_MARK in text:
        raise NotImported(text)
    measure = measure_named(text, where.folder)
    if measure.definition.family == "graded":  # a grader of an installed package
        raise InputError(f"{text} is a grader, not a measure", fix=f"list it under graders, as type: {text}")
    options: dict[str, Any] = {}
    for name in measure.definition.params:
        value, node = _pop_value(node, name)
        if value is not None:
            options[name] = value.json()
    k, node = _pop_value(node, "k")
    measure = measure(**options) if options else measure
    return (measure if k is None else measure @ k.json()).require_cutoff(), node


def measure_named(text: str, folder: Path | None = None) -> Measure:
    """Return the measure called `text`, as `find_measure` does; an error may suggest a similar name."""
    try:
        return find_measure(text, folder, lenient=True)
    except InputError as wrong:
        error = wrong
    if not error.problem.startswith("unknown measure"):
        raise error
    head = text.partition("(")[0].partition("@")[0].strip()
    problem, fix = f"unknown grader or measure {text!r}", error.fix
    if owner := absent("graders", fold(head)):
        problem = f"the grader {head} needs the add-on {owner}, which is not installed"
        fix = "name a measure (`germane measures` lists them)"
    elif near := nearest(head, (name for name, _ in _kinds().values())):
        fix = f"did you mean {near!r}?"
    raise InputError(problem, fix=fix, place=error.place)


def graders_of_specs(
    specs: Iterable[GraderSpec],
    file: EvalFile,
    settings: Settings,
    warn: Warn | None = None,
    faults: list[InputError] | None = None,
    *,
    leave: Callable[[str, GraderSpec], None] | None = None,
) -> tuple[Grader, ...]:
    """Return the graders described by the entries of an eval file, with unique names.

    Raises InputError for the first error, or appends every error to `faults` if that is given. With `leave`,
    no Python file is imported: it is called with each measure from one, and its entry.
    """
    graders, listed = dict[str, Grader](), tuple(specs)
    written = {spec.name for spec in listed if spec.has_name}
    folder, compatibility, imports = file.path.resolve().parent, file.compatibility, leave is None
    where = Where(folder=folder, warn=warn, compatibility=compatibility, settings=settings, imports=imports)
    for spec in listed:
        try:
            made = grader_of(spec.node, where, faults)
        except NotImported as measure:
            assert leave is not None
            leave(measure.problem, spec)
            continue
        except InputError as fault:
            collect_or_raise(fault, faults)
            continue
        name = first = spec.name if spec.has_name or made.named_by_value else made.label
        number = 1
        while name in graders or (name in written and not spec.has_name):
            number += 1
            name = f"{first}-{number}"
        grader = made.model_copy(update={"name": name}).scored
        if isinstance(spec.spec, str):  # only the name of a measure
            grader = replace(grader, options=FrozenDict())
        graders[name] = grader
    return tuple(graders.values())
