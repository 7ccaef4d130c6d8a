"""Does each sentence of the response cite contexts that support it? Citation recall and precision as in ALCE."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from germane.measures.defining import measure
from germane.measures.outcome import Item, Outcome, proportion, skipped
from germane.measures.passages import rankings, texts_of
from germane.questions import CitationSupport, Cited
from germane.questions.asking import Program, ask
from germane.questions.text import blank, sentences, words
from germane.types import Context, Sample

__all__ = ["Citing", "citation_precision", "citation_recall", "citing"]

_MARK = re.compile(r"\s{0,2}[\[【]([^\[\]【】\n]{1,60})[\]】]")
_LEADING = re.compile(rf"\A(?:{_MARK.pattern})+[\s.,;:!?\u3002\uff1b\uff0c]*")
_RANGE = r"\^?(\d{1,3})(?:\s*[-–]\s*(\d{1,3}))?"  # a number of four digits is a year
_PART = re.compile(_RANGE)
_NUMBERS = re.compile(rf"{_RANGE}(?:\s*[,;\uff0c\u3001]\s*{_RANGE})*")
_WIDEST = 50
"""The most contexts that one range like [3-7] may name."""
NO_SUCH, EMPTY = "there is no such context", "the context is empty"


@dataclass(frozen=True, slots=True)
class Citing:
    """One sentence without its marks, and the places (from 1) of the contexts that it cites; 0 = no such context."""

    text: str
    places: tuple[int, ...]


def citing(response: str, contexts: Sequence[Context]) -> list[Citing]:
    """The sentences of a response with what each cites.

    A citation is a number in brackets, counted from 1 over the contexts, a list or range of them ([1, 3], [2-4],
    【1】), or the id of a context ([d7]). One that follows the full stop belongs to the sentence before it.
    """
    ids = {context.id: place for place, context in reversed(list(enumerate(contexts, 1))) if context.id}
    found: list[Citing] = []
    for sentence in sentences(response):
        lead = _LEADING.match(sentence)
        if lead and found:
            late = _places(lead.group(), ids, len(contexts))
            found[-1] = Citing(found[-1].text, tuple(dict.fromkeys((*found[-1].places, *late))))
            sentence = sentence[lead.end() :]  # noqa: PLW2901 - what is left is the sentence
        places = _places(sentence, ids, len(contexts))
        text = _without(sentence, ids)
        if words(text):
            found.append(Citing(text, places))
    return found


def _places(text: str, ids: Mapping[str, int], count: int) -> tuple[int, ...]:
    """The places cited in a text, each once; a number that no context has is place 0."""
    found: dict[int, None] = {}
    for mark in _MARK.finditer(text):
        for number in _named(mark[1], ids):
            found[number if number <= count else 0] = None
    return tuple(found)


def _named(inner: str, ids: Mapping[str, int]) -> list[int]:
    if inner.strip() in ids:
        return [ids[inner.strip()]]
    if not _NUMBERS.fullmatch(inner.strip()):
        return []
    found: list[int] = []
    for part in _PART.finditer(inner):
        first, last = int(part[1]), int(part[2] or part[1])
        found += range(first, last + 1) if 0 <= last - first < _WIDEST else []
    return found


def _without(sentence: str, ids: Mapping[str, int]) -> str:
    return _MARK.sub(lambda mark: "" if _named(mark[1], ids) else mark[0], sentence).strip()


@measure(
    "citation_recall",
    needs=("response", "contexts"),
    formula="sentences of the response that their cited contexts, together, support / all its sentences",
    reference="Gao et al., ALCE (EMNLP 2023)",
    nothing="the response has no sentences: skipped; a sentence without citation is not supported; nothing cited: 0",
    calls="1 a sample (shared with citation_precision)",
)
def citation_recall(sample: Sample) -> Program[Outcome]:
    """Share of the response's sentences that are fully supported by the contexts that they cite."""
    spoken, verdicts = yield from _judged(sample)
    items = [
        Item(
            one.text,
            verdict is not None and verdict.supported,
            verdict.reasoning if verdict else _uncited(one),
        )
        for one, verdict in zip(spoken, verdicts, strict=True)
    ]
    return proportion(
        items, nothing="the response has no sentences", what="sentences supported by what they cite"
    )


@measure(
    "citation_precision",
    needs=("response", "contexts"),
    formula="citations with a part in supporting their sentence / all citations",
    reference="Gao et al., ALCE (EMNLP 2023)",
    nothing="the response cites nothing: skipped; a citation of a context that there is not: a miss",
    calls="1 a sample (shared with citation_recall)",
)
def citation_precision(sample: Sample) -> Program[Outcome]:
    """Share of the citations that their sentence needs: it is supported, and this context has a part in that.

    A context has a part where it supports all of the sentence alone, or a part of it that the others do not.
    """
    spoken, verdicts = yield from _judged(sample)
    items = []
    for one, verdict in zip(spoken, verdicts, strict=True):
        useful = verdict.contexts if verdict and verdict.supported else ()
        why = verdict.reasoning if verdict else EMPTY
        items += [
            Item(f"[{place or '?'}] {one.text}", place in useful, why if place else NO_SUCH)
            for place in one.places
        ]
    if not items:
        return skipped("the response cites nothing")
    return proportion(items, what="citations support their sentence")


def _uncited(one: Citing) -> str:
    if any(one.places):
        return "it cites a context that is empty"
    return "it cites a context that there is not" if one.places else "it cites nothing"


def _judged(sample: Sample) -> Program[tuple[list[Citing], list[Cited | None]]]:
    """The sentences, and for each that cites a context: whether that supports it, in the contexts' own numbers.

    The judge is shown the cited contexts alone, so that changing another changes no verdict, in the order of their
    texts, so that their ranks do not either; an empty one supports nothing. Contexts are counted in the final list
    or, where there is none, over all calls as they came.
    """
    final = sample.contexts is not None
    contexts = [context for _, found in rankings(sample, final=final) for context in found]
    spoken = citing(sample.response or "", contexts)
    cited = {place for one in spoken for place in one.places if place}
    text = dict(zip(cited, texts_of([contexts[place - 1] for place in cited]), strict=True))
    used = sorted(
        (place for place in cited if not blank(text[place])), key=lambda place: (text[place], place)
    )
    number = {place: n for n, place in enumerate(used, 1)}
    asked = [one for one in spoken if not number.keys().isdisjoint(one.places)]
    if not asked:
        return spoken, [None] * len(spoken)
    marked = tuple(_marked(one, number) for one in asked)
    answers: Iterator[Cited] = iter(
        (yield from ask(CitationSupport(marked, tuple(text[place] for place in used))))
    )
    verdicts = (None if number.keys().isdisjoint(one.places) else next(answers) for one in spoken)
    return spoken, [
        verdict
        and Cited(verdict.supported, tuple(sorted(used[n - 1] for n in verdict.contexts)), verdict.reasoning)
        for verdict in verdicts
    ]


def _marked(one: Citing, number: dict[int, int]) -> str:
    marks = sorted(number[place] for place in one.places if place in number)
    return f"{one.text} {''.join(f'[{mark}]' for mark in marks)}"
