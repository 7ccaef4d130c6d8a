"""What a command imports: what it does not use costs every small run its CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

CODE = """
import contextlib, io, json, sys
from germane.cli import main
sys.argv = ["germane", *json.loads(sys.argv[1])]
with contextlib.redirect_stdout(io.StringIO()):
    try:
        main()
    except SystemExit as done:
        code = done.code
print(json.dumps([code, sorted(sys.modules)]))
"""
CLIENTS = ("httpx", "httpx2", "http.client", "http.server", "pydantic_ai", "germane.judges.client")
FORMATS = ("pydantic", "yaml", "sqlite3", "xml", "polars", "pyarrow")
FILES = (
    "germane.evalfiles.evalfile",
    "germane.samples.runs.source",
    "germane.evalfiles.model",
    "germane.yamltext",
    "germane.graders",
    "germane.targets.target",
    "germane.targets.targetsfile",
    "germane.ledger.sqlite",
    "germane.ledger.store",
    "germane.labelling",
    "germane.comparison",
    "germane.reports.page",
    "germane.reports.plots",
    "germane.reports.correct",
    "germane.reports.pairing",
    "germane.statistics.systems",
    "germane.statistics.correction",
    "germane.judges.llm",
    "germane.addons.agentv.script_judge",
    "germane.questions.payload",
)
UNUSED = (*CLIENTS, *FORMATS, *FILES)
"""What a run over gold labels has no use for."""


def imported(folder: Path, words: Sequence[str]) -> list[str]:
    """The modules that are imported once the command has ended with 0."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    code, names = json.loads(done.stdout)
    assert code == 0, done.stderr
    return list(names)


def unused_in(names: Sequence[str], unused: Sequence[str]) -> list[str]:
    """Which of these packages were imported, or anything in them."""
    return [one for one in unused if any(name == one or name.startswith(f"{one}.") for name in names)]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a sample that has gold, a TREC run and its gold."""
    sample = {
        "id": "q1",
        "query": "why?",
        "contexts": [{"id": "a", "text": "so"}, {"id": "b", "text": "no"}],
        "qrels": {"a": 1},
    }
    (tmp_path / "gold.jsonl").write_text(json.dumps(sample) + "\n", encoding="utf-8")
    (tmp_path / "run").write_text("q1 Q0 a 1 2.0 t\n", encoding="utf-8")
    (tmp_path / "qrels").write_text("q1 0 a 1\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "more", ["", "--json", "--fail-under mean(nDCG@10)>=0.5", "-o r.json -o r.csv -o r.md"]
)
def test_run_over_gold(work: Path, more: str) -> None:
    """A run over gold labels imports no checker of answers, reader of eval files, client, page or ledger."""
    # its picture, of some queries
    drawn = (
        "germane.reports.plots",
        "germane.reports.page",
        "germane.reports.pairing",
        "germane.statistics.systems",
    )
    unused = [one for one in UNUSED if ".md" not in more or one not in drawn]
    words = ["run", "gold.jsonl", "-m", "nDCG@10 AP P@1", *more.split()]
    assert unused_in(imported(work, words), unused) == []


def test_score(work: Path) -> None:
    """Scoring a stored report again imports no more than the run did."""
    imported(work, ["run", "gold.jsonl", "-m", "nDCG@10", "-o", "report"])
    assert unused_in(imported(work, ["score", "report", "-m", "P@1 RR"]), UNUSED) == []


def test_rank(work: Path) -> None:
    """A small run is ranked without what knows of judging, and without the terminal's tables."""
    names = imported(work, ["rank", "run", "--qrels", "qrels"])
    more = ("rich", "asyncio", "ssl", "germane.questions", "germane.judging", "germane.judges")
    unused = [one for one in (*UNUSED, *more) if one != "germane.samples.runs.source"]
    assert unused_in(names, unused) == []


@pytest.mark.parametrize("words", ["--help", "run --help", "ledger export --help", "--version"])
def test_help(work: Path, words: str) -> None:
    """Help needs no numbers, records or tables."""
    names = imported(work, words.split())
    more = (
        "numpy",
        "msgspec",
        "orjson",
        "rich",
        "asyncio",
        "germane.types",
        "germane.evaluation",
        "germane.samples",
    )
    assert unused_in(names, (*UNUSED, *more)) == []


def test_evaluate_over_gold(tmp_path: Path) -> None:
    """The library's call imports no more than the command."""
    code = (
        "import json, sys\nfrom germane import evaluate\n"
        "evaluate([{'id': 'q', 'query': 'why?', 'contexts': [{'id': 'a'}], 'qrels': {'a': 1}}], ['nDCG@10'])\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert unused_in(json.loads(done.stdout), UNUSED) == []
