# /// script
# requires-python = ">=3.11"
# dependencies = ["germane"]
#
# [tool.uv.sources]
# germane = { path = "..", editable = true }
# ///
"""LiveRAG's evaluate.py, by its own flags: see `germane liverag --help`.

uv run scripts/evaluate.py --evaluator ContextRecall --results R.tsv --reference Q.tsv
"""

import sys

from germane.cli import main

sys.argv[1:1] = ["liverag"]
main()
