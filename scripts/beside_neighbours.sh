#!/bin/sh
# Install the wheel where other tools are: beside deepeval and beside ragas, each in an empty environment, and with the
# lowest versions that pyproject.toml allows. Called by .ci/run; needs an index, and takes some hundred megabytes.
set -eu
unset PYTHONPATH VIRTUAL_ENV PIP_USER PIP_TARGET 2>/dev/null || :

cd "$(dirname "$0")/.."
repo=$(pwd -P)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
"$repo/.venv/bin/python" -I -m build --no-isolation --wheel --outdir "$away/dist" "$repo" >"$away/build.log" 2>&1 ||
  { cat "$away/build.log" >&2; exit 1; }
wheel=$(echo "$away"/dist/*.whl)
cd "$away"

installed() { # installed NAME WORD...: an environment with the wheel and what the words name
  name=$1 && shift
  if command -v "${UV:-uv}" >/dev/null; then
    "${UV:-uv}" venv --quiet --python "$repo/.venv/bin/python" "$name"
    "${UV:-uv}" pip install --quiet --python "$name/bin/python" "$wheel" "$@"
    "${UV:-uv}" pip check --quiet --python "$name/bin/python"
  else
    "$repo/.venv/bin/python" -I -m venv "$name"
    "$name/bin/python" -I -m pip install --quiet --quiet "$wheel" "$@"
    "$name/bin/python" -I -m pip check
  fi
}

works() { # works NAME: the example runs there
  "$1/bin/germane" init "example-$1" >/dev/null
  "$1/bin/germane" run "example-$1/evals/retrieval-set.yaml" --ledger "$1.sqlite" -o "$1.html" >/dev/null
  echo "germane works beside $1"
}

# Both write to the home directory, or ask a host how they are used, unless they are told not to.
export HOME="$away" DEEPEVAL_TELEMETRY_OPT_OUT=YES RAGAS_DO_NOT_TRACK=true

installed deepeval 'deepeval>=4.3'
deepeval/bin/python -I "$repo/tests/neighbours/deepeval_program.py" >deepeval.log 2>&1 || { cat deepeval.log >&2; exit 1; }
echo "a program for deepeval runs with one import changed"
works deepeval

# ragas 0.4 imports what langchain-community 0.4 left out, and does not say so.
installed ragas 'ragas>=0.4.3' 'langchain-community<0.4'
PYTHONPATH="$repo" ragas/bin/python -P -W ignore "$repo/tests/neighbours/ragas_program.py" # with tests.server
echo "a program for ragas runs with one import changed"
works ragas

# Our measures inside their evaluation.
installed mlflow 'mlflow>=3.17'
MLFLOW_DISABLE_TELEMETRY=true mlflow/bin/python -I "$repo/tests/neighbours/mlflow_scorer.py" >mlflow.log 2>&1 || { cat mlflow.log >&2; exit 1; }
echo "germane's measures are scorers of mlflow"

# Their retrievers and pipelines as systems under test.
installed haystack 'haystack-ai>=3.4' 'langchain-core>=1.0'
HAYSTACK_TELEMETRY_ENABLED=false haystack/bin/python -I "$repo/tests/neighbours/haystack_program.py"
haystack/bin/python -I "$repo/tests/neighbours/langchain_program.py"
echo "pipelines of Haystack and retrievers of LangChain are systems under test"

installed pydantic-evals 'pydantic-evals>=2.62' aiohttp httpx
PYTHONPATH="$repo" pydantic-evals/bin/python -P "$repo/tests/neighbours/pydantic_evals_evaluator.py" # with tests.server
echo "germane's measures are an evaluator of pydantic-evals"
pydantic-evals/bin/python -I "$repo/tests/neighbours/clients_program.py"
echo "clients of aiohttp, httpx and SQLite work in a system under test"

# Spans as their own instrumentation writes them.
installed traces 'openinference-instrumentation-langchain>=0.1.80' langgraph 'opentelemetry-sdk>=1.45' opentelemetry-exporter-otlp-proto-common
traces/bin/python -I "$repo/tests/neighbours/traces_program.py"
echo "spans of LangChain's instrumentation are samples"

installed pytest-repeat 'pytest-repeat>=0.9.4'
cp "$repo/tests/neighbours/repeated_tests.py" . # beside no conftest.py of ours
pytest-repeat/bin/python -I -m pytest -q -c /dev/null -p no:cacheprovider repeated_tests.py --count 2 >repeat.log || { cat repeat.log >&2; exit 1; }
grep -q '0.5000   0.0824 to 0.9176   3/3 (2 trials each)' repeat.log || { cat repeat.log >&2; exit 1; }
echo "tests that pytest-repeat repeats are trials"

"$repo/.venv/bin/python" -I - "$repo/pyproject.toml" >lowest.txt <<'PYTHON'
import re, sys, tomllib
with open(sys.argv[1], "rb") as file:
    for wanted in tomllib.load(file)["project"]["dependencies"]:
        print(re.sub(r">=([^,]+).*", r"==\1", wanted))
PYTHON
installed lowest --requirement lowest.txt
works lowest
