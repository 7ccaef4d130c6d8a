"""docs/security.md: behind each promise stands a test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISES = re.findall(
    r"^\| (.+?) \| `(tests/\S+?)::(\w+)` \|$", (ROOT / "docs/security.md").read_text("utf-8"), re.MULTILINE
)


@pytest.mark.parametrize(("promise", "file", "name"), PROMISES)
def test_each_promise_names_a_test_that_there_is(promise: str, file: str, name: str) -> None:
    """By file and name."""
    assert f"def {name}(" in (ROOT / file).read_text("utf-8"), promise


def test_no_promise_is_without_a_test() -> None:
    """Every row of the table has been found."""
    table = (ROOT / "docs/security.md").read_text("utf-8").split("| promise | test |\n| --- | --- |\n")[1]
    assert len(PROMISES) == len(table.split("\n\n")[0].splitlines()) > 20
