"""Audit gold labels: list the documents on which judges and gold disagree most."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Literal

import numpy as np

from germane.clean import counted, shorten
from germane.encoding import Line
from germane.errors import InputError
from germane.labelling.audit import AuditedJudge, Grades
from germane.measures.measure import Measure
from germane.places.lists import labelled_contexts
from germane.reports.data import ReportData
from germane.show.table import Table, TextDocument
from germane.statistics.agreement import doubt_of_labels

_MOST_LISTED, _MOST_SHOWN = 1000, 20


class GoldDocument(Line, kw_only=True):
    """A document of a query with its gold label and each judge's grade of its passage.

    `gold` is the document's grade; None if it has no gold label, which counts as not relevant. `doubt` is the
    probability that the gold label is wrong. `grades` holds one grade per judge, None if the judge gave none.
    """

    sample: str
    id: str
    query: str
    passage: str
    gold: int | None
    doubt: float = 0.0
    grades: list[float | None]


class GoldAudit(Line, kw_only=True):
    """The document that `germane audit --gold --json` prints: the documents with the most doubtful gold.

    A gold grade of `counts_from` or more means relevant. `places` is the number of documents that
    were checked, because a judge graded them. `suspects` lists the most doubtful documents first.
    """

    schema_version: Literal[1] = 1
    judges: list[str | None]
    counts_from: int
    places: int
    suspects: list[GoldDocument]


def audit_gold(reports: Sequence[ReportData]) -> GoldAudit:
    """Compare the first report's gold with the grades of all reports' judges; no report is changed.

    A document counts as relevant if its gold grade reaches the `rel` of the first report's first gold
    measure. Raises InputError if the first report has no gold, or no judge graded a passage with a document
    id.
    """
    of_gold = (Measure.remembered(line.type) for line in reports[0].summaries if line.basis.source == "gold")
    rel = next((int(measure.settings.get("rel") or 1) for measure in of_gold), 1)
    samples = [sample for sample in reports[0].samples() if sample.qrels is not None]
    if not samples:
        fix = "name a report whose samples have gold"
        raise InputError("no sample of the first report has gold (qrels)", fix=fix)
    by_judge: dict[str | None, Grades] = {}
    for report in reports:  # reports by one judge have one vote; the first grade of a passage counts
        grades_of = AuditedJudge.of(report, every=True).kinds.get("relevance", {})
        by_judge[report.judge.source] = {**grades_of, **by_judge.get(report.judge.source, {})}
    graded = by_judge.values()
    rows: dict[tuple[str, str], GoldDocument] = {}
    for sample in samples:
        for item, context in labelled_contexts(sample):
            name = sample.id, context.id or ""
            if context.id is None or name in rows or not any(item in verdicts for verdicts in graded):
                continue
            rows[name] = GoldDocument(
                sample=sample.id,
                id=context.id,
                query=sample.query,
                passage=context.passage,
                gold=(sample.qrels or {}).get(context.id),
                grades=[verdicts[item][0] if item in verdicts else None for verdicts in graded],
            )
    if not rows:
        problem = "no judge graded a passage with a document id, so there is nothing to compare with the gold"
        fix = "run a judged measure, e.g. context_relevance, on samples whose contexts have ids and texts"
        raise InputError(problem, fix=fix)
    documents = list(rows.values())
    labels = [nan if row.gold is None else float(row.gold >= rel) for row in documents]
    grades = np.array([row.grades for row in documents], float).T  # None is nan
    doubts = doubt_of_labels(labels, grades, [row.sample for row in documents]).tolist()
    for row, doubt in zip(documents, doubts, strict=True):
        row.doubt = doubt
    suspects = sorted(documents, key=lambda row: -round(row.doubt, 9))[:_MOST_LISTED]
    return GoldAudit(judges=list(by_judge), counts_from=rel, places=len(documents), suspects=suspects)


def gold_document(audit: GoldAudit) -> TextDocument:
    """Return the audit of the gold as text, with a table of the most doubtful documents."""
    judges = ", ".join(map(str, audit.judges))
    suspects = Table(["doubt", "query", "document", "gold", "judges"], "rllrl")
    for suspect in audit.suspects[:_MOST_SHOWN]:
        grades = ", ".join("-" if grade is None else f"{grade:g}" for grade in suspect.grades)
        query, document = shorten(suspect.query, 60), shorten(suspect.id, 60, end=30)
        suspects.add([f"{suspect.doubt:.2f}", query, document, suspect.gold, grades])
    places = counted(audit.places, "document")
    from_grade = f"relevant in the gold from grade {audit.counts_from}"
    head = f"{places} of queries with gold, graded by {judges}; {from_grade}"
    return [head, "", suspects, "", "the gold was not changed; --json lists more documents"]
