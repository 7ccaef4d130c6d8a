"""Run the TypeScript evaluator of AgentV's design note under germane, and record what it reads and prints.

    npm install --prefix /tmp/original tsx ai @ai-sdk/openai
    python scripts/record_original.py /tmp/original evaluators/contextual-precision.ts

The folder gets a small stand-in of `@agentv/eval`, which is not on npm: the document on stdin with its keys in camelCase, the
result on stdout. The model is a server on 127.0.0.1 that speaks the Responses API and finds relevant what names aspirin.
Writes tests/addons/agentv/original/recorded.json, which tests/addons/agentv/test_original.py holds germane to.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "tests" / "addons" / "agentv" / "original"
READ = ("question", "expected_outcome", "expected_messages", "candidate_answer")
EVAL = """
const camel = (value) => Array.isArray(value) ? value.map(camel) : value && typeof value === "object"
  ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()), camel(one)]))
  : value;
export async function defineCodeJudge(handler) {
  let text = "";
  for await (const chunk of process.stdin) text += chunk;
  console.log(JSON.stringify(await handler(camel(JSON.parse(text)))));
}
"""
TEE = """#!{python}
import json, subprocess, sys
document = sys.stdin.read()
done = subprocess.run([{npx!r}, *sys.argv[1:]], input=document, capture_output=True, text=True)
sys.stderr.write(done.stderr)
print(done.stdout)
with open({log!r}, "a") as log:
    log.write(json.dumps([json.loads(document), done.stdout.strip()]) + "\\n")
sys.exit(done.returncode)
"""


class Model(BaseHTTPRequestHandler):
    """Finds relevant what names aspirin."""

    def do_POST(self) -> None:
        """One answer of the Responses API."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        passage = json.dumps(asked["input"]).partition("Retrieved Context")[2]
        relevant = "Aspirin" in passage
        said = {"relevant": relevant, "reasoning": "names aspirin" if relevant else "is about a city"}
        text = {"type": "output_text", "text": json.dumps(said), "annotations": []}
        message = {
            "type": "message",
            "id": "m",
            "status": "completed",
            "role": "assistant",
            "content": [text],
        }
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        usage |= {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        answer = {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": asked["model"],
        }
        body = json.dumps({**answer, "output": [message], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def main(folder: Path, evaluator: Path) -> None:
    """Run the original on every case, and write down what went in and out."""
    (folder / "evaluators").mkdir(exist_ok=True)
    shutil.copy(evaluator, folder / "evaluators" / "contextual-precision.ts")
    for name in ("retrieval-quality.yaml", "targets.yaml"):
        shutil.copy(FIXTURES / name, folder)
    package = folder / "node_modules" / "@agentv" / "eval"
    package.mkdir(parents=True, exist_ok=True)
    (package / "package.json").write_text('{"name": "@agentv/eval", "type": "module", "main": "index.js"}')
    (package / "index.js").write_text(EVAL)
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    npx = folder / "bin" / "npx"
    npx.write_text(TEE.format(python=sys.executable, npx=shutil.which("npx"), log=str(log)))
    npx.chmod(0o755)
    (folder / ".profile").write_text(f'PATH="{npx.parent}:$PATH"\n')  # a login shell makes its PATH anew
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = {
        **os.environ,
        "HOME": str(folder),
        "OPENAI_API_KEY": "test",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}/v1",
    }
    command = [sys.executable, "-m", "germane", "run", "retrieval-quality.yaml", "--no-cache"]
    subprocess.run(command, cwd=folder, env=env, check=False)
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    rows.sort(key=lambda row: row[0]["candidate_answer"])
    kept = [[{name: document[name] for name in READ}, printed] for document, printed in rows]
    (FIXTURES / "recorded.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
