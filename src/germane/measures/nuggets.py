"""Nuggets - single facts that a good answer holds, vital or okay - and how many of them the contexts hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from germane.measures.defining import measure
from germane.measures.judged import nothing_in
from germane.measures.measure import Param
from germane.measures.outcome import Item, Outcome, proportion, skipped
from germane.measures.passages import distinct_contexts, given, texts_of, turns
from germane.questions import Claims, Nuggeted, NuggetSupport
from germane.questions.asking import Program, ask
from germane.questions.text import blank
from germane.types import Json, Sample

__all__ = ["Nugget", "nugget_recall", "nuggets_of"]

_HOW = 'write "nuggets": ["a fact", {"text": "another", "importance": "vital"}]'
_OKAY = 0.5
"""What an okay nugget weighs beside a vital one where nuggets=weighted; also what partial support is worth."""


@dataclass(frozen=True, slots=True)
class Nugget:
    """One fact; a vital one has to be in a good answer, an okay one may be."""

    text: str
    vital: bool = True


def nuggets_of(given: Json) -> tuple[Nugget, ...]:
    """The nuggets in a sample's metadata; ValueError says how to write them."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(f"nuggets must be a list; {_HOW}")  # noqa: TRY004 - the user's data, not our types
    return tuple(map(_nugget, given))


def _nugget(given: Json) -> Nugget:
    if isinstance(given, str) and not blank(given):
        return Nugget(given.strip())
    text = given.get("text", given.get("nugget")) if isinstance(given, Mapping) else None
    importance = given.get("importance", "vital") if isinstance(given, Mapping) else None
    if not isinstance(text, str) or blank(text) or importance not in {"vital", "okay"}:
        raise ValueError(f"{given!r} is no nugget; {_HOW} (importance is vital or okay)")
    return Nugget(text.strip(), importance == "vital")


@measure(
    "nugget_recall",
    needs=("contexts", "query"),
    formula="sum of support * weight / sum of weights, over the nuggets; support: full 1, partial 0.5 (strict: 0)",
    reference="Pradeep et al., AutoNuggetizer (TREC RAG 2024): V_strict, V, A_strict, A, W_strict, W",
    nothing="no nuggets and no reference, or no nugget of the chosen sort: skipped; nothing retrieved: 0",
    calls="1 a sample + 1 a reference where the nuggets are its claims",
    params={
        "nuggets": Param(
            str,
            "vital",
            "which count: vital ones, all alike, or all with okay at 0.5",
            ("vital", "all", "weighted"),
        ),
        "strict": Param(bool, True, "whether partial support counts nothing (true) or 0.5 (false)"),
        "text": Param(
            str, "contexts", "what is read: the contexts together, or the response", ("contexts", "response")
        ),
    },
    answerable=True,
)
def nugget_recall(sample: Sample, *, nuggets: str, strict: bool, text: str) -> Program[Outcome]:
    """Share of the facts that a good answer holds which the contexts (or the response) state.

    Nuggets are the sample's own (`metadata.nuggets`: texts, or objects with text and importance vital or okay; a bare
    text is vital), else the claims of its reference, all vital. The default is AutoNuggetizer's V_strict.
    """
    contexts = distinct_contexts(sample)
    if text == "response" and given(sample, "response") is None:
        return skipped("no response")
    if text == "contexts" and (nothing := nothing_in(contexts)):
        return nothing
    shown = texts_of(contexts) if text == "contexts" else (sample.response or "",)
    said = sample.metadata.get("nuggets")
    if said is None and given(sample, "reference") is None:
        return skipped("no nuggets and no reference to make them of")
    if said is None:
        known = tuple(
            map(Nugget, (yield from ask(Claims(sample.query, sample.reference or "", turns(sample)))))
        )
    else:
        known = nuggets_of(said)
    chosen = [nugget for nugget in known if nugget.vital or nuggets != "vital"]
    if not chosen:
        return skipped("no nuggets of that sort" if known else "no nuggets")
    asked = NuggetSupport(sample.query, tuple(nugget.text for nugget in chosen), shown)
    answers = yield from ask(asked)
    items = [_item(nugget, one, nuggets, strict) for nugget, one in zip(chosen, answers, strict=True)]
    return proportion(items, what=f"nuggets supported by the {text}")


def _item(nugget: Nugget, verdict: Nuggeted, which: str, strict: bool) -> Item:
    partial = 0.0 if strict else _OKAY
    return Item(
        nugget.text,
        verdict.support == "full",
        ": ".join(filter(None, [verdict.support, verdict.reasoning])),
        weight=_OKAY if which == "weighted" and not nugget.vital else 1.0,
        worth={"full": 1.0, "partial": partial, "none": 0.0}[verdict.support],
    )
