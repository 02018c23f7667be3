"""How fast are pooled mean vectors of the default model, next to sentence-transformers, in fp32 and in bf16?

    python benchmarks/pooled.py --data NOVELS   # a folder with sentences.txt and paragraphs.txt

Both embed the same texts, from text to a float32 matrix in memory, in turn, after a warm-up; medians of --repeats
runs. Texts are cut at 256 tokens on both sides, which is sentence-transformers' limit for this model; they are taken
from the whole file at even distances, and are all distinct. The ceiling is the FLOP-weighted rate of the model's own
four products at 8,192 rows, measured in the same run; the share counts 24·H²·L a token, linear layers only.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100_000, help="about how many tokens of each corpus")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "pooled.json")
    arguments = parser.parse_args()
    rows = [
        row
        for name in ("sentences", "paragraphs")
        for row in compare(name, texts(arguments.data / f"{name}.txt", arguments.tokens), arguments.repeats)
    ]
    result = {
        "question": "tokens a second, text to pooled mean vectors, all-MiniLM-L6-v2",
        "machine": {"processor": processor(), "cores": torch.get_num_threads(), "system": platform.system()},
        "versions": {name: version(name) for name in ("bertfeat", "torch", "transformers", "sentence-transformers")},
        "rows": rows,
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def texts(path: Path, tokens: int) -> list[str]:
    lines = list(dict.fromkeys(line for line in path.read_text("utf-8").split("\n") if line.strip()))
    characters = sum(map(len, lines))
    return lines[:: max(1, characters // (4 * tokens))]


def compare(name: str, lines: list[str], repeats: int) -> list[dict[str, object]]:
    from sentence_transformers import SentenceTransformer

    from bertfeat import Extractor
    from bertfeat.models import find_model

    model = find_model()
    rows = []
    for precision, dtype in DTYPES.items():
        ours = Extractor(precision=precision, long="truncate", max_length=256)
        theirs = SentenceTransformer(str(model.folder), device="cpu", model_kwargs={"dtype": dtype})
        number = sum(min(256, len(each.ids) + 2) for each in ours.tokenizer.pieces(lines, offsets=False))
        runs: dict[str, Callable[[], object]] = {
            "bertfeat": lambda ours=ours: ours.encode(lines),
            "sentence-transformers": lambda theirs=theirs: theirs.encode(lines, show_progress_bar=False),
        }
        rate = ceiling(model.config, dtype)
        speeds: dict[str, list[float]] = {peer: [] for peer in runs}
        rates = []
        for repeat in range(repeats + 1):
            for peer, run in runs.items():
                begin = time.perf_counter()
                run()
                if repeat:  # the first is the warm-up
                    speeds[peer].append(number / (time.perf_counter() - begin))
            rates.append(rate())
        medians = {peer: median(each) for peer, each in speeds.items()}
        flop = 24 * model.hidden_size**2 * model.num_layers
        rows.append(
            {
                "corpus": name,
                "precision": precision,
                "texts": len(lines),
                "tokens": number,
                "tokens_per_second": {peer: round(each) for peer, each in medians.items()},
                "runs": {peer: [round(each) for each in many] for peer, many in speeds.items()},
                "ratio": round(median(a / b for a, b in zip(*speeds.values(), strict=True)), 2),
                "ceiling_tokens_per_second": round(median(rates) / flop),
                "share_of_ceiling": round(medians["bertfeat"] * flop / median(rates), 3),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def ceiling(config: object, dtype: torch.dtype) -> Callable[[], float]:
    """The FLOP-weighted rate of the model's four products, in FLOP a second: time of all by FLOP of all."""
    from bertfeat.encoder.products import make_product

    hidden, inner = int(config.hidden_size), int(config.intermediate_size)  # type: ignore[attr-defined]
    shapes = [(hidden, 3 * hidden), (hidden, hidden), (hidden, inner), (inner, hidden)]
    products = [(make_product(torch.randn(n, k).to(dtype), torch.randn(n).to(dtype)), k, n) for k, n in shapes]
    inputs = {k: torch.randn(8192, k).to(dtype) for k, _ in shapes}

    @torch.inference_mode()
    def rate() -> float:
        best = []
        for _ in range(5):
            begin = time.perf_counter()
            for product, k, _ in products:
                product(inputs[k])
            best.append(time.perf_counter() - begin)
        return sum(2 * 8192 * k * n for _, k, n in products) / median(best)

    return rate


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    flags = next((line for line in lines if line.startswith("flags")), "")
    return name + "".join(f" +{flag}" for flag in ("avx512_bf16", "amx_bf16") if flag in flags)


if __name__ == "__main__":
    main()
