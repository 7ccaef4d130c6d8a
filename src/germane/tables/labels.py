"""Labels: people's answers about items, stored separately from the judgements of a judge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from sys import intern
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict, force_setattr

from germane.encoding import relevance_items
from germane.errors import InputError, SourceLocation
from germane.types import NOTHING, Context, Json, Sample, freeze

Queue = Literal["random", "stratified", "targeted", "import"]


class Label(msgspec.Struct, frozen=True, gc=False):
    """The answer of one person to a question about one item, such as whether a passage is relevant.

    Attributes:
        answer: The answer. None withdraws an earlier answer or says that the person is unsure (see `reason`).
        scale: "graded" (0 to 3), "binary" (true or false), or the lowest and highest grade, such as "0-4".
        who: The person; None if the label names no person.
        at: The time in ISO 8601; UTC if it names no time zone.
        queue, design: How the item was chosen for labelling, and the sampling probabilities.
        blind: True if the person did not see the judge's verdict.
        guideline: The name of the labelling instructions.
        reason: Why `answer` is None.
        sample, system, call, rank: Where the person saw the item.
    """

    item: str
    kind: str
    answer: Json
    scale: str
    who: str | None = None
    at: str | None = None
    queue: Queue = "import"
    design: Mapping[str, Any] | None = None
    blind: bool = False
    guideline: str | None = None
    reason: str | None = None
    sample: str = ""
    system: str = ""
    call: int | None = None
    rank: int | None = None

    def __post_init__(self) -> None:
        if type(self.answer) is not int:
            force_setattr(self, "answer", freeze(self.answer))
        if self.design is not None:
            force_setattr(self, "design", freeze(self.design))


OLDER_SCALE = "not count: a newer label of the passage is on another scale"
"""The end of a note on labels that are not read."""

dump_label = asdict
"""Return a label as the JSON object of labels.jsonl."""


_SCALE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_decode = msgspec.json.Decoder(Label).decode


def decode_label(line: bytes) -> Label:
    """Return the label in a line, equal strings stored once. Raises ValueError or InputError if invalid."""
    label = _checked(_decode(line), None)
    for name in ("item", "kind", "scale", "sample"):
        force_setattr(label, name, intern(getattr(label, name)))
    return label


def load_label(row: Json, location: SourceLocation | None = None) -> Label:
    """Return the label in a JSON object or CSV row. Raises InputError with `location` if it is invalid."""
    try:
        label = msgspec.convert(row, Label, strict=False)
    except msgspec.ValidationError as error:
        problem = f"this label cannot be used: {error}"
        raise InputError(problem, fix="correct this label or remove its line", place=location) from None
    return _checked(label, location)


_OLDEST = datetime.min.replace(tzinfo=UTC)


def time_of(label: Label, location: SourceLocation | None = None) -> datetime:
    """Return the label's time in UTC, the earliest one if it has none. Raises InputError if not ISO 8601."""
    text = (label.at or "").strip()
    if not text:
        return _OLDEST
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        problem = f"the field 'at' of this label, {text[:40]!r}, is not a time in ISO 8601"
        fix = "write 2026-11-28T15:00:00+00:00 (UTC where it names no zone)"
        raise InputError(problem, fix=fix, place=location) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _checked(label: Label, location: SourceLocation | None) -> Label:
    """Return the label. Raises InputError if its time is invalid or its answer is not on its scale."""
    time_of(label, location)
    low, high = scale_ends(label.scale, location)
    answer = label.answer
    graded = isinstance(answer, int | float) or (label.kind == "relevance" and answer is not None)
    if graded and not (isinstance(answer, int) and low <= answer <= high):
        problem = f"the answer of this label is not on the scale {low}-{high}"
        fix = f"write a number from {low} to {high}, or another scale, such as '0-4'"
        raise InputError(problem, fix=fix, place=location)
    return label


def scale_ends(scale: str, location: SourceLocation | None = None) -> tuple[int, int]:
    """Return the ends of a scale, such as (0, 3) for "graded". Raises InputError if it is unknown."""
    ends = _ends(scale)
    if ends is None:
        problem, fix = f"unknown scale {scale[:40]!r}", "write graded, binary, or grades such as 0-4"
        raise InputError(problem, fix=fix, place=location)
    return ends


@lru_cache(maxsize=100)
def _ends(scale: str) -> tuple[int, int] | None:
    match = _SCALE.fullmatch({"graded": "0-3", "binary": "0-1"}.get(scale, scale))
    return match and (int(match[1]), int(match[2]))


UNSURE, TAKEN_BACK = "unsure", "taken back"
"""The values of `Label.reason` that explain a label without an answer."""

UNNAMED = "unnamed"
"""The person of labels without a name if several people labelled an item; their mean is one answer."""


class LabelBook:
    """The labels that count for each item: the newest label of each person, and all labels of UNNAMED.

    An item is a digest of the judged texts, such as a query and a passage. The newest label
    has the latest time; of equal times, the last label counts. Only labels on the scale of the item's newest
    label are returned, and only the newest label if answers are not numbers. Measures average the answers of
    each person, then over people. Withdrawn answers do not count.
    """

    def __init__(self, labels: Iterable[Label] = ()) -> None:
        self._labels: dict[str, tuple[Label, ...]] = {}
        self._people: dict[str, tuple[tuple[Label, ...], ...]] = {}
        """By item, the labels of each person who answered."""
        self._unsure: dict[str, tuple[str | None, ...]] = {}
        self._uncounted: dict[str, int] = {}
        self.add(labels)

    def add(self, labels: Iterable[Label]) -> None:
        """Add labels to those that the book already contains."""
        changed: dict[str, None] = {}
        for label in labels:
            self._labels[label.item] = (*self._labels.get(label.item, ()), label)
            changed[label.item] = None
        for item in changed:
            several = self._labels[item]
            newest = newest_labels(several) if len(several) > 1 else several
            answers = [label for label in newest if label.answer is not None]
            silent = (label for label in newest if label.answer is None and label.reason != TAKEN_BACK)
            self._people.pop(item, None)
            self._unsure.pop(item, None)
            self._uncounted.pop(item, None)
            if answers:
                answers.sort(key=time_of)  # stable: of equal times, the later row comes last
                votes = [label for label in answers if label.scale == answers[-1].scale]
                if len(votes) < len(answers):
                    self._uncounted[item] = len(answers) - len(votes)
                if not all(isinstance(label.answer, bool | int | float) for label in votes):
                    votes = votes[-1:]
                votes.sort(key=lambda label: label.who or "")
                by_who = groupby(votes, key=lambda label: label.who)
                self._people[item] = tuple(tuple(labels) for _, labels in by_who)
            if unsure := tuple(dict.fromkeys(label.who for label in silent)):
                self._unsure[item] = unsure

    def get(self, item: str) -> Label | None:
        """Return the label with the (lower) median answer for an item; None if the item has no label."""
        votes = self.votes(item)
        return _middle(votes) if votes else None

    def votes(self, item: str) -> tuple[Label, ...]:
        """Return one label per person for an item, sorted by person; of several, the (lower) median."""
        return tuple(map(_middle, self.by_person(item)))

    def by_person(self, item: str) -> tuple[tuple[Label, ...], ...]:
        """Return, for each person who labelled an item, a tuple of labels: one, or several for UNNAMED."""
        return self._people.get(item, ())

    def unsure(self, item: str) -> int:
        """Return the number of people who were unsure about an item."""
        return len(self._unsure.get(item, ()))

    def uncounted(self, items: Iterable[str]) -> int:
        """Return the number of labels of these items that do not count: they are on an older scale."""
        return sum(self._uncounted.get(item, 0) for item in set(items)) if self._uncounted else 0

    def people(self, items: Iterable[str]) -> tuple[str | None, ...]:
        """Return who labelled these items or was unsure; () if each has one label and no one was unsure."""
        distinct = dict.fromkeys(items)
        people = [self._people.get(item, ()) for item in distinct]
        if all(sum(map(len, of_item)) < 2 for of_item in people) and distinct.keys().isdisjoint(self._unsure):
            return ()
        names = {labels[0].who for of_item in people for labels in of_item}
        names.update(*(self._unsure.get(item, ()) for item in distinct))
        return tuple(sorted(names, key=lambda name: (name is None, name or "")))

    def answers(self, item: str, who: str | None) -> tuple[tuple[Label, ...], ...]:
        """Return the labels that the person `who` gave an item, or those of all people if `who` gave none.

        The result is one tuple of labels per person; () if `who` was unsure about the item.
        """
        if who in self._unsure.get(item, ()):
            return ()
        people = self.by_person(item)
        return tuple(labels for labels in people if labels[0].who == who) or people

    def __contains__(self, item: object) -> bool:
        return item in self._people

    def __len__(self) -> int:
        return len(self._people)

    def __iter__(self) -> Iterator[Label]:
        return (_middle(self.votes(item)) for item in self._people)


def newest_labels(labels: Iterable[Label]) -> list[Label]:
    """Return each person's newest label of each item, and all labels of UNNAMED.

    Of labels with equal times, the last counts. The result is in the order of the labels that it contains.
    """
    newest: dict[tuple[str, str | int | None], Label] = {}
    for number, label in enumerate(labels):
        who: str | int | None = label.who
        if who == UNNAMED and label.reason != TAKEN_BACK:
            who = number
        elif who == UNNAMED:
            answered = label.item, who
            newest = {key: other for key, other in newest.items() if (other.item, other.who) != answered}
        earlier = newest.get(key := (label.item, who))
        if earlier is None or time_of(earlier) <= time_of(label):
            newest.pop(key, None)
            newest[key] = label
    return list(newest.values())


def _middle(labels: Sequence[Label]) -> Label:
    """Return the label with the lower median answer; all answers must be numbers."""
    if len(labels) == 1:
        return labels[0]
    return sorted(labels, key=lambda label: float(label.answer))[(len(labels) - 1) // 2]


def by_people(label: Label) -> bool:
    """Return True if a label was given in germane or a file of labels, not in an input sample's contexts."""
    return label.who is not None or label.queue != "import"


def relevance_item(query: str, passage: str, history: Iterable[tuple[str, str]] = ()) -> str:
    """Return the item of a relevance question: a digest of query, passage and preceding conversation."""
    return relevance_items([(query, passage)], history)[0]


def has_labels(sample: Sample) -> bool:
    """Return True if any context of a sample has a label."""
    for _, contexts in sample.lists():
        for context in contexts:
            if context.grade is not None or context.relevant is not None:
                return True
    return False


def places_of(sample: Sample) -> Iterator[tuple[int, int, Context]]:
    """Yield (list number, rank, context) for each context of all lists of a sample, counting from 1."""
    for number, (_, contexts) in enumerate(sample.lists(), 1):
        for rank, context in enumerate(contexts, 1):
            yield number, rank, context


def labels_on(
    sample: Sample, history: Iterable[tuple[str, str]] = (), items_of: Mapping[Any, str] = NOTHING
) -> Iterator[Label]:
    """Yield the labels on a sample's contexts (`grade` or `relevant`), which name no person.

    `history` is the conversation before the query. `items_of` maps (query, passage) to items that are already
    computed. A context without a text is labelled under its id.
    """
    low, high = sample.grade_scale or (0, 3)
    scale = "graded" if (low, high) == (0, 3) else f"{low}-{high}"
    name, system = sample.id, sample.system
    for call, rank, context in places_of(sample):
        cell = sample.query, context.passage
        if context.grade is not None:
            answer, own = context.grade, scale
        elif context.relevant is not None:
            answer, own = context.relevant, "binary"
        else:
            continue
        item = items_of.get(cell) or relevance_item(*cell, history)
        yield Label(item, "relevance", answer, own, sample=name, system=system, call=call, rank=rank)
