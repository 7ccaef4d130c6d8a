"""Ask the judge again for stored verdicts of a report, with the same settings, to see if it has changed."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path

from msgspec import structs

from germane.clean import counted
from germane.errors import GermaneError, InputError, Interrupted, JudgeError, LimitReached, MissingKey
from germane.evaluation.session import answered_blocks, evaluate_jobs
from germane.evaluation.spec import Spec, check_same_judge, pick_judge
from germane.folder.tables import BlockRows
from germane.folder.writer import FolderWriter
from germane.judges.judge import Judge, LabelsJudge
from germane.judges.panel import PanelJudge, Replica
from germane.judging.asker import Asker
from germane.judging.caller import interruptible, run_coroutine
from germane.judging.spending import Budget, Spent, check_price
from germane.judging.stored_answers import StoredAnswers
from germane.labelling.audit import AgainLine, ShiftLine
from germane.measures.scoring import Job
from germane.places.lists import Settings
from germane.questions.asking import Answer
from germane.questions.question import AnyQuestion
from germane.questions.relevance import examples_of
from germane.reports.data import load_grader
from germane.reports.report import Report
from germane.statistics.agreement import compare_answers, kappa_of
from germane.tables.labels import LabelBook
from germane.tables.scores import SampleKey
from germane.types import FrozenDict, Judgement, Sample


@dataclass(slots=True)
class StoredVerdict:
    """A stored verdict that is asked for again: its question, judgement, samples, and new answers.

    `samples` are the samples whose measures read the verdict. `stored` is the stored verdict as a string,
    without its reason; `new` are the new verdicts in the same form, in the order of asking.
    """

    question: AnyQuestion
    judgement: Judgement
    stored: str
    samples: dict[SampleKey, None]
    answers: list[Answer] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    @property
    def flipped(self) -> bool:
        """True if the first new verdict differs from the stored one."""
        return bool(self.new) and self.new[0] != self.stored


def ask_again(folder: Path, n: int, spec: Spec) -> AgainLine:
    """Ask the judge again for `n` random verdicts of a report, and compare the old and the new verdicts.

    A verdict that differs (flips) is asked for a second time. The ledger is neither read nor written. The new
    answers are stored in the report's judgements. Their parent is the key of the stored judgement and their
    replica number is negative, so that no measure reads them.

    Only verdicts that a measure reads are drawn. As for a run, `spec` contains the judge's key, URL and
    headers, the limits, and the seed of the draw.

    Raises:
        InputError: The report has no judge that can be asked, or another judge is named.
        JudgeError: The judge cannot be used at all.
    """
    report = Report.open(folder, corrected=False)
    judge = _judge_of(report, spec)
    check_price(judge, spec.max_cost)
    writer = FolderWriter(folder).lock()
    try:
        draw = _Draw(report, judge, n, spec.seed)
        run_coroutine(draw.run())
        stopped, spent = run_coroutine(_ask_all(draw.verdicts, judge, draw.replica, spec.max_cost))
        rows = [
            structs.replace(row, parent=verdict.judgement.key)  # no measure reads rows with a parent
            for verdict in draw.verdicts
            for answer in verdict.answers
            for row in (answer.judgement, *answer.children)
        ]
        if rows:
            writer.append_judgements(rows)
    finally:
        writer.close()
    if isinstance(stopped, Interrupted | MissingKey) and not isinstance(stopped, LimitReached):
        raise stopped
    return _compared(report, draw, str(stopped or ""), spent)


_NAME_ANOTHER = "name a report whose measures ask a judge"


def _judge_of(report: Report, spec: Spec) -> Judge:
    """Return a report's judge as it was set up; its URL gets no API key unless `spec` names it too."""
    manifest = report.manifest
    resumed = spec.resuming(manifest).in_project()
    if not resumed.first("judge", "given", "report")[1]:
        source = report.judge.source
        if not source:
            raise InputError("this report has no judge's verdicts", fix=_NAME_ANOTHER)
        resumed = replace(resumed, report=FrozenDict({**resumed.report, "judge": source}))
    judge = pick_judge(resumed, ["--again"])
    assert judge is not None
    if isinstance(judge, LabelsJudge):
        problem = f"the judge {judge.name} returns stored labels, so --again would give the same verdicts"
        raise InputError(problem, fix=_NAME_ANOTHER)
    fix = "name the judge of the report with --judge, and its URL with --base-url"
    check_same_judge(manifest, judge, fix=fix, anywhere=spec.base_url is not None)
    return judge


class _Draw:
    """Draws `n` random verdicts of a report to ask for again: those with the smallest hashes of seed and key.

    `verdicts` are the drawn verdicts. `kinds` counts the verdicts that could be drawn, by kind of question.
    `changed` counts the verdicts that cannot be drawn because their prompt or judge has changed. `trials`
    contains the number of trials of each case and system with several trials. `replica` is a replica number
    below 0 that the report does not use yet.
    """

    def __init__(self, report: Report, judge: Judge, n: int, seed: int) -> None:
        self.report, self.n, self.seed, self.changed = report, n, seed, 0
        self.kinds = Counter[str]()
        self.trials = dict[tuple[str, str], int]()
        manifest = report.manifest
        self.graders = [tuple(map(load_grader, rows)) for rows in manifest.get("graders", [])]
        self.settings = Settings.stored(manifest, LabelBook(report.tables.people()) or None)
        used = [judgement.provenance.get("replica") or 0 for judgement in report.judgements()]
        self.replica = min([0, *used]) - 1
        self.answers = StoredAnswers(report.tables.judgements)
        self.verdicts = list[StoredVerdict]()
        self._judge, self._seen = judge, set[str]()
        self._drawn: dict[str, tuple[bytes, StoredVerdict]] = {}

    def jobs(self, samples: Iterable[Sample]) -> Iterator[Job]:
        """Yield a job for each of these samples of the report, with the graders that scored the sample."""
        numbers = self.report.tables.grader_numbers()
        for sample in samples if self.graders else ():
            yield Job(sample=sample, graders=self.graders[numbers.get(sample.key, 0)])

    async def run(self) -> None:
        """Read all samples of the report and draw the verdicts."""
        jobs = self.jobs(self.report.samples())
        async for working in answered_blocks(jobs, self.answers.lookup, self.settings):
            for (job, _), program in zip(working.block.owners, working.programs, strict=True):
                sample = working.block.jobs[job].sample.key
                if sample[2]:
                    self.trials[sample[:2]] = max(sample[2] + 1, self.trials.get(sample[:2], 1))
                for questions, answers in program.trace:
                    for at, (example, answer) in enumerate(zip(examples_of(questions), answers, strict=True)):
                        self._see(example, questions, at, answer, sample)
        self.verdicts = [verdict for _, verdict in sorted(self._drawn.values(), key=itemgetter(0))]

    def _see(
        self,
        example: AnyQuestion,
        questions: Sequence[AnyQuestion],
        at: int,
        answer: Answer,
        sample: SampleKey,
    ) -> None:
        """Count a verdict if it can be asked for again, and draw it if its hash is among the `n` smallest."""
        key = answer.judgement.key
        if key in self._drawn:
            self._drawn[key][1].samples[sample] = None
        if not answer.usable or example.by_program or not example.voted or key in self._seen:
            return
        self._seen.add(key)
        if self._judge.prompt_hash(example) != answer.judgement.prompt:
            self.changed += 1
            return
        self.kinds[example.kind] += 1
        digest = hashlib.sha256(f"{self.seed}:{key}".encode()).digest()
        if len(self._drawn) == self.n:
            last = max(self._drawn, key=lambda name: self._drawn[name][0])
            if digest > self._drawn[last][0]:
                return
            del self._drawn[last]
        question = questions[at]
        stored = question.short(answer.judgement.answer)
        self._drawn[key] = digest, StoredVerdict(question, answer.judgement, stored, {sample: None})


def _again(judge: Judge, replica: int) -> Judge:
    """Return the judge wrapped as the Replica number `replica`, so that its stored answers are not used."""
    if isinstance(judge, PanelJudge):
        return PanelJudge([_again(member, replica - number) for number, member in enumerate(judge.members)])
    return Replica(judge, replica)


async def _ask_all(
    verdicts: Sequence[StoredVerdict], judge: Judge, replica: int, max_cost: float | None
) -> tuple[GermaneError | None, Spent]:
    """Ask for each verdict again, and a second time if it flips."""
    budget, spent = Budget(max_cost), Spent()
    asked, members = verdicts, len(getattr(judge, "members", (judge,)))
    for number in range(2 if asked else 0):
        asker = Asker(_again(judge, replica - number * members), budget=budget)
        with interruptible(asker.stop, asker.abort):
            async with asker:
                failures = await asyncio.gather(*(_ask(verdict, asker) for verdict in asked))
        spent += asker.spent
        if failure := next(filter(None, failures), None):
            return failure, spent
        asked = [verdict for verdict in verdicts if verdict.flipped]
        if not asked:
            break
    return None, spent


async def _ask(verdict: StoredVerdict, asker: Asker) -> GermaneError | None:
    """Ask a verdict's question and add the answer to `verdict`; return the error if asking was stopped."""
    try:
        (answer,) = await asker.judge([verdict.question])
    except (Interrupted, JudgeError) as stopped:
        return stopped
    verdict.answers.append(answer)
    if answer.usable:
        verdict.new.append(verdict.question.short(answer.judgement.answer))
    return None


def _compared(report: Report, draw: _Draw, stopped: str, spent: Spent) -> AgainLine:
    """Return the comparison of the stored verdicts with the new ones, as a line of the audit."""
    answered = [verdict for verdict in draw.verdicts if verdict.new]
    flipped = [verdict for verdict in answered if verdict.flipped]
    third = [(verdict, verdict.new[1]) for verdict in flipped if len(verdict.new) > 1]
    confirmed = sum(answer == verdict.new[0] for verdict, answer in third)
    taken_back = sum(answer == verdict.stored for verdict, answer in third)
    effects, largest = _effects(report, draw, answered)
    result = compare_answers(effects, len(answered), len(flipped), confirmed, taken_back, largest)
    errors = sum(bool(verdict.answers) and not verdict.new for verdict in draw.verdicts)
    changed = None if stopped and not result.changed else result.changed
    if changed is not None:
        why = ""
    elif draw.changed and not draw.kinds:
        why = "the prompts or the judge's settings have changed since this report"
    elif stopped or errors:
        why = stopped or f"{counted(errors, 'answer')} failed"
    else:
        few = counted(len(answered), "verdict is", "verdicts are")
        why = f"{few} too few to tell ({counted(len(flipped), 'flip')})"
    means = {name: ShiftLine(at.mean, at.ends and list(at.ends)) for name, at in result.shifts.items()}
    before, after = [verdict.stored for verdict in answered], [verdict.new[0] for verdict in answered]
    return AgainLine(
        asked=len(answered),
        of=draw.kinds.total(),
        flips=len(flipped),
        confirmed=confirmed,
        taken_back=taken_back,
        errors=errors,
        kappa=kappa_of(before, after) if answered else None,
        means=means,
        changed=changed,
        why=why,
        calls=spent.calls,
        cost_usd=spent.cost_usd,
    )


def _effects(
    report: Report, draw: _Draw, answered: Sequence[StoredVerdict]
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return how much each new verdict changes each judged mean, times the N verdicts that could be drawn.

    The second result maps each mean to N / the number of those verdicts that it is computed from.
    """
    names, sizes = dict[tuple[str, str], str](), dict[tuple[str, str], int]()
    effects, largest = dict[str, list[float]](), dict[str, float]()
    reads: Mapping[str, Sequence[str]] = report.manifest.get("reads") or {}
    for summary in report.summaries:
        if summary.basis.source in {"judge", "best"} and summary.n:
            key = summary.measure, summary.system
            names[key] = name = ", ".join(key) if len(report.systems) > 1 else summary.measure
            sizes[key], effects[name] = summary.n, [0.0] * len(answered)
            of_kinds = sum(draw.kinds[kind] for kind in reads.get(summary.type) or draw.kinds)
            largest[name] = draw.kinds.total() / of_kinds if of_kinds else 1.0
    wanted: dict[SampleKey, list[int]] = defaultdict(list)
    for at, verdict in enumerate(answered):
        for sample in verdict.samples if verdict.flipped else ():
            wanted[sample].append(at)
    jobs = {job.sample.key: job for job in draw.jobs(report.samples_of(wanted.keys()).values())}
    for sample, flips in wanted.items():
        of_sample = names.keys() & {(measure, sample[1]) for measure in report.measures}
        for at, changes in _changes(jobs[sample], draw, {at: answered[at] for at in flips}):
            for key in of_sample:
                weight = draw.kinds.total() / sizes[key] / draw.trials.get(sample[:2], 1)
                effects[names[key]][at] += weight * changes.get(key[0], 0.0)
    return effects, largest


def _changes(
    job: Job, draw: _Draw, flips: Mapping[int, StoredVerdict]
) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield each key of `flips` with its verdict's effect on each score of the job's sample, by measure.

    The effect is the average of the changes if the verdict is replaced before, and after, all others.
    """
    new = {at: (verdict.judgement.key, verdict.answers[0]) for at, verdict in flips.items()}
    none, every = _values(job, draw, {}), _values(job, draw, dict(new.values()))
    for at, answer in new.items():
        first = _values(job, draw, dict([answer]))
        others = _values(job, draw, dict(pair for other, pair in new.items() if other != at))
        known = none.keys() & every.keys() & first.keys() & others.keys()
        yield at, {name: (first[name] - none[name] + every[name] - others[name]) / 2 for name in known}


def _values(job: Job, draw: _Draw, new: Mapping[str, Answer]) -> dict[str, float]:
    """Return the scores of the job's sample by measure, without missing scores."""

    async def find(asked: Sequence[Sequence[AnyQuestion]]) -> list[list[Answer]]:
        rows = await draw.answers.lookup(asked)
        return [[new.get(answer.judgement.key, answer) for answer in answers] for answers in rows]

    part = run_coroutine(evaluate_jobs([job], find, BlockRows(), draw.settings))
    return {score.measure: score.value for score in part.scores if score.value is not None}
