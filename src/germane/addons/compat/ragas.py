"""Metrics and an `evaluate` with Ragas' call shapes of every generation, over its column names.

::

    context_precision.score({"question": ..., "contexts": [...], "ground_truth": ...}, llm=judge)
    result = evaluate(dataset, metrics=[LLMContextPrecisionWithReference(), LLMContextRecall()], llm=judge)
    result["context_recall"], result.means, result.why, result.to_pandas()
    await LLMContextRecall(llm=judge).single_turn_ascore(sample)
    (await ContextRecall(llm=judge).ascore(user_input=..., retrieved_contexts=[...], reference=...)).value

`llm` is a judge, its name, or an object of Ragas' (`llm_factory`, `LangchainLLMWrapper`), whose model is then asked where it
is asked there.

What differs from Ragas: what could not be measured is None with its reason, never NaN, and counts in no mean; a judge
is named, never a default; all metrics of a data set are one evaluation, which asks each question once (`result.report`
is germane's own report of it).
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, TypeAlias

from germane import Measure, Report
from germane.errors import InputError, JudgeError, MissingPart
from germane.evaluation import run_coroutine
from germane.integrations import SharedJudge, required
from germane.samples import records, samples_from
from germane.types import Json

Values: TypeAlias = list[float | None]


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One value; None where it could not be measured, and `reason` says why."""

    value: float | None
    reason: str | None = None


@dataclass
class Metric:
    """A measure under Ragas' name; the judge is `llm`, else that of the call, of GERMANE_JUDGE or of the config.

    `against` is what relevance is judged against: the query, and the reference where there is one (auto), or the
    response, as Ragas does without a reference. `needs` are the fields that the calls by keyword cannot do without.
    """

    name: str
    measure: str
    against: str = "auto"
    llm: Any = None
    needs: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def judge(self) -> SharedJudge:
        """The judge for all of the metric's calls."""
        return SharedJudge(self.llm, called="llm")

    def score(self, row: Any = None, llm: Any = None, **fields: Json) -> Any:
        """Return the value of one row, or None if it could not be measured; for `fields` given by keyword a MetricResult."""
        if row is None:
            return run_coroutine(self.ascore(**fields))
        return evaluate([row], [self], llm=llm)[self.name][0]

    async def ascore(self, **fields: Json) -> MetricResult:
        """Return the value of one case, or why there is none. InputError where a field is missing or has another name."""
        return (await self.abatch_score([fields]))[0]

    def batch_score(self, inputs: Sequence[Mapping[str, Json]]) -> list[MetricResult]:
        """Return the values of several cases, in one evaluation."""
        return run_coroutine(self.abatch_score(inputs))

    async def abatch_score(self, inputs: Sequence[Mapping[str, Json]]) -> list[MetricResult]:
        """Return the values of several cases in one evaluation, in an event loop."""
        for fields, name in product(inputs, self.needs):
            required(fields.get(name), name, type(self).__name__)
        # who compares a reference with contexts alone is shown no query, and a sample has one
        result = await aevaluate([{"user_input": "-", **fields} for fields in inputs], [self])
        pairs = zip(result[self.name], result.why, strict=True)
        return [MetricResult(value, why.get(self.name)) for value, why in pairs]

    def single_turn_score(self, sample: Any, callbacks: Any = None) -> float | None:
        """Return the value of a SingleTurnSample; None where it could not be measured. `callbacks` are not called."""
        return run_coroutine(self.single_turn_ascore(sample, callbacks))

    async def single_turn_ascore(
        self,
        sample: Any,
        callbacks: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as in Ragas
    ) -> float | None:
        """Return the value of a SingleTurnSample in an event loop; TimeoutError after `timeout` seconds."""
        del callbacks
        async with asyncio.timeout(timeout):
            return (await aevaluate([sample], [self]))[self.name][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """Scores by row and their means.

    `scores[i]` are row i's values by metric, `result["context_recall"]` one metric's values, `means` over what was
    measured (None where nothing was), `why[i]` the reasons for what was not, `rows` what was given, `reports` germane's own.
    """

    scores: tuple[dict[str, float | None], ...]
    why: tuple[dict[str, str], ...]
    means: dict[str, float | None]
    reports: tuple[Report, ...]
    rows: tuple[dict[str, Json], ...] = ()

    def to_pandas(self) -> Any:
        """Return a DataFrame: the columns of the data set, then one for each metric, None where it could not be measured."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingPart("a DataFrame takes pandas", fix="pip install pandas") from None
        pairs = zip(self.rows, self.scores, strict=True)
        return pd.DataFrame([{**row, **scores} for row, scores in pairs])

    def __getitem__(self, metric: str) -> Values:
        return [row[metric] for row in self.scores]

    def __str__(self) -> str:
        means = {name: "not measured" if mean is None else f"{mean:.4f}" for name, mean in self.means.items()}
        return "{" + ", ".join(f"{name}: {mean}" for name, mean in means.items()) + "}"


class _Class(Metric):
    """A metric that is made by calling its class, with Ragas' arguments."""

    called: ClassVar[tuple[str, str, str]]

    def __init__(self, llm: Any = None, name: str | None = None, **of_ragas: Any) -> None:
        if unknown := of_ragas.keys() - {"embeddings", "max_retries", "strictness", "output_type"}:
            problem = f"{type(self).__name__} has no argument {min(unknown)}"
            raise InputError(problem, fix="leave it out: prompts are files here (LLMJudge(prompts=...))")
        called, measure, against = self.called
        super().__init__(name or called, measure, against, llm)


_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _class(name: str, measure: str, *needs: str, called: str = "", against: str = "auto") -> type[_Class]:
    """Return a metric class called `name` that computes this measure from these fields; instances are `called` like it."""
    named = called or _WORD.sub("_", name).lower()
    members = {"called": (named, measure, against), "needs": needs, "__module__": __name__}
    return type(name, (_Class,), {**members, "__doc__": f"germane's {measure}, under Ragas' name."})


_PASSAGES = "user_input", "retrieved_contexts"
_PRECISION, _RECALL, _RELEVANCY = "context_precision", "context_recall", "answer_relevancy"
_OF_REFERENCE = (_PRECISION, *_PASSAGES, "reference")
_OF_RESPONSE = (_PRECISION, *_PASSAGES, "response")
LLMContextPrecisionWithReference = _class("LLMContextPrecisionWithReference", *_OF_REFERENCE)
ContextPrecision = _class("ContextPrecision", *_OF_REFERENCE)
ContextPrecisionWithReference = _class("ContextPrecisionWithReference", *_OF_REFERENCE)
LLMContextPrecisionWithoutReference = _class(
    "LLMContextPrecisionWithoutReference", *_OF_RESPONSE, against="response"
)
ContextUtilization = _class("ContextUtilization", *_OF_RESPONSE, against="response")
ContextPrecisionWithoutReference = _class(
    "ContextPrecisionWithoutReference", *_OF_RESPONSE, against="response"
)
LLMContextRecall = _class("LLMContextRecall", _RECALL, *_PASSAGES, "reference", called=_RECALL)
ContextRecall = _class("ContextRecall", _RECALL, *_PASSAGES, "reference")
ContextEntityRecall = _class(
    "ContextEntityRecall", "context_entity_recall", "reference", "retrieved_contexts"
)
Faithfulness = _class("Faithfulness", "faithfulness", *_PASSAGES, "response")
ResponseRelevancy = _class("ResponseRelevancy", _RELEVANCY, "user_input", "response", called=_RELEVANCY)
AnswerRelevancy = _class("AnswerRelevancy", _RELEVANCY, "user_input", "response")

context_precision = Metric(_PRECISION, _PRECISION)
context_utilization = Metric("context_utilization", _PRECISION, against="response")
context_recall = Metric(_RECALL, _RECALL)
context_entity_recall = Metric("context_entity_recall", "context_entity_recall")
faithfulness = Metric("faithfulness", "faithfulness")
answer_relevancy = Metric(_RELEVANCY, _RELEVANCY)


def evaluate(
    dataset: Any, metrics: Sequence[Any] | None = None, llm: Any = None, **settings: Any
) -> EvaluationResult:
    """Score every row of a data set, synchronously: see `aevaluate`."""
    return run_coroutine(aevaluate(dataset, metrics, llm, **settings))


_OF_RAGAS = {
    "embeddings", "experiment_name", "callbacks", "run_config", "token_usage_parser", "show_progress", "batch_size",
    "allow_nest_asyncio",
}  # fmt: skip
"""Arguments of Ragas' that change no score, or that the judge has itself."""


async def aevaluate(
    dataset: Any,
    metrics: Sequence[Any] | None = None,
    llm: Any = None,
    *,
    column_map: Mapping[str, str] | None = None,
    raise_exceptions: bool = False,
    **of_ragas: Any,
) -> EvaluationResult:
    """Score every row of a data set.

    `dataset` is a Ragas EvaluationDataset, an iterable of mappings or of objects with attributes, a mapping of columns, or
    anything with `to_dict("records")`. `column_map` maps field names to the data set's own (`{"question": "Query"}`). With
    `raise_exceptions` the first score that the judge failed to give is raised as a JudgeError. Ragas' other arguments are accepted
    and ignored.
    """
    metrics = (context_precision, context_recall) if metrics is None else metrics
    if unknown := of_ragas.keys() - _OF_RAGAS:
        raise InputError(f"evaluate has no argument {min(unknown)}", fix="leave it out")
    if other := next((metric for metric in metrics if not isinstance(metric, Metric)), None):
        value = getattr(other, "__name__", type(other).__name__)
        made = f"call it: {value}()" if isinstance(other, type) and issubclass(other, Metric) else (
            "import it from germane.addons.compat.ragas, or leave it to Ragas"
        )  # fmt: skip
        raise InputError(f"{value} is not a metric of germane's", fix=made)
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise InputError("two metrics have the same name", fix="give each metric once")
    rows = tuple(_rows(dataset))
    samples = list(samples_from(rows, columns=column_map))
    scores: tuple[dict[str, float | None], ...] = tuple({} for _ in samples)
    why: tuple[dict[str, str], ...] = tuple({} for _ in samples)
    means, reports = {}, []
    for group in _groups(metrics, llm):
        shared = group[0].judge if group[0].llm or llm is None else SharedJudge(llm, called="llm")
        report = await shared.areport(samples, [metric.measure for metric in group], group[0].against)
        reports.append(report)
        for metric in group:
            means[metric.name], measure = report[metric.measure].mean, str(Measure.parse(metric.measure))
            for index, score in enumerate(row for row in report.scores() if row.measure == measure):
                scores[index][metric.name] = score.value
                if score.value is None:
                    why[index][metric.name] = f"{score.status}: {score.why}"
                    if raise_exceptions and score.status in {"error", "incomplete"}:
                        raise JudgeError(f"{metric.name} of row {index}: {score.why}")
    ordered = {name: means[name] for name in names}
    return EvaluationResult(scores=scores, why=why, means=ordered, reports=tuple(reports), rows=rows)


def _groups(metrics: Sequence[Metric], llm: Any) -> Iterable[list[Metric]]:
    """Return the metrics grouped into evaluations: those with the same judge and the same `against`."""
    groups = defaultdict[tuple[object, str], list[Metric]](list)
    for metric in metrics:
        judge = metric.llm or llm
        groups[judge if isinstance(judge, str | None) else id(judge), metric.against].append(metric)
    return groups.values()


def _rows(dataset: Any) -> Iterator[dict[str, Json]]:
    """Yield the rows as mappings; a list of ground truths, as in the oldest data sets, becomes one reference."""
    if isinstance(dataset, Mapping):
        columns = zip(*dataset.values(), strict=True)
        dataset = [dict(zip(dataset, row, strict=True)) for row in columns]
    for record in records(dataset):
        row = record
        if not isinstance(record, Mapping):
            (row,) = records([record.model_dump() if hasattr(record, "model_dump") else vars(record)])
        truths = row.pop("ground_truths", None)
        if truths and not {"ground_truth", "reference"} & row.keys():
            row["ground_truth"] = "\n".join(truths)
        yield row
