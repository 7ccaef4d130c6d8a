"""What a judge answers to a question of relevance: a grade, or a yes or no."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from germane.questions.payload import PayloadModel, Reason, Whole, YesNo


class GradePayload(PayloadModel):
    """`{reasoning, grade}`."""

    reasoning: Reason = Field("", description="1-2 sentences in the passage's language")
    grade: Whole = Field(ge=0, le=3, description="0 to 3")


class RelevantPayload(PayloadModel):
    """`{reasoning, relevant}`."""

    reasoning: Reason = Field("", description="1-2 sentences in the passage's language")
    relevant: YesNo


Probability: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class GradeDistribution(GradePayload):
    """`{grade, probabilities}`: how probable each grade from 0 to 3 is; `grade` is the most probable one."""

    probabilities: list[Probability] = Field(min_length=4, max_length=4)


class RelevantDistribution(RelevantPayload):
    """`{relevant, probabilities}`: how probable a no and a yes are; `relevant` is the more probable one."""

    probabilities: list[Probability] = Field(min_length=2, max_length=2)
