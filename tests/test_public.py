"""What a user imports, and that starting up stays light."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import germane
from germane import errors
from germane.errors import GermaneError


def test_the_public_names_are_few_and_all_there() -> None:
    """`__all__` is the namespace: every name resolves, and one can read it in a breath."""
    assert len(germane.__all__) <= 25
    assert all(getattr(germane, name) is not None for name in germane.__all__)
    assert set(germane.__all__) <= set(dir(germane))


def test_the_tree_of_errors_is_drawn() -> None:
    """Every exception stands in the docstring's tree and under its base."""
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, GermaneError)]
    assert classes
    assert all(c.__name__ in (errors.__doc__ or "") for c in classes)


@pytest.mark.parametrize("words", ["--help", "run --help", "ledger prune --help"])
def test_help_loads_nothing_heavy(words: str) -> None:
    """Help needs neither numpy nor an HTTP client nor YAML."""
    code = (
        f"import sys, json\nsys.argv = ['germane', *{words.split()}]\nfrom germane.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(json.dumps([m for m in ('numpy', 'rich', 'httpx2', 'yaml', 'pydantic', 'sqlite3', 'asyncio') if m in sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(out.splitlines()[-1]) == []


def test_rank_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """A small run is ranked without the command line's, the models', the judges' and the reader of large files' packages."""
    (tmp_path / "run").write_text("q1 Q0 a 1 2.0 t\n", encoding="utf-8")
    (tmp_path / "gold").write_text("q1 0 a 1\n", encoding="utf-8")
    code = (
        f"import sys, json\nsys.argv = ['germane', 'rank', {str(tmp_path / 'run')!r}, '--qrels', {str(tmp_path / 'gold')!r}]\n"
        "from germane.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = 'pydantic polars rich asyncio ssl germane.questions germane.judging germane.judges'.split()\n"
        "print(json.dumps([name for name in heavy if name in sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(out.splitlines()[-1]) == []
