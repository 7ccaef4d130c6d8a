"""The report: an evaluation's rows, what they add up to, and everything that is derived when someone looks."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from germane.errors import InputError
from germane.measures.explaining import Explanation
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import CODE_JUDGE, Grader
from germane.reports.cases import CaseKey, CaseResult, cases_of, required_gates
from germane.reports.gates import Gate, Verdict, check_gate, decide
from germane.reports.manifest import load_grader, write_manifest
from germane.reports.schema import Document
from germane.reports.store import FolderStore, Store
from germane.reports.summary import MeasureSummary, summarise
from germane.types import Json, Judgement, Sample, Score

__all__ = ["Report"]

SCHEMA_VERSION = 1


class Report:
    """One evaluation: read its numbers, its worst queries, save it, score it again.

    `report["nDCG@10"]` is a MeasureSummary (`mean`, `n`, `mean_bounds`, ...); with several systems,
    `report["nDCG@10", "bm25"]`. `str(report)` is the table that the command line prints.
    """

    def __init__(
        self,
        store: Store,
        manifest: Mapping[str, Json],
        verdict: Verdict,
        summaries: Sequence[MeasureSummary],
    ) -> None:
        self.store, self.manifest, self.verdict, self.summaries = store, manifest, verdict, tuple(summaries)
        self.folder = store.folder if isinstance(store, FolderStore) else None
        self.stopped = ""
        """Why the evaluation did not come to its end, where it did not."""

    @classmethod
    def build(
        cls,
        store: Store,
        manifest: Mapping[str, Json],
        *,
        gates: Sequence[Gate] = (),
        max_unmeasured: float = 0.05,
        interrupted: bool = False,
        over: str = "",
    ) -> Report:
        """A report from an evaluation's rows; decides its gates. `over` says which limit was exceeded, if one was."""
        declared = {"gates": [str(gate) for gate in gates], "max_unmeasured": max_unmeasured, "over": over}
        report = cls(store, {**manifest, **declared}, Verdict(0, ()), _summaries(store))
        results = [result for gate in gates for result in check_gate(gate, report.summaries)]
        if required := report._required():
            results += required_gates(report.cases(), required)
        report.verdict = decide(
            results, report.summaries, max_unmeasured=max_unmeasured, interrupted=interrupted
        )
        if over:
            found = report.verdict
            report.verdict = replace(found, exit_code=found.exit_code or 3, reasons=(over, *found.reasons))
        return report

    @classmethod
    def so_far(
        cls, store: Store, manifest: Mapping[str, Json], verdict: Verdict, *, folder: Path, stopped: str
    ) -> Report:
        """What is known of an evaluation that was stopped: its finished blocks, what was spent, how it goes on."""
        report = cls(store, manifest, verdict, _summaries(store))
        report.folder, report.stopped = folder, stopped
        return report

    @classmethod
    def open(cls, folder: str | Path) -> Report:
        """Read a report folder back; InputError where it is none, or was never finished."""
        path = Path(folder)
        manifest_file = path / "manifest.json"
        if not manifest_file.is_file():
            raise InputError(
                f"{path} is no report folder: it has no manifest.json",
                fix="name a folder that `germane run` wrote",
            )
        try:
            manifest = json.loads(manifest_file.read_text("utf-8"))
        except ValueError as error:
            raise InputError(f"{manifest_file} is damaged: {error}", fix="run the evaluation again") from None
        if manifest.get("schema_version") != SCHEMA_VERSION:
            found = manifest.get("schema_version")
            raise InputError(
                f"{path} has schema version {found}; this germane reads {SCHEMA_VERSION}",
                fix="update germane",
            )
        if manifest.get("status", "complete") != "complete":
            raise InputError(f"{path} was not finished", fix=f"continue it: germane run --resume {path}")
        gates = [Gate.parse(gate) for gate in manifest.get("gates", ())]
        return cls.build(
            FolderStore(path),
            manifest,
            gates=gates,
            max_unmeasured=manifest.get("max_unmeasured", 0.05),
            over=manifest.get("over", ""),
        )

    def save(self, folder: str | Path) -> Report:
        """Write the report folder; returns the report that stands on it."""
        path = Path(folder)
        store = FolderStore(path).start()
        try:
            store.add(self.store.samples(), self.store.judgements(), self.store.scores())
        finally:
            store.close()
        saved = Report(store, self.manifest, self.verdict, self.summaries)
        saved.write_manifest("complete")
        return saved

    def write_manifest(self, status: str) -> None:
        """Write manifest.json in one step: it appears whole or not at all."""
        assert isinstance(self.store, FolderStore)
        if status == "complete":
            self.store.finish()
        write_manifest(self.store.folder, {**self.manifest, "verdict": self.verdict.as_json()}, status)

    # what the rows add up to

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """The systems measured, in order of appearance; ("",) where none is named."""
        return tuple(dict.fromkeys(summary.system for summary in self.summaries)) or ("",)

    def __getitem__(self, name: str | Measure | tuple[str | Measure, str]) -> MeasureSummary:
        measure, system = name if isinstance(name, tuple) else (name, None)
        wanted = str(measure)
        for summary in self.summaries:
            if wanted in {summary.measure, summary.type} and system in {None, summary.system}:
                return summary
        if isinstance(measure, str) and (canonical := str(Measure.parse(measure))) != wanted:
            return self[canonical] if system is None else self[canonical, system]
        have = ", ".join(dict.fromkeys(summary.measure for summary in self.summaries)) or "none"
        raise KeyError(f"{wanted} was not measured; measured: {have}")

    def samples(self) -> Iterator[Sample]:
        """The samples, in input order."""
        return self.store.samples()

    def judgements(self) -> Iterator[Judgement]:
        """The judgements, each with its provenance."""
        return self.store.judgements()

    def scores(self) -> Iterator[Score]:
        """The scores, in input order, then measure order."""
        return self.store.scores()

    def cases(self) -> Iterator[CaseResult]:
        """One result a sample: weighted score, verdict, failed requirements."""
        return cases_of(self.scores(), self.graders_of)

    def graders_of(self, key: CaseKey) -> Mapping[str, Grader]:
        """A case's graders by their reported name."""
        number = self.manifest.get("sets", {}).get("\t".join([key[0], key[1], str(key[2])]), 0)
        return self._sets[number] if self._sets else {}

    @cached_property
    def _sets(self) -> list[dict[str, Grader]]:
        return [{row["name"]: load_grader(row) for row in rows} for rows in self.manifest.get("graders", ())]

    def _required(self) -> list[str]:
        named = (
            name for graders in self._sets for name, grader in graders.items() if grader.required is not None
        )
        return list(dict.fromkeys(named))

    def worst(self, measure: str | Measure, n: int = 10, system: str | None = None) -> list[Score]:
        """The `n` worst scores of a measure, worst first (the highest where lower is better); ties in input order."""
        summary = self[measure] if system is None else self[measure, system]
        good = Measure.remembered(summary.type).definition.good
        mine = (
            (good(score.value), place, score)
            for place, score in enumerate(self.scores())
            if score.measure == summary.measure and score.value is not None and system in {None, score.system}
        )
        return [score for _, _, score in heapq.nsmallest(n, mine, key=lambda row: row[:2])]

    def explain(
        self, sample: str, measure: str | Measure, *, system: str = "", trial: int = 0
    ) -> Explanation:
        """Why a sample's score is what it is: hits, misses, the working, one line of reasoning.

        Raises KeyError where the report has no such sample or measure.
        """
        from germane.reports.looking import explain, explain_script, recorded

        key, summary = (sample, system, trial), self[measure]
        scores = (
            s for s in self.scores() if (s.sample, s.system, s.trial) == key and s.measure == summary.measure
        )
        score = next(scores, None)
        found = next((s for s in self.samples() if (s.id, s.system, s.trial) == key), None)
        if score is None or found is None:
            raise KeyError(f"{summary.measure} was not measured for {sample}")
        outcome = Outcome(score.value, score.status, score.why, score.bounds)
        asked = Measure.parse(score.type)
        if asked == CODE_JUDGE:
            return explain_script(self, score, outcome)
        return explain(self, found, asked, outcome, recorded(self))

    # how it looks

    def to_json(self, *, scores: bool = True) -> Document:
        """The document of `--json`."""
        from germane.reports.formats import json_document

        return json_document(self, scores=scores)

    def __str__(self) -> str:
        from germane.reports.text import render_plain

        return render_plain(self)

    def __repr__(self) -> str:
        means = ", ".join(
            f"{s.measure}={'-' if s.mean is None else format(s.mean, '.4f')}" for s in self.summaries
        )
        return f"<Report {means}>"


def _summaries(store: Store) -> list[MeasureSummary]:
    return summarise(store.scores(), _Spans())


class _Spans(dict[str, tuple[float, float]]):
    """The range of every measure, by its canonical name."""

    def get(self, name: str, default: Any = (0.0, 1.0)) -> tuple[float, float]:
        try:
            return Measure.parse(name).definition.range
        except InputError:
            return default  # type: ignore[no-any-return]
