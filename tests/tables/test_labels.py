"""Labels of people: which one counts, and how those in the data are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from germane.errors import InputError
from germane.tables.labels import (
    Label,
    LabelBook,
    dump_label,
    labels_on,
    load_label,
    relevance_item,
)
from germane.types import Call, Context, FrozenDict, Sample


def label(answer: Any, who: str | None = None, at: str | None = None, **more: Any) -> Label:
    return Label(
        **{
            "item": "i",
            "kind": "relevance",
            "scale": "graded",
            "answer": answer,
            "who": who,
            "at": at,
            **more,
        }
    )


@pytest.mark.parametrize(
    ("labels", "counts"),
    [
        ([label(1, "ann", "2026-01-01"), label(3, "ann", "2026-01-02")], 3),
        ([label(3, "ann", "2026-01-02"), label(1, "ann", "2026-01-01")], 3),
        ([label(0, "ann", "2026-01-01T11:00Z"), label(3, "ann", "2026-01-01T12:00+02:00")], 0),
        ([label(0, "ann", "2026-01-01 11:00"), label(3, "ann", "2026-01-01T10:59:59+00:00")], 0),
        ([label(0, "ann", "2026-01-01T11:00"), label(3, "ann", "2026-01-01T12:00+01:00")], 3),
        ([label(["b"], "bob", "2026-01-01T12:00+02:00"), label(["a"], "ann", "2026-01-01T11:00")], ("a",)),
        ([label(1, "ann"), label(2, "ann")], 2),
        ([label(3, "ann"), label(0, "bob")], 0),
        ([label(3, "ann"), label(0, "bob"), label(2, "cid")], 2),
        ([label(3, "ann"), label(0, "bob"), label(2, "cid"), label(1, "dan")], 1),
        ([label(True, "ann", scale="binary"), label(False, "bob", scale="binary")], False),
        ([label(["a"], "ann", "2026-01-02"), label(["b"], "bob", "2026-01-01")], ("a",)),
    ],
)
def test_the_newest_of_each_person_and_the_lower_median_of_several(labels: list[Label], counts: Any) -> None:
    """By time, whatever its zone and UTC without one, then by order; answers that are no numbers have no median."""
    found = LabelBook(labels).get("i")
    assert found is not None
    assert found.answer == counts


def test_items_without_labels_have_none() -> None:
    """A book of labels is looked up by item."""
    book = LabelBook([label(1)])
    assert ("i" in book, "j" in book, book.get("j"), len(book)) == (True, False, None, 1)


def label_rows(sample: Sample, history: Sequence[tuple[str, str]] = ()) -> list[Label]:
    return list(labels_on(sample, history))


def test_grades_in_the_data_are_labels() -> None:
    """Of nobody in particular, at their call and rank; a context without a label has none."""
    graded = (Context(text="a", grade=3), Context(text="b"), Context(text="c", relevant=False))
    sample = Sample(
        id="q1", query="q", system="bm25", calls=(Call(contexts=()), Call(query="x", contexts=graded))
    )
    first, second = label_rows(sample, [("user", "hello")])
    assert first.item == relevance_item("q", "a", [("user", "hello")]) != relevance_item("q", "a")
    assert (first.answer, first.scale, first.who, first.queue) == (3, "graded", None, "import")
    assert (first.sample, first.system, first.call, first.rank) == ("q1", "bm25", 2, 1)
    assert (second.answer, second.scale, second.rank) == (False, "binary", 3)


def test_contexts_that_are_only_ids_are_labelled_apart() -> None:
    """Two documents without text are two items."""
    sample = Sample(id="q1", query="q", contexts=(Context(id="d1", grade=3), Context(id="d2", grade=0)))
    assert len({row.item for row in label_rows(sample)}) == 2


def test_a_label_comes_back_as_it_was() -> None:
    """From its JSON object and from the columns."""
    full = label(
        2, "ann", "2026-01-01T00:00:00+00:00", queue="random", design=FrozenDict(p=0.5), blind=True,
        guideline="g1", reason="because", sample="q1", system="bm25", call=1, rank=3,
    )  # fmt: skip
    for one in (full, label(0)):
        assert load_label(dump_label(one)) == one


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ([1], "cannot be used: Expected `object`"),
        ({"kind": "relevance", "scale": "graded"}, "missing required field `item`"),
        ({"item": "i", "kind": "relevance", "scale": "a-b", "answer": 1}, "unknown scale 'a-b'"),
        (
            {"item": "i", "kind": "relevance", "scale": "graded", "answer": 4},
            "not on the scale 0-3; write a number from 0 to 3, or another scale",
        ),
        ({"item": "i", "kind": "relevance", "scale": "0-5", "answer": {}}, "not on the scale 0-5"),
        ({"item": "i", "kind": "support", "scale": "binary", "answer": 2}, "not on the scale 0-1"),
        ({"item": "i", "kind": "relevance", "scale": "graded", "who": 3}, r"got `int` - at `\$.who`"),
        ({"item": "i", "kind": "relevance", "scale": "graded", "design": "x"}, r"at `\$.design`"),
    ],
)
def test_a_row_that_is_no_label_is_refused(row, problem):
    """With what is wrong in it."""
    with pytest.raises(InputError, match=problem):
        load_label(row)
