"""The one object in what a model wrote, and what is none: thoughts are nobody's answer."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("text", ["[{}]", "```json\n[{}]\n```", "Here: [{}]"])
def test_a_list_of_one_object_is_that_object(text: str) -> None:
    """Bare, fenced or in prose; of two that differ none is."""
    assert object_in(text.replace("{}", OBJECT)) == {"grade": 2}
    with pytest.raises(AnswerError, match="2 different JSON objects"):
        object_in(text.replace("{}", f'{OBJECT}, {{"grade": 1}}'))


@pytest.mark.parametrize(
    ("text", "problem"), [("[]", "not a list"), ("[7]", "no JSON object"), ("7", "not a int")]
)
def test_a_list_without_one_is_no_answer(text: str, problem: str) -> None:
    """Nor is anything else."""
    with pytest.raises(AnswerError, match=problem):
        object_in(text)
