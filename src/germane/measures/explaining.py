"""Why a score is what it is: hits, misses, working and wording, derived from the same program and its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from germane.judging.programs import Unanswered
from germane.judging.questions import Claims, Question, Support
from germane.measures.labels import Label, Place, Ranking
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import depth_of, is_relevant
from germane.types import FrozenDict, Json, Sample

__all__ = ["Explanation", "explain_judged", "explain_ranked"]

CHUNK = 100
"""How many characters of a passage a relevance check shows."""

Exchange = Sequence[tuple[Question[Any], Any]]
"""What one program asked, with each typed answer (or Unanswered)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One score in words.

    `hits` and `misses` name what counted and what did not, `reasoning` is one line, `relevance_checks` one entry a
    place, `working` the formula's intermediate values, `band` the score in words ("" where there is no score).
    """

    outcome: Outcome
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    relevance_checks: tuple[FrozenDict, ...] = ()
    working: tuple[FrozenDict, ...] = ()
    band: str = ""
    details: FrozenDict = field(default_factory=FrozenDict)

    def as_json(self) -> dict[str, Json]:
        """Hits, misses and reasoning with everything else under `details`."""
        details: dict[str, Json] = {"status": self.outcome.status, **self.details}
        if self.relevance_checks:
            details["relevance_checks"] = [dict(check) for check in self.relevance_checks]
        if self.working:
            details["working"] = [dict(step) for step in self.working]
        if self.band:
            details["band"] = self.band
        if self.outcome.bounds:
            details["bounds"] = list(self.outcome.bounds)
        return {"hits": list(self.hits), "misses": list(self.misses), "reasoning": self.reasoning, "details": details}


def explain_ranked(measure: Measure, outcome: Outcome, lists: Sequence[Ranking]) -> Explanation:
    """A ranked score: each place with its label, and the precision at each rank."""
    depth = depth_of(measure)
    places = [(rank, place) for ranking in lists for rank, place in enumerate(ranking.places[:depth], 1)]
    checks = tuple(_check(rank, place, measure) for rank, place in places)
    relevant = [check for check in checks if check["relevant"]]
    misses = [_line(check) for check in checks if not check["relevant"]]
    if not places:
        misses = ["No context retrieved"]
    return Explanation(
        outcome=outcome,
        hits=tuple(map(_line, relevant)),
        misses=tuple(misses),
        reasoning=_ranked_reasoning(measure, outcome, len(relevant), len(checks)),
        relevance_checks=checks,
        working=tuple(_working(checks)),
        band=_band(measure, outcome.value),
    )


def _check(rank: int, place: Place, measure: Measure) -> FrozenDict:
    label = place.label
    relevant = None if isinstance(label, Unanswered) else is_relevant(label, measure)
    why = label.why if isinstance(label, Unanswered) else label.reasoning if isinstance(label, Label) else "unjudged"
    check: dict[str, Json] = {"position": rank, "chunk": place.context.text[:CHUNK], "relevant": relevant, "reasoning": why}
    if place.context.id is not None:
        check["id"] = place.context.id
    if isinstance(label, Label):
        check |= {"grade": label.gain if label.gain % 1 else int(label.gain), "source": label.source}
    return FrozenDict(check)


def _line(check: Mapping[str, Json]) -> str:
    word = {True: "Relevant", False: "Not relevant", None: "Not judged"}[check["relevant"]]
    return f"Position {check['position']}: {word}" + (f" - {check['reasoning']}" if check["reasoning"] else "")


def _working(checks: Sequence[Mapping[str, Json]]) -> Iterator[FrozenDict]:
    found = 0
    for check in checks:
        found = (check["relevant"] is True) + (0 if check["position"] == 1 else found)
        yield FrozenDict(
            {"rank": check["position"], "relevant": check["relevant"], "precision": found / check["position"]}
        )


_WORD = {"context_precision": "precision", "context_position": "position", "context_relevancy": "relevancy"}


def _ranked_reasoning(measure: Measure, outcome: Outcome, relevant: int, total: int) -> str:
    if outcome.value is None:
        return f"{relevant}/{total} chunks relevant, no {_word(measure)} score: {outcome.why}"
    text = f"{relevant}/{total} chunks relevant, {_word(measure)} score: {outcome.value:.2f}"
    return f"{text} ({outcome.why})" if outcome.why else text


def _word(measure: Measure) -> str:
    return _WORD.get(measure.name, str(measure))


_BANDS: dict[str, tuple[tuple[float, str], ...]] = {
    "context_precision": (
        (1.0, "perfect order"),
        (0.5, "good with noise between"),
        (0.0, "relevant passages buried"),
        (-1.0, "nothing relevant"),
    ),
    "context_position": ((1.0, "optimal"), (0.7, "good"), (0.4, "mixed"), (0.0, "suboptimal"), (-1.0, "poor")),
}


def _band(measure: Measure, value: float | None) -> str:
    """The score in words: the first band whose lower end it reaches (0 itself belongs to the last)."""
    if value is None or measure.name not in _BANDS:
        return ""
    return next(word for least, word in _BANDS[measure.name] if value >= least and (value > 0 or least < 0))


def explain_judged(measure: Measure, outcome: Outcome, sample: Sample, exchange: Exchange) -> Explanation:
    """A judged score: what its definition's own `explain` says, else one line a question."""
    known: Callable[..., Explanation] | None = measure.definition.explain
    if known is not None:
        return known(measure, outcome, sample, exchange)
    if any(isinstance(question, Support) for question, _ in exchange):
        return _supported(measure, outcome, exchange)
    value = outcome.why if outcome.value is None else f"{outcome.value:.2f}"
    misses = ["No context retrieved"] if sample.contexts == () else []
    return Explanation(outcome=outcome, misses=tuple(misses), reasoning=f"{measure.name}: {value}")


def _supported(measure: Measure, outcome: Outcome, exchange: Exchange) -> Explanation:
    question, verdicts = next((q, a) for q, a in exchange if isinstance(q, Support))
    hits, misses, checks = [], [], []
    for number, claim in enumerate(question.claims):
        verdict = None if isinstance(verdicts, Unanswered) else verdicts[number]
        where = ", ".join(map(str, verdict.contexts)) if verdict else ""
        why = f" - {verdict.reasoning}" if verdict and verdict.reasoning else ""
        (hits if where else misses).append(f"{claim} (contexts {where}){why}" if where else f"Not supported: {claim}{why}")
        checks.append({"claim": claim, "contexts": list(verdict.contexts) if verdict else None})
    total = len(question.claims)
    share = outcome.why if outcome.value is None else f"{measure.name}: {outcome.value:.2f}"
    return Explanation(
        outcome=outcome,
        hits=tuple(hits),
        misses=tuple(misses),
        reasoning=f"{len(hits)}/{total} claims supported by the contexts, {share}",
        details=FrozenDict({"claims": [claim for q, a in exchange if isinstance(q, Claims) for claim in a], "support": checks}),
    )
