"""One evaluation from its options to its report: plan, units of work, merge; sessions that can be resumed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from germane.evaluation.evaluation import run_coroutine

_HOME = {"run_coroutine": "evaluation"}

__all__ = ["run_coroutine"]


def __getattr__(name: str) -> Any:
    """Imported when first used: `germane rank` asks nobody."""
    if name not in _HOME:
        raise AttributeError(f"module 'germane.evaluation' has no attribute {name!r}")
    return getattr(importlib.import_module(f"germane.evaluation.{_HOME[name]}"), name)
