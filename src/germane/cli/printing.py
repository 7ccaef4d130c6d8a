"""How every verb ends: files written, the report printed, the exit code of the verdict."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

from germane.clean import clean, clean_json, clean_lines
from germane.cli.values import print_document, say, whoever_listens
from germane.errors import InputError
from germane.evaluation.options import Counts, Expected, Watch
from germane.judging.spending import Spent
from germane.reports import formats
from germane.reports.ci import github_commands
from germane.reports.data import ReportData
from germane.reports.report import Report, reports_in
from germane.tables.folder import read_manifest
from germane.types import Json
from germane.wholetable import WholeTable


class _Stdout(Console):
    def on_broken_pipe(self) -> None:
        """As with any other output: rich would leave with 1, which is a gate that failed."""
        raise BrokenPipeError


def finish(
    report: Report,
    outputs: Sequence[Path],
    *,
    as_json: bool,
    code: bool = True,
    quiet: bool = False,
    baseline: ReportData | None = None,
    comparison: Mapping[str, Json] | None = None,
) -> None:
    """Write the files asked for, print the report, leave with the verdict's exit code."""
    write(report, outputs, baseline=baseline, comparison=comparison)
    _tell_github(report)
    if as_json:
        print_json(report)
    elif not quiet:
        print_console(formats.render(report))
    elif not report.verdict.passed:
        say("\n".join(report.verdict.lines()))
    if code:
        raise typer.Exit(report.verdict.exit_code)


def finish_each(
    reports: Mapping[str, Report], outputs: Sequence[Path], *, as_json: bool, quiet: bool
) -> None:
    """Write the files asked for and print the reports of several evaluations, by their paths; at the end a line for each.

    A format that holds one report is written to a file for each, FILE-NAME.
    """
    for path in outputs:
        if formats.write_several(reports, path):
            say(f"wrote {path}")
        else:
            for name, report in reports.items():
                write(report, [path.with_stem(f"{path.stem}-{Path(name).stem}")])
    for name, report in reports.items():
        _tell_github(report, name)
    if as_json:
        documents = {name: formats.json_document(report) for name, report in reports.items()}
        print_document(formats.json_documents(documents))
        return
    table = WholeTable(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for name, report in reports.items():
        if not quiet:
            print_console(Text(f"\n{clean(name)}", style="bold"))
            print_console(formats.render(report))
        elif not report.verdict.passed:
            say("\n".join([clean(name), *report.verdict.lines()]))
        code = report.verdict.exit_code
        table.add_row(Text(clean(name)), Text(report.verdict.word), Text(f"(exit code {code})"))
    if not quiet:
        print_console(Text(f"\n{len(reports)} evaluations, each with a report of its own", style="bold"))
        print_console(table)


def write(
    report: ReportData,
    paths: Sequence[Path],
    *,
    baseline: ReportData | None = None,
    comparison: Mapping[str, Json] | None = None,
    text: bool = True,
) -> None:
    """Write report files; a page with the audit of its judge and the comparison to a baseline."""
    from germane.labelling.audit import audit_judge

    judged = any(summary.basis.source == "judge" for summary in report.summaries)
    for path in paths:
        page: dict[str, Json] = {}
        if path.suffix.lower() == ".html":
            audit = audit_judge(report) if judged else None
            page = {"text": text, "audit": audit, "comparison": comparison}
        formats.write(report, path, baseline=baseline, **page)
        say(f"wrote {path}")


def _tell_github(report: Report, name: str = "") -> None:
    """In a workflow of GitHub: the report on the step's summary page, errors at the lines of failed cases."""
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as page:
            page.writelines(formats.headed(name, report) if name else formats.FORMATS[".md"](report))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        with whoever_listens():
            workspace = os.environ.get("GITHUB_WORKSPACE")
            for command in github_commands(report, Path(workspace).resolve() if workspace else None):
                print(command, file=sys.stderr)


def print_console(shown: RenderableType) -> None:
    """To stdout, 120 columns wide where that is no terminal."""
    console = _Stdout(highlight=False)
    if not console.is_terminal:
        console.width = 120
    console.print(shown)


def print_json(report: ReportData) -> None:
    """The document that scripts rely on."""
    print(clean_json(json.dumps(formats.json_document(report), ensure_ascii=False)))


def opened(folder: Path | None) -> Report:
    """The report in a folder, of an interrupted run the part that is done; without a folder the latest that holds a score.

    The name of the latest in germane-reports is said on stderr. InputError where there is none.
    """
    if folder is not None:
        finished = read_manifest(folder).get("status") == "complete"
        return Report.open(folder) if finished else Report.unfinished(folder)
    parent = Path("germane-reports")
    for latest in reports_in(parent):
        found = opened(latest)
        if found.measures:
            print(f"the latest report: {clean(str(latest))}", file=sys.stderr)
            return found
    raise InputError(f"there is no report in {parent}", fix="name one: germane report REPORT")


class _Warnings(logging.Handler):
    """What the library logs (an endpoint that does not answer), said as a warning."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.WARNING)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        self._watch.warn(record.getMessage())


_FIRST, _HEARTBEAT = 1.0, 15.0
"""Seconds to the first line on stderr that tells how far a run has come, and between two, where no terminal shows it."""


class Progress(Watch):
    """A progress bar on stderr while a run works, where stderr is a terminal, else a line now and then; warnings too.

    Both say how much of the whole is done, the time left, the price and the errors so far.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._said = time.monotonic() - _HEARTBEAT + _FIRST
        self._line: Callable[[], str] = lambda: "starting"
        self._over = threading.Event()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._log = _Warnings(self)
        self._hints: list[str] = []
        self._expected: Expected | None = None
        self._began: dict[str, float] = {}
        self.so_far: ReportData | None = None
        self.before: ReportData | None = None
        self.wants_forecast = not quiet

    def __enter__(self) -> Self:
        logging.getLogger("germane").addHandler(self._log)
        console = Console(stderr=True)
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[more]}", table_column=Column(overflow="fold")),
            )
            self._bar = Bar(*columns, console=console, transient=True, expand=True)
            self._bar.start()
            self._task = self._bar.add_task("starting", total=None, more="")
        elif not self._quiet:
            threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("germane").removeHandler(self._log)
        self._over.set()
        if self._bar is not None:
            self._bar.stop()

    def _beat(self) -> None:
        """The last line again where nothing has been answered for a while: a build server ends what is silent."""
        silent = time.monotonic()
        while not self._over.wait(max(0.05, silent + _HEARTBEAT - time.monotonic())):
            silent = max(silent, self._said)
            if time.monotonic() >= silent + _HEARTBEAT:
                silent = self._said = time.monotonic()
                say(self._line())

    def warn(self, text: str) -> None:
        """One warning, above the bar."""
        if self._bar is None:
            say(f"warning: {text}")
        else:
            with whoever_listens():
                self._bar.console.print(f"warning: {clean_lines(text)}", markup=False, highlight=False)

    def expects(self, total: Expected) -> None:
        """How much is to be judged."""
        self._expected = total
        self._show("judging", 0, total.calls, self._spending(Spent()))

    def held_against(self, baseline: ReportData) -> None:
        """The report of --baseline, for the page."""
        self.before = baseline

    def answering(self, done: int, total: int) -> None:
        """So many cases have their answer."""
        self._show("asking the target", done, total)

    def judging(self, pool: Counts) -> None:
        """So many questions have their answer: of those that cost where it is known how many there are."""
        if self._expected is None:
            if pool.answered:  # else the whole is known in a moment
                self._show("looking up answers", pool.answered, pool.expected)
        else:
            done = pool.spent.calls
            self._show("judging", done, max(self._expected.calls, done), self._spending(pool.spent))

    def _spending(self, spent: Spent) -> str:
        """Price and errors so far."""
        words = []
        if spent.cost is not None and (spent.cost or (self._expected and self._expected.cost_usd)):
            whole = self._expected.cost_usd if self._expected else None
            words.append(f"${spent.cost:.4f}" + (f" of about ${whole:.4f}" if whole else ""))
        if spent.errors:
            words.append(f"{spent.errors:,} error{'s' if spent.errors > 1 else ''}")
        return ", ".join(words)

    def failed(self, command: str) -> None:
        """How to ask again; said at the end."""
        self._hints.append(f"ask again what failed: {command}")

    def stopped(self, report: ReportData) -> None:
        """What is known of a run that stopped, for --json."""
        self.so_far = report

    def last_words(self) -> None:
        """What is said below the report."""
        for hint in self._hints:
            say(hint)

    def _show(self, what: str, done: int, total: int, more: str = "") -> None:
        now = time.monotonic()
        began = self._began.setdefault(what, now)
        self._line = lambda: f"{what}: {self._how_far(what, done, total, more, time.monotonic() - began)}"
        if self._bar is not None and self._task is not None:
            said = self._how_far(what, done, total, more, now - began)
            self._bar.update(self._task, description=what, completed=done, total=total, more=said)
        elif not self._quiet and now >= self._said + _HEARTBEAT:
            self._said = now
            say(self._line())

    def _how_far(self, what: str, done: int, total: int, more: str, seconds: float) -> str:
        """How much is done, how long the rest will take, what it has cost."""
        about = "~" if self._expected is not None and not self._expected.exact and what == "judging" else ""
        words = [f"{done:,} of {about}{total:,}"]
        if 0 < done < total:
            words.append(f"{_clock(seconds / done * (total - done))} left")
        return ", ".join([*words, *([more] if more else [])])


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
