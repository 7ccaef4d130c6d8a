"""Runs read in bulk: the same ranks as line by line, whatever the layout, the order of rows and the size of blocks."""

from __future__ import annotations

import gzip
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from germane.errors import InputError
from germane.evaluation import rank as ranking
from germane.places.table import RankedLabels
from germane.samples.runs import bulk
from germane.samples.runs.bulk import Gold
from germane.samples.runs.detecting import format_of
from germane.samples.runs.results import Format, Hits
from germane.samples.runs.trec import read_qrels, read_run

TREC = Path(__file__).parent.parent / "data" / "trec_eval"

ids = st.text(st.characters(categories=("L", "N", "P"), exclude_characters="#"), min_size=1, max_size=4)
scores = st.sampled_from(["0", "-0.0", "1", "1.25", "1e-3", "+2.5", "-7", "1.0000000001"]) | st.floats(
    allow_nan=False, allow_infinity=False
).map(repr)
runs = st.dictionaries(ids, st.dictionaries(ids, scores, min_size=1, max_size=8), min_size=1, max_size=6)
golds = st.dictionaries(ids, st.dictionaries(ids, st.integers(-1, 3), min_size=1, max_size=8), max_size=6)
layouts = st.sampled_from([" ", "\t", "  ", " \t ", "\x0b", " \x0c"])
ends = st.sampled_from(["\n", "\r\n", "\n\n", " \n", "\t\r\n", "\n \n"])


def by_line(path: Path, qrels: dict[str, dict[str, int]]) -> dict[str, list[tuple[int, float]]]:
    """The rank and grade of each gold document, by the reader that goes line by line."""
    found = {}
    for number, (query, grades) in enumerate(qrels.items()):
        results = read_run(path, fmt="trec").queries.get(query)
        docs = ranking._ordered(results) if results else []
        found[str(number)] = [(rank, float(grades[doc])) for rank, doc in enumerate(docs, 1) if doc in grades]
    return found


def read_hits(
    path: Path, qrels: dict[str, dict[str, int]], fmt: Format = "trec", block: int = bulk.BLOCK
) -> Hits | None:
    """The hits of a run, read in blocks of this size."""
    gold = Gold.of(qrels)
    assert gold is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "BLOCK", block)
        return bulk.read_hits(path, gold, fmt)


def in_bulk(hits: Hits | None, qrels: dict[str, dict[str, int]]) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {str(number): [] for number in range(len(qrels))}
    assert hits is not None
    for row, rank, grade in zip(hits.row.tolist(), hits.rank.tolist(), hits.grade.tolist(), strict=True):
        found[str(row)].append((rank, grade))
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs, golds, layouts, ends, st.integers(1, 400), st.sampled_from(["", " ", "\t", "\n"]))
def test_the_ranks_are_those_of_the_reader_that_goes_line_by_line(
    tmp_path: Path,
    run: dict[str, dict[str, str]],
    gold: dict[str, dict[str, int]],
    between: str,
    end: str,
    block: int,
    before: str,
) -> None:
    """Shuffled, tied, tabbed, with double blanks or Windows line ends, in blocks from one byte up."""
    shared = {
        query: {**grades, **dict.fromkeys(list(run.get(query, {}))[:2], 1)} for query, grades in gold.items()
    }
    for query in list(run)[:3]:
        shared.setdefault(query, dict.fromkeys(list(run[query])[1:4], 2))
    lines = [
        between.join((query, "Q0", doc, "1", score, "tag"))
        for query, docs in run.items()
        for doc, score in docs.items()
    ]
    path = tmp_path / "some.run"
    path.write_bytes((before + end.join(lines) + end).encode())
    hits = read_hits(path, shared, block=block)
    assert hits is not None
    plain = read_run(path, fmt="trec").queries
    assert hits.lengths.tolist() == [len(plain[query].ids) if query in plain else -1 for query in shared]
    ignored = [query for query in plain if query not in shared]
    assert (hits.ignored, hits.first_ignored) == (len(ignored), ignored[:3])
    assert in_bulk(hits, shared) == by_line(path, shared)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["1.5", "1.50", "1.25", "0", "-0.0", "2"]), min_size=1, max_size=40),
    st.integers(1, 900),
)
def test_ties_fall_to_the_greater_id(tmp_path: Path, given_scores: list[str], block: int) -> None:
    """Groups of equal scores in one query among others, of any size."""
    lines = [
        f"{query} Q0 d{place * 7 % 41} 1 {score} t"
        for query in "abc"
        for place, score in enumerate(given_scores)
    ]
    path = tmp_path / "tied.run"
    path.write_text("\n".join(lines), encoding="utf-8")
    gold = {query: {f"d{place}": place % 3 for place in range(0, 41, 2)} for query in "cab"}
    assert in_bulk(read_hits(path, gold, block=block), gold) == by_line(path, gold)


@pytest.mark.parametrize(
    "text",
    [
        "q1 Q0 a 1 1.0 t\nq2 Q0 a 1 1.0 t\nq1 Q0 b 2 0.5 t\n",
        "q1 Q0 a 1 1.0 t\nq1 Q0 a 2 0.5 t\n",
        "q1 Q0 a 1 nan t\n",
        "q1 Q0 a 1 2.0 t\nq1 Q0 b 1 NaN t\n",
        "q1 Q0 a 1 high t\n",
        "q1 Q0 a 1\n",
        "# a comment\nq1 Q0 a 1 1.0 t\n",
        "q1 Q0 a\x1cb 1 1.0 t\n",
        "\n",
        "",
    ],
)
def test_what_is_not_plain_is_left_to_the_careful_reader(tmp_path: Path, text: str) -> None:
    """Split queries, repeated documents, NaN, odd lines and comments."""
    path = tmp_path / "odd.run"
    path.write_text(text, encoding="utf-8")
    assert read_hits(path, {"q1": {"a": 1}}) is None


def test_a_table_without_rows_is_left_to_the_careful_reader(tmp_path: Path) -> None:
    """It says that there are no results."""
    schema = {"query_id": pl.String, "doc_id": pl.String, "score": pl.Float64}
    pl.DataFrame(schema=schema).write_parquet(tmp_path / "empty.parquet")
    assert read_hits(tmp_path / "empty.parquet", {"q1": {"a": 1}}, "parquet") is None


def test_lines_that_are_not_utf8_are_left_to_the_careful_reader(tmp_path: Path) -> None:
    """It names the line."""
    (tmp_path / "odd.run").write_bytes(b"q1 Q0 \xff 1 1.0 t\n")
    assert read_hits(tmp_path / "odd.run", {"q1": {"a": 1}}) is None


def test_five_columns_and_more_than_six_are_a_run(tmp_path: Path) -> None:
    """A tag may be missing, and what follows it is ignored; gzipped files are read as well."""
    path = tmp_path / "some.run.gz"
    path.write_bytes(gzip.compress(b"q1 Q0 a 1 2.0\nq1 Q0 b 2 1.0 t more of it\n"))
    hits = read_hits(path, {"q1": {"b": 2, "c": 1}})
    assert hits is not None
    assert (hits.lengths.tolist(), hits.rank.tolist(), hits.grade.tolist()) == ([2], [2], [2.0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(golds.filter(bool), layouts, ends, st.integers(1, 200), st.randoms())
def test_gold_in_columns_is_that_of_the_reader_that_goes_line_by_line(
    tmp_path: Path, gold: dict[str, dict[str, int]], between: str, end: str, block: int, shuffle: Random
) -> None:
    """Documents in any order within their query."""
    path, lines = tmp_path / "some.qrels", []
    for query, grades in gold.items():
        some = [between.join((query, "0", doc, str(grade))) for doc, grade in grades.items()]
        shuffle.shuffle(some)
        lines += some
    path.write_bytes((end.join(lines) + end).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "BLOCK", block)
        columns = Gold.read(path, "trec")
    assert columns is not None
    bounds = np.cumsum([0, *columns.sizes]).tolist()
    docs, grades = columns.docs.to_list(), columns.grades.tolist()
    rows = [dict(zip(docs[a:b], grades[a:b], strict=True)) for a, b in pairwise(bounds)]
    assert dict(zip(columns.queries.to_list(), rows, strict=True)) == read_qrels(path, fmt="trec")
    text, until = columns.ids
    starts = [0, *until.tolist()]
    assert [text[a:b].decode() for a, b in pairwise(starts)] == list(gold)


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 a 1\nq2 0 a 1\nq1 0 b 2\n",
        "q1 0 a 1\nq1 0 a 1\n",
        "q1 0 a 1.0\n",
        "q1 0 a\nq1 0 b 1 2\n",
        "q1 0 a 1 2\n",
        "# a comment\nq1 0 a 1\n",
        "q1 0 a 99999999999999999999\n",
        "q1 0 a 9999999999\n",
        "",
    ],
)
def test_gold_that_is_not_plain_is_left_to_the_careful_reader(tmp_path: Path, text: str) -> None:
    """Split queries, repeated documents, odd lines and comments; the report is the same, or names the line."""
    path, run = tmp_path / "odd.qrels", tmp_path / "some.run"
    path.write_text(text, encoding="utf-8")
    run.write_text("q1 Q0 a 1 2.0 t\n", encoding="utf-8")
    assert Gold.read(path, "trec") is None

    def outcome() -> Any:
        try:
            return list(ranking.rank(run, path).tables.scores.lines())
        except InputError as fault:
            return str(fault)

    plain = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_LARGE", 0)
        assert outcome() == plain


RESULTS = [("q1", "a", 3.5), ("q1", "b", 2.5), ("q1", "cd", 2.5), ("q2", "c", 1.0), ("q3", "x y", 7.25)]
FILES = {
    "header.csv": "query_id,doc_id,score\n" + "".join("{},{},{}\n".format(*row) for row in RESULTS),
    "bare.tsv": "".join("{}\t{}\t{}\n".format(*row) for row in RESULTS),
    "ranks.tsv": "q1\ta\t1\nq1\tb\t2\nq1\tc\t3\nq2\tc\t1\nq3\tx y\t1\n",
    "places.csv": "rank,title,qid,docno\n"
    + "".join(f"{at},so,{query},{doc}\n" for at, (query, doc, _) in enumerate(RESULTS)),
    "lines.jsonl": "".join(
        '{{"query_id": "{}", "doc_id": "{}", "score": {}}}\n'.format(*row) for row in RESULTS
    ),
    "dense.jsonl": "".join('{{"qid":"{}","doc":"{}","score":{},"t":"z"}}\n'.format(*row) for row in RESULTS),
    "some.run": "".join("{} Q0 {} 1 {} t\n".format(*row) for row in RESULTS[:4]),
    "gold.tsv": "query-id\tcorpus-id\tscore\nq1\tb\t1\nq1\tcd\t2\nq2\tc\t0\n",
    "gold.jsonl": '{"query_id": "q1", "doc_id": "b", "rel": 1}\n{"query_id": "q1", "doc_id": "cd", "rel": 2}\n',
    "gold.txt": "q1 0 b 1\nq1 0 cd 2\nq2 0 c 0\n",
}
ODD = [
    *"\" ,\t\n{}:#1.a\\é\0\r_-['\x1c\x0b\xa0\ufeff",
    *[
        "\r\n",
        "nan",
        "e5",
        "true",
        "null",
        "q1",
        "inf",
        "Infinity",
        "1e400",
        "9" * 20,
        "9" * 400,
        "\n\n",
        "\udcff",
    ],
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example("bare.tsv", [(180, 2, "1e400")], 1)
@example("some.run", [(10, 3, "-1e400")], 40)
@example("dense.jsonl", [(30, 3, "1e400")], 40)
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2), st.sampled_from(ODD)), max_size=2),
    st.sampled_from([1, 7, 40, 4000]),
)
def test_every_change_of_a_file_has_the_same_outcome_in_bulk(
    tmp_path: Path, name: str, changes: list[tuple[int, int, str]], block: int
) -> None:
    """Runs and gold with odd characters anywhere: the same scores and notes, or the same error."""
    text = FILES[name]
    for at, length, odd in changes:
        text = text[: at % len(text)] + odd + text[at % len(text) + length :]
    path, run = tmp_path / name, tmp_path / "some.run"
    run.write_text(FILES["some.run"], encoding="utf-8")
    path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
    grades = {"q1": {"b": 1, "cd": 2}, "q3": {"x y": 1}}
    run, gold = (run, path) if name.startswith("gold") else (path, grades)

    def outcome() -> Any:
        try:
            part = ranking.rank_part(run, gold, "nDCG RR")
        except InputError as fault:
            return str(fault)
        return list(part.scores.lines()), part.notes

    careful = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "_LARGE", 0)
        patch.setattr(bulk, "BLOCK", block)
        assert outcome() == careful


@pytest.mark.parametrize(
    "name", ["header.csv", "bare.tsv", "ranks.tsv", "places.csv", "lines.jsonl", "dense.jsonl"]
)
def test_plain_tables_and_lines_of_json_are_read_in_bulk(name: str, tmp_path: Path) -> None:
    """They do not fall back to the reader that goes row by row."""
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    fmt = format_of(path)
    hits = read_hits(path, {"q1": {"b": 1}}, fmt, block=8)
    assert hits is not None
    assert (hits.rank.tolist(), hits.lengths.tolist()[0] >= 2) == (
        [2 if name in {"ranks.tsv", "places.csv"} else 3],
        True,
    )


@pytest.mark.parametrize("run", ["results.test"])
def test_a_large_run_has_the_scores_of_a_small_one(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every measure of a report, from trec_eval's own test files, read in bulk and line by line."""
    gold = read_qrels(TREC / "qrels.test")
    names = "nDCG@10 AP RR P@10 R@100 Judged@10 bpref Rprec SetP RBP nDCG(holes=condensed)@20"
    plain = ranking.rank_part(read_run(TREC / run), gold, names)
    monkeypatch.setattr(ranking, "_LARGE", 0)
    monkeypatch.setattr(ranking, "read_run", pytest.fail)
    bulk = ranking.rank_part(TREC / run, gold, names)
    assert list(bulk.scores.lines()) == list(plain.scores.lines())
    of_file = ranking.rank_part(TREC / run, ranking.GoldFile(TREC / "qrels.test"), names)
    assert (of_file.scores.samples, of_file.notes) == (bulk.scores.samples, bulk.notes)
    assert list(of_file.scores.lines()) == list(plain.scores.lines())
    assert [note.partition(":")[2] for note in bulk.notes] == [note.partition(":")[2] for note in plain.notes]


def test_a_large_run_that_is_not_plain_is_read_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error names file and line as ever."""
    monkeypatch.setattr(ranking, "_LARGE", 0)
    path = tmp_path / "odd.run"
    path.write_text("q1 Q0 a 1 1.0 t\nq1 Q0 b 2 high t\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"odd.run:2: the score 'high' is not a number"):
        ranking.rank_part(path, {"q1": {"a": 1}}, "RR")


def test_a_sparse_table_is_the_dense_one_without_its_unjudged_places() -> None:
    """`dense` puts them back."""
    sparse = RankedLabels.of_hits(
        np.array([0, 2]),
        np.array([2, 1]),
        np.array([1.0, 3.0]),
        np.array([3, 0, 2]),
        np.array([1, 0, 2]),
        np.array([1.0, 0.0, 3.0]),
    )
    full = RankedLabels.of_lists([[None, 1, None], [], [3, None]], [[1], [], [3, 0]])
    for name in (
        "pointers",
        "gain",
        "level",
        "judged",
        "ideal_pointers",
        "ideal",
        "ideal_level",
        "rank",
        "length",
    ):
        wanted: Any = getattr(full, name)
        assert getattr(sparse.dense(), name).tolist() == wanted.tolist(), name


LIMITED = """
import resource, sys
from germane.evaluation import rank
rank._LARGE = 0
rank.rank_part(sys.argv[1], {"q1": {"d": 1}}, "RR")
size = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (int(sys.argv[3]) << 20),) * 2)
gold = {f"q{query}": {f"document-{query % 1_000:06}": 1} for query in range(4_000)}
if sys.argv[4] == "lines":
    rank._LARGE = 1 << 40
print(f"{rank.ranked_report([rank.rank_part(sys.argv[2], gold, 'RR')])['RR'].mean:.6f}")
"""


def test_a_large_run_is_ranked_in_bounded_memory(tmp_path: Path) -> None:
    """With 250 MB of address space to grow, in which the same 170 MB read line by line have no room.

    A thread may reserve 64 MB that it does not use.
    """
    (tmp_path / "small.run").write_text("q1 Q0 d 1 1.0 t\n", encoding="utf-8")
    lists = "".join(f"q Q0 document-{n:06} {n} {1000 - n / 7:.4f} tag\n" for n in range(1_000))
    with (tmp_path / "large.run").open("w", encoding="ascii") as file:
        file.writelines(lists.replace("q ", f"q{query} ") for query in range(4_000))

    def ranked(how: str) -> subprocess.CompletedProcess[str]:
        files = [str(tmp_path / "small.run"), str(tmp_path / "large.run")]
        command = [sys.executable, "-c", LIMITED, *files, "250", how]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert ranked("bulk").stdout == "0.007485\n"
    assert "MemoryError" in ranked("lines").stderr
