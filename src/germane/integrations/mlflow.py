"""germane's measures as an MLflow scorer: `mlflow.genai.evaluate(data=..., scorers=[scorer("context_recall RR")])`.

`inputs`, `outputs` and `expectations` contain the fields of a sample. A string is the query, the response or
the reference. A mapping names its fields as a data file does (`question`, `retrieved_contexts`,
`expected_response`, ...). If there are no contexts, they are taken from the trace's retriever spans, one
search per span.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mlflow.genai
from mlflow.entities import AssessmentError, AssessmentSource, Feedback, SpanStatusCode, SpanType

from germane.errors import excerpt
from germane.evaluation.evaluate import asked_graders
from germane.integrations.measuring import Measured, SharedJudge, row_of
from germane.judges.judge import Judge
from germane.samples.contexts import passages_in
from germane.samples.fields import SPELLINGS, id_in
from germane.types import Json


def scorer(
    measures: str,
    *,
    judge: Judge | str | None = None,
    ledger: str | Path | None = None,
    name: str = "germane",
) -> Any:
    """Return a scorer that gives one Feedback per measure; nDCG@10 is named `nDCG_at_10`, without "@".

    A score that could not be computed has no value but an error with the reason, so it is left out of means.
    The source is the judge. The metadata contain the canonical name, status and bounds. The rationale says
    what was found and what is missing.

    Args:
        measures: The names of the measures, separated by spaces: "context_recall nDCG@10".
        judge: A judge or its name. Default: the judge of GERMANE_JUDGE or the config. Measures of gold need
            no judge.
        ledger: The ledger in which answers are stored, so that a second evaluation does not pay for them
            again.
        name: The name of the scorer in MLflow.
    """
    shared = SharedJudge(judge, ledger)
    asked_graders(measures)  # an unknown measure is an error before any row is scored

    def score(inputs: Any = None, outputs: Any = None, expectations: Any = None, trace: Any = None) -> Any:
        row = row_of(_single(inputs), outputs, _expected(expectations))
        if trace is not None and not any(SPELLINGS.get(key) in {"contexts", "calls"} for key in row):
            row |= _retrieved(trace, by_uri="expected_retrieved_context" in (expectations or ()))
        return [_feedback(measured) for measured in shared.measure(row, measures)]

    return mlflow.genai.scorer(name=name)(score)


def _single(fields: Any) -> Any:
    """Return the string in a mapping that contains nothing else, under a name that no data file uses."""
    if isinstance(fields, dict) and len(fields) == 1:
        ((name, value),) = fields.items()
        return value if name not in SPELLINGS and isinstance(value, str) else fields
    return fields


def _expected(fields: Any) -> Any:
    if not isinstance(fields, dict):
        return fields
    row = {name: value for name, value in fields.items() if not name.startswith("expected_")}
    if response := fields.get("expected_response"):
        row["reference"] = response
    if documents := fields.get("expected_retrieved_context"):
        gold = (item.get("doc_uri") or id_in(item) if isinstance(item, dict) else item for item in documents)
        row["qrels"] = list(gold)  # a document without an id is an error when gold is read
    return row


def _retrieved(trace: Any, *, by_uri: bool) -> dict[str, Json]:
    """Return the searches of a trace, one per outermost retriever span, as fields of a row."""
    spans = trace.search_spans(span_type=SpanType.RETRIEVER)
    inside = {span.span_id for span in spans}
    calls = []
    for span in (span for span in spans if span.parent_id not in inside):
        query = next(iter(span.inputs.values()), None) if isinstance(span.inputs, dict) else None
        contexts, error = passages_in(span.outputs), None
        if span.status.status_code == SpanStatusCode.ERROR:
            error = f"the retriever failed: {span.status.description or span.name}"
        elif contexts is None:
            error = f"no passages found in the output of {span.name}: {excerpt(span.outputs)}"
        if by_uri:
            about = [isinstance(context, dict) and context.get("metadata") for context in contexts or ()]
            uris = [at.get("doc_uri") if isinstance(at, dict) else None for at in about]
            both = zip(contexts or (), uris, strict=True)
            contexts = [context if uri is None else {**context, "id": uri} for context, uri in both]
        text = query if isinstance(query, str) else None
        calls.append({"query": text, "contexts": contexts or [], "error": error})
    if len(calls) == 1:
        return {name: calls[0][name] for name in ("contexts", "error")}
    return {"calls": calls} if calls else {}


def _feedback(measured: Measured) -> Feedback:
    score, kind = measured.score, "CODE" if measured.source == "gold" else "LLM_JUDGE"
    plain = re.sub(r"[^A-Za-z0-9_. :/-]+|_{2,}", "_", score.measure.replace("@", "_at_"))
    bounds = {"bounds": f"{score.bounds[0]:g} to {score.bounds[1]:g}"} if score.bounds else {}
    return Feedback(
        name=plain.replace("__", "_").strip("_"),  # MLflow allows only these characters in names
        value=score.value,
        error=AssessmentError(score.status.upper(), measured.problem) if measured.problem else None,
        rationale=measured.reason,
        source=AssessmentSource(source_type=kind, source_id=measured.source),
        metadata={"measure": score.measure, "status": score.status, **bounds},
    )
