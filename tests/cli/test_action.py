"""action.yml, step by step as GitHub runs it: its scripts are run; the cache and `gh` are stood in for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from germane.types import Json
from tests.cli.conftest import write_jsonl

ACTION = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text("utf-8"))
GH = """#!/bin/sh
printf '%s ' "$@" >> "$GH_LOG"; echo >> "$GH_LOG"
case "$*" in *--jq*) test ! -f "$GH_LOG.comments" || jq -r "$5" "$GH_LOG.comments"; exit 0;; esac
cp .germane/ci/comment.md "$GH_LOG.body"
test -f "$GH_LOG.comments" || jq -n --rawfile body "$GH_LOG.body" --arg login "$AUTHOR" \
  '[{id: 7, user: {login: $login}, body: $body}]' > "$GH_LOG.comments"
"""
_NAME = re.compile(r"'[^']*'|[A-Za-z_]+\([^)]*\)|[A-Za-z_][\w.-]*")


class Workflow:
    """One job with this action in a repository, with what GitHub's cache holds between jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, dict[str, bytes]()
        self.number = 0
        bin_ = folder / "bin"
        bin_.mkdir()
        (bin_ / "gh").write_text(GH)
        (bin_ / "gh").chmod(0o755)
        self.path = f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(self, event: str, *, fork: bool = False, committed: bool = False, **inputs: str) -> int:
        """The exit code of the action's last step; `committed`: .germane stands in the branch."""
        self.number += 1
        if not committed:
            shutil.rmtree(self.folder / ".germane", ignore_errors=True)
        values: dict[str, str] = {
            **{f"inputs.{name}": str(one.get("default", "")) for name, one in ACTION["inputs"].items()},
            **{f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()},
            "inputs.token": "t",
            "github.event_name": event,
            "github.base_ref": "main",
            "github.ref_name": "main",
            "github.repository": "us/it",
            "github.event.pull_request.head.repo.full_name": "them/it" if fork else "us/it",
            "github.event.pull_request.number": "12",
            "github.run_id": str(self.number),
            "github.run_attempt": "1",
        }
        failed = 0
        for step in ACTION["runs"]["steps"]:
            wanted = step.get("if", "success()")
            if step["name"] == "Install germane" or not _value(wanted, values, failed):
                continue
            given = {
                name: _text(text, values)
                for name, text in {**step.get("env", {}), **step.get("with", {})}.items()
            }
            if "uses" in step:
                self._cache(step["uses"], given)
            else:
                failed = self._script(step, given, values) or failed
        return failed

    def _cache(self, action: str, given: dict[str, str]) -> None:
        file = self.folder / given["path"]
        if "/save@" in action:
            self.cache |= {given["key"]: file.read_bytes()} if file.exists() else {}
        else:
            found = [data for key, data in self.cache.items() if key.startswith(given["restore-keys"])]
            for data in found[-1:]:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)

    def _script(self, step: dict[str, Any], given: dict[str, str], values: dict[str, str]) -> int:
        assert "${{" not in step["run"]
        output = self.folder / "output"
        output.write_text("")
        env = {"PATH": self.path, "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
               "GITHUB_ACTIONS": "true", "GH_LOG": str(self.folder / "gh")}  # fmt: skip
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        code = subprocess.run(words, env={**env, **given}, cwd=self.folder, check=False).returncode
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step['id']}.outputs.{name}"] = value
        return code

    def said(self, name: str) -> str:
        return (self.folder / name).read_text("utf-8")


def _value(expression: str, values: dict[str, str], failed: int) -> Json:
    """An expression of GitHub's, as far as the action uses them."""

    def named(found: re.Match[str]) -> str:
        word = found[0]
        if word in {"always()", "success()"}:
            return repr(word == "always()" or not failed)
        return word if word.startswith("'") else repr(values.get(word, ""))

    python = _NAME.sub(named, expression).replace("&&", " and ").replace("||", " or ")
    done = eval(python, {})
    return done if "always()" in expression else not failed and done


def _text(template: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: str(_value(found[1], values, 0)), template)


def rows(*grades: int) -> list[dict[str, Json]]:
    return [
        {"id": f"q{n}", "query": "a", "contexts": [{"text": "x", "grade": grade}, {"text": "y", "grade": 3}]}
        for n, grade in enumerate(grades)
    ]


@pytest.fixture
def workflow(tmp_path: Path) -> Workflow:
    write_jsonl(tmp_path / "data.jsonl", *rows(3, 3, 3, 0))
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/e.yaml").write_text(
        "judge: labels\nmeasures: [context_precision]\ngates: ['mean(context_precision)>=0.4']\ndata: ../data.jsonl\n"
    )
    return Workflow(tmp_path)


def test_a_pull_request_is_compared_with_what_the_base_branch_last_had(workflow: Workflow) -> None:
    """The push keeps its report; the pull request finds it, says the difference, and changes its comment later."""
    assert workflow.run("pull_request") == 0
    assert "No report of the base branch is known yet" in workflow.said("gh.body")
    assert workflow.run("push") == 0
    write_jsonl(workflow.folder / "data.jsonl", *rows(3, 0, 0, 0))
    assert workflow.run("pull_request") == 0
    body = workflow.said("gh.body")
    assert body.startswith("<!-- germane -->")
    assert "0.8750" in body
    assert "0.6250" in body
    calls = workflow.said("gh").splitlines()
    assert "repos/us/it/issues/12/comments -F" in calls[1]
    assert "--method PATCH repos/us/it/issues/comments/7" in calls[3]
    assert "0.6250" in workflow.said("summary")


@pytest.mark.parametrize(
    ("author", "body"),
    [
        ("stranger", "<!-- germane -->"),
        ("github-actions[bot]", "Said <!-- germane -->"),
        ("", "<!-- germane -->"),
    ],
)
def test_a_comment_of_somebody_else_is_not_changed(workflow: Workflow, author: str, body: str) -> None:
    """Whoever begins a comment with the same words keeps it; one of our own is written beside it."""
    comments = [{"id": 5, "user": {"login": author}, "body": body}]
    (workflow.folder / "gh.comments").write_text(json.dumps(comments))
    assert workflow.run("pull_request") == 0
    assert "PATCH" not in workflow.said("gh")
    assert "repos/us/it/issues/12/comments -F" in workflow.said("gh")


def test_a_margin_gates_the_change(workflow: Workflow) -> None:
    """Without a base report it is undecided; a loss beyond it fails."""
    assert workflow.run("pull_request", margin="context_precision: 0.02") == 3
    write_jsonl(workflow.folder / "data.jsonl", *rows(*[3] * 30))
    assert workflow.run("push") == 0
    assert workflow.run("pull_request", margin="context_precision: 0.2\n") == 0
    write_jsonl(workflow.folder / "data.jsonl", *rows(*[0] * 30))
    assert workflow.run("pull_request", margin="context_precision: 0.2") == 1


def test_a_failed_gate_fails_after_the_comment(workflow: Workflow) -> None:
    """The flags of `args` are split as a shell would, and run nothing."""
    args = "--fail-under 'mean(context_precision) >= 0.9' --limit 4"
    assert workflow.run("pull_request", args=args) == 1
    assert "Failed" in workflow.said("gh.body")
    assert workflow.run("push", args="--limit $(touch ran) 4") == 2
    assert not (workflow.folder / "ran").exists()


def test_a_fork_gets_no_comment_and_is_gated_by_the_replayed_answers(workflow: Workflow) -> None:
    """No ledger is restored or kept; what the export lacks is exit 3."""
    other = {"key": "ab" * 16, "kind": "relevance", "judge": "openai:gpt-4o-mini", "answer": {"grade": 1}}
    (workflow.folder / "answers.jsonl").write_text(json.dumps(other) + "\n")
    (workflow.folder / "evals/e.yaml").write_text(
        "judge: openai:gpt-4o-mini\nmeasures: [context_precision]\ndata: ../data.jsonl\n"
    )
    assert workflow.run("pull_request", fork=True, replay="answers.jsonl") == 3
    assert not (workflow.folder / "gh").exists()
    assert not any("ledger" in key for key in workflow.cache)
    assert "are not in answers.jsonl" in workflow.said("summary")


def test_what_is_wrong_in_the_input_fails_and_is_said(workflow: Workflow) -> None:
    """A broken eval file is exit 2; the comment says that the evaluation did not end."""
    (workflow.folder / "evals/e.yaml").write_text("measures: [nope]\n")
    assert workflow.run("pull_request") == 2
    assert "did not end" in workflow.said("gh.body")


def test_every_input_is_used_and_described() -> None:
    """And nothing else is read."""
    text = json.dumps(ACTION["runs"])
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == set(ACTION["inputs"])
    assert all(one["description"] for one in ACTION["inputs"].values())


def test_what_a_branch_commits_is_no_answer_and_no_base(workflow: Workflow, tmp_path: Path) -> None:
    """A ledger and a base report in the repository are removed, a link instead of their folder too."""
    assert workflow.run("push") == 0
    (workflow.folder / "evals/e.yaml").write_text(
        "judge: labels\nmeasures: [context_precision]\ndata: ../data.jsonl\n"
    )
    workflow.cache.clear()
    assert workflow.run("pull_request", fork=True, committed=True, margin="context_precision: 0.02") == 3
    outside = tmp_path / "outside"
    (outside / "ci").mkdir(parents=True)
    (outside / "ci/kept").touch()
    shutil.rmtree(workflow.folder / ".germane")
    (workflow.folder / ".germane").symlink_to(outside)
    assert workflow.run("pull_request", fork=True, committed=True) == 0
    assert [path.name for path in (outside / "ci").iterdir()] == ["kept"]


def test_the_event_that_gives_forks_secrets_is_refused(workflow: Workflow) -> None:
    """Nothing is evaluated or kept."""
    assert workflow.run("pull_request_target", fork=True) == 2
    assert not workflow.cache
    assert not (workflow.folder / "summary").exists()


def test_a_fork_without_key_and_answers_fails_and_says_why(
    workflow: Workflow, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is no pass, and nobody is asked."""
    (workflow.folder / "evals/e.yaml").write_text(
        "judge: openai:gpt-4o-mini\nmeasures: [context_precision]\ndata: ../data.jsonl\n"
    )
    assert workflow.run("pull_request", fork=True) == 2
    assert "OPENAI_API_KEY" in capfd.readouterr().err


def test_paths_may_have_blanks_and_are_no_flags(
    workflow: Workflow, capfd: pytest.CaptureFixture[str]
) -> None:
    """Quotes keep a name together; a file that is called like a flag is a file."""
    folder = workflow.folder / "my evals"
    folder.mkdir()
    shutil.move(workflow.folder / "evals/e.yaml", folder / "an eval.yaml")
    assert workflow.run("push", paths="'my evals/an eval.yaml'") == 0
    assert workflow.run("push", paths="'my evals/*.yaml'") == 0
    assert workflow.run("push", paths="  my\\ evals  ", args="  ") == 0
    shutil.copy(folder / "an eval.yaml", workflow.folder / "--help")
    capfd.readouterr()
    assert workflow.run("push", paths="*help") == 2
    assert "usage" not in capfd.readouterr().out


def test_an_open_quote_loses_no_gate(workflow: Workflow) -> None:
    """The flags after it would be dropped, and the run pass."""
    args = "--limit 4 --fail-under='mean(context_precision)>=0.99"
    assert workflow.run("push", args=args) == 2
    assert not workflow.cache
