"""Explain scores from the stored verdicts: a sample's labels, and how each score follows from them.

The records are the document of `germane explain --json`; `lines_of` prints it.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType, json

from germane.clean import clean, shorten, some_of
from germane.encoding import Line, batched
from germane.errors import InputError
from germane.judging.stored_answers import BLOCK, StoredAnswers
from germane.measures.bounds import fraction, least_level
from germane.measures.explaining import Explanation, explain_judged, explain_ranked
from germane.measures.outcome import Outcome
from germane.measures.scoring import program_of
from germane.places.lists import Settings, labelled_contexts
from germane.places.places import Places
from germane.questions.asking import Unanswered, replay
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Relevance
from germane.reports.data import ReportData
from germane.reports.summary import in_digits, known_measure
from germane.show.table import Table
from germane.tables.judgements import GRADED, result_item
from germane.tables.labels import LabelBook, by_people, places_of
from germane.tables.scores import Bounds, SampleKey
from germane.types import FrozenDict, Json, Judgement, Sample, Score, freeze

__all__ = ["Explainer"]

Facts: TypeAlias = dict[str, Any]  # a JSON object of an explanation


def settings_of(report: ReportData) -> Settings:
    """Return the settings with which a report was scored, and the people's labels stored in the report."""
    known = report.corrections
    people = LabelBook(report.tables.people() if known is None else filter(by_people, known.labels))
    return Settings.stored(report.manifest, people or None)


def result_row(sample: Sample, grader: str, result: Mapping[str, Json]) -> Judgement:
    """Return the judgement row, which measures do not read, that stores a grader's `result` for a sample."""
    key, provenance = result_item(sample.key, grader), FrozenDict(of=(*map(str, sample.key), grader))
    return Judgement(
        key=key, item=key, kind=GRADED, judge="grader", answer=freeze(result), provenance=provenance
    )


def strips(report: ReportData, scores: Sequence[Score]) -> Iterator[tuple[str, Score, str]]:
    """Yield (strip, score, query) for each score; a strip has a sign per passage, and "|" between searches.

    It shows the labels that the first score's measure uses, or else the report's first ranked measure.
    """
    if not scores:
        return
    names = (scores[0].type, *(summary.type for summary in report.summaries))
    measures = filter(None, map(known_measure, names))
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
            spans = places.spans_of(number, 20)
            step = len(spans) // places.copies(number)
            searches = (zip(*spans[at::step], strict=True) for at in range(step))
            signs[key] = "|".join("".join(_sign(places, r, least) for r in rows) or "-" for rows in searches)
    for score in scores:
        sample = samples.get(score.key)
        yield signs.get(score.key, ""), score, sample.query if sample else ""


def _sign(places: Places, rows: Sequence[int], least: float) -> str:
    """Return ■ if the lower median of `rows` is relevant, □ if not, · if unjudged, ? if failed."""
    at = sorted(rows, key=places.level.__getitem__)[(len(rows) - 1) // 2]
    if not places.labelled[at]:
        return "?" if at in places.failed else "·"
    return "■" if places.level[at] >= least else "□"


def explain_query(
    report: ReportData, query: str | None, measure: str | None = None, begin: str = "", end: str = ""
) -> ExplainDocument:
    """Return the explanation of the sample with this id or query.

    Raises InputError if there is none; its message begins with `begin` and ends with `end`.
    """
    named = (sample for sample in report.tables.samples if query in {sample.id, sample.query})
    sample = None if query is None else next(named, None)
    if sample is None:
        problem = "QUERY is missing" if query is None else f"no sample has the id or query {query!r}"
        first = next(iter(report.tables.samples), None)
        fix = "name the folder that `germane run` wrote: this report has no samples"
        if first is not None:
            fix = f"name a sample by its id, e.g. {first.id}"
        for line in report.summaries:
            if worst := report.worst(line.measure, 5, line.system):
                names = ", ".join(score.sample for score in worst)
                fix = f"name a sample; the worst by {line.measure} are {names}"
                break
        raise InputError(begin + problem, fix=fix + end)
    scores = list(report.tables.scores.of_samples([sample.key]))
    if measure is not None:
        name, all_names = report.reported(measure), ", ".join(score.measure for score in scores)
        scores = [score for score in scores if score.measure == name]
        if not scores:
            problem = f"{measure} was not computed for the sample {sample.id}"
            raise InputError(problem, fix=f"its measures are {all_names or 'none'}")
    return Explainer(report).facts(sample, scores)


class LabelLine(Line):
    """The label of one retrieved passage by one source: gold, the judge or a person.

    `grade` and `relevant` are null if the judge failed.
    """

    source: Literal["gold", "judge", "human"]
    grade: float | bool | None
    relevant: bool | None
    who: str | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET


class PlaceLine(Line):
    """A retrieved passage at its `rank` (from 1), with the label by each source.

    `score` is the retriever's score.
    """

    rank: int
    id: str | None
    score: float | None
    text: str
    item: str
    labels: list[LabelLine]


class CallLine(Line):
    """One search: its query and the retrieved passages, best first.

    If `final`, it is an agent's final list instead.
    """

    query: str
    contexts: list[PlaceLine]
    final: bool | UnsetType = UNSET


class MissingLine(Line):
    """A gold document that was not retrieved."""

    id: str
    grade: int


class SupportLine(Line):
    """The numbers of the `contexts` (from 1) that support one claim or nugget."""

    text: str
    contexts: list[int]
    reason: str


class MatrixLine(Line):
    """A table of the contexts that support each claim or nugget.

    `kind` is the kind of the judge's question.
    """

    kind: str
    rows: list[SupportLine]


class ExplainedLine(Line):
    """One measure of a sample: its score and the reasons for it.

    `formula` is the measure's formula, and `numbers` is the formula with this sample's numbers. `hits` are
    the items that counted, and `misses` are the items that did not count. `details` contains the findings of
    an eval file's grader.
    """

    measure: str
    value: float | None
    status: Literal["ok", "skipped", "incomplete", "error"]
    why: str | None
    bounds: Bounds
    formula: str | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET
    numbers: str | UnsetType | None = UNSET
    reasoning: str | UnsetType = UNSET
    band: str | UnsetType = UNSET
    hits: list[str] | UnsetType = UNSET
    misses: list[str] | UnsetType = UNSET


class ExplainDocument(Line):
    """The document of `germane explain --json`: one sample with its passages, labels, gold and scores."""

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


class Explainer:
    """Explains the scores of a report's samples: labels, formulas with their numbers, and missing gold."""

    def __init__(self, report: ReportData) -> None:
        self._report = report
        self._settings, self._answers = settings_of(report), StoredAnswers(report.tables.judgements)
        self._people = LabelBook(report.tables.labels)
        graded = report.tables.judgements if GRADED in (report.manifest.get("asked") or {}) else ()
        self._results = {
            r.item: r.answer for r in graded if r.kind == GRADED and isinstance(r.answer, Mapping)
        }
        self.use([])

    def use(self, samples: Iterable[Sample]) -> None:
        """Set the samples whose labels are loaded together when the first of them is explained."""
        chosen = list(samples)
        self._numbers = {sample.key: number for number, sample in enumerate(chosen)}
        self._read = self._answers.places_reader(chosen, self._settings)

    def result(self, score: Score) -> Mapping[str, Json] | None:
        """Return the stored result of the eval file's grader that gave a score, or None."""
        return self._results.get(result_item(score.key, score.measure) if self._results else "")

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
        for samples in batched(self._report.samples(), BLOCK):
            self.use(samples)
            for sample in samples:
                yield sample, self.facts(sample, scores.get(sample.key, ()))

    def facts(self, sample: Sample, scores: Sequence[Score]) -> ExplainDocument:
        """Return the explanation of a sample's scores, with its labelled passages and missing gold."""
        asked: list[tuple[AnyQuestion, Any]] = []
        measures = [self._measure(sample, score, asked) for score in scores]
        matrices: dict[bytes, MatrixLine] = {}  # each distinct one once
        for question, answer in asked:
            claims: Sequence[str] = getattr(question, "claims", ())
            if question.kind == "support" and claims and not isinstance(answer, Unanswered):
                both = zip(claims, answer, strict=True)
                rows = [
                    SupportLine(claim, list(support.contexts), support.reasoning) for claim, support in both
                ]
                matrix = MatrixLine(question.kind, rows)
                matrices.setdefault(json.encode(matrix), matrix)
        retrieved = {context.id for context in sample.retrieved()}
        gold = sorted((sample.qrels or {}).items(), key=lambda row: -row[1])
        copied = ("system", "trial", "query", "reference", "criterion", "response", "error")
        return ExplainDocument(
            sample=sample.id,
            tags=list(sample.tags),
            calls=self._calls(sample, asked),
            missing=[MissingLine(name, grade) for name, grade in gold if grade > 0 and name not in retrieved],
            matrices=list(matrices.values()),
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
            table, row.numbers, value = placed[0].table_of(placed[1]), None, score.value
            plain = table.rows == 1 and measure.settings.get("holes", "zero") == "zero"
            if plain and value and measure.name == "RR" and table.chances is None:
                row.numbers = f"1 / {round(1 / value)}"
            elif plain and value is not None and (sides := fraction(measure, table)):
                share, whole = (float(side[0]) for side in sides)
                if whole and abs(share / whole - value) <= _ROUNDING:  # no labels were added after scoring
                    row.numbers = f"{share:.6g} / {whole:.6g}"
        row.reasoning, row.band = explanation.reasoning, explanation.band
        if placed is None:  # a ranking's passages are already in the table of ranks
            row.hits, row.misses = list(explanation.hits), list(explanation.misses)
        return row

    def _calls(self, sample: Sample, asked: Sequence[tuple[AnyQuestion, Any]]) -> list[CallLine]:
        """Return the searches of a sample, with each passage's labels by gold, the judge and people."""
        verdicts: dict[tuple[str, str], LabelLine] = {}
        for question, answer in asked:
            if isinstance(question, Relevance) and (question.query, question.passage) not in verdicts:
                verdict = LabelLine("judge", None, None)
                if isinstance(answer, Unanswered):
                    verdict.reason = answer.why
                else:
                    helps = bool(answer.grade) if answer.scale == "binary" else answer.grade >= HELPS
                    grade = helps if answer.scale == "binary" else answer.grade
                    verdict = LabelLine("judge", grade, helps, reason=answer.reasoning)
                verdicts[question.query, question.passage] = verdict
        calls = [CallLine(call.query or sample.query, []) for call in sample.calls or ()]
        if sample.contexts or (calls and sample.contexts is not None):
            calls.append(CallLine(sample.query, [], True if calls else UNSET))
        places = zip(labelled_contexts(sample), places_of(sample), strict=True)
        for (item, context), (call, rank, _) in places:
            labels: list[LabelLine] = []
            if context.id is not None and (grade := (sample.qrels or {}).get(context.id)) is not None:
                labels.append(LabelLine("gold", grade, grade >= 1))
            pairs = [(query, context.text) for query in dict.fromkeys((sample.query, calls[call - 1].query))]
            labels += [verdicts[pair] for pair in pairs if pair in verdicts]
            for label in self._people.votes(item):
                helps = label.answer if isinstance(label.answer, bool) else label.answer >= HELPS
                labels.append(LabelLine("human", label.answer, helps, label.who, label.reason or ""))
            line = PlaceLine(rank, context.id, context.score, context.text, item, labels)
            calls[call - 1].contexts.append(line)
        return calls


_ROUNDING = 5e-7  # the largest difference between a stored and a recomputed score


def lines_of(facts: ExplainDocument, width: int = 100) -> Iterator[str]:
    """Yield the printed lines of a sample's explanation, wrapped to `width` columns."""
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
        names = some_of([f"{gold.id} (grade {gold.grade})" for gold in facts.missing], 20)
        yield from ("", *wrap(f"missing gold: {names}", subsequent_indent="  "))
    for row in facts.measures:
        yield ""
        value = in_digits(row.value)
        between = f"  between {row.bounds[0]:.4f} and {row.bounds[1]:.4f}" if row.bounds else ""
        why = f"  {row.status}: {clean(row.why)}" if row.why else ""
        texts = [f"{clean(row.measure)} = {value}{between}{why}"]
        texts += [f"  formula  {row.formula}"] if row.formula is not UNSET else []
        texts += [f"  numbers  {row.numbers} = {value}"] if row.numbers else []
        if row.reasoning:
            texts.append(f"  {clean(row.reasoning)}" + (f"  ({row.band})" if row.band else ""))
        texts += [f"  + {clean(hit)}" for hit in row.hits or ()]
        texts += [f"  - {clean(miss)}" for miss in row.misses or ()]
        for line in texts:
            indent = " " * (len(line) - len(line.lstrip()))
            yield from wrap(line, subsequent_indent=f"{indent}  ", drop_whitespace=True) or [line]


def _rank_table(contexts: Sequence[PlaceLine], width: int) -> Iterator[str]:
    """Yield the lines of a table of passages by rank, with their labels and the labels' reasons."""
    table = Table(["rank", "label", "id", "score"], "rllr")
    words, signs = {True: "yes", False: "no", None: "failed"}, {True: "■", False: "□", None: "?"}
    for context in contexts:
        labels = []
        for label in context.labels:  # each has its own sign: gold and the judge may differ
            grade = label.grade  # True and False are shown as yes and no, but 1 and 0 are grades
            word = words[grade] if grade is None or isinstance(grade, bool) else grade
            labels.append(f"{signs[label.relevant]} {label.source} {word}")
        name = shorten(context.id or "", 24, end=14)
        score = "" if context.score is None else f"{context.score:g}"
        table.add([context.rank, ", ".join(labels) or "· unjudged", name, score])
    head, *lines = table.plain()
    indent, left = " " * head.index("label"), max(width - len(head) - 2, 16)
    yield f"{head}  passage"
    for line, context in zip(lines, contexts, strict=True):
        yield f"{line.ljust(len(head))}  {shorten(context.text, left)}".rstrip()
        for label in context.labels:
            if label.reason:
                text = f"{indent}{label.source}: {clean(label.reason)}"
                yield from textwrap.wrap(text, width, subsequent_indent=f"{indent}  ", break_long_words=False)
