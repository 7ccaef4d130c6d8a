"""Python functions as systems under test."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from germane.errors import TargetError
from germane.evalfiles import Case
from germane.targets import Target, open_target
from germane.targets.python import PythonTarget
from germane.types import Call, Context, Message, Sample

MODULE = """
import asyncio, threading
from germane.types import Context, Sample

THREADS = set()

def text(query): THREADS.add(threading.get_ident()); return "you asked " + query
async def later(query): await asyncio.sleep(0); return ["t", {"id": "d", "score": 1}]
def lazily(query): return later(query)
def parts(query, k=1): return {
    "answer": "a", "contexts": ["t"] * k, "query": "echo", "reference": "mine", "seen": {"k": k},
    "messages": [{"role": "assistant", "content": "a"}], "calls": [{"contexts": ["t"]}]}
def made(sample): return Sample(id="x", query="x", response=sample.id, contexts=(Context(text="t"),))
def of_case(case): return case.expected_outcome or "none"
def raises(query): raise KeyError("no index")
def leaves(query): raise SystemExit("bye")
def ends(query): return next(iter([]))
def nothing(query): return None
def broken(query): return {"contexts": [{"text": "t", "grade": 9}]}
def endless(query): loop = []; loop.append(loop); return loop
def nameless(query): return [object()]
def unordered(query): return {"a", "b"}
def half(query): return "half \\ud83d"

class Document:
    def __init__(self, text): self.page_content, self.metadata, self.id = text, {"page": 1}, None
def documents(query): return [Document("t")]
def numbers(query):
    import numpy
    return {"contexts": [{"text": "t", "score": numpy.float32(0.5)}], "vector": numpy.arange(2)}

class rag:
    @staticmethod
    def ask(query): return "method"
"""


@pytest.fixture
def function(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_rag_system", raising=False)

    def opened(name: str, more: str = ""):
        (tmp_path / "my_rag_system.py").write_text(MODULE, encoding="utf-8")
        text = f"targets: [{{name: a, provider: python, function: 'my_rag_system:{name}', path: .{more}}}]"
        (tmp_path / "targets.yaml").write_text(text, encoding="utf-8")
        return open_target("a", tmp_path)

    return opened


def answer(target, asked=None):
    return asyncio.run(target.answer(asked or Sample(id="q1", query="why?", reference="r")))


def test_a_text(function):
    """A text is the response; the function runs in a thread, so that it may take its time."""
    target = function("text")
    got = answer(target)
    assert (got.response, got.contexts) == ("you asked why?", None)
    assert got.metadata["ms"] >= 0
    assert threading.get_ident() not in target._called.__globals__["THREADS"]


@pytest.mark.parametrize("name", ["later", "lazily"])
def test_a_list_of_contexts_from_async_code(function, name):
    """A list is the contexts; async functions are awaited."""
    assert answer(function(name)).contexts == (Context(text="t"), Context(id="d", score=1.0))


def test_a_mapping_with_parts(function):
    """Answer, contexts, calls and messages are taken; the query and the gold stay the asked sample's own."""
    got = answer(function("parts"))
    assert (got.query, got.reference, got.response) == ("why?", "r", "a")
    assert got.contexts == (Context(text="t"),)
    assert got.calls == (Call(contexts=(Context(text="t"),)),)
    assert got.messages == (Message(role="assistant", content="a"),)
    assert got.metadata["seen"] == {"k": 1}


def test_a_sample_and_what_a_function_may_ask_for(function):
    """A parameter called sample or case gets it."""
    got = answer(function("made"))
    assert (got.id, got.response, got.contexts) == ("q1", "q1", (Context(text="t"),))
    assert answer(function("of_case")).response == "none"
    case = Case(sample=Sample(id="a", query="b"), expected_outcome="it works")
    assert answer(function("of_case"), case).response == "it works"
    assert answer(function("rag.ask")).response == "method"


def test_documents_and_arrays_of_libraries(function):
    """What retrievers return: objects with page_content, numbers of numpy."""
    (document,) = answer(function("documents")).contexts
    assert (document.text, document.metadata) == ("t", {"page": 1})
    got = answer(function("numbers"))
    assert got.contexts == (Context(text="t", score=0.5),)
    assert got.metadata["vector"] == (0, 1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "KeyError: 'no index'"),
        ("leaves", "SystemExit: bye"),
        ("ends", "RuntimeError: the function raised StopIteration; give next"),
        ("nothing", "the answer has the unknown type NoneType"),
        ("endless", "contains itself"),
        ("nameless", r"contexts\[0\] is a value of type object, not a passage; write a string or an object"),
        ("unordered", "the answer has the unknown type set; return a string"),
        ("broken", r"contexts\[0\]\.grade is the number 9"),
    ],
)
def test_failures_are_the_samples(function, name, said):
    """Whatever a function does wrong is a TargetError with its type and message."""
    with pytest.raises(TargetError, match=said):
        answer(function(name))


def test_half_a_character_is_replaced(function):
    """What no file could hold is replaced before it gets there."""
    assert answer(function("half")).response == "half \ufffd"


def test_two_projects_may_have_a_module_of_the_same_name(function, tmp_path):
    """The one beside the targets file is meant."""
    assert answer(function("text")).response == "you asked why?"
    other = tmp_path / "other"
    other.mkdir()
    (other / "my_rag_system.py").write_text("def text(query): return 'other'")
    (other / "targets.yaml").write_text(
        "targets: [{name: a, provider: python, function: 'my_rag_system:text'}]"
    )
    assert answer(open_target("a", other)).response == "other"


def test_contexts_of_the_case_stay_where_the_answer_has_none(function):
    """An explicit list on the sample goes before what is found in the answer's text."""
    asked = Sample(id="q1", query="why?", contexts=(Context(text="own"),))
    assert answer(function("text"), asked).contexts == asked.contexts
    assert answer(function("later"), asked).contexts == (Context(text="t"), Context(id="d", score=1.0))


RETRIEVERS = """
from collections import namedtuple
from dataclasses import dataclass

class Bag:
    def __init__(self, **fields):
        self.__dict__.update(fields)

class LangChain:
    def invoke(self, query):
        return [Bag(page_content=f"about {query}", id="d1", metadata={"page": 2})]

class Node:
    node_id, metadata = "d1", {"page": 2}
    def __init__(self, query):
        self.query = query
    def get_content(self):
        return f"about {self.query}"

class LlamaIndex:
    def retrieve(self, query):
        return [Bag(node=Node(query), score=0.5)]

class Response:
    def __init__(self, nodes):
        self.source_nodes = nodes
    def __str__(self):
        return "said"

class Engine:
    def query(self, query):
        return Response([Bag(node=Node(query), score=0.5)])

class Component:
    def run(self, query):
        return {"documents": [Bag(content=f"about {query}", id="d1", score=0.5, meta={"page": 2})]}

class Pipeline:
    def inputs(self):
        return {"retriever": {"query": {}, "top_k": {}}, "prompt": {"question": {}}, "llm": {}}
    def run(self, data):
        assert set(data) == {"retriever", "prompt"}, data
        return {"retriever": Component().run(data["retriever"]["query"]), "llm": {"replies": ["said"]}}

class OfText:
    def run(self, text):
        return Component().run(text)

@dataclass
class Answer:
    text: str
    contexts: list

class Whole:
    def invoke(self, query):
        return Answer("said", [Passage("d1", f"about {query}", 2)])

class Chat:
    def invoke(self, query):
        return Bag(content="said", type="ai")

Hit = namedtuple("Hit", "id content page")

@dataclass
class Passage:
    doc_id: str
    text: str
    page: int

def yields(query):
    yield Hit("d1", f"about {query}", 2)

def table(query):
    import pandas
    return pandas.DataFrame({"doc_id": ["d1"], "content": [f"about {query}"], "page": [2]})

of_text, chat, whole = OfText(), Chat(), Whole()
lang, llama, engine, component, pipeline = LangChain(), LlamaIndex(), Engine(), Component(), Pipeline()
"""


def opened_retriever(folder: Path, name: str) -> Target:
    (folder / "shapes_of_retrievers.py").write_text(RETRIEVERS)
    path = folder / "targets.yaml"
    path.write_text(f"targets: [{{name: r, provider: python, function: 'shapes_of_retrievers:{name}'}}]")
    return open_target("r", path)


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("lang", None),
        ("llama", None),
        ("engine", "said"),
        ("component", None),
        ("pipeline", "said"),
        ("whole", "said"),
        ("of_text", None),
        ("yields", None),
        ("table", None),
    ],
)
def test_retrievers_of_other_libraries_are_asked_as_they_are(
    tmp_path: Path, name: str, response: str | None
) -> None:
    """By the methods that they have; nothing of these libraries is imported."""
    found = asyncio.run(opened_retriever(tmp_path, name).answer(Sample(id="q", query="steam")))
    (context,) = found.contexts or ()
    assert (context.text, context.id, context.metadata["page"]) == ("about steam", "d1", 2)
    assert found.response == response


def test_a_chat_model_answers_with_its_text(tmp_path: Path) -> None:
    """A message is not written down as Python shows it."""
    assert (
        asyncio.run(opened_retriever(tmp_path, "chat").answer(Sample(id="q", query="steam"))).response
        == "said"
    )


SLOW = """
import asyncio, os, subprocess, sys, time
print("imported")
def prints(query):
    print("printed"); os.write(1, b"written\\n"); subprocess.run(["echo", "a child"])
    return {"response": "x", "contexts": ["a"]}
async def prints_later(query): await asyncio.sleep(0); print("later"); return ["a"]
def leaves(query): sys.exit(3)
async def leaves_later(query): sys.exit(3)
"""


def ran(tmp_path, function):
    """What `germane run` printed, and its exit code."""
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "targets.yaml").write_text(
        f"targets: [{{name: t, provider: python, function: 'slow:{function}'}}]"
    )
    (tmp_path / "e.yaml").write_text(
        "judge: lexical\ntarget: t\nmeasures: [context_precision]\ndata: q.jsonl"
    )
    (tmp_path / "q.jsonl").write_text('{"id": "a", "query": "b"}')
    command = [sys.executable, "-m", "germane", "run", "e.yaml", "--json", "-o", "r"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("function", ["prints", "prints_later"])
def test_what_a_function_prints_goes_to_stderr(tmp_path, function):
    """Of the module, of the function and of what it starts: stdout is one JSON document."""
    done = ran(tmp_path, function)
    assert json.loads(done.stdout)["exit_code"] == done.returncode == 0
    assert "imported" in done.stderr
    said = {"prints": ["printed", "written", "a child"], "prints_later": ["later"]}[function]
    assert all(line in done.stderr for line in said)


@pytest.mark.parametrize("function", ["leaves", "leaves_later"])
def test_a_function_that_leaves_is_the_samples_error(tmp_path, function):
    """SystemExit ends neither the evaluation nor its loop."""
    done = ran(tmp_path, function)
    document = json.loads(done.stdout)
    assert (document["exit_code"], done.returncode) == (3, 3), done.stderr
    assert "SystemExit: 3" in document["scores"][0]["why"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"contexts": {"a"}}, "contexts is a value of type set"),
        ({"contexts": ["a"], "messages": range(2)}, "the answer"),
        ({"response": b"x", "calls": [{"query": {1}, "contexts": [object()]}]}, "the answer"),
    ],
)
def test_an_answer_of_odd_values_is_an_error_of_its_sample(answer: object, problem: str) -> None:
    """Not of the whole run."""
    target = PythonTarget.calling(lambda _query: answer)
    with pytest.raises(TargetError, match=problem):
        asyncio.run(target.answer(Sample(id="a", query="q")))


def test_an_error_that_json_cannot_represent_is_the_error() -> None:
    """As Python writes it."""
    target = PythonTarget.calling(lambda _query: {"error": {"codes": {7}}})
    assert asyncio.run(target.answer(Sample(id="a", query="q"))).error == "{'codes': {7}}"
