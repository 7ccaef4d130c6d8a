"""The settings of relevance in an evaluation."""

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
    """The settings of relevance in one evaluation, the same for all its measures.

    `against`: auto = the query, and the sample's reference or, where it has none, its criterion; query; reference;
    response; criterion. `scale`: graded (0-3) or binary. `rubric` names the wording of the grades: trec, or usefulness.
    `labels` are people's labels other than those on the contexts themselves; where both are there, `labels` count. `judged_by`
    names the labels that are read in place of a judge's verdicts: "labels" (people's) or "gold"; "" = none are.
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
        """The settings that flags or a file name; None = the default."""
        return cls(against or "auto", cast("Scale", scale or "graded"), rubric or "trec")

    @classmethod
    def stored(cls, manifest: Mapping[str, Json], labels: LabelBook | None = None) -> Settings:
        """The settings in the manifest of a report; `labels` as above."""
        made = cls(**(manifest.get("settings") or {}), labels=labels)
        return made.with_judge(str((manifest.get("judge") or {}).get("source") or ""))

    def with_judge(self, name: str) -> Settings:
        """The settings of an evaluation by the judge of that name."""
        return replace(self, judged_by=cast("Any", name if name in {"labels", "gold"} else ""))

    @property
    def asked(self) -> dict[str, str]:
        """On which scale and by which wording relevance is graded."""
        return {"scale": self.scale, **({"rubric": self.rubric} if self.rubric != "trec" else {})}

    def shown_with(self, sample: Sample) -> dict[str, str]:
        """The reference, response or criterion of a sample that relevance is judged against, with the query."""
        names = ("reference", "criterion") if self.against == "auto" else (self.against,)
        texts = ((name, field_text(sample, name)) for name in names if name != "query")
        return next(({name: text} for name, text in texts if text), {})
