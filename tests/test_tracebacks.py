"""A wrong call from a script shows one traceback: that of the error itself, whose message says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GOOD = '{"id": "1", "query": "q", "contexts": [{"id": "a", "text": "t"}], "qrels": {"a": 1}}\n'
FILES = {
    "good.jsonl": GOOD.encode(),
    "bad.jsonl": GOOD.encode() + b"{]\n",
    "deep.jsonl": b'{"query": "q", "metadata": ' + b"[" * 5000 + b"]" * 5000 + b"}\n",
    "utf16.jsonl": GOOD.encode("utf-16"),
    "bad.csv": b'query,contexts\nq,"[1,\n',
    "bad.parquet": b"PAR1xx",
    "bad.json": b"{",
    "bad.yaml": b"a: [1\nb: {",
    "bad.run": b"q x\n",
    "bad.qrels": b"q 0 d x\n",
    "code.py": b"1 / 0\n",
    "broken/manifest.json": b"{",
    "old/manifest.json": b'{"schema_version": 1, "germane": "0.0.1", "status": "complete"}',
}
HEAD = """
import sys
sys.path.insert(0, "")
from germane import Measure, Report, compare, evaluate, read_samples
from germane.evaluation.rank import rank
from germane.judges import LLMJudge, PanelJudge, RetryPolicy, load_judge
from germane.measures import parse_measures
ROW = {"id": "1", "query": "q", "contexts": ["a"]}

def judged(judge="lexical", measures="context_precision", **more):
    evaluate([ROW], measures, judge=judge, **more)
"""
CALLS = """
evaluate([ROW], "nDGC@10")
evaluate([ROW], "P(rel=x)@5")
evaluate([ROW], "code.py:measure")
evaluate([ROW], "none.py:measure")
evaluate([ROW])
evaluate(5, "RR")
evaluate("none.jsonl", "RR")
evaluate("bad.jsonl", "RR")
evaluate("bad.csv", "RR")
evaluate("bad.parquet", "RR")
evaluate("utf16.jsonl", "RR")
evaluate([{"query": "q", "contexts": 5}], "RR")
evaluate([{**ROW, "qrels": {"a": "x"}}], "RR")
evaluate([{**ROW, "contexts": [{"id": "a", "score": "z"}]}], "RR")
evaluate([ROW, ROW], "RR")
evaluate([ROW], "RR", target=5)
judged(None)
judged(5)
judged("opnai:m")
judged("openai:m@ftp://h")
judged("openai:m")
judged("openai:m@http://127.0.0.1:9/v1")
judged(against="nothing")
judged(scale="odd")
judged(gates=["x>="])
judged(replay="none.sqlite")
judged(ledger="code.py/l.sqlite")
judged(ledger="/proc/none/l.sqlite")
judged(ledger="postgresql://user@127.0.0.1:9/none")
judged(folder="code.py/report")
judged(folder="/proc/none/report")
compare("none", "none")
compare("broken", "broken")
compare("old", "old")
rank("none.run", "none.qrels")
rank("bad.run", "bad.qrels")
rank({"q": {"a": 1}}, {"q": {"a": "x"}})
rank({"q": {"a": float("nan")}}, {"q": {"a": 1}})
rank({"q": {"a": 1}}, {"q": {"a": 1}}, "nDGC")
list(read_samples("none.jsonl"))
list(read_samples("bad.jsonl"))
list(read_samples("bad.json"))
list(read_samples("bad.yaml"))
list(read_samples("bad.parquet"))
list(read_samples("deep.jsonl"))
list(read_samples("good.jsonl", columns={"x": "y"}))
Report.open("none")
Report.open("broken")
Report.open("old")
Measure.parse("nDGC@10")
Measure.parse("nDCG(dcg=x)@10")
parse_measures(["P(rel="])
LLMJudge("opnai:x")
LLMJudge("openai:x", base_url="nonsense://")
LLMJudge("openai:x", temperature="hot")
LLMJudge("openai:x", concurrency=0)
LLMJudge("openai:x", headers={"a b": "c"})
LLMJudge("openai:x", prompts={"relevance": "none.md"})
LLMJudge("openai:x@http://h:99999999/v1")
LLMJudge("cohere:x")
PanelJudge([])
RetryPolicy(read=-1)
load_judge("labls")
""".strip().splitlines()
RUN_EACH = """
import os
import traceback

for number, call in enumerate(CALLS):
    try:
        exec(compile(call, f"call {number}", "exec"))
    except BaseException:
        traceback.print_exc()
    print("-" * 20, file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each call shows: Python prints an error that ends a script as traceback.print_exc does."""
    folder = tmp_path_factory.mktemp("calls")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    program = f"{HEAD}\nCALLS = {CALLS!r}\n{RUN_EACH}"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    return dict(zip(CALLS, ran.stderr.split("-" * 20 + "\n"), strict=False))


@pytest.mark.parametrize("call", CALLS)
def test_one_traceback(shown: dict[str, str], call: str) -> None:
    """And no other exception before it."""
    text = shown[call]
    assert text.count("Traceback (most recent call last)") == 1, text
    assert "During handling of the above exception" not in text
    assert "The above exception was the direct cause" not in text
    assert text.strip().splitlines()[-1].startswith("germane.errors."), text


def test_a_script_ends_so(tmp_path: Path) -> None:
    """The same, where Python itself shows the error."""
    (tmp_path / "bad.jsonl").write_bytes(FILES["bad.jsonl"])
    program = f'{HEAD}\nevaluate("bad.jsonl", "RR")'
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr.count("Traceback")) == (1, 1), ran.stderr
    assert "bad.jsonl:2:2: this is not valid JSON" in ran.stderr.splitlines()[-1]
