"""The table of scores: what is appended is what is read, in memory and on disk, whole or in parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.errors import InputError
from germane.tables.scores import Noted, ScoreRow, ScoreTable
from germane.types import Score

texts = st.text(max_size=4)
finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def scores(draw: st.DrawFn) -> Score:
    key: dict[str, Any] = {
        "sample": draw(texts),
        "system": draw(st.sampled_from(["", "bm25"])),
        "trial": draw(st.integers(0, 3)),
    }
    measure = draw(st.sampled_from(["RR", "nDCG@10"]))
    if draw(st.booleans()):
        why = draw(st.none() | texts)
        return Score(**key, measure=measure, type=measure, value=draw(finite), why=why)
    bounds = draw(
        st.none() | st.tuples(finite, finite | st.just(math.inf)).filter(lambda pair: pair[0] <= pair[1])
    )
    status: Any = draw(st.sampled_from(["skipped", "incomplete", "error"]))
    return Score(**key, measure="named", type=measure, status=status, why="for a reason", bounds=bounds)


@given(st.lists(scores()))
def test_rows_come_back_as_they_were(rows: list[Score]) -> None:
    """From the columns and from their lines."""
    table = ScoreTable(rows)
    assert list(table) == rows
    lines = list(table.lines())
    again = ScoreTable().read(lines)
    assert list(again) == rows
    assert list(again.lines()) == lines
    assert len(table) == len(rows)


@given(st.lists(scores()), st.lists(scores()), st.lists(scores()))
def test_tables_are_put_together_in_any_grouping(a: list[Score], b: list[Score], c: list[Score]) -> None:
    """Appending tables is the same as appending their rows, whichever are joined first."""
    left = ScoreTable(a).extend(ScoreTable(b)).extend(ScoreTable(c))
    right = ScoreTable(a).extend(ScoreTable(b).extend(ScoreTable(c)))
    for joined in (left, right):
        assert list(joined) == [*a, *b, *c]
        assert joined.samples == ScoreTable([*a, *b, *c]).samples


names = st.sampled_from(["AP", "RR", "R@10"])
pieces = st.tuples(st.integers(0, 3), st.lists(names, max_size=3), st.booleans())
"""How many new samples, their measures, and whether the rows are appended or come as a table."""


@given(
    st.lists(pieces, max_size=6)
    | st.lists(st.tuples(st.integers(0, 3), st.just(["AP", "RR"]), st.booleans()))
)
def test_rows_in_order_are_found_as_others_are(some: list[tuple[int, list[str], bool]]) -> None:
    """Samples with the same measures in their order need no numbers; rows, measures and samples are the same with others among them."""
    table, rows = ScoreTable(), list[Score]()
    for count, measures, appended in some:
        keys = [f"q{len(rows)}.{number}" for number in range(count)]
        new = [
            Score(
                sample=key,
                system="s",
                trial=len(rows) % 2,
                measure=name,
                type=name,
                value=float(len(rows) + at),
            )
            for at, (key, name) in enumerate((key, name) for key in keys for name in measures)
        ]
        if appended:
            for score in new:
                table.add(score)
        else:
            samples = keys, ["s"] * len(keys), [len(rows) % 2] * len(keys)
            values = np.array([score.value for score in new]).reshape(count, len(measures))
            table.extend(ScoreTable.of_columns(samples, [(name, name) for name in measures], values, {}))
        rows += new
    assert list(table) == rows == list(ScoreTable().read(table.lines()))
    assert [table.samples[code] for code in table.sample] == [score.key for score in rows]
    assert [table.measures[code][0] for code in table.measure] == [score.measure for score in rows]
    for name in {score.measure for score in rows}:
        assert [rows[at] for at in table.rows_of((name, name))] == [s for s in rows if s.measure == name]
    for key in table.samples:
        assert list(table.of_samples([key])) == [s for s in rows if s.key == key]


def test_the_columns_are_coded() -> None:
    """Each distinct sample, measure and reason is stored once."""
    table = ScoreTable()
    for sample in ("q1", "q2"):
        table.add(ScoreRow(sample, "bm25", 0, "first", "RR", 0.5, "ok", None, None))
        bounds = (0.25, 0.75)
        table.add(ScoreRow(sample, "bm25", 0, "AP", "AP", None, "incomplete", "1 of 2 missing", bounds))
    assert table.samples == [("q1", "bm25", 0), ("q2", "bm25", 0)]
    assert table.measures == [("first", "RR"), ("AP", "AP")]
    assert table.whys == [None, "1 of 2 missing"]
    assert table.sample.tolist() == [0, 0, 1, 1]
    assert table.measure.tolist() == [0, 1, 0, 1]
    assert table.taken().status.tolist() == [0, 2, 0, 2]
    np.testing.assert_array_equal(table.value, [0.5, math.nan] * 2)
    np.testing.assert_array_equal(table.taken().low, [math.nan, 0.25] * 2)
    assert [score.measure for score in table.of_samples([("q2", "bm25", 0)])] == ["first", "AP"]
    assert not list(table.of_samples([("q3", "bm25", 0)]))


@pytest.mark.parametrize(
    "wrong",
    [
        (None, "ok", None),
        (None, "error", None),
        (0.5, "error", "ill"),
        (math.nan, "ok", None),
        (math.inf, "ok", None),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(wrong: Sequence[object]) -> None:
    """A value exactly where the status is ok, and a reason where it is not."""
    with pytest.raises(ValueError, match=r"a score (has|with) the|not a finite number"):
        ScoreTable().add(ScoreRow("q", "", 0, "RR", "RR", *wrong, None))  # type: ignore[arg-type, call-arg]


def test_a_line_that_is_no_score_is_named() -> None:
    """File and line."""
    lines = list(ScoreTable([Score(sample="q", measure="RR", type="RR", value=1.0)]).lines())
    turned = lines[0].replace(b'"bounds":null', b'"bounds":[1,0]')
    for broken in (b"{", b"[]\n", b'{"sample": "q"}\n', turned):
        with pytest.raises(InputError, match=r"r/scores\.jsonl:2: this line is not a score"):
            ScoreTable().read([*lines, broken], "r/scores.jsonl")


def test_a_table_of_computed_values() -> None:
    """One value per sample and measure; a sample that does not count is skipped."""
    values = [np.array([1.0, np.nan]), np.array([0.25, np.nan])]
    noted: dict[int, Noted] = dict.fromkeys((2, 3), ("skipped", "no results", None))
    keys = ["q1", "q2"], ["", ""], [0, 0]
    table = ScoreTable.of_columns(keys, [("RR", "RR"), ("AP", "AP")], values, noted)
    assert [(s.sample, s.measure, s.value, s.status, s.why) for s in table] == [
        ("q1", "RR", 1.0, "ok", None),
        ("q1", "AP", 0.25, "ok", None),
        ("q2", "RR", None, "skipped", "no results"),
        ("q2", "AP", None, "skipped", "no results"),
    ]
