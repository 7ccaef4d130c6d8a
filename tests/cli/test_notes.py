"""Notes of a run: few above the table, all where they are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from germane import evaluate
from tests.command import invoke


def write(folder: Path, scores: tuple[float, ...], relevant: str = "b") -> None:
    """Four queries whose lists are a, b, c with these scores, as samples and as a run with gold."""
    names = "abc"[: len(scores)]
    contexts = [{"id": name, "text": name, "score": score} for name, score in zip(names, scores, strict=True)]
    rows = [
        {"id": f"q{n}", "query": f"what {n}?", "qrels": {relevant: 1}, "contexts": contexts} for n in range(4)
    ]
    (folder / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = (
        f"q{n} Q0 {name} {at} {score} x\n"
        for n in range(4)
        for at, (name, score) in enumerate(zip(names, scores, strict=True), 1)
    )
    (folder / "r.trec").write_text("".join(lines))
    (folder / "g.qrels").write_text("".join(f"q{n} 0 {relevant} 1\n" for n in range(4)))


@pytest.mark.parametrize(
    ("scores", "relevant", "values"),
    [
        ((3.0, 2.0, 2.0), "b", ("0.5000", "0.3333")),  # c comes before b: ids descend
        ((3.0, 2.0, 1.0), "b", ("0.5000", "0.5000")),
        ((3.0, 2.0, 2.0), "a", ("1.0000", "1.0000")),  # the tie is among others
        ((2.0, 3.0, 3.0), "b", ("0.5000", "0.5000")),  # in no order of the scores
    ],
)
def test_ties_make_two_numbers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scores: tuple[float, ...],
    relevant: str,
    values: tuple[str, str],
) -> None:
    """`run` keeps the list and `rank` orders ties by id."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, scores, relevant)
    ran = invoke("run", "s.jsonl", "-m", "RR")
    ranked = [
        invoke("rank", "r.trec", "--qrels", "g.qrels", "-m", "RR", *more)
        for more in ((), ("--duplicates", "first"))
    ]
    assert values[0] in ran.out
    assert all(values[1] in one.out for one in ranked)


def test_few_notes_stand_above_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that change what a number means; the rest behind -v, in `germane report` and in files; none is lost."""
    monkeypatch.chdir(tmp_path)
    contexts = [{"id": name, "text": f"text of {name}"} for name in "abcdef"]
    rows = [
        {"query": f"what {n}?", "contexts": contexts, "reference": "it is", "qrels": {"a": 1}}
        for n in range(9)
    ]
    rows += [{"query": "unknown", "contexts": contexts}]
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [
        "run",
        "s.jsonl",
        "--judge",
        "lexical",
        "-o",
        "r",
        "--force",
        "-m",
        "RR R@5 nDCG@10 context_precision context_recall",
    ]

    def notes(*command: str) -> list[str]:
        return [line for line in invoke(*command).out.splitlines() if line.startswith("note ")]

    short, every = notes(*words), notes(*words, "-v")
    assert len(short) == 4
    assert "lexical is a word-overlap rule" in short[0]
    assert short[-1] == f"note     {len(every) - 3} more notes: -v, `germane report` and the page show them"
    assert set(short[:-1]) < set(every)
    assert notes("report", "r") == every
    report = evaluate(rows, "RR R@5 nDCG@10")
    assert str(report).count("\nnote ") <= 3
