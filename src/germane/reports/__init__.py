"""The report of an evaluation: its rows, means, gates and formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily

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

__getattr__ = lazily(__name__, _HOME)
"""Imported when first used: most commands need one module of this package."""
