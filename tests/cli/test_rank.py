"""`germane rank` as it is typed: what is printed where, and the exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import polars
import pytest
import zstandard

from germane.evaluation.rank import DEFAULT_MEASURES
from tests import command
from tests.cli.conftest import Cli
from tests.command import Ran

TREC = Path(__file__).parent.parent / "data" / "trec_eval"


def invoke(*arguments: str | Path) -> Ran:
    return command.invoke("rank", *arguments)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "bm25.run").write_text(
        "q1 Q0 a 1 2.0 x\nq1 Q0 b 2 1.0 x\nq9 Q0 b 2 1.0 x\n", encoding="utf-8"
    )
    (tmp_path / "dense.jsonl").write_text(
        '{"id": "q1", "doc_ids": ["b"]}\n{"id": "q2", "doc_ids": ["c"]}\n', encoding="utf-8"
    )
    (tmp_path / "gold").write_text("q1 0 b 1\nq2 0 c 1\n", encoding="utf-8")
    return tmp_path


def test_a_table_on_stdout_and_notes_on_stderr(files: Path) -> None:
    """Without a terminal the table is plain columns, each measure with its mean and what it rests on."""
    done = invoke(files / "bm25.run", "--qrels", files / "gold", "-m", "RR P@1", "-m", "map")
    assert done.code == 0
    assert done.out.splitlines() == [
        "measure    mean          interval  n/N",
        "RR       0.2500  0.0080 to 0.8322  2/2",
        "P@1      0.0000  0.0000 to 0.8419  2/2",
        "AP       0.2500  0.0080 to 0.8322  2/2",
    ]
    name = files / "bm25.run"
    assert done.err.splitlines() == [
        f"note: {name}: 1 query of 2 with gold but without results, counted as 0 (--missing skip leaves them out): q2",
        f"note: {name}: 1 query with results but without gold, ignored: q9",
    ]


def test_the_default_measures_are_those_of_the_help(files: Path) -> None:
    """No -m computes what the help says, Judged@10 among it."""
    done = invoke(files / "dense.jsonl", "--qrels", files / "gold", "--json")
    assert list(json.loads(done.out)["measures"]) == DEFAULT_MEASURES.split()
    assert DEFAULT_MEASURES in " ".join(invoke("--help").out.replace("│", " ").split())


def test_every_query_on_demand(files: Path) -> None:
    """-q prints each query's values above the means."""
    done = invoke(files / "bm25.run", "--qrels", files / "gold", "-m", "RR", "-q", "--missing", "skip")
    assert done.out.splitlines() == [
        "query      RR",
        "q1     0.5000",
        "q2          -",
        "",
        "measure    mean          interval  n/N",
        "RR       0.5000  0.0225 to 0.9775  1/2",
    ]


def test_several_runs_are_several_systems(files: Path) -> None:
    """A column each, named by the file, every mean with its interval."""
    done = invoke(files / "bm25.run", files / "dense.jsonl", "--qrels", files / "gold", "-m", "RR", "-q")
    assert done.out.splitlines() == [
        "system  query      RR",
        "bm25    q1     0.5000",
        "bm25    q2     0.0000",
        "dense   q1     1.0000",
        "dense   q2     1.0000",
        "",
        "measure                       bm25                      dense",
        "RR       0.2500 (0.0080 to 0.8322)  1.0000 (0.1581 to 1.0000)",
        "n/N                            2/2                        2/2",
        "rank-biased overlap of the two runs: 0.4500 over 1 query (p = 0.9; 1 = the same lists)",
    ]


def test_one_json_document(files: Path) -> None:
    """--json prints the document that scripts rely on; scores come with -q."""
    done = invoke(files / "dense.jsonl", "--qrels", files / "gold", "-m", "RR", "--json", "-q")
    assert json.loads(done.out) == {
        "cases": [],
        "schema_version": 1,
        "passed": True,
        "exit_code": 0,
        "report": None,
        "judge": {
            "source": "gold",
            "calls": 0,
            "cached": 0,
            "shared": 0,
            "requests": 0,
            "errors": 0,
            "tokens": {"input": 0, "output": 0},
            "cost_usd": None,
        },
        "verdict": ["no gates declared"],
        "gates": [],
        "notes": [],
        "measures": {
            "RR": {
                "mean": 1.0,
                "interval": [pytest.approx(0.025**0.5), 1.0],
                "interval_method": "Clopper-Pearson",
                "level": 0.95,
                "units": 2,
                "interval_why": None,
                "estimand": "queries",
                "mean_bounds": [1.0, 1.0],
                "n": 2,
                "total": 2,
                "skipped": 0,
                "incomplete": 0,
                "errors": 0,
                "basis": {
                    "source": "gold",
                    "calibrated": True,
                    "models": {},
                    "modes": {},
                    "fused": 0,
                    "beside": {},
                    "remarks": [],
                    "with_reference": None,
                    "without_reference": None,
                    "mixed": None,
                },
                "corrected": None,
                "corrected_why": None,
                "sampled": None,
            }
        },
        "scores": [
            {
                "sample": query,
                "system": "",
                "trial": 0,
                "measure": "RR",
                "type": "RR",
                "value": 1.0,
                "status": "ok",
                "why": None,
                "bounds": None,
            }
            for query in ("q1", "q2")
        ],
    }
    several = invoke(
        files / "bm25.run", files / "dense.jsonl", "--qrels", files / "gold", "-m", "RR", "--json"
    )
    document = json.loads(several.out)
    assert [system["system"] for system in document["systems"]] == ["bm25", "dense"]
    assert "measures" not in document
    assert "scores" not in document
    assert len(document["notes"]) == 2


def test_a_gate_decides_the_exit_code(files: Path) -> None:
    """--fail-under exits 1 below the limit, on every system, and says which."""
    common = ("--qrels", files / "gold", "-m", "RR", "--fail-under", "mean(RR)>=0.5")
    assert invoke(files / "dense.jsonl", *common).code == 0
    failed = invoke(files / "dense.jsonl", files / "bm25.run", *common)
    assert failed.code == 1
    assert "gate failed: mean(RR)>=0.5 [bm25] (mean 0.2500, decided on the point;" in failed.err
    document = json.loads(invoke(files / "bm25.run", *common, "--json").out)
    assert (document["passed"], document["exit_code"]) == (False, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "nDGC@10"], "did you mean nDCG?"),
        (["-m", "P"], "P needs a cut-off"),
        (["--columns", "query"], "--columns 'query' is not NAME=VALUE"),
        (["--columns", "colour=red"], "the key 'colour' of --columns is unknown"),
        (["--doc-id", "("], "not a regular expression"),
        (["--fail-under", "RR"], "is not a gate"),
        (["--fail-under", "mean(AP@3)>=1"], "is not measured"),
        (["--fail-under", "change(AP)>-0.1"], "needs a baseline, which rank does not take"),
        (["--qrels-format", "json"], "this is not valid JSON"),
        (["--format", "csv"], "instead of 2 to 6"),
    ],
)
def test_what_the_user_can_mend_is_an_input_error(files: Path, arguments: list[str], message: str) -> None:
    """One message that says what is wrong; the program turns it into exit code 2."""
    done = invoke(files / "bm25.run", "--qrels", files / "gold", *arguments)
    assert done.code == 2
    assert message in done.err


def test_runs_of_one_name_are_told_apart(files: Path) -> None:
    """Two runs of one stem go by their file names; the same file twice is an error."""
    (files / "bm25.txt").write_bytes((files / "bm25.run").read_bytes())
    done = invoke(files / "bm25.run", files / "bm25.txt", "--qrels", files / "gold", "-m", "RR")
    assert done.out.splitlines()[0].split() == ["measure", "bm25.run", "bm25.txt"]
    again = invoke(files / "bm25.run", files / "bm25.run", "--qrels", files / "gold")
    assert "the same run file is given twice" in again.err


def test_hostile_ids_do_not_steer_the_terminal(files: Path) -> None:
    """Terminal escapes and markup in ids are shown without effect."""
    (files / "evil").write_text("q\x1b[2J[red] 0 b 1\n", encoding="utf-8")
    (files / "evil.run").write_text("q\x1b[2J[red] Q0 b 1 1 x\nq\x1b[2Jx Q0 b 1 1 x\n", encoding="utf-8")
    done = invoke(files / "evil.run", "--qrels", files / "evil", "-m", "RR", "-q")
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
    assert "[red]" in done.out


def test_long_names_are_not_cut(files: Path) -> None:
    """Without a terminal nothing is shortened or wrapped to a width."""
    query = "q" * 300
    (files / "long").write_text(f"{query} 0 b 1\n", encoding="utf-8")
    (files / "long.run").write_text(f"{query} Q0 b 1 1 x\n", encoding="utf-8")
    done = invoke(files / "long.run", "--qrels", files / "long", "-m", "RR", "-q")
    assert done.out.splitlines()[1] == f"{query}  1.0000"


def test_standard_input_is_a_run(files: Path) -> None:
    """`-` reads the run from standard input, gzipped or not."""
    words = [sys.executable, "-m", "germane", "rank", "-", "--qrels", str(files / "gold"), "-m", "RR"]
    done = subprocess.run(words, input=(files / "bm25.run").read_bytes(), capture_output=True, check=True)
    assert done.stdout.splitlines()[1].split()[:2] == [b"RR", b"0.2500"]


def test_trec_evals_own_test_through_the_command(files: Path) -> None:
    """The command prints trec_eval's averages."""
    done = invoke(TREC / "results.test", "--qrels", TREC / "qrels.test", "-m", "map ndcg_cut_10 P_30 bpref")
    assert [line.split()[1] for line in done.out.splitlines()[1:]] == [
        "0.1785",
        "0.3016",
        "0.3333",
        "0.1981",
    ]


def test_as_trec_eval_prints_it(files: Path) -> None:
    """Three columns with tabs, the means last as query `all`; several runs are told apart by their runid."""
    done = invoke(files / "bm25.run", "--qrels", files / "gold", "-m", "RR", "--trec", "-q")
    assert done.out == "".join(
        f"{'RR':<22}\t{query}\t{value}\n"
        for query, value in (("q1", "0.5000"), ("q2", "0.0000"), ("all", "0.2500"))
    )
    done = invoke(files / "bm25.run", files / "dense.jsonl", "--qrels", files / "gold", "-m", "RR", "--trec")
    assert [line.split("\t")[2] for line in done.out.splitlines()] == ["bm25", "0.2500", "dense", "1.0000"]


def test_values_per_query_as_files(files: Path) -> None:
    """CSV and Parquet hold the same numbers, unrounded; a query left out has none."""
    table, frame = files / "out.csv", files / "out.parquet"
    done = invoke(
        files / "bm25.run",
        "--qrels",
        files / "gold",
        "-m",
        "RR P@1",
        "--missing",
        "skip",
        "-o",
        table,
        "-o",
        frame,
    )
    assert done.code == 0
    assert table.read_text("utf-8").splitlines() == ["system,query,RR,P@1", ",q1,0.5,0.0", ",q2,,"]
    read = polars.read_parquet(frame)
    assert read.columns == ["system", "query", "RR", "P@1"]
    assert read.rows() == [("", "q1", 0.5, 0.0), ("", "q2", None, None)]


def test_tables_for_papers(files: Path) -> None:
    """Markdown and LaTeX with the best of each line in bold; what TeX would take for a command is escaped."""
    (files / "bm25_k1.run").write_text("q1 Q0 a 1 2.0 x\nq1 Q0 b 2 1.0 x\n", encoding="utf-8")
    paper, notes = files / "out.tex", files / "out.md"
    invoke(
        files / "bm25_k1.run",
        files / "dense.jsonl",
        "--qrels",
        files / "gold",
        "-m",
        "RR",
        "-o",
        paper,
        "-o",
        notes,
    )
    assert notes.read_text("utf-8").splitlines() == [
        "| measure | bm25_k1 | dense |",
        "| --- | ---: | ---: |",
        "| RR | 0.2500 (0.0080 to 0.8322) | **1.0000 (0.1581 to 1.0000)** |",
        "| n/N | 2/2 | 2/2 |",
    ]
    assert paper.read_text("utf-8").splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"measure & bm25\_k1 & dense \\",
        r"\midrule",
        r"RR & 0.2500 (0.0080 to 0.8322) & \textbf{1.0000 (0.1581 to 1.0000)} \\",
        r"n/N & 2/2 & 2/2 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_an_unknown_kind_of_file_is_refused_before_anything_is_read(files: Path) -> None:
    """The message names those that there are."""
    done = invoke(files / "none.run", "--qrels", files / "gold", "-o", files / "out.xls")
    assert (
        "rank cannot write a file with this extension; name a file that ends in .csv, .parquet, .md, .tex"
        in done.err
    )


def test_files_in_zstandard_are_read_as_they_are(files: Path) -> None:
    """Runs and gold, by their first bytes; a damaged file is an error that names it."""
    packed = files / "bm25.run.zst"
    packed.write_bytes(zstandard.compress((files / "bm25.run").read_bytes()))
    (files / "gold.zst").write_bytes(zstandard.compress((files / "gold").read_bytes()))
    plain = invoke(files / "bm25.run", "--qrels", files / "gold", "-m", "RR")
    assert invoke(packed, "--qrels", files / "gold.zst", "-m", "RR").out == plain.out
    packed.write_bytes(packed.read_bytes()[:4] + b"no zstandard at all")
    damaged = invoke(packed, "--qrels", files / "gold", "-m", "RR")
    assert damaged.code == 2
    assert "damaged" in damaged.err


def test_bad_rows_are_errors_or_left_out(files: Path) -> None:
    """The first is an error with its line; `--on-bad-row skip` counts them and shows the first."""
    good = (files / "bm25.run").read_text("utf-8")
    faults = ["q1 Q0 c", "q1 Q0 c 1 high t", "q1 Q0 c 1 nan t", *["odd"] * 20]
    (files / "bad.run").write_text(good + "\n".join(faults) + "\nq2 Q0 c 1 1.0 t\n", encoding="utf-8")
    common = ("--qrels", files / "gold", "-m", "RR")
    assert (
        "bad.run:4: this line has 3 columns, but a run in TREC format has 6"
        in invoke(files / "bad.run", *common).err
    )
    done = invoke(files / "bad.run", *common, "--on-bad-row", "skip")
    assert done.code == 0
    assert "bad.run: 23 rows could not be read and were left out; the first: " in done.err
    assert "bad.run:4: this line has 3 columns, but a run in TREC format has 6" in done.err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"id": "q1", "doc_ids": ["b"]}\n{"id": oops}\n[1]\n{"id": "q2", "doc_ids": [{}]}\n'),
        ("a.csv", "query_id,doc_id,score\nq1,b,1\nq1,c\n,c,3\nq1,d,x\n"),
    ],
)
def test_bad_rows_of_every_format(files: Path, name: str, text: str) -> None:
    """The first is named with its line, and the good ones count where bad ones are skipped."""
    (files / name).write_text(text, encoding="utf-8")
    common = ("--qrels", files / "gold", "-m", "RR")
    assert f"{name}:{3 if name == 'a.csv' else 2}:" in invoke(files / name, *common).err
    done = invoke(files / name, *common, "--on-bad-row", "skip")
    assert done.out.splitlines()[1].split()[:2] == ["RR", "0.5000"]
    assert ": 3 rows could not be read and were left out" in done.err


def test_a_beir_folder_is_gold_and_samples(files: Path) -> None:
    """qrels/test.tsv for rank, another split by its name; queries with their gold for run."""
    from germane import read_samples

    (files / "beir" / "qrels").mkdir(parents=True)
    head = "query-id\tcorpus-id\tscore\n"
    (files / "beir" / "qrels" / "test.tsv").write_text(f"{head}q1\tb\t1\nq2\tc\t2\n", encoding="utf-8")
    (files / "beir" / "qrels" / "dev.tsv").write_text(f"{head}q1\ta\t1\n", encoding="utf-8")
    queries = '{"_id": "q1", "text": "What is b?"}\n{"_id": "q3", "text": "unjudged"}\n'
    (files / "beir" / "queries.jsonl").write_text(queries, encoding="utf-8")
    (files / "beir" / "corpus.jsonl").write_text(
        '{"_id": "b", "title": "B", "text": "b"}\n', encoding="utf-8"
    )
    means = [
        invoke(files / "bm25.run", "--qrels", files / gold, "-m", "RR").out.splitlines()[1].split()[1]
        for gold in ("gold", "beir", "beir/qrels/dev.tsv")
    ]
    assert means == ["0.2500", "0.2500", "1.0000"]
    (sample,) = read_samples(files / "beir")
    assert (sample.id, sample.query, sample.qrels) == ("q1", "What is b?", {"b": 1})
    assert "name the gold file" in invoke(files / "bm25.run", "--qrels", files).err


def test_two_runs_are_compared_by_their_lists(inside: Cli, tmp_path: Path) -> None:
    """Rank-biased overlap, over the queries of both: 1 where the lists are the same, whatever their scores; ties by id."""
    (tmp_path / "gold").write_text("q1 0 a 1\nq2 0 a 1\n")
    (tmp_path / "x.run").write_text("q1 Q0 a 1 9 x\nq1 Q0 b 2 8 x\nq2 Q0 a 1 1 x\n")
    (tmp_path / "y.run").write_text("q1 Q0 b 1 1 y\nq1 Q0 a 2 2 y\n")
    (tmp_path / "z.run").write_text("q1 Q0 b 1 2 z\nq1 Q0 a 2 1 z\n")
    line = "rank-biased overlap of the two runs: "
    same = inside("rank", "x.run", "y.run", "--qrels", "gold", "-m", "RR").out
    assert line + "1.0000 over 1 query" in same
    swapped = inside("rank", "x.run", "z.run", "--qrels", "gold", "-m", "RR").out
    assert line + "0.9000 over 1 query" in swapped
    assert line not in inside("rank", "x.run", "--qrels", "gold", "-m", "RR").out


RANK, DOWN, GAPS = "was read as the rank", "counts down", "rises within every query"


@pytest.mark.parametrize(
    ("numbers", "note"),
    [
        (("a1 b2 c3", "a1 b2"), RANK),
        (("c1 b2 a3", "b1 a2"), RANK),
        (("a0 b1 c2", "a0"), RANK),
        (("a3 b2 c1", "a2 b1"), DOWN),
        (("a1 b2 c5", "b1 a9"), GAPS),
        (("a9 b5 c1", "b7 a2"), ""),
        (("a1 b2", "b1 a2"), RANK),
        (("a1 b3", "b1 a3"), GAPS),
        (("b1 a0", "a1 b0"), ""),
        (("a0 b1", "b0 a1"), ""),
        (("b2", "b1"), ""),
        (("c0.3 b0.2 a0.1", "b1 a2"), ""),
    ],
)
def test_a_column_without_a_name_is_rank_or_score(
    inside: Cli, tmp_path: Path, numbers: tuple[str, str], note: str
) -> None:
    """By the numbers of all lists as their rows stand; as TSV, CSV, and with the queries' rows mixed, alike."""
    (tmp_path / "gold").write_text("q1 0 b 1\nq2 0 b 1\n")
    rows = [(f"q{n}", cell[0], cell[1:]) for n, cells in enumerate(numbers, 1) for cell in cells.split()]
    mixed = sorted(rows, key=lambda row: [other for other in rows if other[0] == row[0]].index(row))
    for name, listed, between in (("r.tsv", rows, "\t"), ("r.csv", rows, ","), ("m.tsv", mixed, "\t")):
        (tmp_path / name).write_text("".join(between.join(row) + "\n" for row in listed))
        ran = inside("rank", name, "--qrels", "gold", "-m", "RR", "--json")
        assert ran.json["measures"]["RR"]["mean"] == pytest.approx(rr_of(numbers, rank=note == RANK)), name
        assert (note in ran.err) if note else ("third column" not in ran.err), ran.err


def rr_of(numbers: tuple[str, str], *, rank: bool) -> float:
    """The mean reciprocal rank of b, by hand."""
    total = 0.0
    for cells in numbers:
        listed = sorted(cells.split(), key=lambda cell: float(cell[1:]) * (1 if rank else -1))
        total += next((1 / at for at, cell in enumerate(listed, 1) if cell[0] == "b"), 0.0) / 2
    return total


@pytest.mark.parametrize("numbers", ["a3 b1 c2", "a1 b3 c2", "b2 a0 c1"])
def test_numbers_in_another_order_are_refused(inside: Cli, tmp_path: Path, numbers: str) -> None:
    """1 to n in no order may be either: the error says what to write; a named column is what its name says."""
    (tmp_path / "gold").write_text("q1 0 b 1\nq2 0 b 1\n")
    rows = [("q1", cell[0], cell[1]) for cell in numbers.split()]
    (tmp_path / "r.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    for verb in (("rank", "r.tsv", "-m", "RR"), ("stages", "r.tsv", "-k", "1")):
        ran = inside(*verb, "--qrels", "gold")
        assert ran.code == 2
        assert "query_id, doc_id, rank (1 is best), or query_id, doc_id, score" in ran.err
    for header, rank in (("rank", True), ("score", False)):
        (tmp_path / "n.csv").write_text(
            f"query_id,doc_id,{header}\n" + "".join(",".join(row) + "\n" for row in rows)
        )
        ran = inside("rank", "n.csv", "--qrels", "gold", "-m", "RR", "--missing", "skip", "--json")
        assert ran.json["measures"]["RR"]["mean"] == pytest.approx(2 * rr_of((numbers, ""), rank=rank))
        assert ran.err.count("note") == 1  # of the query without results


def test_a_large_file_of_ranks_is_read_as_a_small_one(inside: Cli, tmp_path: Path) -> None:
    """In rank order gold at rank 1 scores 1; sorted by document nobody can tell; falling numbers are scores."""
    (tmp_path / "gold").write_text("".join(f"q{q} 0 document{9 - q % 10} 1\n" for q in range(8000)))
    rows = [(q, (9 - q - k) % 10, k + 1) for q in range(8000) for k in range(10)]
    for name, listed, code in (
        ("ranks", rows, 0), ("sorted", sorted(rows), 2), ("scores", [(q, d, 11 - k) for q, d, k in rows], 0)
    ):  # fmt: skip
        (tmp_path / f"{name}.tsv").write_text("".join(f"q{q}\tdocument{d}\t{n}\n" for q, d, n in listed))
        ran = inside("rank", f"{name}.tsv", "--qrels", "gold", "-m", "RR", "--json")
        assert ran.code == code, ran.err
        assert code or ran.json["measures"]["RR"]["mean"] == 1.0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.run", "q1 Q0 a 1 1 t\nq1 Q0 b 2 2 t\nq1 Q0 c 3 3 t\n"),
        ("s.run", "q1 Q0 c 3 .3 t\nq1 Q0 a 1 .1 t\nq1 Q0 b 2 .2 t\n"),
        ("r.csv", "query_id,doc_id,rank,score\nq1,a,1,0.1\nq1,b,2,0.2\nq1,c,3,0.9\n"),
        ("r.tsv", "q1\ta\t1\t0.1\nq1\tb\t2\t0.2\nq1\tc\t3\t0.9\n"),
    ],
)
def test_scores_that_rise_down_the_ranks_are_noted(inside: Cli, tmp_path: Path, name: str, text: str) -> None:
    """The score counts; where it falls nothing is said."""
    (tmp_path / "gold").write_text("q1 0 a 1\n")
    (tmp_path / name).write_text(text)
    ran = inside("rank", name, "--qrels", "gold", "-m", "RR", "--json")
    assert ran.json["measures"]["RR"]["mean"] == pytest.approx(1 / 3)
    assert "scores rise with the ranks" in ran.err
    (tmp_path / name).write_text(text.replace("0.9", "0.0").replace("3 3", "3 0").replace("3 .3", "3 .0"))
    assert "scores rise" not in inside("rank", name, "--qrels", "gold", "-m", "RR").err


def test_documents_mapped_to_numbers_are_scored(inside: Cli, tmp_path: Path) -> None:
    """In JSON and in Python, with a note where they count 1, 2, 3."""
    from germane.evaluation.rank import rank

    (tmp_path / "gold").write_text("q1 0 a 1\n")
    counting = {"q1": {"a": 1, "b": 2, "c": 3}}
    for mapping, noted in (
        (counting, True),
        ({"q1": {"a": 1, "b": 2}}, False),
        ({"q1": {"a": 1, "b": 2, "c": 2.5}}, False),
    ):
        (tmp_path / "r.json").write_text(json.dumps(mapping))
        ran = inside("rank", "r.json", "--qrels", "gold", "-m", "RR", "--json")
        assert ran.json["measures"]["RR"]["mean"] == pytest.approx(1 / len(mapping["q1"]))
        assert ("numbers 1, 2, 3, ... of the documents" in ran.err) is noted
        assert (
            "numbers 1, 2, 3, ... of the documents" in str(rank(mapping, {"q1": {"a": 1}}, "RR"))
        ) is noted


@pytest.mark.parametrize("row", ["q1 d20 1 9.5 1", "q1 0 20 1 9.5", "q1\td20\t1\t9.5\t1"])
def test_five_columns_without_q0_are_refused(inside: Cli, tmp_path: Path, row: str) -> None:
    """The document would be read from the rank; with Q0, or with a word as tag, nothing is off."""
    (tmp_path / "gold").write_text("q1 0 d20 1\n")
    (tmp_path / "r.run").write_text(f"{row}\n")
    ran = inside("rank", "r.run", "--qrels", "gold", "-m", "RR")
    assert ran.code == 2
    assert "r.run:1: this run has five columns" in ran.err
    (tmp_path / "r.run").write_text("q1 Q0 d20 1 9.5\n")
    assert (
        inside("rank", "r.run", "--qrels", "gold", "-m", "RR", "--json").json["measures"]["RR"]["mean"] == 1.0
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", "query_id,doc_id,score,System\nq1,a,2,bm25\nq1,b,1,dense\n"),
        ("r.tsv", "query_id\tdoc_ids\tsystem\nq1\ta\tbm25\nq1\tb\tdense\n"),
        (
            "r.jsonl",
            '{"id": "q1", "doc_id": "a", "score": 2, "system": "bm25"}\n{"id": "q1", "doc_id": "b", "score": 1, "system": "dense"}\n',
        ),
        (
            "r.json",
            '[{"id": "q1", "contexts": [{"id": "a"}], "system": "bm25"}, {"id": "q1", "contexts": [{"id": "b"}], "system": "dense"}]',
        ),
    ],
)
def test_several_systems_in_one_file_are_refused(inside: Cli, tmp_path: Path, name: str, text: str) -> None:
    """Their lists would be joined into one; a column with one system is as good as none."""
    (tmp_path / "gold").write_text("q1 0 a 1\n")
    (tmp_path / name).write_text(text)
    ran = inside("rank", name, "--qrels", "gold", "-m", "RR")
    assert ran.code == 2
    assert re.search(
        "several systems in the column [Ss]ystem: 'bm25', 'dense'; write a file for each", ran.err
    )
    (tmp_path / name).write_text(text.replace("dense", "bm25"))
    assert inside("rank", name, "--qrels", "gold", "-m", "RR", "--json").json["measures"]["RR"]["mean"] == 1


@pytest.mark.parametrize("name", ["g.csv", "g.jsonl"])
def test_gold_without_a_known_grade_is_noted(inside: Cli, tmp_path: Path, name: str) -> None:
    """`relevant` holds yes or no; a column of an unknown name is not read, which a note says."""
    (tmp_path / "r.run").write_text("q1 Q0 a 1 2 r\nq2 Q0 b 1 2 r\n")
    rows = [("q1", "a", True), ("q2", "b", False)]
    for column, mean in (("relevant", 0.5), ("rating", 1.0)):
        lines = [json.dumps({"query_id": query, "doc_id": doc, column: yes}) for query, doc, yes in rows]
        if name == "g.csv":
            lines = [f"query_id,doc_id,{column}", *(f"{query},{doc},{yes}" for query, doc, yes in rows)]
        (tmp_path / name).write_text("\n".join(lines))
        ran = inside("rank", "r.run", "--qrels", name, "-m", "RR", "--json")
        assert ran.json["measures"]["RR"]["mean"] == mean
        assert ("every row counts as relevant; not read: rating" in ran.err) is (column == "rating")


@pytest.mark.parametrize("name", ["r.csv", "r.jsonl"])
def test_a_run_without_a_known_score_is_noted(inside: Cli, tmp_path: Path, name: str) -> None:
    """A column of an unknown name is not read, so that the rows are taken as they stand; gold is no run."""
    (tmp_path / "g.txt").write_text("q1 0 b 1\n")
    rows = [("q1", "a", 0.1), ("q1", "b", 0.9)]
    for column, mean in (("similarity", 1.0), ("cosine", 0.5), ("relevance", 0.5)):
        lines = [
            json.dumps({"query_id": query, "doc_id": doc, column: number}) for query, doc, number in rows
        ]
        if name == "r.csv":
            lines = [f"query_id,doc_id,{column}", *(f"{query},{doc},{number}" for query, doc, number in rows)]
        (tmp_path / name).write_text("\n".join(lines))
        ran = inside("rank", name, "--qrels", "g.txt", "-m", "RR", "--json")
        assert ran.json["measures"]["RR"]["mean"] == mean
        note = f"no column holds the score, so the order of the rows is the ranking; not read: {column}"
        assert (note in ran.err) is (column != "similarity")


def test_gold_of_varying_columns_has_one_note(inside: Cli, tmp_path: Path) -> None:
    """Not one for each row."""
    (tmp_path / "r.run").write_text("q1 Q0 a 1 2 r\n")
    rows = [{"query_id": "q1", "doc_id": f"d{n}", f"column{n}": 1} for n in range(9)]
    (tmp_path / "g.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ran = inside("rank", "r.run", "--qrels", "g.jsonl", "-m", "RR")
    assert (ran.out + ran.err).count("no column holds the grade") == 1


def test_two_columns_of_one_name_are_refused(inside: Cli, tmp_path: Path) -> None:
    """One of them would be read without a word."""
    (tmp_path / "gold").write_text("q1 0 a 1\n")
    (tmp_path / "r.csv").write_text("query_id,doc_id,score,score\nq1,a,1,2\n")
    ran = inside("rank", "r.csv", "--qrels", "gold")
    assert (ran.code, "r.csv:1: two columns are named 'score'" in ran.err) == (2, True)
