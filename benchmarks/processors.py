"""How fast is each precision on this processor, next to sentence-transformers and to its int8 by ONNX Runtime?

    make peers
    python benchmarks/processors.py --data NOVELS --peers .venv-peers/bin/python [--cpu avx2]

Pooled mean vectors of the default model, from texts to a float32 matrix in memory, every way in a process of its own,
in turn (see pooled.py). With ``--cpu avx2`` all of them are held to AVX2: ours by BERTFEAT_CPU, oneDNN's products by
ONEDNN_MAX_CPU_ISA, torch's other operators by ATEN_CPU_CAPABILITY; ONNX Runtime knows no such limit and is left out.
What comes out of int8 is measured by int8_quality.py.
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
from bertfeat.encoder.precision import Precision, has_native_bf16
from bertfeat.models import find_model

LENGTH = 256
AVX2 = {"BERTFEAT_CPU": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--peers", help="Python of the environment for ONNX; without it that is left out")
    parser.add_argument("--cpu", choices=("avx2",), help="instructions that all are held to")
    parser.add_argument("--tokens", type=int, default=40_000, help="about how many tokens of each corpus")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.cpu:
        os.environ.update(AVX2)  # which the processes of the ways inherit
    family = arguments.cpu or family_of_processor()
    ways = [Way(f"pooled_ours:{precision}") for precision in precisions(family)]
    ways.append(Way("pooled_sentence_transformers:fp32"))
    if arguments.peers and not arguments.cpu:
        instructions = "avx2" if family == "avx2" else "avx512_vnni"
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
    """The best instructions that the processor has: amx, avx512_bf16, vnni or avx2."""
    if kernels_in_use(CPU, Precision.BF16) == "amx":
        return "amx"
    if kernels_in_use(CPU, Precision.INT8) != "vnni":
        return "avx2"
    return "avx512_bf16" if has_native_bf16(CPU) else "vnni"


def precisions(family: str) -> tuple[str, ...]:
    """The precisions that are computed natively."""
    return ("int8", "fp32") if family in ("avx2", "vnni") else ("int8", "bf16", "fp32")


if __name__ == "__main__":
    main()
