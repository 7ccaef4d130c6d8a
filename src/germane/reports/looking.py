"""Looking into a report: a sample's labels and a score's explanation, derived again from the stored judgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from germane.errors import InputError
from germane.judges.judge import Judge
from germane.judges.panel import votes_on
from germane.judges.script import ScriptGrade, ScriptJudge, read_result
from germane.judging.driver import replay
from germane.judging.recorded import Recorded
from germane.measures.explaining import Exchange, Explanation, explain_judged, explain_ranked
from germane.measures.labels import Label, Ranking
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import is_relevant, labels_for, program_of
from germane.measures.settings import Settings
from germane.questions.asking import Unanswered
from germane.questions.question import AnyQuestion
from germane.types import Json, Sample, Score

if TYPE_CHECKING:
    from germane.reports.report import Report

__all__ = ["StoredJudge", "explain", "explain_script", "recorded", "settings_of", "strips", "votes_in"]


class StoredJudge:
    """The identity of the judge that a report was made with: enough to find its judgements, unable to judge."""

    def __init__(self, report: Report) -> None:
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


def settings_of(report: Report) -> Settings:
    """What relevance was judged against."""
    return Settings(**(report.manifest.get("settings") or {}))


def recorded(report: Report) -> Recorded:
    """The report's judgements, by question; only those that are wanted are read."""
    return Recorded(report.store.judgements())


def explain(
    report: Report, sample: Sample, measure: Measure, outcome: Outcome, answers: Recorded
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


def explain_script(report: Report, score: Score, outcome: Outcome) -> Explanation:
    """What a grading script said: its own hits, misses and reasoning."""
    of = (score.sample, score.system, str(score.trial), score.measure)
    for judgement in report.judgements():
        if judgement.kind == ScriptGrade.kind and judgement.provenance.get("of") == of and judgement.answer:
            said = read_result(judgement.answer)
            return Explanation(outcome=outcome, hits=said.hits, misses=said.misses, reasoning=said.reasoning)
    return Explanation(outcome=outcome, reasoning=score.why or "the script said nothing")


def labels_of(sample: Sample, measure: Measure, settings: Settings, answers: Recorded) -> tuple[Ranking, ...]:
    """The labelled rankings that a ranked measure reads."""
    lists, _ = replay(labels_for(measure, sample, settings), answers.look_up)
    return lists


def strips(report: Report, scores: Sequence[Score]) -> Iterator[tuple[str, Score, str]]:
    """For each score: the rank strip of its sample, the score, the query."""
    measure = _strip_measure(report, scores[0].type)
    wanted = {(score.sample, score.system, score.trial) for score in scores}
    samples = {(s.id, s.system, s.trial): s for s in report.samples() if (s.id, s.system, s.trial) in wanted}
    answers = recorded(report)
    for score in scores:
        sample = samples.get((score.sample, score.system, score.trial))
        if sample is None:
            yield "", score, ""
        else:
            lists = labels_of(sample, measure, settings_of(report), answers) if measure else ()
            yield strip(lists, measure) if measure else "", score, sample.query


def _strip_measure(report: Report, first: str) -> Measure | None:
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
    if not isinstance(label, Label):
        return "·"
    return "■" if is_relevant(label, measure) else "□"
