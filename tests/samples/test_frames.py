"""Samples from what Python code holds them in."""

import json
import math
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pydantic import RootModel

from germane import Report, compare, evaluate
from germane.errors import InputError
from germane.samples.frames import records
from germane.samples.reading import read_questions, samples_from
from germane.types import Context, Sample

ROWS: list[dict[str, Any]] = [
    {"id": "a", "query": "one?", "contexts": ["x", "y"], "reference": "r"},
    {"id": "b", "query": "two?", "contexts": ["z"], "reference": None},
]
EXPECTED = [
    Sample(id="a", query="one?", contexts=(Context(text="x"), Context(text="y")), reference="r"),
    Sample(id="b", query="two?", contexts=(Context(text="z"),)),
]


@pytest.mark.parametrize(
    "source",
    [
        ROWS,
        tuple(EXPECTED),
        iter(ROWS),
        pd.DataFrame(ROWS),
        pd.DataFrame({**pd.DataFrame(ROWS), "reference": ["r", math.nan]}),
        pl.DataFrame(ROWS),
        [{**row, "contexts": np.array(row["contexts"])} for row in ROWS],
        [RootModel[dict[str, Any]](row) for row in ROWS],
        list(pd.DataFrame(ROWS).itertuples(index=False)),
        [make_dataclass("Row", row)(**row) for row in ROWS],
    ],
    ids=[
        "dicts",
        "samples",
        "iterator",
        "pandas",
        "NaN",
        "polars",
        "arrays",
        "models",
        "tuples",
        "dataclasses",
    ],
)
def test_every_table_gives_the_same_samples(source: Any) -> None:
    """Missing values are absent, whatever the library calls them."""
    assert list(read_questions(source)) == EXPECTED


@pytest.mark.parametrize("values", [[1.0, math.nan, 0.0], [True, None, False]])
def test_answerable_as_pandas_reads_it(values: list[Any]) -> None:
    """A column of booleans in which one is missing holds numbers, or objects; other numbers are no yes or no."""
    frame = pd.DataFrame({"query": ["a", "b", "c"], "answerable": values})
    assert [one.answerable for one in read_questions(frame)] == [True, None, False]
    with pytest.raises(InputError, match="answerable"):
        list(read_questions([{"query": "a", "answerable": 0.5}]))


def test_rows_of_a_table_keep_their_cells() -> None:
    """Rows taken from a table by the caller are read as the table is: texts are parsed, 1.0 is a yes."""
    table = pd.DataFrame([{"query": "a", "contexts": "['x', 'y']", "answerable": 1.0}])
    wanted = [Sample(id="1", query="a", contexts=(Context(text="x"), Context(text="y")), answerable=True)]
    assert list(read_questions(table)) == wanted
    assert list(samples_from(list(records(table)))) == wanted


def test_a_path_is_read(tmp_path: Path) -> None:
    """As text or as a Path."""
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    assert list(read_questions(path)) == list(read_questions(str(path))) == EXPECTED
    assert evaluate(path, "context_relevancy(unit=context)", judge="lexical").measures


@dataclass
class Document:
    """As LangChain's."""

    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass
class Node:
    """As LlamaIndex's."""

    text: str
    node_id: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_content(self) -> str:
        return self.text


@dataclass
class NodeWithScore:
    node: Node
    score: float | None

    def get_content(self) -> str:
        return self.node.text


def test_documents_of_other_libraries_are_contexts() -> None:
    """With their id, score and metadata, where they have them; NumPy numbers become numbers."""
    row = {
        "id": "a",
        "query": "q",
        "contexts": [
            Document("x", {"page": np.int64(3), "path": Path("f")}, "d1"),
            NodeWithScore(Node("y", "n1"), float("nan")),
            NodeWithScore(Node("z", "n2"), 0.5),
        ],
    }
    (sample,) = read_questions([row])
    first, second, third = sample.contexts or ()
    assert (first.text, first.id, first.metadata) == ("x", "d1", {"page": 3, "path": "f"})
    assert (second.id, second.score) == ("n1", None)
    assert third.score == 0.5


@pytest.mark.parametrize("source", [ROWS[0], EXPECTED[0], "what is it?", 'query\n"a"', 7])
def test_what_is_no_list_of_samples_is_told(source: Any) -> None:
    """One sample, a text, a number: the message says how to write it."""
    with pytest.raises(InputError, match=r"evaluate\(\["):
        evaluate(source, "RR")


def test_what_tables_and_python_have_beside_text(tmp_path: Path) -> None:
    """An index with a name is a column; numbers and UUIDs are ids, of gold too; a path in the metadata is its text."""
    table = pd.DataFrame({"query": ["a", "b"], "contexts": [[{"id": 3}], [{"id": UUID(int=1)}]]})
    table["qrels"] = [{np.int64(3): np.int64(1)}, {UUID(int=1): 1}]
    table["file"] = [Path("a.txt"), complex(1)]
    table["words"] = [{"b", "a"}, bytearray(b"x")]
    report = evaluate(table.set_index(pd.Index(["x", "y"], name="id")), "RR")
    assert [(score.sample, score.value) for score in report.scores()] == [("x", 1.0), ("y", 1.0)]
    report.save(tmp_path / "r")
    stored = Report.open(tmp_path / "r").samples()
    assert [(sample.metadata["file"], sample.metadata["words"]) for sample in stored] == [
        ("a.txt", ("a", "b")),
        ("(1+0j)", "bytearray(b'x')"),
    ]
    assert len({*report.samples()}) == 2


@pytest.mark.parametrize(
    "contexts",
    [
        pd.DataFrame({"doc_id": ["d1"], "content": ["t"], "score": [0.5]}),
        pl.DataFrame({"doc_id": ["d1"], "content": ["t"], "score": [0.5]}),
        map(dict, [{"id": "d1", "text": "t", "score": 0.5}]),
        [({"id": "d1", "text": "t"}, np.float32(0.5))],
        pd.DataFrame({"id": ["d1"], "text": ["t"], "score": [0.5]}).itertuples(index=False),
    ],
)
def test_contexts_in_other_shapes(contexts: Any) -> None:
    """A table, whatever yields them, pairs with scores, named tuples."""
    (sample,) = evaluate([{"query": "q", "contexts": contexts, "qrels": {"d1": 1}}], "RR").samples()
    assert sample.contexts == (Context(id="d1", text="t", score=0.5),)


@pytest.mark.parametrize("names", [[0, 1], [("a", "query"), ("a", "contexts")]])
def test_columns_that_are_no_texts_are_named(names: list[Any]) -> None:
    """They are no fields, and no error of ours."""
    with pytest.raises(InputError, match="has no query; its fields are "):
        evaluate([dict(zip(names, ["a", ["b"]], strict=True))], "RR")


def test_a_report_in_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    """str() is the table and prints nothing; the HTML has no script, and its names are escaped."""
    rows = [{**row, "system": "<b>s</b>", "qrels": {"d": 1}} for row in ROWS]
    report = evaluate([*rows, {**rows[0], "system": "t"}], "num_ret")
    assert "num_ret" in str(report)
    page = report._repr_html_()
    assert capsys.readouterr().out == ""
    assert "&lt;b&gt;s&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "script" not in page
    assert "1.5000" in page


def test_comparisons_and_explanations_in_a_notebook() -> None:
    """HTML without scripts, whatever the texts; names by iteration and `in`; str() is text."""
    bad = "<script>alert(1)</script>"
    rows = [
        {**row, "system": system, "qrels": {"d": 1}, "contexts": [{"id": bad, "text": bad}]}
        for row in ROWS
        for system in (bad, "b")
    ]
    report = evaluate(rows, "num_ret RR", judge="gold")
    found = compare(report)
    assert list(found) == ["num_ret", "RR"]
    assert "RR" in found
    assert ("RR", "b") in found
    assert "AP" not in found
    with pytest.raises(KeyError, match="compared measures: num_ret, RR of b"):
        found["AP"]
    why = report.explain("a", "RR", system="b")
    assert str(why).splitlines()[0].startswith("0.0000")
    page = found._repr_html_()
    assert page.startswith("<pre>")
    assert "<script" not in page
    assert "RR" in page


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    """Of measures; a sample that is not there is named."""
    report = evaluate(ROWS, "num_ret")
    with pytest.raises(KeyError, match="computed measures: num_ret"):
        report["RR"]
    with pytest.raises(KeyError, match="num_ret was not computed for c"):
        report.explain("c", "num_ret")


def test_a_series_of_grades_is_gold_by_its_index() -> None:
    """Of documents' ids and grades; a series of ids alone is a list of them."""
    rows = [
        {"query": "q", "qrels": pd.Series({"d1": 2, "d2": 0})},
        {"query": "q", "qrels": pd.Series([1.0], index=[7])},
        {"query": "q", "qrels": pd.Series(["d1", "d2"])},
        {"query": "q", "qrels": pd.DataFrame({"doc": [7], "grade": [2]}).set_index("doc")["grade"]},
    ]
    found = [sample.qrels for sample in evaluate(rows, "num_rel").samples()]
    assert found == [{"d1": 2, "d2": 0}, {"7": 1}, {"d1": 1, "d2": 1}, {"7": 2}]


@pytest.mark.parametrize("series", [pd.Series([20, 30]), pd.Series({20: 1}), pd.Series([30], index=[4])])
def test_a_series_of_numbers_that_may_be_ids_or_grades_is_refused(series: Any) -> None:
    """A column of whole ids has the numbers of its rows as index, which are no documents."""
    with pytest.raises(InputError, match=r"may be document ids or grades; give ids as series.tolist\(\)"):
        evaluate([{"query": "q", "qrels": series}], "num_rel")


def test_a_table_as_gold_is_refused() -> None:
    """As any other value that is neither a list nor a mapping of documents."""
    with pytest.raises(InputError, match="qrels"):
        evaluate([{"query": "q", "qrels": pd.DataFrame({"d1": [1]})}], "num_rel")
