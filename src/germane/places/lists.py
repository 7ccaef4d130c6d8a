"""The ranked lists of a sample, the texts that a judge is shown, and the rows of places.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias, cast

from msgspec import Meta, Struct

from germane.clean import blank
from germane.encoding import relevance_items
from germane.errors import InputError
from germane.tables.labels import LabelBook, places_of
from germane.types import Context, Json, Sample, Scale

__all__ = ["Settings"]


def rankings(sample: Sample, *, final: bool = False) -> list[tuple[str, tuple[Context, ...]]]:
    """Return (query, contexts) for each search of a sample; a sample without `calls` is one search.

    With `final`, return only the last list: the sample's own `contexts`, or those of its last call.
    """
    if not sample.calls or (final and sample.contexts is not None):
        return [] if sample.contexts is None else [(sample.query, sample.contexts)]
    return [
        (sample.query if blank(call.query or "") else call.query or "", call.contexts)
        for call in (sample.calls[-1:] if final else sample.calls)
    ]


def passage_key(context: Context) -> tuple[str, str | None]:
    """Return a key that is equal for equal passages: their text or, if that is blank, their id."""
    return ("", context.id) if blank(context.text) else (context.text, None)


def documents(sample: Sample, over: str, k: int | None = None) -> list[list[str]] | None:
    """Return the distinct document ids in the first `k` contexts (None = all) of each list.

    With `over="union"`, all searches are one list; with "final", only the last list is read. Returns None if
    no context has an id. If only some have, each of the others counts as a document that is not in the gold.
    """
    lists = [contexts for _, contexts in rankings(sample, final=over == "final")]
    if any(lists) and not any(context.id for contexts in lists for context in contexts):
        return None
    if over == "union":
        lists, k = [tuple(context for contexts in lists for context in contexts[:k])], None
    ids = ((f"\0{c.text}" if c.id is None else c.id for c in contexts[:k]) for contexts in lists)
    return [list(dict.fromkeys(names)) for names in ids]


def relevant(sample: Sample, rel: int) -> list[str]:
    """Return the ids of the gold documents with a grade of at least `rel`, highest grade first."""
    graded = sorted((sample.qrels or {}).items(), key=lambda entry: -entry[1])
    return [document for document, grade in graded if grade >= rel]


def distinct_contexts(sample: Sample, k: int | None = None) -> tuple[Context, ...]:
    """Return the distinct passages in the first `k` contexts (None = all) of each search, in order.

    Contexts that are only in the sample's final list come last.
    """
    lists = (*(contexts for _, contexts in rankings(sample)), sample.contexts or ())
    return distinct(contexts[:k] for contexts in lists)


def distinct(lists: Iterable[Iterable[Context]]) -> tuple[Context, ...]:
    """Return the distinct passages of several lists, in order of first appearance."""
    contexts: dict[tuple[str, str | None], Context] = {}
    for context in chain.from_iterable(lists):
        contexts.setdefault(passage_key(context), context)
    return tuple(contexts.values())


def field_text(sample: Sample, name: str) -> str | None:
    """Return the query, reference, response or criterion of a sample; None if it is missing or blank."""
    text: str | None = getattr(sample, name, None)
    return None if text is None or blank(text) else text


def turns(sample: Sample) -> tuple[tuple[str, str], ...]:
    """Return the conversation before the query as (role, text) pairs; turns without text are left out."""
    result = []
    for turn in sample.history:
        parts = turn.content if isinstance(turn.content, tuple) else (turn.content,)
        texts = (piece.get("text") if isinstance(piece, Mapping) else piece for piece in parts)
        text = " ".join(text for text in texts if isinstance(text, str))
        if not blank(text):
            result.append((turn.role, text))
    return tuple(result)


def labelled_contexts(sample: Sample) -> Iterator[tuple[str, Context]]:
    """Yield (key, context) for each context of a sample's lists; people's labels are stored by this key."""
    contexts = list(sample.retrieved())
    cells = ((sample.query, context.passage) for context in contexts)
    return zip(relevance_items(cells, turns(sample)), contexts, strict=True)


AGAINST = ("auto", "query", "reference", "response", "criterion")
RUBRICS = ("trec", "usefulness")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings for judging relevance, which are the same for all measures of an evaluation.

    `against` names the field of the sample that a judge sees beside the query; "auto" is the reference or,
    without one, the criterion. `scale` is "graded" (0-3) or "binary", and `rubric` the wording of the grades.
    `labels` are people's labels, which take precedence over those on contexts. `judged_by` names the labels
    that replace a judge's verdicts: "labels" (people's), "gold", or "" (a judge is asked).
    """

    against: str = "auto"
    scale: Scale = "graded"
    rubric: str = "trec"
    labels: LabelBook | None = None
    judged_by: Literal["", "labels", "gold"] = ""

    def __post_init__(self) -> None:
        names = {"against": AGAINST, "scale": ("graded", "binary"), "rubric": RUBRICS}
        for name, choices in names.items():
            if (value := getattr(self, name)) not in choices:
                fix = f"write one of {', '.join(choices)}"
                raise InputError(f"unknown value {value!r} of the setting {name}", fix=fix)

    @classmethod
    def of(cls, against: str | None, scale: str | None, rubric: str | None = None) -> Settings:
        """Return the settings with these values from flags or a file; None means the default.

        Raises InputError for a value that does not exist, or a rubric of grades on the binary scale.
        """
        if scale == "binary" and rubric not in {None, "trec"}:
            problem = f"the rubric {rubric} words the grades 0 to 3, but the scale binary asks for yes or no"
            raise InputError(problem, fix="leave out either the rubric or the scale binary")
        return cls(against or "auto", cast("Scale", scale or "graded"), rubric or "trec")

    @classmethod
    def stored(cls, manifest: Mapping[str, Json], labels: LabelBook | None = None) -> Settings:
        """Return the settings stored in a report's manifest, with `labels` as people's labels."""
        made = cls(**(manifest.get("settings") or {}), labels=labels)
        return made.with_judge(str((manifest.get("judge") or {}).get("source") or ""))

    def with_judge(self, name: str) -> Settings:
        """Return these settings for a judge; the names "labels" and "gold" set `judged_by`."""
        known = name.casefold()
        return replace(self, judged_by=cast("Any", known if known in {"labels", "gold"} else ""))

    @property
    def asked(self) -> dict[str, str]:
        """The scale and the rubric, as keyword arguments of a relevance question."""
        return {"scale": self.scale, **({"rubric": self.rubric} if self.rubric != "trec" else {})}

    def shown_with(self, sample: Sample) -> dict[str, str]:
        """Return {field: text} for the field that a judge sees beside the query and the passage, or {}."""
        names = ("reference", "criterion") if self.against == "auto" else (self.against,)
        texts = ((name, field_text(sample, name)) for name in names if name != "query")
        return next(({name: text} for name, text in texts if text), {})


class PlaceRow(Struct, frozen=True, gc=False):
    """One item that was judged by a judge or a person: a ranked passage, a text or a claim.

    `item` is the digest of the judged texts. For a passage, `call` is the number of its search and `rank` its
    rank (both from 1), `document` is its document id, and `gold` is the grade of that document. Each of them
    is None if it is unknown, or if the item is not a passage. For one of several claims, `of` is the item
    that contains all claims, and `part` is the claim's number, from 1.
    """

    item: str
    kind: str
    sample: str
    system: str = ""
    trial: int = 0
    call: Annotated[int, Meta(ge=1)] | None = None
    rank: Annotated[int, Meta(ge=1)] | None = None
    document: str | None = None
    gold: int | None = None
    of: str | None = None
    part: Annotated[int, Meta(ge=1)] | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of the sample that the item belongs to: id, system and trial."""
        return self.sample, self.system, self.trial


AskedItem: TypeAlias = tuple[str, str, str | None, str | None, tuple[str, ...]]
"""A question's item and kind, the judged query and passage (None: no such text), and its parts' items."""


def places_asked(sample: Sample, asked: Iterable[AskedItem]) -> Iterator[PlaceRow]:
    """Yield rows of places.jsonl: the ranks at which the passages in `asked` questions were retrieved.

    A question about a passage has one row for each rank of the passage in the sample's lists, if its query is
    that of the sample or of the search. Any other question, and each sub-question, has one row without a
    rank. A repeated question counts once.
    """
    distinct: dict[str, AskedItem] = {}
    for row in asked:
        distinct.setdefault(row[0], row)
    lists = sample.lists()
    of_text: dict[str | None, list[tuple[int, int, Context]]] = {}
    for place in places_of(sample) if distinct else ():
        of_text.setdefault(place[2].text, []).append(place)
    name, gold = sample.key, sample.qrels or {}
    for item, kind, query, passage, parts in distinct.values():
        same = of_text.get(passage, ())
        places = [place for place in same if query in (lists[place[0] - 1][0], sample.query)]
        for call, rank, context in places:
            grade = None if context.id is None else gold.get(context.id)
            yield PlaceRow(item, kind, *name, call, rank, context.id, grade)
        if not places:
            yield PlaceRow(item, kind, *name)
        for number, part in enumerate(parts, 1):
            yield PlaceRow(part, kind, *name, of=item, part=number)
