"""`germane score`: a stored report scored again is never the worse for it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, write_jsonl

ROWS = [
    {"id": f"q{n}", "query": "a", "contexts": [{"text": f"a {n} {k}"} for k in range(3)]} for n in range(4)
]


@pytest.mark.parametrize(
    "words", [["-o", "r"], ["-o", "./sub/../r"], ["-o", "link"], ["-o", "r/scores.jsonl"]]
)
@pytest.mark.parametrize("measure", [[], ["-m", "context_precision@1"]])
def test_a_report_is_not_scored_onto_itself(
    cli: Cli, tmp_path: Path, words: list[str], measure: list[str]
) -> None:
    """Under whatever name: exit 2, and the report stays as it is. Another folder is written."""
    data = write_jsonl(tmp_path / "data.jsonl", *ROWS)
    cli("run", data, "-m", "context_precision@3", "--judge", "lexical", "--no-cache", "-o", "r")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("r")
    before = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
    ran = cli("score", "r", *measure, *words)
    assert ran.code == 2
    assert "would overwrite the report that is scored" in ran.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == before
    assert cli("score", "r", *measure, "-o", "other").code == 0
    assert cli("report", "other").code == 0


@pytest.mark.parametrize("name", ["scores.jsonl", "manifest.json"])
def test_a_report_is_not_written_over_its_own_rows(cli: Cli, tmp_path: Path, name: str) -> None:
    """`germane report` and `germane run` write no file under the name of one of the report's own."""
    data = write_jsonl(tmp_path / "data.jsonl", *ROWS)
    cli("run", data, "-m", "context_precision@3", "--judge", "lexical", "--no-cache", "-o", "r")
    before = (tmp_path / "r" / name).read_bytes()
    ran = cli("report", "r", "-o", f"r/{name}")
    assert ran.code == 2
    assert "is the report's own" in ran.err
    assert (tmp_path / "r" / name).read_bytes() == before
    assert cli("report", "r", "-o", "r/scores.csv").code == 0
