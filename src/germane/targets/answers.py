"""Query the systems under test concurrently, and store their answers on disk before anything is judged."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from msgspec import structs

from germane.encoding import digest
from germane.errors import InputError, TargetError, excerpt
from germane.folder.files import TableFile, object_in, sync
from germane.folder.tables import StoredTables
from germane.measures.scoring import Job
from germane.samples.contexts import find_contexts
from germane.samples.reading import samples_from
from germane.samples.rows import sample_to_json
from germane.tables.scores import SampleKey
from germane.types import Sample

if TYPE_CHECKING:
    from germane.targets.target import Target

_FILE = "answers.jsonl"


class PlannedCase(Job, kw_only=True):
    """A case to evaluate: a job, and the name of the target to query for its sample.

    `target` is "" if no system must be queried, because the contexts are already known. `source` is the path
    of the file that contains the case, as the user wrote it. `row` is the case's position among all cases,
    including cases in other parts of the evaluation. `is_prepared` is True if the sample comes from a
    complete report.
    """

    target: str = ""
    targets_file: Path | None = None
    source: Path = Path()
    contexts_from: Literal["auto", "text"] = "auto"
    row: int = 0
    is_prepared: bool = False

    @property
    def system(self) -> _System:
        """The system to query: (name of the target, targets file), or ("", None) if none is queried."""
        return self.target, self.targets_file if self.target else None


_System: TypeAlias = tuple[str, Path | None]
J = TypeVar("J", bound=Job)


def with_sample(job: J, sample: Sample) -> J:
    """Return a copy of the job, and of its eval-file case, with another sample."""
    if sample is job.sample:
        return job
    case = None if job.case is None else replace(job.case, sample=sample)
    return structs.replace(job, sample=sample, case=case)


class TargetAnswers:
    """The targets' answers in one evaluation, from earlier sessions and from this one.

    New answers are appended to a file in the report folder. Only `--resume` reads that file; a new run
    queries the systems again. Once the report is complete, its samples contain the answers.

    Args:
        folder: The report folder. If None, answers are only stored in memory.
        resumed: Whether to read the answers of earlier sessions in the folder; otherwise they are deleted.
        replaces: Whether the report in the folder belongs to another evaluation, so that its samples are
            ignored.
    """

    def __init__(self, folder: Path | None, *, resumed: bool, replaces: bool = False) -> None:
        self._path = None if folder is None else folder / _FILE
        self._found: dict[SampleKey, Sample] = {}
        self._prepared = set[SampleKey]()
        self._log: IO[bytes] | None = None
        if folder is None or self._path is None:
            return
        if not resumed:
            self._path.unlink(missing_ok=True)
            return
        tables = StoredTables(folder)
        if not replaces and tables.files["samples"].path.exists():
            self._prepared = self._keep(tables.samples)
        for _, _, line in TableFile(self._path).lines():
            with suppress(
                ValueError, RecursionError, KeyError, TypeError, InputError
            ):  # an incomplete last line
                self._prepared -= self._keep(samples_from([object_in(line)["sample"]]))

    def _keep(self, samples: Iterable[Sample]) -> set[SampleKey]:
        """Remember the samples that did not fail (others are queried again), and return their keys."""
        found = {sample.key: sample for sample in samples if find_contexts(sample)[0].error is None}
        self._found |= found
        return set(found)

    def answered(self, planned: PlannedCase) -> PlannedCase | None:
        """Return the case with the stored answer to its query, or None if no answer is stored."""
        key = planned.sample.key
        if (sample := self._found.get(key)) is None or sample.query != planned.sample.query:
            return None
        return structs.replace(with_sample(planned, sample), is_prepared=key in self._prepared)

    def add(self, sample: Sample) -> None:
        """Remember an answered sample and append it to the file of answers."""
        self._keep([sample])
        self._prepared.discard(sample.key)
        if self._path is None:
            return
        if self._log is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._log = self._path.open("ab")
            self._log.write(b"\n" * (self._log.tell() > 0))  # ends a line that a killed run left half written
        self._log.write(json.dumps({"sample": sample_to_json(sample)}, ensure_ascii=False).encode() + b"\n")
        self._log.flush()

    def close(self) -> None:
        """Flush all answers to disk and close the file of answers."""
        if self._log is not None:
            sync(self._log)
            self._log.close()
            self._log = None

    @staticmethod
    def forget(folder: Path) -> None:
        """Delete the file of the targets' answers in a report folder whose report is complete."""
        (folder / _FILE).unlink(missing_ok=True)


async def ask_targets(
    cases: Sequence[PlannedCase],
    targets: Mapping[_System, Target],
    answers: TargetAnswers,
    on_progress: Callable[[int, int], None],
    *,
    parts: int = 1,
) -> list[PlannedCase]:
    """Query the targets for the cases without a stored answer; return all cases with answers, in order.

    If a target fails, the sample's `error` is set. Each target gets at most `workers` queries at once,
    divided by the number of `parts` of the evaluation that run in parallel. Each answer is stored when it
    arrives. `on_progress` is called with the number of answered cases and the number of all cases.
    """
    workers = {key: asyncio.Semaphore(max(1, target.workers // parts)) for key, target in targets.items()}
    done = 0

    async def answer(planned: PlannedCase) -> PlannedCase:
        nonlocal done
        if not planned.target:
            return planned
        answered = answers.answered(planned)
        if answered is None:
            async with workers[planned.system]:
                sample = await _ask(targets[planned.system], planned)
            answers.add(sample)
            answered = with_sample(planned, sample)
        done += 1
        on_progress(done, len(cases))
        return answered

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(answer(planned)) for planned in cases]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        answers.close()
        for target in targets.values():
            await target.close()
    return [task.result() for task in tasks]


async def answers_at_hand(
    cases: Sequence[PlannedCase], answers: TargetAnswers
) -> list[tuple[PlannedCase, bool]]:
    """Return each case, with True if its answer is known without querying a live system.

    Such a case has its answer. Nothing is written.
    """
    targets = open_targets(cases, live=False)
    result = []
    for planned in cases:
        target = targets.get(planned.system)
        answered = answers.answered(planned) if planned.target else planned
        if answered is None and target is not None:
            answered = with_sample(planned, await _ask(target, planned))
        result.append((answered or planned, answered is not None))
    return result


def open_targets(cases: Sequence[PlannedCase], *, live: bool = True) -> dict[_System, Target]:
    """Open these cases' targets by (name, targets file); without `live`, recorded and fixed ones."""
    from germane.targets.targetsfile import open_target, target_entry

    targets: dict[_System, Target] = {}
    for name, file in dict.fromkeys(planned.system for planned in cases):
        if file is not None and (live or not target_entry(name, file)[2].live):
            targets[name, file] = open_target(name, file)
    return targets


_NO_ANSWER = ("description", "models", "timeout", "timeout_seconds", "workers")
"""The settings of a target that do not change its answers."""


def check_targets(cases: Sequence[PlannedCase], folder: Path, stored: Mapping[str, Any]) -> Mapping[str, str]:
    """Return a digest of the settings of each target whose answers these cases have, by its file and name.

    `stored` is the manifest in `folder` of the evaluation that is resumed. Raises InputError if a target is
    unknown, is live but from a file that is not trusted, or has changed and has only some answers stored.
    """
    digests, before = dict[str, str](), stored.get("target_digests") or {}
    for system in dict.fromkeys(planned.system for planned in cases):
        name, file = system
        if file is None:
            continue
        from germane.targets.targetsfile import check_asked  # most evaluations do not need this import

        entry, path, _ = check_asked(name, file)
        key = f"{path.resolve()}: {name}"
        digests[key] = digest({key: of for key, of in entry.json().items() if key not in _NO_ANSWER})
        if before.get(key, digests[key]) != digests[key]:
            answers = TargetAnswers(folder, resumed=True, replaces=stored.get("replaces", False))
            known = [answers.answered(planned) is not None for planned in cases if planned.system == system]
            if any(known) and not all(known):
                problem = f"the target {name} has changed since this evaluation stored answers of it"
                fix = "undo the change, or run without --resume: a report is of one system"
                raise InputError(problem, fix=fix, place=entry.location)
            digests[key] = before[key] if all(known) else digests[key]
    return digests


async def _ask(target: Target, planned: PlannedCase) -> Sample:
    sample = planned.sample
    try:
        result = await target.answer(planned.case or sample)
    except TargetError as failure:
        return structs.replace(sample, error=f"target {target.name}: {failure}")
    return structs.replace(result, id=sample.id, system=sample.system, trial=sample.trial)


def prepared(
    planned: PlannedCase, document_ids: Callable[[Sample], Sample], notes: Counter[str]
) -> PlannedCase:
    """Return the case with a sample that is ready for judging.

    If the sample has no contexts, they are searched for in its answer. If a target's answer contains no
    contexts, the sample gets an `error`. `document_ids` returns a sample with document ids made from its
    chunk ids. `notes` counts the samples by the note on how their contexts were found.
    """
    sample = planned.sample
    if sample.contexts is None and sample.calls is None and sample.error is None:
        if sample.response or sample.messages:
            sample, note = find_contexts(sample, contexts_from=planned.contexts_from)
            notes.update([note] if note else [])
        if planned.target and sample.contexts is None and sample.calls is None:
            spoken = (message.content for message in reversed(sample.messages) if message.content)
            answer = next(spoken, None) if sample.response is None else sample.response
            problem = f"no contexts found in the answer of target {planned.target}: {excerpt(answer)}"
            sample = structs.replace(sample, error=problem)
    return with_sample(planned, sample if planned.is_prepared else document_ids(sample))
