"""Cases with graders of their own in parts."""

from __future__ import annotations

from pathlib import Path

from .conftest import Cli


def test_cases_with_graders_of_their_own(inside: Cli, tmp_path: Path) -> None:
    """Parts whose cases have different graders are not merged; the ledger keeps what was answered."""
    cases = "".join(
        f"  - {{id: q{n}, query: what is {n}, contexts: [{{text: it is {n}, grade: {n % 4}}}],"
        f" assert: [{{type: {'context_precision@1' if n % 3 else 'P(labels=human)@1'}}}]}}\n"
        for n in range(12)
    )
    (tmp_path / "e.yaml").write_text(f"judge: labels\ncases:\n{cases}", "utf-8")
    for number in (1, 2, 3):
        assert inside("run", "e.yaml", "-o", f"p{number}", "--part", f"{number}/3").code == 0
    merged = inside("merge", "p1", "p2", "p3", "-o", "merged")
    assert merged.code == 2
    assert "different graders" in merged.err
