"""Finish a command: write the files, print the report, and return the verdict's exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from germane.clean import clean, mask_urls, some_of, without_controls
from germane.cli.output import ignore_closed_stderr, print_document, refuse_input, say
from germane.encoding import json_of
from germane.errors import InputError
from germane.folder.files import read_manifest
from germane.reports import formats
from germane.reports.data import ReportData
from germane.reports.report import Report, complete_in, reports_in
from germane.reports.text.overview import markdown, quiet_notes, render
from germane.samples.files import copied, shown_name, url_of, with_urls
from germane.types import Json

__all__ = ["Outputs", "check_writable", "finish"]


class _Stdout(Console):
    """A console that removes control characters from texts, but keeps its own colours and lines."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, because rich would exit with code 1, which means that a gate failed."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the segments of an object, without control characters in its texts."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(without_controls(segment.text), segment.style)


def finish(
    report: Report,
    outputs: Sequence[Path],
    *,
    as_json: bool,
    quiet: bool = False,
    verbose: bool = False,
    baseline: ReportData | None = None,
) -> int:
    """Write the files `outputs`, print the report, and return the exit code of the verdict.

    In a GitHub workflow, the report is also written to the job's summary, and errors become annotations.

    With `as_json`, the report is printed as a JSON document; with `verbose`, every note is printed. With
    `quiet`, only some notes and a verdict that is not "passed" are printed, on stderr. `baseline` is the
    report to compare with.
    """
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    kinds = {path: path.suffix.lower() for path in outputs}
    for path in outputs:
        refuse_input(path, report.inputs)
    comparison: Json = None
    if baseline is not None and (summary or _PAGES & {*kinds.values()}):
        from germane.comparison.compare import comparison_of

        comparison = comparison_of(baseline, report)
    for path, kind in kinds.items():
        page = {"baseline": baseline, "comparison": comparison} if kind in _PAGES else {}
        formats.write(report, path, **page, **(page_sections(report) if kind == ".html" else {}))
        say(f"wrote {shown_name(path)}")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as written:
            written.writelines([*markdown(report, comparison), "\n"])  # a blank line, should more follow
    folder = os.environ.get("GITHUB_WORKSPACE")
    annotate(formats.github_commands(report, Path(folder).resolve() if folder else None))
    if as_json:
        print_document(formats.json_document(report))
    elif not quiet:
        print_console(render(report, every=verbose))
    else:
        for note in quiet_notes(report):
            say(clean(f"note: {note}"))
        if not report.verdict.passed:
            say("\n".join(report.verdict.lines()))
    return report.verdict.exit_code


def annotate(commands: Iterable[str]) -> None:
    """Print the annotations `commands` on stderr, in a GitHub workflow."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        with ignore_closed_stderr():
            for command in commands:
                print(command, file=getattr(sys.stderr, "inner", sys.stderr))  # uncleaned: our own


_PAGES = {".html", ".md", ".svg", ".png"}
"""Formats that show a comparison, and only some of the queries of a large report."""


def page_sections(report: ReportData) -> dict[str, Any]:
    """Return the sections that only an HTML page shows: the audit of the judge, stages, simulated changes."""
    from germane.diagnosis.diagnosis import diagnose, diagnosis_page
    from germane.diagnosis.stages import stages_of
    from germane.reports.page.data import Excerpt

    excerpt = Excerpt(report)
    page: dict[str, Any] = {"excerpt": excerpt}
    if any(summary.basis.source == "judge" for summary in report.summaries):
        from germane.labelling.audit import audit_judge

        page["audit"] = audit_judge(report).as_json()
    with suppress(InputError):  # no document is known to be relevant
        page["stages"] = json_of(stages_of(excerpt.report.samples()))  # without document ids
    with suppress(InputError):  # no measure is ranked
        page["diagnosis"] = diagnosis_page(diagnose(excerpt.report))
    return page


def print_console(renderable: RenderableType) -> None:
    """Print to stdout at the width of the terminal; into a pipe at that of COLUMNS, at least 120."""
    console = _Stdout(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 120)
    console.print(renderable)


def opened(folder: Path | None) -> Report:
    """Return the report in `folder`, even if it is incomplete.

    If `folder` contains several reports (as germane-reports, the default), return the latest report with
    scores, and print its name on stderr. Raises InputError if there is no report.
    """
    parent = folder or Path("germane-reports")
    inside = reports_in(parent) if folder is None or not (folder / "manifest.json").exists() else []
    if folder is not None and not inside:
        finished = read_manifest(folder).get("status") == "complete"
        return Report.open(folder) if finished else Report.unfinished(folder)
    for latest in inside:
        report = opened(latest)
        if report.measures:
            say(f"the latest report: {latest}")
            return report
    raise InputError(f"no report in {parent}", fix="name one: germane report REPORT")


def reports_here() -> str:
    """Return the report folders in germane-reports and in the working directory, in brackets; else ""."""
    names = [str(report) for parent in ("germane-reports", ".") for report in reports_in(Path(parent))]
    return f" (reports here: {some_of(names, 5)})" if names else ""


def latest_reports(verb: str, n: int = 1, begin: str = "") -> list[Path]:
    """Return the latest `n` (1 or 2) complete reports in germane-reports, oldest first.

    Prints their names on stderr. If there are fewer, raises InputError, which shows how to name a report for
    the command `verb`; its message begins with `begin`.
    """
    parent = Path("germane-reports")
    result = [*islice(complete_in(parent), n)][::-1]
    if len(result) < n:
        what, fix = "no report", f"name it: germane {verb} REPORT"
        if n > 1:
            what, fix = f"there are fewer than {n} finished reports", f"name them: germane {verb} A B"
        raise InputError(f"{begin}{what} in {parent}", fix=fix + reports_here())
    words = "the latest report" if n == 1 else f"the {n} latest reports, the older one first"
    say(f"{words}: {', '.join(map(str, result))}")
    return result


@dataclass(frozen=True, slots=True)
class Outputs:
    """The values of `-o`: report files, a report folder, and the URLs to upload files and folder to.

    `files` are written on this machine, and `urls` maps some of them to the URL to upload them to. `folder`
    is the report folder. `store` is the URL to upload the report folder to, which is first written to `made`.
    """

    files: list[Path]
    urls: dict[Path, str]
    folder: Path | None = None
    store: str | None = None
    made: Path | None = None

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Self:
        """Return the Outputs for the values of -o, which are files, folders and URLs."""
        folder, store, files, urls = None, None, list[Path](), dict[Path, str]()
        for path in paths:
            if url := url_of(path):
                with_urls("check_store")(url)
            if not url:
                folder = folder or (None if path.suffix else path)
                files += [path] if path.suffix else []
            elif path.suffix:
                files.append(local := copied(with_urls("scratch")() / path.name, mask_urls(url)))
                urls[local] = url
            else:
                store = store or url
        return cls(files, urls, folder, store, with_urls("scratch")() / Path(store).name if store else None)

    def refuse_other(self, *, replace: bool) -> None:
        """Raise InputError if there is already a report at the URL `store`, unless `replace` is true."""
        if self.store and not replace and with_urls("is_there")(f"{self.store}/manifest.json"):
            fix = "name a new URL, or give --force to replace it"
            raise InputError(f"{mask_urls(self.store)} already holds a report", fix=fix)

    def put(self, report: Report, store: str | None = None) -> None:
        """Upload the written files, and then the report's folder, to their URLs.

        `store` is the URL for the folder. If it is None, the URL is taken from the report's options; if it is
        "", the folder is not uploaded. Raises InputError if an upload fails; local files are kept.
        """
        for local, url in self.urls.items():
            for file in local.parent.iterdir():
                with_urls("put")(file, f"{url.rpartition('/')[0]}/{file.name}")
        options = report.manifest.get("options") or {}
        where: str = (options.get("store") or "") if store is None else store
        if not where or report.folder is None:
            return
        if options.get("part"):
            shard = report.manifest["part"]
            where += f"/{shard['number']}-of-{shard['of']}"
        with_urls("put")(report.folder, where)
        say(f"wrote {mask_urls(where)}")


def check_writable(path: Path, inputs: Iterable[object]) -> None:
    """Raise InputError if this path cannot be written or is an input; it is called before any paid call."""
    formats.format_of(path)
    nearest = next(path for path in (path, *path.parents) if path.exists())
    if nearest == path and path.is_dir():
        raise InputError(f"{path} is a folder", fix="name a file: -o report.html")
    if nearest != path and not nearest.is_dir():
        raise InputError(f"{nearest} is a file", fix="name a file in a folder: -o reports/report.html")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"{path} cannot be written", fix="name a file in a folder that can be written")
    refuse_input(path, inputs)
