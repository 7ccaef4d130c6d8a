"""One person's labelling session. Every answer is stored before the next task is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from germane.encoding import now
from germane.errors import InputError
from germane.labelling.queue import LabelQueue, LabelTask
from germane.tables.labels import TAKEN_BACK, UNSURE, Label, time_of


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
        """The next task to show, first the one whose answer was taken back; None if everything is labelled."""
        waiting = {task.item: task for task in self.queue.drawn if task.item not in self._labels}
        return waiting.get(self._back) or next(iter(waiting.values()), None)

    @property
    def done(self) -> int:
        """The number of answered tasks; unsure counts as an answer."""
        return sum(task.item in self._labels for task in self.queue.drawn)

    @property
    def total(self) -> int:
        """The number of tasks to label in this session."""
        return len(self.queue.drawn)

    def answer(self, value: int | bool | None) -> Label:
        """Store an answer to the next task and return its label; None is "unsure": not labelled.

        Raises InputError if the answer is not on the scale, or every task is labelled.
        """
        binary = self.scale == "binary"
        allowed = (True, False, None) if binary else (0, 1, 2, 3, None)
        if value not in allowed or (isinstance(value, bool) is not binary and value is not None):
            fix = f"give {'True, False' if binary else '0, 1, 2, 3'}, or None for unsure"
            raise InputError(f"the answer {value!r} is not on the {self.scale} scale", fix=fix)
        if (task := self.next) is None:
            fix = "stop here, or raise --budget if it left items out"
            raise InputError("every task of this queue is labelled", fix=fix)
        label = Label(
            task.item, task.kind, value, self.scale, self.who, at=now("milliseconds"), queue=self.queue.queue,
            design=task.design, blind=True, guideline=self.guideline, reason=UNSURE if value is None else None,
            sample=task.sample, system=task.system, call=task.call, rank=task.rank,
        )  # fmt: skip
        return self._keep(label)

    def undo(self) -> bool:
        """Take back the last answer, so that its task is shown next. Return False if there is no answer."""
        if not self._labels:
            return False
        last = self._labels[next(reversed(self._labels))]
        self._keep(replace(last, answer=None, reason=TAKEN_BACK, at=now("milliseconds")))
        self._back = last.item
        return True

    def _keep(self, label: Label) -> Label:
        self._store(label)
        self._record(label)
        return label
