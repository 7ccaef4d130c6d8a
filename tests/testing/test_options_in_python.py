"""Messages name arguments in Python, and flags in a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from germane import compare, evaluate
from germane.errors import GermaneError
from germane.judges import LLMJudge
from germane.testing import assert_retrieval
from tests.command import invoke

SAMPLE: dict[str, Any] = {"id": "a", "query": "q", "contexts": [{"id": "d"}], "qrels": {"d": 1}}
JUDGED = {**SAMPLE, "contexts": ["x"]}
JUDGE = LLMJudge("openai:unpriced", base_url="http://127.0.0.1:9/v1", api_key="k")


def _compared(*systems: str, **options: Any) -> object:
    report = evaluate([{**SAMPLE, "system": name} for name in systems or ("",)], "RR")
    return compare(report, evaluate([SAMPLE], "RR"), **options)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (
            lambda: assert_retrieval(JUDGED, "context_precision>=0", judge="lexical"),
            "decides nothing (unless allow_stand_in is given)",
        ),
        (lambda: evaluate([SAMPLE], "context_precision"), "name one: judge=labels | lexical"),
        (lambda: evaluate([{"query": "q", "contexts": ["x"]}]), "write judge=MODEL"),
        (lambda: evaluate([{"query": "q"}]), 'write "contexts": [...] in each'),
        (lambda: evaluate([SAMPLE], "context_precision", judge=JUDGE, max_cost=1), "or use max_calls"),
        (lambda: LLMJudge("azure:m"), "or give base_url"),
        (lambda: _compared("a", "b"), "name the one to compare: systems=['a']"),
        (lambda: _compared(systems=["x", "y", "z"]), "systems names 3 systems"),
        (lambda: _compared(margin="RR"), "margin 'RR' is not of the form"),
        (lambda: _compared(ranges="RR=x"), "ranges 'RR=x' is not MEASURE=LOW..HIGH"),
        (lambda: _compared(higher_is_better="RR"), "leave out higher_is_better"),
    ],
)
def test_python_names_arguments(
    call: Callable[[], object], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No flag of the command line, where nobody could write it."""
    monkeypatch.delenv("GERMANE_JUDGE", raising=False)
    with pytest.raises((GermaneError, AssertionError)) as caught:
        call()
    assert advice in str(caught.value)
    assert " --" not in str(caught.value)


def test_a_command_names_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a call in Python."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GERMANE_JUDGE", raising=False)
    with pytest.raises(GermaneError, match="name one: judge="):
        evaluate([SAMPLE], "context_precision")
    Path("s.jsonl").write_text(json.dumps(JUDGED))
    assert "name one: --judge labels" in invoke("run", "s.jsonl", "-m", "context_precision").err
    gate = ("-m", "context_precision", "--judge", "lexical", "--fail-under", "context_precision>=0")
    assert "nothing (unless --allow-stand-in is given)" in " ".join(
        invoke("run", "s.jsonl", *gate).out.split()
    )
