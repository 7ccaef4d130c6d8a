"""`germane report`: the latest report, and the part of an interrupted one."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, inside, write_jsonl

__all__ = ["inside"]

DATA = re.compile(r'id="data">(.*)</script>')


class TestReportVerb:
    def test_the_latest_report_is_shown(self, inside: Cli, tmp_path: Path) -> None:
        """Without a folder, the one that was written last; stderr names it."""
        assert inside("report").code == 2
        for number in (1, 2):
            data = write_jsonl(
                tmp_path / f"s{number}.jsonl",
                {"id": "a", "query": "q", "contexts": [{"id": "d"}], "qrels": {"d": number}},
            )
            assert inside("run", data, "-m", "RR").code == 0
        ran = inside("report", "-o", "page.html")
        assert ran.code == 0
        assert "s2" in ran.err
        assert "RR" in ran.out
        assert (tmp_path / "page.html").read_text("utf-8").startswith("<!DOCTYPE html>")

    def test_the_part_of_an_interrupted_run_is_shown(self, inside: Cli, tmp_path: Path) -> None:
        """The means of what is done, and how to go on; half a line that was being written is passed over."""
        data = write_jsonl(
            tmp_path / "s.jsonl",
            *({"id": f"q{n}", "query": "q", "contexts": [{"id": "d"}], "qrels": {"d": 1}} for n in range(3)),
        )
        assert inside("run", data, "-m", "RR", "-o", "r").code == 0
        folder = tmp_path / "r"
        for name in ("samples", "places", "judgements", "scores"):
            whole = (folder / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
            (folder / f"{name}.jsonl.part").write_bytes(b"".join(whole[:2]) + b'{"id": "q2", "sa')
            (folder / f"{name}.jsonl").unlink()
        manifest = (folder / "manifest.json").read_text("utf-8")
        (folder / "manifest.json").write_text(
            manifest.replace('"status": "complete"', '"status": "interrupted"'), "utf-8"
        )
        ran = inside("report", "r")
        assert ran.code == 0, ran.err
        assert "2/2" in ran.out
        assert "--resume r" in ran.out
        assert inside("report", "r", "--json").json["stopped"]
        assert inside("report", "r", "-o", "r.html").code == 0


def test_a_page_holds_the_audit_of_its_judge(inside: Cli, tmp_path: Path) -> None:
    """Agreement and warnings of `germane audit --json` stand in the page's data; a gold report has no judge to audit."""
    row = {"id": "a", "query": "bread", "contexts": [{"id": "d", "text": "bread"}], "qrels": {"d": 1}}
    data = write_jsonl(tmp_path / "s.jsonl", row)
    for measure, audited in (("context_relevance", True), ("RR", False)):
        assert (
            inside("run", data, "-m", measure, "--judge", "lexical", "--no-cache", "-o", "r", "--force").code
            == 0
        )
        assert inside("report", "r", "-o", "r.html").code == 0
        found = json.loads(DATA.search((tmp_path / "r.html").read_text("utf-8"))[1])["audit"]  # type: ignore[index]
        audit = inside("audit", "r", "--json").json
        assert found == (audit if audited else None)


def test_a_run_with_a_baseline_shows_it_on_its_page(inside: Cli, tmp_path: Path) -> None:
    """The comparison stands in the page and beside Markdown, also where the baseline is a folder of reports."""
    rows = [
        {"id": f"q{n}", "query": f"{n}?", "contexts": [{"id": "a", "text": "a"}], "qrels": {"a": 1}}
        for n in range(4)
    ]
    write_jsonl(tmp_path / "s.jsonl", *rows)
    for name, more in (("a", []), ("b", ["--baseline", "reports", "-o", "r.html", "-o", "r.md"])):
        assert inside("run", "s.jsonl", "-m", "nDCG@5", "-o", f"reports/{name}", *more).code == 0
    text = (tmp_path / "r.html").read_text("utf-8")
    found = DATA.search(text)
    assert found
    data = json.loads(found[1])
    assert data["baseline"]["name"] == "a"
    assert data["comparison"]["comparisons"][0]["difference"] == 0
    assert '<template id="chart-differences-0">' in text
    text = (tmp_path / "r.md").read_text("utf-8")
    assert text.startswith("**no difference shown in nDCG@5: 4 queries, no score differs**")
    assert "no difference shown in nDCG@5" in text
    assert not (tmp_path / "r.svg").exists()


def test_a_run_without_a_key_is_not_the_latest_report(
    inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds no score: `germane report` shows the one before."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    rows = [{"id": "q", "query": "?", "contexts": [{"id": "a", "text": "a"}], "qrels": {"a": 1}}]
    write_jsonl(tmp_path / "s.jsonl", *rows)
    assert inside("run", "s.jsonl", "-m", "RR").code == 0
    ran = inside("run", "s.jsonl", "-m", "context_precision", "--judge", "openai:gpt-4o-mini")
    assert ran.code == 2
    assert "OPENAI_API_KEY" in ran.err
    assert "RR" in inside("report").out
