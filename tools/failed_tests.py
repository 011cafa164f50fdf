"""A pytest plugin that writes a line for each test that fails, at once, so that even a crash leaves
the list.

    python -m pytest -p tools.failed_tests --failures FILE ...

Under pytest-xdist the process that hands out the tests writes for all its workers.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    # text, not a path: pytest-xdist hands the options to its workers as plain values
    parser.addoption(
        "--failures", metavar="FILE", help="write the id and the reason of each failing test here"
    )


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("failures")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(Path(file)))


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Line and message of the failure in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return f"line {crash.lineno}: {crash.message.splitlines()[0]}"
    lines = report.longreprtext.strip().splitlines()
    return lines[-1] if lines else "no message"


class Failures:
    """Writes the failing tests, and the files that could not be collected."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.write(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.write(report)

    def write(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        with self.file.open("a") as file:
            file.write(f"{report.nodeid}: {reason(report)}\n")
