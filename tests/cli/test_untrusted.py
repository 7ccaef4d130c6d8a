"""What an eval file that is not trusted may read: nothing outside of its repository."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, write_jsonl
from tests.server import ModelServer

MEASURED = "measures: [context_precision]\n{}"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with links out of it, beside a secret."""
    (tmp_path / "secret.md").write_text("sk-secret")
    write_jsonl(tmp_path / "secret.jsonl", {"id": "s", "query": "sk-secret", "contexts": ["sk-secret"]})
    (tmp_path / "secret.yaml").write_text("assertions: [{type: contains, value: sk-secret}]\n")
    evals = tmp_path / "repo" / "evals"
    (evals / "data").mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (evals / "link.md").symlink_to(tmp_path / "secret.md")
    (evals / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (evals / "data" / "x.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (evals / "folder").symlink_to(tmp_path)
    recorded = "targets: [{name: r, provider: recorded, path: ../secret.jsonl}]\n"
    (tmp_path / "repo" / "targets.yaml").write_text(recorded)
    return tmp_path / "repo"


REACHES = [
    "data: ../../secret.jsonl",
    "data: file://OUT/secret.jsonl",
    "data: link.jsonl",
    "data: data",
    "target: r\ndata: q.jsonl",
    "target: r\ntargets: folder/repo/evals/../targets.yaml\ndata: q.jsonl",
]


def refuses(inside: Cli, repository: Path, written: str, *words: str) -> None:
    """A run of this file reads nothing outside of its repository, and nobody is asked."""
    (repository / "evals" / "e.yaml").write_text(written.replace("OUT", str(repository.parent)))
    write_jsonl(repository / "evals" / "q.jsonl", {"id": "s", "query": "q"})
    with ModelServer() as server:
        asked = ("evals/e.yaml", "--judge", "openai:m", "--base-url", server.url, *words)
        ran = inside("run", *asked, "--untrusted", cwd=repository, env={"OPENAI_API_KEY": "k"})
        assert ran.code == 2, ran.err
        assert "outside the repository" in ran.err
        assert "sk-secret" not in ran.out + ran.err
        assert not server.asked


@pytest.mark.parametrize("written", REACHES)
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_nothing_outside_of_the_repository_is_read(
    inside: Cli, repository: Path, written: str, words: tuple[str, ...]
) -> None:
    """Not by an absolute path, by `..`, nor through links."""
    refuses(inside, repository, MEASURED.format(written), *words)


def test_what_is_inside_or_named_by_the_user_is_read(inside: Cli, repository: Path) -> None:
    """Files above the eval file in the repository; a path of the command line, wherever it is."""
    write_jsonl(repository / "in.jsonl", {"query": "q", "contexts": ["c"]})
    (repository / "evals" / "e.yaml").write_text(MEASURED.format("data: ../in.jsonl"))
    words = ("-m", "context_precision", "--judge", "lexical", "--untrusted")
    assert inside("run", "evals/e.yaml", *words, cwd=repository).code == 0
    assert inside("run", "../secret.jsonl", *words, cwd=repository).code == 0
    assert inside("run", "evals/link.jsonl", *words, cwd=repository).code == 0


CODE = {
    "measures: ['evil.py:mine']": "a measure runs 'evil.py:mine'",
    "measures: [RR]\ntarget: py": "the target py",
    "measures: [RR]\ntarget: sh": "the target sh",
    "measures: [RR]\ntarget: url": "the target url",
}


@pytest.mark.parametrize("written", CODE)
def test_nothing_that_a_file_names_is_run(inside: Cli, repository: Path, written: str) -> None:
    """No Python file is imported, no command started and no live target asked, with --untrusted or in a dry run."""
    write_jsonl(repository / "evals" / "q.jsonl", {"query": "q", "qrels": {"d": 1}})
    (repository / "evals" / "evil.py").write_text("open('ran', 'w')\n")
    targets = (
        "{name: py, provider: python, function: 'evil:answer', path: evals}",
        "{name: sh, provider: cli, command_template: 'touch ran; echo {PROMPT}'}",
        "{name: url, provider: http, url: 'http://127.0.0.1:9/{{query}}'}",
    )
    (repository / "targets.yaml").write_text(f"targets: [{', '.join(targets)}]\n")
    (repository / "evals" / "e.yaml").write_text(f"{written}\ndata: q.jsonl\n")
    ran = inside("run", "evals/e.yaml", "--untrusted", cwd=repository)
    assert (ran.code, CODE[written] in ran.err, "yaml:" in ran.err) == (2, True, True), ran.err
    inside("run", "evals/e.yaml", "--dry-run", cwd=repository)
    assert not list(repository.rglob("ran"))


def test_a_continued_report_imports_nothing(inside: Cli, repository: Path) -> None:
    """A Python file with a measure runs where a flag names it, not where a manifest or the config does."""
    (repository / "m.py").write_text(
        "from pathlib import Path\nfrom germane.measures import measure\nPath('ran').touch()\n@measure\ndef mine(sample):\n    return 1.0\n"
    )
    write_jsonl(repository / "s.jsonl", {"query": "q", "contexts": ["c"]})
    words = ("s.jsonl", "--judge", "lexical", "--untrusted")
    assert inside("run", *words, "-m", "m.py:mine", "-o", "r", cwd=repository).code == 0
    (repository / "ran").unlink()
    refused = [inside("run", "--resume", "r", "--untrusted", cwd=repository)]
    (repository / "germane.toml").write_text('measures = ["m.py:mine"]')
    refused.append(inside("run", *words, "--force", cwd=repository))
    for ran in refused:
        assert (ran.code, "a measure runs 'm.py:mine'" in ran.err) == (2, True), ran.err
    assert not (repository / "ran").exists()
    assert inside("run", "--resume", "r", "-m", "m.py:mine", "--untrusted", cwd=repository).code == 0


def test_without_a_repository_the_folder_is_the_limit(inside: Cli, repository: Path) -> None:
    """What stands above the eval file is then outside."""
    (repository / ".git").rmdir()
    write_jsonl(repository / "in.jsonl", {"query": "q", "contexts": ["c"]})
    (repository / "evals" / "e.yaml").write_text(MEASURED.format("data: ../in.jsonl"))
    words = ("run", "evals/e.yaml", "--judge", "lexical")
    assert inside(*words, "--untrusted", cwd=repository).code == 2
    assert inside(*words, cwd=repository).code == 0


def test_a_continued_report_names_no_path_outside(inside: Cli, repository: Path) -> None:
    """Its manifest is a file like others: a path that is to be trusted is named."""
    words = ("-m", "context_precision", "--judge", "lexical", "-o", "r", "--untrusted")
    assert inside("run", "../secret.jsonl", *words, cwd=repository).code == 0
    again = ("run", "--resume", "r", "--untrusted")
    assert "outside the repository" in inside(*again, cwd=repository).err
    assert inside(*again[:1], "../secret.jsonl", *again[1:], cwd=repository).code == 0


@pytest.mark.parametrize(
    "written",
    [
        ("e.yaml", "description: '${{ SECRET }}'\nmeasures: [RR]\ndata: q.jsonl"),
        ("targets.yaml", "targets: [{name: t, provider: mock, response: '${{ SECRET }}'}]"),
        ("targets.yaml", "targets: [{name: t, provider: recorded, path: '${{ SECRET }}'}]"),
        (
            "targets.yml",
            "targets: [{name: t, provider: mock, response: x, models: {generator: '${{SECRET}}'}}]",
        ),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_no_variable_of_the_environment_is_expanded(
    inside: Cli, tmp_path: Path, written: tuple[str, str], *, dry: bool
) -> None:
    """In the eval file or in a file that it uses: the message names the variable."""
    write_jsonl(tmp_path / "q.jsonl", {"query": "q", "contexts": []})
    (tmp_path / "e.yaml").write_text(
        "target: t\nmeasures: [context_precision]\njudge: labels\ndata: q.jsonl\n"
    )
    (tmp_path / written[0]).write_text(written[1])
    words = ("run", "e.yaml", "--untrusted", "--no-cache", "-o", "out", *["--dry-run"] * dry)
    ran = inside(*words, env={"SECRET": "canary"})
    assert ran.code == 2
    assert "variable SECRET" in ran.err
    assert "canary" not in ran.out + ran.err
    assert not any("canary" in path.read_text() for path in (tmp_path / "out").glob("*.jsonl"))


@pytest.mark.parametrize(
    "words", ["validate e.yaml", "run e.yaml --untrusted", "run s.jsonl -m RR --doc-id (a|aa)+$"]
)
def test_a_pattern_has_a_time_limit(
    inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """An id that takes it too long is an error with the pattern and the id."""
    monkeypatch.setattr("germane.samples.contexts.PATTERN_SECONDS", 0.1)
    case = {"id": "s", "query": "q", "qrels": {"d": 1}, "contexts": [{"id": f"{'a' * 40}!", "text": "x"}]}
    (tmp_path / "e.yaml").write_text("doc_id: (a|aa)+$\nmeasures: [RR]\ndata: s.jsonl\n")
    write_jsonl(tmp_path / "s.jsonl", case)
    ran = inside(*words.split())
    assert ran.code == 2
    assert "'(a|aa)+$' takes longer than 0.1 s on the id aaaa" in ran.out + ran.err
