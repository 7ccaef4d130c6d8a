"""Notes where gold ids and retrieved ids do not meet, with the ids of both sides."""

import json
from itertools import pairwise
from types import SimpleNamespace

import pytest

from germane import evaluate
from germane.evaluation.rank import rank
from tests.command import invoke

ALL = [
    (["doc-20", "doc-80"], ["20", "80"], "the retrieved ids are like 20, 80"),
    (["d1", "d2"], ["d1.txt", "d2.txt"], "the retrieved ids are like d1.txt, d2.txt"),
    (["x", "y"], ["120", "180"], "the retrieved ids are like 120, 180"),
    (["101", "102"], ["101.0", "102.0"], "the ids differ only in spelling: '101' in the gold, '101.0' in the retrieved lists and 1 more"),
    (["caf\u00e9", "na\u00efve"], ["cafe\u0301", "nai\u0308ve"], "only in spelling: 'caf\\xe9' in the gold, 'cafe\\u0301'"),
    (["d1", "d2"], ["d1\u200b", "d2\u200b"], "the ids differ only in spelling: 'd1' in the gold, 'd1\\u200b'"),
    (["d1", "d2"], ["d1#0", "d2#1"], "; 'd1#0' may be a chunk of 'd1': give --doc-id '^(.+)\\#'"),
    (["a_1", "b"], ["a_1_0", "b_7"], "; 'a_1_0' may be a chunk of 'a_1': give --doc-id '^(.+)_'"),
    (["D1", "D2"], ["d1", "d2"], "the ids differ only in spelling: 'D1' in the gold, 'd1'"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "listed", "cause"), ALL)
def test_gold_that_occurs_in_no_list(gold, listed, cause):
    """Rank and evaluate say the same, with ids of both sides, and another spelling."""
    qrels = {f"q{n}": {doc: 1} for n, doc in enumerate(gold)}
    run = {f"q{n}": {doc: 1.0} for n, doc in enumerate(listed)}
    report = rank(run, qrels, "RR")
    (note,) = report.manifest["notes"]
    assert report["RR"].mean == 0
    assert note.startswith(
        f"run: 2 of 2 gold ids occur in no retrieved list: {gold[0]}, {gold[1]}; the retrieved ids are like"
    )
    assert cause in note
    rows = [
        {"id": q, "query": q, "qrels": qrels[q], "retrieved_context_ids": list(docs)}
        for q, docs in run.items()
    ]
    notes = evaluate(rows, "RR").manifest["notes"]
    assert note.removeprefix("run: 2 ") in notes


def test_a_quiet_run_notes_it_once(tmp_path):
    """And the report has the same note."""
    row = {"id": "q", "query": "q", "qrels": {"D1": 1}, "retrieved_context_ids": ["d1"]}
    (tmp_path / "s.jsonl").write_text(json.dumps(row))
    ran = invoke("run", tmp_path / "s.jsonl", "-m", "RR", "-q", "-o", tmp_path / "report")
    assert ran.err.count("1 of 1 gold id occurs in no retrieved list") == 1
    assert "occurs in no retrieved list" in invoke("report", tmp_path / "report").out
    ran = invoke("run", tmp_path / "s.jsonl", "-m", "RR", "--json", "-o", tmp_path / "other")
    assert "warning: 1 of 1 gold id occurs in no retrieved list" in ran.err


NEAR = [
    ("caf\u00e9.pdf", "cafe\u0301.pdf"),
    ("d1", "d1\u200b"),
    ("\ufeffd1", "d1"),
    ("D1", "d1"),
    ("d1.PDF", "D1.pdf"),
    ("101", "101.0"),
]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("gold", "doc"), NEAR)
def test_another_spelling_of_a_gold_id(gold, doc, large, tmp_path, monkeypatch):
    """One id that was retrieved in another spelling is noted where others meet, in small and in large files, and in a run."""
    if large:
        pytest.importorskip("polars")
        monkeypatch.setattr("germane.samples.runs.source.BLOCK", 8)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.run").write_text(f"7 Q0 {doc} 1 2 r\n7 Q0 z 2 1 r\n8 Q0 d8 1 2 r\n", encoding="utf-8")
    (tmp_path / "q.qrels").write_text(f"7 0 {gold} 1\n8 0 d8 1\n", encoding="utf-8")
    done = invoke("rank", "r.run", "--qrels", "q.qrels", "-m", "RR", "--json")
    assert json.loads(done.out)["measures"]["RR"]["mean"] == 0.5
    note = f"1 gold id differs from retrieved ids only in spelling (case, blanks, Unicode form) and counts as not retrieved: {gold!a} in"
    assert f"note: r.run: {note}" in done.err
    if not large:
        rows = [("7", gold, [doc, "z"]), ("8", "d8", ["d8"])]
        samples = [{"id": q, "query": q, "qrels": [g], "retrieved_context_ids": ids} for q, g, ids in rows]
        (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
        assert f"warning: {note}" in invoke("run", "s.jsonl", "-m", "RR").err


def test_blanks_of_ids_in_mappings():
    """A blank at the end of an id, which files drop, is noted."""
    report = rank({"q": {"10 ": 1.0}, "r": {"3": 1.0}}, {"q": {"10": 1}, "r": {"3": 1}}, "RR")
    assert (
        "and counts as not retrieved: '10' in the gold, '10 ' in the retrieved lists"
        in report.manifest["notes"][0]
    )


@pytest.mark.parametrize(
    ("run", "qrels"),
    [
        ({"q": ["d1", "D1"]}, {"q": {"D1": 1}}),  # it was retrieved
        ({"q": ["d1"]}, {"q": {"d1": 0, "D1": 1}, "r": {"d1": 1}}),  # both are gold
        ({"q": ["b"], "r": ["a"]}, {"q": {"a": 1}, "r": {"b": 1}}),  # listed, for the other query
    ],
)
def test_gold_that_was_only_missed_is_not_noted(run, qrels):
    """An id that the lists have, or that another document of the gold explains, is no fault of spelling."""
    assert [note for note in rank(run, qrels, "RR").manifest["notes"] if "gold id" in note] == []


@pytest.mark.parametrize("fmt", ["trec", "tsv"])
def test_large_files_say_what_small_ones_say(fmt, tmp_path, monkeypatch):
    """No gold document in any list, read row by row and in bulk."""
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    between, end = (" Q0 ", " 1 {} r\n") if fmt == "trec" else ("\t", "\t{}\n")
    lines = [f"q{q}{between}{q * 10 + n}{end.format(9 - n / 2)}" for q in range(200) for n in range(5)]
    (tmp_path / f"r.{fmt}").write_text("".join(lines))
    (tmp_path / "q.qrels").write_text("".join(f"q{q} 0 doc-{q * 10} 1\n" for q in range(200)))
    said = []
    for large in (1 << 30, 8):
        monkeypatch.setattr("germane.samples.runs.source.BLOCK", large)
        said.append(invoke("rank", f"r.{fmt}", "--qrels", "q.qrels", "-m", "RR").err)
    assert (
        "200 of 200 gold ids occur in no retrieved list: doc-0, doc-10, doc-20 and 197 more; the retrieved ids are like 0,"
        in said[0]
    )
    assert all(a == b for a, b in pairwise(said))


ELSEWHERE = [
    ({"id": "1f2e", "metadata": {"source": "d1"}}, "source"),
    ({"chunk_id": "d1-0", "id": "1f2e", "doc_id": "d1"}, "doc_id"),
    (SimpleNamespace(get_content=lambda: "x", node_id="1f2e", ref_doc_id="d1"), "ref_doc_id"),
]


@pytest.mark.parametrize(("context", "field"), ELSEWHERE)
def test_gold_ids_in_another_field_than_the_id(context, field):
    """The note names the field, as that of passages without ids does: stores give their passages random ids."""
    report = evaluate([{"query": "q", "qrels": ["d1"], "contexts": [context]}], "RR")
    (note,) = (note for note in report.manifest["notes"] if "no retrieved list" in note)
    assert note.endswith(f"the retrieved ids are like 1f2e; {field!r} holds gold ids: rename it to id")
