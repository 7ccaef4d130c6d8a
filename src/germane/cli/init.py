"""`germane init`: a runnable example in a folder of yours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write it.")] = Path(
        "rag-evaluation"
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Write out a runnable example: eval files, a small RAG system, labels, a grading script."""
    from germane.example import write_example

    written = write_example(folder, force=force)
    print(f"wrote {len(written)} files to {folder}")
    print(f"next:  cd {folder} && germane run evals/retrieval-set.yaml")
