"""The pytest plugin: tests record what their system retrieves, and the session passes or fails by the means.

It imports nothing of germane before a test uses the fixture `germane` or an option names a report.
"""

from __future__ import annotations

import base64
import pickle
import re
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
    """The records of a session by their test, the workers whose records are lost, and the report made of them.

    `unmeasured`: configured gates whose measure no test recorded.
    """

    records: dict[str, list[RecordedSample]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    report: Report | None = None
    problem: str = ""
    unmeasured: list[str] = field(default_factory=list)
    passed: bool = True


_SESSION = pytest.StashKey[_Session]()
_WORKER = "germane"
"""The key under which a worker of xdist hands over its records."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("germane", "retrieval evaluation (germane)")
    group.addoption(
        "--germane-report",
        metavar="PATH",
        help="write what tests recorded: a report folder, or a file (.html .json .md ...)",
    )
    group.addoption(
        "--germane-gate",
        metavar="GATE",
        action="append",
        default=[],
        help="fail the session where this is not reached, e.g. 'lower(RR)>=0.8'; repeatable; ini: germane_gates",
    )
    group.addoption(
        "--germane-allow-stand-in",
        action="store_true",
        help="let gates decide on verdicts of a stand-in for a model (lexical); default: undecided",
    )
    parser.addini("germane_gates", "gates on what tests record, one a line", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Raise UsageError for a gate that cannot be used, before any test runs."""
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
    """Records what a system retrieved: `germane.record(query=..., contexts=..., qrels=..., measures="RR nDCG@10")`."""
    from germane.testing import Recorder

    name = request.node.nodeid
    recorder = Recorder(name)
    # of a test that is run again, the last time counts
    request.config.stash[_SESSION].records[name] = recorder.records
    return recorder


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Collect the records of an xdist worker."""
    session = node.config.stash[_SESSION]
    packed = getattr(node, "workeroutput", {}).get(_WORKER)
    if packed is not None:
        session.records |= pickle.loads(base64.b64decode(packed))  # noqa: S301 - of our own worker
    elif error:
        session.lost.append(str(node.gateway.id))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In an xdist worker, send the records to the controller; elsewhere decide the gates and fail the session by them."""
    result = session.config.stash[_SESSION]
    records = {name: some for name, some in result.records.items() if some}
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
    """Make the report, decide its gates, write it."""
    asked: list[str] = config.getoption("--germane-gate")
    path = config.getoption("--germane-report")
    if state.lost:
        workers = ", ".join(state.lost)
        state.passed, state.problem = False, f"a worker crashed, and what it recorded is lost: {workers}"
        return
    if not records:
        if asked or path:
            state.passed, state.problem = False, "no test recorded anything: germane.record(...)"
        return
    from germane.errors import GermaneError
    from germane.testing import report_of, save_report

    try:
        state.report, state.unmeasured = report_of(
            records,
            asked,
            config.getini("germane_gates"),
            allow_stand_in=config.getoption("--germane-allow-stand-in"),
        )
        state.passed = state.report.verdict.passed
        if path is not None:
            save_report(state.report, Path(path))
    except (GermaneError, OSError) as error:
        state.passed, state.problem = False, str(error)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print one block: the worst queries, the means, the gates and the verdict."""
    session = config.stash[_SESSION]
    if session.report is None and not session.problem:
        return
    terminalreporter.section("germane", sep="=", bold=True, **{"green" if session.passed else "red": True})
    if session.report is not None:
        from germane.reports.text.terminal import render_plain

        width = max(terminalreporter._tw.fullwidth, 60)  # noqa: SLF001 - it has no other way
        text = render_plain(session.report, width)
        terminalreporter.write_line(re.sub(r"(?<![\w-])--(?=allow-stand-in)", "--germane-", text))
        if session.unmeasured:
            gates = ", ".join(session.unmeasured)
            terminalreporter.write_line(f"not decided, since no test recorded the measure: {gates}")
        path = config.getoption("--germane-report")
        if path and not session.problem:
            terminalreporter.write_line(f"wrote {path}")
    if session.problem:
        terminalreporter.write_line(f"germane: {session.problem}", red=True)
