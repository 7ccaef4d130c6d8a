"""The parts of a difference, retrieval and verdicts; and the queries that moved, with the changes of their lists."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import fsum
from typing import Literal, TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from germane.clean import shorten
from germane.comparison.schema import MovedLine
from germane.encoding import SHORT, short_name
from germane.judges.judge import DECIDED
from germane.judges.labels import GoldJudge, LabelsJudge
from germane.judging.driver import LookUp, result_of
from germane.judging.queue import judgement_of
from germane.judging.recorded import StoredAnswers
from germane.measures.graders import graders_of
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import Block, Job
from germane.places.lists import distinct_contexts, field_text, rankings, relevant, turns
from germane.questions.question import AnyQuestion
from germane.reports.explain import recorded, settings_of
from germane.reports.manifest import models_in
from germane.reports.pairing import Floats, MeasureComparison, PairedSystems, Side
from germane.reports.summary import higher_is_better, known_measure
from germane.statistics.ranking import Overlap, list_changes, rank_biased_overlap
from germane.types import Context, Json, Judgement, Sample

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]

MOST_SPLIT = 20_000
"""Cases up to which a difference is split: every list is scored once more for it."""


def verdicts_of(sides: Iterable[Side], measure: str) -> Literal["judge", "labels", "mixed"]:
    """The verdicts that a measure reads in any of these: a judge's, labels alone (gold, people's), or both in one score."""
    sources = {side.report[measure, side.system].basis.source for side in sides}
    return "mixed" if "best" in sources else "judge" if "judge" in sources else "labels"


def compared(pair: PairedSystems, measure: str) -> MeasureComparison:
    """The comparison of a measure over all cases, with the reason why it decides nothing, if there is one."""
    comparison = pair.compare(measure)
    judged = verdicts_of((pair.a, pair.b), measure) != "labels"
    differ = how_judged(pair.a, pair.b, [measure]) if judged else ""
    return comparison.replace(undecided_why=differ or pair.too_few(comparison))


def how_judged(a: Side, b: Side, measures: Iterable[str]) -> str:
    """The difference in how two systems were judged as to what these measures read, in words; "" where there is none."""
    if a.report is b.report:
        return ""
    manifests = a.report.manifest, b.report.manifest
    measures = list(measures)
    (source, *identities), (other, identity) = (_asked(side, measures) for side in (a, b))
    if source != other:
        return f"{a.name} was judged by {source}, {b.name} by {other}"
    both = f"{a.name} and {b.name} were judged"
    identities.append(identity)
    if all(identities) and (names := _differing(*identities)):
        return f"{both} by {source} with another {', '.join(names)}"
    settings = [manifest.get("settings") or {} for manifest in manifests]
    if all(settings) and (names := _differing(*settings)):
        return f"{both} with another {', '.join(names)}"
    prompts = [manifest.get("prompts") or {} for manifest in manifests]
    names = [name for name in _differing(*prompts) if all(name in mine for mine in prompts)]
    if names:
        return f"{both} with another prompt of {', '.join(names)}"
    models = _other_models(a, b, measures)
    return f"{both} by {source}, but another model answered: {models}" if models else ""


def _other_models(a: Side, b: Side, measures: Iterable[str]) -> str:
    """The models that answered for each side under one judge's name, in words; "" where they share one or none is known."""
    for name in measures:
        served, others = _served(a, name), _served(b, name)
        if served and others and not served.keys() & others.keys():
            return f"{a.name} by {', '.join(served)}, {b.name} by {', '.join(others)}"
    return ""


def served_models(a: Side, b: Side, measures: Iterable[str]) -> str:
    """The numbers of judgements by each model that answered under the judge's name, in words; "" where it was one model.

    Only models that both sides share in part are named here: `how_judged` names those of which none is shared.
    """
    for name in () if a.report is b.report else measures:
        served = [_served(side, name) for side in (a, b)]
        if all(served) and len({*served[0], *served[1]}) > 1:
            counts = (
                f"{side.name} {', '.join(f'{n:,} by {model}' for model, n in models.items())}"
                for side, models in zip((a, b), served, strict=True)
            )
            return f"several models answered under the judge's name: {'; '.join(counts)} ({name})"
    return ""


def _served(side: Side, measure: str) -> Mapping[str, int]:
    """Judgements of a measure by the model that answered, where the endpoint named another one than was asked for."""
    identity = (side.report.manifest.get("judge") or {}).get("identity") or {}
    asked = {part for name in models_in(identity) for part in (name, name.partition(":")[2])}
    models = side.report[measure, side.system].basis.models
    return {model: n for model, n in models.items() if model and model not in asked}


def _asked(side: Side, measures: Sequence[str]) -> tuple[str, Mapping[str, object]]:
    """The name and the identity of the judge; of a decisions model and one for the rest, of the one that these measures read."""
    manifest = side.report.manifest
    judge, reads = manifest.get("judge") or {}, manifest.get("reads") or {}
    source, identity = str(judge.get("source")), judge.get("identity") or {}
    kinds = {kind in DECIDED for name in measures for kind in reads.get(side.types[name], ())}
    if "decisions" not in identity or len(kinds) != 1:
        return source, identity
    decisions, rest = source.removesuffix(" for the rest").split(" for relevance, ", 1)
    return (decisions, identity["decisions"]) if True in kinds else (rest, identity["rest"])


def _differing(row: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    return sorted(key for key in {*row, *other} if row.get(key) != other.get(key))


@dataclass(frozen=True, slots=True)
class MixedScore:
    """The score of B's lists with A's verdicts for each case of A's report, nan where there is none.

    Where A holds no verdict on a passage of B's lists, B's own stands. `regolded` marks the cases whose verdicts were asked against something else in B (gold ids are no such thing: they are read where they stand, A's in
    the place of B's), and `same_lists` those whose lists and answer are the same.
    """

    values: Floats
    regolded: Bools
    same_lists: Bools


def mixed_scores(
    pair: PairedSystems, measures: Sequence[str], shared: SharedSamples
) -> tuple[dict[str, MixedScore], dict[str, str]]:
    """The score of B's lists with A's verdicts, by measure.

    A's verdict is taken where both hold the same item; gold is A's gold for the query, people's labels are A's where A's
    list has the same passage.

    Returns:
        Scores by reported name, and for the other measures why there are none.
    """
    a, b = pair.a, pair.b
    scores = {}
    for name in measures:
        theirs = pair.values(name)[1]
        scores[name] = np.full(len(a.scores.cases), np.nan)
        scores[name][theirs.case] = theirs.values
    if a.report is b.report:  # one report holds one verdict per item: all of the difference is retrieval
        nothing = np.zeros(len(a.scores.cases), np.bool_)
        return {name: MixedScore(values, nothing, nothing) for name, values in scores.items()}, {}
    refused = {name: why for name in measures if (why := _refusal(pair, name))}
    scorable = {name: Measure.parse(a.types[name]) for name in measures if name not in refused}
    if not scorable:
        return {}, refused
    again = _ScoredAgain(pair, list(scorable.values()), shared)
    mixed = {}
    for name, measure in scorable.items():
        judged = verdicts_of((a, b), name) == "judge"
        mixed[name] = again.mixed(measure, scores[name], judged=judged)
    return mixed, refused


class _ScoredAgain:
    """B's lists with A's verdicts, wherever these or the gold may change a score; of the other cases B's own stands.

    The samples of both are read once, and held until their case is complete.
    """

    def __init__(self, pair: PairedSystems, measures: Sequence[Measure], shared: SharedSamples) -> None:
        self._pair, self._graders = pair, graders_of(tuple(measures))
        self._case: list[int] = []
        self._rows: list[Mapping[str, Outcome]] = []
        self._changed = pair.a.scores.numbers if pair.by_query else _judged_otherwise(pair.a, pair.b)
        self._settings = [settings_of(side.report) for side in (pair.a, pair.b)]
        cases = len(pair.a.scores.cases)
        self._differs = {name: np.zeros(cases, np.bool_) for name in ("shown", "lists", *_TEXTS)}
        look_up = _SharedVerdicts(pair.a, pair.b)
        remaining = shared.read()
        while some := list(islice(remaining, _BLOCK)):
            self._add(some, look_up)

    def _add(self, cases: Sequence[tuple[str, list[Sample], list[Sample]]], look_up: _SharedVerdicts) -> None:
        """Score these cases: the id, the samples of A and those of B."""
        numbers, jobs = self._pair.a.scores.numbers, list[Job]()
        ours, settings = self._settings
        for case, before, after in cases:
            number, first, other = numbers[case], before[0], after[0]
            self._differs["shown"][number] = ours.shown_with(first) != settings.shown_with(other)
            self._differs["lists"][number] = _output_of(before) != _output_of(after)
            for name in _TEXTS:
                self._differs[name][number] = field_text(first, name) != field_text(other, name)
            samples = [_with_labels(sample, first) for sample in after]
            if case in self._changed or samples != after:
                jobs += [Job(sample=sample, graders=self._graders) for sample in samples]
                self._case += [number] * len(samples)
        if ours.judged_by != settings.judged_by:
            settings = settings.with_judge("")
        block = Block(jobs=jobs, settings=settings)
        self._rows += block.outcomes([result_of(program, look_up) for program in block.programs])

    def mixed(self, measure: Measure, own: Floats, *, judged: bool) -> MixedScore:
        """The scores of one measure; `own` are B's, with its own verdicts, and `judged` says whether a judge gave these."""
        cases, canonical = np.array(self._case, np.intp), str(measure)
        values = [np.nan if (value := row[canonical].value) is None else value for row in self._rows]
        trials, sums = np.bincount(cases, minlength=len(own)), np.bincount(cases, values, len(own))
        regolded = self._differs["shown"].copy()
        for name in set(_TEXTS).intersection(measure.definition.needs):
            regolded |= self._differs[name]
        means = np.where(trials > 0, sums / np.maximum(trials, 1), own)
        return MixedScore(means, regolded & judged, ~self._differs["lists"])


_TEXTS = ("reference", "criterion")
"""The fields from which a measure may take its questions, apart from the query and the contexts."""
_NAME = f"S{SHORT}"
"""The type of a column of names, of which all bytes are compared."""
Names: TypeAlias = NDArray[np.bytes_]
_BLOCK = 500
"""The number of cases that are scored together."""


def _output_of(samples: Sequence[Sample]) -> Json:
    """The system's output: its lists and its answer."""
    lists = [[(query, [(c.text, c.id) for c in of]) for query, of in rankings(s)] for s in samples]
    return [lists, [sample.response for sample in samples]]


def _judged_otherwise(a: Side, b: Side) -> Container[str]:
    """The cases of B for which A holds an answer that is not B's own."""
    if settings_of(a.report).judged_by or settings_of(b.report).judged_by:
        return b.scores.numbers
    asked, answer, usable = _answers_of(a)
    ours, first = np.unique(asked[usable], return_index=True)  # of several the first
    answer_of = answer[usable][first]
    asked, answer, _ = _answers_of(b)
    at, found_in = _positions_in(ours, asked)
    same = np.bincount(at[found_in], answer[found_in] != answer_of[at[found_in]], len(ours)) == 0
    same &= np.bincount(at[found_in], minlength=len(ours)) > 0
    rows = [
        (short_name(row.item.encode()), row.sample)
        for row in b.report.places()
        if row.of is None and row.system == b.system
    ]
    at, found_in = _positions_in(ours, np.array([asked for asked, _ in rows], _NAME))
    return {rows[number][1] for number in np.flatnonzero(found_in)[~same[at[found_in]]].tolist()}


def _answers_of(side: Side) -> tuple[Names, Names, Bools]:
    """The name of each answer's item, that of what was answered, and whether it was answered at all."""
    names, answers, usable = bytearray(), bytearray(), bytearray()
    for item, _, answer in side.report.tables.judgements.answers():
        names += short_name(item.encode())
        answers += short_name(answer or b"")
        usable.append(answer is not None)
    items, answered = (np.frombuffer(bytes(column), _NAME) for column in (names, answers))
    return items, answered, np.frombuffer(bytes(usable), np.bool_)


def _positions_in(distinct: Names, values: Names) -> tuple[Ints, Bools]:
    """The position of each of these names among distinct ones in their order, and whether it is one of them."""
    at = np.searchsorted(distinct, values)
    at[at == len(distinct)] = 0
    return at, (distinct[at] == values) if len(distinct) else np.zeros(len(values), np.bool_)


class _SharedVerdicts:
    """Looks up B's answers, with A's in their place wherever A holds one to the same item."""

    def __init__(self, a: Side, b: Side) -> None:
        self._a, self._b = a, b

    @cached_property
    def _first_answers(self) -> Callable[[Sequence[AnyQuestion]], Sequence[Judgement | None]]:
        return _labels_of(self._a) or StoredAnswers(self._a.report.tables.judgements, however=True).find

    @cached_property
    def _own_answers(self) -> LookUp:
        return _labels_of(self._b) or recorded(self._b.report).look_up

    def __call__(self, questions: Sequence[AnyQuestion]) -> list[Judgement]:
        """The answer to each question: A's where A holds one without an error, else B's own."""
        theirs = list(self._first_answers(questions))
        lost = [n for n, their in enumerate(theirs) if their is None or their.error is not None]
        for n, mine in zip(lost, self._own_answers([questions[n] for n in lost]), strict=True):
            theirs[n] = mine
        return [their for their in theirs if their is not None]


def _labels_of(side: Side) -> Callable[[Sequence[AnyQuestion]], list[Judgement]] | None:
    """Looks up the labels of a system that was judged by labels; None where a judge was asked."""
    read = settings_of(side.report).judged_by
    if not read:
        return None
    reader = GoldJudge() if read == "gold" else LabelsJudge()
    for sample in side.read():
        for _, contexts in rankings(sample):
            reader.learn(sample.query, contexts, turns(sample), sample.qrels)
    return lambda questions: [
        judgement_of("", question, reader, reader.reply(question)) for question in questions
    ]


def _refusal(pair: PairedSystems, name: str) -> str:
    """The reason why the difference of a measure cannot be split, or ""."""
    a, b = pair.a, pair.b
    measure = known_measure(a.types[name])
    if measure is None:
        return "the measure is not known here"
    reasons = {
        "labels of people and of a judge are mixed in it": verdicts_of((a, b), name) == "mixed",
        "a script's score belongs to the list that it was given": measure.definition.family == "graded",
        "it takes the samples of both, which only report folders of germane run hold": not (
            a.has_samples and b.has_samples
        ),
        f"there are more than {MOST_SPLIT:,} queries": len(b.scores.cases_of(b.system)) > MOST_SPLIT,
        "the judges answered on different scales": settings_of(a.report).scale != settings_of(b.report).scale,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _with_labels(sample: Sample, other: Sample) -> Sample:
    """A sample with the gold of another system's sample of the same case, and with its people's labels."""
    labels: dict[str | None, tuple[int | None, bool | None]] = {}
    for _, contexts in rankings(other):
        for context in contexts:
            if context.grade is not None or context.relevant is not None:
                labels.setdefault(context.text or context.id, (context.grade, context.relevant))
    gold = {name: of for name in _GOLD if (of := getattr(other, name)) != getattr(sample, name)}
    if not labels and not gold:
        return sample

    def labelled(context: Context) -> Context:
        own = context.grade, context.relevant
        grade, relevant = labels.get(context.text or context.id, own)
        return context if (grade, relevant) == own else replace(context, grade=grade, relevant=relevant)

    return sample.with_contexts(labelled, **gold) if labels else replace(sample, **gold)


_GOLD = ("qrels", "gold", "evidence", "answerable", "forbidden", "superseded", "grade_scale")


def moved_queries(
    pair: PairedSystems, measure: str, most: int = 5
) -> tuple[list[MovedLine], list[MovedLine]]:
    """The queries that became worst and best by a measure, at most `most` of each, the most moved first.

    Lists are of the ids of the passages, or the beginnings of their texts.
    """
    ours, theirs = pair.values(measure)
    change = theirs.values - ours.values
    gain = change if higher_is_better(pair.a.types[measure]) else -change
    order = np.argsort(np.where(np.isnan(gain), 0.0, gain), kind="stable")

    def name_of(row: int) -> str:
        return pair.a.scores.cases[int(ours.case[row])]

    def moved(row: int) -> MovedLine:
        case, low, high = name_of(row), float(ours.low[row]), float(theirs.low[row])
        a, b = (samples.get(case) for samples in first)
        added, dropped, moved = list_changes(_names(a), _names(b)) if a and b else (None, None, None)
        gold = _gold_ranks(a, b) if a and b else None
        query = a.query if a else ""
        return MovedLine(case, query, low, high, high - low, added, dropped, moved, gold)

    worst = [row for row in order[:most].tolist() if gain[row] < 0]
    best = [row for row in order[::-1][:most].tolist() if gain[row] > 0]
    cases = {name_of(row) for row in (*worst, *best)}
    in_a = {case: of for case in pair.b.scores.cases if (of := pair.case_in_a(case)) in cases}
    theirs_of = {in_a[case]: sample for case, sample in pair.b.first_of(in_a).items()}
    first = [pair.a.first_of(cases), theirs_of]
    return list(map(moved, worst)), list(map(moved, best))


class SharedSamples:
    """The samples of the queries that two systems share, which are read once, and what they tell of both systems."""

    def __init__(self, pair: PairedSystems) -> None:
        self._pair, self._read = pair, False
        self._renamed: list[tuple[str, str, str]] = []
        self._overlaps: list[float] = []

    def read(self) -> Iterator[tuple[str, list[Sample], list[Sample]]]:
        """Each case that both have, with A's and B's samples of it."""
        self._read, pair = True, self._pair
        for case, before, after in pair.samples_in_both():
            ours, theirs = before[0], after[0]
            if ours.query != theirs.query and not pair.by_query:
                a, b = (" ".join(sample.query.split()) for sample in (ours, theirs))
                self._renamed += [(case, a, b)] if a != b else []
            if ours.contexts is not None and theirs.contexts is not None:
                self._overlaps.append(rank_biased_overlap(_passages(ours), _passages(theirs)))
            yield case, before, after

    def overlap(self) -> Overlap | None:
        """The mean rank-biased overlap of the lists of both; None where no lists are known."""
        self._finish()
        values = self._overlaps
        return Overlap(fsum(values) / len(values), len(values)) if values else None

    def all_renamed(self) -> Sequence[tuple[str, str, str]]:
        """The ids under which B has another query than A, each with both queries."""
        self._finish()
        return self._renamed

    def _finish(self) -> None:
        if not self._read and self._pair.a.has_samples and self._pair.b.has_samples:
            for _ in self.read():
                pass


def renamed_note(pair: PairedSystems, renamed: Sequence[tuple[str, str, str]]) -> Iterator[tuple[int, str]]:
    """The number of ids that stand for another query in B than in A, and the note that goes on behind it; nothing of none."""
    if renamed:
        first, ours, theirs = renamed[0]
        what = f"{'id has' if len(renamed) == 1 else 'ids have'} another query in {pair.b.name} than in {pair.a.name}"
        yield (
            len(renamed),
            f"{what}: {shorten(first, 40)} is {shorten(ours, 40)!r} and {shorten(theirs, 40)!r}",
        )


def _passages(sample: Sample) -> list[str]:
    return [context.id or context.text for context in distinct_contexts(sample)]


def _gold_ranks(a: Sample, b: Sample) -> list[tuple[str, int | None, int | None]]:
    """The ranks of each gold document in the lists of two systems, None where it did not come back; those that moved first."""
    old, new = ({name: at for at, name in reversed(list(enumerate(_names(side), 1)))} for side in (a, b))
    groups = (name for group in a.gold or () for name in group)
    ranks = [(name, old.get(name), new.get(name)) for name in dict.fromkeys((*relevant(a, 1), *groups))]
    return sorted(ranks, key=lambda row: row[1] == row[2])


def _names(sample: Sample) -> list[str]:
    return [context.id or shorten(context.text, 40) for context in distinct_contexts(sample)]
