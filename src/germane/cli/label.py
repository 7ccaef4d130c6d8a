"""`germane label`: people's labels, in the terminal by keys, from and to files."""

from __future__ import annotations

import getpass
import hashlib
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from germane.addons import labeller_of
from germane.clean import clean, counted, some_of
from germane.cli.keyboard import keyboard
from germane.cli.printing import latest_reports
from germane.cli.values import print_lines, refuse_input, say
from germane.errors import InputError, Interrupted
from germane.labelling.files import export_labels, import_labels
from germane.labelling.queue import LabelQueue, LabelTask, QueueName, queue_of
from germane.labelling.session import LabellingSession
from germane.reports.correct import Corrections, corrections_of
from germane.reports.correction.targets import choose_targets, shared_budget
from germane.reports.report import Report
from germane.reports.summary import corrected_in_words
from germane.samples.files import read_text
from germane.statistics.sampling import Design
from germane.tables.labels import Label

_EVERY = 10
"""Labels after which the corrected means so far are shown."""

_GRADES = {
    "graded": (
        "3  answers the query, and is about nothing else",
        "2  answers it in part, or among other things",
        "1  is about the topic and does not answer",
        "0  has nothing to do with it",
    ),
    "binary": ("y  yes", "n  no"),
}
_KEYS = ("u  unsure: not counted, not asked again", "z  undo the last answer",
         "?  this help", "q  quit; all answers are stored")  # fmt: skip


def label(
    folder: Path | None,
    *,
    who: str | None,
    budget: int | None,
    design: Design | None,
    queue: QueueName,
    seed: int,
    kind: str | None,
    scale: str | None,
    guideline: Path | None,
    take: Path | None,
    json: bool,
    give: Path | None,
    **of_addons: Any,
) -> None:
    """Label retrieved passages blind: verdicts, systems, ranks and scores are hidden. Answers are stored at once.

    Without --kind and --design the report's measures decide what is drawn: whole queries for measures of order
    (context_precision, AP, nDCG), else passages; claims for context_recall, after the passages. The command first prints which
    means are corrected after how many answers. Default report: the latest in germane-reports.
    """
    person = who or _user()
    if _labelled_by_addon(folder, of_addons, who=person, budget=budget, seed=seed, json=json):
        return
    folder = folder or latest_reports("label")[0]
    report = Report.open(folder)
    text = read_text(guideline) if guideline else ""
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16] if guideline else None
    _check_export(give, take, report)
    if take is not None:
        labels, notes = import_labels(take, report, who, fingerprint, person)
        report.tables.append_labels(labels)
        say("; ".join([f"{counted(len(labels), 'label')} added to {folder}", *notes]))
    if give is not None:
        say(f"wrote {counted(export_labels(give, Report.open(folder)), 'label')} to {give}")
    if take is not None or give is not None:
        return
    if queue == "random" and (kind is None or design is None):
        queues = _queues_for_means(report, kind, design, budget, seed)
    else:
        how = {"queue": queue, "budget": budget, "seed": seed}
        queues = [queue_of(report, kind or "relevance", design or "passages", **how)]
    settings, stored = report.manifest.get("settings") or {}, list(report.labels())
    sessions = list[LabellingSession]()
    for drawn in queues:  # claims and sufficiency are yes or no
        own = str(settings.get("scale", "graded")) if drawn.kind == "relevance" else "binary"

        def store(label: Label) -> None:
            report.tables.append_labels([label])

        session = LabellingSession(drawn, person, store, stored, scale=scale or own, guideline=fingerprint)
        sessions.append(session)
    _label(sessions, report, text)


def _labelled_by_addon(folder: Path | None, flags: Mapping[str, Any], **how: Any) -> bool:
    """Label a folder that an add-on knows, such as a drafted set; return False for reports. InputError for an add-on's flag with a report."""
    labeller = None if folder is None else labeller_of(folder)
    if folder is not None and labeller is not None:
        labeller(folder, **how, **flags)
    elif extra := next((name for name, value in flags.items() if value), None):
        raise InputError(f"--{extra.replace('_', '-')} is not for a report", fix="leave it out")
    return labeller is not None


def _queues_for_means(
    report: Report, kind: str | None, design: Design | None, budget: int | None, seed: int
) -> list[LabelQueue]:
    """Return the queues that correct the report's judged means, and print which means these are."""
    targets, others = choose_targets(report, kind, design)
    whole = [queue_of(report, target.kind, target.design, seed=seed) for target in targets]
    orders, queues = [queue.cases for queue in whole], []
    shares = shared_budget(targets, orders, budget)
    for target, queue, cases, share in zip(targets, whole, orders, shares, strict=True):
        if share:
            queues.append(replace(queue, budget=None if budget is None else share))
            if target.measures:
                print_lines(target.announcement(cases, len(queues[-1].drawn)))
    if others:
        print_lines(f"not corrected by these labels: {some_of(others, 4)}")
    return queues


def _check_export(export: Path | None, imported: Path | None, report: Report) -> None:
    """Raise InputError if the labels would overwrite the imported file or an input of the report."""
    if export is not None:
        options, folder = report.manifest.get("options") or {}, Path(report.manifest.get("cwd") or ".")
        names = (*(options.get("paths") or ()), options.get("labels"), options.get("corpus"))
        inputs = [imported, report.folder, *(folder / str(name) for name in names if name)]
        refuse_input(export, inputs, "--export")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no user of that number, as in a container
        raise InputError("whose labels these are is not known", fix="name the person: --who NAME") from None


def _label(sessions: Sequence[LabellingSession], report: Report, guideline: str) -> None:
    """Ask until everything is labelled, the person quits, or the input ends, and print the means so far."""
    corrections = corrections_of(report)
    with keyboard() as keys:
        for session in sessions:
            quits = False
            try:
                quits = _ask_all(session, keys, guideline, lambda: _show_so_far(report, corrections))
            except KeyboardInterrupt:
                print()
                again = shlex.join(["germane", *sys.argv[1:]])
                are = "is" if session.done == 1 else "are"
                stored = f"{counted(session.done, 'label')} of {session.who} {are} stored"
                raise Interrupted(f"{stored}; go on with: {again}") from None
            print(f"\n{session.done} of {session.total} labelled by {clean(session.who)}")
            _show_so_far(report, corrections)
            if quits:
                return


def _ask_all(
    session: LabellingSession, keys: Iterator[str], guideline: str, show_so_far: Callable[[], None]
) -> bool:
    """Ask about the tasks one by one; return True if the person quits or the input ends before the last."""
    begun = session.done
    how = f"{session.queue.queue} {session.queue.design}, seed {session.queue.seed}"
    print(f"{session.total} to label ({how}), {session.done} done; labels of {clean(session.who)}")
    while (task := session.next) is not None:
        if not _answered(session, keys, guideline, _pages(task, session)):
            return True
        if session.done > begun and session.done % _EVERY == 0:
            show_so_far()
        begun = max(begun, session.done)
    return False


def _answered(session: LabellingSession, keys: Iterator[str], guideline: str, pages: Sequence[str]) -> bool:
    """Show a task and take one key that changes something; return False where the person quits or the input ends."""
    binary, more, at = session.scale == "binary", ", space more" if len(pages) > 1 else "", 0
    print(pages[at])
    while True:
        prompt = f"{'y or n' if binary else '0-3'}{more}, u unsure, z undo, ? help, q quit: "
        print(prompt, end="", flush=True)
        key = next(keys, "q")
        print(key if key.isprintable() else "")
        if key == "q":
            return False
        if key == " " and more:
            at = (at + 1) % len(pages)
            print(pages[at])
        elif key in ("yn10" if binary else "0123"):
            session.answer(key in "y1" if binary else int(key))
            return True
        elif key == "u":
            session.unsure()
            return True
        elif key == "z":
            if session.undo():
                return True
            print("no answer to undo")
        else:
            print("\n".join(f"  {line}" for line in (*_GRADES[session.scale], *_KEYS)))
            print("".join(f"  | {clean(line)}\n" for line in guideline.splitlines()), end="")


def _pages(task: LabelTask, session: LabellingSession) -> list[str]:
    """Return a task as pages for the terminal, each below what it is judged against and above what is asked.

    The texts are harmless to a terminal. Nothing tells who retrieved them, where they stood or what a judge said.
    """
    relevance, terminal = task.kind == "relevance", sys.stdin.isatty() and sys.stdout.isatty()
    height = shutil.get_terminal_size((100, 24)).lines if terminal else sys.maxsize
    names = ["passage"] if relevance else [f"[{number}]" for number in range(1, len(task.passages) + 1)]
    rule = ["", f"─── {session.done + 1} of {session.total} ───"]
    before, beside = _paragraphs(task.history), _paragraphs(task.texts if relevance else ())
    against = _paragraphs([("query", task.query) if task.claim is None else ("claim", task.claim)])
    body = _paragraphs(zip(names, task.passages, strict=False))
    head = [*rule, *before, *against, *beside]
    room = height - _BELOW - len(head)
    if len(body) > room and room < height // 3:  # what is in the way is paged too
        body, head = [*before, *beside, *body], [*rule, *against[: height // 3]]
        room = height - _BELOW - len(head)
    room = min(max(room, 3), len(body))
    parts = [body[start : start + room] for start in range(0, len(body), room)]
    question = _QUESTIONS[session.scale if relevance else task.kind]
    asked = [f"{question}   (part {number} of {len(parts)})" for number in range(1, len(parts) + 1)]
    asked = asked if len(parts) > 1 else [question]
    return ["\n".join([*head, *part, below]) for part, below in zip(parts, asked, strict=True)]


_QUESTIONS = {
    "graded": "How relevant is the passage?",
    "binary": "Is the passage relevant to the query?",
    "support": "Do the passages support the claim?",
    "sufficiency": "Do the passages together hold all that is needed to answer?",
}
"""The question by the scale of relevance, else by the kind."""
_BELOW = 4
"""Lines below a text: what is asked, the keys, which may take two, and one to spare."""


def _paragraphs(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return the wrapped lines of named texts, each name before its first line; a wide character takes two columns."""
    width, result = min(shutil.get_terminal_size((100, 24)).columns, 110) - 10, list[str]()
    console = Console(width=width)
    for name, text in texts:
        whole = Text("\n".join(map(clean, text.splitlines())))
        lines = [line.plain for line in whole.wrap(console, width)] or [""]
        result += [f"{'' if number else name:9} {line}".rstrip() for number, line in enumerate(lines)]
    return result


def _show_so_far(report: Report, corrections: Corrections) -> None:
    """Print the corrected means from the labels so far, one sentence each, or why there are none."""
    now = corrections.with_labels(report.labels())
    judged = [summary for summary in report.summaries if summary.basis.source == "judge"]
    means = [(summary, *now.of(summary)) for summary in judged]
    lines = list(corrected_in_words(summary.replace(corrected=mean) for summary, mean, _ in means))
    whys = dict.fromkeys(why for _, mean, why in means if mean is None)
    for line in lines or (f"nothing is corrected: {why}" for why in whys):
        print_lines(f"so far   {line}")
