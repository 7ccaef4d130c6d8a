"""Under which name an endpoint takes the limit of an answer's tokens: OpenAI has renamed it, and not all have followed.

Who does not know a name may say so, or pass over it without a word and cut the answer where it always does.
"""

from __future__ import annotations

import re

__all__ = ["LIMITS", "LimitName"]

LIMITS = ("max_tokens", "max_completion_tokens")

_UNKNOWN = re.compile(
    r"un(?:supported|recogni[sz]ed|known|expected)|not (?:supported|permitted|allowed)|extra"
)


class LimitName:
    """The `name` to use, as far as is known; "" where the endpoint takes none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._refused: set[str] = set()
        self._unheeded: set[str] = set()

    @property
    def _other(self) -> str:
        (other,) = set(LIMITS) - {self.name}
        return other

    def refused(self, said: str) -> bool:
        """Whether an error is about the name; then it has the other one, and none where that was refused before."""
        if not self.name:
            return False
        unknown = self.name in said and _UNKNOWN.search(said) is not None
        if not unknown and self._other not in said:
            return False
        self._refused.add(self.name)
        self.name = "" if self._other in self._refused else self._other
        return True

    def unheeded(self, name: str) -> bool:
        """Whether to ask again: an answer was cut well below the limit that was sent under that name.

        Each name is doubted once: where the other is passed over too, the first is used as before.
        """
        if not self.name or name != self.name:
            return bool(self.name)
        if name in self._unheeded or self._other in self._refused:
            return False
        self._unheeded.add(name)
        self.name = self._other
        return True
