"""Scores and measures in words.

Why a score is what it is: hits, misses, working and wording, derived from the same program and its answers. And what a
measure is: the list of `germane measures`, made of the definitions themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any

from germane.clean import shorten
from germane.measures.measure import Definition, Measure
from germane.measures.outcome import Item, Outcome
from germane.measures.ranked import least_level, open_holes, values
from germane.places.places import Places
from germane.questions.question import Question
from germane.show.table import Table
from germane.types import FrozenDict, Json

CHUNK = 100
"""Characters of a passage that a relevance check shows."""
NAMED, MISSING = 3, 80
"""Missing items that the one line names, and characters of each."""
NO_CONTEXT = "No context retrieved"
CANNOT = "Cannot evaluate contextual precision without retrieved chunks"
ORDERED = frozenset({"context_precision", "context_position"})
"""Measures that tell of relevant places below irrelevant ones: these are what lowers them."""

Exchange = Sequence[tuple[Question[Any], Any]]
"""The questions of one program, each with its typed answer (or Unanswered)."""
Votes = Sequence[Mapping[str, Json]]
"""The answers of a panel's members to each of these questions, {} where no panel was asked; () = none was."""


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

    def __str__(self) -> str:
        lines = [self._score, *filter(None, [self.reasoning])]
        return "\n".join([*lines, *(f"+ {hit}" for hit in self.hits), *(f"- {miss}" for miss in self.misses)])

    @property
    def _score(self) -> str:
        outcome = self.outcome
        if outcome.value is not None:
            return f"{outcome.value:.4f}" + (f" ({self.band})" if self.band else "")
        return f"{outcome.status}: {outcome.why}" if outcome.why else outcome.status

    def _repr_html_(self) -> str:
        rows = [("+", "counted", hit) for hit in self.hits] + [("-", "did not", miss) for miss in self.misses]
        return Table(["", self._score, "what"], rows=rows, notes=filter(None, [self.reasoning])).html()

    def missed(self, expected: int | None = None) -> list[str]:
        """The misses, the last of them that fewer relevant contexts were found than were `expected`."""
        short = len(self.hits) < (expected or 0)
        return [*self.misses, *[f"Expected {expected} relevant contexts, found {len(self.hits)}"] * short]

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
        words = {"hits": list(self.hits), "misses": list(self.misses), "reasoning": self.reasoning}
        return {**words, "details": details}


def explain_ranked(
    measure: Measure, outcome: Outcome, places: Places, sample: int, votes: Votes = ()
) -> Explanation:
    """A ranked score: each place with its label, and the precision at each rank.

    `sample` is the number of the sample among those of `places`. `votes` are the answers of a panel's members, by the number of
    the question that a place is about.
    """
    hits, misses = list[str](), list[str]()
    checks, working = list[FrozenDict](), list[FrozenDict]()
    rankings = places.spans_of(sample, measure.depth)
    several = len(rankings) > 1
    for call, span in enumerate(rankings, 1):
        count, below = 0, False
        for rank, at in enumerate(span, 1):
            check = _check(rank, places, at, measure, call if several else 0, votes)
            relevant = check["relevant"]
            where = f"Call {call}, position {rank}" if several else f"Position {rank}"
            word = {True: "Relevant", False: "Not relevant", None: "Not judged"}[relevant]
            why = f" - {check['reasoning']}" if check["reasoning"] else ""
            (hits if relevant else misses).append(f"{where}: {word}{why}")
            if relevant and below and measure.name in ORDERED:
                misses.append(f"{where}: Relevant but ranked below irrelevant ones")
            below = below or relevant is False
            count += relevant is True
            checks.append(check)
            working.append(FrozenDict(rank=rank, relevant=relevant, precision=count / rank))
    if several and checks:
        misses += [f"Call {n}: {NO_CONTEXT}" for n, span in enumerate(rankings, 1) if not span]
    if not checks and measure.name == "context_precision":
        reasoning = CANNOT
    else:
        why = f" ({outcome.why})" if outcome.why and outcome.value is not None else ""
        reasoning = f"{len(hits)}/{len(checks)} chunks relevant, {_score(measure, outcome)}{why}"
    return Explanation(
        outcome=outcome,
        hits=tuple(hits),
        misses=tuple(misses) if checks else (NO_CONTEXT,),
        reasoning=reasoning,
        relevance_checks=tuple(checks),
        working=tuple(working),
        band=_band(measure, outcome.value),
        details=_residual(measure, places, sample),
    )


def _residual(measure: Measure, places: Places, sample: int) -> FrozenDict:
    """The gain of RBP if all that nobody judged were relevant."""
    if measure.name != "RBP":
        return FrozenDict()
    residuals = values(measure(part="residual"), places.table_of(sample)).tolist()
    return FrozenDict({"residual": float(sum(residuals) / len(residuals))} if residuals else {})


def _check(rank: int, places: Places, at: int, measure: Measure, call: int, votes: Votes) -> FrozenDict:
    labelled, context = bool(places.labelled[at]), places.contexts[at]
    unknown = at in places.failed or (not labelled and open_holes(measure))
    level = float(places.level[at])
    check: dict[str, Json] = {
        "position": rank,
        "chunk": context.text[:CHUNK],
        "relevant": None if unknown else level >= least_level(measure),
        "reasoning": places.reason(at),
    }
    if call:
        check["call"] = call
    if context.id is not None:
        check["id"] = context.id
    if labelled:
        binary = places.scales[int(places.scale[at])] == "binary"
        grade = float(places.worth[0][at]) if binary else max(level, 0.0)
        if probabilities := places.probabilities_of(at):
            grade = float(min(level, len(probabilities) - 1))
            check["probabilities"] = list(probabilities)
        check |= {"grade": grade if grade % 1 else int(grade), "source": places.source_of(at)}
    if 0 <= (number := places.verdict[at]) < len(votes):
        check |= votes[number]
    return FrozenDict(check)


def _score(measure: Measure, outcome: Outcome) -> str:
    if outcome.value is None:
        return f"no {_word(measure)} score: {outcome.why}"
    return f"{_word(measure)} score: {outcome.value:.2f}"


def _word(measure: Measure) -> str:
    """The name of a score in a sentence: `precision` of context_precision@5; a name of the field as it is."""
    if not measure.name.startswith("context_") and measure.definition.family == "ranked":
        return str(measure)
    return measure.name.removeprefix("context_").replace("_", " ")


_BANDS = {
    "context_precision": {1.0: "perfect order", 0.5: "good with noise between", 0.0: "relevant passages buried",
                          -1.0: "nothing relevant"},
    "context_position": {1.0: "optimal", 0.7: "good", 0.4: "mixed", 0.0: "suboptimal", -1.0: "poor"},
}  # fmt: skip


def _band(measure: Measure, value: float | None) -> str:
    """The score in words: the first band whose lower end it reaches (0 itself belongs to the last)."""
    if value is None or measure.name not in _BANDS:
        return ""
    bands = _BANDS[measure.name].items()
    return next(word for least, word in bands if value >= least and (value > 0 or least < 0))


def explain_judged(
    measure: Measure,
    outcome: Outcome,
    derived: Outcome | None = None,
    exchange: Exchange = (),
    votes: Votes = (),
) -> Explanation:
    """A judged score: what it counted.

    `outcome` is the score as it is stored, `derived` what the same program gave when it was run again on the stored
    answers (`exchange`): it knows what was counted. `votes` are the answers of a panel's members to them: they
    stand under `panel` in the details.
    """
    counted = derived or outcome
    misses = [_worded(item) for item in counted.items if item.held is False]
    misses += [f"Not judged: {_worded(item)}" for item in counted.items if item.held is None]
    both = zip(exchange, votes, strict=False)
    panel = [{"asked": question.kind, **panel_votes} for (question, _), panel_votes in both if panel_votes]
    details = {"checks": [_counted(item) for item in counted.items], "panel": panel}
    return Explanation(
        outcome=outcome,
        hits=tuple(_worded(item) for item in counted.items if item.held),
        misses=tuple(misses),
        reasoning=_judged_reasoning(measure, outcome, counted),
        details=FrozenDict({name: detail for name, detail in details.items() if detail}),
    )


def _worded(item: Item) -> str:
    return f"{item.text} - {item.why}" if item.why else item.text


def _counted(item: Item) -> dict[str, Json]:
    fields: dict[str, Json] = {"text": item.text, "held": item.held, "reasoning": item.why}
    if item.weight != 1.0:
        fields["weight"] = item.weight
    return fields if item.worth is None else {**fields, "worth": item.worth}


def _judged_reasoning(measure: Measure, outcome: Outcome, counted: Outcome) -> str:
    """The share of the items that held, the score, and the missing items."""
    score = _score(measure, outcome)
    if not counted.items or not counted.what:
        nothing = next((item.text for item in counted.items), "")
        return f"{nothing}, {score}" if nothing else score
    hits = sum(item.held is True for item in counted.items)
    missing = [shorten(item.text, MISSING) for item in counted.items if item.held is False]
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    lacks = f"; {counted.lacking}: {'; '.join(missing[:NAMED])}{more}" if missing else ""
    return f"{hits}/{len(counted.items)} {counted.what}, {score}{lacks}"


def as_json(definition: Definition) -> dict[str, Json]:
    """Everything the registry knows of a measure that JSON can hold; no end of the range is null."""
    return {
        "name": definition.title,
        "family": definition.family,
        "formula": definition.formula,
        "doc": definition.doc,
        "needs": list(definition.needs),
        "calls": definition.cost,
        "range": [None if isinf(end) else end for end in definition.range],
        "better": definition.better,
        "cutoff": definition.cutoff,
        "labels": definition.labels,
        "nothing": definition.nothing,
        "reference": definition.reference,
        "aliases": definition.spellings,
        "params": {
            name: {"default": param.default, "choices": list(param.choices), "meaning": param.meaning}
            for name, param in definition.options.items()
        },
    }


def listing(definitions: Iterable[Definition]) -> str:
    """A paragraph for each measure: its name, range, needs, formula and source."""
    paragraphs = []
    for definition in definitions:
        facts = dict(definition.facts())
        lower = "; lower is better" if definition.better == "lower" else ""
        source = f"; from {definition.reference}" if definition.reference else ""
        first = definition.doc.partition("\n")[0]
        paragraphs.append(
            f"{definition.heading}  {first}\n    = {definition.formula}\n    needs {facts['needs']}{lower}{source}"
        )
    return "\n\n".join(paragraphs)
