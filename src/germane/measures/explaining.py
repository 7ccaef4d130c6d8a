"""Explain scores in words, from the labels or answers behind them; describe measures as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isinf

from germane.clean import shorten
from germane.measures.bounds import least_level, open_holes
from germane.measures.measure import Definition, Measure
from germane.measures.outcome import Outcome
from germane.places.places import Places
from germane.types import FrozenDict, Json

NAMED, MISSING = 3, 80
"""The most missing items that the one-line reasoning lists, and the most characters it shows of each."""
NO_CONTEXT = "No context retrieved"
CANNOT = "Cannot evaluate contextual precision without retrieved chunks"
ORDERED = frozenset({"context_precision", "context_position"})
"""Measures whose score depends on order: a relevant context below an irrelevant one is also a miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of one score in words.

    `hits` are the items that raised the score and `misses` the others. `reasoning` is one line of text with
    the score. For a ranked measure, `relevance_checks` describes each ranked context, and `working` the
    precision at each rank. `band` is the quality of the score in words ("good"), or "".
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
        outcome = self.outcome
        score = f"{outcome.status}: {outcome.why}" if outcome.why else outcome.status
        if outcome.value is not None:
            score = f"{outcome.value:.4f}" + (f" ({self.band})" if self.band else "")
        lines = [score, *filter(None, [self.reasoning])]
        return "\n".join([*lines, *(f"+ {hit}" for hit in self.hits), *(f"- {miss}" for miss in self.misses)])

    def missed(self, expected: int | None = None) -> list[str]:
        """Return the items that did not raise the score; a last entry says if hits are below `expected`."""
        short = len(self.hits) < (expected or 0)
        return [*self.misses, *[f"Expected {expected} relevant contexts, found {len(self.hits)}"] * short]

    def as_json(self) -> dict[str, Json]:
        """Return the explanation as a JSON object; `details` holds all but hits, misses and reasoning."""
        more = {
            "relevance_checks": [dict(check) for check in self.relevance_checks],
            "working": [dict(step) for step in self.working],
            "band": self.band,
            "bounds": list(self.outcome.bounds or ()),
        }
        given = {name: value for name, value in more.items() if value}
        return {
            "hits": list(self.hits),
            "misses": list(self.misses),
            "reasoning": self.reasoning,
            "details": {"status": self.outcome.status, **self.details, **given},
        }


def explain_ranked(measure: Measure, outcome: Outcome, places: Places, sample: int) -> Explanation:
    """Return the explanation of a ranked measure's score for the sample with this index in `places`."""
    hits, misses = list[str](), list[str]()
    checks, working = list[FrozenDict](), list[FrozenDict]()
    rankings, people = places.spans_of(sample, measure.depth), places.copies(sample)
    several, searches = len(rankings) > people, len(rankings) // people
    for number, span in enumerate(rankings):
        person, call = divmod(number, searches)
        count, below = 0, False
        for rank, at in enumerate(span, 1):
            check = _check(rank, places, at, measure, call + 1 if several else 0)
            relevant = check["relevant"]
            where = f"Call {call + 1}, position {rank}" if several else f"Position {rank}"
            where = f"Person {person + 1}, {where.lower()}" if people > 1 else where
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
        misses += [f"Call {n}: {NO_CONTEXT}" for n, span in enumerate(rankings[:searches], 1) if not span]
    if not checks and measure.name == "context_precision":
        reasoning = CANNOT
    else:
        why = f" ({outcome.why})" if outcome.why and outcome.value is not None else ""
        what = "chunks relevant" if people == 1 else f"labels of {people} people relevant"
        reasoning = f"{len(hits)}/{len(checks)} {what}, {_score(measure, outcome)}{why}"
    value, band = outcome.value, ""
    if value is not None and measure.name in _BANDS:
        bands = _BANDS[measure.name].items()
        band = next(word for least, word in bands if value >= least and (value > 0 or least < 0))
    return Explanation(
        outcome=outcome,
        hits=tuple(hits),
        misses=tuple(misses) if checks else (NO_CONTEXT,),
        reasoning=reasoning,
        relevance_checks=tuple(checks),
        working=tuple(working),
        band=band,
    )


def _check(rank: int, places: Places, at: int, measure: Measure, call: int) -> FrozenDict:
    """Return the relevance check of one ranked context as JSON: its rank, text, label and the reason for it."""
    labelled, context = bool(places.labelled[at]), places.contexts[at]
    unknown = at in places.failed or (not labelled and open_holes(measure))
    level = float(places.level[at])
    check: dict[str, Json] = {
        "position": rank,
        "chunk": context.text[:100],
        "relevant": None if unknown else level >= least_level(measure),
        "reasoning": places.reason(at),
    }
    if call:
        check["call"] = call
    if context.id is not None:
        check["id"] = context.id
    if labelled:
        grade = float(places.grades[at])
        if probabilities := places.probabilities.get(at):
            check["probabilities"] = list(probabilities)
        source = places.choice.source
        if source == "best":
            source = "human" if places.by_people(at) else "judge"
        check |= {"grade": grade if grade % 1 else int(grade), "source": source}
    return FrozenDict(check)


def _score(measure: Measure, outcome: Outcome) -> str:
    """Return the score as text, such as `precision score: 0.50` for context_precision@5."""
    word = measure.name.removeprefix("context_").replace("_", " ")
    if measure.definition.family == "ranked" and not measure.name.startswith("context_"):
        word = str(measure)
    if outcome.value is None:
        return f"no {word} score: {outcome.why}"
    return f"{word} score: {outcome.value:.2f}"


_BANDS = {  # the quality of a score in words, from the lowest value on; below 0 stands for 0 itself
    "context_precision": {1.0: "perfect order", 0.5: "good with noise between", 0.0: "relevant passages buried",
                          -1.0: "nothing relevant"},
    "context_position": {1.0: "optimal", 0.7: "good", 0.4: "mixed", 0.0: "suboptimal", -1.0: "poor"},
}  # fmt: skip


def explain_judged(measure: Measure, outcome: Outcome, derived: Outcome | None = None) -> Explanation:
    """Return the explanation of a judged score by the items (such as claims) that were counted for it.

    A stored outcome has no items; `derived` is then the same score, computed again from stored answers.
    """
    counted = derived or outcome
    texts: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    checks = list[dict[str, Json]]()
    for item in counted.items:
        held = None if item.held is None else item.held is True  # as in the score
        texts[held].append(f"{item.text} - {item.why}" if item.why else item.text)
        check: dict[str, Json] = {"text": item.text, "held": item.held, "reasoning": item.why}
        if item.weight != 1.0:
            check["weight"] = item.weight
        checks.append(check if item.worth is None else {**check, "worth": item.worth})
    reasoning = _score(measure, outcome)
    if counted.items and counted.what:  # 3/5 claims supported, the score, the first that are not
        missing = [shorten(item.text, MISSING) for item in counted.items if item.held is False]
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        lacks = f"; {counted.lacking}: {'; '.join(missing[:NAMED])}{more}" if missing else ""
        reasoning = f"{len(texts[True])}/{len(counted.items)} {counted.what}, {reasoning}{lacks}"
    elif nothing := next((item.text for item in counted.items), ""):
        reasoning = f"{nothing}, {reasoning}"
    return Explanation(
        outcome=outcome,
        hits=tuple(texts[True]),
        misses=(*texts[False], *(f"Not judged: {text}" for text in texts[None])),
        reasoning=reasoning,
        details=FrozenDict({"checks": checks} if checks else {}),
    )


def heading(definition: Definition) -> str:
    """Return a measure's name with its cut-off as a user would type it: `nDCG[@k]`."""
    cutoff = {"required": "@k", "recall": "@r", "optional": "[@k]", "none": ""}[definition.cutoff]
    return definition.title + cutoff


def other_names(definition: Definition) -> list[str]:
    """Return the other names of a measure (aliases and presets), sorted."""
    return sorted({*definition.aliases, *definition.presets})


def _calls(definition: Definition) -> str:
    """Return the number of judge calls per sample, in words."""
    asks = definition.family == "ranked" and definition.labels in {"judge", "best"}
    return "1 per context" if asks else definition.calls


def as_json(definition: Definition) -> dict[str, Json]:
    """Return a measure's definition as a JSON object; an infinite limit of its range is null."""
    return {
        "name": definition.title,
        "family": definition.family,
        "formula": definition.formula,
        "doc": definition.doc,
        "needs": list(definition.needs),
        "calls": _calls(definition),
        "range": [None if isinf(end) else end for end in definition.range],
        "better": definition.better,
        "cutoff": definition.cutoff,
        "labels": definition.labels,
        "nothing": definition.nothing,
        "reference": definition.reference,
        "aliases": other_names(definition),
        "params": {
            name: {"default": param.default, "choices": list(param.choices), "meaning": param.meaning}
            for name, param in definition.options.items()
        },
    }


def facts(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield (name, text) for each fact about a measure: its formula, ..., each parameter as `name=default`."""
    low, high = definition.range
    ends = f"{low:g} and up" if isinf(high) else f"{low:g} to {high:g}"
    gold = ("qrels",) if definition.family == "ranked" and definition.labels == "gold" else ()
    count = _calls(definition)
    calls = "no judge calls" if count == "0" else f"judge calls: {count}"
    yield "formula", definition.formula
    yield "range", ends if definition.better == "higher" else f"{ends}, lower is better"
    yield "needs", f"{', '.join((*definition.needs, *gold)) or 'nothing'}; {calls}"
    if definition.nothing:
        yield "nothing to count", definition.nothing
    for name, param in definition.options.items():
        text = str(param.default).lower() if param.type is bool else str(param.default)
        if param.default is None:
            text = "(none)" if param.type is float else "(by the labels)"
        choices = f" ({' | '.join(map(str, param.choices))})" if param.choices else ""
        yield f"{name}={text}", f"{param.meaning}{choices}"
    if names := other_names(definition):
        yield "also spelled", ", ".join(names)
    if definition.reference:
        yield "source", definition.reference


def described(definition: Definition) -> str:
    """Return the text that `germane measures NAME` prints: name and meaning, then one fact per line."""
    texts = (f"{name}: {text}" for name, text in facts(definition))
    return "\n".join([f"{heading(definition)}  {definition.doc}", "", *texts])


def listing(definitions: Iterable[Definition]) -> str:
    """Return a text with one paragraph per measure: its name, formula, required fields and source."""
    paragraphs = []
    for definition in definitions:
        needs = dict(facts(definition))["needs"]
        lower = "; lower is better" if definition.better == "lower" else ""
        source = f"; from {definition.reference}" if definition.reference else ""
        first = definition.doc.partition("\n")[0]  # "" without a docstring
        head = f"{heading(definition)}  {first}"
        paragraphs.append(f"{head}\n    = {definition.formula}\n    needs {needs}{lower}{source}")
    return "\n\n".join(paragraphs)
