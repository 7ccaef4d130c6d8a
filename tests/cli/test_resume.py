"""A run may be killed at any instant: the next one asks only what is missing and ends with the same bytes."""

import json
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from germane.types import Json
from tests.cli.conftest import Cli, committed, started, wait_for, write_jsonl
from tests.command import Ran
from tests.server import Act, Asked, ModelServer, by_overlap

SAMPLES = 24
CONTEXTS = 5


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        {
            "id": f"q{n}",
            "query": f"what is thing {n}",
            "reference": f"Thing {n} is good. Thing {n} is old.",
            "contexts": [{"text": f"thing {n} is described in passage {k}"} for k in range(CONTEXTS)],
        }
        for n in range(SAMPLES)
    ]
    return write_jsonl(tmp_path / "data.jsonl", *rows)


def words(data: Path, server: ModelServer, name: str) -> list[str]:
    asked = ["-m", "context_precision@5 context_recall", "--judge", "openai:test", "--base-url", server.url]
    return ["run", str(data), *asked, "-o", name, "--ledger", f"{name}.sqlite", "-j", "4", "-q"]


@pytest.mark.parametrize("after", [3, 40, 90])
def test_a_killed_run_is_continued(inside: Cli, data: Path, tmp_path: Path, after: int) -> None:
    """SIGKILL while judging; resumed, only what was not committed is asked, and scores.jsonl has the same bytes."""
    with ModelServer() as calm:
        assert inside(*words(data, calm, "calm")).code == 0
        everything = calm.count
    with ModelServer(latency=0.02) as server:
        with started(words(data, server, "killed"), tmp_path) as process:
            wait_for(server, after)
            process.send_signal(signal.SIGKILL)
            process.wait()
        time.sleep(0.1)
        kept, before = committed(tmp_path / "killed.sqlite"), server.count
        assert kept < everything
        so_far = inside("report", "killed", "--json").json["judge"][
            "calls"
        ]  # what was paid is never shown as 0
        assert kept <= so_far <= before
        ran = inside("run", "--resume", "killed", "--base-url", server.url, "--json")
        assert ran.code == 0, ran.err
        assert server.count - before == everything - kept
        judge = ran.json["judge"]  # of both sessions, with what was paid and not committed
        assert everything <= judge["calls"] <= server.count
        assert judge["requests"] == judge["calls"]
        assert judge["cached"] == 0
    assert (tmp_path / "killed" / "scores.jsonl").read_bytes() == (
        tmp_path / "calm" / "scores.jsonl"
    ).read_bytes()


def test_ctrl_c_finishes_what_is_in_flight_and_prints_how_to_go_on(
    inside: Cli, data: Path, tmp_path: Path
) -> None:
    """SIGINT: exit 130, every answered question is kept, and the printed command continues."""
    with ModelServer(latency=0.1) as server:
        with started(words(data, server, "stopped"), tmp_path) as process:
            wait_for(server, 10)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"germane run --resume stopped" in err
        assert committed(tmp_path / "stopped.sqlite") == server.count
        shown = inside("report", "stopped")
        assert shown.code == 0
        assert "interrupted (exit code 130): no score was computed yet; continue it" in shown.out
        ran = inside("run", "--resume", "stopped", "--base-url", server.url, "--json")
        assert ran.code == 0, ran.err
        assert committed(tmp_path / "stopped.sqlite") == server.count


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_gives_up_what_is_in_flight(
    inside: Cli, data: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Requests hang: the first signal waits for them and says so, the second leaves at once; what was answered is kept."""
    with ModelServer([*[None] * 8, *[Act(hang=True)] * 4]) as server:
        with started(words(data, server, "stopped"), tmp_path) as process:
            wait_for(server, 12)
            process.send_signal(number)
            assert process.stderr is not None
            assert b"again to abandon them" in process.stderr.readline()
            process.send_signal(number)
            _, err = process.communicate(timeout=10)
        assert process.returncode == 130
        assert b"germane run --resume stopped" in err
        assert committed(tmp_path / "stopped.sqlite") == 8
        ran = inside("run", "--resume", "stopped", "--base-url", server.url, "-q")
        assert ran.code == 0, ran.err


def test_targets_are_not_asked_again(inside: Cli, tmp_path: Path) -> None:
    """What targets answered is on disk before anything is judged: a resumed run asks no target twice."""
    (tmp_path / "system.py").write_text(
        "def answer(query):\n"
        "    open('asked.txt', 'a').write(query + '\\n')\n"
        "    return {'response': 'yes', 'contexts': [{'text': query + ' it is'}]}\n"
    )
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: mine, provider: python, function: 'system:answer', path: .}]\n"
    )
    write_jsonl(tmp_path / "q.jsonl", *({"id": f"c{n}", "query": f"what is thing {n}"} for n in range(6)))
    (tmp_path / "suite.yaml").write_text("target: mine\nmeasures: [context_precision]\ndata: q.jsonl\n")
    with ModelServer(latency=0.3) as server:
        asked = [
            "run",
            "suite.yaml",
            "--judge",
            "openai:test",
            "--base-url",
            server.url,
            "-o",
            "r",
            "-j",
            "1",
        ]
        with started(asked, tmp_path) as process:
            wait_for(server, 2)
            process.kill()
            process.wait()
        answers = [json.loads(line) for line in (tmp_path / "r" / "answers.jsonl").read_text().splitlines()]
        assert len(answers) == 6
        ran = inside("run", "--resume", "r", "--json", "--base-url", server.url)
    assert ran.code == 0, ran.err
    assert [row["status"] for row in ran.json["scores"]] == ["ok"] * 6
    assert len((tmp_path / "asked.txt").read_text().splitlines()) == 6


def test_a_changed_target_does_not_continue_another_ones_answers(inside: Cli, tmp_path: Path) -> None:
    """A report is of one system; what changes no answer may change, and all if none was stored."""
    (tmp_path / "app.py").write_text(
        "import os\n"
        "def answer(query):\n"
        "    if os.path.exists('down') and query != os.environ['UP']:\n"
        "        raise OSError('down')\n"
        "    return [{'id': query}]\n"
        "other = answer\n"
    )
    write_jsonl(tmp_path / "q.jsonl", *({"id": n, "query": n, "qrels": {n: 1}} for n in ("q1", "q2")))

    def ask(function: str, *words: str, workers: int = 1, up: str = "q1") -> Ran:
        entry = f"{{name: mine, provider: python, function: 'app:{function}', path: ., workers: {workers}}}"
        (tmp_path / "targets.yaml").write_text(f"targets: [{entry}]\n")
        return inside("run", *words, env={"UP": up})

    begun = ("q.jsonl", "--target", "mine", "-m", "RR", "-o")
    (tmp_path / "down").touch()
    for report, up in (("one", "q1"), ("none", "")):
        assert ask("answer", *begun, report, up=up).code == 3
    (tmp_path / "down").unlink()
    before = (tmp_path / "one" / "manifest.json").read_bytes()
    refused = ask("other", "--resume", "one")
    assert refused.code == 2
    assert "targets.yaml:1:11: the target mine has changed since" in refused.err
    assert (tmp_path / "one" / "manifest.json").read_bytes() == before
    assert ask("other", "--resume", "none").code == 0
    assert ask("answer", "--resume", "one", workers=3).code == 0
    for _ in range(2):  # all answers are stored, of the target as it was
        assert ask("other", "--resume", "one", "-m", "R@5").code == 0


def test_targets_of_one_name_in_two_files_are_two_targets(inside: Cli, tmp_path: Path) -> None:
    """Neither has changed because the other has other settings."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        code = (
            "import os\ndef answer(query): return [{'id': query}] if query in os.environ['UP'] else 1 / 0\n"
        )
        (tmp_path / name / f"app_{name}.py").write_text(code)
        entry = f"{{name: mine, provider: python, function: 'app_{name}:answer', path: .}}"
        (tmp_path / name / "targets.yaml").write_text(f"targets: [{entry}]\n")
        cases = ({"id": n, "query": n, "qrels": {n: 1}} for n in (name, f"late {name}"))
        write_jsonl(tmp_path / name / "q.jsonl", *cases)
        (tmp_path / name / "eval.yaml").write_text("measures: [RR]\ntarget: mine\ndata: q.jsonl\n")
    assert inside("run", "one/eval.yaml", "two/eval.yaml", "-o", "r", env={"UP": "one two"}).code == 3
    assert inside("run", "--resume", "r", env={"UP": "late one, late two"}).code == 0


@pytest.mark.parametrize(
    "mistake",
    [
        ("--doc-id", "("),
        ("--columns", "quer=q"),
        ("--scale", "grades"),
        ("--labels", "none.jsonl"),
        ("--fail-under", "mean(P@5)>1"),
        ("--baseline", "none"),
        ("--judge", "nobody:test"),
        ("--ledger", "nothing://x"),
    ],
)
def test_a_mistake_in_a_flag_is_found_before_a_target_is_asked(
    inside: Cli, tmp_path: Path, mistake: tuple[str, str]
) -> None:
    """Exit 2, and no query."""
    target = {"name": "t", "provider": "cli", "command_template": "echo x >> asked; echo {PROMPT}"}
    (tmp_path / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    write_jsonl(tmp_path / "s.jsonl", {"id": "q", "query": "q", "qrels": {"d": 1}})
    words = [] if "--judge" in mistake else ["--judge", "lexical"]
    ran = inside("run", "s.jsonl", "--target", "t", "-m", "context_precision", *words, *mistake)
    assert (ran.code, (tmp_path / "asked").exists()) == (2, False), ran.err


def test_answers_of_a_target_serve_only_their_own_evaluation(inside: Cli, tmp_path: Path) -> None:
    """The system changes between two runs: the second asks it again. A complete evaluation is resumed from its samples."""

    def texts(folder: str) -> list[tuple[str, str]]:
        row = json.loads((tmp_path / folder / "samples.jsonl").read_text())
        return [(context["id"], context["text"]) for context in row["contexts"]]

    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: mine, provider: python, function: 'rag:answer', path: .}]\n"
    )
    (tmp_path / "q.jsonl").write_text(json.dumps({"query": "q", "qrels": {"a-1": 1}}))
    run = ("run", "q.jsonl", "-m", "RR", "--target", "mine", "--doc-id", r"(.+)-\d+")
    (tmp_path / "rag.py").write_text(
        "from pathlib import Path\n"
        "def answer(query):\n"
        "    with open('asked.txt', 'a') as file:\n        file.write(query)\n"
        "    return {'contexts': [{'id': 'a-1-2', 'text': Path('index.txt').read_text()}]}\n"
    )
    (tmp_path / "index.txt").write_text("old")
    assert inside(*run, "-o", "r").code == 0
    (tmp_path / "index.txt").write_text("new")
    assert inside(*run, "-o", "s").code == 0
    assert inside("run", "--resume", "r").code == 0
    assert (texts("r"), texts("s")) == ([("a-1", "old")], [("a-1", "new")])
    assert (tmp_path / "asked.txt").read_text() == "qq"
    assert not (tmp_path / "r" / "answers.jsonl").exists()


def test_a_report_is_not_continued_with_other_data(inside: Cli, tmp_path: Path) -> None:
    """It would be replaced; the same data may be named, and data that stands elsewhere by now."""
    row = {"query": "q", "qrels": {"a": 1}, "contexts": [{"id": "a"}]}
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row), "utf-8")
    assert inside("run", "one.jsonl", "-m", "RR", "-o", "r").code == 0
    other = inside("run", "two.jsonl", "--resume", "r")
    assert other.code == 2
    assert "r is an evaluation of one.jsonl, not of two.jsonl" in other.err
    assert inside("run", "one.jsonl", "--resume", "r").code == 0
    (tmp_path / "one.jsonl").unlink()
    assert inside("run", "two.jsonl", "--resume", "r").code == 0


def test_what_failed_is_asked_again(inside: Cli, data: Path) -> None:
    """A finished run with failures: --resume asks again for those and nothing else."""
    ill = [True]

    def answer(kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
        return {"no": "such"} if ill[0] and kind == "claims" else by_overlap(kind, sections, schema)

    with ModelServer(answer=answer) as server:
        ran = inside(*words(data, server, "r"), "--limit", "3")
        assert ran.code == 3
        assert f"ask the failed questions again: germane run --resume r --base-url {server.url}\n" in ran.err
        before = server.count
        ill[0] = False
        ran = inside("run", "--resume", "r", "--json")
        assert ran.code == 0, ran.err
        assert "--resume" not in ran.err
        assert server.count - before == 6  # claims and support of three samples


@pytest.mark.parametrize("act", [Act(status=401, error="key revoked"), Act(status=404)])
def test_a_judge_that_gives_no_answer_leaves_the_report(
    inside: Cli, data: Path, tmp_path: Path, act: Act
) -> None:
    """The report keeps its scores until a resumed run has better ones."""
    answers = [Act(text="no"), act, None]

    def answer(asked: Asked) -> Act | None:
        return answers[0] if len(answers) < 3 or "thing 3 " in asked.user else None

    with ModelServer(answer) as server:
        assert inside(*words(data, server, "made"), "--max-unmeasured", "1").code == 0
        before = inside("report", "made", "--json").out
        del answers[0]
        stopped = inside("run", "--resume", "made")
        assert stopped.code == 2
        assert "the report in made is as it was" in stopped.err
        assert inside("report", "made", "--json").out == before
        del answers[0]
        assert inside("run", "--resume", "made", "-q").code == 0
    assert all(line["errors"] == 0 for line in inside("report", "made", "--json").json["measures"].values())
