"""Places: one row per place of every ranking of a block of samples, with the labels of one source.

Gold and people's labels are read at once. For a judge's, `cells` are the passages to ask about and `take` reads the answers.
Scores, explanations, corrections and what-ifs are computed from the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise, repeat
from math import fsum
from typing import Any, TypeAlias

import numpy as np

from germane.encoding import relevance_items
from germane.places.lists import rankings, turns
from germane.places.settings import Settings
from germane.places.table import (
    LEVELS,
    Bools,
    Floats,
    Ints,
    LabelChoice,
    RankedLabels,
    pointers_of,
    reached,
)
from germane.questions.asking import Unanswered
from germane.questions.relevance import HELPS, HIGHEST, Grade, Passages, Relevance
from germane.tables.labels import UNNAMED, Label
from germane.types import NOTHING, Context, Sample

Rankings: TypeAlias = Sequence[tuple[str, Sequence[Context]]]
"""The query and the places of each ranking of a sample."""

_MOST_GRADES = 1000
"""The grade up to which the shares of several people are told apart."""
_GRADED, _BINARY = 0, 1
"""The numbers of the scales that every table has."""


class Places:
    """The labels of one source for every place of the rankings of a block of samples.

    Attributes:
        lists: The query and the places of each ranking.
        cells: The passages of each sample that are asked about, each with the query that it is asked for.
        failed: Why a place has no label that should have one: the judge failed, or there was nothing to read.
        probabilities: Those of the grades from 0 up, or of no and yes, at each place whose label is uncertain.
        repeated: How many contexts gave up their place to the same document higher up.
    """

    def __init__(self, choice: LabelChoice, settings: Settings) -> None:
        self.samples, self.choice, self.settings = list[Sample](), choice, settings
        self.scales = ["graded", "binary"]
        self.failed: dict[int, str] = {}
        self.cells: list[Sequence[tuple[str, str]]] = []
        self.repeated = 0
        self.lists: list[tuple[str, Sequence[Context]]] = []
        self._counts: list[int] = []
        self._lengths: list[int] = []
        self._level: list[float | None] = []
        self._scale: list[int] = []
        self._several: list[bool] = []
        """Whether each ranking holds one of several people's labels; empty if labels are not read by item."""
        self._verdict: list[int] = []
        self._reasons: dict[int, str] = {}
        self._worth: dict[int, float] = {}
        self.probabilities: dict[int, tuple[float, ...]] = {}
        self._answers: dict[int, Sequence[Any]] = {}
        self._questions: dict[int, Passages] = {}

    # Making the columns

    def add(self, samples: Sequence[Sample], depths: Iterable[int | None] = repeat(None)) -> None:
        """Add the rankings of more samples to the given `depths`: gold is read whole, and a depth of 0 adds no ranking."""
        lists: list[Rankings] = [
            rankings(sample, final=self.choice.final) if depth != 0 else []
            for sample, depth in zip(samples, depths, strict=False)
        ]
        if self.choice.source == "gold":
            self._add_gold(samples, lists)
        else:
            lists = [
                self._add_asked(sample, [(query, contexts[:depth]) for query, contexts in some])
                for sample, some, depth in zip(samples, lists, depths, strict=False)
            ]
            self.lists += chain.from_iterable(lists)
        self._lengths += [len(contexts) for _, contexts in self.lists[len(self._lengths) :]]
        self._counts += map(len, lists)
        self.samples += samples

    def _add_gold(self, samples: Sequence[Sample], lists: Sequence[Rankings]) -> None:
        """Add rankings with gold labels; as gold is about documents, only the first of several chunks of one keeps its place."""
        unjudged = repeat(math.nan)
        for sample, some in zip(samples, lists, strict=True):
            grade_of: Callable[..., float] = (sample.qrels or NOTHING).get
            for query, contexts in some:
                ids, kept = [context.id for context in contexts], contexts
                if len({*ids}) < len(ids):
                    first = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
                    kept = tuple(c for at, c in enumerate(contexts) if c.id is None or first[c.id] == at)
                    self.repeated += len(ids) - len(kept)
                    ids = [context.id for context in kept]
                self.lists.append((query, kept))
                self._level += map(grade_of, ids, unjudged)  # no document is named None

    def _add_asked(self, sample: Sample, lists: Rankings) -> Rankings:
        """Add rankings with people's labels, or with passages for a judge; return the rankings added."""
        source, read, start = self.choice.source, self.settings.judged_by, len(self._level)
        if source != "judge" or (read == "labels" and self.settings.labels):
            lists = self._add_people(sample, lists)
        else:
            count = sum([len(contexts) for _, contexts in lists])
            self._level += [None] * count
            self._scale += [_GRADED] * count
        if source == "human":
            return lists
        need, cells = self.choice.against == "need", dict[tuple[str, str], int]()
        cells_of_lists = ((query, context) for query, contexts in lists for context in contexts)
        for position, (query, context) in enumerate(cells_of_lists, start):
            number = -1
            if source == "judge" or self._level[position] is None:
                number = cells.setdefault((sample.query if need else query, context.text), len(cells))
            if not read:
                self._verdict.append(number)
            elif number >= 0 and not need and query != sample.query:
                self._level[position], self.failed[position] = None, "no label"
            elif number >= 0 and self._level[position] is None:
                self._read_label(sample, context, position)
            elif number >= 0:
                self._read_vote(position)
        self.cells.append(tuple(cells))
        return lists

    def _add_people(self, sample: Sample, lists: Rankings) -> Rankings:
        """Add rankings with people's labels, those of the item or else of the context; return the rankings added.

        If several people labelled a passage, each ranking is added once per person: measures are computed per person and then
        averaged. A passage that a person did not label is relevant to them with the share of those who did. Its worth to nDCG is
        the mean over all people. Labels on contexts that stand in for a judge's verdicts are left to `_read_label`.
        """
        low, high = sample.grade_scale or (0, 3)
        scale = self._number_of("graded" if (low, high) == (0, 3) else f"{low}-{high}")
        book = self.settings.labels
        if not book:
            for _, contexts in lists:
                for context in contexts:
                    self._add_own(context, scale)
            return lists
        history = turns(sample)
        items = [
            relevance_items([(sample.query, context.passage) for context in contexts], history)
            for _, contexts in lists
        ]
        cells = [
            cell for (_, some), row in zip(lists, items, strict=True) for cell in zip(some, row, strict=True)
        ]
        own = (context for context, item in cells if item not in book)
        named = any(context.grade is not None or context.relevant is not None for context in own)
        people = self._people_of(items, unnamed=named)
        for who in people:
            for context, item in cells:
                if votes := book.by_person(item):
                    self._add_vote(votes, book.answers(item, who))
                elif self.choice.source == "judge":
                    self._set_label(None, _GRADED)
                else:
                    self._add_own(context, scale)
        return [*lists] * len(people)

    def add_items(self, lists: Sequence[Sequence[str]]) -> None:
        """Add the rankings of one sample by the items of its passages, which people have all labelled."""
        book = self.settings.labels
        assert book is not None
        people = self._people_of(lists)
        for who in people:
            for item in chain.from_iterable(lists):
                self._add_vote(book.by_person(item), book.answers(item, who))
        self._lengths += [*map(len, lists)] * len(people)
        self._counts.append(len(lists) * len(people))

    def _people_of(self, lists: Sequence[Sequence[str]], *, unnamed: bool = False) -> Sequence[str | None]:
        """Return the people whose labels of these rankings are read separately; (None,) if nobody disagrees.

        `unnamed`: there are labels without a name, such as those on contexts; they count as one person's.
        """
        book = self.settings.labels
        assert book is not None
        people = book.people(chain.from_iterable(lists))
        if people and unnamed and UNNAMED not in people:
            people = (*people, UNNAMED)
        self._several += [bool(people)] * len(lists) * max(1, len(people))
        return people or (None,)

    def _add_own(self, context: Context, scale: int) -> None:
        """Add a place with the label on its context."""
        if context.grade is None:
            self._set_label(context.relevant, _BINARY)
        else:
            self._set_label(context.grade, scale)

    def _add_vote(self, votes: Sequence[Sequence[Label]], answers: Sequence[Sequence[Label]]) -> None:
        """Add a place with the share of one person's `answers` among all `votes` on an item; no label if that person is unsure.

        Both hold the labels of each person, and each person counts once.
        """
        if not answers:
            self._set_label(None, self._number_of(votes[0][0].scale))
            return
        position, labels = len(self._level), list(chain.from_iterable(answers))
        if len(votes) > 1 or len(votes[0]) > 1:
            worth = [[max(float(label.answer), 0.0) for label in some] for some in votes]
            self._worth[position] = fsum(fsum(some) / len(some) for some in worth) / len(votes)
        label = labels[0]
        if len(labels) > 1:
            grades = [min(int(label.answer), _MOST_GRADES) for label in labels]
            label = sorted(labels, key=lambda label: float(label.answer))[(len(labels) - 1) // 2]
            if min(grades) < max(grades):
                top = 1 if label.scale == "binary" else max(HIGHEST, *grades)
                weights = [1 / len(some) for some in answers for _ in some]
                counts = np.bincount(grades, weights, minlength=top + 1)
                self.probabilities[position] = tuple((counts / len(answers)).tolist())
        self._set_label(label.answer, self._number_of(label.scale))

    def _number_of(self, scale: str) -> int:
        if scale not in self.scales:
            self.scales.append(scale)
        return self.scales.index(scale)

    def _set_label(self, answer: float | None, scale: int, position: int | None = None) -> None:
        """Set the label of a place, by default a new one."""
        level = answer if answer is None or scale != _BINARY else math.inf if answer else 0.0
        if position is None:
            self._level.append(level)
            self._scale.append(scale)
        else:
            self._level[position], self._scale[position] = level, scale

    def _read_label(self, sample: Sample, context: Context, position: int) -> None:
        """Set a context's gold grade or label in place of a judge's verdict, on its scale; fail without one."""
        gold, graded = self.settings.judged_by == "gold", self.settings.scale == "graded"
        label = context.relevant if context.grade is None else context.grade
        if gold and (sample.qrels is None or context.id is None):
            lacking = "the passage has no document id" if context.id is None else "the sample has no qrels"
            self.failed[position] = f"no gold label: {lacking}"
        elif gold:
            assert sample.qrels is not None
            grade = sample.qrels.get(context.id or "", 0)
            self._reasons[position] = f"gold grade {grade}"
            self._set_label(grade >= 1, _BINARY, position)
        elif label is None:
            self.failed[position] = "no label"
        elif context.grade is None:
            self._set_label(label, _BINARY, position)
        elif not graded:
            self._reasons[position] = f"a person's grade is {label} of 3"
            self._set_label(label >= HELPS, _BINARY, position)
        elif 0 <= label <= HIGHEST:
            self._level[position] = label
        else:
            self.failed[position] = f"the grade {label} is not from 0 to {HIGHEST}, the scale of a judge"

    def _read_vote(self, position: int) -> None:
        """Convert one of several people's answers to the judge's scale, in place of a verdict."""
        scale, level = self.scales[self._scale[position]], self._level[position]
        if scale not in {"graded", "binary"}:
            why = f"people's grades are from {scale}, a judge's from 0 to {HIGHEST}"
            self._level[position], self.failed[position] = None, why
        elif scale == "graded" and self.settings.scale != "graded" and level is not None:
            self._worth.pop(position, None)
            if shares := self.probabilities.pop(position, None):
                yes = self._worth[position] = fsum(shares[HELPS:])
                self.probabilities[position] = (1 - yes, yes)
            self._set_label(level >= HELPS, _BINARY, position)

    def asks(self, sample: int) -> bool:
        """Return True if a judge is asked about any passage of a sample."""
        return bool(self.cells and self.cells[sample] and not self.settings.judged_by)

    def questions(self, sample: int) -> Passages:
        """Return the questions about a sample's cells, made once, as their items are digests."""
        if sample not in self._questions:
            value, fields = self.samples[sample], self.settings.asked
            need = self.choice.against == "need"
            history, shown = (turns(value), self.settings.shown_with(value)) if need else ((), {})
            self._questions[sample] = Passages(self.cells[sample], history, **fields, **shown)
        return self._questions[sample]

    def take(self, sample: int, answers: Sequence[Grade | Unanswered]) -> None:
        """Read the answers to a sample's cells; an Unanswered one fails its places."""
        self._answers[sample] = answers
        for position in self.read(sample, None):
            if (cell := self._verdict[position]) < 0:
                continue
            answer = answers[cell]
            if isinstance(answer, Unanswered):
                self.failed[position] = answer.why
            else:
                self._set_label(answer.grade, _BINARY if answer.scale == "binary" else _GRADED, position)
                if answer.probabilities:
                    self.probabilities[position] = answer.probabilities
                    self._worth[position] = fsum(n * share for n, share in enumerate(answer.probabilities))

    # The columns

    @cached_property
    def rows(self) -> list[int]:
        """The index of the first ranking of each sample, and the number of all rankings."""
        result: list[int] = pointers_of(self._counts).tolist()
        return result

    @cached_property
    def pointers(self) -> list[int]:
        """The index of the first place of each ranking, and the number of all places."""
        result: list[int] = pointers_of(self._lengths).tolist()
        return result

    @cached_property
    def verdict(self) -> list[int]:
        """The index of the question about each place; -1 without one."""
        return self._verdict or [-1] * len(self._level)

    @cached_property
    def items(self) -> list[str]:
        """The item of the question about each place."""
        spans = ((self.questions(n).items, self.verdict[self.span_of(n)]) for n in range(len(self.samples)))
        return [items[cell] for items, cells in spans for cell in cells]

    @cached_property
    def contexts(self) -> list[Context]:
        """The context at each place."""
        return [context for _, contexts in self.lists for context in contexts]

    @cached_property
    def level(self) -> Floats:
        """The number compared with a threshold: the grade, or inf and 0 for yes and no; nan without a label."""
        return np.array(self._level, dtype=np.float64)

    @cached_property
    def labelled(self) -> Bools:
        """True for each place with a label."""
        return ~np.isnan(self.level)

    @cached_property
    def scale(self) -> Ints:
        """The index of the label's scale in `scales`."""
        return np.array(self._scale, np.int64) if self._scale else np.full(len(self.level), _GRADED)

    @cached_property
    def sample(self) -> Ints:
        """The index of the place's sample."""
        return np.repeat(np.arange(len(self._counts)), np.diff(np.array(self.pointers)[self.rows]))

    @cached_property
    def chances(self) -> Floats | None:
        """The probability of reaching each level, one column per level; None if all labels are certain."""
        return chances_table(len(self.level), self.probabilities) if self.probabilities else None

    @cached_property
    def mixed(self) -> Bools:
        """True for each sample with both yes/no labels and grades: each of its labels is worth 1 or 0.

        A yes has no place among the grades: worth 1, a perfect ranking with it above a 3 would not score 1.
        """
        mixed, yes = np.zeros(len(self._counts), dtype=np.bool_), self.labelled & (self.scale == _BINARY)
        if yes.any():
            mixed[np.intersect1d(self.sample[yes], self.sample[self.labelled & ~yes])] = True
        return mixed

    @cached_property
    def worth(self) -> Floats:
        """The gain of each place; nan without a label."""
        gain = np.where(np.isinf(self.level), 1.0, np.maximum(self.level, 0.0))
        if self._worth:  # of several people, or of a distribution
            gain[list(self._worth)] = list(self._worth.values())
        if self.mixed.any():
            yes = reached(self.level, self.chances, HELPS).astype(np.float64)
            gain = np.where(self.mixed[self.sample] & self.labelled, yes, gain)
        return gain

    @cached_property
    def table(self) -> RankedLabels:
        """The labels as ranked measures read them; the ideal of gold includes all gold."""
        pointers = np.array(self.pointers, dtype=np.int64)
        if self.choice.source != "gold":
            several = np.array(self._several) if any(self._several) else None
            return RankedLabels.of_columns(
                pointers, self.level, self.worth, rel=HELPS, chances=self.chances, several=several
            )
        gold = [sample.qrels or NOTHING for sample in self.samples]
        qrels = [*chain.from_iterable(map(repeat, gold, self._counts))]  # of each ranking
        counts = np.array([*map(len, qrels)], dtype=np.int64)
        grades = np.array([*chain.from_iterable([grades.values() for grades in qrels])], dtype=np.float64)
        return RankedLabels.of_columns(pointers, self.level, self.level, gold=(counts, grades))

    def span_of(self, sample: int) -> slice:
        """Return the slice of the columns with the places of a sample."""
        return slice(self.pointers[self.rows[sample]], self.pointers[self.rows[sample + 1]])

    @cached_property
    def grades(self) -> Floats:
        """The judge's grade of each place, 1 and 0 of yes and no; the mode of a distribution; nan without a label."""
        gain = self.worth
        if self.chances is None:
            return gain
        mode = np.minimum(self.level, np.where(self.scale == _BINARY, 1.0, np.inf))
        return np.where(np.isnan(self.chances[:, 0]), gain, mode)

    def by_people(self, at: int) -> bool:
        """Return True if the label of a place is a person's."""
        judged = self.verdict[at] >= 0 or at in self._reasons
        return self.choice.source in {"human", "best"} and not judged and bool(self.labelled[at])

    def scales_of(self, sample: int) -> set[str]:
        """Return the scales of a sample's labels."""
        span = self.span_of(sample)
        return {self.scales[n] for n in set(self.scale[span][self.labelled[span]].tolist())}

    def table_of(self, sample: int) -> RankedLabels:
        """Return the labels of one sample's rankings, with their ideal."""
        return self.table.rows_from(self.rows[sample], self.rows[sample + 1])

    def spans_of(self, sample: int, depth: int | None) -> list[range]:
        """Return the first `depth` places of each ranking of a sample."""
        starts = self.pointers[self.rows[sample] : self.rows[sample + 1] + 1]
        return [
            range(start, end if depth is None else min(end, start + depth)) for start, end in pairwise(starts)
        ]

    def ranks_of(self, sample: int) -> Iterator[tuple[int, int, int]]:
        """Yield each place of a sample with its call and its rank, both from 1: call, rank, number of the place."""
        for call, span in enumerate(self.spans_of(sample, None), 1):
            yield from ((call, rank, at) for rank, at in enumerate(span, 1))

    def read(self, sample: int, depth: int | None) -> list[int]:
        """Return the first `depth` places of all rankings of a sample as one list."""
        return [at for span in self.spans_of(sample, depth) for at in span]

    def cells_read(self, sample: int, depth: int | None) -> list[int]:
        """Return the indices of the questions about the first `depth` places of each ranking of a sample."""
        return sorted({number for at in self.read(sample, depth) if (number := self.verdict[at]) >= 0})

    def missing_in(self, depth: int | None, *, holes: bool) -> Bools:
        """Return True for each sample with a failed place among the first `depth`, or with `holes` an unlabelled one."""
        marks = np.zeros(len(self._level), dtype=np.bool_)
        marks[[*self.failed]] = True
        if holes:
            marks |= ~self.labelled
        if depth is not None:
            marks &= self.table.rank <= depth
        mask: Bools = np.bincount(self.sample[marks], minlength=len(self.samples)) > 0
        return mask

    def missing_verdicts(self, sample: int, *, holes: bool) -> Ints:
        """Return the index of the missing verdict of each place of a sample, -1 if known; with `holes`, unlabelled places count too.

        The same passage with the same labels has one verdict; a place that nobody was asked about has its own.
        """
        numbers, start, seen = [], self.span_of(sample).start, dict[tuple[Any, ...], int]()
        qrels, lists = self.samples[sample].qrels, self.lists[self.rows[sample] : self.rows[sample + 1]]
        contexts = ((query, context) for query, some in lists for context in some)
        for position, (query, context) in enumerate(contexts, start):
            same: tuple[Any, ...] = (position,)
            if position in self.failed or self.choice.source == "judge":
                gold = None if qrels is None or context.id is None else qrels.get(context.id, 0)
                asked = self.samples[sample].query if self.choice.against == "need" else query
                same = (asked, context.text, context.grade, context.relevant, gold)
            number = seen.setdefault(same, len(seen))
            missing = position in self.failed or (holes and not self.labelled[position])
            numbers.append(number if missing else -1)
        return np.array(numbers, dtype=np.int64)

    # Explanations

    def exchange(self, sample: int, depth: int | None) -> Iterator[tuple[Relevance, Grade | Unanswered]]:
        """Yield each question about the first `depth` places of a sample with its answer; nothing before `take`."""
        if sample in self._answers:
            questions = self.questions(sample)
            for cell in self.cells_read(sample, depth):
                yield questions[cell], self._answers[sample][cell]

    def reason(self, at: int) -> str:
        """Return what decided about a place: the judge's reasoning, the failure, or the label's origin."""
        if at in self.failed:
            return self.failed[at]
        if not self.labelled[at]:
            return "unjudged"
        if self.choice.source == "gold":
            return f"gold grade {self.level[at]:g}"
        if (cell := self.verdict[at]) >= 0:
            return str(self._answers[int(self.sample[at])][cell].reasoning)
        return self._reasons.get(at, "")


def chances_table(places: int, probabilities: Mapping[int, Sequence[float]]) -> Floats:
    """Return the probability of reaching each level at each place, from the probabilities of the grades (or of no and yes).

    Columns are the levels 1, 2, 3, and more of longer scales, and what only a yes reaches; nan where a label is certain.
    """
    columns = max(LEVELS, *map(len, probabilities.values())) if probabilities else LEVELS
    chances = np.full((places, columns), math.nan)
    for place, shares in probabilities.items():
        if len(shares) == 2:
            chances[place] = shares[1]
        elif shares:
            chances[place] = [fsum(shares[grade:]) for grade in range(1, columns)] + [0.0]
    return chances
