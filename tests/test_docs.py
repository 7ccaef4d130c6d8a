"""Every shell and Python block of the README and the docs runs, page by page, in a folder of its own."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import germane
from germane import addons
from germane.measures.measure import _REGISTRY, FINDERS
from tests.command import invoke
from tests.server import ModelServer

ROOT = Path(__file__).parents[1]
ELSEWHERE = {  # run by tests of their own, with what they say of their results
    "docs/compare.md": "tests/comparison/test_page.py",
    "docs/labels.md": "tests/labelling/test_page.py",
    "docs/pytest.md": "tests/testing/test_pytest_plugin.py",
    "docs/testing.md": "tests/testing/test_page.py",
}
PAGES = [
    path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
]
BLOCK = re.compile(
    r"(?P<note><!-- not run: [^\n]+ -->\n)?^```(?P<kind>sh|python|json)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
EVALFILE = """judge: openai:gpt-4o-mini
measures: [context_recall]
data: ../samples.jsonl
"""


def blocks(page: str) -> list[tuple[int, str, str]]:
    """(line, kind, text) of each block that is not marked as one that cannot run."""
    text = (ROOT / page).read_text("utf-8")
    return [
        (text.count("\n", 0, found.start("text")), found["kind"], found["text"])
        for found in BLOCK.finditer(text)
        if not found["note"]
    ]


def rows() -> list[dict[str, Any]]:
    return [
        {"id": f"q{n}", "query": f"What is number {n}?", "reference": f"It is {n}.", "response": f"It is {n}.", "qrels": {f"d{n}": 2},
         "calls": [{"query": f"number {n}", "ms": 20 + n, "contexts": [{"id": f"d{n}", "text": f"number {n} is {n}", "grade": 3},
                                                                     {"id": "d99", "text": "bread", "grade": 0}][:: 1 if n % 2 else -1]}]}
        for n in range(8)
    ]  # fmt: skip


def trace(number: int) -> dict[str, Any]:
    """A retrieval that is reranked, as OTLP/JSON has it."""
    stages = ("RETRIEVER", "retrieval.documents"), ("RERANKER", "reranker.output_documents")
    spans = []
    for at, (kind, lists) in enumerate(stages):
        values = {"openinference.span.kind": kind, "input.value": f"What is number {number}?"}
        for place, name in enumerate((number, 99)[:: 1 if at else -1]):
            values[f"{lists}.{place}.document.id"] = f"d{name}"
            values[f"{lists}.{place}.document.content"] = f"number {name} is {name}"
        attributes = [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
        ids = {"traceId": f"{number:032x}", "spanId": f"{10 * number + at + 1:016x}", "name": kind.lower()}
        times = {"startTimeUnixNano": str(at), "endTimeUnixNano": str(at + 1)}
        spans.append({**ids, **times, "attributes": attributes})
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


FROM_NOTHING = ("README.md", "docs/tutorial.md")
"""Pages for somebody who has no files yet: they begin in an empty folder, and every command ends as it says."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, and a server behind OPENAI_BASE_URL."""
    monkeypatch.chdir(tmp_path)
    # A reader of the pages has no measures yet, and what they define is nobody else's.
    for finder in FINDERS:  # a measure that a page is the first to import would be forgotten at its end
        finder("")
    own = {
        name: list(same)
        for name, same in _REGISTRY.items()
        if all(one.compute.__module__.startswith("germane.") for one in same)
    }
    # by its name: the package's own `measure` is the decorator
    monkeypatch.setattr(sys.modules["germane.measures.measure"], "_REGISTRY", own)
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield tmp_path


def write_files() -> None:
    """Write what the other pages speak of: samples, an eval file, TREC files, stored reports."""
    Path("samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()), "utf-8")
    Path("evals").mkdir()
    Path("evals/retrieval.yaml").write_text(EVALFILE, "utf-8")
    for name in ("run.trec", "my.run"):
        Path(name).write_text("".join(f"q{n} Q0 d{n} 1 {9 - n} bm25\n" for n in range(8)), "utf-8")
    for name in ("qrels.txt", "gold.qrels"):
        Path(name).write_text("".join(f"q{n} 0 d{n} 1\n" for n in range(8)), "utf-8")
    for name in ("chunks.jsonl", "new-chunks.jsonl"):
        lines = (json.dumps({"id": f"d{n}", "text": f"number {n} is {n}"}) + "\n" for n in range(8))
        Path(name).write_text("".join(lines), "utf-8")
    Path("traces.jsonl").write_text("".join(json.dumps(trace(n)) + "\n" for n in range(3)), "utf-8")
    header = "Query,Context,Response,ExpectedResponse\n"
    Path("results.csv").write_text(
        f"{header}When?,The tide is high at noon.,At noon.,The tide is high at noon.\n", "utf-8"
    )
    for name in ("main", "today"):
        measures = "nDCG@10 context_precision@5 context_recall context_relevancy(unit=context)"
        command = f"run samples.jsonl -m '{measures}' --judge openai:gpt-4o-mini -o germane-reports/{name}"
        assert invoke(*shlex.split(command)).code == 0


def run_line(line: str, *, strict: bool = False) -> None:
    """A command of germane, with the exit code that a comment names, and what is piped into it; `strict`: else 0."""
    if line.startswith(("export ", "# ")):
        return  # the key: the fixture has set one
    if line.rstrip().endswith("# there"):
        return  # another tool's command, beside ours
    command, _, code = line.partition("exit code ")
    piped, pipe, ours = command.rpartition(" | ")
    words = shlex.split(ours if pipe else command, comments=True)
    assert words[:1] == ["germane"], (
        f"{line!r} is no command of germane: mark its block, <!-- not run: why -->"
    )
    stdin = shlex.split(piped)[1] if pipe else "0" * 60  # answers to label with
    done = invoke(*words[1:], stdin=stdin)
    allowed = (
        {int(code)} if code else {0} if strict else {0, 1, 3}
    )  # a gate may fail on what stands in for a model
    assert done.code in allowed, (line, done.out, done.err)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE and blocks(page)])
def test_a_page_runs(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom; JSON lines become samples.jsonl, a block that names its file stands there."""
    monkeypatch.syspath_prepend(str(folder))
    if page not in FROM_NOTHING:
        write_files()
    names: dict[str, Any] = {"__name__": "__main__", "germane": germane}
    for line, kind, text in blocks(page):
        if kind == "json":
            lines = text.splitlines()
            if len(lines) > 1 and all(one.startswith('{"') and json.loads(one) for one in lines):
                Path("samples.jsonl").write_text(text, "utf-8")
        elif kind == "python":
            first = re.match(r"# (\S+\.py)\n", text)
            if first:
                Path(first[1]).write_text(text, "utf-8")  # the command that names it imports it
                continue
            exec(compile("\n" * line + text, str(ROOT / page), "exec"), names)
        else:
            for command in text.replace("\\\n", " ").splitlines():
                if command.strip():
                    run_line(command, strict=page in FROM_NOTHING)


UNTYPED = re.compile(
    r"^(?P<note><!-- not run: [^\n]+ -->\n)?```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


def test_every_command_runs_or_says_why_not() -> None:
    """A block with commands or Python is one that is run, or carries the reason why it is not."""
    skipped = [
        (page, found["text"].splitlines()[0])
        for page in PAGES
        for found in UNTYPED.finditer((ROOT / page).read_text("utf-8"))
        if not found["note"] and found["kind"] not in {"sh", "python", "json"}
        if re.match(r"(germane|import|from|pip|make) ", found["text"])
    ]
    assert skipped == []


def test_no_page_is_forgotten() -> None:
    """Whatever has blocks runs here or in a test that is named."""
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text("utf-8")
    assert "README.md" in PAGES
    assert sum(len(blocks(page)) for page in PAGES) >= 40


LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_are_there(page: str) -> None:
    """Every relative link leads to a file, and every anchor to a heading."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    for file, anchor in LINK.findall(text):
        path = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        if (ROOT / "docs" / "addons") in path.parents and not addons.own():
            continue  # a copy without any add-on
        assert path.exists(), (page, file)
        assert not anchor or anchor in anchors(path), (page, file, anchor)


def test_every_public_name_has_its_signature_in_the_docs() -> None:
    """Each name of `germane.__all__` stands in docs/reference/python.md, where a clone shows it too."""
    text = (ROOT / "docs/reference/python.md").read_text("utf-8")
    assert [
        name for name in germane.__all__ if name != "__version__" and not re.search(rf"\b{name}\b", text)
    ] == []
    assert re.search(r"^evaluate\(\n    samples: .+\n    measures: ", text, re.MULTILINE)


def test_examples_of_your_own_code_are_those_that_mypy_checks() -> None:
    """What docs/measures.md and docs/judges.md show stands word for word in examples/own, which mypy --strict checks."""
    shown = "".join(text for page in ("docs/measures.md", "docs/judges.md") for _, _, text in blocks(page))
    files = sorted((ROOT / "examples" / "own").glob("*.py"))
    assert len(files) == 3
    assert [file.name for file in files if file.read_text("utf-8") not in shown] == []
