"""Add-ons: the core works without each of germane's own, and finds those of other packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from germane import addons

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns("__pycache__")


@pytest.mark.parametrize("name", addons.own())
def test_the_readme_runs_without_an_addon(name: str, tmp_path: Path) -> None:
    """With its folder deleted every command of the README does what it says."""
    for folder in ("src", "tests", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=LEFT_OUT)
    for file in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path)
    shutil.rmtree(tmp_path / "src/germane/addons" / name)
    program = (
        "import sys, pytest; code = pytest.main('-q -p no:cacheprovider -p no:xdist tests/test_docs.py -k README'.split());"
        f"from germane import addons; assert {name!r} not in addons.own(); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


STRANGER = """
from germane.addons import Addon, Reader

def rows(rows, warn):
    for number, row, where in rows:
        yield number, {"query": row["ask"], "qrels": {row["want"]: 1}, "contexts": [{"id": row["got"]}]}, where

def bars(report):
    yield from (f"{line.measure} {'#' * round(10 * line.mean)}\\n" for line in report.summaries)

ADDON = Addon(
    about="Logs of shop search, and bars.",
    readers={"shop": Reader("shop:rows", first=[["ask", "got|took", "want"]])},
    writers={".bars": "shop:bars", ".gone": "shop:no_such"},
)
"""


def germane(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "germane", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with an installed package that brings an add-on, and a log that it reads."""
    (tmp_path / "shop.py").write_text(STRANGER, "utf-8")
    (tmp_path / "shop-1.0.dist-info").mkdir()
    (tmp_path / "shop-1.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n", "utf-8"
    )
    (tmp_path / "shop-1.0.dist-info/entry_points.txt").write_text(
        "[germane.addons]\nshop = shop:ADDON\n", "utf-8"
    )
    log = ({"ask": f"q{n}", "want": "d1", "got": f"d{n}"} for n in range(1, 5))
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log), "utf-8")
    return tmp_path


def test_an_installed_package_brings_a_reader_and_a_format(shop: Path) -> None:
    done = germane(shop, "run", "log.jsonl", "-m", "R@1", "-o", "out.bars", "-o", "report")
    assert done.returncode == 0, done.stderr
    assert (shop / "out.bars").read_text("utf-8") == "R@1 ##\n"


def test_what_a_package_lacks_is_an_error_that_names_it(shop: Path) -> None:
    done = germane(shop, "run", "log.jsonl", "-m", "R@1", "-o", "out.gone")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "the add-on of shop names shop:no_such" in done.stderr


def test_a_package_that_cannot_be_loaded_is_an_error_that_names_it(shop: Path) -> None:
    (shop / "shop.py").write_text("import no_such_module\n", "utf-8")
    done = germane(shop, "run", "log.jsonl", "-m", "R@1")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "the add-on shop of shop cannot be loaded: ModuleNotFoundError" in done.stderr


def test_rows_of_samples_ask_no_package(shop: Path) -> None:
    """A broken package harms nobody who does not need it."""
    (shop / "shop.py").write_text("import no_such_module\n", "utf-8")
    (shop / "log.jsonl").write_text('{"query": "q", "qrels": {"d": 1}, "contexts": [{"id": "d"}]}\n', "utf-8")
    done = germane(shop, "run", "log.jsonl", "-m", "R@1", "-o", "out.csv", "-o", "report")
    assert done.returncode == 0, done.stderr
