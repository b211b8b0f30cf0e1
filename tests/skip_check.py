"""A pytest plugin: unexpected skips, and missing tests, fail the run.

The expected ones are in `tests/expected_skips.py`. Single tests fail where they run; the
controller, which receives the reports of all processes, checks the counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests import expected_skips

ADVICE = "tests/expected_skips.py does not expect it here"


@dataclass
class Counts:
    """Outcomes of the tests of a run, by node: processes may collect the same module."""

    ran: set[str] = field(default_factory=set)
    skipped: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def complaints(self) -> Generator[str]:
        """Yield what is wrong with the counts of a run of the whole suite."""
        most: Counter[str] = Counter()
        for entry in expected_skips.EXPECTED:
            most[entry.name] = max(most[entry.name], entry.most)
        for name, nodes in self.skipped.items():
            if len(nodes) > most[name]:
                yield f"{len(nodes)} tests were skipped ({name}), expected at most {most[name]}"
        if len(self.ran) < expected_skips.floor():
            yield f"{len(self.ran)} tests ran, expected at least {expected_skips.floor()}"

    def __str__(self) -> str:
        reasons = sorted(self.skipped.items(), key=lambda item: -len(item[1]))
        skips = ", ".join(f"{len(nodes)} {name}" for name, nodes in reasons) or "none"
        least = f"whole suite: at least {expected_skips.floor()}"
        return f"{len(self.ran)} tests ran ({least}); skipped: {skips}"


COUNTS = pytest.StashKey[Counts]()
COMPLAINTS = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COUNTS] = Counts()
    config.stash[COMPLAINTS] = []
    config.pluginmanager.register(_Counter(config.stash[COUNTS]))


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped; an expected failure counts as an unlisted reason."""
    if hasattr(report, "wasxfail"):
        return f"xfail: {report.wasxfail}"
    longrepr: Any = report.longrepr
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")


def fail_if_unexpected(report: Any) -> None:
    if report.skipped and expected_skips.expected(reason := reason_of(report)) is None:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped: {reason}\n{ADVICE}"
        vars(report).pop("wasxfail", None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    report = yield
    fail_if_unexpected(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    report = yield
    fail_if_unexpected(report)
    # Skip those of doctests, which are modules, too.
    is_test = type(collector) is pytest.Module and collector.path.name.startswith("test_")
    if is_test and report.passed and not report.result:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} has no tests"
    return report


class _Counter:
    """Counts reports, which carry no configuration."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and report.when == "call":
            self.counts.ran.add(report.nodeid)
        self.pytest_collectreport(report)

    def pytest_collectreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        entry = expected_skips.expected(reason_of(report)) if report.skipped else None
        if entry is not None:
            self.counts.skipped[entry.name].add(report.nodeid)


def whole_suite(config: pytest.Config) -> bool:
    """Whether all tests but the slow ones are selected."""
    option = config.option
    chosen = option.keyword or option.markexpr not in ("", "not slow") or option.collectonly
    chosen = chosen or getattr(option, "deselect", None) or getattr(option, "lf", False)
    return config.args_source is config.ArgsSource.TESTPATHS and not chosen


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if (
        exitstatus == pytest.ExitCode.OK
        and whole_suite(config)
        and not hasattr(config, "workerinput")
    ):
        config.stash[COMPLAINTS] = list(config.stash[COUNTS].complaints())
        if config.stash[COMPLAINTS]:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.option.collectonly:
        terminalreporter.write_line(str(config.stash[COUNTS]))
    for complaint in config.stash[COMPLAINTS]:
        terminalreporter.write_line(f"FAILED: {complaint} (tests/expected_skips.py)", red=True)
