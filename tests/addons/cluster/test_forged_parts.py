"""Parts in which somebody wrote what germane would not are not merged."""

from pathlib import Path

from tests.cli.conftest import Cli, write_jsonl
from tests.cli.test_forged import JUDGED, ROWS, report

__all__ = ["report"]


def test_parts_whose_gold_changed_are_not_merged(inside: Cli, report: Path) -> None:
    """The file is named, though it has its size still."""
    for number, old, new in ((3, '"d": 1', '"d": 0'), (2, '"e"', '"f"')):
        data = write_jsonl(report.parent / "s.jsonl", *ROWS)
        assert inside(*JUDGED, "--part", "1/2", "-o", "p1", "--force").code == 0
        lines = data.read_text().splitlines(keepends=True)
        lines[number - 1] = lines[number - 1].replace(old, new)
        data.write_text("".join(lines))
        assert inside(*JUDGED, "--part", "2/2", "-o", "p2", "--force").code == 0
        found = inside("merge", "p1", "p2", "-o", "m")
        assert found.code == 2
        assert "p1 and p2 belong to different evaluations: the input s.jsonl; run all parts" in found.err
