"""The manifest at the end of a run: when, on what, and with which versions it was made."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

from bertfeat.encoder import kernels_in_use
from bertfeat.errors import DamagedError
from bertfeat.extraction.embedder import Embedder
from bertfeat.features import check_derived, read_manifest, write_manifest

_PACKAGES = ("bertfeat", "torch", "transformers", "tokenizers", "pyarrow", "numpy")


def write_run_manifest(folder: Path, embedder: Embedder, sources: Sequence[str], seconds: float) -> None:
    """Write the manifest and the list of failures, which are derived from the parts."""
    versions = {name: version(name) for name in _PACKAGES}
    versions["threads"] = str(torch.get_num_threads())
    versions["kernels"] = kernels_in_use(embedder.device, embedder.precision.dtype)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    times = {"finished": finished, "seconds": round(seconds, 3), "device": str(embedder.device)}
    write_manifest(folder, sources=tuple(sources), times=times, versions=versions)


def is_finished(folder: Path, sources: Sequence[str]) -> bool:
    """Whether the manifest and the list of failures are there, and agree with the parts."""
    try:
        manifest = read_manifest(folder)
        if manifest is None or manifest.sources != tuple(sources):
            return False
        check_derived(folder, manifest)
    except DamagedError:
        return False
    return True
