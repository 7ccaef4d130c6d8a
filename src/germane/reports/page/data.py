"""The data of a report's HTML page: its queries, compressed texts, charts, and the text at the top."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from msgspec import UNSET, to_builtins

from germane.clean import counted, some_of
from germane.encoding import batched, encode, relevance_items
from germane.errors import InputError
from germane.folder.tables import BlockRows, Tables
from germane.measures.measure import Measure
from germane.places.lists import turns
from germane.reports.data import ReportData
from germane.reports.explain import ExplainDocument, ExplainedLine, Explainer, Facts, LabelLine
from germane.reports.gates import Gate
from germane.reports.label_draws import choose_targets, fingerprint, pool_of
from germane.reports.plots import Chart, differences_of, ranks
from germane.reports.summary import (
    LIKE_THESE,
    MeasureSummary,
    higher_is_better,
    in_digits,
    interval_in_words,
    is_diagnostic,
)
from germane.reports.text.overview import notes_of, remarks_of
from germane.statistics.correction import drawing_order
from germane.tables.judgements import JudgementTable, result_item
from germane.tables.scores import SampleKey, ScoreTable
from germane.types import Json

SOURCES = {
    "gold": "gold labels",
    "judge": "the judge's labels",
    "human": "people's labels",
    "best": "people's labels, and the judge's where there are none",
}
"""The sources of labels that the page can show for the passages of a ranking, in words."""

_DETAILS, _TEXTS = 64, 256  # queries and passages in one compressed block
_DRAWN = 1000  # the largest number of passages drawn for labels
_BARS = 10  # the number of bars of a histogram
LabelSlot: TypeAlias = tuple[int, int, int, str]  # the indices of a query, call and rank, and the item
_COLUMNS = ("id", "system", "trial", "query", "tags", "missed", "gold", "below")
SEED = 0
"""The seed of the random queries, and of the random order in which the page offers contexts for labels."""

MOST = 1200  # the largest number of queries on a page


class Excerpt:
    """The queries of a report that its HTML page shows: all queries, or a random sample if there are many.

    Because the sample is random, charts and labels of the sample represent all queries. `whole` is the full
    report with `total` queries. `report` contains only the `kept` queries that the page shows; it is `whole`
    itself if the page shows all queries.
    """

    def __init__(self, whole: ReportData, most: int = MOST) -> None:
        self.whole, scores = whole, whole.tables.scores
        case = whole.case_scores.case
        self.total = int(case.max(initial=-1)) + 1
        self.kept = min(self.total, most)
        self.share = self.kept / self.total if self.total else 1.0  # the proportion of queries on the page
        keep, summaries = np.arange(len(case)), whole.summaries
        if self.kept < self.total:
            drawn = np.random.default_rng(SEED).choice(self.total, most, replace=False)
            keep = np.flatnonzero(np.isin(case, drawn))
            summaries = tuple(whole.summaries_of(keep))
        self.report = _cut(whole, set(map(scores.key, keep.tolist())), summaries)


def _cut(report: ReportData, keys: Collection[SampleKey], summaries: Sequence[MeasureSummary]) -> ReportData:
    """Return the part of a report with the samples `keys`, in memory, with `summaries` as its summaries."""
    tables: Tables = report.tables
    if len(keys) == len(tables.scores.ids):
        return report
    samples = list(tables.samples_of(keys))
    places = list(tables.places_of(keys))
    items = {row.item for row in places}
    for sample in samples:  # labels are stored under the items of what a sample retrieved
        lists = sample.lists()
        pairs = [
            (query, context.passage)
            for own, contexts in lists
            for context in contexts
            for query in {sample.query, own}
        ]
        items.update(relevance_items(pairs, turns(sample)) if pairs else ())
    scores = ScoreTable(tables.scores.of_samples(keys))
    items.update(result_item(sample.key, name) for sample in samples for name in report.measures)
    numbers = tables.grader_numbers() if len(tables.graders) > 1 else {}
    rows = BlockRows(
        samples=samples,
        places=places,
        judgements=JudgementTable(tables.judgements_of(items)),
        labels=[label for label in tables.candidates("labels", "item", items) if label.item in items],
        scores=scores,
        graders=list(tables.graders),
        graded=numbers,
    )
    return ReportData(rows, report.manifest, report.verdict, summaries)


def page_data(
    report: ReportData,
    baseline: ReportData | None = None,
    *,
    excerpt: Excerpt | None = None,
    **sections: Json,
) -> tuple[dict[str, Json], tuple[list[bytes], list[bytes]], dict[str, list[Chart]]]:
    """Return the page's data, its compressed blocks of details and passages, and its charts by kind.

    If `baseline` is given, the page compares the report with it. `excerpt` selects the queries on the page;
    None means all queries, or a random sample of a large report. `sections` are further sections of the page,
    each the `--json` document of a command: `audit`, `comparison`, `stages` (without the documents) and
    `diagnosis`.
    """
    excerpt, passages = excerpt or Excerpt(report), dict[str, int]()
    details, queries, slots, lists = _queries(excerpt.report, passages)
    blocks = _blocks(details, _DETAILS), _blocks(list(passages), _TEXTS)
    systems = [report.systems[at] for at in queries["system"]]
    charts = {
        f"ranks-{kind}": ranks(excerpt.report, list(zip(systems, strips, strict=True)), SOURCES[kind])
        for kind, strips in queries["strips"].items()
    }
    if baseline is not None:
        with suppress(InputError):
            charts["differences"] = differences_of(report, baseline)
    has_tags = next(report.tables.values_of("tags"), None) is not None
    slices = report.slices("tags") if has_tags and not report.by else report.own_slices()[0]
    of_slices = [line for value in slices for line in value.summaries]
    failed = [case.failed for case in report.decided_cases() if case.verdict is not None]
    manifest, judge = report.manifest, report.judge
    data: dict[str, Json] = {
        "name": report.folder.name if report.folder else report.name or "report",
        **{name: manifest.get(name) for name in ("created", "germane")},
        "total": excerpt.total,
        "capped": f"{excerpt.kept:,} of {excerpt.total:,}" if excerpt.kept < excerpt.total else "",
        "random": excerpt.kept,
        "judge": {
            "source": judge.source,
            "stand_in": judge.stand_in or "",
            "spent": judge.spent if judge.source and judge.estimated is not UNSET else "",
        },
        "settings": manifest.get("settings") or {},
        "verdict": {**report.verdict.as_json(), "word": report.verdict.word},
        "cases": {"total": len(failed), "failed": sum(failed)} if failed else None,
        "stopped": report.stopped,
        "answer": answer(report),
        "weakest": weakest(report, of_slices),
        "next": next_steps(report),
        "systems": list(report.systems),
        "measures": [_measure(line, report) for line in report.summaries],
        "gates": [
            {"measure": gate.measure, "op": gate.op, "limit": gate.limit}
            for gate in _gates(report)
            if (gate.mean_of or gate.how) == "mean"
        ],
        "slices": [
            {"name": line.slice, **{name: getattr(line, name) for name in ("system", "measure", "mean", "n")}}
            for line in of_slices
        ],
        "names": list(report.measures),
        "lower": [name for name in report.measures if not higher_is_better(report[name].type)],
        "sources": {source: SOURCES[source] for source in queries["strips"]},
        "queries": queries,
        "sizes": {"details": _DETAILS, "texts": _TEXTS},
        "label": _label_order(slots, queries["id"], excerpt),
        "baseline": _baseline(excerpt, baseline, lists) if baseline is not None else None,
        "remarks": remarks_of(report),
        "notes": list(notes_of(report)),
        **dict.fromkeys(("audit", "comparison", "stages", "diagnosis")),
        **sections,
    }  # fmt: skip
    return data, blocks, charts


def _gates(report: ReportData, *, of_case: bool = False) -> list[Gate]:
    """Return the gates on reported measures; `of_case`: their conditions on a case, without changes."""
    gates = list(map(Gate.of_stored, report.manifest.get("gates") or ()))
    if of_case:
        gates = [Gate.parse(f"{g.measure}{g.share}") if g.share else g for g in gates if g.how != "change"]
    return [replace(gate, measure=report.reported(gate.measure)) for gate in gates if gate.measure in report]


def _blocks(rows: Sequence[Json], size: int) -> list[bytes]:
    """Return JSON rows in compressed blocks of `size` rows (raw deflate, for browsers)."""
    return [zlib.compress(encode(batch), 9, wbits=-15) for batch in batched(rows, size)]


def _queries(
    report: ReportData, passages: dict[str, int]
) -> tuple[list[Facts], dict[str, Any], list[LabelSlot], list[Json]]:
    """Return the queries' details, columns, slots to label and last rankings; number texts in `passages`."""
    systems = {name: number for number, name in enumerate(report.systems)}
    columns: dict[str, Any] = {name: [] for name in _COLUMNS}
    measured: list[dict[str, ExplainedLine]] = []
    strips: dict[str, list[str]] = {source: [] for source in SOURCES}
    details: list[Facts] = []
    slots: dict[tuple[str, str], LabelSlot] = {}
    lists: list[Json] = []
    gates = _gates(report, of_case=True)
    failed = {case.key for case in report.decided_cases() if case.failed_required}
    for number, (sample, document) in enumerate(Explainer(report).facts_of_all()):
        measured.append({line.measure: line for line in document.measures})
        lists.append(_last_list(document))
        signs = [[_signs(place.labels) for place in call.contexts] for call in document.calls]
        for at, of_source in enumerate(strips.values()):
            of_source.append("|".join("".join(sign[at] for sign in call) for call in signs))
        values = {line.measure: line.value for line in document.measures}
        below = any(
            gate.holds(v, v) == "failed" for gate in gates if (v := values.get(gate.measure)) is not None
        )
        row = (
            sample.id,
            systems.get(sample.system, 0),
            sample.trial,
            sample.query,
            list(sample.tags),
            len(document.missing),
            sum(grade > 0 for grade in (sample.qrels or {}).values()),
            sample.key in failed or below,
        )
        for name, value in zip(_COLUMNS, row, strict=True):
            columns[name].append(value)
        facts: Facts = {**to_builtins(document), "history": list(turns(sample))}
        for at, call in enumerate(facts["calls"]):
            for rank, context in enumerate(call["contexts"]):
                item = context.pop("item")  # hardly compressible: only drawn items are stored
                if context["text"].strip():
                    slots.setdefault((sample.id, item), (number, at, rank, item))
                if context["id"] is None:
                    context["name"] = item[:8]
                context["text"] = passages.setdefault(context["text"], len(passages))
        details.append({name: value for name, value in facts.items() if value not in (None, [], "")})
    by_measure = [[lines.get(name) for lines in measured] for name in report.measures]
    columns["values"] = [[line and _rounded(line.value) for line in lines] for lines in by_measure]
    columns["status"] = ["".join(line.status[0] if line else "-" for line in lines) for lines in by_measure]
    # the sources of labels in the strips, those that measures use first; the judge's without labels
    read = list(dict.fromkeys(summary.basis.source for summary in report.summaries))
    shown = [name for name, rows in strips.items() if any(set(strip) - {".", "|"} for strip in rows)]
    shown = [name for name in shown if name != "best" or name in read]
    ordered = sorted(shown, key=[*read, *SOURCES].index) or ["judge" if report.judge.source else "gold"]
    columns["strips"] = {source: strips[source] for source in ordered}
    return details, columns, list(slots.values()), lists


def _signs(labels: Sequence[LabelLine]) -> str:
    """Return four signs for a passage: its label by gold, the judge, people, and people or else the judge."""
    signs: dict[str, list[str]] = {}
    for label in labels:  # A-D if relevant with grade 0-3, a-d if not relevant, ? without a verdict
        sign = "?"
        if label.relevant is not None and (grade := label.grade) is not None:
            level = (3 if grade else 0) if isinstance(grade, bool) else min(max(int(grade), 0), 3)
            sign = "ABCD"[level] if label.relevant else "abcd"[level]
        signs.setdefault(label.source, []).append(sign)
    gold, judge = (signs.get(source, ".")[-1] for source in ("gold", "judge"))
    people = sorted(signs.get("human", "."), key=str.lower)
    human = people[(len(people) - 1) // 2]  # the lower median
    return gold + judge + human + (judge if human == "." else human)


def _measure(summary: MeasureSummary, report: ReportData) -> Json:
    definition = Measure.remembered(summary.type).definition
    low, high = definition.range
    scores = report.tables.scores
    values = scores.taken(scores.rows_of((summary.measure, summary.type), summary.system)).value
    top = high if isfinite(high) else max(1.0, *values.tolist()) if len(values) else 1.0
    low = low if isfinite(low) else min(0.0, *values.tolist()) if len(values) else 0.0
    edges = np.linspace(low, top, _BARS + 1).round(6)  # rounded as the scores on the page are
    return {
        **summary.as_json(),
        "measure": summary.measure,
        "system": summary.system,
        "words": summary.in_words(),
        "why": [list(reason) for reason in summary.why[:5]],
        "formula": definition.formula,
        "meaning": in_a_sentence(definition.doc),
        "better": definition.better,
        "range": [low, high if isfinite(high) else None],
        "edges": edges.tolist(),
        "bars": np.histogram(np.clip(values, low, top).round(6), edges)[0].tolist() if top > low else [],
    }


def _label_order(slots: Sequence[LabelSlot], ids: Sequence[str], excerpt: Excerpt) -> Json:
    """Return the passages to label, judged ones if any, in the random order of `germane label`."""
    report = excerpt.whole
    targets, others = choose_targets(report, "relevance", None)
    pool = pool_of(report.tables, "relevance")
    judged = [slot for slot in slots if not pool or slot[3] in pool.get(ids[slot[0]], ())]
    cases, target = [ids[query] for query, *_ in judged], targets[0]
    order = drawing_order(cases, target.design, SEED, min(len(judged), _DRAWN))[0].tolist() if judged else []
    drawn = [cases[at] for at in order]
    words = [target.announcement(drawn, len(drawn))] if target.measures and drawn else []
    words += [f"measures not corrected by labels of passages: {some_of(others, 4)}"] if others else []
    return {
        "order": [list(judged[at]) for at in order],
        "design": {"design": target.design, "seed": SEED, "pool": fingerprint(pool)},
        "population": len(judged),
        "share": excerpt.share,
        "corrects": words,
        "guideline": "0 unrelated, 1 related without answering, 2 answers in part, 3 answers",
    }


def _last_list(document: ExplainDocument) -> list[Json]:
    """Return a sample's last ranking, as pairs of a passage's id and its four label signs."""
    places = document.calls[-1].contexts if document.calls else []
    return [[place.id or place.item[:8], _signs(place.labels)] for place in places]


def _rounded(value: float | None) -> float | None:
    """Return a score rounded to six digits, so that equal scores of a report and its baseline stay equal."""
    return None if value is None else round(value, 6)


def _baseline(excerpt: Excerpt, whole: ReportData, now: Sequence[Json]) -> Json:
    """Return the baseline's ranking and scores of each sample on the page; null if it lacks the sample."""
    report, ids = excerpt.report, excerpt.report.case_scores.numbers
    keys = {key for key in whole.tables.scores.samples if key[0] in ids}
    baseline = _cut(whole, keys, whole.summaries)
    measures = [name for name in report.measures if name in baseline]
    rows: dict[SampleKey, Json] = {}
    for sample, document in Explainer(baseline).facts_of_all():
        values = {line.measure: _rounded(line.value) for line in document.measures}
        rows[sample.key] = {"places": _last_list(document), "values": [values.get(name) for name in measures]}
    # if the baseline has one system, each system is compared with it, whatever its name
    only = baseline.systems[0] if len(baseline.systems) == 1 else None
    counterparts = ((s.id, s.system if only is None else only, s.trial) for s in report.samples())
    return {
        "name": whole.folder.name if whole.folder else "baseline",
        "measures": measures,
        "rows": list(map(rows.get, counterparts)),
        "now": now,
        "signs": list(SOURCES),
        "gone": sum(case not in excerpt.whole.case_scores.numbers for case in whole.case_scores.numbers),
    }


_LEAST = 5  # the fewest cases of a slice that can be named as the worst
_STEPS = 3  # the largest number of suggested steps


def answer(report: ReportData) -> Json:
    """Return the best system's name, mean, meaning and interval in the first measure; None without a mean."""
    lines, best = _first(report)
    if best is None:
        return None
    ends, mean = best.interval, best.in_words()
    if best.corrected is not None:
        ends, mean = best.corrected.ends, f"{in_digits(best.corrected.mean)} corrected"
    words = [f"95% interval {interval_in_words(ends)}, {LIKE_THESE}."] if ends else []
    words += [f"The judge's own mean is {best.in_words()}."] if best.corrected else []
    if len(lines) > 1:
        others = ", ".join(f"{line.system} {in_digits(line.mean)}" for line in lines if line is not best)
        words.append(f"The best of {len(lines)} systems; the others: {others}.")
    name = f"{best.measure} of {best.system}" if len(lines) > 1 else best.measure
    meaning = in_a_sentence(Measure.remembered(best.type).definition.doc)
    return {"name": name, "mean": mean, "text": [name for name in (meaning, *words) if name]}


def in_a_sentence(doc: str) -> str:
    """Return the first sentence of a measure's docstring `doc`; "" if it is empty."""
    first = " ".join(doc.split("\n\n", maxsplit=1)[0].split()).partition(". ")[0].rstrip(".")
    return f"{first}." if first else ""


def weakest(report: ReportData, slices: Sequence[MeasureSummary]) -> Json:
    """Return the slice with the worst mean of the first measure, or None if too few are large enough."""
    _, overall = _first(report)
    if overall is None:
        return None
    name = overall.measure, overall.system
    results = [line for line in slices if (line.measure, line.system) == name and line.n >= _LEAST]
    if len(results) < 2:
        return None
    good = Measure.remembered(overall.type).definition.good
    worst = min(results, key=lambda line: good(line.mean or 0.0))
    ends, mean = worst.interval, overall.mean or 0.0
    below = ends is not None and good(ends[0]) < good(mean) and good(ends[1]) < good(mean)
    where = counted(worst.n, "query") + (f", 95% interval {interval_in_words(ends)}" if ends else "")
    of_system = f" of {overall.system}" if overall.system else ""
    sure = "The whole interval is worse than" if below else "That may be chance: the interval holds"
    judged = "The judge's " if overall.corrected else ""  # slices are not corrected
    words = [
        f"{judged}{overall.measure}{of_system} over {where}.",
        f"{sure} the mean of all, {in_digits(mean)}.",
        f"It is the worst of {len(results)} slices, so some of the gap is how it was picked.",
    ]
    return {"name": worst.slice, "mean": in_digits(worst.mean), "system": overall.system, "text": words}


def next_steps(report: ReportData) -> list[Json]:
    """Return up to three suggested next steps, the most urgent first: a sentence with a link or a command."""
    judge, where = report.judge, report.where or "REPORT"
    steps: list[tuple[str, str, str]] = []
    if lost := max((summary.failed for summary in report.summaries), default=0):
        missing = f"Ask again for the {counted(lost, 'score')} that could not be measured."
        steps.append((missing, f"germane run --resume {where}", "queries?only=errors"))
    if lost and judge.source == "labels":
        missing = f"Label more passages: {counted(lost, 'score')} could not be measured without their labels."
        steps = [(missing, f"germane label {where}", "label")]
    if any(gate.outcome == "failed" for gate in report.verdict.gates):
        steps.append(("Read the queries that are below a gate, the worst first.", "", "queries?only=gate"))
    if judge.stand_in:
        what = f"Let only models judge: {judge.stand_in.partition(';')[0].rstrip('.')}."
        steps.append((what, "germane run SAMPLES --judge MODEL", ""))
    elif any(line.basis.source == "judge" and not line.basis.calibrated for line in report.summaries):
        what = "Label some passages: labels show how far the judge can be trusted, and correct its means."
        steps.append((what, f"germane label {where}", "label"))
    if "results" in report.manifest:  # results of another program: germane cannot ask again
        steps = []
    steps += [("Read the worst queries.", "", "queries")] if report.measures else []
    return [{"text": text, "command": command, "link": link} for text, command, link in steps[:_STEPS]]


def _first(report: ReportData) -> tuple[list[MeasureSummary], MeasureSummary | None]:
    """Return each system's summary of the first measure with a mean, of quality if any, and the best one."""
    summaries = [summary for summary in report.summaries if summary.mean is not None]
    first = next((line for line in summaries if not is_diagnostic(line.type)), next(iter(summaries), None))
    if first is None:
        return [], None
    lines = [line for line in summaries if line.measure == first.measure]
    good = Measure.remembered(first.type).definition.good
    return lines, max(lines, key=lambda summary: good(summary.mean or 0.0))
