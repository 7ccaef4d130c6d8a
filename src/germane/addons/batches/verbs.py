"""The commands `germane questions` and `germane answers`, for other inference engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
from germane.evaluation.choice import ledger_address
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
    else:
        say("\n".join(_in_words(done, asked)))
    return 0


def _in_words(done: dict[str, Any], asked: int) -> Iterator[str]:
    """Yield what was written; `asked` requests are in batches already."""
    if asked:
        where = "in batches or in an earlier file of questions"
        yield f"{counted(asked, 'request is', 'requests are')} {where}; germane run --resume REPORT --later fetches batches"
    if done["requests"]:
        questions = counted(done["questions"], "question")
        yield f"{counted(done['requests'], 'request')} ({questions}) in {done['file']}; then: germane answers FILE"
    elif not asked:
        yield "every question is answered; `germane run` will make no calls"
    if done["later"]:
        yield f"about {counted(done['later'], 'question')} more depend on their answers: run germane questions again after it"
    if done["waiting"]:
        yield f"{counted(done['waiting'], 'sample')} without an answer of the target: run germane run first"


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
            left = len(table.requests_in(FILE))
        if store is None or not left:
            problem = f"the ledger {location} has no unanswered request of germane questions"
            raise InputError(problem, fix="name the ledger that germane questions used: --ledger PLACE")
        lines = chain.from_iterable(read_answers(file, damaged) for file in files)
        for some in batched(lines, _AT_ONCE):
            records = table.records([line["custom_id"] for line in some])
            for line in some:
                answers.take(line, records.get(line["custom_id"]), "file")
            stored += len(store.put(answers.rows))
            answers.groups.clear()
        table.answered(list(answers.done))
    left -= len(answers.done)
    done: dict[str, Any] = {"schema_version": 1, "answers": stored, "requests": len(answers.done)}
    done |= {"left": left}
    done |= {"failed": answers.failed, "damaged": damaged, "unknown": answers.unknown}
    if json:
        print_document(done)
    else:
        say("\n".join(_answers_in_words(done, location)))
    return 3 if answers.failed or damaged else 0


def _answers_in_words(done: dict[str, Any], location: str) -> Iterator[str]:
    yield f"{counted(done['answers'], 'answer')} to {counted(done['requests'], 'request')} in {location}"
    for why, number in Counter(why[:200] for why in done["failed"].values()).most_common(10):
        yield f"{counted(number, 'line')} not usable: {why}"
    if done["damaged"]:
        yield f"{counted(len(done['damaged']), 'line')} cut off or damaged: {some_of(done['damaged'])}"
    if done["unknown"]:
        yield f"{counted(done['unknown'], 'line')} with an answer to an unknown request, or one read before"
    if done["left"]:
        yield f"{counted(done['left'], 'request')} without an answer: `germane questions` exports them again"
