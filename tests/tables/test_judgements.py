"""Judgements: flat rows, each once, counted by how they were asked."""

from __future__ import annotations

from collections import Counter
from typing import Any

from germane.encoding import decode, encode
from germane.tables.judgements import JudgementTable, asked_json, count_asked, dump_judgement, load_judgement
from germane.types import FrozenDict, Judgement, Usage


def judgement(key: str, kind: str = "relevance", **more: Any) -> Judgement:
    how = FrozenDict(more.pop("how", {}))
    return Judgement(**{"key": key, "item": "i", "kind": kind, "judge": "m", "provenance": how, **more})


FULL = judgement(
    "k",
    prompt="p",
    answer={"grade": 2},
    parent="panel",
    request="r1",
    usage=Usage(requests=1, input_tokens=10, output_tokens=5, cost_usd=0.25),
    ms=12.5,
    at="2026-01-01T00:00:00+00:00",
    how={"fused": ("relevance", "statements"), "place": 3, "mode": "schema", "left_out": None},
)


def test_a_row_is_flat() -> None:
    """The fields and those of the provenance side by side, without what says nothing."""
    assert decode(encode(dump_judgement(FULL))) == {
        "key": "k",
        "item": "i",
        "kind": "relevance",
        "judge": "m",
        "prompt": "p",
        "answer": {"grade": 2},
        "parent": "panel",
        "request": "r1",
        "usage": {"requests": 1, "input": 10, "output": 5, "cost_usd": 0.25},
        "ms": 12.5,
        "at": "2026-01-01T00:00:00+00:00",
        "fused": ["relevance", "statements"],
        "place": 3,
        "mode": "schema",
    }
    assert dump_judgement(judgement("k", error="ill")) == {
        "key": "k", "item": "i", "kind": "relevance", "judge": "m", "error": "ill",
    }  # fmt: skip


def test_a_judgement_comes_back_as_it_was() -> None:
    """But for the nulls of its provenance; an answer of false is an answer."""
    again = load_judgement(decode(encode(dump_judgement(FULL))))
    assert dump_judgement(again) == dump_judgement(FULL)
    for one in (judgement("a", answer=False), judgement("b", answer={}), judgement("c", error="ill")):
        assert load_judgement(decode(encode(dump_judgement(one)))) == one


def test_the_first_judgement_of_a_key_stays() -> None:
    """Measures that share a question share its judgement."""
    table = JudgementTable([judgement("a", answer=1), judgement("b", answer=2), judgement("a", answer=3)])
    assert [one.answer for one in table] == [1, 2]
    assert asked_json(count_asked(Counter(), table)) == {"relevance": {"n": 2}}


def test_judgements_are_counted_by_how_they_were_asked() -> None:
    """What a panel merged counts once as a verdict; its members say by which model and mode."""
    how = {
        "mode": "schema",
        "model": "m-1",
        "left_out": ("temperature",),
        "list_size": 10,
        "against": "reference",
    }
    table = JudgementTable(
        [
            judgement("a", how={**how, "fused": ("relevance", "statements")}),
            judgement("b", how={**how, "mode": "tool", "against": "query"}),
            judgement("c", how={"against": "reference", "votes": ()}),
            judgement("d", parent="c", how={**how, "replica": 2}),
            judgement("e", "support", error="ill", how={"windows": 3, "list_size": 1}),
        ]
    )
    assert asked_json(count_asked(Counter(), table)) == {
        "relevance": {
            "n": 3,
            "with_reference": 2,
            "without_reference": 1,
            "fused": 1,
            "left_out": {"temperature": 3},
            "list_size": {"10": 3},
            "mode": {"schema": 2, "tool": 1},
            "model": {"m-1": 3},
            "panel": 1,
        },
        "support": {"n": 1, "errors": 1, "windows": 1},
    }
