"""Stored answers: the typed answer to each question, read from a file or from judgements in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from germane.folder.files import TableFile, judgement_in
from germane.judging.stored_answers import StoredAnswers
from germane.questions.asking import Unanswered
from germane.questions.relevance import Passages, Relevance
from germane.tables.judgements import judgement_line
from germane.types import FrozenDict, Judgement

HOW = FrozenDict({"against": "query", "scale": "graded", "rubric": "trec"})
QUERY, GOOD, BROKEN, LOST, NEW = "why?", "a passage", "another", "a third", "a fourth"


def _judgements() -> list[Judgement]:
    answers = {GOOD: {"grade": 3, "reasoning": "yes"}, BROKEN: {"grade": 7, "reasoning": ""}, LOST: None}
    return [
        Judgement(
            key=f"{n:032}",
            item=Relevance(query=QUERY, passage=passage).item,
            kind="relevance",
            judge="m",
            answer=answer,
            error="timed out" if answer is None else None,
            provenance=HOW,
        )
        for n, (passage, answer) in enumerate(answers.items())
    ]


@pytest.mark.parametrize("on_disk", [True, False])
def test_typed_answers_of_several_lists(tmp_path: Path, *, on_disk: bool) -> None:
    """Each list has its own answers in its order; what failed, cannot be used or is not there says why."""
    file = tmp_path / "judgements.jsonl"
    file.write_bytes(b"".join(map(judgement_line, _judgements())))
    answers = StoredAnswers(TableFile(file, judgement_in) if on_disk else _judgements())
    asked = [
        Passages([(QUERY, NEW), (QUERY, GOOD)]),
        Passages([]),
        Passages([(QUERY, LOST), (QUERY, BROKEN)]),
    ]
    (new, good), none, (lost, broken) = answers.values(asked)
    assert new == Unanswered("no stored judgement")
    assert good.grade == 3
    assert none == []
    assert lost == Unanswered("timed out")
    assert broken.why.startswith("unusable answer")
    assert (answers.answered, answers.unknown) == (3, 1)
