"""One evaluation, from options to report: its plan, its run, and how an interrupted run is resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily

if TYPE_CHECKING:
    from germane.evaluation.evaluation import run_coroutine

__all__ = ["run_coroutine"]

__getattr__ = lazily(__name__, {"run_coroutine": "evaluation"})
"""Imported when first used: `germane rank` asks nobody."""
