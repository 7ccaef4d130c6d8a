"""Code judge: contextual precision of the retrieved passages, by `germane grade context_precision`.

Reads the case (one JSON document) on stdin and prints {score, hits, misses, reasoning, ...}. In the eval file the
evaluator may carry `judge: labels | lexical | openai:gpt-4o-mini` and `k: 5`; every other key reaches germane with
the case, under `config`. It runs with any Python: where that one lacks germane, the `germane` command is used.
"""

import importlib.util
import json
import shutil
import subprocess
import sys


def germane() -> list[str]:
    if importlib.util.find_spec("germane"):
        return [sys.executable, "-m", "germane"]
    found = shutil.which("germane")
    return [found] if found else []


def main() -> int:
    case = sys.stdin.buffer.read()
    config = json.loads(case).get("config") or {}
    measure = f"context_precision@{config['k']}" if "k" in config else "context_precision"
    judge = ["--judge", config["judge"]] if "judge" in config else []
    program = germane()
    if not program:
        message = f"germane is neither importable by {sys.executable} nor a command on PATH: install it from its clone"
        print(message, file=sys.stderr)
        return 2
    grade = [*program, "grade", measure, *judge]
    return subprocess.run(grade, input=case, check=False).returncode  # noqa: S603 - our own command, no shell


if __name__ == "__main__":
    sys.exit(main())
