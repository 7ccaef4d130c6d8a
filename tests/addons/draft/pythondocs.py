"""A corpus for drafting: Python's own documentation as the interpreter carries it, with contents pages, tables and a repeated header."""

from __future__ import annotations

import importlib
import inspect
import warnings
from pathlib import Path
from pydoc_data.topics import topics

MODULES = [
    "argparse",
    "ast",
    "asyncio",
    "bisect",
    "calendar",
    "collections",
    "concurrent.futures",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "doctest",
    "email",
    "enum",
    "fractions",
    "ftplib",
    "functools",
    "gettext",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "html",
    "http.client",
    "imaplib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "mailbox",
    "mimetypes",
    "multiprocessing",
    "numbers",
    "operator",
    "optparse",
    "os",
    "pathlib",
    "pdb",
    "pickle",
    "pickletools",
    "platform",
    "plistlib",
    "poplib",
    "pprint",
    "profile",
    "queue",
    "random",
    "re",
    "reprlib",
    "sched",
    "secrets",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "smtplib",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "timeit",
    "tokenize",
    "trace",
    "traceback",
    "tracemalloc",
    "types",
    "unittest",
    "urllib.parse",
    "urllib.request",
    "uuid",
    "warnings",
    "wave",
    "weakref",
    "webbrowser",
    "xml.etree.ElementTree",
    "zipfile",
]
HEADER = "Python documentation   next | previous | modules | index"


def pages() -> dict[str, str]:
    """The pages by name: a page per topic of the language reference and per module, with contents pages among them."""
    with warnings.catch_warnings():  # of modules that a later Python drops
        warnings.simplefilter("ignore")
        return _pages()


def _pages() -> dict[str, str]:
    result = {f"reference/{name}.txt": f"{HEADER}\n\n{text}" for name, text in sorted(topics.items())}
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:  # an interpreter without that library
            continue
        entries = [f"{name}\n{'=' * len(name)}\n\n{inspect.getdoc(module) or ''}"]
        for what, value in sorted(vars(module).items()):
            callable_ = inspect.isclass(value) or inspect.isroutine(value)
            if (
                callable_
                and not what.startswith("_")
                and str(getattr(value, "__module__", "")).startswith(name)
            ):
                entries.append(
                    f"{name}.{what}\n{'-' * (len(name) + len(what) + 1)}\n\n{inspect.getdoc(value) or ''}"
                )
        result[f"library/{name}.txt"] = f"{HEADER}\n\n" + "\n\n".join(entries)
    listed = "\n".join(
        f"{n}.{n % 7} . . . . . . . . . . . . . . . . . {n * 3}" for n, name in enumerate(result, 1)
    )
    result["contents.txt"] = f"{HEADER}\n\nContents\n\n{listed}"
    return result


def write_corpus(folder: Path, *, limit: int | None = None, more: dict[str, str] | None = None) -> Path:
    """Write the pages as files; with a limit every so many, the contents page always."""
    found = pages()
    names = list(found)
    if limit is not None:
        names = [*names[:: max(1, len(names) // limit)][:limit], "contents.txt"]
    for name, text in {**{name: found[name] for name in names}, **(more or {})}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder
