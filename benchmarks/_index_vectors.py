"""A million vectors that lie as sentence vectors do, as a feature set: real ones, recombined."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet, PartContent, PartHeader, content_table, write_manifest, write_part

SENTENCES = 32_768
PART_ROWS = 32_768
SHARE = 0.35  # of the difference of two others that is added to each vector


def million(work: Path, data: Path, count: int) -> Path:
    """The feature set of ``count`` vectors, made once: each is a real one plus a part of the difference of two others.

    Differences of real vectors have the covariance of real vectors, so neighborhoods stay as hard as they are.
    """
    folder = work / f"{count}.features"
    if (folder / ".bertfeat/manifest.json").exists():
        return folder
    real = _sentences(work, data)
    vectors = real.matrix()
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    for number, first in enumerate(range(0, count, PART_ROWS)):
        last = min(count, first + PART_ROWS)
        one, two, three = random.integers(len(vectors), size=(3, last - first))
        made = vectors[one] + SHARE * (vectors[two] - vectors[three])
        header = _header(real, number, first, last)
        write_part(folder, header, content_table(_content(made, first, last), header.columns))
    write_manifest(folder)
    return folder


def _sentences(work: Path, data: Path) -> FeatureSet:
    folder = work / "sentences.features"
    if not (folder / ".bertfeat/manifest.json").exists():
        lines = (data / "novels" / "sentences.txt").read_text("utf-8").splitlines()[:SENTENCES]
        corpus = work / "sentences.txt"
        corpus.write_text("\n".join(lines) + "\n", "utf-8")
        Extractor(layers="last", pooling="mean").extract(corpus, folder)
    return FeatureSet(folder)


def _header(real: FeatureSet, number: int, first: int, last: int) -> PartHeader:
    header = real.header
    return PartHeader(
        format_version=header.format_version,
        settings=header.settings,
        fingerprint=header.fingerprint,
        number=number,
        first_row=first,
        last_row=last,
        digest=f"recombined {number}",
        sketch=(),
        blank=0,
        failures=(),
        model=header.model,
        columns=header.columns,
        sources=("recombined",),
        counts=type(header.counts)(documents=last - first),
        split_batches=0,
    )


def _content(vectors: NDArray[np.float32], first: int, last: int) -> PartContent:
    nothing = np.zeros(last - first, np.int32)
    rows = np.arange(first, last)
    return PartContent(
        rows=rows,
        ids=[str(row + 1) for row in rows],
        texts=[f"Sentence {row + 1} is no sentence at all, but it is about as long as one of a novel." for row in rows],
        pairs=None,
        kept={},
        n_tokens=nothing + 20,
        n_unk=nothing,
        n_truncated=nothing,
        vectors={"last_mean": np.ascontiguousarray(vectors, np.float32)},
        tokens=None,
        words=None,
        tags=None,
    )
