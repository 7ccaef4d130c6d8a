"""The data of a report's HTML page: tables of queries, and compressed texts that are loaded on demand."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from msgspec import UNSET, to_builtins

from germane.clean import some_of
from germane.encoding import encode
from germane.measures.measure import Measure
from germane.reports.correction.draws import fingerprint, pool_of
from germane.reports.correction.targets import choose_targets
from germane.reports.data import ReportData
from germane.reports.derived.explained import ExplainedLine
from germane.reports.explain import Explainer, Facts
from germane.reports.gates import Gate
from germane.reports.page.excerpt import SEED, Excerpt
from germane.reports.page.headline import answer, in_a_sentence, next_steps, weakest
from germane.reports.summary import MeasureSummary, higher_is_better
from germane.statistics.correction import drawing_order
from germane.tables.columns import batched
from germane.tables.scores import SampleKey
from germane.types import Json

SOURCES = {
    "gold": "gold labels",
    "judge": "the judge's labels",
    "human": "people's labels",
    "best": "people's labels, and the judge's where there are none",
}
"""The sources of labels that the page can show at the places of a ranking, in words."""

_DETAILS, _TEXTS = 64, 256  # queries and passages in one compressed block
_DRAWN = 1000  # the largest number of places drawn for labels
_BARS = 10  # of a histogram
LabelSlot: TypeAlias = tuple[int, int, int, str]  # a query, call and rank, each from 0, and the item
_COLUMNS = ("id", "system", "trial", "query", "tags", "missed", "gold", "bad")
Strips: TypeAlias = Mapping[str, Sequence[tuple[str, str]]]
"""By source of labels, the system and the rank strip of each sample: the label's sign per passage."""


def page_data(
    excerpt: Excerpt, baseline: ReportData | None = None
) -> tuple[dict[str, Json], tuple[list[bytes], list[bytes]], Strips]:
    """Return the data that a page shows at once, compressed blocks of details and texts, and label strips."""
    report, passages = excerpt.whole, dict[str, int]()
    details, queries, slots = _queries(excerpt.report, passages)
    blocks = _blocks(details, _DETAILS), _blocks(list(passages), _TEXTS)
    systems = [report.systems[at] for at in queries["system"]]
    strips_of = {of: list(zip(systems, strips, strict=True)) for of, strips in queries["strips"].items()}
    has_tags = next(report.tables.values_of("tags"), None) is not None
    slices = report.slices("tags") if has_tags and not report.by else report.own_slices()[0]
    manifest, judge = report.manifest, report.judge
    data: dict[str, Json] = {
        "name": report.folder.name if report.folder else report.name or "report",
        "created": manifest.get("created"),
        "germane": manifest.get("germane"),
        "total": excerpt.total,
        "capped": excerpt.in_words(),
        "random": excerpt.kept,
        "judge": {
            "source": judge.source,
            "stand_in": judge.stand_in or "",
            "spent": judge.spent if judge.source and judge.estimated is not UNSET else "",
        },
        "settings": manifest.get("settings") or {},
        "verdict": {**report.verdict.as_json(), "word": report.verdict.word},
        "cases": _verdict_counts(report),
        "stopped": report.stopped,
        "answer": answer(report),
        "weakest": weakest(report, slices),
        "next": next_steps(report),
        "systems": list(report.systems),
        "measures": [_measure(line, report) for line in report.summaries],
        "gates": [
            {"measure": gate.measure, "how": gate.mean_of or gate.how, "op": gate.op, "limit": gate.limit}
            for gate in map(Gate.of_stored, manifest.get("gates") or ())
        ],
        "slices": [
            {"name": value.name, "system": line.system, "measure": line.measure, "mean": line.mean, "n": line.n}
            for value in slices
            for line in value.summaries
        ],
        "names": list(report.measures),
        "lower": [name for name in report.measures if not higher_is_better(report[name].type)],
        "sources": {source: SOURCES[source] for source in strips_of},
        "queries": queries,
        "sizes": {"details": _DETAILS, "texts": _TEXTS},
        "label": _label_order(slots, queries["id"], excerpt),
        "baseline": _baseline(excerpt, baseline, details) if baseline is not None else None,
    }  # fmt: skip
    return data, blocks, strips_of


def _blocks(rows: Sequence[Json], size: int) -> list[bytes]:
    """Return JSON rows in groups of `size` rows, each compressed with raw deflate, for browsers to read."""
    return [zlib.compress(encode(some), 9, wbits=-15) for some in batched(rows, size)]


def _queries(
    report: ReportData, passages: dict[str, int]
) -> tuple[list[Facts], dict[str, Any], list[LabelSlot]]:
    """Return each query's details, columns with a value per query, and passages to label; fill `passages`."""
    systems = {name: number for number, name in enumerate(report.systems)}
    columns: dict[str, Any] = {name: [] for name in _COLUMNS}
    measured: list[dict[str, ExplainedLine]] = []
    strips: dict[str, list[str]] = {source: [] for source in SOURCES}
    details: list[Facts] = []
    slots: dict[tuple[str, str], LabelSlot] = {}
    for number, (sample, document) in enumerate(Explainer(report).facts_of_all()):
        facts: Facts = to_builtins(document)
        measured.append({line.measure: line for line in document.measures})
        lists = [call["contexts"] for call in facts["calls"]]
        signs = [[_signs(context["labels"]) for context in of] for of in lists]
        for at, of_source in enumerate(strips.values()):
            of_source.append("|".join("".join(of[at] for of in call) for call in signs))
        row = (
            sample.id,
            systems.get(sample.system, 0),
            sample.trial,
            sample.query,
            list(sample.tags),
            len(facts["missing"]),
            sum(grade > 0 for grade in (sample.qrels or {}).values()),
            sum(line.status in {"error", "incomplete"} for line in document.measures),
        )
        for name, value in zip(_COLUMNS, row, strict=True):
            columns[name].append(value)
        for call, contexts in enumerate(lists):
            for rank, context in enumerate(contexts):
                if context["text"].strip():
                    slots.setdefault((sample.id, context["item"]), (number, call, rank, context["item"]))
        details.append(_stored(facts, passages))
    by_measure = [[of.get(name) for of in measured] for name in report.measures]
    columns["values"] = [[line and _rounded(line.value) for line in of] for of in by_measure]
    columns["status"] = ["".join(line.status[0] if line else "-" for line in of) for of in by_measure]
    columns["strips"] = {source: strips[source] for source in _sources(report, strips)}
    return details, columns, list(slots.values())


def _stored(facts: Facts, passages: dict[str, int]) -> Facts:
    """Return a query's details with texts replaced by their numbers in `passages`, without empty fields."""
    for context in (context for call in facts["calls"] for context in call["contexts"]):
        item = context.pop("item")  # 32 signs that hardly compress: the drawn ones alone are kept
        if context["id"] is None:
            context["name"] = item[:8]
        context["text"] = passages.setdefault(context["text"], len(passages))
    return {name: value for name, value in facts.items() if value not in (None, [], "")}


def _signs(labels: Sequence[Facts]) -> str:
    """Return four signs for a passage's labels by gold, judge, people, and people or else the judge."""
    of = {label["source"]: _sign(label) for label in labels}
    gold, judge, human = (of.get(source, ".") for source in ("gold", "judge", "human"))
    return gold + judge + human + (judge if human == "." else human)


def _sign(label: Facts) -> str:
    """Return a label's sign: A-D for relevant with grade 0-3, a-d for not relevant, ? without a verdict."""
    if label["relevant"] is None:
        return "?"
    grade = label["grade"]
    level = (3 if grade else 0) if isinstance(grade, bool) else min(max(int(grade), 0), 3)
    return "ABCD"[level] if label["relevant"] else "abcd"[level]


def _sources(report: ReportData, strips_of: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the sources (gold, judge, human, best) with labels; first those that the measures read."""
    read = list(dict.fromkeys(summary.basis.source for summary in report.summaries))
    label = [source for source, strips in strips_of.items() if any(set(of) - {".", "|"} for of in strips)]
    shown = [source for source in label if source != "best" or source in read]
    return sorted(shown, key=[*read, *SOURCES].index) or ["judge"]


def _verdict_counts(report: ReportData) -> Json:
    """Return how many cases have a verdict, and how many of them failed; None if no case has one."""
    if not report.has_verdicts:
        return None
    verdicts = [case.failed for case in report.cases() if case.verdict is not None]
    return {"total": len(verdicts), "failed": sum(verdicts)} if verdicts else None


def _measure(summary: MeasureSummary, report: ReportData) -> Json:
    """Return what the page shows of one measure and system: summary, meaning, formula and histogram."""
    definition = Measure.remembered(summary.type).definition
    low, high = definition.range
    values = report.values_of(summary)
    top = high if isfinite(high) else max(1.0, *values.tolist()) if len(values) else 1.0
    low = low if isfinite(low) else min(0.0, *values.tolist()) if len(values) else 0.0
    return {
        **summary.as_json(),
        "measure": summary.measure,
        "system": summary.system,
        "words": summary.in_words(),
        "interval_words": summary.interval_in_words() if summary.interval else None,
        "why": [list(reason) for reason in summary.why[:5]],
        "formula": definition.formula,
        "meaning": in_a_sentence(definition.doc),
        "better": definition.better,
        "range": [low, high if isfinite(high) else None],
        "top": top,
        "bars": np.histogram(np.clip(values, low, top), _BARS, (low, top))[0].tolist() if top > low else [],
    }


def _label_order(slots: Sequence[LabelSlot], ids: Sequence[str], excerpt: Excerpt) -> Json:
    """Return the passages to label (judged ones, else all), in the random order of `germane label`."""
    report = excerpt.whole
    targets, others = choose_targets(report, "relevance", None)
    pool = pool_of(report.tables, "relevance")
    judged = [slot for slot in slots if not pool or slot[3] in pool.get(ids[slot[0]], ())]
    cases, target = [ids[query] for query, *_ in judged], targets[0]
    order = drawing_order(cases, target.design, SEED, min(len(judged), _DRAWN))[0].tolist() if judged else []
    words = []
    if target.measures and order:
        words.append(target.announcement([cases[at] for at in order], len(order)))
    if others:
        words.append(f"not corrected by labels of passages: {some_of(others, 4)}")
    return {
        "order": [list(judged[at]) for at in order],
        "design": {"design": target.design, "seed": SEED, "pool": fingerprint(pool)},
        "population": len(judged),
        "share": excerpt.share,
        "corrects": words,
        "guideline": "0 unrelated, 1 related without answering, 2 answers in part, 3 answers",
    }


def _last_list(facts: Facts) -> list[Json]:
    """Return a sample's last ranking as pairs of a passage's id and its four label signs."""
    contexts = facts["calls"][-1]["contexts"] if facts.get("calls") else []
    names = (context["id"] or context.get("name") or context["item"][:8] for context in contexts)
    return [[name, _signs(context["labels"])] for name, context in zip(names, contexts, strict=True)]


def _rounded(value: float | None) -> float | None:
    """Return a score rounded to six digits: equal scores of a report and its baseline stay equal."""
    return None if value is None else round(value, 6)


def _baseline(excerpt: Excerpt, whole: ReportData, now: Sequence[Facts]) -> Json:
    """Return the baseline's rankings and scores by the page's samples; null where it lacks the sample."""
    report, baseline = excerpt.report, excerpt.of_other(whole)
    measures = [name for name in report.measures if name in baseline]
    rows: dict[SampleKey, Json] = {}
    for sample, document in Explainer(baseline).facts_of_all():
        facts: Facts = to_builtins(document)
        values = {line.measure: _rounded(line.value) for line in document.measures}
        rows[sample.key] = {"places": _last_list(facts), "values": [values.get(name) for name in measures]}
    # one system alone is compared with every one, whatever its name
    only = baseline.systems[0] if len(baseline.systems) == 1 else None
    keys = ((s.id, s.system if only is None else only, s.trial) for s in report.samples())
    folder = baseline.folder or whole.folder
    return {
        "name": folder.name if folder else "baseline",
        "measures": measures,
        "rows": list(map(rows.get, keys)),
        "now": [_last_list(facts) for facts in now],
        "signs": list(SOURCES),
        "gone": sum(case not in excerpt.whole.case_scores.numbers for case in whole.case_scores.numbers),
    }
