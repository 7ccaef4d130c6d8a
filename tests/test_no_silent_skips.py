"""The rule of conftest.py that nothing is skipped in silence when CI=true."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py").read_text(encoding="utf-8")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A small suite with one test of each outcome that is no failure, under our conftest.py."""
    monkeypatch.delenv("CI", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        test_marked="import pytest\n@pytest.mark.skip(reason='no server')\ndef test_marked(): ...",
        test_called="import pytest\ndef test_called(): pytest.skip('no key')",
        test_module="import pytest\npytest.importorskip('no_such_module_anywhere')\ndef test_module(): ...",
        test_expected="import pytest\n@pytest.mark.xfail(reason='known')\ndef test_expected(): assert False",
        test_plain="def test_plain(): ...",
    )
    return pytester


def test_skips_fail_in_ci(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CI=true a skipped test, mark, call or module, fails and says why; an expected failure does not."""
    monkeypatch.setenv("CI", "true")
    result = suite.runpytest_inprocess("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, failed=1, errors=2, xfailed=1)  # an error is a failure before the test
    result.stdout.fnmatch_lines_random(
        ["*CI=true does not allow*no server", "*CI=true does not allow*no key"]
    )
    result.stdout.fnmatch_lines(["*CI=true does not allow*no_such_module_anywhere*"])


def test_skips_stay_skips_elsewhere(suite: pytest.Pytester) -> None:
    """Without CI=true a skip is a skip."""
    suite.runpytest_inprocess().assert_outcomes(passed=1, skipped=3, xfailed=1)
