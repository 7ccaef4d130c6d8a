"""Values of flags that are more than a word, and what every verb prints with."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from germane.clean import clean_json, clean_lines
from germane.errors import InputError
from germane.flags import OPTION_DEFAULTS

if TYPE_CHECKING:
    from germane.evaluation.options import Options
    from germane.types import Json


@contextmanager
def ignore_closed_stderr() -> Iterator[None]:
    """Write to stderr: to nowhere once nobody reads it (a closed terminal, a `tee` that was interrupted too).

    What is shown of a run must not change what it does.
    """
    try:
        yield
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def say(message: str) -> None:
    """A message on stderr, harmless to a terminal."""
    with ignore_closed_stderr():
        print(clean_lines(message), file=sys.stderr)


def refuse_input(path: Path, inputs: Iterable[object], flag: str = "-o") -> None:
    """InputError, before anything is spent or written, where the file to be written is one of those that are read.

    Of a report folder these are its own files.
    """
    from germane.folder.layout import is_own

    for name in filter(None, inputs):
        with suppress(OSError, ValueError):  # the URL of a store, or a name that no file can have
            read = Path(str(name))
            if (path.is_file() and path.samefile(read)) or (read.is_dir() and is_own(path, read)):
                raise InputError(f"{flag} {path} would overwrite the input", fix="name another file")


def print_lines(text: str) -> None:
    """Lines on stdout: wrapped between words to the width of a terminal, elsewhere as they are."""
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
    """One JSON document on one line; no text in it is a command of a build server."""
    print(clean_json(json.dumps(document, ensure_ascii=False, allow_nan=False)))


def _named(text: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE; ("", "") where it is not one."""
    name, _, value = (piece.strip() for piece in text.partition("="))
    return (name, value) if name and value else ("", "")


def pairs(values: Iterable[str] | None, flag: str, example: str) -> tuple[tuple[str, str], ...]:
    """`a=b,c=d` and repeated flags as pairs; InputError on anything else."""
    result: dict[str, str] = {}
    for entry in (entry for text in values or () for entry in text.split(",")):
        name, value = _named(entry)
        if not name:
            raise InputError(f"{flag} {entry!r} is not NAME=VALUE", fix=f"write {flag} {example}")
        if name in result:
            raise InputError(f"{flag} gives {name} twice", fix="give it once")
        result[name] = value
    return tuple(result.items())


def headers(values: Iterable[str] | None) -> tuple[tuple[str, str], ...]:
    """Repeated `--header NAME=VALUE`; what is wrong is said without the value, which may be a key."""
    result = dict(map(_named, values or ()))
    for name, value in result.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            raise InputError("--header is not NAME=VALUE", fix="write --header x-team=search")
        if not value.isprintable():
            raise InputError(f"the value of --header {name} holds characters that no header has")
    return tuple(result.items())


def parameters(values: Iterable[str] | None, flag: str, example: str) -> tuple[tuple[str, Json], ...]:
    """Repeated NAME=VALUE: a value that is JSON is what it says, any other is text."""
    result: dict[str, Json] = {}
    for text in values or ():
        name, value = _named(text)
        if not name:
            raise InputError(f"{flag} {text!r} is not NAME=VALUE", fix=f"write {flag} {example}")
        try:
            result[name] = json.loads(value)
        except ValueError:
            result[name] = value
    return tuple(result.items())


def prices(value: str | None) -> tuple[float, float] | None:
    """`0.15/0.60` as the prices of a million tokens in and out; InputError on anything else."""
    if value is None:
        return None
    try:
        first, second = map(float, value.split("/"))
    except ValueError:
        first = second = -1.0
    if not (0 <= first < float("inf") and 0 <= second < float("inf")):
        raise InputError(f"--price {value!r} is not IN/OUT", fix="write --price 0.15/0.60")
    return first, second


def _usual_path() -> str:
    """The folder that is evaluated where no path is named."""
    if not Path("evals").is_dir():
        fix = "name an eval file, a data file or a folder; germane init makes an example"
        raise InputError("nothing to evaluate: no folder evals/ here, and no path is named", fix=fix)
    say("evaluating evals/")
    return "evals"


def options_of(flags: Mapping[str, Any]) -> Options:
    """The flags as the options of a run: one that is not given is at its default, lists are tuples, paths are text."""
    from germane.evaluation.options import Options

    for name in ("ledger", "no_cache", "resume"):
        if flags.get("replay") is not None and flags.get(name):
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"--replay and {flag} do not go together", fix=f"leave {flag} out")
    for name in ("part", "engine"):
        if flags.get(name) == "":  # of a variable that is not set: the whole would be run, in each job
            raise InputError(f"--{name} is empty", fix="give it a value, or leave it out")
    for name in ("ledger", "replay"):
        if "://" in (address := str(flags.get(name) or "")):
            from germane.ledger.store import password_apart

            flags = {**flags, name: password_apart(address)}
    read = {
        **flags,
        "paths": flags["paths"] or ([] if flags.get("resume") else [_usual_path()]),
        "judge": " ".join(flags["judge"]) or None,
        "price": prices(flags.get("price")),
        "headers": headers(flags.get("headers")),
        "parameters": parameters(flags["parameters"], "--model-parameter", "seed=7"),
        "prompts": pairs(flags["prompts"], "--prompt", "relevance=my.md"),
        "columns": pairs(flags["columns"], "--columns", "query=Query"),
        "ledger": flags.get("ledger") or None,
        "given": tuple(name for name in OPTION_DEFAULTS if flags.get(name) is not None),
    }
    names = {field.name for field in fields(Options)} & read.keys()
    return Options(**{name: _plain(read[name]) for name in names if read[name] is not None})


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return str(value) if isinstance(value, Path) else value
