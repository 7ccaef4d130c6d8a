"""The command line. stdout is data, stderr progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from germane.cli.values import parameters, print_document, say

__all__ = ["main", "parameters", "print_document", "say"]


def __getattr__(name: str) -> Any:
    """What commands share; imported when first used."""
    if name not in __all__:
        raise AttributeError(f"module 'germane.cli' has no attribute {name!r}")
    from germane.cli import values

    return getattr(values, name)


def main() -> None:
    """Run the command line. Its imports are made here, so that Ctrl-C during them leaves no traceback either."""
    try:
        from germane.cli.starting import start
    except KeyboardInterrupt:
        import sys

        print("germane: interrupted", file=sys.stderr)
        sys.exit(130)
    start()
