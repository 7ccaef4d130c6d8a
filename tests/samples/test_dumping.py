"""Samples to JSON lines and back: nothing is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from germane.samples.reading import samples_from
from germane.samples.rows import sample_to_json
from germane.types import Call, Context, Evidence, FrozenDict, Message, Sample, ToolCall

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
numbers = st.floats(allow_nan=False, allow_infinity=False)
maybe = st.none()
values = st.recursive(
    maybe | st.booleans() | st.integers() | words,
    lambda inner: (
        st.lists(inner, max_size=2).map(tuple) | st.dictionaries(words, inner, max_size=2).map(FrozenDict)
    ),
    max_leaves=4,
)
metadata = st.dictionaries(st.sampled_from(["colour", "size", "depth"]), values, max_size=2).map(FrozenDict)
contexts = st.builds(
    Context,
    text=words,
    id=maybe | words,
    score=maybe | numbers,
    grade=maybe | st.integers(0, 3),
    metadata=metadata,
) | st.builds(Context, id=words, relevant=maybe | st.booleans())
lists = st.lists(contexts, max_size=3).map(tuple)
calls = st.builds(
    Call, query=maybe | words, contexts=lists, ms=maybe | st.floats(0, 1e6), source=maybe | words
)
tools = st.builds(ToolCall, tool=words, input=maybe | words, output=maybe | words)
messages = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant"]),
    content=words,
    tool_calls=st.lists(tools, max_size=1),
)
evidence = st.builds(Evidence, quote=words) | st.builds(
    Evidence, doc=words, start=st.just(3), end=st.integers(4, 99)
)
samples = st.builds(
    Sample,
    id=words.map(str.strip),
    query=words,
    system=st.sampled_from(["", "bm25"]),
    trial=st.integers(0, 3),
    contexts=maybe | lists,
    reference=maybe | words,
    criterion=maybe | words,
    cluster=maybe | words,
    grade_scale=maybe | st.just((0, 3)) | st.just((-1, 4)),
    response=maybe | words,
    qrels=maybe | st.dictionaries(words, st.integers(-1, 3), max_size=3).map(FrozenDict),
    gold=maybe | st.lists(st.lists(words, min_size=1, max_size=2), min_size=1, max_size=2),
    evidence=maybe | st.lists(evidence, min_size=1, max_size=2),
    answerable=maybe | st.booleans(),
    forbidden=st.lists(words, max_size=2),
    history=st.lists(messages, max_size=1),
    messages=st.lists(messages, max_size=1),
    error=maybe | words,
    tags=st.lists(words, max_size=2),
    metadata=metadata,
)


@given(samples, maybe | st.lists(calls, min_size=1, max_size=3).map(tuple))
def test_a_sample_comes_back_as_it_was(sample: Sample, searches: tuple[Call, ...] | None) -> None:
    """Whatever a sample holds, its line of JSON reads back to an equal sample."""
    if searches is not None:
        sample = replace(sample, contexts=None, calls=searches)
    line = json.dumps(sample_to_json(sample), ensure_ascii=False, allow_nan=False)
    (again,) = samples_from([json.loads(line)])
    assert again == sample


def test_an_empty_search_stays_an_empty_search() -> None:
    """A call that found nothing, and a sample that retrieved nothing, say so in their line."""
    nothing = Sample(id="a", query="q", calls=(Call(query="x", contexts=()),))
    assert sample_to_json(nothing)["calls"] == [{"query": "x", "contexts": []}]
    assert sample_to_json(Sample(id="a", query="q", contexts=()))["contexts"] == []
    assert "contexts" not in sample_to_json(Sample(id="a", query="q"))


@pytest.mark.parametrize("number", [-(10**30), 2**64])
def test_a_whole_number_of_any_length_stays_whole(number: int) -> None:
    """What a tool was given, or metadata, may be longer than 64 bits: it is not rounded to a float."""
    call = ToolCall(tool="search", input=number)
    message = Message(role="assistant", content="a", tool_calls=(call,))
    sample = Sample(id="a", query="q", messages=(message,), metadata=FrozenDict(n=number))
    (again,) = samples_from([sample_to_json(sample)])
    assert again == sample
    assert type(again.metadata["n"]) is int
