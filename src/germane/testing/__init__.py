"""For tests of what is built on germane: a scripted model server and a judge with written-down answers."""

from germane.judging.judges.fake import FakeJudge
from germane.testing.acts import Act, Asked, by_overlap, storm
from germane.testing.models import ModelServer

__all__ = ["Act", "Asked", "FakeJudge", "ModelServer", "by_overlap", "storm"]
