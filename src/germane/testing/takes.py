"""What the model that a server plays does not take, and how it says so."""

from __future__ import annotations

from dataclasses import dataclass

from germane.testing.acts import Act
from germane.testing.asked import Asked

__all__ = ["Takes"]

_LIMITS = {"max_tokens", "max_completion_tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """Whether it takes a JSON Schema, tools, a temperature, a system message; how it calls a token limit ("" = both)."""

    schema: bool
    tools: bool
    temperature: bool
    system: bool
    limit_name: str

    def refusal(self, asked: Asked) -> Act | None:
        """The 400 (or 404) for a request that it does not take; None where it takes it."""
        if not asked.path.endswith("/v1/chat/completions"):
            return Act(status=404, error=f"there is no {asked.path} here")
        if wrong := asked.malformed:
            return Act(status=400, error=f"not a chat completion: {wrong}")
        wanted = {"response_format": self.schema, "tools": self.tools, "temperature": self.temperature}
        for name, takes in wanted.items():
            if not takes and name in asked.json:
                return Act(status=400, error=f"'{name}' is not supported with this model")
        if not self.system and asked.system:
            return Act(status=400, error="System role not supported")
        for name in _LIMITS - {self.limit_name} if self.limit_name else ():
            if name in asked.json:
                said = f"Unsupported parameter: '{name}'. Use '{self.limit_name}' instead."
                return Act(status=400, error=said)
        return None
