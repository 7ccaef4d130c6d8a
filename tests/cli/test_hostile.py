"""Ids, queries and passages that hold commands of a build server, in everything that a workflow prints or reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Cli, write_jsonl
from tests.command import invoke
from tests.server import Act, ModelServer

ID = "bad\n::error file=x::pwn, 100% @octocat #1 | <b> `x` [l](http://x)"
EVIL = "::add-mask::hello\n::set-output name=a::b\n##[add-mask]x\n  ::stop-commands::y"
FILE = {
    "judge": "labels",
    "measures": [{"type": "context_precision", "required": 0.6, "name": "prec"}],
    "data": "d.jsonl",
}
ROWS = [
    {"id": "good", "query": "a", "contexts": [{"text": "x", "grade": 3}]},
    {"id": ID, "query": f"q {EVIL}", "tags": [EVIL],
     "contexts": [{"text": EVIL, "grade": 0}, {"text": "y\u001b[31m", "grade": 2}]},
]  # fmt: skip
OURS = "::error title=germane::bad : :error file=x::pwn, 100%25 "


def live(text: str) -> list[str]:
    """Lines that GitHub would obey: `::` at the start of one, `##[` anywhere in it."""
    return [line for line in text.splitlines() if re.match(r"\s*::[A-Za-z-]+.*::", line) or "##[" in line]


@pytest.fixture
def ran(inside: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "e.yaml").write_text(json.dumps(FILE))
    write_jsonl(tmp_path / "d.jsonl", *ROWS)
    outputs = [word for end in ("json", "jsonl", "csv", "md", "xml") for word in ("-o", f"r.{end}")]
    inside("run", "e.yaml", "-o", "r", *outputs)
    return inside


def test_a_run_prints_no_command_but_its_own(
    ran: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the terminal, with -q, with --json; the step's summary names nobody and links nothing."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    for flags in ((), ("-q",), ("--json",)):
        found = ran("run", "e.yaml", *flags)
        assert found.code == 1
        assert live(found.out) == []
        assert len(live(found.err)) == 1
        assert live(found.err)[0].startswith(OURS)
    summary = (tmp_path / "summary.md").read_text()
    assert live(summary) == []
    assert "<b>" not in summary
    assert "@octocat" not in summary
    assert re.search(r"(?<!\\)\]\(http", summary) is None


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_what_is_looked_at_later_prints_none(ran: Cli, flags: tuple[str, ...]) -> None:
    """`explain` and `report`; the document still holds the text as it was."""
    for verb in (("explain", "r", ID), ("report", "r"), ("score", "r", "-m", "RR(labels=human)")):
        found = ran(*verb, *flags)
        assert found.out, found.err
        assert live(found.out + found.err) == []
    if flags:
        document = ran("explain", "r", ID, "--json").json
        assert document["calls"][0]["contexts"][0]["text"] == EVIL


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_comparison_prints_none(ran: Cli, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Queries that moved, and those that are in one report only, are named."""
    better = {**ROWS[1], "contexts": [{"text": EVIL, "grade": 3}]}
    write_jsonl(tmp_path / "f.jsonl", better, {**better, "id": f"{ID}2"})
    (tmp_path / "f.yaml").write_text(json.dumps({**FILE, "data": "f.jsonl"}))
    ran("run", "f.yaml", "-o", "b")
    found = ran("compare", "r", "b", *flags)
    assert found.code == 0, found.err
    assert "pwn" in found.out
    assert live(found.out + found.err) == []


def test_validate_prints_none(inside: Cli, tmp_path: Path) -> None:
    """An id that is there twice is quoted in the message."""
    (tmp_path / "e.yaml").write_text(json.dumps(FILE))
    write_jsonl(tmp_path / "d.jsonl", *[ROWS[1]] * 2)
    found = inside("validate", "e.yaml")
    assert found.code == 2
    assert "must be unique" in found.out
    assert live(found.out + found.err) == []


def test_a_test_report_that_is_printed_has_none(ran: Cli, tmp_path: Path) -> None:
    """Readers of JUnit XML print names and messages: a line each."""
    del ran
    root = ElementTree.fromstring((tmp_path / "r.xml").read_text())
    texts = [value for one in root.iter() for value in (*one.attrib.values(), one.text or "")]
    assert any("pwn" in text for text in texts)
    assert [line for text in texts for line in live(text)] == []
    assert not any("\n" in (test.get("name") or "") for test in root.iter("testcase"))


def _escaped(key: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in key)


@pytest.mark.parametrize("key", ["sk-0123456789/abc", "none"])
@pytest.mark.parametrize("spell", [str, _escaped])
def test_a_key_that_a_server_repeats_is_masked(
    inside: Cli, tmp_path: Path, key: str, spell: Callable[[str], str]
) -> None:
    """In the model's name and its words, in the report, the ledger and what is printed; a short one is a word like others."""
    (tmp_path / "s.jsonl").write_text('{"query": "q", "contexts": ["c"]}')
    content = f'{{"reasoning": "the key is {spell(key)}.", "grade": 3}}'
    body = json.dumps({"model": f"m-{key}", "choices": [{"message": {"content": content}}]})
    outputs = [word for end in ("json", "md", "html") for word in ("-o", f"r.{end}")]
    with ModelServer([Act(body=body)]) as server:
        words = (
            "--judge",
            "openai:test",
            "--base-url",
            server.url,
            "--ledger",
            "l.sqlite",
            "-o",
            "r",
            *outputs,
        )
        found = inside("run", "s.jsonl", "-m", "context_precision", *words, env={"OPENAI_API_KEY": key})
    assert found.code == 0, found.err
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    everything = b"\n".join([*files, found.out.encode(), found.err.encode()])
    shown = "***" if len(key) > 15 else key
    assert f"m-{shown}".encode() in everything
    assert len(key) < 16 or key.encode() not in everything


def test_a_key_in_an_error_is_masked(inside: Cli, tmp_path: Path) -> None:
    """A short one too, where it is a word; a redirect's header is no way round."""
    (tmp_path / "s.jsonl").write_text('{"query": "q", "contexts": ["c"]}')
    for key, act in (
        ("none", Act(status=401, error="the key none is wrong, nonetheless")),
        (
            "sk-0123456789abcdef",
            Act(status=307, headers={"location": f"http://h/{'x' * 280}sk-0123456789abcdef"}),
        ),
    ):
        with ModelServer([act]) as server:
            words = ("--judge", "openai:test", "--base-url", server.url, "--no-cache")
            found = inside("run", "s.jsonl", "-m", "context_precision", *words, env={"OPENAI_API_KEY": key})
        assert found.code in {2, 3}
        assert "***" in found.err
        assert "sk-0123" not in found.err
        assert "key none" not in found.err


def test_markdown_has_no_link_or_reference_of_the_data(inside: Cli, tmp_path: Path) -> None:
    """Addresses, people, issues and commits; a comment divides them, since GitHub reads through entities."""
    name = "@octocat a@example.com octo/repo#12 GH-3 http://evil.example www.evil.example 1a2b3c4d5e6f &#64;octocat )@octocat"
    rows = [
        {
            "id": f"{name} {n}",
            "query": name,
            "system": name,
            "qrels": {name: 1},
            "contexts": [{"id": "e", "text": f"{n}"}, {"id": name, "text": name}],
        }
        for n in range(3)
    ]
    write_jsonl(tmp_path / "s.jsonl", *rows)
    judged = ("run", "s.jsonl", "-m", "RR context_precision", "--judge", "lexical")
    assert inside(*judged, "-o", "r", "-o", "r.md").code == 0
    items = [json.loads(line)["item"] for line in (tmp_path / "r" / "places.jsonl").read_text().splitlines()]
    label = {"kind": "relevance", "scale": "graded", "answer": 2}
    write_jsonl(
        tmp_path / "l.jsonl",
        *({**label, "item": item, "who": f"{name} {n}"} for item in items for n in (1, 2)),
    )
    for words in (
        ("label", "r", "--import", "l.jsonl"),
        ("compare", "r", "r", "-o", "c.md"),
        ("audit", "r", "--all", "-o", "a.md"),
        ("audit", "r", "--gold", "-o", "g.md"),
    ):
        found = inside(*words)
        assert found.code == 0, found.err
    pages = [path.read_text() for path in tmp_path.glob("?.md")]
    assert len(pages) == 4
    for page in pages:
        assert not re.search(r"@octocat|@example|#12|#64|GH-3|http:/|www\.e|1a2b3c4d5e6f", page)
    assert inside("audit", "r", "-o", "a.html").code == 2


HOSTILE = "b\u001b]52;c;ZXZpbA==\u0007\u009b31m\u202e\n::error title=a:b::PWN\r::error::PWN ##[error]PWN\x7f"


def _hostile_row(number: int, system: str) -> dict[str, object]:
    gold, other = ({"id": f"d{n}{HOSTILE}", "text": f"text {n} {HOSTILE}", "grade": n} for n in (1, 0))
    contexts = [gold, other] if (number + len(system)) % 2 else [other, gold]
    return {
        "id": f"q{number}{HOSTILE}", "query": f"{number} {HOSTILE}", "system": system, "tags": [HOSTILE],
        "reference": HOSTILE, "qrels": {gold["id"]: 1}, "contexts": contexts,
    }  # fmt: skip


def test_no_verb_prints_what_a_terminal_or_a_runner_obeys(inside: Cli, tmp_path: Path) -> None:
    """Hostile ids, queries, systems, tags, file names and people, on stdout and stderr, with --json too, and in .txt."""
    rows = [_hostile_row(number, system) for system in (HOSTILE, f"{HOSTILE}x") for number in range(4)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = "::error title=a:b::PWN"
    (tmp_path / "w.tsv").write_text(f"query_id\tdoc_id\tscore\n1\td1\t3\n{line}\td2\t2\n")
    (tmp_path / "g.tsv").write_text(f"query_id\tdoc_id\tgrade\n1\td1\t3\n{line}\td2\t1\n")
    ledger = ("--ledger", f"l{HOSTILE}.sqlite")
    judged = ("run", "s.jsonl", "-m", "context_precision RR", "--force", *ledger)
    verbs: list[tuple[str, ...]] = [
        (*judged, "--judge", "labels", "-o", "a", "-o", "r.txt"), (*judged, "--judge", "lexical", "-o", f"r{HOSTILE}"),
        (*judged, "--judge", "lexical", "-o", "b", "--fail-under", "mean(RR)>=0.9"), ("report", "a"), ("report", f"r{HOSTILE}"),
        ("explain", "b", f"q1{HOSTILE}"), ("stages", "b"), ("diagnose", "b"), ("power", "b"), ("audit", "b"),
        ("label", "b", "--who", HOSTILE), ("score", "b", "-m", "RR(labels=human)"), ("compare", "a", "b"), ("compare", "b"),
        ("rank", "w.tsv", "--qrels", "g.tsv", "-q"), ("rank", "s.jsonl", "-q"), ("overlap", "w.tsv", "g.tsv"),
        ("ledger", "stats", *ledger), ("ledger", "check", *ledger), ("ledger", "export", *ledger), ("validate", "s.jsonl"),
        ("run", HOSTILE), ("run", "s.jsonl", "-m", HOSTILE), ("report", HOSTILE), ("measures", HOSTILE), (HOSTILE,),
        ("run", "s.jsonl", "-m", "RR", "--filter", HOSTILE), ("label", "b", "--import", HOSTILE), ("init", HOSTILE),
    ]  # fmt: skip
    printed = [(verb, inside(*verb, *flags)) for verb in verbs for flags in ((), ("--json",))]
    texts = [(verb, text) for verb, found in printed for text in (found.out, found.err)]
    texts.append((("r.txt",), (tmp_path / "r.txt").read_text()))
    assert sum(found.code < 2 for _, found in printed) > 30
    for verb, text in texts:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), verb
        assert live(text) == [], verb
    whole = json.loads(next(found.out for verb, found in printed[1::2] if verb[0] == "explain"))
    assert HOSTILE in whole["query"]


def test_file_names_in_any_bytes(tmp_path):
    """A name that is not UTF-8 is read, kept in the report, and found again."""
    data = tmp_path / "caf\udce9.jsonl"
    data.write_text('{"query": "a", "contexts": [{"id": "d1", "text": "t"}], "qrels": ["d1"]}')
    folder = tmp_path / "r\udce9port"
    for words in (
        ["run", data, "-m", "RR", "-o", folder],
        ["run", "--resume", folder],
        ["report", folder],
        *[["report", folder, "-o", tmp_path / f"r.{end}"] for end in ("json", "jsonl", "csv", "md", "xml")],
        ["validate", data],
    ):
        ran = invoke(*words)
        assert ran.code == 0, ran.err
    assert (
        invoke("run", data, "-m", "RR", "-o", folder, "-o", tmp_path / "x.html", "--force", "--json").json[
            "exit_code"
        ]
        == 0
    )


@pytest.mark.parametrize("model", ["m", "m\ud800"])
def test_half_a_surrogate_of_an_answer_is_replaced(inside: Cli, tmp_path: Path, model: str) -> None:
    """Once, when it comes in: every format can be written, then and later."""
    (tmp_path / "s.jsonl").write_text('{"query": "q", "contexts": ["c"]}')
    content = '{"reasoning": "be\\ud800cause", "grade": 3}'
    body = json.dumps({"model": model, "choices": [{"message": {"content": content}}]})
    outputs = [
        word for end in ("json", "jsonl", "csv", "md", "txt", "xml", "html") for word in ("-o", f"r.{end}")
    ]
    with ModelServer([Act(body=body)]) as server:
        words = (
            "-m",
            "context_precision",
            "--judge",
            "openai:t",
            "--base-url",
            server.url,
            "--ledger",
            "l.sqlite",
        )
        found = inside("run", "s.jsonl", *words, "-o", "r", *outputs, env={"OPENAI_API_KEY": "k"})
    assert found.code == 0, found.err
    assert "be\ufffdcause" in (tmp_path / "r" / "judgements.jsonl").read_text("utf-8")
    assert "be\ufffdcause" in inside("explain", "r", "1").out
    assert inside("report", "r", *outputs).code == 0
