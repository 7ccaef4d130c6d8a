"""`germane init` copies the shipped example to a folder; `germane demo` evaluates it."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from germane.clean import clean, counted
from germane.errors import InputError

_LEFT_OUT = {"__pycache__", ".germane", "germane-reports"}


def init(folder: Path | None, *, skill: bool, force: bool) -> None:
    """Create a runnable example: eval files, a small RAG system, labels.

    Default folder: rag-evaluation; with --skill .claude/skills/rag-evaluation.
    """
    folder = folder or Path(".claude/skills/rag-evaluation" if skill else "rag-evaluation")
    written = write_shipped("skill" if skill else "rag-evaluation", folder, force=force)
    names = f": {', '.join(str(path.relative_to(folder)) for path in written)}" if skill else ""
    print(f"wrote {counted(len(written), 'file')} to {clean(str(folder))}{names}")
    if skill:
        return
    enter = [] if folder.resolve() == Path.cwd() else [f"cd {shlex.quote(str(folder))}"]
    print("next:", *enter, *_NEXT, sep="\n  ")


_NEXT = (
    "germane run                              # evals/: a live system, 38 questions, gates",
    "germane report -o report.html            # the report as a page",
    "germane explain bloom                    # why one question scored what it did",
    "germane run recorded/known-scores.yaml   # people's labels: scores that are known",
)


def demo() -> int:
    """Evaluate the shipped example; needs no key and no network.

    Run `germane run` on a copy of the example and write the report and its page to germane-reports/demo, replacing an
    earlier demo. Exit codes are those of `germane run`.
    """
    from germane.cli import verbs

    folder = Path("germane-reports/demo")
    page = folder / "report.html"
    with tempfile.TemporaryDirectory() as copy:
        write_shipped("rag-evaluation", Path(copy))
        data, ledger = str(Path(copy, "evals", "retrieval-set.yaml")), str(Path(copy, "ledger.sqlite"))
        code = verbs.call(["run", data, "--ledger", ledger, "--force", "-o", str(folder), "-o", str(page)])
    program = "germane" if shutil.which("germane") else sys.argv[0]  # `make demo` has it in .venv alone
    print(f"\nThe page with everything behind these numbers: {page}\nNext:")
    for line in _AFTER_DEMO:
        print(f"  {program} {line}")
    return code


_AFTER_DEMO = (
    "explain germane-reports/demo bloom     # why one query scored what it did",
    "label germane-reports/demo --who me    # label relevance yourself",
    "init my-eval                           # the example as a folder of your own",
)


def shipped(name: str, folder: str = "examples") -> Path:
    """Return the path of the file or folder `name` that is shipped with germane."""
    package = Path(__file__).resolve().parent.parent
    for path in (package / "_shipped" / name, package.parent.parent / folder / name):
        if path.exists():
            return path
    fix = "install germane from a wheel"
    raise InputError(f"this installation of germane lacks the files of {name}", fix=fix)


def write_shipped(name: str, folder: Path, *, force: bool = False) -> list[Path]:
    """Copy the shipped folder `name` to `folder`, and return the copied files."""
    source = shipped(name)
    found = (path.relative_to(source) for path in sorted(source.rglob("*")) if path.is_file())
    files = [path for path in found if _LEFT_OUT.isdisjoint(path.parts)]
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file", fix="name a folder")
    in_the_way = [folder / file for file in files if (folder / file).exists()]
    if in_the_way and not force:
        fix = "name another folder, or overwrite it with --force"
        raise InputError(f"{in_the_way[0]} exists already", fix=fix)
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, folder / file)
    return [folder / file for file in files]
