"""The sweep over retriever scores: what a floor saves, what it costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.errors import InputError
from germane.evaluation.sweep import sweep
from germane.types import Context, FrozenDict, Sample


def sample(name: str, *scored: tuple[str, float], gold: tuple[str, ...] = ()) -> Sample:
    return Sample(
        id=name,
        query=name,
        contexts=tuple(Context(id=doc, text=doc, score=score) for doc, score in scored),
        qrels=FrozenDict(dict.fromkeys(gold, 1)) if gold else None,
        answerable=None if gold else False,
    )


def test_a_floor_between_the_two_kinds_is_found() -> None:
    """Unanswerable questions score up to 3, gold from 5: a floor of 5 keeps all recall and lets nothing through."""
    samples = [
        sample("u1", ("x", 3.0), ("y", 1.0)),
        sample("u2"),
        sample("a1", ("g", 5.0), ("x", 2.0), gold=("g",)),
        sample("a2", ("h", 7.0), gold=("h", "lost")),
    ]
    result = sweep(samples)
    assert (result.best.floor, result.best.false_hits, result.best.recall_kept) == (5.0, 0.0, 1.0)
    assert (result.floors[0].floor, result.floors[0].false_hits) == (3.0, 0.5)
    assert result.floors[-1].recall_kept == 0.0
    at_seven = next(floor for floor in result.floors if floor.floor == 7.0)
    assert at_seven.recall_kept == pytest.approx(0.5 / 1.5)


@given(st.lists(st.floats(-5, 5), min_size=1), st.lists(st.floats(-5, 5), min_size=1))
def test_a_higher_floor_never_lets_more_through(unanswerable: list[float], answerable: list[float]) -> None:
    """Both columns fall as the floor rises, from 1 of recall to 0."""
    samples = [sample(f"u{n}", ("x", score)) for n, score in enumerate(unanswerable)]
    samples += [sample(f"a{n}", ("g", score), gold=("g",)) for n, score in enumerate(answerable)]
    floors = sweep(samples).floors
    assert [f.false_hits for f in floors] == sorted((f.false_hits for f in floors), reverse=True)
    assert [f.recall_kept for f in floors] == sorted((f.recall_kept for f in floors), reverse=True)
    assert (floors[-1].false_hits, floors[-1].recall_kept) == (0.0, 0.0)


def test_what_is_missing_is_named() -> None:
    """Without unanswerable questions, gold or scores there is nothing to sweep."""
    with pytest.raises(InputError, match="answerable: false"):
        sweep([sample("a", ("g", 1.0), gold=("g",))])
    with pytest.raises(InputError, match="no gold document"):
        sweep([sample("u", ("x", 1.0))])
    with pytest.raises(InputError, match="has no score"):
        sweep([Sample(id="s", query="q", contexts=(Context(text="x"),), answerable=False)])
