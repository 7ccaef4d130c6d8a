"""`germane validate`: every fault at once, in the words that a user reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest

from germane.cli.validate import faults_of, validate
from tests.command import invoke

SNAPSHOT = Path(__file__).with_name("malformed.txt")
DATA = "data: d.jsonl"
MALFORMED = [
    "",
    "- a",
    "a: [",
    "a: b: c",
    "judge: a\njudge: b\n" + DATA,
    "judge: [[a]]\n" + DATA,
    "against: all\nrepeat: 0\nbatch: many\n" + DATA,
    "data: none.jsonl",
    "trials: 0\n" + DATA,
    "gates: [[a]]\n" + DATA,
    "gates: ['mean(R@5)']\nmeasures: [R@5]\n" + DATA,
    "gates: ['mean(P@5)>=1']\nmeasures: [R@5]\n" + DATA,
    "columns: {quer: a}\n" + DATA,
    "measures: [nDCGG@10]\n" + DATA,
    "measures: [P]\n" + DATA,
    "measures: ['P(rel=x)@5']\n" + DATA,
    "measures: [{weight: 2}]\n" + DATA,
    "measures: [[P@5]]\n" + DATA,
    "measures: [{type: P@5, weight: -1}, {type: R@5, required: 2}, {type: AP, strict: yes}]\n" + DATA,
    "measures: [{name: a, type: P@5}, {name: a, type: R@5}]\n" + DATA,
    "target: none\n" + DATA,
    "repeat: yes\ndoc_id: [a]\ncontexts_from: json\nreading: slow\n" + DATA,
    "gates: ['foo(R@5)>=1', 'mean(R@5)=>1', 'share(R@5)>=.9']\nmeasures: [R@5]\n" + DATA,
    "description: 'open\n" + DATA,
    "judge: &a lexical\nreading: *b\n" + DATA,
    "data: d.jsonl\n---\ndata: d.jsonl",
    "data: !!python/object:os.system [a]",
    "data: d.jsonl\n\t- id: a",
    "data: [none.jsonl, gone.csv]\ntarget: nowhere",
    "judge: [[a]]\nmeasures: [nDCGG@10]\ngates: ['x']\ntarget: none\n" + DATA,
    "by: [a]\njudgeModel: x\ntrials: none\n" + DATA,
    "measures: [R@5]",
    "columns: [a]\n" + DATA,
    "data: []",
    "data: [[a]]",
    "measures: {P@5: x}\n" + DATA,
    "measures: [{type: context_precision, strict: true, k: many}]\n" + DATA,
    "measures: [{type: nDCG, k: 0}]\n" + DATA,
    "targets: none.yaml\ntarget: a\n" + DATA,
    "gates: [5]\nmeasures: [R@5]\n" + DATA,
    "repeat: 2.5\nbatch: 0\n" + DATA,
]


def messages(folder: Path, texts: Iterable[str]) -> str:
    """Each text with its faults, as `validate` says them in this folder."""
    (folder / ".git").mkdir()
    (folder / "d.jsonl").write_text('{"query": "a"}\n')
    (folder / "targets.yaml").write_text("targets: [{name: rag, provider: mock, response: x}]")
    lines = []
    for text in texts:
        (folder / "e.yaml").write_text(text)
        faults = [str(fault) for fault in faults_of(folder / "e.yaml", lambda _: None)]
        assert faults, text
        lines += [
            f"## {text}",
            *(fault.replace(f"{folder}/", "").replace(str(folder), "") for fault in faults),
            "",
        ]
    return "\n".join(lines)


def agree(said: str, snapshot: Path) -> None:
    """The messages are those of the snapshot.

    After a change that is meant: run the test with the snapshot deleted, and read what it has written.
    """
    if not snapshot.exists():
        snapshot.write_text(said, "utf-8")
    assert said == snapshot.read_text("utf-8")


def test_forty_malformed_files(tmp_path: Path) -> None:
    """Each fault has its place and says what to write."""
    agree(messages(tmp_path, MALFORMED), SNAPSHOT)
    assert len(MALFORMED) >= 40


def test_every_line_of_the_data_and_every_key_of_a_grader(tmp_path: Path) -> None:
    """Not the first fault of a file of samples alone, nor of a grader, nor of a target."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "d.jsonl").write_text(
        '{"query": 5, "tags": 3}\nno json\n{"query": "x", "contexts": 7, "evidence": 1}\n[]\n{"query": "x"}\n'
    )
    (tmp_path / "targets.yaml").write_text(
        "targets:\n  - {name: a, provider: http, url: [x], retries: -1, timeout: no}\n"
    )
    (tmp_path / "e.yaml").write_text(
        "data: d.jsonl\ntarget: a\nmeasures: [{type: RR, strict: a, weight: b, required: 3}]\n"
    )
    found = [
        str(fault).replace(f"{tmp_path}/", "") for fault in faults_of(tmp_path / "e.yaml", lambda _: None)
    ]
    places = [fault.partition(": ")[0] for fault in found]
    assert sorted(places) == [
        "d.jsonl:1:11", "d.jsonl:2:1", "d.jsonl:3:28", "d.jsonl:4",
        "e.yaml:3:31", "e.yaml:3:42", "e.yaml:3:55",
        "targets.yaml:2:36", "targets.yaml:2:50", "targets.yaml:2:63",
    ]  # fmt: skip
    assert any("contexts is the number 7; write" in fault for fault in found)


def test_targets_and_samples_are_looked_at_by_themselves(tmp_path: Path) -> None:
    """A targets file and a file of samples are no eval files."""
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: a, provider: mock, response: x}, {name: b, provider: no}]"
    )
    (tmp_path / "d.jsonl").write_text('{"query": "x", "id": "a"}\n{"query": "y", "id": "a"}\n')
    (wrong,) = faults_of(tmp_path / "targets.yaml", lambda _: None)
    assert "unknown provider 'no'" in str(wrong)
    (wrong,) = faults_of(tmp_path / "d.jsonl", lambda _: None)
    assert "also occurs on line 1" in str(wrong)


def test_every_fault_names_its_file(tmp_path: Path) -> None:
    """Of several, also one that no line has: a judge that there is not, a measure that no sample allows."""
    (tmp_path / "d.jsonl").write_text('{"query": "x", "id": "a"}\n')
    for name, text in {"a.yaml": "judge: lexcal\nmeasures: [RR]", "b.yaml": "measures: [RR]"}.items():
        (tmp_path / name).write_text(f"{text}\n{DATA}\n")
    first, second = invoke("validate", tmp_path / "a.yaml", tmp_path / "b.yaml").out.splitlines()
    assert "a.yaml: unknown provider 'lexcal'" in first
    assert "b.yaml: RR cannot be computed for any sample" in second


def test_a_folder_may_be_named_from_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`../evals` is not hidden, a folder within it whose name begins with a dot is."""
    for folder in ("evals/.old", "work"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "evals/a.yaml").write_text(f"measures: [R@5]\n{DATA}")
    (tmp_path / "evals/d.jsonl").write_text('{"query": "a"}')
    (tmp_path / "evals/.old/b.yaml").write_text("a: [")
    monkeypatch.chdir(tmp_path / "work")
    assert validate([Path("../evals")], schema=False, qrels=None, corpus=None, json=False) == 2
    assert capsys.readouterr().out.startswith("R@5 cannot be computed")


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("u.run", "q1 Q0 d1 1 2.0 a\n".encode("utf-16"), "this file is encoded as UTF-16"),
        ("u.qrels", "q1 0 d1 1\n".encode("utf-16"), "this file is encoded as UTF-16"),
        ("u.jsonl", '{"query": "x"}\n'.encode("utf-16"), "this file is encoded as UTF-16"),
        ("five.run", b"q1 7 1 2.0 a\n", "five columns"),
        ("none.run", None, "no such file or folder"),
    ],
)
def test_a_file_that_cannot_be_read_does_not_hide_the_others(
    tmp_path: Path, name: str, content: bytes | None, fault: str
) -> None:
    """It is named alone; the faults of other files and the checks of the test set in them are printed as well."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "a.run").write_text("q1 Q0 d2 1 3.0 a\nq1 Q0 d1 2 2.0 a\n")
    (tmp_path / "g.qrels").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 1\n")
    (tmp_path / "bad.yaml").write_text("measures: [R@5]\nbogus: [\n")
    ran = invoke("validate", *(tmp_path / file for file in (name, "bad.yaml", "a.run", "g.qrels")), "--json")
    first, second = ran.json["faults"]
    assert (ran.code, ran.json["files"], fault in first, name in first) == (2, 4, True, True)
    assert "bad.yaml:" in second
    assert next(check["count"] for check in ran.json["checks"] if check["name"] == "width") == 2


@pytest.mark.parametrize(("row", "code"), [('{"query": "x"}', 0), ('{"quer": "x"}', 2)])
def test_standard_input_is_read_once(row: str, code: int) -> None:
    """Samples from a pipe are checked like those of a file."""
    assert invoke("validate", "-", stdin=f"{row}\n").code == code


def test_faults_of_rows_are_in_order(tmp_path: Path) -> None:
    """Row 10 comes after row 2, in tables without lines too."""
    pl.DataFrame({"query": [""] * 12}).write_parquet(tmp_path / "t.parquet")
    rows = [
        int(fault.split("row ")[1].split(":")[0])
        for fault in invoke("validate", tmp_path / "t.parquet", "--json").json["faults"]
    ]
    assert rows == [*range(1, 13)]
