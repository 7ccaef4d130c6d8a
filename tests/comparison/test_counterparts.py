"""Cases without ids are paired by their queries, wherever they stand in their files."""

import json
from pathlib import Path

import pytest

from tests.command import invoke

ROWS = [
    {
        "query": f"question {number}",
        "qrels": {f"g{number}": 1},
        "retrieved_context_ids": ["a", "b", f"g{number}"][-1 - number % 3 :],
    }
    for number in range(10)
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder, in which commands run."""
    monkeypatch.chdir(tmp_path)


def report_on(rows, name):
    """Evaluate these rows into a report of this name."""
    Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert invoke("run", f"{name}.jsonl", "-m", "RR", "-o", name, "--force").code == 0


def compared(*options):
    """The document of a comparison of a with b, and its only row."""
    document = json.loads(invoke("compare", "a", "b", "--json", *options).out)
    return document, document["comparisons"][0]


NEW = {"query": "new", "qrels": {"z": 1}, "retrieved_context_ids": ["z"]}


@pytest.mark.parametrize(
    ("rows", "n", "alone"),
    [
        ([*ROWS[1:], ROWS[0]], 10, []),
        (ROWS[::-1], 10, []),
        ([NEW, *ROWS], 10, ["1"]),
        ([*ROWS[:4], *ROWS[5:]], 9, []),
        ([{**row, "query": f"  {row['query']} "} for row in ROWS[::-1]], 10, []),
        ([*ROWS[::-1], ROWS[0]], 9, ["10", "11"]),  # one text, twice here and once there
    ],
)
def test_queries_pair_by_their_texts(rows, n, alone):
    """No score differs where the same rows stand in another order; what has no counterpart is counted."""
    report_on(ROWS, "a")
    report_on(rows, "b")
    document, row = compared()
    assert (row["n"], row["wins"], row["ties"], row["losses"], row["difference"]) == (n, 0, n, 0, 0)
    assert document["only_in"]["b"] == alone
    assert (row["parts"]["retrieval"], row["parts"]["labels"]) == (0, 0)
    assert f"{n} queries paired by text" in invoke("compare", "a", "b").out


def test_equal_texts_pair_in_order_of_occurrence():
    """Two lines with one query are the first and the second of it in both files."""
    twice = [*ROWS, {**ROWS[0], "retrieved_context_ids": ["x"]}]
    report_on(twice, "a")
    report_on([NEW, *twice], "b")
    _, row = compared()
    assert (row["n"], row["wins"], row["ties"], row["losses"]) == (11, 0, 11, 0)


def test_a_change_of_the_same_rows_in_another_order_is_that_of_the_same_file():
    """Gates on a change against a baseline pair alike."""
    report_on(ROWS, "a")
    report_on(ROWS[::-1], "b")
    options = ("-m", "RR", "--baseline", "a", "--fail-under", "change(RR)>=-0.2", "--json")
    same, moved = (
        json.loads(invoke("run", f"{name}.jsonl", *options, "-o", f"{name}2").out) for name in "ab"
    )
    assert (moved["exit_code"], moved["passed"]) == (same["exit_code"], same["passed"]) == (0, True)


@pytest.mark.parametrize("number", [str, "q{}".format])
def test_ids_pair_where_they_are_given(number):
    """The same ids in another order are the same cases; one that has two queries is noted and stays paired."""
    rows = [{**row, "id": number(at * 7)} for at, row in enumerate(ROWS, 1)]
    report_on(rows, "a")
    changed = [*rows[:3], {**rows[3], "query": "something else"}, *rows[4:]]
    report_on(changed, "b")
    assert compared()[1]["ties"] == 10
    note = f"1 id has different queries in a and b: {number(28)} is 'question 3' and 'something else'"
    assert note in " ".join(invoke("compare", "a", "b").out.split())
    ran = invoke("run", "b.jsonl", "-m", "RR", "--baseline", "a", "--fail-on-regression", "-o", "c")
    assert "1 id has different queries in the baseline and this report" in " ".join(ran.out.split())
    report_on(rows[::-1], "b")
    document, row = compared()
    assert (row["ties"], [note for note in document["notes"] if "quer" in note]) == (10, [])


def test_a_recording_in_another_order_answers_the_same_queries():
    """Answers without ids are found by their queries; one that is not there is an error, not another line's answer."""
    questions = [{"query": row["query"], "qrels": row["qrels"]} for row in ROWS[:3]]
    answers = [{"query": row["query"], "retrieved_context_ids": list(row["qrels"])} for row in ROWS[:3]]
    Path("targets.yaml").write_text(
        "targets:\n  - name: rec\n    provider: recorded\n    path: answers.jsonl\n"
    )
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    for kept, measured in ((answers[::-1], 3), (answers[1:], 2)):
        Path("answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
        words = (
            "q.jsonl",
            "--targets",
            "targets.yaml",
            "--target",
            "rec",
            "-m",
            "RR",
            "--json",
            "--no-cache",
        )
        line = json.loads(invoke("run", *words, "-o", f"r{measured}").out)["measures"]["RR"]
        assert (line["mean"], line["n"], line["errors"]) == (1.0, measured, 3 - measured)


def test_a_recorded_answer_to_another_query_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an id that was given the answer counts, and the note says what was asked there."""
    monkeypatch.chdir(tmp_path)
    Path("q.jsonl").write_text('{"id": "q1", "query": "tide", "qrels": {"d": 1}}\n', "utf-8")
    Path("a.jsonl").write_text('{"id": "q1", "query": "bread", "contexts": [{"id": "d"}]}\n', "utf-8")
    Path("targets.yaml").write_text("targets: [{name: r, provider: recorded, path: a.jsonl}]\n", "utf-8")
    ran = invoke("run", "q.jsonl", "--target", "r", "-m", "RR", "-v")
    assert (
        "1 x an id with another query in a.jsonl: q1 is 'tide' in the case, 'bread' in the file"
        in ran.out + ran.err
    )
