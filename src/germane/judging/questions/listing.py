"""Questions that list what a text holds. Their one input is the text: it is asked once, whoever needs the list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from germane.judging.questions.base import Question, object_schema, texts
from germane.judging.text import blank
from germane.types import Json

__all__ = ["Claims", "Entities"]


@dataclass(frozen=True, slots=True)
class Claims(Question[tuple[str, ...]]):
    """What does this text claim, one self-contained statement each?"""

    kind: ClassVar[str] = "claims"
    opens: ClassVar[bool] = True
    batched: ClassVar[bool] = True

    text: str

    @property
    def about(self) -> str:
        """The text."""
        return self.text

    def inputs(self) -> dict[str, Json]:
        """The text alone, so that a text's claims are extracted once whoever needs them."""
        return {"text": self.text}

    def schema(self) -> dict[str, Json]:
        """`{claims: [string]}`."""
        return object_schema(claims={"type": "array", "items": {"type": "string"}})

    def read(self, payload: Json) -> tuple[str, ...]:
        """The claims, in order; none is an answer too."""
        return texts(payload, "claims")

    def unasked(self) -> Json:
        """An empty text claims nothing."""
        return {"claims": []} if blank(self.text) else None

    def typical(self) -> Json:
        """One claim a sentence of about 60 characters."""
        count = max(1, len(self.text) // 60)
        return {"claims": [self.text[i * 60 : i * 60 + 60].strip() or "a claim" for i in range(count)]}


@dataclass(frozen=True, slots=True)
class Entities(Question[tuple[str, ...]]):
    """Which persons, places, dates, numbers and other named things does this text hold?"""

    kind: ClassVar[str] = "entities"
    batched: ClassVar[bool] = True

    text: str

    @property
    def about(self) -> str:
        """The text."""
        return self.text

    def inputs(self) -> dict[str, Json]:
        """The text alone: neither the query nor what the entities are wanted for."""
        return {"text": self.text}

    def schema(self) -> dict[str, Json]:
        """`{entities: [string]}`."""
        return object_schema(entities={"type": "array", "items": {"type": "string"}})

    def read(self, payload: Json) -> tuple[str, ...]:
        """The entities as the text spells them; none is an answer too."""
        return texts(payload, "entities")

    def unasked(self) -> Json:
        """An empty text names nothing."""
        return {"entities": []} if blank(self.text) else None

    def typical(self) -> Json:
        """Words that begin with a capital or hold a digit, and at least one."""
        found = dict.fromkeys(re.findall(r"\b(?:[A-Z]\w+|\w*\d\w*)\b", self.text))
        return {"entities": list(found) or [self.text[:10].strip() or "an entity"]}
