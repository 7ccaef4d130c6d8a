"""Who can judge: a language model, people's labels, gold ids, a lexical rule, a panel, or your own class."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from germane.judges.client.limits import RateLimiter
    from germane.judges.client.providers import Price
    from germane.judges.client.retry import RetryPolicy
    from germane.judges.fake import FakeJudge
    from germane.judges.judge import Judge, LocalJudge, Reply, as_judge
    from germane.judges.labels import GoldJudge, LabelsJudge
    from germane.judges.lexical import LexicalJudge
    from germane.judges.llm import LLMJudge
    from germane.judges.naming import judge_from, judge_named
    from germane.judges.panel import PanelJudge, repeated

_HOME = {
    "germane.judges.fake": ("FakeJudge",),
    "germane.judges.judge": ("Judge", "LocalJudge", "Reply", "as_judge"),
    "germane.judges.labels": ("GoldJudge", "LabelsJudge"),
    "germane.judges.lexical": ("LexicalJudge",),
    "germane.judges.naming": ("judge_from", "judge_named"),
    "germane.judges.panel": ("PanelJudge", "repeated"),
    "germane.judges.client.limits": ("RateLimiter",),
    "germane.judges.client.providers": ("Price",),
    "germane.judges.client.retry": ("RetryPolicy",),
    "germane.judges.llm": ("LLMJudge",),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "FakeJudge",
    "GoldJudge",
    "Judge",
    "LLMJudge",
    "LabelsJudge",
    "LexicalJudge",
    "LocalJudge",
    "PanelJudge",
    "Price",
    "RateLimiter",
    "Reply",
    "RetryPolicy",
    "as_judge",
    "judge_from",
    "judge_named",
    "repeated",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used: the client under the model judge is not needed to read gold ids."""
    if name not in _WHERE:
        raise AttributeError(f"module 'germane.judges' has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
