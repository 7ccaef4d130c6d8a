"""The ledger in PostgreSQL, against a real server: the same answers as the one in a file, shared and restarted."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from germane import Report
from germane.addons.batches.requests import AskedTable
from germane.addons.cluster.postgres import PostgresLedger
from germane.errors import InputError, LedgerError
from germane.ledger.sqlite import SQLiteLedger, open_at, password_apart
from germane.types import FrozenDict, Judgement, Usage
from tests.cli.conftest import write_jsonl
from tests.command import Ran, invoke
from tests.database import PASSWORD, PostgresServer, programs
from tests.server import ModelServer
from tests.server.batches import OpenAIBatchServer

pytestmark = [
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed: apt install postgresql"),
    pytest.mark.skipif(importlib.util.find_spec("psycopg") is None, reason="psycopg is not installed"),
]

ROWS = [
    {"id": f"q{n}", "query": f"what is {n}", "contexts": [f"thing {n} is {k}" for k in range(5)]}
    for n in range(16)
]
QUESTIONS = 16 * 5


@pytest.fixture(scope="module")
def running() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def server(running: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    """The server with no ledger in it yet; no password of ours is in the environment."""
    running.empty()
    monkeypatch.setenv("PGPASSWORD", "")
    return running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    return tmp_path


def made(number: int, answer: Any = None, **more: Any) -> Judgement:
    given: dict[str, Any] = {"item": f"i{number}", "kind": "relevance", "judge": "m", "prompt": "p", **more}
    return Judgement(key=f"{number:032x}", answer=answer or {"grade": number % 4}, **given)


def run(*words: object) -> Ran:
    return invoke(*words)


def test_it_keeps_what_a_file_keeps(server: PostgresServer, tmp_path: Path) -> None:
    """Every field comes back, whatever characters it has; the first answer wins; a useless one is replaced once."""
    used = Usage(requests=1, input_tokens=3_000_000_000, output_tokens=4, cost_usd=0.1 + 0.2)
    odd = "what half a pair becomes \ufffd, a null \0, 字, \N{PILE OF POO}"
    rows = [
        made(1, {"reason": odd}, request="r1", usage=used, ms=1.5, at="2026-11-23T10:00:00.000+00:00"),
        made(2, provenance=FrozenDict(windows=2, against="query")),
        made(3, parent=f"{2:032x}"),
    ]
    found = []
    for ledger in (open_at(server.url), open_at(tmp_path / "l.sqlite")):
        ledger.ready()
        assert ledger.put(rows) == {row.key: row for row in rows}
        later = made(1, {"grade": 0})
        assert ledger.put([later, made(4)])[later.key] == rows[0]
        useless = made(4)
        assert ledger.put([made(4, {"grade": 3})], replacing=[useless])[useless.key].answer == {"grade": 3}
        assert ledger.put([made(4, {"grade": 1})], replacing=[useless])[useless.key].answer == {"grade": 3}
        keys = [f"{n:032x}" for n in range(12_000)]
        found.append((ledger.find(keys), ledger.children([rows[1].key]), ledger.put([])))
        ledger.close()
    assert found[0] == found[1]
    assert found[0][0][rows[0].key] == rows[0]


def test_the_first_of_many_writers_wins(server: PostgresServer) -> None:
    """Eight writers of the same keys, in different orders: one answer each, which all of them see; none waits for ever."""
    seen: list[dict[str, Judgement]] = []

    def write(who: int) -> None:
        with PostgresLedger(server.url) as ledger:
            mine = dict[str, Judgement]()
            for start in range(0, 200, 20):
                order = range(start, start + 20) if who % 2 else range(start + 19, start - 1, -1)
                mine |= ledger.put([made(n, {"by": who}) for n in order])
            seen.append(mine)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(60)
    with PostgresLedger(server.url, read_only=True) as ledger:
        stands = ledger.find([f"{n:032x}" for n in range(200)])
        assert len(ledger) == 200
    assert seen == [stands] * 8


def test_processes_that_start_together_make_the_tables_once(server: PostgresServer) -> None:
    """On an empty database each of eight finds its tables, whoever makes them; five times, since it is a race."""
    for _ in range(5):
        server.empty()
        ready = threading.Barrier(8)

        def begin(number: int, ready: threading.Barrier = ready) -> int:
            ready.wait()
            with PostgresLedger(server.url) as ledger:
                return AskedTable(ledger).waiting(f"batch {number}")

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(begin, range(8))) == [0] * 8


def test_a_password_is_shown_nowhere(server: PostgresServer, here: Path) -> None:
    """Runs, parts of an engine and `ledger` share the database; manifests name it without the password."""
    data = write_jsonl(here / "data.jsonl", *ROWS)
    with ModelServer() as model:
        asked = ("-m", "context_precision@5", "--judge", "openai:test", "--base-url", model.url)
        words = ("run", data, *asked, "--ledger", server.url)
        first = run(*words, "-o", "one", "--json")
        assert first.code == 0, first.err
        assert model.count == QUESTIONS
        parts = run(
            "run", data, *asked, "--ledger", server.url, "-o", "two", "--engine", "processes:2", "--json"
        )
        assert parts.code == 0, parts.err
        assert run("run", "--resume", "one", "--base-url", model.url).code == 0
        assert model.count == QUESTIONS
    assert Report.open("one").manifest["options"]["ledger"] == server.place
    assert Report.open("two").manifest["options"]["ledger"] == server.place
    stats = run("ledger", "stats", "--ledger", server.url, "--json")
    assert stats.json["judgements"] == QUESTIONS
    assert stats.json["ledger"] == server.place
    replayed = run(
        "run", data, "-m", "context_precision@3", "--judge", "openai:other", "--replay", server.url, "-o", "r"
    )
    assert replayed.code == 3
    for ran in (first, parts, stats, replayed):
        assert PASSWORD not in ran.out + ran.err
    for file in (here / "one" / "manifest.json", here / "r" / "scores.jsonl", here / "r" / "manifest.json"):
        text = file.read_text("utf-8")
        assert PASSWORD not in text
        assert "not%3A" not in text


def test_answers_move_between_a_file_and_a_database(server: PostgresServer, here: Path) -> None:
    """Export and import serve both, in the same order; statistics, pruning and their words are the same."""
    with SQLiteLedger("l.sqlite") as file:
        file.put([made(n, judge="a" if n % 2 else "B", at=f"2026-11-{n % 9 + 10}T00:00:00.000+00:00",
                       usage=Usage(requests=1, cost_usd=0.5 if n % 3 else None)) for n in range(1200)])  # fmt: skip
    assert run("ledger", "export", "--ledger", "l.sqlite", "-o", "a.jsonl").code == 0
    taken = run("ledger", "import", "a.jsonl", "--ledger", server.url)
    assert "1,200 added, 0 known already" in taken.err
    assert "0 added, 1,200 known already" in run("ledger", "import", "a.jsonl", "--ledger", server.url).err
    assert run("ledger", "export", "--ledger", server.url, "-o", "b.jsonl").code == 0
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    both = [run("ledger", "stats", "--json", "--ledger", where).json for where in ("l.sqlite", server.url)]
    for name in both[0].keys() - {"ledger", "bytes"}:
        assert both[0][name] == both[1][name], name


def test_what_is_no_ledger(server: PostgresServer, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program's table, a newer ledger, a wrong password, no server: one message each, with what to do."""
    import psycopg

    nowhere = "postgresql://judge:hush@127.0.0.1:1/postgres"
    with pytest.raises(LedgerError, match=r"127\.0\.0\.1:1/postgres cannot be used: .*refused") as caught:
        PostgresLedger(nowhere)
    assert "hush" not in str(caught.value)
    with pytest.raises(LedgerError, match="password"):
        PostgresLedger(server.url.replace("secret", "wrong"))
    with pytest.raises(InputError, match="not a URL of a database") as wrong:
        PostgresLedger("postgresql://me:hush@host:port/x")
    assert "hush" not in str(wrong.value)
    assert run("ledger", "stats", "--ledger", server.url).code == 0  # nothing is made by reading
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute("CREATE TABLE judgements (verdict text)")
        with pytest.raises(LedgerError, match="a table `judgements` of another program"):
            PostgresLedger(server.url)
        db.execute("COMMENT ON TABLE judgements IS 'germane ledger, format 99'")
        with pytest.raises(LedgerError, match="written by a newer germane"):
            PostgresLedger(server.url)
        db.execute("DROP TABLE judgements")
    PostgresLedger(server.url).close()
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute("ALTER ROLE judge SET default_transaction_read_only = on")
    try:
        with (
            PostgresLedger(server.url, read_only=True) as ledger,
            pytest.raises(LedgerError, match="only be read"),
        ):
            ledger.ready()
    finally:
        with psycopg.connect(
            server.url, autocommit=True, options="-c default_transaction_read_only=off"
        ) as db:
            db.execute("ALTER ROLE judge RESET default_transaction_read_only")


def test_how_a_place_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL loses its password, wherever it stands; a path stays."""
    for variable in ("PGPASSWORD", "PGOPTIONS"):
        monkeypatch.setenv(variable, "")
    for given, shown in (
        ("postgresql://a:b@h:1/d?sslmode=require", "postgresql://a@h:1/d?sslmode=require"),
        ("postgres://h/d", "postgres://h/d"),
        ("postgresql:///d", "postgresql:///d"),  # by a socket
        ("x/l.sqlite", "x/l.sqlite"),
        (" postgresql://a:b@h/d\n", "postgresql://a@h/d"),
        ("postgresql:/a:b@h/d", "postgresql://a@h/d"),
        ("postgresql://a:b@[::1]:5/d", "postgresql://a@[::1]:5/d"),
    ):
        assert password_apart(given) == shown
    for refused in (
        "postgresql://h/d?password=c",
        "postgresql://h/d?options=-csekret",
        "postgresql://h:1,i:2/d",
    ):
        with pytest.raises(InputError, match="not a URL of a database"):
            password_apart(refused)


@pytest.mark.parametrize("password", ["s3[cret", "s3[cr]et", "s3/cret", "s3#cret", "55?s3cret", "s3@cret"])
@pytest.mark.parametrize("flag", [["--ledger"], ["--replay"]])
def test_a_url_whose_password_is_not_escaped_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str, flag: list[str]
) -> None:
    """What is password and what is host cannot be told apart: nothing of it is shown."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.jsonl").write_text('{"query": "q", "contexts": ["c"]}')
    words = ("run", "s.jsonl", "-m", "context_precision", "--judge", "lexical", *flag)
    ran = invoke(*words, f"postgresql://u:{password}@h/d")
    assert ran.code == 2
    assert "not a URL of a database" in ran.err
    assert "cret" not in ran.out + ran.err


def test_batches_and_files_of_requests_are_kept_in_a_database(server: PostgresServer, here: Path) -> None:
    """What is asked stands beside the answers: a batch is fetched, and a file's answers are read, wherever somebody works."""
    write_jsonl(here / "data.jsonl", *ROWS)
    words = ("data.jsonl", "-m", "context_precision@5", "--ledger", server.url, "--judge")
    with OpenAIBatchServer(looks=1) as models:
        judge = f"openai:m@{models.url}"
        assert run("run", *words, judge, "--later", "-o", "one").code == 3
        assert run("run", *words, judge, "--later", "-o", "two").code == 3
        done = run("run", "--resume", "two", "--later", "--json")
        assert done.code == 0, done.err
        assert (len(models.batches), sum(models.paid.values())) == (1, QUESTIONS)
    assert run("questions", *words, "vllm:m", "-o", "q.jsonl").code == 0
    asked = [json.loads(line)["custom_id"] for line in Path("q.jsonl").read_text().splitlines()]
    reply = json.dumps({"reasoning": "r", "grade": 2})
    write_jsonl(here / "a.jsonl", *({"custom_id": one, "response": reply} for one in asked))
    found = run("answers", "a.jsonl", "--ledger", server.url, "--json").json
    assert (found["answers"], found["left"]) == (QUESTIONS, 0)
