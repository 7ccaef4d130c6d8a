"""`python -m benchmarks.fuzz --cases 100000 --seed 1`: every reader on damaged input.

A case is a valid file of which something was changed: a value or a key in its structure, so that the case gets past the
parser, or bytes of its text. Each must end in a result or in a GermaneError, within 10 seconds and 500 MB; what is taken is
used (measured, written and read again) and must be sound. A failed case is kept as a file, and `--only READER --at N` repeats it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import csv
import errno
import faulthandler
import io
import itertools
import json
import logging
import math
import os
import random
import resource
import shutil
import sqlite3
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from germane import GermaneError, Report, compare, evaluate, read_samples
from germane.evalfiles import read_eval_file
from germane.evaluation.rank import rank as rank_runs
from germane.evaluation.run import dry_run
from germane.evaluation.spec import Spec, read_config
from germane.labelling.corpus import Corpus, move_labels
from germane.labelling.files import LabelFile, import_labels
from germane.ledger.jsonl import import_rows, judgements_of
from germane.ledger.sqlite import SQLiteLedger
from germane.ledger.store import COLUMNS
from germane.measures.measure import Measure
from germane.reports.formats import FORMATS
from germane.samples import samples_from
from germane.samples.reading import read_questions
from germane.samples.rows import sample_to_json
from germane.samples.runs.source import RowSource, read_qrels
from germane.targets import open_target
from germane.targets.targetsfile import check_target
from tests.server import Act, ModelServer

SECONDS, MEGABYTES = 10.0, 500
KEPT = Path("fuzz-failures")

# valid seeds

ROW: dict[str, Any] = {
    "id": "q1", "query": "Why is the sky blue?", "reference": "Light scatters.", "response": "It scatters [1].",
    "criterion": "names scattering", "qrels": {"d1": 2, "d2": 0}, "tags": ["sky", "light"], "system": "bm25", "trial": 0,
    "contexts": [
        {"id": "d1", "text": "Short waves scatter most.", "score": 12.5, "grade": 2, "metadata": {"page": 3}},
        {"id": "d2", "text": "The sea is blue too.", "score": 3, "grade": 0}, {"id": "d3", "text": "Rayleigh.", "grade": 3},
    ],
    "history": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}],
    "forbidden": ["d9"], "answerable": True, "metadata": {"lang": "en", "n": 1.5},
}  # fmt: skip
ROWS: list[Any] = [
    [ROW, {"query": "What is tea?", "contexts": ["a leaf", "a drink"], "gold": [["d1", "d7"], ["d3"]], "retrieved_context_ids": ["d1", "d2"]}],
    [{"user_input": "Who?", "retrieved_contexts": ["x", "y"], "reference_context_ids": ["a"], "ground_truth": "z"},
     {"query": "q", "contexts": [], "evidence": [{"quote": "blue"}, {"doc": "d1", "start": 0, "end": 4}]}],
    [{"query": "q", "calls": [{"query": "s", "contexts": [{"text": "t", "id": "d1"}], "ms": 3, "source": "web"}, {"contexts": []}],
      "messages": [{"role": "assistant", "content": "a", "tool_calls": [{"tool": "search", "input": {"q": 1}, "output": {"results": ["t"]}}]}]}],
    [{"query": "q", "contexts": [{"text": "t", "relevant": True}, {"text": "u", "relevant": False}], "answerable": False},
     {"query": "q2", "contexts": [{"text": "t", "grade": 4}], "grade_scale": [0, 4], "error": "down"}],
    [{"query": "q", "contexts": [{"chunk_id": "d1", "doc_id": "x", "text": "t"}, {"passage_id": 7.0, "metadata": {"node_id": "n"}}], "qrels": ["d1"]},
     {"query": "q2", "contexts": [{"docno": "x", "pid": 3, "text": "u"}], "qrels": {"3": 1}}],
    [{"input": "a", "actual_output": "x", "expected_output": "y", "retrieval_context": None, "context": ["gold"], "metadata": [1]},
     {"input": "b", "actual_output": "x", "retrieval_context": ["t"], "context": ["gold"], "metadata": "word"}],
]  # fmt: skip
CELLS: list[Any] = [
    [{"query": "When?", "contexts": "['Bread.' 'High tide.']", "reference": "nan", "doc_ids": "d1;d2", "qrels": "['d1', 'd2']", "context_1": "a|b"},
     {"query": "How?", "contexts": "array(['a', 'b'], dtype=object)", "reference": "N/A", "doc_ids": "[d1, d2]", "qrels": "None", "context_1": '"open'}],
    [{"input": "Who?", "actual_output": "x", "expected_output": "y", "retrieval_context": "Bread.|Cats.", "context": '["gold"]', "metadata": "words", "trial": "7.0"}],
]  # fmt: skip
DOCUMENTS: list[Any] = [
    [{"context.span_id": "s1", "document_position": at, "context.trace_id": "t", "input": "Why blue?", "reference": text, "document_score": 0.5}
     for at, text in enumerate(("Short waves.", "Sea."))],
]  # fmt: skip
MEMORY: list[Any] = [
    [{"question_id": "e47b", "question_type": "multi-session", "question": "How many plants?", "answer": 3, "question_date": "2023/05/30",
      "haystack_session_ids": ["s1"], "haystack_sessions": [[{"role": "user", "content": "I bought two ferns.", "has_answer": True}]], "answer_session_ids": ["s1"]},
     {"question_id": "77aa_abs", "question": "What is my cat called?", "haystack_sessions": [[{"role": "user", "content": "Rex."}]], "answer_session_ids": []}],
    [{"sample_id": "conv-1", "conversation": {"speaker_a": "Ann", "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "I painted a lake."}]},
      "qa": [{"question": "When?", "answer": 2022, "evidence": ["D1:1; D1:2"], "category": 2}, {"question": "Who?", "evidence": ["D1:1"], "category": 5}]}],
]  # fmt: skip
BEIR = {
    "queries.jsonl": [{"_id": "q1", "text": "Why is the sky blue?", "metadata": {}}, {"_id": "q2", "text": "What is tea?"}],
    "corpus.jsonl": [{"_id": "d1", "title": "Sky", "text": "Short waves scatter most."}, {"_id": "d2", "text": "A leaf."}],
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\n",
}  # fmt: skip
_DOCUMENTS = [
    {
        "document.id": "d1",
        "document.content": "Short waves.",
        "document.score": 0.5,
        "document.metadata": '{"page": 3}',
    },
    {"document.content": "Sea."},
]
SPANS: list[Any] = [
    [{"name": "query", "context": {"trace_id": "t1", "span_id": "a"}, "span_kind": "CHAIN", "parent_id": None, "start_time": "2026-11-20T10:00:00+00:00",
      "attributes": {"input.value": '{"messages": [{"role": "user", "content": "Why blue?"}]}', "output.value": "Scattering.", "session.id": "u"}},
     {"name": "bm25", "context": {"trace_id": "t1", "span_id": "b"}, "span_kind": "RETRIEVER", "parent_id": "a", "start_time": "2026-11-20T10:00:01+00:00",
      "end_time": "2026-11-20T10:00:02+00:00", "status_code": "OK", "attributes": {"input.value": "Why blue?", "retrieval.documents": _DOCUMENTS}},
     {"name": "rerank", "context": {"trace_id": "t1", "span_id": "c"}, "span_kind": "RERANKER", "parent_id": "a", "start_time": "2026-11-20T10:00:03+00:00",
      "attributes": {"reranker.query": "Why blue?", "reranker.input_documents": _DOCUMENTS, "reranker.output_documents.0.document.id": "d1"}}],
    [{"id": "o1", "trace_id": "t", "parent_observation_id": "", "type": "RETRIEVER", "name": "kb", "start_time": "2026-11-20 10:00:00.000000", "end_time": None,
      "input": '{"args": ["Why?"], "kwargs": {}}', "output": '[{"page_content": "Waves.", "metadata": {"id": "d1"}, "score": 1}, "Sea."]', "metadata": {"attributes": "{}"},
      "session_id": "u", "level": "ERROR", "status_message": "timeout"}],
]  # fmt: skip
OTLP = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": [
    {"traceId": "5b8e", "spanId": "eee1", "parentSpanId": "", "name": "retrieval kb", "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": 1700000000001000000,
     "status": {"code": 2, "message": "timeout"}, "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "retrieval"}}, {"key": "gen_ai.retrieval.query.text", "value": {"stringValue": "Why?"}},
        {"key": "gen_ai.retrieval.documents", "value": {"arrayValue": {"values": [{"kvlistValue": {"values": [
            {"key": "id", "value": {"stringValue": "d1"}}, {"key": "score", "value": {"doubleValue": 0.5}}]}}]}}}]},
    {"traceId": "5b8e", "spanId": "eee2", "parentSpanId": "eee1", "name": "embeddings", "attributes": [{"key": "openinference.span.kind", "value": {"stringValue": "EMBEDDING"}}]},
]}]}]}  # fmt: skip
RUNS = [
    {"q1": {"d1": 1.5, "d2": 0.25, "d3": -1}, "q2": {"d9": 7}},
    [{"query_id": "q1", "doc_id": "d1", "score": 2.5}, {"query_id": "q1", "doc_id": "d2", "score": 1}],
    [{"qid": "q1", "results": ["d3", "d1"], "scores": [0.9, 0.1]}, {"qid": "q2", "results": [{"id": "d9", "score": 1}]}],
]  # fmt: skip
RUNS += [
    {"q1": {"d1": 1, "d2": 2, "d3": 3}, "q2": {"d9": 1}},
    [
        {"query_id": 1, "doc_id": "x", "chunk_id": "d1", "rank": 1, "score": 0.5},
        {"query_id": 1.0, "doc_id": "y", "chunk_id": 7.0, "rank": 2, "score": 0.7},
    ],
    [
        {"qid": "q1", "doc_ids": "d1|d2"},
        {"qid": "q2", "doc_ids": "nan"},
        {"qid": "q3", "doc_ids": "['d1' 'd2']"},
    ],
]
BARE = [[["q1", f"d{at}", first + at] for at in order] + [["q2", "d9", other], ["q2", "d8", other + 1]]
        for first, other, order in ((1, 1, (0, 1, 2)), (0, 1, (0, 1, 2)), (1, 1, (2, 0, 1)), (0, 0, (2, 1, 0)))]  # fmt: skip
TREC_RUN = "#1 Q0 d1 1 3 t\n# by hand\nq1 Q0 d1 1 12.5 bm25\nq1 Q0 d2 2 3.25 bm25\nq2 Q0 d9 1 -1e3 bm25\n"
GOLDS = [{"q1": {"d1": 2, "d2": 0}, "q2": {"d9": 1}}, [{"query_id": "q1", "doc_id": "d1", "relevance": 3}],
         [{"query_id": "q1", "doc_id": "x", "passage_id": "d1", "relevance": 1.0}]]  # fmt: skip
TREC_GOLD = "# by hand\nq1 0 d1 2.0\nq1 0 d2 0\nq2 0 d9 1\n"
EVALS = [
    """
judge: lexical
measures: [context_precision@2, context_redundancy]
gates: ["mean(context_precision@2)>=0.1"]
trials: 1
data: data.jsonl
columns: {query: query}
""",
    """
description: our own
judge: lexical
against: query
vars: {topic: tea}
defaults: {tags: [x]}
evalcases:
  - id: one
    query: "What is {{topic}}?"
    reference: A leaf.
    response: It is a leaf.
    contexts: [a leaf, {text: a drink, id: d2, grade: 1}]
    qrels: {d2: 1}
    evaluators:
      - context_precision
      - {type: contains, value: leaf, required: true, weight: 2}
      - {type: regex, value: "^It", name: start}
      - {type: field_accuracy, fields: [{path: a.b, match: exact}]}
  - id: two
    input_messages: [{role: user, content: [{type: text, value: hi}]}]
    expected_messages: [{role: assistant, content: hello}]
    contexts: [x]
    response: y
    execution: {threshold: 0.5, evaluators: [{type: composite, aggregator: {type: weighted_average}, evaluators: [{type: equals, name: e, value: y}]}]}
""",
    """
tests:
  - id: four
    input: What is the time?
    criteria: says the time
    expected_output: Noon.
    output: At noon.
    contexts: [noon]
    assertions:
      - {type: rubrics, criteria: [{id: a, outcome: names it, weight: 1, required: true, score_ranges: {0: bad, 5: fair, 9: good}}]}
      - {type: llm-grader, prompt: "Is {{output}} right?"}
      - {type: tool-trajectory, mode: any_order, minimums: {search: 1}}
      - {type: is-json}
""",
]  # fmt: skip
TARGETS = """
targets:
  - {name: a, provider: mock, response: {response: x, contexts: [a, {text: b, id: d}]}, responses: {q1: hi}, workers: 2}
  - {name: b, provider: cli, command_template: "echo {PROMPT} > {OUTPUT_FILE}", cwd: ".", timeout: 3, env: {A: b}}
  - {name: c, provider: http, url: "http://127.0.0.1:9/{{query}}", headers: {X: y}, answer: /a/b, contexts: /c, context: {text: /t}, retries: 0}
  - {name: d, provider: python, function: "nowhere_at_all:f", path: [.], arguments: {k: 1}, models: {generator: m}}
  - {name: e, provider: recorded, path: data.jsonl, system: bm25}
"""
CONFIG = """
judge = ["lexical"]
repeat = 1
vote = "majority"
measures = ["context_precision@2", "context_redundancy"]
gates = ["mean(context_precision@2)>=0.1"]
ledger = "l.sqlite"
against = "query"
scale = "graded"
max_unmeasured = 0.05
jobs = 4
"""
ANSWERS = [
    '{"reasoning": "It says so.", "grade": 3}', '{"reasoning": "r", "grade": 2}', '```json\n{"reasoning": "r", "grade": 0}\n```',
    '<think>hm {</think>{"reasoning": "r", "grade": 1}', '{"items": [{"id": 1, "reasoning": "r", "grade": 3}]}',
    '{"claims": ["a", "b"]}', '{"verdicts": [{"claim": 1, "reasoning": "r", "contexts": [1]}]}',
]  # fmt: skip


# changes

_DEEP: Any = "x"
for _ in range(300):
    _DEEP = [_DEEP]
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 4, 0.5, -0.0, 1e308, -1e308, 5e-324, 10**400, -(10**30), 2**63, math.nan, math.inf,
    "", " ", "0", "-1", "1e999", "NaN", "true", "no", "null", "\x00", "\ud800", "\u202e\ufeff", "é" * 3, "x" * 5000, "9" * 400,
    "[1", '{"a":', "{{query}}", "${{ HOME }}", "${{ NO_SUCH }}", "file:///etc/hostname", "../..", "*", "=1+1", "2020-01-01", "d1", "q1",
    [], {}, [[]], [None], [[1, "a"]], {"": None}, {"a": {"b": 1}}, {"text": 1}, {"id": []}, [{}], ["d1", "d1"], {"d1": "2"},
    {"type": "llm_judge"}, {"type": "composite"}, {"role": "user"}, {"type": "file", "value": "data.jsonl"}, _DEEP,
]  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _places(one, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def changed_tree(value: Any, draw: random.Random) -> Any:
    """The JSON value with one to three of its parts replaced, removed, renamed, repeated or moved."""
    value = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = [path for path in _places(value) if path]
        if not places:
            return draw.choice(ODD)
        path = draw.choice(places)
        holder, key = _at(value, path[:-1]), path[-1]
        act = draw.randrange(7)
        if act == 0:
            del holder[key]
        elif act == 1 and isinstance(key, str):
            name = draw.choice([key[:-1], key.upper(), f"{key}x", "", "id", "query", "contexts", "type"])
            holder[name] = holder.pop(key)
        elif act == 2:
            holder[key] = copy.deepcopy(_at(value, draw.choice(places)))
        elif act == 3 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif act == 4 and isinstance(holder[key], str):
            holder[key] = changed_text(holder[key].encode("utf-8", "replace"), draw).decode(
                "utf-8", "replace"
            )
        else:
            holder[key] = copy.deepcopy(draw.choice(ODD))
    return value


_BITS = [b"\x00", b"\xff", b"\n", b"\r\n", b"\t", b",", b'"', b"'", b"{", b"}", b"[", b"]", b":", b"- ", b"#", b"\xef\xbb\xbf",
         b"\xed\xa0\x80", b"1e999", b"9" * 400, b"NaN", b"null", b"\xc3", b"\xe2\x80\xae", b"&a ", b"*a", b"!!python/name:os", b"x" * 3000]  # fmt: skip


def changed_text(text: bytes, draw: random.Random) -> bytes:
    """The text with some bytes changed, removed, put in, repeated, or cut off."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        at, to = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        act = draw.randrange(6)
        if act == 0:
            text = text[:at] + text[min(to, at + 40) :]
        elif act == 1:
            text = text[:at] + draw.choice(_BITS) + text[at:]
        elif act == 2:
            text = text[:at] + draw.randbytes(draw.randrange(4)) + text[at + 1 :]
        elif act == 3:
            text = text[:to] + text[at:]
        elif act == 4:
            text = text[:at]
        else:
            text = text[:at] + draw.choice(_BITS) + text[at + 1 :]
    return text


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def as_lines(rows: Any) -> bytes:
    return b"\n".join(as_json(row) for row in (rows if isinstance(rows, list) else [rows]))


def as_bare(delimiter: str) -> Callable[[Any], bytes]:
    """Rows as a table without a header."""
    return lambda rows: "\n".join(
        delimiter.join(map(str, row if isinstance(row, list) else [row])) for row in rows
    ).encode("utf-8", "surrogatepass")


def as_table(rows: Any, delimiter: str) -> bytes:
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    write = csv.writer(out, delimiter=delimiter)
    write.writerow(names)
    for row in rows:
        cells = (row.get(name, "") for name in names)
        write.writerow([one if isinstance(one, str) else json.dumps(one) for one in cells])
    return out.getvalue().encode("utf-8", "surrogatepass")


def as_yaml(value: Any) -> bytes:
    return as_json(value)  # what YAML is as well


def as_toml(value: Any) -> bytes:
    return b"\n".join(name.encode() + b" = " + as_json(one) for name, one in value.items())


# what is taken must be sound


def check(condition: object, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def sound(value: Any, depth: int = 0) -> None:
    """Every number is finite and every text can be written."""
    check(depth < 400, "nested too deep")
    if isinstance(value, float):
        check(math.isfinite(value), f"{value} was taken")
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, dict):
        for key, one in value.items():
            sound(key)
            sound(one, depth + 1)
    elif isinstance(value, list | tuple):
        for one in value:
            sound(one, depth + 1)


MEASURES = list(
    map(Measure.parse, ("AP(rel=1)", "nDCG@3", "RR", "context_precision@2", "context_redundancy"))
)


def check_report(report: Report) -> None:
    for row in report.scores():
        sound(row.value)
        check(row.value is None or -1e-9 <= row.value <= 1 + 1e-9, f"{row.measure} is {row.value}")
        check((row.value is None) == (row.status != "ok"), f"{row.status} with {row.value}")
    str(report)


class Bench:
    """One process's folder, with what several readers need."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="germane-fuzz-")) / "a" / "b" / "c"  # `..` is in it too
        self.folder.mkdir(parents=True)
        os.chdir(self.folder)
        os.environ["HOME"] = str(self.folder)
        Path("pyproject.toml").write_text("")
        Path("data.jsonl").write_bytes(as_lines(ROWS[0]))
        self.samples = list(read_samples(Path("data.jsonl")))
        self.report = evaluate(self.samples, MEASURES, judge="lexical")
        self.report.save(Path("base"))
        self.report = Report.open(Path("base"))
        self.ledger = SQLiteLedger(Path("fuzz.sqlite"))
        item = next(iter(self.report.places())).item
        self.judgement = {
            "key": "0" * 32, "item": item, "kind": "relevance", "judge": "openai:m", "prompt": "abc", "answer": {"grade": 2, "reasoning": "r"},
            "request": "r", "usage": {"requests": 1, "input": 10, "output": 2, "cost_usd": 0.1}, "ms": 3.5, "at": "2026-11-21T15:00:00+00:00",
            "mode": "schema",
        }  # fmt: skip
        self.labels = [
            {"item": item, "answer": 2, "scale": "graded", "who": "ada", "at": "2026-11-21T15:00:00+00:00", "queue": "random",
             "design": {"probability": 0.5}, "blind": True, "guideline": "g", "reason": "r"},
            {"sample": "q1", "id": "d1", "grade": 3}, {"sample": "q1", "id": "d2", "relevant": "no", "who": "bob"},
        ]  # fmt: skip
        self.server = ModelServer(script=lambda _: self.acts.pop() if self.acts else None)
        self.server.__enter__()
        self.acts: list[Act] = []
        os.environ["OPENAI_API_KEY"] = "k"
        logging.getLogger("germane").setLevel(logging.ERROR)

    def file(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path


def _rows_as(write: Callable[[Any], bytes], seeds: list[Any]) -> Callable[[Bench, random.Random], bytes]:
    def made(_: Bench, draw: random.Random) -> bytes:
        seed = draw.choice(seeds)
        if draw.random() < 0.75:
            with contextlib.suppress(UnicodeError, TypeError, ValueError, AttributeError, csv.Error):
                return write(changed_tree(seed, draw))
        return changed_text(write(seed), draw)

    return made


def _texts_of(*seeds: str) -> Callable[[Bench, random.Random], bytes]:
    return lambda _, draw: changed_text(draw.choice(seeds).encode(), draw)


def _parquet(seeds: list[Any]) -> Callable[[Bench, random.Random], bytes]:
    """Rows as a data frame, of which a cell, a name or a byte was changed."""

    def made(_: Bench, draw: random.Random) -> bytes:
        import polars as pl

        rows = draw.choice(seeds)
        for change in (changed_tree, lambda value, _: value):
            out = io.BytesIO()
            with contextlib.suppress(Exception):
                frame = pl.DataFrame(change(rows, draw), strict=False, infer_schema_length=None)
                if "List(" * 100 in str(frame.schema):  # of which polars alone takes seconds
                    continue
                frame.write_parquet(out)
                data = out.getvalue()
                return changed_text(data, draw) if draw.random() < 0.3 else data
        return changed_text(b"PAR1 PAR1", draw)

    return made


def _as_columns(row: dict[str, Any]) -> dict[str, Any]:
    """A span as Phoenix's data frame has it: what stands in objects in columns of its own."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        inner = name in {"context", "attributes"}
        found |= {f"{name}.{key}": one for key, one in value.items()} if inner else {name: value}
    return found


def make_beir(_: Bench, draw: random.Random) -> bytes:
    """The name of one of the files of a BEIR folder, and what is in it after a change."""
    name, seed = draw.choice(list(BEIR.items()))
    made = _texts_of(seed) if isinstance(seed, str) else _rows_as(as_lines, [seed])
    return f"{name}\n".encode() + made(_, draw)


def use_beir(bench: Bench, path: Path) -> None:
    name, _, data = path.read_bytes().partition(b"\n")
    folder = bench.folder / "collection"
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for file, seed in BEIR.items():
        (folder / file).write_bytes(seed.encode() if isinstance(seed, str) else as_lines(seed))
    (folder / name.decode()).write_bytes(data)
    samples = list(read_samples(folder))
    sound([sample_to_json(one) for one in samples])
    carried, _ = move_labels(samples, Corpus(folder))
    sound([sample_to_json(one) for one in carried])


def use_frame(_: Bench, path: Path) -> None:
    """The rows of CSV as pandas reads them, as texts: a cell of a frame is what it is in the file."""
    with contextlib.suppress(ValueError, OverflowError):  # pandas reads no such file
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
        sound([sample_to_json(one) for one in read_questions(frame)])


def use_samples(_: Bench, path: Path) -> None:
    samples = list(read_samples(path))
    for sample in samples:
        row = sample_to_json(sample)
        sound(row)
        check(sample.query.strip(), "a query that says nothing")
        check(
            list(samples_from([json.loads(json.dumps(row))])) == [sample],
            "written and read, it is another sample",
        )
    if samples and hash(path.stat().st_size) % 4 == 0:
        check_report(evaluate(samples, MEASURES, judge="lexical"))


def use_run(_: Bench, path: Path) -> None:
    run = RowSource(path, together=True)
    for lists in run.lists():
        for first, end in itertools.pairwise(lists.starts.tolist()):
            missing = np.isnan(lists.number[first:end])
            check(missing.all() or not missing.any(), "NaN was taken")


def use_python(_: Bench, path: Path) -> None:
    """Runs as Python has them: a mapping, rows, tuples and a frame of what JSON holds, against gold in such forms."""
    try:
        value = json.loads(path.read_text(errors="replace"))
    except ValueError:
        return
    forms = [] if isinstance(value, str) else [value]  # a text is a path
    if isinstance(value, list):
        forms.append([tuple(row) if isinstance(row, list) else row for row in value])
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("error")
            forms.append(pd.DataFrame(value))
    for run in forms:
        for gold in (*GOLDS, *forms[:1]):
            with contextlib.suppress(GermaneError):
                check_report(rank_runs(run, gold, "RR"))


def use_gold(_: Bench, path: Path) -> None:
    for grades in read_qrels(path).values():
        for grade in grades.values():
            check(type(grade) is int, f"the grade {grade!r}")


def rank(words: list[str]) -> None:
    from germane.cli.verbs import call

    quiet = contextlib.redirect_stderr(io.StringIO())
    with quiet, contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        call(["rank", *words])
    if out.getvalue():
        document = json.loads(out.getvalue(), parse_constant=lambda name: check(False, f"{name} in the JSON"))
        for measure in (document.get("measures") or {}).values():
            check(measure["mean"] is None or 0 <= measure["mean"] <= 1 + 1e-9, f"a mean of {measure['mean']}")


def use_ranked(bench: Bench, path: Path) -> None:
    use_run(bench, path)
    gold = bench.folder / "gold.qrels"
    if not gold.exists():
        gold.write_text(TREC_GOLD)
    rank([str(path), "--qrels", str(gold), "-m", "nDCG@10", "-m", "AP", "--json", "-q"])


def use_graded(bench: Bench, path: Path) -> None:
    use_gold(bench, path)
    run = bench.folder / "run.trec"
    if not run.exists():
        run.write_text(TREC_RUN)
    rank([str(run), "--qrels", str(path), "-m", "nDCG@10", "-m", "AP", "--json", "-q"])


def use_eval(_: Bench, path: Path) -> None:
    file = read_eval_file(path)
    for case in file.cases:
        sound(sample_to_json(case.sample))
        check(case.sample.query.strip(), "a query that says nothing")
    found = dry_run(Spec.of(paths=(str(path),), judge="lexical"))
    sound(found.as_json())


def use_targets(bench: Bench, path: Path) -> None:
    for name in "abcde":
        try:
            check_target(name, path)
            target = open_target(name, path)
        except GermaneError:
            continue
        if name in "ae":
            with contextlib.suppress(GermaneError):
                sound(sample_to_json(asyncio.run(target.answer(bench.samples[0]))))


def use_config(bench: Bench, path: Path) -> None:
    folder = bench.folder / "configured"
    folder.mkdir(exist_ok=True)
    shutil.copy(path, folder / "germane.toml")
    shutil.copy(bench.folder / "data.jsonl", folder)
    os.chdir(folder)
    try:
        sound(dict(read_config()[0]))
        sound(dry_run(Spec.of(paths=("data.jsonl",), judge="lexical")).as_json())
    finally:
        os.chdir(bench.folder)


def use_ledger(bench: Bench, path: Path) -> None:
    import_rows(bench.ledger, path)
    rows = [one for one in judgements_of(path) if one.error is None]
    stands = bench.ledger.find([one.key for one in rows])
    for one in rows:
        kept = stands[one.key]
        sound(json.loads(json.dumps(kept.answer)))
        sound([kept.ms, kept.usage.cost_usd])


def use_labels(bench: Bench, path: Path) -> None:
    with contextlib.suppress(GermaneError):
        for label in import_labels(path, bench.report, "me")[0]:
            value, scale = label.answer, label.scale
            low, high = map(int, scale.split("-")) if scale.count("-") == 1 else (0, 3)
            fits = (
                isinstance(value, bool) if scale == "binary" else type(value) is int and low <= value <= high
            )
            check(value is None or fits or label.kind != "relevance", f"{value!r} on the scale {scale}")
    labelled = LabelFile(path)
    check_report(evaluate([labelled.on(one)[0] for one in bench.samples], MEASURES[:3], judge="labels"))


def make_report(bench: Bench, draw: random.Random) -> bytes:
    """The name of one of a report's files, and what is in it after a change."""
    name = draw.choice(
        ["manifest.json", "scores.jsonl", "samples.jsonl", "places.jsonl", "judgements.jsonl", "labels.jsonl"]
    )
    file = bench.folder / "base" / name
    data = file.read_bytes() if file.exists() else b""
    if name == "labels.jsonl":
        data = as_lines(bench.labels)
    if draw.random() < 0.75 and data:
        if name == "manifest.json":
            data = as_json(changed_tree(json.loads(data), draw))
        else:
            rows = [json.loads(line) for line in data.splitlines()]
            data = as_lines(changed_tree(rows, draw)) + b"\n"
    else:
        data = changed_text(data, draw)
    return f"{name}\n".encode() + data


def use_report(bench: Bench, path: Path) -> None:
    name, _, data = path.read_bytes().partition(b"\n")
    folder = bench.folder / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bench.folder / "base", folder)
    (folder / name.decode()).write_bytes(data)
    report = Report.open(folder)
    check_report(report)
    list(report.samples())
    list(report.labels())
    for suffix in (".md", ".csv", ".xml", *[".html"] * (len(data) % 8 == 0)):
        "".join(FORMATS[suffix](report)).encode()
    sound(json.loads("".join(FORMATS[".json"](report))))
    compare(bench.report, report)


def make_sqlite(bench: Bench, draw: random.Random) -> bytes:
    """A ledger in which a value of a row, or bytes of the file, were changed."""
    file = bench.folder / "forged.sqlite"
    for one in bench.folder.glob(f"{file.name}*"):
        one.unlink()
    with SQLiteLedger(file) as ledger:
        import_rows(ledger, bench.folder / "base" / "judgements.jsonl")
    if draw.random() < 0.75:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode=DELETE")
            column = draw.choice(COLUMNS)
            row, value = draw.choice(db.execute(f"SELECT rowid, {column} FROM judgements").fetchall())
            changed = draw.choice(
                [None, -1, 1e308, b"\xff", 2**62, "", "{}", "[1]", changed_text(str(value).encode(), draw)]
            )
            text = (
                changed.decode("utf-8", "replace")
                if isinstance(changed, bytes) and draw.random() < 0.7
                else changed
            )
            with contextlib.suppress(sqlite3.IntegrityError):
                db.execute(f"UPDATE judgements SET {column} = ? WHERE rowid = ?", (text, row))
        return file.read_bytes()
    return changed_text(file.read_bytes(), draw)


def use_sqlite(bench: Bench, path: Path) -> None:
    for one in bench.folder.glob(f"{path.name}-*"):
        one.unlink()
    check_report(evaluate(bench.samples, MEASURES[:4], judge="lexical", replay=path))


def make_document(bench: Bench, draw: random.Random) -> bytes:
    file = bench.folder / "base.json"
    if not file.exists():
        file.write_text("".join(FORMATS[".json"](bench.report)))
    return _rows_as(as_json, [json.loads(file.read_bytes())])(bench, draw)


def use_document(bench: Bench, path: Path) -> None:
    found = compare(path, bench.report)
    str(found)


def make_answers(_: Bench, draw: random.Random) -> bytes:
    found = []
    for _n in range(4):
        seed = draw.choice(ANSWERS)
        begin, end = seed.find("{", seed.rfind(">") + 1), seed.rfind("}") + 1
        if draw.random() < 0.7:
            changed = as_json(changed_tree(json.loads(seed[begin:end]), draw)).decode("utf-8", "replace")
            found.append(seed[:begin] + changed + seed[end:])
        else:
            found.append(changed_text(seed.encode(), draw).decode("utf-8", "replace"))
    return as_json(found)


def use_answers(bench: Bench, path: Path) -> None:
    from germane.judges.llm import LLMJudge

    bench.acts = [Act(text=text) for text in json.loads(path.read_text())]
    judge = LLMJudge("openai:m", base_url=bench.server.url)
    report = evaluate(bench.samples, [MEASURES[3], Measure.parse("context_recall")], judge=judge)
    check_report(report)
    check(bench.server.fault is None, f"the model server failed: {bench.server.fault}")


@dataclass(frozen=True)
class Reader:
    """A reader: the name of the file, how often it is tried, and how a case is made and used."""

    file: str
    weight: int
    make: Callable[[Bench, random.Random], bytes]
    use: Callable[[Bench, Path], None]


READERS = {
    "jsonl": Reader("x.jsonl", 20, _rows_as(as_lines, ROWS), use_samples),
    "json": Reader("x.json", 8, _rows_as(as_json, ROWS), use_samples),
    "csv": Reader("x.csv", 10, _rows_as(lambda rows: as_table(rows, ","), ROWS), use_samples),
    "tsv": Reader("x.tsv", 4, _rows_as(lambda rows: as_table(rows, "\t"), ROWS), use_samples),
    "cells-csv": Reader("x.csv", 6, _rows_as(lambda rows: as_table(rows, ","), [*CELLS, *DOCUMENTS]), use_samples),
    "cells-excel": Reader("x.csv", 3, _rows_as(lambda rows: as_table(rows, ";"), [*ROWS, *CELLS]), use_samples),
    "cells-tsv": Reader("x.tsv", 4, _rows_as(lambda rows: as_table(rows, "\t"), CELLS), use_samples),
    "cells-frame": Reader("x.csv", 4, _rows_as(lambda rows: as_table(rows, ","), [*ROWS, *CELLS, *DOCUMENTS]), use_frame),
    "parquet": Reader("x.parquet", 3, _parquet([[{k: v for k, v in row.items() if not isinstance(v, dict | bool)} for row in rows] for rows in ROWS]), use_samples),
    "memory": Reader("x.json", 4, _rows_as(as_json, MEMORY), use_samples),
    "beir": Reader("beir", 4, make_beir, use_beir),
    "spans-jsonl": Reader("x.jsonl", 6, _rows_as(as_lines, [*SPANS, [OTLP]]), use_samples),
    "spans-json": Reader("x.json", 4, _rows_as(as_json, [OTLP, {"data": SPANS[0]}, {"observations": SPANS[1]}]), use_samples),
    "spans-parquet": Reader("x.parquet", 2, _parquet([*(list(map(_as_columns, rows)) for rows in SPANS), *DOCUMENTS]), use_samples),
    "run-json": Reader("r.json", 4, _rows_as(as_json, RUNS), use_ranked),
    "run-jsonl": Reader("r.jsonl", 4, _rows_as(as_lines, RUNS), use_ranked),
    "run-csv": Reader("r.csv", 4, _rows_as(lambda rows: as_table(rows, ","), RUNS[1:]), use_ranked),
    "run-bare-csv": Reader("r.csv", 3, _rows_as(as_bare(","), BARE), use_ranked),
    "run-bare-tsv": Reader("r.tsv", 3, _rows_as(as_bare("\t"), BARE), use_ranked),
    "run-parquet": Reader("r.parquet", 2, _parquet(RUNS[1:2] + RUNS[4:5]), use_ranked),
    "run-python": Reader("r.json", 4, _rows_as(as_json, [*RUNS, *BARE, *GOLDS]), use_python),
    "run-trec": Reader("r.trec", 6, _texts_of(TREC_RUN), use_ranked),
    "gold-json": Reader("g.json", 4, _rows_as(as_json, GOLDS), use_graded),
    "gold-csv": Reader("g.csv", 3, _rows_as(lambda rows: as_table(rows, ";"), GOLDS[1:]), use_graded),
    "gold-trec": Reader("g.qrels", 6, _texts_of(TREC_GOLD, "query-id\tcorpus-id\tscore\nq1\td1\t2\n"), use_graded),
    "eval": Reader("e.yaml", 14, _rows_as(as_yaml, list(map(yaml.safe_load, EVALS))), use_eval),
    "eval-text": Reader("e.yaml", 6, _texts_of(*EVALS), use_eval),
    "targets": Reader("targets.yaml", 6, _rows_as(as_yaml, [yaml.safe_load(TARGETS)]), use_targets),
    "targets-text": Reader("targets.yaml", 3, _texts_of(TARGETS), use_targets),
    "config": Reader("c.toml", 4, _rows_as(as_toml, [tomllib.loads(CONFIG)]), use_config),
    "ledger": Reader("l.jsonl", 6, lambda b, d: _rows_as(as_lines, [[b.judgement]])(b, d), use_ledger),
    "ledger-sqlite": Reader("l.sqlite", 3, make_sqlite, use_sqlite),
    "labels-jsonl": Reader("a.jsonl", 4, lambda b, d: _rows_as(as_lines, [b.labels])(b, d), use_labels),
    "labels-csv": Reader("a.csv", 4, lambda b, d: _rows_as(lambda r: as_table(r, ","), [b.labels])(b, d), use_labels),
    "labels-qrels": Reader("a.qrels", 2, _texts_of("q1 0 d1 2\nq1 0 d2 0\n"), use_labels),
    "report": Reader("report", 3, make_report, use_report),
    "document": Reader("b.json", 3, make_document, use_document),
    "answers": Reader("answers", 2, make_answers, use_answers),
}  # fmt: skip


def cases(bench: Bench, seed: int, numbers: range, only: str) -> tuple[Counter[str], list[str]]:
    """Try some cases; how many of each reader there were and how many were taken, and what failed."""
    counts, failed = Counter[str](), list[str]()
    names, weights = list(READERS), [one.weight for one in READERS.values()]
    for number in numbers:
        draw = random.Random(f"{seed} {number}")
        name = only or draw.choices(names, weights)[0]
        reader = READERS[name]
        path = bench.file(reader.file, reader.make(bench, draw))
        counts[name] += 1
        began, memory, problem = time.monotonic(), _memory(), ""
        faulthandler.dump_traceback_later(6 * SECONDS, exit=True)
        try:
            reader.use(bench, path)
            counts[f"{name} taken"] += 1
        except GermaneError as error:
            if "internal error" in str(error) or not str(error).strip():
                problem = f"an error that says {error!r}"
        except OSError as error:  # of the operating system, about a path: the command line shows it as it is
            if error.errno not in {errno.ENAMETOOLONG, errno.EINVAL, errno.ENOTDIR}:
                problem = traceback.format_exc()
        except Exception:  # noqa: BLE001 - that is what is looked for
            problem = traceback.format_exc()
        faulthandler.cancel_dump_traceback_later()
        counts[f"{name} ms"] += int((time.monotonic() - began) * 1000)
        if (seconds := time.monotonic() - began) > SECONDS:
            problem = problem or f"it took {seconds:.1f} s"
        if (more := _memory() - memory) > MEGABYTES:
            problem = problem or f"it took {more:.0f} MB"
        if problem:
            failed.append(f"{name} at {number}: {problem}")
            counts[f"{name} failed"] += 1
            KEPT_AT.mkdir(exist_ok=True)
            shutil.copy(path, KEPT_AT / f"{name}-{number}{path.suffix}")
    return counts, failed


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << (20 if sys.platform == "darwin" else 10)
    )


KEPT_AT = KEPT.absolute()
_bench: Bench | None = None


def _work(seed: int, numbers: range, only: str) -> tuple[Counter[str], list[str]]:
    global _bench  # noqa: PLW0603 - one for each process
    os.environ.pop("GERMANE_JUDGE", None)
    if _bench is None:
        _bench = Bench()
    return cases(_bench, seed, numbers, only)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=READERS, default="", help="one reader alone")
    parser.add_argument("--at", type=int, help="repeat one case")
    options = parser.parse_args()
    began, total, failed = time.monotonic(), Counter[str](), list[str]()
    if options.at is not None:
        total, failed = _work(options.seed, range(options.at, options.at + 1), options.only)
    else:
        step = max(1, min(500, options.cases // 16))
        parts = [range(n, min(n + step, options.cases)) for n in range(0, options.cases, step)]
        with ProcessPoolExecutor() as pool:
            for counts, faults in pool.map(
                _work, *zip(*[(options.seed, part, options.only) for part in parts], strict=True)
            ):
                total += counts
                failed += faults
    for name in READERS:
        if total[name]:
            taken, wrong, ms = (total[f"{name} {what}"] for what in ("taken", "failed", "ms"))
            print(
                f"{name:13}{total[name]:7} cases{taken:7} taken{wrong:4} failed{ms / total[name]:7.1f} ms each"
            )
    print(f"{time.monotonic() - began:.0f} s, seed {options.seed}: {len(failed)} failed")
    for fault in failed[:20]:
        print(f"\n{fault}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
