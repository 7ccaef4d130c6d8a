"""The grader that an eval file's mapping describes: every type, every spelling of its keys."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from pydantic import BaseModel

from germane.errors import InputError, Place
from germane.graders.code_grader import CodeGrader
from germane.graders.composite import Aggregator, Composite
from germane.graders.field_accuracy import FieldAccuracy, FieldRule
from germane.graders.grader import CaseGrader, ParameterError
from germane.graders.limits import Cost, ExecutionMetrics, Latency, TokenUsage
from germane.graders.llm_grader import LLMGrader, PromptCommand, RubricItem, ScoreRange
from germane.graders.measure_grader import MeasureGrader
from germane.graders.text_assertion import Test, TextAssertion
from germane.graders.tool_trajectory import ExpectedCall, SkillTrigger, ToolTrajectory
from germane.measures.declaration import named
from germane.measures.labels import Settings
from germane.measures.measure import Measure, definitions
from germane.measures.scoring import Grader
from germane.processes import misplaced
from germane.samples.evalfile import EvalFile, GraderSpec
from germane.samples.files import Notice, Warn, fold, nearest
from germane.types import Json

G = TypeVar("G", bound=CaseGrader)
Path_ = tuple[int | str, ...]

_TYPES: dict[str, type[CaseGrader]] = {
    "llm_judge": LLMGrader,
    "code_judge": CodeGrader,
    "field_accuracy": FieldAccuracy,
    "tool_trajectory": ToolTrajectory,
    "latency": Latency,
    "cost": Cost,
    "token_usage": TokenUsage,
    "execution_metrics": ExecutionMetrics,
    "skill_trigger": SkillTrigger,
    "composite": Composite,
}
_ALIASES = {
    "llm_grader": "llm_judge",
    "llm_rubric": "llm_judge",
    "rubric": "llm_judge",
    "rubrics": "llm_judge",
    "code_grader": "code_judge",
    "script": "code_judge",
    "assert_set": "composite",
}
_KEYS: dict[type[BaseModel], dict[str, str]] = {
    CodeGrader: {"command": "script", "timeout_seconds": "timeout"},
    LLMGrader: {"value": "prompt", "rubric": "rubrics", "threshold": "min_score"},
    PromptCommand: {"script": "command"},
    Latency: {"max_ms": "threshold"},
    TokenUsage: {"max_total_tokens": "max_total"},
    Cost: {"threshold": "budget", "max_usd": "budget"},
    Composite: {"evaluators": "graders", "assertions": "graders", "assert": "graders", "members": "graders"},
    TextAssertion: {"values": "value"},
    MeasureGrader: {"threshold": "min_score", "strict_mode": "strict", "retrieval_context": "contexts",
                    "retrieved_context": "contexts", "retrieved_contexts": "contexts"},
    Aggregator: {"script": "path", "command": "path"},
    RubricItem: {"outcome": "description", "criteria": "description", "criterion": "description",
                 "required_min_score": "required_min_score"},
    ExpectedCall: {"name": "tool", "input": "args"},
}  # fmt: skip
"""Other names of keys. Case, `_` and `-` never count."""
_NOUNS = {FieldRule: "a field", ExpectedCall: "an expected call", RubricItem: "an item of the rubric",
          ScoreRange: "a score range", Aggregator: "the aggregator", PromptCommand: "a prompt"}  # fmt: skip
_UNREAD = {
    "preprocessors": "convert the files in the target, or in a code_judge: graders read text",
    "target": "all graders of a run ask one judge: --judge openai:MODEL",
    "model": "name the judge: --judge openai:MODEL",
    "temperature": "name the judge's: --temperature",
    "maxsteps": "remove it: a judge answers in one step",
}
"""Keys of AgentV's graders that have no meaning here, and what to write instead."""
_INSIDE: dict[tuple[type[BaseModel], str], type[BaseModel]] = {
    (FieldAccuracy, "fields"): FieldRule,
    (ToolTrajectory, "expected"): ExpectedCall,
    (LLMGrader, "rubrics"): RubricItem,
    (RubricItem, "score_ranges"): ScoreRange,
}
_LISTS = {(TextAssertion, "value"), (CodeGrader, "env"), (MeasureGrader, "contexts")}
"""Lists of texts, for which one text may be written."""
_AGGREGATORS = {"weightedaverage": "weighted_average", "codegrader": "code_judge", "codejudge": "code_judge",
                "llmgrader": "llm_judge", "llmjudge": "llm_judge", "threshold": "threshold"}  # fmt: skip
_CANONICAL: dict[str, str] = {
    fold(name): _ALIASES.get(name, name) for name in (*_TYPES, *_ALIASES, *get_args(Test))
}
MAX_CALLS = 50


@cache
def _spellings(model: type[BaseModel]) -> dict[str, str]:
    """Every name of a model's field, folded -> the field."""
    names = {**{name: name for name in model.model_fields}, **_KEYS.get(model, {})}
    return {fold(spelt): name for spelt, name in names.items()}


def types() -> tuple[str, ...]:
    """Every type of grader that is no measure, by the name to write."""
    return (*_TYPES, *(name.replace("_", "-") for name in get_args(Test)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where a grader's mapping stands, and what holds for the whole file.

    Attributes:
        folder: The eval file's: paths start from it.
        place: The place in the file of what names and indexes lead to (`Node.at`).
        warn: Gets a Notice for each key that is not understood.
        compatibility: "agentv" for the values of AgentV 2.1.
        settings: What relevance is judged against, and on which scale.
    """

    folder: Path = Path()
    place: Callable[[Sequence[int | str]], Place | None] = lambda _: None
    warn: Warn | None = None
    compatibility: Literal["agentv"] | None = None
    settings: Settings = field(default_factory=Settings)

    def notice(self, problem: str, fix: str, path: Path_) -> None:
        """Pass a warning on."""
        if self.warn is not None:
            self.warn(Notice(problem, fix, self.place(path)))


def grader_list(
    items: Iterable[Json],
    where: Where | None = None,
    path: Path_ = (),
    *,
    texts: Literal["measures", "rubric"],
) -> tuple[CaseGrader, ...]:
    """The graders of a list. Its `texts` are names of measures, or things that must be true of the answer.

    Such statements become one rubric in the place of the first of them, which weighs as much as they are many.
    """
    where = where or Where()
    found: list[CaseGrader | None] = []
    stated: list[str] = []
    for number, item in enumerate(items):
        if isinstance(item, str) and texts == "rubric":
            found += [None] if not stated else []
            stated.append(item)
        else:
            found.append(grader_of(item, where, (*path, number)))
    rubric = {"type": "rubrics", "name": "rubrics", "rubrics": stated, "weight": len(stated)}
    return tuple(grader_of(rubric, where, path) if grader is None else grader for grader in found)


def grader_of(spec: Json, where: Where | None = None, path: Path_ = ()) -> CaseGrader:
    """The grader that a mapping of an eval file describes; a text is a measure's name.

    Options stand on the top level or under `config`; their spelling may be snake_case, camelCase or kebab-case.

    Raises:
        InputError: With the place, what is wrong, and what to write instead.
    """
    where = where or Where()
    try:
        if isinstance(spec, str):
            measure, how = _named(spec, where), where.compatibility
            return MeasureGrader(measure=measure, settings=where.settings, compatibility=how)
        if not isinstance(spec, Mapping):
            raise InputError("a grader is not a mapping", fix="write type: context_precision@5")  # noqa: TRY301
        if spec.keys() == {"include"}:
            fix = "write the assertions of that file here"
            raise InputError(f"include: {spec['include']} is not read", fix=fix)  # noqa: TRY301
        return _Reader(spec, where, path).grader()
    except InputError as error:
        raise error.at(where.place(path)) from None


def graders_of_specs(
    specs: Iterable[GraderSpec], file: EvalFile, settings: Settings, warn: Warn | None = None
) -> tuple[Grader, ...]:
    """The graders that entries of an eval file describe, as an evaluation runs them; their names differ."""
    found: dict[str, Grader] = {}
    folder = file.path.resolve().parent
    general = Where(folder=folder, warn=warn, compatibility=file.compatibility, settings=settings)
    for spec in specs:
        made = grader_of(spec.spec, replace(general, place=spec.at))
        name = first = spec.name if spec.named or isinstance(made, TextAssertion) else made.label
        number = 1
        while name in found:
            number += 1
            name = f"{first}-{number}"
        found[name] = scored(made.model_copy(update={"name": name}))
    return tuple(found.values())


_OWN_TYPES = ("assertions", "graders", "judges")


def own_type(name: str, folder: Path) -> Path | None:
    """The script of a type of the user's own: `.agentv/assertions/NAME.ts` (.js, .mts, .mjs) in the folder or above.

    Types that germane has cannot be replaced.
    """
    name = name.strip()
    name = name[4:] if name.startswith(("not_", "not-")) else name
    known = any(fold(name) == fold(one.name) for one in definitions()) or is_grader(name)
    if known or not name.replace("-", "").replace("_", "").isalnum():
        return None
    folder = folder.resolve()
    files = (
        one / ".agentv" / kind / f"{name}.{suffix}"
        for kind in _OWN_TYPES
        for one in (folder, *folder.parents)
        for suffix in ("ts", "js", "mts", "mjs")
    )
    return next((file for file in files if file.is_file()), None)


def code_in(spec: Json, folder: Path | None = None) -> str:
    """What a grader's mapping would run: a script, or a Python file with a measure; "" where it runs nothing.

    Members of composites, their aggregators and commands that write prompts count too; with the eval file's `folder` the
    types of the user's own.
    """
    if isinstance(spec, str):
        return spec if ".py:" in spec else ""
    if isinstance(spec, list | tuple):
        return next(filter(None, (code_in(one, folder) for one in spec)), "")
    if not isinstance(spec, Mapping):
        return ""
    folded = {fold(str(key)): value for key, value in spec.items()}
    for name in ("type", "measure", "metric", "name"):
        if isinstance(kind := folded.get(name), str):
            named = name != "name" or "type" not in folded
            own = own_type(kind, folder) if folder is not None and named else None
            if own or ".py:" in kind:
                return str(own or kind)
    for name in ("script", "command", "path"):
        if folded.get(name) and (name != "path" or is_grader(str(folded.get("type"))) == "code_judge"):
            command = folded[name]
            return command if isinstance(command, str) else " ".join(map(str, command))
    inside = ("evaluators", "graders", "assertions", "assert", "members", "aggregator", "config")
    held = [folded.get(name) for name in inside]
    held += [one for name in ("prompt", "value") if isinstance(one := folded.get(name), Mapping)]
    return next(filter(None, (code_in(one, folder) for one in held)), "")


def is_grader(name: str) -> str:
    """The canonical type of a grader that is no measure, whatever its spelling; "" for anything else."""
    return _CANONICAL.get(fold(name), "")


def scored(grader: CaseGrader) -> Grader:
    """A grader as a block of samples takes it: a plain measure is computed for all samples at once."""
    if not isinstance(grader, MeasureGrader) or grader.negate or grader.agentv or grader.contexts is not None:
        return by_case(grader)
    return grader.scored


def by_case(grader: CaseGrader) -> Grader:
    """A grader as a block of samples takes it where it reads the whole case."""
    if isinstance(grader, MeasureGrader):
        measure = grader.measure
    else:
        measure = Measure.parse(grader.test if isinstance(grader, TextAssertion) else grader.type)
    return Grader(
        measure=measure, name=grader.label, weight=grader.weight, required=grader.gate, strict=True, by=grader
    )


class _Reader:
    """One mapping, taken apart key by key."""

    def __init__(self, spec: Mapping[str, Json], where: Where, path: Path_) -> None:
        self.where, self.path = where, path
        self.given: dict[str, tuple[Path_, Json]] = {}
        for key, value in spec.items():
            if (folded := fold(str(key))) in self.given:
                problem = f"{str(self.given[folded][0][-1])!r} and {key!r} are the same key"
                raise InputError(problem, fix="keep one of them", place=where.place((*path, key)))
            if value is not None:
                self.given[folded] = ((*path, key), value)
        self.known: list[str] = []

    def take(self, *names: str) -> Json:
        """The value under the first of these names that is there."""
        self.known += names
        found = [self.given.pop(folded)[1] for name in names if (folded := fold(name)) in self.given]
        return found[0] if found else None

    def grader(self) -> CaseGrader:
        """The grader that the mapping describes."""
        kind = self._kind()
        negate = kind.startswith(("not_", "not-"))
        name = kind[4:] if negate else kind
        canonical = is_grader(name)
        common = {"compatibility": self.where.compatibility, **({"negate": True} if negate else {})}
        if not canonical:
            script = own_type(name, self.where.folder)
            return self._own(name, script, common) if script else self._measured(name, common)
        if canonical not in _TYPES:
            return self._made(TextAssertion, {**common, "test": canonical})
        if canonical == "code_judge":
            return self._scripted(common)
        self._open_config()
        if canonical == "composite":
            return self._composed(common, whole=fold(name) == "assertset")
        if canonical == "llm_judge":
            return self._modelled(common)
        return self._made(_TYPES[canonical], common)

    def _kind(self) -> str:
        """The type that is written, or that the other keys say."""
        kind = self.take("type")
        if kind is None and {"script", "command"} & self.given.keys():
            kind = "code_judge"
        if kind is None:
            kind = self.take("measure", "metric")
        if kind is None and {"rubrics", "rubric"} & self.given.keys():
            kind = "llm_judge"
        if kind is None and "name" in self.given:
            kind = self.take("name")
        if not isinstance(kind, str) or not kind:
            problem = "this grader has no type" if kind is None else f"the type of a grader is {kind!r}"
            raise InputError(problem, fix="write type: context_precision@5")
        self.take("measure", "metric")
        return kind.strip()

    def _open_config(self) -> None:
        """Options under `config` count as if they stood beside it; the top level goes first."""
        path, config = self.given.get("config", ((), None))
        if not isinstance(config, Mapping):
            return
        del self.given["config"]
        for key, value in config.items():
            if value is not None:
                self.given.setdefault(fold(str(key)), ((*path, key), value))

    def _made(self, kind: type[G], fixed: Mapping[str, Any]) -> G:
        """A grader of this kind, of what is left; keys without a meaning are said aloud."""
        if kind is not CodeGrader:
            self._open_config()
        fields, paths = dict(fixed), {}
        unknown: list[Path_] = []
        for folded, (path, value) in self.given.items():
            name = _spellings(kind).get(folded)
            if name is None or name in fixed:
                unknown.append(path)
            else:
                fields[name], paths[name] = self._inner(kind, name, value, path), path
        what = str(fields.get("name") or fields.get("measure") or kind.type)
        for path in unknown:
            self._unknown(what, [*kind.model_fields, *_KEYS.get(kind, {}), *self.known], path)
        try:
            return kind(**fields)
        except ParameterError as error:
            head, rest = error.path[:1], error.path[1:]
            start = paths.get(str(head[0]), self.path) if head else self.path
            raise error.at(self.where.place((*start, *rest))) from None

    def _inner(self, model: type[BaseModel], name: str, value: Json, path: Path_) -> Json:
        """Mappings inside of a value, with their keys as our models name them."""
        inside = _INSIDE.get((model, name))
        if isinstance(value, str) and (model, name) in _LISTS:
            return (value,)
        if inside is None or not isinstance(value, list | tuple):
            return value
        return tuple(self._fitted(inside, item, (*path, number)) for number, item in enumerate(value))

    def _fitted(self, model: type[BaseModel], value: Json, path: Path_) -> Json:
        """A mapping with the names of a model's fields; other keys are said aloud and left out."""
        if not isinstance(value, Mapping):
            return value
        found, spellings = {}, _spellings(model)
        for key, inner in value.items():
            if (name := spellings.get(fold(str(key)))) is None:
                self._unknown(_NOUNS[model], spellings.values(), (*path, key))
            elif inner is not None:
                found[name] = self._inner(model, name, inner, (*path, key))
        return found

    def _unknown(self, what: str, known: Iterable[str], path: Path_) -> None:
        key = str(path[-1])
        if not key.startswith(("$", "x-", "_")):
            near = nearest(key, known)
            fix = f"did you mean {near!r}?" if near else "remove it"
            self.where.notice(f"{what} has no key {key!r}: it is ignored", _UNREAD.get(fold(key), fix), path)

    def _measured(self, text: str, common: Mapping[str, Any]) -> CaseGrader:
        self._open_config()
        measure = _named(text, self.where, lenient=True)
        params = dict(self.take("params", "parameters") or {})
        for name in measure.definition.params:
            if (value := self.take(name)) is not None:
                params.setdefault(name, value)
        measure = measure(**params) if params else measure
        k = self.take("k", "cutoff")
        measure = (measure if k is None else measure @ k).require_cutoff()
        return self._made(MeasureGrader, {**common, "measure": measure, "settings": self.where.settings})

    def _scripted(self, common: Mapping[str, Any]) -> CaseGrader:
        """A script: every key without a meaning goes to its `config`, as AgentV has it."""
        target = self.take("target")
        fixed = {**common, "cwd": str((self.where.folder / str(self.take("cwd") or "")).resolve())}
        if isinstance(target, Mapping):
            fixed["max_calls"] = target.get("max_calls", target.get("maxCalls", MAX_CALLS))
        elif target is True:
            fixed["max_calls"] = MAX_CALLS
        config = self.take("config")
        if unread := self.given.pop("preprocessors", None):
            self._unknown("code_judge", (), unread[0])
        passed = {}
        for folded in [one for one in self.given if one not in _spellings(CodeGrader)]:
            path, value = self.given.pop(folded)
            key = str(path[-1])
            if near := nearest(key, [*CodeGrader.model_fields, *_KEYS[CodeGrader]]):
                self.where.notice(f"{key!r} goes to the script's config", f"did you mean {near!r}?", path)
            passed[key] = value
        passed |= config if isinstance(config, Mapping) else {}
        passed |= {} if target is None or isinstance(target, Mapping | bool) else {"target": target}
        grader = self._made(CodeGrader, {**fixed, "config": passed})
        if hint := misplaced(grader.script, grader.cwd):
            problem, _, instead = hint.partition(": write ")
            self.where.notice(problem, f"write {instead}", self.path)
        return grader

    def _own(self, name: str, script: Path, common: Mapping[str, Any]) -> CaseGrader:
        """A type of the user's own: its script, run by bun as AgentV does, by node where there is only that."""
        program = ("node",) if shutil.which("node") and not shutil.which("bun") else ("bun", "run")
        self.given["script"] = (self.path, (*program, str(script)))
        self.given.setdefault("name", (self.path, name))
        return self._scripted(common)

    def _modelled(self, common: Mapping[str, Any]) -> CaseGrader:
        criteria = self.take("criteria")
        rubric = self.given.get("rubric")
        if rubric is not None and isinstance(rubric[1], str):
            criteria, _ = rubric[1], self.given.pop("rubric")
        if isinstance(criteria, list | tuple):
            self.given.setdefault("rubrics", ((*self.path, "criteria"), criteria))
        elif isinstance(criteria, str):
            self.given.setdefault("prompt", ((*self.path, "criteria"), criteria))
        prompt = self.given.get("prompt") or self.given.get("value")
        if prompt is not None:
            self.given.pop("value", None)
            self.given["prompt"] = (prompt[0], self._prompt(prompt[1], prompt[0]))
        return self._made(LLMGrader, common)

    def _prompt(self, value: Json, path: Path_) -> Json:
        """A prompt: a text, or the text of the file that `file://` or a name with .md or .txt names; or a command."""
        if isinstance(value, Mapping):
            return self._prompt_command(value, path)
        place = self.where.place(path)
        if not isinstance(value, str):
            fix = "write the prompt, or file://prompts/grade.md"
            raise InputError("prompt is no text", fix=fix, place=place)
        explicit = value.startswith("file://")
        name = value.removeprefix("file://").strip()
        if not explicit and (any(c.isspace() for c in name) or not name.endswith((".md", ".txt", ".prompt"))):
            return value
        try:
            return (self.where.folder / name).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as fault:
            why = getattr(fault, "strerror", None) or "it is not UTF-8 text"
            problem = f"the prompt {name} in {self.where.folder} cannot be read: {why}"
            raise InputError(problem, fix="check the path", place=place) from None

    def _prompt_command(self, value: Mapping[str, Json], path: Path_) -> Json:
        """A command that writes the prompt; it starts where its last word is a file, as AgentV has it."""
        found = cast("dict[str, Any]", self._fitted(PromptCommand, value, path))
        command = found.get("command")
        folder = self.where.folder.resolve()
        if isinstance(command, list | tuple) and command and all(isinstance(one, str) for one in command):
            file = folder / command[-1]
            if not file.is_file():
                problem = f"prompt: there is no file {command[-1]!r} in {folder}"
                raise InputError(problem, fix="end the command with its script", place=self.where.place(path))
            return {**found, "command": (*command[:-1], str(file)), "cwd": str(file.parent)}
        if not isinstance(command, str) or not command.strip():
            fix = "write prompt: {command: [python3, prompt.py]}, or a text"
            raise InputError("prompt has no command", fix=fix, place=self.where.place(path))
        return {**found, "cwd": str(folder)}

    def _composed(self, common: Mapping[str, Any], *, whole: bool) -> CaseGrader:
        """A composite; an assert-set is one whose members must all pass, or whose mean must reach its threshold."""
        names = ("graders", *_KEYS[Composite])
        path, members = next((self.given[name] for name in names if name in self.given), (self.path, None))
        for name in names:
            self.given.pop(name, None)
        if not isinstance(members, list | tuple) or not members:
            fix = "write evaluators: [{name: a, type: ...}]"
            raise InputError("a composite has no members", fix=fix, place=self.where.place(path))
        fixed = {**common, "graders": grader_list(members, self.where, path, texts="rubric")}
        if whole:
            least = self.take("threshold")
            fixed |= {"all_pass": True} if least is None else {"min_score": least}
        at, how = self.given.pop("aggregator", (self.path, None))
        if how is not None:
            fixed["aggregator"] = self._aggregator(how, at)
        return self._made(Composite, fixed)

    def _aggregator(self, how: Json, path: Path_) -> Json:
        how = {"type": how} if isinstance(how, str) else how
        found = self._fitted(Aggregator, how, path)
        if not isinstance(found, Mapping):
            fix = "write aggregator: {type: weighted_average}"
            raise InputError("aggregator is no mapping", fix=fix, place=self.where.place(path))
        kind = found.get("type", "weighted_average")
        made = {**found, "type": _AGGREGATORS.get(fold(str(kind)), kind)}
        if "prompt" in made:
            made["prompt"] = self._prompt(made["prompt"], (*path, "prompt"))
        folder = (self.where.folder / str(found.get("cwd", "."))).resolve()
        return {**made, "cwd": str(folder)} if made["type"] == "code_judge" else made


def _named(text: str, where: Where, *, lenient: bool = False) -> Measure:
    """The measure of that name; InputError names the graders too."""
    try:
        return named(text, where.folder, lenient=lenient)
    except InputError as error:
        head = text.partition("(")[0].partition("@")[0].strip()
        if any(fold(head) == fold(one.name) for one in definitions()) or ".py:" in text:
            raise
        near = nearest(head, [*types(), *_ALIASES])
        if fold(head) == "inlineassert":
            problem = "inline-assert is a function of a TypeScript eval, and these are not read"
            raise InputError(problem, fix="write it as a program: type: code-grader") from None
        known = f"name a measure (`germane measures` lists them), one of {', '.join(_TYPES)}, or a script in .agentv/assertions"
        fix = f"did you mean {near!r}?" if near else error.fix if "did you mean" in error.fix else known
        raise InputError(f"there is no grader or measure of type {text!r}", fix=fix).at(error.place) from None
