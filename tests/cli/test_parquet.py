"""Whatever reads a report says the same of one whose tables are in Parquet."""

import re
from pathlib import Path

import pytest

from germane import Report

from .conftest import Cli, write_jsonl
from .test_parts import means, rows

MEASURES = ("-m", "context_precision@5 nDCG@10 RR context_recall", "--judge", "lexical", "--no-cache")
TABLES = ("samples", "items", "judgements", "scores")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same evaluation in both forms; its judgements have the same times, as the second is scored from the first."""
    from tests.command import invoke

    path = tmp_path_factory.mktemp("forms")
    stages = [{"name": "first", "ids": ["d1", "d2"]}, {"name": "last", "ids": ["d2"]}]
    write_jsonl(path / "s.jsonl", *({**row, "stages": stages} for row in rows(12)))
    made = invoke("run", path / "s.jsonl", *MEASURES, "-o", path / "lines")
    assert made.code == 0, made.err
    Report.open(path / "lines").save(path / "parts", form="parquet")
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("report", "REPORT"),
        ("report", "REPORT", "-o", "page.html"),
        ("report", "REPORT", "-o", "page.jsonl"),
        ("explain", "REPORT", "q3"),
        ("compare", "lines", "REPORT"),
        ("diagnose", "REPORT"),
        ("stages", "REPORT"),
        ("label", "REPORT", "--for-width", "0.05"),
        ("label", "REPORT", "--export", "labels.csv"),
        ("audit", "REPORT", "-o", "audit.md"),
        ("score", "REPORT", "-m", "context_precision@3 P@5"),
        ("score", "REPORT", "-m", "context_precision@3", "-o", "again", "--format", "parquet"),
        ("questions", "REPORT", "-o", "q.jsonl"),
        ("overlap", "lines", "REPORT"),
        ("labels check", "REPORT", "--corpus", "corpus.jsonl"),
        ("plot", "REPORT", "-o", "plot.svg"),
        ("ledger import", "REPORT/judgements", "--ledger", "l.sqlite"),
    ],
    ids=" ".join,
)
def test_every_reader_reads_both(inside: Cli, reports: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """The same words, files and exit code, but for where the report stands."""
    said = []
    for form, end in (("lines", ".jsonl"), ("parts", ".parquet")):
        folder = tmp_path / form
        folder.mkdir()
        (folder / "lines").symlink_to(reports / "lines")
        (folder / "R").symlink_to(reports / form)
        write_jsonl(folder / "corpus.jsonl", *({"id": f"d{n}", "text": f"passage {n}"} for n in range(60)))
        given = [
            word.replace("REPORT/judgements", f"R/judgements{end}").replace("REPORT", "R") for word in words
        ]
        ran = inside(*given[0].split(), *given[1:], cwd=folder)
        made = [path for path in sorted(folder.glob("*.*")) if path.suffix not in {".sqlite", ".svg"}]
        files = [
            re.sub(r"R/judgements\S+|[0-9]{2}:[0-9]{2}:[0-9]{2}", "", path.read_text("utf-8"))
            for path in made
        ]
        said.append((ran.code, ran.out, re.sub(r"R/judgements\S+", "", ran.err), files))
        assert ran.code == 0, ran.err
        if "again" in words:
            assert (folder / "again" / "scores.parquet").is_dir()
    assert said[0] == said[1]


def test_a_run_writes_and_continues_parquet(inside: Cli, tmp_path: Path) -> None:
    """A run, its continuation, its parts merged: the rows of a run that writes JSON lines, and nothing asked again."""
    write_jsonl(tmp_path / "s.jsonl", *rows(12))
    words = ("run", "s.jsonl", *MEASURES)
    assert inside(*words, "-o", "lines").code == 0
    for number in (1, 2):
        assert (
            inside(
                *words, "-o", f"p{number}", "--part", f"{number}/2", *["--format", "parquet"] * (number == 1)
            ).code
            == 0
        )
    assert inside("merge", "p2", "p1", "-o", "merged").code == 0
    assert inside(*words, "-o", "parts", "--format", "parquet").code == 0
    again = inside("run", "--resume", "parts", "--json")
    assert again.code == 0, again.err
    assert again.json["judge"]["calls"] == Report.open(tmp_path / "lines").manifest["judge"]["calls"]
    for name in ("parts", "merged"):
        assert (tmp_path / name / "judgements.parquet").is_dir()
        assert means(tmp_path / name)["measures"] == means(tmp_path / "lines")["measures"]  # type: ignore[index]
        assert list(Report.open(tmp_path / name).samples()) == list(Report.open(tmp_path / "lines").samples())
