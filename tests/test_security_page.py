"""docs/security.md, and the pages of add-ons: behind each promise stands a test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (.+?) \| `(tests/\S+?)::(\w+)` \|$", re.MULTILINE)
PROMISES = ROW.findall((ROOT / "docs/security.md").read_text("utf-8"))
OF_ADDONS = [
    row for page in (ROOT / "docs").glob("addons/*.md") for row in ROW.findall(page.read_text("utf-8"))
]


@pytest.mark.parametrize(("promise", "file", "name"), PROMISES + OF_ADDONS)
def test_each_promise_names_a_test_that_there_is(promise: str, file: str, name: str) -> None:
    """By file and name."""
    assert f"def {name}(" in (ROOT / file).read_text("utf-8"), promise


def test_no_promise_is_without_a_test() -> None:
    """Every row of the table has been found."""
    table = (ROOT / "docs/security.md").read_text("utf-8").split("| promise | test |\n| --- | --- |\n")[1]
    assert len(PROMISES) == len(table.split("\n\n")[0].splitlines()) > 20
