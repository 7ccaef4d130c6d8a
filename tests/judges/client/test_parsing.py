"""The one object in what a model wrote, and what is none: thoughts are nobody's answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.errors import AnswerError
from germane.judges.client.parsing import object_in

OBJECT = '{"grade": 2}'
DRAFT = 'First: {"grade": 0}. Hmm, no.'
MARKS = [
    ("<think>", "</think>"),
    ("<Thinking>", "</Thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
]
FINAL = "<|start|>assistant<|channel|>final<|message|>"
CHANNELS = [
    ("<|channel|>analysis<|message|>", f"<|end|>{FINAL}"),
    ("<|channel|>analysis<|message|>", FINAL.removeprefix("<|start|>assistant")),
    ("<|start|>assistant<|channel|>commentary<|message|>", f"<|end|>{FINAL}"),
    ("<|channel>thought\n", "<channel|>"),
]


@pytest.mark.parametrize(("opens", "ends"), MARKS + CHANNELS)
def test_a_thought_is_passed_over(opens: str, ends: str) -> None:
    """Whatever a model's template encloses it in, and even where it ends in a broken draft."""
    assert object_in(f"{opens}{DRAFT}{ends}\n{OBJECT}") == {"grade": 2}
    assert object_in(f'{opens}{DRAFT} {{"gra{ends}{OBJECT}') == {"grade": 2}


@pytest.mark.parametrize(("opens", "ends"), MARKS + CHANNELS)
def test_what_stands_in_a_thought_alone_is_no_answer(opens: str, ends: str) -> None:
    """The model changed its mind, or never made it up."""
    with pytest.raises(AnswerError, match="holds no JSON object"):
        object_in(f"{opens}{DRAFT}{ends} I cannot decide.")
    with pytest.raises(AnswerError, match="a thought without an end"):
        object_in(f"{opens}{DRAFT}")


@pytest.mark.parametrize("ends", [ends for _, ends in MARKS])
def test_a_thought_that_the_template_began_ends_where_it_says_so(ends: str) -> None:
    """What stands before a closing mark is a thought, without an opening one too."""
    assert object_in(f"{DRAFT}{ends}{OBJECT}") == {"grade": 2}
    with pytest.raises(AnswerError, match="holds no JSON object"):
        object_in(f"{DRAFT}{ends} I cannot decide.")


def test_channels_that_follow_each_other() -> None:
    """Two thoughts and then the answer, with its own end."""
    text = "".join(opens + DRAFT for opens, _ in CHANNELS[:3]) + f"<|end|>{FINAL}{OBJECT}<|return|>"
    assert object_in(text) == {"grade": 2}


@pytest.mark.parametrize("mark", ["</think>", "[THINK]", "<|channel|>analysis", "<reasoning>"])
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
        ('For example {"grade":3} would be ... but no', "more text: 'would be"),
        (f"{OBJECT}: that is what I would say.", "part of something longer"),
        (f"{OBJECT} Hm, no.</think>", "more text: '</think>"),
        (f'{OBJECT}\n{{"grade": 1}}', "another JSON object"),
        (f"{OBJECT} {OBJECT}", "another JSON object"),
        (f"Not {{grade: 3}} but {OBJECT}", "broken or cut off"),
        (f"{DRAFT} {OBJECT}", "another JSON object"),
        (f"{'The passage says little. ' * 20}{OBJECT}", "before the JSON object stand 499 characters"),
        (f"[{OBJECT}]", "not a list"),
        (f"```json\n[{OBJECT}]\n```", "part of something longer"),
        (f"Here: [{OBJECT}", "part of something longer"),
        (f"[{OBJECT}, {OBJECT}]", "not a list"),
        ("[]", "not a list"),
        ("7", "not a int"),
        ("I cannot decide.", "holds no JSON object"),
        ('{"grade": 2', "broken or cut off"),
        (f'{{"reasoning": "it says "</think>{OBJECT}', "broken or cut off"),
        ('{"grade": 3, "grade": 0}', 'says "grade" twice'),
        ("[" * 100_000, "holds no JSON object"),
        ('{"a":' * 100_000, "broken or cut off"),
        ('{"grade": 1e999}', "not a JSON number"),
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
