"""The progress of a run on stderr: a bar in a terminal, else a line now and then."""

from __future__ import annotations

import logging
import threading
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


_FIRST, _HEARTBEAT = 1.0, 15.0
"""Seconds to the first line of progress on stderr, and between two, if stderr is not a terminal."""
_SLOW = 0.1
"""Seconds per call from which they are shown: a fast judge needs no such figure."""


class Progress(Callbacks):
    """A progress bar on stderr while a run works, or a line now and then if stderr is not a terminal; warnings too.

    Both show how much is done, the time left, the cost and the errors so far.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.wants_forecast = not quiet
        self.so_far: ReportData | None = None
        self.baselines: list[ReportData] = []
        self._quiet = quiet
        self._next = time.monotonic() + _FIRST
        self._state = ("starting", 0, 0, "")
        self._over = threading.Event()
        self._bar: Bar | None = None
        self._log = logging.Handler(logging.WARNING)
        self._log.emit = lambda record: self.warn(record.getMessage())  # type: ignore[method-assign]
        self._hints: list[str] = []
        self._expected: Spent | None = None
        self._stopping = False
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
        elif not self._quiet:
            threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("germane").removeHandler(self._log)
        self._over.set()
        if self._bar is not None:
            self._bar.stop()

    def _beat(self) -> None:
        """Print the last line again after a silent period, since build servers end silent jobs."""
        while not self._over.wait(max(0.05, _HEARTBEAT)):
            self._say_line()

    def _say_line(self) -> None:
        if (now := time.monotonic()) >= self._next and not self._stopping:
            self._next = now + _HEARTBEAT
            what, *_ = self._state
            say(f"{what}: {self._how_far()}" if self._began else what)

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
        """Show the number of questions that are expected."""
        self._expected = total
        self._show("judging", 0, total.calls, self._spending(Spent()))

    def on_stopping(self) -> None:
        """Replace the bar by a note that only requests in flight are finished."""
        text = "interrupted: finishing the requests in flight; press Ctrl-C again to abandon them"
        if self._bar is None:
            say(text)
        else:
            self._bar.update(self._bar.task_ids[0], description=text, more="")
        self._stopping = True

    def on_baseline(self, baseline: ReportData) -> None:
        """Keep the baseline of an evaluation."""
        self.baselines.append(baseline)

    def on_progress(self, what: str, done: int, total: int) -> None:
        """Show the progress."""
        self._show(what, done, total)

    def on_judgements(self, pool: Asker) -> None:
        """Show how many questions are answered; if it is known how many cost something, how many of these."""
        if self._expected is not None:
            done = pool.spent.calls
            self._show("judging", done, max(self._expected.calls, done), self._spending(pool.spent))
        elif pool.answered:  # else the whole is known in a moment
            self._show("looking up answers", pool.answered, pool.expected)

    def _spending(self, spent: Spent) -> str:
        """Return a text with the cost and number of errors so far."""
        words = []
        whole = self._expected.cost if self._expected else None
        if spent.cost is not None and (spent.cost or whole):
            words.append(f"${spent.cost:.4f}" + (f" of about ${whole:.4f}" if whole else ""))
        if spent.errors:
            words.append(counted(spent.errors, "error"))
        return ", ".join(words)

    def on_failures(self, command: str) -> None:
        """Keep the command that asks failed questions again, for the end of the run."""
        self._hints.append(f"ask again what failed: {command}")

    def on_stopped(self, report: ReportData) -> None:
        """Keep the report of a run that stopped, for --json."""
        self.so_far = report

    def print_hints(self) -> None:
        """Print the hints below the report."""
        for hint in self._hints:
            say(hint)

    def _show(self, what: str, done: int, total: int, more: str = "") -> None:
        if self._stopping:
            return
        self._state = (what, done, total, more)
        self._began.setdefault(what, time.monotonic())
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, description=what, completed=done, total=total, more=self._how_far())
        elif not self._quiet:
            self._say_line()

    def _how_far(self) -> str:
        """Return the progress as text: done, time left, cost."""
        what, done, total, more = self._state
        about = "~" if self._expected is not None and self._expected.estimated and what == "judging" else ""
        words = [f"{done:,} of {about}{total:,}"]
        if 0 < done < total:
            each = (time.monotonic() - self._began[what]) / done
            words.append(f"{_clock(each * (total - done))} left")
            if what == "judging" and each >= _SLOW:
                words.append(f"{each:.1f} s per call")
        return ", ".join([*words, *([more] if more else [])])


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
