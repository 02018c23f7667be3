"""Which index is chosen, and that it says why."""

import pytest

from bertfeat.search.vectors.index_types import choose_index, cluster_count

GB = 10**9


@pytest.mark.parametrize(
    ("count", "width", "memory", "recall", "factory", "reason"),
    [
        (1_000, 384, 8 * GB, 0.95, "Flat", "few enough to compare them all"),
        (100_000, 384, 8 * GB, 0.95, "Flat", "few enough"),
        (1_000_000, 384, 8 * GB, 0.95, "IVF4000,Flat", "whole vectors fit the memory of 8 GB"),
        (1_000_000, 384, 8 * GB, 1.0, "Flat", "recall 1 is wanted"),
        (1_000_000, 384, GB, 0.95, "IVF4000,SQ8", "pass the memory of 1 GB"),
        (100_000, 1536, 8 * GB, 0.95, "IVF1265,Flat", "comparing all reads 614 MB a query"),
        (10_000_000, 384, GB, 0.95, "IVF12649,SQ8", "its lists on disk"),
        (10_000_000, 384, GB, 0.7, "IVF12649,PQ48np", "a byte for 8 values"),
        (10_000_000, 384, 4 * GB, 1.0, "IVF12649,Flat", "its lists on disk"),
        (
            10,
            384,
            1_000,
            0.8,
            "IVF1,SQ8",
            "5.46 kB pass the memory of 1 kB, and smaller codes need 256 vectors",
        ),
        (255, 384, 1_000, 0.5, "IVF6,SQ8", "smaller codes need 256 vectors"),
        (256, 384, 1_000, 0.5, "IVF6,PQ384np", "a byte a value, and its lists on disk"),
    ],
)
def test_auto(count: int, width: int, memory: int, recall: float, factory: str, reason: str) -> None:
    choice = choose_index("auto", count=count, width=width, memory=memory, recall=recall)
    assert choice.factory == factory
    assert reason in choice.reason
    assert choice.on_disk == ("on disk" in choice.reason)
    assert choice.on_disk or choice.bytes <= memory
    assert f"{count:,} vectors of {width:,} values" in choice.reason


@pytest.mark.parametrize(
    ("kind", "factory"),
    [
        ("flat", "Flat"),
        ("hnsw", "HNSW32"),
        ("ivf", "IVF4000,Flat"),
        ("ivfpq", "IVF4000,PQ96np"),
        ("sq8", "SQ8"),
        ("IVF1024,SQ4", "IVF1024,SQ4"),
    ],
)
def test_named_types(kind: str, factory: str) -> None:
    choice = choose_index(kind, count=1_000_000, width=384, memory=None, recall=0.95)
    assert choice.factory == factory
    assert "as asked" in choice.reason
    assert choice.clusters == (0 if "IVF" not in factory else int(factory[3:7]))


def test_product_codes_divide_any_width() -> None:
    for width in (8, 30, 50, 96, 100, 7, 257):
        factory = choose_index("ivfpq", count=10_000, width=width, memory=GB, recall=0.95).factory
        assert width % int(factory.partition("PQ")[2].removesuffix("np")) == 0


def test_every_cluster_has_enough_to_train_on() -> None:
    for count in (1, 5, 38, 39, 100, 1000, 10_000, 10**6, 10**8):
        clusters = cluster_count(count)
        assert clusters >= 1
        assert clusters == 1 or count / clusters >= 39
