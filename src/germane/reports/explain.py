"""Explanations of scores: a sample's labels and the working of a score, derived again from the stored judgements."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, repeat
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import UNSET, UnsetType, json

from germane.clean import clean, shorten
from germane.encoding import Line
from germane.errors import InputError
from germane.judges.panel import votes_on
from germane.judging.driver import replay
from germane.judging.recorded import StoredAnswers
from germane.measures import ranked
from germane.measures.explaining import Exchange, Explanation, explain_judged, explain_ranked
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.ranked import least_level
from germane.measures.scoring import program_of
from germane.places.lists import labelled_passages
from germane.places.places import Places
from germane.places.settings import Settings
from germane.places.table import Ints, LabelChoice, RankedLabels
from germane.questions.asking import Unanswered
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Relevance, distribution_in_words
from germane.reports.data import ReportData
from germane.reports.summary import in_digits, known_measure
from germane.show.table import Table
from germane.tables.columns import batched
from germane.tables.judgements import GRADED, result_item, result_of_case
from germane.tables.labels import LabelBook
from germane.tables.scores import Bounds, SampleKey
from germane.types import FrozenDict, Json, Judgement, Sample, Score, freeze

Facts: TypeAlias = dict[str, Any]
"""A JSON object of an explanation."""


class ResultRow(Line):
    """The result of one grader in a case, in words; reports of more than 5,000 scores leave it out."""

    measure: str
    score: float | None
    status: str
    why: str | None
    hits: list[str]
    misses: list[str]
    reasoning: str
    details: dict[str, Any]


class LabelLine(Line):
    """Somebody's label of a place: gold, a judge's, a person's. `grade` and `relevant` are null where the judge failed.

    `votes` is what each member of a panel said, `probabilities` those of the grades from 0 up (of no and yes) where the
    judge gives them.
    """

    source: Literal["gold", "judge", "human"]
    grade: float | bool | None
    relevant: bool | None
    who: str | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET
    votes: list[str] | UnsetType = UNSET
    probabilities: list[float] | UnsetType = UNSET


class PlaceLine(Line):
    """A passage that came back, at its `rank` from 1, with everybody's label; `score` is the retriever's."""

    rank: int
    id: str | None
    score: float | None
    text: str
    item: str
    labels: list[LabelLine]


class CallLine(Line):
    """One search: what was searched for, and what came back, best first; or the `final` list, handed back apart from the searches."""

    query: str
    contexts: list[PlaceLine]
    final: bool | UnsetType = UNSET


class MissingLine(Line):
    """A gold document that did not come back."""

    id: str
    grade: int


class SupportLine(Line):
    """The numbers of the `contexts` (from 1) that support one claim or nugget."""

    text: str
    contexts: list[int]
    reason: str


class MatrixLine(Line):
    """The contexts that support each claim or nugget."""

    kind: str
    rows: list[SupportLine]


class ChangedLine(Line):
    """A move that would change a score: the value after it, and the difference."""

    what: str
    value: float
    difference: float


class ExplainedLine(Line):
    """One measure of a sample: its score and why it is so.

    `formula` is the measure's, `numbers` the same with this sample's numbers; `hits` and `misses` are what counted and what
    did not; `panel` what the members of a panel said; `details` what a grader of an eval file found; `changes` the moves of a
    context that would change the score most.
    """

    measure: str
    value: float | None
    status: Literal["ok", "skipped", "incomplete", "error"]
    why: str | None
    bounds: Bounds
    formula: str | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET
    panel: list[dict[str, Any]] | UnsetType = UNSET
    numbers: str | UnsetType | None = UNSET
    changes: list[ChangedLine] | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    band: str | UnsetType = UNSET
    hits: list[str] | UnsetType = UNSET
    misses: list[str] | UnsetType = UNSET


class ExplainDocument(Line):
    """The document of `germane explain --json`: everything that is known of one sample's scores."""

    sample: str
    system: str
    trial: int
    query: str
    reference: str | None
    criterion: str | None
    response: str | None
    error: str | None
    tags: list[str]
    calls: list[CallLine]
    missing: list[MissingLine]
    matrices: list[MatrixLine]
    measures: list[ExplainedLine]


def settings_of(report: ReportData) -> Settings:
    """The settings that relevance was judged by, with the labels that people gave outside the samples."""
    people = LabelBook(report.tables.people())
    return Settings.stored(report.manifest, people or None)


def recorded(report: ReportData) -> StoredAnswers:
    """The report's judgements, by question; only those that are wanted are read."""
    return StoredAnswers(report.tables.judgements)


def explain_score(report: ReportData, score: Score) -> Explanation:
    """The explanation of a score; KeyError where its sample is not in the report."""
    key = score.key
    explainer, sample = Explainer(report), report.samples_of([key]).get(key)
    if sample is None and explainer.result(score) is None:
        raise KeyError(f"no sample {score.sample}")
    return explainer.of(score, sample)[0]


MOST_EXPLAINED = 5_000
"""Scores of a report that are all explained where it is written; of a larger one none are."""
_BLOCK = 500
"""Samples whose places are gathered together."""
FOUND = ("hits", "misses", "reasoning", "details")
"""The fields of a grader's result in a case."""


def grader_results(report: ReportData) -> dict[SampleKey, list[Facts]]:
    """The results of each grader in each case, in words, in the order of the scores.

    Nothing where the report has no graders, or is too large for that.
    """
    result: dict[SampleKey, list[Facts]] = {}
    if not report.manifest.get("graders") or len(report.tables.scores) > MOST_EXPLAINED:
        return result
    explainer = Explainer(report)
    samples = {sample.key: sample for sample in report.tables.samples}
    for score in report.tables.scores:
        why = explainer.of(score, samples.get(score.key))[0]
        grader = report.graders_of(score.key).get(score.measure)
        fields = {name: why.as_json()[name] for name in FOUND}
        fields["misses"] = why.missed(grader.expected_relevant_count if grader else None)
        row = ResultRow(
            measure=score.measure, score=score.value, status=score.status, why=score.why, **fields
        )
        result.setdefault(score.key, []).append(row.as_json())
    return result


def left_out(report: ReportData, kind: str) -> str:
    """The columns that a format of this ending leaves out of a report that is too large for them; "" where none."""
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
    """The result of a grader in a case, as a row of the judgements: it is not derived again when someone looks."""
    key, provenance = result_item(sample.key, grader), FrozenDict(of=result_of_case(sample.key, grader))
    return Judgement(
        key=key, item=key, kind=GRADED, judge="grader", answer=freeze(result), provenance=provenance
    )


def results_of(report: ReportData) -> dict[tuple[str, ...], Mapping[str, Json]]:
    """The results of graders, by sample, system, trial and the grader's name."""
    return {
        tuple(row.provenance.get("of", ())): row.answer
        for row in report.tables.judgements
        if row.kind == GRADED and isinstance(row.answer, Mapping)
    }


def strips(report: ReportData, scores: Sequence[Score]) -> Iterator[tuple[str, Score, str]]:
    """For each score: the rank strip of its sample, the score, the query.

    By the first score's measure if that is ranked, else by the first ranked one of the report.
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
        StoredAnswers(report.tables.judgements.of_items(items) if items else ()).label(places)
        signs = {key: strip(places, number, measure) for number, key in enumerate(samples)}
    for score in scores:
        sample = samples.get(score.key)
        yield signs.get(score.key, ""), score, sample.query if sample else ""


def strip(places: Places, sample: int, measure: Measure, most: int = 20) -> str:
    """One sign a place: ■ relevant, □ not, · unjudged, ? no verdict; calls are set apart by a bar."""
    least = least_level(measure)

    def sign(at: int) -> str:
        if not places.labelled[at]:
            return "?" if at in places.failed else "·"
        return "■" if places.level[at] >= least else "□"

    return "|".join("".join(map(sign, span[:most])) or "-" for span in places.spans_of(sample, None))


def explain_query(report: ReportData, query: str | None, measure: str | None = None) -> ExplainDocument:
    """Everything that is known of one sample's scores, by its id or by its query's text.

    Raises InputError where the report holds no such sample or measure, or no query is named; it names some.
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
    """Ids to name: the worst by the first measure that has values."""
    for line in report.summaries:
        if worst := report.worst(line.measure, 5, line.system):
            return f"the worst by {line.measure} are {', '.join(score.sample for score in worst)}"
    some = next(iter(report.tables.samples), None)
    return "it holds no sample" if some is None else f"name one by its id: {some.id}"


def said_by(votes: Mapping[str, Json]) -> list[str]:
    """The answer of each member of a panel, or why it gave none; [] where there was no panel."""
    lines = [f"{name}: {answer}" for name, answer in votes.get("votes", {}).items()]
    return lines + [f"{name} failed: {why}" for name, why in votes.get("failed", {}).items()]


_Reading: TypeAlias = tuple[LabelChoice, int | None]
"""The labels that a ranked measure reads, and how many places of each ranking."""


def _reading_of(measure: Measure) -> _Reading:
    return measure.choice, None if measure.labels == "gold" else measure.depth


class Explainer:
    """The facts behind the scores of a report's samples: labels, formulas with their numbers, what is missing."""

    def __init__(self, report: ReportData) -> None:
        self._report = report
        self._settings, self._answers = settings_of(report), recorded(report)
        self._results = results_of(report)
        asked = report.manifest.get("asked")
        self._has_panel = asked is None or any("panel" in ways for ways in asked.values())
        self._read = dict[_Reading, tuple[Places, Mapping[SampleKey, int]]]()
        """The places that were read last, with the number of each sample among them."""

    @cached_property
    def _people(self) -> LabelBook:
        return LabelBook(self._report.tables.labels)

    def result(self, score: Score) -> Mapping[str, Json] | None:
        """The result of a grader of an eval file; None where a measure gave the score."""
        return self._results.get((score.sample, score.system, str(score.trial), score.measure))

    def read(self, samples: Iterable[Sample], scores: Mapping[SampleKey, Sequence[Score]]) -> None:
        """Gather the labelled places of these samples that their scores read, in one table per choice of labels and depth."""
        of_key = {sample.key: sample for sample in samples}
        wanted: dict[_Reading, dict[SampleKey, None]] = {}
        for key in of_key:
            for score in scores.get(key, ()):
                if (measure := self._ranked(score)) is not None:
                    wanted.setdefault(_reading_of(measure), {})[key] = None
        self._read = {}
        for (choice, depth), keys in wanted.items():
            places = Places(choice, self._settings)
            places.add([of_key[key] for key in keys], repeat(depth))
            self._answers.label(places)
            self._read[choice, depth] = places, {key: number for number, key in enumerate(keys)}

    def _ranked(self, score: Score) -> Measure | None:
        """The ranked measure that a score is explained by from its places; None where it is not."""
        measure = known_measure(score.type)
        if measure is None or measure.definition.family != "ranked" or score.status == "skipped":
            return None
        return None if self.result(score) else measure

    def _places_of(self, measure: Measure, score: Score, sample: Sample) -> tuple[Places, int]:
        """The labelled places of a score, and the number of its sample among theirs."""
        reading = _reading_of(measure)
        if reading not in self._read or score.key not in self._read[reading][1]:
            self.read([sample], {score.key: [score]})
        places, numbers = self._read[reading]
        return places, numbers[score.key]

    def of(
        self, score: Score, sample: Sample | None
    ) -> tuple[Explanation, tuple[Places, int] | None, Exchange] | tuple[Explanation, None, None]:
        """A score in words, with the places that it was computed from and what was asked for it.

        In its own words where it is a grader's result; with its reason alone, and None, where no program can be run again.
        """
        result, outcome = self.result(score), Outcome(score.value, score.status, score.why, score.bounds)
        measure = known_measure(score.type)
        if result is not None:
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
            places, number = self._places_of(measure, score, sample)
            asked = list(places.exchange(number, measure.depth))
            votes = self._votes(places.exchange(number, None)) if asked else ()
            return explain_ranked(measure, outcome, places, number, votes), (places, number), asked
        derived, exchange = replay(program_of(measure, sample, self._settings), self._answers.look_up)
        return explain_judged(measure, outcome, derived, exchange, self._votes(exchange)), None, exchange

    def _votes(self, exchange: Iterable[tuple[AnyQuestion, Any]]) -> list[dict[str, Json]]:
        """The answers of a panel's members to each of these questions; [] where none was asked."""
        questions = [question for question, _ in exchange] if self._has_panel else []
        return list(map(votes_on, questions, self._answers.look_up(questions)))

    def facts_of_all(
        self, scored: Iterable[tuple[Sample, Sequence[Score]]]
    ) -> Iterator[tuple[Sample, Sequence[Score], ExplainDocument]]:
        """The facts about each of these samples, without moves; the places of some hundreds are gathered together."""
        remaining = iter(scored)
        while block := list(islice(remaining, _BLOCK)):
            self.read((sample for sample, _ in block), {sample.key: scores for sample, scores in block})
            for sample, scores in block:
                yield sample, scores, self.facts(sample, scores, changes=False)

    def facts(self, sample: Sample, scores: Sequence[Score], *, changes: bool = True) -> ExplainDocument:
        """The facts about a sample and about these of its scores.

        `changes`: with the moves of a context that would change each ranked score most.
        """
        asked: list[tuple[AnyQuestion, Any]] = []
        measures = [self._measure(sample, score, asked, changes=changes) for score in scores]
        matrices = [result for question, answer in asked if (result := _matrix(question, answer))]
        return ExplainDocument(
            sample=sample.id,
            system=sample.system,
            trial=sample.trial,
            query=sample.query,
            reference=sample.reference,
            criterion=sample.criterion,
            response=sample.response,
            error=sample.error,
            tags=list(sample.tags),
            calls=self._calls(sample, asked),
            missing=missing_gold(sample),
            matrices=list({json.encode(matrix): matrix for matrix in matrices}.values()),
            measures=measures,
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
        if measure is None or self.result(score) is not None:
            row.details = dict(explanation.details)
        elif measure.definition.family != "ranked":
            row.panel = [dict(value) for value in explanation.details.get("panel", ())]
        elif placed is not None:
            row.numbers = numbers_of(measure, *placed, score.value)
            if changes and score.value is not None:
                row.changes = _what_if(measure, *placed, score.value)
        row.reasoning, row.band = explanation.reasoning, explanation.band
        if measure is None or measure.definition.family != "ranked":
            row.hits, row.misses = list(explanation.hits), list(explanation.misses)
        return row

    def _calls(self, sample: Sample, asked: Sequence[tuple[AnyQuestion, Any]]) -> list[CallLine]:
        """Each search with its places, and at each place everybody's label."""
        judged: dict[tuple[str, str], tuple[AnyQuestion, Any]] = {}
        for question, answer in asked:
            if isinstance(question, Relevance):
                judged.setdefault((question.query, question.passage), (question, answer))
        panel: Iterable[dict[str, Json]] = self._votes(judged.values()) or repeat({})
        verdicts = {
            passage: _verdict(answer, votes)
            for (passage, (_, answer)), votes in zip(judged.items(), panel, strict=False)
        }
        calls = [CallLine(call.query or sample.query, []) for call in sample.calls or ()]
        if sample.contexts or (calls and sample.contexts is not None):
            calls.append(CallLine(sample.query, [], True if calls else UNSET))
        for item, passage in labelled_passages(sample):
            context = passage.context
            labels: list[LabelLine] = []
            gold = sample.qrels or FrozenDict()
            if context.id is not None and (grade := gold.get(context.id)) is not None:
                labels.append(LabelLine("gold", grade, grade >= 1))
            asked_with = ((query, context.text) for query in dict.fromkeys((sample.query, passage.query)))
            labels += [verdicts[value] for value in asked_with if value in verdicts]
            if (label := self._people.get(item)) is not None:
                helps = label.answer if isinstance(label.answer, bool) else label.answer >= HELPS
                labels.append(LabelLine("human", label.answer, helps, label.who, label.reason or ""))
            place = PlaceLine(passage.rank, context.id, context.score, context.text, item, labels)
            calls[passage.call - 1].contexts.append(place)
        return calls


def _verdict(answer: Any, votes: Mapping[str, Json]) -> LabelLine:
    """A judge's answer about one place."""
    said = said_by(votes) if votes else UNSET
    if isinstance(answer, Unanswered):
        return LabelLine("judge", None, None, reason=answer.why, votes=said)
    helps = bool(answer.grade) if answer.scale == "binary" else answer.grade >= HELPS
    grade = helps if answer.scale == "binary" else answer.grade
    chances = list(answer.probabilities) if answer.probabilities else UNSET
    return LabelLine("judge", grade, helps, reason=answer.reasoning, votes=said, probabilities=chances)


def _matrix(question: AnyQuestion, answer: Any) -> MatrixLine | None:
    """The claims or nuggets that each context supports, by its place; None where that was not asked."""
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
    """The gold documents that did not come back, the highest grade first."""
    retrieved = {passage.context.id for passage in sample.ranked_passages()}
    gold = (sample.qrels or {}).items()
    missing = [MissingLine(name, grade) for name, grade in gold if grade > 0 and name not in retrieved]
    return sorted(missing, key=lambda row: -row.grade)


def numbers_of(measure: Measure, places: Places, sample: int, value: float | None) -> str | None:
    """The formula of a ranked measure with this sample's numbers; None where it has none that gives the value."""
    table = places.table_of(sample)
    if value is None or table.rows != 1 or measure.settings.get("holes", "zero") != "zero":
        return None
    if abs(float(ranked.values(measure, table)[0]) - value) > 5e-7:  # labels were added since
        return None
    if table.chances is not None:
        sides = ranked.fraction(measure, table)
        return sides and f"{float(sides[0][0]):.4f} / {float(sides[1][0]):.4f} (expected values)"
    top = places.read(sample, measure.cutoff if isinstance(measure.cutoff, int) else None)
    hits = [rank for rank, at in enumerate(top, 1) if places.level[at] >= least_level(measure)]
    if measure.name == "RR":
        return f"1 / {hits[0]}" if hits else _NOT_ONE
    if measure.name == "Success":
        return f"{len(hits)} relevant in the top {measure.k or len(top)}: {int(bool(hits))}"
    return _divided(measure, table, hits, len(top))


def _divided(measure: Measure, table: RankedLabels, hits: Sequence[int], top: int) -> str | None:
    """The fraction that a measure is, of one ranking with relevant places at these ranks of its `top`."""
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


def lines_of(facts: ExplainDocument, width: int = 100) -> Iterator[str]:
    """An explanation as text: one table of ranks, what is missing, then each measure with its numbers."""
    wrap = functools.partial(textwrap.wrap, width=width, break_long_words=False, break_on_hyphens=False)
    system = f"  [{facts.system}]" if facts.system else ""
    yield from wrap(f"{clean(facts.sample)}{system}  {clean(facts.query)}", subsequent_indent="  ")
    for name in ("reference", "criterion", "error"):
        if text := getattr(facts, name):
            yield from wrap(f"{name}  {clean(text)}", subsequent_indent="  ")
    for number, call in enumerate(facts.calls, 1):
        yield ""
        if call.final:
            yield "handed back in the end"
        elif len(facts.calls) > 1:
            yield from wrap(f"call {number} searched for {clean(call.query)}", subsequent_indent="  ")
        yield from _rank_table(call.contexts, width) if call.contexts else ["nothing came back"]
    if not facts.calls:
        yield from ("", "no context came back")
    if facts.missing:
        names = ", ".join(f"{clean(gold.id)} (grade {gold.grade})" for gold in facts.missing)
        yield from ("", *wrap(f"missing gold: {names}", subsequent_indent="  "))
    for row in facts.measures:
        yield ""
        for line in _measure_lines(row):
            indent = " " * (len(line) - len(line.lstrip()))
            yield from wrap(line, subsequent_indent=f"{indent}  ", drop_whitespace=True) or [line]


def _rank_table(contexts: Sequence[PlaceLine], width: int) -> Iterator[str]:
    table = Table(["rank", "", "label", "id", "score"], "rlllr")
    for context in contexts:
        labels = ", ".join(f"{label.source} {_grade_word(label)}" for label in context.labels) or "unjudged"
        score = "" if context.score is None else f"{context.score:g}"
        table.add([context.rank, _sign_of(context.labels), labels, shorten(context.id or "", 24), score])
    head, *lines = table.plain()
    indent, left = " " * head.index("label"), max(width - len(head) - 2, 16)
    yield f"{head}  passage"
    for line, context in zip(lines, contexts, strict=True):
        yield f"{line.ljust(len(head))}  {shorten(context.text, left)}".rstrip()
        for label in context.labels:
            for remark in filter(None, (label.reason, *(label.votes or ()))):
                text = f"{indent}{label.source}: {clean(remark)}"
                yield from textwrap.wrap(text, width, subsequent_indent=f"{indent}  ", break_long_words=False)


def _grade_word(label: LabelLine) -> str:
    grade = label.grade
    if isinstance(grade, bool):
        word = "yes" if grade else "no"
    else:
        word = "failed" if grade is None else str(grade)
    return f"{word} ({distribution_in_words(label.probabilities)})" if label.probabilities else word


def _sign_of(labels: Sequence[LabelLine]) -> str:
    """■ where anybody calls it relevant, □ where all that spoke do not, ? where the judge failed, · where nobody spoke."""
    verdicts = {label.relevant for label in labels}
    return "■" if True in verdicts else "□" if False in verdicts else "?" if verdicts else "·"


def _measure_lines(row: ExplainedLine) -> Iterator[str]:
    value = in_digits(row.value)
    between = f"  between {row.bounds[0]:.4f} and {row.bounds[1]:.4f}" if row.bounds else ""
    why = f"  {row.status}: {clean(row.why)}" if row.why else ""
    yield f"{clean(row.measure)} = {value}{between}{why}"
    if row.formula is not UNSET:
        yield f"  formula  {row.formula}"
    if row.numbers:
        yield f"  numbers  {row.numbers} = {value}"
    if row.reasoning:
        yield f"  {clean(row.reasoning)}" + (f"  ({row.band})" if row.band else "")
    yield from (f"  + {clean(hit)}" for hit in row.hits or ())
    yield from (f"  - {clean(miss)}" for miss in row.misses or ())
    for asked in row.panel or ():
        agreed = f", agreement {asked['agreement']:.2f}" if "agreement" in asked else ""
        yield f"  votes on {asked['asked']}{agreed}"
        yield from (f"    {clean(message)}" for message in said_by(asked))
    if row.changes:
        yield "  what would change it"
        for move in row.changes:
            yield f"    {move.what}: {move.value:.4f} ({move.difference:+.4f})"


_MOVED = 200
"""Places whose contexts are moved: each move computes the whole score anew, and deep places hardly change one."""
_PLACES = 1_000_000
"""Places of changed rankings that are scored together."""


def _what_if(measure: Measure, places: Places, sample: int, value: float, most: int = 3) -> list[ChangedLine]:
    """The moves that change the score most: a context of the first hundreds one place up, or dropped."""
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
        values = (
            value
            for orders in batched(moves.values(), step)
            for value in ranked.values(measure, table.variants(row, orders)).tolist()
        )
        for what, moved in zip(moves, values, strict=True):
            new = float(sum([*now[:row], moved, *now[row + 1 :]]) / table.rows)
            changes.append(ChangedLine(what, new, new - value))
    changes.sort(key=lambda change: -abs(change.difference))
    return [change for change in changes[:most] if abs(change.difference) > 1e-9]
