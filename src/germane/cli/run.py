"""The command `germane run`, and its progress on stderr: a bar, or a line every 15 seconds."""

from __future__ import annotations

import logging
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console

from germane.clean import clean_lines, counted, some_of
from germane.cli.finishing import Outputs, check_writable, finish
from germane.cli.output import ignore_closed_stderr, print_document, print_lines, say, spec_of
from germane.errors import InputError, Interrupted
from germane.evaluation import run as running
from germane.evaluation.run import Callbacks
from germane.judging.spending import Spent
from germane.reports.data import ReportData
from germane.reports.formats import json_document

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from germane.judging.asker import Asker


def run(*, resume: Path | None, dry_run: bool, json: bool, quiet: bool, verbose: bool, **flags: Any) -> int:
    """Query the targets, judge what they retrieve, score it and decide the gates.

    Without -m, measures follow from the data: gold labels give nDCG@10, R@10 and RR; a named judge gives context_precision
    and context_relevancy(unit=context), and with references context_recall. A judge named only by the environment is not
    used by default.

    An eval file runs code, as a Makefile does: scripts, commands and Python targets. --dry-run runs none of it, and
    --untrusted refuses it.

    Exit codes: 0 ok, 1 a gate failed, 2 invalid input, 3 too much could not be measured, a gate is undecided, a limit
    (--max-cost, --max-calls) stopped the run, --replay lacks an answer, or batches (--later) are pending, 130 interrupted.
    """
    outputs = Outputs.of(flags.pop("output"))
    files = outputs.files
    kept = [path for path in files if path not in outputs.urls]
    written = {"folder": outputs.folder, "outputs": kept, "store": outputs.store}
    chosen = spec_of({**flags, "resume": resume, **written})
    if resume is not None and chosen.paths:
        before = chosen.resumed()[0].report.get("paths", ())
        stored = {Path(path).resolve() for path in before}
        given = {Path(path).resolve() for path in chosen.paths}
        if all(path.exists() for path in stored) and stored != given:
            problem = f"{resume} is an evaluation of {some_of(before)}, not of {some_of(chosen.paths)}"
            again = f"germane run --resume {resume}, without a path, continues it"
            raise InputError(problem, fix=f"{again}; leave out --resume to begin a new run")
    for path in files:
        check_writable(path, [*chosen.paths, chosen.labels, chosen.targets_file, chosen.replay])
    if dry_run:
        if files:
            fix = "leave out -o, or write --json > FILE"
            raise InputError(f"--dry-run writes no report, but -o {files[0]} is given", fix=fix)
        with Progress() as callbacks:
            expected = running.dry_run(chosen, callbacks)
        if json:
            print_document(expected.as_json())
        else:
            print_lines(expected.text())
        return 0
    outputs.refuse_other(replace=bool(chosen.force or chosen.get("part") or resume))
    try:
        with Progress(quiet=quiet) as callbacks:
            report = running.run(chosen, callbacks)
    except BaseException:
        if json and callbacks.so_far is not None:
            print_document(json_document(callbacks.so_far))
        raise
    # a continued run writes the files that were named when it began
    files = [*map(Path, report.manifest["options"]["outputs"]), *outputs.urls]
    try:
        code = finish(report, files, as_json=json, quiet=quiet, verbose=verbose, baseline=callbacks.baseline)
    except KeyboardInterrupt:
        command = f"germane report {shlex.quote(str(report.folder))}"
        raise Interrupted(f"interrupted; the report is complete: {command}") from None
    outputs.put(report)
    # the manifest has sessions if a judge was asked; a question, or a member of a panel, has no answer
    failed = any(field in {"errors", "failed"} for _, field, _ in report.tables.asked)
    if failed and report.folder is not None and "sessions" in report.manifest and not chosen.replay:
        say(f"ask the failed questions again: {chosen.resume_command(report.folder)}")
    return code


_FIRST, _BETWEEN = 1.0, 15.0
"""Seconds before the first line of progress on stderr, and between lines, if stderr is not a terminal."""


class Progress(Callbacks):
    """Shows the progress of a run on stderr: work done, time left, cost and errors so far, and warnings."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.wants_forecast = not quiet
        self.so_far: ReportData | None = None
        self.baseline: ReportData | None = None
        self._quiet = quiet
        self._next = time.monotonic() + _FIRST
        self._bar: Bar | None = None
        self._log = logging.Handler(logging.WARNING)
        self._log.emit = lambda record: self.warn(record.getMessage())  # type: ignore[method-assign]
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

    def on_gold(self, text: str) -> None:
        """Print a warning on stderr; a quiet run prints the notes of its report there."""
        if not self._quiet:
            self.warn(text)

    def note(self, text: str) -> None:
        """Print a message on stderr, above the progress bar if there is one."""
        if self._bar is None:
            say(text)
        else:
            with ignore_closed_stderr():
                self._bar.console.print(clean_lines(text), markup=False, highlight=False)

    def on_forecast(self, total: Spent) -> None:
        """Show the progress of judging from now on as a proportion of this expected total."""
        self._expected = total
        self.on_progress("judging", 0, total.calls, self._spending(Spent()))

    def on_baseline(self, baseline: ReportData) -> None:
        """Store the baseline, which is compared with the report at the end of the run."""
        self.baseline = baseline

    def on_judgements(self, asker: Asker) -> None:
        """Show how many questions are answered or, after a forecast, how many of the paid calls are made."""
        if self._expected is not None:
            done = asker.spent.calls
            self.on_progress("judging", done, max(self._expected.calls, done), self._spending(asker.spent))
        elif asker.answered:  # otherwise all answers are found in a moment
            self.on_progress("looking up answers", asker.answered, asker.expected)

    def _spending(self, spent: Spent) -> str:
        """Return the cost and the number of errors in `spent` as a string; "" if both are 0."""
        cost, whole = "", self._expected.cost if self._expected else None
        if spent.cost is not None and (spent.cost or whole):
            cost = f"${spent.cost:.4f}" + (f" of about ${whole:.4f}" if whole else "")
        return ", ".join(filter(None, [cost, counted(spent.errors, "error") if spent.errors else ""]))

    def on_stopped(self, report: ReportData) -> None:
        """Keep the report of a run that stopped early in memory, so that --json prints the report."""
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
