"""The progress of a run on stderr: a bar in a terminal, else a line every 15 seconds."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Self

from rich.console import Console

from germane.clean import clean_lines, counted
from germane.cli.values import ignore_closed_stderr, say
from germane.evaluation.spec import Callbacks
from germane.judging.spending import Spent
from germane.reports.data import ReportData

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from germane.judging.asker import Asker


_FIRST, _BETWEEN = 1.0, 15.0
"""Seconds to the first line of progress on stderr, and between two, if stderr is not a terminal."""


class Progress(Callbacks):
    """Shows on stderr how much of a run is done, the time left, the cost and the errors so far, and prints its warnings."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.wants_forecast = not quiet
        self.so_far: ReportData | None = None
        self.baseline: ReportData | None = None
        self._quiet = quiet
        self._next = time.monotonic() + _FIRST
        self._bar: Bar | None = None
        self._log = logging.Handler(logging.WARNING)
        self._log.emit = lambda record: self.warn(record.getMessage())  # type: ignore[method-assign]
        self.hint = ""
        self._expected: Spent | None = None
        self._began: dict[str, float] = {}

    def __enter__(self) -> Self:
        logging.getLogger("germane").addHandler(self._log)
        console = Console(stderr=True)
        if console.is_terminal:
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar
            from rich.table import Column

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=None, table_column=Column(ratio=1)),
                TextColumn("{task.fields[more]}", table_column=Column(overflow="fold")),
            )
            self._bar = Bar(*columns, console=console, transient=True, expand=True)
            self._bar.add_task("starting", total=None, more="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("germane").removeHandler(self._log)
        if self._bar is not None:
            self._bar.stop()

    def warn(self, text: str) -> None:
        """Print a warning on stderr, above the progress bar if there is one."""
        self.note(f"warning: {text}")

    def note(self, text: str) -> None:
        """Print a message on stderr, above the progress bar if there is one."""
        if self._bar is None:
            say(text)
        else:
            with ignore_closed_stderr():
                self._bar.console.print(clean_lines(text), markup=False, highlight=False)

    def on_forecast(self, total: Spent) -> None:
        """Show the progress of judging from now on as a share of this expected total."""
        self._expected = total
        self.on_progress("judging", 0, total.calls, self._spending(Spent()))

    def on_stopping(self) -> None:
        """Print that the run was interrupted and waits only for the requests in flight."""
        self.note("interrupted: finishing the requests in flight; press Ctrl-C again to abandon them")

    def on_baseline(self, baseline: ReportData) -> None:
        """Keep the baseline of an evaluation."""
        self.baseline = baseline

    def on_judgements(self, asker: Asker) -> None:
        """Show how many questions are answered or, after a forecast, how many of the paid calls are made."""
        if self._expected is not None:
            done = asker.spent.calls
            self.on_progress("judging", done, max(self._expected.calls, done), self._spending(asker.spent))
        elif asker.answered:  # else the whole is known in a moment
            self.on_progress("looking up answers", asker.answered, asker.expected)

    def _spending(self, spent: Spent) -> str:
        """Return a text with the cost and number of errors so far."""
        cost, whole = "", self._expected.cost if self._expected else None
        if spent.cost is not None and (spent.cost or whole):
            cost = f"${spent.cost:.4f}" + (f" of about ${whole:.4f}" if whole else "")
        return ", ".join(filter(None, [cost, counted(spent.errors, "error") if spent.errors else ""]))

    def on_failures(self, command: str) -> None:
        """Keep the hint on how to ask failed questions again, for the end of the run."""
        self.hint = f"ask again what failed: {command}"

    def on_stopped(self, report: ReportData) -> None:
        """Keep the report of a run that stopped, for --json."""
        self.so_far = report

    def on_progress(self, what: str, done: int, total: int, more: str = "") -> None:
        """Show how much of the task `what` is done, the time left, and the text `more`."""
        now = time.monotonic()
        began = self._began.setdefault(what, now)
        about = "~" if self._expected is not None and self._expected.estimated and what == "judging" else ""
        left = ""
        if 0 < done < total:
            minutes, seconds = divmod(round((now - began) / done * (total - done)), 60)
            left = f"{minutes}:{seconds:02} left"
        text = ", ".join(filter(None, [f"{done:,} of {about}{total:,}", left, more]))
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, description=what, completed=done, total=total, more=text)
        elif not self._quiet and now >= self._next:
            self._next = now + _BETWEEN
            say(f"{what}: {text}")
