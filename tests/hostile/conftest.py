"""The yard of hostile cases, what they told, and a tally of it all."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.yard import Result, Tell, Yard, joined, open_yard

_KEY = "hostile"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tally", type=Path, metavar="FILE", help="write the tally of hostile cases as JSON")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A sample of the cases is slow, all of them together are hostile."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("hostile") is None:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    opened = open_yard(tmp_path_factory)
    yield opened
    opened.close()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Take cases that were run into the tally, and fail if one of them went wrong."""

    def told(results: Iterable[Result]) -> None:
        found = list(results)
        request.node.user_properties.append((_KEY, [_plain(result) for result in found]))
        wrong = _utf8(joined(found))
        assert not wrong, f"{sum(bool(each.problems) for each in found)} of {len(found)} cases:\n{wrong}"

    return told


def _plain(result: Result) -> dict[str, Any]:
    return {
        "case": _utf8(result.case),
        "reader": result.reader,
        "verb": result.verb,
        "code": result.ended.code,
        "seconds": round(result.ended.seconds, 3),
        "problems": [_utf8(problem) for problem in result.problems],
    }


def _utf8(text: str) -> str:
    """Names that are no UTF-8 travel between test processes as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


_told: list[dict[str, Any]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and not hasattr(report, "hostile_seen") and not os.environ.get("PYTEST_XDIST_WORKER"):
        for key, cases in report.user_properties:
            if key == _KEY:
                _told.extend({"test": report.nodeid, **case} for case in cases)  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not _told:
        return
    terminalreporter.section("hostile cases")
    for line in _lines():
        terminalreporter.write_line(line)
    if place := config.getoption("--tally", None):
        place.write_text(json.dumps({"summary": _lines(), "cases": _told}, indent=1), "utf-8")


def _lines() -> list[str]:
    wrong = sum(bool(case["problems"]) for case in _told)
    seconds = sum(case["seconds"] for case in _told)
    lines = [f"{len(_told):,} cases, {wrong:,} of them wrong, {seconds:,.0f} s"]
    for kind in ("reader", "verb"):
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for case in _told:
            groups[case[kind] or "(none)"].append(case)
        lines += ["", f"{kind:<34}  cases  wrong  seconds  exit codes"]
        for name, cases in sorted(groups.items()):
            codes = ", ".join(f"{code}: {count}" for code, count in sorted(Counter(c["code"] for c in cases).items()))
            bad = sum(bool(case["problems"]) for case in cases)
            lines.append(f"{name:<34}  {len(cases):>5}  {bad:>5}  {sum(c['seconds'] for c in cases):>7.0f}  {codes}")
    return lines
