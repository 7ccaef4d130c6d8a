"""For tests of what is built on germane: a judge whose answers are written down."""

from germane.judges.fake import FakeJudge

__all__ = ["FakeJudge"]
