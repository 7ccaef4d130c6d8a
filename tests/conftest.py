"""What every test can rely on: a clean environment, repeatable randomness, and no silent skip in CI."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

pytest_plugins = ["pytester"]

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() == "true"


settings.load_profile("ci" if in_ci() else "here")

# A process under nohup or in the background ignores some signals, and its children inherit that: tests of Ctrl-C would
# wait for ever. A handler that does nothing is as good here, and is not inherited by a program that is started.
for _name in ("SIGINT", "SIGHUP", "SIGTERM"):
    if (_number := getattr(signal, _name, None)) and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """A test that did not run proves nothing: in CI that is a failure which says why (an expected failure did run)."""
    if in_ci() and report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: skipped, which CI=true does not allow: {why}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, judge or setting of the person who runs the tests reaches germane."""
    for name in list(os.environ):
        if name.startswith(("GERMANE_", "OPENAI_", "AZURE_", "ANTHROPIC_", "AGENTV_")) or name in {
            "NO_COLOR",
            "FORCE_COLOR",
            "GITHUB_STEP_SUMMARY",
        }:
            monkeypatch.delenv(name)
