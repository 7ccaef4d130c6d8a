"""Functions for all verbs: print on stdout and stderr, and create the Spec from flags."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from germane.clean import clean_json, clean_lines
from germane.errors import InputError

__all__ = ["print_document", "print_lines", "refuse_input", "say", "spec_of"]

if TYPE_CHECKING:
    from germane.evaluation.spec import Spec


@contextmanager
def ignore_closed_stderr() -> Iterator[None]:
    """Return a context in which errors of writing to a closed stderr are ignored, so that a run continues."""
    try:
        yield
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def say(message: str) -> None:
    """Print a message on stderr, without control characters."""
    with ignore_closed_stderr():
        print(clean_lines(message), file=sys.stderr)


def refuse_input(path: Path, inputs: Iterable[object], flag: str = "-o") -> None:
    """Raise InputError if the output `path` is one of `inputs`, or a file of a report folder in `inputs`.

    `flag` is the flag that names the output, for the error.
    """
    from germane.folder.files import is_own

    for name in filter(None, inputs):
        with suppress(OSError, ValueError):  # a URL, or a name that is impossible for a file
            read = Path(str(name))
            if (path.exists() and path.samefile(read)) or (read.is_dir() and is_own(path, read)):
                fix = f"name another {'file' if path.suffix else 'folder'}"
                raise InputError(f"{flag} {path} would overwrite an input file", fix=fix)


def print_lines(text: str) -> None:
    """Print lines on stdout, wrapped between words to the width of a terminal."""
    lines = text.split("\n")
    if sys.stdout is not None and sys.stdout.isatty():  # None: it was closed before the start
        words = textwrap.TextWrapper(
            shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False
        )
        lines = []
        for line in text.split("\n"):
            words.subsequent_indent = " " * (len(line) - len(line.lstrip()) + 2)
            lines += words.wrap(line) or [line]
    print("\n".join(lines))


def print_document(document: object) -> None:
    """Print a JSON document on one line, escaped so that CI servers find no commands in it."""
    print(clean_json(json.dumps(document, ensure_ascii=False, allow_nan=False)))


def spec_of(flags: Mapping[str, Any]) -> Spec:
    """Return the Spec given by the flags of `run` or `questions`.

    Without a path, the folder evals/ is evaluated. Raises InputError if flags cannot be combined.
    """
    from germane.evaluation.spec import OPTIONS, OUTPUTS, Spec

    for name in ("ledger", "no_cache", "resume"):
        if flags.get("replay") is not None and flags.get(name):
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"--replay and {flag} cannot be combined", fix=f"leave {flag} out")
    for name in ("part", "engine"):
        if flags.get(name) == "":  # a variable was not set: each job would run the whole evaluation
            raise InputError(f"--{name} is empty", fix="give it a value, or leave it out")
    if flags.get("reask") and not flags.get("resume"):
        fix = "write germane run --resume REPORT --judge JUDGE --reask, or leave out --reask"
        raise InputError("--reask needs --resume REPORT: it continues a report with another judge", fix=fix)
    values = {name: value for name, value in flags.items() if name in OPTIONS or name in OUTPUTS}
    for name in ("ledger", "replay"):
        values[name] = address = values.get(name) or None
        if address is not None and "://" in address:
            from germane.ledger.sqlite import password_apart

            values[name] = password_apart(address)
    if not values["paths"] and not flags.get("resume"):
        if not Path("evals").is_dir():
            example = next(iter(sorted(Path().glob("*/evals/*.yaml"))), None)
            fix = "name an eval file, a data file or a folder"
            fix += f", as in germane run {example}" if example else "; `germane init` creates an example"
            raise InputError("no path to evaluate is given, and there is no folder evals/ here", fix=fix)
        say("evaluating evals/")
        values["paths"] = ["evals"]
    return Spec.of(**values)
