"""`germane audit`: check the judge against people's labels, and whether it still answers as before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from germane.cli.finishing import latest_reports
from germane.cli.output import print_document, refuse_input, say
from germane.errors import InputError
from germane.flags import flags_of
from germane.labelling.audit import (
    AgainLine,
    AuditDocument,
    JudgesAudit,
    audit_document,
    audit_judge,
    audit_judges,
    judges_document,
)
from germane.labelling.goldaudit import GoldAudit, audit_gold, gold_document
from germane.reports.report import Report
from germane.samples.files import write_whole
from germane.show.table import document_lines


def audit(
    folders: Sequence[Path],
    *,
    json: bool,
    output: Path | None,
    every: bool,
    gold: bool,
    again: int | None,
    **flags: Any,
) -> int:
    """Check the judge against people's labels: agreement, bias, warnings.

    With several reports on the same items, say which judge agrees best with people, and which judges are not distinguishable from it. With --gold,
    list the documents where judges and the first report's gold disagree most. Default report: the latest in germane-reports.

    With --again 200, ask the judge 200 stored questions again (a third time if the verdict flips) and say whether the judge has
    changed; no measure uses these answers. Exit code 1 if the judge has changed, 3 if that cannot be decided.
    """
    folders = folders or latest_reports("audit")
    suffix = output.suffix.lower() if output is not None else ""
    if suffix not in {"", ".md", ".txt"}:
        problem = f"-o {output}: an audit is written as Markdown or text"
        raise InputError(problem, fix="use the extension .md or .txt")
    if output is not None:
        refuse_input(output, folders)
    line: AgainLine | None = None
    if again is None:
        if others := [name for name, value in flags.items() if value not in (None, 0, [])]:
            flag = next(flag.long for flag in flags_of("audit") if flag.parameter == others[0])
            raise InputError(f"{flag} works only with --again", fix=f"add --again 200, or leave out {flag}")
    elif gold or len(folders) > 1:
        problem = "--again takes one report only, and cannot be combined with --gold"
        raise InputError(problem, fix="name one report, and leave out --gold")
    else:
        from germane.evaluation.again import ask_again
        from germane.evaluation.spec import Spec

        line = ask_again(folders[0], again, Spec.of(**flags))
    reports = list(map(Report.open, folders))
    audited: AuditDocument | JudgesAudit | GoldAudit
    if gold:
        audited = audit_gold(reports)
        document = gold_document(audited)
    elif len(reports) == 1:
        audited = audit_judge(reports[0], every=every, again=line)
        document = audit_document(audited)
    else:
        audited = audit_judges(reports, every=every)
        document = judges_document(audited)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_whole(output, document_lines(document, markdown=suffix != ".txt"))
        say(f"wrote {output}")
    if json:
        print_document(audited.as_json())
    elif output is None:
        print("".join(document_lines(document)), end="")
    return {True: 1, False: 0, None: 3}[line.changed] if line is not None else 0
