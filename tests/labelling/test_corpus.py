"""A corpus and gold: its identity, what became of ids and quotes, gold carried to new chunks, and bounds where it is not certain."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from scripts.reference_pages import schema_of

from germane import Report, evaluate
from germane.errors import InputError
from germane.labelling.corpus import (
    Corpus,
    LabelsCheckDocument,
    LabelsMoveDocument,
    TextMatch,
    check_labels,
    move_labels,
)
from germane.samples import samples_from
from germane.types import Sample
from tests.command import invoke

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"
NO_LABELS = dict.fromkeys(("same", "carried", "unsure", "lost", "others"), 0)
WORDS = [f"word{n}" for n in range(120)]


def chunks(size: int) -> dict[str, str]:
    return {f"c{size}-{n}": " ".join(WORDS[at : at + size]) for n, at in enumerate(range(0, 120, size))}


def corpus(path: Path, documents: dict[str, str]) -> Corpus:
    path.write_text(
        "".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in documents.items())
    )
    return Corpus(path)


def samples(*rows: dict[str, Any]) -> list[Sample]:
    return list(samples_from([{"id": f"q{n}", "query": "a", **row} for n, row in enumerate(rows)]))


def test_the_identity_is_that_of_ids_and_texts(tmp_path: Path) -> None:
    """Whatever the order, the format and the names of the columns; another text or id is another corpus."""
    one = corpus(tmp_path / "a.jsonl", {"x": "one", "y": "two"}).identity
    (tmp_path / "b.csv").write_text("doc_id,content\ny,two\nx,one\n")
    (tmp_path / "beir").mkdir()
    (tmp_path / "beir" / "corpus.jsonl").write_text(
        '{"_id": "x", "title": "t", "text": "one"}\n{"_id": "y", "text": "two"}\n'
    )
    (tmp_path / "beir" / "queries.jsonl").write_text('{"_id": "q", "text": "not a document"}\n')
    for path in ("b.csv", "beir"):
        assert Corpus(tmp_path / path).identity["digest"] == one["digest"]
    assert (one["documents"], len(one["digest"])) == (2, 32)
    for other in ({"x": "one", "y": "two."}, {"x": "one", "z": "two"}, {"xo": "ne", "y": "two"}):
        assert corpus(tmp_path / "c.jsonl", other).identity["digest"] != one["digest"]


def test_a_folder_of_texts_is_a_corpus(tmp_path: Path) -> None:
    """Each file a document, named by its path."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_text("one")
    (tmp_path / "b.txt").write_text("two")
    assert dict(Corpus(tmp_path).documents()) == {"b.txt": "two", "sub/a.md": "one"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "a"}\n', "the document a of the corpus has no text"),
        ('{"text": "a"}\n', "no id"),
        (
            '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n',
            "document ids must be unique; a occurs twice",
        ),
        ("[1]\n", "is not a JSON object"),
    ],
)
def test_what_is_no_corpus_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With the file and its line."""
    (tmp_path / "c.jsonl").write_text(text)
    with pytest.raises(InputError, match=message):
        Corpus(tmp_path / "c.jsonl").identity  # noqa: B018


def test_pieces_are_found_whole_and_in_part(tmp_path: Path) -> None:
    """Whole, at the end, at the beginning, and where the document lies within; case and white space do not matter."""
    documents = {
        "whole": "a Quick  brown fox jumps over it",
        "end": "see the quick brown fox",
        "start": "Brown fox jumps and runs",
        "within": "brown fox jumps",
        "none": "fox brown quick",
    }
    found = corpus(tmp_path / "c.jsonl", documents).find(["quick brown fox jumps"])["quick brown fox jumps"]
    assert found[0] == TextMatch("whole", 2, 24, 1.0, exact=False)
    assert {(one.document, one.share) for one in found[1:]} == {
        ("end", 0.75),
        ("start", 0.75),
        ("within", 0.75),
    }


def test_pieces_are_found_in_a_decomposed_text(tmp_path: Path) -> None:
    """With their place in the text as it stands."""
    text = unicodedata.normalize("NFD", "Ô, c'est l'été à la mer. Oui.")
    (match,) = corpus(tmp_path / "a.jsonl", {"x": text}).find(["l'ÉTÉ à la mer"])["l'ÉTÉ à la mer"]
    assert (match.share, text[match.start : match.end]) == (
        1.0,
        unicodedata.normalize("NFD", "l'été à la mer"),
    )


def test_ids_and_quotes_are_checked(tmp_path: Path) -> None:
    """What exists no longer, whose text changed, what is not known, and where quotes stand."""
    rows = samples(
        {"qrels": {"same": 1, "new": 1, "gone": 1, "unseen": 1},
         "contexts": [{"id": "same", "text": "as it  was"}, {"id": "new", "text": "as it was"}],
         "evidence": [{"quote": "it was"}, {"quote": "nowhere to be found"}]},
    )  # fmt: skip
    found = check_labels(
        rows, corpus(tmp_path / "c.jsonl", {"same": "as it was", "new": "other", "unseen": "u"})
    )
    assert (found.missing, found.changed, found.unknown) == (["gone"], ["new"], 1)
    assert [(one.whole, [at.document for at in one.places]) for one in found.quotes] == [
        (True, ["same"]),
        (False, []),
    ]
    jsonschema.validate(json.loads(json.dumps(to_builtins(found))), schema_of(LabelsCheckDocument))


def test_quotes_carry_gold_to_the_documents_that_hold_them(tmp_path: Path) -> None:
    """With the grade of the document that they were quoted from; where none holds it whole, to the one that holds most."""
    old, new = chunks(30), corpus(tmp_path / "c.jsonl", chunks(20))
    rows = samples(
        {"qrels": {"c30-0": 2}, "evidence": [{"quote": " ".join(WORDS[3:10]), "doc": "c30-0"}]},
        {"qrels": {"c30-0": 1}, "evidence": [{"quote": " ".join(WORDS[16:26])}]},  # 4 words here, 6 there
        {"qrels": {"c30-0": 1}, "evidence": [{"quote": "stands nowhere at all"}]},
    )
    assert " ".join(WORDS[3:10]) in old["c30-0"]
    moved, counts = move_labels(rows, new)
    assert [dict(one.qrels or {}) for one in moved] == [{"c20-0": 2}, {"c20-1": 1}, {}]
    assert [dict(one.unsure or {}) for one in moved] == [{}, {"c20-0": 1}, {"*1": 1}]
    assert (counts.carried, counts.lost) == (2, [{"sample": "q2", "what": "stands nowhere at all"}])
    jsonschema.validate(to_builtins(replace(counts, labels=NO_LABELS)), schema_of(LabelsMoveDocument))


def test_a_quote_to_the_letter_is_meant_where_there_is_one(tmp_path: Path) -> None:
    """The same words with other signs are another place."""
    documents = {"a": "call f(x) and wait", "b": "call f x and wait"}
    rows = samples(
        *(
            {"qrels": {"o": 1}, "evidence": [{"quote": quote}]}
            for quote in ("call f(x)  and", "Call F x; and")
        )
    )
    moved, _ = move_labels(rows, corpus(tmp_path / "c.jsonl", documents))
    assert [dict(one.qrels or {}) for one in moved] == [{"a": 1}, {"a": 1, "b": 1}]


def test_texts_carry_gold_for_certain_where_a_document_holds_them_whole(tmp_path: Path) -> None:
    """A part of the old passage may hold what was relevant in it, or not."""
    old = chunks(30)
    rows = samples(
        *({"qrels": {name: 1}, "contexts": [{"id": name, "text": text}]} for name, text in old.items())
    )
    larger, _ = move_labels(rows, corpus(tmp_path / "l.jsonl", chunks(60)))
    assert [dict(one.qrels or {}) for one in larger] == [
        {"c60-0": 1},
        {"c60-0": 1},
        {"c60-1": 1},
        {"c60-1": 1},
    ]
    assert all(one.contexts is None and one.unsure is None for one in larger)
    smaller, counts = move_labels(rows, corpus(tmp_path / "s.jsonl", chunks(15)))
    assert (smaller[0].qrels, smaller[0].unsure) == ({}, {"c15-0": 1, "c15-1": 1})
    assert (counts.carried, counts.unsure) == (0, 4)
    same, counts = move_labels(rows, corpus(tmp_path / "o.jsonl", old))
    assert ([one.qrels for one in same], counts.kept) == ([one.qrels for one in rows], 4)


def test_gold_of_which_no_text_is_known_is_lost(tmp_path: Path) -> None:
    """Unless its id is still there; groups keep every document that a member was carried to."""
    rows = samples(
        {
            "qrels": {"gone": 2, "here": 1, "not": 0},
            "gold": [["c30-0", "x"]],
            "contexts": [{"id": "c30-0", "text": chunks(30)["c30-0"]}],
        }
    )
    (moved,), counts = move_labels(rows, corpus(tmp_path / "c.jsonl", {"here": "h", **chunks(15)}))
    assert (moved.qrels, moved.unsure) == ({"here": 1}, {"*1": 2})
    assert moved.gold == (("c15-0", "c15-1", "x"),)
    assert counts.lost == [{"sample": "q0", "what": "gone"}]


@pytest.mark.parametrize(
    ("unsure", "measure", "bounds"),
    [
        ({"b": 1}, "R@2", (0.5, 1.0)),  # b came back, or is not relevant
        ({"z": 1}, "R@2", (0.5, 1.0)),  # z did not
        ({"z": 1}, "P@2", None),  # which no precision notices
        ({"*1": 1}, "R@2", (0.5, 1.0)),
        ({"*1": 1}, "P@2", (0.5, 1.0)),
        ({"b": 1}, "SetR", (0.5, 1.0)),
        ({"b": 1}, "RR", None),
    ],
)
def test_measures_over_unsure_gold_are_bounds(
    unsure: dict[str, int], measure: str, bounds: tuple[float, float] | None
) -> None:
    """The least and the greatest value over all that the unsure documents may be; one value where they cannot change it."""
    row = {"query": "a", "contexts": [{"id": "a"}, {"id": "b"}], "qrels": {"a": 1}, "unsure": unsure}
    if measure == "R@2":
        low = 1.0 if unsure == {"b": 1} else 0.5
        bounds = None if low == 1.0 else (0.5, 1.0)
    report: Report = evaluate([row], measure)
    (score,) = report.scores()
    if measure == "SetR":
        bounds = None
    assert score.bounds == bounds
    assert (score.status == "ok") is (bounds is None)


def test_a_judge_reads_no_unsure_gold() -> None:
    """Its measures are as they are."""
    row = {
        "query": "bread",
        "contexts": [{"id": "a", "text": "bread"}],
        "qrels": {"a": 1},
        "unsure": {"b": 1},
    }
    report = evaluate([row], "context_precision@2 R@2", judge="lexical")
    assert report["context_precision@2"].n == 1
    assert report["R@2"].mean_bounds == (0.5, 1.0)


@pytest.mark.parametrize(
    ("gold", "contexts", "noted"),
    [
        ({"a": 1, "x": 1, "n": 0}, [{"id": "z"}, {"id": "a"}], False),
        ({"x": 1}, [{"id": "a"}], True),
        ({"x": 1}, ["no id"], False),
    ],
)
def test_gold_that_is_in_no_list(gold: dict[str, int], contexts: list[Any], noted: bool) -> None:
    """Named only where none of it is in any list."""
    notes = evaluate([{"query": "q", "qrels": gold, "contexts": contexts}], "RR@1").manifest["notes"]
    assert any("of 1 gold id occurs in no retrieved list: x" in note for note in notes) is noted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve samples whose gold are chunks of 30 words, and the corpus cut anew."""
    monkeypatch.chdir(tmp_path)
    old = chunks(30)
    rows = [
        {"id": f"q{n}", "query": "a", "qrels": {f"c30-{n % 4}": 1}, "contexts": [{"id": f"c30-{n % 4}", "text": old[f"c30-{n % 4}"]}]}
        for n in range(12)
    ]  # fmt: skip
    Path("samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    again = [{**row, "contexts": [{"id": "c15-0", "text": chunks(15)["c15-0"]}]} for row in rows]
    Path("again.jsonl").write_text("".join(json.dumps(row) + "\n" for row in again))
    corpus(Path("old.jsonl"), old)
    corpus(Path("new.jsonl"), chunks(15))
    return tmp_path


def test_labels_check_and_move_from_the_shell(folder: Path) -> None:
    """What is written is read again, and its measures are bounds."""
    checked = invoke("labels", "check", "samples.jsonl", "--corpus", "new.jsonl")
    assert "4 no longer in the corpus: c30-0, c30-1, c30-2, c30-3" in checked.out
    moved = invoke("labels", "move", "samples.jsonl", "--corpus", "new.jsonl", "-o", "moved.jsonl", "--json")
    document = json.loads(moved.out)
    assert document == {"schema_version": 1, "kept": 0, "carried": 0, "unsure": 12, "lost": []}
    rows = [json.loads(line) for line in (folder / "moved.jsonl").read_text().splitlines()]
    for row in rows:
        row["contexts"] = [{"id": "c15-0"}]
    (folder / "ready.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = json.loads(invoke("run", "ready.jsonl", "-m", "R@3", "--json").out)
    low, high = report["measures"]["R@3"]["mean_bounds"]
    assert low < high
    evaluate("samples.jsonl", "R@3").save("stored")
    assert (
        invoke("labels", "check", "stored", "--corpus", "old.jsonl").out.count("no longer in the corpus") == 0
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "samples.jsonl", "--corpus", "none"], "there is no file or folder with this name"),
        (["check", "samples.jsonl"], "--corpus is missing"),
        (
            ["move", "samples.jsonl", "--corpus", "new.jsonl", "-o", "samples.jsonl"],
            "would overwrite an input file",
        ),
        (
            ["move", "samples.jsonl", "--corpus", "new.jsonl", "-o", "x.csv"],
            "samples are written as JSON Lines",
        ),
    ],
)
def test_mistakes_are_named(folder: Path, words: list[str], message: str) -> None:
    """In one line, exit code 2."""
    assert folder.exists()
    done = invoke("labels", *words)
    assert (done.code, message in done.err) == (2, True), done.err
