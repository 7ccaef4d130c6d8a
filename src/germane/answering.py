"""Targets' answers: asked with as many workers as each takes, on disk before anything is judged."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TypeAlias

from germane.errors import InputError, TargetError
from germane.judges.script import ScriptGrade
from germane.measures.graders import CODE_JUDGE, Grader
from germane.samples.contexts import find_contexts
from germane.samples.dumping import sample_to_json
from germane.samples.reading import samples_from
from germane.suite import Item
from germane.targets import Target
from germane.types import FrozenDict, Json, Sample, freeze

__all__ = ["answered", "at_hand", "prepared", "script_document", "script_of"]

_FILE = "answers.jsonl"


async def answered(
    items: Sequence[Item], folder: Path, on_progress: Callable[[int, int], None], *, resumed: bool
) -> AsyncIterator[Item]:
    """The items in their order, each with its target's answer; a failed target is the sample's `error`.

    Every answer is appended to `answers.jsonl` and synced as it comes. A resumed run asks only for those that
    are not there.
    """
    earlier = _earlier(folder) if resumed else {}
    targets = _opened(items)
    desk = _Desk(targets, earlier, folder, on_progress, len(items), resumed=resumed)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(desk.answer(item)) for item in items]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        desk.close()
        for target in targets.values():
            await target.close()
    for task in tasks:
        yield task.result()


async def at_hand(items: Sequence[Item], folder: Path | None) -> list[tuple[Item, bool]]:
    """The items, each with its answer where that can be had without asking a live system, and whether it could be.

    An earlier session's answers stand in its `folder`. Nothing is written.
    """
    earlier = _earlier(folder) if folder is not None else {}
    targets = _opened(items)
    found = []
    for item in items:
        target = targets.get(_whom(item))
        sample = item.sample if target is None else earlier.get(_name(item.sample))
        if sample is None and target is not None and not target.live:
            sample = await _ask(target, item)
        found.append((item if sample is None else replace(item, sample=sample), sample is not None))
    return found


_Whom: TypeAlias = tuple[str, Path | None]


def _whom(item: Item) -> _Whom:
    return item.target, item.targets_file


def _opened(items: Sequence[Item]) -> dict[_Whom, Target]:
    """Every target that is to be asked, each once."""
    from germane.targets import open_target

    targets: dict[_Whom, Target] = {}
    for item in items:
        if item.target and _whom(item) not in targets:
            targets[_whom(item)] = open_target(item.target, item.targets_file or item.folder)
    return targets


async def _ask(target: Target, item: Item) -> Sample:
    """The item's sample, answered; what the target failed at is its `error`."""
    asked = item.sample if item.case is None else replace(item.case, sample=item.sample)
    try:
        sample = await target.answer(asked)
    except TargetError as failure:
        return replace(item.sample, error=f"target {target.name}: {failure}")
    return replace(sample, id=item.sample.id, system=item.sample.system, trial=item.sample.trial)


class _Desk:
    """Asks each item's target, and keeps the log."""

    def __init__(
        self,
        targets: dict[_Whom, Target],
        earlier: dict[str, Sample],
        folder: Path,
        on_progress: Callable[[int, int], None],
        total: int,
        *,
        resumed: bool,
    ) -> None:
        self._targets, self._earlier = targets, earlier
        folder.mkdir(parents=True, exist_ok=True)
        self._log: IO[str] = (folder / _FILE).open("a" if resumed else "w", encoding="utf-8")
        if resumed:
            self._log.write("\n")  # ends a line that a killed run left half written
        self._workers = {key: asyncio.Semaphore(max(1, target.workers)) for key, target in targets.items()}
        self._on_progress, self._total, self._done = on_progress, total, 0

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    async def answer(self, item: Item) -> Item:
        """The item with its answer."""
        if not item.target:
            return item
        name = _name(item.sample)
        if (sample := self._earlier.get(name)) is None:
            async with self._workers[_whom(item)]:
                sample = await _ask(self._targets[_whom(item)], item)
            self._log.write(
                json.dumps({"key": name, "sample": sample_to_json(sample)}, ensure_ascii=False) + "\n"
            )
            self._log.flush()
            os.fsync(self._log.fileno())
        self._done += 1
        self._on_progress(self._done, self._total)
        return replace(item, sample=sample)


def prepared(item: Item, document_ids: Callable[[Sample], Sample], notes: Counter[str]) -> Item:
    """The item with the contexts that its answer holds, where it has no list of its own, and with document ids."""
    sample = item.sample
    if sample.contexts is None and sample.calls is None and sample.error is None:
        if sample.response or sample.messages:
            found = find_contexts(sample, contexts_from=item.contexts_from)
            sample = replace(sample, contexts=found.contexts, calls=found.calls)
            notes.update([found.note] if found.note else [])
        if item.target and sample.contexts is None and sample.calls is None:
            sample = replace(sample, error=f"no contexts found in the answer of target {item.target}")
    return replace(item, sample=document_ids(sample))


def _name(sample: Sample) -> str:
    return json.dumps([sample.id, sample.system, sample.trial])


def _earlier(folder: Path) -> dict[str, Sample]:
    """The answers that an earlier run left; a half-written last line is passed over, failures are asked again."""
    path = folder / _FILE
    found: dict[str, Sample] = {}
    if path.exists():
        for line in path.read_text("utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                (sample,) = samples_from([row["sample"]])
            except (ValueError, KeyError, TypeError, InputError):
                continue
            if sample.error is None:
                found[row["key"]] = sample
    return found


def script_of(item: Item, grader: Grader) -> ScriptGrade | None:
    """What a code_judge grader runs for this item, None for a measure."""
    spec = item.specs.get(grader.name)
    if spec is None or spec.script is None or grader.measure != CODE_JUDGE:
        return None
    return ScriptGrade(
        command=spec.script,
        document=freeze(script_document(item, spec.config)),
        cwd=str(spec.cwd or item.folder),
        timeout=spec.timeout,
        env=spec.env,
        of=(item.sample.id, item.sample.system, str(item.sample.trial), grader.name),
    )


def script_document(item: Item, config: FrozenDict) -> dict[str, Json]:
    """The document on a grading script's stdin, the keys of both generations side by side."""
    sample, case = item.sample, item.case
    reference = (case.reference_answer if case else "") or sample.reference or ""
    criteria = (case.expected_outcome if case else "") or reference
    said = [_message(message) for message in sample.messages]
    given = (
        [_message(message) for message in case.input_messages]
        if case
        else [{"role": "user", "content": sample.query}]
    )
    wanted = [_message(message) for message in case.expected_messages] if case else []
    ms = sample.metadata.get("ms")
    return {
        "question": (case.question if case else "") or sample.query,
        "expected_outcome": criteria,
        "expected_messages": wanted,
        "reference_answer": reference,
        "candidate_answer": sample.response or "",
        "output_messages": said or None,
        "guideline_files": list(case.guideline_files) if case else [],
        "input_files": list(case.input_files) if case else [],
        "input_messages": given,
        "trace_summary": None,
        "config": config or None,
        "criteria": criteria,
        "expected_output": wanted or reference,
        "output": said or sample.response or "",
        "input": given,
        "messages": said,
        "metadata": dict(case.metadata) if case else dict(sample.metadata),
        "trace": None,
        "token_usage": sample.metadata.get("token_usage"),
        "cost_usd": sample.metadata.get("cost_usd"),
        "duration_ms": sample.metadata.get("duration_ms", ms),
        "start_time": None,
        "end_time": None,
    }


def _message(message: object) -> Json:
    return sample_to_json(message)  # type: ignore[arg-type]
