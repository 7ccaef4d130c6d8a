"""Plain rows: what the fast reader reads is what the careful one does, and everything odd is left to that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.encoding import encode
from germane.errors import InputError, Place
from germane.samples.reading import read_rows, read_samples
from germane.samples.rows import PlainRow, RowReader, plain_row, sample_to_json

PLAIN = {"id": "q1", "query": "what?", "contexts": [{"id": "d1", "text": "one"}], "qrels": {"d1": 2}}

texts = st.sampled_from(["a", "b c", " d", "e : f", 'g":h', "été", " ", "", "\u200b", "0"])
names = st.sampled_from(["d1", "d2", "", 7, None])
grades = st.sampled_from([0, 1, 3, 4, -1, True, None, "2", 1.0])
contexts = st.lists(
    texts
    | st.fixed_dictionaries(
        {"id": names},
        optional={
            "text": texts,
            "score": st.sampled_from([1.5, 2, None, "3"]),
            "grade": grades,
            "relevant": st.sampled_from([True, False, None, 1]),
            "lang": texts,
        },
    )
    | st.fixed_dictionaries({"text": texts, "grade": st.integers(0, 3)}),
    max_size=3,
)
rows = st.fixed_dictionaries(
    {"query": texts},
    optional={
        "id": names,
        "contexts": contexts | st.none(),
        "doc_ids": st.lists(names, max_size=3),
        "qrels": st.dictionaries(st.sampled_from(["d1", "d2", ""]), grades, max_size=2) | st.lists(names),
        "system": texts,
        "trial": st.sampled_from([0, 1, -1, True, None]),
        "reference": texts | st.none(),
        "criteria": texts,
        "answer": texts,
        "tags": st.lists(texts, max_size=2) | st.none(),
        "cluster": texts,
        "grade_scale": st.just([0, 4]),
        "lang": texts,
    },
)


@given(rows)
def test_a_plain_row_is_what_the_careful_reader_reads(row: dict[str, Any]) -> None:
    """Its line in samples.jsonl, its identity and the sample that it makes; a row that is refused is never plain."""
    found = plain_row(json.dumps(row).encode(), 5)
    if found is None:
        return
    sample = RowReader().read(row, 5, lambda _: Place("f"))
    assert encode(found.shown) == encode(sample_to_json(sample))
    assert found.sample == sample
    assert (found.id, found.system, found.trial, found.query) == (
        sample.id,
        sample.system,
        sample.trial,
        sample.query,
    )
    listed = sample.contexts or ()
    columns = found.contexts
    nothing: list[Any] = [None] * len(listed)
    assert (columns.texts or [""] * len(listed)) == [context.text for context in listed]
    assert (columns.ids or nothing) == [context.id for context in listed]
    labels = [context.relevant if context.grade is None else context.grade for context in listed]
    assert (columns.grades or nothing) == labels
    assert found.qrels == sample.qrels
    assert tuple(found.tags) == sample.tags
    assert (found.reference, found.criterion) == (sample.reference, sample.criterion)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(PLAIN),
        json.dumps(PLAIN, separators=(",", ":")),
        json.dumps({**PLAIN, "query": 'is it "a": or b : c?'}),
        json.dumps(PLAIN).replace('"id":', '"id" :'),
        json.dumps({"question": "what?", "retrieved_context_ids": ["d1", "d1"], "gold_ids": ["d1"]}),
        json.dumps({"query": "what?", "contexts": [], "reference": ""}),
        json.dumps({"query": "what?", "contexts": ["one", "two"], "tags": ["a"], "id": 7}),
        json.dumps({"query": "what?", "contexts": [{"grade": 1, "text": "one"}, {"text": "b", "grade": 0}]}),
    ],
)
def test_usual_rows_are_plain(line: str) -> None:
    """However they are spelt."""
    assert plain_row(line.encode(), 1) is not None


@pytest.mark.parametrize(
    "line",
    [
        '{"query": "what?", "contexts": ["one"], "query": "who?"}',
        '{"query": "what?", "contexts": [{"id": "d1", "id": "d2"}]}',
        '{"query": "what?", "contexts": ["one"], "qrels": {"d1": 1, "d1" :2}}',
        '{"query": "what?", "contexts": ["one"], "qrels": {"d1": NaN}}',
        '{"query": "what?", "contexts": ["\\ud83d"]}',
        '{"query": "what?", "contexts": ["one"], "answerable": true}',
        '{"query": "what?", "contexts": ["one"], "calls": []}',
        '{"query": "what?", "contexts": ["one"], "qrels": null}',
        '{"query": "what?", "contexts": ["one"], "doc_ids": ["d1"]}',
        '{"query": "what?"}',
        "[]",
        "",
        '{"query": "what?", "contexts": ["one"]',
    ],
)
def test_odd_rows_are_not(line: str) -> None:
    """Whether they are wrong or only seldom."""
    assert plain_row(line.encode(), 1) is None


def test_rows_of_a_file_keep_their_order_and_their_faults(tmp_path: Path) -> None:
    """Plain rows as rows, others as samples; a fault and an id that comes twice have their line."""
    file = tmp_path / "samples.jsonl"
    odd = {"query": "who?", "contexts": ["one"], "metadata": {"a": 1}}
    lines = [json.dumps(PLAIN), "", json.dumps(odd), json.dumps({**PLAIN, "id": "q2"})]
    file.write_text("\n".join(lines), "utf-8")
    found = list(read_rows(file))
    assert [type(row) is PlainRow for row in found] == [True, False, True]
    assert [row.id for row in found] == ["q1", "3", "q2"]
    as_samples = [row.sample if isinstance(row, PlainRow) else row for row in found]
    assert as_samples == list(read_samples(file))
    for wrong in (json.dumps({**PLAIN, "id": "3"}), json.dumps({**PLAIN, "id": "q3", "qrels": {"d": "x"}})):
        file.write_text("\n".join([*lines, wrong]), "utf-8")
        with pytest.raises(InputError) as fast:
            list(read_rows(file))
        with pytest.raises(InputError) as careful:
            list(read_samples(file))
        assert str(fast.value) == str(careful.value)
        assert ":5" in str(fast.value)
