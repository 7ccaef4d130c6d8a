"""The mark in the tags around judged text, from one process to the next."""

import json
import re
import stat
from pathlib import Path

import pytest

from germane.ledger.address import secret_beside
from tests.cli.conftest import Cli
from tests.server import ModelServer

FILE = """
judge: openai:test
measures: [context_precision, answer_relevancy]
data: s.jsonl
"""
ROW = {"id": "a", "query": "why?", "contexts": ["one"], "response": "because"}


@pytest.fixture
def asked(inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The texts that a run sends, sorted; no answer of an earlier run is known."""
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    (tmp_path / "e.yaml").write_text(FILE)
    (tmp_path / "s.jsonl").write_text(json.dumps(ROW))

    def run(*more: str) -> list[str]:
        for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        known = len(server.asked)
        inside("run", "e.yaml", "--base-url", server.url, "--ledger", "ledger.sqlite", *more)
        return sorted(one.user for one in server.asked[known:])

    with ModelServer() as server:
        yield run


def marks(users: list[str]) -> set[str]:
    return {mark for user in users for mark in re.findall(r"</\w+-(\w{4})>", user)}


def test_a_run_that_starts_again_sends_the_same(asked, tmp_path: Path) -> None:
    """The secret beside the ledger makes the mark; without it the next is another."""
    first = asked()
    assert len({tag for user in first for tag in re.findall(r"<(\w+)-\w{4}>", user)}) > 1, first
    assert any("<passage-" in user for user in first)
    secret = tmp_path / "ledger.sqlite.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert asked() == first
    secret.unlink()
    assert not marks(asked()) & marks(first)


def test_no_secret_is_left_without_a_ledger(asked, tmp_path: Path) -> None:
    """A run that keeps no ledger keeps no secret."""
    assert marks(asked("--no-cache")) != marks(asked("--no-cache"))
    assert not list(tmp_path.rglob("*.secret"))


@pytest.mark.parametrize("planted", ["readable", "link", "short", "folder"])
def test_a_secret_that_others_can_know_is_not_used(tmp_path: Path, planted: str) -> None:
    """A file out of a repository is readable by others, and is replaced."""
    place = str(tmp_path / "ledger.sqlite")
    Path(place).touch()
    path, known = Path(f"{place}.secret"), b"0" * 64
    if planted == "folder":
        path.mkdir()
        assert secret_beside(place) is None
        return
    path.write_bytes(known[:5] if planted == "short" else known)
    path.chmod(0o644 if planted == "readable" else 0o600)
    if planted == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    found = secret_beside(place)
    assert found not in {None, known, known[:5]}
    assert secret_beside(place) == found == path.read_bytes()
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600


def test_the_secret_is_in_no_key(asked, tmp_path: Path) -> None:
    """Two ledgers with secrets of their own hold the same keys."""
    keys = []
    for folder in ("r1", "r2"):
        asked("-o", folder)
        rows = (tmp_path / folder / "judgements.jsonl").read_text().splitlines()
        keys.append(sorted(json.loads(row)["key"] for row in rows))
        (tmp_path / "ledger.sqlite.secret").unlink()
    assert keys[0] == keys[1] != []
