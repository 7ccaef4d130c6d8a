"""The plan of a run: its cases, their graders, the judge and the gates.

Everything that can be wrong with the input is found here, before anything is asked or paid for.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from germane.addons import all_of, load, required
from germane.clean import mask_urls, some_of
from germane.errors import InputError, SourceLocation
from germane.evaluation.spec import IN_FILES, LOOKED_AT, Spec, default_measures, judge_words, pick_judge
from germane.judges.judge import Judge
from germane.judging.spending import check_price
from germane.measures.declaration import Grader, graders_of, needs_judge, parse_measures
from germane.measures.measure import Measure
from germane.measures.outcome import applicable
from germane.measures.scoring import Job
from germane.places.lists import Settings
from germane.reports.gates import Gate
from germane.reports.summary import sample_slices
from germane.samples.contexts import compile_rule
from germane.samples.files import Notice, Notices, OnDisk, local
from germane.samples.reading import data_files, read_samples
from germane.tables.scores import SampleKey
from germane.targets.answers import PlannedCase, prepared, with_sample
from germane.types import FrozenDict, Json, Sample

__all__ = ["Plan", "named_files"]

if TYPE_CHECKING:
    from germane.evalfiles import Case
    from germane.evalfiles.evalfile import EvalFile, GraderSpec
    from germane.labelling.files import LabelFile

YAML = (".yaml", ".yml")
"""The suffixes of eval files."""

_CHECKED_BYTES = 100_000_000
"""Data of at most so many bytes are read whole before the first paid call: a bad last line costs nothing."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """Everything that a run will do. Cases are read anew at each use, because they may not fit in memory.

    Attributes:
        spec: The options, including those of the eval files.
        paths: The eval files and data files, in order.
        files: The eval files among `paths`, parsed.
        measures: Measures from flags, which replace the measures of the files.
        usual: Measures for data files if no flag names measures.
        defaults: A note on the measures if they follow from the data; "" if they were named.
        dry: True if nothing that an eval file names may be imported or run.
        sources: The add-ons that get answers of judges (as batches do) and whose options are given; for a
            resumed run, all such add-ons.
        document_ids: The function for `--doc-id`, which maps chunk ids to document ids.
        share: The part of the cases to evaluate (`--part`), made by an add-on; None for all.
        drawn: The numbers of the cases drawn by `--sample`, and the manifest's entry on them; else None.
        left_out: The number of cases that `--filter` left out, and the `--limit` if it left out any.
        count: The number of cases in all parts, once `chosen` has been read to the end.
    """

    spec: Spec
    notices: Notices
    paths: tuple[Path, ...]
    files: Mapping[Path, EvalFile]
    measures: tuple[Measure, ...]
    usual: tuple[Measure, ...]
    dry: bool
    document_ids: Callable[[Sample], Sample]
    sources: Sequence[Any]
    share: Any = None
    settings: Settings = field(default_factory=Settings)
    defaults: str = ""
    gates: tuple[Gate, ...] = ()
    judge: Judge | None = None
    labels: LabelFile | None = None
    drawn: tuple[frozenset[int], dict[str, Json]] | None = None
    stdin: OnDisk = field(default_factory=OnDisk)
    left_out: dict[str, int] = field(default_factory=dict, init=False)
    count: int = field(default=0, init=False)
    _unread: bool = field(default=False, init=False)  # a dry run imports no measures of files
    _made: dict[tuple[float | None, ...], tuple[Grader, ...]] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, spec: Spec, warn: Callable[[str], None], *, dry: bool = False) -> Plan:
        """Return the checked plan for these options, including those of a resumed report."""
        spec = spec.in_project()
        if not spec.paths:
            raise InputError("no path to evaluate is given", fix="name an eval file, a data file or a folder")
        notices = Notices(lambda notice: warn(str(notice)))
        paths = named_files(spec.paths)
        spec, files = _with_eval_files(spec, paths, notices)
        named, source = spec.first("measures", "given", "report")
        plan = cls(
            spec=spec,
            notices=notices,
            paths=paths,
            files=files,
            measures=parse_measures(named or (), Path() if source == "report" else None),
            usual=() if named else parse_measures(spec.config.get("measures", ()), Path()),
            dry=dry,
            document_ids=compile_rule(spec.doc_id),
            sources=[
                load(source.make)(spec)
                for source in all_of("sources").values()
                if spec.resume or any(getattr(spec, name) for name in source.options)
            ],
        )
        if part := spec.get("part"):
            plan.share = required("parts", "part", "--part", "run the whole evaluation").parse(part)
        plan._check_options()
        if not (plan.measures or plan.usual):
            plan._choose_measures()
        judges = judge_words(spec)[0] if spec.repeat == 1 else ""
        plan.settings = Settings.of(spec.against, spec.scale, spec.rubric).with_judge(judges)
        plan.gates = plan._checked_gates()
        plan._choose_judge()
        if spec.labels:
            from germane.labelling.files import LabelFile

            plan.labels = LabelFile(local(spec.labels))
            plan.settings = replace(plan.settings, labels=plan.labels.book)
        if spec.sample is not None:
            from germane.evaluation.sampling import draw_rows  # few runs need it

            plan.drawn = draw_rows(plan.matching, min(spec.sample, spec.limit or spec.sample), spec.seed)
        if plan.labels is not None and not plan.asks_targets:
            every = plan.chosen(every=True)
            samples = (prepared(item, plan.document_ids, Counter()).sample for item in every)
            plan.labels.fill(samples, plan.notices)
        return plan

    def _check_options(self) -> None:
        """Raise InputError for options that cannot be combined, or that an untrusted report may not set."""
        spec = self.spec
        if spec.until and (self.share or spec.get("engine")):
            problem = "--until cannot be combined with --part or --engine, which divide the cases"
            fix = "leave out --part and --engine, or write --sample 1000 instead of --until"
            raise InputError(problem, fix=fix)
        if (trials := spec.given.get("trials", 1)) > 1 and not self.asks_targets:
            problem = f"--trials {trials} needs a target to query; stored answers have one trial"
            raise InputError(problem, fix="name a target with --target, or leave out --trials")
        named = spec.given.get("outputs", ())
        for output in spec.outputs if spec.untrusted else ():
            if output not in named and not Path(output).resolve().is_relative_to(Path(spec.folder).resolve()):
                problem = f"the untrusted report {spec.folder} would write {output}, a file outside of it"
                raise InputError(problem, fix=f"name the file yourself: -o {output}")

    def _choose_measures(self) -> None:
        """Give the data files default measures, with a note. Raises InputError if there are none."""
        paths, spec = tuple(path for path in self.paths if path not in self.files), self.spec
        if not paths:
            return
        named, _ = spec.first("judge", "given", "report", "files", "config")
        nothing = parse_measures(["RR"])  # any measure, so that the graders of files are not created
        look = replace(self, measures=nothing, paths=paths, notices=Notices())
        samples = (planned.sample for planned in islice(look.matching(), LOOKED_AT))
        place = SourceLocation(some_of(list(map(str, paths)), 3))
        judge, asked = mask_urls(str(named or "")), bool(spec.targets)
        chosen, self.defaults = default_measures(samples, judge, asked=asked, place=place)
        self.usual = parse_measures(chosen)

    def _checked_gates(self) -> tuple[Gate, ...]:
        """Return the gates of the eval files and the flags, without gates of files on measures that -m excludes.

        Raises InputError if a gate is on an unknown measure.
        """
        kept, place = list[Gate](), self.spec.origin("gates")
        declared = ((Gate.parse(*gate), file) for file in self.files.values() for gate in file.gates)
        for gate, own in (*declared, *((Gate.parse(text, place), None) for text in self.spec.gates)):
            graders = self.all_graders(None if self.measures else own)
            names = {name for grader in graders for name in (grader.name, str(grader.measure))}
            if self.measures and own is not None and gate.measure not in names:
                text = f"the gate {gate} is ignored, since {gate.measure} is not among the measures of -m"
                self.notices(Notice(text, "", gate.location))
                continue
            kept.append(gate)
            if gate.measure in names or (graders and not self._unread):
                gate.check_named(sorted(names))
        return tuple(kept)

    def _choose_judge(self) -> None:
        """Set the judge if a grader needs one. Raises InputError if there is none, or if it is invalid."""
        spec, needed = self.spec, needs_judge(self.all_graders())
        words, trusted = judge_words(spec)
        if needed and spec.untrusted and not trusted and "@" in words:
            shown = mask_urls(words)
            problem = f"an untrusted file would send all texts to the judge {shown}"
            raise InputError(problem, fix=f"check the URL, then name the judge yourself: --judge {shown}")
        judge = pick_judge(self.share.of_limits(spec) if self.share else spec, needed)
        if needed:
            self.judge = judge
        else:  # the environment's judge has no part in this
            self.spec = replace(spec, environment=FrozenDict())
        check_price(self.judge, spec.max_cost)
        self.sources = self.sources if self.judge is not None else []
        for source in self.sources:
            source.check(self.judge, dry=self.dry)

    def chosen(self, *, every: bool = False) -> Iterator[PlannedCase]:
        """Yield the cases of this part (with `every`, of all parts) after --filter, --sample and --limit."""
        chosen: Iterable[PlannedCase] = self.matching()
        if self.drawn is not None:
            rows, _ = self.drawn
            chosen = (p for row, p in enumerate(islice(chosen, max(rows, default=-1) + 1)) if row in rows)
        share, limit, ids, row = None if every else self.share, self.spec.limit, set[str](), -1
        for planned in chosen:
            if limit is not None and planned.sample.id not in ids:
                if len(ids) == limit:
                    self.left_out["limit"] = limit
                    continue
                ids.add(planned.sample.id)  # a case is counted once for all its systems and trials
            row += 1
            if share is None or share.has(planned.sample.query):
                planned.row = row
                yield planned
        self.count = row + 1

    def matching(self) -> Iterator[PlannedCase]:
        """Yield the cases that match `--filter`. Raises InputError if a sample id occurs in two files."""
        several = len(self.paths) + sum(len(file.data) for file in self.files.values()) > 1
        seen: dict[SampleKey, Path] = {}
        pattern, refused, matches = self.spec.wanted, 0, False
        for planned in chain.from_iterable(map(self._of, self.paths)):
            sample, path = planned.sample, planned.source
            texts = (sample.id, *sample.tags)
            if pattern is not None and not any(fnmatchcase(text, pattern) for text in texts):
                self.left_out["filter"] = refused = refused + 1
                continue
            matches = True
            # the reader has already checked that ids are unique within one file
            if several and (key := sample.key) in seen:
                first = seen[key]
                where = f"twice in the data of {path}" if first == path else f"in {first} and in {path}"
                fix = "give each file's samples a `system`, or run the files one by one"
                raise InputError(f"sample ids must be unique; {sample.id!r} occurs {where}", fix=fix)
            if several:
                seen[key] = path
            yield planned
        if pattern is not None and not matches:
            fix = "match an id or a tag, as in 'q1*'"
            raise InputError(f"--filter {pattern!r} matches no case", fix=fix)

    def _of(self, path: Path) -> Iterator[PlannedCase]:
        """Yield the cases of the eval file or data file at `path`."""
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
            if not graders and not (self.dry and file and file.measures):
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
        """Yield a planned case for each sample, target and trial."""
        declared = (case.target,) if case and case.target else file.targets if file else ()
        targets = self.spec.targets or declared
        trials = (self.spec.trials or (file and file.trials) or 1) if targets else 1
        several = len(targets) > 1 or (not self.spec.targets and file is not None and len(file.targets) > 1)
        asked = list(product(targets or ("",), range(trials)))
        given, contexts_from = self.spec.targets_file, file.contexts_from if file else "auto"
        targets_file = Path(given) if given else file.targets_file if file else None
        if targets and targets_file is None:
            from germane.targets.targetsfile import find_targets_file  # most evaluations need none

            targets_file = find_targets_file(path.parent)
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

    def graders(self, file: EvalFile | None, case: Case | None = None) -> tuple[Grader, ...]:
        """Return the graders of a case in an eval file, or of the file's data if `case` is None.

        Measures from flags replace all graders of the file. Graders are created once and used for all cases.
        """
        if self.measures or file is None:
            return graders_of(self.measures or self.usual)
        from germane.graders.specs import graders_of_specs

        specs, threshold = file.measures, file.threshold
        if case is not None:
            specs, threshold = case.graders, case.threshold
        key = (threshold, *map(id, specs))
        if key not in self._made:

            def leave(measure: str, spec: GraderSpec) -> None:
                text = f"a dry run does not import {measure}, so the forecast lacks its calls"
                self.notices(Notice(text, "", spec.node.location))
                self._unread = True

            made = graders_of_specs(
                specs, file, self.settings, self.notices, leave=leave if self.dry else None
            )
            self._made[key] = tuple(replace(grader, threshold=threshold) for grader in made)
        return self._made[key]

    def all_graders(self, own: EvalFile | None = None) -> tuple[Grader, ...]:
        """Return the graders of all cases, or only of the cases of the eval file `own`, each grader once."""
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
        """The paths of all eval files and data files; standard input is left out."""
        data = (path for file in self.files.values() for path in file.data)
        plain = (path for path in (*self.paths, *data) if str(path) != "-")
        return [file for path in plain for file in (data_files(path) if path.is_dir() else [path])]

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
        share = self.share
        if jobs is None:
            size = sum(file.stat().st_size for file in self.inputs)
            jobs = map(self.job, self.chosen(every=True)) if size <= _CHECKED_BYTES else ()
        elif share is not None:
            return  # a measure that is impossible for this part may be possible for other parts
        checked = feasible(jobs, self.settings, self.gates)
        yield from (job for job in checked if share is None or share.has(job.sample.query))


def named_files(paths: Sequence[str | Path]) -> tuple[Path, ...]:
    """Return the files that `paths` name: files, the eval files in folders, and folders of data files."""
    results: dict[Path, None] = {}
    for named in paths:
        path = local(str(named))
        if path.is_dir():
            found = (file for file in sorted(path.rglob("*")) if file.suffix in YAML and file.is_file())
            shown = (file for file in found if not re.search(r"(^|[/\\])\.", str(file.relative_to(path))))
            inside = [file for file in shown if file.stem != "targets"]
            results |= dict.fromkeys(inside or ([path] if data_files(path) else []))
        elif not path.exists() and str(path) != "-":
            raise InputError("no such file or folder", fix="check the path", place=SourceLocation(str(path)))
        else:
            results[path] = None
    return tuple(results)


def _with_eval_files(
    spec: Spec, paths: Iterable[Path], notices: Notices
) -> tuple[Spec, dict[Path, EvalFile]]:
    """Return `spec` with the options that the eval files among `paths` set, and the parsed files."""
    files: dict[Path, EvalFile] = {}
    agreed: dict[str, Json] = {}
    for path in paths:
        if path.suffix in YAML:
            from germane.evalfiles.evalfile import read_eval_file

            files[path] = read_eval_file(path, warn=notices)
    for file, name in product(files.values(), IN_FILES):
        value, chosen = getattr(file, name), spec.first(name, "given", "report")[1]
        if value is not None and agreed.setdefault(name, value) != value and not chosen:
            problem = f"the eval files set {name} to different values: {agreed[name]} and {value}"
            fix = f"run them one by one, as in germane run {file.path}, or give --{name}"
            raise InputError(problem, fix=fix)
    return spec.in_files(agreed), files


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
            unit = f"sample of {system}" if system else "sample"
            problem = f"{measure} cannot be computed for any {unit}: {why}; nothing was asked"
            raise InputError(problem, fix=f"leave out {measure}, or add to the samples what it needs")
    if without_slices and (missing or possible):
        raise without_slices[0].no_slices()
