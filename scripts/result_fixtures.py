"""Result files of other programs, written by these programs themselves: tests/fixtures/results.

    germane rank a.run --qrels gold.qrels -m "nDCG@10 RR P@5" -o a.csv     (b alike, in tests/fixtures/results)
    python -m venv /tmp/venv && /tmp/venv/bin/pip install inspect-ai deepeval mlflow ir_measures
    npm install --prefix /tmp/npm promptfoo@0.121 agentv@4
    cp -r tests/fixtures/results scripts/result_fixtures.py /tmp/fixtures; cd /tmp/fixtures
    /tmp/venv/bin/python result_fixtures.py ir_measures inspect deepeval mlflow promptfoo agentv

Each program gives every case the values of a.csv or b.csv as its scores, once more with the third case failing, and writes its own
format. Run it where no path is worth hiding: logs hold the paths of what ran. Not run by the tests: they read what it wrote.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

NPM = Path("/tmp/npm/node_modules/.bin")
FAILING = "q3"
Values = dict[str, dict[str, float]]
SYSTEMS = (("a", "a", False), ("b", "b", False), ("failed", "b", True))
"""The name of each file, the values in it, and whether a case fails."""


def values_of(name: str) -> Values:
    """The values of each case, as `germane rank -o` wrote them."""
    with Path(f"{name}.csv").open(newline="") as file:
        return {
            row["query"]: {name: float(row[name]) for name in ("nDCG@10", "RR", "P@5")}
            for row in csv.DictReader(file)
        }


def write_ir_measures() -> None:
    """What the command prints with -q."""
    for name in "ab":
        command = [sys.executable, "-m", "ir_measures", "gold.qrels", f"{name}.run", "nDCG@10 RR P@5", "-q"]
        done = subprocess.run([*command, "-p", "17"], check=True, capture_output=True, text=True)
        Path(f"ir_measures-{version('ir_measures')}-{name}.txt").write_text(done.stdout)


def write_inspect() -> None:
    """A log of the format .eval, one in JSON of two epochs, and one in which a sample raises."""
    from inspect_ai import Task, eval  # noqa: A004
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import Score, mean, scorer
    from inspect_ai.solver import solver

    @scorer(metrics={"*": [mean()]})
    def retrieval() -> Any:
        async def score(state: Any, _: Any) -> Score:
            return Score(value={name: state.metadata[name] for name in ("nDCG@10", "P@5")})

        return score

    @scorer(metrics=[mean()])
    def recip_rank() -> Any:
        async def score(state: Any, _: Any) -> Score:
            return Score(value=state.metadata["RR"])

        return score

    @solver
    def search() -> Any:
        async def solve(state: Any, _: Any) -> Any:
            if state.metadata["fails"]:
                raise RuntimeError("search timed out")
            return state

        return solve

    for name, of, fails in SYSTEMS:
        samples = [
            Sample(id=q, input=q, metadata={**row, "fails": fails and q == FAILING})
            for q, row in values_of(of).items()
        ]
        task = Task(
            dataset=MemoryDataset(samples), solver=search(), scorer=[retrieval(), recip_rank()], name=name
        )
        end = "json" if name == "b" else "eval"
        (log,) = eval(task, model="mockllm/model", log_dir="logs", log_format=end, epochs=1 + (name == "b"),
                      fail_on_error=False, display="none")  # fmt: skip
        Path(log.location).rename(f"inspect_ai-{version('inspect_ai')}-{name}.{end}")


def write_deepeval() -> None:
    """What `evaluate` returns as JSON, and the file of its results folder."""
    folder = Path("deepeval-results")
    os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "DEEPEVAL_RESULTS_FOLDER": str(folder)}
    from deepeval import evaluate
    from deepeval.evaluate.configs import AsyncConfig, DisplayConfig, ErrorConfig
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase

    class Stored(BaseMetric):  # type: ignore[misc, unused-ignore]
        def __init__(self, label: str, known: Values, *, fails: bool) -> None:
            self.label, self.known, self.fails, self.threshold, self.async_mode = (
                label,
                known,
                fails,
                0.5,
                False,
            )

        def measure(self, case: Any, *_: Any, **__: Any) -> float:
            if self.fails and case.name == FAILING:
                raise TimeoutError("the judge timed out")
            self.score = self.known[case.name][self.label]
            self.success = self.score >= self.threshold
            return self.score

        async def a_measure(self, case: Any, *_: Any, **__: Any) -> float:
            return self.measure(case)

        def is_successful(self) -> bool:
            return bool(self.success)

        @property
        def __name__(self) -> str:
            return self.label

    for name, of, fails in SYSTEMS:
        known = values_of(of)
        cases = [LLMTestCase(name=q, input=f"question {q}", actual_output="x") for q in known]
        result = evaluate(cases, [Stored(measure, known, fails=fails) for measure in known["q0"]],
                          async_config=AsyncConfig(run_async=False), error_config=ErrorConfig(ignore_errors=True),
                          display_config=DisplayConfig(show_indicator=False, print_results=False))  # fmt: skip
        file = Path(f"deepeval-{version('deepeval')}-{name}.json")
        (exported,) = folder.glob("test_run_*.json")
        file.write_text(result.model_dump_json() if name == "a" else exported.read_text())
        exported.unlink()


def write_mlflow() -> None:
    """The frame of `mlflow.genai.evaluate` as CSV and JSON, without its traces; the table that the older evaluation logs."""
    os.environ |= {"MLFLOW_TRACKING_URI": "sqlite:///mlflow.db", "MLFLOW_DISABLE_TELEMETRY": "true"}
    import mlflow
    import mlflow.metrics
    import pandas as pd

    names = {"ndcg_at_10": "nDCG@10", "recip_rank": "RR", "precision_at_5": "P@5"}

    def scorer_of(name: str, known: Values, *, fails: bool) -> Any:
        @mlflow.genai.scorer(name=name)
        def stored(inputs: Any) -> float:
            if fails and inputs["id"] == FAILING:
                raise TimeoutError("the judge timed out")
            return known[inputs["id"]][names[name]]

        return stored

    label = f"mlflow-{version('mlflow')}"
    for name, of, fails in SYSTEMS:
        known = values_of(of)
        data = [{"inputs": {"id": q, "question": f"question {q}"}, "outputs": "x"} for q in known]
        result = mlflow.genai.evaluate(
            data=data, scorers=[scorer_of(one, known, fails=fails) for one in names]
        )
        frame = result.result_df.drop(columns=["trace", "spans", "trace_metadata", "tags", "assessments"])
        if name == "a":
            frame.to_json(f"{label}-a.jsonl", orient="records", lines=True, double_precision=15)
        else:
            frame.to_csv(f"{label}-{name}.csv", index=False)
    table = pd.DataFrame([{"id": q, "docs": ["d1", "d2"], "gold": ["d2"]} for q in values_of("a")])
    with mlflow.start_run() as run:
        mlflow.models.evaluate(
            data=table, targets="gold", predictions="docs", extra_metrics=[mlflow.metrics.ndcg_at_k(2)]
        )
        logged = mlflow.artifacts.download_artifacts(
            run_id=run.info.run_id, artifact_path="eval_results_table.json"
        )
    Path(f"{label}-eval_results_table.json").write_text(Path(logged).read_text())


_PROVIDER = """module.exports = class {
  constructor(options) { this.fails = options.config.fails; }
  id() { return 'search'; }
  async callApi(prompt, context) {
    return this.fails && context.vars.id === 'q3' ? { error: 'search timed out' } : { output: 'x' };
  }
};
"""


def write_promptfoo() -> None:
    """JSON, and JSONL of two repetitions."""
    Path("provider.js").write_text(_PROVIDER)
    done = subprocess.run([NPM / "promptfoo", "--version"], check=True, capture_output=True, text=True)
    for name, of, fails in SYSTEMS:
        tests = [
            {"vars": {"id": q, "question": f"question {q}"},
             "assert": [{"type": "javascript", "metric": measure, "value": repr(value)} for measure, value in row.items()]}
            for q, row in values_of(of).items()
        ]  # fmt: skip
        config = {"prompts": ["{{question}}"], "tests": tests,
                  "providers": [{"id": "file://provider.js", "config": {"fails": fails}}]}  # fmt: skip
        Path("promptfooconfig.json").write_text(json.dumps(config))
        end = "jsonl" if name == "b" else "json"
        file = f"promptfoo-{done.stdout.split()[-1]}-{name}.{end}"
        command = [
            NPM / "promptfoo",
            "eval",
            "-c",
            "promptfooconfig.json",
            "-o",
            file,
            "--no-cache",
            "--no-table",
        ]
        env = {
            **os.environ,
            "PROMPTFOO_DISABLE_TELEMETRY": "1",
            "PROMPTFOO_DISABLE_UPDATE": "1",
            "PROMPTFOO_CONFIG_DIR": "promptfoo",
        }
        subprocess.run([*command, "--repeat", "2" if name == "b" else "1"], env=env, check=False)


_GRADER = """import json, os, sys
case = json.load(sys.stdin)
value = json.load(open("values.json"))[case["input"][0]["content"] if isinstance(case["input"], list) else case["input"]][sys.argv[1]]
print(json.dumps({"score": value, "assertions": []}))
"""


def write_agentv() -> None:
    """Its index.jsonl."""
    done = subprocess.run([NPM / "agentv", "--version"], check=True, capture_output=True, text=True)
    Path("grader.py").write_text(_GRADER)
    for name, of, fails in SYSTEMS:
        known = values_of(of)
        Path("values.json").write_text(json.dumps(known))
        graders = [
            {"name": measure, "type": "code-grader", "command": [sys.executable, "grader.py", measure]}
            for measure in known["q0"]
        ]
        tests = [{"id": q, "input": q, "criteria": "finds it", "assertions": graders} for q in known]
        Path("results.eval.yaml").write_text(
            json.dumps({"description": "values", "execution": {"target": "search"}, "tests": tests})
        )
        fail = f'[ "$(cat {{PROMPT_FILE}})" = {FAILING} ] && exit 1; ' if fails else ""
        command = f"sh -c '{fail}echo x > {{OUTPUT_FILE}}'"
        Path(".agentv").mkdir(exist_ok=True)
        Path(".agentv/targets.yaml").write_text(
            json.dumps({"targets": [{"name": "search", "provider": "cli", "command": command}]})
        )
        subprocess.run(
            [NPM / "agentv", "eval", "run", "results.eval.yaml", "--output", f"agentv-{name}"], check=False
        )
        Path(f"agentv-{name}/index.jsonl").rename(f"agentv-{done.stdout.strip()}-{name}.jsonl")


PROGRAMS: dict[str, Callable[[], None]] = {
    "ir_measures": write_ir_measures,
    "inspect": write_inspect,
    "deepeval": write_deepeval,
    "mlflow": write_mlflow,
    "promptfoo": write_promptfoo,
    "agentv": write_agentv,
}

if __name__ == "__main__":
    for program in sys.argv[1:] or PROGRAMS:
        PROGRAMS[program]()
