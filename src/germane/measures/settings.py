"""What one evaluation asks relevance about: one setting for all its measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from germane.errors import InputError
from germane.measures.passages import given
from germane.questions import Scale
from germane.types import Sample

__all__ = ["AGAINST", "Settings"]

AGAINST = ("auto", "query", "reference", "response")


@dataclass(frozen=True, slots=True)
class Settings:
    """What one evaluation asks relevance about: one setting for all its measures.

    `against`: auto = the query, and the reference where the sample has one; query; reference; response.
    `scale`: graded (0-3) or binary.
    """

    against: str = "auto"
    scale: Scale = "graded"

    def __post_init__(self) -> None:
        if self.against not in AGAINST:
            raise InputError(
                f"against={self.against!r} is not known", fix=f"write one of {', '.join(AGAINST)}"
            )
        if self.scale not in {"graded", "binary"}:
            raise InputError(f"scale={self.scale!r} is not known", fix="write graded or binary")

    @classmethod
    def of(cls, against: str | None, scale: str | None) -> Settings:
        """The settings that flags or a file name; None = the default."""
        return cls(against or "auto", cast("Scale", scale or "graded"))

    def beside(self, sample: Sample) -> dict[str, str | None]:
        """The reference or response of a sample that relevance is judged against too, where the settings say so."""
        return {
            "reference": given(sample, "reference") if self.against in {"auto", "reference"} else None,
            "response": given(sample, "response") if self.against == "response" else None,
        }
