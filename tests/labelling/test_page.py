"""docs/labels.md: its commands run as they stand."""

import random
import re
import shlex
from pathlib import Path

from tests.cli.conftest import Cli, inside, write_jsonl

__all__ = ["inside"]

PAGE = Path(__file__).parents[2] / "docs" / "labels.md"
BLOCKS = re.compile(r"(?<! -->\n)^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_s_commands_run(inside: Cli, tmp_path: Path) -> None:
    """In their order, in one folder; the keys are pressed by a pipe, and the corrected mean appears in the report."""
    rng = random.Random(0)
    rows = [
        {
            "id": f"q{n}",
            "query": "bread",
            "contexts": [f"{'bread' * rng.randrange(2)} {n} {k}" for k in range(5)],
        }
        for n in range(20)
    ]
    write_jsonl(tmp_path / "samples.jsonl", *rows)
    commands = [line for block in BLOCKS.findall(PAGE.read_text("utf-8")) for line in block.splitlines()]
    assert len(commands) >= 11
    out = ""
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "germane"
        ran = inside(*words, stdin="".join(rng.choice("0123") for _ in range(60)))
        assert ran.code == 0, f"{command}: {ran.err}{ran.out}"
        out += ran.out
    assert "60 of 60 labelled by ann" in out
    assert "Cohen's kappa" in out
    assert "60 labels); judged 0.5000; measured on 20 of 20" in " ".join(out.split())
