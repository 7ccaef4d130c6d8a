"""`germane run` as its user meets it: files in, a table, a report folder and an exit code out."""

import json
from itertools import product
from pathlib import Path

import jsonschema
import pytest
from scripts.reference_pages import schema_of

from germane.reports.formats import Document
from germane.types import Json
from tests.cli.conftest import Cli, write_jsonl

LABELLED = [
    {"id": "q1", "query": "a", "qrels": {"d1": 1}, "contexts": [{"id": "d1", "text": "x", "grade": 3}]},
    {
        "id": "q2",
        "query": "b",
        "qrels": {"d9": 1},
        "contexts": [{"id": "d2", "text": "y", "grade": 0}, {"id": "d9", "text": "z", "grade": 2}],
    },
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "data.jsonl", *LABELLED)


def test_labelled_samples_are_scored(cli: Cli, data: Path, tmp_path: Path) -> None:
    """People's grades judge, the document obeys its schema, the folder holds the four tables."""
    ran = cli("run", data, "-m", "context_precision@5 RR", "--judge", "labels", "--json", "-o", "report")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, schema_of(Document))
    assert ran.json["measures"]["context_precision@5"]["mean"] == pytest.approx(0.75)
    assert ran.json["measures"]["RR"]["n"] == 2
    files = {path.name for path in (tmp_path / "report").iterdir()}
    assert files == {
        "manifest.json",
        "samples.jsonl",
        "places.jsonl",
        "judgements.jsonl",
        "labels.jsonl",
        "scores.jsonl",
    }


def test_the_report_is_read_again(inside: Cli, data: Path, tmp_path: Path) -> None:
    """`germane report` prints the same table, and every format is written."""
    ran = inside("run", data, "-m", "context_precision@5", "--judge", "labels", "-o", "report")
    again = inside("report", "report", "-o", "a.json", "-o", "a.csv", "-o", "a.md", "-o", "a.jsonl")
    assert again.code == 0
    assert again.out == ran.out
    assert json.loads((tmp_path / "a.json").read_text())["measures"]["context_precision@5"]["mean"] == 0.75
    assert (tmp_path / "a.csv").read_text().count("\n") == 3
    assert "| context\\_precision@5 | 0.7500 |" in (tmp_path / "a.md").read_text()


def test_no_judge_is_ever_chosen_in_silence(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Without a judge: exit 2, the three ways to name one, and no report folder."""
    ran = inside("run", data, "-m", "context_precision@5")
    assert ran.code == 2
    assert "--judge labels | lexical | openai:gpt-4o-mini" in ran.err
    assert ran.out == ""
    assert not (tmp_path / "germane-reports").exists()


def test_the_judge_may_stand_in_the_environment(inside: Cli, data: Path) -> None:
    """GERMANE_JUDGE names it, a flag goes before it."""
    ran = inside("run", data, "-m", "context_precision@5", "--json", env={"GERMANE_JUDGE": "labels"})
    assert ran.json["judge"]["source"] == "labels"
    ran = inside(
        "run",
        data,
        "-m",
        "context_precision@5",
        "--judge",
        "lexical",
        "--json",
        env={"GERMANE_JUDGE": "labels"},
    )
    assert ran.json["judge"]["source"] == "lexical"


def test_a_stand_in_says_so(cli: Cli, data: Path) -> None:
    """Every report of the lexical judge carries the sentence that it only stands in for a model."""
    assert "stands in for a model" in cli("run", data, "-m", "context_precision@5", "--judge", "lexical").out


def test_a_measure_that_no_sample_could_have_names_what_is_missing(inside: Cli, data: Path) -> None:
    """context_recall without any reference: exit 2, saying so; the other measure is still there."""
    ran = inside("run", data, "-m", "context_recall RR", "--judge", "lexical", "--json")
    assert ran.code == 2
    assert "no reference" in " ".join(ran.json["verdict"])
    assert ran.json["measures"]["RR"]["mean"] == 0.75


@pytest.mark.parametrize(("gate", "code"), [("mean(RR)>=0.7", 0), ("mean(RR)>=0.8", 1), ("max(RR)=1", 0)])
def test_gates_decide_the_exit_code(inside: Cli, data: Path, gate: str, code: int) -> None:
    """--fail-under fails with 1 and passes with 0; the document and the code agree."""
    ran = inside("run", data, "-m", "RR", "--fail-under", gate, "--json")
    assert ran.code == code
    assert (ran.json["exit_code"], ran.json["passed"]) == (code, code == 0)


@pytest.mark.parametrize(
    ("gate", "said"), [("mean(RR)>=0.8", "failed  mean(RR)>=0.8  mean 0.7500"), ("max(RR)=1", "")]
)
def test_quiet_still_prints_what_failed(inside: Cli, data: Path, gate: str, said: str) -> None:
    """-q prints nothing where everything was reached, and the failed gates where not."""
    ran = inside("run", data, "-m", "RR", "--fail-under", gate, "-q")
    assert ran.out == ""
    assert said in ran.err
    assert bool(ran.err) is bool(said)


def test_the_name_of_a_local_judge_in_capitals(inside: Cli, tmp_path: Path) -> None:
    """`--judge Labels` is `labels`; a misspelt judge is told the one that was probably meant."""
    context = {"text": "the tide", "relevant": True}
    data = write_jsonl(tmp_path / "data.jsonl", {"query": "tide", "contexts": [context]})
    small, capital = (inside("run", data, "--judge", name, "--json").json for name in ("labels", "Labels"))
    assert small["measures"] == capital["measures"]
    assert capital["measures"]["context_precision"]["mean"] == 1
    assert "did you mean openai:gpt-4o?" in inside("run", data, "--judge", "opnai:gpt-4o").err


def test_nine_verdicts_of_ten_give_exact_bounds(inside: Cli, tmp_path: Path) -> None:
    """One unlabelled context of ten: incomplete, with the bounds that enumerating both answers gives."""
    grades: list[int | None] = [3, 0, None, 2, 0, 0, 1, 3, 0, 2]
    contexts = [
        {"text": f"passage {n}"} | ({} if grade is None else {"grade": grade})
        for n, grade in enumerate(grades)
    ]
    data = write_jsonl(tmp_path / "ten.jsonl", {"id": "q", "query": "a", "contexts": contexts})
    ran = inside("run", data, "-m", "context_precision@10", "--judge", "labels", "--json")
    (score,) = ran.json["scores"]

    def precision(labels: list[bool]) -> float:
        hits = [sum(labels[: k + 1]) / (k + 1) for k in range(len(labels)) if labels[k]]
        return sum(hits) / len(hits)

    known = [[grade >= 2] if grade is not None else [False, True] for grade in grades]
    possible = [precision(list(labels)) for labels in product(*known)]
    assert (score["status"], score["value"]) == ("incomplete", None)
    assert score["bounds"] == pytest.approx([min(possible), max(possible)])
    assert "1 of 10 verdicts missing: no label" in score["why"]
    assert ran.code == 3
    report = tmp_path / ran.json["report"]
    assert not (report / "judgements.jsonl").read_text("utf-8")  # labels are labels
    assert len((report / "labels.jsonl").read_text("utf-8").splitlines()) == 9


def test_measures_are_added_without_a_judge(inside: Cli, data: Path) -> None:
    """`germane score` computes new measures from the stored verdicts, and refuses what was never asked."""
    inside("run", data, "-m", "context_precision@5", "--judge", "lexical", "-o", "report")
    ran = inside("score", "report", "-m", "context_position nDCG(labels=judge)@5", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["judge"]["calls"] == 0
    assert ran.json["judge"]["cached"] > 0
    assert set(ran.json["measures"]) == {"context_position", "nDCG(ideal=retrieved,labels=judge)@5"}
    refused = inside("score", "report", "-m", "context_precision(labels=judge)@5 context_recall")
    assert refused.code == 2


def test_a_second_run_asks_nobody(inside: Cli, data: Path) -> None:
    """The ledger answers: 0 calls, the same scores, another report."""
    first = inside("run", data, "-m", "context_precision@5", "--judge", "lexical", "--json")
    second = inside("run", data, "-m", "context_precision@5", "--judge", "lexical", "--json")
    assert first.json["judge"]["calls"] == 3
    assert (second.json["judge"]["calls"], second.json["judge"]["cached"]) == (0, 3)
    assert second.json["scores"] == first.json["scores"]
    assert second.json["report"] != first.json["report"]


def test_a_wrong_line_is_named(inside: Cli, tmp_path: Path) -> None:
    """A bad sample: exit 2, file and line, no traceback."""
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "a", "query": "x", "contexts": []}\n{"id": "b", "query": 7}\n')
    ran = inside("run", path, "-m", "RR")
    assert ran.code == 2
    assert "bad.jsonl:2" in ran.err
    assert "Traceback" not in ran.err


def test_a_misspelt_measure_names_the_nearest(inside: Cli, data: Path) -> None:
    """`context_precison@5` is told what it probably is."""
    ran = inside("run", data, "-m", "context_precison@5", "--judge", "labels")
    assert ran.code == 2
    assert "did you mean context_precision?" in ran.err


def test_what_is_left_out_is_left_out(inside: Cli, data: Path) -> None:
    """--limit takes the first cases, --filter those that match, --sample as many as asked, the same for a seed."""

    def ids(*words: str) -> list[str]:
        ran = inside("run", data, "-m", "RR", "--json", *words)
        return [row["sample"] for row in ran.json["scores"]]

    assert ids("--limit", "1") == ["q1"]
    assert ids("--filter", "*2") == ["q2"]
    assert ids("--sample", "1", "--seed", "3") == ids("--sample", "1", "--seed", "3")


def test_a_case_is_chosen_with_all_its_systems_and_trials(inside: Cli, tmp_path: Path) -> None:
    """--sample draws cases, and --limit takes the first ones: systems are compared over the same queries."""
    one: list[dict[str, object]] = [
        {"id": f"q{n}", "query": f"question {n}", "contexts": [], "qrels": {"d": 1}} for n in range(9)
    ]
    kinds: dict[str, list[dict[str, object]]] = {
        "stacked": [{**row, "system": system} for system in "ab" for row in one],
        "mixed": [{**row, "system": system} for row in one for system in "ab"],
        "trials": [{**row, "trial": trial} for row in one for trial in range(2)],
    }
    for kind, data in kinds.items():
        path = write_jsonl(tmp_path / f"{kind}.jsonl", *data)
        words = ("run", path, "-m", "RR", "--seed", "3", "--json")
        drawn = inside(*words, "--sample", "4").json
        ids = [row["sample"] for row in drawn["scores"]]
        assert sorted(map(ids.count, set(ids))) == [2, 2, 2, 2]
        line = drawn.get("systems", [drawn])[0]["measures"]["RR"]
        assert line["sampled"] == {"n": 4, "of": 9, "seed": 3}
        first = [row["sample"] for row in inside(*words, "--limit", "3").json["scores"]]
        assert sorted(first) == ["q0", "q0", "q1", "q1", "q2", "q2"]


def test_one_id_in_two_files_is_an_error(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Two files with the same ids cannot be told apart in one report; with a system each they can."""
    other = write_jsonl(tmp_path / "other.jsonl", *LABELLED)
    ran = inside("run", data, other, "-m", "RR")
    assert ran.code == 2
    assert "'q1' occurs in" in ran.err
    named = write_jsonl(tmp_path / "named.jsonl", *({**row, "system": "new"} for row in LABELLED))
    ran = inside("run", data, named, "-m", "RR", "--json")
    assert [line["system"] for line in ran.json["systems"]] == ["", "new"]


TARGETS = """
targets:
  - name: good
    provider: mock
    response: '{"answer": "yes", "retrieved_context": [{"text": "p", "grade": 3}]}'
  - name: poor
    provider: mock
    response: '{"answer": "no", "retrieved_context": [{"text": "p", "grade": 0}, {"text": "r", "grade": 3}]}'
  - name: prose
    provider: mock
    response: I do not know.
"""


def eval_file(tmp_path: Path, text: str, targets: str = "") -> Path:
    if targets:
        (tmp_path / "targets.yaml").write_text(targets)
        write_jsonl(tmp_path / "one.jsonl", {"id": "one", "query": "What is it?"})
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return path


def test_each_eval_file_queries_the_target_of_its_own_folder(inside: Cli, tmp_path: Path) -> None:
    """Two folders, each with a targets.yaml that has a target of the same name."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        answer = f'{{contexts: [{{id: {name}, text: "{name}"}}]}}'
        eval_file(
            tmp_path / name,
            "measures: RR\ndata: one.jsonl\ntarget: t\n",
            f"targets: [{{name: t, provider: mock, response: {answer}}}]",
        )
        write_jsonl(tmp_path / name / "one.jsonl", {"id": name, "query": "q", "qrels": {name: 1}})
    document = inside("run", tmp_path / "a" / "suite.yaml", tmp_path / "b" / "suite.yaml", "--json").json
    assert [score["value"] for score in document["scores"]] == [1.0, 1.0]


def test_a_written_name_is_kept(inside: Cli, tmp_path: Path) -> None:
    """A measure before it that is called so by itself gets a number."""
    suite = eval_file(tmp_path, "measures: [RR, {measure: P@1, name: RR}]\ndata: rows.jsonl\n")
    contexts = [{"id": "b", "text": "t"}, {"id": "a", "text": "u"}]
    write_jsonl(tmp_path / "rows.jsonl", {"query": "q", "qrels": {"a": 1}, "contexts": contexts})
    scores = inside("run", suite, "--json").json["scores"]
    assert [(score["measure"], score["type"], score["value"]) for score in scores] == [
        ("RR-2", "RR", 0.5),
        ("RR", "P@1", 0.0),
    ]


def test_a_strict_measure_fails_a_case_with_noise(inside: Cli, tmp_path: Path) -> None:
    """Its score stays; the result of the case is fail, and the score says why."""
    suite = eval_file(
        tmp_path,
        """
judge: labels
measures: [{type: "context_precision@5", strict: true, expected_relevant_count: 1}]
data: rows.jsonl
""",
    )
    good, bad = {"text": "a", "grade": 3}, {"text": "b", "grade": 0}
    lists = {"clean": [good], "noisy": [good, bad], "none": [bad]}
    rows = ({"id": name, "query": "q", "contexts": contexts} for name, contexts in lists.items())
    write_jsonl(tmp_path / "rows.jsonl", *rows)
    document = inside("run", suite, "--json").json
    assert [(case["sample"], case["score"], case["verdict"]) for case in document["cases"]] == [
        ("clean", 1.0, "pass"),
        ("noisy", 1.0, "fail"),
        ("none", 0.0, "fail"),
    ]
    assert [score["why"] for score in document["scores"]] == [
        None,
        "strict: 1 of 2 contexts are not relevant",
        "strict: 1 of 1 contexts are not relevant; 0 relevant contexts found, 1 expected",
    ]


def test_a_required_grader_is_a_gate(inside: Cli, tmp_path: Path) -> None:
    """A case below a required threshold fails the evaluation and is named."""
    path = eval_file(
        tmp_path,
        """
target: poor
judge: labels
measures: [{name: precision, type: context_precision, required: true}]
data: one.jsonl
""",
        TARGETS,
    )
    ran = inside("run", path, "--json")
    assert ran.code == 1
    assert ran.json["cases"][0]["failed_required"] == ["precision"]
    assert "one" in " ".join(ran.json["verdict"])


def test_an_answer_without_contexts_is_an_error_of_its_case(inside: Cli, tmp_path: Path) -> None:
    """Prose holds no contexts: status error, not 0, and exit 3."""
    path = eval_file(
        tmp_path,
        "target: prose\njudge: labels\nmeasures: [context_precision]\ndata: one.jsonl\n",
        TARGETS,
    )
    ran = inside("run", path, "--json")
    assert ran.code == 3
    (score,) = ran.json["scores"]
    assert (score["status"], score["value"]) == ("error", None)
    assert "no contexts found" in score["why"]


def test_two_systems_side_by_side(inside: Cli, tmp_path: Path) -> None:
    """--target twice reports each system apart."""
    path = eval_file(tmp_path, "judge: labels\nmeasures: [context_precision]\ndata: one.jsonl\n", TARGETS)
    ran = inside("run", path, "--target", "good", "--target", "poor", "--json")
    assert ran.code == 0, ran.err
    means: dict[str, Json] = {
        line["system"]: line["measures"]["context_precision"]["mean"] for line in ran.json["systems"]
    }
    assert means == {"good": 1.0, "poor": 0.5}
