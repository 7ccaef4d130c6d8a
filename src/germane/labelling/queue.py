"""The tasks of labelling, their order (a random draw, or the most doubtful verdicts first), and sessions.

A larger budget continues the order of a smaller one. A session that stops early, or goes on with a larger
budget, therefore remains a sample of the same design. Every answer is stored before the next task is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan, nan
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import structs

from germane.encoding import batched, now
from germane.errors import InputError
from germane.judging.stored_answers import BLOCK, StoredAnswers
from germane.measures.measure import Measure
from germane.places.lists import turns
from germane.places.places import Places
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Relevance
from germane.reports.correct import claim_verdicts, reads_verdicts
from germane.reports.data import ReportData
from germane.reports.explain import settings_of
from germane.reports.label_draws import fingerprint, pool_of
from germane.statistics.correction import Design, drawing_order
from germane.tables.labels import TAKEN_BACK, UNSURE, Label, places_of, time_of
from germane.types import FrozenDict, Sample

QueueName: TypeAlias = Literal["random", "targeted"]

_NOTHING = {
    "relevance": ("passages", "name a report whose samples have contexts"),
    "support": ("claims", "label a report with -m context_recall or -m faithfulness"),
    "sufficiency": ("verdicts on sufficiency", "label a report with -m context_sufficiency"),
}
"""For each kind of label, the noun for its items and the fix, for the error that a report has no items."""
_TEXTS = ("reference", "criterion", "response")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTask:
    """One item for a person to label: a passage's relevance, a claim's support, or the passages' sufficiency.

    `sample` is the id of the item's query. `system`, `call` and `rank` say where the item was first
    retrieved. `texts` holds the other texts that the judge was shown, such as the reference. `verdict` is the
    judge's grade, which people are not shown; nan if the judge gave none. `doubt` is higher the less certain
    the verdict is. `design` says how the item was drawn; None if its probability is unknown.
    """

    item: str
    kind: str
    sample: str
    query: str
    passages: tuple[str, ...]
    claim: str | None = None
    history: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    system: str = ""
    call: int | None = None
    rank: int | None = None
    verdict: float = nan
    doubt: float = 0.0
    design: FrozenDict | None = None


def label_tasks(report: ReportData, kind: str = "relevance") -> list[LabelTask]:
    """Return a task for every item of a kind that a person can label in a report, once per query.

    For `relevance`, the items are the passages that the judged measures read, down to their cut-offs, or all
    passages if no judge was asked. For `support`, they are the claims that the judge compared with the
    passages. For `sufficiency`, an item is all passages of a query together. Raises InputError if the report
    contains no such items.
    """
    settings, answers = settings_of(report), StoredAnswers(report.tables.judgements)
    measures = list(dict.fromkeys(Measure.remembered(summary.type) for summary in report.summaries))
    if kind == "relevance":
        measures = [measure for measure in measures if reads_verdicts(measure, settings)]
    tasks: dict[tuple[str, str], LabelTask] = {}
    for samples in batched(report.samples(), BLOCK):
        read = answers.places_reader(samples, settings)
        for number, sample in enumerate(samples):
            for measure in measures:
                if kind == "relevance":
                    _add_passages(tasks, sample, read(measure.choice, measure.depth), number)
                    continue
                for question, item, claim, verdict, _ in claim_verdicts(measure, sample, settings, answers):
                    if question.kind == kind and (sample.id, item) not in tasks:
                        doubt = _doubt(verdict, binary=True)
                        task = _task(sample, item, question, claim, verdict=verdict, doubt=doubt)
                        tasks[sample.id, item] = task
    if not tasks and kind == "relevance":  # no judge was asked
        tasks = {(task.sample, task.item): task for task in _all_passages(report)}
    if not tasks:
        problem, fix = _NOTHING[kind]
        raise InputError(f"this report has no {problem} to label", fix=fix)
    return list(tasks.values())


def _add_passages(
    tasks: dict[tuple[str, str], LabelTask], sample: Sample, places: Places, number: int
) -> None:
    """Add a task to `tasks` for each judged passage of the sample `number` of `places` that has none yet."""
    questions = places.questions(number)
    ranks = (
        (call, *place)
        for call, span in enumerate(places.spans_of(number, None), 1)
        for place in enumerate(span, 1)
    )
    for call, rank, at in ranks:
        asked = places.verdict[at]
        item, grade = questions.items[asked], float(places.grades[at])
        if (sample.id, item) not in tasks:
            doubt = _doubt(grade, binary=places.scale[at] == "binary")
            tasks[sample.id, item] = _task(
                sample, item, questions[asked], verdict=grade, doubt=doubt, call=call, rank=rank
            )


def _all_passages(report: ReportData) -> Iterator[LabelTask]:
    for sample in report.samples():
        for call, rank, context in places_of(sample):
            if context.text.strip():
                asked = Relevance(query=sample.query, passage=context.passage, history=turns(sample))
                yield _task(sample, asked.item, asked, call=call, rank=rank)


def queue_of(
    report: ReportData, kind: str = "relevance", design: Design = "passages", **how: Any
) -> LabelQueue:
    """Return the queue of the items of one kind that a person can label in a report.

    `kind` is relevance, support or sufficiency, and `design` the unit of the random draw. `how` holds other
    fields of LabelQueue, such as `budget`. Raises InputError if the report contains no such items.
    """
    pool, tasks = pool_of(report.tables, kind), label_tasks(report, kind)
    judged = [task for task in tasks if task.item in pool.get(task.sample, ())]
    return LabelQueue(tasks=judged or tasks, design=design, pool=fingerprint(pool), **how)


def _task(sample: Sample, item: str, question: AnyQuestion, claim: int = 0, **more: Any) -> LabelTask:
    """Return the task for an item; `claim` is the claim's number in the question, or 0."""
    shown = question.inputs()
    claims = shown.get("claims") or ()
    return LabelTask(
        item=item,
        kind=question.kind,
        sample=sample.id,
        query=sample.query if claims else shown.get("query", sample.query),
        passages=tuple(shown.get("contexts") or (shown.get("passage") or "",)),
        claim=claims[claim - 1] if claims else None,
        history=turns(sample),
        texts=tuple((name, str(shown[name])) for name in _TEXTS if shown.get(name) and not claims),
        system=sample.system,
        **more,
    )


def _doubt(verdict: float, *, binary: bool) -> float:
    """Return how near a grade is to the limit of a yes, 0 to 1: 0.5 for a yes or no, 0 without a grade."""
    if isnan(verdict):
        return 0.0
    return 0.5 if binary else 1 - abs(verdict - (HELPS - 0.5)) / HELPS


@dataclass(frozen=True, kw_only=True)
class LabelQueue:
    """The tasks of labelling, and the order in which a person is asked to do them.

    Attributes:
        tasks: All items that can be labelled.
        queue: random, a random draw; or targeted, the most doubtful verdicts first, which cannot correct
            a mean.
        design: The unit of the draw: passages (some passages of every query), or whole queries.
        budget: The number of labels to give; None means all tasks.
        seed: The random seed of the draw.
        pool: The fingerprint of all items from which the tasks are drawn.
    """

    tasks: Sequence[LabelTask]
    queue: QueueName = "random"
    design: Design = "passages"
    budget: int | None = None
    seed: int = 0
    pool: str = ""

    @property
    def kind(self) -> str:
        """The kind of the tasks: relevance, support or sufficiency. Without tasks it is relevance."""
        return self.tasks[0].kind if self.tasks else "relevance"

    @property
    def size(self) -> int:
        """The number of labels to give: the budget, or the number of tasks if it is smaller."""
        return len(self.tasks) if self.budget is None else min(self.budget, len(self.tasks))

    @cached_property
    def drawn(self) -> list[LabelTask]:
        """The tasks within the budget, in the order in which they are shown.

        In the targeted queue, the most doubtful verdicts come first. In a random draw, the tasks come query
        by query if the design is queries, or else one per query in turn.
        """
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
        """The query id of every task in the order of the random draw, even of tasks beyond the budget."""
        return [self.tasks[position].sample for position, _ in self._order(len(self.tasks))]

    def _order(self, size: int) -> Iterator[tuple[int, float]]:
        """Yield (position in `tasks`, probability of being drawn) for the first `size` tasks of the draw."""
        order, chances = drawing_order([task.sample for task in self.tasks], self.design, self.seed, size)
        return zip(order.tolist(), chances.tolist(), strict=True)


class LabellingSession:
    """One person's labelling session. It is restored from stored labels, and can be interrupted at any time.

    Args:
        queue: The queue of tasks.
        who: The name of the person.
        store: Called with each label as soon as it is given; stores the label before it returns.
        stored: The labels stored so far; tasks of the queue that this person answered are not shown again.
        scale: graded (0 to 3) or binary (yes or no).
        guideline: The fingerprint of the guideline that the person was shown.
    """

    def __init__(
        self,
        queue: LabelQueue,
        who: str,
        store: Callable[[Label], None],
        stored: Iterable[Label] = (),
        *,
        scale: str = "graded",
        guideline: str | None = None,
    ) -> None:
        self.queue, self.who, self.scale, self.guideline = queue, who, scale, guideline
        self._store = store
        self._labels: dict[str, Label] = {}  # in the order of the answers
        self._back = ""
        for label in sorted((label for label in stored if label.who == who), key=time_of):
            design = label.design["design"] if label.design else queue.design
            if (label.queue, design) == (queue.queue, queue.design):
                self._record(label)

    def _record(self, label: Label) -> None:
        self._labels.pop(label.item, None)
        if label.answer is not None or label.reason != TAKEN_BACK:
            self._labels[label.item] = label

    @property
    def next(self) -> LabelTask | None:
        """The next task to show, first a task whose answer was taken back; None if every task is labelled."""
        waiting = {task.item: task for task in self.queue.drawn if task.item not in self._labels}
        return waiting.get(self._back) or next(iter(waiting.values()), None)

    @property
    def done(self) -> int:
        """The number of answered tasks; "unsure" counts as an answer."""
        return sum(task.item in self._labels for task in self.queue.drawn)

    @property
    def total(self) -> int:
        """The number of tasks to label in this session."""
        return len(self.queue.drawn)

    def answer(self, value: int | bool | None) -> Label:
        """Store an answer to the next task and return its label; the answer None means "unsure".

        Raises InputError if the answer is not on the scale, or every task is labelled.
        """
        allowed = (True, False, None) if self.scale == "binary" else (0, 1, 2, 3, None)
        if repr(value) not in map(repr, allowed):  # True is not 1
            fix = f"give {', '.join(map(repr, allowed[:-1]))}, or None for unsure"
            raise InputError(f"the answer {value!r} is not on the {self.scale} scale", fix=fix)
        if (task := self.next) is None:
            fix = "stop here, or raise --budget if it left items out"
            raise InputError("every task of this queue is labelled", fix=fix)
        label = Label(
            task.item, task.kind, value, self.scale, self.who, at=now("milliseconds"), queue=self.queue.queue,
            design=task.design, blind=True, guideline=self.guideline, reason=UNSURE if value is None else None,
            sample=task.sample, system=task.system, call=task.call, rank=task.rank,
        )  # fmt: skip
        self._keep(label)
        return label

    def undo(self) -> bool:
        """Take back the last answer, so that its task is shown next. Return False if there is no answer."""
        if not self._labels:
            return False
        last = self._labels[next(reversed(self._labels))]
        self._keep(structs.replace(last, answer=None, reason=TAKEN_BACK, at=now("milliseconds")))
        self._back = last.item
        return True

    def _keep(self, label: Label) -> None:
        self._store(label)
        self._record(label)
