"""Read exported traces as samples, and write scores back as annotations of spans."""

from germane.addons import Addon, Reader

_TRACE = "context.trace_id|trace_id|traceId"
_SPAN = "context.span_id|span_id|spanId"
_START = "start_time|startTime|startTimeUnixNano|start_time_unix_nano"

ADDON = Addon(
    about="Read exported traces (OTLP, Phoenix, Langfuse) as samples, and write the scores back to these tools.",
    readers={
        "spans": Reader(
            "germane.addons.traces.samples:rows_of_traces",
            first=[
                ["resourceSpans[]"],
                [_TRACE, _SPAN],
                [_TRACE, "id", "type", _START],
                [_SPAN, "document_position", "input", "reference"],
            ],
        )
    },
    writers={
        ".phoenix.jsonl": "germane.addons.traces.writeback:phoenix",
        ".langfuse.jsonl": "germane.addons.traces.writeback:langfuse",
    },
)
