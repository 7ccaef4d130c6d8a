"""The one object in what a model wrote, and what is none: thoughts are nobody's answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.errors import AnswerError
from germane.judges.client.chat import completion_in, object_in

OBJECT = '{"grade": 2}'
DRAFT = 'First: {"grade": 0}. Hmm, no.'
MARKS = [
    ("<think>", "</think>"),
    ("<Thinking>", "</Thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
]


@pytest.mark.parametrize(("opens", "ends"), MARKS)
def test_a_thought_is_passed_over(opens: str, ends: str) -> None:
    """Whatever a model's template encloses it in, and even where it ends in a broken draft."""
    assert object_in(f"{opens}{DRAFT}{ends}\n{OBJECT}") == {"grade": 2}
    assert object_in(f'{opens}{DRAFT} {{"gra{ends}{OBJECT}') == {"grade": 2}


@pytest.mark.parametrize(("opens", "ends"), MARKS)
def test_what_stands_in_a_thought_alone_is_no_answer(opens: str, ends: str) -> None:
    """The model changed its mind, or never made it up."""
    with pytest.raises(AnswerError, match="contains no JSON object"):
        object_in(f"{opens}{DRAFT}{ends} I cannot decide.")
    with pytest.raises(AnswerError, match="reasoning that does not end"):
        object_in(f"{opens}{DRAFT}")


@pytest.mark.parametrize("ends", [ends for _, ends in MARKS])
def test_a_thought_that_the_template_began_ends_where_it_says_so(ends: str) -> None:
    """What stands before a closing mark is a thought, without an opening one too."""
    assert object_in(f"{DRAFT}{ends}{OBJECT}") == {"grade": 2}
    with pytest.raises(AnswerError, match="contains no JSON object"):
        object_in(f"{DRAFT}{ends} I cannot decide.")


@pytest.mark.parametrize(
    ("opens", "ends"),
    [
        ("[THINK]", "[/THINK]"),
        ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
        ("<|channel|>analysis<|message|>", "<|end|>"),
    ],
)
def test_a_thought_in_other_marks_is_no_answer(opens: str, ends: str) -> None:
    """What it holds is not taken for the answer: the model is asked again."""
    for text in (f"{opens}\n{OBJECT}\n{ends}\nI cannot decide.", f"{opens}{DRAFT}{ends}{OBJECT}"):
        with pytest.raises(AnswerError, match=r"(part of a longer text|another JSON object)"):
            object_in(text)


@pytest.mark.parametrize("mark", ["</think>", "<reasoning>"])
def test_a_mark_in_a_string_is_none(mark: str) -> None:
    """A passage may hold one, and a reason may repeat it."""
    assert object_in(f'So: {{"reasoning": "it says {mark}", "grade": 2}}')["grade"] == 2


@pytest.mark.parametrize(
    "text",
    [
        OBJECT,
        f"  {OBJECT}\n\n",
        f"```json\n{OBJECT}\n```",
        f"```\n{OBJECT}\n```\n",
        f"`{OBJECT}`",
        f"Sure! Here is my verdict:\n\n{OBJECT}",
        f"Here it is:\n```json\n{OBJECT}\n```<|im_end|>",
        f"{OBJECT}</s>",
        f"<think>{DRAFT}</think>My answer: {OBJECT}",
        json.dumps(OBJECT),
        f"{OBJECT}\n\nLet me know if you need more.",
        f"My verdict: {OBJECT}.",
        f"{OBJECT} I hope this helps!",
        f"```json\n{OBJECT}\n```\nBut I am not sure.",
        f"Here it is:\n{OBJECT}\nThe {{query}} is about tides.",
        f"<answer>{OBJECT}</answer>",
        f"<answer>\n{OBJECT}\n</answer> That is all.",
        f"~~~json\n{OBJECT}\n~~~",
        '{\n  "grade": 2\n}',
    ],
)
def test_the_one_object_of_a_text(text: str) -> None:
    """Bare, in a fence or a tag, after a thought or a short lead-in, before other words."""
    assert object_in(text) == {"grade": 2}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('For example {"grade":3} would be ... but no', "part of a longer text"),
        (f"{OBJECT}: that is what I would say.", "part of a longer text"),
        (f"{OBJECT} Hm, no.</think>", "part of a longer text"),
        (f'{OBJECT}\n{{"grade": 1}}', "another JSON object"),
        (f"{OBJECT} {OBJECT}", "another JSON object"),
        (f"Not {{grade: 3}} but {OBJECT}", "broken or cut off"),
        (f"{DRAFT} {OBJECT}", "another JSON object"),
        (f"{'The passage says little. ' * 20}{OBJECT}", "part of a longer text"),
        (f"[{OBJECT}]", "not a list"),
        (f"```json\n[{OBJECT}]\n```", "part of a longer text"),
        (f"Here: [{OBJECT}", "part of a longer text"),
        (f"[{OBJECT}, {OBJECT}]", "not a list"),
        ("[]", "not an empty list"),
        ("7", "not the number 7"),
        ("I cannot decide.", "contains no JSON object"),
        ('{"grade": 2', "broken or cut off"),
        (f'{{"reasoning": "it says "</think>{OBJECT}', "broken or cut off"),
        ('{"grade": 3, "grade": 0}', "the same field twice"),
        ("[" * 100_000, "contains no JSON object"),
        ('{"a":' * 100_000, "broken or cut off"),
        (f'{{"grade": {"9" * 5000}}}', "broken or cut off"),
    ],
)
def test_anything_else_is_unusable(text: str, problem: str) -> None:
    """Text after the object, several objects, a quote in an argument: nothing of it is guessed."""
    with pytest.raises(AnswerError, match=problem):
        object_in(text)


@given(st.text(max_size=60), st.text(max_size=60))
def test_words_around_an_object(before: str, after: str) -> None:
    """The answer is the first object, or there is none: never a second one."""
    try:
        found = object_in(f"{before}{OBJECT} {after}{DRAFT}")
    except AnswerError:
        return
    assert found != {"grade": 2}


@pytest.mark.parametrize("named", [{}, [], 7])
def test_a_tool_call_with_an_odd_name_is_no_answer(named: object) -> None:
    """A server may write anything where the name should be."""
    calls = [{"function": {"name": named, "arguments": OBJECT}}]
    completion = completion_in({"choices": [{"message": {"tool_calls": calls}}]}, "relevance")
    with pytest.raises(AnswerError, match="must be called once"):
        completion.payload()
