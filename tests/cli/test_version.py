"""`germane --version` and what `--verbose` adds for a bug report."""

from __future__ import annotations

from pathlib import Path

import pytest

from germane.version import __version__
from tests.cli.conftest import Cli


def test_the_version_alone_is_one_line(cli: Cli) -> None:
    """For scripts."""
    assert cli("--version").out == f"germane {__version__}\n"


def test_a_bug_report_has_versions_formats_and_settings_but_no_secret(
    inside: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and the password of a ledger's address are named, never shown."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("GERMANE_LEDGER", "postgresql://me:hidden@host/db")
    monkeypatch.setenv("GERMANE_JUDGE", "openai:gpt-4o-mini")
    lines = inside("--version", "--verbose").out
    for part in (
        "numpy 2",
        "[tables]",
        "report 3 (reads 2 to 3), ledger 4",
        "GERMANE_JUDGE",
        "OPENAI_API_KEY",
    ):
        assert part in lines
    assert "secret" not in lines
    assert "hidden" not in lines


def test_broken_settings_are_said_in_the_line_of_the_settings(inside: Cli, tmp_path: Path) -> None:
    """Whoever reports a bug may have exactly that one."""
    (tmp_path / "germane.toml").write_text("judge = ")
    done = inside("--version", "-v")
    assert (done.code, "cannot be read" in done.out) == (0, True)


def test_the_ledger_of_the_settings_is_named_and_no_address_is_shown(
    inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge's address may hold a key, and the ledger may stand in germane.toml; the flags may stand in any order."""
    (tmp_path / "germane.toml").write_text('ledger = "answers.sqlite"\n')
    monkeypatch.setenv("GERMANE_JUDGE", "openai:m@https://me:hidden@host/v1?key=secret lexical")
    lines = inside("--verbose", "--version").out
    assert f"{tmp_path / 'answers.sqlite'} (not there yet)" in lines
    assert "openai:m@https://... lexical" in lines
    assert "hidden" not in lines
    assert "secret" not in lines
    (tmp_path / "germane.toml").write_text('ledger = "postgresql://me:hidden@host/db"\n')
    lines = inside("--version", "--verbose").out
    assert "postgresql://..." in lines
    assert "hidden" not in lines
