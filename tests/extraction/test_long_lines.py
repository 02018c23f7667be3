"""Lines of a megabyte through ``bertfeat extract``, in a process of its own: what they cost in time and memory."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.tiny_models import Tiny

pytestmark = pytest.mark.slow

MEGABYTES = 1
SECONDS = 20.0  # of processor time for a megabyte; 2 to 4 were measured
MEASURED = """
import atexit, json, sys, time

def tell():
    with open("/proc/self/status") as status:
        peak = int(status.read().partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps([time.process_time(), peak]), file=sys.stderr)

atexit.register(tell)
from bertfeat.cli import run
run()
"""
WORDS = "the old mill of the river bank and the water "
LINES = {
    # what is in the line, and the MiB that it may cost: twice of what was measured
    "ordinary words": (WORDS * (MEGABYTES * 1_000_000 // len(WORDS)), 600),  # mostly the words that are stored
    "one endless word": ("x" * (MEGABYTES * 1_000_000), 260),  # 92 bytes a character in the tokenizer's own library
}


def measured(folder: Path, model: Path, line: str) -> tuple[float, float]:
    """Extract means and words of a line and a short one after it; seconds of processor time, and most MiB at once."""
    (folder / "corpus.txt").write_text(f"{line}\nthe bank\n", "utf-8")
    arguments = ("extract", "corpus.txt", "-o", "out.features", "--model", str(model), "--pooling", "mean,word")
    more = ("--device", "cpu", "--precision", "fp32", "--json", "--quiet", "--overwrite")
    command = [sys.executable, "-c", MEASURED, *arguments, *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["documents"] == 2
    seconds, peak = json.loads(done.stderr.splitlines()[-1])
    return seconds, peak


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("kind", LINES)
def test_a_line_of_megabytes(tiny: Callable[[str], Tiny], tmp_path: Path, kind: str) -> None:
    line, most = LINES[kind]
    model = tiny("bert").folder
    seconds_before, before = measured(tmp_path, model, WORDS)
    seconds, peak = measured(tmp_path, model, line)
    sys.stdout.write(f"{kind}: {seconds - seconds_before:.1f} s, {peak - before:.0f} MiB more\n")
    assert seconds - seconds_before < SECONDS * MEGABYTES
    assert peak - before < most
