"""`germane label` and `germane audit` as a person uses them: keys, in a terminal and piped."""

import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from germane.tables.labels import relevance_item
from tests.cli.conftest import Cli, write_jsonl
from tests.command import Ran
from tests.server.models import ModelServer

ROWS = [
    {
        "id": f"q{n}",
        "query": f"what is topic {n}",
        "system": system,
        "contexts": [
            {
                "id": f"{system}{n}{k}",
                "score": 0.5,
                "text": f"topic {n} \x1b[31mred\x07 text {k} of {system.upper()}!",
            }
            for k in range(2)
        ],
    }
    for system in ("bm25", "dense")
    for n in range(6)
]
PROMPT = "0-3,.* u unsure"


@pytest.fixture
def report(inside: Cli, tmp_path: Path) -> Path:
    data = write_jsonl(tmp_path / "data.jsonl", *ROWS)
    words = ("-m", "context_relevance context_precision", "--judge", "lexical", "--no-cache")
    ran = inside("run", data, *words, "-o", "r")
    assert ran.code == 0, ran.err
    return tmp_path / "r"


@pytest.fixture
def alone(inside: Cli, tmp_path: Path) -> Path:
    """The report of one system."""
    data = write_jsonl(
        tmp_path / "data.jsonl", *({**row, "id": f"{row['system']}{row['id']}", "system": ""} for row in ROWS)
    )
    assert (
        inside("run", data, "-m", "context_relevance", "--judge", "lexical", "--no-cache", "-o", "r").code
        == 0
    )
    return tmp_path / "r"


def labels(report: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (report / "labels.jsonl").read_text("utf-8").splitlines()]


def start(report: Path, *more: str) -> Any:
    words = ["-m", "germane", "label", str(report), "--who", "ann", "--budget", "10", *more]
    return pexpect.spawn(sys.executable, words, encoding="utf-8", timeout=30, dimensions=(40, 100))


def test_ten_passages_labelled_in_a_terminal(alone: Path, inside: Cli) -> None:
    """With an undo, a kill in between and a resume: no answer is lost, none is asked again."""
    screen = start(alone)
    for key in "3120":
        screen.expect(PROMPT)
        screen.send(key)
    screen.expect("5 of 10")
    screen.expect(PROMPT)
    screen.send("z")
    screen.expect("4 of 10")
    screen.expect(PROMPT)
    screen.send("1")
    screen.expect("5 of 10")
    screen.expect(PROMPT)
    screen.kill(9)
    screen.wait()
    before = labels(alone)
    assert [one["answer"] for one in before] == [3, 1, 2, 0, None, 1]
    screen = start(alone)
    screen.expect("10 to label .random passages, seed 0., 4 done")
    for key in "s223301":
        screen.expect(PROMPT)
        screen.send(key)
    screen.expect("10 of 10 labelled by ann")
    screen.expect(r"so far .*with\s+people's\s+labels\s+on\s+10\s+of\s+24")
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == 0
    after = labels(alone)
    assert after[: len(before)] == before
    given = {one["item"]: one for one in after if one["answer"] is not None}
    assert len(given) == 10
    assert all(one["blind"] and one["design"]["probability"] for one in after)
    shown = inside("report", alone, "--json").json
    line = shown["measures"]["context_relevancy(unit=context)"]
    assert line["corrected"]["labels"] == 10
    assert line["corrected"]["interval"][0] <= line["corrected"]["mean"] <= line["corrected"]["interval"][1]


@pytest.mark.parametrize(
    ("keys", "answers"),
    [
        (("\x1b", 0.05, "[3~"), []),  # Delete over ssh
        (("\x1b", 0.3, "[1;5C"), []),
        (("\x1b[", 0.05, "3", 0.05, "~"), []),
        (("1\x1b[3~",), [1]),
        (("\x1b[1;5C" * 30,), []),
        (("\x1bO3C\x1b[[A\x1b[M012\x1b]11;rgb:1111/2222/3333\x07\x1b2",), []),
        (("\x1b", 0.5, "2"), [2]),
        (("é2",), [2]),
    ],
)
def test_a_grade_is_stored_for_the_digit_that_was_pressed(
    alone: Path, keys: tuple[str | float, ...], answers: list[int]
) -> None:
    """Arrows, Delete and the like store nothing, however a line cuts their sequences."""
    screen = start(alone)
    screen.expect(PROMPT)
    for key in keys:
        time.sleep(key) if isinstance(key, float) else screen.send(key)
    time.sleep(0.1)
    screen.send("q")
    screen.expect(pexpect.EOF)
    assert [label["answer"] for label in labels(alone)] == answers


def test_a_person_sees_no_verdict_system_rank_or_score_and_no_escapes(inside: Cli, report: Path) -> None:
    """Blind until answered; what is shown cannot drive a terminal."""
    ran = inside("label", report, "--who", "ann", stdin="3q")
    assert "topic" in ran.out
    for telling in ("bm25", "dense", "0.5", "lexical", "\x1b", "\x07", "rank"):
        assert telling not in ran.out.replace("BM25", "").replace("DENSE", "")


def test_an_interrupted_session_says_how_to_go_on(report: Path) -> None:
    """Exit code 130; what was answered is stored."""
    screen = start(report)
    screen.expect(PROMPT)
    screen.send("2")
    screen.expect("2 of 8")  # two whole queries
    screen.expect(PROMPT)
    screen.sendintr()
    screen.expect("\r\ngermane: answers stored: 1; continue with: germane label")
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == 130
    assert len(labels(report)) == 1


def piped(inside: Cli, report: Path, keys: str, who: str, *more: str) -> Ran:
    ran = inside("label", report, "--who", who, *more, stdin=keys)
    assert ran.code == 0, ran.err
    return ran


def test_help_shows_the_guideline_and_its_fingerprint_is_kept(
    inside: Cli, report: Path, tmp_path: Path
) -> None:
    """One clause changed is another guideline."""
    (tmp_path / "told.md").write_text("Only what answers counts.\n", "utf-8")
    ran = piped(inside, report, "?3q", "ann", "--guideline", "told.md")
    assert "| Only what answers counts." in ran.out
    (tmp_path / "told.md").write_text("Only what answers counts!\n", "utf-8")
    piped(inside, report, "1q", "ann", "--guideline", "told.md")
    first, second = (one["guideline"] for one in labels(report))
    assert len(first) == len(second) == 16
    assert first != second


def test_labels_of_the_page_are_imported_and_exported(inside: Cli, report: Path, tmp_path: Path) -> None:
    """They stand beside the judge's verdicts; `score` reads them without a judge."""
    items = [json.loads(line) for line in (report / "places.jsonl").read_text("utf-8").splitlines()]
    page = write_jsonl(
        tmp_path / "page.jsonl",
        *(
            {"item": row["item"], "kind": "relevance", "answer": 3, "scale": "graded", "who": "eve"}
            for row in items
        ),
    )
    ran = inside("label", report, "--import", page)
    assert ran.code == 0
    assert "24 labels added" in ran.err
    scored = inside("score", report, "-m", "P(labels=human)@2", "--json").json
    assert [line["measures"]["P(labels=human)@2"]["mean"] for line in scored["systems"]] == [1.0, 1.0]
    gate = ("--fail-under", "lower(corrected(context_relevance))>={}")
    codes = [
        inside("score", report, "-m", "context_relevance", gate[0], gate[1].format(least)).code
        for least in (0.5, 0.9)
    ]
    assert codes == [0, 1]
    ran = inside("label", report, "--export", "out.foo")
    assert (ran.code, (tmp_path / "out.foo").exists()) == (2, False)
    assert ran.err.endswith(
        "labels cannot be written to a .foo file; name a file that ends in .jsonl, .csv or .qrels\n"
    )
    ran = inside("label", report, "--export", "out.qrels")
    assert "wrote 24 labels" in ran.err
    assert "q0 0 bm2500 3" in (tmp_path / "out.qrels").read_text("utf-8")


@pytest.mark.parametrize("document", ["d 1", None])
def test_labels_that_qrels_cannot_hold_are_counted(inside: Cli, tmp_path: Path, document: str | None) -> None:
    """Ids with blanks, and passages without an id."""
    contexts = [{"id": document, "text": "a", "grade": 1}, {"id": "d2", "text": "b", "grade": 0}]
    write_jsonl(tmp_path / "s.jsonl", {"id": "q", "query": "q", "contexts": contexts})
    inside("run", "s.jsonl", "-m", "context_precision", "--judge", "labels", "-o", "r")
    ran = inside("label", "r", "--export", "out.qrels")
    assert (
        "wrote 1 label to out.qrels\nwarning: 1 label is left out: qrels hold only grades of passages"
        in ran.err
    )
    assert "left out" not in inside("label", "r", "--export", "out.csv").err


def test_whole_queries_and_yes_or_no(inside: Cli, report: Path) -> None:
    """Keys follow the scale."""
    ran = piped(inside, report, "yn1xq", "ann", "--design", "queries", "--budget", "8", "--scale", "binary")
    assert "8 to label (random queries, seed 0)" in ran.out
    found = labels(report)
    assert [one["answer"] for one in found] == [True, False, True]
    assert len({one["sample"] for one in found}) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--queue", "best"), "expected random or targeted"),
        (("--queue", "stratified"), "expected random or targeted"),
        (("--design", "rows"), "expected passages or queries"),
        (("--budget", "0"), "expected an integer >= 1"),
        (("--kind", "support"), "no claims to label"),
        (("--scale", "0-4"), "expected graded or binary"),
        (("--seed", "-1"), "expected an integer >= 0"),
        (("--import", "none.csv"), "no file"),
        (("--guideline", "none.md"), "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said(inside: Cli, report: Path, words: tuple[str, ...], message: str) -> None:
    """Exit code 2, and what to write instead."""
    ran = inside("label", report, *words)
    assert ran.code == 2
    assert message in ran.err


def test_the_models_that_a_target_declares_stand_in_the_manifest(inside: Cli, tmp_path: Path) -> None:
    """The audit compares them with the judge's; targets that declare none are left out."""
    (tmp_path / "targets.yaml").write_text(
        "targets:\n"
        "- {name: rag, provider: mock, response: hello, models: {generator: gpt-4o, reranker: rerank-v3, query_rewriter: small}}\n"
        "- {name: plain, provider: mock, response: hello}\n",
        "utf-8",
    )
    data = write_jsonl(tmp_path / "data.jsonl", {"id": "q", "query": "hello", "contexts": ["hello"]})
    words = (
        "-m",
        "context_relevance",
        "--judge",
        "lexical",
        "--no-cache",
        "--target",
        "rag",
        "--target",
        "plain",
    )
    ran = inside("run", data, *words, "-o", "r")
    assert ran.code == 0, ran.err
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text("utf-8"))
    assert manifest["targets"] == {
        "rag": {"generator": "gpt-4o", "reranker": "rerank-v3", "rewriter": "small"}
    }


@pytest.mark.parametrize(
    ("judge", "generator", "warns"),
    [
        ("gpt-4o-mini", "gpt-4.1", True),
        ("qwen3", "Qwen/Qwen2.5-7B", True),
        ("llama3.1:8b", "ollama:llama3.1:70b", True),
        ("gemma3:latest", "llama3:latest", False),
        ("gpt-4o", "claude-4", False),
    ],
)
def test_a_judge_of_the_family_of_the_systems_model(
    inside: Cli, tmp_path: Path, judge: str, generator: str, warns: bool
) -> None:
    """The audit warns: a model may favour its own family's texts."""
    (tmp_path / "targets.yaml").write_text(
        f"targets: [{{name: rag, provider: mock, response: hello, models: {{generator: {generator}}}}}]\n"
    )
    data = write_jsonl(tmp_path / "data.jsonl", {"id": "q", "query": "hello", "contexts": ["hello"]})
    with ModelServer() as server:
        words = ("--judge", f"openai:{judge}", "--base-url", server.url, "--no-cache", "--target", "rag")
        assert inside("run", data, "-m", "context_sufficiency", *words, "-o", "r").code == 0
    warning = f"the judge {judge} may favour texts of its family: the generator of rag is {generator}"
    assert (warning in inside("audit", "r").out) == warns


@pytest.mark.parametrize("kind", ["report", "places.jsonl", "rows.csv", "gold.qrels"])
def test_labels_of_a_file_are_a_judge(inside: Cli, tmp_path: Path, kind: str) -> None:
    """`run --judge labels --labels` answers from a report's labels, JSON lines, CSV or qrels; the measure keeps its name."""
    rows = [
        {
            "id": f"q{n}",
            "query": f"topic {n}",
            "contexts": [{"id": f"d{n}{k}", "text": f"{n} {k}"} for k in range(2)],
        }
        for n in range(3)
    ]
    data = write_jsonl(tmp_path / "data.jsonl", *rows)
    grades = {(f"q{n}", f"d{n}{k}"): 3 * (k <= n % 2) for n in range(3) for k in range(2)}
    (tmp_path / "rows.csv").write_text(
        "sample,id,grade,who\n" + "".join(f"{q},{d},{grade},ann\n" for (q, d), grade in grades.items())
    )
    (tmp_path / "gold.qrels").write_text("".join(f"{q} 0 {d} {grade}\n" for (q, d), grade in grades.items()))
    words = ("run", data, "-m", "context_relevance P(labels=human)@2", "--no-cache")
    ran = inside("run", data, "-m", "context_relevance", "--no-cache", "--judge", "lexical", "-o", "report")
    assert ran.code == 0, ran.err
    assert inside("label", "report", "--import", "rows.csv").code == 0
    (tmp_path / "places.jsonl").write_bytes((tmp_path / "report" / "labels.jsonl").read_bytes())
    ran = inside(*words, "--judge", "labels", "--labels", kind, "-o", "new", "--json")
    assert ran.code == 0, ran.err
    lines = ran.json["measures"]
    assert list(lines) == ["context_relevancy(unit=context)", "P(labels=human)@2"]
    assert [line["mean"] for line in lines.values()] == [pytest.approx(4 / 6)] * 2
    assert lines["context_relevancy(unit=context)"]["basis"]["source"] == "human"
    ran = inside(*words, "--judge", "labels", "--labels", "none.csv", "-o", "other")
    assert ran.code == 2
    assert "no file none.csv" in ran.err


ANN_BOB = ["p1,yes,ann", "p2,no,ann", "p3,yes,ann", "p1,no,bob", "p2,yes,bob"]


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        (ANN_BOB, 0.7083),
        ([*ANN_BOB, "p3,no,eve"], 0.6667),
        (["p1,yes,ann", "p1,no,", "p1,yes,", "p1,no,", "p2,no,bob", "p3,yes,", "p3,no,eve"], 0.6875),
        (["p1,yes,", "p1,no,", "p1,no,", "p2,yes,", "p3,yes,", "p3,no,"], 0.6944),  # one person's shares
    ],
)
def test_persons_keep_their_names(inside: Cli, tmp_path: Path, rows: list[str], value: float) -> None:
    """From a file that judges a run, and imported into a report: a passage that a person did not label is the others' share."""
    contexts = [{"id": f"p{n}", "text": f"passage {n}"} for n in (1, 2, 3)]
    data = write_jsonl(tmp_path / "data.jsonl", {"id": "q1", "query": "q", "contexts": contexts})
    (tmp_path / "lab.csv").write_text("\n".join(["sample,id,relevant,who", *(f"q1,{row}" for row in rows)]))
    words = ("run", data, "-m", "context_precision", "--no-cache", "--json")
    read = inside(*words, "--judge", "labels", "--labels", "lab.csv", "-o", "read")
    assert inside(*words, "--judge", "lexical", "-o", "judged").code == 0
    assert inside("label", "judged", "--import", "lab.csv").code == 0
    scored = inside("score", "judged", "-m", "context_precision(labels=human)", "--json")
    for done in (read, scored):
        (line,) = done.json["measures"].values()
        assert line["mean"] == pytest.approx(value, abs=5e-5), done.err


def test_labels_on_an_older_scale_are_counted(inside: Cli, tmp_path: Path) -> None:
    """Of a passage only labels on the scale of the newest one count: a run, an import and a new score say how many do not."""
    contexts = [{"id": "p1", "text": "a"}, {"id": "p2", "text": "b"}]
    data = write_jsonl(tmp_path / "data.jsonl", {"id": "q1", "query": "q", "contexts": contexts})
    rows = [
        "q1,p1,3,,ann,2026-01-01",
        "q1,p1,2,,eve,2026-01-01",
        "q1,p1,,no,bob,2026-01-02",
        "q1,p2,,no,bob,2026-01-02",
    ]
    (tmp_path / "lab.csv").write_text("\n".join(["sample,id,grade,relevant,who,at", *rows]))
    words, note = ("-m", "P(labels=human)@2", "--json"), "2 x a label of a passage does not count: a newer"
    read = inside("run", data, *words, "--labels", "lab.csv", "--judge", "labels", "-o", "read")
    assert inside("run", data, "-m", "context_precision", "--judge", "lexical", "-o", "judged").code == 0
    assert "2 labels do not count: a newer label" in inside("label", "judged", "--import", "lab.csv").err
    for done in (read, inside("score", "judged", *words)):
        assert note in str(done.json["notes"])


def test_several_people_in_a_file_all_count(inside: Cli, tmp_path: Path) -> None:
    """Shares of people, order measures per person, "unsure" as bounds; the report keeps who said what, and scores it again."""
    texts = [{"id": name, "text": f"passage {name}"} for name in "abc"]
    data = write_jsonl(
        tmp_path / "data.jsonl", *({"id": q, "query": q, "contexts": texts} for q in ("q1", "q2"))
    )
    rows = ["query_id,context_id,grade,who"]
    rows += [f"q1,{name},{grade},ann" for name, grade in zip("abc", (3, 0, 2), strict=True)]
    rows += [f"q1,{name},{grade},ben" for name, grade in zip("abc", (0, 3, 1), strict=True)]
    rows += [f"q2,{name},3,ann" for name in "abc"]
    (tmp_path / "people.csv").write_text("\n".join(rows) + "\n")
    values = {
        "P(labels=human)@3": [0.5, 1.0],
        "context_relevancy(unit=context)": [0.5, 1.0],
        "context_precision": [((1 + 2 / 3) / 2 + 1 / 2) / 2, 1.0],
    }
    words = ("run", data, "-m", "P(labels=human)@3 context_relevance context_precision", "--no-cache")
    ran = inside(*words, "--judge", "labels", "--labels", "people.csv", "-o", "r", "--json")
    assert ran.code == 0, ran.err
    again = inside("score", "r", "-m", " ".join(values), "--json")
    resumed = inside("run", "--resume", "r", "--json")
    for done in (ran, again, resumed):
        found = {
            name: [one["value"] for one in done.json["scores"] if one["measure"] == name] for name in values
        }
        assert found == {name: pytest.approx(value) for name, value in values.items()}, done.err
    given = [json.loads(line) for line in (tmp_path / "r" / "labels.jsonl").read_text().splitlines()]
    assert [(one["sample"], one["who"]) for one in given] == [
        *[("q1", "ann"), ("q1", "ben")] * 3,
        *[("q2", "ann")] * 3,
    ]
    with (tmp_path / "unsure.jsonl").open("w") as file:
        for name, answer in zip("abc", (3, None, 0), strict=True):
            item = relevance_item("q1", f"passage {name}")
            row = {"item": item, "kind": "relevance", "answer": answer, "scale": "graded", "reason": "unsure"}
            file.write(json.dumps(row) + "\n")
    ran = inside(*words, "--judge", "labels", "--labels", "unsure.jsonl", "--limit", "1", "--json")
    first, relevance, _ = (one["bounds"] for one in ran.json["scores"])
    assert first == relevance == [pytest.approx(1 / 3), pytest.approx(2 / 3)]


def test_a_passage_without_a_label_leaves_its_score_incomplete(inside: Cli, tmp_path: Path) -> None:
    """What the file does not label is "no label", as with labels on the contexts, and another scale is kept."""
    row = {"id": "q", "query": "x", "contexts": [{"id": "a", "text": "a"}, {"id": "b", "text": "b"}]}
    data = write_jsonl(tmp_path / "data.jsonl", row)
    (tmp_path / "one.qrels").write_text("q 0 a 4\n")
    ran = inside(
        "run",
        data,
        "-m",
        "P(rel=3,labels=human)@1 P(rel=3,labels=human)@2",
        "--labels",
        "one.qrels",
        "--json",
    )
    first, both = ran.json["measures"].values()
    assert first["mean"] == 1.0
    assert (both["mean"], both["incomplete"]) == (None, 1)


@pytest.fixture
def judged(inside: Cli, tmp_path: Path) -> Path:
    """A report whose measures rest on the order of passages, on claims, and on entities, which nobody labels."""
    rows = [
        {
            "id": f"q{n}",
            "query": f"what is topic {n}",
            "reference": f"Topic {n} is warm.",
            "contexts": [
                {"id": f"d{n}{k}", "text": f"Topic {n} is {'warm' if k else 'told'}."} for k in range(2)
            ],
        }
        for n in range(12)
    ]
    data = write_jsonl(tmp_path / "data.jsonl", *rows)
    measures = "context_precision context_recall context_entity_recall"
    ran = inside("run", data, "-m", measures, "--judge", "lexical", "--no-cache", "-o", "r")
    assert ran.code == 0, ran.err
    return tmp_path / "r"


def corrected(inside: Cli, report: Path) -> dict[str, bool]:
    measures = json.loads(inside("report", report, "--json").out)["measures"]
    return {name: line["corrected"] is not None for name, line in measures.items()}


def test_the_labels_correct_the_means_that_were_promised(inside: Cli, judged: Path) -> None:
    """After the number of answers that is printed first, and not before; passages, then claims, from one input."""
    ran = inside("label", judged, "--who", "ann", stdin="31" * 10)
    promise, claims, never = ran.out.splitlines()[:3]
    assert promise == "corrected after 20 answers of 24 (whole queries): context_precision"
    assert claims == "corrected after 10 answers of 12 (claims): context_recall"
    assert never == "measures not corrected by these labels: context_entity_recall"
    assert corrected(inside, judged) == {
        "context_precision": True, "context_recall": False, "context_entity_recall": False
    }  # fmt: skip
    inside("label", judged, "--who", "ann", stdin="0000" + "y" * 9)
    assert corrected(inside, judged)["context_recall"] is False
    inside("label", judged, "--who", "ann", stdin="n")
    assert corrected(inside, judged) == {
        "context_precision": True, "context_recall": True, "context_entity_recall": False
    }  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "first"), [("30", "corrected after 20"), ("29", "not corrected by 18 answers")]
)
def test_a_budget_is_shared(inside: Cli, judged: Path, budget: str, first: str) -> None:
    """The queues that come later keep what they need; a budget that is too small says so."""
    lines = inside("label", judged, "--who", "ann", "--budget", budget, stdin="q").out.splitlines()
    assert lines[0].startswith(first)
    assert lines[1] == "corrected after 10 answers of 10 (claims): context_recall"


def test_a_design_that_was_named_says_what_it_leaves(inside: Cli, judged: Path) -> None:
    """Single passages correct no measure of order."""
    ran = inside("label", judged, "--who", "ann", "--design", "passages", stdin="q")
    assert ran.out.startswith(
        "measures not corrected by these labels: context_recall, context_precision, context_entity_recall\n"
    )


def test_the_corrected_mean_is_read_first(inside: Cli, judged: Path) -> None:
    """In the terminal, in Markdown and in a notebook; a mean without one has a dash."""
    inside("label", judged, "--who", "ann", stdin="31" * 12)
    out = inside("report", judged, "-o", "r.md").out
    assert re.search(r"measure +corrected +interval +mean +interval +n\b", out)
    assert re.search(r"context_precision +[01]\.\d{4} +\S+ to \S+ +[01]\.\d{4} ", out)
    assert re.search(r"context_recall +- +- +[01]\.\d{4} ", out)
    assert "| measure | corrected | interval | mean | interval |" in (judged.parent / "r.md").read_text()


@pytest.fixture
def torn(inside: Cli, tmp_path: Path) -> Path:
    """A report whose labels.jsonl ends in half a line, and a copy of it with the answers that are whole."""
    rows = [
        {"id": "a", "query": "q", "contexts": [{"text": "one", "grade": 3}, "two"]},
        {"id": "b", "query": "r", "contexts": ["three"]},
    ]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        inside(
            "run", "s.jsonl", "-m", "context_precision", "--judge", "lexical", "-o", "r", "--no-cache"
        ).code
        == 0
    )
    (tmp_path / "add.jsonl").write_text(
        '{"sample": "b", "item": null, "answer": 1}'.replace("null", json.dumps(_item(tmp_path)))
    )
    assert inside("label", "r", "--who", "ann", "--import", "add.jsonl").code == 0
    shutil.copytree(tmp_path / "r", tmp_path / "whole")
    with (tmp_path / "r" / "labels.jsonl").open("a") as file:
        file.write('{"item":"8cd43')
    return tmp_path


def _item(folder: Path) -> str:
    rows = [json.loads(line) for line in (folder / "r" / "places.jsonl").read_text().splitlines()]
    return str(next(row["item"] for row in rows if row["sample"] == "b"))


@pytest.mark.parametrize(
    "verb",
    [
        "report",
        "audit",
        "diagnose",
        "score -m context_precision",
        "explain a",
        "run --resume",
        "compare whole",
    ],
)
def test_half_a_line_of_labels_is_left_out(cli: Cli, inside: Cli, torn: Path, verb: str) -> None:
    """With a note; every other answer counts, as if the line were not there."""
    command, *more = verb.split()
    name = ["--resume", "r"] if "--resume" in more else ["r", *more]
    whole = [{"r": "whole", "whole": "r"}.get(word, word) for word in name]
    asked, right = cli(command, *name), inside(command, *whole)
    assert asked.code == right.code == 0
    assert "labels.jsonl:3: the last line was cut off" in asked.err
    if command != "compare":
        assert asked.out.replace("whole", "r") == right.out.replace("whole", "r")


def test_an_answer_is_not_joined_to_half_a_line(inside: Cli, torn: Path) -> None:
    """It takes the place of the half line; one whose line end alone is missing stays."""
    assert inside("label", "r", "--who", "zoe", "--import", "add.jsonl").code == 0
    whole = torn / "whole" / "labels.jsonl"
    whole.write_text(whole.read_text().rstrip("\n"))
    assert inside("label", "whole", "--who", "zoe", "--import", "add.jsonl").code == 0
    people = [
        [json.loads(line)["who"] for line in (torn / name / "labels.jsonl").read_text().splitlines()]
        for name in ("r", "whole")
    ]
    assert people == [[None, "ann", "zoe"]] * 2
