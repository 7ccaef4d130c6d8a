"""Several runs at once, on one ledger."""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from germane import Report, aevaluate
from germane.judges.llm import LLMJudge
from germane.ledger.sqlite import SQLiteLedger
from germane.types import Json
from tests.cli.conftest import write_jsonl
from tests.server import ModelServer

SAMPLES, CONTEXTS = 60, 5
ROWS = [
    {
        "id": f"q{n}",
        "query": f"what is thing {n}",
        "contexts": [{"text": f"thing {n} is {k}"} for k in range(CONTEXTS)],
    }
    for n in range(SAMPLES)
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "data.jsonl", *ROWS)


def by_mood(kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
    """Another answer each time: only the ledger can make two runs agree."""
    del kind, sections, schema
    return {"reasoning": "today", "grade": random.randint(0, 3)}


def answers(folder: Path) -> dict[str, Json]:
    rows = map(json.loads, (folder / "judgements.jsonl").read_text("utf-8").splitlines())
    return {row["key"]: row["answer"] for row in rows}


def test_two_runs_at_once_agree(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes ask a moody model the same questions through one ledger: the first committed answer holds in both."""
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    with ModelServer(answer=by_mood, latency=0.02) as server:
        asked = ["-m", "context_precision@5", "--judge", "openai:test", "--base-url", server.url]
        started = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "germane",
                    "run",
                    data,
                    *asked,
                    "--ledger",
                    "l.sqlite",
                    "-o",
                    name,
                    "-j",
                    "4",
                    "-q",
                ],
                cwd=tmp_path,
            )
            for name in ("one", "other")
        ]
        assert [process.wait(120) for process in started] == [0, 0]
        assert server.count > SAMPLES * CONTEXTS  # some questions were put by both, and answered differently
    assert answers(tmp_path / "one") == answers(tmp_path / "other")
    assert len(answers(tmp_path / "one")) == SAMPLES * CONTEXTS
    assert (tmp_path / "one" / "scores.jsonl").read_bytes() == (
        tmp_path / "other" / "scores.jsonl"
    ).read_bytes()


def test_evaluations_at_once_share_one_ledger_object(tmp_path: Path) -> None:
    """Each from a thread of its own: none fails, and every answer that was paid for is kept."""

    async def together(url: str, ledger: SQLiteLedger) -> list[Report]:
        judges = [LLMJudge("openai:test", base_url=url, api_key="x") for _ in range(4)]
        parts = [ROWS[n::4] for n in range(4)]
        return await asyncio.gather(
            *(
                aevaluate(part, "context_precision@5", judge=judge, ledger=ledger)
                for part, judge in zip(parts, judges, strict=True)
            )
        )

    with ModelServer() as server, SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        reports = asyncio.run(together(server.url, ledger))
        assert [report["context_precision@5"].n for report in reports] == [SAMPLES // 4] * 4
        assert server.count == len(ledger) == SAMPLES * CONTEXTS
