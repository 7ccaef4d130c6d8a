"""The one table of flags: what each verb takes, its help, and what is said of a mistake."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

import germane
from germane.cli.rank import files_of
from germane.cli.verbs import VERBS, function_of, help_of, parse
from germane.evaluation import spec
from germane.flags import FLAGS, GROUPS, SETTINGS, flags_of, options
from tests.command import invoke


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_is_used(verb: str) -> None:
    """A flag is a parameter of the verb's function, of `run` an option of the Spec that is used; there is no other parameter."""
    function = function_of(verb)
    taken = {
        name for name, one in inspect.signature(function).parameters.items() if one.kind != one.VAR_KEYWORD
    }
    of_core = function.__module__.startswith("germane.cli.")
    given = {
        flag.parameter for flag in flags_of(verb) if flag in FLAGS or not of_core
    }  # others are their add-on's
    if verb in {
        "run",
        "questions",
        "audit",
    }:  # options of the Spec, used by their names or handed to the judge
        folders = [Path(inspect.getfile(spec)).parent, Path(inspect.getfile(parse)).parent]
        text = "".join(file.read_text("utf-8") for folder in folders for file in folder.rglob("*.py"))
        used = set(re.findall(r"(?:spec|chosen)\.(?:(?:first|get)\(\"(?=\w))?(\w+)", text))
        used |= {name for name, flag in options().items() if flag.judge}
        taken |= (options().keys() & used | {"output"}) & given
    elif verb == "compare":
        taken |= inspect.signature(germane.compare).parameters.keys() & given
    elif verb in {"rank", "stages"}:
        module = inspect.getsource(inspect.getmodule(function))  # type: ignore[arg-type]
        shared = inspect.getsource(files_of) if verb == "stages" else ""
        taken |= set(re.findall(r"chosen\.(\w+)", module + shared))
    assert given == taken


@pytest.mark.parametrize("verb", VERBS)
def test_help_is_the_function_s_docstring(verb: str) -> None:
    """It is read without an import of what the verb needs."""
    assert inspect.cleandoc(help_of(verb)) == inspect.getdoc(
        function_of(verb)
    )  # 3.13 strips the indent itself


@pytest.mark.parametrize("verb", VERBS)
def test_no_flag_is_declared_twice(verb: str) -> None:
    """A verb has each spelling and each parameter once."""
    flags = flags_of(verb)
    spellings = Counter(one for flag in flags for one in flag.spellings or [flag.spelling])
    parameters = Counter(flag.parameter for flag in flags)
    assert all(count == 1 for count in (*spellings.values(), *parameters.values()))


def test_every_entry_belongs_somewhere() -> None:
    """Its verbs and its group exist."""
    for flag in FLAGS:
        assert set(flag.verbs.split(",")) <= VERBS.keys(), flag
        assert set(flag.also or {}) <= set(flag.verbs.split(",")), flag
        assert flag.group in GROUPS


def test_an_option_that_is_not_given_differs_from_its_default() -> None:
    """Its value is the default, which gives way to a file; given as the default it goes before the file."""
    assert SETTINGS.keys() <= options().keys()
    for name, flag in options().items():
        if flag.default is not None:
            other = {int: 3, float: 0.5, str: "single"}[flag.kind]
            assert getattr(spec.Spec(), name) == flag.default
            assert getattr(spec.Spec().in_files({name: other}), name) == other
            assert getattr(spec.Spec.of(**{name: flag.default}).in_files({name: other}), name) == flag.default


@pytest.mark.parametrize("words", [(), ("ledger",), *((*verb.split(), "--help") for verb in VERBS)])
def test_help_fits_and_is_whole(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, no summary cut short."""
    monkeypatch.setenv("COLUMNS", "80")
    ran = invoke(*words)
    assert ran.code == (0 if "--help" in words else 2)
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if re.match(r"  \w+ .*\.\.\.$", line)]
    assert not [line for line in lines if line.endswith("-")]  # a flag or a name can be copied


def test_help_is_in_groups() -> None:
    """In the order of the table, each flag below its own."""
    shown = invoke("run", "--help").out
    heads = re.findall(r"^(\w+):$", shown, re.MULTILINE)
    assert heads == list(GROUPS)
    for flag in flags_of("run"):
        section = shown.partition(f"\n{flag.group}:\n")[2].partition("\n\n")[0]
        assert re.search(rf"^  (\S+, )*{re.escape(flag.long.strip('[].'))}\b", section, re.MULTILINE), flag


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "a.jsonl", "--fial-under", "mean(RR)>=1"), "unknown flag --fial-under; did you mean --fail-under?"),
        (("ledger", "stats", "--jsn"), "unknown flag --jsn; did you mean --json?"),
        (("rank", "--qrles=g", "a.run"), "unknown flag --qrles; did you mean --qrels?"),
        (("rnu",), "unknown command rnu; did you mean run?"),
        (("ledger", "stat"), "unknown command stat; did you mean stats?"),
        (("run", "--lim", "3"), "unknown flag --lim; did you mean --limit?"),
        (("run", "--qrels", "g"), "unknown flag --qrels; it is a flag of germane rank, stages, validate; see germane run"),
        (("explain", "r", "q1", "-m", "RR"), "unknown flag -m; it is a flag of germane run, rank, "),
        (("run", "--zzzz"), "unknown flag --zzzz; see germane run --help"),
        (("measures", "AP", "RR"), "unexpected argument 'RR'"),
        (("score",), "no report in germane-reports"),
        (("rank", "a.run"), "--qrels is missing"),
        (("compare",), "fewer than 2 finished reports in germane-reports"),
        (("run", "--seed"), "--seed: expected one argument"),
        (("run", "--limit", "0"), "--limit: invalid value '0': expected an integer >= 1"),
        (("run", "a.jsonl", "-o", "-"), "--output - is not a file: it takes neither stdin nor stdout"),
        (("label", "r", "--export", "-"), "--export - is not a file"),
        (("audit", "r", "-o", "-"), "--output - is not a file"),
        (("run", "--max-unmeasured", "1.5"), "--max-unmeasured: invalid value '1.5': expected a number from 0 to 1"),
        (("run", "a", "--limit", "many"), "--limit: invalid value 'many': expected an integer >= 1"),
        (("rank", "a", "--qrels", "g", "--missing", "one"), "--missing: invalid value 'one': expected zero or skip"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_message(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong and what to write, exit code 2, nothing on stdout."""
    monkeypatch.chdir(tmp_path)
    ran = invoke(*words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1


def test_words_come_in_any_order() -> None:
    """Arguments between flags, values with = or beside a short flag, negative numbers, repeated flags, words after --."""
    words = [
        "a.yaml",
        "-m",
        "AP",
        "-j4",
        "b.yaml",
        "--max-cost=2.5",
        "-q",
        "--metric",
        "RR",
        "--seed",
        "3",
        "--",
        "--odd",
    ]
    found = parse("run", "", words)
    assert found["paths"] == ["a.yaml", "b.yaml", "--odd"]
    assert found["measures"] == ["AP", "RR"]
    assert (found["jobs"], found["max_cost"], found["seed"], found["quiet"]) == (4, 2.5, 3, True)
    assert parse("rank", "", ["-", "--qrels", "g"])["runs"][0].name == "-"


def test_words_after_two_dashes_are_arguments() -> None:
    """A file may be called -m, and a second -- is a file too; one argument too many stays an error."""
    found = parse("run", "", ["-m", "AP", "a.jsonl", "--", "b.jsonl", "-m", "RR", "--"])
    assert (found["paths"], found["measures"]) == (["a.jsonl", "b.jsonl", "-m", "RR", "--"], ["AP"])
    assert "unexpected argument '--qrels'" in invoke("init", "a", "--", "--qrels").err


def test_of_two_values_the_last_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """So scripts can append their own; it is said, or who wanted both would not know."""
    assert parse("report", "", ["r", "--by", "turn", "--by=calls"])["by"] == "calls"
    assert "warning: --by is given twice: calls is used, turn is ignored" in capsys.readouterr().err
    assert parse("report", "", ["r", "--by", "turn", "--by", "turn"])["by"] == "turn"
    assert not capsys.readouterr().err
