"""`germane questions` and `germane answers`: what is asked, as a file for another engine."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from germane.addons.batches.requests import FILE, AskedTable
from germane.ledger.sqlite import SQLiteLedger
from tests.command import invoke
from tests.server import ModelServer

SAMPLES = [
    {
        "id": "sky",
        "query": "Why is the sky blue?",
        "reference": "Air scatters blue light. It does so by day.",
        "contexts": ["Air scatters blue light more.", "Bread rises overnight.", " "],
    },
    {
        "id": "faust",
        "query": "Who wrote Faust?",
        "reference": "Goethe wrote Faust.",
        "contexts": ["Goethe wrote Faust.", "A fist is a Faust in German."],
    },
]
MEASURES = "context_precision context_relevancy context_entity_recall context_recall context_sufficiency"
RUN_BATCH = {
    "type": "object",
    "required": ["custom_id", "method", "url", "body"],
    "additionalProperties": False,
    "properties": {
        "custom_id": {"type": "string", "maxLength": 64},
        "method": {"const": "POST"},
        "url": {"const": "/v1/chat/completions"},
        "body": {
            "type": "object",
            "required": ["model", "messages"],
            "properties": {
                "model": {"type": "string"},
                "messages": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["role", "content"],
                        "properties": {"role": {"enum": ["system", "user"]}, "content": {"type": "string"}},
                    },
                },
                "temperature": {"type": "number", "minimum": 0},
                "max_tokens": {"type": "integer", "minimum": 1},
                "response_format": {
                    "type": "object",
                    "required": ["type", "json_schema"],
                    "properties": {
                        "type": {"const": "json_schema"},
                        "json_schema": {"type": "object", "required": ["name", "schema"]},
                    },
                },
            },
            "additionalProperties": False,
        },
    },
}
"""A line of vLLM's `BatchRequestInput`, which is a line of OpenAI's batches: what its documentation says of both."""
Change = Callable[[dict[str, Any], int], dict[str, Any]]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in SAMPLES))


def asked(*more: str) -> Any:
    done = invoke(
        "questions", "samples.jsonl", "-m", MEASURES, "--judge", "vllm:Q", "-o", "q.jsonl", "--json", *more
    )
    assert done.code == 0, done.err
    return json.loads(done.out)


def lines(name: str = "q.jsonl") -> list[Any]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def engine(server: ModelServer, change: Change = lambda line, _: line) -> None:
    """What `vllm run-batch -i q.jsonl -o out.jsonl` does."""
    found = []
    for number, line in enumerate(lines()):
        body = json.dumps(line["body"]).encode()
        request = urllib.request.Request(
            server.url.removesuffix("/v1") + line["url"], body, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            response = {"status_code": 200, "request_id": f"r{number}", "body": json.load(answer)}
        row = {"id": f"vllm-{number}", "custom_id": line["custom_id"], "response": response, "error": None}
        found.append(change(row, number))
    Path("out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reversed(found)))


def read(code: int = 0) -> Any:
    done = invoke("answers", "out.jsonl", "--json")
    assert done.code == code, done.err
    return json.loads(done.out)


def values(judge: str, *more: str) -> tuple[Any, Any]:
    done = invoke(
        "run", "samples.jsonl", "-m", MEASURES, "--judge", judge, "--force", "-o", "report", "--json", *more
    )
    found = json.loads(done.out)
    return found["judge"], {(one["sample"], one["measure"]): one["value"] for one in found["scores"]}


def test_rounds_of_files_come_to_what_a_run_would(server: ModelServer) -> None:
    """Questions, answers, the questions that follow from them, their answers: then a run asks nobody and has the same scores."""
    first = asked()
    assert first["later"] > 0
    engine(server)
    assert read() == {"schema_version": 1, "answers": first["questions"], "requests": first["requests"],
                      "failed": {}, "damaged": [], "unknown": 0, "left": 0}  # fmt: skip
    second = asked()
    assert 0 < second["requests"] <= first["later"]
    assert second["later"] == 0
    engine(server)
    read()
    assert asked()["requests"] == 0
    assert not Path("q.jsonl").read_text()
    with SQLiteLedger(".germane/ledger.sqlite") as ledger:
        assert AskedTable(ledger).waiting(FILE) == 0
    judge, by_file = values("vllm:Q")
    assert judge["calls"] == 0
    _, live = values(f"openai:Q@{server.url}", "--no-cache")
    assert by_file == live


def test_a_line_is_what_run_batch_reads(server: ModelServer) -> None:
    """custom_id, method, url and body; readings are fused, and the same questions have the same id whenever they are written."""
    asked()
    for line in lines():
        jsonschema.validate(line, RUN_BATCH)
    names = [line["body"]["response_format"]["json_schema"]["name"] for line in lines()]
    assert "relevance-statements-entities" in names
    ids = {line["custom_id"] for line in lines()}
    asked()
    assert {line["custom_id"] for line in lines()} == ids
    assert len(ids) == len(lines())


def _failed(row: dict[str, Any], number: int) -> dict[str, Any]:
    if number == 0:
        return {**row, "response": {"status_code": 400, "body": {"error": {"message": "no room"}}}}
    if number == 1:
        return {**row, "response": None, "error": {"message": "expired"}}
    if number == 2:
        row["response"]["body"]["choices"][0]["message"]["content"] = "Quite relevant."
    if number == 3:
        row["response"]["body"]["choices"][0]["finish_reason"] = "length"
    return row


def test_what_failed_or_cannot_be_read_makes_the_next_round(server: ModelServer) -> None:
    """An error of the request or of the engine, no JSON, a cut answer: nothing of these is stored, the rest is."""
    first = asked()
    engine(server, _failed)
    found = read(code=3)
    assert found["requests"] == first["requests"] - 4
    why = " ".join(found["failed"].values())
    assert all(words in why for words in ("no room", "expired", "no JSON object", "cut off"))
    failed = set(found["failed"])
    again = asked()
    assert failed <= {line["custom_id"] for line in lines()}
    assert again["requests"] < first["requests"] + first["later"]
    engine(server)
    assert read()["failed"] == {}


def test_an_answer_as_text_is_read_too(server: ModelServer) -> None:
    """As Ray Data or Spark give it; what was read before is not read again."""
    asked()

    def text(row: dict[str, Any], _: int) -> dict[str, Any]:
        return {
            "custom_id": row["custom_id"],
            "response": row["response"]["body"]["choices"][0]["message"]["content"],
        }

    engine(server, text)
    count = len(lines())
    assert read()["requests"] == count
    asked()
    assert read()["unknown"] == count


def test_lists_and_panels_are_read_as_they_were_asked(server: ModelServer) -> None:
    """Several passages in one request, each judge asked twice."""
    asked("--batch", "10", "--repeat", "2")
    engine(server)
    read()
    asked("--batch", "10", "--repeat", "2")
    engine(server)
    read()
    asked("--batch", "10", "--repeat", "2")
    assert not lines()
    judge, _ = values("vllm:Q", "--batch", "10", "--repeat", "2")
    assert judge["calls"] == 0


def test_the_open_questions_of_a_report() -> None:
    """A run that could not ask leaves a report whose folder says what is open."""
    with ModelServer() as gone:
        url = gone.url
    done = invoke(
        "run",
        "samples.jsonl",
        "-m",
        MEASURES,
        "--judge",
        f"openai:Q@{url}",
        "--max-calls",
        "0",
        "-o",
        "report",
    )
    assert done.code == 3, done.err
    done = invoke("questions", "report", "-o", "q.jsonl", "--json")
    assert done.code == 0, done.err
    of_report = {line["custom_id"] for line in lines()}
    again = invoke(
        "questions", "samples.jsonl", "-m", MEASURES, "--judge", f"openai:Q@{url}", "-o", "q.jsonl", "--json"
    )
    assert again.code == 0, again.err
    assert of_report == {line["custom_id"] for line in lines()} != set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["questions", "samples.jsonl", "-m", "context_precision", "--judge", "anthropic:m", "-o", "q.jsonl"], "has no chat-completions API"),
        (["answers", "samples.jsonl"], "has no unanswered request"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_says_what_to_write(words: list[str], said: str) -> None:
    """Exit code 2, and nothing written."""
    done = invoke(*words)
    assert done.code == 2
    assert said in done.err
    assert not Path("q.jsonl").exists()


def test_a_line_that_is_no_answer_has_its_place(server: ModelServer) -> None:
    """File and line; the answers beside it count. A file without any answer is an error."""
    asked()
    engine(server)
    Path("none.jsonl").write_text("{}\n")
    done = invoke("answers", "none.jsonl")
    assert done.code == 2
    assert "none.jsonl:1: this line is not an answer to a request" in done.err
    Path("out.jsonl").write_text(Path("out.jsonl").read_text() + "{}\n")
    done = invoke("answers", "out.jsonl")
    assert done.code == 3
    assert f"1 line cut off or damaged: out.jsonl:{len(lines()) + 1}" in done.err


def test_the_requests_themselves_are_no_answers(server: ModelServer) -> None:
    """The file that `germane questions` wrote, given back: nothing is stored, and the reason names it."""
    first = asked()
    done = invoke("answers", "q.jsonl", "--json")
    found = json.loads(done.out)
    assert (done.code, found["requests"]) == (3, 0)
    assert set(found["failed"].values()) == {"the line has no response"}
    assert asked()["requests"] == first["requests"]


@pytest.mark.parametrize("name", ["q.csv", "q.PARQUET"])
def test_a_name_of_a_table_is_refused(name, tmp_path, monkeypatch):
    """Requests are lines of JSON, which no spreadsheet reads."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.jsonl").write_text('{"query": "q", "contexts": ["t"]}')
    ran = invoke("questions", "s.jsonl", "-m", "context_precision", "--judge", "vllm:Q", "-o", name)
    assert (ran.code, Path(name).exists()) == (2, False)
    assert "requests are JSON Lines" in ran.err
