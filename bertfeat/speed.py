"""How fast a model runs over a corpus here, how near that is to the hardware's limit, and where the time goes."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from bertfeat.corpus import Corpus, Document, memory_corpus
from bertfeat.encoder import block_flop, kernels_in_use, product_rate, synchronize
from bertfeat.errors import CorpusError
from bertfeat.extraction import ExtractionReport, Extractor
from bertfeat.io import recorded_stages
from bertfeat.recipe import needed_layers

OVERLAPPED = ("tokenize", "write")  # stages on threads of their own, beside the encoder


@dataclass(frozen=True, slots=True)
class Speed:
    """What a benchmark of one corpus found; times are of the run of median speed (stages on CUDA: of one more)."""

    model: str
    device: str
    precision: str
    threads: int
    kernels: str  # our own on CPU: amx, avx512 or none
    columns: tuple[str, ...]
    documents: int
    tokens: int
    batch_tokens: int
    tokens_per_second: float  # from text to Parquet, median
    runs: tuple[float, ...]  # tokens a second of each run
    seconds: float
    stages: Mapping[str, float]  # on the encoder's thread, in the order of the work; what is left is "other"
    overlapped: Mapping[str, float]  # tokenize and write, beside it
    waited_for_tokens: float
    waited_for_disk: float
    ceiling_tokens_per_second: float | None  # None for an encoder that transformers computes
    share_of_ceiling: float | None


def measure_speed(
    extractor: Extractor, documents: Sequence[Document], *, repeats: int = 5, folder: Path | None = None
) -> Speed:
    """Extract documents some times over, into a temporary folder, and measure the hardware's ceiling in between.

    The ceiling is the rate at which this hardware multiplies the model's own four products at a batch's number of
    rows; the share counts those products alone, ``24·H²`` operations a token and block for BERT's proportions.

    Raises:
        CorpusError: there is no document.
    """
    if not documents:
        raise CorpusError("there is no document to measure with: the rows taken are blank or fail; give another corpus")
    corpus, rates = memory_corpus(list(documents)), []
    on_cpu = extractor.device.type == "cpu"  # elsewhere, timing the stages waits for the device, so it is a run apart
    found: list[tuple[ExtractionReport, dict[str, float]]] = []
    with TemporaryDirectory(dir=folder, prefix="bertfeat-bench-") as work:
        _time_extraction(
            extractor, memory_corpus(list(documents[: max(1, len(documents) // 8)])), Path(work) / "warm-up"
        )
        for run in range(repeats):
            rates.append(_measure_ceiling(extractor))
            found.append(_time_extraction(extractor, corpus, Path(work) / str(run), recorded=on_cpu))
        found.sort(key=lambda each: each[0].tokens_per_second)
        report, _ = timed = found[len(found) // 2]
        if not on_cpu:
            timed = _time_extraction(extractor, corpus, Path(work) / "stages")
    stages = {name: spent for name, spent in timed[1].items() if name not in OVERLAPPED}
    stages["other"] = max(0.0, timed[0].seconds - _waiting_seconds(timed[0]) - sum(stages.values()))
    speeds = tuple(each.tokens_per_second for each, _ in found)
    rate, flop = median(rate or 0.0 for rate in rates), _token_flop(extractor)
    return Speed(
        model=extractor.model.name,
        device=str(extractor.device),
        precision=extractor.precision.value,
        threads=torch.get_num_threads(),
        kernels=kernels_in_use(extractor.device, extractor.precision.dtype),
        columns=tuple(column.name for column in extractor.columns),
        documents=len(documents),
        tokens=report.computed_tokens,
        batch_tokens=extractor.batch_tokens,
        tokens_per_second=median(speeds),
        runs=speeds,
        seconds=report.seconds,
        stages=stages,
        overlapped={name: timed[1].get(name, 0.0) for name in OVERLAPPED},
        waited_for_tokens=report.waited_for_tokens,
        waited_for_disk=report.waited_for_disk,
        ceiling_tokens_per_second=rate / flop if rate and flop else None,
        share_of_ceiling=median(speeds) * flop / rate if rate and flop else None,
    )


def first_documents(corpus: Corpus, number: int) -> list[Document]:
    """Take the first documents of a corpus; rows that fail and blank lines are passed over."""
    return list(islice((row for row in corpus.rows() if isinstance(row, Document)), number))


def made_up_documents(extractor: Extractor, number: int) -> list[Document]:
    """Make sentences of whole words of the model's vocabulary; their lengths are like those of running text."""
    draw = random.Random(0)
    words = [word for word in extractor.tokenizer.vocabulary if word.isascii() and word.isalpha() and len(word) > 1]
    lengths = (max(3, round(draw.lognormvariate(math.log(24), 0.6))) for _ in range(number))
    return [Document(row, str(row + 1), " ".join(draw.choices(words, k=n))) for row, n in enumerate(lengths)]


def _time_extraction(
    extractor: Extractor, corpus: Corpus, folder: Path, *, recorded: bool = True
) -> tuple[ExtractionReport, dict[str, float]]:
    if not recorded:
        return extractor.extract(corpus, folder), {}
    with recorded_stages(partial(synchronize, extractor.device)) as seconds:
        report = extractor.extract(corpus, folder)
    return report, dict(seconds)


def _waiting_seconds(report: ExtractionReport) -> float:
    return report.waited_for_tokens + report.waited_for_disk


def _measure_ceiling(extractor: Extractor) -> float | None:
    if extractor.encoder.padded:
        return None
    hidden, inner = extractor.model.hidden_size, extractor.model.inner_size
    return product_rate(hidden, inner, extractor.precision, extractor.device, rows=extractor.batch_tokens)


def _token_flop(extractor: Extractor) -> int:
    """Operations of the products a token, up to the deepest layer that the columns need."""
    deepest = needed_layers(extractor.columns)[-1]
    return deepest * block_flop(extractor.model.hidden_size, extractor.model.inner_size)
