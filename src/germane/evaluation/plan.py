"""The plan of a run: its cases, their graders, the judge and the gates.

Everything that can be wrong with the input is found here, before anything is asked or paid for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from germane.addons import all_of, load, required
from germane.clean import mask_urls, some_of
from germane.errors import InputError, SourceLocation
from germane.evaluation.cases import Cases, named_files, no_case
from germane.evaluation.choice import LOOKED_AT, default_measures, judge_words, pick_judge
from germane.evaluation.spec import IN_FILES, Spec
from germane.judges.judge import Judge
from germane.judging.spending import check_price
from germane.measures.declaration import needs_judge, parse_measures
from germane.measures.eligibility import applicable
from germane.measures.scoring import Job
from germane.places.lists import Settings
from germane.reports.gates import Gate
from germane.reports.summary import sample_slices
from germane.samples.contexts import compile_rule
from germane.samples.files import Notice, Notices, local
from germane.targets.answers import PlannedCase, prepared, with_sample
from germane.types import FrozenDict, Json, Sample

__all__ = ["Plan"]

if TYPE_CHECKING:
    from germane.evalfiles.evalfile import EvalFile
    from germane.labelling.files import LabelFile

_CHECKED_BYTES = 100_000_000
"""Data of at most this size, in bytes, are read completely before the first paid call.

So a bad last line costs nothing.
"""


@dataclass(slots=True, kw_only=True)
class Plan:
    """Everything that a run will do.

    Attributes:
        spec: The options, including those of the eval files.
        defaults: A note on the measures if they follow from the data; "" if they were named.
        sources: The add-ons that get answers of judges (as batches do) and whose options are given; for a
            resumed run, all such add-ons.
        document_ids: The function for `--doc-id`, which maps chunk ids to document ids.
    """

    spec: Spec
    cases: Cases
    settings: Settings
    gates: tuple[Gate, ...]
    judge: Judge | None
    defaults: str
    sources: Sequence[Any]
    labels: LabelFile | None
    document_ids: Callable[[Sample], Sample]

    @classmethod
    def of(cls, spec: Spec, warn: Callable[[str], None], *, dry: bool = False) -> Plan:
        """Return the checked plan for these options, including those of a resumed report."""
        spec = spec.in_project()
        if not spec.paths:
            raise InputError("no path to evaluate is given", fix="name an eval file, a data file or a folder")
        part = spec.get("part")
        if spec.until and (part or spec.get("engine")):
            fix = "leave out --part and --engine, or write --sample 1000 instead of --until"
            raise InputError(
                "--until cannot be combined with --part or --engine, which divide the cases", fix=fix
            )
        notices = Notices(lambda notice: warn(str(notice)))
        paths, files = named_files(spec.paths, notices)
        spec = spec.in_files(_options_of(spec, files.values())) if files else spec
        named, source = spec.first("measures", "given", "report")
        measures = parse_measures(named or (), Path() if source == "report" else None)
        usual = () if named else parse_measures(spec.config.get("measures", ()), Path())
        cases = Cases(paths, files, spec, notices, measures=measures, usual=usual, dry=dry)
        sources = [
            load(source.make)(spec)
            for source in all_of("sources").values()
            if spec.resume or any(getattr(spec, name) for name in source.options)
        ]
        if part:
            cases.share = required("parts", "part", "--part", "run the whole evaluation").parse(part)
        if (trials := spec.given.get("trials", 1)) > 1 and not cases.asks_targets:
            problem = f"--trials {trials} needs a target to query; stored answers have one trial"
            raise InputError(problem, fix="name a target with --target, or leave out --trials")
        if spec.untrusted:
            _refuse_outputs(spec)
        document_ids = compile_rule(spec.doc_id)
        defaults = "" if measures or usual else _choose_measures(cases)
        judges = judge_words(spec)[0] if spec.repeat == 1 else ""
        settings = Settings.of(spec.against, spec.scale, spec.rubric).with_judge(judges)
        cases.settings = settings
        gates = _checked_gates(cases)
        if (judge := _judge_of(cases)) is None:
            spec = replace(spec, environment=FrozenDict())  # the environment's judge has no part in this
        check_price(judge, spec.max_cost)
        labels = None
        if spec.labels:
            from germane.labelling.files import LabelFile

            labels = LabelFile(local(spec.labels))
            settings = replace(settings, labels=labels.book)
        if spec.sample is not None:
            from germane.evaluation.sampling import draw_rows  # few runs need it

            cases.drawn = draw_rows(cases.matching, spec.sample, spec.seed)
        plan = cls(
            spec=spec,
            cases=cases,
            settings=settings,
            gates=gates,
            judge=judge,
            defaults=defaults,
            sources=sources,
            labels=labels,
            document_ids=document_ids,
        )
        if labels is not None and not cases.asks_targets:
            labels.fill(prepared(one, document_ids, Counter()).sample for one in cases.chosen(every=True))
        return plan

    def job(self, planned: PlannedCase, notes: Counter[str] | None = None) -> Job:
        """Return an answered case as a job, to be judged and scored; notes on its sample go to `notes`."""
        job = prepared(planned, self.document_ids, Counter() if notes is None else notes)
        if self.labels is not None:
            sample, labels = self.labels.on(job.sample)
            job = with_sample(job, sample)
            job.labels = labels
        return job

    def check(self, jobs: Iterable[Job] | None) -> None:
        """Read all jobs (None: from the files), so that errors are raised before anything is paid for."""
        deque(self.checked_jobs(jobs), 0)

    def checked_jobs(self, jobs: Iterable[Job] | None) -> Iterator[Job]:
        """Yield the jobs; at the end, raise InputError for a measure that cannot be computed for any sample.

        If `jobs` is None, the jobs are read from the files, and a bad line raises InputError. If the files
        are too large to be read twice, no job is yielded.
        """
        share = self.cases.share
        if jobs is None:
            size = sum(file.stat().st_size for file in self.cases.inputs)
            jobs = map(self.job, self.cases.chosen(every=True)) if size <= _CHECKED_BYTES else ()
        elif share is not None:
            return  # a measure that is impossible for this part may be possible for other parts
        for job in feasible(jobs, self.settings, self.gates):
            if share is None or share.has(job.sample.query):
                yield job


def _choose_measures(cases: Cases) -> str:
    """Give the data files their default measures, and return a note on them. Raises InputError without any."""
    paths, spec = tuple(path for path in cases.paths if path not in cases.files), cases.spec
    if not paths:
        return ""
    named, _ = spec.first("judge", "given", "report", "files", "config")
    nothing = parse_measures(["RR"])  # any measure, so that the graders of files are not created
    look = replace(cases, measures=nothing, paths=paths, notices=Notices())
    samples = (planned.sample for planned in islice(look.matching(), LOOKED_AT))
    try:
        chosen, note = default_measures(samples, mask_urls(str(named or "")), asked=bool(spec.targets))
    except InputError as refused:
        if spec.wanted is not None and next(look.matching(), None) is None:
            raise no_case(spec.wanted) from None
        raise refused.at(SourceLocation(some_of(list(map(str, paths)), 3))) from None
    cases.usual = parse_measures(chosen)
    return note


def _options_of(spec: Spec, files: Iterable[EvalFile]) -> dict[str, Json]:
    """Return the options that the eval files set."""
    agreed: dict[str, Json] = {}
    for file, name in product(files, IN_FILES):
        if (value := getattr(file, name)) is None:
            continue
        if agreed.setdefault(name, value) != value and not spec.first(name, "given", "report")[1]:
            problem = f"the eval files set {name} to different values: {agreed[name]} and {value}"
            fix = f"run them one by one, as in germane run {file.path}, or give --{name}"
            raise InputError(problem, fix=fix)
    return agreed


def _checked_gates(cases: Cases) -> tuple[Gate, ...]:
    """Return the gates of the eval files and the flags, without gates of files on measures that -m excludes.

    Raises InputError if a gate is on an unknown measure.
    """
    kept = list[Gate]()
    declared = ((Gate.parse(*gate), file) for file in cases.files.values() for gate in file.gates)
    for gate, own in (*declared, *((Gate.parse(gate), None) for gate in cases.spec.gates)):
        graders = cases.all_graders(None if cases.measures else own)
        names = {name for grader in graders for name in (grader.name, str(grader.measure))}
        if cases.measures and own is not None and gate.measure not in names:
            text = f"the gate {gate} is ignored, since {gate.measure} is not among the measures of -m"
            cases.notices(Notice(text, "", gate.location))
            continue
        kept.append(gate)
        if graders:
            gate.check_named(sorted(names))
    return tuple(kept)


def _judge_of(cases: Cases) -> Judge | None:
    """Return the judge, or None if no grader needs one."""
    spec, needed = cases.spec, needs_judge(cases.all_graders())
    words, trusted = judge_words(spec)
    if needed and spec.untrusted and not trusted and "@" in words:
        shown = mask_urls(words)
        problem = f"an untrusted file would send all texts to the judge {shown}"
        raise InputError(problem, fix=f"check the URL, then name the judge yourself: --judge {shown}")
    judge = pick_judge(cases.share.of_limits(spec) if cases.share else spec, needed)
    return judge if needed else None


def _refuse_outputs(spec: Spec) -> None:
    """Raise InputError if the resumed report is untrusted and names output files outside of its folder."""
    named = spec.given.get("outputs", ())
    folder = Path(spec.folder).resolve()
    for output in spec.outputs:
        if output not in named and not Path(output).resolve().is_relative_to(folder):
            problem = f"the untrusted report {spec.folder} would write {output}, a file outside the report"
            raise InputError(problem, fix=f"name the file yourself: -o {output}")


def feasible(jobs: Iterable[Job], settings: Settings, gates: Iterable[Gate] = ()) -> Iterator[Job]:
    """Yield the jobs, and check at the end that all measures and gates are possible."""
    missing = dict[tuple[str, str], str]()
    possible, without_slices = set[tuple[str, str]](), [gate for gate in gates if gate.by]
    for job in jobs:
        sample = job.sample
        without_slices = [gate for gate in without_slices if not sample_slices(sample, gate.by)]
        for grader in job.graders:
            name = (sample.system, grader.name)
            if name in possible:
                continue
            refusal = None if grader.by else applicable(grader.measure, sample, settings)
            if refusal is not None and refusal.status == "skipped":
                missing.setdefault(name, refusal.why or "")
            else:
                possible.add(name)
        yield job
    for (system, measure), why in missing.items():
        if (system, measure) not in possible:
            of = f"sample of {system}" if system else "sample"
            problem = f"{measure} cannot be computed for any {of}: {why}; nothing was asked"
            raise InputError(problem, fix=f"leave out {measure}, or add to the samples what it needs")
    if without_slices and (missing or possible):
        raise without_slices[0].no_slices()
