"""Settings from the project's file: below flags and environment, above the defaults; never a way to a key."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, write_jsonl
from tests.server import ModelServer

ROW = {"id": "q1", "query": "a", "qrels": {"d1": 1}, "contexts": [{"id": "d1", "text": "a b", "grade": 3}]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "data.jsonl", ROW)


def test_a_project_names_its_judge_measures_and_gates(inside: Cli, data: Path, tmp_path: Path) -> None:
    """[tool.germane] holds for every run below it; a flag goes before it."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.germane]\njudge = "labels"\nmeasures = ["context_precision@5 RR"]\ngates = ["mean(RR)>=2"]\n'
    )
    ran = inside("run", data, "--json")
    assert set(ran.json["measures"]) == {"context_precision@5", "RR"}
    assert ran.json["judge"]["source"] == "labels"
    assert ran.code == 1
    assert set(inside("run", data, "--json", "-m", "RR P@1").json["measures"]) == {"RR", "P@1"}
    assert inside("run", data, "--fail-under", "mean(RR)>=1").code == 0


def test_an_eval_file_goes_before_the_config(inside: Cli, data: Path, tmp_path: Path) -> None:
    """And a flag before both; two files that differ are settled by a flag too."""
    (tmp_path / "germane.toml").write_text('against = "query"\nrepeat = 2\n')
    for name, against in (("a", "reference"), ("b", "criterion")):
        (tmp_path / f"{name}.yaml").write_text(
            f"judge: lexical\nagainst: {against}\nmeasures: [context_precision]\ndata: {data.name}\n"
        )

    def asked(*words: str) -> object:
        assert inside("run", *words, "--force", "-o", "r").code in {0, 2, 3}
        manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
        return manifest["settings"]["against"], manifest["options"]["repeat"]

    assert asked("a.yaml") == ("reference", 2)
    assert asked("a.yaml", "--against", "auto", "--repeat", "3") == ("auto", 3)


def test_a_misspelt_setting_is_named(inside: Cli, data: Path, tmp_path: Path) -> None:
    """An unknown key is an error that names the file and the nearest key."""
    (tmp_path / "germane.toml").write_text('jugde = "labels"\n')
    ran = inside("run", data, "-m", "context_precision")
    assert ran.code == 2
    assert "germane.toml" in ran.err
    assert "known settings: judge" in ran.err


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("max_unmeasured = 2", "a number from 0 to 1"),
        ("max_unmeasured = nan", "a number from 0 to 1"),
        ("jobs = 0", "an integer >= 1"),
        ("scale = 'ternary'", "graded or binary"),
    ],
)
def test_a_setting_outside_its_range_is_an_error(
    inside: Cli, data: Path, tmp_path: Path, setting: str, allowed: str
) -> None:
    """As the flag's value is; nan would have allowed any number of missing scores."""
    (tmp_path / "germane.toml").write_text(f"{setting}\n")
    ran = inside("run", data, "-m", "RR")
    assert ran.code == 2
    name, _, value = setting.split()
    assert f"germane.toml: invalid value {value} of the setting {name}; write {allowed}" in ran.err


def test_a_key_goes_to_no_url_that_a_file_names(inside: Cli, data: Path, tmp_path: Path) -> None:
    """A URL in an eval file or in a resumed folder gets no key; the same URL by flag does."""
    key = {"OPENAI_API_KEY": "secret"}
    with ModelServer() as server:
        (tmp_path / "suite.yaml").write_text(
            f"judge: openai:test@{server.url}\nmeasures: [context_precision]\ndata: data.jsonl\n"
        )
        assert inside("run", "suite.yaml", "--no-cache", env=key).code == 0
        assert all("authorization" not in asked.headers for asked in server.asked)
        before = len(server.asked)
        words = [
            "run",
            data,
            "-m",
            "context_precision",
            "--judge",
            "openai:test",
            "--base-url",
            server.url,
            "-o",
            "r",
        ]
        assert inside(*words, "--no-cache", env=key).code == 0
        assert all(asked.headers.get("authorization") == "Bearer secret" for asked in server.asked[before:])
        before = len(server.asked)
        (tmp_path / "r" / "judgements.jsonl").write_text("")
        manifest = tmp_path / "r" / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"complete"', '"running"'))
        assert inside("run", "--resume", "r", env=key).code == 0
        assert len(server.asked) > before
        assert all("authorization" not in asked.headers for asked in server.asked[before:])


@pytest.mark.parametrize(("file", "before"), [("germane.toml", ""), ("pyproject.toml", "[tool.germane]\n")])
@pytest.mark.parametrize(
    ("gate", "problem"),
    [
        ("mean(nDCG@10)>=0.5", "nDCG@10, which is not measured; name one of the measures RR"),
        ("RR?", "not a gate"),
    ],
)
def test_a_gate_of_the_config_is_named_with_its_file(
    inside: Cli, data: Path, tmp_path: Path, file: str, before: str, gate: str, problem: str
) -> None:
    """A gate of a flag is on the command line already."""
    (tmp_path / file).write_text(f'{before}gates = ["{gate}"]\n')
    ran = inside("run", data, "-m", "RR")
    assert ran.code == 2
    assert f"germane: {file}: " in ran.err
    assert problem in ran.err
    assert file not in inside("run", data, "-m", "RR", "--fail-under", gate).err
