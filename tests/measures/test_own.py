"""Measures of one's own: a file of ten lines, a formula of ten lines, a package's entry point."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from germane import addons, evaluate
from germane.errors import InputError, MeasureError
from germane.judges import FakeJudge, Reply
from germane.measures import Measure, parse_measures
from germane.measures.graders import define_grader
from germane.measures.measure import definitions
from germane.reports.report import Report

FIRST_HIT = '''
from germane.measures import measure

@measure("{name}", needs=("contexts", "qrels"))
def first_hit(sample, least: int = 1):
    """1 if the first context is a gold document, else 0."""
    if not sample.contexts:
        return 0
    return sample.qrels.get(sample.contexts[0].id, 0) >= least
'''

TOP_HEAVY = '''
from germane.measures import ranked_measure

@ranked_measure("{name}")
def top_heavy(relevant, share: float = 0.5):
    """The first relevant place counts `share`, each further one that much of what is left."""
    left = 1.0
    for hit in relevant:
        left *= 1 - share * hit
    return 1 - left
'''

SAMPLES = [
    {
        "id": "1",
        "query": "q",
        "contexts": [{"id": "d1", "text": "a"}, {"id": "d2", "text": "b"}],
        "qrels": {"d1": 1},
    },
    {
        "id": "2",
        "query": "q",
        "contexts": [{"id": "d2", "text": "b"}, {"id": "d1", "text": "a"}],
        "qrels": {"d1": 1},
    },
]
_numbers = count()


@pytest.fixture
def name():
    """A name that no other test has registered."""
    return f"own_{next(_numbers)}"


def write(folder: Path, text: str, file: str = "my_measures.py") -> Path:
    path = folder / file
    path.write_text(text, "utf-8")
    return path


class TestAFile:
    def test_ten_lines(self, tmp_path, name):
        """A decorated function is a measure under its own name, with its keywords as parameters."""
        path = write(tmp_path, FIRST_HIT.format(name=name))
        assert len(FIRST_HIT.strip().splitlines()) <= 10
        report = evaluate(SAMPLES, [f"{path}:first_hit", f"{path}:first_hit(least=2)"])
        assert report[name].mean == 0.5
        assert report[f"{name}(least=2)"].mean == 0.0
        assert Measure(name).definition.doc.startswith("1 if the first context")

    def test_a_plain_function(self, tmp_path):
        """Even without the decorator."""
        path = write(
            tmp_path, 'def how_many(sample):\n    """How many."""\n    return len(sample.contexts) / 2\n'
        )
        assert evaluate(SAMPLES, f"{path}:how_many")["how_many"].mean == 1.0

    def test_relative_paths_start_from_a_folder(self, tmp_path, name, monkeypatch):
        """The working directory, or the folder that is given; a file is run once."""
        write(tmp_path, FIRST_HIT.format(name=name))
        assert [m.name for m in parse_measures(["my_measures.py:first_hit"], tmp_path)] == [name]
        monkeypatch.chdir(tmp_path)
        assert [m.name for m in parse_measures(["nDCG@5 my_measures.py:first_hit"])] == ["nDCG", name]

    def test_on_the_command_line(self, tmp_path, name):
        """`germane run DATA -m my_measures.py:first_hit`, and the report can be opened without the file."""
        write(tmp_path, FIRST_HIT.format(name=name))
        data = tmp_path / "data.jsonl"
        data.write_text("\n".join(map(json.dumps, SAMPLES)), "utf-8")
        command = ["run", str(data), "-m", "my_measures.py:first_hit", "--json", "-o", str(tmp_path / "out")]
        done = subprocess.run(
            [sys.executable, "-m", "germane", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["measures"][name]["mean"] == 0.5
        report = Report.open(
            document["report"] if Path(document["report"]).is_absolute() else tmp_path / document["report"]
        )
        assert report[name].mean == 0.5
        assert name not in {one.name for one in definitions()}

    @pytest.mark.parametrize(
        ("text", "ask", "said"),
        [
            ("", "my_measure.py:x", r"no file .*my_measure.py; did you mean .*my_measures.py\?"),
            ("from germane.measures import AP as first_hit", "my_measures.py:frist_hit", "did you mean my_measures.py:first_hit"),
            ("x = 1", "my_measures.py:x", "has no measure 'x'; it has none"),
            ("x = 1", "my_measures.py:", "which measure of it"),
            ("import json\n\nboom = 1 / 0\n", "my_measures.py:x", r"my_measures.py:3: ZeroDivisionError: division by zero"),
            ("def x(:\n", "my_measures.py:x", r"my_measures.py:1: SyntaxError"),
            ("import no_such_module_here", "my_measures.py:x", r"my_measures.py:1: ModuleNotFoundError"),
            ("def x(sample, y): ...", "my_measures.py:x", "needs a default"),
            ("from germane.measures import measure\n\n@measure(needs=('context',))\ndef x(sample): ...\n", "my_measures.py:x", r"my_measures.py:3: x needs 'context', which is not a field of a sample; write contexts"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_said(self, tmp_path, text, ask, said):
        """File, line and the nearest name, as an error that the user can mend."""
        write(tmp_path, text)
        with pytest.raises(InputError, match=said):
            parse_measures([ask], tmp_path)

    def test_names_alone_never_run_a_file(self, tmp_path, monkeypatch):
        """A report that names a file makes nothing run."""
        write(tmp_path, "raise SystemExit('run!')")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(MeasureError):
            Measure.parse("my_measures.py:x")
        assert Measure.remembered("my_measures.py:x").name == "my_measures.py:x"

    def test_a_fault_is_an_error_of_its_sample(self, tmp_path):
        """A measure that raises on one sample leaves the others alone, and says what it raised."""
        path = write(tmp_path, "def faulty(sample):\n    return 1 / int(sample.contexts[0].id == 'd1')\n")
        first, second = evaluate(SAMPLES, f"{path}:faulty").scores()
        assert first.value == 1.0
        assert (second.status, second.why) == ("error", "faulty raised ZeroDivisionError: division by zero")


class TestAFormula:
    def test_ten_lines(self, tmp_path, name):
        """A function of the list of labels; threshold, label source, cut-off and calls are those of every measure."""
        assert len(TOP_HEAVY.strip().splitlines()) <= 10
        path = write(tmp_path, TOP_HEAVY.format(name=name))
        (measure,) = parse_measures([f"{path}:top_heavy"])
        gold = measure(labels="gold")
        report = evaluate(SAMPLES, [gold, gold @ 1, gold(share=1.0)])
        assert [summary.mean for summary in report.summaries] == [0.5, 0.25, 1.0]

    def test_missing_verdicts_give_bounds(self, tmp_path, name):
        """The bounds of an incomplete score are found by trying, for a formula that nobody has seen before."""
        path = write(tmp_path, TOP_HEAVY.format(name=name))
        judge = FakeJudge({"a": {"reasoning": "", "grade": 3}, "b": Reply(error="no")})
        (score,) = evaluate(SAMPLES[:1], f"{path}:top_heavy", judge=judge).scores()
        assert (score.status, score.bounds) == ("incomplete", (0.5, 0.75))

    def test_a_fault_is_an_error_of_its_sample(self, tmp_path, name):
        """A formula that raises on one ranking leaves the others alone."""
        text = f"from germane.measures import ranked_measure\n@ranked_measure('{name}', labels='gold')\ndef f(relevant):\n    return 1 / relevant[0]\n"
        path = write(tmp_path, text)
        first, second = evaluate(SAMPLES, f"{path}:f").scores()
        assert first.value == 1.0
        assert (second.status, second.why) == ("error", f"{name} raised ZeroDivisionError: division by zero")

    def test_a_fault_on_labels_that_are_only_tried(self, tmp_path, name):
        """A formula that raises for what a missing verdict could be is an error of that sample, not of the run."""
        text = f"from germane.measures import ranked_measure\n@ranked_measure('{name}')\ndef f(relevant):\n    return 1 / (2 - sum(relevant))\n"
        path = write(tmp_path, text)
        judge = FakeJudge({"a": {"reasoning": "", "grade": 3}, "b": Reply(error="no")})
        (score,) = evaluate(SAMPLES[:1], f"{path}:f", judge=judge).scores()
        assert (score.status, score.why) == (
            "error",
            f"{name} raised ZeroDivisionError: division by zero",
        )

    def test_grades_and_ideal(self, tmp_path, name):
        """Grades as they are (None = unjudged), and all that is judged for the query."""
        text = f"from germane.measures import ranked_measure\n@ranked_measure('{name}', labels='gold')\ndef f(grades, ideal, k):\n    assert grades == [1, None][:k] or grades == [None, 1][:k], grades\n    return sum(g or 0 for g in grades) / sum(ideal)\n"
        path = write(tmp_path, text)
        (measure,) = parse_measures([f"{path}:f"])
        assert evaluate(SAMPLES, [measure, measure @ 1])[str(measure @ 1)].mean == 0.5


class TestPackages:
    def point(self, monkeypatch, name, value):
        declared = addons.Addon(about="Measures.", measures={name: value})
        monkeypatch.setattr(addons, "_installed", cache(lambda: [declared]))

    def test_a_measure_of_an_addon_is_found_by_its_name(self, tmp_path, name, monkeypatch):
        """A package that is installed brings its measures; they are loaded when they are named."""
        write(tmp_path, FIRST_HIT.format(name=name), f"{name}_package.py")
        monkeypatch.syspath_prepend(str(tmp_path))
        self.point(monkeypatch, name, f"{name}_package:first_hit")
        assert evaluate(SAMPLES, name)[name].mean == 0.5

    def test_a_number_in_its_name_is_no_cut_off_of_a_grader(self, tmp_path, monkeypatch):
        """`house_rule_8` is the package's measure, not the grader `house_rule` at 8, which has no cut-off."""
        define_grader("house_rule")
        write(tmp_path, FIRST_HIT.format(name="house_rule_8"), "house_package.py")
        monkeypatch.syspath_prepend(str(tmp_path))
        self.point(monkeypatch, "house_rule_8", "house_package:first_hit")
        assert evaluate(SAMPLES, "house_rule_8")["house_rule_8"].mean == 0.5

    @pytest.mark.parametrize(
        ("value", "said"), [("no_such_package:x", "cannot be loaded"), ("json:loads", "is not a measure")]
    )
    def test_a_broken_one_says_so(self, name, monkeypatch, value, said):
        """Whose it is and what is wrong with it."""
        self.point(monkeypatch, name, value)
        with pytest.raises(InputError, match=said):
            Measure.parse(name)
