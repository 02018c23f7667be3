"""JSON with types, decoded by several threads at once."""

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import dataclasses, sys, threading, types
from concurrent.futures import ThreadPoolExecutor
from bertfeat.io import decode_json

sys.setswitchinterval(1e-6)
fields = "".join(f"    f{number}: int | None = None\\n" for number in range(12))
for number in range(100):
    module = types.ModuleType(f"made_up_{number}")
    sys.modules[module.__name__] = module
    for depth in range(6):
        inner = "".join(f"    c{other}: 'tuple[C{other}, ...]' = ()\\n" for other in range(depth))
        head = f"import dataclasses\\n@dataclasses.dataclass(frozen=True, slots=True)\\nclass C{depth}:\\n"
        exec(head + fields + inner, module.__dict__)
    together = threading.Barrier(8)

    def decode(_):
        together.wait()
        return decode_json(b'{"c1": [{"c0": [{"f2": 3}]}]}', module.C5)

    with ThreadPoolExecutor(8) as pool:
        assert {decoded.c1[0].c0[0].f2 for decoded in pool.map(decode, range(8))} == {3}
"""


@pytest.mark.slow
def test_threads_that_meet_a_type_at_once() -> None:
    """Left to itself, msgspec crashes the process."""
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
