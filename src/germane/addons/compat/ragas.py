"""Metrics and a function `evaluate` with the interface and the column names of Ragas.

::

    context_precision.score({"question": ..., "contexts": [...], "ground_truth": ...}, llm=judge)
    result = evaluate(dataset, metrics=[context_precision, context_recall], llm=judge)
    result["context_recall"], result.means, result.why, result.to_pandas()

`llm` is a judge or a judge's name; without it, GERMANE_JUDGE or the config names the judge.

Differences from Ragas: A score that could not be computed is None, never NaN. Its reason is in `why`, and it
is left out of the mean. All metrics of a data set are computed in one evaluation, which asks each question
once; `result.reports` holds germane's own reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from germane import Measure, Report
from germane.errors import InputError, MissingPart, describe
from germane.integrations.measuring import SharedJudge
from germane.judging.caller import run_coroutine
from germane.samples import records, samples_from
from germane.types import Json


@dataclass(frozen=True, slots=True)
class Metric:
    """A measure under the name that Ragas uses.

    `name` is Ragas' name and `measure` germane's. Relevance is judged against the query and the field
    `against` of a sample; "auto" is the reference.
    """

    name: str
    measure: str
    against: str = "auto"

    def score(self, row: Any, llm: Any = None) -> float | None:
        """Return the score of one row by the judge `llm`; None if it could not be computed."""
        return evaluate([row], [self], llm=llm)[self.name][0]


context_precision = Metric("context_precision", "context_precision")
context_utilization = Metric("context_utilization", "context_precision", against="response")
context_recall = Metric("context_recall", "context_recall")
context_entity_recall = Metric("context_entity_recall", "context_entity_recall")
faithfulness = Metric("faithfulness", "faithfulness")
answer_relevancy = Metric("answer_relevancy", "answer_relevancy")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The scores of each row, and the mean of each metric.

    `scores[i]` maps metrics to the scores of row i, and `why[i]` maps metrics to the reasons for missing
    scores of row i. `result["context_recall"]` is the list of one metric's scores. `means` are the means over
    the scores that could be computed; a mean is None if there are none. `rows` are the rows of the data set,
    and `reports` are germane's own reports.
    """

    scores: tuple[dict[str, float | None], ...]
    why: tuple[dict[str, str], ...]
    means: dict[str, float | None]
    reports: tuple[Report, ...]
    rows: tuple[dict[str, Json], ...] = ()

    def to_pandas(self) -> Any:
        """Return a DataFrame with the columns of the data set, followed by a column for each metric.

        Raises MissingPart if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingPart("a DataFrame needs the package pandas", fix="pip install pandas") from None
        pairs = zip(self.rows, self.scores, strict=True)
        return pd.DataFrame([{**row, **scores} for row, scores in pairs])

    def __getitem__(self, metric: str) -> list[float | None]:
        return [row[metric] for row in self.scores]

    def __str__(self) -> str:
        means = {name: "not measured" if mean is None else f"{mean:.4f}" for name, mean in self.means.items()}
        return "{" + ", ".join(f"{name}: {mean}" for name, mean in means.items()) + "}"


def evaluate(
    dataset: Any,
    metrics: Sequence[Any] = (context_precision, context_recall),
    llm: Any = None,
    *,
    column_map: Mapping[str, str] | None = None,
) -> EvaluationResult:
    """Score every row of a data set.

    `dataset` is an iterable of mappings or of objects with attributes (such as a Ragas EvaluationDataset), a
    mapping of columns, or an object with the method `to_dict("records")`. `llm` is a judge or a judge's name;
    None means the judge of GERMANE_JUDGE or the config. `column_map` maps names of fields to the data set's
    names of columns (`{"question": "Query"}`). Raises InputError if a metric is
    not from this module or occurs twice.
    """
    if other := next((metric for metric in metrics if not isinstance(metric, Metric)), None):
        problem = f"{getattr(other, '__name__', type(other).__name__)} is not one of germane's metrics"
        raise InputError(problem, fix="import it from germane.addons.compat.ragas")
    if len({metric.name for metric in metrics}) < len(metrics):
        raise InputError("the names of metrics must be unique", fix="give each metric once")
    by_against = defaultdict[str, list[Metric]](list)
    for metric in metrics:
        by_against[metric.against].append(metric)
    rows = tuple(_rows(dataset))
    samples = list(samples_from(rows, columns=column_map))
    scores: tuple[dict[str, float | None], ...] = tuple({} for _ in samples)
    why: tuple[dict[str, str], ...] = tuple({} for _ in samples)
    means, reports, judge = dict[str, float | None](), list[Report](), SharedJudge(llm)
    for against, group in by_against.items():
        report = run_coroutine(judge.areport(samples, [metric.measure for metric in group], against))
        reports.append(report)
        for metric in group:
            means[metric.name], measure = report[metric.measure].mean, str(Measure.parse(metric.measure))
            for index, score in enumerate(row for row in report.scores() if row.measure == measure):
                scores[index][metric.name] = score.value
                if score.value is None:
                    why[index][metric.name] = f"{score.status}: {score.why}"
    return EvaluationResult(scores=scores, why=why, means=means, reports=tuple(reports), rows=rows)


def _rows(dataset: Any) -> Iterator[dict[str, Json]]:
    """Yield the rows of a data set as mappings."""
    if isinstance(dataset, Mapping):
        columns = [None if isinstance(column, str) else column for column in dataset.values()]
        try:
            dataset = [dict(zip(dataset, row, strict=True)) for row in zip(*columns, strict=True)]
        except (TypeError, ValueError):
            problem = "the columns of a data set must be lists of the same length"
            raise InputError(problem, fix='write {"question": [...], "contexts": [[...], ...]}') from None
    for record in records(dataset):
        row = record
        if not isinstance(record, Mapping):
            if (fields := getattr(record, "__dict__", None)) is None:
                fix = "give mappings, or objects with attributes"
                raise InputError(f"a row of the data set is {describe(record)}", fix=fix)
            (row,) = records([fields])
        truths = row.pop("ground_truths", None)
        if truths and not {"ground_truth", "reference"} & row.keys():
            texts = isinstance(truths, list | tuple) and all(isinstance(text, str) for text in truths)
            row["ground_truth"] = "\n".join(truths) if texts else truths
        yield row
