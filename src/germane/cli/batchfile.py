"""`germane questions` and `germane answers`: what is to be asked, as a file for another engine of models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from germane.cli.values import print_document, say
from germane.errors import InputError


def questions(*, output: Path, json: bool, **flags: Any) -> int:
    """Write what a run would ask and no ledger answers, one request per line, for another engine: `vllm run-batch`, a batch API.

    A report's folder in the place of data gives the questions that its run left open. Nobody is asked, and no target is: a
    sample whose target has not answered waits. Questions that follow from answers (whether a claim that is not known yet is
    supported) make the next round: `germane answers` reads the answers, then this command again, until nothing is left; then
    `germane run` asks nobody.
    """
    import orjson

    from germane.cli.values import options_of
    from germane.evaluation.choice import ledger_place
    from germane.evaluation.options import Watch
    from germane.evaluation.plan import separate
    from germane.evaluation.run import forecast
    from germane.judging.batchfile import AskedFile, known_at_once, requests_of
    from germane.ledger.store import SQLiteLedger

    paths = [Path(path) for path in flags["paths"]]
    stored = paths[0] if len(paths) == 1 and (paths[0] / "manifest.json").is_file() else None
    if stored is not None:
        flags["paths"] = []
    unset: dict[str, Any] = {
        "resume": stored,
        "replay": None,
        "no_cache": False,
        "price": None,
        "headers": [],
    }
    chosen = options_of({**unset, **flags})
    watch = Watch()
    with chosen.confined():
        parts = {"": chosen} if stored is not None else separate(chosen, dry=True)
    found = [forecast(one, watch, resume=stored, retry_errors=True) for one in parts.values()]
    place = chosen.ledger or _ledger_of(stored) or ledger_place()
    asked = AskedFile(place)
    requests = {one.custom_id: one for one in requests_of(pair for each in found for pair in each.certain)}
    records = asked.read() | {name: one.record for name, one in requests.items()}
    if requests:
        asked.write(records)
    if free := known_at_once(pair for each in found for pair in each.certain):
        with closing(SQLiteLedger(place)) as store:
            store.put(free)
    output.write_bytes(b"".join(orjson.dumps(one.line) + b"\n" for one in requests.values()))
    later = sum(each.estimated for each in found)
    waiting = sum(each.waiting for each in found)
    done = {"schema_version": 1, "requests": len(requests), "questions": sum(len(item) for one in requests.values() for item in one.record["items"]),
            "later": later, "waiting": waiting, "file": str(output)}  # fmt: skip
    if json:
        print_document(done)
        return 0
    say("\n".join(_said(done)))
    return 0


def count(number: int, what: str) -> str:
    """`1 request`, `2,000 requests`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _said(done: dict[str, Any]) -> Iterator[str]:
    if done["requests"]:
        asked = count(done["questions"], "question")
        yield f"{count(done['requests'], 'request')} ({asked}) in {done['file']}; read the answers with germane answers FILE"
    else:
        yield "nothing is left to ask: germane run asks nobody"
    if done["later"]:
        yield f"about {count(done['later'], 'question')} more follow from their answers: then germane questions again"
    if done["waiting"]:
        yield f"{count(done['waiting'], 'sample')} waiting for a target's answer: germane run asks targets"


def _ledger_of(folder: Path | None) -> str | None:
    """The ledger of a stored run."""
    if folder is None:
        return None
    from germane.tables.folder import read_manifest

    found: str | None = (read_manifest(folder).get("options") or {}).get("ledger")
    return found


def answers(files: Sequence[Path], *, ledger: str | None, json: bool) -> int:
    """Read an engine's answers to the requests of `germane questions` into the ledger.

    A line is {"custom_id": ..., "response": {"status_code": 200, "body": {...}}}, as `vllm run-batch` and OpenAI's batches
    write it, or has the model's text as its response. A line that failed or cannot be read stays asked: `germane questions` writes it
    again. Exit code 3 where there is such a line.
    """
    import germane.graders.llm_grader  # noqa: F401 - kinds of question of its own
    from germane.evaluation.choice import ledger_place
    from germane.judging.batchfile import Answers, AskedFile, read_answers
    from germane.ledger.store import SQLiteLedger

    place = ledger_place(ledger)
    asked = AskedFile(place)
    records, found = asked.read(), Answers()
    if not records:
        problem = f"no request of germane questions waits for an answer at {place}"
        raise InputError(problem, fix="name the ledger that it was given: --ledger PLACE")
    for path in files:
        read_answers(path, records, found)
    with closing(SQLiteLedger(place)) as store:
        stored = store.put(found.rows)
    asked.write({name: record for name, record in records.items() if name not in found.done})
    left = len(records) - len(found.done)
    if json:
        print_document(
            {"schema_version": 1, "answers": len(stored), "requests": len(found.done), "failed": found.failed,
             "unknown": found.unknown, "left": left}
        )  # fmt: skip
        return 3 if found.failed else 0
    lines = [f"{count(len(stored), 'answer')} to {count(len(found.done), 'request')} in {place}"]
    lines += [f"{count(number, 'line')} not usable: {why}" for why, number in found.reasons().most_common(10)]
    if found.unknown:
        lines.append(f"{count(found.unknown, 'line')} not asked here, or read before")
    if left:
        lines.append(f"{count(left, 'request')} without an answer: germane questions writes them again")
    say("\n".join(lines))
    return 3 if found.failed else 0
