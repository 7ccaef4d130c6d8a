"""The data of a report's page: columns of the queries on it, and blocks of texts that are read when looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from msgspec import to_builtins

from germane.clean import some_of
from germane.encoding import deflated, encode, json_of
from germane.measures.measure import Measure
from germane.reports.correction.draws import fingerprint, pool_of
from germane.reports.correction.targets import choose_targets
from germane.reports.data import ReportData, Slice
from germane.reports.explain import Explainer, Facts
from germane.reports.gates import Gate
from germane.reports.manifest import spent_in_words
from germane.reports.page.excerpt import SEED, Excerpt
from germane.reports.page.headline import answer, in_a_sentence, next_steps, weakest
from germane.reports.summary import MeasureSummary, higher_is_better
from germane.statistics.sampling import drawing_order
from germane.tables.scores import SampleKey
from germane.types import Json, Sample, Score

SOURCES = {
    "gold": "gold labels",
    "judge": "the judge's labels",
    "human": "people's labels",
    "best": "people's labels, and the judge's where there are none",
}
"""The sources of labels that the page can show at the places of a ranking, in words."""

_ORDER = range(len(SOURCES))
_DETAILS, _TEXTS = 64, 256
"""The numbers of queries and of passages in one compressed block."""
_DRAWN = 1000
"""The largest number of places drawn for labels."""
_BARS = 10
"""The number of bars of a histogram."""
_TAGS = 60
"""Tags that are shown as slices at most."""

LabelSlot: TypeAlias = tuple[int, int, int, str]
"""A query, its call, a rank, each from 0, and the item there."""
_COLUMNS = ("id", "system", "trial", "query", "tags", "missed", "gold", "bad", "drawn")


class Pages:
    """The data of a report's page.

    Args:
        excerpt: The report, and the queries of it that are on the page.
        baseline: Another report on the same queries, to compare with.
        text: Whether queries, passages, references and reasons are in it; a page without can be shared more widely.
        extra: Further data: remarks, notes, the judge's audit, the comparison with the baseline.

    Attributes:
        data: The data that the page shows at once.
        blocks: Two groups of compressed blocks: the queries' details, and the passages.
        strips: For each source of labels the system and the strip of each sample of the random queries.
    """

    def __init__(
        self,
        excerpt: Excerpt,
        baseline: ReportData | None = None,
        *,
        text: bool = True,
        extra: Mapping[str, Json],
    ) -> None:
        self._text = text
        self._passages: dict[str, int] = {}
        report = excerpt.whole
        drawn = set(excerpt.random.tables.scores.keys)
        details, queries, positions = self._queries(excerpt.report, drawn)
        texts = list(self._passages)
        self.blocks = tuple(
            [deflated([encode(rows[at : at + size])]) for at in range(0, len(rows), size)]
            for rows, size in ((details, _DETAILS), (texts, _TEXTS))
        )
        systems, is_drawn = [report.systems[at] for at in queries["system"]], queries.pop("drawn")
        self.strips = {
            source: [
                (system, strip) for system, strip, of in zip(systems, strips, is_drawn, strict=True) if of
            ]
            for source, strips in queries["strips"].items()
        }
        slices = _slices_of(report)
        manifest = report.manifest
        judge = manifest.get("judge") or {}
        self.data: dict[str, Json] = {
            "name": report.folder.name if report.folder else report.name or "report",
            "created": manifest.get("created"),
            "germane": manifest.get("germane"),
            "text": text,
            "total": excerpt.total,
            "capped": excerpt.in_words(),
            "random": len({name for name, _, _ in drawn}),
            "judge": {
                "source": judge.get("source"),
                "stand_in": judge.get("stand_in") or "",
                "spent": spent_in_words(judge) if "calls" in judge and judge.get("source") else "",
            },
            "settings": manifest.get("settings") or {},
            "verdict": {**report.verdict.as_json(), "word": report.verdict.word},
            "cases": _verdict_counts(report),
            "stopped": report.stopped,
            "answer": answer(report),
            "weakest": weakest(report, slices),
            "next": next_steps(report),
            "systems": list(report.systems),
            "measures": [
                _measure(summary, report) | ({} if text else {"why": []}) for summary in report.summaries
            ],
            "gates": [
                {"measure": gate.measure, "how": how, "op": gate.op, "limit": gate.limit}
                for gate in map(Gate.of_stored, manifest.get("gates") or ())
                for how in [gate.mean_of or gate.how]
            ],
            "files": [
                [file.name, s.measure, s.system, s.in_words(), s.interval_in_words(), s.count_in_words()]
                for file in report.files
                for s in file.summaries
            ],
            "slices": [
                {"name": value.name, "system": line.system, "measure": line.measure, "mean": line.mean, "n": line.n}
                for value in slices
                for line in value.summaries
            ],
            "by_call": json_of(report.by_call),
            "names": list(report.measures),
            "lower": [name for name in report.measures if not higher_is_better(report[name].type)],
            "sources": {source: SOURCES[source] for source in self.strips},
            "queries": queries,
            "sizes": {"details": _DETAILS, "texts": _TEXTS},
            "label": _label_order(positions, queries["id"], excerpt) if text else None,
            "baseline": _baseline(excerpt, baseline, details) if baseline is not None else None,
            **extra,
        }  # fmt: skip

    def _queries(
        self, report: ReportData, drawn: Collection[SampleKey]
    ) -> tuple[list[Facts], dict[str, Any], list[LabelSlot]]:
        """Return the details of each query, columns over all queries, and the places where a label may be given.

        Labels are given in the `drawn` samples.
        """
        systems = {name: number for number, name in enumerate(report.systems)}
        explainer = Explainer(report)
        rows: list[dict[str, Json]] = []
        scored: list[dict[str, Score]] = []
        strips: list[list[str]] = []
        details: list[Facts] = []
        slots: dict[tuple[str, str], LabelSlot] = {}
        for number, (sample, scores, document) in enumerate(explainer.facts_of_all(_scored(report))):
            facts: Facts = to_builtins(document)
            scored.append({score.measure: score for score in scores})
            lists = [call["contexts"] for call in facts["calls"]]
            signs = [[_signs(context["labels"]) for context in of] for of in lists]
            strips.append(["|".join("".join(of[at] for of in call) for call in signs) for at in _ORDER])
            rows.append(
                {
                    "id": sample.id,
                    "system": systems.get(sample.system, 0),
                    "trial": sample.trial,
                    "query": sample.query if self._text else "",
                    "tags": list(sample.tags),
                    "missed": len(facts["missing"]),
                    "gold": sum(grade > 0 for grade in (sample.qrels or {}).values()),
                    "bad": sum(score.status in {"error", "incomplete"} for score in scores),
                    "drawn": sample.key in drawn,
                }
            )
            for call, contexts in enumerate(lists if sample.key in drawn else ()):
                for rank, context in enumerate(contexts):
                    if context["text"].strip():
                        slot = number, call, rank, context["item"]
                        slots.setdefault((sample.id, context["item"]), slot)
            details.append(self._stored(facts))
        columns: dict[str, Any] = {name: [row[name] for row in rows] for name in _COLUMNS}
        by_measure = [[of.get(name) for of in scored] for name in report.measures]
        columns["values"] = [[score and _rounded(score.value) for score in of] for of in by_measure]
        columns["status"] = ["".join(score.status[0] if score else "-" for score in of) for of in by_measure]
        chosen = [(source, list(SOURCES).index(source)) for source in _sources(report, strips)]
        columns["strips"] = {source: [of[at] for of in strips] for source, at in chosen}
        return details, columns, list(slots.values())

    def _stored(self, facts: Facts) -> Facts:
        """Return the facts with passages as numbers, or without any text."""
        if not self._text:
            _without_text(facts)
        for context in (context for call in facts["calls"] for context in call["contexts"]):
            text = context.pop("text")
            item = context.pop("item")  # 32 signs that hardly compress: the drawn ones alone are kept
            if context["id"] is None:
                context["name"] = item[:8]
            if self._text:
                context["text"] = self._passages.setdefault(text, len(self._passages))
        return {name: value for name, value in facts.items() if value not in (None, [], "")}


def _without_text(facts: Facts) -> None:
    """Remove what quotes the data: queries, references, claims and reasons."""
    for name in ("query", "reference", "criterion", "response", "error"):
        facts[name] = None
    facts["matrices"] = []
    for row in facts["measures"]:
        for name in ("why", "reasoning", "hits", "misses", "panel", "details"):
            row.pop(name, None)  # a failure's message may quote what was asked
    for call in facts["calls"]:
        call["query"] = ""
        for label in (label for context in call["contexts"] for label in context["labels"]):
            label.pop("reason", None)
            label.pop("votes", None)


def _scored(report: ReportData) -> Iterator[tuple[Sample, list[Score]]]:
    """Iterate over each sample with its scores, in input order."""
    rows: dict[SampleKey, list[Score]] = {}
    for key, scores in groupby(report.scores(), key=lambda score: score.key):
        rows.setdefault(key, []).extend(scores)
    for sample in report.samples():
        yield sample, rows.get(sample.key, [])


# labels at places: one sign for each source


def _signs(labels: Sequence[Facts]) -> str:
    """Return four characters for a place: its label by gold, by the judge, by people, and the best of the last two."""
    of = {label["source"]: _sign(label) for label in labels}
    gold, judge, human = (of.get(source, ".") for source in ("gold", "judge", "human"))
    return gold + judge + human + (judge if human == "." else human)


def _sign(label: Facts) -> str:
    """Return A to D for relevant with grade 0 to 3 or more, a to d for not relevant, ? for no verdict."""
    if label["relevant"] is None:
        return "?"
    grade = label["grade"]
    level = (3 if grade else 0) if isinstance(grade, bool) else min(max(int(grade), 0), 3)
    return "ABCD"[level] if label["relevant"] else "abcd"[level]


def _sources(report: ReportData, strips: Sequence[Sequence[str]]) -> list[str]:
    """Return the sources that label any place, that of the first ranked measure first; `strips` has one per source."""
    read = list(dict.fromkeys(summary.basis.source for summary in report.summaries))
    labelling = [
        source
        for at, source in enumerate(SOURCES)
        if (source != "best" or source in read) and any(set(of[at]) - {".", "|"} for of in strips)
    ]
    return sorted(labelling, key=[*read, *SOURCES].index) or ["judge"]


# the parts


def _verdict_counts(report: ReportData) -> Json:
    """Return the numbers of cases with a verdict and of those that failed; None if no case has one."""
    if not report.has_verdicts:
        return None
    verdicts = [case.failed for case in report.cases() if case.verdict is not None]
    return {"total": len(verdicts), "failed": sum(verdicts)} if verdicts else None


def _measure(summary: MeasureSummary, report: ReportData) -> Json:
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


def _slices_of(report: ReportData) -> list[Slice]:
    """Return the slices that the report is shown in, else its tags and the turns of conversations."""
    if report.by:
        return report.own_slices()[0]
    turns = report.slices("turn") if report.tables.any_has("history") else []
    return [*report.tag_slices(_TAGS), *turns]


def _label_order(slots: Sequence[LabelSlot], ids: Sequence[str], excerpt: Excerpt) -> Json:
    """Return the passages that are offered for labels, as `germane label` draws them: of those that were judged, else of all.

    `ids` are those of the queries on the page.
    """
    report = excerpt.whole
    targets, others = choose_targets(report, "relevance", None)
    pool = pool_of(report.tables, "relevance")
    judged = [slot for slot in slots if not pool or slot[3] in pool.get(ids[slot[0]], ())]
    cases, target = [ids[query] for query, *_ in judged], targets[0]
    order = drawing_order(cases, target.design, SEED, min(len(judged), _DRAWN))[0].tolist() if judged else []
    words = (
        [target.announcement([cases[at] for at in order], len(order))] if target.measures and order else []
    )
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
    """Return the last list of a sample as names and signs."""
    contexts = facts["calls"][-1]["contexts"] if facts.get("calls") else []
    names = (context["id"] or context.get("name") or context["item"][:8] for context in contexts)
    return [[name, _signs(context["labels"])] for name, context in zip(names, contexts, strict=True)]


def _rounded(value: float | None) -> float | None:
    """Return a score as the page holds it, and the baseline's, so that equal scores stay equal."""
    return None if value is None else round(value, 6)


def _baseline(excerpt: Excerpt, whole: ReportData, now: Sequence[Facts]) -> Json:
    """Return the baseline's ranked lists and scores, in the order of the page's samples; null for samples it lacks."""
    report, baseline = excerpt.report, excerpt.of_other(whole)
    measures = [name for name in report.measures if name in baseline]
    explainer = Explainer(baseline)
    rows: dict[SampleKey, Json] = {}
    for sample, scores, document in explainer.facts_of_all(_scored(baseline)):
        facts: Facts = to_builtins(document)
        values = {score.measure: _rounded(score.value) for score in scores}
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
        "gone": excerpt.absent(whole),
    }
