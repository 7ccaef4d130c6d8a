"""The plan of a run: from paths, measures and targets to cases with their graders.

Everything that can be wrong with the input is found here, before anything is asked or paid for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs

from germane.addons import required
from germane.clean import mask_urls, some_of
from germane.errors import InputError, SourceLocation
from germane.evaluation.choice import (
    LOOKED_AT,
    DefaultMeasures,
    default_measures,
    judge_words,
    needs_judge,
    pick_judge,
)
from germane.evaluation.spec import IN_FILES, Spec
from germane.judges.judge import Judge
from germane.judging.spending import check_price
from germane.measures.declaration import parse_measures
from germane.measures.eligibility import applicable
from germane.measures.graders import Grader, graders_of
from germane.measures.measure import Measure
from germane.measures.scoring import Job
from germane.places.settings import Settings
from germane.reports.gates import Gate
from germane.reports.summary import sample_slices
from germane.samples.contexts import compile_rule
from germane.samples.files import Notice, Notices, OnDisk, Warn
from germane.samples.reading import data_files, read_samples
from germane.samples.urls import local
from germane.tables.scores import SampleKey
from germane.targets.answers import PlannedCase, prepared, with_sample
from germane.types import FrozenDict, Json, Sample

__all__ = ["Plan"]

if TYPE_CHECKING:
    from germane.evalfiles.case import Case
    from germane.evalfiles.evalfile import EvalFile, GraderSpec
    from germane.labelling.files import LabelFile


Part: TypeAlias = Any
"""One of several parts of an evaluation that are run separately: what an add-on's `parts` returns."""

_YAML = (".yaml", ".yml")
_CHECKED_BYTES = 100_000_000
"""The largest size of data, in bytes, that is read once before anything is paid, so that a bad last line costs nothing."""


def part_of(spec: Spec) -> Part | None:
    """Return the part in `--part`, None for a whole evaluation. Raises InputError if it is invalid."""
    if not (text := spec.get("part")):
        return None
    return required("parts", "part", "--part", "run the whole evaluation").parse(text)


@dataclass(slots=True)
class Plan:
    """Everything that a run will do: the cases, their graders, the judge and the gates.

    Attributes:
        files: The eval files among `paths`, parsed.
        measures: Measures from flags, which replace the files' own.
        usual: Measures for data files, for which no others are named.
        dry: True if nothing that an eval file names may be imported or run.
        defaults: The `usual` measures chosen by the data, with the reason; None if they were named.
        left_out: The number of cases that `--filter` left out, and the `--limit` if it left out any.
        count: The number of cases in all parts, once `cases` has been read to the end.
    """

    paths: tuple[Path, ...]
    files: Mapping[Path, EvalFile]
    spec: Spec = field(default_factory=Spec)
    measures: tuple[Measure, ...] = ()
    usual: tuple[Measure, ...] = ()
    dry: bool = False
    notices: Notices = field(default_factory=Notices)
    settings: Settings = field(default_factory=Settings)
    defaults: DefaultMeasures | None = None
    gates: tuple[Gate, ...] = ()
    judge: Judge | None = None
    labels: LabelFile | None = None
    stdin: OnDisk = field(default_factory=OnDisk)
    left_out: dict[str, int] = field(default_factory=dict, init=False)
    count: int = field(default=0, init=False)
    _made: dict[tuple[float | None, ...], tuple[Grader, ...]] = field(default_factory=dict)
    _targets_files: dict[Path, Path] = field(default_factory=dict, init=False)
    _drawn: tuple[frozenset[int], dict[str, Json]] | None = field(default=None, init=False)
    _document_ids: Callable[[Sample], Sample] | None = field(default=None, init=False)

    @classmethod
    def of(cls, spec: Spec, warn: Callable[[str], None], *, dry: bool = False) -> Plan:
        """Return the checked plan for these options, including those of a resumed report.

        `warn` is called with each warning about the input. Raises InputError if the files, gates or judge
        cannot be used, or a cost limit is set and the price is unknown.
        """
        spec = spec.in_project()
        if not spec.paths:
            raise InputError("no path to evaluate is given", fix="name an eval file, a data file or a folder")
        if spec.until and (part_of(spec) or spec.get("engine")):
            fix = "leave out --part and --engine, or write --sample 1000 instead of --until"
            raise InputError(
                "--until cannot be combined with --part or --engine, which divide the cases", fix=fix
            )
        notices = Notices(lambda notice: warn(str(notice)))
        paths, files = named_files(spec.paths, notices)
        named, source = spec.first("measures", "given", "report")
        plan = cls(
            paths=paths,
            files=files,
            spec=spec.in_files(_agreed(files.values(), spec)),
            measures=parse_measures(named or (), Path() if source == "report" else None),
            usual=() if named else parse_measures(spec.config.get("measures", ()), Path()),
            dry=dry,
            notices=notices,
        )
        if (trials := spec.given.get("trials", 1)) > 1 and not plan.asks_targets:
            problem = f"--trials {trials} needs a target to query; stored answers have one trial"
            raise InputError(problem, fix="name a target with --target, or leave out --trials")
        if spec.untrusted:
            _refuse_outputs(spec)
        plan, spec = plan.with_defaults(), plan.spec
        named = judge_words(spec)[0] if spec.repeat == 1 else ""
        plan.settings = Settings.of(spec.against, spec.scale, spec.rubric).with_judge(named)
        plan.gates = _checked_gates(plan)
        plan.judge = _judge_of(plan)
        check_price(plan.judge, spec.max_cost)
        if spec.labels:
            from germane.labelling.files import LabelFile

            plan.labels = LabelFile(local(spec.labels)).passages()
            plan.settings = replace(plan.settings, labels=plan.labels.book)
        return plan

    @property
    def share(self) -> Part | None:
        """The part of the cases to evaluate (`--part`); None for all."""
        return part_of(self.spec)

    def cases(self) -> Iterator[PlannedCase]:
        """Yield the cases of this evaluation or its part. Raises InputError if `--filter` matches none."""
        share, row = self.share, -1
        for row, planned in enumerate(self.all_cases()):
            if share is None or share.has(planned.sample.query):
                planned.row = row
                yield planned
        self.count = row + 1

    def all_cases(self) -> Iterator[PlannedCase]:
        """Yield the cases of all parts in the order of the paths, after --filter, --sample and --limit."""
        chosen: Iterable[PlannedCase] = self.matching()
        if (drawn := self.draw()) is not None:
            rows, _ = drawn
            chosen = (p for row, p in enumerate(islice(chosen, max(rows, default=-1) + 1)) if row in rows)
        limit, ids, some = self.spec.limit, set[str](), False
        for planned in chosen:
            if limit is not None and planned.sample.id not in ids:
                if len(ids) == limit:
                    self.left_out["limit"] = limit
                    continue
                ids.add(planned.sample.id)  # a case is counted once for all its systems and trials
            some = True
            yield planned
        if not some and self.spec.wanted is not None:
            raise _no_case(self.spec.wanted)

    def draw(self) -> tuple[frozenset[int], dict[str, Json]] | None:
        """Return the row numbers that `--sample` draws and its manifest entry; None without `--sample`."""
        if self.spec.sample is not None and self._drawn is None:
            from germane.evaluation.sampling import draw_rows  # which few runs need

            self._drawn = draw_rows(self.matching, self.spec.sample, self.spec.seed)
        return self._drawn

    def matching(self) -> Iterator[PlannedCase]:
        """Yield the cases that match `--filter`. Raises InputError for an id that occurs in two files."""
        several = len(self.paths) + sum(len(file.data) for file in self.files.values()) > 1
        seen: dict[SampleKey, Path] = {}
        pattern, refused = self.spec.wanted, 0
        for path in self.paths:
            for planned in self._of(path):
                sample = planned.sample
                texts = (sample.id, *sample.tags)
                if pattern is not None and not any(fnmatchcase(text, pattern) for text in texts):
                    self.left_out["filter"] = refused = refused + 1
                    continue
                # within one file the reader has checked it
                if several and (key := sample.key) in seen:
                    first = seen[key]
                    where = f"twice in the data of {path}" if first == path else f"in {first} and in {path}"
                    fix = "give each file's samples a `system`, or run the files one by one"
                    raise InputError(f"sample ids must be unique; {sample.id!r} occurs {where}", fix=fix)
                if several:
                    seen[key] = path
                yield planned

    def _of(self, path: Path) -> Iterator[PlannedCase]:
        file = self.files.get(path)
        for case in file.cases if file else ():
            graders = self.graders(file, case)
            if not graders and not (self.dry and case.graders):
                fix = "add evaluators or measures to the case or the file"
                raise InputError("this case has no evaluator or measure", fix=fix, place=case.location)
            yield from self._planned([case.sample], graders, file, path, case)
        columns = {**(dict(file.columns) if file else {}), **dict(self.spec.columns)}
        for data in file.data if file else (path,):
            graders = self.graders(file)
            if not graders:
                fix = "write measures: [nDCG@10] in the file, or -m nDCG@10"
                raise InputError(f"{path}: no measures are given for the data", fix=fix)
            # the samples are read several times: to be checked, and to be judged
            path_read = self.stdin.path if str(data) == "-" else data
            samples = read_samples(path_read, columns=columns, warn=self.notices)
            yield from self._planned(samples, graders, file, path)

    def _planned(
        self,
        samples: Iterable[Sample],
        graders: tuple[Grader, ...],
        file: EvalFile | None,
        path: Path,
        case: Case | None = None,
    ) -> Iterator[PlannedCase]:
        """Yield a case per sample, target and trial; if there are several targets, each one is a system."""
        declared = (case.target,) if case and case.target else file.targets if file else ()
        targets = self.spec.targets or declared
        trials = (self.spec.trials or (file and file.trials) or 1) if targets else 1
        several = len(targets) > 1 or (not self.spec.targets and file is not None and len(file.targets) > 1)
        asked = list(product(targets or ("",), range(trials)))
        given, contexts_from = self.spec.targets_file, file.contexts_from if file else "auto"
        targets_file = Path(given) if given else file.targets_file if file else None
        if targets and targets_file is None:
            targets_file = self._targets_file_near(path.parent)
        for sample in samples:
            for target, trial in asked:
                system = target if several else sample.system
                number = trial if trials > 1 else sample.trial
                unchanged = system == sample.system and number == sample.trial
                named = sample if unchanged else structs.replace(sample, system=system, trial=number)
                yield PlannedCase(
                    sample=named,
                    graders=graders,
                    case=case and replace(case, sample=named),
                    target=target,
                    targets_file=targets_file,
                    source=path,
                    contexts_from=contexts_from,
                )

    def _targets_file_near(self, folder: Path) -> Path:
        if folder not in self._targets_files:
            from germane.targets.targetsfile import find_targets_file  # most evaluations need none

            self._targets_files[folder] = find_targets_file(folder)
        return self._targets_files[folder]

    def graders(self, file: EvalFile | None, case: Case | None = None) -> tuple[Grader, ...]:
        """Return the graders, with threshold, of a case in an eval file, or of its data if `case` is None.

        Measures from flags replace them. Data without an eval file (None) get the measures of flags, config
        or defaults. Graders are created once and shared by cases.
        """
        if self.measures or file is None:
            return graders_of(self.measures or self.usual)
        from germane.graders.specs import graders_of_specs

        specs, threshold = file.measures, file.threshold
        if case is not None:
            specs, threshold = case.graders, case.threshold
        key = (threshold, *map(id, specs))
        if key not in self._made:
            leave = self._not_imported if self.dry else None
            made = graders_of_specs(specs, file, self.settings, self.notices, leave=leave)
            self._made[key] = tuple(replace(grader, threshold=threshold) for grader in made)
        return self._made[key]

    def _not_imported(self, measure: str, spec: GraderSpec) -> None:
        text = f"a dry run does not import {measure}, so the forecast lacks its calls"
        self.notices(Notice(text, "", spec.node.location))

    def all_graders(self, own: EvalFile | None = None) -> tuple[Grader, ...]:
        """Return all graders of the plan's cases (or of its `own` file's), each once; no data are read."""
        files = map(self.files.get, self.paths) if own is None else [own]
        cases = ((file, case) for file in files for case in (None, *(file.cases if file else ())))
        return tuple(dict.fromkeys(grader for file, case in cases for grader in self.graders(file, case)))

    @property
    def asks_targets(self) -> bool:
        """True if a target is queried for any case."""
        named = (file.targets or any(case.target for case in file.cases) for file in self.files.values())
        return bool(self.spec.targets) or any(named)

    @property
    def inputs(self) -> list[Path]:
        """The paths of all eval files and data files, without standard input."""
        data = (path for file in self.files.values() for path in file.data)
        plain = (path for path in (*self.paths, *data) if str(path) != "-")
        return [file for path in plain for file in (data_files(path) if path.is_dir() else [path])]

    def with_defaults(self) -> Plan:
        """Return the plan; if no measure is named, with those that the data allow. Raises InputError if they allow none."""
        paths, spec = tuple(path for path in self.paths if path not in self.files), self.spec
        if self.measures or self.usual or not paths:
            return self
        named, _ = spec.first("judge", "given", "report", "files", "config")
        nothing = parse_measures(["RR"])  # it makes no grader of a file
        look = replace(self, measures=nothing, paths=paths, notices=Notices(), _made={})
        samples = (planned.sample for planned in islice(look.matching(), LOOKED_AT))
        chosen = default_measures(samples, mask_urls(str(named or "")), asked=bool(spec.targets))
        if not chosen.measures:
            if spec.wanted is not None and next(look.matching(), None) is None:
                raise _no_case(spec.wanted)
            problem = f"{some_of(list(map(str, paths)), 3)}: no measure is named, and {chosen.why}"
            raise InputError(problem, fix=chosen.fix)
        return replace(self, usual=parse_measures(chosen.measures), defaults=chosen, _made={})

    # The run

    def job(self, planned: PlannedCase, notes: Counter[str] | None = None) -> Job:
        """Return an answered case as a job, to be judged and scored; `notes` counts remarks on samples."""
        self._document_ids = self._document_ids or compile_rule(self.spec.doc_id)
        job = prepared(planned, self._document_ids, Counter() if notes is None else notes)
        if self.labels is not None:
            sample, labels = self.labels.on(job.sample)
            job = with_sample(job, sample)
            job.labels = labels
        return job

    def check(self, jobs: Iterable[Job] | None) -> None:
        """Read all jobs, so that an InputError in them is raised before anything is paid for."""
        deque(self.checked_jobs(jobs), 0)

    def checked_jobs(self, jobs: Iterable[Job] | None) -> Iterator[Job]:
        """Yield the jobs; at the end, raise InputError for a measure that cannot be computed for any sample.

        If `jobs` is None they are read from the files (a bad line is an InputError), unless these are too
        large to be read twice.
        """
        share = self.share
        if jobs is None:
            size = sum(file.stat().st_size for file in self.inputs)
            jobs = map(self.job, self.all_cases()) if size <= _CHECKED_BYTES else ()
        elif share is not None:
            return  # a measure that no sample of a part can have may be one of other parts
        for job in feasible(jobs, self.settings, self.gates):
            if share is None or share.has(job.sample.query):
                yield job


def _agreed(files: Iterable[EvalFile], spec: Spec) -> dict[str, Json]:
    """Return the options set by the eval files. Raises InputError if values differ and no flag is given."""
    agreed: dict[str, Json] = {}
    for name in IN_FILES:
        values = dict.fromkeys(value for file in files if (value := getattr(file, name)) is not None)
        if len(values) > 1 and not spec.first(name, "given", "report")[1]:
            problem = f"the eval files set {name} to different values: {' and '.join(map(str, values))}"
            raise InputError(problem, fix=f"run them one by one, or give --{name}")
        if len(values) == 1:
            agreed[name] = next(iter(values))
    return agreed


def _checked_gates(plan: Plan) -> tuple[Gate, ...]:
    """Return the gates on known measures; drop a file's gate on a measure that -m excludes."""
    graders, kept = plan.all_graders(), list[Gate]()
    names = names_of(graders)
    declared = (Gate.parse(*gate) for file in plan.files.values() for gate in file.gates)
    for gate in (*declared, *map(Gate.parse, plan.spec.gates)):
        if plan.measures and gate.location is not None and gate.measure not in names:
            text = f"the gate {gate} is ignored, since {gate.measure} is not among the measures of -m"
            plan.notices(Notice(text, "", gate.location))
            continue
        kept.append(gate)
        named = gate.location.file if gate.location else None
        own = next((file for file in plan.files.values() if str(file.path) == named), None)
        if graders:
            gate.check_named(sorted(names_of(plan.all_graders(own)) if own else names))
    return tuple(kept)


def _judge_of(plan: Plan) -> Judge | None:
    """Return the judge if a grader needs one; else None, and drop the environment's from the options."""
    graders = plan.all_graders()
    needed, (words, trusted) = needs_judge(graders), judge_words(plan.spec)
    if needed and plan.spec.untrusted and not trusted and "@" in words:
        shown = mask_urls(words)
        problem = f"an untrusted file would send all texts to the judge {shown}"
        raise InputError(problem, fix=f"check the URL, then name the judge yourself: --judge {shown}")
    share = plan.share
    judge = pick_judge(share.of_limits(plan.spec) if share else plan.spec, needed)
    if needed:
        return judge
    plan.spec = replace(plan.spec, environment=FrozenDict())
    return None


def _refuse_outputs(spec: Spec) -> None:
    """Raise InputError if an untrusted report that is resumed names output files outside of its folder."""
    named = spec.given.get("outputs", ())
    folder = Path(spec.folder).resolve()
    for output in spec.outputs:
        if output not in named and not Path(output).resolve().is_relative_to(folder):
            problem = f"the untrusted report {spec.folder} would write {output}, a file outside the report"
            raise InputError(problem, fix=f"name the file yourself: -o {output}")


def _no_case(pattern: str | None) -> InputError:
    return InputError(f"--filter {pattern!r} matches no case", fix="match an id or a tag, as in 'q1*'")


def named_files(
    paths: Sequence[str | Path], warn: Warn, *, read: bool = True
) -> tuple[tuple[Path, ...], dict[Path, EvalFile]]:
    """Return the files that these paths name, and the eval files parsed; a folder stands for its files."""
    results: list[Path] = []
    for named in paths:
        path = local(str(named))
        if path.is_dir():
            inside = [
                file
                for file in sorted(path.rglob("*"))
                if file.suffix in _YAML
                and file.stem != "targets"
                and file.is_file()
                and not any(name.startswith(".") for name in file.relative_to(path).parts)
            ]
            results += inside or ([path] if data_files(path) else [])
        elif not path.exists() and str(path) != "-":
            raise InputError("no such file or folder", fix="check the path", place=SourceLocation(str(path)))
        else:
            results.append(path)
    files: dict[Path, EvalFile] = {}
    for path in results if read else ():
        if path.suffix in _YAML:
            from germane.evalfiles.evalfile import read_eval_file

            files[path] = read_eval_file(path, warn=warn)
    return tuple(dict.fromkeys(results)), files


def names_of(graders: Iterable[Grader]) -> set[str]:
    """Return the names by which gates may refer to graders."""
    return {name for grader in graders for name in (grader.name, str(grader.measure))}


def feasible(jobs: Iterable[Job], settings: Settings, gates: Iterable[Gate] = ()) -> Iterator[Job]:
    """Yield the jobs, and check at the end that all measures and gates are possible.

    Raises InputError if a measure cannot be computed for any sample of a system, or no sample has a slice
    that a gate needs.
    """
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
