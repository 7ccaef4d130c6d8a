"""Measures of the response: whether its claims and citations are supported, and which facts it states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from germane.clean import blank
from germane.measures.context import contexts_of, supported_share
from germane.measures.declaration import MeasureOptions, measure
from germane.measures.measure import Param, one_of
from germane.measures.outcome import Item, Outcome, complement, proportion, safely, skipped, texts_of
from germane.places.lists import field_text, rankings, turns
from germane.questions.asking import Program, ask, ask_each
from germane.questions.kinds import (
    CitationSupport,
    CitationVerdict,
    Claims,
    Importance,
    NuggetSupport,
    StatementRelevance,
    Support,
)
from germane.questions.text import sentences, words
from germane.types import Context, Json, Sample

_CALLS = "2 per sample (shared by faithfulness, hallucination, context_utilisation, noise_sensitivity)"


@measure(
    needs=("response", "contexts"),
    formula="claims of the response that the contexts support / all its claims",
    reference="Es et al., RAGAS (EACL 2024)",
    nothing="the response claims nothing: skipped; nothing retrieved: 0",
    calls=_CALLS,
    aliases=("groundedness",),
)
def faithfulness(sample: Sample) -> Program[Outcome]:
    """Share of the response's claims that are supported by the retrieved contexts, alone or together."""
    what = "claims of the response supported by the contexts"
    return (yield from supported_share(sample, "response", "claims", what))


@measure(
    needs=("response", "contexts"),
    formula="1 - faithfulness: claims of the response that no context supports / all its claims",
    reference="germane; DeepEval's measure of that name counts contradicted contexts instead",
    nothing="the response claims nothing: skipped; nothing retrieved: 1",
    calls=_CALLS,
    better="lower",
    aliases=("unfaithfulness",),
)
def hallucination(sample: Sample) -> Program[Outcome]:
    """Share of the response's claims that are not supported by any retrieved context. Lower is better."""
    supported = yield from safely("faithfulness", lambda: faithfulness.definition.compute(sample))
    return complement(supported)


@measure(
    needs=("response", "query"),
    formula="statements of the response that address the query / all its statements",
    reference="DeepEval answer relevancy; Ragas's measure of that name compares generated questions by embedding",
    nothing="the response states nothing: skipped",
    calls="1 per sample",
    aliases=("answer_relevance", "response_relevancy"),
)
def answer_relevancy(sample: Sample) -> Program[Outcome]:
    """Share of the response's statements that address the query.

    The judge sees only the query and the response.
    """
    asked = StatementRelevance(query=sample.query, passage=sample.response or "", history=turns(sample))
    statements = yield from ask(asked)
    items = [Item(statement.text, statement.relevant) for statement in statements]
    return proportion(
        items,
        nothing="the response states nothing",
        what="statements address the query",
        lacking="not relevant",
    )


@measure(
    needs=("response", "contexts"),
    formula="contexts that support a claim of the response / contexts",
    reference="germane, from the verdicts of faithfulness; Ragas's context utilization is context_precision "
    "judged against the response",
    nothing="the response claims nothing: skipped; nothing retrieved: 0",
    calls=_CALLS,
)
def context_utilisation(sample: Sample) -> Program[Outcome]:
    """Share of the distinct contexts that support a claim of the response."""
    return (yield from supported_share(sample, "response", "contexts", "contexts used by the response"))


_NOISE = one_of(
    "which contexts an incorrect claim came from: relevant ones (that support a claim of the reference), irrelevant "
    "ones alone, or any",
    "relevant",
    "irrelevant",
    "any",
)


@measure(
    needs=("response", "contexts", "reference"),
    formula="claims of the response that the reference does not support and a (relevant) context does / all its claims",
    reference="Ru et al., RAGChecker (NeurIPS 2024); Ragas noise_sensitivity, mode=relevant or irrelevant",
    nothing="the response claims nothing, or nothing retrieved: skipped",
    calls="5 per sample (4 of them shared with context_recall and faithfulness)",
    params={"contexts": _NOISE},
    better="lower",
    answerable=True,
)
def noise_sensitivity(sample: Sample, *, contexts: str) -> Program[Outcome]:
    """Share of the response's claims that are wrong and supported by a context. Lower is better.

    A claim is wrong if the reference does not support it. A context is relevant if it supports a claim of the
    reference. `contexts` says which contexts count. With `irrelevant`, a wrong claim counts if it is
    supported by an irrelevant context and by no relevant context.
    """
    nothing = skipped("the sample has no contexts that could mislead")
    retrieved = texts_of(contexts_of(sample, nothing=nothing))
    reference = sample.reference or ""
    claims, expected = yield from ask_each(
        Claims(sample.query, text, turns(sample)) for text in (sample.response or "", reference)
    )
    if not claims:
        return skipped("the response makes no claims")
    stated = " ".join(expected) or reference  # a short reference says little without what was asked
    asked = [Support(claims, (stated,)), Support(claims, retrieved)]
    true, backed, *rest = yield from ask_each([*asked, *([Support(expected, retrieved)] if expected else [])])
    useful = rest[0] if rest else ()
    relevant = {context for verdict in useful for context in verdict.contexts}
    items = []
    for claim, correct, verdict in zip(claims, true, backed, strict=True):
        positions = set(verdict.contexts)
        good = positions & relevant
        blamed = {"any": positions, "relevant": good, "irrelevant": set() if good else positions}[contexts]
        wrong = bool(blamed) and not correct.contexts
        items.append(Item(claim, not wrong, verdict.reasoning if wrong else ""))
    return complement(proportion(items, what=f"claims not misled by {contexts} contexts", lacking="misled"))


_MARK = re.compile(r"\s{0,2}[\[【]([^\[\]【】\n]{1,60})[\]】]")
_LEADING = re.compile(rf"\A(?:{_MARK.pattern})+[\s.,;:!?\u3002\uff1b\uff0c]*")
_RANGE = r"\^?(\d{1,3})(?:\s*[-–]\s*(\d{1,3}))?"  # a number of four digits is a year
_PART = re.compile(_RANGE)
_NUMBERS = re.compile(rf"{_RANGE}(?:\s*[,;\uff0c\u3001]\s*{_RANGE})*")
_WIDEST = 50
"""The most contexts in one cited range such as [3-7]; a longer range is not a citation."""


def citing(response: str, contexts: Sequence[Context]) -> list[tuple[str, tuple[int, ...]]]:
    """Return each sentence of a response, without citations, and the positions in `contexts` that it cites.

    Positions count from 1; one that does not exist is negative or 0. A citation is a position, a list or
    range of positions ([1, 3], [2-4], 【1】), or an id ([d7]), in brackets. A citation after the full stop
    belongs to the sentence before it.
    """
    ids = {context.id: position for position, context in reversed(list(enumerate(contexts, 1))) if context.id}
    citings: list[tuple[str, tuple[int, ...]]] = []
    for sentence in sentences(response):
        if citings and (lead := _LEADING.match(sentence)):
            _, late = _read(lead.group(), ids, len(contexts))
            before, cited = citings[-1]
            citings[-1] = before, tuple(dict.fromkeys((*cited, *late)))
            sentence = sentence[lead.end() :]  # noqa: PLW2901 - what is left is the sentence
        text, positions = _read(sentence, ids, len(contexts))
        if words(text):
            citings.append((text, positions))
    return citings


def _read(text: str, ids: Mapping[str, int], count: int) -> tuple[str, tuple[int, ...]]:
    """Return a text without its citations, and the distinct positions that it cites."""
    result: dict[int, None] = {}

    def without(mark: re.Match[str]) -> str:
        inner = mark[1].strip()  # an id, or numbers and ranges of numbers
        numbers = [ids[inner]] if inner in ids else list[int]()
        for match in _PART.finditer(inner) if inner not in ids and _NUMBERS.fullmatch(inner) else ():
            first, last = int(match[1]), int(match[2] or match[1])
            numbers += range(first, last + 1) if 0 <= last - first < _WIDEST else []
        result.update(dict.fromkeys(number if number <= count else -number for number in numbers))
        return "" if numbers else mark[0]

    return _MARK.sub(without, text).strip(), tuple(result)


@measure(
    needs=("response", "contexts"),
    formula="sentences of the response that their cited contexts, together, support / all its sentences",
    reference="Gao et al., ALCE (EMNLP 2023)",
    nothing="the response has no sentences: skipped; a sentence without citation is not supported; nothing cited: 0",
    calls="1 per sample (shared with citation_precision)",
)
def citation_recall(sample: Sample) -> Program[Outcome]:
    """Share of the response's sentences that are fully supported by the contexts they cite."""
    items = []
    for text, positions, verdict in (yield from _judged(sample)):
        why = "the sentence cites no existing context" if positions else "the sentence cites nothing"
        if any(position > 0 for position in positions):
            why = verdict.reasoning if verdict else "the sentence cites a context that is empty"
        items.append(Item(text, bool(verdict and verdict.supported), why))
    nothing, what = "the response has no sentences", "sentences supported by what they cite"
    return proportion(items, nothing=nothing, what=what, lacking="not supported")


@measure(
    needs=("response", "contexts"),
    formula="citations with a part in supporting their sentence / all citations",
    reference="Gao et al., ALCE (EMNLP 2023)",
    nothing="the response cites nothing: skipped; a citation of a context that does not exist: a miss",
    calls="1 per sample (shared with citation_recall)",
)
def citation_precision(sample: Sample) -> Program[Outcome]:
    """Share of the citations that help to support their sentence.

    A citation helps if its context supports the sentence alone, or supports a part of the sentence that the
    other cited contexts do not. In a sentence that is not fully supported, no citation counts.
    """
    items: list[Item] = []
    for text, positions, verdict in (yield from _judged(sample)):
        useful = verdict.contexts if verdict and verdict.supported else ()
        why = verdict.reasoning if verdict else "the context is empty"
        absent = "no such context"
        items += [Item(f"[{abs(at)}] {text}", at in useful, why if at > 0 else absent) for at in positions]
    nothing, what = "the response cites nothing", "citations support their sentence"
    return proportion(items, nothing=nothing, what=what, lacking="not supported")


def _judged(sample: Sample) -> Program[list[tuple[str, tuple[int, ...], CitationVerdict | None]]]:
    """Return (sentence, positions of the cited contexts, verdict) for each sentence of the response.

    The verdict is None if the sentence cites no context with text. The judge sees only the cited contexts,
    sorted by their texts, so that other contexts and ranks do not change a verdict. Positions count in the
    final list or, if there is none, over the contexts of all searches.
    """
    final = sample.contexts is not None
    contexts = [context for _, contexts in rankings(sample, final=final) for context in contexts]
    spoken = citing(sample.response or "", contexts)
    cited = {position for _, positions in spoken for position in positions if position > 0}
    text = dict(zip(cited, texts_of([contexts[position - 1] for position in cited]), strict=True))
    used = sorted((position for position in cited if not blank(text[position])), key=lambda n: (text[n], n))
    number = {position: n for n, position in enumerate(used, 1)}
    marks = [sorted(number[at] for at in positions if at in number) for _, positions in spoken]
    both = list(zip(spoken, marks, strict=True))
    marked = tuple(f"{said} {''.join(f'[{n}]' for n in mark)}" for (said, _), mark in both if mark)
    if not marked:
        return [(*sentence, None) for sentence in spoken]
    answers = iter((yield from ask(CitationSupport(marked, tuple(text[position] for position in used)))))
    judged = []
    for sentence, mark in both:
        verdict = next(answers) if mark else None
        if verdict is not None:
            cited_by = tuple(sorted(used[n - 1] for n in verdict.contexts))
            verdict = verdict.model_copy(update={"contexts": cited_by})
        judged.append((*sentence, verdict))
    return judged


_HOW = 'write "nuggets": ["a fact", {"text": "another", "importance": "vital"}]'
_OKAY = 0.5
"""The weight of an okay nugget with nuggets=weighted (vital: 1), and the credit for partial support."""

_Nuggets: TypeAlias = tuple[tuple[str, bool], ...]
"""Pairs of a fact and a boolean: True if it is vital (a good answer must state it), False if it is okay."""


def nuggets_of(value: Json) -> _Nuggets:
    """Return the nuggets in the `nuggets` of a sample's metadata. Raises ValueError if they are malformed."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"nuggets must be a list; {_HOW}")  # noqa: TRY004 - the user's data, not our types
    nuggets = []
    for item in value:
        fields = item if isinstance(item, Mapping) else {"text": item}
        text, importance = fields.get("text", fields.get("nugget")), fields.get("importance", "vital")
        if not isinstance(text, str) or blank(text) or importance not in {"vital", "okay"}:
            raise ValueError(f"the nugget {item!r} is invalid; {_HOW} (importance is vital or okay)")
        nuggets.append((text.strip(), importance == "vital"))
    return tuple(nuggets)


_NUGGETS: MeasureOptions = {
    "formula": "sum of support * weight / sum of weights, over the nuggets; support 1, partial_support 0.5 (strict: 0)",
    "reference": "Pradeep et al., AutoNuggetizer (TREC RAG 2024): V_strict, V, A_strict, A, W_strict, W",
    "nothing": "no nuggets and no reference, or no vital one where these count: skipped; nothing retrieved: 0",
    "calls": "1 per sample + 2 per reference where the nuggets are its claims (shared by all scores of nuggets)",
    "params": {
        "nuggets": one_of(
            "which count: vital ones, all alike, or all with okay at 0.5", "vital", "all", "weighted"
        ),
        "strict": Param(bool, True, "whether partial support counts nothing (true) or 0.5 (false)"),
        "text": one_of("what is read: the contexts together, or the response", "contexts", "response"),
    },
    "answerable": True,
}


@measure(
    **_NUGGETS,
    needs=("contexts", "query"),
    when={"text": "contexts"},
    presets={
        "strict_vital_score": {},
        "vital_score": {"strict": False},
        "strict_all_score": {"nuggets": "all"},
        "all_score": {"nuggets": "all", "strict": False},
        "strict_weighted_score": {"nuggets": "weighted"},
        "weighted_score": {"nuggets": "weighted", "strict": False},
    },
)
def nugget_recall(sample: Sample, *, nuggets: str, strict: bool) -> Program[Outcome]:
    """Share of the nuggets (facts of a good answer) that are stated by the contexts together.

    Nuggets are read from `metadata.nuggets`: a string is a vital nugget, and an object has `text` and
    `importance` (vital or okay). Without this field, the claims of the reference are the nuggets, and the
    judge decides which are vital; a single claim is always vital. By default, the score is AutoNuggetizer's
    V_strict.
    """
    return (yield from _nuggets_held(sample, "contexts", nuggets, strict=strict))


@measure("nugget_recall", **_NUGGETS, needs=("response", "query"), when={"text": "response"})
def _nuggets_of_response(sample: Sample, *, nuggets: str, strict: bool) -> Program[Outcome]:
    """Share of the nuggets that are stated by the response (AutoNuggetizer's score)."""
    return (yield from _nuggets_held(sample, "response", nuggets, strict=strict))


def _nuggets_held(sample: Sample, what: str, which: str, *, strict: bool) -> Program[Outcome]:
    def texts() -> tuple[str, ...]:
        return (sample.response or "",) if what == "response" else texts_of(contexts_of(sample))

    nuggets: _Nuggets
    if (own := sample.metadata.get("nuggets")) is not None:
        nuggets = nuggets_of(own)
    elif field_text(sample, "reference") is None:
        return skipped("the sample has no nuggets, and no reference to make nuggets from")
    else:
        texts()  # nothing retrieved: 0, before the judge is asked
        claims = yield from ask(Claims(sample.query, sample.reference or "", turns(sample)))
        weights: Sequence[str] = ["vital"] * len(claims)  # the only fact of a reference is what was asked for
        if which != "all" and len(claims) > 1:
            weights = yield from ask(Importance(sample.query, claims, turns(sample)))
        nuggets = tuple((claim, weight == "vital") for claim, weight in zip(claims, weights, strict=True))
    if not any(vital or which != "vital" for _, vital in nuggets):
        return skipped("none of the sample's nuggets is vital" if nuggets else "the sample has no nuggets")
    answers = yield from ask(NuggetSupport(sample.query, tuple(text for text, _ in nuggets), texts()))
    worth = {"support": 1.0, "partial_support": 0.0 if strict else _OKAY, "not_support": 0.0}
    items = [
        Item(
            text,
            answer.support == "support",
            ": ".join(filter(None, [answer.support, answer.reasoning])),
            weight=_OKAY if which == "weighted" and not vital else 1.0,
            worth=worth[answer.support],
        )
        for (text, vital), answer in zip(nuggets, answers, strict=True)
        if vital or which != "vital"
    ]
    return proportion(items, what=f"nuggets supported by the {what}")
