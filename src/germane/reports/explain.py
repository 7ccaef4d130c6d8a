"""Explanations of scores: a sample's labels and each score's working, derived from the stored judgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from msgspec import UNSET, json

from germane.errors import InputError
from germane.judges.panel import votes_on
from germane.judging.driver import replay
from germane.judging.recorded import StoredAnswers
from germane.measures import ranked
from germane.measures.explaining import Explanation, explain_judged, explain_ranked
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.ranked import least_level
from germane.measures.scoring import program_of
from germane.places.lists import labelled_contexts, places_of
from germane.places.places import Places
from germane.places.settings import Settings
from germane.places.table import Ints, RankedLabels
from germane.questions.asking import Unanswered
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Relevance
from germane.reports.data import ReportData
from germane.reports.derived.cases import ResultRow
from germane.reports.derived.explained import (
    CallLine,
    ChangedLine,
    ExplainDocument,
    ExplainedLine,
    LabelLine,
    MatrixLine,
    MissingLine,
    PlaceLine,
    SupportLine,
)
from germane.reports.summary import known_measure
from germane.tables.columns import batched
from germane.tables.judgements import GRADED, result_item, result_of_case
from germane.tables.labels import LabelBook, by_people
from germane.tables.scores import SampleKey
from germane.types import FrozenDict, Json, Judgement, Sample, Score, freeze

__all__ = ["Explainer", "grader_results", "results_of"]

Facts: TypeAlias = dict[str, Any]
"""A JSON object of an explanation."""


def settings_of(report: ReportData) -> Settings:
    """Return the settings by which relevance was judged, with the labels that people gave separately from the samples."""
    known = report.corrections
    people = LabelBook(report.tables.people() if known is None else filter(by_people, known.labels))
    return Settings.stored(report.manifest, people or None)


def recorded(report: ReportData) -> StoredAnswers:
    """Return the report's judgements by question; they are read on demand."""
    return StoredAnswers(report.tables.judgements)


MOST_EXPLAINED = 5_000
"""Scores of a report that are all explained when it is written; of a larger one none are."""
_BLOCK = 500
"""Samples whose places are gathered together."""
FOUND = ("hits", "misses", "reasoning", "details")
"""The fields of a grader's result in a case."""


def grader_results(report: ReportData) -> dict[SampleKey, list[Facts]]:
    """Return the results of the graders of each case as text, in the order of the scores.

    Empty if the report has no graders or more than `MOST_EXPLAINED` scores.
    """
    result: dict[SampleKey, list[Facts]] = {}
    if not report.manifest.get("graders") or len(report.tables.scores) > MOST_EXPLAINED:
        return result
    explainer, samples = Explainer(report), {sample.key: sample for sample in report.tables.samples}
    explainer.use(samples.values())
    for score in report.tables.scores:
        why = explainer.of(score, samples.get(score.key))[0]
        grader = report.graders_of(score.key).get(score.measure)
        fields = {name: why.as_json()[name] for name in FOUND}
        fields["misses"] = why.missed(grader.expected_relevant_count if grader else None)
        row = ResultRow(score.measure, score.value, score.status, score.why, **fields)
        result.setdefault(score.key, []).append(row.as_json())
    return result


def left_out(report: ReportData, kind: str) -> str:
    """Return the columns that a format (by its extension) omits because the report is too large; "" if none."""
    names, count = _LEFT_OUT.get(kind, ""), len(report.tables.scores)
    if not names or count <= MOST_EXPLAINED or not report.manifest.get("graders"):
        return ""
    return f"without {names}: they are written for up to {MOST_EXPLAINED:,} scores, and this report has {count:,}"


_LEFT_OUT = {
    ".csv": "hits, misses, reasoning and relevance_checks",
    ".md": "what each grader found in the worst cases",
    ".json": "the results of each case (hits, misses, reasoning, details)",
    ".jsonl": "verdict, hits, misses, reasoning and details",
    ".xml": "what each grader found in each case",
}


def result_row(sample: Sample, grader: str, result: Mapping[str, Json]) -> Judgement:
    """Return a grader's result for a case as a row of the judgements, as it is stored, unlike explanations."""
    key, provenance = result_item(sample.key, grader), FrozenDict(of=result_of_case(sample.key, grader))
    return Judgement(
        key=key, item=key, kind=GRADED, judge="grader", answer=freeze(result), provenance=provenance
    )


def results_of(report: ReportData) -> dict[tuple[str, ...], Mapping[str, Json]]:
    """Return the stored results of graders, by sample, system, trial and the grader's name."""
    return {
        tuple(row.provenance.get("of", ())): row.answer
        for row in report.tables.judgements
        if row.kind == GRADED and isinstance(row.answer, Mapping)
    }


def strips(report: ReportData, scores: Sequence[Score]) -> Iterator[tuple[str, Score, str]]:
    """Yield, for each score, its sample's rank strip (a sign per retrieved passage, see `strip`), the score, and the query.

    The labels are those of the first score's measure if that is ranked, else of the first ranked measure of the report.
    """
    if not scores:
        return
    names = (scores[0].type, *(summary.type for summary in report.summaries))
    measures = (measure for measure in map(known_measure, names) if measure is not None)
    measure = next((measure for measure in measures if measure.definition.family == "ranked"), None)
    samples = report.samples_of({score.key for score in scores})
    signs = dict[SampleKey, str]()
    if measure is not None:
        places = Places(measure.choice, settings_of(report))
        places.add(list(samples.values()), repeat(measure.depth))
        asked = filter(places.asks, range(len(samples)))
        items = {item for number in asked for item in places.questions(number).items}
        StoredAnswers(report.tables.judgements_of(items) if items else ()).label(places)
        signs = {key: strip(places, number, measure) for number, key in enumerate(samples)}
    for score in scores:
        sample = samples.get(score.key)
        yield signs.get(score.key, ""), score, sample.query if sample else ""


def strip(places: Places, sample: int, measure: Measure, most: int = 20) -> str:
    """Return one sign per place: ■ relevant, □ not, · unjudged, ? no verdict; a bar separates calls."""
    least = least_level(measure)

    def sign(at: int) -> str:
        if not places.labelled[at]:
            return "?" if at in places.failed else "·"
        return "■" if places.level[at] >= least else "□"

    return "|".join("".join(map(sign, span[:most])) or "-" for span in places.spans_of(sample, None))


def explain_query(report: ReportData, query: str | None, measure: str | None = None) -> ExplainDocument:
    """Return everything known of one sample's scores, by its id or its query's text.

    Raises InputError if the report holds no such sample or measure, or no query is named; it names some.
    """
    sample = _find(report, query)
    scores = list(report.tables.scores.of_sample(sample.key))
    if measure is not None:
        name = report.reported(measure)
        scores = [score for score in scores if score.measure == name]
        if not scores:
            raise InputError(f"{measure} was not measured for {sample.id}", fix="name another measure")
    return Explainer(report).facts(sample, scores)


def _find(report: ReportData, query: str | None) -> Sample:
    if query is None:
        raise InputError("QUERY is missing", fix=_worst(report))
    if (sample := next(report.tables.samples_named(query), None)) is not None:
        return sample
    text, samples = query.casefold(), report.tables.samples
    inside = [sample for sample in samples if text in f"{sample.id}\n{sample.query}".casefold()]
    if len(inside) == 1:
        return inside[0]
    if inside:
        problem = f"{query!r} is in {len(inside)} queries"
        raise InputError(problem, fix=f"name one by its id: {', '.join(sample.id for sample in inside[:5])}")
    raise InputError(f"no sample has the id or query {query!r}", fix=_worst(report))


def _worst(report: ReportData) -> str:
    """Return some example ids: the worst by the first measure with values."""
    for line in report.summaries:
        if worst := report.worst(line.measure, 5, line.system):
            return f"the worst by {line.measure} are {', '.join(score.sample for score in worst)}"
    some = next(iter(report.tables.samples), None)
    return "it holds no sample" if some is None else f"name one by its id: {some.id}"


def said_by(votes: Mapping[str, Json]) -> list[str]:
    """Return the answer of each member of a panel, or its error; [] without a panel."""
    lines = [f"{name}: {answer}" for name, answer in votes.get("votes", {}).items()]
    return lines + [f"{name} failed: {why}" for name, why in votes.get("failed", {}).items()]


class Explainer:
    """The facts behind the scores of a report's samples: labels, formulas with numbers, missing gold."""

    def __init__(self, report: ReportData) -> None:
        self._report = report
        self._settings, self._answers = settings_of(report), recorded(report)
        self._results = results_of(report)
        asked = report.manifest.get("asked")
        self._has_panel = asked is None or any("panel" in ways for ways in asked.values())
        self.use([])

    @cached_property
    def _people(self) -> LabelBook:
        return LabelBook(self._report.tables.labels)

    def use(self, samples: Iterable[Sample]) -> None:
        """Read the labels of these samples together once one of them is explained."""
        chosen = list(samples)
        self._numbers = {sample.key: number for number, sample in enumerate(chosen)}
        self._read = self._answers.places_reader(chosen, self._settings)

    def result(self, score: Score) -> Mapping[str, Json] | None:
        """Return the stored result of an eval file's grader; None if a measure gave the score."""
        return self._results.get((score.sample, score.system, str(score.trial), score.measure))

    def of(
        self, score: Score, sample: Sample | None
    ) -> tuple[Explanation, tuple[Places, int] | None, Sequence[tuple[AnyQuestion, Any]] | None]:
        """Return a score's explanation, the places that it was computed from, and the questions asked for it.

        The places are None unless the measure is ranked; both are None if no program can be run again.
        """
        outcome = Outcome(score.value, score.status, score.why, score.bounds)
        measure = known_measure(score.type)
        if (result := self.result(score)) is not None:
            graded = Explanation(
                outcome=outcome,
                hits=tuple(result.get("hits") or ()),
                misses=tuple(result.get("misses") or ()),
                reasoning=result.get("reasoning") or outcome.why or "",
                details=freeze({**(result.get("details") or {}), "verdict": result.get("verdict")}),
            )
            return graded, None, ()
        family = "graded" if measure is None else measure.definition.family
        if sample is None or measure is None or family == "graded" or score.status == "skipped":
            return Explanation(outcome=outcome, reasoning=score.why or ""), None, None
        if family == "ranked":
            if sample.key not in self._numbers:
                self.use([sample])
            depth = None if measure.labels == "gold" else measure.depth
            places, number = self._read(measure.choice, depth), self._numbers[sample.key]
            asked = list(places.exchange(number, measure.depth))
            return explain_ranked(measure, outcome, places, number), (places, number), asked
        derived, exchange = replay(program_of(measure, sample, self._settings), self._answers.look_up)
        return explain_judged(measure, outcome, derived), None, exchange

    def _votes(self, exchange: Iterable[tuple[AnyQuestion, Any]]) -> list[dict[str, Json]]:
        """Return the answers of a panel's members to each of these questions; [] without a panel."""
        questions = [question for question, _ in exchange] if self._has_panel else []
        return list(map(votes_on, questions, self._answers.look_up(questions)))

    def facts_of_all(self) -> Iterator[tuple[Sample, ExplainDocument]]:
        """Iterate over each sample of the report, in input order, with the facts about it, without moves."""
        scores: dict[SampleKey, list[Score]] = {}
        for score in self._report.scores():
            scores.setdefault(score.key, []).append(score)
        for samples in batched(self._report.samples(), _BLOCK):
            self.use(samples)
            for sample in samples:
                yield sample, self.facts(sample, scores.get(sample.key, ()), changes=False)

    def facts(self, sample: Sample, scores: Sequence[Score], *, changes: bool = True) -> ExplainDocument:
        """Return the facts about a sample and about these of its scores.

        `changes`: with the moves of a context that would change each ranked score most.
        """
        asked: list[tuple[AnyQuestion, Any]] = []
        measures = [self._measure(sample, score, asked, changes=changes) for score in scores]
        matrices = [result for question, answer in asked if (result := _matrix(question, answer))]
        copied = ("system", "trial", "query", "reference", "criterion", "response", "error")
        return ExplainDocument(
            sample=sample.id,
            tags=list(sample.tags),
            calls=self._calls(sample, asked),
            missing=missing_gold(sample),
            matrices=list({json.encode(matrix): matrix for matrix in matrices}.values()),
            measures=measures,
            **{name: getattr(sample, name) for name in copied},
        )

    def _measure(
        self, sample: Sample, score: Score, asked: list[tuple[AnyQuestion, Any]], *, changes: bool
    ) -> ExplainedLine:
        row = ExplainedLine(score.measure, score.value, score.status, score.why, score.bounds)
        if (measure := known_measure(score.type)) is not None:
            row.formula = measure.definition.formula
        explanation, placed, exchange = self.of(score, sample)
        if score.status == "skipped" or exchange is None:
            return row
        asked += exchange
        ranked_by = measure if measure is not None and measure.definition.family == "ranked" else None
        if measure is None or self.result(score) is not None:
            row.details = dict(explanation.details)
        elif ranked_by is not None and placed is not None:
            row.numbers = numbers_of(ranked_by, *placed, score.value)
            if changes and score.value is not None:
                row.changes = _what_if(ranked_by, *placed, score.value)
        row.reasoning, row.band = explanation.reasoning, explanation.band
        if ranked_by is None:
            row.hits, row.misses = list(explanation.hits), list(explanation.misses)
        return row

    def _calls(self, sample: Sample, asked: Sequence[tuple[AnyQuestion, Any]]) -> list[CallLine]:
        """Return each search with its places, and at each place the label of every source."""
        judged: dict[tuple[str, str], tuple[AnyQuestion, Any]] = {}
        for question, answer in asked:
            if isinstance(question, Relevance):
                judged.setdefault((question.query, question.passage), (question, answer))
        panel: Iterable[dict[str, Json]] = self._votes(judged.values()) or repeat({})
        both = zip(judged.items(), panel, strict=False)
        verdicts = {passage: _verdict(answer, votes) for (passage, (_, answer)), votes in both}
        calls = [CallLine(call.query or sample.query, []) for call in sample.calls or ()]
        if sample.contexts or (calls and sample.contexts is not None):
            calls.append(CallLine(sample.query, [], True if calls else UNSET))
        for (item, context), (call, rank, _) in zip(
            labelled_contexts(sample), places_of(sample), strict=True
        ):
            labels: list[LabelLine] = []
            if context.id is not None and (grade := (sample.qrels or {}).get(context.id)) is not None:
                labels.append(LabelLine("gold", grade, grade >= 1))
            asked_with = (
                (query, context.text) for query in dict.fromkeys((sample.query, calls[call - 1].query))
            )
            labels += [verdicts[value] for value in asked_with if value in verdicts]
            if (label := self._people.get(item)) is not None:
                helps = label.answer if isinstance(label.answer, bool) else label.answer >= HELPS
                labels.append(LabelLine("human", label.answer, helps, label.who, label.reason or ""))
            place = PlaceLine(rank, context.id, context.score, context.text, item, labels)
            calls[call - 1].contexts.append(place)
        return calls


def _verdict(answer: Any, votes: Mapping[str, Json]) -> LabelLine:
    """Return a judge's answer about one place."""
    said = said_by(votes) if votes else UNSET
    if isinstance(answer, Unanswered):
        return LabelLine("judge", None, None, reason=answer.why, votes=said)
    binary = answer.scale == "binary"
    grade, helps = (bool(answer.grade),) * 2 if binary else (answer.grade, answer.grade >= HELPS)
    chances = list(answer.probabilities) if answer.probabilities else UNSET
    return LabelLine("judge", grade, helps, reason=answer.reasoning, votes=said, probabilities=chances)


def _matrix(question: AnyQuestion, answer: Any) -> MatrixLine | None:
    """Return the numbers of the contexts that support each claim or nugget; None if that was not asked."""
    claims = getattr(question, "claims", None) or getattr(question, "nuggets", None)
    if not claims or isinstance(answer, Unanswered) or not isinstance(answer, Sequence):
        return None
    rows = []
    for claim, verdict in zip(claims, answer, strict=False):
        if not hasattr(verdict, "contexts"):
            return None
        text = claim if isinstance(claim, str) else getattr(claim, "text", str(claim))
        rows.append(SupportLine(text, list(verdict.contexts), verdict.reasoning))
    return MatrixLine(question.kind, rows)


def missing_gold(sample: Sample) -> list[MissingLine]:
    """Return the gold documents that were not retrieved, highest grade first."""
    retrieved = {context.id for context in sample.retrieved()}
    gold = (sample.qrels or {}).items()
    missing = [MissingLine(name, grade) for name, grade in gold if grade > 0 and name not in retrieved]
    return sorted(missing, key=lambda row: -row.grade)


def numbers_of(measure: Measure, places: Places, sample: int, value: float | None) -> str | None:
    """Return a ranked measure's formula with this sample's numbers; None if no formula gives the value."""
    table = places.table_of(sample)
    if value is None or table.rows != 1 or measure.settings.get("holes", "zero") != "zero":
        return None
    if abs(float(ranked.values(measure, table)[0]) - value) > 5e-7:  # labels were added since
        return None
    if table.chances is not None:
        sides = ranked.fraction(measure, table)
        return sides and f"{float(sides[0][0]):.4f} / {float(sides[1][0]):.4f} (expected values)"
    top = places.read(sample, measure.k if isinstance(measure.k, int) else None)
    hits = [rank for rank, at in enumerate(top, 1) if places.level[at] >= least_level(measure)]
    if measure.name == "RR":
        return f"1 / {hits[0]}" if hits else _NOT_ONE
    if measure.name == "Success":
        return f"{len(hits)} relevant in the top {measure.k or len(top)}: {int(bool(hits))}"
    return _divided(measure, table, hits, len(top))


def _divided(measure: Measure, table: RankedLabels, hits: Sequence[int], top: int) -> str | None:
    """Return a measure's fraction for one ranking with relevant places at these ranks of its `top`."""
    values = ranked.fraction(measure, table)
    if values is None:
        return None
    share, whole = (float(side[0]) for side in values)
    if measure.name in {"AP", "context_precision"}:
        precisions = _sum_of([f"{n}/{rank}" for n, rank in enumerate(hits, 1)])
        return f"({precisions}) / {whole:g}" if whole else _NOT_ONE
    if not whole:
        return None
    if measure.name == "context_position":
        inverse = _sum_of([f"1/{rank}" for rank in hits])
        return f"({inverse}) / (1 + 1/2 + ... + 1/{top}) = {share:.4f} / {whole:.4f}"
    if measure.name == "nDCG":
        gains = ranked.dcg_gains(table, measure.settings["dcg"])[:top].tolist()
        terms = _sum_of([f"{gain:g}/log2({rank + 1})" for rank, gain in enumerate(gains, 1) if gain])
        return f"DCG {terms} = {share:.4f}; ideal {whole:.4f}; {share:.4f} / {whole:.4f}"
    return f"{share:g} / {whole:g}"


_NOT_ONE = "no relevant place: 0"


def _sum_of(terms: Sequence[str]) -> str:
    return " + ".join(terms) or "0"


_MOVED = 200
"""Places whose contexts are moved: each move computes the whole score anew, and deep places hardly change it."""
_PLACES = 1_000_000
"""Places of changed rankings that are scored together."""


def _what_if(measure: Measure, places: Places, sample: int, value: float, most: int = 3) -> list[ChangedLine]:
    """Return the changes that affect the score most: a context of the first hundreds moved up by one, or dropped."""
    table, changes = places.table_of(sample), list[ChangedLine]()
    now = ranked.values(measure, table).tolist()
    for row, length in enumerate(np.diff(table.pointers).tolist()):
        order, moves = np.arange(length), dict[str, Ints]()
        call = f" of call {row + 1}" if table.rows > 1 else ""
        for at in range(min(length, (measure.depth or length) + 1, _MOVED)):
            moves[f"rank {at + 1}{call} dropped"] = np.delete(order, at)
            if at:
                up = np.concatenate([order[: at - 1], [at, at - 1], order[at + 1 :]])
                moves[f"rank {at + 1}{call} moved up one"] = up
        step = max(1, _PLACES // max(1, length))
        variants = (table.variants(row, orders) for orders in batched(moves.values(), step))
        values = (moved for variant in variants for moved in ranked.values(measure, variant).tolist())
        for what, moved in zip(moves, values, strict=True):
            new = float(sum([*now[:row], moved, *now[row + 1 :]]) / table.rows)
            changes.append(ChangedLine(what, new, new - value))
    changes.sort(key=lambda change: -abs(change.difference))
    return [change for change in changes[:most] if abs(change.difference) > 1e-9]
