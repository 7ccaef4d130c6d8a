"""The command line. stdout is data, stderr progress."""

__all__ = ["main"]


def main() -> None:
    """Run the command line. Its imports are made here, so that Ctrl-C during them leaves no traceback either."""
    try:
        from germane.cli.starting import start
    except KeyboardInterrupt:
        import sys

        print("germane: interrupted", file=sys.stderr)
        sys.exit(130)
    start()
