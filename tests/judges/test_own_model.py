"""Models of the user's own as judges: any function from prompt to text, chat models of LangChain's."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from germane import InputError, JudgeError, evaluate
from germane.judges import LLMJudge, load_judge
from germane.judges.client.retry import RetryPolicy

SAMPLES = [{"query": "why are there tides", "contexts": ["the moon", "coffee"]}]


class Model:
    """Grades a passage by whether it is about the moon, and counts its calls."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        passage = prompt[prompt.index("<passage") :]
        return json.dumps({"reasoning": "seen", "grade": 3 if "moon" in passage else 0})


class Chat(Model):
    """As a chat model of LangChain's: takes pairs of role and text, gives a message with its tokens."""

    model_name = "tiny"
    _identifying_params: ClassVar = {
        "model_name": "tiny",
        "temperature": 0.2,
        "api_key": "secret",
        "client": object(),
    }

    def invoke(self, messages: list[tuple[str, str]]) -> Any:
        content = self("\n".join(text for _, text in messages))
        used = {"input_tokens": 20, "output_tokens": 5}
        return SimpleNamespace(content=[{"type": "text", "text": content}], usage_metadata=used)


def mean(judge: Any, ledger: Path | None = None) -> float | None:
    return evaluate(SAMPLES, "context_precision", judge=judge, ledger=ledger)["context_precision"].mean


def test_a_function_judges() -> None:
    """It gets the whole prompt as one text, in which the answer's schema stands."""
    model = Model()
    assert mean(model) == 1.0
    assert len(model.prompts) == 2
    assert "JSON Schema" in model.prompts[0]

    async def later(prompt: str) -> str:
        return model(prompt)

    assert mean(later) == 1.0


def test_what_a_function_without_a_name_answers_is_not_stored(tmp_path: Path) -> None:
    """Two functions without names cannot be told apart."""
    model = Model()
    for _ in range(2):
        mean(model, tmp_path / "ledger.sqlite")
    assert len(model.prompts) == 4


def test_a_name_is_part_of_the_key(tmp_path: Path) -> None:
    """Under the same name nothing is asked again, under another everything is."""
    model = Model()
    for name in ("one", "one", "two"):
        mean(LLMJudge(model, name=name), tmp_path / "ledger.sqlite")
    assert len(model.prompts) == 4
    assert LLMJudge(model, name="one").name == "python:one"


def test_a_chat_model_judges_under_its_own_name(tmp_path: Path) -> None:
    """Its settings are in the key, its secrets are not; its tokens are counted."""
    model = Chat()
    report = evaluate(SAMPLES, "context_precision", judge=model, ledger=tmp_path / "ledger.sqlite")
    assert report["context_precision"].mean == 1.0
    judge = report.manifest["judge"]
    assert (judge["source"], judge["tokens"]) == ("langchain:tiny", {"input": 40, "output": 10})
    assert judge["identity"]["parameters"] == {"model_name": "tiny", "temperature": 0.2}
    mean(model, tmp_path / "ledger.sqlite")
    assert len(model.prompts) == 2


def test_an_answer_that_cannot_be_read_is_asked_again() -> None:
    """As with any model: with what was wrong with it."""
    model = Model()

    def chatty(prompt: str) -> str:
        return model(prompt) if "You answered" in prompt else "I think it is relevant."

    assert mean(chatty) == 1.0
    assert any("I think it is relevant." in prompt for prompt in model.prompts)


def test_a_function_that_raises_is_named() -> None:
    """With what it raised; one that gives no text, too."""

    def broken(_prompt: str) -> str:
        raise ValueError("no model here")

    with pytest.raises(JudgeError, match=r"python:broken.*ValueError: no model here"):
        mean(broken)
    with pytest.raises(JudgeError, match="instead of a string"):
        mean(lambda _prompt: 3)


def test_a_function_that_hangs_is_left_behind() -> None:
    """The evaluation ends at the timeout, and not when the function does."""
    ended, gone = list[str](), threading.Event()

    def hang(prompt: str) -> str:
        gone.wait(20)
        ended.append(prompt)
        return "{}"

    with pytest.raises(JudgeError, match="no answer within"):
        evaluate(SAMPLES, "context_precision", judge=LLMJudge(hang, retry=RetryPolicy(read=0.1, attempts=1)))
    assert not ended
    gone.set()


def test_what_could_only_be_sent_to_a_server_is_refused() -> None:
    """Settings of a request, and what is no model."""
    with pytest.raises(InputError, match="option base_url has no effect"):
        LLMJudge(Model(), base_url="http://localhost:1/v1")
    with pytest.raises(InputError, match="not a function or chat model"):
        LLMJudge(3)
    with pytest.raises(InputError, match="the name of a judge is empty"):
        LLMJudge(Model(), name=" ")
    with pytest.raises(InputError, match="not a judge"):
        load_judge(3)  # type: ignore[arg-type]
