"""What an eval file of AgentV's that is not trusted may read: nothing outside of its repository."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, write_jsonl
from tests.cli.test_untrusted import MEASURED, refuses
from tests.server import ModelServer

ASKED = "cases: [{{id: a, query: q, response: r, contexts: [c], evaluators: [{{type: llm_judge, {}}}]}}]"
REACHES = [
    ASKED.format("prompt: 'file://OUT/secret.md'"),
    ASKED.format("prompt: ../../secret.md"),
    ASKED.format("prompt: link.md"),
    ASKED.format("prompt: folder/secret.md"),
    MEASURED.format("cases: [{contexts: [c], input: [{role: user, content: [{type: file, value: ../../secret.md}]}]}]"),
    MEASURED.format("cases: [{contexts: [c], input: [{role: user, content: [{type: file, value: OUT/secret.md}]}]}]"),
    MEASURED.format("cases: [{query: q, contexts: [c], expected_output: [{role: user, content: [{type: file, value: link.md}]}]}]"),
    MEASURED.format("target: r\ncases: [{id: s, query: q}]"),
    MEASURED.format("target: r\ntargets: folder/repo/evals/../targets.yaml\ncases: [{id: s, query: q}]"),
]  # fmt: skip


@pytest.mark.parametrize("written", REACHES)
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_nothing_outside_of_the_repository_is_read(
    inside: Cli, repository: Path, written: str, words: tuple[str, ...]
) -> None:
    """Prompts, files in messages, files of cases, templates: not by an absolute path, by `..`, nor through links."""
    refuses(inside, repository, written, *words)


def test_what_is_inside_is_read(inside: Cli, repository: Path) -> None:
    """Files above the eval file in the repository."""
    write_jsonl(repository / "in.jsonl", {"query": "q", "contexts": ["c"]})
    (repository / "prompt.md").write_text("Is {{output}} good?")
    (repository / "evals" / "e.yaml").write_text(
        f"{MEASURED.format('data: ../in.jsonl')}\n{ASKED.format('prompt: ../prompt.md')}"
    )
    with ModelServer() as server:
        judge = ("--judge", "openai:m", "--base-url", server.url, "--untrusted", "--limit", "2")
        ran = inside("run", "evals/e.yaml", *judge, cwd=repository, env={"OPENAI_API_KEY": "k"})
        assert ran.code in {0, 3}
        assert len(server.asked) > 1
