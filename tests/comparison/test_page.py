"""Every block of docs/compare.md runs, with the exit codes that it names."""

import re
import shlex
from pathlib import Path

import pytest

from tests.command import invoke

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"
BLOCK = re.compile(r"(?<! -->\n)^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    commands = 0
    for kind, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), {})
            continue
        for line in text.splitlines():
            command, _, code = line.partition("# exit code ")
            done = invoke(*shlex.split(command)[1:])
            assert done.code == int(code or 0), (line, done.err)
            commands += 1
    assert commands >= 12
