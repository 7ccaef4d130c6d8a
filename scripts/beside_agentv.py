"""The same eval file under the real AgentV and under germane, with the same model: both scores of every grader.

    npm install --prefix /tmp/agentv agentv@4.42.4
    python -m scripts.beside_agentv /tmp/agentv/node_modules/.bin/agentv

prints the scores side by side and writes tests/addons/agentv/recorded/recorded.json, which the tests hold germane to:
AgentV takes 800 MB of packages, too much for each run of them. The model is the tests' server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.server import Act, ModelServer
from tests.server.asked import Asked

FILES = Path(__file__).parents[1] / "tests" / "addons" / "agentv" / "recorded"
JUDGE = "gpt-4o-mini"


def answered(asked: Asked) -> Act:
    """What the model says: good things about the answer on steam, and little good about the other one."""
    shown = "\n".join(_text(message["content"]) for message in asked.json["messages"])
    good = "Steam rises because" in shown
    ids = list(dict.fromkeys(re.findall(r"\[(a|b|rubric-\d+)\]", shown)))
    said: dict[str, Any] = {"score": 0.9 if good else 0.3, "assertions": [{"text": "kind", "passed": good}]}
    if ids and "EVALUATOR" not in shown:
        checks = [{"id": one, "satisfied": good or one == "b", "reasoning": "so it is"} for one in ids]
        said = {"checks": checks, "overall_reasoning": "as seen"}
    if not asked.json.get("stream"):
        return Act(text=json.dumps(said))
    deltas = [({"role": "assistant", "content": json.dumps(said)}, None), ({}, "stop")]
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": JUDGE}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in deltas
    ]
    lines = [*(f"data: {json.dumps(chunk)}" for chunk in chunks), "data: [DONE]"]
    return Act(body="".join(f"{line}\n\n" for line in lines))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def theirs(agentv: str, folder: Path, url: str) -> dict[str, dict[str, Any]]:
    """Each case's score and those of its graders, by AgentV."""
    env = {**os.environ, "JUDGE_URL": url, "JUDGE_MODEL": JUDGE, "OPENAI_API_KEY": "test"}
    command = [agentv, "eval", "run", "beside.eval.yaml", "--output", "out"]
    subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True)
    rows = map(json.loads, (folder / "out" / "index.jsonl").read_text("utf-8").splitlines())
    return {
        row["test_id"]: {"score": row["score"], "graders": [[s["name"], s["score"]] for s in row["scores"]]}
        for row in rows
    }


def ours(folder: Path, url: str) -> dict[str, dict[str, Any]]:
    """The same by germane."""
    command = [sys.executable, "-m", "germane", "run", "beside.eval.yaml", "--json", "-q", "-o", "report"]
    command += ["--judge", f"openai:{JUDGE}", "--base-url", url, "--ledger", str(folder / "ledger.sqlite")]
    env = {**os.environ, "JUDGE_URL": url, "JUDGE_MODEL": JUDGE, "OPENAI_API_KEY": "test"}
    done = subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr)
    return {
        case["sample"]: {
            "score": case["score"],
            "graders": [[result["measure"], result["score"]] for result in case["results"]],
        }
        for case in json.loads(done.stdout)["cases"]
    }


def main(agentv: str) -> None:
    """Run both, print the table, write the record."""
    with tempfile.TemporaryDirectory() as made, ModelServer(answered) as server:
        folder = Path(made) / "files"
        shutil.copytree(FILES, folder)
        (folder / ".git").mkdir()  # AgentV looks no further up for its targets
        version = subprocess.run([agentv, "--version"], check=True, capture_output=True, text=True)
        found, mine = theirs(agentv, folder, server.url), ours(folder, server.url)
    record = {"agentv": version.stdout.strip(), "cases": found}
    (FILES / "recorded.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    names = list(found)
    print(f"| grader | {' | '.join(f'{name}: AgentV | germane' for name in names)} |")
    print(f"|{' --- |' * (1 + 2 * len(names))}")
    for at, (grader, _) in enumerate(mine[names[0]]["graders"]):
        scores = [f"{where[name]['graders'][at][1]:.4f}" for name in names for where in (found, mine)]
        print(f"| {grader} | {' | '.join(scores)} |")
    whole = [f"{where[name]['score']:.4f}" for name in names for where in (found, mine)]
    print(f"| **the case** | {' | '.join(whole)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
