#!/usr/bin/env bash
# The whole suite in a copy of the tree from which every add-on is gone: ./scripts/without_addons.sh [pytest's arguments].
# The environment's own germane is an editable install of this tree: PYTHONPATH puts the copy before it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$PWD/.venv/bin/python
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --directory "$copy"
cd "$copy"
rm -rf src/germane/addons/*/ tests/addons docs/addons docs/schema/agentv.schema.json docs/schema/draft.schema.json examples/agentv scripts/agentv_pages.py scripts/draft_pages.py benchmarks/draft_quality.py
export PYTHONPATH=$copy/src
"$python" -c 'from germane.addons import __file__, own; assert __file__.startswith("'"$copy"'") and not own(), __file__'
"$python" -m pytest "$@"
