"""The command line. stdout is data, stderr progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from germane.lazy import lazily

if TYPE_CHECKING:
    from germane.cli.values import print_document, say

__all__ = ["main", "print_document", "say"]

__getattr__ = lazily(__name__, dict.fromkeys(("print_document", "say"), "values"))
"""Functions that commands share, imported when first used."""


def main() -> None:
    """Run the command line. Imports are made here, so that Ctrl-C during them leaves no traceback."""
    try:
        from germane.cli.starting import start
    except KeyboardInterrupt:
        import sys

        print("germane: interrupted", file=sys.stderr)
        sys.exit(130)
    start()
