"""What a question is: its item, its key, the type of its answer, and how it is split, merged and voted on."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar, cast

from germane.encoding import canonical, digest
from germane.errors import AnswerError, Miscounted
from germane.questions import voting
from germane.questions.text import blank
from germane.types import Json

if TYPE_CHECKING:
    from germane.questions.payload import Limits, PayloadModel

A = TypeVar("A")


class Wording(NamedTuple):
    """The words of a question that has no prompt file: a template, the variables that it shows, and its system prompt.

    `{{name}}` of any other name stays as it is; `system` None is the system prompt of every request.
    """

    text: str
    variables: frozenset[str] = frozenset()
    system: str | None = None


class Question(ABC, Generic[A]):
    """One thing asked of a judge; `A` is the type of its answer. Subclasses are frozen dataclasses.

    A new type of question declares `kind`, `judges`, `Payload`, `answer` and `typical`, and has a prompt file
    `prompts/<kind>.md`. Where the answer is a list of verdicts about given things (one for each claim), it also
    declares `verdicts`: how it is split, merged and voted on follows from that.
    """

    __slots__ = ("_item",)

    kind: ClassVar[str]
    """The name of the kind, the same in the ledger, in prompt files and on the command line."""
    opens: ClassVar[bool] = False
    """Whether the answer leads to further questions; such questions are asked first."""
    batched: ClassVar[bool] = False
    """Whether several texts may be put to the same question in one request, where the user asked for that."""
    judges: ClassVar[tuple[str, ...]] = ()
    """The fields that are judged: all that the item is made of. The last is the text (or contexts) in question."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Further fields that the prompt shows where they hold anything: they are in the key."""
    hidden: ClassVar[tuple[str, ...]] = ()
    """Fields that are judged and that the prompt does not show."""
    free_text: ClassVar[bool] = False
    """Whether the answer is the judge's text as it stands, `{"text": ...}`: no schema is asked for."""
    Payload: ClassVar[type[PayloadModel]]
    """The answer as pydantic types: the JSON Schema is made from it, and answers are checked by it."""
    verdicts: ClassVar[tuple[str, str] | None] = None
    """Of an answer that is a list of verdicts about given things: the name of the list, and the name of the field in
    which each verdict says the number (from 1) of the thing that it is about."""
    given: ClassVar[str] = ""
    """The question's own field that holds these things; "" = the one that is named like the list."""

    _item: str

    @property
    def prompt(self) -> str:
        """The name of the prompt file that words this question."""
        return self.kind

    @property
    def wording(self) -> Wording | None:
        """The question's own words, in the place of a prompt file."""
        return None

    @property
    def about(self) -> str:
        """The text that the question is about; questions about one text can share a request."""
        text = getattr(self, self.judges[-1])
        return text if isinstance(text, str) else "\n".join(text)

    # What is judged, and what else is in the key

    def inputs(self) -> dict[str, Json]:
        """Everything that the prompt shows, by name: what is judged and what is `beside`, as far as it holds anything."""
        result = {name: value for name in self.shown() if _says(value := getattr(self, name))}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in result.items()}

    @classmethod
    def shown(cls) -> tuple[str, ...]:
        """The names of all that a prompt of this kind may show."""
        return tuple(name for name in (*cls.judges, *cls.beside) if name not in cls.hidden)

    def judged(self) -> dict[str, Json]:
        """What is judged: all that the item is made of; everything that is shown where `judges` names nothing."""
        return {name: getattr(self, name) for name in self.judges} or self.inputs()

    def shown_beside(self) -> dict[str, Json]:
        """What the prompt shows beside what is judged: a part of the key."""
        return {name: value for name in self.beside if _says(value := getattr(self, name))}

    @property
    def item(self) -> str:
        """The digest of the kind and of what is judged; no judge, prompt, scale or reference is in it."""
        result: str = getattr(self, "_item", "")
        if not result:
            result = digest({"kind": self.kind, **self.judged()})
            object.__setattr__(self, "_item", result)
        return result

    def parts(self) -> tuple[str, ...]:
        """The items of the things that are judged, in order: each claim with the contexts; () for most questions.

        Each is the digest of the kind, the thing and all else that is judged, which is spelt once.
        """
        if self.verdicts is None:
            return ()
        rest = {name: value for name, value in self.judged().items() if name != self._given}
        begun = hashlib.sha256(canonical({"judged": rest, "kind": self.kind})[:-1] + b',"part":')
        result = []
        for part in self.things:
            hashed = begun.copy()
            hashed.update(canonical({self.verdicts[1]: part}) + b"}")
            result.append(hashed.hexdigest()[:32])
        return tuple(result)

    def settings(self) -> dict[str, str]:
        """What the question was put with, as far as it applies: against, scale, rubric. Part of the key."""
        return {}

    # The answer

    @classmethod
    def usual_payload(cls) -> type[PayloadModel]:
        """The type whose descriptions are part of the wording."""
        return cls.Payload

    def payload_type(self, _payload: Json = None) -> type[PayloadModel]:
        """The type of the answer that is asked for; with a payload, that of this one, where others can be read too."""
        return self.usual_payload()

    def schema(self) -> dict[str, Json]:
        """The strict JSON Schema of the payload."""
        return self.payload_type().model_schema()

    def limits(self) -> Limits:
        """How long an answer may be, by the length of what is asked about."""
        from germane.questions.payload import LIST_LENGTH, Limits

        size = len(self.about.encode("utf-8", "replace"))
        bytes_each = max(1, round(size / max(1, len(self.about))))
        contexts = LIST_LENGTH + len(getattr(self, "contexts", ()))
        verdicts = self.verdicts[0] if self.verdicts else ""
        return Limits(_rounded(size), _rounded(contexts), verdicts, len(self.things), bytes_each)

    def read(self, payload: Json) -> A:
        """The typed answer in a payload, its verdicts in the order of what they are about; AnswerError says what is wrong with one."""
        value: Any = self.payload_type(payload).model_read(payload, self.verdicts)
        if self.verdicts is not None:
            name, number = self.verdicts
            object.__setattr__(value, name, _each_once(getattr(value, name), name, number, len(self.things)))
        return self.answer(value)

    def answer(self, payload: Any) -> A:
        """The typed answer in a payload that has been parsed."""
        return cast("A", payload)

    def limited(self) -> tuple[dict[str, Json], int]:
        """The schema with `maxItems` and `maxLength`, and how many tokens an answer may have."""
        return self.payload_type().model_limited(self.limits())

    def check_limits(self, payload: Json) -> None:
        """Unended where a usable payload has reached a limit of its lists and texts; a text of no form has none."""
        if not self.free_text:
            self.limits().check(payload, self.schema(), self.limited()[0])

    def checked(self, payload: Json) -> Json:
        """The payload as it is stored: "2" and 2.0 are 2, nothing is in it that the schema does not name.

        AnswerError says what is wrong with an unusable one.
        """
        result = self.payload_type().model_read(payload).model_dump(exclude_unset=True, by_alias=True)
        self.read(result)
        return result

    def normal(self, payload: Json) -> dict[str, Json]:
        """A payload that can be read, with the types that its schema names and nothing else in it."""
        return self.payload_type(payload).model_read(payload).model_dump(exclude_unset=True, by_alias=True)

    def unasked(self) -> Json | AnswerError | None:
        """What holds without asking: the payload about an empty text, or an error where the text is not known.

        None = it must be asked. It is what every judge that reads would say; who reads labels is asked all the same.
        """
        return None

    def placed(self, payload: Json) -> Json:
        """A payload that can be read, with contexts by their places in the ranking and not as the judge counted."""
        return payload

    @abstractmethod
    def typical(self) -> Json:
        """A payload of ordinary size: what a forecast takes for an answer that is not known yet."""

    def each(self, **verdict: Json) -> dict[str, Json]:
        """A payload with that verdict on each thing."""
        name, number = self.verdicts or ("", "")
        return {name: [{number: n, **verdict} for n in range(1, len(self.things) + 1)]}

    # Asked one by one

    @property
    def things(self) -> tuple[Any, ...]:
        """What the verdicts are about, in the order of their numbers; () where the answer is no such list."""
        return tuple(getattr(self, self._given)) if self.verdicts is not None else ()

    @property
    def _given(self) -> str:
        return self.given or (self.verdicts or ("",))[0]

    def split_by_item(self) -> tuple[Self, ...]:
        """The question about each thing alone; () where there are not several."""
        terms, question = self.things, cast("Any", self)
        return (
            tuple(replace(question, **{self._given: (value,)}) for value in terms) if len(terms) > 1 else ()
        )

    def join(self, payloads: Sequence[Json]) -> Json:
        """The payload of the whole question from those of `singly`, in their order."""
        name, number = self.verdicts or ("", "")
        results = [item for payload in payloads for item in payload[name]]
        return {name: [{**item, number: n} for n, item in enumerate(results, 1)]}

    # Asked in windows

    def halves(self) -> tuple[Self, Self] | None:
        """The question about the first half of its contexts and about the others; None where it cannot be split."""
        return None

    def merge(self, windows: Sequence[tuple[Self, Json]]) -> Json:
        """The payload of the whole question from its windows, in order, each with its payload.

        Windows are `halves`, halves of these, and so on, together all of the question. AnswerError where nothing about
        the whole follows.
        """
        raise AnswerError(f"a question of kind {self.kind} cannot be judged in {len(windows)} windows")

    def named(self, _window: Self) -> str:
        """What an error calls a window that cannot be split: `context 3`."""
        return f"the {self.kind}"

    # Voted on

    @property
    def voted(self) -> bool:
        """Whether several answers can be voted on: not where each is a list that its judge drew up."""
        return self.verdicts is not None or all(
            part["type"] != "array" for part in self.schema()["properties"].values()
        )

    def vote(self, payloads: Sequence[Json], how: str) -> voting.Vote | None:
        """One payload out of several by `majority` or `mean`; None = the first one stands."""
        if not self.voted:
            return None
        payloads, schema = [self.checked(payload) for payload in payloads], self.schema()
        verdict = voting.of_lists(payloads, schema, self.verdicts, how) if self.verdicts else None
        verdict = verdict or voting.of_verdicts(payloads, schema["properties"], how)
        try:
            self.read(verdict.payload)
        except AnswerError:  # a verdict that lost its grounds in the vote
            return None
        return verdict

    def short(self, payload: Json) -> str:
        """A payload without its reasons: `3`, `yes`, `1: yes, 2: no`; of a list that the judge drew up its length."""
        if self.verdicts is None:
            schema = self.payload_type(payload).model_schema()
            return voting.in_short(self.normal(payload), schema["properties"])
        name, number = self.verdicts
        parts = voting.verdict_parts(self.schema(), self.verdicts)
        rows = sorted(self.placed(self.checked(payload))[name], key=lambda item: item[number])
        return ", ".join(f"{item[number]}: {voting.in_short(item, parts)}" for item in rows)


AnyQuestion: TypeAlias = Question[Any]


def known_kinds() -> dict[str, type[AnyQuestion]]:
    """Every type of question by its kind, those of users among them."""
    for module in ("relevance", "listing", "support", "script"):
        import_module(f"germane.questions.{module}")
    return _kinds_of()


def _kinds_of(base: type[AnyQuestion] = Question) -> dict[str, type[AnyQuestion]]:
    result: dict[str, type[AnyQuestion]] = {}
    for sub in base.__subclasses__():
        result |= {**_kinds_of(sub), **({sub.kind: sub} if hasattr(sub, "kind") else {})}
    return result


def _rounded(count: int) -> int:
    """Up to a power of two, so that few limits serve all texts."""
    return 1 << max(0, count - 1).bit_length()


def _says(value: Any) -> bool:
    """Whether a field holds anything that a reader would see."""
    return bool(value) and not (isinstance(value, str) and blank(value))


def _each_once(items: Sequence[Any], name: str, number: str, count: int) -> tuple[Any, ...]:
    """The items in the order of their numbers; Miscounted unless each of 1 to `count` stands there exactly once."""
    result: dict[int, Any] = {}
    for item in items:
        n = getattr(item, number)
        if not 1 <= n <= count or n in result:
            raise Miscounted(
                f"{number} {n} was judged twice or does not exist: they are numbered from 1 to {count}"
            )
        result[n] = item
    if missing := [n for n in range(1, count + 1) if n not in result]:
        raise Miscounted(f"{len(items)} verdicts for {count} {name}: {number} {missing[0]} is missing")
    return tuple(result[n] for n in range(1, count + 1))


def key_of(question: AnyQuestion, identity: Mapping[str, Json], prompt_hash: str, label: Json = None) -> str:
    """The ledger's key: everything that changes an answer, and nothing else.

    That is the item, what is shown beside it (reference, response, criterion), the settings (against, scale, rubric),
    the question's own prompt's hash and the judge's identity (provider, model, custom base URL, parameters, replica;
    a list has its own prompt hash). Ids, ranks, retriever scores, what else was asked in the same request and the
    output mode are not in it. A judge whose identity says that it `reads` labels is also keyed by the label.
    """
    read = {"label": label} if "reads" in identity else {}
    return keys_under(question, [question.item], ending(identity, prompt_hash, read))[0]


def ending(identity: Mapping[str, Json], prompt_hash: str, label: Mapping[str, Json] | None = None) -> bytes:
    """What follows the item in the JSON of a key: the same for all questions of one wording to one judge."""
    return b"," + canonical({"judge": identity, "prompt": prompt_hash, **(label or {})})[1:]


def keys_under(example: AnyQuestion, items: Iterable[str], end: bytes) -> list[str]:
    """The keys, with that `ending`, of questions that differ from the example in their item alone.

    A key is the digest of {"as": ..., "beside": ..., "item": ..., "judge": ..., ...}: `as` are the question's settings,
    `beside` is what is shown beside what is judged.
    """
    spelt = canonical({"as": example.settings(), "beside": example.shown_beside(), "item": ""})
    begun = hashlib.sha256(spelt[:-2])
    result = []
    for item in items:
        value = begun.copy()
        value.update(b'%b"%b' % (item.encode(), end))
        result.append(value.hexdigest()[:32])
    return result
