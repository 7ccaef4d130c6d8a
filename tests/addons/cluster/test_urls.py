"""Inputs and outputs by URL, through fsspec: a bucket is a folder here, or memory."""

from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pytest

from germane import Report
from germane.addons.cluster.remote import put
from germane.samples.files import url_of
from tests.cli.conftest import Cli, write_jsonl

from .test_parts import rows, same_tables

WORDS = ("-m", "context_precision@5 nDCG@10", "--judge", "lexical", "--no-cache")


@pytest.fixture
def bucket(tmp_path: Path) -> str:
    """A URL with samples under it."""
    (tmp_path / "bucket").mkdir()
    write_jsonl(tmp_path / "bucket" / "s.jsonl", *rows(20))
    return (tmp_path / "bucket").as_uri()


def test_a_run_from_url_to_url(inside: Cli, tmp_path: Path, bucket: str) -> None:
    """Samples come from a URL; the report's folder and files stand at URLs, whole, and here the folder as usual."""
    inside("run", tmp_path / "bucket" / "s.jsonl", *WORDS, "-o", "here")
    ran = inside("run", f"{bucket}/s.jsonl", *WORDS, "-o", f"{bucket}/out/today", "-o", f"{bucket}/out/r.md")
    assert ran.code == 0, ran.err
    assert f"wrote {bucket}/out/today" in ran.err
    assert same_tables(tmp_path / "here", tmp_path / "bucket" / "out" / "today")
    assert Report.open(tmp_path / "bucket" / "out" / "today")["nDCG@10"].n == 20
    assert (tmp_path / "bucket" / "out" / "r.md").stat().st_size
    assert not list((tmp_path / "bucket" / "out" / "today").glob(".lock"))


def test_memory_is_a_place_too(inside: Cli, tmp_path: Path) -> None:
    """A folder of samples in memory; what is wrong in it is said with its URL."""
    files = fsspec.filesystem("memory")
    files.pipe_file("/store/in/a.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows(5)))
    ran = inside("run", "memory://store/in", *WORDS, "-o", "memory://store/out", "--json")
    assert ran.code == 0, ran.err
    assert "manifest.json" in {Path(name).name for name in files.ls("/store/out", detail=False)}
    files.pipe_file("/store/bad.jsonl", b"{]\n")
    assert "memory:///store/bad.jsonl:1" in inside("run", "memory://store/bad.jsonl", *WORDS).err
    for url, problem in (
        ("memory://store/none.jsonl", "there is no file at memory:///store/none.jsonl"),
        ("nosuch://x/y.jsonl", "nosuch://x/y.jsonl cannot be used"),
    ):
        ran = inside("run", url, *WORDS)
        assert ran.code == 2
        assert problem in ran.err


def test_parts_at_a_url(inside: Cli, tmp_path: Path, bucket: str) -> None:
    """Each part is a folder at the URL; merged from there, or from a copy, they are the whole."""
    inside("run", f"{bucket}/s.jsonl", *WORDS, "-o", "whole")
    for number in (1, 2, 3):
        ran = inside("run", f"{bucket}/s.jsonl", *WORDS, "-o", f"{bucket}/parts", "--part", f"{number}/3")
        assert ran.code == 0, ran.err
    there = tmp_path / "bucket" / "parts"
    assert sorted(file.name for file in there.iterdir()) == ["1-of-3", "2-of-3", "3-of-3"]
    assert inside("merge", f"{bucket}/parts", "-o", "merged", "-o", f"{bucket}/merged.md").code == 0
    assert inside("merge", there, "-o", "m").code == 0
    assert (tmp_path / "bucket" / "merged.md").exists()
    merged = inside("merge", f"{bucket}/parts", "-o", f"{bucket}/merged")
    assert merged.code == 0, merged.err
    assert same_tables(tmp_path / "whole", tmp_path / "bucket" / "merged")
    assert "there is no file at" in inside("merge", f"{bucket}/nothing", "-o", "n").err


def test_a_report_at_a_url_is_not_replaced_in_silence(inside: Cli, tmp_path: Path, bucket: str) -> None:
    """As here: another evaluation needs --force, before anything is asked."""
    words = ("run", f"{bucket}/s.jsonl", "-m", "RR", "-o", f"{bucket}/out")
    assert inside(*words).code == 0
    before = (tmp_path / "bucket" / "out" / "manifest.json").read_bytes()
    ran = inside(*words)
    assert (ran.code, "--force to replace it" in ran.err) == (2, True)
    assert (tmp_path / "bucket" / "out" / "manifest.json").read_bytes() == before
    assert inside(*words, "--force").code == 0
    assert inside("run", f"{bucket}/s.jsonl", "-m", "RR", "-o", f"{bucket}/p", "--part", "1/1").code == 0
    assert "--force" in inside("merge", f"{bucket}/p", "-o", f"{bucket}/out").err


@pytest.mark.parametrize("out", ["nosuch://bucket/out", "nosuch://bucket/out/r.md"])
def test_a_url_that_nothing_reaches_is_refused_before_anything_is_asked(
    inside: Cli, bucket: str, out: str
) -> None:
    """The report would be paid for, and then stay here."""
    ran = inside("run", f"{bucket}/s.jsonl", *WORDS, "-o", out)
    assert (ran.code, ran.out) == (2, "")
    assert "cannot be used" in ran.err


READERS = (
    ("report",),
    ("report", "--json"),
    ("explain", "q1"),
    ("score", "-m", "RR"),
    ("compare", "here"),
    ("diagnose",),
    ("audit",),
    ("stages",),
    ("questions", "-o", "q.jsonl"),
)


def test_a_report_at_a_url_is_read(inside: Cli, tmp_path: Path, bucket: str) -> None:
    """By every command that reads reports, as one that stands here; it is written to only here."""
    inside("run", f"{bucket}/s.jsonl", *WORDS, "-o", "here")
    assert inside("run", f"{bucket}/s.jsonl", *WORDS, "-o", f"{bucket}/today").code == 0
    for verb, *more in READERS:
        ran, same = inside(verb, f"{bucket}/today", *more), inside(verb, "here", *more)
        assert (ran.code, ran.err) == (0, same.err), (verb, ran.err)
    gate = ("--fail-under", "change(nDCG@10)>=-0.5", "--baseline", f"{bucket}/today")
    assert inside("score", "here", "-m", "nDCG@10", *gate).code == 0
    assert inside("run", f"{bucket}/s.jsonl", "-m", "nDCG@10", *gate).code == 0
    for words in (("label", "--who", "me"), ("run", "--resume")):
        ran = inside(*words, f"{bucket}/today")
        assert (ran.code, "name a local path" in ran.err) == (2, True)
    for words in (("report", "here"), ("questions", "s.jsonl"), ("audit", "here")):
        assert "--output is written to" in inside(*words, "-o", f"{bucket}/r.html").err
    (tmp_path / "how.md").write_text("Be strict.")
    assert inside("label", "here", "--guideline", (tmp_path / "how.md").as_uri(), stdin="q").code == 0


def test_an_engine_with_urls(inside: Cli, tmp_path: Path, bucket: str) -> None:
    """Inputs and -o may be URLs; the report is put there once it is merged."""
    inside("run", f"{bucket}/s.jsonl", *WORDS, "-o", "whole")
    ran = inside("run", f"{bucket}/s.jsonl", *WORDS, "-o", f"{bucket}/out", "--engine", "processes:2")
    assert ran.code == 0, ran.err
    assert same_tables(tmp_path / "whole", tmp_path / "bucket" / "out")


def test_the_manifest_is_put_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a report's manifest stands, its other files do."""
    for name in ("scores.jsonl", "manifest.json", "samples.jsonl", ".lock"):
        (tmp_path / name).write_text(name)
    files, put_at = fsspec.filesystem("memory"), list[str]()

    def noted(_self: object, _local: str, path: str) -> None:
        put_at.append(Path(path).name)

    monkeypatch.setattr(type(files), "put_file", noted)
    put(tmp_path, "memory://last")
    assert put_at == ["samples.jsonl", "scores.jsonl", "manifest.json"]


def test_what_is_a_url() -> None:
    """A scheme of two letters or more; one slash, as a path leaves of two, is enough."""
    for given, url in (
        (Path("s3://b/x.jsonl"), "s3://b/x.jsonl"),
        ("S3://b/x/", "s3://b/x"),
        ("gs:/b/x", "gs://b/x"),
        (Path("memory://a/b"), "memory:///a/b"),
        ("file:///tmp/x", "file:///tmp/x"),
        ("reports/today", ""),
        ("C:/x", ""),
        ("-", ""),
    ):
        assert url_of(given) == url


def test_files_at_urls(inside: Cli, tmp_path: Path) -> None:
    """A signed URL of samples is masked where its file is named."""
    secret = "sk-live-0123456789abcdef"
    ran = inside("run", f"memory://none/s.jsonl?sig={secret}", "-m", "context_precision")
    assert (ran.code, "s.jsonl?sig=***" in ran.err) == (2, True)
    assert secret not in ran.out + ran.err
    assert all(secret not in path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file())
