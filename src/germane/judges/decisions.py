"""Decisions models: they are asked a typed question about a text, and answer by a probability for each level.

How relevant a passage is, is put as a score whose levels are the grades of the prompt. What comes back is a distribution:
it is kept in the judgement, and the grade is its mode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import nan
from typing import TYPE_CHECKING, Any

from germane.errors import AnswerError, InputError
from germane.judges.client.parsing import chat_completion
from germane.questions.relevance import most_probable
from germane.types import Json

if TYPE_CHECKING:
    from pydantic_ai.models.decision import DecisionModel

_LEVEL = re.compile(r"(\d|true|false): *(.+)")
_LEVELS = {"grade": ("0", "1", "2", "3"), "relevant": ("false", "true")}
_ROUNDING, _EXACT = 0.0051, 1e-6
"""The distance of a probability from what was meant, at most, since some providers round theirs to two digits; and the sum of some that
are not rounded from 1."""


def check_levels(name: str, text: str, *, template: bool) -> None:
    """Raise InputError where a prompt does not say what each level means."""
    names = _LEVELS["relevant" if name.endswith("_binary") else "grade"]
    levels = [match[1] for line in text.split("\n") if (match := _LEVEL.fullmatch(line))]
    if template or sorted(levels) != sorted(names):
        lines = ", ".join(f'"{level}: ..."' for level in names)
        problem = (
            f"the prompt {name} is not one for a decisions model, which is given the levels of its answer"
        )
        raise InputError(problem, fix=f"write a line for each level, {lines}, and no variables")


async def decide(
    model: DecisionModel[Any], request: Mapping[str, Json], headers: Mapping[str, Any]
) -> dict[str, Json]:
    """Return a decision as the completion of a chat, with the payload as its text.

    The question is the system message without its levels, the state is the user's message.

    Raises:
        AnswerError: What the model answered is no distribution over the levels.
    """
    from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior
    from pydantic_ai.models.decision import DecisionRequest, ScoreAnswer, ScoreQuestion

    lines, state = request["messages"][0]["content"].split("\n"), request["messages"][1]["content"]
    levels = {match[1]: match[2] for line in lines if (match := _LEVEL.fullmatch(line))}
    field = "relevant" if "true" in levels else "grade"
    settings: dict[str, Any] = {"max_retries": 0, **({"extra_headers": headers} if headers else {})}
    if more := {name: value for name, value in request.items() if name not in {"model", "messages"}}:
        settings["extra_body"] = more
    instructions = "\n".join(line for line in lines if not _LEVEL.fullmatch(line))
    question = ScoreQuestion(instructions=instructions, criteria=[levels[level] for level in _LEVELS[field]])
    try:
        asked = DecisionRequest(state=state, questions={"relevance": question})
        response = await model.decide(asked, settings)  # type: ignore[arg-type]
    except ContentFilterError as error:
        return chat_completion({"content": "", "refusal": str(error)}, "stop", None, {})
    except UnexpectedModelBehavior as error:
        raise AnswerError(error.message) from None
    answer = response.answers["relevance"]
    shares = answer.probabilities if isinstance(answer, ScoreAnswer) else {}
    values = [shares.get(level, nan) for level in range(len(question.criteria))]
    if not abs(sum(values) - 1) <= _ROUNDING * len(values):
        raise AnswerError(f"the probabilities {values} are not a distribution over {len(values)} levels")
    probabilities = values if abs(sum(values) - 1) < _EXACT else [value / sum(values) for value in values]
    mode = most_probable(probabilities)
    verdict = {field: bool(mode) if field == "relevant" else mode}
    text = json.dumps({**verdict, "probabilities": probabilities})
    return chat_completion({"content": text}, "stop", response.model_name, vars(response.usage))
