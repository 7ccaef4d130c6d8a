"""Write a report of traces as JSON lines, each of which is the body of one request. Nothing is sent.

- Phoenix: document annotations (`/v1/document_annotations`), by arize-phoenix-client 3.5.
- Langfuse: scores (`/api/public/scores`), by langfuse 5.0.

Each annotation or score names the judge (`judge`) and the source of its labels (`label_source`: gold, judge,
human, best). The ids are stable, so that posting a report again replaces the earlier entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from germane import __version__
from germane.encoding import digest
from germane.errors import InputError
from germane.reports.data import ReportData, models_in
from germane.reports.explain import Explainer
from germane.types import Json, Sample, Score


def _traces(report: ReportData) -> Iterator[tuple[Sample, Sequence[str], list[Score]]]:
    """Yield (sample, span ids, the sample's scores) for each trace; raise InputError if there is none."""
    spans_of = ((sample, sample.metadata.get("spans")) for sample in report.samples())
    traces = {sample.key: (sample, spans) for sample, spans in spans_of if spans and isinstance(spans, tuple)}
    if not traces:
        problem = "no sample of this report comes from a trace, since none has span ids"
        raise InputError(problem, fix="evaluate exported traces (docs/addons/traces.md)")
    for key, scores in groupby(report.scores(), key=lambda score: score.key):
        if key in traces:
            yield *traces[key], list(scores)


def phoenix(report: ReportData) -> Iterator[str]:
    """Yield a line of JSON per trace: the labels of its documents by judge and people, for Phoenix."""
    explainer, judge = Explainer(report), report.judge
    model = any(models_in(judge.identity)) and not judge.stand_in
    for sample, spans, scores in _traces(report):
        calls = explainer.facts(sample, scores).calls
        results = [
            _annotation(span, context, label, judge.source or "", "LLM" if model else "CODE")
            for span, call in zip(spans, calls, strict=False)
            for context in call.contexts
            for label in context.labels
            if label.source != "gold" and label.grade is not None
        ]
        if results:
            yield json.dumps({"data": results}, ensure_ascii=False) + "\n"


def _annotation(span: str, context: Any, label: Any, judge: str, kind: str) -> dict[str, Json]:
    """Return a Phoenix annotation of the document `context` that the span (its id) retrieved."""
    if label.source == "human":
        judge, kind = label.who or "people", "HUMAN"
    result = {"label": "relevant" if label.relevant else "not_relevant", "score": float(label.grade)}
    about = {"judge": judge, "label_source": label.source, "item": context.item, "germane": __version__}
    return {
        "name": "relevance",
        "annotator_kind": kind,
        "span_id": span,
        "document_position": context.rank - 1,
        "result": result | ({"explanation": label.reason} if label.reason else {}),
        "metadata": about,
        "identifier": f"germane {judge}",
    }


def langfuse(report: ReportData) -> Iterator[str]:
    """Yield a line of JSON per score for Langfuse: of the observation if a trace has one search."""
    basis = {(row.measure, row.system): row.basis.source for row in report.summaries}
    for sample, spans, scores in _traces(report):
        for score in (score for score in scores if score.value is not None):
            labels = basis.get((score.measure, score.system), "judge")
            judge = {"judge": report.judge.source or ""} if labels in {"judge", "best"} else {}
            source = {**judge, "label_source": labels}
            named = [sample.id, sample.system, sample.trial, score.measure, source]
            row = {
                "id": f"germane-{digest(named)}",
                "traceId": sample.id,
                "observationId": spans[0] if len(spans) == 1 else None,
                "name": score.measure,
                "value": score.value,
                "dataType": "NUMERIC",
                "comment": score.why,
                "metadata": {**source, "germane": __version__},
                "timestamp": str(report.manifest.get("created") or "1970-01-01T00:00:00+00:00"),
            }
            known = {key: value for key, value in row.items() if value is not None}
            yield json.dumps(known, ensure_ascii=False) + "\n"
