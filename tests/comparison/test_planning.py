"""How two runs' lists differ, and systems in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from germane import Report, evaluate
from germane.errors import InputError
from germane.reports.pairing import rank_systems
from germane.reports.summary import p_in_words


def rows(system: str, shift: int, n: int = 30) -> list[dict[str, Any]]:
    """Queries whose relevant document stands at a rank from 1 to 5."""
    found = []
    for number in range(n):
        ids = [f"x{rank}" for rank in range(5)]
        ids[(number * 7 + shift * (number % 3)) % 5] = "good"
        contexts = [{"id": name, "text": name, "grade": 3 if name == "good" else 0} for name in ids]
        row = {"id": f"q{number}", "query": "q", "qrels": {"good": 3}, "contexts": contexts}
        found.append({**row, "system": system})
    return found


def values(report: Report, system: str) -> np.ndarray[Any, Any]:
    return np.array([s.value for s in report.scores() if s.system == system and s.measure == "RR"], float)


def test_p_is_p_and_holms_stands_beside_it() -> None:
    """Of three systems both stand, each by its name: as text and in the document."""
    best = [
        {**row, "contexts": sorted(row["contexts"], key=lambda c: -c["grade"])} for row in rows("best", 0)
    ]
    found = rank_systems(evaluate([*rows("a", 0), *best, *rows("b", 1)], "RR"))
    behind = found.systems[1:]
    assert len(behind) == 2
    assert any(one.p != one.p_holm for one in behind)
    for one, line in zip(behind, found.as_json()["systems"][1:], strict=True):
        assert (line["p"], line["p_holm"]) == (one.p, one.p_holm)
        shown = f"p {p_in_words(one.p)}" + (
            "" if one.p == one.p_holm else f" (Holm {p_in_words(one.p_holm)})"
        )
        assert shown in str(found)


def test_systems_stand_in_the_order_of_their_means() -> None:
    """Each against the best; what is below the smallest detectable difference is not distinguishable."""
    best = [
        {**row, "contexts": sorted(row["contexts"], key=lambda c: -c["grade"])} for row in rows("best", 0)
    ]
    report = evaluate([*rows("a", 0), *best, *rows("b", 1)], "RR")
    found = rank_systems(report)
    assert found.systems[0].system == "best"
    assert found.systems[0].difference is None
    means = [one.mean or 0 for one in found.systems]
    assert means == sorted(means, reverse=True)
    shown = str(found).splitlines()
    assert shown[0] == "systems by RR"
    assert "not distinguishable" not in shown[2]
    close = str(rank_systems(evaluate([*rows("a", 0), *rows("b", 1)], "RR")))
    assert close.endswith("not distinguishable")


def test_every_document_of_several_systems_has_their_order() -> None:
    """From Python as from the command line."""
    report = evaluate([*rows("a", 0), *rows("b", 1)], "RR P@1")
    ranking = report.to_json()["ranking"]
    assert [one["measure"] for one in ranking] == ["RR", "P@1"]
    assert {one["system"] for one in ranking[0]["systems"]} == {"a", "b"}
    assert "systems by RR" in str(report)


def test_one_system_is_not_ranked() -> None:
    """Nothing to order."""
    with pytest.raises(InputError, match="one system cannot be ranked"):
        rank_systems(evaluate(rows("", 0), "RR"))
