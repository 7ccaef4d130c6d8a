"""What the peers' scripts share: their arguments, the samples, and the one line of JSON that they end with.

Each script runs in its peer's own environment; nothing here or there imports germane.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import corpus

MODEL = "gpt-4o-mini"
GIVE_UP = 15
"""Seconds after which a request is given up, where the tool has a setting for it."""

Score = tuple[str, str, Any]
"""Sample, measure, and a number, None, or the exception that was raised."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=16, help="requests (or what it calls tasks) at once")
    parser.add_argument("--cache", default="", help="a folder, where the tool has a cache to switch on")
    parser.add_argument("--changed", action="store_true", help="one context of each sample is another")
    return parser.parse_args()


def samples(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = corpus.samples(options.samples, changed=options.changed)
    return [{**row, "texts": [context["text"] for context in row["contexts"]]} for row in rows]


def finish(scores: Iterable[Score]) -> None:
    print(json.dumps({"scores": [_shown(*score) for score in scores]}))


def _shown(sample: str, measure: str, value: Any) -> dict[str, Any]:
    if isinstance(value, BaseException):
        return {
            "sample": sample,
            "measure": measure,
            "value": None,
            "status": "raised",
            "why": str(value)[:200],
        }
    if value is None or math.isnan(value):
        return {"sample": sample, "measure": measure, "value": None, "status": "none"}
    return {"sample": sample, "measure": measure, "value": float(value), "status": "ok"}
