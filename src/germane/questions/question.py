"""The base class of questions: items, keys, answer types, and how answers are split, merged and voted on."""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast

from germane.addons import all_of, load
from germane.clean import blank
from germane.encoding import canonical, digest
from germane.errors import AnswerError, Miscounted
from germane.questions import voting
from germane.types import Json

__all__ = ["Wording", "known_kinds"]

if TYPE_CHECKING:
    from germane.questions.payload import Limits, PayloadModel

A = TypeVar("A")


class Wording(NamedTuple):
    """A prompt that a question contains itself, in place of a prompt file.

    In the template `text`, `{{name}}` is replaced if the name is in `variables`, and left unchanged
    otherwise. If `system` is None, the usual system prompt is used.
    """

    text: str
    variables: frozenset[str] = frozenset()
    system: str | None = None


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
    def wording(self) -> Wording | None:
        """The prompt that the question contains itself; None if it uses a prompt file."""
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
        if self.verdicts is not None:
            name, number = self.verdicts
            items = _each_once(getattr(value, name), name, number, len(self.subjects))
            object.__setattr__(value, name, items)
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

    def vote(self, payloads: Sequence[Json]) -> voting.Vote | None:
        """Return the majority vote on several payloads, or None if no vote is possible."""
        if not self.voted:
            return None
        payloads, schema = [self.validate(payload) for payload in payloads], self.schema()
        verdict = voting.of_lists(payloads, schema, self.verdicts) if self.verdicts else None
        verdict = verdict or voting.of_verdicts(payloads, schema["properties"])
        try:
            self.parse(verdict.payload)
        except AnswerError:  # the voted fields contradict each other (supported, but by no context)
            return None
        return verdict

    def short(self, payload: Json) -> str:
        """Return a payload as a short string without reasons: `3`, `yes`, `1: yes, 2: no`, `4 claims`."""
        if self.verdicts is None:
            schema = self.payload_type(payload).model_schema()
            return voting.in_short(self.validate(payload, as_answered=True), schema["properties"])
        name, number = self.verdicts
        parts = voting.verdict_parts(self.schema(), self.verdicts)
        rows = sorted(self.with_ranks(self.validate(payload))[name], key=lambda item: item[number])
        return ", ".join(f"{item[number]}: {voting.in_short(item, parts)}" for item in rows)


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


def _each_once(items: Sequence[Any], name: str, number: str, count: int) -> tuple[Any, ...]:
    """Return the verdicts `items` sorted by their numbers.

    Raises Miscounted unless each number from 1 to `count` occurs exactly once.
    """
    result: dict[int, Any] = {}
    for item in items:
        n = getattr(item, number)
        if not 1 <= n <= count or n in result:
            numbered = f"the {name} are numbered from 1 to {count}"
            raise Miscounted(f"{number} {n} was judged twice or does not exist: {numbered}")
        result[n] = item
    if missing := [n for n in range(1, count + 1) if n not in result]:
        raise Miscounted(f"{len(items)} verdicts for {count} {name}: {number} {missing[0]} is missing")
    return tuple(result[n] for n in range(1, count + 1))


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
    example: AnyQuestion,
    items: Iterable[str],
    identity: Mapping[str, Json],
    prompt_hash: str,
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
