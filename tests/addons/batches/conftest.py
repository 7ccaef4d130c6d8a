"""Runs the command line as its own tests do."""

from tests.cli.conftest import cli, inside

__all__ = ["cli", "inside"]
