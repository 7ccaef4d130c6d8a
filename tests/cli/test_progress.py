"""What is seen while a run works: how much of the whole is done, the time left, the price and the errors so far."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from germane.cli import main
from germane.cli import run as progress
from tests.server import Act, Asked, ModelServer


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str, faults: int = 0, latency: float = 0.01
) -> str:
    """What the model server has been asked of 30 samples; every `faults`th request fails."""
    monkeypatch.chdir(folder)
    rows = [
        {
            "id": f"q{n}",
            "query": f"what is {n}?",
            "reference": f"It is {n}. So it is.",
            "contexts": [f"{n} is {n}", f"no {n}"],
        }
        for n in range(30)
    ]
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    count = 0

    def script(_: Asked) -> Act | None:
        nonlocal count
        count += 1
        return Act(status=400) if faults and count % faults == 0 else None

    with ModelServer(script, latency=latency) as server:
        judge = ["--judge", "openai:gpt-4o-mini", "--base-url", server.url, "--price", "1/1", "-j", "4"]
        measures = "context_precision@2 context_recall"
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        monkeypatch.setattr("sys.argv", ["germane", "run", "s.jsonl", "-m", measures, *judge, *words])
        with pytest.raises(SystemExit) as done:
            main()
        return str(done.value.code or 0)


def counts(text: str) -> list[tuple[int, int]]:
    found = re.findall(r"([\d,]+) of ~?([\d,]+)", text)
    return [(int(done.replace(",", "")), int(total.replace(",", ""))) for done, total in found]


def test_the_whole_is_known_before_the_first_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 verdicts, 30 lists of claims and 30 verdicts on these: as many as --dry-run says; the total does not grow."""
    monkeypatch.setattr(progress, "_FIRST", 0.0)
    monkeypatch.setattr(progress, "_BETWEEN", 0.0)
    run(monkeypatch, tmp_path, "--dry-run", "--json")
    forecast = json.loads(capsys.readouterr().out)
    whole = sum(line["calls"] for line in forecast["measures"].values())
    run(monkeypatch, tmp_path, faults=17)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("judging")]
    assert lines[0].startswith(f"judging: 0 of ~{whole}, $0.0000 of about ${forecast['cost_usd']:.4f}")
    shown = counts("\n".join(lines))
    assert {total for _, total in shown} == {whole}
    assert [done for done, _ in shown] == sorted(done for done, _ in shown)
    assert re.search(r" \d:\d\d left, \$0\.\d{4} of about \$0\.\d{4}", lines[len(lines) // 2])
    assert re.search(r", [2-9] errors$", lines[-1])


def test_nothing_is_counted_where_nobody_looks_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """-q prints no line, and does not take the time to forecast."""

    def forbidden(*_: object) -> Any:
        raise AssertionError

    monkeypatch.setattr(progress, "_FIRST", 0.0)
    monkeypatch.setattr("germane.evaluation.forecast.expectation", forbidden)
    assert run(monkeypatch, tmp_path, "-q") == "0"
    assert "judging" not in capsys.readouterr().err


@pytest.mark.parametrize("width", [40, 80])
def test_a_bar_cuts_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """In a terminal of any width."""
    out = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **_: Console(file=out, force_terminal=True, width=width, no_color=True)
    )
    monkeypatch.setattr("germane.cli.finishing._Stdout", lambda **_: Console(file=io.StringIO(), width=width))
    run(monkeypatch, tmp_path, latency=0.02)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width + 1
    assert {total for _, total in counts(" ".join(text.split()))} == {120}
