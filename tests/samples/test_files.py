"""JSON documents and tables: the same samples and the same care as JSON Lines."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from germane.errors import InputError, SourceLocation
from germane.samples import read_samples
from germane.types import Context, FrozenDict
from tests.command import invoke


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def fault(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        list(read_samples(path))
    return caught.value


ROWS = [{"query": "a"}, {"id": "x", "query": "b", "contexts": ["t"]}]


@pytest.mark.parametrize("document", [ROWS, {"samples": ROWS}, {"version": 1, "data": ROWS}])
def test_json_array_or_an_object_that_holds_one(tmp_path, document):
    """Rows without an id are numbered in the array."""
    assert [s.id for s in read_samples(write(tmp_path, "e.json", json.dumps(document)))] == ["1", "x"]


def test_json_faults_have_their_place_in_the_document(tmp_path):
    """A field of the second sample is found on its own line."""
    rows = [{"query": "a"}, {"query": "b", "contexts": [{"text": "t", "grade": 9}]}]
    text = json.dumps({"samples": rows}, indent=2)
    error = fault(path := write(tmp_path, "e.json", text))
    line = next(n for n, written in enumerate(text.split("\n"), 1) if '"grade": 9' in written)
    assert error.place == SourceLocation(str(path), line, text.split("\n")[line - 1].index("9") + 1)


def test_json_lines_in_a_json_file_are_told_their_name(tmp_path):
    """Two documents in a .json file are most likely JSON Lines."""
    error = fault(path := write(tmp_path, "e.json", '{"query": "a"}\n{"query": "b"}\n'))
    assert error.place == SourceLocation(str(path), 2, 1)
    assert "name the file .jsonl" in str(error)


@pytest.mark.parametrize(
    ("text", "problem"), [('{"a": 1}', "no array"), ("[]", "no samples"), (" \n", "no samples")]
)
def test_json_without_samples_is_an_error(tmp_path, text, problem):
    """An object without rows and an empty list say so."""
    assert problem in str(fault(write(tmp_path, "e.json", text)))


def test_csv_cells_hold_words_lists_and_objects(tmp_path):
    """Lists are JSON or as Python writes them; a single value is a list of one; an empty cell is absent."""
    text = (
        "\ufeffquestion,contexts,document_ids,tags,answerable,trial,note\r\n"
        '"Why, ""now""?","[""t"", {""id"": ""d""}]","[\'g1\', \'g2\']",tax,TRUE,1,n\r\n'
        "\r\n"
        'b,one text,g,,,,\r\n'
    )  # fmt: skip
    first, second = read_samples(write(tmp_path, "e.csv", text))
    assert first.query == 'Why, "now"?'
    assert first.contexts == (Context(text="t"), Context(id="d"))
    assert first.qrels == {"g1": 1, "g2": 1}
    assert (first.tags, first.answerable, first.trial, first.metadata) == (("tax",), True, 1, {"note": "n"})
    assert second.contexts == (Context(text="one text"),)
    assert (second.id, second.qrels, second.tags) == ("4", FrozenDict({"g": 1}), ())


def test_a_text_over_several_lines_keeps_its_rows_line(tmp_path):
    """The line of a fault is where its row starts."""
    error = fault(path := write(tmp_path, "e.csv", 'query,trial\n"a\nb\nc",0\nd,x\n'))
    assert error.place == SourceLocation(str(path), 5)
    assert "trial" in str(error)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("name,contexts\na,b\n", 2, "has no query; its fields are 'name', 'contexts'"),
        ("query,query\na,b\n", 1, "two columns are named 'query'"),
        ("query,tags\na,b,c\n", 2, "3 cells, but the header has 2"),
        ("query,tags\na\n", 2, "1 cell, but the header has 2"),
        ('query,contexts\na,"[""t"""\n', 2, "contexts starts like a list"),
        ('query,contexts\na,"b\n', 2, "cannot be split"),
        ('query,contexts\nx,y\na,"b"c\n', 3, "cannot be split"),
        ("query,id\na,1\nb,1\n", 3, "on line 2"),
        ('query,qrels\na,"{""d"": 1, ""e"": 1, ""d"": 2}"\n', 2, "qrels has the key 'd' twice"),
        ("query,id\n", 0, "no samples"),
    ],
)
def test_table_faults_name_the_row(tmp_path, text, line, problem):
    """Whatever is wrong in a table is said with the line."""
    error = fault(path := write(tmp_path, "e.csv", text))
    assert problem in str(error)
    assert error.place == SourceLocation(str(path), line)


def test_a_cell_may_be_longer_than_the_csv_module_likes(tmp_path):
    """Ten passages in a cell are more than its 128 KiB."""
    contexts = json.dumps(["word " * 40_000]).replace('"', '""')
    (sample,) = read_samples(write(tmp_path, "e.csv", f'query,contexts\na,"{contexts}"\n'))
    assert sample.contexts is not None
    assert len(sample.contexts[0].text) == 200_000


def test_columns_may_be_mapped(tmp_path):
    """--columns names the query of a table whose header says something else."""
    path = write(tmp_path, "e.csv", "Frage,Ctx\na,t\n")
    (sample,) = read_samples(path, columns={"query": "Frage", "contexts": "Ctx"})
    assert sample.contexts == (Context(text="t"),)


def _archives() -> dict[str, bytes]:
    run = b"7 Q0 d10 1 2 r\n7 Q0 d20 2 1 r\n"
    tar, stored = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.run"))
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr("a.run", run)
    return {
        "packed with bzip2": bz2.compress(run),
        "packed with xz": lzma.compress(run),
        "a tar archive": gzip.compress(tar.getvalue()),
        "a ZIP archive": stored.getvalue(),
    }


@pytest.mark.parametrize("kind", _archives())
@pytest.mark.parametrize("name", ["a.jsonl", "a.bin", "a.run"])
def test_packed_files_are_named_by_their_kind(kind, name, tmp_path):
    """By their first bytes, whatever their name, and before any row is left out."""
    (tmp_path / name).write_bytes(_archives()[kind])
    (tmp_path / "gold").write_text("7 0 d20 1\n")
    ranked = invoke("rank", tmp_path / name, "--qrels", tmp_path / "gold", "--on-bad-row", "skip")
    ran = invoke("run", tmp_path / name, "-m", "RR", "-o", tmp_path / "report")
    for one in (ranked, ran):
        assert one.code == 2
        assert f"{name}: this " in one.err
        assert kind in one.err
