"""Cells of tables: lists, words for nothing, quotes, separators; alike in CSV, TSV, Parquet and DataFrames."""

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import germane
from germane.errors import InputError
from germane.evaluation.rank import rank
from germane.samples import read_samples
from germane.samples.reading import read_questions
from germane.types import Sample
from tests.command import invoke

TIDE, BREAD, CATS = "The tide is high at noon.", "Bread needs flour and yeast.", "Cats sleep all day."

LEXICAL = ("--judge", "lexical", "--no-cache", "--force")
KINDS = ["csv", "tsv", "parquet", "pandas", "polars"]


def source(kind: str, rows: list[dict[str, Any]], folder: Path) -> Any:
    """The rows as a file of this kind, or as a frame."""
    frame, path = pd.DataFrame(rows), folder / f"rows.{kind}"
    if kind == "pandas":
        return frame
    if kind in {"polars", "parquet"}:
        table = pl.DataFrame(rows, infer_schema_length=None)
        return table if kind == "polars" else (table.write_parquet(path), path)[1]
    frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    return path


def measured(rows: Any, measures: str, folder: Path, capsys: Any) -> tuple[dict[str, Any], str]:
    """Mean and number of scores of each measure, by the command for a file; and what was warned of."""
    if isinstance(rows, Path):
        ran = invoke("run", rows, "-m", measures, *LEXICAL, "-o", folder / "report", "--json")
        assert ran.code == 0, ran.err
        return {name: (line["mean"], line["n"]) for name, line in ran.json["measures"].items()}, ran.err
    report = germane.evaluate(rows, measures, judge="lexical")
    return {str(line.measure): (line.mean, line.n) for line in report.summaries}, capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("field", "cell", "said"),
    [
        ("contexts", f"['{BREAD}' '{TIDE}']", "strings without commas"),
        ("contexts", f"['{BREAD}'\n '{TIDE}']", "strings without commas"),
        ("contexts", "[\"it's noon\" 'plain']", "strings without commas"),
        ("doc_ids", "array(['a', 'b'], dtype=object)", "is a printed NumPy array"),
        ("doc_ids", "[array(['a', 'b'], dtype=object)]", "is a printed NumPy array"),
        ("gold_ids", "['d1' 'd2', 'd3']", "strings without commas"),
        ("doc_ids", "[d2, d1]", "is not valid JSON"),
        ("doc_ids", '["d1", NaN]', "is not valid JSON"),
        ("contexts", '[{"id": "d1", "id": "d2"}]', "has the key 'id' twice"),
    ],
)
def test_a_list_that_is_in_doubt_is_an_error(kind, field, cell, said, tmp_path):
    """NumPy's print of two texts is one text to Python: such cells are refused, with what keeps lists."""
    rows = source(kind, [{"query": "a", field: cell}], tmp_path)
    with pytest.raises(InputError, match=said) as caught:
        germane.evaluate(rows if not isinstance(rows, Path) else str(rows), "RR", judge="lexical")
    assert field in str(caught.value)
    if "NumPy" in said or "comma" in said:
        assert "to_json" in str(caught.value)
        assert "to_parquet" in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_python_tuple_in_a_cell_is_a_list(kind, tmp_path, capsys):
    """A text in parentheses stays a text."""
    rows = source(kind, [{"query": TIDE, "contexts": f"('{BREAD}', \"{TIDE}\")"}], tmp_path)
    assert measured(rows, "context_precision", tmp_path, capsys)[0]["context_precision"][0] == 0.5
    rows = source(kind, [{"query": TIDE, "contexts": f"('{TIDE}' is said)"}], tmp_path)
    assert measured(rows, "context_precision", tmp_path, capsys)[0]["context_precision"][0] == 1


@pytest.mark.parametrize("cell", ["\"['d7' 'd2']\"", "\"array(['d7', 'd2'], dtype=object)\"", '"[d7, d2]"'])
def test_rank_refuses_such_lists_too(cell, tmp_path):
    """The runs of `rank` are read by the same rule."""
    (tmp_path / "run.csv").write_text(f"id,doc_ids\n7,{cell}\n")
    (tmp_path / "gold").write_text("7 0 d2 1\n")
    ran = invoke("rank", tmp_path / "run.csv", "--qrels", tmp_path / "gold", "-m", "RR")
    assert (ran.code, ran.out) == (2, "")
    assert "run.csv:2: doc_ids" in ran.err


@pytest.mark.parametrize("kind", KINDS)
def test_lists_as_texts_are_lists(kind, tmp_path, capsys):
    """JSON and Python lists in cells are read, in frames as in files."""
    rows = [
        {"query": "When is high tide?", "contexts": f"['{BREAD}', '{TIDE}']", "reference": TIDE, "doc_ids": "['d7', 'd2']", "gold_ids": '["d2"]'},
        {"query": "How is bread made?", "contexts": json.dumps([BREAD, TIDE]), "reference": BREAD, "doc_ids": "['d5', 'd9']", "gold_ids": "d5"},
    ]  # fmt: skip
    means, err = measured(source(kind, rows, tmp_path), "RR R@5 context_precision", tmp_path, capsys)
    assert means == {"RR": (0.75, 2), "R@5": (1.0, 2), "context_precision": (0.75, 2)}
    assert "joined" not in err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["nan", "None", "NULL", "N/A", "<NA>"])
def test_words_for_nothing_are_missing(kind, word, tmp_path, capsys):
    """They are no reference, no passages and no gold, and are counted in a note."""
    lists = [json.dumps([TIDE]), json.dumps([TIDE]), word]
    rows = [
        {"query": "When is high tide?", "contexts": lists[at], "reference": [TIDE, word, TIDE][at], "metadata": word}
        for at in range(3)
    ]  # fmt: skip
    means, err = measured(source(kind, rows, tmp_path), "context_recall", tmp_path, capsys)
    assert means == {"context_recall": (1.0, 1)}
    if isinstance(source(kind, rows, tmp_path), Path):
        assert "'reference' has a word like nan, None or N/A in 1 row" in err
        assert "'contexts' has a word like nan, None or N/A in 1 row" in err


def test_a_word_for_nothing_in_json_is_a_text(tmp_path):
    """Only a cell cannot write null."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"query": "a", "reference": "None", "contexts": ["nan"]}))
    (sample,) = read_samples(path)
    assert (sample.reference, (sample.contexts or ())[0].text) == ("None", "nan")


@pytest.mark.parametrize("ids", ["d2;d1", "d2|d1", "d2,d1", "d2 d1"])
@pytest.mark.parametrize("verb", ["run", "rank"])
def test_ids_joined_in_a_cell_are_noted(ids, verb, tmp_path):
    """They are one id, which a note says, with the number of such rows."""
    (tmp_path / "rows.csv").write_text(
        f'id,query,doc_ids,gold_ids\n7,a,"{ids}",d1\n8,b,"{ids}",d1\n9,c,d1,d1\n'
    )
    (tmp_path / "gold").write_text("7 0 d1 1\n8 0 d1 1\n9 0 d1 1\n")
    more = ("--qrels", tmp_path / "gold") if verb == "rank" else ("-o", tmp_path / "report")
    ran = invoke(verb, tmp_path / "rows.csv", "-m", "RR", "--json", *more)
    assert ran.json["measures"]["RR"]["mean"] == pytest.approx(1 / 3)
    assert "several ids joined by" in ran.err
    assert "in 2 rows" in ran.err


@pytest.mark.parametrize(
    ("cell", "noted"),
    [
        (f"{BREAD}|{CATS}|{TIDE}", True),
        (f"{BREAD};{CATS}", True),
        ("bread needs yeast;cats sleep", True),
        ("Bread needs yeast|Cats sleep", True),
        (f"{BREAD}\n\n{CATS}", True),
        (f"1. {BREAD}\n2. {CATS}", True),
        (f"{BREAD}\n{CATS}\n\n", False),
        ("It is P(A|B); then, of course, A &amp; B hold, e.g. here.", False),
        ("Use --format json|csv, etc.; it is 1,000.5 fast.", False),
        ("| a | b |\n| - | - |", False),
    ],
)
def test_passages_joined_in_a_cell_are_noted(cell, noted, tmp_path):
    """Prose is not taken for several passages."""
    pd.DataFrame([{"input": "a", "retrieval_context": cell}]).to_csv(tmp_path / "rows.csv", index=False)
    ran = invoke("run", tmp_path / "rows.csv", "-m", "context_precision", *LEXICAL, "-o", tmp_path / "report")
    assert ran.code == 0
    assert ("several passages joined by |, ; or lines in 1 row" in ran.err) == noted


def test_a_menu_among_many_passages_is_not_noted(tmp_path):
    """Passages of the web hold separators too."""
    cells = [f"{TIDE} Work. |. Careers. |. Law."] + [TIDE] * 10
    pd.DataFrame({"input": "a", "retrieval_context": cells}).to_csv(tmp_path / "rows.csv", index=False)
    ran = invoke("run", tmp_path / "rows.csv", "-m", "context_precision", *LEXICAL, "-o", tmp_path / "report")
    assert "joined" not in ran.err


@pytest.mark.parametrize(
    ("text", "query", "reference"),
    [
        ('a\tb"c"\n', "a", 'b"c"'),
        ('a\t"quoted ""words"""\n', "a", 'quoted "words"'),
        ('a\t"one\ttab\n\nand ""two"" lines"\nb\tc\n', "a", 'one\ttab\n\nand "two" lines'),
        ('"a\t6"\tx and "y"\n', "a\t6", 'x and "y"'),
        ('a\t"He said" no\n', "a", '"He said" no'),
        ('a\t"5 inches\nb\tc\n', "a", '"5 inches'),
        ('a\t"open\nb\tclosed"\n', "a", '"open'),
        ('a\t"last', "a", '"last'),
    ],
)
def test_a_quote_in_tsv_is_a_letter(text, query, reference, tmp_path):
    """Except around a whole cell, in which every other quote is doubled."""
    (tmp_path / "rows.tsv").write_text(f"query\treference\n{text}")
    first = next(iter(read_samples(tmp_path / "rows.tsv")))
    assert (first.query, first.reference) == (query, reference)


def test_tsv_of_pandas_reads_back(tmp_path):
    """What pandas quotes is read as it was."""
    cells = ['"', 'a"b', "a\tb", "a\nb", '"a"', "plain", 'x "y" z', '"open', 'close"', '""']
    frame = pd.DataFrame({"query": cells, "reference": cells[::-1]})
    frame.to_csv(tmp_path / "rows.tsv", sep="\t", index=False)
    read = [(sample.query, sample.reference) for sample in read_samples(tmp_path / "rows.tsv")]
    assert read == list(zip(cells, cells[::-1], strict=True))


@pytest.mark.parametrize("between", [";", "\t"])
def test_another_separator_of_csv_is_noted(between, tmp_path):
    """A spreadsheet in Europe separates cells by semicolons."""
    out = io.StringIO()
    pd.DataFrame([{"id": "7", "query": "a; b, c", "doc_ids": '["d1", "d2"]', "gold_ids": "d2"}]).to_csv(
        out, sep=between, index=False
    )
    (tmp_path / "rows.csv").write_text(out.getvalue())
    (tmp_path / "gold").write_text("7 0 d2 1\n")
    ran = invoke("run", tmp_path / "rows.csv", "-m", "RR", "--json", "-o", tmp_path / "report")
    ranked = invoke("rank", tmp_path / "rows.csv", "--qrels", tmp_path / "gold", "-m", "RR", "--json")
    for one in (ran, ranked):
        assert one.json["measures"]["RR"]["mean"] == 0.5
        assert "were read as separated by" in one.err


@pytest.mark.parametrize("values", [[{"contexts": ["a", float("nan")]}], [{"doc_ids": ["d1", float("nan")]}]])
def test_nan_inside_a_list_is_an_error(values):
    """A place is a rank: what is dropped would move the others up."""
    for rows in (pd.DataFrame([{"query": "a", **values[0]}]), [{"query": "a", **values[0]}]):
        with pytest.raises(InputError, match="samples:1: "):
            germane.evaluate(rows, "RR", judge="lexical")


GOLDEN = {"input": "When is high tide?", "context": [TIDE], "expected_output": TIDE}


@pytest.mark.parametrize(
    "row",
    [
        {**GOLDEN, "actual_output": "At six.", "retrieval_context": None},
        {"input": "a", "context": [TIDE], "actualOutput": "At six."},
        {"input": "a", "context": [TIDE], "retrieval_context": None},
        GOLDEN,
    ],
)
def test_the_context_of_a_golden_is_not_retrieved(row, tmp_path):
    """DeepEval's `context` is the ideal passage; it is kept as metadata, and --columns reads it."""
    path = tmp_path / "goldens.jsonl"
    path.write_text(json.dumps(row))
    pd.DataFrame([{**row, "context": json.dumps(row["context"])}]).to_csv(
        tmp_path / "goldens.csv", index=False
    )
    for rows in ([row], pd.DataFrame([row])):
        assert germane.evaluate(rows, "context_precision", judge="lexical")["context_precision"].skipped == 1
    for file in (path, path.with_suffix(".csv")):
        ran = invoke("run", file, "-m", "context_precision", *LEXICAL, "-o", tmp_path / "report")
        assert ran.code == 2
        assert "contexts are not known" in ran.out + ran.err
        (sample,) = read_samples(file)
        assert sample.contexts is None
        assert "context" in sample.metadata
        (sample,) = read_samples(file, columns={"contexts": "context"})
        assert [context.text for context in sample.contexts or ()] == [TIDE]


def test_context_alone_and_retrieval_context_are_contexts():
    """Rows without the words of goldens may call the list `context`; a list that was retrieved comes first."""
    plain, both = germane.samples.samples_from(
        [{"query": "a", "context": ["t"]}, {**GOLDEN, "retrieval_context": [BREAD]}]
    )
    assert (plain.contexts or ())[0].text == "t"
    assert (both.contexts or ())[0].text == BREAD
    assert both.metadata["context"] == (TIDE,)


@pytest.mark.parametrize("value", ["words", 7, ["a", {"b": 1}]])
def test_metadata_that_is_no_mapping_is_kept(value, tmp_path):
    """It stands under its own name."""
    row = {"query": "a", "metadata": value, "contexts": [{"text": "t", "metadata": value}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (sample,) = read_samples(tmp_path / "rows.jsonl")
    assert set(sample.metadata) == set((sample.contexts or ())[0].metadata) == {"metadata"}


def test_a_whole_number_with_a_point_in_a_cell_is_text(tmp_path):
    """As a JSON number it is 7."""
    (tmp_path / "rows.csv").write_text('id,query,doc_ids,gold_ids\n7.0,a,"[""7.0"", 8]",7.0\n')
    (sample,) = read_samples(tmp_path / "rows.csv")
    assert (sample.id, [one.id for one in sample.contexts or ()], dict(sample.qrels or {})) == (
        "7.0",
        ["7.0", "8"],
        {"7.0": 1},
    )


@pytest.mark.parametrize("kind", ["jsonl", "json"])
@pytest.mark.parametrize(
    ("row", "key"),
    [
        ('{"query": "a", "query": "b"}', "query"),
        ('{"query": "a", "qrels": {"d1": 1, "d1": 0}}', "d1"),
        ('{"query": "a", "contexts": [{"id": "d1", "text": "x", "id": "d2"}]}', "id"),
        ('{"query": "a", "calls": [{"contexts": [{"id": "d1", "id" : "d2"}]}]}', "id"),
        ('{"query": "a", "qrels" : {"d\\\\": 1, "d\\\\":0}}', "d\\\\"),
    ],
)
def test_a_key_twice_is_an_error_in_every_reader(kind, row, key, tmp_path):
    """JSON readers take the last of two without a word."""
    path = tmp_path / f"rows.{kind}"
    good = '{"query": "x", "contexts": [": \\"a\\": "]}'
    path.write_text(f"{good}\n{row}\n" if kind == "jsonl" else f"[{good}, {row}]")
    ran = invoke("run", path, "-m", "RR", "-o", tmp_path / "report")
    assert ran.code == 2
    assert f"the key {key!r} occurs twice".replace("\\\\\\\\", "\\\\") in ran.err


def test_contexts_without_any_id_are_skipped_for_gold(tmp_path):
    """0 would say that nothing relevant came back; where that is all samples, nothing could be measured."""
    path = tmp_path / "rows.jsonl"
    rows = [
        {"query": "a", "contexts": ["t"], "qrels": ["d1"], "gold": [["d1"]], "forbidden": ["d2"]},
        {
            "query": "b",
            "calls": [{"contexts": ["u"]}],
            "qrels": ["d1"],
            "gold": [["d1"]],
            "forbidden": ["d2"],
        },
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    ran = invoke("run", path, "-m", "RR R@5 group_recall leaks", "--json", "-o", tmp_path / "report")
    assert ran.code == 2
    assert {(line["mean"], line["skipped"]) for line in ran.json["measures"].values()} == {(None, 2)}
    rows.append({"query": "c", "contexts": [{"id": "d1", "text": "t"}, "u"], "qrels": ["d1"]})
    path.write_text("\n".join(map(json.dumps, [*rows, {"query": "d", "contexts": [], "qrels": ["d1"]}])))
    for flags in ((), ("-q",)):
        ran = invoke("run", path, "-m", "RR", "-o", tmp_path / "report", "--force", *flags)
        assert ran.code == 0
        assert "2 x no context has a document id" in ran.out + ran.err
    assert invoke("validate", path).code == 0
    assert germane.evaluate(str(path), "RR")["RR"].mean == 0.5


@pytest.mark.parametrize("measure", ["RR", "group_recall"])
def test_no_gate_passes_where_the_ids_of_most_samples_are_lost(measure, tmp_path):
    """A gate on the samples that still have ids would be on others than those that should be measured."""
    path = tmp_path / "rows.jsonl"
    gold = {"qrels": ["d1"], "gold": [["d1"]]}
    rows = [
        {"query": f"q{n}", "contexts": [{"text": "t", "metadata": {"key": "d1"}}], **gold} for n in range(9)
    ]
    rows.append({"query": "kept", "contexts": [{"id": "d1", "text": "t"}], **gold})
    rows.append({"query": "without gold", "contexts": ["t"]})
    path.write_text("\n".join(map(json.dumps, rows)))
    flags = ("-m", measure, "--fail-under", f"mean({measure})>=0.5", "-o", tmp_path / "report", "--force")
    ran = invoke("run", path, *flags)
    assert ran.code == 3
    assert "9 of 10 scores could not be computed (90%, more than 5% allowed)" in ran.out
    assert invoke("run", path, *flags, "--max-unmeasured", "0.9").code == 0


def samples(rows: Any) -> list[Sample]:
    return list(read_questions(rows))


HEADINGS = {"id": "ID", "query": "Query", "retrieved_contexts": "Retrieved Contexts", "gold_ids": "Gold-IDs"}


@pytest.mark.parametrize("kind", KINDS)
def test_headings_are_read_in_any_case_and_with_blanks(kind, tmp_path):
    """Spreadsheets have headings for people; a heading that is a known name as it stands counts before others."""
    rows = [{"id": "a", "query": "q", "retrieved_contexts": '["t"]', "gold_ids": "d1"}]
    titled = [{HEADINGS[name]: cell for name, cell in row.items()} for row in rows]
    sample = samples(source(kind, titled, tmp_path))[0]
    assert (sample.id, sample.query, dict(sample.qrels or {})) == ("a", "q", {"d1": 1})
    assert [context.text for context in sample.contexts or ()] == ["t"]
    both = samples(source(kind, [{"Question": "other", "question": "q"}], tmp_path))[0]
    assert (both.query, dict(both.metadata)) == ("q", {"Question": "other"})


@pytest.mark.parametrize("kind", ["pandas", "polars", "parquet"])
@pytest.mark.parametrize("name", ["gold_ids", "retrieved_context_ids"])
def test_a_single_numeric_id_in_a_column_of_numbers(kind, name, tmp_path):
    """A column with missing values holds floats; the id 7.0 is the id 7, and a missing one is none."""
    rows: list[dict[str, Any]] = [{"query": "a", name: 7.0}, {"query": "b", name: None}]
    first, second = samples(source(kind, rows, tmp_path))
    if name == "gold_ids":
        assert (first.qrels, second.qrels) == ({"7": 1}, None)
    else:
        assert ([one.id for one in first.contexts or ()], second.contexts) == (["7"], None)


@pytest.mark.parametrize("word", ["nan", "None"])
def test_words_for_nothing_are_missing_in_runs_and_gold(word, tmp_path):
    """A query without gold is left out; one without results is counted as such."""
    (tmp_path / "run.csv").write_text(f'id,doc_ids\n7,"[""d1"", ""d2""]"\n8,{word}\n9,d3\n')
    (tmp_path / "gold.csv").write_text(f"id,gold_ids\n7,d2\n8,d8\n9,{word}\n")
    words = ("rank", tmp_path / "run.csv", "--qrels", tmp_path / "gold.csv", "-m", "RR", "--json")
    ran = invoke(*words, "--missing", "skip")
    assert (ran.json["measures"]["RR"]["mean"], ran.json["measures"]["RR"]["n"]) == (0.5, 1)
    assert "'doc_ids' has a word like nan" in ran.err
    assert "'gold_ids' has a word like nan" in ran.err
    assert invoke(*words).json["measures"]["RR"]["mean"] == 0.25


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("header", [True, False])
def test_numbers_with_a_comma_are_an_error(mark, header, tmp_path):
    """The scores of a European table are named with what to write."""
    path = tmp_path / ("run.tsv" if mark == "\t" else "run.csv")
    head, last = mark.join(("query_id", "doc_id", "sim")) + "\n", '"' if mark == "," else ""
    path.write_text(head * header + mark.join(("7", "d1", f"{last}2,5{last}")))
    with pytest.raises(InputError, match="the score '2,5' is not a number; "):
        rank(path, {"7": {"d1": 1}}, "RR")
    path.write_text(f"query_id{mark}doc_id{mark}sim\n7{mark}d1{mark}high")
    with pytest.raises(InputError, match=r"the score 'high' is not a number; write score as a number$"):
        rank(path, {"7": {"d1": 1}}, "RR")


@pytest.mark.parametrize("name", ["csv", "jsonl", "frame"])
@pytest.mark.parametrize("column", ["doc_ids", "retrieved_context_ids"])
def test_notes_on_runs_name_the_column(name, column, tmp_path):
    """The name is that of the file, not of its role."""
    rows = [{"qid": "7", column: "d10,d20"}, {"qid": "8", column: "d80"}]
    frame, path = pd.DataFrame(rows), tmp_path / f"run.{name}"
    if name == "csv":
        frame.to_csv(path, index=False)
    elif name == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    report = rank(frame if name == "frame" else path, {"8": {"d80": 1}}, "RR")
    assert [f"'{column}' looks like several ids" in note for note in report.manifest["notes"]][:1] == [True]


def test_validate_warns_of_what_run_warns_of(tmp_path):
    """A file that is valid and still not read as meant is seen before anything is evaluated."""
    path = tmp_path / "rows.csv"
    path.write_text("question,doc_ids,gold_ids,referenze\nq,d1 | d2,d1,x\n")
    ran = invoke("validate", path)
    assert ran.code == 0
    assert "looks like several ids joined" in ran.err
    assert "did you mean 'reference'?" in ran.err
