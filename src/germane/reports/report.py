"""The class Report: build, open, find, save and explain the results of evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from itertools import chain
from math import fsum, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from germane.clean import some_of
from germane.encoding import Line
from germane.errors import InputError, SourceLocation, option
from germane.folder.files import SESSION, read_manifest, write_manifest
from germane.folder.tables import BlockRows, StoredTables, Tables
from germane.folder.writer import FolderWriter
from germane.measures.measure import Declared, Measure
from germane.reports.basis import panel_notes, summaries_of
from germane.reports.data import CASE_SCORE, ReportData
from germane.reports.gates import REQUIRED, Gate, GateOutcome, GateResult, Verdict, check_gate, with_count
from germane.reports.summary import in_digits, is_foreign, range_of
from germane.samples.files import read_text, shown_name
from germane.tables.cases import CaseScores
from germane.tables.judgements import JudgeLine, asked_json
from germane.tables.scores import ScoreRow, ScoreTable
from germane.types import Json, Sample, Status

__all__ = ["Report", "find_baseline"]

if TYPE_CHECKING:
    from germane.measures.explaining import Explanation
    from germane.results.reading import MeasuredRow


class Report(ReportData):
    """The result of an evaluation: means, scores, worst queries, tables, and the report folder.

    `report["nDCG@10"]` is a MeasureSummary (`mean`, `interval`, `n`, ...). If there are several systems, use
    `report["nDCG@10", "bm25"]`. Iterating over a report yields the names of its measures. `str(report)` is
    the text that the command line prints.
    """

    @classmethod
    def build(
        cls,
        tables: Tables,
        manifest: Mapping[str, Json],
        *,
        gates: Sequence[Gate] | None = None,
        corrected: bool = True,
        **declared: Json,
    ) -> Report:
        """Return the report of an evaluation's tables: summarise the scores and decide the gates.

        Manifest entries that are counted from rows (graders, notes, prompts, how the judge was asked) are
        taken from the tables. `gates` None means the gates in the manifest. With `corrected`, judged means
        are corrected with people's labels. `declared` are further manifest entries. `max_unmeasured` is the
        proportion of scores that may be missing. With `allow_stand_in`, verdicts of a stand-in for a model
        decide gates too. `over` names a limit that was exceeded, which makes the exit code 3.

        Raises InputError if a gate names a measure that was not computed.
        """
        made = {**_counted(tables), **manifest, **declared}
        if gates is None:
            gates = [Gate.of_stored(gate) for gate in made.get("gates", ())]
        made["gates"] = [gate.stored() if manifest.get("eval_files") else str(gate) for gate in gates]
        report = cls(tables, made, Verdict(0), *summaries_of(tables, made, corrected=corrected))
        results = list[GateResult]()
        changes = [GateResult(**row) for row in made.get("changes", ())]
        for gate in gates:
            declaring = gate.location.file if gate.location is not None else None
            file = next((file for file in report.files if file.name == declaring), None)
            if gate.how == "change":
                if not any(row.gate.startswith(str(gate)) for row in changes):
                    give = option("give --baseline REPORT", "use compare(...)")
                    what = f"there is no baseline to compare with: {give}"
                    changes.append(GateResult(gate=str(gate), outcome="undecided", detail=what))
            elif file is None:
                results += check_gate(gate, report.summaries, report.case_scores, report.samples())
            elif not file.summaries:
                why = f"no case of {file.name} was evaluated: the selection leaves all of them out"
                results.append(GateResult(gate=f"{gate} in {file.name}", outcome="undecided", detail=why))
            else:  # the gate of one eval file is decided on that file's cases
                keys = set(map(tables.scores.key, file.keep.tolist()))
                samples = (sample for sample in report.samples() if sample.key in keys)
                decided = check_gate(gate, file.summaries, report.case_scores, samples, file.keep)
                results += [result.replace(gate=f"{result.gate} in {file.name}") for result in decided]
        results += [*changes, *_required_gates(report)]
        report.decide([result.noting(report.left_out) for result in results])
        return report

    @classmethod
    def so_far(
        cls, tables: Tables, manifest: Mapping[str, Json], verdict: Verdict, *, stopped: str
    ) -> Report:
        """Return the report of a stopped evaluation over its finished samples.

        `verdict` is used as it is, because no gate is decided. `stopped` is the reason for the stop.
        """
        made = {**_counted(tables), **manifest}
        if sampled := made.get("sampled"):
            made["sampled"] = {**sampled, "n": len(CaseScores(tables.scores).cases)}
        return cls(tables, made, verdict, *summaries_of(tables, made), stopped=stopped)

    @classmethod
    def open(cls, folder: str | Path, *, corrected: bool = True) -> Report:
        """Return the report in a folder.

        With `corrected`, its judged means are corrected with people's labels. Raises InputError if the report
        is missing, unfinished or of another version, or if a file was changed after the report was written.
        """
        tables = StoredTables.open(folder)
        try:
            return cls.build(tables, tables.manifest, corrected=corrected)
        except (TypeError, ValueError) as error:  # values of wrong types in the manifest
            problem = f"the report {folder} is damaged: {error}"
            raise InputError(problem, fix="run the evaluation again") from error

    @classmethod
    def unfinished(cls, folder: str | Path) -> Report:
        """Return the report of an interrupted evaluation: the means so far and the command to resume it."""
        from germane.judging.spending import UsageLog  # few reports are unfinished

        tables = StoredTables.unfinished(folder)
        again = f"continue it: germane run --resume {folder}"
        if "options" not in tables.manifest:  # `germane run` did not write it
            again = f"continue it: repeat the call evaluate(..., folder={str(folder)!r})"
        if sessions := tables.manifest.get("sessions"):  # the file has the counts of one that was killed
            spent = UsageLog(Path(folder) / SESSION, sessions).earlier
            judge = {**(tables.manifest.get("judge") or {}), **spent.as_json()}
            tables.manifest = {**tables.manifest, "judge": judge}
        so_far = "these are the results so far" if len(tables.scores) else "no score was computed yet"
        return cls.so_far(tables, tables.manifest, Verdict(130, (f"{so_far}; {again}",)), stopped=again)

    def save(self, path: str | Path, *, force: bool = False) -> Report:
        """Write the report to a file if `path` ends in a report format, otherwise to a report folder.

        Formats are .html, .json, .jsonl, .csv, .md, .txt, .xml, .svg and .png (charts), .parquet (the table
        of scores), and the formats of add-ons. Returns this report, or, after a folder was written, the
        report in that folder.

        Raises InputError if the extension is another word (.pdf), if the folder contains another evaluation's
        report and `force` is False, or if another process is writing to the folder.
        """
        from germane.reports.formats import known_format, write

        path = Path(path)
        if (known_format(path) or path.suffix[1:].isalpha()) and not path.is_dir():
            write(self, path)
            return self
        target = FolderWriter(path).lock()
        try:
            is_own = self.folder is not None and path.resolve() == self.folder.resolve()
            if not force and not is_own:
                target.refuse_other("name a new folder, or give force=True to replace it")
            target.start().add(self.tables)
            saved = Report(target.tables, self.manifest, self.verdict, self.summaries)
            saved.given_name = self.given_name
            saved.finish(target)
        finally:
            target.close()
        return saved

    def finish(self, writer: FolderWriter) -> None:
        """Complete a report folder by writing the manifest with the verdict.

        The report cannot be opened before this.
        """
        self.manifest = writer.finish({**self.manifest, "verdict": self.verdict.as_json()})

    def store_verdict(self) -> None:
        """Write the current verdict into the manifest of the report's folder."""
        if self.folder is not None:
            made = {**self.manifest, "verdict": self.verdict.as_json()}
            self.manifest = write_manifest(self.folder, made, "complete")

    def explain(
        self, sample: str, measure: str | Measure, *, system: str = "", trial: int = 0
    ) -> Explanation:
        """Return the explanation of a sample's score by a measure: hits, misses and a line of reasoning.

        Raises KeyError if the report has no score of this sample by this measure.
        """
        from germane.reports.explain import Explainer

        summary = self[measure]
        scores = self.tables.scores.of_samples([(sample, system, trial)])
        score = next((score for score in scores if score.measure == summary.measure), None)
        if score is None:
            names = (
                f"; give system= one of {', '.join(self.systems)}" if any(self.systems) and not system else ""
            )
            raise KeyError(f"{summary.measure} was not computed for {sample}{names}")
        return Explainer(self).explain(score, self.samples_of([score.key]).get(score.key))[0]

    def to_json(self, *, scores: bool = True) -> dict[str, Json]:
        """Return the document that `--json` prints.

        `scores=False` leaves out the scores of single samples.
        """
        from germane.reports.formats import json_document

        return json_document(self, scores=scores)

    def __str__(self) -> str:
        from germane.reports.text.overview import render_plain

        return render_plain(self, every=False)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        means = ", ".join(f"{line.measure}={in_digits(line.mean)}" for line in self.summaries[:4])
        return f"<Report {self.name}{': ' * bool(self.name)}{means}>"


def _required_gates(report: Report) -> list[GateResult]:
    """Return one result per required grader: failed if a case is below the grader's threshold."""
    results = list[GateResult]()
    graders = list(chain.from_iterable(graders.values() for graders in report.grader_sets))
    required = [*dict.fromkeys(grader.name for grader in graders if grader.required is not None)]
    required += [CASE_SCORE] * any(grader.threshold is not None for grader in graders)
    cases = list(report.cases()) if required else []
    for name in required:
        below = [case.sample for case in cases if name in case.failed_required]
        missing = [case.sample for case in cases if name in case.undecided_required]
        outcome: GateOutcome = "failed" if below else "undecided" if missing else "passed"
        detail = "reached in every case"
        if below or missing:
            what = "below its threshold" if below else "not measured"
            detail = f"{what} in {some_of(list(dict.fromkeys(below or missing)), 3)}"
        if name == CASE_SCORE:
            stand_in = bool(report.stand_ins)
            n, total = sum(case.score is not None for case in cases), len(cases)
        else:
            stand_in = name in report.stand_ins
            of_grader = [summary for summary in report.summaries if summary.measure == name]
            n, total = sum(summary.n for summary in of_grader), sum(summary.total for summary in of_grader)
        result = GateResult(gate=f"{REQUIRED}{name}", outcome=outcome, detail=detail, stand_in=stand_in)
        results.append(with_count(result, n, total))
    return results


def _counted(tables: Tables) -> dict[str, Json]:
    """Return the manifest entries that are counted from the tables: graders, notes, prompts, questions."""
    if tables.is_complete:
        return {}  # its manifest contains these entries already
    beside: dict[str, dict[str, float]] = {}  # by system: means shown next to means of gold labels
    for (system, name), values in sorted(tables.beside.items()):
        beside.setdefault(system, {})[name] = fsum(values) / len(values)
    asked = tables.asked
    counts: dict[str, Json] = {
        "graders": list(tables.graders),
        "notes": dict(sorted({**tables.notes, **panel_notes(asked)}.items())),
        "prompts": dict(sorted(tables.prompts.items())),
        "reads": {measure: sorted(kinds) for measure, kinds in sorted(tables.reads.items())},
        "references": {
            name: dict(sorted(counts_of.items())) for name, counts_of in sorted(tables.references.items())
        },
        "asked": asked_json(asked),
    }
    definitions = {name: Measure.remembered(name).definition for _, name in tables.scores.measures}
    own = [  # a command that opens the report does not load the measures of other people's files
        Declared(one.range, one.better == "higher").type_of(name)
        for name, one in definitions.items()
        if is_foreign(name) and (one.range, one.better) != ((0.0, 1.0), "higher")
    ]
    return counts | ({"beside": beside} if beside else {}) | ({"declared": own} if own else {})


def reports_in(folder: Path) -> list[Path]:
    """Return the report folders in a folder, the latest first, by their manifests' dates, then file times."""
    found = []
    for file in folder.glob("*/manifest.json"):
        created = ""
        with suppress(InputError):
            created = str(read_manifest(file.parent).get("created", ""))
        found.append((created, file.stat().st_mtime_ns, file.parent))
    return [report for *_, report in sorted(found, reverse=True)]


def complete_in(folder: Path) -> Iterator[Path]:
    """Yield the complete report folders in a folder, the latest first."""
    for report in reports_in(folder):
        with suppress(InputError):
            if read_manifest(report).get("status") == "complete":
                yield report


def find_report(path: str | Path, *, corrected: bool = True) -> ReportData:
    """Return the report at a path.

    The path is a report folder, a `--json` document, a result file of another program, or a folder of
    reports, of which the latest complete report is opened. Raises InputError if there is no report.
    """
    path = Path(path)
    if path.is_file():
        return open_together([path], {}, {})[0][0]
    if not path.is_dir():
        fix = "name a report folder, a --json document, a result file or a folder of reports"
        raise InputError(f"there is no report at {path}", fix=fix)
    if (path / "manifest.json").exists():
        return Report.open(path, corrected=corrected)
    latest = next(complete_in(path), None)
    if latest is None:
        raise InputError(f"{path} contains no finished report", fix="name a folder that `germane run` wrote")
    return Report.open(latest, corrected=corrected)


def find_baseline(path: str | Path | None) -> ReportData:
    """Return the report given with --baseline. Raises InputError if there is none."""
    if path is None:
        raise InputError("--fail-on-regression needs a baseline", fix="give --baseline REPORT")
    return find_report(path)


ANOTHER_PROGRAM = "another program"  # the source of the judge if another program wrote the scores


class ScoredDocument(Line):
    """The fields of a `--json` document that are read for comparisons and baselines."""

    schema_version: int = 1
    scores: list[ScoreRow] | UnsetType = UNSET
    judge: dict[str, Any] | None = None
    declared: tuple[str, ...] = ()
    clusters: dict[str, str] = msgspec.field(default_factory=dict)


def read_document(path: Path) -> ReportData:
    """Return the scores and judge of a `--json` document as a report. Raises InputError if it is damaged."""
    location = SourceLocation(str(path))
    fix = "name the folder that `germane run` wrote, or a document of germane run --json or germane rank --json -q"
    try:
        document = msgspec.json.decode(read_text(path), type=ScoredDocument)
        JudgeLine.stored(document.judge)
    except msgspec.DecodeError as error:
        problem = f"this is neither a --json document nor a known result file of another program: {error}"
        raise InputError(problem, fix=fix, place=location) from None
    if document.schema_version > 1:
        problem = f"this document is of version {document.schema_version}; this germane reads version 1"
        raise InputError(problem, fix="update germane", place=location)
    if document.scores is UNSET:
        raise InputError("this --json document has no scores", fix=fix, place=location)
    table, seen, ranges = ScoreTable(), set[tuple[object, ...]](), dict[str, tuple[float, float]]()
    for row in document.scores:
        if row.type not in ranges:
            low, high = (-inf, inf) if is_foreign(row.type) else range_of(row.type)
            ranges[row.type] = max(low, -1e100), min(high, 1e100)  # so that squares of values are finite
        low, high = ranges[row.type]
        for value in (row.value, *(row.bounds or ())):
            if value is not None and not low - _SLACK <= value <= high + _SLACK:
                problem = f"a score of {row.measure} is {value:g}, which is not between {low:g} and {high:g}"
                again = "write the document again: germane run --json, or germane score REPORT"
                raise InputError(problem, fix=again, place=location)
        try:
            table.add(row)
        except OverflowError as error:
            problem = f"this --json document has an invalid score: {error}"
            raise InputError(problem, fix=fix, place=location) from None
        if (name := (row.measure, row.sample, row.system, row.trial)) in seen:
            problem = f"this --json document has two scores of {row.measure} for the sample {row.sample!r}"
            raise InputError(problem, fix="remove one of the two scores", place=location)
        seen.add(name)
    tables = BlockRows(scores=table, cluster_of=document.clusters)
    manifest: dict[str, Json] = {"judge": document.judge or {}, "declared": document.declared}
    return ReportData(tables, manifest, Verdict(0), *summaries_of(tables, manifest))


_SLACK = 1e-9  # how far a value may be outside its measure's range


def open_together(
    values: Iterable[Any], ranges: Mapping[str, tuple[float, float]], directions: Mapping[str, bool]
) -> tuple[list[ReportData], list[str]]:
    """Return reports or paths as reports with uncorrected means, and notes on guesses about files.

    `ranges` and `directions` (True if higher is better) describe measures in files of other programs.
    """
    from germane.results.naming import types_of  # not at the top: `germane rank` reads no such files
    from germane.results.reading import read_results

    opened: list[ReportData | tuple[str, list[MeasuredRow]]] = []
    means: list[str] = []
    for value in values:
        if isinstance(value, ReportData):
            opened.append(value)
        elif not (isinstance(value, str) or hasattr(value, "__fspath__")):
            fix = "give a report, its path, or a file: json.dump({query: {measure: value}}, file)"
            raise InputError(f"compare() cannot read scores from a {type(value).__name__}", fix=fix)
        elif (is_file := Path(value).is_file()) and (rows := read_results(value, means.append)) is not None:
            opened.append((shown_name(value), rows))
        else:  # the differences are corrected, not these means
            report = read_document(Path(value)) if is_file else find_report(value, corrected=False)
            report.where = str(value)
            opened.append(report)
    reports = [entry for entry in opened if isinstance(entry, ReportData)]
    files = [entry for entry in opened if not isinstance(entry, ReportData)]
    types, notes = types_of(
        ((row.measure, row.value, row.higher) for _, rows in files for row in rows),
        {line.measure: line.type for report in reports for line in report.summaries},
        ranges,
        directions,
    )
    return [
        entry if isinstance(entry, ReportData) else _report_of_results(*entry, types) for entry in opened
    ], [*means, *notes]


def _report_of_results(path: str, rows: Sequence[MeasuredRow], types: Mapping[str, str]) -> ReportData:
    """Return the rows of another program's result file as a report; `types` has each canonical name."""
    tables, cluster_of = BlockRows(), dict[str, str]()
    for row in rows:
        status: Status = "error" if row.value is None else "ok"
        names = row.sample, row.system, row.trial, row.measure, types[row.measure]
        tables.scores.add(ScoreRow(*names, row.value, status, row.why or None, None))
        if row.cluster:
            cluster_of[row.sample] = row.cluster
    tables.cluster_of = cluster_of
    texts = {(row.sample, row.system, row.trial): row.query for row in rows if row.query}
    tables.samples = [Sample(id=i, system=s, trial=n, query=text) for (i, s, n), text in texts.items()]
    manifest: dict[str, Json] = {"judge": {"source": ANOTHER_PROGRAM}, "results": True}
    report = ReportData(tables, manifest, Verdict(0), *summaries_of(tables, manifest))
    report.where = path
    return report
