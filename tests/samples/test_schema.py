"""The published JSON Schema is the reader's own table, and agrees with the reader."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from scripts.reference_pages import sample_schema

from germane.errors import InputError
from germane.samples import samples_from

PUBLISHED = Path(__file__).parents[2] / "docs" / "schema" / "sample.schema.json"
SCHEMA = Draft202012Validator(sample_schema())


def reads(line) -> bool:
    try:
        return bool(list(samples_from([line])))
    except InputError:
        return False


def test_the_published_schema_is_the_readers():
    """docs/schema/sample.schema.json is `sample_schema()`, written out."""
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == sample_schema()
    Draft202012Validator.check_schema(sample_schema())


QUERY: dict[str, object] = {"query": "a"}
LINES: list[tuple[dict[str, object], bool]] = [
    (QUERY, True),
    ({"question": "a"}, True),
    ({"userInput": "a", "query": None}, True),
    ({}, False),
    ({"query": None}, False),
    ({"query": " "}, False),
    ({"query": 1}, False),
]
MORE: list[tuple[dict[str, object], bool]] = [
    ({"id": 3}, True),
    ({"id": ""}, False),
    ({"id": 1.5}, False),
    ({"contexts": ["t", {"pageContent": "t"}, {"docId": 3}]}, True),
    ({"contexts": [{}]}, False),
    ({"contexts": [{"text": None}]}, False),
    ({"contexts": [{"text": "t", "grade": 4}]}, False),
    ({"contexts": [{"text": "t", "grade": 2, "relevant": True}]}, False),
    ({"contexts": [{"text": "t", "grade": 2, "relevant": None}]}, True),
    ({"contexts": {"text": "t"}}, False),
    ({"retrievedContexts": "t"}, False),
    ({"doc_ids": ["a", 1]}, True),
    ({"qrels": {"d": 2}}, True),
    ({"qrels": ["d"]}, True),
    ({"qrels": {"d": "x"}}, False),
    ({"qrels": {"": 1}}, False),
    ({"calls": [{"query": "s", "contexts": ["t"]}]}, True),
    ({"calls": [{"query": "s"}]}, False),
    ({"calls": [{"contexts": [], "hits": 1}]}, False),
    ({"gold": [["a"], ["b", "c"]]}, True),
    ({"gold": ["a"]}, False),
    ({"evidence": [{"quote": "x"}, "y", {"doc": "d", "start": 0, "end": 2}]}, True),
    ({"evidence": [{"doc": "d"}]}, False),
    ({"answerable": False}, True),
    ({"answerable": 0}, False),
    ({"history": [{"role": "user", "content": "x"}]}, True),
    ({"history": [{"content": "x"}]}, False),
    ({"contexts": [{"text": "t", "grade": 4}], "grade_scale": [0, 4]}, True),
    ({"contexts": [{"text": "t", "grade": 4}], "gradeScale": None}, False),
    ({"calls": [{"contexts": [{"text": "t", "grade": 4}]}]}, False),
    ({"grade_scale": [0]}, False),
    ({"criteria": "c", "cluster": "k"}, True),
    ({"trial": -1}, False),
    ({"trial": 1.0}, True),
    ({"tags": ["x"], "metadata": {"a": 1}, "anything": [1]}, True),
    ({"tags": [1]}, False),
    ({"metadata": []}, True),
]


@pytest.mark.parametrize(("line", "good"), [*LINES, *(({**QUERY, **more}, good) for more, good in MORE)])
def test_schema_and_reader_agree(line, good):
    """What the schema allows is read, and what it forbids is refused."""
    assert SCHEMA.is_valid(line) is good
    assert reads(line) is good


SCALARS = st.none() | st.booleans() | st.integers(-3, 5) | st.floats(0, 2) | st.sampled_from(["", " ", "t"])
CONTEXT = st.dictionaries(
    st.sampled_from(["text", "id", "score", "grade", "relevant", "metadata", "start"]), SCALARS
)
VALUES = (
    SCALARS | st.lists(SCALARS | CONTEXT, max_size=2) | st.dictionaries(st.sampled_from(["d", ""]), SCALARS)
)
UNSAID = {
    "retrieved_context_ids",
    "grade_scale",
    "gradeScale",
}  # whose rules need the numbers of other fields
PROPERTIES = sample_schema()["properties"]
ROWS = st.dictionaries(st.sampled_from([field for field in PROPERTIES if field not in UNSAID]), VALUES)


@given(ROWS)
def test_schema_and_reader_agree_on_whatever_comes(row):
    """On any row with one spelling of each field, the two say the same."""
    fields = [PROPERTIES[key].get("$ref", f"#/properties/{key}") for key in row]
    if len(set(fields)) == len(fields) and "#/properties/retrieved_context_ids" not in fields:
        assert SCHEMA.is_valid(row) is reads(row)
