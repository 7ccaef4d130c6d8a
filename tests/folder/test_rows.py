"""Parts: what is merged is the same however the work was cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from germane.folder.tables import BlockRows, merge
from germane.places.lists import PlaceRow
from germane.tables.judgements import JudgementTable
from germane.tables.labels import Label
from germane.tables.scores import ScoreTable
from germane.types import Judgement, Sample, Score

GRADERS = [[{"name": "RR", "weight": 1.0}], [{"name": "AP", "weight": 2.0}], [{"name": "RR", "weight": 1}]]


def part_of(number: int) -> BlockRows:
    """A part of two samples that shares a judgement with its neighbours."""
    samples = [Sample(id=f"q{number}-{k}", query="q") for k in range(2)]
    keys = [f"k{number + k}" for k in range(2)]
    return BlockRows(
        samples=samples,
        places=[PlaceRow(key, "relevance", sample.id) for key, sample in zip(keys, samples, strict=True)],
        judgements=JudgementTable(
            Judgement(key=key, kind="relevance", judge="m", answer=number) for key in keys
        ),
        labels=[Label(item="i", kind="relevance", answer=number, scale="graded")],
        scores=ScoreTable(Score(sample=s.id, measure="RR", type="RR", value=number / 7) for s in samples),
        graders=[GRADERS[number % 3], GRADERS[(number + 1) % 3]],
        graded={samples[1].key: 1},
        notes=Counter({"a note": number, f"note {number}": 1}),
        prompts={"relevance": "hash"},
        reads={"RR": {f"kind{number % 2}"}},
    )


def shown(part: BlockRows) -> dict[str, Any]:
    sets = part.grader_numbers()
    return {
        "samples": part.samples,
        "places": list(part.places),
        "judgements": list(part.judgements),
        "labels": list(part.labels),
        "scores": b"".join(part.scores.lines()),
        "graders": [part.graders[sets.get((s.id, "", 0), 0)] for s in part.samples],
        "sets": part.graders,
        "notes": part.notes,
        "asked": part.asked,
        "reads": part.reads,
    }


@given(st.lists(st.integers(1, 6), max_size=6), st.data())
def test_merging_is_associative(numbers: list[int], data: st.DataObject) -> None:
    """Any prefix may be merged first; the graders of each sample stay its own."""
    cut = data.draw(st.integers(0, len(numbers)))
    parts = [part_of(number) for number in numbers]
    whole = shown(merge(parts))
    halves = merge([merge(map(part_of, numbers[:cut])), merge(map(part_of, numbers[cut:]))])
    assert shown(halves) == whole
    expected = [graders for part in parts for graders in part.graders]
    assert whole["graders"] == expected
    assert len(whole["sets"]) <= len(GRADERS)
