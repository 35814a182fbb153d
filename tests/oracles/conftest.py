"""What the oracles of this folder came to, printed after the run: a test says it with the fixture `tell`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.oracles.counts import Counts, table

_KEY = "oracle"


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[Counts], None]:
    """Give what was counted to the table at the end of the run; also from the processes of pytest-xdist."""
    return lambda found: record_property(_KEY, json.dumps(found.plain()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    texts = [
        str(value)
        for report in reports
        if getattr(report, "when", "") == "call"
        for key, value in report.user_properties
        if key == _KEY
    ]
    if texts:
        terminalreporter.section("oracles")
        for line in table(Counts.of(json.loads(text)) for text in texts):
            terminalreporter.write_line(line)
