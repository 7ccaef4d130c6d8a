"""What a judge answers to a question of relevance: a grade, or a yes or no."""

from __future__ import annotations

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
