"""`germane explain`: one query's scores with the numbers behind them, and what would change them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from germane.errors import InputError
from germane.judging.recorded import Recorded
from germane.measures import ranked
from germane.measures.explaining import Explanation
from germane.measures.labels import LabelledPlace, Ranking, fill_table
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import CODE_JUDGE, depth_of
from germane.reports.clean import shorten
from germane.reports.looking import explain, explain_script, labels_of, recorded, settings_of
from germane.types import Json, Sample, Score

if TYPE_CHECKING:
    from germane.reports.report import Report

__all__ = ["explain_query"]

_TEXT = 60
_REASON = 90


def explain_query(report: Report, query: str, measure: str | None = None) -> Iterator[str]:
    """Lines that explain the scores of one sample, by its id or by its query's text.

    Raises InputError where the report holds no such sample or measure.
    """
    sample = _find(report, query)
    wanted = str(Measure.parse(measure)) if measure else None
    scores = [
        score
        for score in report.scores()
        if _about(score, sample) and wanted in {None, score.measure, score.type}
    ]
    if not scores:
        have = ", ".join(dict.fromkeys(summary.measure for summary in report.summaries))
        raise InputError(f"{measure} was not measured for {sample.id}", fix=f"measured: {have}")
    answers = recorded(report)
    yield f"{sample.id}  {shorten(sample.query, 200)}"
    if sample.reference:
        yield f"reference  {shorten(sample.reference, 200)}"
    for score in scores:
        yield ""
        yield from _score(report, sample, score, answers)


def _find(report: Report, query: str) -> Sample:
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


def _about(score: Score, sample: Sample) -> bool:
    return (score.sample, score.system, score.trial) == (sample.id, sample.system, sample.trial)


def _score(report: Report, sample: Sample, score: Score, answers: Recorded) -> Iterator[str]:
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
    if measure == CODE_JUDGE:
        explanation = explain_script(report, score, outcome)
    else:
        explanation = explain(report, sample, measure, outcome, answers)
    yield f"  {explanation.reasoning}{f'  ({explanation.band})' if explanation.band else ''}"
    if measure.definition.family == "ranked":
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
