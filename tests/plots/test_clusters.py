"""Clusters of a map and their names: against plain counting, and SciPy's G²."""

from pathlib import Path

import numpy as np
import pytest

from bertfeat.errors import UsageError
from bertfeat.plots import LabelWords, beginning, draw_map, find_clusters, map_documents
from tests.support.index_toy import vector_set
from tests.support.plots_toy import svg_texts

pytest.importorskip("sklearn")

# Three groups of texts; every text has "the", and those of a group have its words.
GROUPS = (("storm", "sails"), ("bread", "oven"), ("judge", "court"))
COUNTS = (30, 20, 10)


def toy_texts() -> tuple[list[str], np.ndarray]:
    """Texts group after group, and the group of each."""
    of = np.repeat(np.arange(3), COUNTS)
    texts = [
        f"The {GROUPS[group][0]} {number}, and the {GROUPS[group][number % 2].upper()}s!"
        for number, group in enumerate(of.tolist())
    ]
    return texts, of


def places(of: np.ndarray) -> np.ndarray:
    """Points in three far heaps."""
    middles = np.array([[0, 0], [100, 0], [0, 100]])
    made: np.ndarray = middles[of] + np.random.default_rng(0).normal(size=(len(of), 2))
    return made.astype(np.float32)


def test_clusters_are_the_heaps_the_largest_first() -> None:
    _, of = toy_texts()
    shuffled = np.random.default_rng(1).permutation(len(of))
    flat = places(of)[shuffled]
    found = find_clusters(flat, 3, None, np.arange(0))
    assert found.codes.tolist() == of[shuffled].tolist()
    assert [each.count for each in found.clusters] == list(COUNTS)
    for number, each in enumerate(found.clusters):
        assert (each.x, each.y) == pytest.approx(np.median(flat[found.codes == number], axis=0).tolist())
        assert each.words == ()


def test_names_are_the_words_that_others_lack() -> None:
    texts, of = toy_texts()
    names = [each.words for each in find_clusters(places(of), 3, LabelWords(texts), np.arange(len(of))).clusters]
    # forms of one word ("storm", "storms") are one; "the" and "and" are everywhere, numbers are no words
    assert names == [("storm", "sailss"), ("bread", "ovens"), ("judge", "courts")]


def test_the_order_is_that_of_scipys_log_likelihood() -> None:
    contingency = pytest.importorskip("scipy.stats.contingency")
    stats = pytest.importorskip("scipy.stats")
    assert contingency is not None
    random = np.random.default_rng(3)
    of = np.repeat([0, 1], [60, 140])
    shares = {f"{letter}word": (random.uniform(0.2, 0.9), random.uniform(0, 0.3)) for letter in "abcdefgh"}
    texts = [" ".join(word for word, both in shares.items() if random.random() < both[group]) for group in of.tolist()]
    found = find_clusters(places(of), 2, LabelWords(texts), np.arange(len(of)))
    inside = [text.split() for text, group in zip(texts, of, strict=True) if group == 0]
    outside = [text.split() for text, group in zip(texts, of, strict=True) if group == 1]
    scores = {}
    for word in shares:
        a, b = (sum(word in text for text in side) for side in (inside, outside))
        if a / len(inside) >= 3 * b / len(outside):
            table = [[a, len(inside) - a], [b, len(outside) - b]]
            scores[word] = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic
    expected = sorted((word for word in scores if scores[word] >= 6.63), key=lambda word: -scores[word])[:3]
    assert len(expected) == 3
    assert found.clusters[1].words == tuple(expected)


def test_words_of_a_sample_of_the_points() -> None:
    texts, of = toy_texts()
    sample = np.arange(0, len(of), 2)
    found = find_clusters(places(of), 3, LabelWords(texts[at] for at in sample.tolist()), sample)
    assert [each.words[0] for each in found.clusters[:2]] == ["storm", "bread"]
    assert [each.count for each in found.clusters] == list(COUNTS)


@pytest.mark.parametrize("points", [0, 1, 2])
def test_few_points(points: int) -> None:
    found = find_clusters(np.zeros((points, 2), np.float32), 10, LabelWords(["a word"] * points), np.arange(points))
    assert [each.count for each in found.clusters] == ([points] if points else [])
    assert len(found.codes) == points


def test_points_that_differ_in_their_last_bits() -> None:
    flat = np.repeat(np.array([[1, 1], [2, 2], [3, 3]], np.float32), 40, axis=0)
    flat[::2, 0] = np.nextafter(flat[::2, 0], np.float32(9))
    found = find_clusters(flat, 6, None, np.arange(0))
    assert all(each.count for each in found.clusters)
    assert np.isfinite([(each.x, each.y) for each in found.clusters]).all()
    assert found.codes.max() == len(found.clusters) - 1


def test_both_texts_of_a_pair_count() -> None:
    assert beginning(("a" * 5000, "b" * 5000)) == f"{'a' * 1000} {'b' * 1000}"
    assert beginning(("a" * 5000, None)) == "a" * 2000
    assert beginning((None, "")) == ""


# ── in pictures ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_map_without_a_column_has_the_colors_of_clusters(tmp_path: Path) -> None:
    texts, of = toy_texts()
    features = vector_set(tmp_path / "toy.features", places(of).astype(np.float32), text=texts)
    made = map_documents(features, method="pca", clusters=3)
    assert [each.words[0] for each in made.labels] == ["storm", "bread", "judge"]
    assert made.codes().tolist() == of.tolist()
    assert [made.label(code) for code in range(3)] == ["1. storm, sailss", "2. bread, ovens", "3. judge, courts"]
    draw_map(features, tmp_path / "map.svg", method="pca", clusters=3)
    shown = svg_texts(tmp_path / "map.svg")
    assert {"storm, sailss", "bread, ovens", "judge, courts", "1. storm, sailss"} <= set(shown)
    draw_map(features, tmp_path / "none.svg", method="pca", clusters=0)
    assert not [text for text in svg_texts(tmp_path / "none.svg") if "storm" in text]


def test_wrong_numbers_of_clusters(tmp_path: Path) -> None:
    texts, of = toy_texts()
    features = vector_set(tmp_path / "toy.features", places(of), text=texts)
    for wrong in (-1, 11):
        with pytest.raises(UsageError, match=f"{wrong} clusters; there are colors for 0 to 10"):
            map_documents(features, clusters=wrong)
