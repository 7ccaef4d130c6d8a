"""Metrics and an `evaluate` that are called like Ragas', over its column names of either generation.

::

    context_precision.score({"question": ..., "contexts": [...], "ground_truth": ...}, llm=judge)
    result = evaluate(dataset, metrics=[context_precision, context_recall], llm=judge)
    result["context_recall"], result.means, result.why

What differs from Ragas: what could not be measured is None with its reason, never NaN, and counts in no mean; a judge
is named, never a default; all metrics of a data set are one evaluation, which asks each question once (`result.report`
is germane's own report of it).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from germane.errors import InputError
from germane.evaluation.evaluate import evaluate as evaluate_samples
from germane.integrations.measuring import judge_of
from germane.judges.judge import Judge
from germane.measures.measure import Measure
from germane.reports.report import Report
from germane.samples.frames import records
from germane.samples.reading import samples_from
from germane.types import Json, Score

__all__ = [
    "EvaluationResult",
    "Metric",
    "answer_relevancy",
    "context_entity_recall",
    "context_precision",
    "context_recall",
    "context_utilization",
    "evaluate",
    "faithfulness",
]

Values: TypeAlias = list[float | None]


@dataclass(slots=True)
class Metric:
    """A measure under Ragas' name; `llm` is its judge, else that of the call, of GERMANE_JUDGE or the config.

    `against` is what relevance is judged against: the query, and the reference where there is one (auto), or the
    response, as Ragas does without a reference.
    """

    name: str
    measure: str
    against: str = "auto"
    llm: Judge | str | None = None

    def score(self, row: Mapping[str, Json], llm: Judge | str | None = None) -> float | None:
        """The value of one row; None where it could not be measured (`evaluate` says why)."""
        return evaluate([row], [self], llm=llm)[self.name][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """Scores by row and their means.

    `scores[i]` are row i's values by metric, `result["context_recall"]` one metric's values, `means` over what was
    measured (None where nothing was), `why[i]` the reasons for what was not, `reports` germane's own.
    """

    scores: tuple[dict[str, float | None], ...]
    why: tuple[dict[str, str], ...]
    means: dict[str, float | None]
    reports: tuple[Report, ...]

    def __getitem__(self, metric: str) -> Values:
        return [row[metric] for row in self.scores]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name}: {_shown(mean)}" for name, mean in self.means.items()) + "}"


def _shown(mean: float | None) -> str:
    return "not measured" if mean is None else f"{mean:.4f}"


context_precision = Metric("context_precision", "context_precision")
context_utilization = Metric("context_utilization", "context_precision", against="response")
context_recall = Metric("context_recall", "context_recall")
context_entity_recall = Metric("context_entity_recall", "context_entity_recall")
faithfulness = Metric("faithfulness", "faithfulness")
answer_relevancy = Metric("answer_relevancy", "answer_relevancy")

_DEFAULT = (context_precision, context_recall)


def evaluate(
    dataset: Any,
    metrics: Sequence[Metric] = _DEFAULT,
    llm: Judge | str | None = None,
    column_map: Mapping[str, str] | None = None,
) -> EvaluationResult:
    """Score every row of a data set.

    `dataset` is an iterable of mappings or of objects with attributes, a mapping of columns, or anything with
    `to_dict("records")`. `column_map` maps field names to the data set's own (`{"question": "Query"}`).
    """
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise InputError("two metrics have the same name", fix="give each metric once")
    samples = list(samples_from(_rows(dataset), columns=column_map))
    scores: tuple[dict[str, float | None], ...] = tuple({} for _ in samples)
    why: tuple[dict[str, str], ...] = tuple({} for _ in samples)
    means, reports = {}, []
    for group in _groups(metrics, llm):
        measures, judge = [metric.measure for metric in group], judge_of(group[0].llm or llm)
        report = evaluate_samples(samples, measures, judge=judge, against=group[0].against)
        reports.append(report)
        found = defaultdict[str, list[Score]](list)
        for score in report.scores():
            found[score.measure].append(score)
        for metric in group:
            means[metric.name] = report[metric.measure].mean
            for index, score in enumerate(found[str(Measure.parse(metric.measure))]):
                scores[index][metric.name] = score.value
                if score.value is None:
                    why[index][metric.name] = f"{score.status}: {score.why}"
    return EvaluationResult(
        scores=scores, why=why, means={name: means[name] for name in names}, reports=tuple(reports)
    )


def _groups(metrics: Sequence[Metric], llm: Judge | str | None) -> Iterable[list[Metric]]:
    """The metrics that can be one evaluation: same judge, relevance judged against the same."""
    groups = defaultdict[tuple[object, str], list[Metric]](list)
    for metric in metrics:
        judge = metric.llm or llm
        groups[judge if isinstance(judge, str | None) else id(judge), metric.against].append(metric)
    return groups.values()


def _rows(dataset: Any) -> Iterator[dict[str, Json]]:
    """The rows as mappings: a list of ground truths, as the oldest data sets have it, is one reference."""
    if isinstance(dataset, Mapping):
        columns = zip(*dataset.values(), strict=True)
        dataset = [dict(zip(dataset, row, strict=True)) for row in columns]
    for given in records(dataset):
        row = given
        if not isinstance(given, Mapping):
            (row,) = records([given.model_dump() if hasattr(given, "model_dump") else vars(given)])
        truths = row.pop("ground_truths", None)
        if truths and not {"ground_truth", "reference"} & row.keys():
            row["ground_truth"] = "\n".join(truths)
        yield row
