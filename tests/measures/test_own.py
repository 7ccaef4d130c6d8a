"""Measures of one's own: a file of ten lines, a formula of ten lines, a package's entry point."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from germane import compare, evaluate
from germane.errors import InputError, MeasureError
from germane.measures import Measure, parse_measures
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

    @pytest.mark.parametrize(
        ("outcome", "why"),
        [
            ("status='unknown', why='x'", "the status 'unknown'"),
            ("status='error', why=7", "no reason"),
            ("status='incomplete', why='x', bounds=(1, 0)", r"the bounds (1, 0)"),
            ("status='incomplete', why='x', bounds=(0.5,)", r"the bounds (0.5,)"),
            ("status='incomplete', why='x', bounds=(float('nan'), 1)", r"the bounds (nan, 1)"),
        ],
    )
    def test_an_invalid_outcome_is_the_error_of_one_sample(self, tmp_path, name, outcome, why):
        """Other samples keep their scores, and the report is written."""
        text = "from germane.measures.outcome import Outcome\n\n"
        text += f"def {name}(sample):\n    return Outcome({outcome}) if sample.id == '1' else 0.5\n"
        report = evaluate(SAMPLES, f"{write(tmp_path, text)}:{name}")
        broken, fine = report.scores()
        assert (broken.status, fine.value) == ("error", 0.5)
        assert why in (broken.why or "")
        report.save(tmp_path / "out")

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

    def test_direction_and_range_are_known_without_the_file(self, tmp_path, name):
        """In a report folder, and in a document of --json, which continuous integration keeps."""
        text = "from germane.measures import measure\n\n@measure(better='lower', range=(0, 10))\n"
        write(tmp_path, f"{text}def {name}(sample):\n    return sample.metadata['cost']\n")
        for report, more in (("old", 0), ("new", 3)):
            rows = [
                {"id": str(at), "query": "q", "contexts": [], "metadata": {"cost": at % 3 + more}}
                for at in range(20)
            ]
            rows[0]["metadata"] = {"cost": 0}
            (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
            words = ["run", "s.jsonl", "-m", f"my_measures.py:{name}", "-o", report, "-o", f"{report}.json"]
            subprocess.run(
                [sys.executable, "-m", "germane", *words], cwd=tmp_path, capture_output=True, check=True
            )
        for end in (".json", ""):
            found = compare(tmp_path / f"old{end}", tmp_path / f"new{end}", margin={name: 0.5})
            assert (found.verdict, found[name].outcome) == ("fail", "worse")
        made = Report.open(tmp_path / "new")
        assert [score.value for score in made.worst(name, 1)] == [5]
        assert (made[name].interval_method, made[name].basis.source) == ("Gaffke", "gold")
        assert min(case.score or 0 for case in made.cases()) == pytest.approx(0.5)  # cost 5 of 0 to 10

    @pytest.mark.parametrize("other", ["better='lower', range=(0, 5)", ""])
    def test_two_definitions_of_one_name_are_not_compared(self, tmp_path, name, other):
        """Neither range would fit both reports; each alone can be opened."""
        (tmp_path / "s.jsonl").write_text('{"id": "a", "query": "q", "contexts": []}', "utf-8")

        def germane(*words):
            command = [sys.executable, "-m", "germane", *words]
            return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

        for report, declared in (("old", "range=(0, 10)"), ("new", other), ("same", other)):
            text = f"from germane.measures import measure\n\n@measure({declared})\ndef {name}(sample): return 1\n"
            write(tmp_path, text)
            assert germane("run", "s.jsonl", "-m", f"my_measures.py:{name}", "-o", report).returncode == 0
        for pair in (("old", "new"), ("new", "old")):
            refused = germane("compare", *pair)
            assert refused.returncode == 2
            assert f"two reports declare {name} differently: [" in refused.stderr
        assert germane("compare", "new", "same").returncode == 0

    @pytest.mark.parametrize(
        ("text", "ask", "said"),
        [
            ("", "my_measure.py:x", r"the file .*my_measure.py does not exist"),
            ("from germane.measures import AP as first_hit", "my_measures.py:frist_hit", "my_measures.py defines first_hit"),
            ("from germane.measures import measure\n@measure\nasync def x(sample): return 1", "my_measures.py:x", "asynchronous"),
            ("from germane.measures import measure\n@measure(better='max')\ndef x(sample): return 1", "my_measures.py:x", 'better="lower"'),
            ("from germane.measures import measure\n@measure(range=(1, 0))\ndef x(sample): return 1", "my_measures.py:x", "lower end first"),
            ("from germane.measures import measure\n@measure(needs='x')\ndef x(sample): return 1", "my_measures.py:x", "x needs 'x'"),
            ("x = 1", "my_measures.py:x", "has no measure 'x'; my_measures.py defines no measure"),
            ("x = 1", "my_measures.py:", "has no measure"),
            ("import json\n\nboom = 1 / 0\n", "my_measures.py:x", r"my_measures.py:3: ZeroDivisionError: division by zero"),
            ("def x(:\n", "my_measures.py:x", r"my_measures.py:1: SyntaxError"),
            ("import no_such_module_here", "my_measures.py:x", r"my_measures.py:1: ModuleNotFoundError"),
            ("def x(sample, y): ...", "my_measures.py:x", "needs a default"),
            ("from germane.measures import measure\n\n@measure(needs=('context',))\ndef x(sample): ...\n", "my_measures.py:x", r"my_measures.py:3: x needs 'context', which is not a field of a sample"),
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

    @pytest.mark.parametrize("value", ["float('nan')", "None", "'x'"])
    def test_an_impossible_outcome_is_an_error_of_its_sample(self, tmp_path, name, value):
        """An Outcome that is ok has a finite number."""
        text = f"from germane.measures import Outcome\ndef {name}(sample):\n    return Outcome({value})\n"
        score, _ = evaluate(SAMPLES, f"{write(tmp_path, text)}:{name}").scores()
        assert (score.status, score.value) == ("error", None)
        assert f"{name} raised " in str(score.why)

    def test_values_outside_the_declared_range_bound_nothing(self, tmp_path):
        """A score that is missing could have any value, in a mean, a gate and a difference."""
        path = write(tmp_path, "def size(sample):\n    return 1 / sample.metadata['size']\n")

        def sized(*sizes):
            rows = [
                {**SAMPLES[0], "id": str(at), "metadata": {"size": size}} for at, size in enumerate(sizes)
            ]
            return evaluate(rows, f"{path}:size", gates="mean(size)>=5")

        small, large, broken = sized(10, 5, 0), sized(0.1, 0.2, 0.1), sized(0.1, 0.1, 0)
        assert small["size"].mean_bounds == pytest.approx((0.1, 0.4333), abs=1e-4)
        assert compare(small, large)["size"].interval_why == "missing scores could have any value"
        with pytest.raises(InputError, match=r"declare the range: @measure\(range="):
            compare(small, large, margin={"size": 5})
        assert (broken["size"].interval, broken.to_json()["measures"]["size"]["mean_bounds"]) == (None, None)
        assert broken.verdict.gates[0].outcome == "undecided"
