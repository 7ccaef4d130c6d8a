"""The parts of a difference, retrieval and verdicts; and the queries that moved, with the changes of their lists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from germane.clean import shorten
from germane.comparison.schema import MovedLine
from germane.judges.judge import DECIDED
from germane.judges.labels import GoldJudge, LabelsJudge
from germane.judging.driver import LookUp, result_of
from germane.judging.queue import judgement_of
from germane.judging.recorded import StoredAnswers
from germane.measures.labels import distinct_contexts, rankings, turns
from germane.measures.measure import Measure
from germane.measures.scoring import Block, Job, graders_of
from germane.questions.question import AnyQuestion
from germane.reports.explain import recorded, settings_of
from germane.reports.gates import NO_DECISION
from germane.reports.pairing import Floats, MeasureComparison, Pair, Side
from germane.reports.summary import higher_is_better, known_measure
from germane.statistics.ranking import list_changes
from germane.types import Context, Judgement, Sample

MOST_SPLIT = 20_000
"""Cases up to which a difference is split: every list is scored once more for it."""


def verdicts_of(sides: Iterable[Side], measure: str) -> Literal["judge", "labels", "mixed"]:
    """The verdicts that a measure reads in any of these: a judge's, labels alone (gold, people's), or both in one score."""
    sources = {side.report[measure, side.system].basis.source for side in sides}
    return "mixed" if "best" in sources else "judge" if "judge" in sources else "labels"


def undecidable(pair: Pair, comparison: MeasureComparison, *, allow_stand_in: bool = False) -> str:
    """The reason why a comparison of all cases decides nothing; "" where it may decide."""
    name = comparison.measure
    stand_in = any(side.report[name, side.system].basis.stand_in for side in (pair.a, pair.b))
    if stand_in and not allow_stand_in and comparison.corrected is None:  # a corrected figure is people's
        return f"{name}: {NO_DECISION}"
    return pair.too_few(comparison)


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
    return f"{both} with another prompt of {', '.join(names)}" if names else ""


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

    `own` marks the cases where A holds no verdict on a passage of B's lists, so that B's own stands there.
    """

    values: Floats
    own: NDArray[np.bool_]


def mixed_scores(pair: Pair, measures: Sequence[str]) -> tuple[dict[str, MixedScore], dict[str, str]]:
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
        return {name: MixedScore(values, nothing) for name, values in scores.items()}, {}
    refused = {name: why for name in measures if (why := _refusal(pair, name))}
    wanted = {name: a.types[name] for name in measures if name not in refused}
    if not wanted:
        return {}, refused
    scores = {name: scores[name] for name in wanted}
    graders = graders_of(tuple(map(Measure.parse, wanted.values())))
    changed, lacking = _judged_otherwise(a, b)
    jobs = []
    for case in b.samples.keys() & a.samples.keys():
        samples = [_with_labels(sample, a.samples[case][0]) for sample in b.samples[case]]
        if case in changed or samples != b.samples[case]:  # of the others B's own score stands
            jobs += [Job(sample=sample, graders=graders) for sample in samples]
    look_up, settings = _SharedVerdicts(a, b), settings_of(b.report)
    if settings.judged_by != settings_of(a.report).judged_by:
        settings = settings.with_judge("")
    block = Block(jobs=jobs, settings=settings)
    results, own = [], set[tuple[int, str]]()
    for program, owner in zip(block.programs, block.owners, strict=True):
        look_up.fell_back = False
        results.append(result_of(program, look_up))
        own |= {(owner.job, canonical) for canonical in owner.measures} if look_up.fell_back else set()
    outcomes = block.outcomes(results)
    numbers = a.scores.numbers
    cases = np.array([numbers[job.sample.id] for job in jobs], np.int64)
    trials = np.bincount(cases, minlength=len(numbers))
    mixed = {}
    for name, canonical in wanted.items():
        values = [np.nan if (value := row[canonical].value) is None else value for row in outcomes]
        sums = np.bincount(cases, values, len(numbers))
        marks = np.zeros(len(numbers), np.bool_)
        without = _lacking_of(Measure.parse(canonical), lacking)
        marks[[numbers[case] for case in without if case in numbers]] = True
        marks[cases] = False
        marks[[cases[job] for job, measure in own if measure == canonical]] = True
        means = np.where(trials > 0, sums / np.maximum(trials, 1), scores[name])
        mixed[name] = MixedScore(means, marks)
    return mixed, refused


def _judged_otherwise(a: Side, b: Side) -> tuple[Collection[str], Mapping[str, Sequence[int]]]:
    """The cases of B for which A holds an answer that is not B's own, and the ranks of what A holds no answer to, by case.

    The rank is 0 of what is asked about no single passage.
    """
    if settings_of(a.report).judged_by or settings_of(b.report).judged_by:
        return b.samples.keys(), {}
    ours, theirs = dict[int, int](), dict[int, int | None]()  # hashes, of the item and of what was answered
    for item, kind, answer in a.report.tables.judgements.answers():
        if answer is not None:
            ours.setdefault(hash((item, kind)), hash(answer))
    for item, kind, answer in b.report.tables.judgements.answers():
        if (known := ours.get(asked := hash((item, kind)))) is not None:
            same = hash(answer) == known == theirs.get(asked, known)
            theirs[asked] = known if same else None
    columns = map(b.report.tables.items.column, ("item", "kind", "of", "system", "sample", "rank"))
    changed, lacking = set[str](), dict[str, list[int]]()
    for item, kind, of, system, case, rank in zip(*columns, strict=True):
        if of is None and system == b.system:
            known = ours.get(asked := hash((item, kind)))
            if known is None:
                lacking.setdefault(case, []).append(rank or 0)
            elif theirs.get(asked) != known:
                changed.add(case)
    return changed, lacking


def _lacking_of(measure: Measure, lacking: Mapping[str, Sequence[int]]) -> Iterable[str]:
    """The cases in which A lacks an answer that a measure may read: a ranked one reads its first places alone."""
    ranked, depth = measure.definition.family == "ranked", measure.depth
    for case, ranks in lacking.items():
        if not ranked or any(rank > 0 and (depth is None or rank <= depth) for rank in ranks):
            yield case


class _SharedVerdicts:
    """Looks up B's answers, with A's in their place wherever A holds one to the same item.

    Attributes:
        fell_back: Whether an answer of B's own was taken since this was last set to False.
    """

    def __init__(self, a: Side, b: Side) -> None:
        self.fell_back = False
        self._a, self._b = a, b

    @cached_property
    def _first(self) -> Callable[[Sequence[AnyQuestion]], Sequence[Judgement | None]]:
        return _labels_of(self._a) or StoredAnswers(self._a.report.tables.judgements, however=True).find

    @cached_property
    def _own(self) -> LookUp:
        return _labels_of(self._b) or recorded(self._b.report).look_up

    def __call__(self, questions: Sequence[AnyQuestion]) -> list[Judgement]:
        """The answer to each question."""
        theirs = list(self._first(questions))
        lost = [n for n, their in enumerate(theirs) if their is None or their.error is not None]
        self.fell_back |= bool(lost)
        for n, mine in zip(lost, self._own([questions[n] for n in lost]), strict=True):
            theirs[n] = mine
        return [their for their in theirs if their is not None]


def _labels_of(side: Side) -> Callable[[Sequence[AnyQuestion]], list[Judgement]] | None:
    """Looks up the labels of a system that was judged by labels; None where a judge was asked."""
    read = settings_of(side.report).judged_by
    if not read:
        return None
    reader = GoldJudge() if read == "gold" else LabelsJudge()
    for sample in (sample for trials in side.samples.values() for sample in trials):
        for _, contexts in rankings(sample):
            reader.learn(sample.query, contexts, turns(sample), sample.qrels)
    return lambda questions: [
        judgement_of("", question, reader, reader.reply(question)) for question in questions
    ]


def _refusal(pair: Pair, name: str) -> str:
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
    labels = {
        context.text or context.id: (context.grade, context.relevant)
        for context in distinct_contexts(other)
        if context.grade is not None or context.relevant is not None
    }

    def labelled(context: Context) -> Context:
        own = context.grade, context.relevant
        grade, relevant = labels.get(context.text or context.id, own)
        return context if (grade, relevant) == own else replace(context, grade=grade, relevant=relevant)

    gold = ("qrels", "gold", "evidence", "answerable", "forbidden", "superseded", "grade_scale")
    return sample.with_contexts(labelled, **{name: getattr(other, name) for name in gold})


def moved_queries(pair: Pair, measure: str, most: int = 5) -> tuple[list[MovedLine], list[MovedLine]]:
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
        query = a.query if a else ""
        return MovedLine(case, query, low, high, high - low, added, dropped, moved)

    worst = [row for row in order[:most].tolist() if gain[row] < 0]
    best = [row for row in order[::-1][:most].tolist() if gain[row] > 0]
    cases = {name_of(row) for row in (*worst, *best)}
    first = [side.first_of(cases) for side in (pair.a, pair.b)]
    return list(map(moved, worst)), list(map(moved, best))


def _names(sample: Sample) -> list[str]:
    return [context.id or shorten(context.text, 40) for context in distinct_contexts(sample)]
