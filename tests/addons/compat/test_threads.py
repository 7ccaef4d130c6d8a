"""One evaluator is called from several threads and event loops at once, with one judge."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from germane.addons.compat import deepeval
from germane.errors import JudgeError
from germane.integrations import SharedJudge
from germane.judges import LLMJudge
from tests.server import Act, ModelServer

ROWS = [
    {
        "query": f"which river flows through city {n}?",
        "reference": f"the river {n}",
        "contexts": [f"the river {n} flows through city {n}", "bread", f"yeast {n}"][:: -1 if n % 2 else 1],
    }
    for n in range(8)
]
EXPECTED = [1 / 3 if n % 2 else 1.0 for n in range(8)]


def rule(kind: str, sections: Any, _schema: Any) -> dict[str, Any]:
    assert kind == "relevance"
    return {"reasoning": "", "grade": 3 if "river" in sections["passage"] else 0}


Called = Callable[[dict[str, Any]], float | None]


def of_deepeval(judge: Any) -> Called:
    metric = deepeval.ContextualPrecisionMetric(model=judge)
    return lambda row: metric.measure(
        input=row["query"], expected_output=row["reference"], retrieval_context=row["contexts"]
    )


def in_loops(judge: Any) -> Called:
    shared = SharedJudge(judge)
    return lambda row: asyncio.run(shared.ameasure(row, "context_precision"))[0].score.value


def of_the_shared_judge(judge: Any) -> Called:
    shared = SharedJudge(judge)
    return lambda row: shared.measure(row, "context_precision")[0].score.value


@pytest.mark.parametrize("evaluator", [of_deepeval, in_loops, of_the_shared_judge])
@pytest.mark.parametrize("named", [True, False])
def test_eight_threads(
    evaluator: Callable[[Any], Called], monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    """Each score is right, each question is asked once, and all calls share the judge's limit and connections."""
    with ModelServer(answer=rule, latency=0.02) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        call = evaluator("openai:test" if named else LLMJudge("openai:test", concurrency=4))
        with ThreadPoolExecutor(8) as threads:
            for _ in range(3):
                assert list(threads.map(call, ROWS)) == pytest.approx(EXPECTED)
        assert server.count == 24
        assert server.most_in_flight <= (24 if named else 4)


def test_two_evaluators_share_a_judge() -> None:
    """It belongs to one event loop, whoever calls."""
    with ModelServer(answer=rule, latency=0.02) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="test", concurrency=3)
        calls = [of_deepeval(judge), of_the_shared_judge(judge), in_loops(judge)]
        with ThreadPoolExecutor(8) as threads:
            values = threads.map(lambda n: calls[n % 3](ROWS[n % 8]), range(32))
            assert list(values) == pytest.approx(EXPECTED * 4)
        assert server.most_in_flight <= 3


def test_what_failed_is_asked_again() -> None:
    """An evaluator goes on after an endpoint that refused it, or failed."""
    broken = [404, 404, 404]
    with ModelServer(lambda _: Act(status=broken.pop()) if broken else None, answer=rule) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="test")
        call = of_the_shared_judge(judge)
        with pytest.raises(JudgeError, match="404"):
            call(ROWS[0])
        broken.clear()
        assert call(ROWS[0]) == 1.0


def test_it_is_asked_again_while_a_request_is_in_flight() -> None:
    """The end of the session that failed does not disturb the next one."""
    late = [Act(status=404, latency=0.5), Act(status=404, latency=0.5), Act(status=404)]
    with ModelServer(lambda _: late.pop() if late else None, answer=rule) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="test")
        call = of_the_shared_judge(judge)
        with pytest.raises(JudgeError, match="404"):
            call(ROWS[0])
        assert call(ROWS[0]) == 1.0


def test_a_ledger_is_kept_and_closed(tmp_path: Path) -> None:
    """The process ends without a word, and the next one asks nothing."""
    program = textwrap.dedent("""
        import sys
        from concurrent.futures import ThreadPoolExecutor
        from germane.integrations import SharedJudge
        from germane.judges import LLMJudge

        judge = LLMJudge("openai:test", base_url=sys.argv[1], api_key="test")
        shared = SharedJudge(judge, "l.sqlite")
        rows = [{"query": f"q{n % 4}", "contexts": [f"a{n % 4}", "b"]} for n in range(8)]
        with ThreadPoolExecutor(8) as threads:
            print(*threads.map(lambda row: shared.measure(row, "context_precision")[0].score.value, rows))
    """)
    with ModelServer(latency=0.02) as server:
        for _ in range(2):
            ran = subprocess.run(
                [sys.executable, "-W", "always::ResourceWarning", "-c", program, server.url],
                cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            assert (ran.returncode, ran.stderr) == (0, "")
            assert len(ran.stdout.split()) == 8
            assert server.count == 8
    assert not (tmp_path / "l.sqlite-wal").exists()
