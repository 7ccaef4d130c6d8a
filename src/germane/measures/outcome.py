"""The outcome of a measure for one sample: a value or the reason why there is none, and the counted items.

`refusals` finds the samples for which a measure has no value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from germane.measures.measure import Measure
from germane.places.lists import Settings, field_text, rankings
from germane.places.places import Places
from germane.places.table import LabelChoice
from germane.questions.asking import Missing, Program, Unanswered
from germane.samples.contexts import hint_at_contexts, hint_at_gold, hint_at_qrels
from germane.tables.scores import WITHOUT_IDS
from germane.types import Context, Sample, Status, check_score


@dataclass(frozen=True, slots=True)
class Item:
    """One item that a measure counts, such as a claim that the contexts may support.

    `held` is the decision on the item, or None if the judge gave no answer. `text` names the item, and `why`
    is the reason for the decision. `weight` is its weight in the score, and `worth` the proportion of it that
    it earns, for partial credit; None means all of it if `held` is True, else nothing.
    """

    text: str
    held: bool | None
    why: str = ""
    weight: float = 1.0
    worth: float | None = None

    @property
    def gained(self) -> float:
        """The part of the item's weight that it earns."""
        return self.weight * (float(self.held is True) if self.worth is None else self.worth)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a measure for one sample: a value, or a status with its reason.

    `bounds` are the lowest and highest possible value of an incomplete result. The other fields are only for
    explanations, and are not stored: `items` are the counted items, `what` describes those that held ("claims
    supported by the contexts"), and `lacking` the others.
    """

    value: float | None = None
    status: Status = "ok"
    why: str | None = None
    bounds: tuple[float, float] | None = None
    items: tuple[Item, ...] = field(default=(), compare=False, repr=False)
    what: str = field(default="", compare=False, repr=False)
    lacking: str = field(default="missing", compare=False, repr=False)

    def __post_init__(self) -> None:
        check_score(self)


def ok(value: float, *, items: Iterable[Item] = (), what: str = "", lacking: str = "missing") -> Outcome:
    """Return the outcome with this value, or an error outcome if the value is not a finite number."""
    if not math.isfinite(value):
        return error(f"the measure returned {value}, which is not a finite number")
    return Outcome(value=float(value), items=tuple(items), what=what, lacking=lacking)


class Decided(Exception):
    """Raised by a function that several measures call, to end the measure early with this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


NO_CONTEXT = ok(0.0, items=[Item("No context retrieved", held=False)])


def skipped(why: str) -> Outcome:
    """Return the outcome of a sample that cannot be scored because data are missing; `why` says which."""
    return Outcome(status="skipped", why=why)


def error(why: str) -> Outcome:
    """Return the outcome of a sample whose scoring failed; `why` is the reason."""
    return Outcome(status="error", why=why)


def incomplete(why: str, bounds: tuple[float, float]) -> Outcome:
    """Return an incomplete outcome: answers are missing, and the score is somewhere within `bounds`.

    If the bounds are equal (but for rounding), the score is certain, and the outcome is ok.
    """
    if bounds[1] - bounds[0] < 1e-12:
        return Outcome(value=bounds[0], why=f"{why}; the missing answers cannot change the value")
    return Outcome(status="incomplete", why=why, bounds=bounds)


def proportion(
    verdicts: Sequence[bool | Unanswered | Item],
    *,
    hidden: Sequence[Unanswered] = (),
    nothing: str = "nothing to count",
    what: str = "",
    lacking: str = "missing",
) -> Outcome:
    """Return an outcome with the proportion (by weight) of the verdicts that are true.

    Without verdicts it is skipped, for the reason `nothing`. If some are missing (Unanswered), it is
    incomplete, with bounds; if all are, it is an error. `hidden` are unanswered questions for items to count:
    the bounds are then 0 and 1. `what` describes the true items in explanations, `lacking` the others.
    """
    plain = (Item("", None, v.why) if isinstance(v, Unanswered) else v for v in verdicts)
    items = tuple(v if isinstance(v, Item) else Item("", v) for v in plain)
    whole = math.fsum(item.weight for item in items)
    if not whole and not hidden:
        return skipped(nothing)
    gained = math.fsum(item.gained for item in items)
    missing = [item for item in items if item.held is None]
    if hidden:
        why = f"{len(hidden)} lists of items are missing: {hidden[0].why}"
        outcome = incomplete(why, (0.0, 1.0)) if items else error(why)
    elif missing:
        why = f"{len(missing)} of {len(items)} verdicts missing: {missing[0].why}"
        most = gained + math.fsum(item.weight for item in missing)
        outcome = incomplete(why, (gained / whole, most / whole)) if len(missing) < len(items) else error(why)
    else:
        outcome = Outcome(gained / whole)
    return replace(outcome, items=items, what=what, lacking=lacking)


def complement(outcome: Outcome) -> Outcome:
    """Return the outcome with the value v and the bounds (a, b) replaced by 1 - v and (1 - b, 1 - a)."""
    value = None if outcome.value is None else 1.0 - outcome.value
    bounds = outcome.bounds and (1.0 - outcome.bounds[1], 1.0 - outcome.bounds[0])
    return replace(outcome, value=value, bounds=bounds)


Result: TypeAlias = Outcome | float | int | bool


def safely(name: str, start: Callable[[], Program[Result] | Result]) -> Program[Outcome]:
    """Run a measure's function and return its outcome; a missing answer or an exception becomes an error.

    `start` calls the function, which returns a result or a generator of questions.
    """
    try:
        started = start()
        result = (yield from started) if isinstance(started, Generator) else started
        return result if isinstance(result, Outcome) else ok(float(result))
    except Decided as end:
        return end.outcome
    except Missing as missing:
        return error(missing.why)
    except Exception as fault:  # noqa: BLE001 - a measure may be a user's own; its fault is one sample's error
        return error(f"{name} raised {type(fault).__name__}: {fault}")


def texts_of(contexts: Sequence[Context]) -> tuple[str, ...]:
    """Return the contexts' texts in rank order. Raises Missing if a context has no text."""
    for context in contexts:
        if not context.text:
            raise Missing(f"the context {context.id!r} has no text")
    return tuple(context.text for context in contexts)


_ABSENT = {
    "contexts": "the sample's contexts are not known",
    "gold": "the sample has no gold groups",
    "forbidden": "the sample has no forbidden ids",
}
NO_QRELS, NOTHING_RELEVANT = "the sample has no qrels", "the sample's qrels have no relevant document"

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
        rules["qrels", rel or 1] = lambda: {
            n: skipped(NO_QRELS + hint_at_qrels(row) if row.qrels is None else NOTHING_RELEVANT)
            for n, row in enumerate(samples)
            if not row.qrels or max(row.qrels.values()) < (rel or 1)
        }
    counts = measure.name in {"num_ret", "num_rel"}  # of results or gold, whatever their ids
    if (of_gold and not counts) or {"gold", "forbidden"} & {*definition.needs}:
        final = measure.settings.get("over") == "final"
        rules["ids", final] = partial(_without_ids, samples, final=final)
    open_scale = rel is None and settings.judged_by == "labels" and settings.scale == "graded"
    open_scale = open_scale and (settings.labels is not None or any(row.grade_scale for row in samples))
    if ranked and (labels in {"human", "best"} or (labels == "judge" and open_scale)):
        rules[labels, rel is None] = partial(_unlabelled, settings, samples, labels, open_rel=rel is None)
    if ranked and labels in {"judge", "best"} and measure.settings.get("against") != "call":
        rules["query"] = partial(_lacking, "query", samples)
        if settings.against in {"reference", "response", "criterion"}:
            no_text = skipped(f"the sample has no {settings.against} to judge against")
            shown = (field_text(row, settings.against) for row in samples)
            rules["against"] = lambda: {n: no_text for n, text in enumerate(shown) if text is None}
    outcomes: Broken = {}
    for name, rule in rules.items():  # the first failed check decides
        if name not in known:
            known[name] = rule()
        outcomes = {**known[name], **outcomes}
    return outcomes


def _unlabelled(settings: Settings, samples: Sequence[Sample], source: str, *, open_rel: bool) -> Broken:
    """Return a skipped outcome for each sample without people's labels, or with labels on a wrong scale.

    Labels may be missing unless the `source` is "human". With "best", their scale must be the judge's. With
    another source, the scale matters only if `open_rel` is True (`rel` is not set): it must then be yes/no or
    0 to 3.
    """
    best = source == "best"
    people, judged, broken = Places(LabelChoice("human", "need", final=False), settings), settings.scale, {}
    people.add(samples)
    for number in range(len(samples)):
        rows = people.read(number, None)
        labelled = people.labelled[rows]
        scales = {people.scale[at] for at in rows if people.labelled[at]}
        other = sorted(scales - ({judged} if best else {"graded", "binary"}))
        if other and best:
            fix = f", or the scale {other[0]}" if other[0] in {"graded", "binary"} else ""
            broken[number] = skipped(
                f"labels=best needs one scale, but people's labels are {other[0]} and the judge's {judged}; "
                f"use labels=human or labels=judge{fix}"
            )
        elif other and open_rel:
            why = f"people's grades are on the scale {other[0]}: set the lowest relevant grade, e.g. rel=2"
            broken[number] = skipped(why)
        elif source == "human" and len(labelled) and not labelled.any():
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
    why, result = _ABSENT.get(need, f"the sample has no {need}"), {}
    for n in lacking:
        hint = hint_at_contexts(samples[n]) if need == "contexts" else ""
        result[n] = error(fault) if (fault := samples[n].error) else skipped(why + hint)
    return result


def _without_ids(samples: Sequence[Sample], *, final: bool) -> Broken:
    """Return a skipped outcome for each sample whose (final) lists have contexts, but no document ids.

    The reason says so if gold ids occur as the contexts' texts or in one of their metadata fields.
    """
    broken = {}
    for number, sample in enumerate(samples):
        lists = [contexts for _, contexts in rankings(sample, final=final)]
        if any(lists) and all(context.id is None for contexts in lists for context in contexts):
            broken[number] = skipped(WITHOUT_IDS + hint_at_gold(sample))
    return broken
