"""Systems compared over the same queries: differences, what they are made of, what moved, and the verdict."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from scripts.reference_pages import schema_of

from germane import Report, compare, evaluate
from germane.comparison.formats import COMPARISON_FORMATS, Comparison
from germane.errors import InputError
from germane.judges.judge import FakeJudge, Reply
from germane.questions import AnyQuestion
from germane.statistics.intervals import mean_interval
from germane.statistics.systems import holm, rank_biased_overlap
from germane.types import Json
from tests.command import invoke

PUBLISHED = Path(__file__).parents[2] / "docs" / "schema" / "comparison.schema.json"
DOCS = [f"d{number}" for number in range(8)]


def rows(share: float, seed: int, n: int = 40, **more: Any) -> list[dict[str, Any]]:
    """Queries for which the best document stands first with the probability `share`."""
    rng = random.Random(seed)
    found = []
    for number in range(n):
        ids = DOCS[:]
        rng.shuffle(ids)
        if rng.random() < share:
            ids.remove("d0")
            ids.insert(0, "d0")
        contexts = [{"id": name, "text": f"{name} of {number}"} for name in ids[:5]]
        row = {
            "id": f"q{number}",
            "query": f"query {number}",
            "qrels": {"d0": 2, "d1": 1},
            "contexts": contexts,
        }
        found.append(
            {**row, "tags": ["odd" if number % 2 else "even"], "metadata": {"topic": number // 4}, **more}
        )
    return found


def values(report: Report, measure: str) -> dict[str, float]:
    return {s.sample: s.value for s in report.scores() if s.measure == measure and s.value is not None}


@pytest.fixture(scope="module")
def before() -> Report:
    return evaluate(rows(0.2, 1), "nDCG@5 R@5 RR")


@pytest.fixture(scope="module")
def after() -> Report:
    return evaluate(rows(0.8, 2, n=42), "nDCG@5 R@5 P@3")


def test_queries_are_paired_by_id(before: Report, after: Report) -> None:
    """The difference, its interval, wins and ties are those of the pairs, as computed by hand and by scipy."""
    found = compare(before, after)["nDCG@5"]
    a, b = values(before, "nDCG@5"), values(after, "nDCG@5")
    change = np.array([b[query] - a[query] for query in a])
    assert found.n == found.due == 40
    assert found.difference == pytest.approx(change.mean())
    assert found.interval == mean_interval(change, value_range=(-1, 1), differences=True)
    assert found.p == found.interval.p
    assert (found.wins, found.ties, found.losses) == (
        (change > 1e-9).sum(),
        (abs(change) <= 1e-9).sum(),
        (change < -1e-9).sum(),
    )


def test_the_lists_overlap_over_the_queries_of_both(before: Report, after: Report) -> None:
    """The mean of the queries' rank-biased overlaps, in a line and in the document; without lists neither."""
    lists = [
        {sample.id: [context.id for context in sample.contexts or ()] for sample in report.samples()}
        for report in (before, after)
    ]
    both = [rank_biased_overlap(lists[0][query], lists[1][query]) for query in lists[0]]
    found = compare(before, after)
    assert found.to_json()["rank_biased_overlap"] == {"B": {"mean": pytest.approx(np.mean(both)), "n": 40}}
    line = f"rank-biased overlap: {np.mean(both):.4f} over 40 queries (p = 0.9; 1 = the same lists)"
    assert line in str(found)
    assert line in COMPARISON_FORMATS[".md"](found)
    told = [{"id": "q1", "query": "q", "response": "it is so", "reference": "it is"}]
    plain = evaluate(told, "answer_relevancy", judge="lexical")
    assert compare(plain, plain, names=("A", "B")).to_json()["rank_biased_overlap"] == {}


def test_the_lists_of_all_trials_overlap() -> None:
    """A case with trials counts once, with the mean over the pairs of its lists."""

    def lists(*ids: str) -> Report:
        rows = [
            {"id": "q", "query": "q", "qrels": ["a"], "trial": n, "doc_ids": [*row]}
            for n, row in enumerate(ids)
        ]
        return evaluate(rows, "RR")

    found = compare(lists("ab", "cd", "cd", "cd"), lists("ab"), names=("A", "B"))
    assert found.to_json()["rank_biased_overlap"] == {"B": {"mean": 0.25, "n": 1}}


def test_what_is_not_in_both_is_listed(before: Report, after: Report) -> None:
    """Queries of one report only, and measures of one report only."""
    found = compare(before, after)
    assert found.only_in == {"A": [], "B": ["q40", "q41"]}
    assert [one.measure for one in found.comparisons] == ["nDCG@5", "R@5"]
    assert found.notes[-1] == "not compared, because a system lacks it: RR, P@3"
    assert [note.split(" ")[:2] for note in found.notes[:-1]] == [["A:", "26%"], ["B:", "30%"]]


def test_holm_is_over_the_primary_measures(before: Report, after: Report) -> None:
    """One primary measure needs no adjustment; of two the smaller p is doubled."""
    one = compare(before, after, primary="nDCG@5")
    assert one["nDCG@5"].p_holm == one["nDCG@5"].p
    assert one["R@5"].p_holm is None
    both = compare(before, after)
    assert both["nDCG@5"].p is not None
    assert both["nDCG@5"].p_holm == pytest.approx(2 * both["nDCG@5"].p)


@pytest.mark.parametrize(
    ("first", "second", "margin", "verdict", "code"),
    [(0.2, 0.8, 0.02, "pass", 0), (0.8, 0.2, 0.02, "fail", 1), (0.5, 0.5, 0.02, "undecided", 3)],
)
def test_a_margin_decides_three_ways(
    first: float, second: float, margin: float, verdict: str, code: int
) -> None:
    """The interval is above the margin, below it, or holds it: then it says how many queries would decide."""
    a, b = (evaluate(rows(share, seed), "nDCG@5") for share, seed in ((first, 1), (second, 2)))
    found = compare(a, b, margin={"ndcg_cut_5": margin})
    assert (found.verdict, found.exit_code) == (verdict, code)
    row = found["nDCG@5"]
    assert row.decision == verdict
    assert (row.needed_to_decide is not None) == (verdict == "undecided")
    assert compare(a, b).verdict is None
    assert found.to_json()["passed"] is (code == 0)


def test_a_margin_without_a_measure_is_refused(before: Report, after: Report) -> None:
    """A number alone; a text says what the command line takes."""
    with pytest.raises(
        InputError,
        match=r'margin=0.1 must be a mapping from measures to losses; write margin=\{"nDCG@5": 0.1\}',
    ):
        compare(before, after, margin=0.1)  # type: ignore[arg-type]  # what a user may write
    assert compare(before, after, margin="nDCG@5: 10%")["nDCG@5"].decision is not None
    with pytest.raises(InputError, match="margin 'nDCG@5: x' is not of the form MEASURE: LOSS"):
        compare(before, after, margin={"nDCG@5": "x"})


def test_where_lower_is_better_a_rise_is_a_loss() -> None:
    """Wins, the margin and the worst queries follow what is better; the difference stays B minus A."""

    def leaky(more: int) -> list[dict[str, Any]]:
        both = [{"id": name, "text": name} for name in ("secret", "withdrawn")]
        row = {"query": "q", "forbidden": ["secret", "withdrawn"]}
        return [{**row, "id": f"q{n}", "contexts": both[: 1 + n % 2 * more]} for n in range(20)]

    a, b = (evaluate(leaky(more), "leaks") for more in (0, 1))
    found = compare(a, b, margin={"leaks": 0.1})["leaks"]
    assert found.difference == 0.5
    assert (found.wins, found.losses) == (0, 10)
    assert found.decision == "fail"
    assert all(one.change > 0 for one in compare(a, b).moved["B"]["worst"])


def test_missing_scores_widen_the_interval_and_leave_no_p() -> None:
    """A query that failed in one report could be anything: it is in the interval, not in the mean."""

    def judge(question: AnyQuestion) -> Json | Reply:
        failed = "of 3" in str(getattr(question, "passage", ""))
        return Reply(error="no answer") if failed else {"grade": 3, "reasoning": ""}

    a = evaluate(rows(0.2, 1, n=20), "context_precision@5", judge=FakeJudge(judge))
    b = evaluate(rows(0.8, 2, n=20), "context_precision@5", judge=FakeJudge())
    found = compare(a, b)["context_precision@5"]
    assert (found.n, found.due, found.p) == (19, 20, None)
    assert found.interval.ends is not None
    assert found.interval.ends[1] > 0


def test_the_most_moved_queries_say_where_their_gold_went() -> None:
    """The gold documents with their ranks from 1."""
    contexts = [{"id": name, "text": name} for name in "abcd"]
    a = [{"id": "q", "query": "why?", "qrels": {"c": 1}, "contexts": contexts[:3]}]
    b = [{"id": "q", "query": "why?", "qrels": {"c": 1}, "contexts": [contexts[2], contexts[0], contexts[3]]}]
    found = compare(evaluate(a, "RR"), evaluate(b, "RR"))
    (moved,) = found.moved["B"]["best"]
    assert found.moved["B"]["worst"] == []
    assert (moved.sample, moved.query, moved.b) == ("q", "why?", 1.0)
    assert moved.a == pytest.approx(1 / 3)
    assert moved.gold == [("c", 3, 1)]
    assert "+0.6667  q why?  c: 3 -> 1" in str(found)


def grading(grade: int) -> FakeJudge:
    """A judge that grades even documents 3, and odd ones so."""

    def answer(question: AnyQuestion) -> Json:
        odd = int(str(getattr(question, "passage", "d0"))[1]) % 2
        return {"grade": grade if odd else 3, "reasoning": ""}

    return FakeJudge(answer, name=f"grades-{grade}")


def test_two_judges_are_not_compared_in_silence() -> None:
    """Refused unless that is asked for, and then not split; gold measures need no judge."""
    a, b = (evaluate(rows(0.5, 1), "context_precision@5 nDCG@5", judge=grading(grade)) for grade in (0, 2))
    with pytest.raises(InputError, match=r"judged by grades-0.*across_judges=True") as refused:
        compare(a, b)
    assert str(refused.value).endswith("split the difference with across_judges=True")
    found = compare(a, b, across_judges=True)["context_precision@5"]
    assert found.parts is None
    assert "judged by" in (found.parts_why or "")
    assert compare(a, b, measures="nDCG@5")["nDCG@5"].difference == 0.0


def test_people_and_a_judge_are_two_judges() -> None:
    """Whichever stands first."""
    graded = [
        {**row, "contexts": [{**c, "grade": 3 * (c["id"] < "d4")} for c in row["contexts"]]}
        for row in rows(0.5, 1)
    ]
    people, model = (evaluate(graded, "context_precision@5", judge=judge) for judge in ("labels", grading(0)))
    for a, b in ((people, model), (model, people)):
        with pytest.raises(InputError, match="judged by"):
            compare(a, b)
        found = compare(a, b, across_judges=True)["context_precision@5"]
        assert found.parts is None


def test_a_difference_is_split_exactly() -> None:
    """B's lists, with A's verdict where A holds the item and B's own elsewhere, stand between A and B."""
    a = evaluate(rows(0.2, 1), "context_precision@5", judge=grading(0))
    again = grading(2)
    again.name = grading(0).name  # the same judge gives other verdicts now
    again.identity = grading(0).identity
    b = evaluate(rows(0.8, 2), "context_precision@5", judge=again)
    found = compare(a, b)["context_precision@5"]
    assert found.parts is not None
    assert found.parts.retrieval + found.parts.labels == pytest.approx(found.difference, abs=1e-12)
    held = {row["id"]: {c["text"] for c in row["contexts"]} for row in rows(0.2, 1)}
    mixed = []
    for row in rows(0.8, 2):
        relevant = [not int(c["id"][1]) % 2 or c["text"] not in held[row["id"]] for c in row["contexts"]]
        found_at = [rank for rank, good in enumerate(relevant, 1) if good]
        shares = [(i + 1) / rank for i, rank in enumerate(found_at)]
        mixed.append(sum(shares) / max(1, len(shares)))
    assert found.mean_a is not None
    assert found.parts.retrieval == pytest.approx(np.mean(mixed) - found.mean_a)


def test_changed_gold_is_the_part_of_the_labels() -> None:
    """The same lists under new gold: nothing is retrieval."""
    a = evaluate(rows(0.5, 1), "nDCG@5")
    b = evaluate(rows(0.5, 1, qrels={"d0": 2, "d2": 1}), "nDCG@5")
    found = compare(a, b)
    row: Any = found.to_json()["comparisons"][0]
    assert row["difference"] != 0
    assert row["parts"]["retrieval"] == 0.0
    assert row["parts"]["labels"] == pytest.approx(row["difference"])


def test_where_a_split_is_not_possible_it_says_why(tmp_path: Path, before: Report, after: Report) -> None:
    """A document of --json holds scores alone: the difference is the same, and its parts are null."""
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, report in zip(paths, (before, after), strict=True):
        path.write_text(json.dumps(report.to_json()))
    found = compare(*paths)
    row, direct = (one.to_json()["comparisons"][0] for one in (found, compare(before, after)))
    assert row["difference"] == direct["difference"]
    assert row["interval"] == direct["interval"]
    assert row["parts"] is None
    assert (
        row["parts_why"]
        == "the samples of both systems are needed; only report folders of germane run have them"
    )
    assert found.systems == ("a", "b")


def test_several_systems_of_one_report() -> None:
    """Each against the first; the best mean is bold in Markdown and LaTeX."""
    both = [
        row
        for name, share in (("one", 0.2), ("two", 0.9), ("three", 0.5))
        for row in rows(share, 3, system=name)
    ]
    report = evaluate(both, "nDCG@5")
    found = compare(report)
    assert found.systems == ("one", "two", "three")
    assert [(one.a, one.b) for one in found.comparisons] == [("one", "two"), ("one", "three")]
    assert compare(report, systems=["two", "one"])["nDCG@5"].difference == pytest.approx(
        -(found["nDCG@5", "two"].difference or 0)
    )
    first, best = (f"{report['nDCG@5', name].mean:.4f}" for name in ("one", "two"))
    assert f"| nDCG@5 | two | {first} | **{best}** |" in COMPARISON_FORMATS[".md"](found)
    assert rf"nDCG@5 & two & {first} & \textbf{{{best}}} &" in COMPARISON_FORMATS[".tex"](found)
    lines = list(csv.DictReader(io.StringIO(COMPARISON_FORMATS[".csv"](found))))
    assert [(line["slice"], line["b"]) for line in lines] == [("", "two"), ("", "three")]
    assert float(lines[0]["difference"]) == found["nDCG@5", "two"].difference


@pytest.mark.parametrize("one_report", [False, True], ids=["reports", "one report"])
def test_a_mean_is_over_the_queries_of_its_line(tmp_path: Path, one_report: bool) -> None:
    """Where the pairs share different queries, the first system has a mean for each set of them, in every format."""
    hits = {"a": "q1", "b": "q1 q2", "c": "q1 q2 q3", "d": "q2 q4"}
    queries = {"a": range(1, 5), "b": (1, 2), "c": range(1, 5), "d": range(1, 5)}
    samples = {
        name: [
            {"id": f"q{n}", "system": name, "query": f"q{n}", "qrels": {"g": 1}, "contexts": [{"id": "g" if f"q{n}" in hits[name] else "x"}]}
            for n in queries[name]
        ]
        for name in hits
    }  # fmt: skip
    folders = [tmp_path / "all"] if one_report else [tmp_path / name for name in hits]
    for folder in folders:
        rows = [row for of in samples.values() for row in of] if one_report else samples[folder.name]
        evaluate(rows, "RR", folder=folder)
    files = [tmp_path / f"x.{end}" for end in ("md", "tex")]
    done = invoke("compare", *map(str, folders), *(word for file in files for word in ("-o", str(file))))
    assert done.code == 0
    for text, mark in ((done.out, ""), (files[0].read_text(), "|"), (files[1].read_text(), "&")):
        lines = [
            re.sub(r"[*|&\\]|textbf|[{}]", " ", line).split() for line in text.splitlines() if mark in line
        ]
        means = [(*line[1:4], line[-1]) for line in lines if line[:1] == ["RR"] and len(line) > 3]
        assert means == [
            ("b", "0.5000", "1.0000", "2"),
            ("c", "0.2500", "0.7500", "4"),
            ("d", "0.2500", "0.5000", "4"),
        ]


def test_the_outcome_comes_first_and_the_verdict_last(before: Report, after: Report) -> None:
    """Sentences, the differences, the queries that moved, the notes, the verdict."""
    text = str(compare(before, after, margin={"nDCG@5": 0.1}))
    parts = (
        "B is better",
        "win/tie",
        "worse by nDCG@5",
        "better by nDCG@5",
        "95% confidence intervals",
        "verdict ",
    )
    places = [text.index(part) for part in parts]
    assert places[0] == 0
    assert places == sorted(places)


def test_markdown_mentions_nobody(before: Report, after: Report) -> None:
    """A name like a person's or an issue's is text, wherever it stands."""
    found = compare(before, after, measures="R@5")
    rows = tuple(one.replace(a="@octo", b="#12") for one in found.comparisons)
    named = found.replace(systems=("@octo", "#12"), comparisons=rows, notes=("as @octo said in #12",))
    shown = COMPARISON_FORMATS[".md"](named)
    assert "| measure | @<!-- -->octo | #<!-- -->12 |" in shown
    assert "- as @<!-- -->octo said in #<!-- -->12" in shown
    assert "@octo" not in shown
    assert " #12" not in shown


def test_slices_have_rows_of_their_own(before: Report, after: Report) -> None:
    """A tag against the rest; a field of the metadata by value."""
    found = compare(before, after, measures="nDCG@5", by="odd")
    slices = found.to_json()["slices"]
    assert [(row["slice"], row["n"]) for row in slices] == [("odd", 20), ("not odd", 20)]
    assert "|\n\np-values are adjusted" in COMPARISON_FORMATS[".md"](found)  # else it is a row of the table
    a, b = values(before, "nDCG@5"), values(after, "nDCG@5")
    odd = [b[f"q{n}"] - a[f"q{n}"] for n in range(1, 40, 2)]
    assert slices[0]["difference"] == pytest.approx(np.mean(odd))
    slices = compare(before, after, measures="nDCG@5 R@5", primary="nDCG@5", by="topic").to_json()["slices"]
    tested, others = (
        [row for row in slices if (row["measure"] == "R@5") is other] for other in (False, True)
    )
    assert len(tested) == len(others) == 10
    assert [row["p_holm"] for row in tested] == holm([row["p"] for row in tested])
    assert {row["p_holm"] for row in others} == {row["outcome"] for row in slices} == {None}
    with pytest.raises(InputError, match="tags or fields: even, odd, topic"):
        compare(before, after, by="language")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"measures": "AP"}, "the measure AP was not computed for all compared systems"),
        ({"margin": {"RR": 0.1}}, "the margin's measure RR was not computed for all compared systems"),
        ({"margin": ["nDCG@5 0.1"]}, "write 'nDCG@10: 0.02'"),
        ({"systems": ["bm25"]}, "unknown system 'bm25'"),
    ],
)
def test_what_cannot_be_compared_is_an_error(
    before: Report, after: Report, given: dict[str, Any], message: str
) -> None:
    """With what to write instead."""
    with pytest.raises(InputError, match=message):
        compare(before, after, **given)


def test_one_system_alone_cannot_be_compared(before: Report) -> None:
    """Nor two reports without a query in common."""
    with pytest.raises(InputError, match="a comparison needs two systems"):
        compare(before)
    other = evaluate([{**row, "id": f"other {row['id']}"} for row in rows(0.5, 1)], "nDCG@5")
    with pytest.raises(InputError, match="no query in common"):
        compare(before, other)


def test_a_folder_of_reports_names_its_latest(tmp_path: Path, before: Report, after: Report) -> None:
    """By the time in their manifests."""
    for name, report, created in (("x", after, "2026-01-02"), ("y", before, "2026-01-01")):
        report.manifest = {**report.manifest, "created": created}
        report.save(tmp_path / "reports" / name)
    found = compare(tmp_path / "reports" / "y", tmp_path / "reports")
    assert found["nDCG@5"].difference == compare(before, after)["nDCG@5"].difference
    assert found.systems == ("y", "reports")


def test_two_reports_of_the_same_systems_are_compared_system_by_system() -> None:
    """Each system stands against itself."""
    shares = {"low": 0.1, "middle": 0.5, "high": 0.9}
    a, b = (
        evaluate(
            [row for name, share in shares.items() for row in rows(share, 1, system=name, qrels=gold)],
            "nDCG@5 RR",
        )
        for gold in ({"d0": 2, "d1": 1}, {"d0": 2, "d2": 1})
    )
    found = compare(a, b, by="even")
    assert {(one.a, one.b) for one in found.comparisons} == {(f"A:{name}", f"B:{name}") for name in shares}
    document = json.loads(json.dumps(found.to_json()))
    jsonschema.validate(document, schema_of(Comparison))
    one = compare(a, b, systems=["low"])
    assert len(one.systems) == 2


def test_documents_obey_the_published_schema(before: Report, after: Report) -> None:
    """docs/schema/comparison.schema.json is made of the records."""
    assert json.loads(PUBLISHED.read_text("utf-8")) == schema_of(Comparison)
    other = evaluate(rows(0.5, 3), "nDCG@5 R@5 RR")
    for found in (compare(before, after, margin={"R@5": 0.02}), compare(before, after, other, by="topic")):
        jsonschema.validate(json.loads(json.dumps(found.to_json(), allow_nan=False)), schema_of(Comparison))
