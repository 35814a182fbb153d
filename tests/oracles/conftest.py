"""What the oracles of this folder came to, printed after the run: a test says it with a fixture."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracles.counts import Counts, table

_KEY = "oracle"


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[Counts], None]:
    """Give what was counted to the table at the end of the run; also from the processes of pytest-xdist."""
    return lambda found: record_property(_KEY, json.dumps(found.plain()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for kind in terminalreporter.stats.values() for report in kind if _is_of_an_oracle(report)]
    if not reports:
        return
    counts = []
    for report in reports:
        told = [Counts.of(json.loads(str(value))) for key, value in report.user_properties if key == _KEY]
        counts += told or [_one_test(report)]
    terminalreporter.section("oracles")
    for line in table(counts):
        terminalreporter.write_line(line)


def _is_of_an_oracle(report: object) -> bool:
    return getattr(report, "when", "") == "call" and "tests/oracles/test_" in getattr(report, "nodeid", "")


def _one_test(report: pytest.TestReport) -> Counts:
    """A test that counts nothing is a program itself, of an oracle with the name of its file."""
    found = Counts(f"tests: {Path(report.nodeid.partition('::')[0]).stem.removeprefix('test_').replace('_', ' ')}")
    if not report.skipped:
        found.add("passed" if report.passed else "wrong", "" if report.passed else "the test fails", report.nodeid)
    return found
