"""`germane explain`: a query's scores with the numbers behind them."""

from pathlib import Path

import pytest

from germane.types import Json
from tests.cli.conftest import Cli, write_jsonl


@pytest.fixture
def report(inside: Cli, tmp_path: Path) -> str:
    contexts = [{"id": "d1", "text": "plants", "grade": 0}, {"id": "d2", "text": "four minutes", "grade": 3}]
    samples: list[dict[str, Json]] = [
        {"id": "steep", "query": "how long does coffee steep", "contexts": contexts, "qrels": {"d2": 1}},
        {"id": "sweet", "query": "how sweet is coffee", "contexts": [], "qrels": {"d9": 1}},
    ]
    data = write_jsonl(tmp_path / "data.jsonl", *samples)
    assert inside("run", data, "-m", "context_precision@5 RR", "--judge", "labels", "-o", "report").code == 0
    return "report"


def test_every_measure_of_a_query_is_explained(inside: Cli, report: str) -> None:
    """The formula, and each place with its verdict's source."""
    ran = inside("explain", report, "steep")
    assert ran.code == 0, ran.err
    assert "context_precision@5 = 0.5000" in ran.out
    assert "RR = 0.5000" in ran.out
    assert "human 3" in ran.out
    assert "gold 1" in ran.out


def test_labels_that_differ_have_signs_of_their_own(inside: Cli, tmp_path: Path) -> None:
    """Gold says no, a person yes: one sign for both would be wrong for one of the measures."""
    contexts = [{"id": "d1", "text": "a", "grade": 3}, {"id": "d2", "text": "b", "grade": 0}]
    row = {"id": "q1", "query": "q", "contexts": contexts, "qrels": {"d1": 0, "d2": 1}}
    data = write_jsonl(tmp_path / "data.jsonl", row)
    inside("run", data, "-m", "context_precision RR", "--judge", "labels", "-o", "r")
    printed = inside("explain", "r", "q1").out
    assert ("□ gold 0, ■ human 3" in printed, "■ gold 1, □ human 0" in printed) == (True, True)


def test_a_query_may_be_longer_than_the_name_of_a_file(inside: Cli, tmp_path: Path) -> None:
    """It is no report, and is looked up in the latest one."""
    row = {"query": "why " * 99, "contexts": [{"id": "d"}], "qrels": {"d": 1}}
    inside("run", write_jsonl(tmp_path / "data.jsonl", row), "-m", "RR")
    assert "RR = 1.0000" in inside("explain", row["query"]).out


def test_long_ids_are_told_apart_by_their_ends(inside: Cli, tmp_path: Path) -> None:
    """URLs of chunks: in the table of ranks, of stages and of a comparison."""
    urls = [
        f"https://docs.example.com/a/manual/of/many/pages/and/chapters.html#section-{n}" for n in range(2)
    ]
    row = {"id": "q1", "query": "q", "retrieved_context_ids": urls[:1], "qrels": {urls[1]: 1}}
    for name, ids in (("a", urls[:1]), ("b", urls)):
        data = write_jsonl(tmp_path / f"{name}.jsonl", {**row, "retrieved_context_ids": ids})
        inside("run", data, "-m", "RR", "-o", name)
    for words in (("explain", "b", "q1"), ("stages", "a"), ("compare", "a", "b")):
        assert "section-1" in inside(*words).out.partition("missing")[0]


def test_what_stands_in_the_data_is_no_command_to_the_terminal(inside: Cli, tmp_path: Path) -> None:
    """Ids, queries, passages and reasons with escapes in them are printed without; so are errors that quote them."""
    hostile = "\x1b[31mred\x1b]0;title\x07\u202e"
    row = {"id": hostile, "query": hostile, "contexts": [{"text": hostile, "grade": 1}]}
    data = write_jsonl(tmp_path / "data.jsonl", row)
    assert inside("run", data, "-m", "context_precision@5", "--judge", "labels", "-o", "r", "-q").code == 0
    twice = write_jsonl(tmp_path / "twice.jsonl", row, row)
    unknown = write_jsonl(tmp_path / "unknown.jsonl", {"id": "a", "query": "b", f"qurels{hostile}": 1})
    for ran in (
        inside("explain", "r", "red"),
        inside("explain", "r", "no such"),
        inside("run", twice, "-m", "context_precision@5", "--judge", "labels", "-o", "r2"),
        inside("run", unknown, "-m", "context_precision@5", "--judge", "labels", "-o", "r3"),
    ):
        assert ran.out + ran.err
        assert not set(ran.out + ran.err) & {"\x1b", "\x07", "\u202e"}


def test_a_script_reads_the_explanation_as_json(inside: Cli, report: str) -> None:
    """--json holds the labels of each place, and the numbers in each formula."""
    facts = inside("explain", report, "steep", "--json").json
    first, second = facts["calls"][0]["contexts"]
    assert [(label["source"], label["grade"]) for label in second["labels"]] == [
        ("gold", 1),
        ("human", 3),
    ]
    assert first["item"] != second["item"]
    measures = {row["measure"]: row for row in facts["measures"]}
    assert measures["RR"]["numbers"] == "1 / 2"
    assert measures["context_precision@5"]["numbers"] == "0.5 / 1"


def test_missing_gold_is_named(inside: Cli, report: str) -> None:
    """A gold document that did not come back stands in the explanation by its id."""
    ran = inside("explain", report, "sweet", "RR")
    assert "missing gold: d9 (grade 1)" in ran.out
    assert "no context came back" in ran.out


def test_the_first_of_much_missing_gold_is_named(inside: Cli, tmp_path: Path) -> None:
    """The best grades first; `--json` has all."""
    gold: dict[str, Json] = {f"d{n}": 1 + (n == 50) for n in range(60)}
    data = write_jsonl(tmp_path / "data.jsonl", {"id": "q", "query": "q", "contexts": [], "qrels": gold})
    inside("run", data, "-m", "RR", "-o", "r")
    printed = " ".join(inside("explain", "r", "q").out.split())
    assert "missing gold: d50 (grade 2), d0 (grade 1)" in printed
    assert "d18 (grade 1) and 40 more" in printed
    assert len(inside("explain", "r", "q", "--json").json["missing"]) == 60


def test_labels_of_two_people_are_not_two_searches(inside: Cli, tmp_path: Path) -> None:
    """The strip has a sign per passage, and the reason counts labels."""
    data = write_jsonl(
        tmp_path / "s.jsonl", {"id": "q1", "query": "tides?", "contexts": ["one", "two", "three"]}
    )
    assert inside("run", data, "-m", "context_precision@3", "--judge", "lexical", "-o", "r").code == 0
    for who, keys in (("ann", "331"), ("bob", "310")):
        assert inside("label", "r", "--who", who, stdin=keys).code == 0
    assert inside("score", "r", "-m", "P(labels=human)@3", "-o", "p").code == 0
    (line,) = (line for line in inside("report", "p").out.splitlines() if line.endswith("q1  tides?"))
    assert len(line.split()[1]) == 3
    assert (
        "3/6 labels of 2 people relevant, P(labels=human)@3 score: 0.50" in inside("explain", "p", "q1").out
    )
