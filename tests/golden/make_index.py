"""Writes the golden indexes of the current format version: ``python -m tests.golden.make_index``.

Run it once for each new format version, on the commit that introduces it. From the first release on never again for an
old one: the folder ``index-1`` is what indexes of that version look like, and every later bertfeat must read them.
``expected.json`` beside them holds the nearest documents of some queries, found by NumPy.
"""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bertfeat.core.corpus import KeptColumn
from bertfeat.search import BuildOptions, VectorIndex, as_whitening, build_index, remove_documents, update_index
from bertfeat.search.settings import FORMAT_VERSION, read_index_settings, write_index_settings
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import clustered, neighbors, vector_set, whitened

HERE = Path(__file__).parent
COUNT, NEW, WIDTH = 40, 10, 8
REMOVED = [str(row + 1) for row in range(0, COUNT, 8)]
KINDS = {"flat": "flat", "hnsw": "hnsw", "ivf": "IVF4,Flat", "disk": "ivf"}


def main() -> None:
    folder = HERE / f"index-{FORMAT_VERSION}"
    if folder.exists():
        raise SystemExit(f"{folder} is there already; golden indexes are never made anew")
    with tempfile.TemporaryDirectory() as work:
        expected = {kind: document_index(folder / kind, Path(work) / kind, kind) for kind in KINDS}
        expected["whitened"] = document_index(folder / "whitened", Path(work) / "whitened", "flat", "half-whiten:5")
        toy = toy_part(poolings=("word",))
        build_index(toy_set(Path(work) / "words", toy), folder / "words", options=BuildOptions(evaluate=False))
        kept = BuildOptions(evaluate=False, with_tokens="concat4_token")
        features = toy_set(Path(work) / "tokens", toy_part(poolings=("mean", "token")))
        build_index(features, folder / "tokens", options=kept)
        places = [[document.id, start, end] for document in toy.documents for start, end in document.spans()]
    for index in sorted(folder.iterdir()):
        forget_paths(index)
    text = json.dumps({**expected, "words": places}, ensure_ascii=False, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def document_index(folder: Path, work: Path, kind: str, transform: str = "none") -> list[Any]:
    """Build an index, append to it and remove from it; returns ids and scores of the five nearest of each document."""
    vectors = np.concatenate([clustered(COUNT, WIDTH), clustered(NEW, WIDTH, seed=1)])
    ids = [str(row + 1) for row in range(COUNT + NEW)]
    kept = {KeptColumn("year", "int64"): list(range(COUNT))}
    vector_set(work / "old", vectors[:COUNT], kept=kept)
    vector_set(work / "new", vectors[COUNT:], ids=ids[COUNT:])
    memory = 100 if kind == "disk" else None
    options = BuildOptions(type=KINDS[kind], evaluate=kind == "flat", memory=memory, transform=as_whitening(transform))
    build_index(work / "old", folder, options=options)
    update_index(folder, [work / "new"])
    remove_documents(folder, REMOVED)
    living = [row for row in range(len(ids)) if ids[row] not in REMOVED]
    if transform != "none":
        vectors = whitened(transform, vectors, vectors[:COUNT]).astype(np.float32)
    scores, order = neighbors(vectors[living], vectors[living], "cosine")
    nearest = [[ids[living[at]] for at in row[:5]] for row in order]
    return [nearest, np.round(scores[:, :5], 5).tolist()]


def forget_paths(folder: Path) -> None:
    """No path of the machine on which this was run stays in the settings."""
    assert len(VectorIndex(folder))
    settings = read_index_settings(folder)
    sources = tuple(replace(source, path=f"/corpus/{Path(source.path).name}") for source in settings.sources)
    write_index_settings(replace(settings, sources=sources), folder)


if __name__ == "__main__":
    main()
