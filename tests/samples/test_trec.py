"""Reading ranked results and gold: every format, found by content, and a clear error for every bad line."""

from __future__ import annotations

import gzip
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from germane.errors import InputError
from germane.samples.runs.formats import Format
from germane.samples.runs.source import RowSource, read_qrels

WANTED = {"q1": [("a", 3.0), ("b", 2.5)], "q2": [("c", float("inf"))]}
GOLD = {"q1": {"b": 1, "z": 0}, "q2": {"c": 2}}


def read_run(path: Path, **how: Any) -> RowSource:
    """The run in a file, all of which can be read."""
    run = RowSource(path, **how, together=True)
    assert list(run.lists())
    return run


def shape(run: RowSource) -> dict[str, list[tuple[str, float] | str]]:
    """The documents of each query in the order of the file, with their scores where they have any."""
    found: dict[str, list[tuple[str, float] | str]] = {}
    for lists in run.lists():
        docs, scores = list(lists.doc), lists.number.tolist()
        for query, (first, end) in zip(lists.queries, pairwise(lists.starts.tolist()), strict=True):
            rows = zip(docs[first:end], scores[first:end], strict=True)
            found[query] = [doc if isnan(score) else (doc, score) for doc, score in rows]
    return found


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


TREC = "q1 Q0 a 1 3.0 tag\nq1 Q0 b 2 2.5 tag\nq2 Q0 c 1 inf tag\n"
SAME_RUN: dict[str, str | bytes] = {
    "plain.run": TREC,
    "tabs.txt": TREC.replace(" ", "\t"),
    "tabs.tsv": TREC.replace(" ", "\t"),
    "many_blanks.run": TREC.replace(" ", " \t  "),
    "blanks_around.run": "  " + TREC.replace(" ", "  ").replace("\n", " \t\r\n \v"),
    "windows.run": TREC.replace("\n", "\r\n"),
    "mark.run": b"\xef\xbb\xbf" + TREC.encode(),
    "blank_lines.run": "\n" + TREC.replace("\n", "\n\n  \n"),
    "no_last_end.run": TREC.rstrip(),
    "junk.run": TREC.replace("tag\n", "tag more junk at the end of lines\n"),
    "no_tag.run": TREC.replace(" tag", ""),
    "comments.run": "# a comment\n" + TREC,
    "ranks_lie.run": TREC.replace(" 1 ", " 7 ").replace(" 2 ", " x "),
    "interleaved.run": "q1 Q0 a 1 3.0 t\nq2 Q0 c 1 inf t\nq1 Q0 b 2 2.5 t\n",
    "packed.run.gz": gzip.compress(TREC.encode(), mtime=0),
    "packed_without_saying.run": gzip.compress(TREC.encode(), mtime=0),
    "header.tsv": "query_id\tdoc_id\tscore\nq1\ta\t3.0\nq1\tb\t2.5\nq2\tc\tinf\n",
    "header.csv": 'Query-ID,title,DocID,Score\nq1,"x, y",a,3\nq1,,b,2.5\nq2,,"c",inf\n',
    "bare.tsv": "q1\ta\t3.0\nq1\tb\t2.5\nq2\tc\tinf\n",
    "bare_with_rank.tsv": "q1\ta\t1\t3.0\nq1\tb\t2\t2.5\nq2\tc\t1\tinf\n",
    "bare.csv": "q1,a,3.0\nq1,b,2.5\nq2,c,inf\n",
    "lines.jsonl": '{"query_id": "q1", "doc_id": "a", "score": 3}\n{"qid": "q1", "docid": "b", "score": 2.5}\n'
    '{"topic": "q2", "document": "c", "score": Infinity}\n',
    "nested.json": '{"q1": {"a": 3, "b": 2.5},\n "q2": {"c": Infinity}}',
    "nested_on_one_line.jsonl": '{"q1": {"a": 3, "b": 2.5}, "q2": {"c": Infinity}}',
    "records.json": '[{"qid": "q1", "doc": "a", "score": 3}, {"qid": "q1", "doc": "b", "score": 2.5},\n'
    ' {"qid": "q2", "doc": "c", "score": Infinity}]',
}
ORDERED = {"q1": ["a", "b"], "q2": ["c"]}
SAME_LISTS = {
    "samples.jsonl": '{"id": "q1", "query": "?", "contexts": [{"id": "a", "score": 1}, {"id": "b", "score": 9}]}\n'
    '{"id": "q2", "contexts": [{"doc_id": "c", "text": "..."}]}\n',
    "ids.jsonl": '{"id": "q1", "doc_ids": ["a", "b"]}\n{"id": "q2", "retrieved_context_ids": ["c"]}\n',
    "nested.json": '{"q1": ["a", "b"],\n "q2": ["c"]}',
    "two_columns.tsv": "q1\ta\nq1\tb\nq2\tc\n",
    "ids.tsv": 'qid\tquestion\tdoc_ids\nq1\t?\t["a", "b"]\nq2\t?\t"[""c""]"\n',
    "python_lists.tsv": "qid\tdoc_ids\nq1\t['a', 'b']\nq2\tc\n",
    "msmarco.tsv": "q1\ta\t1\nq1\tb\t2\nq2\tc\t1\n",
}
SAME_GOLD: dict[str, str | bytes] = {
    "qrels.txt": "q1 0 b 1\nq1 0 z 0\nq2 0 c 2\n",
    "qrels.tsv": "q1\t0\tb\t1\nq1\t0\tz\t0\nq2\t0\tc\t2",
    "qrels.txt.gz": gzip.compress(b"q1 0 b 1\r\nq1 0 z 0\r\n\r\nq2 0 c 2\r\n", mtime=0),
    "beir.tsv": "query-id\tcorpus-id\tscore\nq1\tb\t1\nq1\tz\t0\nq2\tc\t2\n",
    "bare.tsv": "q1\tb\t1\nq1\tz\t0\nq2\tc\t2\n",
    "table.csv": "qid,docno,relevance\nq1,b,1\nq1,z,0.0\nq2,c,2\n",
    "samples.jsonl": '{"id": "q1", "query": "?", "qrels": {"b": 1, "z": 0}}\n{"id": "q2", "qrels": {"c": 2}}\n{"id": "q3"}\n',
    "lines.jsonl": '{"query_id": "q1", "doc_id": "b", "relevance": 1}\n{"query_id": "q1", "doc_id": "z", "rel": 0}\n'
    '{"query_id": "q2", "doc_id": "c", "grade": 2}\n',
    "nested.json": '{"q1": {"b": 1, "z": 0},\n "q2": {"c": 2}}',
}


@pytest.mark.parametrize("name", SAME_RUN)
def test_the_same_run_in_every_format(name: str, tmp_path: Path) -> None:
    """One run, twenty ways to write it."""
    assert shape(read_run(write(tmp_path, name, SAME_RUN[name]))) == WANTED


@pytest.mark.parametrize("name", SAME_LISTS)
def test_lists_without_scores_keep_their_order(name: str, tmp_path: Path) -> None:
    """Lists of ids have no scores; a sample's contexts are ranked by their place, whatever scores they carry."""
    assert shape(read_run(write(tmp_path, name, SAME_LISTS[name]))) == ORDERED


@pytest.mark.parametrize("name", SAME_GOLD)
def test_the_same_gold_in_every_format(name: str, tmp_path: Path) -> None:
    """One set of grades, nine ways to write it."""
    assert read_qrels(write(tmp_path, name, SAME_GOLD[name])) == GOLD


def test_a_list_of_gold_ids_is_grade_one(tmp_path: Path) -> None:
    """Gold given as ids alone: each is relevant; an empty list is a query without anything relevant."""
    path = write(
        tmp_path, "gold.jsonl", '{"id": "q1", "gold_ids": ["b"]}\n{"id": 2, "reference_context_ids": []}\n'
    )
    assert read_qrels(path) == {"q1": {"b": 1}, "2": {}}
    path = write(tmp_path, "gold.tsv", "qid\tdocument_ids\nq1\t['b', 'c']\nq2\tc\nq3\t[]\n")
    assert read_qrels(path) == {"q1": {"b": 1, "c": 1}, "q2": {"c": 1}, "q3": {}}


def test_a_bare_column_of_ranks_is_said_aloud(tmp_path: Path) -> None:
    """A third column that counts 1, 2, 3 in every query is the rank; scores that happen to be 2, 1 are scores."""
    ranks = read_run(write(tmp_path, "ranks.tsv", "q1\ta\t1\nq1\tb\t2\n"))
    assert "read as the rank" in ranks.notes[0]
    scores = read_run(write(tmp_path, "scores.tsv", "q1\ta\t2\nq1\tb\t1\n"))
    assert shape(scores) == {"q1": [("a", 2.0), ("b", 1.0)]}
    assert scores.notes == ()


def test_a_named_rank_column_orders_the_list(tmp_path: Path) -> None:
    """Rank 1 comes first, wherever its row stands."""
    run = read_run(write(tmp_path, "run.csv", "qid,doc,rank\nq1,b,2\nq1,a,1\n"))
    assert shape(run) == {"q1": [("b", -2.0), ("a", -1.0)]}


def test_columns_name_what_no_rule_knows(tmp_path: Path) -> None:
    """`columns` maps the header's own names; what it does not find is looked up by the usual names."""
    path = write(tmp_path, "run.csv", "Frage,Stelle,Güte\nq1,a,1\n")
    columns = {"query": "Frage", "doc_id": "Stelle", "score": "Güte"}
    assert shape(read_run(path, columns=columns)) == {"q1": [("a", 1.0)]}
    usual = write(tmp_path, "usual.csv", "qid,doc,score\nq1,a,1\n")
    assert shape(read_run(usual, columns=columns)) == {"q1": [("a", 1.0)]}


def test_ids_are_kept_as_they_are(tmp_path: Path) -> None:
    """Ids may hold any character but white space as C knows it; a no-break space is none."""
    run = read_run(write(tmp_path, "run", "q\u00a01 Q0 d\u3000é;\u202e 1 2 t\n"))
    assert shape(run) == {"q\u00a01": [("d\u3000é;\u202e", 2.0)]}


def test_queries_with_an_empty_list_are_there(tmp_path: Path) -> None:
    """`contexts: []` says that nothing came back; no contexts at all say nothing."""
    run = read_run(write(tmp_path, "run.jsonl", '{"id": "q1", "contexts": []}\n{"id": "q2"}\n'))
    assert shape(run) == {"q1": []}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "short",
            "q1 Q0 a 1 2 t\nq1 Q0 a\n",
            r"short:2: this line has 3 columns, but a run in TREC format has 6",
        ),
        (
            "word",
            "q1 Q0 a 1 2 t\nq1 Q0 b 1 hi t\n",
            r"word:2: the score 'hi' is not a number; write lines of the form: query Q0",
        ),
        ("nan", "q1 Q0 a 1 2 t\n\nq1 Q0 b 1 NaN t\n", r"nan:3: the score of document b in query q1 is NaN"),
        ("bytes", b"q1 Q0 a 1 2 t\nq1 Q0 \xff 1 2 t\n", r"bytes:2:7: the byte 0xff is not UTF-8"),
        (
            "wide",
            "q1 Q0 a 1 2 t\n".encode("utf-16"),
            r"wide: this file is encoded as UTF-16; save the file as UTF-8",
        ),
        ("half.gz", gzip.compress(TREC.encode(), mtime=0)[:40], r"half.gz: this compressed file is damaged"),
        (
            "row.tsv",
            "qid\tdoc\tscore\nq1\ta\t1\nq1\tb\n",
            r"row.tsv:3: this row has 2 columns, but the first row has 3",
        ),
        ("score.tsv", "qid\tdoc\tscore\nq1\ta\tx\n", r"score.tsv:2: the score 'x' is not a number"),
        ("names.tsv", "foo\tbar\tbaz\nq1\ta\t1\n", r"names.tsv:1: the score 'baz' .*--columns query="),
        ("no_doc.tsv", "qid\tscore\nq1\t1\n", r"no_doc.tsv:1: no column holds the document"),
        ("no_id.tsv", "qid\tdoc\n\ta\n", r"no_id.tsv:2: this row has no query id"),
        ("quote.csv", 'qid,doc\nq1,"a"b\n', r"quote.csv:2: this row cannot be split into cells"),
        ("list.tsv", "qid\tdoc_ids\nq1\t[{}]\n", r"list.tsv:2: query q1 has contexts without a document id"),
        ("cut.jsonl", '{"id": "q1", "doc_ids": []}\n{"id": \n', r"cut.jsonl:2:7: the JSON ends too early"),
        (
            "texts.jsonl",
            '{"id": "q1", "contexts": ["text"]}\n',
            r"texts.jsonl:1: the contexts of this row have no ids",
        ),
        ("calls.jsonl", '{"id": "q1", "calls": [{}]}\n', r"calls.jsonl:1: this sample has several calls"),
        ("no_query.jsonl", '{"doc_id": "a", "score": 1}\n', r"no_query.jsonl:1: this row has no query id"),
        (
            "no_doc.jsonl",
            '{"query_id": "q", "score": 1}\n',
            r"no_doc.jsonl:1: this row has a score and no document id",
        ),
        (
            "empty.csv",
            "qid,doc,score\nq1,a,2\nq1,,1\n",
            r"empty.csv:3: the document id cannot be the string ''",
        ),
        ("empty.trec", "q1\tQ0\t\t1\t2\tx\n", r"empty.trec:1: the document id cannot be the string ''"),
        (
            "empty.jsonl",
            '{"id":"q","doc":"","score":1}\n',
            r"empty.jsonl:1: the document id cannot be the string ''; write",
        ),
        (
            "empty.json",
            '{"q1": {"a": 1, "": 2}}',
            r"empty.json: query q1: the document id cannot be the string ''",
        ),
        ("twice.json", '{"q1": {"a": 1, "a": 2}}', r"twice.json:1:17: the key 'a' occurs twice"),
        (
            "list.jsonl",
            '{"id": "q1", "doc_ids": []}\n[1]\n',
            r"list.jsonl:2: this row is \[1\], not a JSON object",
        ),
        (
            "half.jsonl",
            '{"id":"q1","doc":"a","score":1}\n{"id":"q1","doc":"b"}\n',
            r"half.jsonl:2: .*with and without",
        ),
        (
            "bool.jsonl",
            '{"id":"q1","doc":"a","score":true}\n',
            r"bool.jsonl:1: the score true is not a number",
        ),
    ],
)
def test_a_bad_line_of_a_run_is_named(name: str, text: str | bytes, message: str, tmp_path: Path) -> None:
    """File, line, what is wrong and what to write."""
    with pytest.raises(InputError, match=message):
        read_run(write(tmp_path, name, text))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "short",
            "q1 0 a 1\nq1 0 b\n",
            r"short:2: this line has 3 columns, but gold in TREC format has 4; write lines of the form: query 0 document grade",
        ),
        ("long", "q1 0 a 1\nq1 0 b 1 x\n", r"long:2: this line has 5 columns, but gold in TREC format has 4"),
        ("half", "q1 0 a 1\nq1 0 b 0.5\n", r"half:2: the grade '0.5' is not a whole number up to 1000000000"),
        (
            "half.tsv",
            "qid\tdoc\trel\nq1\ta\t0.5\n",
            r"half.tsv:2: the grade '0.5' is not a whole number up to 1000000000",
        ),
        (
            "two",
            "q1 0 a 1\nq1 0 a 1\nq1 0 a 2\n",
            r"two:3: document a of query q1 has grade 2 here and 1 above",
        ),
        ("empty.tsv", "qid\tdoc\trel\nq1\t\t1\n", r"empty.tsv:2: the document id cannot be the string ''"),
        ("nothing", "\n", r"nothing: this file has no gold"),
        ("text.jsonl", '{"id": "q1", "qrels": 1.5}\n', r"text.jsonl:1: the gold of query q1 is neither"),
        ("wide.jsonl", '{"id": "q1", "qrels": {"a": "x"}}\n', r"wide.jsonl:1: the grade 'x' is not a number"),
    ],
)
def test_a_bad_line_of_gold_is_named(name: str, text: str, message: str, tmp_path: Path) -> None:
    """File, line, what is wrong and what to write."""
    with pytest.raises(InputError, match=message):
        read_qrels(write(tmp_path, name, text))


def test_grades_that_disagree_can_be_settled(tmp_path: Path) -> None:
    """`keep_first` takes the first of two grades."""
    path = write(tmp_path, "gold", "q1 0 a 1\nq1 0 a 2\n")
    assert read_qrels(path, keep_first=True) == {"q1": {"a": 1}}


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    """A path that does not exist or is a folder is an input error."""
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_run(path)


def test_a_format_can_be_forced(tmp_path: Path) -> None:
    """`fmt` overrides what the content says."""
    path = write(tmp_path, "run.txt", "q1\ta\t3.5\tx\t1\n")
    assert shape(read_run(path)) == {"q1": [("3.5", 1.0)]}
    forced: Format = "trec"
    assert shape(read_run(path, fmt=forced)) == {"q1": [("3.5", 1.0)]}
    with pytest.raises(InputError, match="not valid JSON"):
        read_run(path, fmt="jsonl")


def test_long_json_lines_are_lines(tmp_path: Path) -> None:
    """A first line longer than any buffer is still taken for one of many."""
    ids = ", ".join(f'"d{n}"' for n in range(20_000))
    path = write(
        tmp_path, "run.jsonl", f'{{"id": "q1", "doc_ids": [{ids}]}}\n{{"id": "q2", "doc_ids": []}}\n'
    )
    assert {query: len(found) for query, found in shape(read_run(path)).items()} == {
        "q1": 20_000,
        "q2": 0,
    }


def test_a_rank_of_any_length_is_no_matter(tmp_path):
    """trec_eval ignores ranks, and so they may be numbers that no float holds."""
    rows = "".join(f"7 Q0 d{at} {rank} {3 - at} t\n" for at, rank in enumerate((1, "9" * 400, "9" * 5000)))
    assert shape(read_run(write(tmp_path, "long.run", rows))) == {
        "7": [("d0", 3.0), ("d1", 2.0), ("d2", 1.0)]
    }


@pytest.mark.parametrize("line", ["7 Q0 doc one.pdf 1 3 r", "7\tQ0\tthe doc\t1\t3\tr", "7 Q0 d - 3 my tag"])
def test_an_id_with_a_blank_is_no_rank_and_score(line, tmp_path):
    """Its second word was taken for the rank, and the rank for the score."""
    path = write(tmp_path, "a.run", f"8 Q0 d80 1 2 r\n{line}\n")
    with pytest.raises(
        InputError, match=r"a.run:2: the rank '\S+' is not a number.*ids with blanks need a table"
    ):
        read_run(path)
    gold = write(tmp_path, "gold", "7 0 d20 1\n7 0 doc one.pdf 1\n")
    with pytest.raises(InputError, match=r"gold:2: this line has 5 columns.*ids with blanks need a table"):
        read_qrels(gold)


def test_a_tag_may_have_blanks(tmp_path):
    """As in trec_eval, what follows the score is not read."""
    path = write(tmp_path, "a.run", "7 Q0 a 1 3 my tag\n7 Q0 b 2 2.5 my other tag\n")
    assert shape(read_run(path)) == {"7": [("a", 3.0), ("b", 2.5)]}


def test_ids_with_blanks_between_tabs(tmp_path):
    """Their words are no columns of a TREC file."""
    for line in ("q\tmy doc\t1", "q\tx\tmy doc\t1"):
        assert read_qrels(write(tmp_path, "g.qrels", line)) == {"q": {"my doc": 1}}
    for line in ("q\tvol 2 page 3\t1.5", "q\tx\tvol 2 page 3\t1\t1.5\tbm25"):
        assert shape(read_run(write(tmp_path, "r.tsv", line))) == {"q": [("vol 2 page 3", 1.5)]}


ROWS = '[{"qid": "q1", "results": [{"docid": "a"}, {"docid": "b"}]}, {"qid": "q2", "results": ["c"]}]'


@pytest.mark.parametrize("name", ["r.json", "r.jsonl"])
def test_rows_within_an_object(name, tmp_path):
    """The object's key is no query, as in a file of samples."""
    for key in ("data", "results"):
        assert shape(read_run(write(tmp_path, name, f'{{"model": "x", "{key}": {ROWS}}}'))) == {
            "q1": ["a", "b"],
            "q2": ["c"],
        }


def test_rows_whose_documents_are_not_found(tmp_path):
    """The fields that they have are named; an empty list is a result."""
    path = write(tmp_path, "r.json", ROWS.replace("results", "hits"))
    with pytest.raises(
        InputError, match=r"r.json: no row holds documents; its fields are qid, hits; .*--columns docs=NAME"
    ):
        read_run(path)
    assert shape(read_run(path, columns={"docs": "hits"})) == {"q1": ["a", "b"], "q2": ["c"]}
    assert shape(read_run(write(tmp_path, "r.json", '[{"qid": "q", "results": []}]'))) == {"q": []}
