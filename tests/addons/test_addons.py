"""Add-ons: the core works without each of germane's own, and finds those of other packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from germane import addons
from germane.clean import fold

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns("__pycache__")


@pytest.mark.parametrize("name", addons.own())
def test_the_readme_runs_without_an_addon(name: str, tmp_path: Path) -> None:
    """With its folder deleted every command of the README does what it says."""
    for folder in ("src", "tests", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=LEFT_OUT)
    for file in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path)
    shutil.rmtree(tmp_path / "src/germane/addons" / name)
    program = (
        "import sys, pytest; code = pytest.main("
        "['-q', '-p', 'no:cacheprovider', '-p', 'no:xdist', 'tests/test_docs.py', '-k', 'README and not links']);"
        f"from germane import addons; assert {name!r} not in addons.own(); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


STRANGER = """
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from germane.addons import Addon, Dialect, GraderType, Reader
from germane.evalfiles import EvalFile
from germane.evaluation.run import run
from germane.flags import DATA, Flag
from germane.graders import DirectGrader
from germane.judges import Judge, Reply
from germane.measures import ask, measure
from germane.questions import PayloadModel, Question, YesNo
from germane.ledger.sqlite import SQLiteLedger
from germane.questions.prompts import worded
from germane.targets import Target
from germane.evalfiles.model import read_model
from germane.yamltext import node_of

def rows(rows, warn):
    for number, row, where in rows:
        yield number, {"query": row["ask"], "qrels": {row["want"]: 1}, "contexts": [{"id": row["got"]}]}, where

def bars(report):
    yield from (f"{line.measure} {'#' * round(10 * line.mean)}\\n" for line in report.summaries)

def shop(log, top):
    print(log, top)

def read(path, root, parsed, warn, faults):
    node = node_of({"data": root.pairs["shop_log"].text, "measures": "R@1"}, root.location)
    file = read_model(EvalFile, node, faults, folder=path.resolve().parent, warn=warn)
    return file.model_copy(update={"path": path})

class Short(DirectGrader):
    type: ClassVar[str] = "short"
    words: int = 10
    def check(self, case):
        return len(case.sample.query.split()) <= self.words

class PolitePayload(PayloadModel):
    polite: YesNo

@dataclass(frozen=True, slots=True)
class Polite(Question[bool]):
    kind: ClassVar[str] = "polite"
    item_fields: ClassVar[tuple[str, ...]] = ("query",)
    Payload: ClassVar[type[PayloadModel]] = PolitePayload
    query: str
    @property
    def wording(self):
        return worded("Is it polite? {{query}}", frozenset({"query"}))
    def answer(self, payload):
        return payload.polite
    def typical(self):
        return {"polite": True}

@measure(needs=("query",))
def politeness(sample):
    "1 if the query is polite."
    return float((yield from ask(Polite(sample.query))))

class Coin(Judge):
    name = "coin"
    def __init__(self, side):
        self.side = side
    async def answer(self, questions):
        return [Reply(payload={"polite": self.side == "heads"}) for _ in questions]

class Shelf(Target):
    prefix: str
    async def ask(self, case):
        return [{"id": f"{self.prefix}{case.sample.query[1:]}", "text": "t"}]

def shelf(url, *, read_only=False):
    return SQLiteLedger(url.removeprefix("shelf://"), read_only=read_only)

def tag(folder, *, tags, who, **_):
    print(who, "tags", folder.name, tags)

def solo(spec, callbacks):
    plan = f"by {Path(spec.get('plan')).read_text()}" if spec.get("plan") else ""
    print("on", spec.get("shelves"), "shelves", plan, file=sys.stderr)
    return run(spec.but(engine=None), callbacks), None

ADDON = Addon(
    about="Logs of shop search, and bars.",
    dialects={"shop": Dialect("shop:read", keys=["shop_log"])},
    engines={"solo": "shop:solo"},
    graders={"short": GraderType("shop:Short", "1 where the query is short", aliases=["brief"])},
    judges={"coin": "shop:Coin"},
    labellers={"shelf.json": "shop:tag"},
    measures={"politeness": "shop:politeness"},
    questions={"polite": "shop:Polite"},
    readers={"shop": Reader("shop:rows", first=[["ask", "got|took", "want"]])},
    stores={"shelf": "shop:shelf"},
    targets={"shelf": "shop:Shelf"},
    verbs={"shop": ("shop:shop", "Print the worst searches.")},
    flags=[
        Flag("LOG", "shop", DATA, "The log to read.", Path),
        Flag("--top", "shop", DATA, "How many.", int, value="N", default=3, least=1),
        Flag("--tags", "label", DATA, "Tags of a shelf.", many=True),
        Flag("--shelves", "run", DATA, "Shelves of the engine solo.", int, value="N", least=1),
        Flag("--plan", "run", DATA, "The plan of the engine solo.", Path, at_url="kept"),
    ],
    writers={".bars": "shop:bars", ".gone": "shop:no_such"},
)
"""


def germane(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "germane", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with an installed package that brings an add-on, and a log that it reads."""
    (tmp_path / "shop.py").write_text(STRANGER, "utf-8")
    (tmp_path / "shop-1.0.dist-info").mkdir()
    (tmp_path / "shop-1.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n", "utf-8"
    )
    (tmp_path / "shop-1.0.dist-info/entry_points.txt").write_text(
        "[germane.addons]\nshop = shop:ADDON\n", "utf-8"
    )
    log = ({"ask": f"q{n}", "want": "d1", "got": f"d{n}"} for n in range(1, 5))
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log), "utf-8")
    return tmp_path


def test_an_installed_package_brings_a_reader_and_a_format(shop: Path) -> None:
    done = germane(shop, "run", "log.jsonl", "-m", "R@1", "-o", "out.bars", "-o", "report")
    assert done.returncode == 0, done.stderr
    assert (shop / "out.bars").read_text("utf-8") == "R@1 ##\n"


def test_what_a_package_lacks_is_an_error_that_names_it(shop: Path) -> None:
    done = germane(shop, "run", "log.jsonl", "-m", "R@1", "-o", "out.gone")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "the add-on of shop names shop:no_such" in done.stderr


def test_a_package_that_cannot_be_loaded_is_an_error_that_names_it(shop: Path) -> None:
    (shop / "shop.py").write_text("import no_such_module\n", "utf-8")
    done = germane(shop, "run", "log.jsonl", "-m", "R@1")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "the add-on shop of shop cannot be loaded: ModuleNotFoundError" in done.stderr


def test_rows_of_samples_ask_no_package(shop: Path) -> None:
    """A broken package harms nobody who does not need it."""
    (shop / "shop.py").write_text("import no_such_module\n", "utf-8")
    (shop / "log.jsonl").write_text('{"query": "q", "qrels": {"d": 1}, "contexts": [{"id": "d"}]}\n', "utf-8")
    done = germane(shop, "run", "log.jsonl", "-m", "R@1", "-o", "out.csv", "-o", "report")
    assert done.returncode == 0, done.stderr


def test_an_installed_package_brings_a_command(shop: Path) -> None:
    done = germane(shop, "shop", "log.jsonl", "--top", "2")
    assert (done.returncode, done.stdout) == (0, "log.jsonl 2\n"), done.stderr
    assert germane(shop, "shop", "log.jsonl", "--top", "0").returncode == 2
    assert "The log to read." in germane(shop, "shop", "--help").stdout
    assert "Print the worst searches." in germane(shop, "--help").stdout


def test_an_installed_package_brings_a_dialect(shop: Path) -> None:
    (shop / "e.yaml").write_text("shop_log: log.jsonl\n", "utf-8")
    done = germane(shop, "run", "e.yaml", "--json")
    assert json.loads(done.stdout)["measures"]["R@1"]["mean"] == 0.25, done.stderr


def test_an_installed_package_brings_a_grader(shop: Path) -> None:
    """By any of its names; its formula is in the explanation, and on the command line it is not a measure."""
    measures = "[{type: short, words: 0}, {type: brief, name: b, words: 1}, R@1]"
    (shop / "e.yaml").write_text(f"data: log.jsonl\nmeasures: {measures}\n", "utf-8")
    assert germane(shop, "run", "e.yaml", "-o", "report").returncode == 0
    explained = germane(shop, "explain", "report", "1").stdout
    for line in ("short = 0.0000", "b = 1.0000"):
        assert f"{line}\n  formula  1 where the query is short" in explained
    assert "short is a grader, not a measure" in germane(shop, "run", "log.jsonl", "-m", "short").stderr


def test_an_installed_package_brings_a_measure_with_its_question_and_judge(shop: Path) -> None:
    """The report is read again by a process that has imported nothing of it yet, with the package broken, and without it."""
    asked = ("run", "log.jsonl", "-m", "politeness", "--judge")
    done = germane(shop, *asked, "coin:heads", "-o", "report", "--json")
    assert json.loads(done.stdout)["measures"]["politeness"]["mean"] == 1, done.stderr
    formula = "politeness = 1.0000\n  formula  1 if the query is polite."
    assert formula in germane(shop, "explain", "report", "1").stdout
    forecast = germane(shop, *asked, "openai:m", "--dry-run")
    assert "in all 4 requests" in forecast.stdout, forecast.stderr
    (shop / "shop.py").write_text("import no_such_module\n", "utf-8")
    assert "1.0000" in (done := germane(shop, "report", "report")).stdout, done.stderr
    shutil.rmtree(shop / "shop-1.0.dist-info")
    for words in (["report", "report"], ["explain", "report", "1"], ["score", "report"]):
        done = germane(shop, *words)
        assert (done.returncode, "1.0000" in done.stdout) == (0, True), done.stderr


def test_an_installed_package_brings_a_target_and_a_store(shop: Path) -> None:
    """A targets file names the target, a URL the store; answers of the judge are in it for the next run."""
    (shop / "targets.yaml").write_text("targets: [{name: s, provider: shelf, prefix: d}]\n", "utf-8")
    rows = ({"query": f"q{n}", "qrels": {"d1": 1}} for n in range(1, 3))
    (shop / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    words = ("run", "q.jsonl", "--target", "s", "-m", "R@1 politeness", "--judge", "coin:heads", "--json")
    for calls in (2, 0):
        done = germane(shop, *words, "--ledger", "shelf://answers.sqlite")
        document = json.loads(done.stdout)
        means = {name: one["mean"] for name, one in document["measures"].items()}
        assert (means, document["judge"]["calls"]) == ({"R@1": 0.5, "politeness": 1.0}, calls), done.stderr
    assert (shop / "answers.sqlite").is_file()
    assert "coin" in germane(shop, "ledger", "stats", "--ledger", "shelf://answers.sqlite").stdout
    done = germane(shop, *words, "--ledger", "shelve://answers")
    assert (done.returncode, "a ledger cannot be stored at shelve://" in done.stderr) == (2, True)


def test_an_installed_package_brings_an_engine_and_a_flag_of_run(shop: Path) -> None:
    """The flag is read, checked and in the help as germane's own are."""
    words = ("run", "log.jsonl", "-m", "R@1", "--engine", "solo", "--json", "--shelves")
    done = germane(shop, *words, "3")
    assert (json.loads(done.stdout)["measures"]["R@1"]["mean"], "on 3 shelves" in done.stderr) == (0.25, True)
    assert "invalid value '0': expected an integer >= 1" in germane(shop, *words, "0").stderr
    assert "Shelves of the engine solo." in germane(shop, "run", "--help").stdout
    assert "unknown flag --shelf" in germane(shop, "run", "log.jsonl", "--shelf", "3").stderr


def test_a_resumed_run_has_the_flags_of_an_installed_package(shop: Path) -> None:
    """From the folder where it began; without the package the flag is named."""
    (shop / "plan.txt").write_text("a plan", "utf-8")
    engine = ("--engine", "solo", "--shelves", "3", "--plan", "plan.txt")
    assert germane(shop, "run", "log.jsonl", "-m", "R@1", *engine, "-o", "r").returncode == 0
    resumed = ("run", "--engine", "solo", "--resume", "r")
    done = germane(shop, *resumed)
    assert (done.returncode, "on 3 shelves by a plan" in done.stderr) == (0, True), done.stderr
    assert "on 4 shelves by a plan" in germane(shop, *resumed, "--shelves", "4").stderr
    shutil.rmtree(shop / "shop-1.0.dist-info")
    done = germane(shop, "run", "--resume", "r")
    assert (done.returncode, "options of an add-on that is not installed: " in done.stderr) == (2, True)
    assert "shelves" in done.stderr


def test_an_installed_package_brings_a_labeller_and_a_flag_of_label(shop: Path) -> None:
    (shop / "shelf").mkdir()
    (shop / "shelf/shelf.json").write_text("{}", "utf-8")
    done = germane(shop, "label", "shelf", "--who", "me", "--tags", "old", "--tags", "new")
    assert (done.returncode, done.stdout) == (0, "me tags shelf ['old', 'new']\n"), done.stderr


def test_parts_differ_in_the_flags_of_an_installed_package(shop: Path) -> None:
    words = ("run", "log.jsonl", "-m", "R@1", "--shelves")
    for number in ("1", "2"):
        assert germane(shop, *words, number, "--part", f"{number}/2", "-o", f"p{number}").returncode == 0
    done = germane(shop, "merge", "p1", "p2", "-o", "whole")
    assert (done.returncode, "belong to different evaluations: shelves" in done.stderr) == (2, True), (
        done.stderr
    )


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of src without any add-on."""
    copy = tmp_path_factory.mktemp("bare") / "src"
    shutil.copytree(ROOT / "src", copy, ignore=LEFT_OUT)
    for name in addons.own():
        shutil.rmtree(copy / "germane/addons" / name)
    return copy


def without(bare: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "germane", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(bare)},
        capture_output=True,
        text=True,
        check=False,
    )


KEY = "needs the add-on agentv, which is not installed; write measures: [...] and data: FILE"
GRADER = "needs the add-on agentv, which is not installed; name a measure (`germane measures` lists them)"
OF_AGENTV = {
    "measures: [RR]\nevalcases: [{id: a}]": f"2:1: the key 'evalcases' {KEY}",
    "measures: [RR]\ntests: []": f"2:1: the key 'tests' {KEY}",
    "data: d.jsonl\nexecution: {target: x}": f"2:1: the key 'execution' {KEY}",
    "data: d.jsonl\nevaluators: [RR]": f"2:1: the key 'evaluators' {KEY}",
    "data: d.jsonl\nassertions: [RR]": f"2:1: the key 'assertions' {KEY}",
    "data: d.jsonl\nmeasures: [{type: llm_judge}]": f"2:12: the grader llm_judge {GRADER}",
    "data: d.jsonl\nmeasures: [RR, {script: [x]}]": f"2:16: the grader code_judge {GRADER}",
    "data: d.jsonl\nmeasures: [{type: contains}]": f"2:12: the grader contains {GRADER}",
}


def test_an_eval_file_of_an_absent_addon_is_one_error(bare: Path, tmp_path: Path) -> None:
    """With the place and the add-on's name, in run and in validate."""
    (tmp_path / "d.jsonl").write_text(
        '{"query": "q", "qrels": {"d": 1}, "contexts": [{"id": "d"}]}\n', "utf-8"
    )
    for number, text in enumerate(OF_AGENTV):
        (tmp_path / f"e{number}.yaml").write_text(text, "utf-8")
    said = [f"e{number}.yaml:{words}" for number, words in enumerate(OF_AGENTV.values())]
    checked = without(bare, tmp_path, "validate", *(f"e{number}.yaml" for number in range(len(OF_AGENTV))))
    assert (checked.returncode, checked.stdout.splitlines()) == (2, said)
    for number in (0, 5):
        ran = without(bare, tmp_path, "run", f"e{number}.yaml")
        assert (ran.returncode, ran.stderr) == (2, f"germane: {said[number]}\n")


@pytest.mark.parametrize(
    "text", ['{"results": {"results": []}}', '{"testResults": [{}]}', '{"promptIdx": 0}\n{"promptIdx": 1}\n']
)
def test_results_that_an_absent_addon_reads_are_an_error_with_its_name(
    bare: Path, tmp_path: Path, text: str
) -> None:
    """Whole documents and rows."""
    (tmp_path / "a.json").write_text(text, "utf-8")
    done = without(bare, tmp_path, "compare", "a.json", "a.json")
    assert (done.returncode, "need the add-on compat, which is not installed" in done.stderr) == (2, True), (
        done.stderr
    )


def test_a_report_with_rows_of_an_absent_addon_is_shown(bare: Path, tmp_path: Path) -> None:
    """Scores of graders, answers of scripts: with the numbers that the run gave."""
    (tmp_path / "e.yaml").write_text(
        'evaluators: [{type: code_judge, name: s, script: [echo, \'{"score": 0.25, "hits": ["found"]}\']},'
        " {type: contains, value: x}]\ncases: [{id: a, query: q, response: x, contexts: [c]}]\n",
        "utf-8",
    )
    assert germane(tmp_path, "run", "e.yaml", "-o", "report").returncode == 0
    for words in ("report report", "explain report a", "score report", "compare report report"):
        done = without(bare, tmp_path, *words.split())
        assert (done.returncode, "0.25" in done.stdout) == (0, True), (words, done.stderr)
        assert "explain" not in words or "+ found" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("grade s", "grade is a command of the add-on agentv"),
        ("questions d.jsonl -o q.jsonl", "questions is a command of the add-on batches"),
        ("run d.jsonl --later", "--later is a flag of the add-on batches"),
    ],
)
def test_commands_and_flags_of_an_absent_addon_name_it(
    bare: Path, tmp_path: Path, words: str, said: str
) -> None:
    absent = without(bare, tmp_path, *words.split())
    assert (absent.returncode, f"{said}, which is not installed" in absent.stderr) == (2, True), absent.stderr


def test_flags_and_urls_of_an_absent_addon_are_errors_that_name_it(bare: Path, tmp_path: Path) -> None:
    """Parts, engines, databases and stores are the cluster's; a part is not continued as the whole."""
    (tmp_path / "d.jsonl").write_text(
        '{"query": "q", "qrels": {"d": 1}, "contexts": [{"id": "d"}]}\n', "utf-8"
    )
    asked = ("run", "d.jsonl", "-m", "RR")
    said = {
        (*asked, "--part", "1/2"): "--part is a flag of the add-on cluster, which is not installed",
        (*asked, "--engine=dask"): "--engine is a flag of the add-on cluster, which is not installed",
        (
            *asked,
            "--ledger",
            "postgresql://u:secret@h/d",
        ): "a ledger at postgresql:// needs the add-on cluster",
        (*asked, "-o", "s3://b/out"): "a path that is a URL needs the add-on cluster",
        ("run", "memory://d.jsonl", "-m", "RR"): "a path that is a URL needs the add-on cluster",
        ("rank", "https://h/run", "--qrels", "g"): "a path that is a URL needs the add-on cluster",
        ("merge", "a", "-o", "b"): "merge is a command of the add-on cluster, which is not installed",
        (*asked, "--replay", "postgres://u:secret@h/d"): "a ledger at postgres:// needs the add-on cluster",
        ("ledger", "stats", "--ledger", "postgres://h/d"): "a ledger at postgres:// needs the add-on cluster",
    }
    for words, problem in said.items():
        done = without(bare, tmp_path, *words)
        assert (done.returncode, problem in done.stderr) == (2, True), (words, done.stderr)
        assert "secret" not in done.stdout + done.stderr
    assert germane(tmp_path, *asked, "--part", "1/1", "-o", "p").returncode == 0
    assert (
        "options of an add-on that is not installed: part"
        in without(bare, tmp_path, "run", "--resume", "p").stderr
    )
    assert "1.0000" in without(bare, tmp_path, "report", "p").stdout
    assert without(bare, tmp_path, *asked, "-o", "r").returncode == 0


def test_files_of_an_absent_addon_are_errors_that_name_it(bare: Path, tmp_path: Path) -> None:
    """Exports of traces are read as no samples, and scores for their tools are not written in another format."""
    row = '{"query": "q", "qrels": {"d": 1}, "contexts": [{"id": "d"}]}\n'
    (tmp_path / "d.jsonl").write_text(row, "utf-8")
    (tmp_path / "t.jsonl").write_text('{"resourceSpans": []}\n', "utf-8")
    assert without(bare, tmp_path, "run", "d.jsonl", "-m", "RR", "-o", "r").returncode == 0
    for words, owner in {
        "run d.jsonl -m RR -o o.phoenix.jsonl": "traces",
        "report r -o A.Phoenix.jsonl": "traces",
        "report r -o index.jsonl": "agentv",
        "run t.jsonl -m RR": "traces",
    }.items():
        done = without(bare, tmp_path, *words.split())
        assert (done.returncode, f"the add-on {owner}, which is not installed" in done.stderr) == (2, True), (
            words,
            done.stderr,
        )
    assert {path.name for path in tmp_path.glob("*.jsonl")} == {"d.jsonl", "t.jsonl"}
    assert without(bare, tmp_path, "report", "r", "-o", "scores.of.jsonl").returncode == 0


def test_batches_do_without_the_cluster(tmp_path: Path) -> None:
    """A command of one add-on asks for no flag of another."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=LEFT_OUT)
    shutil.rmtree(tmp_path / "src/germane/addons/cluster")
    (tmp_path / "d.jsonl").write_text('{"query": "q", "contexts": ["a"]}\n', "utf-8")
    asked = ("run", "d.jsonl", "-m", "context_precision", "--judge", "openai:m", "--later")
    done = without(tmp_path / "src", tmp_path, *asked, "--dry-run")
    assert (done.returncode, "in all 1 request" in done.stdout) == (0, True), done.stderr
    done = without(tmp_path / "src", tmp_path, *asked, "--until", "0.1")
    assert (done.returncode, "--until and --later cannot be combined" in done.stderr) == (2, True)


def test_the_names_of_absent_addons_are_those_that_they_declare() -> None:
    """The table of the core has every verb and grader, and keys of the dialects."""
    declared = {
        "verbs": {(verb, name) for name, one in addons.own().items() for verb in one.verbs},
        "flags": {
            (flag.long, name)
            for name, one in addons.own().items()
            for flag in one.flags
            if not {*flag.verbs.split(",")} <= one.verbs.keys()
        },
        "graders": {
            (fold(word), name)
            for name, one in addons.own().items()
            for kind, grader in one.graders.items()
            for word in (kind, *grader.aliases)
        },
        **{
            kind: {(word, name) for name, one in addons.own().items() for word in getattr(one, kind)}
            for kind in ("stores", "urls", "writers")
        },
    }
    keys = {fold(key) for one in addons.own().values() for form in one.dialects.values() for key in form.keys}
    table = {
        kind: {
            (name, owner)
            for owner, names in addons._BROUGHT.items()
            for name in names.get(kind, "").split(", ")
        }
        for kind in (*declared, "dialects")
    }
    named = {kind: {pair for pair in pairs if pair[0]} for kind, pairs in table.items()}
    assert {name for name, _ in named.pop("dialects")} <= keys
    assert named == declared


def test_the_package_of_the_docs_works_as_it_is_written(tmp_path: Path) -> None:
    """docs/addons/index.md: a reader, a dialect, a target, a store, a command and a format."""
    page = (Path(__file__).parents[2] / "docs/addons/index.md").read_text("utf-8")
    for name, code in re.findall(r"```python\n# (shop/\w+\.py)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code, "utf-8")
    info = tmp_path / "shop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[germane.addons]\nshop = shop:ADDON\n", "utf-8")
    log = [{"ask": "q1", "want": "d1", "got": "d1"}, {"ask": "q2", "want": "d2", "took": "d1"}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log), "utf-8")
    (tmp_path / "evals.yaml").write_text("shop_log: log.jsonl\n", "utf-8")
    (tmp_path / "targets.yaml").write_text("targets: [{name: live, provider: shop, prefix: d}]\n", "utf-8")
    (tmp_path / "q.jsonl").write_text('{"id": "1", "query": "q", "qrels": {"d1": 1}}\n', "utf-8")

    assert germane(tmp_path, "run", "log.jsonl", "-m", "R@1", "-o", "report.bars").returncode == 0
    assert (tmp_path / "report.bars").read_text("utf-8") == "R@1 #####\n"
    assert germane(tmp_path, "run", "evals.yaml", "-o", "again.bars").returncode == 0
    assert (tmp_path / "again.bars").read_text("utf-8") == "R@5 #####\n"
    assert germane(tmp_path, "shop", "log.jsonl", "--top", "5").stdout == "q2\n"
    live = germane(tmp_path, "run", "q.jsonl", "--target", "live", "-m", "context_precision", "--judge", "lexical", "--ledger", "shop://answers.sqlite", "-o", "live.bars")  # fmt: skip
    assert live.returncode == 0, live.stderr
    assert (tmp_path / "answers.sqlite").exists()
