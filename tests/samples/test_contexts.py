"""Where contexts are found, in their order; and document ids from chunk ids."""

import json
from typing import Any

import pytest

from germane.errors import InputError
from germane.samples.contexts import FALLBACK, compile_rule, find_contexts
from germane.types import Call, Context, Message, Sample, ToolCall, freeze

AB = (Context(text="a"), Context(text="b"))


def searched(*results, tool="search", query="q"):
    return ToolCall(tool=tool, input=freeze({"query": query}), output=freeze({"results": list(results)}))


def said(text: str | None = None, *calls: ToolCall) -> Sample:
    messages = (Message(role="assistant", content=text, tool_calls=calls),) if calls else ()
    return Sample(id="q", query="why?", response=text, messages=messages)


def found(sample: Sample, **how: Any):
    """The contexts, the calls and the note."""
    result, note = find_contexts(sample, **how)
    return result.contexts, result.calls, note


NOTHING = (None, None, "")


@pytest.mark.parametrize("key", ["retrieved_context", "retrieved_contexts", "contexts", "retrievedContext"])
def test_a_json_object_with_one_of_the_keys(key):
    """Strings and objects, under any of the names."""
    answer = json.dumps({"answer": "x", key: ["a", {"page_content": "b"}]})
    assert found(said(answer)) == (AB, None, "")


def test_the_samples_own_list_goes_before_everything():
    """What was handed over as a list is not looked for again, not even an empty one."""
    answer = json.dumps({"contexts": ["x"]})
    assert found(Sample(id="q", query="w", response=answer, contexts=())) == ((), None, "")
    own = (Call(contexts=AB),)
    assert found(Sample(id="q", query="w", response=answer, calls=own)) == (None, own, "")


def test_a_json_object_goes_before_tool_calls_and_these_before_an_array():
    """The order of the places is fixed."""
    assert found(said('{"contexts": ["a", "b"]}', searched("x")))[0] == AB
    assert found(said('["x"]', searched("a", "b")))[1] == (Call(query="q", contexts=AB, source="search"),)
    assert found(said('["a", "b"]')) == (AB, None, "")


def test_each_tool_call_is_a_call_of_its_own():
    """Searches of an agent are never joined into one ranking; a tool without results is no search."""
    sample = said("x", searched("a"), ToolCall(tool="clock", output="noon"), searched(tool="web"))
    assert found(sample)[1] == (
        Call(query="q", contexts=(Context(text="a"),), source="search"),
        Call(query="q", contexts=(), source="web"),
    )


def test_nested_spans_fold_into_the_outer_one():
    """A retriever inside a tool is the tool's search, its results counted once."""
    inner = {"tool_calls": [{"output": {"results": ["a", "b"]}}, {"output": {"results": ["b"]}}]}
    outer = ToolCall(tool="ask", output=freeze(inner))
    assert found(said("x", outer))[1] == (Call(contexts=AB, source="ask"),)
    both = ToolCall(tool="ask", output=freeze({"results": ["a", "b"], **inner}))
    assert found(said("x", both))[1] == (Call(contexts=AB, source="ask"),)


@pytest.mark.parametrize(
    "answer",
    [
        'Here:\n```json\n["a", "b"]\n```\nDone.',
        'Here:\n```\n{"contexts": ["a", "b"]}\n```',
        '```json\n{"note": 1}\n```\n```json\n["a", "b"]\n```',
    ],
)
def test_fenced_json(answer):
    """JSON in a fence, with text around it."""
    assert found(said(answer)) == (AB, None, "")


@pytest.mark.parametrize("answer", ['["a"\n\nb]', '{"contexts": [a\n\nb', "```json\n[a\n\nb\n```"])
def test_malformed_json_falls_back_to_blocks_and_says_so(answer):
    """Text that starts like JSON and is none is split at blank lines, with a note."""
    contexts, _, note = found(said(answer))
    assert len(contexts) == 2
    assert FALLBACK in note


def test_text_is_split_when_asked_for():
    """`contexts_from: text` takes blocks of any text, whatever it looks like."""
    assert found(said("a\r\n \r\n\r\nb\n"), contexts_from="text") == (AB, None, FALLBACK)
    assert found(said(" \n"), contexts_from="text") == NOTHING


@pytest.mark.parametrize(
    "answer", ["plain words\n\nmore", '{"answer": "x"}', "[1, 2]", "", '{"contexts": [3]}']
)
def test_nothing_is_found_where_nothing_is(answer):
    """Prose is not a list of contexts."""
    assert found(said(answer)) == NOTHING


def test_an_empty_list_is_found():
    """Nothing retrieved is something else than not known."""
    assert found(said('{"retrieved_context": []}')) == ((), None, "")


def test_hostile_answers_do_no_harm():
    """Bottomless nesting and a key twice are broken JSON like any other."""
    assert found(said("[" * 100_000)) == NOTHING
    assert found(said('{"contexts": ["a"],\n\n"contexts": ["b"]}'))[2]


@pytest.mark.parametrize("answer", ['{"retrieved_context": [', '["a", "b"', "```json\n{contexts\n```"])
def test_broken_json_without_blank_lines_holds_no_contexts(answer):
    """The JSON itself is no passage that could be judged."""
    assert found(said(answer)) == NOTHING


@pytest.mark.parametrize("key", ["retrieved_context", "contexts"])
def test_a_text_in_place_of_the_list_is_split_at_blank_lines(key):
    """As the fallback of the origin does, and the note says so; white space alone is nothing."""
    note = f"{key} is a string, not a list: {FALLBACK}"
    assert found(said(json.dumps({key: "a\n\nb"}))) == (AB, None, note)
    assert found(said(json.dumps({key: "a"})))[0] == AB[:1]
    assert found(said(json.dumps({key: " \n"})))[0] is None


@pytest.mark.parametrize(
    ("pattern", "chunk", "document"),
    [
        ("<(urn:uuid:[^>]+)>", "doc-<urn:uuid:U-1>::chunk-3", "urn:uuid:U-1"),
        ("^[^#]+", "d7#3", "d7"),
        ("<(x)>", "d7", "d7"),
        ("(x)?", "d7", "d7"),
        (None, "d7#3", "d7#3"),
    ],
)
def test_document_ids(pattern, chunk, document):
    """The first group, else the whole match, else the id as it stands; in contexts and in calls."""
    context = Context(id=chunk, text="t", score=0.5)
    sample = Sample(
        id="q", query="w", contexts=(context, Context(text="no id")), calls=(Call(contexts=(context,)),)
    )
    mapped = compile_rule(pattern)(sample)
    assert mapped.contexts == (Context(id=document, text="t", score=0.5), Context(text="no id"))
    assert mapped.calls == (Call(contexts=(Context(id=document, text="t", score=0.5),)),)


def test_a_bad_expression_is_an_input_error():
    """And says what one looks like."""
    with pytest.raises(InputError, match="not a regular expression"):
        compile_rule("(")
