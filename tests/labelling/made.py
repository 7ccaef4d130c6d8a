"""Reports whose truth is known: a judge with grades of its own, people with theirs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import germane
from germane.judges import Judge
from germane.judges.judge import Reply
from germane.questions.kinds import Sufficiency, Support
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance
from germane.reports.report import Report
from germane.tables.labels import Label

QUERIES, PASSAGES = 12, 6
MEASURES = "context_relevance P(labels=judge)@6 context_precision"


class GradeJudge(Judge):
    """Grades a passage by the number in its text (`judge=2`); claims are supported where `says=yes` stands in them."""

    name = "grades"

    async def answer(self, questions: Sequence[AnyQuestion]) -> Sequence[Reply]:
        return list(map(self.one, questions))

    def one(self, question: AnyQuestion) -> Reply:
        if isinstance(question, Relevance):
            return Reply(payload={"grade": int(question.passage.split("judge=")[1][0]), "reasoning": ""})
        if isinstance(question, Support):
            rows = [
                {"claim": n, "reasoning": "", "contexts": [1] if "yes" in claim else []}
                for n, claim in enumerate(question.claims, 1)
            ]
            return Reply(payload={"claims": rows})
        if isinstance(question, Sufficiency):
            return Reply(payload={"reasoning": "", "sufficient": "judge=3" in question.contexts[0]})
        return Reply(payload={"claims": ["a yes", "b no", f"c {'yes' if len(question.about) % 2 else 'no'}"]})


def rows(systems: Sequence[str] = ("",), seed: int = 0) -> list[dict[str, Any]]:
    """Passages that say what the judge and what people make of them: the judge is one too high now and then."""
    rng = random.Random(seed)
    made = []
    for system in systems:
        for number in range(QUERIES):
            contexts = []
            for place in range(PASSAGES):
                truth = rng.choice([0, 0, 1, 2, 3])
                judged = min(3, truth + (rng.random() < 0.5))
                text = f"{system or 'one'} passage {number}.{place} truth={truth} judge={judged}"
                contexts.append({"id": f"{system}d{number}.{place}", "text": text})
            made.append({"id": f"q{number}", "query": f"question {number}", "system": system, "contexts": contexts,
                         "reference": f"reference{'.' * number}", "response": f"response{'.' * number}"})  # fmt: skip
    return made


def report_at(
    path: Path,
    measures: str = MEASURES,
    *,
    systems: Sequence[str] = ("",),
    judge: Any = None,
    gates: Sequence[str] = (),
    samples: Sequence[Mapping[str, Any]] | None = None,
) -> Report:
    """A stored report of these samples."""
    data = rows(systems) if samples is None else samples
    made = germane.evaluate([dict(row) for row in data], measures, judge=judge or GradeJudge(), gates=gates)
    made.save(path)
    return Report.open(path)


def truth_of(text: str) -> int:
    return int(text.split("truth=")[1][0])


def keep(report: Report) -> Callable[[Label], None]:
    """What stores a label in the report's folder."""

    def store(label: Label) -> None:
        report.tables.append_labels([label])

    return store
