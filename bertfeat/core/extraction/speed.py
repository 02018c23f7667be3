"""The speed of a model over a corpus on this machine, its share of the hardware's limit, and the time of each stage."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, gettempdir

import torch

from bertfeat.arguments import checked, require_at_least
from bertfeat.core.corpus import Corpus, CorpusSettings, Document, memory_corpus
from bertfeat.core.encoder import block_flop, is_packable, kernels_in_use, peak_rate, product_rate, synchronize
from bertfeat.core.extraction.progress import ExtractionReport
from bertfeat.core.extraction.sentence_transformers.extractor import Extractor
from bertfeat.core.extraction.source import CorpusSource, open_run_source
from bertfeat.core.extraction.verify import Deviation, compare_extractors
from bertfeat.core.recipe import needed_layers
from bertfeat.display import displayed
from bertfeat.errors import CorpusError
from bertfeat.io import recorded_stages, storage_errors

DOCUMENTS = 2_000
COMPARED = 200  # documents whose features are compared between precisions
OVERLAPPED = ("tokenize", "write")  # stages on threads of their own, beside the encoder


@displayed
@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of extracting one corpus; times are of the run of median speed (stages on CUDA: of one more run)."""

    model: str
    device: str
    precision: str
    threads: int
    kernels: str  # our own, on a CPU: amx, vnni, avx512, avx2, neon or none
    columns: tuple[str, ...]
    documents: int
    tokens: int
    batch_tokens: int
    tokens_per_second: float  # from text to Parquet, median
    runs: tuple[float, ...]  # tokens per second of each run, the slowest first
    seconds: float
    stages: Mapping[str, float]  # on the encoder's thread, in the order of the work; what is left is "other"
    overlapped: Mapping[str, float]  # tokenize and write, beside it
    waited_for_tokens: float
    waited_for_disk: float
    ceiling_tokens_per_second: float | None  # None for an encoder that transformers computes
    share_of_ceiling: float | None
    peak_tokens_per_second: float | None  # None on a GPU, and where a ceiling or kernels for x86-64 are missing
    share_of_peak: float | None


@dataclass(frozen=True, slots=True)
class PrecisionSpeed:
    """The speed of a model in one precision, and the deviations of its features from those of fp32."""

    precision: str
    kernels: str
    tokens_per_second: float  # from text to Parquet, median
    runs: tuple[float, ...]
    ratio: float  # to the first precision
    deviations: tuple[Deviation, ...]  # of each column


@displayed
@dataclass(frozen=True, slots=True)
class PrecisionComparison:
    """A comparison of some precisions on one corpus, in turn: their speeds, and how far apart the features are."""

    model: str
    device: str
    threads: int
    documents: int
    tokens: int
    compared: int  # documents whose features were compared
    precisions: tuple[PrecisionSpeed, ...]


@checked
def compare_precisions(
    extractors: Sequence[Extractor],
    exact: Extractor,
    corpus: CorpusSource | None = None,
    *,
    documents: int = DOCUMENTS,
    repeats: int = 5,
    folder: Path | None = None,
    corpus_settings: CorpusSettings | None = None,
    on_start: Callable[[int], object] | None = None,
) -> PrecisionComparison:
    """Extract the first ``documents`` of a corpus in several precisions, in turn, and compare speeds and features.

    The extractors differ in their precision only; the features of the first :data:`COMPARED` documents are compared
    with those of ``exact``, the one in fp32. The other arguments are those of :func:`measure_speed`.

    Raises:
        CorpusError: there is no document.
    """
    require_at_least(1, documents=documents, repeats=repeats)
    sample = _take_documents(exact, corpus, documents, corpus_settings, on_start)
    compared, given = sample[:COMPARED], memory_corpus(list(sample))
    speeds, tokens = [list[float]() for _ in extractors], 0
    with _timing_folder(folder) as work:
        warm_up = memory_corpus(list(sample[: max(1, len(sample) // 8)]))
        for number, extractor in enumerate(extractors):
            _time_extraction(extractor, warm_up, Path(work) / f"warm-up-{number}", record=False)
        for run in range(repeats):
            for number, extractor in enumerate(extractors):
                report = _time_extraction(extractor, given, Path(work) / f"{run}-{number}", record=False).report
                speeds[number].append(report.tokens_per_second)
                tokens = report.computed_tokens
    return PrecisionComparison(
        model=exact.model.name,
        device=str(exact.device),
        threads=torch.get_num_threads(),
        documents=len(sample),
        tokens=tokens,
        compared=len(compared),
        precisions=tuple(
            PrecisionSpeed(
                precision=extractor.precision.value,
                kernels=kernels_in_use(extractor.device, extractor.precision),
                tokens_per_second=median(each),
                runs=tuple(sorted(each)),
                ratio=median(each) / median(speeds[0]),
                deviations=compare_extractors(extractor, exact, compared),
            )
            for extractor, each in zip(extractors, speeds, strict=True)
        ),
    )


@checked
def measure_speed(
    extractor: Extractor,
    corpus: CorpusSource | None = None,
    *,
    documents: int = DOCUMENTS,
    repeats: int = 5,
    folder: Path | None = None,
    corpus_settings: CorpusSettings | None = None,
    on_start: Callable[[int], object] | None = None,
) -> Speed:
    """Extract the first ``documents`` of a corpus several times, into a temporary folder, and measure the time.

    Without a corpus, sentences are made up. ``folder`` is where the temporary folder is made, and ``on_start`` gets the
    number of documents. Two bounds are measured before each run: the ceiling, the rate at which this hardware
    multiplies the model's own four products one by one, at a batch's number of rows; and the peak, the rate of
    multiply-adds in registers. The shares count those products alone, ``24·H²`` operations per token and block for
    BERT's proportions.

    Raises:
        CorpusError: there is no document.
    """
    require_at_least(1, documents=documents, repeats=repeats)
    sample = _take_documents(extractor, corpus, documents, corpus_settings, on_start)
    timings, ceilings, peaks, stages_timing = _time_runs(extractor, sample, repeats, folder)
    timing = timings[len(timings) // 2]
    stages_timing = stages_timing or timing
    speeds = tuple(timing.report.tokens_per_second for timing in timings)
    ceiling, peak = _as_tokens(ceilings, extractor), _as_tokens(peaks, extractor)
    return Speed(
        model=extractor.model.name,
        device=str(extractor.device),
        precision=extractor.precision.value,
        threads=torch.get_num_threads(),
        kernels=kernels_in_use(extractor.device, extractor.precision),
        columns=tuple(column.name for column in extractor.columns),
        documents=len(sample),
        tokens=timing.report.computed_tokens,
        batch_tokens=extractor.batch_tokens,
        tokens_per_second=median(speeds),
        runs=speeds,
        seconds=timing.report.seconds,
        stages=stages_timing.serial_stages(),
        overlapped={name: stages_timing.stages.get(name, 0.0) for name in OVERLAPPED},
        waited_for_tokens=timing.report.waited_for_tokens,
        waited_for_disk=timing.report.waited_for_disk,
        ceiling_tokens_per_second=ceiling,
        share_of_ceiling=median(speeds) / ceiling if ceiling else None,
        peak_tokens_per_second=peak,
        share_of_peak=median(speeds) / peak if peak else None,
    )


@dataclass(frozen=True, slots=True)
class _Timing:
    """One extraction, and the seconds of its stages where they were recorded."""

    report: ExtractionReport
    stages: Mapping[str, float]

    def serial_stages(self) -> dict[str, float]:
        """The stages on the encoder's thread, and the time that is left as ``other``."""
        stages = {name: seconds for name, seconds in self.stages.items() if name not in OVERLAPPED}
        waiting = self.report.waited_for_tokens + self.report.waited_for_disk
        stages["other"] = max(0.0, self.report.seconds - waiting - sum(stages.values()))
        return stages


def _time_runs(
    extractor: Extractor, documents: Sequence[Document], repeats: int, folder: Path | None
) -> tuple[list[_Timing], list[float | None], list[float | None], _Timing | None]:
    """The runs in order of speed, the hardware's ceiling and peak before each, and one more run for stages on a GPU.

    On a GPU, timing the stages waits for the device after each, so it would slow the runs.
    """
    corpus = memory_corpus(list(documents))
    on_cpu = extractor.device.type == "cpu"
    hidden, inner, precision = extractor.model.hidden_size, extractor.model.inner_size, extractor.precision
    packable = is_packable(extractor.model)  # the blocks of other encoders may have other products
    timings, ceilings, peaks = list[_Timing](), list[float | None](), list[float | None]()
    with _timing_folder(folder) as work:
        warm_up = memory_corpus(list(documents[: max(1, len(documents) // 8)]))
        _time_extraction(extractor, warm_up, Path(work) / "warm-up")
        for run in range(repeats):
            if packable:
                ceilings.append(product_rate(hidden, inner, precision, extractor.device, rows=extractor.batch_tokens))
                peaks.append(peak_rate(precision, extractor.device))
            timings.append(_time_extraction(extractor, corpus, Path(work) / str(run), record=on_cpu))
        stages = None if on_cpu else _time_extraction(extractor, corpus, Path(work) / "stages")
    return sorted(timings, key=lambda timing: timing.report.tokens_per_second), ceilings, peaks, stages


def _take_documents(
    extractor: Extractor,
    source: CorpusSource | None,
    number: int,
    settings: CorpusSettings | None,
    on_start: Callable[[int], object] | None,
) -> list[Document]:
    """Take the first documents of a corpus, without blank lines and failures; without a corpus, make sentences up.

    ``on_start`` gets their number.
    """
    if source is None:
        documents = made_up_documents(extractor, number)
    else:
        with (
            TemporaryDirectory() as folder,
            open_run_source(source, Path(folder), settings or CorpusSettings()) as corpus,
        ):
            rows = (replace(row, kept=()) for row in corpus.rows() if isinstance(row, Document))
            documents = list(islice(rows, number))
        if not documents:
            raise CorpusError(
                "there is no document to measure with: the rows are blank, or fail",
                where=", ".join(corpus.sources),
                remedy="give another corpus",
            )
    if on_start:
        on_start(len(documents))
    return documents


@contextmanager
def _timing_folder(folder: Path | None) -> Iterator[str]:
    """A new folder inside ``folder`` (or the system's folder for temporary files), removed at the end."""
    with ExitStack() as stack:
        with storage_errors(folder or Path(gettempdir())):
            work = stack.enter_context(TemporaryDirectory(dir=folder, prefix="bertfeat-bench-"))
        yield work


def made_up_documents(extractor: Extractor, number: int) -> list[Document]:
    """Make sentences of whole words of the model's vocabulary, with lengths like those of running text."""
    draw = random.Random(0)
    words = [word for word in extractor.tokenizer.vocabulary if word.isascii() and word.isalpha() and len(word) > 1]
    lengths = (max(3, round(draw.lognormvariate(math.log(24), 0.6))) for _ in range(number))
    return [Document(row, str(row + 1), " ".join(draw.choices(words, k=n))) for row, n in enumerate(lengths)]


def _time_extraction(extractor: Extractor, corpus: Corpus, folder: Path, *, record: bool = True) -> _Timing:
    if not record:
        return _Timing(extractor.extract(corpus, folder), {})
    with recorded_stages(partial(synchronize, extractor.device)) as stages:
        report = extractor.extract(corpus, folder)
    return _Timing(report, dict(stages))


def _as_tokens(rates: Sequence[float | None], extractor: Extractor) -> float | None:
    """The tokens per second at the median of rates, if all products up to the deepest layer needed are computed."""
    known = [rate for rate in rates if rate is not None]
    flop = needed_layers(extractor.columns)[-1] * block_flop(extractor.model.hidden_size, extractor.model.inner_size)
    return median(known) / flop if known and flop else None
