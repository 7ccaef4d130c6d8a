"""Explain scores from the stored verdicts: a sample's labels, and how each score follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from msgspec import UNSET, json

from germane.encoding import batched
from germane.errors import InputError
from germane.judging.recorded import StoredAnswers
from germane.measures.bounds import fraction, least_level
from germane.measures.explaining import Explanation, explain_judged, explain_ranked
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import program_of
from germane.places.lists import Settings, labelled_contexts, places_of
from germane.places.places import Places
from germane.questions.asking import Unanswered, replay
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Relevance
from germane.reports.data import ReportData
from germane.reports.summary import known_measure
from germane.reports.text import explanation as explained
from germane.reports.text.explanation import ExplainDocument, ExplainedLine, LabelLine
from germane.tables.judgements import GRADED, result_item
from germane.tables.labels import LabelBook, by_people
from germane.tables.scores import SampleKey
from germane.types import FrozenDict, Json, Judgement, Sample, Score, freeze

__all__ = ["Explainer"]

Facts: TypeAlias = dict[str, Any]  # a JSON object of an explanation


def settings_of(report: ReportData) -> Settings:
    """Return the settings with which a report was scored, and the people's labels stored in the report."""
    known = report.corrections
    people = LabelBook(report.tables.people() if known is None else filter(by_people, known.labels))
    return Settings.stored(report.manifest, people or None)


_BLOCK = 500  # samples whose passages are read together


def result_row(sample: Sample, grader: str, result: Mapping[str, Json]) -> Judgement:
    """Return the judgement row, which measures do not read, that stores a grader's `result` for a sample."""
    key, of = result_item(sample.key, grader), FrozenDict(of=(*map(str, sample.key), grader))
    return Judgement(key=key, item=key, kind=GRADED, judge="grader", answer=freeze(result), provenance=of)


def strips(report: ReportData, scores: Sequence[Score]) -> Iterator[tuple[str, Score, str]]:
    """Yield (strip, score, query) for each score; a strip has a sign per passage, and "|" between searches.

    It shows the labels that the first score's measure uses, or else the report's first ranked measure.
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
        least = least_level(measure)
        for number, key in enumerate(samples):
            spans = [span[:20] for span in places.spans_of(number, None)]
            signs[key] = "|".join("".join(_sign(places, at, least) for at in span) or "-" for span in spans)
    for score in scores:
        sample = samples.get(score.key)
        yield signs.get(score.key, ""), score, sample.query if sample else ""


def _sign(places: Places, at: int, least: float) -> str:
    """Return ■ if the passage in row `at` is relevant, □ if not, · if unjudged, ? if the judge failed."""
    if not places.labelled[at]:
        return "?" if at in places.failed else "·"
    return "■" if places.level[at] >= least else "□"


def explain_query(report: ReportData, query: str | None, measure: str | None = None) -> ExplainDocument:
    """Return the explanation of the sample with this id or query. Raises InputError if there is none."""
    named = (sample for sample in report.tables.samples if query in {sample.id, sample.query})
    sample = None if query is None else next(named, None)
    if sample is None:
        problem = "QUERY is missing" if query is None else f"no sample has the id or query {query!r}"
        raise InputError(problem, fix=_worst(report))
    scores = list(report.tables.scores.of_samples([sample.key]))
    if measure is not None:
        name, all_names = report.reported(measure), ", ".join(score.measure for score in scores)
        scores = [score for score in scores if score.measure == name]
        if not scores:
            problem = f"{measure} was not computed for the sample {sample.id}"
            raise InputError(problem, fix=f"its measures are {all_names or 'none'}")
    return Explainer(report).facts(sample, scores)


def _worst(report: ReportData) -> str:
    """Return advice for an error message: to name a sample, such as one of the worst."""
    for line in report.summaries:
        if worst := report.worst(line.measure, 5, line.system):
            names = ", ".join(score.sample for score in worst)
            return f"name a sample; the worst by {line.measure} are {names}"
    some = next(iter(report.tables.samples), None)
    fix = "name the folder that `germane run` wrote: this report has no samples"
    return fix if some is None else f"name a sample by its id, e.g. {some.id}"


class Explainer:
    """Explains the scores of a report's samples: labels, formulas with their numbers, and missing gold."""

    def __init__(self, report: ReportData) -> None:
        self._report = report
        self._settings, self._answers = settings_of(report), StoredAnswers(report.tables.judgements)
        self._people = LabelBook(report.tables.labels)
        graded = report.tables.judgements if GRADED in (report.manifest.get("asked") or {}) else ()
        rows = (row for row in graded if row.kind == GRADED)
        self._results = {row.item: row.answer for row in rows if isinstance(row.answer, Mapping)}
        self.use([])

    def use(self, samples: Iterable[Sample]) -> None:
        """Set the samples whose labels are loaded together when the first of them is explained."""
        chosen = list(samples)
        self._numbers = {sample.key: number for number, sample in enumerate(chosen)}
        self._read = self._answers.places_reader(chosen, self._settings)

    def result(self, score: Score) -> Mapping[str, Json] | None:
        """Return the stored result of the eval file's grader that gave a score, or None."""
        item = result_item(score.key, score.measure) if self._results else ""
        return self._results.get(item)

    def explain(
        self, score: Score, sample: Sample | None
    ) -> tuple[Explanation, tuple[Places, int] | None, Sequence[tuple[AnyQuestion, Any]] | None]:
        """Return a score's explanation, its ranking (`Places`, index) or None, and the judge's answers.

        The ranking and the answers are None if the score cannot be recomputed.
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
        derived, exchange = replay(program_of(measure, sample, self._settings), self._answers.values)
        return explain_judged(measure, outcome, derived), None, exchange

    def facts_of_all(self) -> Iterator[tuple[Sample, ExplainDocument]]:
        """Yield each sample of the report with the explanation of its scores, in input order."""
        scores: dict[SampleKey, list[Score]] = {}
        for score in self._report.scores():
            scores.setdefault(score.key, []).append(score)
        for samples in batched(self._report.samples(), _BLOCK):
            self.use(samples)
            for sample in samples:
                yield sample, self.facts(sample, scores.get(sample.key, ()))

    def facts(self, sample: Sample, scores: Sequence[Score]) -> ExplainDocument:
        """Return the explanation of a sample's scores, with its labelled passages and missing gold."""
        asked: list[tuple[AnyQuestion, Any]] = []
        measures = [self._measure(sample, score, asked) for score in scores]
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

    def _measure(self, sample: Sample, score: Score, asked: list[tuple[AnyQuestion, Any]]) -> ExplainedLine:
        """Return the explanation of one score; the judge's questions and answers are appended to `asked`."""
        row = ExplainedLine(score.measure, score.value, score.status, score.why, score.bounds)
        if (measure := known_measure(score.type)) is not None:
            row.formula = measure.definition.formula
        explanation, placed, exchange = self.explain(score, sample)
        if score.status == "skipped" or exchange is None:
            return row
        asked += exchange
        if measure is None or self.result(score) is not None:
            row.details = dict(explanation.details)
        elif placed is not None:
            row.numbers = numbers_of(measure, *placed, score.value)
        row.reasoning, row.band = explanation.reasoning, explanation.band
        if placed is None:  # a ranking's passages are already in the table of ranks
            row.hits, row.misses = list(explanation.hits), list(explanation.misses)
        return row

    def _calls(self, sample: Sample, asked: Sequence[tuple[AnyQuestion, Any]]) -> list[explained.CallLine]:
        """Return the searches of a sample, with each passage's labels by gold, the judge and people."""
        judged: dict[tuple[str, str], Any] = {}
        for question, answer in asked:
            if isinstance(question, Relevance):
                judged.setdefault((question.query, question.passage), answer)
        verdicts = {passage: _verdict(answer) for passage, answer in judged.items()}
        calls = [explained.CallLine(call.query or sample.query, []) for call in sample.calls or ()]
        if sample.contexts or (calls and sample.contexts is not None):
            calls.append(explained.CallLine(sample.query, [], True if calls else UNSET))
        places = zip(labelled_contexts(sample), places_of(sample), strict=True)
        for (item, context), (call, rank, _) in places:
            labels: list[LabelLine] = []
            if context.id is not None and (grade := (sample.qrels or {}).get(context.id)) is not None:
                labels.append(LabelLine("gold", grade, grade >= 1))
            queries = dict.fromkeys((sample.query, calls[call - 1].query))
            pairs = [(query, context.text) for query in queries]
            labels += [verdicts[pair] for pair in pairs if pair in verdicts]
            if (label := self._people.get(item)) is not None:
                helps = label.answer if isinstance(label.answer, bool) else label.answer >= HELPS
                labels.append(LabelLine("human", label.answer, helps, label.who, label.reason or ""))
            line = explained.PlaceLine(rank, context.id, context.score, context.text, item, labels)
            calls[call - 1].contexts.append(line)
        return calls


def _verdict(answer: Any) -> LabelLine:
    """Return the judge's answer about one passage as a label; its grade is None if the judge failed."""
    if isinstance(answer, Unanswered):
        return LabelLine("judge", None, None, reason=answer.why)
    binary = answer.scale == "binary"
    grade, helps = (bool(answer.grade),) * 2 if binary else (answer.grade, answer.grade >= HELPS)
    return LabelLine("judge", grade, helps, reason=answer.reasoning)


def _matrix(question: AnyQuestion, answer: Any) -> explained.MatrixLine | None:
    """Return the contexts that support each claim; None without claims, or if the judge failed."""
    claims: Sequence[str] = getattr(question, "claims", ())
    if question.kind != "support" or not claims or isinstance(answer, Unanswered):
        return None
    both = zip(claims, answer, strict=True)
    rows = [explained.SupportLine(claim, list(of.contexts), of.reasoning) for claim, of in both]
    return explained.MatrixLine(question.kind, rows)


def missing_gold(sample: Sample) -> list[explained.MissingLine]:
    """Return the gold documents (grade above 0) that the sample did not retrieve, highest grade first."""
    retrieved = {context.id for context in sample.retrieved()}
    gold = sorted((sample.qrels or {}).items(), key=lambda row: -row[1])
    missing = ((name, grade) for name, grade in gold if grade > 0 and name not in retrieved)
    return [explained.MissingLine(name, grade) for name, grade in missing]


def numbers_of(measure: Measure, places: Places, sample: int, value: float | None) -> str | None:
    """Return a ranked measure's formula with a sample's numbers, such as "2 / 5", if it gives `value`."""
    table = places.table_of(sample)
    if value is None or table.rows != 1 or measure.settings.get("holes", "zero") != "zero":
        return None
    if measure.name == "RR" and value and table.chances is None:
        return f"1 / {round(1 / value)}"
    sides = fraction(measure, table)
    share, whole = (float(side[0]) for side in sides) if sides else (0.0, 0.0)
    if not whole or abs(share / whole - value) > _ROUNDING:  # labels were added after scoring
        return None
    return f"{share:.6g} / {whole:.6g}"


_ROUNDING = 5e-7  # the largest difference between a stored and a recomputed score
