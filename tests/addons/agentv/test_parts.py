"""Cases with graders of their own in parts."""

from __future__ import annotations

from pathlib import Path

from tests.addons.cluster.test_parts import means, same_tables

from .conftest import Cli


def test_cases_with_graders_of_their_own(inside: Cli, tmp_path: Path) -> None:
    """Cases of an eval file have graders of their own, numbered as in one part; its gates and counts are whole."""
    cases = "".join(
        f"  - {{id: q{n}, query: what is {n}, contexts: [{{text: it is {n}, grade: {n % 4}}}],"
        f" assert: [{{type: {'context_precision@1' if n % 3 else 'P(labels=human)@1'}}}]}}\n"
        for n in range(12)
    )
    gates = 'gates: ["mean(context_precision@1)>=0.2"]\n'
    (tmp_path / "e.yaml").write_text(f"judge: labels\n{gates}cases:\n{cases}", "utf-8")
    ran = inside("run", "e.yaml", "-o", "whole")
    assert ran.code in {0, 1}, ran.err
    for number in (1, 2, 3):
        assert inside("run", "e.yaml", "-o", f"p{number}", "--part", f"{number}/3").code == 0
    merged = inside("merge", "p1", "p2", "p3", "-o", "merged")
    assert merged.code == ran.code, merged.err
    assert same_tables(tmp_path / "whole", tmp_path / "merged")
    assert means(tmp_path / "whole") == means(tmp_path / "merged")
