"""The settings of an evaluation for judging relevance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from germane.errors import InputError
from germane.places.lists import field_text
from germane.tables.labels import LabelBook
from germane.types import Json, Sample, Scale

__all__ = [
    "Settings",
]

AGAINST = ("auto", "query", "reference", "response", "criterion")
RUBRICS = ("trec", "usefulness")


@dataclass(frozen=True, slots=True)
class Settings:
    """How relevance is judged, the same for all measures of an evaluation.

    Attributes:
        against: What a context is compared with: query, reference, response or criterion; auto = the query and the sample's
            reference or, without one, its criterion.
        scale: graded (0-3) or binary.
        rubric: The wording of the grades: trec or usefulness.
        labels: People's labels other than those on contexts; they take precedence over these.
        judged_by: The labels that stand in for a judge's verdicts: "labels" (people's), "gold" or "" (none).
    """

    against: str = "auto"
    scale: Scale = "graded"
    rubric: str = "trec"
    labels: LabelBook | None = None
    judged_by: Literal["", "labels", "gold"] = ""

    def __post_init__(self) -> None:
        names = {"against": AGAINST, "scale": ("graded", "binary"), "rubric": RUBRICS}
        for name, choices in names.items():
            if getattr(self, name) not in choices:
                raise InputError(
                    f"{name}={getattr(self, name)!r} is not known", fix=f"write one of {', '.join(choices)}"
                )

    @classmethod
    def of(cls, against: str | None, scale: str | None, rubric: str | None = None) -> Settings:
        """Return the settings given by flags or a file; None = the default."""
        return cls(against or "auto", cast("Scale", scale or "graded"), rubric or "trec")

    @classmethod
    def stored(cls, manifest: Mapping[str, Json], labels: LabelBook | None = None) -> Settings:
        """Return the settings stored in a report's manifest, with these labels."""
        made = cls(**(manifest.get("settings") or {}), labels=labels)
        return made.with_judge(str((manifest.get("judge") or {}).get("source") or ""))

    def with_judge(self, name: str) -> Settings:
        """Return the settings for a judge of this name: `labels` and `gold` stand in for verdicts."""
        return replace(self, judged_by=cast("Any", name if name in {"labels", "gold"} else ""))

    @property
    def asked(self) -> dict[str, str]:
        """The scale and wording of a relevance question, as its fields."""
        return {"scale": self.scale, **({"rubric": self.rubric} if self.rubric != "trec" else {})}

    def shown_with(self, sample: Sample) -> dict[str, str]:
        """Return the sample's field that relevance is judged against besides the query, with its text; {} if there is none."""
        names = ("reference", "criterion") if self.against == "auto" else (self.against,)
        texts = ((name, field_text(sample, name)) for name in names if name != "query")
        return next(({name: text} for name, text in texts if text), {})
