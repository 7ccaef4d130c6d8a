"""Commands as systems under test: real processes, quoted input, and nothing left behind."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from germane.errors import InputError, TargetError
from germane.evalfiles import Case
from germane.samples.contexts import find_contexts
from germane.targets import open_target
from germane.types import Call, Context, Sample

PYTHON = sys.executable


@pytest.fixture
def command(tmp_path):
    def opened(template: str, program: str = "", **settings):
        (tmp_path / "rag.py").write_text(program, encoding="utf-8")
        more = "".join(f"    {key}: {value}\n" for key, value in settings.items())
        text = f"targets:\n  - name: a\n    provider: cli\n{more}    command_template: |\n      {template}\n"
        (tmp_path / "targets.yaml").write_text(text, encoding="utf-8")
        return open_target("a", tmp_path)

    return opened


def answer(target, query="why?", **fields):
    return asyncio.run(target.answer(Sample(id="q 1", query=query, **fields)))


ECHO = "import sys, json; open(sys.argv[1], 'w').write(json.dumps({'text': json.dumps(sys.argv[2:])}))"


def test_stdout_is_the_answer_where_no_file_is_named(command):
    """The simplest command prints its answer."""
    assert answer(command("echo because {PROMPT}")).response == "because why?"


def test_the_output_file_holds_text_and_messages(command):
    """Tool calls in the messages are where the contexts are."""
    program = (
        "import sys, json\n"
        "call = {'tool': 'search', 'input': {'query': 'w'}, 'output': {'results': ['t']}}\n"
        "message = {'role': 'assistant', 'content': 'said', 'tool_calls': [call]}\n"
        "usage = {'token_usage': {'input': 3}, 'cost_usd': 0.1, 'duration_ms': 7}\n"
        "json.dump({'output_messages': [message], **usage}, open(sys.argv[1], 'w'))\n"
    )
    got = answer(command(f"{PYTHON} rag.py {{OUTPUT_FILE}} {{PROMPT}}", program))
    assert got.response == "said"
    assert find_contexts(got)[0].calls == (Call(query="w", contexts=(Context(text="t"),), source="search"),)
    assert {key: got.metadata[key] for key in ("token_usage", "cost_usd", "duration_ms")} == {
        "token_usage": {"input": 3},
        "cost_usd": 0.1,
        "duration_ms": 7,
    }
    assert got.metadata["ms"] > 0


@pytest.mark.parametrize("written", ["plain words", '{"answer": "x", "contexts": ["t"]}', "[1]", '{"text": '])
def test_anything_else_in_the_output_file_is_the_answer_as_it_stands(command, written):
    """Raw text is an answer too."""
    program = f"import sys; open(sys.argv[1], 'w').write({written!r})"
    assert answer(command(f"{PYTHON} rag.py {{OUTPUT_FILE}} {{PROMPT}}", program)).response == written


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip))
def test_no_query_is_ever_code(command, query):
    """Whatever is asked arrives as one argument, letter by letter."""
    target = command(f"{PYTHON} rag.py {{OUTPUT_FILE}} {{PROMPT}}", ECHO)
    assert answer(target, query).response == json.dumps([query])


@pytest.mark.parametrize(
    "query", ["$(touch pwned)", "'; touch pwned; '", "`touch pwned`", "{OUTPUT_FILE} {EVAL_ID}", "-n\n*"]
)
def test_hostile_queries_stay_words(command, tmp_path, query):
    """Shell syntax and slots in a query mean nothing."""
    target = command(f"{PYTHON} rag.py {{OUTPUT_FILE}} {{PROMPT}} {{EVAL_ID}} {{ATTEMPT}}", ECHO)
    assert answer(target, query, trial=2).response == json.dumps([query, "q 1", "2"])
    assert not (tmp_path / "pwned").exists()


def test_files_are_quoted_one_by_one(command):
    """{FILES} is each file of the case as an argument of its own."""
    target = command(f"{PYTHON} rag.py {{OUTPUT_FILE}} {{PROMPT}} {{FILES}}", ECHO)
    case = Case(sample=Sample(id="a", query="q"), guideline_files=("/g i.md",), input_files=("/a b.txt",))
    assert asyncio.run(target.answer(case)).response == '["q", "/g i.md", "/a b.txt"]'


def test_a_failing_command_says_what_it_said(command):
    """Exit code and the end of stderr."""
    program = "import sys; sys.stderr.write('x' * 5000 + 'the end'); sys.exit(3)"
    with pytest.raises(TargetError, match=r"exit code 3 in .*: x+the end") as caught:
        answer(command(f"{PYTHON} rag.py {{PROMPT}}", program))
    assert len(str(caught.value)) < 2300
    with pytest.raises(TargetError, match="exit code 127"):
        answer(command("no-such-program-anywhere {PROMPT}"))


def test_no_output_file_is_a_failure(command):
    """A command that was to write a file and did not has no answer."""
    with pytest.raises(TargetError, match="wrote no answer"):
        answer(command("true {OUTPUT_FILE} {PROMPT}"))


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that nobody collects has."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def child(tmp_path: Path) -> int:
    for _ in range(100):
        if (tmp_path / "pid").exists() and (text := (tmp_path / "pid").read_text().strip()):
            return int(text)
        time.sleep(0.05)
    raise AssertionError("the child never started")


def wait_gone(pid: int) -> bool:
    for _ in range(100):
        if gone(pid):
            return True
        time.sleep(0.05)
    return False


SLEEPER = "sh -c 'echo $$ > pid; exec sleep 60' & wait; echo {PROMPT}"


def test_a_timeout_ends_the_whole_family(command, tmp_path):
    """What the command started is gone with it."""
    started = time.monotonic()
    with pytest.raises(TargetError, match=r"more than 0\.5 s"):
        answer(command(SLEEPER, timeout=0.5))
    assert time.monotonic() - started < 10
    assert wait_gone(child(tmp_path))


def test_cancelling_ends_the_whole_family(command, tmp_path):
    """An interrupted run leaves no process behind."""
    target = command(SLEEPER)

    async def cancelled() -> None:
        task = asyncio.create_task(target.answer(Sample(id="a", query="q")))
        await asyncio.to_thread(child, tmp_path)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert wait_gone(child(tmp_path))


def test_a_background_child_does_not_outlive_its_answer(command, tmp_path):
    """A server that the command forgot to stop is stopped."""
    got = answer(command("sh -c 'echo $$ > pid; exec sleep 60' > /dev/null 2>&1 & sleep 0.2; echo {PROMPT}"))
    assert got.response == "why?"
    assert wait_gone(child(tmp_path))


def test_a_query_that_no_process_can_take_is_a_failure(command):
    """A NUL byte, or more than the system allows, is the sample's failure."""
    target = command("echo {PROMPT}")
    for query in ("a\x00b", "x" * 5_000_000):
        with pytest.raises(TargetError, match="cannot be started"):
            answer(target, query)


def test_the_environment_and_folder_of_the_command(command, tmp_path):
    """`env` adds to the environment; the folder is that of the targets file, or `cwd` from there."""
    (tmp_path / "sub").mkdir()
    assert (
        answer(command("echo $WORD $(basename $(pwd)) {PROMPT}", env="{WORD: hi}", cwd="sub")).response
        == "hi sub why?"
    )


def test_a_command_sees_few_variables_of_the_environment(command, monkeypatch):
    """PATH and the like, what `env` names, and what it sets: no key of the user's goes to a system unasked."""
    monkeypatch.setenv("SECRET_KEY", "sk-1")
    monkeypatch.setenv("LC_TIME", "C")
    show = 'echo {PROMPT} "${SECRET_KEY-none}" "${LC_TIME-none}" "${PATH:+path}"'
    assert answer(command(show)).response == "why? none C path"
    assert answer(command(show, env="[SECRET_KEY, NOT_SET_ANYWHERE]")).response == "why? sk-1 C path"
    assert answer(command(show, env="{SECRET_KEY: mine}")).response == "why? mine C path"


@pytest.mark.parametrize("env", ["[PATH, {WORD: hi}]", "[WORD=hi]"])
def test_names_and_values_of_variables_in_one_list(command, env):
    """They are refused: no value would be passed on."""
    with pytest.raises(InputError, match=r"write names: \[NAME\], or values: \{NAME: value\}"):
        command("echo {PROMPT}", env=env)


def test_the_messages_of_the_newer_generation(command):
    """AgentV 4 calls them `output`; how long a tool took is kept."""
    program = (
        "import sys, json\n"
        "said = [{'role': 'assistant', 'tool_calls': [{'tool': 'read', 'duration_ms': 12}]},\n"
        "        {'role': 'assistant', 'content': 'said'}]\n"
        "json.dump({'output': said, 'output_messages': []}, open(sys.argv[1], 'w'))\n"
    )
    got = answer(command(f"{PYTHON} rag.py {{OUTPUT_FILE}} {{PROMPT}}", program))
    assert (got.response, got.messages[0].tool_calls[0].ms) == ("said", 12)


def test_a_command_starts_in_the_folder_of_its_targets_file(tmp_path):
    """Of `.agentv` in the folder above, or in `cwd` from there."""
    for name in (".agentv", "evals", "agents"):
        (tmp_path / name).mkdir()
    (tmp_path / ".agentv" / "targets.yaml").write_text(
        "targets:\n"
        f"- {{name: cwd, provider: cli, command: '{PYTHON} rag.py {{PROMPT}}', cwd: ../agents}}\n"
        f"- {{name: root, provider: cli, command: '{PYTHON} top.py {{PROMPT}}'}}\n"
    )
    (tmp_path / ".git").mkdir()
    for place in ("agents/rag.py", "top.py"):
        (tmp_path / place).write_text(f"print({place!r})")
    for name, place in (("cwd", "agents/rag.py"), ("root", "top.py")):
        assert answer(open_target(name, tmp_path / "evals")).response == place


@pytest.mark.parametrize(
    "template",
    [
        "echo '{PROMPT}'",
        'echo "asked: {PROMPT}"',
        "echo \"$(echo 'a' '{EVAL_ID}') {ATTEMPT}\"",
        "echo \"it's\" '{FILES}' {PROMPT}",
        "echo `echo {PROMPT}`",
        'echo "$(printf %s {PROMPT})"',
        'echo "$(printf %s "{PROMPT} end")"',
        "cat <<EOF\nasked: {PROMPT}\nEOF",
        "eval rag {PROMPT}",
        'eval ""#{PROMPT}',  # what follows a quote begins no comment
        "true && X=1 eval {PROMPT}",
        "sh -c {PROMPT}",
        "bash -e -lc rag{PROMPT}",
        "sh '-c' -x {PROMPT}",
        "python3 -c{PROMPT}",
        "ssh host rag {PROMPT}",
        "echo \\{PROMPT}",
        "echo $((1 + {PROMPT}))",
        "echo $((1 + (2) + {PROMPT}))",
        "echo $((2#{PROMPT}))",
    ],
)
def test_a_slot_that_a_shell_would_parse_is_refused(command, template):
    """A value is a word, or the file says at once how to write it."""
    with pytest.raises(InputError, match="command_template has") as caught:
        command(template.replace("\n", "\n      "))
    assert "write" in caught.value.fix


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ('sh -c \'echo "$GERMANE_PROMPT" "$1"\' _ {EVAL_ID}', "{} q 1"),
        ("echo {EVAL_ID} \"it's\" {PROMPT} # don't", "q 1 it's {}"),
        ('cat <<EOF\n"\n$GERMANE_PROMPT\nEOF\necho "$GERMANE_EVAL_ID"', '"\n{}\nq 1'),
        ('echo "$(printf %s "$GERMANE_PROMPT")"', "{}"),
        ("echo $(printf x) {PROMPT}", "x {}"),
        ("echo --q={PROMPT}", "--q={}"),
        ("(echo {PROMPT}); head -c 1 /dev/null", "{}"),
        ("eval 'echo \"$GERMANE_PROMPT\"'", "{}"),
        ("case x in x) echo {PROMPT};; esac", "{}"),
        ("[printf, '%s', '{PROMPT}']", "{}"),
        ("[sh, -c, 'printf %s \"$1\"', '{EVAL_ID}', 'a {PROMPT}']", "a {}"),
    ],
)
@pytest.mark.parametrize("query", ["hi; touch x", "'$(touch x)'\"`touch x`\"", "{EVAL_ID}  * %s"])
def test_a_value_is_a_word_wherever_a_slot_may_stand(tmp_path, template, said, query):
    """In commands that a shell reads and in lists that none does."""
    folder = tmp_path / "in"
    folder.mkdir()
    written = template if template[0] == "[" else "\n      ".join(["|", *template.split("\n")])
    (folder / "targets.yaml").write_text(
        f"targets:\n  - name: a\n    provider: cli\n    command_template: {written}\n"
    )
    got = answer(open_target("a", folder), query).response or ""
    assert got == said.format(query)
    assert [file.name for file in folder.iterdir()] == ["targets.yaml"]


def test_a_list_gets_a_word_per_file(tmp_path):
    """No shell is between."""
    (tmp_path / "rag.py").write_text(ECHO)
    words = [PYTHON, "rag.py", "{OUTPUT_FILE}", "{PROMPT}", "{FILES}"]
    entry = {"name": "a", "provider": "cli", "command_template": words}
    (tmp_path / "targets.yaml").write_text(json.dumps({"targets": [entry]}))
    case = Case(sample=Sample(id="a", query="q q"), guideline_files=("/g i.md",), input_files=("/a b.txt",))
    got = asyncio.run(open_target("a", tmp_path).answer(case)).response
    assert got == '["q q", "/g i.md", "/a b.txt"]'


@pytest.mark.parametrize(
    "makes", ["os.symlink('/dev/zero', p)", "os.mkfifo(p)", "os.symlink('rag.py', p)", "os.mkdir(p)"]
)
def test_an_output_file_that_is_none_is_not_read(command, makes):
    """A link, a pipe, a folder: none of them is waited for, none is followed."""
    program = f"import os, sys; p = sys.argv[1]; {makes}"
    started = time.monotonic()
    with pytest.raises(TargetError, match="wrote no answer"):
        answer(command(f"{PYTHON} rag.py {{OUTPUT_FILE}} {{PROMPT}}", program))
    assert time.monotonic() - started < 5


def test_an_output_file_has_a_limit(command):
    """Of 16 MB."""
    program = "import sys; open(sys.argv[1], 'wb').truncate(int(sys.argv[2]))"
    target = command(f"{PYTHON} rag.py {{OUTPUT_FILE}} {{PROMPT}}", program)
    with pytest.raises(TargetError, match="wrote more than 16 MB"):
        answer(target, "800000000")
    assert len(answer(target, "1500").response) == 1500
