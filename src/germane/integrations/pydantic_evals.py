"""germane's measures as a pydantic-evals evaluator: `Dataset(cases=..., evaluators=[Germane("context_recall RR")])`.

Inputs, output and expected output become the fields of a sample: a text is the query, the response or the
reference; an output list is the contexts, an expected list the gold ids; a mapping or a model names its
fields as a data file does. A case's metadata, if it is a mapping, adds fields (`qrels`, `reference`, `tags`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

from germane.evaluation.evaluate import asked_graders
from germane.integrations.measuring import SharedJudge, row_of
from germane.judges.judge import Judge


@dataclass
class Germane(Evaluator[Any, Any, Any]):  # type: ignore[misc]  # not installed where types are checked
    """Measures of germane for every case, each under its canonical name.

    A score that could not be measured is a label, the status with its reason, and never a number: it is in no average.
    The reason names the judge.

    Attributes:
        measures: Their names, separated by spaces: "context_recall nDCG@10".
        judge: A judge or its name; without one GERMANE_JUDGE or the config names it, and measures of gold need none.
        ledger: Where answers are kept, so that a second evaluation pays for none of them.
    """

    measures: str
    judge: Judge | str | None = None
    ledger: str | Path | None = None

    def __post_init__(self) -> None:
        """Raise InputError for an unknown measure before any case is run."""
        asked_graders(self.measures)
        self._judge = SharedJudge(self.judge, self.ledger)

    async def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> dict[str, EvaluationReason]:
        """Return the scores of one case. InputError where a field cannot be read."""
        row = row_of(ctx.inputs, ctx.output, ctx.expected_output)
        row |= ctx.metadata if isinstance(ctx.metadata, Mapping) else {}
        return {
            of.score.measure: EvaluationReason(
                of.score.status if of.score.value is None else of.score.value,
                f"{of.problem or of.reason} [{of.source}]",
            )
            for of in await self._judge.ameasure(row, self.measures)
        }
