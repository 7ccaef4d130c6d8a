"""Runs and gold are read as columns: the same outcome whatever the layout, the order of rows, the size of blocks and the hashes."""

from __future__ import annotations

import gzip
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from germane.errors import InputError
from germane.evaluation import rank as ranking
from germane.places.table import RankedLabels
from germane.samples.runs import source
from germane.samples.runs.columns import Texts
from germane.samples.runs.formats import GOLD, RUN, Kind
from germane.samples.runs.hits import read_run
from germane.samples.runs.source import RowSource, read_qrels
from tests.command import invoke

ids = st.text(st.characters(categories=("L", "N", "P"), exclude_characters="#"), min_size=1, max_size=4)
scores = st.sampled_from(
    ["0", "-0.0", "1", "1.25", "1e-3", "+2.5", "-7", "1.0000000001", "inf", "-inf"]
) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
runs = st.dictionaries(ids, st.dictionaries(ids, scores, min_size=1, max_size=8), min_size=1, max_size=6)
golds = st.dictionaries(ids, st.dictionaries(ids, st.integers(-1, 3), min_size=1, max_size=8), max_size=6)
layouts = st.sampled_from([" ", "\t", "  ", " \t ", "\x0b", " \x0c"])
ends = st.sampled_from(["\n", "\r\n", "\n\n", " \n", "\t\r\n", "\n \n"])


@contextmanager
def reading(block: int, bits: int = 64) -> Iterator[None]:
    """Read in blocks of this many bytes, with hashes of so many bits."""
    hashed = Texts.hashed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK", block)
        patch.setattr(Texts, "hashed", lambda texts, of: hashed(texts, of) & np.uint64((1 << bits) - 1))
        yield


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(runs, golds, layouts, ends, st.integers(1, 400), st.sampled_from([0, 2, 64]), st.randoms())
def test_ranks_are_those_of_trec_eval(
    tmp_path: Path,
    run: dict[str, dict[str, str]],
    gold: dict[str, dict[str, int]],
    between: str,
    end: str,
    block: int,
    bits: int,
    shuffle: Any,
) -> None:
    """Scores are compared as doubles, ties by id, both descending: shuffled, tied, in any layout, blocks from one byte up."""
    for query in list(run)[:3]:
        gold.setdefault(query, dict.fromkeys(list(run[query])[-2:], 2))
    gold = gold or {"q": {"d": 1}}
    rows = [(query, doc, score) for query, docs in run.items() for doc, score in docs.items()]
    shuffle.shuffle(rows)
    (tmp_path / "a.run").write_text(end.join(between.join((q, "Q0", d, "1", s, "t")) for q, d, s in rows))
    grades = [between.join((q, "0", d, str(g))) for q, some in gold.items() for d, g in some.items()]
    (tmp_path / "a.qrels").write_text(end.join(grades))
    with reading(block, bits):
        assert read_qrels(tmp_path / "a.qrels", fmt="trec") == gold
        path = RowSource(tmp_path / "a.run", fmt="trec")
        hits = ranking.hits_of(path, gold)[1] if gold.keys() & run else None
    for at, query in enumerate(gold if hits else ()):
        assert hits is not None
        docs = sorted(run.get(query, {}), key=lambda doc: (float(run[query][doc]) + 0.0, doc), reverse=True)
        wanted = [(rank, float(gold[query][doc])) for rank, doc in enumerate(docs, 1) if doc in gold[query]]
        mine = hits.row == at
        assert list(zip(hits.rank[mine].tolist(), hits.grade[mine].tolist(), strict=True)) == wanted
        assert hits.lengths[at] == (len(docs) or -1)


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@example("bare.tsv", [(180, 2, "1e400")], 1, 64)
@example("some.run", [(10, 3, "-1e400")], 40, 64)
@example("dense.jsonl", [(30, 3, "1e400")], 40, 0)
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2), st.sampled_from(ODD)), max_size=2),
    st.sampled_from([1, 7, 40, 4000]),
    st.sampled_from([0, 2, 64]),
)
def test_blocks_and_hashes_change_nothing(
    tmp_path: Path, name: str, changes: list[tuple[int, int, str]], block: int, bits: int
) -> None:
    """Runs and gold with odd characters anywhere: the same scores and notes, or the same error, as of one block."""
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

    whole = outcome()
    with reading(block, bits):
        assert outcome() == whole


@pytest.mark.parametrize("bits", [0, 64])
@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("q1 Q0 a 1 1.0 t\nq2 Q0 a 1 1.0 t\nq1 Q0 b 2 0.5 t\n", [2]),
        ("q1 Q0 b 1 1.0 t\nq2 Q0 b 1 1.0 t\nq1 Q0 a 2 2.5 t\n", [2]),
        ("# by hand\nq1 Q0 a 1 1.0 t\nq1 Q0 b 1 1.0 t\n", [1]),
        ("q1 Q0 a\x1cb 1 2.0 t\n\n \nq1 Q0 b 1 1_0 t\n", [1]),
        ("q1 Q0 \u65e5 1 2.0\nq1 Q0 b 2 1e-5 t more of it\n", [2]),
        ("q1 Q0 a 1 inf t\nq1 Q0 b 1 inf t\n", [1]),
    ],
)
def test_odd_lines_of_a_run(tmp_path: Path, text: str, wanted: list[int], block: int, bits: int) -> None:
    """Queries in pieces, comments, controls, blank lines, more columns and scores of every spelling; also packed."""
    for name, data in (("odd.run", text.encode()), ("odd.run.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(data)
        with reading(block, bits):
            _, hits = ranking.hits_of(tmp_path / name, {"q1": {"b": 1}})
        assert (hits.rank.tolist(), hits.row.tolist()) == (wanted, [0])


@pytest.mark.parametrize("block", [1, 1 << 20])
def test_lines_of_faults(tmp_path: Path, block: int) -> None:
    """A fault names its line, whatever block it is in: odd lines, and documents that are there twice."""
    path = tmp_path / "odd.run"
    rows = [
        "q2 Q0 x 1 1 t",
        "# a comment",
        "q1 Q0 a 1 9 t",
        "",
        "q1 Q0 b 2 8 t",
        "q2 Q0 x 1 1 t",
        "q1 Q0 a 3 7 t",
    ]
    for last, message in (
        ("q1 Q0 c 2 high t", r"odd.run:8: the score 'high' is not a number"),
        ("q3 Q0 c 2 1 t", r"odd.run:7: the query q1 lists the document a twice \(first in line 3\)"),
    ):
        path.write_text("\n".join([*rows, last]), encoding="utf-8")
        with reading(block), pytest.raises(InputError, match=message):
            ranking.rank_part(path, {"q1": {"a": 1}, "q2": {"x": 1}}, "RR")
    with reading(block):
        _, hits = ranking.hits_of(path, {"q1": {"b": 1}}, duplicates="first")
        assert (hits.repeated, hits.rank.tolist(), hits.lengths.tolist()) == (1, [2], [2])
        assert read_run(path, skip=True)["q1"] == ["a", "b", "a"]


@pytest.mark.parametrize("text", ["some.run", "header.csv", "lines.jsonl", "bare.tsv"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_pipes_are_read_as_files_are(tmp_path: Path, text: str, pack: Callable[[bytes], bytes]) -> None:
    """A named pipe or <(...) loses nothing, though the format is found out first; a second look gets the same."""
    gold = tmp_path / "gold"
    gold.write_text("q1 0 b 1\nq1 0 cd 2\nq2 0 c 2\n")
    lines = FILES[text] + "".join(f"z{n} Q0 a 1 1 t\n" for n in range(20_000 * (text == "some.run")))
    (tmp_path / "file").write_bytes(pack(lines.encode()))
    wanted = invoke("rank", tmp_path / "file", "--qrels", gold, "--per-query", "--json")
    pipes = [tmp_path / "a.run", tmp_path / "a.gold"]
    for pipe, file in zip(pipes, (tmp_path / "file", gold), strict=True):
        os.mkfifo(pipe)
        Thread(target=lambda pipe=pipe, file=file: pipe.write_bytes(file.read_bytes()), daemon=True).start()
    ran = invoke("rank", pipes[0], "--qrels", pipes[1], "--per-query", "--json")
    assert wanted.json["scores"] == ran.json["scores"]
    Thread(target=lambda: pipes[0].write_bytes((tmp_path / "file").read_bytes()), daemon=True).start()
    both = invoke("rank", pipes[0], tmp_path / "file", "--qrels", gold)
    assert "overlap of the two runs: 1.0000" in both.out


def test_samples_in_a_pipe_are_refused(tmp_path: Path) -> None:
    """Samples are read more than once: a named pipe would wait for a second writer for ever."""
    os.mkfifo(tmp_path / "a.jsonl")
    ran = invoke("run", tmp_path / "a.jsonl", "-m", "RR")
    assert (ran.code, "write - for JSON Lines on standard input" in ran.err) == (2, True)


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
    for name in ("pointers", "gain", "level"):
        wanted: Any = getattr(full.ideal, name)
        assert getattr(sparse.ideal, name).tolist() == wanted.tolist(), name
    assert sparse.length.tolist() == full.length.tolist()
    assert sparse.rank.tolist() == full.rank[full.judged].tolist()
    assert sparse.level.tolist() == full.level[full.judged].tolist()


LIMITED = """
import resource, sys
from germane.evaluation import rank
from germane.samples.runs.source import RowSource
rank.rank_part(sys.argv[1], {"q1": {"d": 1}}, "RR")
size = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (int(sys.argv[3]) << 20),) * 2)
gold = {f"q{query}": {f"document-{query % 1_000:06}": 1} for query in range(4_000)}
if sys.argv[4] == "together":
    sys.argv[2] = RowSource(sys.argv[2], together=True)
print(f"{rank.ranked_report([rank.rank_part(sys.argv[2], gold, 'RR')])['RR'].mean:.6f}")
"""


def test_a_large_run_is_ranked_in_bounded_memory(tmp_path: Path) -> None:
    """With 250 MB of address space to grow, in which the same 170 MB read together have no room.

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

    assert ranked("blocks").stdout == "0.007485\n"
    assert "MemoryError" in ranked("together").stderr


QUERIES = [["q1", "q1", "q2"], [1, 1, 2], ["q1", "q1", None], ["q1", "q1", ""]]
DOCUMENTS = [["a", "é\n", "a"], ["", "b", "c"], [7, 8, 7], ["a", None, "c"], [1.5, 2.5, 3.0], ["a", "a", "b"]]
NUMBERS = [
    [1, 2, 0],
    [1.0, 2.0, -0.0],
    [0.5, 1.5, 2.5],
    [1.0, None, 2.0],
    [1.0, math.nan, 2.0],
    [True, False, True],
]
NUMBERS += [[math.inf, 2.0, 1.0], [10**15, 2, 1], ["1", "2", "3"]]


@pytest.mark.parametrize("kind", [RUN, GOLD])
@pytest.mark.parametrize("ranks", [None, [1, 2, 1], [1.0, None, 1.0], ["1", "x", "1"]])
def test_a_frame_is_read_like_its_rows(kind: Kind, ranks: list[Any] | None) -> None:
    """Ids, missing values, odd numbers and errors mean the same in columns of polars and in a list of rows."""
    for query, doc, number in itertools.product(QUERIES, DOCUMENTS, NUMBERS):
        columns: dict[str, Any] = {"query_id": query, "doc_id": doc, kind.value: number}
        if ranks:
            columns["rank"] = ranks
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        assert outcome(polars.DataFrame(columns), kind) == outcome(rows, kind), columns


def outcome(source: Any, kind: Kind) -> Any:
    """What is read of a source, its notes, or the error."""
    try:
        rows = RowSource(source, kind, together=True)
        found = [
            (list(some.doc), repr(some.number.tolist()), list(some.queries), some.starts.tolist())
            for some in rows.lists()
        ]
    except InputError as fault:
        return str(fault)
    return found, rows.notes
