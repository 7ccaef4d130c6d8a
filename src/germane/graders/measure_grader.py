"""The grader that scores a case by a measure, so that measures can be combined with other graders."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

from msgspec import structs
from pydantic import InstanceOf, PlainValidator

from germane.errors import Invalid, describe
from germane.evalfiles import Case
from germane.graders.grader import CaseGrader, GraderResult, together
from germane.measures.declaration import DECLARED, Grader
from germane.measures.explaining import CANNOT, Explanation, explain_judged, explain_ranked
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import Block, Job
from germane.places.lists import Settings
from germane.questions.asking import Program
from germane.types import Context, FrozenDict, Sample
from germane.yamltext import Flag, Texts, WholeNumber

NOT_FOUND = "No retrieved context found in candidate answer"


def _measure(measure: Any) -> Any:
    if not isinstance(measure, Measure | str):
        fix = "write a measure's name: context_precision@5"
        raise Invalid(f"is {describe(measure)}, not a measure", fix)
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

    measure: Annotated[Measure, PlainValidator(_measure, json_schema_input_type=str)]
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
        return self.result(sample, outcome, self._explained(outcome, block, results))

    def _explained(self, outcome: Outcome, block: Block, results: list[Any]) -> Explanation:
        if (placed := block.places(0, self.measure)) is not None:
            return explain_ranked(self.measure, replace(outcome, why=None), *placed)
        if not results:
            return Explanation(outcome=outcome, reasoning=outcome.why or "")
        return explain_judged(self.measure, outcome, results[0])

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
