"""Data as other tools hand it out: splits, columns, documents of spans, a folder of Parquet."""

import json
from types import SimpleNamespace

import pandas as pd
import polars as pl
import pytest
from pydantic import BaseModel

import germane
from germane.errors import InputError
from germane.samples import read_samples, samples_from
from tests.command import invoke

COLUMNS = {"question": ["a", "b"], "contexts": [["t"], ["u"]]}


class Row(BaseModel):
    query: str
    contexts: list[str]


class Rows(BaseModel):
    samples: list[Row]


SPLITS = {"train": SimpleNamespace(column_names=["question"])}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Row(query="q", contexts=["t"]), "given as Row, not as a list of samples"),
        (Rows(samples=[Row(query="q", contexts=[])]), "given as Rows, not as a list of samples"),
        (COLUMNS, "'question', 'contexts', not as a list.*pandas.DataFrame"),
        (
            {"train": pd.DataFrame(COLUMNS), "test": pd.DataFrame(COLUMNS)},
            "'train', 'test', .*give one split",
        ),
        (SPLITS, "'train', not as a list of samples.*give one split"),
        ({"question": "a", "contexts": ["t"]}, r"one mapping.*evaluate\(\["),
    ],
)
def test_mappings_that_are_no_samples(source, said):
    """The error says what they are, and how rows are made of them."""
    with pytest.raises(InputError, match=said):
        germane.evaluate(source, "RR")


@pytest.mark.parametrize("sharded", [False, True])
def test_a_folder_of_parquet_is_read_as_beir(sharded, tmp_path):
    """MTEB keeps queries, corpus and gold in Parquet, each in a file or in a folder of its own."""
    tables = {
        "queries": [{"_id": "q1", "text": "When is high tide?"}, {"_id": "q2", "text": "no gold"}],
        "corpus": [{"_id": "d1", "title": "", "text": "At noon."}],
    }
    for name, rows in tables.items():
        path = tmp_path / (f"{name}/{name}-00000-of-00001.parquet" if sharded else f"{name}.parquet")
        path.parent.mkdir(exist_ok=True)
        pl.DataFrame(rows).write_parquet(path)
    (tmp_path / "qrels").mkdir()
    gold = pl.DataFrame([{"query-id": "q1", "corpus-id": "d1", "score": 1.0}])
    gold.write_parquet(tmp_path / "qrels" / ("test-00000-of-00001.parquet" if sharded else "test.parquet"))
    (tmp_path / "a.run").write_text("q1 Q0 d2 1 2 r\nq1 Q0 d1 2 1 r\n")
    ranked = invoke("rank", tmp_path / "a.run", "--qrels", tmp_path, "-m", "RR", "--json")
    assert ranked.json["measures"]["RR"]["mean"] == 0.5
    (sample,) = read_samples(tmp_path)
    assert (sample.id, sample.query, dict(sample.qrels or {})) == ("q1", "When is high tide?", {"d1": 1})


def test_ids_of_a_beir_folder_may_be_numbers(tmp_path):
    """As pandas writes them; a query without an id is an error with its line."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t1\n")
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"_id": 1, "text": "a"}\n{"_id": 2.0, "text": "b"}\n')
    assert [sample.id for sample in read_samples(tmp_path)] == ["1"]
    queries.write_text('{"_id": 1, "text": "a"}\n{"_id": null, "text": "b"}\n')
    with pytest.raises(InputError, match=r"queries.jsonl:2: this query of a BEIR folder has no _id"):
        list(read_samples(tmp_path))


ROW = {"query": "When?", "qrels": ["d1"]}


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("documents", [{"id": "d1", "content": "t"}], "contexts"),
        ("source_documents", [{"page_content": "t"}], "contexts"),
        ("retrieved_ids", ["d1"], "retrieved_context_ids"),
        ("context", ["t"], ""),
        ("expected_documents", ["d1"], ""),
        ("documents", [], ""),
        ("keywords", ["t"], ""),
    ],
)
def test_a_list_that_may_be_the_contexts_is_named(field, value, name):
    """Where contexts are not known, the reason names the field that may hold them; gold is none."""
    goldens = {"expected_output": "t"} if field == "context" else {}
    report = germane.evaluate([{**ROW, field: value, **goldens}], "RR")
    hint = f"; if {field!r} holds them, rename it to {name} (--columns {name}={field})" if name else ""
    assert next(iter(report.scores())).why == f"the sample's contexts are not known{hint}"


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        (
            "hits",
            {"total": 1, "hits": [{"_id": "d1", "_score": 1}]},
            "'hits.hits' holds them, write that list as contexts",
        ),
        (
            "retriever",
            {"documents": [{"content": "t"}]},
            "'retriever.documents' holds them, write that list as",
        ),
        ("matches", [{"id": "d1", "score": 0.5}], "'matches' holds them, rename it to contexts"),
        ("value", [{"chunk_id": "d1", "content": "t"}], "'value' holds them, rename it to contexts"),
        ("turns", [{"role": "user", "content": "t"}], ""),
        ("spans", {"a": [{"id": "7", "name": "t"}]}, ""),
    ],
)
def test_a_list_of_passages_is_named_wherever_it_is(field, value, hint):
    """Whole answers of search engines hold it under keys of their own; messages are no passages."""
    why = next(iter(germane.evaluate([{**ROW, field: value}], "RR").scores())).why or ""
    assert hint in why
    assert ("holds" in why) == bool(hint)


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("gold_doc_id", "d1", True),
        ("relevant_docs", ["d1"], True),
        ("expected_sources", [{"id": "d1"}], True),
        ("reference_contexts", ["The tide is high at noon."], True),
        ("gold_answer", "At noon.", False),
        ("ground_truths", ["At noon."], False),
        ("relevant_docs", [], False),
    ],
)
def test_a_field_that_may_be_the_gold_is_named(field, value, named):
    """Where a sample has no gold, by the field's name."""
    report = germane.evaluate([{"query": "When?", "doc_ids": ["d1"], field: value}], "RR")
    how = (
        f"; if {field!r} holds gold ids, rename it to qrels (--columns qrels={field}); if texts, to evidence"
    )
    assert next(iter(report.scores())).why == "the sample has no qrels" + how * named


def test_gold_as_a_list_of_objects():
    """Each has its own grade, as in `germane rank`; in Parquet there is no other way."""
    row = {"query": "When?", "doc_ids": ["d1", "d2"]}
    for gold in (
        [{"doc_id": "d1", "relevance": 0}, {"doc_id": "d2", "relevance": 3}],
        [{"id": "d1", "grade": 0}, "d2"],
    ):
        assert germane.evaluate([{**row, "qrels": gold}], "RR")["RR"].mean == 0.5
    with pytest.raises(InputError, match="qrels has a document twice, with different grades"):
        germane.evaluate([{**row, "qrels": [{"id": "d1", "grade": 0}, "d1"]}], "RR")
    with pytest.raises(InputError, match=r"qrels\[1\] is an object, not an id"):
        germane.evaluate([{**row, "qrels": ["d1", {"text": "t"}]}], "RR")


def test_the_text_in_the_metadata_of_a_context():
    """Vector stores put it there."""
    contexts = [
        {"id": "d1", "score": 0.5, "metadata": {"text": "At noon."}},
        {"id": "d2", "metadata": {"page_content": "t"}},
    ]
    (sample,) = samples_from(
        [{"query": "q", "contexts": [*contexts, {"id": "d3", "text": "own", "metadata": {"text": "t"}}]}]
    )
    assert [context.text for context in sample.retrieved()] == ["At noon.", "t", "own"]


def test_a_cell_that_may_be_the_contexts_is_named(tmp_path):
    """Also where no measure is named."""
    path = tmp_path / "rows.csv"
    path.write_text('query,qrels,retrieved_docs\nWhen?,d1,"[""d1""]"\n')
    ran = invoke("run", path)
    assert (ran.code, "--columns contexts=retrieved_docs" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ("query,context\na?,t\na?,u\nb?,v\n", 0),  # in silence three queries
        ("id,query,doc_id\nq1,a?,d1\nq1,a?,d2\n", 2),
    ],
)
def test_a_row_per_result_is_not_a_row_per_query(rows, code, tmp_path):
    """What a frame is after `explode`."""
    (path := tmp_path / "rows.csv").write_text(rows)
    ran = invoke("run", path, "-m", "context_precision", "--judge", "lexical")
    assert (ran.code, "if each row is one result, put the results" in ran.err) == (code, True)


@pytest.mark.parametrize(
    ("second", "noted"),
    [
        ({"qrels": ["d3"]}, True),
        ({"qrels": ["d3"], "id": "another"}, True),
        ({"qrels": ["d1"]}, False),  # a repeated question
        ({"qrels": ["d3"], "contexts": [{"id": "d3"}, {"id": "d1"}]}, False),  # another ranking
        ({"qrels": ["d3"], "system": "B"}, False),
    ],
)
def test_a_gold_document_per_row_is_noted(second, noted, tmp_path):
    """Each row would count as a query of its own, with the other rows' gold as not relevant."""
    first = {"query": "why?", "contexts": [{"id": "d1"}, {"id": "d3"}], "qrels": ["d1"]}
    (path := tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, [first, first | second])))
    ran = invoke("run", path, "-m", "RR")
    said = "the same contexts and other gold have the same query (why?)"
    assert (ran.code, said in ran.err, "put all gold of a query into one row" in ran.err) == (0, noted, noted)


def test_equal_queries_of_two_conversations_are_no_rows_of_one(tmp_path):
    """Their histories tell them apart."""
    rows = [{"query": "why?", "contexts": ["t"], "history": [{"role": "user", "content": n}]} for n in "ab"]
    (path := tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert "have the same query" not in invoke("validate", path).err


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"question": ["a"], "contexts": [["t"]]}, "holds columns, not samples; .*orient='records'"),
        ({"user_input": {"0": "a"}}, "holds columns, not samples"),
        ({"query": "a", "contexts": ["t"]}, "is one sample; write an array"),
        ({"queries": {"1": "a"}, "corpus": {}}, "no array of samples; its keys are 'queries', 'corpus'; "),
        ({"q1": {"d1": 0.5}}, "give a run, {query: {document: score}}, to germane rank"),
        (None, "no array of samples; write"),
    ],
)
def test_a_document_without_an_array_is_described(document, said, tmp_path):
    """The error says what the document holds instead."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=said):
        list(read_samples(path))


@pytest.mark.parametrize("holder", ["goldens", "testCases"])
def test_deepeval_s_holders_of_goldens_are_read(holder, tmp_path):
    """An object may hold the array of samples under a usual key."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps({holder: [{"input": "a", "retrieval_context": ["t"]}]}))
    assert [sample.query for sample in read_samples(path)] == ["a"]


@pytest.mark.parametrize(
    ("cell", "why"), [("False", None), ("0", None), ("", None), ("True", "without a reason"), ("429", "429")]
)
def test_an_error_cell_that_says_no_is_no_error(cell, why, tmp_path):
    """A column of booleans, as pandas writes it."""
    path = tmp_path / "rows.csv"
    path.write_text(f"id,query,retrieved_context_ids,qrels,error\na,q,d,d,{cell}\nb,r,d,d,boom\n")
    first, second = read_samples(path)
    assert second.error == "boom"
    assert first.error is None if why is None else why in (first.error or "")


@pytest.mark.parametrize("groups", [[["d1"], []], [[]]])
def test_an_empty_gold_group_is_an_error(groups, tmp_path):
    """It could never be found; in each of the lines, however they are read."""
    path, row = tmp_path / "a.jsonl", {"query": "q", "retrieved_context_ids": ["d1"]}
    rows = [{**row, "gold": [["d1"]]}, {**row, "gold": [["d1"]]}, {**row, "gold": groups}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r":3.*is empty, so that nothing can be found"):
        list(read_samples(path))
