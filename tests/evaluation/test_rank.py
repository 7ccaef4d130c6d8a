"""`rank`: trec_eval's printed numbers, the policies where tools differ, and what is said about the input."""

from __future__ import annotations

import fractions
import gzip
import json
import math
import random
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import polars
import pytest
import pytrec_eval
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from germane.errors import InputError, MeasureError
from germane.evaluation import rank as ranking
from germane.evaluation.rank import rank, rank_part
from germane.measures import Measure
from germane.reports.report import Report
from germane.samples.contexts import document_ids
from germane.samples.runs import source
from germane.samples.runs.hits import read_run
from germane.samples.runs.source import read_qrels

HERE = Path(__file__).parent
TREC = HERE.parent / "data" / "trec_eval"
CASES = json.loads((HERE.parent / "fixtures" / "trec_semantics.json").read_text(encoding="utf-8"))
ASKED = "nDCG@10 AP RR R@10 P@10"

OURS = {
    "map": "AP",
    "Rprec": "Rprec",
    "bpref": "bpref",
    "recip_rank": "RR",
    "ndcg": "nDCG",
    "set_P": "SetP",
    "set_recall": "SetR",
    "set_F": "SetF",
    "rbp": "RBP(p=0.9)",
} | {
    f"{theirs}_{k}": f"{ours}@{k}"
    for theirs, ours in {
        "P": "P",
        "recall": "R",
        "ndcg_cut": "nDCG",
        "map_cut": "AP",
        "success": "Success",
    }.items()
    for k in (1, 5, 10, 15, 20, 30, 100, 200, 500, 1000)
}


def value_of(report: Report, measure: Measure, query: str) -> float:
    (score,) = (one for one in report.tables.scores.of_samples([(query, "", 0)]) if one.type == str(measure))
    assert score.value is not None
    return score.value


def printed(name: str) -> Iterator[tuple[str, str, str]]:
    for line in (TREC / name).read_text(encoding="ascii").splitlines():
        measure, query, value = line.split("\t")
        yield measure.strip(), query, value


@pytest.mark.equals(
    "trec_eval",
    what="what it printed in its own tests, per query and averaged, with `-a`, `-q`, `-c`",
    within="its four digits",
)
@pytest.mark.parametrize(
    ("name", "run", "least"),
    [
        ("out.test", "results.test", 13),
        ("out.test.a", "results.test", 47),
        ("out.test.aq", "results.test", 4 * 47),
        ("out.test.aqc", "results.trunc", 4 * 47),
    ],
)
def test_equal_to_what_trec_eval_printed(name: str, run: str, least: int) -> None:
    """Every digit of every measure we share, per query and averaged, in trec_eval's own tests."""
    got = rank(TREC / run, read_qrels(TREC / "qrels.test"), " ".join(OURS.values()))
    compared = 0
    for theirs, query, value in printed(name):
        if theirs not in OURS:
            continue
        measure = Measure.parse(OURS[theirs])
        assert Measure.parse(theirs) == measure
        ours = got[measure].mean if query == "all" else value_of(got, measure, query)
        assert f"{ours:.4f}" == value, f"{theirs} {query}"
        compared += 1
    assert compared >= least


def test_what_is_unjudged_is_the_complement_of_judged() -> None:
    """trec_eval's unj_k and our Judged@k add up to 1 where k places came back."""
    got = rank(TREC / "results.test", read_qrels(TREC / "qrels.test"), "Judged@5 Judged@10 Judged@20")
    for theirs, query, value in printed("out.test.aq"):
        if theirs.startswith("unj_") and query != "all":
            measure = Measure.parse(theirs.replace("unj_", "Judged@"))
            assert 1 - value_of(got, measure, query) == pytest.approx(float(value), abs=5e-5)


def run_of(case: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    return {
        query: {doc: float(score) for doc, score in found.items()} for query, found in case["run"].items()
    }


@pytest.mark.equals(
    "trec_eval",
    what="nDCG, AP, RR, R, P with `-c` on 16 cases where tools differ: ties, doubles, missing queries, negative grades",
    within="its four digits",
    but="a run and gold without a common query is an error",
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_where_tools_differ_we_are_trec_eval_with_its_complete_option(case: dict[str, Any]) -> None:
    """Ties, doubles, missing queries, negative grades: the values of `trec_eval -c`, except that no overlap is an error."""
    if case["case"] == "no_overlap":
        with pytest.raises(InputError, match=r"no query of the run has gold: .*'q9'.*'q1'"):
            rank(run_of(case), case["qrels"], ASKED)
        return
    got = rank(run_of(case), case["qrels"], ASKED)
    assert {name: round(got[name].mean or 0.0, 4) for name in ASKED.split()} == case["trec_eval -c"]


@pytest.mark.equals(
    "pytrec-eval-terrier",
    what="the same cases with `--missing skip`",
    within="1e-6",
    but="scores are not rounded to single precision before ties are found",
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_missing_skip_counts_the_queries_that_pytrec_eval_counts(case: dict[str, Any]) -> None:
    """`missing=skip` leaves out queries that the run does not name; single precision is not restored."""
    if case["case"] in {"no_overlap", "ties_float32"}:
        return
    got = rank(run_of(case), case["qrels"], ASKED, missing="skip")
    expected = dict(case["pytrec_eval"])
    assert got["AP"].n == expected.pop("_queries")
    assert {name: round(got[name].mean or 0.0, 6) for name in expected} == expected


@pytest.mark.equals(
    "ranx",
    what="F1@10, nDCG_burges@10 (`dcg=exp-log2`)",
    within="1e-6",
    but="ties: ranx has another order",
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_f1_and_exponential_gain_are_those_of_ranx(case: dict[str, Any]) -> None:
    """F1@k and nDCG with exponential gain, where ranx breaks ties as trec_eval does."""
    if case["case"] == "no_overlap" or case["case"].startswith("ties"):
        return
    got = rank(run_of(case), case["qrels"], "F1@10 nDCG(dcg=exp-log2)@10")
    for theirs, ours in (("F1@10", "F1@10"), ("nDCG_burges@10", "nDCG(dcg=exp-log2)@10")):
        assert got[ours].mean == pytest.approx(case["ranx"][theirs], abs=1e-6)


def test_a_nan_score_is_an_error() -> None:
    """Every tool gives it some place; there is no right one."""
    with pytest.raises(InputError, match="NaN"):
        rank({"q1": {"a": math.nan, "b": 1.0}}, {"q1": {"a": 1}}, ASKED)


def test_the_only_relevant_document_at_rank_1501_counts() -> None:
    """No list is cut before a measure without a cut-off has seen it."""
    run = {"q1": {**{f"x{i:04}": 2000.0 - i for i in range(1500)}, "a": 1.0}}
    got = rank(run, {"q1": {"a": 1}}, "RR AP nDCG@10")
    assert (got["RR"].mean, got["AP"].mean, got["nDCG@10"].mean) == (1 / 1501, 1 / 1501, 0.0)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=3),
        st.sampled_from([0.0, -0.0, 1.0, 2.5, math.inf, -math.inf]),
        min_size=1,
    )
)
def test_ties_fall_to_the_greater_id_by_bytes(found: dict[str, float]) -> None:
    """Score descending, then the UTF-8 bytes of the id descending, as C compares strings."""
    order = sorted(found, key=lambda doc: (found[doc], doc.encode("utf-8", "surrogatepass")), reverse=True)
    part = rank_part(dict.fromkeys(found, found), {doc: {doc: 1} for doc in found}, "RR")
    assert {score.sample: score.value for score in part.scores} == {
        doc: pytest.approx(1 / place) for place, doc in enumerate(order, 1)
    }


def test_lists_without_scores_keep_their_order() -> None:
    """A list is ranked as it stands, whatever the ids."""
    assert rank({"q": ["a", "z", "b"]}, {"q": {"b": 1}}, "RR")["RR"].mean == 1 / 3


@pytest.fixture
def twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("some.run").write_text("p Q0 a 1 1 t\n\n\nq Q0 a 1 1 t\nq Q0 b 2 2 t\nq Q0 a 3 3 t\n")
    return "some.run"


def test_a_document_twice_is_an_error_that_names_the_line(twice: str) -> None:
    """Which of two places counts is a decision, so nothing is decided in silence."""
    with pytest.raises(
        InputError, match=r"some.run:6: the query q lists the document a twice \(first in line 4\)"
    ):
        rank(twice, {"q": {"a": 1}}, "RR")


def test_the_best_place_of_a_repeated_document_can_count(twice: str) -> None:
    """`duplicates=first` keeps the first place of the ranked list and says how many it dropped."""
    got = rank(twice, {"q": {"b": 1}}, "RR SetP", duplicates="first")
    assert (got["RR"].mean, got["SetP"].mean) == (1 / 2, 1 / 2)
    assert "some.run: 1 result for a document that is already ranked higher, ignored" in got.manifest["notes"]


def test_chunks_can_be_counted_as_their_documents() -> None:
    """A pattern maps chunk ids on both sides; the best chunk of a document stands for it, the gold takes its best grade."""
    run = {"q": ["d2#1", "d1#7", "d1#2", "d3"]}
    gold = {"q": {"d1#1": 0, "d1#2": 2, "d3": 1}}
    got = rank(run, gold, "RR SetP nDCG", doc_id=document_ids("^[^#]+"))
    assert (got["RR"].mean, got["SetP"].mean) == (1 / 2, 2 / 3)
    assert tuple(got.manifest["notes"]) == ("run: 1 result for a further chunk of a document, ignored",)
    urn = document_ids("<(urn:uuid:[^>]+)>")
    assert urn("doc-<urn:uuid:u1>::chunk-4") == "urn:uuid:u1"
    assert urn("other") == "other"
    with pytest.raises(InputError, match="not a regular expression"):
        document_ids("(")


def test_everything_that_shaped_the_mean_is_said() -> None:
    """Queries without results, with empty lists, without gold and without anything relevant are counted aloud."""
    gold = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}, "q4": {"a": 0}, "q5": {"a": 1}}
    got = rank({"q1": ["a"], "q2": [], "q4": ["a"], "q8": ["a"], "q9": ["a"]}, gold, "RR")
    assert got["RR"].mean == 1 / 5
    assert tuple(got.manifest["notes"]) == (
        "run: 2 queries of 5 with gold but without results, counted as 0 (--missing skip leaves them out): q3, q5",
        "run: 1 query with an empty list, counted as 0: q2",
        "run: 2 queries with results but without gold, ignored: q8, q9",
        "run: 1 query without any relevant document in the gold, counted as 0: q4",
    )


def test_skipped_queries_are_scores_too() -> None:
    """A query left out has no value, a status and a reason; the summary counts it."""
    got = rank({"q1": ["a"]}, {"q1": {"a": 1}, "q2": {"a": 1}}, "RR", missing="skip", system="bm25")
    first, second = got.scores()
    assert (first.sample, first.system, first.value, first.status) == ("q1", "bm25", 1.0, "ok")
    assert (second.value, second.status, second.why) == (None, "skipped", "no results for this query")
    summary = got["RR"]
    assert (summary.mean, summary.n, summary.total, summary.skipped) == (1.0, 1, 2, 1)
    assert (summary.low, summary.high, summary.mean_bounds) == (1.0, 1.0, (1.0, 1.0))


@pytest.mark.parametrize("name", ["context_precision", "RR(labels=judge)", "nDCG(labels=human)@5"])
def test_other_labels_than_gold_are_refused(name: str) -> None:
    """`rank` has gold and nothing else."""
    with pytest.raises(MeasureError, match="needs a judge or people's labels"):
        rank({"q": ["a"]}, {"q": {"a": 1}}, name)


def test_context_measures_read_gold_when_told() -> None:
    """`labels=gold` computes a measure of contexts over gold ids."""
    got = rank({"q": ["a", "b", "c"]}, {"q": {"a": 1, "c": 1, "d": 1}}, "context_precision(labels=gold)@3")
    assert got["context_precision(labels=gold)@3"].mean == pytest.approx(5 / 6)


def test_no_measure_and_no_results_are_errors() -> None:
    """Nothing to compute, and nothing to compute it on."""
    with pytest.raises(MeasureError, match="no measure"):
        rank({"q": ["a"]}, {"q": {"a": 1}}, [])
    with pytest.raises(MeasureError, match="needs a cut-off"):
        rank({"q": ["a"]}, {"q": {"a": 1}}, [Measure("P")])
    with pytest.raises(InputError, match="the run has no results"):
        rank({}, {"q": {"a": 1}}, "RR")


def test_the_module_says_how_to_call_it() -> None:
    """The example of the docstring gives the number it promises."""
    got: Report = rank({"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d2": 1}}, "nDCG@10 RR")
    assert got["RR"].mean == 0.5


LONG = {"query_id": ["q1", "q1", "q2"], "doc_id": ["a", "b", "c"], "score": [1.0, 2.0, 0.5]}
GRADES = {"query_id": ["q1", "q2"], "doc_id": ["a", "c"], "relevance": [1, 2]}
LISTED = {"query_id": ["q1", "q2"], "doc_ids": [["a", "b"], ["c"]], "score": [[1.0, 2.0], [0.5]]}


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("run", [LONG, LISTED])
def test_data_frames_are_ranked_as_they_are(library: str, run: dict[str, Any]) -> None:
    """A row per result, or a row per query with lists, from pandas and polars."""
    frame = import_module(library).DataFrame
    got = rank(frame(run), frame(GRADES), "RR")
    assert [score.value for score in got.scores()] == [0.5, 1.0]


@pytest.mark.parametrize("measures", ["RR AP", ["RR", "AP"], [Measure.parse("RR"), "AP"], ["RR AP"]])
def test_measures_are_named_or_given(measures: Any) -> None:
    """In a list too, as `evaluate` takes them."""
    report = rank({"q": {"d": 1.0}}, {"q": {"d": 1}}, measures)
    assert [line.measure for line in report.summaries] == ["RR", "AP"]


def test_parquet_is_ranked_like_its_table(tmp_path: Path) -> None:
    """Run and gold, by the file's extension; what is none is refused with its name."""
    polars.DataFrame(LONG).write_parquet(tmp_path / "run.parquet")
    polars.DataFrame(GRADES).write_parquet(tmp_path / "gold.parquet")
    gold = read_qrels(tmp_path / "gold.parquet")
    assert gold == {"q1": {"a": 1}, "q2": {"c": 2}}
    assert rank(tmp_path / "run.parquet", gold, "RR")["RR"].mean == 0.75
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"bad.parquet: this is not a readable Parquet file"):
        read_run(tmp_path / "bad.parquet")
    with pytest.raises(InputError, match=r"none.parquet: the file cannot be read: No such file"):
        read_run(tmp_path / "none.parquet")


def test_tables_that_do_not_fit_are_refused() -> None:
    """No column is the document; ids and scores are not as many."""
    with pytest.raises(InputError, match="the columns are query_id, weight"):
        rank(polars.DataFrame({"query_id": ["q"], "weight": [1]}), {"q": {"a": 1}}, "RR")
    odd = polars.DataFrame({"query_id": ["q"], "doc_ids": [["a", "a"]], "score": [[1.0, 2.0]]})
    with pytest.raises(InputError, match=r"run:1: this row has 2 ids \(1 different\) and 2 scores"):
        rank(odd, {"q": {"a": 1}}, "RR")


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("kind", ["trec", "tsv", "jsonl", "parquet", "lists.parquet"])
def test_gold_of_every_format_is_read(kind: str, packed: str, tmp_path: Path) -> None:
    """Plain or packed."""
    (tmp_path / "gold").mkdir()
    gold = _written(tmp_path / "gold", kind, [("q1", "a", 1), ("q1", "b", 0), ("q2", "c", 2)])
    if kind == "trec":
        gold.write_text("q1 0 a 1\nq1 0 b 0\nq2 0 c 2\n", encoding="utf-8")
    if packed and not kind.endswith("parquet"):
        gold = gold.rename(gold.with_name(gold.name + packed))
        gold.write_bytes(gzip.compress(gold.read_bytes()))
    run = _written(tmp_path, "trec", [("q1", "b", 2.0), ("q1", "a", 1.0), ("q2", "c", 1.0)])
    assert [score.value for score in rank(run, gold, "RR").scores()] == [0.5, 1.0]


def _written(folder: Path, kind: str, rows: list[tuple[str, str, float]]) -> Path:
    """The rows of a run in a file of this kind."""
    path = folder / f"run.{kind}"
    if kind == "parquet":
        polars.DataFrame(rows, schema=["query_id", "doc_id", "score"], orient="row").write_parquet(path)
    elif kind == "lists.parquet":
        frame = polars.DataFrame(rows, schema=["query_id", "doc_ids", "score"], orient="row")
        frame.group_by("query_id", maintain_order=True).agg("doc_ids", "score").write_parquet(path)
    elif kind == "json":
        found: dict[str, dict[str, float]] = {}
        for query, doc, score in rows:
            found.setdefault(query, {})[doc] = score
        path.write_text(json.dumps(found), encoding="utf-8")
    elif kind == "jsonl":
        keys = ("query_id", "doc_id", "score")
        lines = (json.dumps(dict(zip(keys, row, strict=True))) for row in rows)
        path.write_text("\n".join(lines), encoding="utf-8")
    elif kind in {"tsv", "csv"}:
        between = "\t" if kind == "tsv" else ","
        lines = (between.join(map(str, row)) for row in [("query_id", "doc_id", "score"), *rows])
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        text = "".join(f"{query} Q0 {doc} 0 {score!r} t\n" for query, doc, score in rows).encode()
        path.write_bytes(gzip.compress(text) if kind == "trec.gz" else text)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.integers(0, 10**9), st.integers(1, 300), st.booleans())
def test_every_format_and_order_gives_what_trec_eval_gives(
    tmp_path: Path, seed: int, block: int, contiguous: bool
) -> None:
    """Tied and shuffled rows, queries in pieces, cut into blocks anywhere: pytrec_eval's values, and the same bytes."""
    rnd = random.Random(seed)
    docs = [f"d{number}" for number in range(30)]
    run = {
        f"q{query}": {doc: rnd.randrange(8) / 4 for doc in rnd.sample(docs, rnd.randrange(1, 25))}
        for query in range(rnd.randrange(1, 6))
    }
    gold = {query: {doc: rnd.randrange(4) for doc in rnd.sample(docs, 8)} for query in [*run, "q-none"]}
    rows = [(query, doc, score) for query, found in run.items() for doc, score in found.items()]
    rnd.shuffle(rows)
    if contiguous:
        rows.sort(key=lambda row: row[0])
    names = {"ndcg_cut_5": "nDCG@5", "map": "AP", "recip_rank": "RR", "P_5": "P@5", "recall_10": "R@10"}
    wanted = pytrec_eval.RelevanceEvaluator(gold, set(names)).evaluate(run)
    kinds = ("trec", "trec.gz", "tsv", "csv", "jsonl", "json", "parquet", "lists.parquet")
    reports = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK", block)
        for kind in kinds:
            part = ranking.rank_part(_written(tmp_path, kind, rows), gold, " ".join(names.values()))
            reports.add(b"".join(part.scores.lines()))
            if len(reports) > 1:
                pytest.fail(f"{kind} has other scores")
    for score in part.scores:
        theirs = {names[name]: value for name, value in wanted.get(score.sample, {}).items()}
        assert score.value == pytest.approx(theirs.get(score.measure, 0.0), abs=1e-12)


@pytest.mark.parametrize("given", [[3], [None], fractions.Fraction(1, 2), ["RR", object()]])
def test_what_is_no_measure(given: Any) -> None:
    """Such as a measure of another library."""
    with pytest.raises(InputError, match="not a measure; write"):
        rank({"q": {"d": 1.0}}, {"q": {"d": 1}}, given)


def test_one_measure_that_is_no_list() -> None:
    """As evaluate takes it."""
    assert rank({"q": {"d": 1.0}}, {"q": {"d": 1}}, Measure("RR"))["RR"].mean == 1
