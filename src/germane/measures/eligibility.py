"""The samples for which a measure cannot be computed, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TypeAlias

from germane.measures.measure import Measure
from germane.measures.outcome import Outcome, error, skipped
from germane.places.lists import NO_TEXT, field_text, has_texts
from germane.places.places import Places
from germane.places.settings import Settings
from germane.places.table import LabelChoice
from germane.types import Sample

_ABSENT = {
    "contexts": "contexts are not known",
    "gold": "no gold groups",
    "forbidden": "no forbidden ids",
    "superseded": "no stale versions are named",
}
NO_QRELS, NOTHING_RELEVANT = "no qrels", "no relevant document is known"
WITHOUT_IDS = "no context has a document id, and gold is about ids"
_LIKE_AN_ID = re.compile(r"(?i)(\b|_)(id|ids|uri|url|key|uuid|source|file|path|name)$|[a-z](Id|Uri|Key)$")
_COUNTS = {"num_ret", "num_rel"}
"""The ranked measures that count results or gold and need no ids."""
_OF_IDS = {"gold", "forbidden", "superseded"}

_Rule: TypeAlias = Callable[[int, Sample], Outcome | None]
"""The outcome of a sample, with its number in the block, for which a measure cannot be computed; else None."""


def applicable(measure: Measure, sample: Sample, settings: Settings) -> Outcome | None:
    """Return the outcome that says why a measure cannot be computed for a sample; None if it can."""
    return Eligibility([sample], settings).refusals(measure).get(0)


class Eligibility:
    """The samples of a block for which measures cannot be computed; a rule that several share looks at each sample once."""

    def __init__(self, samples: Sequence[Sample], settings: Settings) -> None:
        self._samples, self._settings = samples, settings
        self._broken: dict[object, dict[int, Outcome]] = {}

    def refusals(self, measure: Measure) -> Mapping[int, Outcome]:
        """Return the outcome of each sample, by its number, for which the measure cannot be computed."""
        outcomes: dict[int, Outcome] = {}
        for name, rule in self._rules(measure):
            if name not in self._broken:
                results = ((number, rule(number, sample)) for number, sample in enumerate(self._samples))
                self._broken[name] = {number: outcome for number, outcome in results if outcome is not None}
            outcomes = {**self._broken[name], **outcomes}
        return outcomes

    def _rules(self, measure: Measure) -> Iterator[tuple[object, _Rule]]:
        """Yield the name and function of each rule of a measure; the first one that a sample breaks is its outcome."""
        definition, labels = measure.definition, measure.labels
        ranked, rel = definition.family == "ranked", measure.settings.get("rel", 0)
        yield "error", lambda _, sample: error(sample.error or "") if sample.failed else None
        for need in definition.needs:
            yield need, partial(_lacking, need)
        if definition.answerable or ranked:
            yield "answerable", _unanswerable
        if ranked and labels == "gold":
            yield ("qrels", rel or 1), partial(_without_gold, rel or 1)
        if (ranked and labels == "gold" and measure.name not in _COUNTS) or _OF_IDS & {*definition.needs}:
            yield "ids", _without_ids
        if ranked and labels in {"human", "best"}:
            yield (labels, rel is None), partial(self._unlabelled, labels == "best", rel is None)
        if ranked and labels in {"judge", "best"} and measure.settings.get("against") != "call":
            yield "asked", partial(_unasked, self._settings.against)
        if measure.budget is not None:
            yield "texts", lambda _, sample: None if has_texts(sample) else skipped(NO_TEXT)

    @cached_property
    def _people(self) -> Places:
        people = Places(LabelChoice("human", "need", final=False), self._settings)
        people.add(self._samples)
        return people

    def _unlabelled(self, best: bool, open_rel: bool, number: int, _: Sample) -> Outcome | None:
        """Skip a sample whose labels by people cannot be read: there are none, or they are on another scale."""
        judged = self._settings.scale
        labelled = self._people.labelled[self._people.span_of(number)]
        other = sorted(self._people.scales_of(number) - ({judged} if best else {"graded", "binary"}))
        if other and best:
            return skipped(
                f"labels=best needs one scale: people's labels are {other[0]}, the judge's {judged}; "
                "read labels=human or labels=judge, or ask on people's scale"
            )
        if other and open_rel:
            return skipped(
                f"people's grades are on the scale {other[0]}: say from which grade a context counts, rel="
            )
        return skipped("no human labels") if not best and len(labelled) and not labelled.any() else None


def _lacking(need: str, _: int, sample: Sample) -> Outcome | None:
    """Skip a sample without a field that a measure needs."""
    if need == "contexts":
        lacking = sample.contexts is None and sample.calls is None
    elif need in {"query", "reference", "response"}:
        lacking = field_text(sample, need) is None
    else:
        lacking = getattr(sample, need, None) in (None, "", ())
    if not lacking:
        return None
    return error(sample.error) if sample.error else skipped(_ABSENT.get(need, f"no {need}"))


def _unanswerable(_: int, sample: Sample) -> Outcome | None:
    return skipped("unanswerable: nothing can be relevant") if sample.answerable is False else None


def _without_gold(rel: int, _: int, sample: Sample) -> Outcome | None:
    if sample.qrels and max(sample.qrels.values()) >= rel:
        return None
    return skipped(NO_QRELS if sample.qrels is None else NOTHING_RELEVANT)


def _without_ids(_: int, sample: Sample) -> Outcome | None:
    """Skip a sample whose contexts have no ids; say where ids seem to be: in the text, or under another key."""
    lists = [call.contexts for call in sample.calls] if sample.calls else [sample.contexts or ()]
    contexts = [*chain.from_iterable(lists)]
    if not contexts or any(context.id is not None for context in contexts):
        return None
    gold = {*(sample.qrels or ()), *chain.from_iterable(sample.gold or ()), *sample.forbidden}
    likely = ""
    for context in contexts:
        if context.text.strip() in gold:
            where = 'texts are gold ids: give contexts as {"id": ...}, or their ids as retrieved_context_ids'
            return skipped(f"{WITHOUT_IDS}; {where}")
        for key, value in context.metadata.items():
            if isinstance(value, str | int) and str(value) in gold:
                return skipped(f"{WITHOUT_IDS}; {key!r} holds gold ids: rename it to id")
            if not likely and _LIKE_AN_ID.search(key) and isinstance(value, str | int):
                likely = f"; if {key!r} is one, rename it to id"
    return skipped(WITHOUT_IDS + likely)


def _unasked(against: str, _: int, sample: Sample) -> Outcome | None:
    """Skip a sample about whose contexts a judge cannot be asked."""
    if field_text(sample, "query") is None:
        return skipped("no query")
    if against in {"reference", "response", "criterion"} and not field_text(sample, against):
        return skipped(f"no {against} to judge against")
    return None
