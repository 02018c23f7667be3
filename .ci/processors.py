"""Runs tests at each level that the kernels can be held to here: processors.py [--below] ARGUMENTS-OF-PYTEST.

A level (BERTFEAT_CPU) that gives this processor the same kernels as one before it is left out; with ``--below`` the
best one too, which is what make test runs.
"""

import os
import subprocess
import sys
import time

LEVELS = ("none", "avx2", "avx2_vnni", "avx512", "amx")
KERNELS = """
import os, sys
import torch
from bertfeat.core.encoder import Precision, kernels_in_use
for level in sys.argv[1:]:
    if os.fork() == 0:  # the level is read once
        os.environ["BERTFEAT_CPU"] = level
        in_use = {name: kernels_in_use(torch.device("cpu"), Precision(name)) for name in ("fp32", "bf16", "int8")}
        print(level, ", ".join(f"{name} by {kernels}" for name, kernels in in_use.items()), sep="\\t", flush=True)
        os._exit(0)
    if os.wait()[1] != 0:
        sys.exit(f"the kernels at the level {level} were not found")
"""


def main(arguments: list[str]) -> int:
    """Run the tests of one level after the other, and tell how each ended; the worst status of them."""
    levels = distinct_levels()
    if arguments[:1] == ["--below"]:
        levels.popitem()
        arguments = arguments[1:]
    worst, told = 0, list[str]()
    for level, kernels in levels.items():
        print(f"── BERTFEAT_CPU={level}: {kernels}", flush=True)
        started, environment = time.monotonic(), {**os.environ, "BERTFEAT_CPU": level}
        status = subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment, check=False).returncode
        told.append(f"{level:9}  {'passed' if status == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s")
        worst = max(worst, status)
    print(*told, sep="\n")
    return worst


def distinct_levels() -> dict[str, str]:
    """The levels whose kernels are not those of a level before, with what they are."""
    found: dict[str, str] = {}
    command = [sys.executable, "-c", KERNELS, *LEVELS]
    for line in subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines():
        level, _, kernels = line.partition("\t")
        if kernels not in found.values():
            found[level] = kernels
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
