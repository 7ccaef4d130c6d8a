"""Answers of the systems under test: asked with as many workers as each takes, on disk before anything is judged."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypeAlias, TypeVar

from msgspec import structs

from germane.errors import InputError, TargetError, excerpt
from germane.folder.lines import TableFile
from germane.judging.caller import called_by, caller
from germane.measures.scoring import Job
from germane.samples.contexts import find_contexts
from germane.samples.reading import samples_from
from germane.samples.rows import sample_to_json
from germane.types import Sample

if TYPE_CHECKING:
    from germane.targets.target import Target

_FILE = "answers.jsonl"


class PlannedCase(Job, kw_only=True):
    """A job with the system to ask for its sample ("" = none).

    `source` is the path, as it was named, that the case is evaluated for; `row` is the case's place among those of all
    parts, where the evaluation is one of several parts.
    """

    target: str = ""
    targets_file: Path | None = None
    source: Path = Path()
    folder: Path = Path()
    contexts_from: Literal["auto", "text"] = "auto"
    row: int = 0

    @property
    def system(self) -> _System:
        """The system to ask: its name, and the targets file that describes it."""
        return self.target, self.targets_file


_System: TypeAlias = tuple[str, Path | None]
J = TypeVar("J", bound=Job)


def with_sample(job: J, sample: Sample) -> J:
    """The job with another sample, in its case of an eval file too."""
    if sample is job.sample:
        return job
    case = None if job.case is None else replace(job.case, sample=sample)
    return structs.replace(job, sample=sample, case=case)


async def ask_targets(
    cases: Sequence[PlannedCase],
    targets: Mapping[_System, Target],
    folder: Path | None,
    on_progress: Callable[[int, int], None],
    *,
    resumed: bool,
    parts: int = 1,
) -> list[PlannedCase]:
    """The cases in their order, each with its target's answer; a failed target is the sample's `error`.

    With a folder every answer is appended to `answers.jsonl` there and synced when it arrives. A resumed run asks only for
    those that are not there. Each of several `parts` that run side by side has its share of a target's workers. Where a
    target must be asked in the calling thread, and this is it, the asking runs in a thread of its own: time-outs go on.
    """
    known = caller()
    asking = _asked(cases, targets, folder, on_progress, resumed=resumed, parts=parts)
    here = known.thread == threading.get_ident()
    if not here or not any(target.in_calling_thread for target in targets.values()):
        return await asking
    from germane.targets.python import OwnLoop

    loop = OwnLoop()
    try:
        return await asyncio.wrap_future(loop.run(called_by(known, asking)))
    finally:
        loop.stop()


async def _asked(
    cases: Sequence[PlannedCase],
    targets: Mapping[_System, Target],
    folder: Path | None,
    on_progress: Callable[[int, int], None],
    *,
    resumed: bool,
    parts: int,
) -> list[PlannedCase]:
    earlier = _stored(folder) if resumed and folder is not None else {}
    workers = {key: asyncio.Semaphore(max(1, target.workers // parts)) for key, target in targets.items()}
    done = 0

    async def answer(planned: PlannedCase, log: IO[str] | None) -> PlannedCase:
        nonlocal done
        if not planned.target:
            return planned
        name = _name(planned.sample)
        sample = earlier.get(name)
        if sample is None or sample.query != planned.sample.query:
            async with workers[planned.system]:
                sample = await _ask(targets[planned.system], planned)
            if log is not None:
                row = {"key": name, "sample": sample_to_json(sample)}
                log.write(json.dumps(row, ensure_ascii=False) + "\n")
                log.flush()
                os.fsync(log.fileno())
        done += 1
        on_progress(done, len(cases))
        return with_sample(planned, sample)

    with nullcontext() if folder is None else _opened_log(folder, resumed=resumed) as log:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(answer(planned, log)) for planned in cases]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            for target in targets.values():
                await target.close()
    return [task.result() for task in tasks]


def _opened_log(folder: Path, *, resumed: bool) -> IO[str]:
    folder.mkdir(parents=True, exist_ok=True)
    log = (folder / _FILE).open("a" if resumed else "w", encoding="utf-8")
    if resumed:
        log.write("\n")  # ends a line that a killed run left half written
    return log


async def answers_at_hand(
    cases: Sequence[PlannedCase], folder: Path | None
) -> list[tuple[PlannedCase, bool]]:
    """The cases, each with its answer where that needs no live system, and whether it has one.

    Answers of an earlier session stand in its `folder`. Nothing is written.
    """
    earlier = _stored(folder) if folder is not None else {}
    targets = open_targets(cases, live=False)
    result = []
    for planned in cases:
        target = targets.get(planned.system)
        sample = earlier.get(_name(planned.sample)) if planned.target else planned.sample
        if sample is None and target is not None:
            sample = await _ask(target, planned)
        result.append((planned if sample is None else with_sample(planned, sample), sample is not None))
    return result


def open_targets(cases: Sequence[PlannedCase], *, live: bool = True) -> dict[_System, Target]:
    """Every target that is to be asked, each once; without `live` those alone whose answers are on record."""
    from germane.targets.targetsfile import kind_of, open_target

    targets: dict[_System, Target] = {}
    for planned in cases:
        where = planned.targets_file or planned.folder
        if (
            planned.target
            and planned.system not in targets
            and (live or not kind_of(planned.target, where).live)
        ):
            targets[planned.system] = open_target(planned.target, where)
    return targets


def check_targets(cases: Iterable[PlannedCase]) -> None:
    """InputError where a target of these cases is unknown, or not trusted: before a folder is made."""
    asked = dict.fromkeys(
        (planned.target, planned.targets_file or planned.folder) for planned in cases if planned.target
    )
    if asked:
        from germane.targets.targetsfile import check_asked  # which most evaluations have no use for

        for name, where in asked:
            check_asked(name, where)


async def _ask(target: Target, planned: PlannedCase) -> Sample:
    """The sample, answered; a failure of the target is its `error`."""
    sample = planned.sample
    try:
        result = await target.answer(planned.case or sample)
    except TargetError as failure:
        return structs.replace(sample, error=f"target {target.name}: {failure}")
    return structs.replace(result, id=sample.id, system=sample.system, trial=sample.trial)


def _name(sample: Sample) -> str:
    return json.dumps([sample.id, sample.system, sample.trial])


def _stored(folder: Path) -> dict[str, Sample]:
    """The answers of an earlier session; a half-written last line is passed over, failures are asked again."""
    samples: dict[str, Sample] = {}
    for row in TableFile(folder / _FILE).whole_rows():
        try:
            (sample,) = samples_from([row["sample"]], file=False)
        except (ValueError, KeyError, TypeError, InputError):
            continue
        if sample.error is None and find_contexts(sample).error is None:
            samples[row["key"]] = sample
    return samples


def prepared(
    planned: PlannedCase, document_ids: Callable[[Sample], Sample], notes: Counter[str]
) -> PlannedCase:
    """The case with the contexts that its answer holds, where it has no list of its own, and with document ids."""
    sample = planned.sample
    if sample.contexts is None and sample.calls is None and sample.error is None:
        if sample.response or sample.messages:
            contexts = find_contexts(sample, contexts_from=planned.contexts_from)
            sample = contexts.add_to(sample)
            notes.update([contexts.note] if contexts.note else [])
        if planned.target and sample.contexts is None and sample.calls is None:
            spoken = (message.content for message in reversed(sample.messages) if message.content)
            answer = next(spoken, None) if sample.response is None else sample.response
            problem = f"no contexts found in the answer of target {planned.target}: {excerpt(answer)}"
            sample = structs.replace(sample, error=problem)
    return with_sample(planned, document_ids(sample))
