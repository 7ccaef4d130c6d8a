"""Result files of other programs under `germane compare`: their figures are those of the reports."""

import csv
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from germane import compare
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


WRITERS: dict[str, tuple[str, Callable[[Values], str]]] = {
    "wide CSV": ("csv", lambda found: table(wide(found))),
    "wide TSV": ("tsv", lambda found: table(wide(found, "qid"), "\t")),
    "semicolons": ("csv", lambda found: table(wide(found, "Case ID"), ";")),
    "long CSV": ("csv", lambda found: table(long(found))),
    "wide JSONL": ("jsonl", lambda found: "\n".join(map(json.dumps, wide(found)))),
    "nested JSONL": ("jsonl", lambda found: "\n".join(json.dumps({"id": q, "scores": of}) for q, of in found.items())),
    "long JSON": ("json", lambda found: json.dumps(long(found), indent=1)),
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


@pytest.mark.parametrize("failed", ["", "NaN", "null", "inf", "timed out"])
def test_failed_rows_are_errors(tmp_path: Path, failed: str) -> None:
    """What has no value counts as not measured, and the interval covers whatever it could be."""
    for name in "ab":
        cells = [f"q{n},{0.5 + n % 2 / 4}" for n in range(20)]
        (tmp_path / f"{name}.csv").write_text("id,RR\n" + "\n".join([*cells[:-1], f"q19,{failed}"]) + "\n")
    (row,) = invoke("compare", tmp_path / "a.csv", tmp_path / "b.csv", "--json").json["comparisons"]
    assert (row["n"], row["mean_a"]) == (19, pytest.approx((10 * 0.5 + 9 * 0.75) / 19, abs=1e-12))
    assert row["interval_method"].endswith("Imbens-Manski")
    assert row["interval"][0] <= -1 / 20 <= 1 / 20 <= row["interval"][1]


def test_rows_with_an_error_count_no_value(tmp_path: Path) -> None:
    """The zero that a program writes beside its error is no score."""
    for name in "ab":
        rows = [
            {"id": n, "accuracy": 0 if n == 3 else 1, "error": "rate limit" * (n == 3)} for n in range(10)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (row,) = invoke("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--json").json["comparisons"]
    assert (row["measure"], row["n"], row["mean_a"]) == ("accuracy", 9, 1.0)


def test_direction_and_range_are_known_guessed_or_given(tmp_path: Path) -> None:
    """Less latency is better; an unknown grade has no range until it is given one; a note says what was guessed."""
    for name, more in (("a", 0), ("b", 1)):
        rows = [
            {
                "id": n,
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


def test_percent_needs_its_range(tmp_path: Path) -> None:
    """A value beyond the range of a known measure is an error until the range is given."""
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("id,nDCG@10\n" + "\n".join(f"{n},{n * 5}" for n in range(20)))
    pair = (tmp_path / "a.csv", tmp_path / "b.csv")
    done = invoke("compare", *pair)
    assert (done.code, "--range 'nDCG@10=0..100'" in done.err) == (2, True)
    assert invoke("compare", *pair, "--range", "ndcg_cut_10=0..100", "-m", "nDCG@10").code == 0


BROKEN = {
    "no id": ("score_a,score_b\n.5,.6\n", "no column is the id"),
    "no numbers": ("id,text\nq1,good\n", "no column holds numbers"),
    "an empty id": ("id,RR\nq1,.5\n,.6\n", "a.csv:3: this row has no id"),
    "a value twice": ("id,RR\nq1,.5\nq1,.6\n", "q1 has 2 values of RR in trial 0"),
    "a short row": ("id,RR,AP\nq1,.5\n", "a.csv:2: this row has 2 cells and the header 3"),
    "two columns of one name": ("id,RR,RR\nq1,.5,.5\n", "two columns are named 'RR'"),
    "a trial": ("id,RR,trial\nq1,.5,first\n", "a.csv:2: the trial is 'first'"),
    "no queries": ("map\tall\t0.5\n", "no values of single queries"),
    "unknown fields": ("x\ty\t0.5\n", "neither the first nor the second field"),
    "nothing": ("", "holds no results"),
    "a row that is a number": ('[{"id": "a", "RR": 1}, 3]', "row 2: this row is not an object"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, kind: str) -> None:
    """One message with the place; exit code 2."""
    text, message = BROKEN[kind]
    (file := tmp_path / "a.csv").write_text(text)
    done = invoke("compare", file, file)
    assert (done.code, message in done.err, "Traceback" in done.err) == (2, True, False), done.err


@pytest.mark.parametrize(
    "words", [("--range", "loss=0..1"), ("--range", "RR=1..0"), ("--higher-is-better", "loss")]
)
def test_flags_name_measures_of_the_files(ranked: Path, words: tuple[str, str]) -> None:
    done = invoke("compare", ranked / "a.json", ranked / "b.json", *words)
    assert (done.code, words[0] in done.err) == (2, True)


@pytest.mark.parametrize("verb", [("score", "-m", "RR"), ("explain", "q1"), ("label",)])
def test_other_commands_say_what_a_file_lacks(tmp_path: Path, verb: tuple[str, ...]) -> None:
    (file := tmp_path / "a.csv").write_text("id,RR\nq1,.5\n")
    done = invoke(verb[0], file, *verb[1:])
    assert (done.code, "samples" in done.err) == (2, True)


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
