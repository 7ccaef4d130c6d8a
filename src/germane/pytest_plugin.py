"""The pytest plugin: tests record retrieved contexts, and gates on their mean scores decide the session.

The plugin imports nothing else of germane until a test uses the fixture `germane` or a gate is configured.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from germane.reports.report import Report
    from germane.testing import RecordedSample, Recorder

__all__ = ["germane"]


@dataclass(slots=True)
class _Session:
    """The state of a pytest session."""

    records: dict[str, list[RecordedSample]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    report: Report | None = None
    problem: str = ""
    unmeasured: list[str] = field(default_factory=list)
    passed: bool = True


_SESSION = pytest.StashKey[_Session]()
_WORKER = "germane"
"""The key under which an xdist worker sends its recorded samples to the controller."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options, such as `--germane-report`, to pytest's command line and settings."""
    group = parser.getgroup("germane", "retrieval evaluation (germane)")
    report = "write the report of the recorded samples to a folder or file (.html .json .md ...); repeatable"
    group.addoption("--germane-report", metavar="PATH", action="append", default=[], help=report)
    gate = "fail the session if this gate fails, e.g. 'lower(RR)>=0.8'; repeatable; in the ini: germane_gates"
    group.addoption("--germane-gate", metavar="GATE", action="append", default=[], help=gate)
    stand_in = "decide gates although the judge was lexical, a stand-in for a model; default: undecided"
    group.addoption("--germane-allow-stand-in", action="store_true", help=stand_in)
    parser.addini("germane_gates", "gates on the recorded samples, one per line", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Check the configured gates before any test runs. Raises UsageError for an invalid gate."""
    config.stash[_SESSION] = _Session()
    gates = [*config.getoption("--germane-gate"), *config.getini("germane_gates")]
    if gates and not hasattr(config, "workerinput"):
        from germane.errors import GermaneError
        from germane.reports.gates import Gate

        try:
            for gate in gates:
                Gate.parse(gate)
        except GermaneError as error:
            raise pytest.UsageError(str(error)) from None


@pytest.fixture
def germane(request: pytest.FixtureRequest) -> Recorder:
    """Return the test's Recorder, which measures and records samples.

    For example: `germane.record(query=..., contexts=..., qrels=..., measures="RR nDCG@10")`.
    """
    from germane.testing import Recorder

    name = request.node.nodeid
    recorder = Recorder(name)
    # if a test is run again, its last run counts
    request.config.stash[_SESSION].records[name] = recorder.records
    return recorder


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Collect the recorded samples of an xdist worker that has ended, or note that the worker crashed."""
    session = node.config.stash[_SESSION]
    packed = getattr(node, "workeroutput", {}).get(_WORKER)
    if packed is not None:
        session.records |= pickle.loads(base64.b64decode(packed))  # noqa: S301 - of our own worker
    elif error:
        session.lost.append(str(node.gateway.id))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Decide the gates, and fail the session if a gate fails.

    In an xdist worker, send the recorded samples to the controller instead.
    """
    result = session.config.stash[_SESSION]
    records = {name: rows for name, rows in result.records.items() if rows}
    if hasattr(session.config, "workerinput"):
        output: dict[str, Any] = session.config.workeroutput  # type: ignore[attr-defined]
        if records:
            output[_WORKER] = base64.b64encode(pickle.dumps(records)).decode()
        return
    if session.config.option.collectonly:
        return
    _decide(session.config, result, records)
    if not result.passed and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _decide(config: pytest.Config, state: _Session, records: Mapping[str, list[RecordedSample]]) -> None:
    """Build the report of the recorded samples, decide its gates, and write it if a path is configured."""
    asked: list[str] = config.getoption("--germane-gate")
    paths: list[str] = config.getoption("--germane-report")
    if state.lost:
        why = "these xdist workers crashed and their samples are lost"
        state.problem = f"the gates cannot be decided, since {why}: {', '.join(state.lost)}"
    elif not records and (asked or paths):
        fix = "call germane.record(query=..., contexts=..., measures=...) in a test"
        state.problem = f"no test recorded a sample; {fix}"
    state.passed = not state.problem
    if state.problem or not records:
        return
    from germane.errors import GermaneError
    from germane.folder.files import read_manifest
    from germane.testing import report_of

    stand_in, configured = config.getoption("--germane-allow-stand-in"), config.getini("germane_gates")
    try:
        state.report, state.unmeasured = report_of(records, asked, configured, allow_stand_in=stand_in)
        state.passed = state.report.verdict.passed
        for path in paths:
            own = (Path(path) / "manifest.json").exists() and read_manifest(Path(path)).get(
                "made_by"
            ) == "pytest"
            state.report.save(path, force=own)  # in place of an earlier session's
    except (GermaneError, OSError) as error:
        state.passed, state.problem = False, str(error)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print germane's section of the terminal summary: the worst queries, the means and the gates."""
    session = config.stash[_SESSION]
    if session.report is None and not session.problem:
        return
    terminalreporter.section("germane", sep="=", bold=True, **{"green" if session.passed else "red": True})
    if session.report is not None:
        from germane.reports.text.overview import render_plain

        width = max(terminalreporter._tw.fullwidth, 60)  # noqa: SLF001 - it has no other way
        text = render_plain(session.report, width)
        text = text.replace("(unless allow_stand_in", "(unless --germane-allow-stand-in")
        terminalreporter.write_line(text)
        if session.unmeasured:
            gates = ", ".join(session.unmeasured)
            terminalreporter.write_line(f"gates not decided, since no test recorded their measure: {gates}")
        for path in () if session.problem else config.getoption("--germane-report"):
            terminalreporter.write_line(f"wrote {path}")
    if session.problem:
        terminalreporter.write_line(f"germane: {session.problem}", red=True)
