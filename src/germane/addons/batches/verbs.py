"""The commands `germane questions` and `germane answers`, for other inference engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

from germane.addons.batches.requests import (
    FILE,
    Answers,
    AskedTable,
    read_answers,
    requests_for_file,
    split_trivial,
)
from germane.clean import counted, some_of
from germane.cli.output import print_document, refuse_input, say, spec_of
from germane.encoding import batched
from germane.errors import InputError
from germane.evaluation.spec import ledger_address
from germane.folder.files import read_manifest
from germane.ledger.sqlite import is_there, open_at
from germane.samples.files import local, whole_file

_AT_ONCE = 500
"""The number of lines of answers that are stored together."""


def questions(*, output: Path, json: bool, **flags: Any) -> int:
    """Export the requests that a run would send, one per line, for another engine (`vllm run-batch`, a batch API).

    Given a report folder, export the questions that its run left unanswered. No calls are made, and targets
    are not queried. Some questions depend on answers to others: read the engine's output with `germane
    answers`, then repeat until no request is left; `germane run` then makes no calls.
    """
    from germane.evaluation.run import dry_run

    refuse_input(output, [*flags["paths"], flags.get("labels"), flags.get("targets")])
    if output.suffix.lower() in {".csv", ".tsv", ".parquet", ".xlsx"}:
        raise InputError(f"requests are JSON Lines, not {output.suffix}", fix="name a .jsonl file")
    paths = [local(path) for path in flags["paths"][:2]]
    stored = paths[0] if len(paths) == 1 and (paths[0] / "manifest.json").is_file() else None
    chosen = spec_of({**flags, "resume": stored, "paths": [] if stored else flags["paths"]})
    estimate = dry_run(chosen)
    before = (read_manifest(stored).get("options") or {}).get("ledger") if stored is not None else None
    location = chosen.ledger or before or ledger_address()
    known, others = split_trivial(estimate.certain)
    requests, asked = {request.custom_id: request for request in requests_for_file(others)}, 0
    if estimate.certain:
        with closing(open_at(location)) as store:
            table = AskedTable(store)
            in_flight = table.in_flight()
            unasked = {name: row for name, row in requests.items() if in_flight.isdisjoint(row.keys)}
            asked, requests = len(requests) - len(unasked), unasked
            table.add(FILE, requests.values())
            store.put(known)
    with whole_file(output) as file:
        file.writelines(request.line + b"\n" for request in requests.values())
    number = sum(len(request.keys) for request in requests.values())
    done: dict[str, Any] = {"schema_version": 1, "requests": len(requests), "questions": number}
    done |= {"later": estimate.estimated, "waiting": estimate.waiting, "file": str(output)}
    if json:
        print_document(done)
        return 0
    lines, count = list[str](), counted(len(requests), "request")
    if asked:
        where = "in batches or in an earlier file of questions"
        are = counted(asked, "request is", "requests are")
        lines.append(f"{are} {where}; germane run --resume REPORT --later fetches batches")
    if requests:
        lines.append(f"{count} ({counted(number, 'question')}) in {output}; then: germane answers FILE")
    elif not asked:
        lines.append("every question is answered; `germane run` will make no calls")
    if estimate.estimated:
        more = counted(estimate.estimated, "question")
        lines.append(f"about {more} more depend on their answers: run germane questions again after it")
    if estimate.waiting:
        waiting = counted(estimate.waiting, "sample")
        lines.append(f"{waiting} without an answer of the target: run germane run first")
    say("\n".join(lines))
    return 0


def answers(files: Sequence[Path], *, ledger: str | None, json: bool) -> int:
    """Read an engine's answers to the requests of `germane questions` into the ledger.

    A line is {"custom_id": ..., "response": {"status_code": 200, "body": {...}}}, as written by
    `vllm run-batch` and OpenAI's batches, or contains the model's text as "response". If a line failed or
    cannot be read, the exit code is 3, and `germane questions` exports its request again.
    """
    location, answers, stored, left = ledger_address(ledger), Answers(), 0, 0
    damaged: list[str] = []
    with closing(open_at(location)) if is_there(location) else nullcontext() as store:
        if store is not None:
            table = AskedTable(store)
            left = table.waiting(FILE)
        if store is None or not left:
            problem = f"the ledger {location} has no unanswered request of germane questions"
            raise InputError(problem, fix="name the ledger that germane questions used: --ledger PLACE")
        every = chain.from_iterable(read_answers(file, damaged) for file in files)
        for chunk in batched(every, _AT_ONCE):
            records = table.records([line["custom_id"] for line in chunk])
            for line in chunk:
                answers.take(line, records.get(line["custom_id"]), "file")
            stored += len(store.put(answers.rows))
            answers.groups.clear()
        table.answered(list(answers.done))
    left -= len(answers.done)
    code = 3 if answers.failed or damaged else 0
    if json:
        done = {"schema_version": 1, "answers": stored, "requests": len(answers.done), "left": left}
        print_document({**done, "failed": answers.failed, "damaged": damaged, "unknown": answers.unknown})
        return code
    lines = [f"{counted(stored, 'answer')} to {counted(len(answers.done), 'request')} in {location}"]
    for why, number in Counter(why[:200] for why in answers.failed.values()).most_common(10):
        lines.append(f"{counted(number, 'line')} not usable: {why}")
    if damaged:
        lines.append(f"{counted(len(damaged), 'line')} cut off or damaged: {some_of(damaged)}")
    if answers.unknown:
        lines.append(
            f"{counted(answers.unknown, 'line')} with an answer to an unknown request, or one read before"
        )
    if left:
        again = "`germane questions` exports them again"
        lines.append(f"{counted(left, 'request')} without an answer: {again}")
    say("\n".join(lines))
    return code
