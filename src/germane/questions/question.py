"""The base class of questions: items, keys, answer types, and how answers are split, merged and voted on."""

from __future__ import annotations

import hashlib
import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast

from germane.addons import all_of, load
from germane.clean import blank
from germane.encoding import canonical, digest
from germane.errors import AnswerError, Miscounted
from germane.types import Json

__all__ = ["Prompt", "Vote", "known_kinds"]

if TYPE_CHECKING:
    from germane.questions.payload import Limits, PayloadModel

A = TypeVar("A")


class Prompt(NamedTuple):
    """The prompt of a question: instructions, or a template in which the inputs are inserted."""

    text: str
    hash: str
    pieces: tuple[str, ...] = ()  # if the prompt is a template: text and variable names, alternating
    system: str | None = None  # the system prompt to use with it; None for the usual one


class Vote(NamedTuple):
    """The result of a majority vote: the verdict as a payload, and the share of votes that agree with it."""

    payload: dict[str, Json]
    agreement: float  # for a list of verdicts, the mean over its items


class Question(ABC, Generic[A]):
    """One question for a judge; `A` is the type of its answer. Subclasses are frozen dataclasses.

    A new type of question defines `kind`, `item_fields`, `Payload`, `answer` and `typical`, and needs a
    prompt file `prompts/<kind>.md`. If the answer is a list of verdicts (for example one per claim), the type
    also defines `verdicts`, from which follows how such answers are split, merged and voted on.
    """

    __slots__ = ("_item",)

    kind: ClassVar[str]  # the same name in the ledger, in prompt files and on the command line
    batched: ClassVar[bool] = False  # one request may contain this question about several texts
    item_fields: ClassVar[tuple[str, ...]] = ()  # the judged fields; the last one is the text or the contexts
    context_fields: ClassVar[tuple[str, ...]] = ()  # shown unless empty; part of the key but not of the item
    hidden_fields: ClassVar[tuple[str, ...]] = ()  # fields of the item that the prompt does not show
    by_program: ClassVar[str] = ""  # the judge of this kind (`module:object`, called with `ask`), if special
    free_text: ClassVar[bool] = False  # the answer is the judge's text unchanged, `{"text": ...}`
    Payload: ClassVar[type[PayloadModel]]  # the type of the answer's JSON, which also gives the JSON Schema
    lists: ClassVar[str] = ""
    """The name of the list, if the answer is a list of things in the text (claims, entities); "" otherwise.

    The answer about an empty text is an empty list, without asking a judge.
    """
    verdicts: ClassVar[tuple[str, str] | None] = None
    """If the answer is a list of verdicts: the names of the list and of the field with the subject's number.

    The list contains one verdict per subject (claim, nugget). Subjects are numbered from 1.
    """
    subjects_field: ClassVar[str] = ""  # the field with the subjects; "": the field is named like the list

    _item: str

    @property
    def prompt(self) -> str:
        """The name of the question's prompt file."""
        return self.kind

    @property
    def wording(self) -> Prompt | None:
        """The question's own prompt, made by `prompts.worded`; None if it uses a prompt file."""
        return None

    @property
    def about(self) -> str:
        """The text that the question is about. Questions about the same text can be asked in one request."""
        text = getattr(self, self.item_fields[-1])
        return text if isinstance(text, str) else "\n".join(text)

    # The item and the key

    def inputs(self) -> dict[str, Json]:
        """Return the inputs that the prompt shows, by name: all fields that are neither empty nor hidden."""
        result = self.non_empty(self.prompt_fields())
        return {name: list(value) if isinstance(value, tuple) else value for name, value in result.items()}

    def non_empty(self, names: Iterable[str]) -> dict[str, Json]:
        """Return the values of the fields with these names, except empty ones."""
        values = {name: value for name in names if (value := getattr(self, name))}
        return {name: value for name, value in values.items() if type(value) is not str or not blank(value)}

    @classmethod
    def prompt_fields(cls) -> tuple[str, ...]:
        """Return the names of all fields that a prompt of this kind may show."""
        fields = (*cls.item_fields, *cls.context_fields)
        return tuple(name for name in fields if name not in cls.hidden_fields)

    def judged(self) -> dict[str, Json]:
        """Return the values whose digest is `item`, by name: `item_fields`, or all inputs if it is empty."""
        return {name: getattr(self, name) for name in self.item_fields} or self.inputs()

    @property
    def item(self) -> str:
        """The digest of the kind and judged texts, whatever the judge, prompt, scale or reference."""
        result: str = getattr(self, "_item", "")
        if not result:
            result = digest({"kind": self.kind, **self.judged()})
            object.__setattr__(self, "_item", result)
        return result

    def parts(self) -> tuple[str, ...]:
        """Return a digest for each subject (such as a claim) with its own verdict; () without subjects."""
        if self.verdicts is None:
            return ()
        subjects_name = self.subjects_field or self.verdicts[0]
        rest = {name: value for name, value in self.judged().items() if name != subjects_name}
        begun = hashlib.sha256(canonical({"judged": rest, "kind": self.kind})[:-1] + b',"part":')
        result = []
        for subject in self.subjects:
            hashed = begun.copy()
            hashed.update(canonical({self.verdicts[1]: subject}) + b"}")
            result.append(hashed.hexdigest()[:32])
        return tuple(result)

    def settings(self) -> dict[str, str]:
        """Return the settings that are part of the key (`against`, `scale`, `rubric`); {} without any."""
        return {}

    # The answer

    @classmethod
    def usual_payload(cls) -> type[PayloadModel]:
        """Return this kind's default payload type, whose field descriptions are part of the prompt hash."""
        return cls.Payload

    def payload_type(self, _payload: Json = None) -> type[PayloadModel]:
        """Return the payload type of this question; if a payload is given, the type that fits the payload."""
        return self.usual_payload()

    def schema(self) -> dict[str, Json]:
        """Return the strict JSON Schema of the answer."""
        return self.payload_type().model_schema()

    def limits(self) -> Limits:
        """Return the limits on the length of an answer, which grow with the length of the question's text."""
        from germane.questions.payload import LIST_LENGTH, Limits

        size = len(self.about.encode("utf-8", "replace"))
        bytes_each = max(1, round(size / max(1, len(self.about))))
        contexts = LIST_LENGTH + len(getattr(self, "contexts", ()))
        verdicts = self.verdicts[0] if self.verdicts else ""
        # rounded up to a power of two, so that few different schemas are sent
        size, contexts = (1 << max(0, count - 1).bit_length() for count in (size, contexts))
        return Limits(size, contexts, verdicts, len(self.subjects), bytes_each)

    def parse(self, payload: Json) -> A:
        """Return the typed answer in a payload. Raises AnswerError if the payload is unusable."""
        return self._typed(self.payload_type(payload).model_read(payload))

    def validate(self, payload: Json, *, as_answered: bool = False) -> Json:
        """Return the payload in the form that is stored: "2" and 2.0 become 2; other properties are removed.

        With `as_answered`, the payload may have another form than was requested, such as yes or no in place
        of a grade, or probabilities. Raises AnswerError if the payload is unusable.
        """
        value: Any = self.payload_type(payload if as_answered else None).model_read(payload)
        result: Json = value.model_dump(exclude_unset=True, by_alias=True)
        self._typed(value)
        return result

    def _typed(self, value: Any) -> A:
        """Return the typed answer in a payload; Miscounted unless each subject has exactly one verdict."""
        if self.verdicts is not None:
            (name, number), count = self.verdicts, len(self.subjects)
            verdicts: dict[int, Any] = {}
            for verdict in getattr(value, name):
                n = getattr(verdict, number)
                if not 1 <= n <= count or n in verdicts:
                    numbered = f"the {name} are numbered from 1 to {count}"
                    raise Miscounted(f"{number} {n} was judged twice or does not exist: {numbered}")
                verdicts[n] = verdict
            numbers = range(1, count + 1)
            if missing := [n for n in numbers if n not in verdicts]:
                counts = f"{len(verdicts)} verdicts for {count} {name}"
                raise Miscounted(f"{counts}: {number} {missing[0]} is missing")
            object.__setattr__(value, name, tuple(map(verdicts.__getitem__, numbers)))
        return self.answer(value)

    def answer(self, payload: Any) -> A:
        """Return the typed answer in a valid payload."""
        name = self.lists or (self.verdicts or ("",))[0]
        return cast("A", getattr(payload, name) if name else payload)

    def limited(self) -> tuple[dict[str, Json], int]:
        """Return the JSON Schema with `maxItems` and `maxLength`, and the maximum number of answer tokens."""
        return self.limits().limit(self.schema())

    def unasked(self) -> Json | AnswerError | None:
        """Return the payload for an empty text, an AnswerError for a missing text; None to ask a judge."""
        return {self.lists: []} if self.lists and blank(self.about) else None

    def with_ranks(self, payload: Json) -> Json:
        """Return a valid payload in which the contexts' numbers in the prompt are replaced by their ranks."""
        return payload

    @abstractmethod
    def typical(self) -> Json:
        """Return a payload of typical size, from which forecasts estimate the tokens of an answer."""

    def each(self, **verdict: Json) -> dict[str, Json]:
        """Return a payload in which the verdict on each subject (such as a claim) is `verdict`."""
        name, number = self.verdicts or ("", "")
        return {name: [{number: n, **verdict} for n in range(1, len(self.subjects) + 1)]}

    @property
    def subjects(self) -> tuple[Any, ...]:
        """The claims, nuggets or sentences that get one verdict each; () without a list of verdicts."""
        if self.verdicts is None:
            return ()
        return tuple(getattr(self, self.subjects_field or self.verdicts[0]))

    # Votes

    @property
    def voted(self) -> bool:
        """True if a vote on several answers is possible; False if each judge lists items of its own."""
        return self.verdicts is not None or all(
            field["type"] != "array" for field in self.schema()["properties"].values()
        )

    def vote(self, payloads: Sequence[Json]) -> Vote | None:
        """Return the majority vote on several payloads, or None if no vote is possible."""
        if not self.voted:
            return None
        answers = [self.validate(payload) for payload in payloads]
        if self.verdicts is None:
            vote = _majority(answers, self._voted_fields())
        else:  # a vote on each subject
            name, number = self.verdicts
            rows = [{item[number]: item for item in answer[name]} for answer in answers]
            votes = {n: _majority([row[n] for row in rows], self._voted_fields()) for n in sorted(rows[0])}
            agreement = math.fsum(voted.agreement for voted in votes.values()) / len(votes) if votes else 1.0
            vote = Vote({name: [{number: n, **voted.payload} for n, voted in votes.items()]}, agreement)
        try:
            self.parse(vote.payload)
        except AnswerError:  # the voted fields contradict each other (supported, but by no context)
            return None
        return vote

    def _voted_fields(self) -> Mapping[str, Mapping[str, Json]]:
        """Return the JSON Schema of each field of a verdict, except the number of its subject."""
        fields: Mapping[str, Mapping[str, Json]] = self.schema()["properties"]
        if self.verdicts is None:
            return fields
        name, number = self.verdicts
        verdict = fields[name]["items"]["properties"]
        return {field: schema for field, schema in verdict.items() if field != number}

    def short(self, payload: Json) -> str:
        """Return a payload as a short string without reasons: `3`, `yes`, `1: yes, 2: no`, `4 claims`."""
        if self.verdicts is None:
            schema = self.payload_type(payload).model_schema()
            return _in_short(self.validate(payload, as_answered=True), schema["properties"])
        name, number = self.verdicts
        rows = sorted(self.with_ranks(self.validate(payload))[name], key=lambda item: item[number])
        return ", ".join(f"{item[number]}: {_in_short(item, self._voted_fields())}" for item in rows)


AnyQuestion: TypeAlias = Question[Any]


def known_kinds(*, installed: bool = False) -> dict[str, type[AnyQuestion]]:
    """Return the question types by kind, with those of loaded or, with `installed`, all installed add-ons."""
    for module in ("relevance", "kinds"):
        import_module(f"germane.questions.{module}")
    for target in all_of("questions", installed=installed).values():
        load(target)
    result: dict[str, type[AnyQuestion]] = {}
    types: list[Any] = [Question]
    for kind in types:  # the loop adds the subclasses of each type
        types += kind.__subclasses__()
        if hasattr(kind, "kind"):
            # a dataclass with slots is a new class; the class that it was made from still is a subclass too
            named = getattr(sys.modules.get(kind.__module__), kind.__qualname__, kind)
            result.setdefault(kind.kind, named)  # a subclass with the same kind does not replace it
    return result


def key_of(question: AnyQuestion, identity: Mapping[str, Json], prompt_hash: str) -> str:
    """Return the ledger key of an answer: the digest of everything that can change the answer.

    That is the item, the other texts in the prompt (reference, response, criterion), the settings (against,
    scale, rubric), the hash of the prompt (the list prompt has its own hash), and the judge's identity
    (provider, model, custom base URL, parameters, replica). The key does not depend on ids, ranks, retriever
    scores, other questions in the request, or the output mode.
    """
    return keys_of(question, [question.item], identity, prompt_hash)[0]


def asked_as(question: AnyQuestion) -> dict[str, Json]:
    """Return a question's settings and, under `beside`, the digest of its inputs that are not judged."""
    texts = question.non_empty(question.context_fields)
    return {**question.settings(), **({"beside": digest(texts)} if texts else {})}


def keys_of(
    example: AnyQuestion, items: Iterable[str], identity: Mapping[str, Json], prompt_hash: str
) -> list[str]:
    """Return the keys that `key_of` returns for questions that differ from `example` only in their item.

    A key is the digest of {"as": settings, "beside": `context_fields`, "item", "judge", "prompt"}.
    """
    beside = example.non_empty(example.context_fields)
    spelt = canonical({"as": example.settings(), "beside": beside, "item": ""})
    begun = hashlib.sha256(spelt[:-2])
    end = b'",' + canonical({"judge": identity, "prompt": prompt_hash})[1:]
    result = []
    for item in items:
        value = begun.copy()
        value.update(item.encode() + end)
        result.append(value.hexdigest()[:32])
    return result


def _majority(answers: Sequence[Mapping[str, Json]], fields: Mapping[str, Mapping[str, Json]]) -> Vote:
    """Return the vote on several verdicts: the majority of each field. `fields` are the fields' JSON Schemas.

    The majority decides on grades, yes or no, enums (whose best value is first) and context numbers. Free text
    is taken from the vote that agrees with the majority in the most fields. The majority of grades is the lower
    median, where yes is above no: at every threshold it agrees with the majority of the votes, as the most
    frequent value would not (of 0, 0, 2, 2 and 3, the majority is at least 2, but 0 is as frequent as 2). Of
    context numbers, it is those in more than half of the votes; if there is none, but more than half of the
    votes contain a number, the most frequent numbers.
    """
    middle = (len(answers) - 1) // 2
    decided: dict[str, Json] = {}
    for name, field in fields.items():
        values: list[Any] = [answer.get(name) for answer in answers]
        if field["type"] == "array":
            enough, counts = (len(values) + 1) / 2, Counter(n for numbers in values for n in set(numbers))
            most = min(enough, max(counts.values(), default=0))
            named = sum(map(bool, values)) >= enough
            decided[name] = sorted(n for n, count in counts.items() if count >= most) if named else []
        elif field["type"] in {"integer", "boolean"}:
            decided[name] = sorted(values)[middle]
        elif "enum" in field:
            worst_first = list(field["enum"])[::-1]
            decided[name] = sorted(values, key=worst_first.index)[middle]
    # the reason is that of the vote that agrees most; among equals, of the first that gives a reason
    free = [name for name in fields if name not in decided]
    texts = [{name: answer[name] for name in free if answer.get(name)} for answer in answers]
    agree, same = 0, [0] * len(answers)
    for n, answer in enumerate(answers):
        equal = [
            set(answer[name]) == set(verdict) if isinstance(verdict, list) else answer[name] == verdict
            for name, verdict in decided.items()
        ]
        same[n] = sum(equal)
        agree += all(
            bool(answer[name]) is bool(verdict) if isinstance(verdict, list) else answer[name] == verdict
            for name, verdict in decided.items()
        )
    closest = max(range(len(answers)), key=lambda n: (same[n], bool(texts[n])))
    verdict = {**texts[closest], **decided}
    return Vote({name: verdict[name] for name in fields if name in verdict}, agree / len(answers))


def _in_short(answer: Mapping[str, Json], fields: Mapping[str, Mapping[str, Json]]) -> str:
    """Return a verdict without its reason: a grade, yes or no, `by 1 and 3`, or the length of a list."""
    for name, field in fields.items():
        if field["type"] == "array" and field["items"]["type"] != "integer":
            return f"{len(answer[name])} {name}"
    voted = [name for name, field in fields.items() if field["type"] != "string" or "enum" in field]
    value = next((answer[name] for name in voted if fields[name]["type"] != "array"), None)
    if value is None:
        numbers = [str(number) for name in voted for number in answer[name]]
        return f"by {' and '.join(numbers)}" if numbers else "no"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
