"""What the tests of the command line use."""

from tests.cli.conftest import Cli, cli, inside, write_jsonl
from tests.cli.test_replay import recorded
from tests.cli.test_untrusted import repository

__all__ = ["Cli", "cli", "inside", "recorded", "repository", "write_jsonl"]
