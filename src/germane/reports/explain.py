"""Why a score is what it is: its sample's labels and its working, derived again from the stored judgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from germane.clean import shorten
from germane.encoding import digest
from germane.errors import InputError
from germane.judges.judge import Judge
from germane.judges.panel import votes_on
from germane.judges.script import ScriptJudge
from germane.judging.driver import replay
from germane.judging.recorded import Recorded
from germane.measures import ranked
from germane.measures.explaining import Exchange, Explanation, explain_judged, explain_ranked
from germane.measures.labels import LabelledPlace, PlaceLabel, Ranking, Settings, fill_table
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import depth_of, is_relevant, labels_for, program_of
from germane.questions.asking import Program, Unanswered
from germane.questions.question import AnyQuestion
from germane.questions.script import ScriptGrade
from germane.reports.data import ReportData
from germane.tables.labels import LabelBook, by_people
from germane.tables.scores import dump_score
from germane.types import FrozenDict, Json, Judgement, Sample, Score, freeze

__all__ = [
    "StoredJudge",
    "explain",
    "explain_as_json",
    "explain_query",
    "explain_score",
    "explained",
    "recorded",
    "settings_of",
    "strips",
    "votes_in",
]

_TEXT = 60
_REASON = 90


class StoredJudge:
    """The identity of the judge that a report was made with: enough to find its judgements, unable to judge."""

    def __init__(self, report: ReportData) -> None:
        judge = report.manifest.get("judge") or {}
        self.name = str(judge.get("source"))
        self.identity = judge.get("identity") or {}
        self._prompts = report.manifest.get("prompts") or {}
        self._scripts = ScriptJudge()

    def __call__(self, question: AnyQuestion) -> Judge:
        """Itself, and the script judge for scripts."""
        return self._scripts if isinstance(question, ScriptGrade) else self  # type: ignore[return-value]

    def prompt_hash(self, question: AnyQuestion) -> str:
        """The hash of the wording that the report's questions were asked with."""
        return str(self._prompts.get(question.prompt, ""))


def settings_of(report: ReportData) -> Settings:
    """What relevance was judged against, and the labels of people that stand beside the samples."""
    people = LabelBook(filter(by_people, report.labels()))
    return Settings(**(report.manifest.get("settings") or {}), labels=people or None)


def recorded(report: ReportData) -> Recorded:
    """The report's judgements, by question; only those that are wanted are read."""
    return Recorded(report.tables.judgements)


def explain_score(report: ReportData, score: Score) -> Explanation:
    """Why a score is what it is; KeyError where its sample is not in the report."""
    outcome = Outcome(score.value, score.status, score.why, score.bounds)
    measure = Measure.parse(score.type)
    found = results_of(report).get((score.sample, score.system, str(score.trial), score.measure))
    if found is not None:
        return explain_graded(found, outcome)
    key = (score.sample, score.system, score.trial)
    sample = report.samples_of([key]).get(key)
    if sample is None:
        raise KeyError(f"there is no sample {score.sample}")
    return explain(report, sample, measure, outcome, recorded(report))


MOST_EXPLAINED = 5_000
"""Scores of a report that are all explained where it is written; of a larger one none are."""


def explained(report: ReportData) -> Iterator[tuple[Score, Explanation]]:
    """Every score with why it is what it is, in their order; nothing where the report is too large for that."""
    if len(report.tables.scores) > MOST_EXPLAINED:
        return
    samples = {(sample.id, sample.system, sample.trial): sample for sample in report.samples()}
    answers, found = recorded(report), results_of(report)
    for score in report.scores():
        sample = samples.get((score.sample, score.system, score.trial))
        yield score, _explained(sample, score, report, answers, found)


def _explained(
    sample: Sample | None,
    score: Score,
    report: ReportData,
    answers: Recorded,
    found: Mapping[tuple[str, ...], Mapping[str, Json]],
) -> Explanation:
    """Why a score is what it is, by what a grader said or by the program and its answers."""
    outcome = Outcome(score.value, score.status, score.why, score.bounds)
    graded = found.get((score.sample, score.system, str(score.trial), score.measure))
    if graded is not None:
        return explain_graded(graded, outcome)
    if sample is None or score.status == "skipped" or not _is_known(score.type):
        return Explanation(outcome=outcome, reasoning=score.why or "")
    return explain(report, sample, Measure.parse(score.type), outcome, answers)


def _is_known(name: str) -> bool:
    try:
        return Measure.parse(name).definition.family != "graded"
    except InputError:
        return False


def explain(
    report: ReportData, sample: Sample, measure: Measure, outcome: Outcome, answers: Recorded
) -> Explanation:
    """Why a sample's score is what it is."""
    if measure.definition.family == "ranked":
        lists, exchange = replay(labels_for(measure, sample, settings_of(report)), answers.look_up)
        return explain_ranked(measure, outcome, lists, votes_in(exchange, answers))
    derived, exchange = replay(program_of(measure, sample, settings_of(report)), answers.look_up)
    return explain_judged(measure, outcome, sample, exchange, derived, votes_in(exchange, answers))


def votes_in(exchange: Exchange, answers: Recorded) -> list[dict[str, Json]]:
    """What the members of a panel said to each of these questions; {} where there was none."""
    questions = [question for question, _ in exchange]
    return list(map(votes_on, questions, answers.look_up(questions)))


GRADED = "graded"
"""The kind of the rows that hold what graders of an eval file found in a case."""


def result_row(sample: Sample, grader: str, result: Mapping[str, Json]) -> Judgement:
    """What a grader found in a case, as a row of the judgements: it is not derived again when someone looks."""
    of = (sample.id, sample.system, str(sample.trial), grader)
    key = digest({"kind": GRADED, "of": of})
    provenance = FrozenDict(of=of)
    return Judgement(
        key=key, item=key, kind=GRADED, judge="grader", answer=freeze(result), provenance=provenance
    )


def results_of(report: ReportData) -> dict[tuple[str, ...], Mapping[str, Json]]:
    """What graders found, by sample, system, trial and the grader's name."""
    return {
        tuple(row.provenance["of"]): row.answer
        for row in report.judgements()
        if row.kind == GRADED and isinstance(row.answer, Mapping)
    }


def explain_graded(result: Mapping[str, Json], outcome: Outcome) -> Explanation:
    """What a grader said: its own hits, misses and reasoning."""
    return Explanation(
        outcome=outcome,
        hits=tuple(result.get("hits") or ()),
        misses=tuple(result.get("misses") or ()),
        reasoning=result.get("reasoning") or outcome.why or "",
        details=freeze({**(result.get("details") or {}), "verdict": result.get("verdict")}),
    )


def labels_of(sample: Sample, measure: Measure, settings: Settings, answers: Recorded) -> tuple[Ranking, ...]:
    """The labelled rankings that a ranked measure reads."""
    lists, _ = replay(labels_for(measure, sample, settings), answers.look_up)
    return lists


def strips(report: ReportData, scores: Sequence[Score]) -> Iterator[tuple[str, Score, str]]:
    """For each score: the rank strip of its sample, the score, the query."""
    measure = _strip_measure(report, scores[0].type)
    wanted = {(score.sample, score.system, score.trial) for score in scores}
    samples = report.samples_of(wanted)
    settings = settings_of(report)
    items = {
        question.item
        for sample in samples.values()
        for question in (_first_asked(labels_for(measure, sample, settings)) if measure else ())
    }
    answers = Recorded(report.tables.judgements.of_items(items) if items else ())
    for score in scores:
        sample = samples.get((score.sample, score.system, score.trial))
        if sample is None:
            yield "", score, ""
        else:
            lists = labels_of(sample, measure, settings, answers) if measure else ()
            yield strip(lists, measure) if measure else "", score, sample.query


def _first_asked(program: Program[Any]) -> Sequence[AnyQuestion]:
    """What a program asks first; a label program asks no more than that."""
    return next(program, ())


def _strip_measure(report: ReportData, first: str) -> Measure | None:
    """The measure itself if it is ranked, else the first ranked one of the report."""
    for name in (first, *(summary.type for summary in report.summaries)):
        try:
            measure = Measure.parse(name)
        except InputError:
            continue
        if measure.definition.family == "ranked":
            return measure
    return None


def strip(lists: Iterable[Ranking], measure: Measure, most: int = 20) -> str:
    """One sign a place: ■ relevant, □ not, · unjudged, ? no verdict; calls are set apart by a bar."""
    return "|".join(
        "".join(_sign(place.label, measure) for place in ranking.places[:most]) or "-" for ranking in lists
    )


def _sign(label: Any, measure: Measure) -> str:
    if isinstance(label, Unanswered):
        return "?"
    if not isinstance(label, PlaceLabel):
        return "·"
    return "■" if is_relevant(label, measure) else "□"


def explain_as_json(report: ReportData, query: str, measure: str | None = None) -> dict[str, Json]:
    """What `explain_query` says of one sample, as JSON: each score with hits, misses, reasoning and details."""
    sample, scores = _wanted(report, query, measure)
    answers, found = recorded(report), results_of(report)
    rows = []
    for score in scores:
        why = _explained(sample, score, report, answers, found)
        rows.append({**dump_score(score), **why.as_json()})
    return {"schema_version": 1, "sample": sample.id, "query": sample.query, "results": rows}


def explain_query(report: ReportData, query: str, measure: str | None = None) -> Iterator[str]:
    """Lines that explain the scores of one sample, by its id or by its query's text.

    Raises InputError where the report holds no such sample or measure.
    """
    sample, scores = _wanted(report, query, measure)
    answers = recorded(report)
    yield f"{sample.id}  {shorten(sample.query, 200)}"
    if sample.reference:
        yield f"reference  {shorten(sample.reference, 200)}"
    for score in scores:
        yield ""
        yield from _score(report, sample, score, answers)


def _wanted(report: ReportData, query: str, measure: str | None) -> tuple[Sample, list[Score]]:
    """The sample, and its scores of the measure that is named; InputError where there are none."""
    sample = _find(report, query)
    names = {None} if measure is None else {measure, _canonical(measure)}
    found = report.tables.scores.of_sample((sample.id, sample.system, sample.trial))
    scores = [
        score for score in found if measure is None or not names.isdisjoint({score.measure, score.type})
    ]
    if not scores:
        have = ", ".join(report.measures)
        raise InputError(f"{measure} was not measured for {sample.id}", fix=f"measured: {have}")
    return sample, scores


def _canonical(name: str) -> str:
    """The canonical name of a measure; the name that an eval file gave as it is."""
    try:
        return str(Measure.parse(name))
    except InputError:
        return name


def _find(report: ReportData, query: str) -> Sample:
    inside = []
    for sample in report.samples():
        if query in {sample.id, sample.query}:
            return sample
        if query.casefold() in f"{sample.id}\n{sample.query}".casefold():
            inside.append(sample)
    if len(inside) == 1:
        return inside[0]
    if inside:
        names = ", ".join(sample.id for sample in inside[:5])
        raise InputError(f"{query!r} is in {len(inside)} queries", fix=f"name one by its id: {names}")
    raise InputError(
        f"no sample has the id or query {query!r}", fix="see the ids in the report's worst queries"
    )


def _score(report: ReportData, sample: Sample, score: Score, answers: Recorded) -> Iterator[str]:
    value = "-" if score.value is None else f"{score.value:.4f}"
    note = f"  {score.status}: {score.why}" if score.why else ""
    between = f"  between {score.bounds[0]:.4f} and {score.bounds[1]:.4f}" if score.bounds else ""
    yield f"{score.measure} = {value}{between}{note}"
    try:
        measure = Measure.parse(score.type)
    except InputError:
        return
    yield f"  formula  {measure.definition.formula}"
    if score.status == "skipped":
        return
    outcome = Outcome(score.value, score.status, score.why, score.bounds)
    graded = results_of(report).get((score.sample, score.system, str(score.trial), score.measure))
    if graded is not None:
        explanation = explain_graded(graded, outcome)
    else:
        explanation = explain(report, sample, measure, outcome, answers)
    yield f"  {explanation.reasoning}{f'  ({explanation.band})' if explanation.band else ''}"
    if graded is None and measure.definition.family == "ranked":
        lists = labels_of(sample, measure, settings_of(report), answers)
        yield from _places(explanation, [ranking.query for ranking in lists if ranking.places])
        if score.value is not None:
            yield from _what_if(measure, lists, sample, score.value)
    else:
        yield from (f"  + {shorten(hit, 200)}" for hit in explanation.hits)
        yield from (f"  - {shorten(miss, 200)}" for miss in explanation.misses)
        yield from _panel(explanation)


def _places(explanation: Explanation, queries: Sequence[str]) -> Iterator[str]:
    calls = iter(queries if len(queries) > 1 else ())
    for check, step in zip(explanation.relevance_checks, explanation.working, strict=True):
        if check["position"] == 1 and (query := next(calls, None)):
            yield f"  searched for {shorten(query, 120)}"
        sign = {True: "■", False: "□", None: "?"}[check["relevant"]]
        who = f"{check.get('source', '')} {check['grade']}" if "grade" in check else "unjudged"
        who += "".join(f" ({', '.join(said)})" for said in [_said(check)] if said)
        name = f"{shorten(str(check.get('id') or ''), 24):24}"
        why = shorten(str(check["reasoning"]), _REASON)
        yield (
            f"  {check['position']:>3} {sign} P@{check['position']}={step['precision']:.4f}  {who:10} {name} "
            f"{shorten(str(check['chunk']), _TEXT)}{f'  | {why}' if why else ''}"
        )


def _panel(explanation: Explanation) -> Iterator[str]:
    """Each question to a panel, and what its members said to it."""
    for asked in explanation.details.get("panel", ()):
        agreed = f", agreement {asked['agreement']:.2f}" if "agreement" in asked else ""
        yield f"  votes on {asked['asked']}{agreed}"
        yield from (f"    {shorten(said, 200)}" for said in _said(asked))


def _said(votes: Mapping[str, Json]) -> list[str]:
    """What each member of a panel said, or why it said nothing; nothing where there was no panel."""
    failed = votes.get("failed", {}).items()
    return [f"{name}: {said}" for name, said in votes.get("votes", {}).items()] + [
        f"{name} failed: {shorten(why, _REASON)}" for name, why in failed
    ]


def _what_if(
    measure: Measure, lists: Sequence[Ranking], sample: Sample, value: float, most: int = 3
) -> Iterator[str]:
    """The moves that change the score most: a context one place up, or dropped."""
    changes = []
    for what, changed in _changes(lists, depth_of(measure)):
        new = _value(measure, changed, sample)
        if abs(new - value) > 1e-9:
            changes.append((abs(new - value), f"  {what}: {new:.4f} ({new - value:+.4f})"))
    changes.sort(key=lambda change: -change[0])
    if changes:
        yield "  what would change it"
        yield from (f"  {line}" for _, line in changes[:most])


def _changes(lists: Sequence[Ranking], depth: int | None) -> Iterator[tuple[str, list[Ranking]]]:
    for number, ranking in enumerate(lists):
        places = ranking.places
        call = f" of call {number + 1}" if len(lists) > 1 else ""
        for at in range(min(len(places), (depth or len(places)) + 1)):
            if at:
                up = (*places[: at - 1], places[at], places[at - 1], *places[at + 1 :])
                yield f"rank {at + 1}{call} moved up one", _with(lists, number, up)
            yield f"rank {at + 1}{call} dropped", _with(lists, number, (*places[:at], *places[at + 1 :]))


def _with(lists: Sequence[Ranking], number: int, places: tuple[LabelledPlace, ...]) -> list[Ranking]:
    changed = list(lists)
    changed[number] = lists[number]._replace(places=places)
    return changed


def _value(measure: Measure, lists: Sequence[Ranking], sample: Sample) -> float:
    rows = lists[-1:] if measure.settings.get("over") == "final" else lists
    known: list[Mapping[str, int]] = [sample.qrels or {}] * len(rows)
    values = ranked.values(measure, fill_table(rows, measure.labels, known))
    return float(sum(values.tolist()) / len(rows)) if rows else 0.0
