"""Result files of other programs under `germane compare`: their figures are those of the reports."""

import csv
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from germane import compare, evaluate
from germane.errors import InputError
from tests.command import invoke

MEASURES = ("nDCG@10", "RR", "P@5")
Values = Mapping[str, Mapping[str, float]]


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the documents of `rank --json -q` of two runs over 40 queries, a.json and b.json."""
    folder, rng = tmp_path_factory.mktemp("ranked"), random.Random(4)
    queries = [f"q{n}" for n in range(40)]
    gold = [f"{q} 0 d{d} {rng.randint(1, 3)}" for q in queries for d in rng.sample(range(12), 3)]
    (folder / "gold.qrels").write_text("\n".join(gold))
    for name in "ab":
        lists = [(q, d, r) for q in queries for r, d in enumerate(rng.sample(range(12), 8))]
        (folder / name).write_text("\n".join(f"{q} Q0 d{d} {r + 1} {9 - r} {name}" for q, d, r in lists))
        done = invoke("rank", folder / name, "--qrels", folder / "gold.qrels", "-m", *MEASURES[:1], "-m", MEASURES[1], "-m", MEASURES[2], "--json", "-q")  # fmt: skip
        (folder / f"{name}.json").write_text(done.out)
    return folder


def values(document: Path) -> Values:
    found: dict[str, dict[str, float]] = {}
    for row in json.loads(document.read_text())["scores"]:
        found.setdefault(row["sample"], {})[row["measure"]] = row["value"]
    cases = list(found.items())
    random.Random(1).shuffle(cases)
    return dict(cases)


def table(rows: list[dict[str, Any]], between: str = ",") -> str:
    lines = [between.join(rows[0])] + [between.join(map(str, row.values())) for row in rows]
    return "\n".join(lines) + "\n"


def wide(found: Values, name: str = "id") -> list[dict[str, Any]]:
    return [{name: case, **of} for case, of in found.items()]


def long(
    found: Values, names: tuple[str, ...] = ("ndcg_cut_10", "recip_rank", "P_5")
) -> list[dict[str, Any]]:
    of = dict(zip(MEASURES, names, strict=True))
    return [{"query_id": q, "measure": of[m], "value": v} for q, row in found.items() for m, v in row.items()]


def by_measure(found: Values) -> Values:
    return {measure: {q: of[measure] for q, of in found.items()} for measure in MEASURES}


WRITERS: dict[str, tuple[str, Callable[[Values], str]]] = {
    "wide CSV": ("csv", lambda found: table(wide(found))),
    "wide TSV": ("tsv", lambda found: table(wide(found, "qid"), "\t")),
    "semicolons": ("csv", lambda found: table(wide(found, "Case ID"), ";")),
    "long CSV": ("csv", lambda found: table(long(found))),
    "wide JSONL": ("jsonl", lambda found: "\n".join(map(json.dumps, wide(found)))),
    "nested JSONL": ("jsonl", lambda found: "\n".join(json.dumps({"id": q, "scores": of}) for q, of in found.items())),
    "long JSON": ("json", lambda found: json.dumps(long(found), indent=1)),
    "pytrec_eval": ("json", lambda found: json.dumps({q: dict(zip(("ndcg_cut_10", "recip_rank", "P_5"), of.values(), strict=True)) for q, of in found.items()})),
    "scores of ranx": ("json", lambda found: json.dumps(by_measure(found))),
    "a frame of pytrec_eval": ("csv", lambda found: table([{"": measure, **of} for measure, of in by_measure(found).items()])),
    "trec_eval -q": ("txt", lambda found: "runid                 \tall\tx\n" + "".join(f"{row['measure']:22}\t{row['query_id']}\t{row['value']}\n" for row in long(found)) + "map\tall\t0.5\n"),
    "ir_measures": ("txt", lambda found: "".join(f"{row['query_id']}\t{row['measure']}\t{row['value']}\n" for row in long(found, MEASURES)) + "all\tRR\t0.5\n"),
}  # fmt: skip


def figures(document: Mapping[str, Any]) -> dict[str, list[float]]:
    """The numbers of each comparison, by measure."""
    names = ("difference", "p", "p_holm", "mde", "mean_a", "mean_b", "wins", "ties", "losses", "n", "margin")
    return {
        row["measure"]: [*(row[name] for name in names if row[name] is not None), *row["interval"]]
        for row in document["comparisons"]
    }


def same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    ours, theirs = figures(found), figures(expected)
    assert ours.keys() == theirs.keys()
    for name, numbers in theirs.items():
        assert ours[name] == pytest.approx(numbers, abs=1e-12), name


@pytest.mark.parametrize("kind", WRITERS)
def test_figures_are_those_of_the_reports(ranked: Path, tmp_path: Path, kind: str) -> None:
    """A pair of files, and a file against a report, in any order of rows."""
    end, write = WRITERS[kind]
    files = [tmp_path / f"{name}.{end}" for name in "ab"]
    for name, file in zip("ab", files, strict=True):
        file.write_text(write(values(ranked / f"{name}.json")))
    gate = ("--margin", "RR: 0.3", "--fail-on-regression", "--json")
    expected = invoke("compare", ranked / "a.json", ranked / "b.json", *gate)
    for pair in (files, [files[0], ranked / "b.json"], [ranked / "a.json", files[1]]):
        done = invoke("compare", *pair, *gate)
        same(done.json, expected.json)
        assert (done.code, done.json["gates"], done.err) == (expected.code, expected.json["gates"], "")
        assert not done.json["notes"]


FIXTURES = Path(__file__).parents[1] / "fixtures" / "results"
"""Written by the programs themselves (scripts/result_fixtures.py), each from the values of a.csv and b.csv."""
PROGRAMS = [
    ("germane", "a.csv", "b.csv", ""),
    ("ir_measures", "ir_measures-0.4.3-a.txt", "ir_measures-0.4.3-b.txt", ""),
    ("MLflow", "mlflow-3.17.2-a.jsonl", "mlflow-3.17.2-b.csv", "mlflow-3.17.2-failed.csv"),
]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What `rank --json -q` prints of the two runs behind the fixtures."""
    folder, measures = tmp_path_factory.mktemp("reports"), ("-m", " ".join(MEASURES))
    for name in "ab":
        done = invoke(
            "rank", FIXTURES / f"{name}.run", "--qrels", FIXTURES / "gold.qrels", *measures, "--json", "-q"
        )
        (folder / f"{name}.json").write_text(done.out)
    return [folder / "a.json", folder / "b.json"]


@pytest.mark.parametrize(("program", "a", "b", "failed"), PROGRAMS, ids=[row[0] for row in PROGRAMS])
def test_exports_of_programs_give_the_figures_of_the_reports(
    reports: list[Path], program: str, a: str, b: str, failed: str
) -> None:
    """Two of a program, one beside a report, and one in which a case failed: an error, not a zero."""
    expected = invoke("compare", *reports, "--json").json
    for pair in ([FIXTURES / a, FIXTURES / b], [FIXTURES / a, reports[1]], [reports[0], FIXTURES / b]):
        done = invoke("compare", *pair, "--json")
        assert done.code == 0, done.err
        same(done.json, expected)
        assert not done.json["notes"], program
    if failed:
        found = invoke("compare", reports[1], FIXTURES / failed, "--json").json
        rows = {row["measure"]: (row["n"], row["losses"]) for row in found["comparisons"]}
        assert rows == dict.fromkeys(MEASURES, (7, 0))
        assert found["only_in"] == {name: [] for name in found["systems"]}


def test_table_that_mlflow_logs() -> None:
    """The column ndcg_at_2/score is nDCG@2."""
    file = FIXTURES / "mlflow-3.17.2-eval_results_table.json"
    (row,) = invoke("compare", file, file, "--json").json["comparisons"]
    assert (row["measure"], row["n"], row["mean_a"]) == ("nDCG@2", 8, pytest.approx(0.6309297536))


def test_what_trec_eval_printed() -> None:
    """Its own files: the means of the queries are those that it printed itself."""
    folder = Path(__file__).parents[1] / "data" / "trec_eval"
    done = invoke("compare", folder / "out.test.aq", folder / "out.test.aq", "--json")
    rows = {row["measure"]: row["mean_a"] for row in done.json["comparisons"]}
    printed = {
        fields[0]: float(fields[2])
        for line in (folder / "out.test.a").read_text().splitlines()
        if (fields := line.split())[2].replace(".", "").isdigit()
    }
    for theirs, ours in (
        ("map", "AP"),
        ("recip_rank", "RR"),
        ("P_10", "P@10"),
        ("ndcg_cut_10", "nDCG@10"),
        ("bpref", "bpref"),
    ):
        assert rows[ours] == pytest.approx(printed[theirs], abs=1e-4), theirs


def test_systems_trials_and_clusters_of_one_file(tmp_path: Path) -> None:
    """Trials are averaged, systems compared with the first, clusters kept whole, ids that one system lacks listed."""
    rows = [
        {"id": f"q{q}", "system": s, "trial": t, "cluster": q // 2, "map": (q + t + (s == "new")) % 4 / 4}
        for s in ("old", "new")
        for q in range(8 + (s == "new"))
        for t in range(2)
    ]
    (file := tmp_path / "both.csv").write_text(table(rows))
    found = invoke("compare", file, "--json").json
    (row,) = found["comparisons"]
    assert (found["systems"], row["measure"], row["n"], row["units"]) == (["old", "new"], "AP", 8, 4)
    old = [(q % 4 + (q + 1) % 4) / 8 for q in range(8)]
    assert row["mean_a"] == pytest.approx(sum(old) / 8, abs=1e-12)
    assert found["only_in"] == {"old": [], "new": ["q8"]}


@pytest.mark.parametrize("failed", ["", "NaN", "null", "inf", "1e200", "timed out"])
def test_failed_rows_are_errors(tmp_path: Path, failed: str) -> None:
    """What has no value counts as not measured, and the interval covers whatever it could be."""
    for name in "ab":
        cells = [f"q{n},{0.5 + n % 2 / 4}" for n in range(20)]
        (tmp_path / f"{name}.csv").write_text("id,RR\n" + "\n".join([*cells[:-1], f"q19,{failed}"]) + "\n")
    (row,) = invoke("compare", tmp_path / "a.csv", tmp_path / "b.csv", "--json").json["comparisons"]
    assert (row["n"], row["mean_a"]) == (19, pytest.approx((10 * 0.5 + 9 * 0.75) / 19, abs=1e-12))
    assert row["interval_method"].endswith("Imbens-Manski")
    assert row["interval"][0] <= -1 / 20 <= 1 / 20 <= row["interval"][1]


def test_a_column_that_is_no_system(tmp_path: Path) -> None:
    """`target` may be the gold answer: only a column named system names systems."""
    for name in "ab":
        rows = [{"id": n, "target": f"answer {n}", "accuracy": n % 2} for n in range(6)]
        (tmp_path / f"{name}.csv").write_text(table(rows))
    assert invoke("compare", tmp_path / "a.csv", tmp_path / "b.csv", "--json").json["systems"] == ["a", "b"]
    rows = [{"id": n, "system": system, "accuracy": n % 2} for n in range(6) for system in ("old", "new")]
    (file := tmp_path / "both.csv").write_text(table(rows))
    assert invoke("compare", file, "--json").json["systems"] == ["old", "new"]
    found = invoke("compare", file, tmp_path / "a.csv", "--systems", "new", "--json").json
    assert (found["systems"], found["comparisons"][0]["ties"]) == (["both", "a"], 6)
    assert invoke("compare", file, tmp_path / "a.csv", "--systems", "newer").code == 2


def test_whole_numbers_of_json_are_one_id_however_they_are_written(tmp_path: Path) -> None:
    """A frame has 7.0 where its column has a gap; in a CSV cell it is text."""
    (one := tmp_path / "a.jsonl").write_text('{"id": 7.0, "RR": 1}\n{"id": 8.0, "RR": 0.5}\n')
    (two := tmp_path / "b.json").write_text('[{"id": 7, "RR": 1}, {"id": "8", "RR": 0.5}]')
    assert invoke("compare", one, two, "--json").json["comparisons"][0]["n"] == 2
    (cells := tmp_path / "c.csv").write_text("id,RR\n7.0,1\n8.0,.5\n")
    assert invoke("compare", cells, two).code == 2


def test_index_of_a_frame_is_the_id(tmp_path: Path) -> None:
    """A frame is written with it, without a name; one that counts rows is no id, and a column like any other beside one."""
    (file := tmp_path / "a.csv").write_text(",RR\nq7,.5\nq2,1\n")
    assert invoke("compare", file, file, "--json").json["comparisons"][0]["n"] == 2
    file.write_text(",RR\n0,.5\n1,1\n")
    assert "no column has the ids" in invoke("compare", file, file).err
    file.write_text(",id,RR\n0,q7,.5\n1,q2,1\n")
    (row,) = invoke("compare", file, file, "--json").json["comparisons"]
    assert (row["measure"], row["n"]) == ("RR", 2)


def test_rows_with_an_error_count_no_value(tmp_path: Path) -> None:
    """The zero that a program writes beside its error is no score."""
    for name in "ab":
        rows = [
            {"id": n, "accuracy": 0 if n == 3 else 1, "error": "rate limit" * (n == 3)} for n in range(10)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (row,) = invoke("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--json").json["comparisons"]
    assert (row["measure"], row["n"], row["mean_a"]) == ("accuracy", 9, 1.0)


def test_a_row_that_failed_before_it_was_measured_counts_for_every_measure(tmp_path: Path) -> None:
    """In the long form too, where it names none."""
    rows = [{"id": n, "measure": m, "value": 0.5} for n in range(9) for m in ("RR", "AP")]
    (file := tmp_path / "a.jsonl").write_text(
        "\n".join(map(json.dumps, [*rows, {"id": 9, "error": "no answer"}]))
    )
    found = invoke("compare", file, file, "--json").json["comparisons"]
    assert [(row["measure"], row["n"], "Imbens" in row["interval_method"]) for row in found] == [
        ("RR", 9, True),
        ("AP", 9, True),
    ]


def test_skipped_rows_are_left_out(tmp_path: Path) -> None:
    """A row that says so was not to be measured."""
    (file := tmp_path / "a.csv").write_text("id,RR,status\nq1,.5,ok\nq2,,skipped\nq3,0,error\n")
    (row,) = invoke("compare", file, file, "--json").json["comparisons"]
    assert (row["n"], row["mean_a"], row["interval_method"]) == (1, 0.5, "Gaffke, Imbens-Manski")


@pytest.mark.parametrize(
    "text",
    [
        "id,RR\nq1,.5\nq2,1\nmean,.75\n",
        "id,metric,value\nAll,RR,.75\nq1,RR,.5\nq2,RR,1\n",
        ",q1,q2,mean\nRR,.5,1,.75\n",
        '{"RR": {"q1": 0.5, "q2": 1, "all": 0.75}}',
    ],
)
def test_rows_of_means_are_no_cases(tmp_path: Path, text: str) -> None:
    """As spreadsheets and trec_eval end their tables."""
    (file := tmp_path / "a.csv").write_text(text)
    (row,) = invoke("compare", file, file, "--json").json["comparisons"]
    assert (row["n"], row["mean_a"]) == (2, 0.75)


def test_a_row_named_like_a_mean_is_left_out_with_a_note(tmp_path: Path) -> None:
    """It may be the id of a case; the mean over all cases that trec_eval prints is no case for sure."""
    (tmp_path / "a.csv").write_text("id,RR\nq1,0\nq2,1\nOverall,1\n")
    (tmp_path / "b.txt").write_text("recip_rank q1 1\nrecip_rank q2 1\nrecip_rank all 1\n")
    found = compare(tmp_path / "a.csv", tmp_path / "b.txt")
    assert found["RR"].n == 2
    assert [note.partition(": ")[2] for note in found.notes if "mean" in note] == [
        "the row 'Overall' is read as a mean over the cases and left out; rename it if it is a case"
    ]


@pytest.mark.parametrize(
    ("ids", "noted"), [("12", True), ("012", True), (("q1", "q2"), False), ("21", True), ("13", False)]
)
def test_numbers_without_questions_are_noted(tmp_path: Path, ids: Sequence[str], noted: bool) -> None:
    """They may count the rows of two files in different orders."""
    (file := tmp_path / "a.csv").write_text("\n".join(["id,RR", *(f"{name},1" for name in ids)]))
    (asked := tmp_path / "b.csv").write_text(
        "\n".join(["id,query,RR", *(f"{name},is it {name}?,1" for name in ids)])
    )
    note = "cases are paired by number, without questions to check that by: give ids, or a column query"
    assert any(note in text for text in compare(file, asked).notes) == noted
    assert not any(note in text for text in compare(asked, asked).notes)


@pytest.mark.parametrize("name", ["query", "Question", "user_input"])
def test_ids_of_other_questions_are_noted(tmp_path: Path, name: str) -> None:
    """As between reports; numbers of lines are paired by the question."""
    for ids, note in (("ab", "2 ids have different queries"), ("12", "1 query paired by text, 2 not paired")):
        for file, texts in (("one", "xy"), ("other", "yz")):
            rows = [f"{case},what is {text},1" for case, text in zip(ids, texts, strict=True)]
            (tmp_path / f"{file}.csv").write_text("\n".join([f"id,{name},RR", *rows]))
        assert any(note in text for text in compare(tmp_path / "one.csv", tmp_path / "other.csv").notes)


def test_documents_and_tables_keep_the_clusters(tmp_path: Path) -> None:
    """Their intervals are those of the reports."""
    for name, by in (("a", 3), ("b", 5)):
        rows = [
            {"id": f"q{n}", "query": "q", "cluster": f"c{n // 4}", "qrels": {"d": 1},
             "contexts": [{"id": f"x{at}"} for at in range(n % by)] + [{"id": "d"}]} for n in range(24)
        ]  # fmt: skip
        report = evaluate(rows, "RR").save(tmp_path / name)
        for end in ("json", "jsonl", "csv"):
            report.save(tmp_path / f"{name}.{end}")
    ends = [
        compare(tmp_path / f"a{end}", tmp_path / f"b{end}")["RR"].interval
        for end in ("", ".json", ".jsonl", ".csv")
    ]
    assert ends == [ends[0]] * 4
    assert ends[0] is not None


def test_usual_assertions_and_scorers_are_no_unknown_measures(tmp_path: Path) -> None:
    """Those of promptfoo and Inspect whose scores are 0 to 1: nothing is guessed, so nothing is noted."""
    names = ("icontains", "contains-any", "llm-rubric", "factuality", "exact", "model_graded_qa")
    (file := tmp_path / "a.csv").write_text(
        table([{"id": f"q{n}", **dict.fromkeys(names, n % 2)} for n in range(12)])
    )
    assert compare(file, file, names=("a", "b")).notes == ()


def test_direction_and_range_are_known_guessed_or_given(tmp_path: Path) -> None:
    """Less latency is better; an unknown grade has no range until it is given one; a note says what was guessed."""
    for name, more in (("a", 0), ("b", 1)):
        rows = [
            {
                "id": f"q{n}",
                "latency_ms": 90 + n % 7 - more * (n % 3),
                "helpfulness": 1 + n % 4 + more * (n % 3 > 0),
            }
            for n in range(40)
        ]
        (tmp_path / f"{name}.csv").write_text(table(rows))
    pair = (tmp_path / "a.csv", tmp_path / "b.csv")
    found = compare(*pair)
    assert [found[name].outcome for name in found] == ["better", "better"]
    assert [found[name].interval.method for name in found] == ["Student t", "Student t"]
    assert [note.partition(":")[0] for note in found.notes] == ["helpfulness"]
    given = ("--range", "helpfulness=1..5", "--higher-is-better", "helpfulness=no", "--json")
    row = invoke("compare", *pair, *given, "--margin", "helpfulness: 0.2").json["comparisons"][1]
    assert (row["outcome"], row["interval_method"], row["decision"]) == ("worse", "Gaffke", "fail")
    assert not compare(*pair, ranges={"helpfulness": (1, 5)}, higher_is_better=["helpfulness"]).notes


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("sentiment", "higher"),
        ("harmlessness", "higher"),
        ("responseTime", "lower"),
        ("Toxicity", "lower"),
        ("error count", "lower"),
    ],
)
def test_guessed_direction(tmp_path: Path, name: str, way: str) -> None:
    """From whole words of the name."""
    (file := tmp_path / "a.csv").write_text(f"id,{name}\nq1,0.5\nq2,0.75\n")
    (note,) = invoke("compare", file, file, "--json").json["notes"]
    assert f"{way} is better" in note


def test_percent_needs_its_range(tmp_path: Path) -> None:
    """A value beyond the range of a known measure is an error until the range is given."""
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("id,nDCG@10\n" + "\n".join(f"{n},{n * 5}" for n in range(20)))
    pair = (tmp_path / "a.csv", tmp_path / "b.csv")
    done = invoke("compare", *pair)
    assert (done.code, "--range 'nDCG@10=0..100'" in done.err) == (2, True)
    assert invoke("compare", *pair, "--range", "ndcg_cut_10=0..100", "-m", "nDCG@10").code == 0


BROKEN = {
    "no id": ("score_a,score_b\n.5,.6\n", "no column has the ids"),
    "a run": ("q1 Q0 d1 1 9.5 tag\nq1 Q0 d2 2 9.1 tag\n", "score a TREC run first: germane rank"),
    "samples": (
        '{"id": "q1", "retrieved_contexts": ["x"]}\n' * 2,
        "score samples first: germane run SAMPLES",
    ),
    "no numbers": ("id,text\nq1,good\n", "no column has numbers"),
    "an empty id": ("id,RR\nq1,.5\n,.6\n", "a.csv:3: this row has no value in the column id"),
    "a value twice": ("id,RR\nq1,.5\nq1,.6\n", "q1 has 2 values of RR in trial 0"),
    "a short row": ("id,RR,AP\nq1,.5\n", "a.csv:2: this row has 2 cells, but the header has 3"),
    "two columns of one name": ("id,RR,RR\nq1,.5,.5\n", "two columns are named 'RR'"),
    "a trial": ("id,RR,trial\nq1,.5,first\n", "a.csv:2: the trial is 'first'"),
    "no queries": ("map\tall\t0.5\n", "no values per query"),
    "unknown fields": ("x\ty\t0.5\n", "neither the first nor the second field"),
    "a trial too large": ("id,RR,trial\nq1,.5,1e12\n", "the trial is '1e12'"),
    "JUnit": (
        '<?xml version="1.0"?>\n<testsuite><testcase name="q1"/></testsuite>\n',
        "name a report folder, or a file",
    ),
    "a page": ("<!doctype html><title>RR, AP</title>\n", "name a report folder, or a file"),
    "columns of a frame": ('{"faithfulness": {"0": 0.5, "1": 1.0}}', "orient='records'"),
    "nothing": ("", "has no results per case"),
    "a row that is a number": ('[{"id": "a", "RR": 1}, 3]', "row 2: this row of results is not an object"),
}


@pytest.mark.parametrize("suffix", [".parquet", ".xlsx"])
def test_binary_files_are_named(tmp_path: Path, suffix: str) -> None:
    """Also the table that germane wrote itself: what to name instead."""
    (file := tmp_path / f"a{suffix}").write_bytes(b"PAR1\x15\x84")
    done = invoke("compare", file, file)
    assert (done.code, f"results in a {suffix} file are not read; name a report" in done.err) == (2, True)


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, kind: str) -> None:
    """One message with the place; exit code 2."""
    text, message = BROKEN[kind]
    (file := tmp_path / "a.csv").write_text(text)
    done = invoke("compare", file, file)
    assert (done.code, message in done.err, "Traceback" in done.err) == (2, True, False), done.err


@pytest.mark.parametrize(
    "words",
    [
        ("--range", "loss=0..1"),
        ("--range", "RR=1..0"),
        ("--higher-is-better", "loss"),
        ("--higher-is-better", "RR=maybe"),
        ("--higher-is-better", "RR="),
        ("--higher-is-better", "=no"),
    ],
)
def test_flags_name_measures_of_the_files(ranked: Path, words: tuple[str, str]) -> None:
    done = invoke("compare", ranked / "a.json", ranked / "b.json", *words)
    assert (done.code, words[0] in done.err, done.err.count("\n")) == (2, True, 1)
    assert ("of the form MEASURE or MEASURE=no" in done.err) is ("is-better" in words[0] and "=" in words[1])


@pytest.mark.parametrize("verb", [("score", "-m", "RR"), ("explain", "q1"), ("label",)])
def test_other_commands_say_what_a_file_lacks(tmp_path: Path, verb: tuple[str, ...]) -> None:
    (file := tmp_path / "a.csv").write_text("id,RR\nq1,.5\n")
    done = invoke(verb[0], file, *verb[1:])
    assert (done.code, "labels of judges and people" in done.err) == (2, True)


def test_files_are_written_of_files(ranked: Path, tmp_path: Path) -> None:
    """The page and every other format."""
    for name in "ab":
        with (tmp_path / f"{name}.csv").open("w", newline="") as out:
            csv.writer(out).writerows(
                [["id", "RR"], *((q, of["RR"]) for q, of in values(ranked / f"{name}.json").items())]
            )
    outputs = [tmp_path / f"change.{end}" for end in ("html", "json", "csv", "md", "tex", "txt")]
    words = [word for file in outputs for word in ("-o", file)]
    assert invoke("compare", tmp_path / "a.csv", tmp_path / "b.csv", *words).code == 0
    assert all("RR" in file.read_text() for file in outputs)


def test_page_of_measures_without_a_range(tmp_path: Path) -> None:
    """Values below 0 and a row that failed: missing scores could have any value. Nothing advises to ask a judge again."""
    for name in "ab":
        rows = [{"id": n, "log_likelihood": -2.5 + n % 3, "error": "away" * (n == 4)} for n in range(12)]
        (tmp_path / f"{name}.csv").write_text(table(rows))
    page = tmp_path / "change.html"
    done = invoke("compare", tmp_path / "a.csv", tmp_path / "b.csv", "-o", page)
    assert (done.code, done.err) == (0, f"wrote {page}\n")
    assert "missing scores could have any value" in done.out
    assert "any value over all" in page.read_text()
    assert "--resume" not in page.read_text()


@pytest.mark.parametrize(
    "text", ["id,RR\nq1,25%\nq2,100%\n", "qid,measure,score\nq1,recip_rank,.25\nq2,recip_rank,1\n"]
)
def test_percent_signs_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text("id,RR\nq2,1\nq1,1\n")
    row = compare(tmp_path / "a.csv", tmp_path / "b.csv")["RR"]
    assert (row.n, row.difference) == (2, 0.375)


def test_decimal_commas_are_an_error_not_missing_values(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("id;RR\nq1;0,25\nq2;1\n")
    done = invoke("compare", tmp_path / "a.csv", tmp_path / "b.csv")
    assert done.code == 2
    assert "a.csv:2: the number 0,25 has a decimal comma" in done.err


@pytest.mark.parametrize("holder", ["results", "rows", "data"])
def test_rows_under_a_usual_key_are_read(tmp_path: Path, holder: str) -> None:
    (tmp_path / "a.csv").write_text("id,RR\nq1,0.5\nq2,0.5\n")
    rows = [{"id": "q1", "RR": 1}, {"id": "q2", "RR": 0.5}]
    (tmp_path / "b.json").write_text(json.dumps({"version": 2, holder: rows, "summary": {"RR": 0.75}}))
    row = compare(tmp_path / "a.csv", tmp_path / "b.json")["RR"]
    assert (row.n, row.difference) == (2, 0.25)
    (tmp_path / "b.json").write_text(json.dumps({holder: [1, 2]}))
    assert invoke("compare", tmp_path / "a.csv", tmp_path / "b.json").code == 2


def test_files_without_a_common_query_show_their_ids(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,RR\nq1,1\nq2,1\nq3,1\n")
    (tmp_path / "b.csv").write_text("id,RR\nQ1,1\n")
    done = invoke("compare", tmp_path / "a.csv", tmp_path / "b.csv")
    assert done.code == 2
    assert "no query in common: a has 'q1', 'q2' and 1 more, b has 'Q1'; " in done.err
    assert "without a column id tables pair by query" in done.err
    for name in "ab":
        rows = [{"input": {"question": q}, "scores": {"RR": 1}} for q in ("one?", "two?")]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    assert compare(tmp_path / "a.json", tmp_path / "b.json")["RR"].n == 2


def test_scores_in_memory_are_written_to_a_file_first(ranked: Path) -> None:
    """What pytrec_eval returns is no report."""
    with pytest.raises(InputError, match=r"cannot read scores from a dict; .*json.dump"):
        compare(ranked / "a.json", {"q1": {"RR": 1.0}})  # type: ignore[arg-type]


def test_rounding_moves_no_query(tmp_path: Path) -> None:
    """Two programs' figures of one run differ in their last digits: these are ties, and nothing got worse."""
    for name, more in (("a", 0.0), ("b", 1e-12)):
        (tmp_path / f"{name}.json").write_text(json.dumps({f"q{n}": {"map": n / 7 + more} for n in range(3)}))
    found = compare(tmp_path / "a.json", tmp_path / "b.json")
    assert found["map"].ties == 3
    assert found.moved["b"] == {"worst": [], "best": []}
