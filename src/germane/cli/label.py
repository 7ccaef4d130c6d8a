"""`germane label`: collect people's labels in the terminal, or import and export them as files."""

from __future__ import annotations

import getpass
import hashlib
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from germane.addons import labeller_of
from germane.clean import clean, counted, some_of
from germane.cli.finishing import latest_reports
from germane.cli.keyboard import keyboard
from germane.cli.output import print_lines, refuse_input, say
from germane.errors import InputError, Interrupted
from germane.labelling.files import export_labels, import_labels
from germane.labelling.queue import LabellingSession, LabelQueue, LabelTask, QueueName, queue_of
from germane.reports.correct import corrections_of
from germane.reports.label_draws import choose_targets, shared_budget
from germane.reports.report import Report
from germane.reports.summary import corrected_in_words
from germane.samples.files import read_text
from germane.statistics.correction import Design
from germane.tables.labels import Label

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
    try:
        person = who or getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user's number has no name, as in a container
        raise InputError("the name of the labeller is unknown", fix="give --who NAME") from None
    if folder is not None and (labeller := labeller_of(folder)) is not None:
        labeller(folder, who=person, budget=budget, seed=seed, json=json, **of_addons)
        return
    if extra := next((name for name, value in of_addons.items() if value), None):
        raise InputError(f"--{extra.replace('_', '-')} cannot be used with a report", fix="leave it out")
    folder = folder or latest_reports("label")[0]
    report = Report.open(folder)
    text = read_text(guideline) if guideline else ""
    fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16] if guideline else None
    if give is not None:
        refuse_input(give, [take, report.folder, *report.inputs], "--export")
    if take is not None:
        labels, notes = import_labels(take, report, who, fingerprint, person)
        report.tables.append_labels(labels)
        say("; ".join([f"{counted(len(labels), 'label')} added to {folder}", *notes]))
    if give is not None:
        written, left_out = export_labels(give, Report.open(folder))
        say(f"wrote {counted(written, 'label')} to {give}")
        if left_out:
            why = "qrels hold only grades of passages whose ids have no blanks; .csv and .jsonl hold all"
            say(f"warning: {counted(left_out, 'label is', 'labels are')} left out: {why}")
    if take is not None or give is not None:
        return
    if queue == "random" and (kind is None or design is None):
        queues = _queues_for_means(report, kind, design, budget, seed)
    else:
        kind, design = kind or "relevance", design or "passages"
        queues = [queue_of(report, kind, design, queue=queue, budget=budget, seed=seed)]
    settings, stored = report.manifest.get("settings") or {}, list(report.labels())

    def store(label: Label) -> None:
        report.tables.append_labels([label])

    sessions = list[LabellingSession]()
    for drawn in queues:  # claims and sufficiency are yes or no
        own = str(settings.get("scale", "graded")) if drawn.kind == "relevance" else "binary"
        session = LabellingSession(drawn, person, store, stored, scale=scale or own, guideline=fingerprint)
        sessions.append(session)
    _label(sessions, report, text)


def _queues_for_means(
    report: Report, kind: str | None, design: Design | None, budget: int | None, seed: int
) -> list[LabelQueue]:
    """Return queues of tasks whose labels correct the report's judged means, and print these means."""
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
        print_lines(f"measures not corrected by these labels: {some_of(others, 4)}")
    return queues


def _label(sessions: Sequence[LabellingSession], report: Report, guideline: str) -> None:
    """Ask a person to label the tasks of all sessions, and print the corrected means after each session."""
    corrections = corrections_of(report)
    with keyboard() as keys:
        for session in sessions:
            try:
                quits = _ask_all(session, keys, guideline)
            except KeyboardInterrupt:
                print()
                again = shlex.join(["germane", *sys.argv[1:]])
                raise Interrupted(f"answers stored: {session.done}; continue with: {again}") from None
            print(f"\n{session.done} of {session.total} labelled by {clean(session.who)}")
            now = corrections.with_labels(report.labels())
            judged = [summary for summary in report.summaries if summary.basis.source == "judge"]
            means = [(summary, *now.corrected_mean(summary)) for summary in judged]
            lines = list(corrected_in_words(summary.replace(corrected=mean) for summary, mean, _ in means))
            whys = dict.fromkeys(why for _, mean, why in means if mean is None)
            for line in lines or (f"nothing is corrected: {why}" for why in whys):
                print_lines(f"so far   {line}")
            if quits:
                return


def _ask_all(session: LabellingSession, keys: Iterator[str], guideline: str) -> bool:
    """Ask a person to label the tasks of a session; return True if the person quits or the input ends."""
    how = f"{session.queue.queue} {session.queue.design}, seed {session.queue.seed}"
    print(f"{session.total} to label ({how}), {session.done} done; labels of {clean(session.who)}")
    while (task := session.next) is not None:
        print(_task_text(task, session))
        if not _answered(session, keys, guideline):
            return True
    return False


def _answered(session: LabellingSession, keys: Iterator[str], guideline: str) -> bool:
    """Read keys until a label is given or undone, and return True."""
    binary = session.scale == "binary"
    while True:
        print(f"{'y or n' if binary else '0-3'}, u unsure, z undo, ? help, q quit: ", end="", flush=True)
        key = next(keys, "q")
        print(key if key.isprintable() else "")
        if key == "q":
            return False
        if key in ("yn10u" if binary else "0123u"):
            session.answer(None if key == "u" else key in "y1" if binary else int(key))
            return True
        if key == "z":
            if session.undo():
                return True
            print("no answer to undo")
        else:
            print("\n".join(f"  {line}" for line in (*_GRADES[session.scale], *_KEYS)))
            print("".join(f"  | {clean(line)}\n" for line in guideline.splitlines()), end="")


def _task_text(task: LabelTask, session: LabellingSession) -> str:
    """Return the text that shows a task in the terminal: the query or claim, the passages, and the question.

    Control characters are removed. System, rank and the judge's verdict are not shown.
    """
    relevance = task.kind == "relevance"
    names = ["passage"] if relevance else [f"[{number}]" for number in range(1, len(task.passages) + 1)]
    against = ("query", task.query) if task.claim is None else ("claim", task.claim)
    beside = task.texts if relevance else ()
    texts = [*task.history, against, *beside, *zip(names, task.passages, strict=False)]
    shown = ["", f"─── {session.done + 1} of {session.total} ───"]
    width = min(shutil.get_terminal_size((100, 24)).columns, 110) - 10
    console = Console(width=width)
    for name, text in texts:
        whole = Text("\n".join(map(clean, text.splitlines())))
        lines = [line.plain for line in whole.wrap(console, width)] or [""]
        shown += [f"{'' if number else name:9} {line}".rstrip() for number, line in enumerate(lines)]
    return "\n".join([*shown, _QUESTIONS[session.scale if relevance else task.kind]])


_QUESTIONS = {
    "graded": "How relevant is the passage?",
    "binary": "Is the passage relevant to the query?",
    "support": "Do the passages support the claim?",
    "sufficiency": "Do the passages together contain all that is needed to answer?",
}
"""The question that is shown, by the scale of relevance or the kind of label."""
