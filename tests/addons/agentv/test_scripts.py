"""Grading scripts: what they read and print, and that none of them harms the evaluation."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from germane import evaluate
from germane.addons.agentv.graders import CodeGrader
from germane.addons.agentv.graders.code_grader import ScriptGrade
from germane.evalfiles import Case
from germane.graders import GraderResult
from germane.processes import KEPT_STDERR, child_environment, run_program
from germane.types import FrozenDict, Message, Sample, ToolCall
from tests.addons.agentv.running import graded, told

CASE = Case(
    sample=Sample(
        id="1",
        query="How long?",
        response="Four minutes.",
        messages=(
            Message(role="assistant", content="Four minutes.", tool_calls=(ToolCall(tool="search"),) * 2),
        ),
        metadata=FrozenDict(
            {"token_usage": FrozenDict({"input": 7, "output": 3}), "cost_usd": 0.5, "ms": 20}
        ),
    ),
    question="How long?",
    expected_outcome="Says four minutes",
    reference_answer="4 min",
)


def python(code: str, case: Case = CASE, **options: Any) -> GraderResult:
    """The result of a Python script."""
    return graded(CodeGrader(script=(sys.executable, "-c", code), **options), case)


def shell(script: str, case: Case = CASE, **options: Any) -> GraderResult:
    return graded(CodeGrader(script=script, **options), case)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ended(file: Path) -> bool:
    """Whether the process that wrote its id into a file has ended."""
    pid = int(file.read_text())
    for _ in range(250):
        if not alive(pid):
            return True
        time.sleep(0.02)
    return False


ECHO = "import json,sys;print(json.dumps({'score': 1, 'details': json.load(sys.stdin)}))"


def test_the_document_has_both_generations_keys() -> None:
    """Question, answers, messages and the summary of the trace, under the names of both."""
    details = told(python(ECHO, config={"k": 3}))
    assert details["question"] == "How long?"
    assert details["candidate_answer"] == details["output"] == "Four minutes."
    assert details["trace_summary"]["llm_call_count"] == sum(
        m["role"] == "assistant" for m in details["messages"]
    )
    assert (details["criteria"], details["expected_outcome"]) == ("Says four minutes",) * 2
    assert details["reference_answer"] == "4 min"
    assert details["config"] == {"k": 3}
    assert details["trace_summary"] == {
        "event_count": 2,
        "tool_names": ["search"],
        "tool_calls_by_name": {"search": 2},
        "tool_calls": {"search": 2},
        "error_count": 0,
        "llm_call_count": details["trace_summary"]["llm_call_count"],
        "token_usage": {"input": 7, "output": 3},
        "cost_usd": 0.5,
        "duration_ms": 20,
    }
    assert (details["cost_usd"], details["duration_ms"]) == (0.5, 20)


def test_a_document_without_messages_has_no_trace_summary() -> None:
    """Nothing to sum up."""
    assert python(ECHO, Case(sample=Sample(id="1", query="q", response="r"))).details["trace_summary"] is None


def test_the_newer_generation_s_assertions_are_hits_and_misses() -> None:
    """Without a score the share that passed is it."""
    found = shell(
        """echo '{"assertions": [{"text": "a", "passed": true}, {"text": "b", "passed": false, "evidence": "e"}]}'"""
    )
    assert (found.score, found.hits, found.misses) == (0.5, ("a",), ("b - e",))
    assert found.assertions[1] == {"text": "b", "passed": False, "evidence": "e"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo oops >&2; exit 3", "exit code 3"),
        (
            "echo oops >&2; echo hello",
            "it must print one JSON document: this is not valid JSON: expecting value; its stderr ends: oops; its stdout ends: hello",
        ),
        ("echo oops >&2; echo '{\"verdict\": 1}'", 'must print a number as "score"'),
        ('echo oops >&2; echo \'{"score": "1"}\'', 'must print a number as "score"'),
        ("echo oops >&2; no-such-program-at-all", "on PATH"),
    ],
)
def test_a_script_without_a_score_is_an_error(script: str, why: str) -> None:
    """Never a score of 0; the end of its stderr is shown."""
    found = shell(script)
    assert (found.score, found.status) == (None, "error")
    assert why in str(found.why)
    assert "oops" in str(found.why)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (
            '{"assertions": [\n{"text": "a", "passed": "false"}]}',
            '"passed" of assertion 1 must be true or false, not "false"; its stdout ends: {"assertions": [\n{"text": "a", "passed": "false"}]}',
        ),
        ('{"assertions": [{"text": "a", "passed": 1}]}', "must be true or false, not 1"),
        (
            '{"score": 1, "assertions": [{"text": "a"}]}',
            '"passed" of assertion 1 must be true or false, and is missing',
        ),
        (
            '{"hits": [],\n "score": 2}',
            '"score" must be a number from 0 to 1, not 2; its stdout ends: {"hits": []',
        ),
        ('{"score": -0.1}', "a number from 0 to 1, not -0.1"),
        ('{"score": 1.0000001}', "a number from 0 to 1, not 1.0000001"),
        ('{"score": %s}' % ("9" * 400), "a number from 0 to 1, not 999"),
        ('{"score": %s}' % ("9" * 5000), "a number of this JSON has too many digits"),
        ('{"score": 1e999}', "a number from 0 to 1, not Infinity"),
        ('{"score": NaN}', "NaN and Infinity are not JSON"),
        ('{"score": true}', 'must print a number as "score", not true'),
        ('{"score": 0,\n"score": 1}', "the key 'score' occurs twice"),
        ('{"score": 1}\n{"score": 0}', 'extra data; its stdout ends: {"score": 1}'),
        ('{"assertions": {"text": "a"}}', '"assertions" must be a list'),
    ],
)
def test_what_is_not_as_the_protocol_asks_is_an_error(document: str, why: str) -> None:
    """Of that score, with the end of stdout; nothing is cut or guessed."""
    found = python(f"print({document!r})")
    assert (found.score, found.status) == (None, "error")
    assert why in str(found.why)


@pytest.mark.parametrize(
    ("document", "score"),
    [
        ('{"assertions": [{"text": "a", "passed": "false"}, {"text": "b"}]}', 0.5),
        ('{"score": 2}', 1.0),
        ('{"score": -3}', 0.0),
        ('{"score": 0, "score": 1}', 1.0),
    ],
)
def test_agentv_reads_a_document_its_own_way(document: str, score: float) -> None:
    """The score is cut to its range, the last of two counts, and anything true has passed."""
    found = python(f"print({document!r})", compatibility="agentv")
    assert (found.status, found.score) == ("ok", score)


def test_a_program_that_does_not_exist_is_an_error() -> None:
    """The command and where it was started."""
    found = graded(CodeGrader(script=("/no/such/program",), cwd="/tmp"), CASE)
    assert found.why == "could not start `/no/such/program` in /tmp: No such file or directory"


def test_the_tail_of_stderr_is_shown() -> None:
    """The last words say what went wrong, not the first."""
    found = python("import sys; sys.stderr.write('fi' + 'rst' + 'x' * 9000 + 'last'); sys.exit(1)")
    assert str(found.why).endswith("xlast")
    assert "first" not in str(found.why)


def test_a_script_that_never_reads_does_no_harm() -> None:
    """Its document is larger than any pipe."""
    long = Case(sample=Sample(id="1", query="q", response="x" * 5_000_000))
    assert shell("""echo '{"score": 1}'""", long).score == 1


def test_a_script_that_floods_its_stdout_is_ended(tmp_path: Path) -> None:
    """A gigabyte is not read: it is ended after the first megabyte."""
    pid = tmp_path / "pid"
    found = shell(f"echo $$ > {pid}; exec head -c 1000000000 /dev/zero")
    assert "printed more than 1 MB" in str(found.why)
    assert ended(pid)


def test_of_a_flood_on_stderr_the_end_is_kept() -> None:
    """A gigabyte passes through, 64 kB stay."""
    command = ["sh", "-c", "head -c 1000000000 /dev/zero >&2; echo end >&2; echo '{}'"]
    finished = asyncio.run(run_program(command, cwd="/", env=child_environment(), seconds=60))
    assert len(finished.stderr) == KEPT_STDERR
    assert finished.stderr.endswith(b"end\n")
    assert (finished.code, finished.stdout) == (0, b"{}\n")


def test_a_script_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """Those that ignore a polite signal and hold its output open too."""
    pid = tmp_path / "pid"
    code = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    open({str(pid)!r}, "w").write(str(os.getpid()))
sys.stderr.write("at work"); sys.stderr.flush()
time.sleep(600)
"""
    found = python(code, timeout=1.0)
    assert "was stopped after 1 s" in str(found.why)
    assert "at work" in str(found.why)
    assert ended(pid)


def test_what_a_script_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """A child that stays and holds stdout open delays nothing."""
    pid = tmp_path / "pid"
    found = shell(f"""sleep 600 & echo $! > {pid}; echo '{{"score": 0.5}}'""", timeout=300)
    assert found.score == 0.5
    assert ended(pid)


def test_a_child_with_a_session_of_its_own_is_not_waited_for(tmp_path: Path) -> None:
    """It escapes, with its end of the pipe; the score is there all the same."""
    pid = tmp_path / "pid"
    code = f"""
import os, time
if os.fork() == 0:
    os.setsid(); open({str(pid)!r}, "w").write(str(os.getpid())); time.sleep(600)
while not os.path.exists({str(pid)!r}): time.sleep(0.01)
print('{{"score": 1}}')
"""
    try:
        assert python(code, timeout=60).score == 1
    finally:
        os.kill(int(pid.read_text()), 9)


def test_only_named_variables_reach_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allow-list: no key of a provider unless `env` names it."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("LC_TIME", "C")
    code = "import json,os;print(json.dumps({'score': 1, 'details': dict(os.environ)}))"
    details = told(python(code))
    assert "OPENAI_API_KEY" not in details
    assert details["LC_TIME"] == "C"
    assert "PATH" in details
    assert python(code, env=("OPENAI_API_KEY",)).details["OPENAI_API_KEY"] == "secret"


def test_one_script_with_two_environments_is_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first grader's score was that of all with the same script and document."""
    monkeypatch.setenv("WANTED", "1")
    code = "import json,os;print(json.dumps({'score': float('WANTED' in os.environ)}))"
    graders = [
        CodeGrader(name=name, script=(sys.executable, "-c", code), env=env)
        for name, env in {"without": (), "with": ("WANTED",)}.items()
    ]
    report = evaluate([{"query": "q", "response": "a"}], graders)
    assert (report["without"].mean, report["with"].mean) == (0.0, 1.0)


def test_a_limit_of_calls_that_equals_the_usual_timeout_is_another_question() -> None:
    """120 calls were taken for the default of 120 seconds, and left out."""
    usual = ScriptGrade(command="true", document=FrozenDict())
    assert usual.item != ScriptGrade(command="true", document=FrozenDict(), max_calls=120).item


def test_agentv_keeps_the_end_of_stderr_in_its_miss() -> None:
    """As the original words it."""
    found = shell("echo gone >&2; exit 2", compatibility="agentv")
    assert found.score == 0
    assert found.misses == ("Code evaluator failed: Code evaluator exited with code 2: gone",)


def test_the_exit_without_output_of_json_is_reported_as_json_would_be() -> None:
    """What stands on the score's row can be written and read."""
    found = shell("exit 1")
    assert json.loads(json.dumps(found.as_json()))["status"] == "error"


def test_what_a_failing_script_printed_is_shown() -> None:
    """Its reasoning and its misses may stand on stdout, as well as after a time-out."""
    printed = '{"score": 0, "misses": ["no judge"], "reasoning": "the key is missing"}'
    found = shell(f"echo '{printed}'; echo oops >&2; exit 1")
    assert found.score is None
    assert "ended with exit code 1" in str(found.why)
    assert f"; its stderr ends: oops; its stdout ends: {printed}" in str(found.why)
    slow = python("import time; print('so far so good', flush=True); time.sleep(60)", timeout=1.0)
    assert "its stdout ends: so far so good" in str(slow.why)
    assert "it printed nothing" in str(shell("exit 1").why)


def test_a_command_finds_the_programs_beside_this_python(tmp_path: Path) -> None:
    """A login shell sets PATH anew, and yet `germane` of a virtual environment runs."""
    program = Path(sys.executable).with_name("germane")
    assert program.exists()
    found = shell("""command -v germane >&2; germane --version >&2; echo '{"score": 1}'""")
    assert found.score == 1, found.why
    code = 'import json,os; print(json.dumps({"score": 1, "details": {"path": os.environ["PATH"]}}))'
    listed = shell(f"{sys.executable} -c '{code}'")
    assert str(program.parent) in told(listed)["path"].split(":")


def test_a_command_keeps_the_path_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands on PATH here is found after what a login shell puts there."""
    tool = tmp_path / "mytool"
    tool.write_text("#!/bin/sh\necho '{\"score\": 0.25}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert shell("mytool").score == 0.25


def test_a_failing_script_is_told_how_variables_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a script that ends with an error names `env:`, and shows no value."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    why = str(shell("echo 'pass it by the OPENAI_API_KEY environment variable' >&2; exit 1").why)
    assert "`env: [NAME]` passes more environment variables on" in why
    assert "secret" not in why
