"""What the page shows of a report: columns of all queries at once, and blocks of texts that are read when looked at."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import isfinite
from typing import Any, TypeAlias

from germane.measures.measure import Measure
from germane.reports.data import ReportData
from germane.reports.explain import Explainer, Facts
from germane.reports.gates import Gate
from germane.reports.manifest import spent_in_words
from germane.reports.page.render import pack
from germane.reports.summary import MeasureSummary, higher_is_better
from germane.tables.scores import SampleKey
from germane.types import Json, Sample

__all__ = ["SEED", "Pages"]

SEED = 0
"""The seed of the random order in which the page offers contexts for labels."""

_DETAILS, _TEXTS = 64, 256
"""How many queries, and how many passages, one compressed block holds."""
_DRAWN = 1000
"""How many places are drawn for labels at most."""
_BINS = 20


Place: TypeAlias = tuple[int, int, int, str]
"""A query, its call, a rank, each from 0, and the item there."""
_COLUMNS = ("id", "system", "trial", "query", "tags", "strip", "first", "missed", "gold", "bad")


class Pages:
    """The data of a report's page.

    Args:
        report: The report.
        baseline: Another report on the same queries, to compare with.
        text: Whether queries, passages, references and reasons are in it; a page without can be shared more widely.

    Attributes:
        data: What the page shows at once.
        blocks: Two groups of compressed blocks: the queries' details, and the passages.
        strips: (system, strip) of each sample.
    """

    def __init__(
        self,
        report: ReportData,
        baseline: ReportData | None = None,
        *,
        text: bool = True,
        extra: Mapping[str, Json] | None = None,
    ) -> None:
        self._text = text
        self._numbers: dict[str, int] = {}
        self._passages: list[str] = []
        details, queries, places = self._queries(report)
        self.blocks = (
            [pack(details[at : at + _DETAILS]) for at in range(0, len(details), _DETAILS)],
            [pack(self._passages[at : at + _TEXTS]) for at in range(0, len(self._passages), _TEXTS)],
        )
        self.strips = [
            (report.systems[at], strip) for at, strip in zip(queries["system"], queries["strip"], strict=True)
        ]
        manifest = report.manifest
        judge = manifest.get("judge") or {}
        self.data: dict[str, Json] = {
            "name": report.folder.name if report.folder else "report",
            "created": manifest.get("created"),
            "germane": manifest.get("germane"),
            "text": text,
            "judge": {
                "source": judge.get("source"),
                "stand_in": judge.get("stand_in") or "",
                "spent": spent_in_words(judge) if judge.get("source") else "",
            },
            "settings": manifest.get("settings") or {},
            "verdict": {**report.verdict.as_json(), "word": report.verdict.word},
            "cases": _ended(report),
            "stopped": report.stopped,
            "systems": list(report.systems),
            "measures": [_measure(summary) | ({} if text else {"why": []}) for summary in report.summaries],
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
            "names": list(report.measures),
            "lower": [name for name in report.measures if not higher_is_better(report[name].type)],
            "queries": queries,
            "sizes": {"details": _DETAILS, "texts": _TEXTS},
            "label": _drawn(places) if text else None,
            "baseline": _baseline(report, baseline, details) if baseline is not None else None,
            **(extra or {}),
        }

    def _queries(self, report: ReportData) -> tuple[list[Facts], dict[str, list[Json]], list[Place]]:
        """The details of each query, what all queries have as columns, and the places where a label may be given."""
        measures = {name: number for number, name in enumerate(report.measures)}
        systems = {name: number for number, name in enumerate(report.systems)}
        explainer, leading = Explainer(report), _leading(report)
        rows: list[dict[str, Json]] = []
        details: list[Facts] = []
        places: dict[tuple[str, str], Place] = {}
        for number, (sample, scores) in enumerate(_scored(report)):
            facts = explainer.facts(sample, scores, changes=False)
            values, state = [None] * len(measures), ["-"] * len(measures)
            for score in scores:
                at = measures[score.measure]
                values[at] = None if score.value is None else round(score.value, 6)
                state[at] = score.status[0]
            strip = "|".join(
                "".join(_sign(c["labels"], leading) for c in call["contexts"]) for call in facts["calls"]
            )
            rows.append(
                {
                    "id": sample.id,
                    "system": systems.get(sample.system, 0),
                    "trial": sample.trial,
                    "query": sample.query if self._text else "",
                    "tags": list(sample.tags),
                    "strip": strip,
                    "first": _first(strip),
                    "missed": len(facts["missing"]),
                    "gold": sum(grade > 0 for grade in (sample.qrels or {}).values()),
                    "bad": sum(score.status in {"error", "incomplete"} for score in scores),
                    "values": values,
                    "status": state,
                }
            )
            for call_number, call in enumerate(facts["calls"]):
                for rank, context in enumerate(call["contexts"]):
                    if context["text"].strip():
                        place = number, call_number, rank, context["item"]
                        places.setdefault((sample.id, context["item"]), place)
            details.append(self._stored(facts))
        columns = {name: [row[name] for row in rows] for name in _COLUMNS}
        columns["values"] = [[row["values"][at] for row in rows] for at in measures.values()]
        columns["status"] = ["".join(row["status"][at] for row in rows) for at in measures.values()]
        return details, columns, list(places.values())

    def _stored(self, facts: Facts) -> Facts:
        """The facts with passages as numbers, or without any text."""
        if not self._text:
            _without_text(facts)
        for context in (context for call in facts["calls"] for context in call["contexts"]):
            text = context.pop("text")
            item = context.pop("item")  # 32 signs that hardly compress: the drawn ones alone are kept
            if context["id"] is None:
                context["name"] = item[:8]
            if self._text:
                context["text"] = self._numbers.setdefault(text, len(self._passages))
                if context["text"] == len(self._passages):
                    self._passages.append(text)
        return {name: value for name, value in facts.items() if value not in (None, [], "")}


def _without_text(facts: Facts) -> None:
    """Leave out what quotes the data: queries, references, claims and reasons."""
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


def _scored(report: ReportData) -> Iterator[tuple[Sample, list[Any]]]:
    """Each sample with its scores, both in input order."""
    rows: dict[SampleKey, list[Any]] = {}
    for key, scores in groupby(report.scores(), key=lambda score: score.key):
        rows.setdefault(key, []).extend(scores)
    for sample in report.samples():
        yield sample, rows.get(sample.key, [])


def _leading(report: ReportData) -> str:
    """Whose labels the strips show first: those of the first ranked measure."""
    for summary in report.summaries:
        if summary.basis.source in {"gold", "judge", "human"}:
            return summary.basis.source
    return "judge"


def _sign(labels: Sequence[Facts], leading: str) -> str:
    """One sign per place: A to D relevant with grade 0 to 3 or more, a to d not relevant, ? no verdict, . unjudged."""
    own = [label for label in labels if label["source"] == leading]
    label = next(iter(own if own or leading == "gold" else labels), None)
    if label is None:
        return "."
    if label["relevant"] is None:
        return "?"
    grade = label["grade"]
    level = (3 if grade else 0) if isinstance(grade, bool) else min(max(int(grade), 0), 3)
    return "ABCD"[level] if label["relevant"] else "abcd"[level]


def _first(strip: str) -> int:
    """The rank of the first relevant place in any of the calls; 0 where there is none."""
    ranks = [rank for call in strip.split("|") for rank, sign in enumerate(call, 1) if sign in "ABCD"]
    return min(ranks, default=0)


def _ended(report: ReportData) -> Json:
    """How many cases have a verdict, and how many of them failed; null where none has one."""
    verdicts = [case.failed for case in report.cases() if case.verdict is not None]
    return {"total": len(verdicts), "failed": sum(verdicts)} if verdicts else None


def _measure(summary: MeasureSummary) -> Json:
    known = Measure.remembered(summary.type).definition
    low, high = known.range
    return {
        **summary.as_json(),
        "measure": summary.measure,
        "system": summary.system,
        "words": summary.in_words(),
        "interval_words": summary.interval_in_words() if summary.interval else None,
        "why": [list(reason) for reason in summary.why[:5]],
        "formula": known.formula,
        "better": known.better,
        "range": [low, high if isfinite(high) else None],
    }


def _drawn(places: Sequence[Place]) -> Json:
    """A simple random sample of the places, in random order: each is as likely as any other."""
    count = min(len(places), _DRAWN)
    drawn = random.Random(SEED).sample(range(len(places)), count)  # noqa: S311 - a sample, no secret
    return {
        "order": [list(places[at]) for at in drawn],
        "design": {"seed": SEED, "population": len(places)},
        "guideline": "0 unrelated, 1 related without answering, 2 answers in part, 3 answers",
    }


def _places(facts: Facts, leading: str) -> list[Json]:
    """The last list of a sample as names and signs."""
    contexts = facts["calls"][-1]["contexts"] if facts.get("calls") else []
    return [
        [context["id"] or context.get("name") or context["item"][:8], _sign(context["labels"], leading)]
        for context in contexts
    ]


def _baseline(report: ReportData, baseline: ReportData, now: Sequence[Facts]) -> Json:
    """The baseline's ranked lists and scores, in the order of the report's samples; null where it has no such one."""
    measures = [name for name in report.measures if name in baseline]
    leading = _leading(baseline)
    explainer = Explainer(baseline)
    known: dict[SampleKey, Json] = {}
    for sample, scores in _scored(baseline):
        facts = explainer.facts(sample, scores, changes=False)
        values = {score.measure: score.value for score in scores}
        row = {"places": _places(facts, leading), "values": [values.get(name) for name in measures]}
        known[sample.key] = row
    alone = len(baseline.systems) == 1  # then it is beside every system, whatever its name
    mine = [
        (sample.id, baseline.systems[0] if alone else sample.system, sample.trial)
        for sample in report.samples()
    ]
    here = set(mine)
    return {
        "name": baseline.folder.name if baseline.folder else "baseline",
        "measures": measures,
        "rows": list(map(known.get, mine)),
        "now": [_places(facts, _leading(report)) for facts in now],
        "gone": [key[0] for key in known if key not in here],
    }
