"""docs/testing.md: its examples run as they stand."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
TEXT = PAGE.read_text("utf-8")
BLOCKS = re.compile(r"(?<=^```python\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def code() -> str:
    """The examples on the lines on which they stand, so that a failure names its line of the page."""
    found, at = "", 0
    for block in BLOCKS.finditer(TEXT):
        found += "\n" * TEXT.count("\n", at, block.start()) + block[0]
        at = block.end()
    return found


CODE = code()
NAMES: dict[str, Any] = {}
exec(compile(CODE, str(PAGE), "exec"), NAMES)
TESTS: dict[str, Callable[..., None]] = {name: it for name, it in NAMES.items() if name.startswith("test_")}
LINES = {
    node.name: "\n".join(map(ast.unparse, node.body)).count("\n") + 1
    for node in ast.parse(CODE).body
    if isinstance(node, ast.FunctionDef)
}


@pytest.mark.parametrize("name", TESTS)
def test_an_example_holds(name: str, tmp_path: Path) -> None:
    """As a test of whoever copies it."""
    example = TESTS[name]
    example(**({"tmp_path": tmp_path} if inspect.signature(example).parameters else {}))


def test_an_example_is_short() -> None:
    """Five lines are enough."""
    assert {name: lines for name, lines in LINES.items() if lines > 5} == {}
