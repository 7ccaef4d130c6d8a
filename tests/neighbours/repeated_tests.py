"""Tests that pytest-repeat runs several times: their queries count once."""

from __future__ import annotations

import pytest

from germane.testing import Recorder

GOLD = {"first": "d1", "second": "d2", "third": "d3"}


@pytest.mark.parametrize("query", GOLD)
def test_search(germane: Recorder, query: str) -> None:
    """Reciprocal ranks 1, .5 and 0."""
    found = [{"id": "d1"}, {"id": "d2"}]
    germane.record(query=query, contexts=found, qrels={GOLD[query]: 1}, measures="RR")
