"""Graders that combine other graders' results by a mean, a proportion that must pass, a script or a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, InstanceOf, ValidationInfo, model_validator

from germane.addons.agentv.evalfile import assertions_in
from germane.addons.agentv.graders.code_grader import ScriptGrade
from germane.addons.agentv.graders.llm_grader import FreeForm, capped, prompt_text, template_of, unjudged
from germane.addons.agentv.graders.transcript import names_of, resolve_cwd
from germane.clean import fold
from germane.errors import InputError, Invalid
from germane.evalfiles import Case
from germane.evalfiles.model import Keys, Share, YamlModel
from germane.graders import CaseGrader, Command, GraderResult, Numbers, together
from germane.measures import ask
from germane.questions import Program
from germane.questions.asking import Missing
from germane.types import FrozenDict, Json, freeze

RESULTS = "EVALUATOR_RESULTS_JSON"
_HOW = {"weightedaverage": "weighted_average", "codegrader": "code_judge", "codejudge": "code_judge",
        "llmgrader": "llm_judge", "llmjudge": "llm_judge"}  # fmt: skip


class Aggregator(YamlModel):
    """The rule that combines the results of several graders.

    Attributes:
        type: `weighted_average` is the mean of the scores; `threshold` is the proportion of graders that
            pass; with `code_judge`, a script reads `{results: {name: result}}` and prints a score; with
            `llm_judge`, a model reads the results.
        weights: Weights by the graders' names. Default: the weights of the graders themselves.
        threshold: The lowest proportion of graders that must pass.
        path: The script: a string that is run by `sh -lc`, or a list of the program and its arguments.
        prompt: The prompt for the model, with `{{EVALUATOR_RESULTS_JSON}}`.
        cwd: Working directory of the script.
    """

    what = "the aggregator"
    text_field = "type"
    aliases: ClassVar = {"path": ("script", "command")}

    type: Annotated[
        Literal["weighted_average", "threshold", "code_judge", "llm_judge"],
        BeforeValidator(lambda value: _HOW.get(fold(value), value) if isinstance(value, str) else value),
    ] = "weighted_average"
    weights: Numbers = FrozenDict()
    threshold: Share | None = None
    path: Command | None = None
    prompt: Annotated[str, template_of([RESULTS])] | None = None
    cwd: str = "."

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Resolve `cwd` relative to the eval file; by default it is the folder that contains the script."""
        super().complete(keys)
        resolve_cwd(keys, "path")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == "code_judge" and not self.path:
            raise Invalid("has no path", "write path: ./aggregate.py")
        if self.type == "threshold" and self.threshold is None:
            raise Invalid("has no threshold", "write threshold: 0.5")
        return self


def _members(value: Any, info: ValidationInfo) -> Any:
    """Return the graders listed in an eval file; a string is a statement that must be true of the answer."""
    grader_of = (info.context or {}).get("grader_of")
    return value if grader_of is None else tuple(grader_of(spec.node) for spec in assertions_in(value))


class Composite(CaseGrader):
    """Combines the results of several graders, its members, in one result. Composites may contain composites.

    Skipped members are left out. If a member failed, a mean or proportion is incomplete, with bounds on its
    possible values; with a script or model, the result is an error.

    Attributes:
        graders: The members; their names must be unique.
        aggregator: The rule that combines their results.
    """

    type: ClassVar[str] = "composite"
    aliases: ClassVar = {
        "graders": ("evaluators", "assertions", "assert", "members"),
        "min_score": ("threshold",),
    }

    graders: Annotated[tuple[InstanceOf[CaseGrader], ...], Field(min_length=1), BeforeValidator(_members)]
    aggregator: Aggregator = Aggregator()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [grader.label for grader in self.graders]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(
                f"the members must have different names; {twice!r} occurs twice",
                fix="give one of them another name",
            )
        if unknown := next((name for name in self.aggregator.weights if name not in names), None):
            problem = f"weights: unknown member {unknown!r}"
            raise InputError(problem, fix=f"its members are {', '.join(names)}")
        return self

    @property
    def asks(self) -> bool:
        """True if a member or the aggregator needs a judge."""
        return self.aggregator.type == "llm_judge" or any(grader.asks for grader in self.graders)

    def compute(self, case: Case) -> Program[GraderResult]:
        """Run all members concurrently, then return their combined result; `details` holds their results."""
        results = yield from together(grader.grade(case) for grader in self.graders)
        rows = {grader.label: result for grader, result in zip(self.graders, results, strict=True)}
        own = {grader.label: 1.0 if self.agentv else float(grader.weight) for grader in self.graders}
        weights = own | {name: float(weight) for name, weight in self.aggregator.weights.items()}
        broken = [f"{name}: {row.why}" for name, row in rows.items() if row.status in {"error", "incomplete"}]
        if self.aggregator.type in {"weighted_average", "threshold"}:
            made = self._counted(rows, weights, broken)
        elif broken:
            made = GraderResult.failed(broken[0])
        else:
            try:
                made = yield from self._asked(rows, case)
            except Missing as missing:
                made = unjudged(missing.why, agentv=self.agentv)
        members = [
            {"name": grader.label, "type": grader.type, "weight": weights[grader.label], **row.as_json()}
            for grader, row in zip(self.graders, results, strict=True)
        ]
        return replace(made, details=freeze({**made.details, "graders": members}))

    def _counted(
        self, rows: Mapping[str, GraderResult], weights: Mapping[str, float], broken: Sequence[str]
    ) -> GraderResult:
        """Return the weighted mean of the members' scores, or the proportion of the members that pass."""
        kept = {name: result for name, result in rows.items() if result.status != "skipped"}
        least = self.aggregator.threshold if self.aggregator.type == "threshold" else None
        weight = {name: weights[name] if least is None else 1.0 for name in kept}
        total = fsum(weight.values())
        if not kept or not (total or self.agentv):
            why = "; ".join(f"{name}: {result.why}" for name, result in rows.items())
            return GraderResult.skipped("the weights of its members must not sum to 0" if kept else why)
        if len(broken) == len(kept):
            return GraderResult.failed("; ".join(broken))
        worth: dict[str, tuple[float, float]] = {}  # the lowest and highest possible value of each member
        for name, result in kept.items():
            if result.score is None:
                worth[name] = result.bounds if result.bounds and least is None else (0.0, 1.0)
            else:
                value = result.score if least is None else float(result.verdict == "pass")
                worth[name] = value, value
        ends = (fsum(weight[name] * worth[name][end] for name in kept) / (total or 1.0) for end in (0, 1))
        low, high = (min(1.0, end) for end in ends)
        if broken:
            return GraderResult(score=None, status="incomplete", why="; ".join(broken), bounds=(low, high))
        passed = sum(result.verdict == "pass" for result in kept.values())
        made = GraderResult(
            score=low,
            hits=tuple(f"[{name}] {text}" for name, result in kept.items() for text in result.hits),
            misses=tuple(f"[{name}] {text}" for name, result in kept.items() for text in result.misses),
            reasoning="; ".join(f"{name}: {row.reasoning}" for name, row in kept.items() if row.reasoning),
        )
        if least is None:
            return made
        message = f"{passed}/{len(kept)} evaluators passed (threshold: {least:g})"
        if low >= least:
            return replace(made, verdict="pass", hits=(message, *made.hits))
        return replace(made, verdict="fail", misses=(message, *made.misses))

    def _asked(self, members: Mapping[str, GraderResult], case: Case) -> Program[GraderResult]:
        """Ask the aggregator's script or model to combine the members' results, and return its result."""
        results: dict[str, Json] = {}
        for name, row in members.items():
            sent = row.as_json()
            fields = {key: sent[key] for key in ("score", "verdict", "hits", "misses")}
            fields["expectedAspectCount"] = max(1, len(row.hits) + len(row.misses))
            fields |= {"reasoning": row.reasoning} if row.reasoning else {}
            if not self.agentv:
                fields |= {"assertions": sent["assertions"], "status": row.status, "why": row.why}
            results[name] = {**fields, "details": dict(row.details)} if row.details else fields
        if self.aggregator.type == "llm_judge":
            values = FrozenDict({RESULTS: json.dumps(results, ensure_ascii=False, indent=2)})
            template = self.aggregator.prompt or prompt_text("composite")
            opinion = yield from ask(FreeForm(template=template, values=values))
            return capped(opinion, agentv=self.agentv)
        assert self.aggregator.path is not None
        question = ScriptGrade(
            command=self.aggregator.path,
            document=freeze({"results": results}),
            cwd=self.aggregator.cwd,
            agentv=self.agentv,
            of=names_of(case, self.label),
        )
        result = yield from ask(question)
        words = "Code evaluator failed", "Code aggregator failed"  # AgentV's
        misses = tuple(text.replace(*words) if self.agentv else text for text in result.misses)
        return replace(result, misses=misses)
