"""A report of traces as JSON lines that are ready to be posted: each line is the body of one request. Nothing is sent.

- OpenTelemetry: `gen_ai.evaluation.result` events as OTLP/JSON logs (`/v1/logs`), by the GenAI semantic conventions of 1.41.1,
  whose status is "development".
- Phoenix: document annotations (`/v1/document_annotations`), by arize-phoenix-client 3.5.
- Langfuse: scores (`/api/public/scores`), by langfuse 5.0.

Each says who judged (`judge`), the hashes of the prompts that it was asked with (`prompts`), and whose label it is
(`label_source`: gold, judge, human, best). What is written twice has the same id, and replaces what was there.
"""

from __future__ import annotations

import datetime
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from germane import __version__
from germane.encoding import digest
from germane.errors import InputError
from germane.reports import Explainer, ReportData, models_in
from germane.types import Json, Sample, Score

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
"""The semantic conventions that the events follow."""
_SEVERITY = 9
"""The severity number of INFO in OpenTelemetry's log model."""


class _Traced:
    """The samples of a report that are traces, with their scores and what stands behind these."""

    def __init__(self, report: ReportData) -> None:
        self._report = report
        self._basis = {
            (summary.measure, summary.system): summary.basis.source for summary in report.summaries
        }
        self.created = str(report.manifest.get("created") or "1970-01-01T00:00:00+00:00")

    def __iter__(self) -> Iterator[tuple[Sample, list[Score]]]:
        """Each trace with its scores. InputError where no sample is one."""
        traces = {sample.key: sample for sample in self._report.samples() if self.spans_of(sample)}
        if not traces:
            fix = "evaluate an export of traces (docs/addons/traces.md)"
            raise InputError(
                "no sample of this report is a trace: none names the spans that it is from", fix=fix
            )
        for key, scores in groupby(self._report.scores(), key=lambda score: score.key):
            if key in traces:
                yield traces[key], list(scores)

    @staticmethod
    def spans_of(sample: Sample) -> Sequence[str]:
        """The ids of the spans whose lists were judged, one for each search."""
        spans = sample.metadata.get("spans")
        return spans if isinstance(spans, tuple) and all(isinstance(span, str) for span in spans) else ()

    def source(self, score: Score) -> dict[str, Json]:
        """The judge behind a score, the prompts that it was asked with, and the source of the labels."""
        source = self._basis.get((score.measure, score.system), "judge")
        if source not in {"judge", "best"}:
            return {"label_source": source}
        reads = (self._report.manifest.get("reads") or {}).get(score.type) or list(self._prompts)
        prompts = sorted({prompt for kind in reads for prompt in self._prompts.get(kind, ())})
        return {"judge": self.judge, "prompts": prompts, "label_source": source}

    @property
    def judge(self) -> str:
        """The name of the report's judge; "" where none was asked."""
        return str((self._report.manifest.get("judge") or {}).get("source") or "")

    @property
    def machine(self) -> str:
        """The kind of annotator that the judge is, in the words of OpenInference."""
        judge = self._report.manifest.get("judge") or {}
        identity = judge.get("identity") or {}
        return "LLM" if any(models_in(identity)) and not judge.get("stand_in") else "CODE"

    @cached_property
    def _prompts(self) -> Mapping[str, set[str]]:
        result: defaultdict[str, set[str]] = defaultdict(set)
        for row in self._report.judgements():
            if row.prompt:
                result[row.kind].add(row.prompt)
        return result

    @cached_property
    def asked(self) -> Mapping[str, dict[str, Json]]:
        """The judge of each judged passage and its prompt, by its item."""
        return {
            row.item: {"judge": row.judge, "prompts": [row.prompt] if row.prompt else []}
            for row in self._report.judgements()
            if row.kind == "relevance" and row.parent is None
        }


def otel(report: ReportData) -> Iterator[str]:
    """The events of each trace as one OTLP/JSON export of logs."""
    traced = _Traced(report)
    nano = str(int(datetime.datetime.fromisoformat(traced.created).timestamp()) * 10**9)
    for sample, scores in traced:
        spans = traced.spans_of(sample)
        records = [
            {
                "timeUnixNano": nano,
                "observedTimeUnixNano": nano,
                "severityNumber": _SEVERITY,
                "eventName": "gen_ai.evaluation.result",
                **({"traceId": sample.id.lower()} if _hex(sample.id, 32) else {}),
                **({"spanId": spans[0].lower()} if len(spans) == 1 and _hex(spans[0], 16) else {}),
                "attributes": [
                    {"key": key, "value": _value(value)}
                    for key, value in {
                        "gen_ai.evaluation.name": score.measure,
                        "gen_ai.evaluation.score.value": score.value,
                        "gen_ai.evaluation.explanation": score.why,
                        "error.type": "_OTHER" if score.status == "error" else None,
                        "germane.sample": sample.id,
                        "germane.system": sample.system,
                        **{f"germane.{name}": value for name, value in traced.source(score).items()},
                    }.items()
                    if value not in (None, "", [])
                ],
            }
            for score in scores
            if score.value is not None or score.status == "error"
        ]
        if records:
            scope = {
                "scope": {"name": "germane", "version": __version__},
                "schemaUrl": SCHEMA_URL,
                "logRecords": records,
            }
            yield _line({"resourceLogs": [{"resource": {}, "scopeLogs": [scope]}]})


def _hex(text: str, digits: int) -> bool:
    return len(text) == digits and re.fullmatch("[0-9a-fA-F]+", text) is not None


def _value(value: Any) -> dict[str, Json]:
    """A value as OTLP/JSON writes it."""
    if isinstance(value, list):
        return {"arrayValue": {"values": list(map(_value, value))}}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}


def phoenix(report: ReportData) -> Iterator[str]:
    """The labels of the documents of each trace, a judge's and people's, as document annotations of the spans."""
    traced, explainer, some = _Traced(report), Explainer(report), False
    for sample, scores in traced:
        spans, calls = traced.spans_of(sample), explainer.facts(sample, scores, changes=False).calls
        results = [
            annotation
            for span, call in zip(spans, calls, strict=False)
            for context in call.contexts
            for label in context.labels
            if label.source != "gold" and label.grade is not None
            for annotation in [_annotation(span, context, label, traced)]
        ]
        some = some or bool(results)
        if results:
            yield _line({"data": results})
    if not some:
        problem = "no document of these traces is judged, so there is nothing to annotate"
        raise InputError(
            problem, fix='judge them: germane run traces.jsonl -m "context_precision" --judge ...'
        )


def _annotation(span: str, context: Any, label: Any, traced: _Traced) -> dict[str, Json]:
    human = label.source == "human"
    asked = (
        {"judge": label.who or "people"} if human else traced.asked.get(context.item, {"judge": traced.judge})
    )
    result = {
        "label": "relevant" if label.relevant else "not_relevant",
        "score": float(label.grade),
        "explanation": label.reason or None,
    }
    fields = {**asked, "label_source": label.source, "item": context.item, "germane": __version__}
    return {
        "name": "relevance",
        "annotator_kind": "HUMAN" if human else traced.machine,
        "span_id": span,
        "document_position": context.rank - 1,
        "result": {key: value for key, value in result.items() if value not in (None, "")},
        "metadata": fields,
        "identifier": " ".join(["germane", str(asked["judge"]), *asked.get("prompts", ())]),
    }


def langfuse(report: ReportData) -> Iterator[str]:
    """Each score of each trace, of the observation that retrieved where there was one search."""
    traced = _Traced(report)
    for sample, scores in traced:
        spans = traced.spans_of(sample)
        for score in scores:
            if score.value is None:
                continue
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
