"""germane's measures as a pydantic-evals evaluator: `Dataset(cases=..., evaluators=[Germane("context_recall RR")])`.

Inputs, output and expected output become the fields of a sample. A string is the query, the response or the
reference. A list contains the contexts (as output) or the gold ids (as expected output). A mapping or a model
names its fields as a data file does. If a case's metadata are a mapping, they add fields (`qrels`, `tags`).
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
    """An evaluator that computes measures of germane for every case, each under its canonical name.

    If a score cannot be computed, its status is returned as a label, with the reason. It is not a number, so
    it is left out of averages. The reason of each score names the judge.

    Attributes:
        measures: The names of the measures, separated by spaces: "context_recall nDCG@10".
        judge: A judge or its name. Default: the judge of GERMANE_JUDGE or the config. Measures of gold need
            no judge.
        ledger: The ledger in which answers are stored, so that a second evaluation does not pay for them
            again.
    """

    measures: str
    judge: Judge | str | None = None
    ledger: str | Path | None = None

    def __post_init__(self) -> None:
        """Raise InputError for an unknown measure before any case is run."""
        asked_graders(self.measures)
        self._judge = SharedJudge(self.judge, self.ledger)

    async def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> dict[str, EvaluationReason]:
        """Return the scores of one case, by measure. Raises InputError if a field cannot be read."""
        row = row_of(ctx.inputs, ctx.output, ctx.expected_output)
        row |= ctx.metadata if isinstance(ctx.metadata, Mapping) else {}
        return {
            result.score.measure: EvaluationReason(
                result.score.status if result.score.value is None else result.score.value,
                f"{result.problem or result.reason} [{result.source}]",
            )
            for result in await self._judge.ameasure(row, self.measures)
        }
