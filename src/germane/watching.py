"""Whoever looks on while a run works: a progress bar, a test, nobody."""

from __future__ import annotations

from germane.judging.pool import Pool
from germane.reports.report import Report

__all__ = ["Watch"]


class Watch:
    """Whoever looks on while a run works. The defaults see nothing."""

    def warn(self, text: str) -> None:
        """Something in the input is probably not meant."""

    def answering(self, done: int, total: int) -> None:
        """So many cases have their answer."""

    def judging(self, pool: Pool) -> None:
        """The pool's counts have moved."""

    def scored(self, done: int) -> None:
        """So many samples are finished."""

    def failed(self, command: str) -> None:
        """Some questions came to nothing; the command asks them again."""

    def stopped(self, report: Report) -> None:
        """The run has stopped before its end; so much is known."""
