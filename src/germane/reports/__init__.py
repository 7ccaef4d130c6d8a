"""An evaluation's rows, what they add up to, and how it is shown."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from germane.reports.data import ReportData
    from germane.reports.explain import Explainer, grader_results, results_of
    from germane.reports.manifest import models_in

_HOME = {
    "ReportData": "data",
    "Explainer": "explain",
    "grader_results": "explain",
    "results_of": "explain",
    "models_in": "manifest",
}

__all__ = ["Explainer", "ReportData", "grader_results", "models_in", "results_of"]


def __getattr__(name: str) -> Any:
    """Imported when first used: most commands need one module of this package."""
    if name not in _HOME:
        raise AttributeError(f"module 'germane.reports' has no attribute {name!r}")
    return getattr(importlib.import_module(f"germane.reports.{_HOME[name]}"), name)
