"""Pictures of a report: what they show is what the report says, whatever its texts are."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from germane import compare, evaluate
from germane.clean import clean
from germane.cli import main
from germane.errors import InputError
from germane.reports.formats import write
from germane.reports.plots import charts_of, differences, ranks
from germane.reports.report import Report
from germane.reports.summary import interval_in_words
from germane.types import Json

HOSTILE = "</svg><script>alert(1)</script>\x1b[31m & \u202e <b>"
NUMBER = r"[+-]?\d\.\d{4}"


def row(number: int, system: str, *, first: int) -> dict[str, Json]:
    places = [{"id": f"d{at}", "text": f"passage {at} " * (3 + number)} for at in range(6)]
    contexts = places[first:] + places[:first]
    calls = [{"query": "q", "contexts": contexts, "ms": 50.0 + number}]
    return {"id": f"q{number}", "query": "?", "system": system, "calls": calls, "qrels": {"d0": 2, "d3": 1}}


@pytest.fixture(scope="module")
def report() -> Report:
    return evaluate([row(n, HOSTILE, first=n % 3) for n in range(12)], "nDCG@5 P@3 AP", judge="gold")


@pytest.fixture(scope="module")
def before() -> Report:
    return evaluate([row(n, "before", first=5) for n in range(10)], "nDCG@5 P@3 AP", judge="gold")


def test_a_rank_profile_counts_relevant_places() -> None:
    """Of two lists, one relevant first, both relevant second."""
    two = [{"id": str(n), "query": f"q{n}?", "contexts": [{"id": "a", "text": "a", "grade": grade}, {"id": "b", "text": "b", "grade": 3}]}
           for n, grade in enumerate((3, 0))]  # fmt: skip
    (chart,) = ranks(evaluate(two, "context_precision@2", judge="labels"), None)
    assert chart.words == "rank 1 0.50, rank 2 1.00"
    assert "rank 1: 1 of 2 relevant" in chart.body


def test_differences_are_those_that_compare_prints(report: Report, before: Report) -> None:
    """The mean, its interval, wins, ties and losses are the comparison's; a bar per query that moved."""
    chart = differences(report, before, "nDCG@5")
    (found,) = (one for one in compare(before, report).comparisons if one.measure == "nDCG@5")
    assert found.interval.ends is not None
    assert chart.words.startswith(
        f"mean {found.difference:+.4f}, 95% interval {interval_in_words(found.interval.ends, sign='+')} over"
    )
    assert f"{found.wins} up, {found.ties} the same, {found.losses} down" in chart.words
    assert chart.body.count("<title>q") == found.wins + found.losses
    assert "<title>q0 +" in chart.body


def test_every_kind_is_drawn_and_is_only_text(report: Report, before: Report, tmp_path: Path) -> None:
    """Well-formed XML without scripts, links or control characters, whatever a system is called."""
    charts = charts_of(report, baseline=before)
    assert [chart.title.split(",")[0] for chart in charts] == [
        "Relevant at each rank",
        "Difference per query",
    ]
    path = tmp_path / "x.svg"
    write(report, path, baseline=before)
    text = path.read_text("utf-8")
    root = ET.fromstring(text)
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names <= {"svg", "style", "g", "path", "text", "rect", "circle", "title"}
    assert not set(text) & {"\x1b", "\u202e"}
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert root.get("role") == "img"
    assert all(clean(chart.title) in (root.get("aria-label") or "") for chart in charts)
    assert "prefers-color-scheme: dark" in text


def test_numbers_stay_inside_the_picture(report: Report, before: Report) -> None:
    """No coordinate of any chart lies outside of it."""
    for chart in charts_of(report, baseline=before):
        root = ET.fromstring(chart.svg())
        _, _, width, height = map(float, (root.get("viewBox") or "").split())
        for element in root.iter():
            for name, most in (("x", width), ("cx", width), ("y", height), ("cy", height)):
                if (value := element.get(name)) is not None and not value.endswith("%"):
                    assert -6 <= float(value) <= most, (chart.title, element.attrib)


def test_a_png_is_a_png(report: Report, tmp_path: Path) -> None:
    """Twice as large as the drawing."""
    write(report, tmp_path / "x.png")
    data = (tmp_path / "x.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    assert int.from_bytes(data[16:20], "big") == 2 * 584


def test_what_cannot_be_drawn_is_said() -> None:
    """With what it takes."""
    plain = evaluate([{"id": "1", "query": "?", "contexts": [{"id": "b"}], "qrels": {"a": 1}}], "RR")
    with pytest.raises(InputError, match=r"ranked measure, e.g. nDCG@10, or give --baseline REPORT"):
        charts_of(plain)


def test_the_command_writes_what_is_asked_for(
    report: Report,
    before: Report,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The latest report, with the differences to a baseline; without one, relevance by rank alone."""
    monkeypatch.chdir(tmp_path)
    before.save("germane-reports/before")
    report.save("germane-reports/now")

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["germane", "report", *words])
        with pytest.raises(SystemExit) as done:
            main()
        return int(str(done.value.code or 0))

    assert run("-o", "x.svg", "-o", "x.png", "--baseline", "germane-reports/before") == 0
    assert "Difference per query, nDCG@5" in Path("x.svg").read_text("utf-8")
    assert "Relevant at each rank" in Path("x.svg").read_text("utf-8")
    assert run("-o", "y.svg") == 0
    assert "Difference per query" not in Path("y.svg").read_text("utf-8")
    assert run("-o", "x.gif") == 2
    assert "ends in .gif, which is not a report format" in capsys.readouterr().err
