"""Runs tests at each level that the kernels can be held to here: processors.py ARGUMENTS-OF-PYTEST.

A level (BERTFEAT_CPU) that gives this processor the same kernels as the one before it is left out.
"""

import os
import subprocess
import sys
import time

LEVELS = ("none", "avx2", "avx2_vnni", "avx512", "amx")
KERNELS = """
import torch
from bertfeat.encoder import Precision, kernels_in_use
in_use = {name: kernels_in_use(torch.device("cpu"), Precision(name)) for name in ("fp32", "bf16", "int8")}
print(", ".join(f"{name} by {kernels}" for name, kernels in in_use.items()))
"""


def main(arguments: list[str]) -> int:
    """Run the tests of one level after the other, and tell how each ended; the worst status of them."""
    before, worst, told = "", 0, list[str]()
    for level in LEVELS:
        environment = {**os.environ, "BERTFEAT_CPU": level}
        command = [sys.executable, "-c", KERNELS]
        kernels = subprocess.run(command, env=environment, check=True, text=True, capture_output=True).stdout.strip()
        if kernels == before:
            told.append(f"{level:9}  has the kernels of the level before")
            continue
        before, started = kernels, time.monotonic()
        print(f"── BERTFEAT_CPU={level}: {kernels}", flush=True)
        status = subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment, check=False).returncode
        told.append(f"{level:9}  {'passed' if status == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s")
        worst = max(worst, status)
    print(*told, sep="\n")
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
