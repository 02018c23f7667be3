"""Progress: a bar on a terminal, drawn seldom, and lines where only a program stands in for one."""

import os
import sys

import pytest

from tests.support.terminal import on_a_terminal

SHOW = """
import time
from bertfeat.cli import console
from bertfeat.cli.console import Console
from bertfeat.progress import StepProgress
console.SECONDS_BETWEEN_LINES = 0.5
begun = time.monotonic()
with console.progress_display(Console(False, False)) as show:
    for at in range(300):
        show(StepProgress("step", at, 300, "words"))
        time.sleep(0.005)
print(time.monotonic() - begun)
"""


def shown_on_a_terminal(**environment: str) -> tuple[bytes, float]:
    """What progress writes to a pseudo-terminal, and for how many seconds it went on: one and a half or more."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "TERM")}
    run = on_a_terminal([sys.executable, "-c", SHOW], {**kept, **environment}, stream="stderr")
    assert run.exit_code == 0
    return run.terminal, float(run.piped)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TERM": "xterm", "CI": "true"}], ids=["dumb", "CI"])
def test_lines_where_a_program_stands_in_for_a_terminal(environment: dict[str, str]) -> None:
    written, seconds = shown_on_a_terminal(**environment)
    assert b"\x1b" not in written
    assert 1 <= written.count(b"step") <= seconds / 0.5 + 1


@pytest.mark.slow
def test_a_bar_is_drawn_twice_a_second() -> None:
    written, seconds = shown_on_a_terminal(TERM="xterm")
    assert b"\x1b" in written
    assert 1 <= written.count(b"step") <= 4 * seconds + 8
