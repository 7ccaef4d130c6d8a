"""The model server behind the wire forms of decisions models: TypeSafe's and System One's, OpenAI's, and Google's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from germane.types import Json
from tests.server.acts import Act
from tests.server.asked import Asked
from tests.server.models import ModelServer

_PATHS = ("/v1/systemone", "/v1/decisions", "/v1beta/decisions")
_SECTION = re.compile(r"<(\w+)-\w+>(.*?)</\1-\w+>", re.DOTALL)


class DecisionServer(ModelServer):
    """Answers one score question with a distribution over its levels.

    Args:
        probabilities: From the sections that are shown (query, passage, ...) and the number of levels.
    """

    def __init__(
        self, probabilities: Callable[[dict[str, str], int], Sequence[float]], *args: Any, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self._probabilities = probabilities

    @property
    def base(self) -> str:
        """The URL without a version."""
        return self.url.removesuffix("/v1")

    def _refusal(self, asked: Asked) -> Act | None:
        found = any(asked.path.endswith(path) for path in _PATHS)
        return None if found else Act(status=404, error=f"there is no {asked.path} here")

    def _completion(self, asked: Asked, act: Act) -> bytes:
        request = asked.json
        state = request["state"] if "state" in request else request["input"]
        shown = dict(_SECTION.findall(state))
        if asked.path.endswith("/v1/decisions"):
            (question,) = request["questions"]
            name, levels = question["name"], [level["description"] for level in question["levels"]]
        else:
            ((name, question),) = request["questions"].items()
            levels = question["criteria"]
        assert question["type"] == "score"
        if act.refusal:
            return self._openai(request, {"type": "refusal", "name": name}, len(asked.raw))
        probabilities = [round(one, 6) for one in self._probabilities(shown, len(levels))]
        score = round(sum(level * one for level, one in enumerate(probabilities)), 6)
        answer: dict[str, Json] = {"type": "score", "score": score, "confidence": max(probabilities)}
        if asked.path.endswith("/v1/decisions"):
            answer |= {"name": name, "probabilities": [
                {"label": str(level), "value": level, "probability": one}
                for level, one in enumerate(probabilities)
            ]}  # fmt: skip
            return self._openai(request, answer, len(asked.raw))
        answer |= {"probabilities": {str(level): one for level, one in enumerate(probabilities)}}
        if asked.path.endswith("/v1beta/decisions"):
            usage = {"total_input_tokens": len(asked.raw) // 4, "total_output_tokens": 0}
            return json.dumps({"answers": {name: answer}, "usage": usage}).encode()
        answer |= {"legend": {str(level): text for level, text in enumerate(levels)}}
        usage = {"input_tokens": len(asked.raw) // 4, "output_tokens": 3}
        return json.dumps({"model": request["model"], "answers": {name: answer}, "usage": usage}).encode()

    @staticmethod
    def _openai(request: dict[str, Json], answer: dict[str, Json], size: int) -> bytes:
        usage = {
            "input_tokens": size // 4,
            "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": size // 4,
        }
        return json.dumps({"model": request["model"], "answers": [answer], "usage": usage}).encode()
