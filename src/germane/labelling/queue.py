"""The order in which things are labelled: a random draw with known probabilities, or doubtful verdicts first.

Every order is nested: whoever stops early, or goes on with a larger budget, has labelled a sample of the same design.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan, nan
from typing import Any, Literal, TypeAlias

import numpy as np

from germane.errors import InputError
from germane.judging.recorded import StoredAnswers
from germane.measures.measure import Measure
from germane.places.lists import places_of, turns
from germane.places.places import Places
from germane.places.settings import Settings
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Relevance
from germane.reports.correction.draws import fingerprint, pool_of
from germane.reports.correction.terms import BLOCK, claim_verdicts, reads_verdicts
from germane.reports.data import ReportData
from germane.reports.explain import recorded, settings_of
from germane.statistics.sampling import Design, drawing_order
from germane.tables.columns import batched
from germane.types import FrozenDict, Sample

QueueName: TypeAlias = Literal["random", "targeted"]

_NOTHING = {
    "relevance": ("passages", "name a report whose samples have contexts"),
    "support": ("claims", "run it with context_recall or faithfulness"),
    "sufficiency": ("verdicts on sufficiency", "run it with context_sufficiency"),
}
"""The kinds of things that people label; what is missing where there are none, and how to have some."""
_TEXTS = ("reference", "criterion", "response")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTask:
    """One thing to label: a passage's relevance, the support of a claim, or sufficiency.

    `case` is the query that it belongs to, whatever the systems; `sample`, `system`, `call` and `rank` are the first place
    where it stands. `texts` are what the judge was shown besides the query. `verdict` is the judge's (nan = none) and is not
    shown; `doubt` is higher the less certain that verdict is. `design` is how a queue drew it; None where no probability is known.
    """

    item: str
    kind: str
    case: str
    query: str
    passages: tuple[str, ...]
    claim: str | None = None
    history: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    sample: str = ""
    system: str = ""
    call: int | None = None
    rank: int | None = None
    verdict: float = nan
    doubt: float = 0.0
    design: FrozenDict | None = None


def label_tasks(report: ReportData, kind: str = "relevance") -> list[LabelTask]:
    """Return everything in a report that a person can label, once per query.

    For `relevance` that is what the judged measures read, to their cut-offs; where nothing was judged it is every passage.
    For `support` it is the claims that were compared with the passages, for `sufficiency` the passages of each query together.
    InputError where there is nothing.
    """
    settings, answers = settings_of(report), recorded(report)
    of_passages = kind == "relevance"
    measures = dict.fromkeys(Measure.remembered(summary.type) for summary in report.summaries)
    measures = {measure: None for measure in measures if not of_passages or reads_verdicts(measure, settings)}
    tasks: dict[tuple[str, str], LabelTask] = {}
    for samples in batched(report.samples(), BLOCK):
        read = answers.places_reader(samples, settings)
        for number, sample in enumerate(samples):
            for measure in measures:
                found = _claims(measure, sample, settings, answers)
                if of_passages:
                    found = _passages(read(measure.choice, measure.depth), number)
                for item, questions, at, fields in found:
                    if (sample.id, item) not in tasks and questions[at].kind == kind:
                        tasks[sample.id, item] = _task(sample, item, questions[at], **fields)
    if not tasks and of_passages:  # no judge was asked
        tasks = {(task.case, task.item): task for task in _all_passages(report)}
    if not tasks:
        problem, fix = _NOTHING[kind]
        raise InputError(f"this report has no {problem} to label", fix=fix)
    return list(tasks.values())


def _all_passages(report: ReportData) -> Iterator[LabelTask]:
    """Yield a task for each place of the rankings whose context has a text."""
    for sample in report.samples():
        for call, rank, context in places_of(sample):
            if context.text.strip():
                asked = Relevance(query=sample.query, passage=context.passage, history=turns(sample))
                yield _task(sample, asked.item, asked, call=call, rank=rank)


_Verdict: TypeAlias = tuple[str, Sequence[AnyQuestion], int, dict[str, Any]]
"""An item, the questions of which one asked about it, the number of that one, and what `_task` is to know of the verdict."""


def _passages(places: Places, sample: int) -> Iterator[_Verdict]:
    """Yield the judged passages of a sample, by its number."""
    questions = places.questions(sample)
    for call, rank, at in places.ranks_of(sample):
        binary = places.scales[places.scale[at]] == "binary"
        fields = {"verdict": float(places.grades[at]), "binary": binary, "call": call, "rank": rank}
        yield questions.items[places.verdict[at]], questions, places.verdict[at], fields


def _claims(
    measure: Measure, sample: Sample, settings: Settings, answers: StoredAnswers
) -> Iterator[_Verdict]:
    """Yield the claims of a sample, or its passages together, that a measure asked about."""
    for question, item, claim, verdict, _ in claim_verdicts(measure, sample, settings, answers):
        yield item, (question,), 0, {"claim": claim, "verdict": verdict}


def queue_of(
    report: ReportData, kind: str = "relevance", design: Design = "passages", **how: Any
) -> LabelQueue:
    """Return the queue of a report's tasks of one kind. InputError where there is nothing to label."""
    pool, tasks = pool_of(report.tables, kind), label_tasks(report, kind)
    judged = [task for task in tasks if task.item in pool.get(task.case, ())]
    return LabelQueue(tasks=judged or tasks, design=design, pool=fingerprint(pool), **how)


def _task(
    sample: Sample,
    item: str,
    question: AnyQuestion,
    *,
    claim: int = 0,
    verdict: float = nan,
    binary: bool = True,
    call: int = 0,
    rank: int = 0,
) -> LabelTask:
    """Return the task of an item, which a question or one of its claims (from 1) is about, with the judge's verdict."""
    fields = question.inputs()
    claims = fields.get("claims") or ()
    doubt = 0.0
    if not isnan(verdict):  # the nearer to the threshold the more doubtful
        doubt = 0.5 if binary else 1 - abs(verdict - (HELPS - 0.5)) / HELPS
    return LabelTask(
        item=item,
        kind=question.kind,
        case=sample.id,
        query=sample.query if claims else fields.get("query", sample.query),
        passages=tuple(fields.get("contexts") or (fields.get("passage") or "",)),
        claim=claims[claim - 1] if claims else None,
        history=turns(sample),
        texts=tuple((name, str(fields[name])) for name in _TEXTS if fields.get(name) and not claims),
        sample=sample.id,
        system=sample.system,
        call=call or None,
        rank=rank or None,
        verdict=verdict,
        doubt=doubt,
    )


@dataclass(frozen=True, kw_only=True)
class LabelQueue:
    """The order in which things are labelled.

    `pool` is the fingerprint of everything that is drawn from. `queue`: random; targeted, the most doubtful verdicts first,
    which corrects no mean. `design`: some passages of every query, or whole queries. `budget` is the number of labels;
    None = all.
    """

    tasks: Sequence[LabelTask]
    queue: QueueName = "random"
    design: Design = "passages"
    budget: int | None = None
    seed: int = 0
    pool: str = ""

    @property
    def kind(self) -> str:
        """The kind of its tasks; relevance where there are none."""
        return self.tasks[0].kind if self.tasks else "relevance"

    @property
    def size(self) -> int:
        """The number of labels wanted."""
        return len(self.tasks) if self.budget is None else min(self.budget, len(self.tasks))

    @cached_property
    def drawn(self) -> list[LabelTask]:
        """The tasks in order: most doubtful first; whole queries; or one per query in turn."""
        if self.queue == "targeted":
            shuffled = np.random.default_rng([self.seed, 0]).permutation(len(self.tasks))
            doubts = np.array([task.doubt for task in self.tasks])[shuffled]
            doubtful = shuffled[np.argsort(-doubts, kind="stable")][: self.size]
            return [self.tasks[position] for position in doubtful.tolist()]
        how: dict[str, Any] = {"design": self.design, "seed": self.seed, "budget": self.size}
        pool = {"pool": self.pool} if self.pool else {}
        return [
            replace(self.tasks[position], design=FrozenDict({**how, "probability": chance, **pool}))
            for position, chance in self._order(self.size)
        ]

    @property
    def cases(self) -> list[str]:
        """The query of each task, in the order of the draw, ignoring the budget."""
        return [self.tasks[position].case for position, _ in self._order(len(self.tasks))]

    def _order(self, size: int) -> Iterator[tuple[int, float]]:
        """Yield the positions of the first tasks of the draw, each with its inclusion probability."""
        order, chances = drawing_order([task.case for task in self.tasks], self.design, self.seed, size)
        return zip(order.tolist(), chances.tolist(), strict=True)
