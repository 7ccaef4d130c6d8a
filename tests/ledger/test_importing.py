"""Importing judgements: a line that is wrong is named with its field, and what is right comes in in one spelling."""

import json
from pathlib import Path

import msgspec
import pytest

from germane.errors import InputError
from germane.ledger.jsonl import import_rows
from germane.ledger.sqlite import SQLiteLedger
from germane.tables.judgements import dump_judgement
from germane.types import FrozenDict, Json, Judgement, Usage

KEY = "ab" * 16
ROW: dict[str, Json] = {"key": KEY, "kind": "relevance", "judge": "openai:test", "answer": {"grade": 1}}
ABSENT = object()


def brought(tmp_path: Path, *lines: str) -> tuple[list[int], dict[str, Judgement]]:
    """What became of the lines, and what stands under the key."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        done = import_rows(ledger, path)
        return list(done), ledger.find([KEY])


def line(**changed: object) -> str:
    return json.dumps({name: value for name, value in {**ROW, **changed}.items() if value is not ABSENT})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (line(kind=None), "kind is null"),
        (line(kind=ABSENT), "has no kind"),
        (line(judge=12), "judge is the number 12"),
        (line(prompt=None), "prompt is null"),
        (line(key="ab"), "32 hexadecimal digits"),
        (line(key=" ".join(["ab"] * 16)), "32 hexadecimal digits"),
        (line(key=7), "key is the number 7"),
        (line(answer=ABSENT), "neither the field 'answer' nor 'error'"),
        (line(error=5), "error is the number 5"),
        (line(usage=None), "usage is null"),
        (line(usage=[1]), "usage is a list"),
        (line(usage={"requests": None}), "usage.requests is null"),
        (line(usage={"requests": True}), "usage.requests is true"),
        (line(usage={"input": 2**70}), "usage.input is"),
        (line(usage={"input": 2**63}), "usage.input is"),
        (line(usage={"output": -1}), "usage.output is the number -1"),
        (line(usage={"cost_usd": -5}), "usage.cost_usd is the number -5"),
        (line(usage={"cost_usd": float("nan")}), "usage.cost_usd is"),
        (line(usage={"cost_usd": "1"}), "usage.cost_usd is the string"),
        (line(ms="fast"), "ms is"),
        (line(ms=float("inf")), "ms is"),
        (line(at=5), "at is the number 5"),
        (line(parent=5), "parent is the number 5"),
        (line(item=None), "item is null"),
        (line(answer={"grade": float("nan")}), "which JSON cannot represent"),
        (line()[:-1] + ', "deep": ' + "[" * 500 + "]" * 500 + "}", "nested more than 100 levels"),
        (line()[:-1] + ', "deep": ' + "[" * 99999 + "]" * 99999 + "}", "recursion"),
        ("[1]", "has no key"),
        ('{"key":', "the line is not a judgement"),
    ],
)
def test_a_field_that_cannot_be_is_named(tmp_path: Path, wrong: str, said: str) -> None:
    """With file and line, and what to write instead; nothing of the batch comes in."""
    with pytest.raises(InputError) as caught:
        brought(tmp_path, line(), wrong)
    assert "rows.jsonl:2: " in str(caught.value)
    assert said in str(caught.value)
    assert caught.value.fix
    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        assert not len(ledger)


def test_a_mark_of_byte_order_and_empty_lines_are_passed_over(tmp_path: Path) -> None:
    """Editors leave them; lines still count."""
    counts, _ = brought(tmp_path, "\ufeff" + line(), "", "  \r", line(key="cd" * 16) + "\r")
    assert counts == [2, 0, 0]


def test_whatever_a_report_holds_is_imported(tmp_path: Path) -> None:
    """Every field filled, and the least of them."""
    full = Judgement(
        key=KEY,
        kind="relevance",
        judge="openai:test",
        prompt="abc",
        answer={"grade": 1, "reasoning": "ü \ud83d"},
        usage=Usage(requests=1, input_tokens=2, output_tokens=3, cost_usd=0.5),
        ms=1.5,
        at="2026-11-21T12:00:00.000+00:00",
        item="cd" * 16,
        parent="ef" * 16,
        request="r1",
        provenance=FrozenDict({"mode": "schema", "list_size": 2}),
    )
    least = Judgement(key="cd" * 16, kind="claims", judge="labels", answer=False)
    counts, found = brought(tmp_path, json.dumps(dump_judgement(full)), json.dumps(dump_judgement(least)))
    assert counts == [2, 0, 0]
    assert found[KEY] == msgspec.structs.replace(full, answer={"grade": 1, "reasoning": "ü \ufffd"})
