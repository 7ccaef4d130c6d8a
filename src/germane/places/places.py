"""Ranked lists as arrays with one row per passage and rank, and the labels from one source.

Labels from gold or people are stored when a list is added. For labels from a judge, `cells` holds the
passages to ask about, and `take` stores the answers. Scores, explanations and corrections are computed from
these arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, pairwise, repeat
from math import fsum
from typing import Any, TypeAlias

import numpy as np

from germane.encoding import relevance_items
from germane.places.lists import Settings, rankings, turns
from germane.places.table import Bools, Floats, Ints, LabelChoice, RankedLabels, chances_table, reached
from germane.questions.asking import Unanswered
from germane.questions.relevance import HELPS, HIGHEST, Grade, Passages, Relevance
from germane.tables.labels import UNNAMED, Label
from germane.types import NOTHING, Context, Sample

Rankings: TypeAlias = Sequence[tuple[str, Sequence[Context]]]
"""The query and the contexts of each ranked list of a sample."""


class Places:
    """The labels of all retrieved passages from one source: gold, people or a judge.

    There is one row per list and rank, and properties such as `level` hold a value per row. `lists` holds the
    query and the contexts of each ranked list. `pointers` holds the index of each list's first row, followed
    by the number of all rows; `rows` holds the index of each sample's first list, followed by the number of
    all lists. `repeated` is the number of contexts that were left out because a chunk of the same document
    ranks higher. `cells` holds, for each sample, the distinct (query, passage) pairs to ask a judge about.
    `verdict` holds, for each row, the index of its passage in `cells`, or -1 if no judge is asked; it is
    empty for gold. `failed` maps a row to the reason why its label is missing: the judge failed, or the
    sample has no label. `probabilities` maps a row with an uncertain label to the probabilities of its grades
    from 0 up, or of no and yes.
    """

    def __init__(self, choice: LabelChoice, settings: Settings) -> None:
        self.samples, self.choice, self.settings = list[Sample](), choice, settings
        self.failed: dict[int, str] = {}
        self.cells: list[Sequence[tuple[str, str]]] = []
        self.repeated = self.uncounted = 0
        self.lists: list[tuple[str, Sequence[Context]]] = []
        self.rows, self.pointers = [0], [0]
        self._level: list[float | None] = []
        self.scale: list[str] = []
        """The scale of each row's label: "graded", "binary" or people's, such as "0-4"; empty for gold."""
        self._several: list[bool] = []
        """For each list, True if its labels are one of several people's; empty if labels are not by item."""
        self.verdict: list[int] = []
        self._reasons: dict[int, str] = {}
        self._worth: dict[int, float] = {}
        self.probabilities: dict[int, tuple[float, ...]] = {}
        self._answers: dict[int, Sequence[Any]] = {}
        self._questions: dict[int, Passages] = {}

    # Making the columns

    def add(self, samples: Sequence[Sample], depths: Iterable[int | None] = repeat(None)) -> None:
        """Add the ranked lists of samples.

        `depths` says per sample how many ranks of each list are added (None = all, 0 = no list). Lists with
        gold labels are not cut.
        """
        lists: list[Rankings] = [
            rankings(sample, final=self.choice.final) if depth != 0 else []
            for sample, depth in zip(samples, depths, strict=False)
        ]
        if self.choice.source == "gold":
            for sample, searches in zip(samples, lists, strict=True):
                grade_of: Callable[..., float] = (sample.qrels or NOTHING).get
                for query, contexts in searches:
                    ids, kept = [context.id for context in contexts], contexts
                    if len({*ids}) < len(ids):  # of several chunks of one document, the first counts
                        first = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
                        kept = tuple(c for at, c in enumerate(contexts) if c.id is None or first[c.id] == at)
                        self.repeated += len(ids) - len(kept)
                        ids = [context.id for context in kept]
                    self.lists.append((query, kept))
                    self._level += map(grade_of, ids, repeat(math.nan))  # no document is named None
        else:
            lists = [self._add_asked(*row) for row in zip(samples, lists, depths, strict=False)]
            self.lists += chain.from_iterable(lists)
        lengths = [len(contexts) for _, contexts in self.lists[len(self.pointers) - 1 :]]
        self.pointers += accumulate(lengths, initial=self.pointers.pop())
        self.rows += accumulate(map(len, lists), initial=self.rows.pop())
        self.samples += samples

    def _add_asked(self, sample: Sample, searches: Rankings, depth: int | None) -> Rankings:
        """Add rows for a sample's lists, with people's labels or for passages that a judge must label."""
        source, read, start = self.choice.source, self.settings.judged_by, len(self._level)
        lists: Rankings = [(query, contexts[:depth]) for query, contexts in searches]
        if source != "judge" or read == "labels":
            lists = self._add_people(sample, lists, searches)
        else:
            count = sum([len(contexts) for _, contexts in lists])
            self._level += [None] * count
            self.scale += ["graded"] * count
        if source == "human":
            self.verdict += [-1] * (len(self._level) - start)
            return lists
        need, cells = self.choice.against == "need", dict[tuple[str, str], int]()
        cells_of_lists = ((query, context) for query, contexts in lists for context in contexts)
        for position, (query, context) in enumerate(cells_of_lists, start):
            number = -1
            if source == "judge" or self._level[position] is None:
                number = cells.setdefault((sample.query if need else query, context.text), len(cells))
            self.verdict.append(-1 if read else number)
            if read and number >= 0 and not need and query != sample.query:
                self._level[position], self.failed[position] = None, "no label"
            elif read and number >= 0:
                self._read_label(sample, context, position)
        self.cells.append(tuple(cells))
        return lists

    def _add_people(self, sample: Sample, lists: Rankings, searches: Rankings) -> Rankings:
        """Add rows with people's labels for a sample's lists; return the lists, repeated once per person.

        They are repeated only if several people labelled a passage of `searches`, the uncut lists: a measure
        is then the mean of its values for each person. Labels are read from `settings.labels`, else from the
        contexts. A passage that a person did not label is relevant with a probability: the proportion of the
        others' labels that call it relevant. Its gain in nDCG is the mean grade of all who labelled it.
        """
        low, high = sample.grade_scale or (0, 3)
        scale = "graded" if (low, high) == (0, 3) else f"{low}-{high}"
        contexts = [context for _, contexts_of_list in lists for context in contexts_of_list]
        book = self.settings.labels
        for context in contexts if not book else ():
            self._add_own(context, scale)
        if not book:
            return lists
        every = [context for _, contexts_of_list in searches for context in contexts_of_list]
        found = relevance_items([(sample.query, context.passage) for context in every], turns(sample))
        item_of = {context.passage: item for context, item in zip(every, found, strict=True)}
        items = [item_of[context.passage] for context in contexts]
        self.uncounted += book.uncounted(items)
        own = (context for context in every if item_of[context.passage] not in book)
        unnamed = any(context.grade is not None or context.relevant is not None for context in own)
        people = self._people_of(found, len(lists), unnamed=unnamed)
        for who in people:
            for context, item in zip(contexts, items, strict=True):
                if votes := book.by_person(item):
                    self._add_vote(votes, book.answers(item, who))
                else:
                    self._add_own(context, scale)
        return [*lists] * len(people)

    def _add_own(self, context: Context, scale: str) -> None:
        """Add a row with the label stored on a context: a grade on `scale`, or a yes or no."""
        if context.grade is None:
            self._set_label(context.relevant, "binary")
        else:
            self._set_label(context.grade, scale)

    def add_items(self, lists: Sequence[Sequence[str]]) -> None:
        """Add the ranked lists of one sample; each list holds items (question digests) labelled by people."""
        book, items = self.settings.labels, [*chain.from_iterable(lists)]
        assert book is not None
        people = self._people_of(items, len(lists))
        for who in people:
            for item in items:
                self._add_vote(book.by_person(item), book.answers(item, who))
        self.pointers += accumulate([*map(len, lists)] * len(people), initial=self.pointers.pop())
        self.rows.append(len(self.pointers) - 1)

    def _people_of(self, items: list[str], lists: int, *, unnamed: bool = False) -> Sequence[str | None]:
        """Return the people for whom copies of a sample's lists must be added, one copy per person.

        Copies are needed if several people labelled one of the items. Otherwise the result is (None,), for a
        single copy. `lists` is the number of the sample's lists. `unnamed` is True if there are also labels
        without a person's name (on contexts); all of these count as the labels of one more person.
        """
        book = self.settings.labels
        assert book is not None
        people = book.people(items)
        if people and unnamed and UNNAMED not in people:
            people = (*people, UNNAMED)
        self._several += [bool(people)] * lists * max(1, len(people))
        return people or (None,)

    def _add_vote(self, votes: Sequence[Sequence[Label]], answers: Sequence[Sequence[Label]]) -> None:
        """Add a row with people's labels of one item; the row has no label if all answers were "unsure".

        `votes` and `answers` hold one list of labels per person, and each person has the same weight. `votes`
        are the labels of all people; their mean grade is the gain. `answers` are the labels of the person for
        whom the list is added or, for a single copy, of all people; they give the row's label.
        """
        if not answers:
            self._set_label(None, votes[0][0].scale)
            return
        position, labels = len(self._level), list(chain.from_iterable(answers))
        if len(votes) > 1 or len(votes[0]) > 1:
            worth = [[max(float(label.answer), 0.0) for label in person] for person in votes]
            self._worth[position] = fsum(fsum(person) / len(person) for person in worth) / len(votes)
        label = labels[0]
        if len(labels) > 1:
            grades = [min(int(label.answer), 1000) for label in labels]  # cut to limit memory
            label = sorted(labels, key=lambda label: float(label.answer))[(len(labels) - 1) // 2]
            if min(grades) < max(grades):
                top = 1 if label.scale == "binary" else max(HIGHEST, *grades)
                weights = [1 / len(person) for person in answers for _ in person]
                counts = np.bincount(grades, weights, minlength=top + 1)
                self.probabilities[position] = tuple((counts / len(answers)).tolist())
        self._set_label(label.answer, label.scale)

    def _set_label(self, answer: float | None, scale: str, position: int | None = None) -> None:
        """Set the label and scale of the row `position`, or of a new row if `position` is None."""
        level = answer if answer is None or scale != "binary" else math.inf if answer else 0.0
        if position is None:
            self._level.append(level)
            self.scale.append(scale)
        else:
            self._level[position], self.scale[position] = level, scale

    def _read_label(self, sample: Sample, context: Context, position: int) -> None:
        """Use a person's label, or the gold grade or label of a context, in place of a judge's verdict.

        If the judge's scale is binary, a grade from 0 to 3 is converted to it.
        """
        level, scale = self._level[position], self.scale[position]
        if self.settings.judged_by == "gold":
            if sample.qrels is None or context.id is None:
                lacking = "passage has no document id" if context.id is None else "sample has no qrels"
                self.failed[position] = f"the passage has no gold label: the {lacking}"
            else:
                grade = sample.qrels.get(context.id, 0)
                self._reasons[position] = f"gold grade {grade}"
                self._set_label(grade >= 1, "binary", position)
        elif level is None:
            self.failed[position] = "no label"
        elif self.settings.scale == "graded" or scale == "binary":
            return
        elif scale == "graded":
            self._worth.pop(position, None)
            if shares := self.probabilities.pop(position, None):
                yes = self._worth[position] = fsum(shares[HELPS:])
                self.probabilities[position] = (1 - yes, yes)
            else:
                self._reasons[position] = f"a person's grade is {level:g} of 3"
            self._set_label(level >= HELPS, "binary", position)
        else:
            why = f"a grade on the scale {scale} is neither yes nor no: give rel= without the scale binary"
            self._level[position], self.failed[position] = None, why

    def asks(self, sample: int) -> bool:
        """Return True if a judge must be asked about any passage of the sample with this index."""
        return bool(self.cells and self.cells[sample] and not self.settings.judged_by)

    def questions(self, sample: int) -> Passages:
        """Return the questions about a sample's passages; they are cached, because digests are slow."""
        if sample not in self._questions:
            value, fields = self.samples[sample], self.settings.asked
            need = self.choice.against == "need"
            history, shown = (turns(value), self.settings.shown_with(value)) if need else ((), {})
            self._questions[sample] = Passages(self.cells[sample], history, **fields, **shown)
        return self._questions[sample]

    def take(self, sample: int, answers: Sequence[Grade | Unanswered]) -> None:
        """Store the judge's answers to `questions(sample)`, in their order, as labels."""
        self._answers[sample] = answers
        for position in self.read(sample, None):
            if (cell := self.verdict[position]) < 0:
                continue
            answer = answers[cell]
            if isinstance(answer, Unanswered):
                self.failed[position] = answer.why
            else:
                self._set_label(answer.grade, answer.scale, position)
                if answer.probabilities:
                    self.probabilities[position] = answer.probabilities
                    self._worth[position] = fsum(n * share for n, share in enumerate(answer.probabilities))

    # The columns

    @cached_property
    def items(self) -> list[str]:
        """The digest of the question about each row's passage, which is the key of its stored answer."""
        cells = zip(self.sample.tolist(), self.verdict, strict=True)
        return [self.questions(sample).items[cell] for sample, cell in cells]

    @cached_property
    def contexts(self) -> list[Context]:
        """The context of each row."""
        return [context for _, contexts in self.lists for context in contexts]

    @cached_property
    def level(self) -> Floats:
        """For each row, what is compared with `rel`: its grade, inf for a yes, 0 for a no, or nan."""
        return np.array(self._level, dtype=np.float64)

    @cached_property
    def labelled(self) -> Bools:
        """True for each row with a label."""
        return ~np.isnan(self.level)

    @cached_property
    def binary(self) -> Bools:
        """True for each row whose label is yes or no."""
        scales = np.array(self.scale) if self.scale else np.zeros(len(self._level), np.str_)
        return np.asarray(scales == "binary", np.bool_)

    @cached_property
    def sample(self) -> Ints:
        """For each row, the index of its sample in `samples`."""
        return np.repeat(np.arange(len(self.rows) - 1), np.diff(np.array(self.pointers)[self.rows]))

    @cached_property
    def chances(self) -> Floats | None:
        """The probabilities of grades >= 1, 2, ... (see `chances_table`); None if all are certain."""
        return chances_table(len(self.level), self.probabilities) if self.probabilities else None

    @cached_property
    def mixed(self) -> Bools:
        """True for each sample that has both yes/no labels and grades; its gains are then 1 or 0.

        Otherwise a yes (gain 1) above a grade of 3 would score below 1 although both passages are relevant.
        """
        mixed, yes = np.zeros(len(self.rows) - 1, dtype=np.bool_), self.labelled & self.binary
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
        """The table of all labels; with gold, its ideal rankings contain all gold grades of the query."""
        pointers = np.array(self.pointers, dtype=np.int64)
        if self.choice.source != "gold":
            several = np.array(self._several) if any(self._several) else None
            return RankedLabels.of_columns(
                pointers, self.level, self.worth, rel=HELPS, chances=self.chances, several=several
            )
        gold = [sample.qrels or NOTHING for sample in self.samples]
        qrels = [*chain.from_iterable(map(repeat, gold, np.diff(self.rows).tolist()))]  # of each ranking
        counts = np.array([*map(len, qrels)], dtype=np.int64)
        grades = np.array([*chain.from_iterable([grades.values() for grades in qrels])], dtype=np.float64)
        return RankedLabels.of_columns(pointers, self.level, self.level, gold=(counts, grades))

    @cached_property
    def grades(self) -> Floats:
        """The grade of each row, the most probable one if uncertain; a yes is 1, a no 0, no label nan."""
        grades: Floats = np.where(self.binary, self.worth, np.maximum(self.level, 0.0))
        for at, shares in self.probabilities.items():
            grades[at] = min(self.level[at], len(shares) - 1)
        return grades

    def by_people(self, at: int) -> bool:
        """Return True if a person gave the label of row `at`."""
        if self.choice.source not in {"human", "best"} or self.verdict[at] >= 0 or at in self._reasons:
            return False
        return bool(self.labelled[at])

    def table_of(self, sample: int) -> RankedLabels:
        """Return the part of `table` with the lists of one sample."""
        return self.table.rows_from(self.rows[sample], self.rows[sample + 1])

    def spans_of(self, sample: int, depth: int | None) -> list[range]:
        """Return, for each list of a sample, the range of the rows of its first `depth` passages."""
        starts = self.pointers[self.rows[sample] : self.rows[sample + 1] + 1]
        return [
            range(start, end if depth is None else min(end, start + depth)) for start, end in pairwise(starts)
        ]

    def copies(self, sample: int) -> int:
        """Return the number of copies of a sample's lists: one per person if several people labelled it."""
        lists = len(rankings(self.samples[sample], final=self.choice.final))
        return max((self.rows[sample + 1] - self.rows[sample]) // max(lists, 1), 1)

    def read(self, sample: int, depth: int | None) -> list[int]:
        """Return the rows of the first `depth` passages (None = all) of each list of a sample."""
        return [at for span in self.spans_of(sample, depth) for at in span]

    def cells_read(self, sample: int, depth: int | None) -> list[int]:
        """Return the indices in `cells[sample]` of the passages to be judged in the first `depth` ranks."""
        return sorted({number for at in self.read(sample, depth) if (number := self.verdict[at]) >= 0})

    def missing_in(self, depth: int | None, *, holes: bool) -> Bools:
        """Return a mask of the samples for which a label is missing in the first `depth` ranks (None = all).

        A label is missing if it is in `failed`; with `holes`, unlabelled passages count as missing too.
        """
        marks = ~self.labelled if holes else np.zeros(len(self._level), np.bool_)
        marks[[*self.failed]] = True
        if depth is not None:
            marks &= self.table.rank <= depth
        mask: Bools = np.bincount(self.sample[marks], minlength=len(self.samples)) > 0
        return mask

    def missing_verdicts(self, sample: int, *, holes: bool) -> Ints:
        """Return a number for each row of a sample whose label is missing, and -1 for each other row.

        Missing labels are those of `missing_in`. Rows with the same passage have the same number if the same
        judge or person labels them, because their label is the same.
        """
        numbers, seen = list[int](), dict[tuple[Any, ...], int]()
        value, lists = self.samples[sample], self.lists[self.rows[sample] : self.rows[sample + 1]]
        people = self.choice.source == "human" or self.settings.judged_by == "labels"
        each = len(lists) // self.copies(sample) if people else len(lists)  # the lists of one person
        contexts = ((n // each, query, c) for n, (query, some) in enumerate(lists) for c in some)
        for position, (who, query, context) in zip(self.read(sample, None), contexts, strict=True):
            asked = value.query if self.choice.against == "need" else query
            same = (who, asked, context.passage, context.grade, context.relevant)
            missing = position in self.failed or (holes and not self.labelled[position])
            numbers.append(seen.setdefault(same, len(seen)) if missing else -1)
        return np.array(numbers, dtype=np.int64)

    def exchange(self, sample: int, depth: int | None) -> Iterator[tuple[Relevance, Grade | Unanswered]]:
        """Yield (question, answer) for the distinct passages in the first `depth` ranks of all lists.

        Yields nothing if `take` was not called for this sample.
        """
        if sample in self._answers:
            questions = self.questions(sample)
            for cell in self.cells_read(sample, depth):
                yield questions[cell], self._answers[sample][cell]

    def reason(self, at: int) -> str:
        """Return the reason for the label of row `at`: the judge's, a failure, "unjudged", ... or ""."""
        if at in self.failed:
            return self.failed[at]
        if not self.labelled[at]:
            return "unjudged"
        if self.choice.source == "gold":
            return f"gold grade {self.level[at]:g}"
        if (cell := self.verdict[at]) >= 0:
            return str(self._answers[int(self.sample[at])][cell].reasoning)
        return self._reasons.get(at, "")
