"""Every kind of question: what it is keyed by, what shape it asks for, which answers it refuses."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import permutations
from typing import Any

import jsonschema
import pytest

from germane.errors import AnswerError
from germane.judges import FakeJudge
from germane.questions import (
    CitationSupport,
    Claims,
    Entities,
    Grade,
    Importance,
    NuggetSupport,
    Question,
    Relevance,
    StatementRelevance,
    Sufficiency,
    Sufficient,
    Support,
    Supported,
    key_of,
)
from germane.questions.fusing import fused_requests, render_request
from germane.questions.kinds import NuggetVerdict
from germane.questions.prompts import Prompts
from germane.questions.relevance import Passages

KINDS: list[Question[Any]] = [
    Relevance(query="q", passage="p"),
    Relevance(query="q", passage="p", scale="binary"),
    StatementRelevance(query="q", passage="A long passage about Tides. " * 9, reference="r"),
    Claims("q", "One. Two."),
    Entities("q", "Brazil left Portugal in 1822."),
    Entities("q", "nothing"),
    Support(("c1", "c2"), ("a", "b")),
    Sufficiency("q", ("a",)),
    CitationSupport(("One. [1][2]", "Two. [2]"), ("a", "b")),
    NuggetSupport("q", ("n1", "n2"), ("a",)),
    Importance("q", ("n1", "n2")),
]


@pytest.mark.parametrize("question", KINDS, ids=lambda q: f"{q.kind}-{q.prompt}")
def test_a_typical_answer_is_a_good_one(question):
    """What a forecast assumes has the asked-for shape, can be read, and the schema is strict all the way down."""
    jsonschema.validate(question.typical(), question.schema())
    question.parse(question.typical())

    def strict(schema: Any) -> None:
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
            for inner in schema["properties"].values():
                strict(inner)
        elif schema.get("type") == "array":
            strict(schema["items"])

    strict(question.schema())


@pytest.mark.parametrize("question", KINDS, ids=lambda q: f"{q.kind}-{q.prompt}")
def test_it_can_be_worded(question):
    """Every kind has a prompt, and all of its inputs are shown."""
    (reading,) = fused_requests([question], Prompts())
    asked = render_request([reading], Prompts())
    for name, value in question.inputs().items():
        if name != "scale":
            for text in [value] if isinstance(value, str) else value:
                assert text in asked.user, name


def test_one_request_for_all_that_is_asked_of_a_passage():
    """Relevance, statements and entities of a passage fuse; another query's or another reference's do not."""
    about: dict[str, Any] = {"query": "q", "passage": "p", "reference": "r"}
    three: list[Question[Any]] = [Relevance(**about), StatementRelevance(**about), Entities("q", "p")]
    assert [len(one.questions) for one in fused_requests(three, Prompts())] == [3]
    other = StatementRelevance(query="other", passage="p")
    assert sorted(len(one.questions) for one in fused_requests([*three, other], Prompts())) == [1, 3]


@pytest.mark.parametrize(
    "question", [k for k in KINDS if k.kind != "entities"], ids=lambda q: f"{q.kind}-{q.prompt}"
)
def test_every_input_is_in_the_key(question):
    """Another value of any field is another key; the same question has the same one."""
    identity = {"judge": "x"}
    key = key_of(question, identity, "")
    assert key == key_of(replace(question), identity, "")
    assert len({key, *(key_of(changed, identity, "") for changed in changes(question))}) == 1 + len(
        changes(question)
    )


def changes(question: Any) -> list[Any]:
    found = []
    for name, value in {field.name: getattr(question, field.name) for field in fields(question)}.items():
        if name in {"context", "gold", "scale", "ranks"} or (name == "rubric" and question.scale == "binary"):
            continue
        new = f"{value}!" if isinstance(value, str) else "new" if value is None else (*value, "more")
        if name == "history":
            new = (("user", "hi"),)
        found.append(replace(question, **{name: new}))
    return found


@pytest.mark.parametrize("kind", [Support, NuggetSupport, Sufficiency])
def test_the_order_of_contexts_is_in_no_key(kind):
    """Another ranking of the same passages is the same question, and its answer names the places of each ranking."""
    more: dict[str, Any] = {"query": "q"} if kind is not Support else {}
    more |= {Support: {"claims": ("c",)}, NuggetSupport: {"nuggets": ("n",)}}.get(kind, {})
    keys = {key_of(kind(contexts=order, **more), {}, "") for order in permutations(("x", "y", "z"))}
    assert len(keys) == 1


def test_numbers_become_places_of_the_ranking():
    """The judge counts the contexts as it sees them, sorted and without empty ones; what is read counts ranks."""
    payload = {"claims": [{"claim": 1, "reasoning": "", "contexts": [1, 3]}]}
    for order in permutations(("a", "b", "c", " ")):
        question = Support(("claim",), order)
        (verdict,) = question.parse(payload)
        assert question.inputs()["contexts"] == ["a", "b", "c"]
        assert [order[place - 1] for place in verdict.contexts] in (["a", "c"], ["c", "a"])
        assert list(verdict.contexts) == sorted(verdict.contexts)
        first, second = sorted((order.index("a") + 1, order.index("c") + 1))
        assert question.short(payload) == f"1: by {first} and {second}"


@pytest.mark.parametrize("empty", [" ", "\n\t ", "\u200b\ufeff", "\u3000"])
def test_nothing_is_asked_about_nothing(empty):
    """White space and invisible characters: not relevant, states, claims and names nothing, supports nothing."""
    known: list[tuple[Question[Any], Any]] = [
        (Relevance(query="q", passage=empty), Grade(0, "the passage is empty")),
        (
            Relevance(query="q", passage=empty, scale="binary"),
            Grade(0, "the passage is empty", "binary"),
        ),
        (StatementRelevance(query="q", passage=empty), ()),
        (Claims("q", empty), ()),
        (Entities("q", empty), ()),
        (Support(("c",), (empty,)), (Supported(claim=1, contexts=(), reasoning="the contexts are empty"),)),
        (
            NuggetSupport("q", ("n",), (empty,)),
            (NuggetVerdict(nugget=1, support="not_support", reasoning="the contexts are empty"),),
        ),
        (Sufficiency("q", (empty,)), Sufficient(sufficient=False, reasoning="the contexts are empty")),
    ]
    for question, answer in known:
        assert question.parse(question.unasked()) == answer
    for question in KINDS:
        assert question.unasked() is None


def test_of_an_unknown_text_nothing_is_known():
    """A context that is an id alone has no text: an error for whoever reads."""
    assert str(Relevance(query="q", passage="").unasked()) == "the context has no text"


@pytest.mark.parametrize("history", [(), (("user", "été ☃"),)])
@pytest.mark.parametrize("text", ["a passage", "été\u00a0", "\ud83d", ""])
def test_passages_are_keyed_as_their_questions(text, history):
    """Without a question being made: the same items, and the same keys to any judge."""
    cells = [("q", text), ("another", "passage")]
    for alike in ({}, {"reference": "r", "scale": "binary"}, {"rubric": "usefulness"}):
        passages = Passages(cells, history, **alike)
        assert passages.items == [question.item for question in passages]
        judge = FakeJudge()
        assert judge.keys(passages) == [judge.key(question) for question in passages]


STATEMENTS, ENTITIES, CITATIONS, NUGGETS, IMPORTANCE = KINDS[2], KINDS[4], *KINDS[8:11]
ENOUGH = KINDS[7]


def cited(*items: tuple[int, Any, Any]) -> Any:
    return {
        "statements": [{"statement": n, "reasoning": "", "supported": s, "contexts": c} for n, s, c in items]
    }


@pytest.mark.parametrize(
    ("question", "payload", "said"),
    [
        (STATEMENTS, [], "must be a JSON object"),
        (STATEMENTS, {}, 'lacks "statements"'),
        (STATEMENTS, {"statements": ["x"]}, "Input should be"),
        (STATEMENTS, {"statements": [{"statement": "x", "relevant": "yes"}]}, "valid boolean"),
        (STATEMENTS, {"statements": [{"statement": " ", "relevant": True}]}, "non-empty"),
        (STATEMENTS, {"statements": [{"statement": "\u200b", "relevant": True}]}, "non-empty"),
        (ENTITIES, {"entities": ["a", ""]}, "non-empty"),
        (ENTITIES, {"entities": ["a", "\u200b\n"]}, "non-empty"),
        (Claims("q", "a"), {"claims": ["\u2060", "a"]}, "non-empty"),
        (ENTITIES, {"entities": "a"}, "valid list"),
        (ENOUGH, {"sufficient": 1}, "valid boolean"),
        (CITATIONS, cited((1, True, [1])), "statement 2 is missing"),
        (CITATIONS, cited((1, True, [1]), (2, True, [1])), "is not one of the cited contexts"),
        (CITATIONS, cited((1, True, [1]), (2, True, [])), "but by no context that it cites"),
        (CITATIONS, cited((1, True, [3]), (2, True, [2])), "context 3 does not exist"),
        (CITATIONS, cited((1, True, [1]), (1, True, [1])), "judged twice"),
        (NUGGETS, {"nuggets": [{"nugget": 1, "support": "support"}]}, "nugget 2 is missing"),
        (
            NUGGETS,
            {"nuggets": [{"nugget": 1, "support": "most"}, {"nugget": 2, "support": "not_support"}]},
            "'partial_support' or 'not_support'",
        ),
        (NUGGETS, {"nuggets": [{"nugget": 3, "support": "support"}]}, "does not exist"),
        (IMPORTANCE, {"nuggets": [{"nugget": 1, "importance": "high"}]}, "'vital' or 'okay'"),
        (IMPORTANCE, {"nuggets": [{"nugget": 1, "importance": "okay"}]}, "nugget 2 is missing"),
        (
            Support(("c", "d"), ("a", "b")),
            {"claims": [{"claim": 0, "contexts": []}, {"claim": 1, "contexts": []}]},
            "from 1 to 2",
        ),
        (
            Support(("c", "d"), ("a", "b")),
            {"claims": [{"claim": 1, "contexts": [0]}, {"claim": 2, "contexts": []}]},
            "from 1 to 2",
        ),
        (
            Support(("c", "d"), ("a", "b")),
            {"claims": [{"claim": 1, "contexts": ["one"]}]},
            "valid integer, not 'one'",
        ),
        (
            Support(("c", "d"), ("a", "b")),
            {"claims": [{"claim": 1, "contexts": [1.5]}]},
            "valid integer, not 1.5",
        ),
        (
            Support(("c", "d"), ("a", "b")),
            {"claims": [{"claim": True, "contexts": [1]}]},
            "valid integer, not True",
        ),
    ],
)
def test_an_unusable_answer_is_refused_in_words(question, payload, said):
    """Wrong type, count, number or value: an error that can be sent back to the model, never a clipped value."""
    with pytest.raises(AnswerError, match=said):
        question.parse(payload)


REASONED: list[tuple[Any, Any]] = [
    (Relevance(query="q", passage="p"), {"grade": 2}),
    (Relevance(query="q", passage="p", scale="binary"), {"relevant": True}),
    (ENOUGH, {"sufficient": True}),
]


@pytest.mark.parametrize(("question", "verdict"), REASONED)
def test_a_verdict_without_a_reason_is_one(question, verdict):
    """The reason may be missing or null, and is empty then; another type is an answer of another shape."""
    for payload in (verdict, {**verdict, "reasoning": None}):
        assert question.parse(payload).reasoning == ""
    for wrong in ({"step": "x"}, ["x"], 3, False):
        with pytest.raises(AnswerError, match='reasoning": Input should be a valid string'):
            question.parse({**verdict, "reasoning": wrong})


def test_so_is_each_of_a_list():
    """Of claims, citations and nuggets alike."""
    for question in (Support(("c",), ("a",)), CITATIONS, NUGGETS):
        ((name, items),) = question.typical().items()
        for reasoning in (None, {"step": "x"}):
            changed = {name: [{**item, "reasoning": reasoning} for item in items]}
            if reasoning is None:
                assert [one.reasoning for one in question.parse(changed)] == [""] * len(items)
                continue
            with pytest.raises(AnswerError, match='reasoning": Input should be a valid string'):
                question.parse(changed)


class TestItems:
    """What is judged, whoever judges it and however it is put: there labels and verdicts meet."""

    def test_a_relevance_item_is_query_history_and_passage(self) -> None:
        """No scale, rubric, reference, response or criterion, which are all in the key."""
        plain = Relevance(query="q", passage="p")
        put: list[dict[str, Any]] = [
            {"scale": "binary"},
            {"rubric": "usefulness"},
            *({name: "x"} for name in ("reference", "response", "criterion")),
        ]
        others = [replace(plain, **how) for how in put]
        assert {one.item for one in others} == {plain.item}
        assert len({key_of(one, {}, "h") for one in [plain, *others]}) == 6
        for what in ({"query": "x"}, {"passage": "x"}, {"history": (("user", "x"),)}):
            assert replace(plain, **what).item != plain.item

    def test_settings_say_how_it_was_put(self) -> None:
        """What it was held against, the scale, the wording of the grades."""
        plain = Relevance(query="q", passage="p")
        assert plain.settings() == {"against": "query", "scale": "graded", "rubric": "trec"}
        assert replace(plain, criterion="c", scale="binary").settings() == {
            "against": "criterion",
            "scale": "binary",
        }
        assert StatementRelevance(query="q", passage="p", reference="r").settings() == {
            "against": "reference"
        }
        assert Claims("q", "t").settings() == {}

    def test_kinds_about_one_text_are_items_of_their_own(self) -> None:
        """A passage's relevance, its statements and its entities are labelled apart."""
        about: dict[str, Any] = {"query": "q", "passage": "p"}
        kinds: list[Question[Any]] = [
            Relevance(**about),
            StatementRelevance(**about),
            Entities("q", "p"),
            Claims("q", "p"),
        ]
        assert len({one.item for one in kinds}) == 4
        assert Entities("q", "p").item != Entities("other", "p").item

    def test_an_item_of_several_contexts_is_their_set(self) -> None:
        """Neither order, nor duplicates, nor empty ones make another."""
        one, same = Support(("c", "d"), ("x", "y")), Support(("c", "d"), ("y", " ", "x", "x"))
        assert one.item == same.item
        assert one.parts() == same.parts()
        assert len({one.item, *one.parts()}) == 3
        assert Sufficiency("q", ("x", "y")).item == Sufficiency("q", ("y", "x", "y")).item
        nuggets = NuggetSupport("q", ("n",), ("x",))
        assert nuggets.item == replace(nuggets, query="other").item
        assert key_of(nuggets, {}, "") != key_of(replace(nuggets, query="other"), {}, "")

    def test_a_duplicate_context_is_judged_once_and_counts_at_each_of_its_places(self) -> None:
        """The judge sees it once; what is read names every place that it has."""
        question = Support(("c",), ("y", "x", "y"))
        assert question.inputs()["contexts"] == ["x", "y"]
        (verdict,) = question.parse({"claims": [{"claim": 1, "contexts": [2]}]})
        assert verdict.contexts == (1, 3)

    def test_an_item_is_computed_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is looked at by keys, rows and labels."""
        question = Relevance(query="q", passage="p")
        item = question.item
        monkeypatch.setattr(Relevance, "judged", lambda _: pytest.fail("computed again"))
        assert question.item == item


class TestSchemas:
    """What real endpoints take."""

    @pytest.mark.parametrize("question", KINDS, ids=lambda q: f"{q.kind}-{q.prompt}")
    def test_no_integer_has_an_enum_and_nothing_is_by_reference(self, question: Question[Any]) -> None:
        """Gemini's endpoints refuse the first, strict ones the second; defaults and titles say nothing to a model."""

        def look(part: Any) -> None:
            if isinstance(part, dict):
                assert not (part.get("type") == "integer" and "enum" in part)
                assert not {"$ref", "$defs", "default", "title"} & part.keys()
                for inner in part.values():
                    look(inner)

        look(question.schema())

    def test_a_grade_is_a_range_with_a_description(self) -> None:
        """So that a decoder holds to it and a model knows what it is."""
        found = KINDS[0].schema()["properties"]
        assert found["grade"] == {"type": "integer", "minimum": 0, "maximum": 3, "description": "0 to 3"}
        assert "sentences" in found["reasoning"]["description"]

    @pytest.mark.parametrize("grade", [2, 2.0, "2", " 2", "2.0"])
    def test_what_is_plainly_a_grade_is_one(self, grade: object) -> None:
        """Nothing is guessed, and it is stored as the number."""
        question = Relevance(query="q", passage="p")
        assert question.validate({"grade": grade, "reasoning": "r", "x": 1}) == {"grade": 2, "reasoning": "r"}
        assert question.parse({"grade": grade}) == Grade(2)

    def test_a_person_s_yes_is_read_and_a_model_s_is_asked_again(self) -> None:
        """A graded question takes a yes or no from labels; a model was asked for a grade."""
        question = Relevance(query="q", passage="p")
        assert question.parse({"relevant": True}) == Grade(1, "", "binary")
        with pytest.raises(AnswerError, match='lacks "grade"'):
            question.validate({"relevant": True})

    @pytest.mark.parametrize("grade", [2.5, 5, -1, "high", "", True, None, [2], "2.5", "9" * 5000])
    def test_what_is_no_grade_is_asked_again(self, grade: object) -> None:
        """In words that say what a grade is."""
        with pytest.raises(AnswerError, match='"grade": Input should be '):
            Relevance(query="q", passage="p").parse({"grade": grade})
