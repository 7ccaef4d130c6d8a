"""For tests of what is built on germane: a scripted model server and a judge with written-down answers."""

from germane.judges.fake import FakeJudge
from germane.testing.acts import Act, storm
from germane.testing.asked import Asked
from germane.testing.models import ModelServer
from germane.testing.rules import by_overlap

__all__ = ["Act", "Asked", "FakeJudge", "ModelServer", "by_overlap", "storm"]
