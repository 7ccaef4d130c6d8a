"""The class Report: build, open, save and explain the results of evaluations, and whose labels each mean uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING

from germane.clean import some_of
from germane.errors import InputError
from germane.folder.files import SESSION, write_manifest
from germane.folder.tables import StoredTables, Tables
from germane.folder.writer import FolderWriter
from germane.measures.measure import Measure
from germane.measures.ranked import belonging_to
from germane.places.table import Source
from germane.reports.data import CASE_SCORE, ReportData
from germane.reports.gates import REQUIRED, Gate, GateOutcome, GateResult, Verdict, check_gate, with_count
from germane.reports.summary import Basis, MeasureSummary, Sampled, in_digits, known_measure, summarise
from germane.tables.cases import CaseScores
from germane.tables.judgements import JUDGE_COUNTS, AskedCounts, JudgeLine, asked_json
from germane.types import FrozenDict, Json

__all__ = ["Report", "judge_in_all", "models_in", "panel_notes"]

if TYPE_CHECKING:
    from germane.measures.explaining import Explanation
    from germane.reports.correct import Corrections


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
        results = [result for gate in gates if gate.how != "change" for result in _checked(gate, report)]
        results += _required_gates(report)
        changes = [GateResult(**row) for row in made.get("changes", ())]
        for gate in gates:
            if gate.how == "change" and not any(row.gate.startswith(str(gate)) for row in changes):
                what = "there is no baseline to compare with: give --baseline REPORT"
                changes.append(GateResult(gate=str(gate), outcome="undecided", detail=what))
        report.decide([*changes, *results])
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
            made["sampled"] = {**sampled, "n": len(CaseScores(tables.scores).numbers)}
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
        verdict = Verdict(130, (f"interrupted: these are the results so far; {again}",))
        return cls.so_far(tables, tables.manifest, verdict, stopped=again)

    def save(self, path: str | Path, *, force: bool = False) -> Report:
        """Write the report to a file if `path` ends in a report format, otherwise to a report folder.

        Formats are .html, .json, .jsonl, .csv, .md, .txt, .xml, .svg and .png (charts), .parquet (the table
        of scores), and the formats of add-ons. Returns this report, or, after a folder was written, the
        report in that folder.

        Raises InputError if the folder contains the report of another evaluation and `force` is False, or if
        another process is writing to the folder.
        """
        from germane.reports.formats import known_format, write

        path = Path(path)
        if known_format(path) and not path.is_dir():
            write(self, path)
            return self
        target = FolderWriter(path).lock()
        try:
            mine = self.folder is not None and path.resolve() == self.folder.resolve()
            if not force and not mine:
                target.refuse_other("name a new folder, or give force=True (--force) to replace it")
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
            raise KeyError(f"{summary.measure} was not computed for {sample}")
        return Explainer(self).explain(score, self.samples_of([score.key]).get(score.key))[0]

    def to_json(self, *, scores: bool = True) -> dict[str, Json]:
        """Return the document that `--json` prints.

        `scores=False` leaves out the scores of single samples.
        """
        from germane.reports.formats import json_document

        return json_document(self, scores=scores)

    @property
    def misses_gold(self) -> bool:
        """True if any score is 0 and a measure uses gold labels.

        This is so, for example, if a sample retrieved no gold document.
        """
        names = {summary.measure for summary in self.summaries if summary.basis.source == "gold"}
        return bool(names) and bool((self.tables.scores.value == 0).any())

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
    graders, results = [of for graders in report.grader_sets for of in graders.values()], list[GateResult]()
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
            detail = f"{what} in {some_of(below or missing, 3)}"
        if name == CASE_SCORE:
            stand_in = bool(report.stand_ins)
            n, total = sum(case.score is not None for case in cases), len(cases)
        else:
            stand_in = name in report.stand_ins
            mine = [summary for summary in report.summaries if summary.measure == name]
            n, total = sum(summary.n for summary in mine), sum(summary.total for summary in mine)
        result = GateResult(gate=f"{REQUIRED}{name}", outcome=outcome, detail=detail, stand_in=stand_in)
        results.append(with_count(result, n, total))
    return results


def _checked(gate: Gate, report: ReportData) -> list[GateResult]:
    """Return a gate's results, one per system; a gate of one eval file is decided on that file's cases."""
    for file in report.files:
        if gate.location is not None and gate.location.file == file.name:
            if not file.summaries:
                why = f"no case of {file.name} was evaluated: the selection leaves all of them out"
                return [GateResult(gate=f"{gate} in {file.name}", outcome="undecided", detail=why)]
            keys = {report.tables.scores.samples[number] for number in file.keep.tolist()}
            samples = (sample for sample in report.samples() if sample.key in keys)
            results = check_gate(gate, file.summaries, report.case_scores, samples, file.keep)
            return [result.replace(gate=f"{result.gate} in {file.name}") for result in results]
    return check_gate(gate, report.summaries, report.case_scores, report.samples())


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
        "references": {name: dict(sorted(of.items())) for name, of in sorted(tables.references.items())},
        "asked": asked_json(asked),
    }
    return {**counts, "beside": beside} if beside else counts


def panel_notes(asked: AskedCounts) -> dict[str, int]:
    """Return {note on how far a panel of judges agreed: number of questions}; {} without a panel."""
    panel = sum(n for (_, field, _), n in asked.items() if field == "panel")
    if not panel:
        return {}
    voted = [(float(value), n) for (_, field, value), n in asked.items() if field == "agreement"]
    lost = sum(n for (_, field, _), n in asked.items() if field == "failed")
    mean = fsum(value * n for value, n in voted) / sum(n for _, n in voted) if voted else 0.0
    words = f"mean agreement {mean:.2f}" if voted else "no question was put to a vote"
    others = f"{lost} without the answer of a member" if lost else "every member answered"
    return {f"questions to the panel: {words}, {others}": panel}


def summaries_of(
    tables: Tables, manifest: Mapping[str, Json], *, corrected: bool = True
) -> tuple[list[MeasureSummary], Corrections | None]:
    """Return a summary per measure and system, and the `Corrections` of judged means; None without labels."""
    corrections, summaries = None, list[MeasureSummary]()
    for line in summarise(tables.scores, clusters=tables.clusters()):
        basis = basis_of(tables, manifest, line)
        mean, why = None, ""
        if basis.source == "judge":
            why = "nothing was measured" if line.mean is None else "no human labels"
            if len(tables.labels):
                from germane.reports import correct  # not at the top: `germane rank` asks no questions

                corrections = corrections or correct.Corrections(tables, manifest)
                mean, why = corrections.corrected_mean(line) if corrected else (None, why)
                basis = basis.replace(calibrated=basis.calibrated or mean is not None)
        sampled = Sampled(**drawn) if (drawn := manifest.get("sampled")) else None
        summaries.append(line.replace(basis=basis, corrected=mean, corrected_why=why, sampled=sampled))
    return summaries, corrections


def basis_of(tables: Tables, manifest: Mapping[str, Json], line: MeasureSummary) -> Basis:
    """Return the basis of a system's mean, that is, whose labels it is computed from."""
    canonical, measure, judge = line.type, known_measure(line.type), JudgeLine.stored(manifest.get("judge"))
    reads, asked = manifest.get("reads") or {}, manifest.get("asked") or {}
    source: Source = "judge"
    if measure is not None and measure.definition.family == "ranked":
        source = measure.labels
    elif measure is not None and not measure.definition.asks:
        source = "judge" if measure.definition.family == "graded" and reads.get(canonical) else "gold"
    if source == "judge" and measure is not None:  # the judges `labels` and `gold` repeat people's and gold's
        answered: dict[str, Source] = {"labels": "human", "gold": "gold"}
        source = answered.get(str(judge.identity.get("judge") or judge.source or ""), source)
    outdated = tables.labels_added() and Measure.remembered(canonical).labels in {"human", "best"}
    note = line.basis.interval_note
    if source in {"gold", "human"}:
        means = (manifest.get("beside") or {}).get(line.system) or {}
        own = {name for _, name in tables.scores.measures} if means else set()
        names = [str(measure) for measure in belonging_to([Measure.parse(canonical)])] if means else ()
        beside = {name: means[name] for name in names if name in means and name not in own}
        return Basis(source=source, beside=FrozenDict(beside), outdated=outdated, interval_note=note)
    kinds = reads.get(canonical) or (["relevance"] if source == "best" else list(asked))
    counts = [asked[kind] for kind in kinds if kind in asked]
    models, modes = (
        FrozenDict(sum((Counter(count.get(name, {})) for count in counts), Counter[str]()))
        for name in ("model", "mode")
    )
    references = {"with_reference", "without_reference"}
    of_measure = (manifest.get("references") or {}).get(canonical)
    with_counts = [of_measure] if of_measure else [count for count in counts if references & count.keys()]
    mixed = None
    if source == "best":  # the proportion of passages labelled by people among all labelled or judged ones
        labels = [label for label in tables.labels if label.kind == "relevance"]
        people = len({(label.sample, label.system, label.call, label.rank) for label in labels})
        labelled = {label.item for label in labels}
        judged = sum(row.kind == "relevance" and row.item not in labelled for row in tables.places)
        mixed = people / (people + judged) if people + judged else None
    answers = {(label.item, label.who): label.answer for label in tables.labels}
    return Basis(
        source=source,
        calibrated=False,
        models=models,
        modes=modes,
        fused=sum(count.get("fused", 0) for count in counts),
        **{name: sum(count.get(name, 0) for count in with_counts) for name in references if with_counts},
        mixed=mixed,
        labels=sum(answer is not None for answer in answers.values()),
        stand_in=bool(judge.stand_in) and set(kinds) != {"script"},
        outdated=outdated,
        interval_note=note,
    )


def judge_in_all(entries: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Join entries on the judge: counts and costs are summed (None if unknown), the rest is the first's."""
    counts = {name: sum(of[name] for of in entries) for name in JUDGE_COUNTS}
    tokens = {name: sum(of["tokens"][name] for of in entries) for name in ("input", "output")}
    costs = [of["cost_usd"] for of in entries]
    return {
        **entries[0],
        **counts,
        "tokens": tokens,
        "estimated": any(of["estimated"] for of in entries),
        "cost_usd": None if None in costs else sum(costs),
    }


def models_in(identity: Mapping[str, Json]) -> Iterator[str]:
    """Yield the models that a judge asks, or that a panel's members ask, given its identity."""
    if identity.get("model"):
        yield str(identity["model"])
    for member in identity.get("panel") or ():
        yield from models_in(member)
