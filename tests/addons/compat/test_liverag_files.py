"""LiveRAG's files and command: what is read, what is written, and what is said."""

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from germane.addons.compat.liverag import AGGREGATES, COLUMNS, ContextRecall
from germane.addons.compat.liverag_files import read_rows
from germane.errors import InputError
from tests.command import invoke

SCRIPT = Path(__file__).parents[3] / "scripts" / "evaluate.py"


def urn(number: int) -> str:
    return f"<urn:uuid:{number:08d}-0000-0000-0000-000000000000>"


def table(path: Path, header: list[str], *rows: list[object]) -> Path:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerows([header, *rows])
    return path


@pytest.fixture
def files(tmp_path):
    """Question 0 finds one of two, 1 all, 2 has no result; passages as long as they come, with tabs and quotes."""
    passage = json.dumps(["long" * 50_000, 'a "quoted"\tword'])
    results = table(
        tmp_path / "run.tsv",
        ["", "qid", "question", "context", "doc_ids", "system_name"],
        *[
            [
                q,
                q,
                'two\nlines and "quotes"',
                passage,
                json.dumps([f"doc-{urn(q)}::chunk-{n}" for n in range(2)]),
                "bm25",
            ]
            for q in range(2)
        ],
    )
    references = table(
        tmp_path / "gold.tsv",
        ["qid", "question", "document_ids"],
        [0, "?", str([urn(0), urn(9)])],
        [1, "?", json.dumps([urn(1)])],
        [2, "?", urn(2)],
    )
    return results, references


def run(*args: object):
    return invoke("liverag", *args)


def test_the_report_lists_recall_first_and_corrections_go_to_stderr(files, tmp_path):
    """The table is on stdout; what was counted how, and where the files are, on stderr."""
    found = run(
        "--evaluator",
        "ContextRecall",
        "--results",
        files[0],
        "--reference",
        files[1],
        "--output-dir",
        tmp_path,
    )
    assert found.code == 0
    assert found.out.splitlines()[1].split() == ["avg_context_recall", "0.5000"]
    assert "questions with gold but without a result, counted as 0: 1" in found.err
    assert "note:" not in found.out


def test_the_files_have_the_originals_names_and_columns(files, tmp_path):
    """`<stem>.eval<MMDDHHMM>.<evaluator>.{aggregated,rows}.tsv`, one row a question."""
    folder = tmp_path / "out"
    words = (
        "--evaluator",
        "evaluators.context_recall.evaluator.ContextRecall",
        "--results",
        files[0],
        "--reference",
        files[1],
        "--output-dir",
        folder,
    )
    run(*words)
    rows, aggregated = sorted(folder.iterdir(), reverse=True)
    stem, time, name, kind, suffix = rows.name.split(".")
    assert (stem, time[:4], name, kind, suffix) == ("run", "eval", "ContextRecall", "rows", "tsv")
    assert len(time) == len("evalMMDDHHMM")
    assert aggregated.name == rows.name.replace("rows", "aggregated")
    with rows.open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file, delimiter="\t"))
    assert list(read[0]) == ["qid", "evaluator_name", "is_aggregated", *COLUMNS]
    assert {(row["evaluator_name"], row["is_aggregated"]) for row in read} == {("ContextRecall", "False")}
    assert [row["qid"] for row in read] == ["0", "1", "2"]
    assert float(read[0]["ndcg_10"]) == pytest.approx(0.6131471927654584)
    with aggregated.open(encoding="utf-8", newline="") as file:
        (total,) = csv.DictReader(file, delimiter="\t")
    first = ["evaluator_name", "sample_count", "system_name", "timestamp", "is_aggregated", "full_command"]
    assert list(total) == [*first, "total_time_ms", *AGGREGATES, "processing_time_ms"]
    assert total["is_aggregated"] == "True"
    assert total["full_command"] == " ".join(["germane", "liverag", *map(str, words)])
    assert float(total["total_time_ms"]) == float(total["processing_time_ms"]) > 0
    assert (total["sample_count"], total["system_name"]) == ("3", "bm25")


def test_a_second_run_in_the_same_minute_overwrites_nothing(files, tmp_path):
    """Four files after two runs."""
    for _ in range(2):
        run(
            "--results",
            files[0],
            "--reference",
            files[1],
            "--output-dir",
            tmp_path / "out",
            "--output-prefix",
            "mine",
        )
    assert len(list((tmp_path / "out").glob("run.eval*.mine.*.tsv"))) == 4


def test_jsonl_has_the_same_columns(files, tmp_path):
    """One object a question, numbers as numbers."""
    folder = tmp_path / "out"
    run("--results", files[0], "--reference", files[1], "--output-dir", folder, "--output-format", "jsonl")
    (path,) = folder.glob("*.rows.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [list(row) for row in rows] == [["qid", "evaluator_name", "is_aggregated", *COLUMNS]] * 3
    assert rows[0]["is_aggregated"] is False
    assert rows[1]["context_recall"] == 1.0


def test_parity_reads_a_column_of_numbers_as_the_original_does(files, tmp_path):
    """Question 0 is a number there, which counts as no qid; question 2 has no result and is left out."""
    found = run(
        "--results", files[0], "--reference", files[1], "--output-dir", tmp_path, "--parity", "liverag"
    )
    assert "1 of 1 question scored" in found.out
    assert "1 result and 2 references left out" in found.err


def test_another_evaluator_and_unmeasurable_files_are_errors(files, tmp_path):
    """Each says what to write."""
    ran = run("--evaluator", "EditDistanceEvaluator", "--results", files[0], "--reference", files[1])
    assert ran.code == 2
    assert "--evaluator ContextRecall" in ran.err
    empty = table(tmp_path / "empty.tsv", ["qid", "document_ids"], [0, "[]"], [1, ""])
    ran = run("--results", files[0], "--reference", empty, "--output-dir", tmp_path / "out")
    assert ran.code == 2
    assert "document_ids" in ran.err
    assert not (tmp_path / "out").exists()


def test_the_script_takes_the_same_flags(files, tmp_path):
    """`python scripts/evaluate.py --evaluator ContextRecall ...` is `germane liverag ...`."""
    command = [sys.executable, str(SCRIPT), "--evaluator", "ContextRecall", "--results", str(files[0])]
    command += ["--reference", str(files[1]), "--output-dir", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert "avg_context_recall" in done.stdout
    missing = subprocess.run([*command[:-3], "nowhere.tsv"], capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "Traceback" not in missing.stderr


ROWS = [{"qid": 3, "doc_ids": ["a"], "document_ids": ["a"]}, {"doc_ids": [], "document_ids": "['b']"}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.json", json.dumps(ROWS)),
        ("r.jsonl", "\ufeff" + "\n\n".join(map(json.dumps, ROWS)) + "\n"),
        ("r.ndjson", "\n".join(map(json.dumps, ROWS))),
    ],
)
def test_json_and_json_lines(tmp_path, name, text):
    """Rows with lists as lists, or as the texts that a TSV holds."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    result = ContextRecall().evaluate(read_rows(path, "doc_ids"), read_rows(path, "document_ids"))
    assert [(row.qid, row.metrics["context_recall"]) for row in result.rows] == [("3", 1.0), ("2", 0.0)]


def test_one_object_is_one_row(tmp_path):
    """And a file may be gzipped."""
    path = tmp_path / "r.json.gz"
    path.write_bytes(gzip.compress(json.dumps(ROWS[0]).encode()))
    assert [row["doc_ids"] for row in read_rows(path, "doc_ids")] == [["a"]]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("r.tsv", 'qid\tdoc_ids\n1\t["a"]\n2\t"[]\n3\t[]', "r.tsv:3: doc_ids is not a valid list of ids"),
        ("r.tsv", 'qid\tdoc_ids\n1\t"[]" \n', "r.tsv:2: doc_ids is not a valid list of ids"),
        ("r.tsv", "qid\tdoc_ids\n1\t[a, b\n", "r.tsv:2: doc_ids is not a valid list of ids"),
        ("r.tsv", "qid\tdoc_ids\n1\t['a' 'b']\n", "r.tsv:2: doc_ids has strings without commas"),
        ("r.tsv", "qid\tdoc_ids\n1\tarray(['a'])\n", "r.tsv:2: doc_ids is a printed NumPy array"),
        (
            "r.tsv",
            "qid\tq\tdoc_ids\n1\t'two'\t[]\n\n2\t[]\n",
            "r.tsv:4: this row has 2 cells, but the header has 3",
        ),
        ("r.tsv", "qid\tdoc_ids\n1\t\n", "r.tsv:2: doc_ids has no value; write [] if nothing was retrieved"),
        ("r.tsv", "qid\tids\n1\t[]\n", "this row has no doc_ids, only the fields qid, ids"),
        ("r.tsv", "qid\tqid\n1\t2\n", "r.tsv:1: two columns are named 'qid'"),
        ("r.tsv", "qid\tdoc_ids\n", "the file is empty"),
        ("r.jsonl", '{"doc_ids": []}\n[1]\n', "r.jsonl:2"),
        ("r.jsonl", '{"doc_ids": [}\n', "r.jsonl:1:14"),
        ("r.json", '[{"doc_ids": []},\n 7]', "r.json:2"),
        ("r.json", '{"doc_ids": []}\n{"doc_ids": []}\n', ".jsonl"),
        ("r.xlsx", "", "use a file that ends in .tsv, .jsonl"),
        ("absent.tsv", None, "absent.tsv: the file cannot be read: No such file"),
    ],
)
def test_faults_say_file_line_and_what_to_write(tmp_path, name, text, said):
    """Nothing is guessed, nothing is a traceback."""
    path = tmp_path / name
    if text is not None:
        path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(InputError) as caught:
        ContextRecall().evaluate(read_rows(path, "doc_ids"), [])
    assert said in str(caught.value)
    assert caught.value.fix


def test_rows_are_compared_by_their_measures_alone(files, tmp_path):
    """Counts of documents are no measures, which would raise the p-values of the others."""
    results, references = files
    for parity, folder in ((), "a"), (("--parity", "liverag"), "b"):
        run("--results", results, "--reference", references, "--output-dir", tmp_path / folder, *parity)
    first, second = (next((tmp_path / folder).glob("*.rows.tsv")) for folder in "ab")
    compared = invoke("compare", first, second, "--json").json["comparisons"]
    assert [row["measure"] for row in compared] == [
        "context_recall",
        "context_precision",
        "context_f1",
        "nDCG@10",
    ]
