"""The house plan holds: imports point one way."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import germane

SOURCE = Path(germane.__file__).parent

FORBIDDEN = {
    "types": (
        "errors",
        "samples",
        "targets",
        "judging",
        "measures",
        "reports",
        "evaluation",
        "cli",
        "integrations",
    ),
    "errors": (
        "types",
        "samples",
        "targets",
        "judging",
        "measures",
        "reports",
        "evaluation",
        "cli",
        "integrations",
    ),
    "samples": (
        "targets",
        "judging",
        "measures",
        "reports",
        "evaluation",
        "running",
        "cli",
        "integrations",
        "testing",
    ),
    "targets": ("judging", "measures", "reports", "evaluation", "running", "cli", "integrations", "testing"),
    "judging": ("samples", "targets", "measures", "reports", "evaluation", "running", "cli", "integrations"),
    "measures": ("targets", "reports", "evaluation", "running", "cli", "integrations", "testing", "judges"),
    "reports": ("targets", "running", "cli", "integrations", "testing"),
    "evaluation": ("targets", "running", "suite", "cli", "integrations", "testing"),
}
SEEN_BY_MEASURES = {"programs", "questions", "judges.script", "text"}
"""What of judging a measure may know: questions and how to ask them, never who answers."""


def imports(file: Path) -> Iterator[str]:
    """The germane modules that a file imports, without the `germane.`."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (name.removeprefix("germane.") for name in names if name.startswith("germane."))


def files(part: str) -> list[Path]:
    return sorted((SOURCE / part).rglob("*.py")) if (SOURCE / part).is_dir() else [SOURCE / f"{part}.py"]


@pytest.mark.parametrize("part", FORBIDDEN)
def test_imports_point_one_way(part: str) -> None:
    """No part imports what stands above it."""
    wrong = [
        f"{file.relative_to(SOURCE)} imports {name}"
        for file in files(part)
        for name in imports(file)
        if name.split(".")[0] in FORBIDDEN[part]
    ]
    assert not wrong


def test_measures_never_see_a_model() -> None:
    """Of judging, measures know the questions and how to ask; not the pool, the ledger or a model."""
    wrong = [
        f"{file.relative_to(SOURCE)} imports {name}"
        for file in files("measures")
        for name in imports(file)
        if name.startswith("judging.")
        and not any(name.removeprefix("judging.").startswith(ok) for ok in SEEN_BY_MEASURES)
    ]
    assert not wrong


def test_nothing_imports_the_command_line() -> None:
    """Cli is the top: only __main__ starts it."""
    wrong = [
        f"{file.relative_to(SOURCE)} imports {name}"
        for file in SOURCE.rglob("*.py")
        for name in imports(file)
        if name.split(".")[0] == "cli" and file.parent.name != "cli" and file.name != "__main__.py"
    ]
    assert not wrong
