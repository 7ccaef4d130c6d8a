"""The command line. Results are printed on stdout, progress and errors on stderr."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line. Imports are made here, so that Ctrl-C during them leaves no traceback."""
    try:
        from germane.cli.starting import start
    except KeyboardInterrupt:
        import sys

        print("germane: interrupted", file=sys.stderr)
        sys.exit(130)
    start()
