"""Write a report of traces as JSON lines ready to be posted: each line is the body of one request. Nothing is sent.

- Phoenix: document annotations (`/v1/document_annotations`), by arize-phoenix-client 3.5.
- Langfuse: scores (`/api/public/scores`), by langfuse 5.0.

Each names the judge (`judge`) and the source of the labels (`label_source`: gold, judge, human, best). What is written twice has
the same id, and replaces what was there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from germane import __version__
from germane.encoding import digest
from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.explain import Explainer
from germane.reports.manifest import models_in
from germane.types import Json, Sample, Score


class _Traced:
    """The samples of a report that are traces, with their scores and the sources of these."""

    def __init__(self, report: ReportData) -> None:
        self._report = report
        self._basis = {(row.measure, row.system): row.basis.source for row in report.summaries}
        self.created = str(report.manifest.get("created") or "1970-01-01T00:00:00+00:00")
        self.judge = report.judge.source or ""
        asked = any(models_in(report.judge.identity)) and not report.judge.stand_in
        self.machine = "LLM" if asked else "CODE"
        """The kind of annotator that the judge is, in the words of OpenInference."""

    def __iter__(self) -> Iterator[tuple[Sample, Sequence[str], list[Score]]]:
        """Yield each trace with the spans whose lists were judged and its scores. InputError if no sample is a trace."""
        found = ((sample, sample.metadata.get("spans")) for sample in self._report.samples())
        traces = {
            sample.key: (sample, spans) for sample, spans in found if spans and isinstance(spans, tuple)
        }
        if not traces:
            problem = "no sample of this report is a trace: none names the spans that it is from"
            raise InputError(problem, fix="evaluate an export of traces (docs/addons/traces.md)")
        for key, scores in groupby(self._report.scores(), key=lambda score: score.key):
            if key in traces:
                yield *traces[key], list(scores)

    def source(self, score: Score) -> dict[str, Json]:
        """Return the source of a score's labels, and the judge if it is one."""
        source = self._basis.get((score.measure, score.system), "judge")
        judge = {"judge": self.judge} if source in {"judge", "best"} else {}
        return {**judge, "label_source": source}


def phoenix(report: ReportData) -> Iterator[str]:
    """Yield the labels of each trace's documents, a judge's and people's, as document annotations of the spans."""
    traced, explainer = _Traced(report), Explainer(report)
    for sample, spans, scores in traced:
        calls = explainer.facts(sample, scores).calls
        results = [
            _annotation(span, context, label, traced)
            for span, call in zip(spans, calls, strict=False)
            for context in call.contexts
            for label in context.labels
            if label.source != "gold" and label.grade is not None
        ]
        if results:
            yield _line({"data": results})


def _annotation(span: str, context: Any, label: Any, traced: _Traced) -> dict[str, Json]:
    """Return one label of a span's document as a Phoenix annotation."""
    human = label.source == "human"
    judge = (label.who or "people") if human else traced.judge
    result = {"label": "relevant" if label.relevant else "not_relevant", "score": float(label.grade)}
    return {
        "name": "relevance",
        "annotator_kind": "HUMAN" if human else traced.machine,
        "span_id": span,
        "document_position": context.rank - 1,
        "result": result | ({"explanation": label.reason} if label.reason else {}),
        "metadata": {
            "judge": judge,
            "label_source": label.source,
            "item": context.item,
            "germane": __version__,
        },
        "identifier": f"germane {judge}",
    }


def langfuse(report: ReportData) -> Iterator[str]:
    """Yield each score of each trace; with one search it belongs to the observation that retrieved."""
    traced = _Traced(report)
    for sample, spans, scores in traced:
        for score in (score for score in scores if score.value is not None):
            source = traced.source(score)
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
                "timestamp": traced.created,
            }
            yield _line({key: value for key, value in row.items() if value is not None})


def _line(document: Json) -> str:
    return json.dumps(document, ensure_ascii=False) + "\n"
