"""Print on stdout and stderr, as every verb does."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from germane.clean import clean_json, clean_lines
from germane.errors import InputError

__all__ = ["print_document", "print_lines", "refuse_input", "say"]


@contextmanager
def ignore_closed_stderr() -> Iterator[None]:
    """Ignore errors of writing to a stderr that is closed: progress must not change what a run does."""
    try:
        yield
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def say(message: str) -> None:
    """Print a message on stderr, without control characters."""
    with ignore_closed_stderr():
        print(clean_lines(message), file=sys.stderr)


def refuse_input(path: Path, inputs: Iterable[object], flag: str = "-o") -> None:
    """Raise InputError if the output `path` is one of the inputs, or a file of a report folder among them."""
    from germane.folder.files import is_own

    for name in filter(None, inputs):
        with suppress(OSError, ValueError):  # the URL of a store, or a name that no file can have
            read = Path(str(name))
            if (path.exists() and path.samefile(read)) or (read.is_dir() and is_own(path, read)):
                fix = f"name another {'file' if path.suffix else 'folder'}"
                raise InputError(f"{flag} {path} would overwrite an input file", fix=fix)


def print_lines(text: str) -> None:
    """Print lines on stdout, wrapped between words to the width of a terminal."""
    lines = text.split("\n")
    if sys.stdout.isatty():
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
