"""Ranked lists as arrays with one row per passage and rank, and the labels of one source.

Labels from gold or people are filled in at once. If a judge labels, `cells` holds the passages to ask about
and `take` stores its answers. Scores, explanations and corrections are computed from these arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, pairwise, repeat
from math import fsum
from typing import Any, TypeAlias

import numpy as np

from germane.encoding import relevance_items
from germane.places.lists import rankings, turns
from germane.places.settings import Settings
from germane.places.table import LEVELS, Bools, Floats, Ints, LabelChoice, RankedLabels, reached
from germane.questions.asking import Unanswered
from germane.questions.relevance import HELPS, HIGHEST, Grade, Passages, Relevance
from germane.tables.labels import UNNAMED, Label
from germane.types import NOTHING, Context, Sample

Rankings: TypeAlias = Sequence[tuple[str, Sequence[Context]]]
"""The query and the contexts of each ranked list of a sample."""

_MOST_GRADES = 1000
"""The cap on grades when several people's are combined: a higher one counts as this, to bound memory."""
_GRADED, _BINARY = 0, 1
"""The indices of the scales "graded" and "binary" in `Places.scales`."""


class Places:
    """The labels of all retrieved passages by one source: gold, people or a judge.

    There is one row per list and rank; properties such as `level` hold a value per row. `lists` has the query
    and the contexts of each ranked list; `repeated` counts contexts left out because a chunk of the same
    document ranks higher. `cells` has, for each sample, the distinct (query, passage) pairs to ask a judge
    about. By row, `failed` is the reason for a missing label (the judge failed, or the sample lacks it), and
    `probabilities` has the probability of each grade from 0 up (or of no and yes) if a label is uncertain.
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
        """For each list, True if its labels are one of several people's; empty if labels are not by item."""
        self._verdict: list[int] = []
        self._reasons: dict[int, str] = {}
        self._worth: dict[int, float] = {}
        self.probabilities: dict[int, tuple[float, ...]] = {}
        self._answers: dict[int, Sequence[Any]] = {}
        self._questions: dict[int, Passages] = {}

    # Making the columns

    def add(self, samples: Sequence[Sample], depths: Iterable[int | None] = repeat(None)) -> None:
        """Add samples' ranked lists, cut to the given depths (0 = no list); gold lists are not cut."""
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
        """Add lists with gold labels. Of several chunks of a document only the first is added."""
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
        """Add lists labelled by people, or with passages for a judge to label; return the lists added."""
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
        """Add lists with people's labels (stored by item, else on the context); return the lists added.

        If several people labelled a passage, each list is added once per person: a measure is computed for
        each person and then averaged. For a passage that a person did not label, the share of the others who
        called it relevant is that person's probability of a yes, and its gain in nDCG is the mean over all
        people. With source judge, labels on contexts are left to `_read_label`.
        """
        low, high = sample.grade_scale or (0, 3)
        scale = self._number_of("graded" if (low, high) == (0, 3) else f"{low}-{high}")
        contexts = [context for _, some in lists for context in some]
        book = self.settings.labels
        if not book:
            for context in contexts:
                self._add_own(context, scale)
            return lists
        items = relevance_items([(sample.query, context.passage) for context in contexts], turns(sample))
        own = (context for context, item in zip(contexts, items, strict=True) if item not in book)
        unnamed = any(context.grade is not None or context.relevant is not None for context in own)
        people = self._people_of(items, len(lists), unnamed=unnamed)
        for who in people:
            for context, item in zip(contexts, items, strict=True):
                if votes := book.by_person(item):
                    self._add_vote(votes, book.answers(item, who))
                elif self.choice.source == "judge":
                    self._set_label(None, _GRADED)
                else:
                    self._add_own(context, scale)
        return [*lists] * len(people)

    def add_items(self, lists: Sequence[Sequence[str]]) -> None:
        """Add one sample's ranked lists, given as items (question digests), all labelled by people."""
        book, items = self.settings.labels, [*chain.from_iterable(lists)]
        assert book is not None
        people = self._people_of(items, len(lists))
        for who in people:
            for item in items:
                self._add_vote(book.by_person(item), book.answers(item, who))
        self._lengths += [*map(len, lists)] * len(people)
        self._counts.append(len(lists) * len(people))

    def _people_of(self, items: list[str], lists: int, *, unnamed: bool = False) -> Sequence[str | None]:
        """Return the people for each of whom a copy of `lists` lists is added; (None,) for a single copy.

        Copies are needed if several people labelled an item. `unnamed`: some labels have no name, such as
        those on contexts; together they count as one more person's.
        """
        book = self.settings.labels
        assert book is not None
        people = book.people(items)
        if people and unnamed and UNNAMED not in people:
            people = (*people, UNNAMED)
        self._several += [bool(people)] * lists * max(1, len(people))
        return people or (None,)

    def _add_own(self, context: Context, scale: int) -> None:
        """Add a row for a context with the label that the context itself has."""
        if context.grade is None:
            self._set_label(context.relevant, _BINARY)
        else:
            self._set_label(context.grade, scale)

    def _add_vote(self, votes: Sequence[Sequence[Label]], answers: Sequence[Sequence[Label]]) -> None:
        """Add a row labelled with people's `answers` to one item; it stays unlabelled if all were "unsure".

        `votes` and `answers` hold a list of labels per person, each person counting once: `votes` those of
        all, whose mean grade is the gain; `answers` those of the person whose list this is, or of all.
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
        """Set the label (None = unlabelled) and scale of a row; append a row if `position` is None."""
        level = answer if answer is None or scale != _BINARY else math.inf if answer else 0.0
        if position is None:
            self._level.append(level)
            self._scale.append(scale)
        else:
            self._level[position], self._scale[position] = level, scale

    def _read_label(self, sample: Sample, context: Context, position: int) -> None:
        """Use a context's gold grade or label as the judge's verdict; if it has none, say why in `failed`."""
        label = context.relevant if context.grade is None else context.grade
        if self.settings.judged_by == "gold":
            if sample.qrels is None or context.id is None:
                lacking = (
                    "the passage has no document id" if context.id is None else "the sample has no qrels"
                )
                self.failed[position] = f"the passage has no gold label: {lacking}"
            else:
                grade = sample.qrels.get(context.id, 0)
                self._reasons[position] = f"gold grade {grade}"
                self._set_label(grade >= 1, _BINARY, position)
        elif label is None:
            self.failed[position] = "no label"
        elif context.grade is None:
            self._set_label(label, _BINARY, position)
        elif self.settings.scale != "graded":
            self._reasons[position] = f"a person's grade is {label} of 3"
            self._set_label(label >= HELPS, _BINARY, position)
        elif 0 <= label <= HIGHEST:
            self._level[position] = label
        else:
            self.failed[position] = f"the grade {label} is not on the judge's scale, 0 to {HIGHEST}"

    def _read_vote(self, position: int) -> None:
        """Convert a person's label, which replaces a judge's verdict, to the judge's scale."""
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
        """Return True if a judge must be asked about any passage of the sample with this index."""
        return bool(self.cells and self.cells[sample] and not self.settings.judged_by)

    def questions(self, sample: int) -> Passages:
        """Return the questions about a sample's passages; cached, because computing their items is slow."""
        if sample not in self._questions:
            value, fields = self.samples[sample], self.settings.asked
            need = self.choice.against == "need"
            history, shown = (turns(value), self.settings.shown_with(value)) if need else ((), {})
            self._questions[sample] = Passages(self.cells[sample], history, **fields, **shown)
        return self._questions[sample]

    def take(self, sample: int, answers: Sequence[Grade | Unanswered]) -> None:
        """Store the judge's answers about a sample's passages; if Unanswered, the reason goes to `failed`."""
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
        """The index of the first list of each sample, followed by the number of all lists."""
        return list(accumulate(self._counts, initial=0))

    @cached_property
    def pointers(self) -> list[int]:
        """The index of the first row of each list, followed by the number of all rows."""
        return list(accumulate(self._lengths, initial=0))

    @cached_property
    def verdict(self) -> list[int]:
        """The index in `cells` of each row's passage, if a judge is asked about it; else -1."""
        return self._verdict or [-1] * len(self._level)

    @cached_property
    def items(self) -> list[str]:
        """The item of each row: the digest of the question about its passage, by which answers are stored."""
        spans = ((self.questions(n).items, self.verdict[self.span_of(n)]) for n in range(len(self.samples)))
        return [items[cell] for items, cells in spans for cell in cells]

    @cached_property
    def contexts(self) -> list[Context]:
        """The context of each row."""
        return [context for _, contexts in self.lists for context in contexts]

    @cached_property
    def level(self) -> Floats:
        """The value compared with `rel`: a row's grade, inf for yes, 0 for no, nan without a label."""
        return np.array(self._level, dtype=np.float64)

    @cached_property
    def labelled(self) -> Bools:
        """True for each row with a label."""
        return ~np.isnan(self.level)

    @cached_property
    def scale(self) -> Ints:
        """The scale of each row's label, as an index in `scales`."""
        return np.array(self._scale, np.int64) if self._scale else np.full(len(self.level), _GRADED)

    @cached_property
    def sample(self) -> Ints:
        """The sample of each row, as an index in `samples`."""
        return np.repeat(np.arange(len(self._counts)), np.diff(np.array(self.pointers)[self.rows]))

    @cached_property
    def chances(self) -> Floats | None:
        """The probability that a row's grade is >= 1, 2, 3, ..., in columns; None if all are certain."""
        return chances_table(len(self.level), self.probabilities) if self.probabilities else None

    @cached_property
    def mixed(self) -> Bools:
        """True for each sample with both yes/no labels and grades: its gains are then 1 or 0.

        A yes has no grade: if it gained 1, a perfect list with a yes above a grade of 3 would score below 1.
        """
        mixed, yes = np.zeros(len(self._counts), dtype=np.bool_), self.labelled & (self.scale == _BINARY)
        if yes.any():
            mixed[np.intersect1d(self.sample[yes], self.sample[self.labelled & ~yes])] = True
        return mixed

    @cached_property
    def worth(self) -> Floats:
        """The gain of each row in nDCG; nan without a label."""
        gain = np.where(np.isinf(self.level), 1.0, np.maximum(self.level, 0.0))
        if self._worth:  # of several people, or of a distribution
            gain[list(self._worth)] = list(self._worth.values())
        if self.mixed.any():
            yes = reached(self.level, self.chances, HELPS).astype(np.float64)
            gain = np.where(self.mixed[self.sample] & self.labelled, yes, gain)
        return gain

    @cached_property
    def table(self) -> RankedLabels:
        """All labels as the table that ranked measures read; with gold, its ideal has all gold grades."""
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
        """Return the slice of the rows that belong to the sample with this index."""
        return slice(self.pointers[self.rows[sample]], self.pointers[self.rows[sample + 1]])

    @cached_property
    def grades(self) -> Floats:
        """The judge's grade of each row (yes 1, no 0; the most probable if uncertain); nan if unlabelled."""
        gain = self.worth
        if self.chances is None:
            return gain
        mode = np.minimum(self.level, np.where(self.scale == _BINARY, 1.0, np.inf))
        return np.where(np.isnan(self.chances[:, 0]), gain, mode)

    def by_people(self, at: int) -> bool:
        """Return True if a person gave the label of row `at`."""
        judged = self.verdict[at] >= 0 or at in self._reasons
        return self.choice.source in {"human", "best"} and not judged and bool(self.labelled[at])

    def scales_of(self, sample: int) -> set[str]:
        """Return the scales of a sample's labels."""
        span = self.span_of(sample)
        return {self.scales[n] for n in set(self.scale[span][self.labelled[span]].tolist())}

    def table_of(self, sample: int) -> RankedLabels:
        """Return the labels of one sample's lists as a table, with their ideal ranking."""
        return self.table.rows_from(self.rows[sample], self.rows[sample + 1])

    def spans_of(self, sample: int, depth: int | None) -> list[range]:
        """Return, for each list of a sample, the range of the rows of its first `depth` passages."""
        starts = self.pointers[self.rows[sample] : self.rows[sample + 1] + 1]
        return [
            range(start, end if depth is None else min(end, start + depth)) for start, end in pairwise(starts)
        ]

    def ranks_of(self, sample: int) -> Iterator[tuple[int, int, int]]:
        """Yield (search number, rank, row) for each passage of a sample; searches and ranks count from 1."""
        for call, span in enumerate(self.spans_of(sample, None), 1):
            yield from ((call, rank, at) for rank, at in enumerate(span, 1))

    def read(self, sample: int, depth: int | None) -> list[int]:
        """Return the rows of the first `depth` passages (None = all) of each list of a sample."""
        return [at for span in self.spans_of(sample, depth) for at in span]

    def cells_read(self, sample: int, depth: int | None) -> list[int]:
        """Return the indices in `cells` of the first `depth` passages of each of a sample's lists."""
        return sorted({number for at in self.read(sample, depth) if (number := self.verdict[at]) >= 0})

    def missing_in(self, depth: int | None, *, holes: bool) -> Bools:
        """Return a mask of samples that lack a verdict (`holes`: any label) in the first `depth` ranks."""
        marks = np.zeros(len(self._level), dtype=np.bool_)
        marks[[*self.failed]] = True
        if holes:
            marks |= ~self.labelled
        if depth is not None:
            marks &= self.table.rank <= depth
        mask: Bools = np.bincount(self.sample[marks], minlength=len(self.samples)) > 0
        return mask

    def missing_verdicts(self, sample: int, *, holes: bool) -> Ints:
        """Return, for each row of a sample, the number of its missing verdict; -1 if none is missing.

        With `holes`, a row without a label has a missing verdict even if nobody was asked. Rows with the same
        passage share a number if a judge labels them, as they get the same verdict.
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
        """Yield (question, answer) for a sample's first `depth` passages; nothing before `take`."""
        if sample in self._answers:
            questions = self.questions(sample)
            for cell in self.cells_read(sample, depth):
                yield questions[cell], self._answers[sample][cell]

    def reason(self, at: int) -> str:
        """Return why row `at` has its label: the judge's reasoning, a failure, or the gold grade."""
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
    """Return each row's probability of a grade >= 1, 2, 3 (or more), and of a yes; nan if it is certain.

    `probabilities` maps a row to the probabilities of its grades from 0 up, or of no and yes. A yes reaches
    every column; a grade never reaches the last one.
    """
    columns = max(LEVELS, *map(len, probabilities.values())) if probabilities else LEVELS
    chances = np.full((places, columns), math.nan)
    for place, shares in probabilities.items():
        if len(shares) == 2:
            chances[place] = shares[1]
        elif shares:
            chances[place] = [fsum(shares[grade:]) for grade in range(1, columns)] + [0.0]
    return chances
