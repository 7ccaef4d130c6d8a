"""Find the samples for which a measure cannot be computed, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

from germane.measures.measure import Measure
from germane.measures.outcome import Outcome, error, skipped
from germane.places.lists import Settings, field_text
from germane.places.places import Places
from germane.places.table import LabelChoice
from germane.tables.scores import WITHOUT_IDS
from germane.types import Context, Sample

_ABSENT = {
    "contexts": "the sample's contexts are not known",
    "gold": "the sample has no gold groups",
    "forbidden": "the sample has no forbidden ids",
}
NO_QRELS, NOTHING_RELEVANT = "the sample has no qrels", "the sample's qrels have no relevant document"
_COUNTS = {"num_ret", "num_rel"}
"""The ranked measures that count results or gold and need no ids."""
_OF_IDS = {"gold", "forbidden"}

Broken: TypeAlias = dict[int, Outcome]
"""The outcomes (skipped or error) of samples that a measure cannot score, by the sample's index."""


def applicable(measure: Measure, sample: Sample, settings: Settings) -> Outcome | None:
    """Return the outcome (skipped or error) of a sample that a measure cannot score; None if it can."""
    return refusals(measure, [sample], settings, {}).get(0)


def refusals(
    measure: Measure, samples: Sequence[Sample], settings: Settings, known: dict[object, Broken]
) -> Broken:
    """Return {sample index: outcome (skipped or error)} of the samples that a measure cannot score.

    `known` stores the result of each check: pass the same dictionary for all measures of these samples.
    """
    definition, labels, rel = measure.definition, measure.labels, measure.settings.get("rel", 0)
    ranked = definition.family == "ranked"
    of_gold = ranked and labels == "gold"
    rules: dict[object, Callable[[], Broken]] = {
        "error": lambda: {n: error(row.error or "") for n, row in enumerate(samples) if row.failed}
    }
    rules |= {need: partial(_lacking, need, samples) for need in definition.needs}
    if definition.answerable or ranked:
        why = skipped("the question is unanswerable: nothing can be relevant")
        rules["answerable"] = lambda: {n: why for n, row in enumerate(samples) if row.answerable is False}
    if of_gold:
        rules["qrels", rel or 1] = partial(_without_gold, rel or 1, samples)
    if (of_gold and measure.name not in _COUNTS) or _OF_IDS & {*definition.needs}:
        rules["ids"] = partial(_without_ids, samples)
    if ranked and labels in {"human", "best"}:
        read = partial(_unlabelled, settings, samples, best=labels == "best", open_rel=rel is None)
        rules[labels, rel is None] = read
    if ranked and labels in {"judge", "best"} and measure.settings.get("against") != "call":
        rules["asked"] = partial(_unasked, settings.against, samples)
    outcomes: Broken = {}
    for name, rule in rules.items():  # the first failed check decides
        if name not in known:
            known[name] = rule()
        outcomes = {**known[name], **outcomes}
    return outcomes


def _unlabelled(settings: Settings, samples: Sequence[Sample], *, best: bool, open_rel: bool) -> Broken:
    """Return a skipped outcome for each sample without people's labels, or with labels on a wrong scale.

    With `best` (labels=best), labels may be missing, but their scale must be the judge's. Without `best`, the
    scale matters only if `open_rel` is True (`rel` is not set): it must then be yes/no or 0 to 3.
    """
    people, judged, broken = Places(LabelChoice("human", "need", final=False), settings), settings.scale, {}
    people.add(samples)
    for number in range(len(samples)):
        labelled = people.labelled[people.read(number, None)]
        other = sorted(people.scales_of(number) - ({judged} if best else {"graded", "binary"}))
        if other and best:
            broken[number] = skipped(
                f"labels=best needs one scale, but people's labels are {other[0]} and the judge's {judged}; "
                "use labels=human or labels=judge, or set --scale to the scale of the labels"
            )
        elif other and open_rel:
            why = f"people's grades are on the scale {other[0]}: set the lowest relevant grade, e.g. rel=2"
            broken[number] = skipped(why)
        elif not best and len(labelled) and not labelled.any():
            broken[number] = skipped("the sample has no human labels")
    return broken


def _lacking(need: str, samples: Sequence[Sample]) -> Broken:
    """Return the outcome of each sample without the field `need`: its `error` if it has one, else skipped."""
    if need == "contexts":
        lacking = [n for n, sample in enumerate(samples) if sample.contexts is None and sample.calls is None]
    elif need in {"query", "reference", "response"}:
        lacking = [n for n, sample in enumerate(samples) if field_text(sample, need) is None]
    else:
        lacking = [n for n, sample in enumerate(samples) if getattr(sample, need, None) in (None, "", ())]
    why = skipped(_ABSENT.get(need, f"the sample has no {need}"))
    return {n: error(fault) if (fault := samples[n].error) else why for n in lacking}


def _without_gold(rel: int, samples: Sequence[Sample]) -> Broken:
    lacking = [n for n, row in enumerate(samples) if not row.qrels or max(row.qrels.values()) < rel]
    return {n: skipped(NO_QRELS if samples[n].qrels is None else NOTHING_RELEVANT) for n in lacking}


def _without_ids(samples: Sequence[Sample]) -> Broken:
    """Return a skipped outcome for each sample that has contexts, but no document id on any of them."""
    broken = {}
    for number, sample in enumerate(samples):
        lists = [call.contexts for call in sample.calls] if sample.calls else [sample.contexts or ()]
        if any(lists) and all(context.id is None for contexts in lists for context in contexts):
            broken[number] = skipped(WITHOUT_IDS + _hint_at_ids(sample, chain.from_iterable(lists)))
    return broken


def _hint_at_ids(sample: Sample, contexts: Iterable[Context]) -> str:
    """Return a hint if gold ids occur as the contexts' texts or in one of their metadata fields; else ""."""
    gold = {*(sample.qrels or ()), *chain.from_iterable(sample.gold or ()), *sample.forbidden}
    for context in contexts:
        if context.text.strip() in gold:
            return '; texts are gold ids: give contexts as {"id": ...}, or their ids as retrieved_context_ids'
        if key := next((key for key, value in context.metadata.items() if str(value) in gold), None):
            return f"; {key!r} holds gold ids: rename it to id"
    return ""


def _unasked(against: str, samples: Sequence[Sample]) -> Broken:
    """Return a skipped outcome for each sample that lacks the query or the field named by `against`."""
    broken = _lacking("query", samples)
    if against in {"reference", "response", "criterion"}:
        why = skipped(f"the sample has no {against} to judge against")
        broken = {n: why for n, one in enumerate(samples) if not field_text(one, against)} | broken
    return broken
