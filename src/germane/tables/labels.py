"""Labels: what people said of items. They stand beside the judgements of a judge and never replace them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from math import lcm
from typing import Any, Literal

from germane.encoding import digest, encode
from germane.tables.columns import RowTable
from germane.types import Context, FrozenDict, Json, Sample, freeze

Queue = Literal["random", "stratified", "targeted", "import"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The answer of one person about one item.

    `scale` names the scale of the answer: "graded" (0 to 3), "binary" (true or false), or the ends of another one
    ("0-4"). An `answer` of None takes back what the person said before, or says that they are unsure (`reason`). `who` is None where nobody is named, `at` the time (ISO 8601). `queue` says how the item came to be labelled,
    `design` with which probabilities. `blind` = the person did not see the judge's verdict; `guideline` names what they
    were told. `sample`, `system`, `call` and `rank` say where they saw it.
    """

    item: str
    kind: str
    answer: Json
    scale: str
    who: str | None = None
    at: str | None = None
    queue: Queue = "import"
    design: FrozenDict | None = None
    blind: bool = False
    guideline: str | None = None
    reason: str | None = None
    sample: str = ""
    system: str = ""
    call: int | None = None
    rank: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "answer", freeze(self.answer))
        object.__setattr__(self, "design", freeze(self.design))


_FIELDS = tuple(field.name for field in fields(Label))


class LabelTable(RowTable[Label]):
    """The labels of an evaluation, oldest first."""

    row = Label
    fields = _FIELDS


def dump_label(label: Label) -> dict[str, Json]:
    """A label as the JSON object of labels.jsonl."""
    return {name: getattr(label, name) for name in _FIELDS}


def load_label(row: Mapping[str, Json]) -> Label:
    """The label in a JSON object; TypeError where it is none."""
    return Label(**{name: value for name, value in row.items() if name in _FIELDS})


UNSURE, TAKEN_BACK = "unsure", "taken back"
"""The `reason` of a label without an answer."""


class LabelBook:
    """The labels that count for each item: of each person the newest (by `at`, then by order in the file).

    `votes` are the answers of several people on the scale of the newest one, of which measures take the mean; `get` is one
    label that stands for them, the lower median. An answer that is no number has no median: the newest counts. Whoever took
    back an answer says nothing; how many said that they are unsure is in `unsure`.
    """

    def __init__(self, labels: Iterable[Label] = ()) -> None:
        newest: dict[str, dict[str | None, tuple[str, Label]]] = {}
        for label in labels:
            people = newest.setdefault(label.item, {})
            known = people.get(label.who)
            if known is None or known[0] <= (label.at or ""):
                people.pop(label.who, None)
                people[label.who] = (label.at or "", label)
        self._labels: dict[str, tuple[Label, tuple[Label, ...]]] = {}
        self._unsure: dict[str, int] = {}
        for item, people in newest.items():
            if given := [one for one in people.values() if one[1].answer is not None]:
                self._labels[item] = _agreed(given)
            if unsure := sum(one.answer is None and one.reason != TAKEN_BACK for _, one in people.values()):
                self._unsure[item] = unsure

    def get(self, item: str) -> Label | None:
        """The label that stands for all of an item, or None."""
        found = self._labels.get(item)
        return found and found[0]

    def votes(self, item: str) -> tuple[Label, ...]:
        """The newest label of each person who gave one on the scale that counts, in an order that is the same for all items."""
        found = self._labels.get(item)
        return found[1] if found else ()

    def unsure(self, item: str) -> int:
        """How many people said that they cannot tell."""
        return self._unsure.get(item, 0)

    def turn(self, item: str, number: int) -> Label | None:
        """The answer of one person after the other, round and round; None where that one is unsure."""
        votes = self.votes(item)
        at = number % max(1, len(votes) + self.unsure(item))
        return votes[at] if at < len(votes) else None

    def turns(self, items: Iterable[str]) -> int:
        """How many turns it takes until everybody's answer to each of these items was read equally often."""
        return lcm(*(max(1, len(self.votes(item)) + self.unsure(item)) for item in set(items)))

    def __contains__(self, item: object) -> bool:
        return item in self._labels

    def __len__(self) -> int:
        return len(self._labels)

    def __iter__(self) -> Iterator[Label]:
        return (label for label, _ in self._labels.values())


def _agreed(dated: list[tuple[str, Label]]) -> tuple[Label, tuple[Label, ...]]:
    """The label that stands for all, and those that count, of each person's newest one."""
    dated.sort(key=lambda one: one[0])  # stable: the later row of one time comes last
    latest = dated[-1][1]
    votes = [label for _, label in dated if label.scale == latest.scale]
    if len(votes) == 1 or not all(isinstance(label.answer, bool | int | float) for label in votes):
        return latest, (latest,)
    middle = sorted(votes, key=lambda label: float(label.answer))[(len(votes) - 1) // 2]
    return middle, tuple(sorted(votes, key=lambda label: label.who or ""))


def by_people(label: Label) -> bool:
    """Whether a person gave the label beside the samples; the others stand on the samples' contexts."""
    return label.who is not None or label.queue != "import"


def relevance_item(query: str, passage: str, history: Iterable[tuple[str, str]] = ()) -> str:
    """The item of the question whether a passage is relevant to a query."""
    turns = [list(turn) for turn in history]
    return digest({"kind": "relevance", "query": query, "passage": passage, "history": turns})


def relevance_items(query: str, passages: Iterable[str]) -> list[str]:
    """The items of the questions whether these passages are relevant to a query: `relevance_item` of each."""
    end = b',"query":%b}' % encode(query)
    return [
        hashlib.sha256(b'{"history":[],"kind":"relevance","passage":' + encode(passage) + end).hexdigest()[
            :32
        ]
        for passage in passages
    ]


def label_lines(key: tuple[str, str, int], items: Iterable[str], answers: Iterable[int]) -> Iterator[bytes]:
    """The lines of labels.jsonl for the labels of nobody in particular on the places of one ranking, best first.

    They are `label_rows` of a sample whose `grade` (0 to 3) or `relevant` these answers are.
    """
    end = b'%b,"system":%b,"call":1,"rank":' % (encode(key[0]), encode(key[1]))
    places = enumerate(zip(items, answers, strict=True), 1)
    for rank, (item, answer) in places:
        yield b'{"item":"%b%b%b%d}\n' % (item.encode(), _between(answer, type(answer) is bool), end, rank)


@functools.lru_cache
def _between(answer: int, binary: bool) -> bytes:
    """What stands in a line between the item and the sample."""
    label = Label(item="", kind="relevance", answer=answer, scale="binary" if binary else "graded")
    line = encode(dump_label(label))
    return line[len(b'{"item":"') : line.index(b'"sample":') + len(b'"sample":')]


def label_rows(sample: Sample, history: Iterable[tuple[str, str]] = ()) -> Iterator[Label]:
    """The labels that stand in a sample: `grade` and `relevant` of its contexts, by nobody in particular.

    `history` is what relevance questions about the sample show of the conversation. A context that is only an id is
    labelled under its id.
    """
    if not sample.calls and not any(_is_labelled(context) for context in sample.contexts or ()):
        return
    turns = tuple(history)
    for place in sample.places():
        found = answer_on(place.context, sample)
        if found is not None:
            answer, scale = found
            yield Label(
                item=relevance_item(sample.query, passage_of(place.context), turns),
                kind="relevance",
                answer=answer,
                scale=scale,
                sample=sample.id,
                system=sample.system,
                call=place.call,
                rank=place.rank,
            )


def _is_labelled(context: Context) -> bool:
    return context.grade is not None or context.relevant is not None


def passage_of(context: Context) -> str:
    """What stands for a passage: its text, or its id where there is no text."""
    return context.text if context.text.strip() or context.id is None else context.id


def answer_on(context: Context, sample: Any) -> tuple[Json, str] | None:
    """The label that stands on a context of a sample, and its scale; None = nobody labelled it."""
    if context.grade is not None:
        low, high = getattr(sample, "grade_scale", None) or (0, 3)
        return context.grade, "graded" if (low, high) == (0, 3) else f"{low}-{high}"
    return None if context.relevant is None else (context.relevant, "binary")
