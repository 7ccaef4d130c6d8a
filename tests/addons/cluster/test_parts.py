"""An evaluation in parts, on machines of their own: merged, it is the evaluation in one part."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from germane import Report
from germane.addons.cluster.merging import Share
from germane.evaluation.spec import Spec
from tests.cli.conftest import Cli, write_jsonl
from tests.server import ModelServer

MEASURES = "context_precision@5 nDCG@10 RR RBP@10 context_recall"
TABLES = ("scores", "samples", "places", "labels")
WORDS = ("-m", MEASURES, "--judge", "lexical", "--no-cache")


def rows(count: int) -> list[dict[str, object]]:
    """Samples with gold, labels and clusters; every fifth question is asked twice."""
    draw, made = random.Random(5), list[dict[str, object]]()
    for n in range(count):
        topic = n // 5 if n % 5 == 4 else n
        found = draw.sample(range(60), 8)
        texts = [{"id": f"d{d}", "text": f"passage {d} of topic {topic}", "grade": d % 4} for d in found]
        gold = {f"d{d}": d % 3 for d in found[::2]}
        row = {"id": f"q{n}", "query": f"what is topic {topic}?", "contexts": texts, "qrels": gold}
        made.append({**row, "reference": f"Topic {topic} is a passage.", "cluster": f"c{n % 7}"})
    return made


def same_tables(one: Path, other: Path) -> bool:
    """Whether two report folders hold the same rows in the same order, byte by byte."""
    return all(
        (one / f"{name}.jsonl").read_bytes() == (other / f"{name}.jsonl").read_bytes() for name in TABLES
    )


def means(folder: Path) -> object:
    """Everything that a report says but where it stands."""
    document = json.loads(json.dumps(Report.open(folder).to_json()))
    return {name: value for name, value in document.items() if name != "report"}


def test_merged_parts_are_the_whole_to_the_byte(inside: Cli, tmp_path: Path) -> None:
    """Eight parts, merged in any order: rows, means, intervals, gates and what was asked are those of one part."""
    write_jsonl(tmp_path / "s.jsonl", *rows(60))
    words = ("run", "s.jsonl", *WORDS, "--fail-under", "mean(nDCG@10)>=0.1")
    assert inside(*words, "-o", "whole").code == 0
    for number in range(1, 9):
        ran = inside(*words, "-o", f"part{number}", "--part", f"{number}/8")
        assert ran.code == 0, ran.err
        assert "decides the gates on the whole" in ran.out
    order = [5, 1, 8, 2, 7, 3, 4, 6]
    merged = inside("merge", *(f"part{n}" for n in order), "-o", "merged", "-o", "merged.md", "--json")
    assert merged.code == 0, merged.err
    assert merged.json["gates"][0]["outcome"] == "passed"
    assert same_tables(tmp_path / "whole", tmp_path / "merged")
    assert means(tmp_path / "whole") == means(tmp_path / "merged")
    assert (tmp_path / "merged.md").exists()
    both = [Report.open(tmp_path / name).manifest for name in ("whole", "merged")]
    for name in ("asked", "reads", "references", "prompts", "beside", "graders", "settings", "judge"):
        assert both[0][name] == both[1][name], name
    keys = [{one.key for one in Report.open(tmp_path / name).judgements()} for name in ("whole", "merged")]
    assert keys[0] == keys[1]


def test_a_folder_of_parts_is_merged(inside: Cli, tmp_path: Path) -> None:
    """All that are in it, beside what is no report; a folder without any is named."""
    write_jsonl(tmp_path / "s.jsonl", *rows(12))
    for number in (1, 2):
        assert inside("run", "s.jsonl", *WORDS, "-o", f"parts/{number}", "--part", f"{number}/2").code == 0
    (tmp_path / "parts" / "notes.txt").write_text("mine")
    (tmp_path / "parts" / "logs").mkdir()
    assert inside("merge", "parts", "-o", "merged").code == 0
    assert Report.open(tmp_path / "merged")["nDCG@10"].total == 12
    assert "parts/logs is not a report folder" in inside("merge", "parts/logs", "-o", "other").err


def test_a_sample_is_drawn_before_it_is_cut(inside: Cli, tmp_path: Path) -> None:
    """`--sample` draws from all cases, and the parts share what was drawn; a part may have no case at all."""
    write_jsonl(tmp_path / "s.jsonl", *rows(30))
    words = ("run", "s.jsonl", *WORDS, "--sample", "4", "--seed", "2")
    assert inside(*words, "-o", "whole").code == 0
    for number in range(1, 7):
        assert inside(*words, "-o", f"p{number}", "--part", f"{number}/6").code == 0
    merged = inside("merge", *(f"p{n}" for n in range(1, 7)), "-o", "merged")
    assert merged.code == 0, merged.err
    assert "4 of 30 cases, seed 2" in merged.out
    assert same_tables(tmp_path / "whole", tmp_path / "merged")


def test_equal_questions_are_paid_once(inside: Cli, tmp_path: Path) -> None:
    """Each part has a ledger of its own, and equal questions meet in one part: no call more than in one part."""
    write_jsonl(tmp_path / "s.jsonl", *rows(20))
    with ModelServer() as server:
        words = (
            "run",
            "s.jsonl",
            "-m",
            "context_precision@5",
            "--judge",
            "openai:test",
            "--base-url",
            server.url,
        )
        env = {"OPENAI_API_KEY": "test"}
        assert inside(*words, "-o", "whole", "--no-cache", env=env).code == 0
        once = server.count
        for number in (1, 2, 3):
            name = f"p{number}"
            ran = inside(*words, "-o", name, "--ledger", f"{name}.sqlite", "--part", f"{number}/3", env=env)
            assert ran.code == 0, ran.err
        assert server.count == 2 * once
        assert inside("merge", "p1", "p2", "p3", "-o", "merged").code == 0
        assert same_tables(tmp_path / "whole", tmp_path / "merged")
        judge = [Report.open(tmp_path / name).manifest["judge"] for name in ("whole", "merged")]
        assert judge[0]["calls"] == judge[1]["calls"] == once
        again = inside("run", "--resume", "merged", "--json", "--base-url", server.url, env=env)
        assert again.json["judge"]["calls"] == once
        assert server.count == 2 * once


def test_what_cannot_be_merged(inside: Cli, tmp_path: Path) -> None:
    """Parts that are missing, there twice, unfinished, whole reports or of other runs are named."""
    write_jsonl(tmp_path / "s.jsonl", *rows(12))
    words = ("run", "s.jsonl", "-m", "RR", "-o")
    for name, more in (("p1", ["--part", "1/3"]), ("p3", ["--part", "3/3"]), ("whole", [])):
        assert inside(*words, name, *more).code == 0
    assert inside(*words, "other", "--part", "2/3", "--limit", "5").code == 0
    for given, problem in (
        (["p1", "p3"], "missing parts: 2/3; run the same command with --part 2/3"),
        (["p1", "p1"], "are reports of the same part"),
        (["p1", "whole"], "whole is not the report of a part"),
        (["p1", "other", "p3"], "belong to different evaluations: cases, limit"),
    ):
        ran = inside("merge", *given, "-o", "merged")
        assert ran.code == 2
        assert problem in ran.err
        assert not (tmp_path / "merged").exists()
    write_jsonl(tmp_path / "s.jsonl", *({**row, "reference": "another"} for row in rows(12)))
    assert inside(*words, "p2", "--part", "2/3").code == 0
    assert "the input s.jsonl" in inside("merge", "p1", "p2", "p3", "-o", "merged").err
    assert "needs a folder" in inside("merge", "p1", "-o", "x.md").err
    manifest = json.loads((tmp_path / "p1" / "manifest.json").read_text("utf-8"))
    (tmp_path / "p1" / "manifest.json").write_text(json.dumps({**manifest, "status": "running"}), "utf-8")
    assert "germane run --resume p1" in inside("merge", "p1", "p3", "-o", "merged").err


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0", "-1/4"])
def test_what_is_no_part(inside: Cli, tmp_path: Path, text: str) -> None:
    """A part is one of 1/N to N/N."""
    write_jsonl(tmp_path / "s.jsonl", *rows(2))
    ran = inside("run", "s.jsonl", "-m", "RR", f"--part={text}")
    assert ran.code == 2
    assert "write --part 3/16" in ran.err


def test_limits_are_shared() -> None:
    """What all parts together may spend is what the whole may."""
    whole = Spec.of(rpm=100, tpm=1e6, max_cost=8.0, max_calls=10, jobs=3)
    shares = [Share(n, 4).of_limits(whole) for n in range(1, 5)]
    assert [one.rpm for one in shares] == [25.0] * 4
    assert [one.max_cost for one in shares] == [2.0] * 4
    assert [one.max_calls for one in shares] == [3, 3, 2, 2]
    assert [one.jobs for one in shares] == [1, 1, 1, 1]
    assert Share(2, 4).of_limits(Spec.of()).rpm is None


def test_a_measure_that_no_sample_can_have_is_no_fault_of_a_part(inside: Cli, tmp_path: Path) -> None:
    """Whether a measure can be computed is seen from all samples: a part without any that can is no error."""
    made = rows(8)
    for row in made[1:]:
        del row["reference"]
    write_jsonl(tmp_path / "s.jsonl", *made)
    words = ("run", "s.jsonl", "-m", "context_recall", "--judge", "lexical", "--no-cache")
    for number in (1, 2, 3):
        assert inside(*words, "-o", f"p{number}", "--part", f"{number}/3").code == 0
    ran = inside("merge", "p1", "p2", "p3", "-o", "merged", "--json")
    assert ran.json["measures"]["context_recall"]["n"] == 1


def test_targets_are_asked_by_the_part_that_has_the_case(inside: Cli, tmp_path: Path) -> None:
    """Answers of a live target, several trials of each case: the parts ask what one part would, and are as one."""
    (tmp_path / "parts_rag.py").write_text(
        "def answer(query):\n"
        "    number = query.split()[-1]\n"
        "    with open('asked', 'a') as asked:\n"
        "        asked.write(number + ' ')\n"
        "    return [{'id': 'd' + number, 'text': 'it is ' + number}]\n",
        "utf-8",
    )
    target = "{name: rag, provider: python, function: 'parts_rag:answer', path: .}"
    (tmp_path / "targets.yaml").write_text(f"targets:\n  - {target}\n", "utf-8")
    questions = ({"id": f"q{n}", "query": f"what is {n}", "qrels": {f"d{n}": 1}} for n in range(9))
    write_jsonl(tmp_path / "q.jsonl", *questions)
    (tmp_path / "e.yaml").write_text("target: rag\nmeasures: [nDCG@5]\ndata: q.jsonl\n", "utf-8")
    words = ("run", "e.yaml", "--trials", "2")
    whole = inside(*words, "-o", "whole")
    assert whole.code == 0, whole.err
    asked = sorted((tmp_path / "asked").read_text("utf-8").split())
    (tmp_path / "asked").unlink()
    for number in (1, 2):
        assert inside(*words, "-o", f"p{number}", "--part", f"{number}/2").code == 0
    assert sorted((tmp_path / "asked").read_text("utf-8").split()) == asked
    assert inside("merge", "p1", "p2", "-o", "merged").code == 0
    scores = (tmp_path / "whole" / "scores.jsonl").read_bytes()  # samples say how long their answers took
    assert (tmp_path / "merged" / "scores.jsonl").read_bytes() == scores
    again = inside("run", "--resume", "merged")
    assert again.code == 0, again.err
    assert sorted((tmp_path / "asked").read_text("utf-8").split()) == asked
    assert (tmp_path / "merged" / "scores.jsonl").read_bytes() == scores


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--part", ""), "--part is empty"),
        (("--engine", ""), "--engine is empty"),
        (("--until", "0.1", "--part", "1/2"), "--until cannot be combined"),
    ],
)
def test_what_parts_cannot_be_is_said(
    inside: Cli, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    """Exit code 2, before anything is asked."""
    write_jsonl(tmp_path / "s.jsonl", {"query": "q", "contexts": ["a", "b"]})
    ran = inside("run", "s.jsonl", "-m", "context_relevancy", "--judge", "lexical", *words)
    assert (ran.code, problem in ran.err) == (2, True), ran.err
