"""The labels of the places of the rankings of a block of samples, by their source: gold ids, a judge, people.

`BlockLabels` has columns with a value for every place of every ranking. Gold and people's labels are there at once; of a
judge it says which passages are asked about (`cells`), and takes the answers (`take`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise, repeat
from math import exp2, fsum, log2
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from msgspec import structs

from germane.encoding import relevance_items
from germane.errors import InputError
from germane.measures.kernel import (
    LEVELS,
    Bools,
    Floats,
    Ints,
    RankedLabels,
    column_of,
    pointers_of,
    power_of,
    reached,
)
from germane.measures.measure import LabelChoice
from germane.questions.asking import Missing, Program, Unanswered
from germane.questions.relevance import HELPS, HIGHEST, Grade, Passages, Scale
from germane.questions.text import blank, tokens_in
from germane.tables.labels import UNNAMED, Label, LabelBook, passage_of
from germane.types import NOTHING, Context, Json, RankedPassage, Sample

__all__ = [
    "Settings",
]

AGAINST = ("auto", "query", "reference", "response", "criterion")
RUBRICS = ("trec", "usefulness")


def rankings(sample: Sample, *, final: bool = False) -> list[tuple[str, tuple[Context, ...]]]:
    """The query and contexts of each search of a sample; a plain sample is one search.

    `final`: only what the system handed back in the end - its own list if it has calls too, else the last call's.
    """
    if not sample.calls or (final and sample.contexts is not None):
        return [] if sample.contexts is None else [(sample.query, sample.contexts)]
    return [
        (sample.query if blank(call.query or "") else call.query or "", call.contexts)
        for call in (sample.calls[-1:] if final else sample.calls)
    ]


def passage_key(context: Context) -> tuple[str, str | None]:
    """The identity of a context's passage: its text or, where that says nothing, its id."""
    return ("", context.id) if blank(context.text) else (context.text, None)


def documents(sample: Sample, over: str, k: int | None = None) -> list[list[str]] | None:
    """The distinct document ids that came back, one list for each list that is measured; None = no context has one.

    A context without an id, among others that have one, is a document of its own that no gold knows.
    """
    lists = [contexts[:k] for _, contexts in rankings(sample, final=over == "final")]
    if any(lists) and not any(context.id for contexts in lists for context in contexts):
        return None
    if over == "union":
        lists = [tuple(context for contexts in lists for context in contexts)]
    return [list(dict.fromkeys(_id(context) for context in contexts)) for contexts in lists]


def _id(context: Context) -> str:
    return context.id if context.id is not None else f"\0{context.text}"


def relevant(sample: Sample, rel: int) -> list[str]:
    """The gold documents of a sample, best first."""
    graded = sorted((sample.qrels or {}).items(), key=lambda entry: -entry[1])
    return [document for document, grade in graded if grade >= rel]


def recall_by_search(sample: Sample, rel: int = 1) -> list[float] | None:
    """The share of the gold documents that had come after each search of a sample; None where either is not known."""
    gold, lists = relevant(sample, rel), documents(sample, "calls")
    if not gold or lists is None:
        return None
    lacking, shares = set(gold), []
    for ids in lists:
        lacking.difference_update(ids)
        shares.append(1 - len(lacking) / len(gold))
    return shares


def asked_before(sample: Sample) -> list[tuple[str, bool]]:
    """The query of each search, without case and spare white space, and whether an earlier search asked the same.

    The query is "" where a call does not say it: the sample's own stands for it elsewhere, and would repeat itself here.
    """
    asked = [call.query or "" for call in sample.calls or ()] or [query for query, _ in rankings(sample)]
    queries = [" ".join(query.casefold().split()) for query in asked]
    return [(query, query != "" and query in queries[:at]) for at, query in enumerate(queries)]


def distinct_contexts(sample: Sample, k: int | None = None) -> tuple[Context, ...]:
    """The first `k` contexts (None = all) of all calls, each passage once, in order of first appearance.

    Contexts that only the final list has come last.
    """
    lists = (*(contexts for _, contexts in rankings(sample)), sample.contexts or ())
    return distinct(contexts[:k] for contexts in lists)


def distinct(lists: Iterable[Iterable[Context]]) -> tuple[Context, ...]:
    """Each passage of several lists once, in order of first appearance."""
    contexts: dict[tuple[str, str | None], Context] = {}
    for context in chain.from_iterable(lists):
        contexts.setdefault(passage_key(context), context)
    return tuple(contexts.values())


def fitting(contexts: Sequence[Context], tokens: int) -> tuple[Context, ...]:
    """The first contexts that fit into this many tokens together, whole."""
    left = tokens
    for number, context in enumerate(contexts):
        left -= tokens_in(context.text)
        if left < 0:
            return tuple(contexts[:number])
    return tuple(contexts)


NO_TEXT = "a context has no text whose tokens could be counted"


def has_texts(sample: Sample) -> bool:
    """True if the text of every context is known."""
    return all(context.text for _, contexts in rankings(sample) for context in contexts)


def within_budget(sample: Sample, tokens: int) -> Sample:
    """The sample with each of its lists cut to this many tokens."""
    calls = sample.calls and tuple(
        structs.replace(call, contexts=fitting(call.contexts, tokens)) for call in sample.calls
    )
    contexts = None if sample.contexts is None else fitting(sample.contexts, tokens)
    return structs.replace(sample, contexts=contexts, calls=calls)


def texts_of(contexts: Sequence[Context]) -> tuple[str, ...]:
    """The contexts' texts, in rank order, for a judge to read; Missing where one has an id and no text."""
    for context in contexts:
        if not context.text:
            raise Missing(f"the context {context.id!r} has no text")
    return tuple(context.text for context in contexts)


def field_text(sample: Sample, name: str) -> str | None:
    """The query, reference, response or criterion of a sample; None where it is not there or says nothing."""
    text: str | None = getattr(sample, name, None)
    return None if text is None or blank(text) else text


def turns(sample: Sample) -> tuple[tuple[str, str], ...]:
    """The conversation before the query, as (role, text); a turn without text (a tool call) is left out."""
    result = []
    for turn in sample.history:
        parts = turn.content if isinstance(turn.content, tuple) else (turn.content,)
        texts = (piece.get("text") if isinstance(piece, Mapping) else piece for piece in parts)
        text = " ".join(text for text in texts if isinstance(text, str))
        if not blank(text):
            result.append((turn.role, text))
    return tuple(result)


def labelled_passages(sample: Sample) -> Iterator[tuple[str, RankedPassage]]:
    """Each passage of each call of a sample, with the item under which people label it."""
    passages = list(sample.ranked_passages())
    cells = ((sample.query, passage_of(passage.context)) for passage in passages)
    return zip(relevance_items(cells, turns(sample)), passages, strict=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of relevance in one evaluation, the same for all its measures.

    `against`: auto = the query, and the sample's reference or, where it has none, its criterion; query; reference;
    response; criterion. `scale`: graded (0-3) or binary. `rubric` names the wording of the grades: trec, or usefulness.
    `labels` are people's labels other than those on the contexts themselves; where both are there, `labels` count. `judged_by`
    names the labels that are read in place of a judge's verdicts: "labels" (people's) or "gold"; "" = none are.
    """

    against: str = "auto"
    scale: Scale = "graded"
    rubric: str = "trec"
    labels: LabelBook | None = None
    judged_by: Literal["", "labels", "gold"] = ""

    def __post_init__(self) -> None:
        names = {"against": AGAINST, "scale": ("graded", "binary"), "rubric": RUBRICS}
        for name, choices in names.items():
            if getattr(self, name) not in choices:
                raise InputError(
                    f"{name}={getattr(self, name)!r} is not known", fix=f"write one of {', '.join(choices)}"
                )

    @classmethod
    def of(cls, against: str | None, scale: str | None, rubric: str | None = None) -> Settings:
        """The settings that flags or a file name; None = the default."""
        return cls(against or "auto", cast("Scale", scale or "graded"), rubric or "trec")

    @classmethod
    def stored(cls, manifest: Mapping[str, Json], labels: LabelBook | None = None) -> Settings:
        """The settings in the manifest of a report; `labels` as above."""
        made = cls(**(manifest.get("settings") or {}), labels=labels)
        return made.with_judge(str((manifest.get("judge") or {}).get("source") or ""))

    def with_judge(self, name: str) -> Settings:
        """The settings of an evaluation by the judge of that name."""
        return replace(self, judged_by=cast("Any", name if name in {"labels", "gold"} else ""))

    @property
    def asked(self) -> dict[str, str]:
        """On which scale and by which wording relevance is graded."""
        return {"scale": self.scale, **({"rubric": self.rubric} if self.rubric != "trec" else {})}

    def shown_with(self, sample: Sample) -> dict[str, str]:
        """The reference, response or criterion of a sample that relevance is judged against, with the query."""
        names = ("reference", "criterion") if self.against == "auto" else (self.against,)
        texts = ((name, field_text(sample, name)) for name in names if name != "query")
        return next(({name: text} for name, text in texts if text), {})


class PassageLabel(NamedTuple):
    """The label of one place: `gain` is its worth to nDCG, `level` is compared with a threshold (yes / no: inf / 0).

    `scale`: graded (0 to 3; gold: any), binary, or the ends of another one (0-4).
    """

    gain: float
    level: float
    reasoning: str = ""
    source: str = "gold"
    scale: str = "graded"
    probabilities: tuple[float, ...] = ()
    """Of the grades from 0 up, where the judge gave these: `level` is then their mode, `gain` their mean."""
    power: float | None = None
    """The grade whose 2**grade - 1 is the expectation of that; None: the gain."""


class LabelledPassage(NamedTuple):
    """A place of a ranking: its context, and its label, None (unjudged) or Unanswered (the judge failed).

    Places that share a verdict (the same passage twice) share `verdict`, the number of the question.
    """

    context: Context
    label: PassageLabel | Unanswered | None
    verdict: int = -1


class Ranking(NamedTuple):
    """The places of one call, best first, made of the columns when someone looks; `query` is what this call searched for.

    `gold`: of gold labels, the grades of all documents that are judged for the query.
    """

    query: str
    passages: tuple[LabelledPassage, ...]
    gold: tuple[int, ...] | None = None


Rankings: TypeAlias = Sequence[tuple[str, Sequence[Context]]]
"""The query and the places of each ranking of a sample."""

_MOST_GRADES = 1000
"""The grade up to which the shares of several people are told apart."""
_GRADED, _BINARY = 0, 1
"""The numbers of the scales that every table has."""


class LabelColumns(NamedTuple):
    """The labels of all places of a block of samples, in one array each.

    ======== ======= =============================================================================
    level    places  compared with a threshold; nan where there is no label
    labelled places  True where there is a label
    scale    places  the number of the label's scale
    sample   places  the number of the place's sample
    gain     places  the worth to nDCG; nan where there is no label
    chances  places  the probability of reaching each level (four columns); None where all labels are certain
    power    places  the grade whose 2**grade - 1 is the expectation of that; None where all labels are certain
    mixed    samples True where some labels are a yes or no and some a grade. Then every label is worth 1 or 0: a yes has
                     no place among the grades - worth 1, a perfect ranking with it above a 3 would not score 1
    ======== ======= =============================================================================
    """

    level: Floats
    labelled: Bools
    scale: Ints
    sample: Ints
    gain: Floats
    chances: Floats | None
    power: Floats | None
    mixed: Bools


class BlockLabels:
    """The labels of one source for every place of the rankings of a block of samples.

    ======== ======== =====================================================================
    Attributes:
        failed: Why a place has no label where it should have one: the judge failed, or there was nothing to read.
        cells: Of each sample the passages that are asked about, each with the query that it is asked for.
        repeated: How many contexts gave up their place to the same document higher up.
        lists: The query and the places of each ranking.
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
        """For each ranking, whether it holds one of several people's labels; empty where nobody's are read by item."""
        self._verdict: list[int] = []
        self._reasons: dict[int, str] = {}
        self._worth: dict[int, float] = {}
        self._power: dict[int, float] = {}
        """Of several people, as `LabelColumns.power`; that of a distribution follows from its probabilities."""
        self._probabilities: dict[int, tuple[float, ...]] = {}
        self._answers: dict[int, Sequence[Any]] = {}

    # Making the columns

    def add(self, samples: Sequence[Sample], depths: Iterable[int | None] = repeat(None)) -> None:
        """Add the rankings of more samples, of a judge's and people's labels the first places of each, as deep as `depths` say."""
        final, budget = self.choice.final, self.choice.budget
        lists: list[Rankings] = [rankings(sample, final=final) for sample in samples]
        if budget is not None:
            lists = [[(query, fitting(contexts, budget)) for query, contexts in some] for some in lists]
        if self.choice.source == "gold":
            self._add_gold(samples, lists)
        else:
            lists = [
                self._add_asked(sample, [(query, contexts[:depth]) for query, contexts in some])
                for sample, some, depth in zip(samples, lists, depths)  # noqa: B905 - depths may go on for ever
            ]
            self.lists += chain.from_iterable(lists)
        self._lengths += [len(contexts) for _, contexts in self.lists[len(self._lengths) :]]
        self._counts += map(len, lists)
        self.samples += samples

    def _add_gold(self, samples: Sequence[Sample], lists: Sequence[Rankings]) -> None:
        """Gold is about documents: of several chunks of one document the first counts, the others give up their place."""
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
        """The labels of people, and the passages that a judge is asked about; returns the rankings that were added."""
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
        """People's labels: those of the item, else the one on the context; returns the rankings that were added.

        Those on the contexts are left to `_read_label` where they are read in place of a judge's verdicts.

        Where several people labelled one passage, each ranking stands there once per person: measures are computed per
        person and then averaged. A passage that a person did not label is relevant to that person with the share of those
        who did. What a place is worth to nDCG is the mean over all of them.
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
            relevance_items([(sample.query, passage_of(context)) for context in contexts], history)
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
        """Add the rankings of one sample, of whose passages only the items are given: people labelled all of them."""
        book = self.settings.labels
        assert book is not None
        people = self._people_of(lists)
        for who in people:
            for item in chain.from_iterable(lists):
                self._add_vote(book.by_person(item), book.answers(item, who))
        self._lengths += [*map(len, lists)] * len(people)
        self._counts.append(len(lists) * len(people))

    def _people_of(self, lists: Sequence[Sequence[str]], *, unnamed: bool = False) -> Sequence[str | None]:
        """Return the people whose labels of these rankings are read one after the other; one where nobody disagrees.

        `unnamed`: some labels name nobody, as those on the contexts: they are one person's.
        """
        book = self.settings.labels
        assert book is not None
        people = book.people(chain.from_iterable(lists))
        if people and unnamed and UNNAMED not in people:
            people = (*people, UNNAMED)
        self._several += [bool(people)] * len(lists) * max(1, len(people))
        return people or (None,)

    def _add_own(self, context: Context, scale: int) -> None:
        """The label on a context itself."""
        if context.grade is None:
            self._set_label(context.relevant, _BINARY)
        else:
            self._set_label(context.grade, scale)

    def _add_vote(self, votes: Sequence[Sequence[Label]], answers: Sequence[Sequence[Label]]) -> None:
        """The answer of one person, of all `votes` on an item: the share of these `answers`; none where that one is unsure.

        Both hold the labels of each person, whose own share counts once.
        """
        if not answers:
            self._set_label(None, self._number_of(votes[0][0].scale))
            return
        position, labels = len(self._level), list(chain.from_iterable(answers))
        if len(votes) > 1 or len(votes[0]) > 1:
            worth = [[max(float(label.answer), 0.0) for label in some] for some in votes]
            self._worth[position] = fsum(fsum(some) / len(some) for some in worth) / len(votes)
            top = max(map(max, worth))
            powers = (fsum(exp2(grade - top) for grade in some) / len(some) for some in worth)
            self._power[position] = top + log2(fsum(powers) / len(votes))
        label = labels[0]
        if len(labels) > 1:
            grades = [min(int(label.answer), _MOST_GRADES) for label in labels]
            label = sorted(labels, key=lambda label: float(label.answer))[(len(labels) - 1) // 2]
            if min(grades) < max(grades):
                top = 1 if label.scale == "binary" else max(HIGHEST, *grades)
                weights = [1 / len(some) for some in answers for _ in some]
                counts = np.bincount(grades, weights, minlength=top + 1)
                self._probabilities[position] = tuple((counts / len(answers)).tolist())
        self._set_label(label.answer, self._number_of(label.scale))

    def _number_of(self, scale: str) -> int:
        if scale not in self.scales:
            self.scales.append(scale)
        return self.scales.index(scale)

    def _set_label(self, answer: float | None, scale: int, position: int | None = None) -> None:
        """A label at a place, by default the next one."""
        level = answer if answer is None or scale != _BINARY else math.inf if answer else 0.0
        if position is None:
            self._level.append(level)
            self._scale.append(scale)
        else:
            self._level[position], self._scale[position] = level, scale

    def _read_label(self, sample: Sample, context: Context, position: int) -> None:
        """The gold grade of a context or the label on it in place of a judge's verdict, on its scale; none is a failure."""
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
        """One of several people's answers in place of a judge's."""
        scale, level = self.scales[self._scale[position]], self._level[position]
        if scale not in {"graded", "binary"}:
            why = f"people's grades are from {scale}, a judge's from 0 to {HIGHEST}"
            self._level[position], self.failed[position] = None, why
        elif scale == "graded" and self.settings.scale != "graded" and level is not None:
            self._worth.pop(position, None)
            self._power.pop(position, None)
            if shares := self._probabilities.pop(position, None):
                yes = self._worth[position] = fsum(shares[HELPS:])
                self._probabilities[position] = (1 - yes, yes)
            self._set_label(level >= HELPS, _BINARY, position)

    def asks(self, sample: int) -> bool:
        """True if a judge is asked about any passage of a sample."""
        return bool(self.cells and self.cells[sample] and not self.settings.judged_by)

    def questions(self, sample: int) -> Passages:
        """The questions about a sample's cells."""
        value, fields = self.samples[sample], self.settings.asked
        if self.choice.against == "need":
            return Passages(self.cells[sample], turns(value), **fields, **self.settings.shown_with(value))
        return Passages(self.cells[sample], (), **fields)

    def take(self, sample: int, answers: Sequence[Grade | Unanswered]) -> None:
        """The answers to a sample's cells; a cell that has none, but why, fails its places."""
        self._answers[sample] = answers
        start, end = self.pointers[self.rows[sample]], self.pointers[self.rows[sample + 1]]
        for position in range(start, end):
            if (cell := self._verdict[position]) < 0:
                continue
            answer = answers[cell]
            if isinstance(answer, Unanswered):
                self.failed[position] = answer.why
            else:
                self._set_label(answer.grade, _BINARY if answer.scale == "binary" else _GRADED, position)
                if answer.probabilities:
                    self._probabilities[position] = answer.probabilities
                    self._worth[position] = fsum(
                        grade * probability for grade, probability in enumerate(answer.probabilities)
                    )

    # The columns

    @cached_property
    def rows(self) -> list[int]:
        """The first ranking of each sample, and their number."""
        result: list[int] = pointers_of(self._counts).tolist()
        return result

    @cached_property
    def pointers(self) -> list[int]:
        """The first place of each ranking, and their number."""
        result: list[int] = pointers_of(self._lengths).tolist()
        return result

    @cached_property
    def verdict(self) -> list[int]:
        """The number of the question that each place is about; -1 where nobody is asked."""
        return self._verdict or [-1] * len(self._level)

    @cached_property
    def columns(self) -> LabelColumns:
        """The labels, once all answers are taken."""
        level = np.array(self._level, dtype=np.float64)
        scale = np.array(self._scale, np.int64) if self._scale else np.full(len(level), _GRADED)
        sample = np.repeat(np.arange(len(self._counts)), np.diff(np.array(self.pointers)[self.rows]))
        labelled, chances, mixed = ~np.isnan(level), None, np.zeros(len(self._counts), dtype=np.bool_)
        if self._probabilities:
            chances = chances_table(len(level), self._probabilities)
        gain = np.where(np.isinf(level), 1.0, np.maximum(level, 0.0))
        power = None
        if self._worth:  # of several people, or of a distribution
            gain[list(self._worth)] = list(self._worth.values())
            power = gain.copy() if chances is None else power_of(gain, chances)
            power[list(self._power)] = list(self._power.values())
        yes = labelled & (scale == _BINARY)
        if yes.any():
            mixed[np.intersect1d(sample[yes], sample[labelled & ~yes])] = True
        if mixed.any():
            worth = reached(level, chances, HELPS).astype(np.float64)
            both = mixed[sample] & labelled
            gain = np.where(both, worth, gain)
            power = None if power is None else np.where(both, np.log2(1.0 + worth), power)
        return LabelColumns(level, labelled, scale, sample, gain, chances, power, mixed)

    @cached_property
    def table(self) -> RankedLabels:
        """The labels as every ranked measure reads them. The ideal of gold is all that gold knows."""
        pointers = np.array(self.pointers, dtype=np.int64)
        columns = self.columns
        if self.choice.source != "gold":
            return RankedLabels.of_columns(
                pointers,
                columns.level,
                columns.gain,
                rel=HELPS,
                chances=columns.chances,
                several=np.array(self._several) if any(self._several) else None,
                power=columns.power,
            )
        gold = [sample.qrels or NOTHING for sample in self.samples]
        qrels = [*chain.from_iterable(map(repeat, gold, self._counts))]  # of each ranking
        counts = np.array([*map(len, qrels)], dtype=np.int64)
        grades = np.array([*chain.from_iterable([grades.values() for grades in qrels])], dtype=np.float64)
        return RankedLabels.of_columns(pointers, columns.level, columns.level, gold=(counts, grades))

    def span_of(self, sample: int) -> slice:
        """The slice of the columns that holds the places of a sample's rankings."""
        return slice(self.pointers[self.rows[sample]], self.pointers[self.rows[sample + 1]])

    @property
    def grades(self) -> Floats:
        """The judge's grade of each place, 1 and 0 for yes and no; of a distribution its mode."""
        columns = self.columns
        if columns.chances is None:
            return columns.gain
        mode = np.minimum(columns.level, np.where(columns.scale == _BINARY, 1.0, np.inf))
        return np.where(np.isnan(columns.chances[:, 0]), columns.gain, mode)

    def chances_at(self, rel: float) -> Floats:
        """The probability that each place reaches a level; nan where its label is certain."""
        chances = self.columns.chances
        return (
            np.full(len(self._level), math.nan)
            if chances is None
            else chances[:, column_of(rel, chances.shape[1])]
        )

    def by_people(self, at: int) -> bool:
        """True if the label of a place is a person's, of those that people or a judge gave."""
        judged = self.verdict[at] >= 0 or at in self._reasons
        return self.choice.source in {"human", "best"} and not judged and bool(self.columns.labelled[at])

    def scales_of(self, sample: int) -> set[str]:
        """The scales of a sample's labels."""
        span, columns = self.span_of(sample), self.columns
        return {self.scales[n] for n in set(columns.scale[span][columns.labelled[span]].tolist())}

    def table_of(self, sample: int) -> RankedLabels:
        """The table of one sample's rankings alone, with their ideal."""
        return self.table.rows_from(self.rows[sample], self.rows[sample + 1])

    def read(self, sample: int, depth: int | None) -> list[int]:
        """The first `depth` places of each ranking of a sample."""
        starts = self.pointers[self.rows[sample] : self.rows[sample + 1] + 1]
        return [
            position
            for start, end in pairwise(starts)
            for position in range(start, end if depth is None else min(end, start + depth))
        ]

    def cells_read(self, sample: int, depth: int | None) -> list[int]:
        """The numbers of the questions that the first `depth` places of each ranking of a sample are about."""
        return sorted({number for at in self.read(sample, depth) if (number := self.verdict[at]) >= 0})

    def missing_in(self, depth: int | None, *, holes: bool) -> Bools:
        """True for each sample that lacks a label in its first `depth` places: the judge failed or, with `holes`, nobody judged."""
        marks = np.zeros(len(self._level), dtype=np.bool_)
        marks[[*self.failed]] = True
        if holes:
            marks |= ~self.columns.labelled
        if depth is not None:
            marks &= self.table.rank <= depth
        mask: Bools = np.bincount(self.columns.sample[marks], minlength=len(self.samples)) > 0
        return mask

    def missing_verdicts(self, sample: int, *, holes: bool) -> Ints:
        """For each place of a sample's rankings: the number of its verdict where that is missing, else -1.

        `holes`: a place that nobody judged is missing a verdict of its own.
        """
        numbers, start, seen = [], self.span_of(sample).start, dict[tuple[Any, ...], int]()
        qrels, lists = self.samples[sample].qrels, self.lists[self.rows[sample] : self.rows[sample + 1]]
        contexts = ((query, context) for query, some in lists for context in some)
        for position, (query, context) in enumerate(contexts, start):
            # the same passage with the same labels has one verdict; a place that nobody was asked about has its own
            same: tuple[Any, ...] = (position,)
            if self.choice.source == "gold":
                same = (position,) if context.id is None else ("", context.id)
            elif position in self.failed or self.choice.source == "judge":
                gold = None if qrels is None or context.id is None else qrels.get(context.id, 0)
                asked = self.samples[sample].query if self.choice.against == "need" else query
                same = (asked, context.text, context.grade, context.relevant, gold)
            number = seen.setdefault(same, len(seen))
            missing = position in self.failed or (holes and not self.columns.labelled[position])
            numbers.append(number if missing else -1)
        return np.array(numbers, dtype=np.int64)

    # Someone looks

    def rankings(self, sample: int) -> tuple[Ranking, ...]:
        """The rankings of a sample, place by place."""
        rankings, at = [], self.span_of(sample).start
        qrels = self.samples[sample].qrels or {}
        grades = tuple(qrels.values()) if self.choice.source == "gold" else None
        for query, contexts in self.lists[self.rows[sample] : self.rows[sample + 1]]:
            passages = [
                LabelledPassage(context, self._label(sample, position), self.verdict[position])
                for position, context in enumerate(contexts, at)
            ]
            at += len(passages)
            rankings.append(Ranking(query, tuple(passages), grades))
        return tuple(rankings)

    def _label(self, sample: int, position: int) -> PassageLabel | Unanswered | None:
        if position in self.failed:
            return Unanswered(self.failed[position])
        level, gain = float(self.columns.level[position]), float(self.columns.gain[position])
        if math.isnan(level):
            return None
        source, scale = self.choice.source, self.scales[int(self.columns.scale[position])]
        reasoning = self._reasons.get(position, "")
        if source == "gold":
            return PassageLabel(gain, level, f"gold grade {level:g}", source)
        if source == "best":
            source = "human" if self.by_people(position) else "judge"
        if (cell := self.verdict[position]) >= 0:
            reasoning = self._answers[sample][cell].reasoning
        power = None if self.columns.power is None else float(self.columns.power[position])
        probabilities = self._probabilities.get(position, ())
        return PassageLabel(gain, level, reasoning, source, scale, probabilities, power)


def chances_table(places: int, probabilities: Mapping[int, Sequence[float]]) -> Floats:
    """Return the probability of reaching each level at each place, from those of the grades (or of no and yes).

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


def sample_labels(
    sample: Sample, choice: LabelChoice, depth: int | None, settings: Settings
) -> Program[BlockLabels]:
    """The labels of one sample's first `depth` places (None = all), for which a judge is asked where it is the source."""
    labels = BlockLabels(choice, settings)
    labels.add([sample], [depth])
    if labels.asks(0):
        labels.take(0, (yield labels.questions(0)))
    return labels


def fill_table(lists: Sequence[Ranking]) -> RankedLabels:
    """The labels of these rankings, one row each, all of one source: what a changed ranking is scored by."""
    labels = [[p.label if isinstance(p.label, PassageLabel) else None for p in row.passages] for row in lists]
    levels = [[label and label.level for label in row] for row in labels]
    if lists and lists[0].gold is not None:
        return RankedLabels.of_lists(levels, [row.gold or () for row in lists])
    gains = [[label and label.gain for label in row] for row in labels]
    values = [label.probabilities if label else () for row in labels for label in row]
    chances = chances_table(len(values), dict(enumerate(values))) if any(values) else None
    power = None
    if any(label and label.power is not None for row in labels for label in row):
        powers = [
            label and (label.gain if label.power is None else label.power) for row in labels for label in row
        ]
        power = np.array(powers, dtype=np.float64)
    return RankedLabels.of_lists(levels, gains=gains, rel=HELPS, chances=chances, power=power)
