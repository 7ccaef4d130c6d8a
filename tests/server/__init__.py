"""A scripted model server: real HTTP, the OpenAI protocol, answers without a model, and every fault of a provider."""

from tests.server.acts import Act, storm
from tests.server.asked import Asked
from tests.server.models import ModelServer
from tests.server.rules import by_overlap

__all__ = ["Act", "Asked", "ModelServer", "by_overlap", "storm"]
