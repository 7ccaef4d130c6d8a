"""`germane init`: a runnable example in a folder of yours."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from germane.errors import InputError

__all__ = ["example_folder", "init", "shipped", "write_example"]

_LEFT_OUT = {"__pycache__", ".germane", "germane-reports"}


def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write it.")] = Path(
        "rag-evaluation"
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Write out a runnable example: eval files, a small RAG system, labels, a grading script."""
    written = write_example(folder, force=force)
    print(f"wrote {len(written)} files to {folder}")
    print(f"next:  cd {folder} && germane run evals/retrieval-quality.yaml")


def shipped(name: str, folder: str = "examples") -> Path:
    """A file or folder that stands beside src/ in the repository and that a wheel brings; InputError where it did not."""
    package = Path(__file__).resolve().parent.parent
    for path in (package / "_shipped" / name, package.parent.parent / folder / name):
        if path.exists():
            return path
    raise InputError(f"this installation of germane has no {name} in it", fix="install it from a wheel")


def example_folder() -> Path:
    """Where the example's files stand; InputError where this installation has none."""
    return shipped("rag-evaluation")


def write_example(folder: Path, *, force: bool = False) -> list[Path]:
    """Copy the example into a folder; InputError, before anything is written, where files are in the way."""
    source = example_folder()
    names = [
        path.relative_to(source)
        for path in sorted(source.rglob("*"))
        if path.is_file() and not _LEFT_OUT & set(path.relative_to(source).parts)
    ]
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file", fix="name a folder")
    in_the_way = [folder / name for name in names if (folder / name).exists()]
    if in_the_way and not force:
        raise InputError(
            f"{in_the_way[0]} exists already", fix="name another folder, or overwrite it with --force"
        )
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, folder / name)
    return [folder / name for name in names]
