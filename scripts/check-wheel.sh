#!/bin/sh
# Build the wheel and use it as a stranger would: in an empty environment, outside the repository.
# Called by .ci/run after `make setup`; needs an index for the runtime dependencies.
set -eu
unset PYTHONPATH VIRTUAL_ENV PIP_USER PIP_TARGET 2>/dev/null || :

cd "$(dirname "$0")/.."
repo=$(pwd -P)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT

# From the sdist, as an installer without a wheel would: what the sdist forgets is missed here.
"$repo/.venv/bin/python" -I -m build --no-isolation --outdir "$away/dist" "$repo" >"$away/build.log" 2>&1 ||
  { cat "$away/build.log" >&2; exit 1; }

"$repo/.venv/bin/python" -I "$repo/scripts/check_release.py" "$away/dist"

# The locked versions, but only of what the package itself asks for.
sed -e '/--hash=/d' -e 's/ *\\$//' "$repo/requirements.lock" >"$away/constraints.txt"
cd "$away"
"$repo/.venv/bin/python" -I -m venv venv
./venv/bin/python -I -m pip install --quiet --quiet --constraint constraints.txt "$(echo dist/*.whl)"
./venv/bin/python -I -m pip check

./venv/bin/germane --help >/dev/null
# What init prints is run as it is printed, with the environment's programs first on PATH, as after activating it.
./venv/bin/germane init example | sed -n '/^next:/,$p' | sed -e 1d -e 's/ *#.*//' >next.sh
PATH="$away/venv/bin:$PATH" sh -eux next.sh
./venv/bin/germane init --skill && test -s .claude/skills/rag-evaluation/references/rag-evaluation.md
./venv/bin/germane validate --schema >evalfile.schema.json
./venv/bin/germane run example/evals/retrieval-set.yaml -o report.html
grep -q "default-src 'none'" report.html  # its modules and styles are package data
echo "the wheel works outside the repository"
