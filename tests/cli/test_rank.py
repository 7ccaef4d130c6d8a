"""`germane rank` as it is typed: what is printed where, and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars
import pytest
import zstandard
from typer.testing import CliRunner, Result

from germane.cli import app
from germane.errors import InputError
from germane.evaluation.rank import DEFAULT_MEASURES

TREC = Path(__file__).parent.parent / "data" / "trec_eval"


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["rank", *(str(argument) for argument in arguments)])


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
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "measure    mean          interval  n/N",
        "RR       0.2500  0.0000 to 1.0000  2/2",
        "P@1      0.0000  0.0000 to 0.8419  2/2",
        "AP       0.2500  0.0000 to 1.0000  2/2",
    ]
    name = files / "bm25.run"
    assert done.stderr.splitlines() == [
        f"note: {name}: 1 query of 2 with gold but without results, counted as 0 (--missing skip leaves them out): q2",
        f"note: {name}: 1 query with results but without gold, ignored: q9",
    ]


def test_the_default_measures_are_those_of_the_help(files: Path) -> None:
    """No -m computes what the help says, Judged@10 among it."""
    done = invoke(files / "dense.jsonl", "--qrels", files / "gold", "--json")
    assert list(json.loads(done.stdout)["measures"]) == DEFAULT_MEASURES.split()
    assert DEFAULT_MEASURES in " ".join(invoke("--help").stdout.replace("│", " ").split())


def test_every_query_on_demand(files: Path) -> None:
    """-q prints each query's values above the means."""
    done = invoke(files / "bm25.run", "--qrels", files / "gold", "-m", "RR", "-q", "--missing", "skip")
    assert done.stdout.splitlines() == [
        "query      RR",
        "q1     0.5000",
        "q2          -",
        "",
        "measure    mean          interval  n/N",
        "RR       0.5000  0.0000 to 1.0000  1/2",
    ]


def test_several_runs_are_several_systems(files: Path) -> None:
    """A column each, named by the file, every mean with its interval; the document holds their order."""
    done = invoke(files / "bm25.run", files / "dense.jsonl", "--qrels", files / "gold", "-m", "RR", "-q")
    assert done.stdout.splitlines() == [
        "system  query      RR",
        "bm25    q1     0.5000",
        "bm25    q2     0.0000",
        "dense   q1     1.0000",
        "dense   q2     1.0000",
        "",
        "measure                       bm25                      dense",
        "RR       0.2500 (0.0000 to 1.0000)  1.0000 (0.1581 to 1.0000)",
        "n/N                            2/2                        2/2",
        "systems by RR",
        "  dense  1.0000 (0.1581 to 1.0000)",
        "  bm25   0.2500 (0.0000 to 1.0000)  -0.7500 (-1.0000 to +1.0000)  p 0.5000  not distinguishable",
    ]


def test_one_json_document(files: Path) -> None:
    """--json prints the document that scripts rely on; scores come with -q."""
    done = invoke(files / "dense.jsonl", "--qrels", files / "gold", "-m", "RR", "--json", "-q")
    assert json.loads(done.stdout) == {
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
                    "listed": 0,
                    "windowed": 0,
                    "without_temperature": 0,
                    "beside": {},
                    "remarks": [],
                    "with_reference": None,
                    "without_reference": None,
                    "mixed": None,
                },
                "corrected": None,
                "corrected_why": None,
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
    document = json.loads(several.stdout)
    assert [system["system"] for system in document["systems"]] == ["bm25", "dense"]
    assert "measures" not in document
    assert "scores" not in document
    assert len(document["notes"]) == 2
    (ranking,) = document["ranking"]
    assert [one["system"] for one in ranking["systems"]] == ["dense", "bm25"]
    assert ranking["systems"][1]["difference"] == -0.75
    assert ranking["systems"][1]["distinguishable"] is False


def test_slices_by_what_is_known_of_the_queries(files: Path) -> None:
    """--by names a field of the metadata or a tag of --queries; each slice with n and interval, in --json too."""
    known = files / "queries.jsonl"
    known.write_text(
        '{"id": "q1", "query": "x", "lang": "de"}\n{"id": "q2", "query": "y", "lang": "en"}\n',
        encoding="utf-8",
    )
    common = (files / "bm25.run", "--qrels", files / "gold", "-m", "RR")
    done = invoke(*common, "--queries", known, "--by", "lang")
    assert done.stdout.splitlines()[-3:] == [
        "slice    measure    mean          interval  n/N",
        "lang=de  RR       0.5000  0.0000 to 1.0000  1/1",
        "lang=en  RR       0.0000  0.0000 to 0.9750  1/1",
    ]
    document = json.loads(invoke(*common, "--queries", known, "--by", "lang", "--json").stdout)
    assert [one["slice"] for one in document["slices"]] == ["lang=de", "lang=en"]
    assert "give --queries FILE" in str(invoke(*common, "--by", "lang").exception)
    assert "no sample has the tag" in str(invoke(*common, "--queries", known, "--by", "no").exception)


def test_a_gate_decides_the_exit_code(files: Path) -> None:
    """--fail-under exits 1 below the limit, on every system, and says which."""
    common = ("--qrels", files / "gold", "-m", "RR", "--fail-under", "mean(RR)>=0.5")
    assert invoke(files / "dense.jsonl", *common).exit_code == 0
    failed = invoke(files / "dense.jsonl", files / "bm25.run", *common)
    assert failed.exit_code == 1
    assert "gate failed: mean(RR)>=0.5 [bm25] (mean 0.2500;" in failed.stderr
    document = json.loads(invoke(files / "bm25.run", *common, "--json").stdout)
    assert (document["passed"], document["exit_code"]) == (False, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "nDGC@10"], "did you mean nDCG?"),
        (["-m", "P"], "P needs a cut-off"),
        (["--columns", "query"], "--columns 'query' is no pair"),
        (["--columns", "colour=red"], "--columns does not know 'colour'"),
        (["--doc-id", "("], "no regular expression"),
        (["--fail-under", "RR"], "is not a gate"),
        (["--fail-under", "mean(AP@3)>=1"], "is not measured"),
        (["--qrels-format", "json"], "this is not JSON"),
        (["--format", "csv"], "a table without a header has 2 to 6 columns"),
    ],
)
def test_what_the_user_can_mend_is_an_input_error(files: Path, arguments: list[str], message: str) -> None:
    """One message that says what is wrong; the program turns it into exit code 2."""
    done = invoke(files / "bm25.run", "--qrels", files / "gold", *arguments)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


def test_runs_of_one_name_are_told_apart(files: Path) -> None:
    """Two runs of one stem go by their file names; the same file twice is an error."""
    (files / "bm25.txt").write_bytes((files / "bm25.run").read_bytes())
    done = invoke(files / "bm25.run", files / "bm25.txt", "--qrels", files / "gold", "-m", "RR")
    assert done.stdout.splitlines()[0].split() == ["measure", "bm25.run", "bm25.txt"]
    again = invoke(files / "bm25.run", files / "bm25.run", "--qrels", files / "gold")
    assert "the same run is given twice" in str(again.exception)


def test_hostile_ids_do_not_steer_the_terminal(files: Path) -> None:
    """Terminal escapes and markup in ids are shown without effect."""
    (files / "evil").write_text("q\x1b[2J[red] 0 b 1\n", encoding="utf-8")
    (files / "evil.run").write_text("q\x1b[2J[red] Q0 b 1 1 x\nq\x1b[2Jx Q0 b 1 1 x\n", encoding="utf-8")
    done = invoke(files / "evil.run", "--qrels", files / "evil", "-m", "RR", "-q")
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "[red]" in done.stdout


def test_long_names_are_not_cut(files: Path) -> None:
    """Without a terminal nothing is shortened or wrapped to a width."""
    query = "q" * 300
    (files / "long").write_text(f"{query} 0 b 1\n", encoding="utf-8")
    (files / "long.run").write_text(f"{query} Q0 b 1 1 x\n", encoding="utf-8")
    done = invoke(files / "long.run", "--qrels", files / "long", "-m", "RR", "-q")
    assert done.stdout.splitlines()[1] == f"{query}  1.0000"


def test_standard_input_is_a_run(files: Path) -> None:
    """`-` reads the run from standard input, gzipped or not."""
    command = [sys.executable, "-m", "germane", "rank", "-", "--qrels", str(files / "gold"), "-m", "RR"]
    done = subprocess.run(command, input=(files / "bm25.run").read_bytes(), capture_output=True, check=True)
    assert done.stdout.splitlines()[1].split()[:2] == [b"RR", b"0.2500"]


def test_trec_evals_own_test_through_the_command(files: Path) -> None:
    """The command prints trec_eval's averages."""
    done = invoke(TREC / "results.test", "--qrels", TREC / "qrels.test", "-m", "map ndcg_cut_10 P_30 bpref")
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == [
        "0.1785",
        "0.3016",
        "0.3333",
        "0.1981",
    ]


def test_as_trec_eval_prints_it(files: Path) -> None:
    """Three columns with tabs, the means last as query `all`; several runs are told apart by their runid."""
    done = invoke(files / "bm25.run", "--qrels", files / "gold", "-m", "RR", "--trec", "-q")
    assert done.stdout == "".join(
        f"{'RR':<22}\t{query}\t{value}\n"
        for query, value in (("q1", "0.5000"), ("q2", "0.0000"), ("all", "0.2500"))
    )
    done = invoke(files / "bm25.run", files / "dense.jsonl", "--qrels", files / "gold", "-m", "RR", "--trec")
    assert [line.split("\t")[2] for line in done.stdout.splitlines()] == ["bm25", "0.2500", "dense", "1.0000"]


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
    assert done.exit_code == 0
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
        "| RR | 0.2500 (0.0000 to 1.0000) | **1.0000 (0.1581 to 1.0000)** |",
        "| n/N | 2/2 | 2/2 |",
    ]
    assert paper.read_text("utf-8").splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"measure & bm25\_k1 & dense \\",
        r"\midrule",
        r"RR & 0.2500 (0.0000 to 1.0000) & \textbf{1.0000 (0.1581 to 1.0000)} \\",
        r"n/N & 2/2 & 2/2 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_an_unknown_kind_of_file_is_refused_before_anything_is_read(files: Path) -> None:
    """The message names those that there are."""
    done = invoke(files / "none.run", "--qrels", files / "gold", "-o", files / "out.xls")
    assert "rank writes no such file; name it .csv, .parquet, .md, .tex" in str(done.exception)


def test_files_in_zstandard_are_read_as_they_are(files: Path) -> None:
    """Runs and gold, by their first bytes; a damaged file is an error that names it."""
    packed = files / "bm25.run.zst"
    packed.write_bytes(zstandard.compress((files / "bm25.run").read_bytes()))
    (files / "gold.zst").write_bytes(zstandard.compress((files / "gold").read_bytes()))
    plain = invoke(files / "bm25.run", "--qrels", files / "gold", "-m", "RR")
    assert invoke(packed, "--qrels", files / "gold.zst", "-m", "RR").stdout == plain.stdout
    packed.write_bytes(packed.read_bytes()[:4] + b"no zstandard at all")
    damaged = invoke(packed, "--qrels", files / "gold", "-m", "RR")
    assert isinstance(damaged.exception, InputError)
    assert "damaged" in str(damaged.exception)
