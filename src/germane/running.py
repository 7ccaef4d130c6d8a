"""One run of the main job: paths in, a report folder out. What is answered and judged survives whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import shlex
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from germane.answering import answered, prepared, script_of
from germane.config import read_config
from germane.errors import InputError, Interrupted, JudgeError, LedgerError
from germane.evaluation import Evaluation, Router, manifest_of, needs_judge
from germane.forecast import Forecast, forecast_jobs
from germane.judging.asking import Pool
from germane.judging.judge import Judge
from germane.judging.ledger import Ledger, SQLiteLedger
from germane.judging.spending import Budget, check_price
from germane.measures.graders import CODE_JUDGE
from germane.measures.labels import Settings
from germane.measures.measure import parse_measures
from germane.measures.scoring import Job
from germane.reports.gates import Gate
from germane.reports.report import Report, read_manifest, write_manifest
from germane.reports.store import FolderStore, load_judgement
from germane.samples.notices import Notices
from germane.setup import JudgeOptions, open_ledger, pick_judge
from germane.suite import Item, Suite, load_suite
from germane.types import Json, Judgement

__all__ = ["Options", "Watch", "forecast", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JudgeOptions):
    """What a run is told, as plain JSON values: kept in the manifest, so that `--resume` needs nothing else.

    But for headers, which may hold keys.
    """

    paths: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    judge: str | None = None
    against: str | None = None
    scale: str | None = None
    targets: tuple[str, ...] = ()
    targets_file: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    doc_id: str | None = None
    wanted: str | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    gates: tuple[str, ...] = ()
    max_unmeasured: float = 0.05
    ledger: str | None = None
    no_cache: bool = False
    max_cost: float | None = None
    max_calls: int | None = None
    folder: str = ""

    def over(self, stored: dict[str, Json]) -> Options:
        """These options where they say something, else the stored ones."""
        default = asdict(Options())
        said = {name: value for name, value in asdict(self).items() if value != default[name]}
        if self.judge is not None:
            said["panel"] = self.panel
        return Options(**{**_tuples({name: stored[name] for name in default if name in stored}), **said})


def _tuples(values: dict[str, Json]) -> dict[str, Json]:
    """JSON lists as the tuples that they were."""
    deep = {
        name: [tuple(v) if isinstance(v, list) else v for v in value]
        for name, value in values.items()
        if isinstance(value, list)
    }
    return {**values, **{name: tuple(value) for name, value in deep.items()}}


class Watch:
    """Whoever looks on while a run works. The defaults see nothing."""

    def warn(self, text: str) -> None:
        """Something in the input is probably not meant."""

    def answering(self, done: int, total: int) -> None:
        """So many cases have their answer."""

    def judging(self, pool: Pool) -> None:
        """The pool's counts have moved."""

    def scored(self, done: int) -> None:
        """So many samples are finished."""


def run(
    options: Options, watch: Watch | None = None, *, resume: Path | None = None, retry_errors: bool = False
) -> Report:
    """Answer, judge and score everything that the paths name; the report stands in its folder.

    With `resume`, an earlier run's folder is continued: its options hold where none are given, its targets'
    answers and its judgements are used, and only what is missing is asked.

    Raises InputError before anything is spent, JudgeError where the judge cannot be used at all, Interrupted
    (naming the command that continues) after Ctrl-C.
    """
    options = _configured(options)
    stored = read_manifest(resume) if resume is not None else {}
    begun = _Run(
        options.over(stored.get("options") or {}), watch or Watch(), stored, resume, retry_errors=retry_errors
    )
    begun.said = options
    return begun.go()


def forecast(options: Options, watch: Watch | None = None) -> Forecast:
    """What `run` would ask and what that would cost: no judge is asked. Targets are: what they answer is needed."""
    return _Run(_configured(options), watch or Watch(), {}, None, retry_errors=False).expect()


def _configured(options: Options) -> Options:
    """The options, with what the project's config says where no flag says it."""
    config, default = read_config(Path.cwd()), Options()
    given = {name: config.get(name) for name in ("against", "scale", "max_unmeasured", "jobs", "gates")}
    if isinstance(given["gates"], str):
        given["gates"] = (given["gates"],)
    unsaid = {
        name: value
        for name, value in given.items()
        if value is not None and getattr(options, name) == getattr(default, name)
    }
    return replace(options, **unsaid)


class _Run:
    """The steps of one run, in their order."""

    def __init__(
        self,
        options: Options,
        watch: Watch,
        stored: dict[str, Json],
        resume: Path | None,
        *,
        retry_errors: bool,
    ) -> None:
        self.options, self.watch = options, watch
        self.notices = Notices(lambda notice: watch.warn(str(notice)))
        self.suite = _suite(options, self.notices)
        self.settings = Settings.of(options.against or self.suite.setting("against"), options.scale)
        self.gates = (*self.suite.gates, *map(Gate.parse, options.gates))
        self.created = stored.get("created") or _now()
        self.resumed = resume is not None
        self.folder = resume or _new_folder(options, self.suite.paths)
        self.known = {} if resume is None else dict(_known(resume, errors=not retry_errors))
        self.pool: Pool | None = None
        self.said = options
        """What flags say, as opposed to what a resumed folder's manifest says: only flags are trusted with a key."""

    def go(self) -> Report:
        """Everything, then the report."""
        judge = self._judge()
        check_price(judge, self.options.max_cost)
        items = list(self.suite.items()) if self._must_ask() else self.suite.items()
        ledger = self._ledger()
        begun_before = self.folder.exists()
        write_manifest(self.folder, self._manifest({}), "running")
        store = FolderStore(self.folder)
        evaluation = Evaluation(settings=self.settings, store=store)
        try:
            asyncio.run(self._work(items, evaluation, judge, ledger))
        except Interrupted as stopped:
            self._interrupted()
            raise type(stopped)(f"{stopped}; continue with: {self._again()}") from None
        except (JudgeError, LedgerError, OSError) as failure:
            self._interrupted()
            kind = LedgerError if isinstance(failure, OSError) else type(failure)
            raise kind(f"{failure}\nwhat was answered is kept; continue with: {self._again()}") from None
        except InputError:
            if not begun_before and not isinstance(items, list):  # nothing was asked: a bad line came first
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        finally:
            if ledger is not None:
                ledger.close()
        manifest = self._manifest(manifest_of(evaluation, judge, self.pool))
        report = Report.build(store, manifest, gates=self.gates, max_unmeasured=self.options.max_unmeasured)
        report.write_manifest("complete")
        return report

    def expect(self) -> Forecast:
        """What judging would cost."""
        judge = self._judge()
        items = list(self.suite.items())
        ledger = self._ledger()
        with tempfile.TemporaryDirectory() as scratch:
            if self._must_ask():
                items = asyncio.run(_collected(items, Path(scratch), self.watch))
            jobs = (_job(prepared(item, self.suite.document_ids(), Counter())) for item in items)
            return forecast_jobs(jobs, judge, ledger, self.settings)

    def _interrupted(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: the manifest of the start stands, and will do
            write_manifest(self.folder, self._manifest({}), "interrupted")

    def _ledger(self) -> SQLiteLedger | None:
        return (
            None
            if self.options.no_cache
            else open_ledger(Path(self.options.ledger) if self.options.ledger else None)
        )

    def _again(self) -> str:
        """The command that continues this run."""
        url = f" --base-url {shlex.quote(self.options.base_url)}" if self.options.base_url else ""
        headers = "".join(f" --header {shlex.quote(f'{name}=...')}" for name, _ in self.options.headers)
        return f"germane run --resume {shlex.quote(str(self.folder))}{url}{headers}"

    def _must_ask(self) -> bool:
        """Whether any case needs a target: their answers are all on disk before anything is judged."""
        return bool(self.options.targets) or any(
            file.target or any(case.target for case in file.cases) for file in self.suite.files.values()
        )

    def _judge(self) -> Judge | None:
        """The judge, where the graders need one; what the gates are about is checked on the way."""
        graders = self.suite.all_graders()
        for gate in self.gates if graders else ():
            gate.check_named({name for grader in graders for name in (grader.name, str(grader.measure))})
        needed = needs_judge(grader for grader in graders if grader.measure != CODE_JUDGE)
        flag, in_file, url = self._named()
        found = pick_judge(flag, in_file, options=replace(self.options, base_url=url), needed=needed)
        if found is not None and self.options.judge is None:
            self.options = replace(self.options, judge=getattr(found, "members", (found,))[0].name)
        return found if needed else None

    def _named(self) -> tuple[str | None, str | None, str | None]:
        """The judge by flag, the judge in a file, and the base URL by flag.

        What a resumed folder's manifest says counts as said in a file: a URL in it gets no key.
        """
        in_file = self.suite.setting("judge")
        if self.said.judge is None:
            in_file = self.options.judge or in_file
            if in_file and self.said.base_url is None and self.options.base_url:
                in_file = f"{in_file.partition('@')[0]}@{self.options.base_url}"
        return self.said.judge, in_file, self.said.base_url

    async def _work(
        self,
        items: Sequence[Item] | Iterator[Item],
        evaluation: Evaluation,
        judge: Judge | None,
        ledger: Ledger | None,
    ) -> None:
        if isinstance(items, list):
            items = [
                item
                async for item in answered(items, self.folder, self.watch.answering, resumed=self.resumed)
            ]
        assert isinstance(evaluation.store, FolderStore)
        evaluation.store.start()
        self.pool = Pool(
            Router(judge),
            ledger,
            known=self.known,
            budget=Budget(self.options.max_cost, self.options.max_calls),
            before_asking=self.suite.check,
            on_progress=self.watch.judging,
        )
        try:
            async with self.pool:
                with _stopping(self.pool):
                    rule = self.suite.document_ids()
                    ready = (prepared(item, rule, evaluation.notes) for item in items)
                    await evaluation.run(map(_job, ready), self.pool, self.watch.scored)
        finally:
            evaluation.store.close()

    def _manifest(self, made: dict[str, Json]) -> dict[str, Json]:
        options = asdict(replace(self.options, folder=str(self.folder)))
        del options["headers"]
        warnings = {"warnings": [str(notice) for notice in self.notices]} if len(self.notices) else {}
        return {"schema_version": 1, **made, "created": self.created, "options": options, **warnings}


async def _collected(items: list[Item], folder: Path, watch: Watch) -> list[Item]:
    return [item async for item in answered(items, folder, watch.answering, resumed=False)]


def _job(item: Item) -> Job:
    if not item.specs:
        return Job(sample=item.sample, graders=item.graders)
    return Job(sample=item.sample, graders=tuple(replace(g, script=script_of(item, g)) for g in item.graders))


@contextlib.contextmanager
def _stopping(pool: Pool) -> Iterator[None]:
    """The first Ctrl-C finishes what is in flight, a second one stops at once."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        pool.stop(Interrupted("interrupted"))
        loop.remove_signal_handler(signal.SIGINT)

    try:
        loop.add_signal_handler(signal.SIGINT, stop)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _suite(options: Options, warn: Callable[..., None]) -> Suite:
    if not options.paths:
        raise InputError("nothing to evaluate", fix="name an eval file, a data file or a folder")
    paths, files = load_suite([Path(path) for path in options.paths], warn)
    return Suite(
        paths=paths,
        files=files,
        measures=parse_measures(options.measures),
        usual=parse_measures(_words(read_config(Path.cwd()).get("measures"))),
        targets=options.targets,
        targets_file=Path(options.targets_file) if options.targets_file else None,
        columns=dict(options.columns),
        doc_id=options.doc_id,
        wanted=options.wanted,
        limit=options.limit,
        sample=options.sample,
        seed=options.seed,
        warn=warn,
    )


def _words(value: Json) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(map(str, value))


def _new_folder(options: Options, paths: Sequence[Path]) -> Path:
    if options.folder:
        return Path(options.folder)
    stamp = datetime.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    name = paths[0].stem if paths else "run"
    base = Path("germane-reports")
    folder, number = base / f"{name}-{stamp}", 2
    while folder.exists():
        folder, number = base / f"{name}-{stamp}-{number}", number + 1
    return folder


def _known(folder: Path, *, errors: bool) -> Iterator[tuple[str, Judgement]]:
    """The judgements that an interrupted or finished run left in its folder; a half-written line is passed over."""
    import json

    path = folder / "judgements.jsonl"
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            with contextlib.suppress(ValueError, TypeError):
                judgement = load_judgement(json.loads(line))
                if errors or judgement.error is None:
                    yield judgement.key, judgement


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
