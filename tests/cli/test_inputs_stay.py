"""What a command reads is never what it writes."""

import json
from pathlib import Path

import pytest

from tests.command import invoke

ROW = {"id": "a", "query": "tides?", "qrels": {"d": 1}, "contexts": [{"id": "d", "text": "the moon"}]}


@pytest.mark.parametrize(
    "words",
    [
        ("run", "d.jsonl", "-o", "d.jsonl"),
        ("run", "d.jsonl", "-m", "RR", "--labels", "l.csv", "-o", "l.csv"),
        ("label", "report", "--export", "d.jsonl"),
        ("label", "report", "--import", "l.csv", "--export", "l.csv"),
        ("label", "report", "--export", "report/samples.jsonl"),
        ("report", "report", "-o", "d.jsonl"),
        ("score", "report", "-m", "AP", "-o", "new.md", "-o", "d.jsonl"),
        ("compare", "report", "report", "-o", "report/manifest.json"),
        ("rank", "r.csv", "--qrels", "g.csv", "-m", "RR", "-o", "r.csv"),
        ("rank", "r.csv", "--qrels", "g.csv", "-m", "RR", "-o", "g.csv"),
    ],
    ids=" ".join,
)
def test_an_input_is_never_overwritten(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own name or through a link: exit 2, and it is as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    Path("d.jsonl").write_text(json.dumps(ROW) + "\n")
    Path("l.csv").write_text("sample,id,grade\na,d,1\n")
    Path("r.csv").write_text("query_id,doc_id,score\na,d,1\n")
    Path("g.csv").write_text("query_id,doc_id,grade\na,d,1\n")
    Path("link.jsonl").symlink_to("d.jsonl")
    assert invoke("run", "d.jsonl", "-m", "RR", "-o", "report").code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = invoke(*words)
    assert (done.code, done.out) == (2, "")
    assert "would overwrite an input file" in done.err
    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
