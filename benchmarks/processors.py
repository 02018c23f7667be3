"""How fast is each precision on this processor, next to sentence-transformers and to its int8 by ONNX Runtime?

    make peers
    python benchmarks/processors.py --data NOVELS --peers .venv-peers/bin/python [--cpu avx2|avx2_vnni]

Pooled mean vectors of the default model, from texts to a float32 matrix in memory, every way in a process of its own,
in turn (see pooled.py). With ``--cpu`` all of them are held to AVX2, or to that and AVX-VNNI: ours by BERTFEAT_CPU,
oneDNN's products by ONEDNN_MAX_CPU_ISA, torch's other operators by ATEN_CPU_CAPABILITY; ONNX Runtime knows no such
limit and is left out. What comes out of int8 is measured by int8_quality.py.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch
from _duel import Way, corpora, duel, ratio
from _machine import machine

from bertfeat.encoder import kernels_in_use
from bertfeat.encoder.precision import Precision
from bertfeat.models import find_model

LENGTH = 256
NATIVE_BF16 = ("amx", "avx512_bf16")
CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--peers", help="Python of the environment for ONNX; without it that is left out")
    parser.add_argument("--cpu", choices=("avx2", "avx2_vnni"), help="instructions that all are held to")
    parser.add_argument("--tokens", type=int, default=40_000, help="about how many tokens of each corpus")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.cpu:
        held = {"BERTFEAT_CPU": arguments.cpu, "ONEDNN_MAX_CPU_ISA": arguments.cpu.upper()}
        os.environ.update(held | {"ATEN_CPU_CAPABILITY": "avx2"})  # which the processes of the ways inherit
    family = arguments.cpu or family_of_processor()
    ways = [Way(f"pooled_ours:{precision}") for precision in precisions(family)]
    ways.append(Way("pooled_sentence_transformers:fp32"))
    if arguments.peers and not arguments.cpu:
        instructions = "avx2" if family.startswith("avx2") else "avx512_vnni"
        ways.append(Way(f"pooled_onnx_int8:{instructions}", arguments.peers))
    results: dict[str, Any] = {"machine": machine("sentence-transformers"), "family": family, "corpora": {}}
    for name, texts in corpora(arguments.data, arguments.tokens).items():
        if name == "mix":
            continue
        found = duel(ways, texts, find_model().folder, LENGTH, arguments.repeats)
        found["ratios"] = {
            f"{ours.name} to {other.name}": ratio(found, ours.name, other.name)
            for ours in ways
            for other in ways
            if "ours" in ours.name and other != ours
        }
        results["corpora"][name] = found
        print(name, json.dumps(found, indent=1), flush=True)
    target = Path(__file__).parent / "results" / f"processors-{family}.json"
    target.write_text(json.dumps(results, indent=1) + "\n")


def family_of_processor() -> str:
    """The best instructions that the processor has: amx, avx512_bf16, vnni, avx2_vnni or avx2."""
    in_bf16, in_int8 = (kernels_in_use(CPU, precision) for precision in (Precision.BF16, Precision.INT8))
    return in_bf16 if in_bf16 in NATIVE_BF16 else in_int8


def precisions(family: str) -> tuple[str, ...]:
    """The precisions that are computed natively."""
    return ("int8", "bf16", "fp32") if family in NATIVE_BF16 else ("int8", "fp32")


if __name__ == "__main__":
    main()
