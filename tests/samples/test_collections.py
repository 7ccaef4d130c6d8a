"""LongMemEval and LoCoMo as samples: small documents made in their projects' shapes, and BEIR with its corpus."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from germane.errors import InputError
from germane.labelling.corpus import Corpus
from germane.samples import read_samples
from germane.types import Sample
from tests.command import invoke

MEMORY: list[dict[str, Any]] = [
    {
        "question_id": "e47b",
        "question_type": "multi-session",
        "question": "How many plants did I buy?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 02:36",
        "haystack_session_ids": ["s1", "s2"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 05:54"],
        "haystack_sessions": [
            [{"role": "user", "content": "I bought two ferns.", "has_answer": True}, {"role": "assistant", "content": "Nice."}],
            [{"role": "user", "content": "And a cactus.", "has_answer": True}],
        ],
        "answer_session_ids": ["s1", "s2"],
    },
    {
        "question_id": "77aa_abs",
        "question_type": "single-session-user",
        "question": "What is my cat called?",
        "answer": "You did not say.",
        "question_date": "2023/05/30 (Tue) 02:40",
        "haystack_session_ids": ["s3"],
        "haystack_dates": ["2023/05/22 (Mon) 05:54"],
        "haystack_sessions": [[{"role": "user", "content": "My dog is called Rex."}]],
        "answer_session_ids": ["s3"],
    },
]  # fmt: skip
CONVERSATIONS = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bo",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I painted a lake in 2022."},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "I went to Oslo."},
            ],
        },
        "qa": [
            {"question": "When did Ann paint a lake?", "answer": 2022, "evidence": ["D1:1"], "category": 2},
            {
                "question": "Who went where?",
                "answer": "Bo, to Oslo",
                "evidence": ["D1:1; D1:2", "D9:9"],
                "category": 1,
            },
            {
                "question": "When did Bo paint a lake?",
                "adversarial_answer": "2022",
                "evidence": ["D1:1"],
                "category": 5,
            },
        ],
    }
]


def read(document: Any, folder: Path) -> list[Sample]:
    path = folder / "collection.json"
    path.write_text(json.dumps(document))
    return list(read_samples(path))


def test_long_mem_eval(tmp_path: Path) -> None:
    """Sessions are gold, turns with the answer evidence, the type a tag; an abstention question has no answer."""
    one, other = read(MEMORY, tmp_path)
    assert (one.id, one.query, one.reference) == ("e47b", "How many plants did I buy?", "3")
    assert one.qrels == {"s1": 1, "s2": 1}
    assert [piece.quote for piece in one.evidence or ()] == ["I bought two ferns.", "And a cactus."]
    assert (one.tags, one.answerable) == (("type:multi-session",), None)
    assert one.metadata == {"question_date": "2023/05/30 (Tue) 02:36"}
    assert (other.answerable, other.evidence) == (False, None)


def test_locomo(tmp_path: Path) -> None:
    """A sample per question; turns are gold, also where one text names several; an adversarial question has no answer."""
    first, second, third = read(CONVERSATIONS, tmp_path)
    assert (first.id, first.cluster, first.reference) == ("conv-1-1", "conv-1", "2022")
    assert first.qrels == {"D1:1": 1}
    assert [piece.quote for piece in first.evidence or ()] == ["I painted a lake in 2022."]
    assert second.qrels == {"D1:1": 1, "D1:2": 1, "D9:9": 1}
    assert len(second.evidence or ()) == 2
    assert (third.answerable, third.reference, third.tags) == (False, None, ("category:5",))


def test_they_are_validated_and_run(tmp_path: Path) -> None:
    """Their questions wait for a target's answers."""
    (tmp_path / "m.json").write_text(json.dumps(MEMORY))
    assert invoke("validate", tmp_path / "m.json").code == 0


def test_what_is_wrong_in_an_entry_is_named(tmp_path: Path) -> None:
    """With the file and its line."""
    broken = [{**MEMORY[0], "question": None}]
    with pytest.raises(InputError, match=r"collection\.json:1.*has no query"):
        read(broken, tmp_path)


@pytest.mark.parametrize("document", [MEMORY, CONVERSATIONS], ids=["LongMemEval", "LoCoMo"])
def test_nothing_but_an_input_error_comes_of_damage(document: Any, tmp_path: Path) -> None:
    """Values of all types in every place, one after the other."""
    rng = random.Random(1)

    def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        inner = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        return [path, *(place for key, one in inner for place in places(one, (*path, key)))]

    for path in places(document)[1:]:
        for wrong in rng.sample([None, 7, 1.5, "", "x", [], ["x"], [1], {}, {"a": 1}, True], 4):
            copy = json.loads(json.dumps(document))
            at = copy
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = wrong
            try:
                read(copy, tmp_path)
            except InputError as fault:
                assert "collection.json" in str(fault)  # noqa: PT017 - any other error fails the test


def test_a_beir_folder_brings_its_corpus(tmp_path: Path) -> None:
    """Queries with gold as samples, `corpus.jsonl` as the corpus."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "", "text": "noon"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "when?"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    (sample,) = read_samples(tmp_path)
    assert (sample.query, sample.qrels) == ("when?", {"d1": 1})
    assert dict(Corpus(tmp_path).documents()) == {"d1": "noon"}
