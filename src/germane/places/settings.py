"""The settings of an evaluation that say how relevance is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from germane.errors import InputError
from germane.places.lists import field_text
from germane.tables.labels import LabelBook
from germane.types import Json, Sample, Scale

__all__ = ["Settings"]

AGAINST = ("auto", "query", "reference", "response", "criterion")
RUBRICS = ("trec", "usefulness")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings for judging relevance, which are the same for all measures of an evaluation.

    `against` names the field of the sample that a judge sees beside the query; "auto" is the reference or,
    without one, the criterion. `scale` is "graded" (0-3) or "binary", and `rubric` the wording of the grades.
    `labels` are people's labels, which take precedence over those on contexts. `judged_by` names the labels
    that replace a judge's verdicts: "labels" (people's), "gold", or "" (a judge is asked).
    """

    against: str = "auto"
    scale: Scale = "graded"
    rubric: str = "trec"
    labels: LabelBook | None = None
    judged_by: Literal["", "labels", "gold"] = ""

    def __post_init__(self) -> None:
        names = {"against": AGAINST, "scale": ("graded", "binary"), "rubric": RUBRICS}
        for name, choices in names.items():
            if (value := getattr(self, name)) not in choices:
                fix = f"write one of {', '.join(choices)}"
                raise InputError(f"unknown value {value!r} of the setting {name}", fix=fix)

    @classmethod
    def of(cls, against: str | None, scale: str | None, rubric: str | None = None) -> Settings:
        """Return the settings with these values from flags or a file; None means the default."""
        return cls(against or "auto", cast("Scale", scale or "graded"), rubric or "trec")

    @classmethod
    def stored(cls, manifest: Mapping[str, Json], labels: LabelBook | None = None) -> Settings:
        """Return the settings stored in a report's manifest, with `labels` as people's labels."""
        made = cls(**(manifest.get("settings") or {}), labels=labels)
        return made.with_judge(str((manifest.get("judge") or {}).get("source") or ""))

    def with_judge(self, name: str) -> Settings:
        """Return these settings for a judge; the names "labels" and "gold" set `judged_by`."""
        return replace(self, judged_by=cast("Any", name if name in {"labels", "gold"} else ""))

    @property
    def asked(self) -> dict[str, str]:
        """The scale and the rubric, as keyword arguments of a relevance question."""
        return {"scale": self.scale, **({"rubric": self.rubric} if self.rubric != "trec" else {})}

    def shown_with(self, sample: Sample) -> dict[str, str]:
        """Return {field: text} for the field that a judge sees beside the query and the passage, or {}."""
        names = ("reference", "criterion") if self.against == "auto" else (self.against,)
        texts = ((name, field_text(sample, name)) for name in names if name != "query")
        return next(({name: text} for name, text in texts if text), {})
