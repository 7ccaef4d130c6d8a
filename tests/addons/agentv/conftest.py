"""What the tests of the command line use."""

from tests.cli.conftest import Cli, cli, inside, write_jsonl

__all__ = ["Cli", "cli", "inside", "write_jsonl"]
