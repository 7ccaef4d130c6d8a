"""One line that says how far the work has come: below a notebook's cell, elsewhere on stderr."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

_EVERY = 0.2
"""Seconds between two changes of the line."""


def in_notebook() -> bool:
    """True if this process shows a notebook's output: IPython with a kernel. IPython is not imported for it."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


class NotebookLine:
    """A line that is shown when it is first set, and replaced afterwards."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._next = 0.0

    def show(self, text: str, *, last: bool = False) -> None:
        """Set the line, at most some times a second; the `last` one always where there was another."""
        if (now := time.monotonic()) < self._next and not last:
            return
        self._next = now + _EVERY
        if not in_notebook():
            print(f"\r{text}", end="\n" if last else "", file=sys.stderr, flush=True)  # noqa: T201 - it was asked for
        elif self._handle is not None:
            self._handle.update({"text/plain": text}, raw=True)
        elif not last:
            self._handle = import_module("IPython.display").display(
                {"text/plain": text}, raw=True, display_id=True
            )
