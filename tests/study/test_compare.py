"""Comparisons against Gram matrices, SciPy and brute force over the hidden layers that the toy sets were made of."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from scipy.stats import spearmanr

from bertfeat.core.features import FeatureSet, Pieces
from bertfeat.errors import BertfeatError, DamagedError, FeatureSetError, NotDerivableError, RecipeError, UsageError
from bertfeat.progress import StepProgress
from bertfeat.study import ComparisonReport, ComparisonSettings, LayerPair, compare_features
from tests.support.features_toy import L, Toy, ToyDocument, toy_part, toy_set

Array = NDArray[np.float64]
K = 3


def first_parts(**options: Any) -> list[Toy]:
    options = {"layers": "all", "dtype": "float32", **options}
    return [toy_part(0, 0, 6, failures=[4], **options), toy_part(1, 6, 12, blank=[8], **options)]


def second_parts(**options: Any) -> list[Toy]:
    """Other vectors of the same rows in other parts; stored side by side, and other rows failed."""
    options = {"layers": "concat=0..4", **options}
    return [toy_part(0, 0, 11, blank=[8], failures=[10], **options), toy_part(1, 11, 7, **options)]


def opened(folder: Path, name: str, parts: Sequence[Toy]) -> FeatureSet:
    return FeatureSet(toy_set(folder / f"{name}.features", *parts))


def common_documents(first: Sequence[Toy], second: Sequence[Toy]) -> list[tuple[ToyDocument, ToyDocument]]:
    ours, theirs = ({document.row: document for toy in toys for document in toy.documents} for toys in (first, second))
    return [(ours[row], theirs[row]) for row in sorted(ours.keys() & theirs.keys())]


# ── oracles, of vectors [n, W] and [n, V] ───────────────────────────────────────────────────────────────────


def cka_of_grams(x: Array, y: Array) -> float:
    """By the kernels of the n items, as HSIC is defined, not by products of dimensions."""
    center = np.eye(len(x)) - 1 / len(x)
    ours, theirs = (center @ (matrix @ matrix.T) @ center for matrix in (x, y))
    return float((ours * theirs).sum() / np.sqrt((ours**2).sum() * (theirs**2).sum()))


def rsa(x: Array, y: Array) -> float:
    return float(spearmanr(pdist(x, "cosine"), pdist(y, "cosine")).statistic)


def common_neighbors(x: Array, y: Array) -> float:
    nearest = []
    for matrix in (x, y):
        far = cdist(matrix, matrix, "cosine")
        nearest.append([set(sorted(set(range(len(x))) - {at}, key=far[at].__getitem__)[:K]) for at in range(len(x))])
    return sum(len(ours & theirs) for ours, theirs in zip(*nearest, strict=True)) / (K * len(x))


def cosines(x: Array, y: Array) -> list[float]:
    return [float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))) for a, b in zip(x, y, strict=True)]


def expected(first: Sequence[Array], second: Sequence[Array]) -> list[LayerPair]:
    pairs = []
    for (a, x), (b, y) in product(enumerate(first), enumerate(second)):
        near = cosines(x, y)
        numbers = (cka_of_grams(x, y), rsa(x, y), common_neighbors(x, y), float(np.mean(near)), min(near))
        pairs.append(LayerPair(f"layer{a}", f"layer{b}", *numbers))
    return pairs


def check(compared: ComparisonReport, wanted: Sequence[LayerPair]) -> None:
    assert len(compared.pairs) == len(wanted)
    for ours, theirs in zip(compared.pairs, wanted, strict=True):
        assert (ours.first, ours.second) == (theirs.first, theirs.second)
        for name in ("cka", "rsa", "neighbors", "cosine", "least_cosine"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-6), (ours, name)


# ── what is computed ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sums", [1 << 30, 1], ids=["read once", "read again for each layer"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pooling: str, sums: int) -> None:
    monkeypatch.setattr("bertfeat.study.compare._MOST_BYTES", sums)
    first, second = first_parts(poolings=[pooling]), second_parts(poolings=[pooling])
    steps: list[StepProgress] = []
    compared = compare_features(
        opened(tmp_path, "first", first),
        opened(tmp_path, "second", second),
        ComparisonSettings(k=K),
        progress=steps.append,
    )
    documents = common_documents(first, second)
    vectors = [
        [np.array([pair[side].feature("sum", [layer], pooling) for pair in documents], float) for layer in range(L + 1)]
        for side in (0, 1)
    ]
    check(compared, expected(*vectors))
    assert (compared.documents, compared.items, compared.sample) == (15, 15, 15)
    assert (compared.first.failed, compared.second.failed) == (1, 1)
    assert (compared.pooling, compared.by_text, compared.first.model) == (pooling, True, "toy/model")
    assert (steps[-1].done, steps[-1].total) == ((15, 15) if sums > 1 else (75, 75))
    assert [pair.first for pair in compared.partners] == [pair.second for pair in compared.partners]


def piece_vectors(
    documents: Sequence[tuple[ToyDocument, ToyDocument]], pooling: str, wanted: Callable[[str], bool]
) -> list[list[Array]]:
    """The vectors of the wanted tokens or words of each layer of both sets; special tokens are left out."""
    sides = []
    for side in (0, 1):
        layers = []
        for layer in range(L + 1):
            rows = []
            for pair in documents:
                matrix = pair[side].feature("sum", [layer], pooling)
                matrix = matrix[1:-1] if pooling == "token" else matrix
                rows += [vector for vector, word in zip(matrix, pair[side].words, strict=True) if wanted(word)]
            layers.append(np.array(rows, float))
        sides.append(layers)
    return sides


def test_words(tmp_path: Path) -> None:
    first, second = first_parts(pairs=True), second_parts(pairs=True)
    compared = compare_features(
        opened(tmp_path, "first", first), opened(tmp_path, "second", second), ComparisonSettings("word", k=K)
    )
    documents = common_documents(first, second)
    check(compared, expected(*piece_vectors(documents, "word", lambda word: word != "🙂")))
    without = sum("🙂" in document.words for document, _ in documents)
    assert (compared.first.without_vector, compared.second.without_vector) == (without, without)
    assert (compared.first.unmatched, compared.second.unmatched) == (0, 0)


def cut(tokens: Pieces) -> Pieces:
    """As another tokenizer cuts: of each word of six letters or more the last is missing."""
    return replace(tokens, end=tokens.end - (tokens.end - tokens.start >= 6).astype(np.int32))


def test_tokens_are_compared_where_both_cut_the_same_characters(tmp_path: Path) -> None:
    first = first_parts()
    second = [
        replace(toy, content=replace(toy.content, tokens=toy.content.tokens and cut(toy.content.tokens)))
        for toy in second_parts()
    ]
    compared = compare_features(
        opened(tmp_path, "first", first), opened(tmp_path, "second", second), ComparisonSettings("token", k=K)
    )
    documents = common_documents(first, second)
    check(compared, expected(*piece_vectors(documents, "token", lambda word: len(word) < 6)))
    other = sum(len(word) >= 6 for document, _ in documents for word in document.words)
    assert (compared.first.unmatched, compared.second.unmatched) == (other, other)
    assert compared.first.without_vector == compared.second.without_vector == 2 * len(documents)


def test_pieces_of_the_same_characters_count_once(tmp_path: Path) -> None:
    def doubled(tokens: Pieces) -> Pieces:
        """As if the second token of each document, where it has two, were of the same characters as the first."""
        start, end = tokens.start.copy(), tokens.end.copy()
        for at, stop in zip(tokens.offsets[:-1] + 1, tokens.offsets[1:] - 1, strict=True):
            if stop - at >= 2:
                start[at + 1], end[at + 1] = start[at], end[at]
        return replace(tokens, start=start, end=end)

    toys = [
        replace(toy, content=replace(toy.content, tokens=toy.content.tokens and doubled(toy.content.tokens)))
        for toy in first_parts()
    ]
    features = opened(tmp_path, "first", toys)
    compared = compare_features(features, features, ComparisonSettings("token", k=K))
    documents = [document for toy in toys for document in toy.documents]
    assert compared.items == sum(len(document.words) - (len(document.words) > 1) for document in documents)
    assert np.allclose(np.diag(compared.matrix()), 1.0, atol=1e-12)


@pytest.mark.parametrize("pooling", ["mean", "token", "word"])
def test_a_set_is_like_itself(tmp_path: Path, pooling: str) -> None:
    features = opened(tmp_path, "first", first_parts())
    compared = compare_features(features, features.folder, ComparisonSettings(pooling, k=K))
    for pair in compared.partners:
        numbers = (pair.cka, pair.rsa, pair.neighbors, pair.cosine, pair.least_cosine)
        assert numbers == pytest.approx([1.0] * 5, abs=1e-12)
    assert np.allclose(compared.matrix("rsa"), compared.matrix("rsa").T, atol=1e-12)
    assert np.allclose(compared.matrix("cka"), compared.matrix("cka").T, atol=1e-12)


def test_layers_and_combinations_are_chosen(tmp_path: Path) -> None:
    first, second = opened(tmp_path, "first", first_parts()), opened(tmp_path, "second", second_parts())
    compared = compare_features(first, second, ComparisonSettings("mean", layers=("last", "1", "sum4", "concat4"), k=K))
    assert compared.first.layers == compared.second.layers == ("layer4", "layer1", "sum4", "concat4")
    assert compared.matrix().shape == (4, 4)
    wide = np.isnan(compared.matrix("cosine"))
    assert wide.tolist() == [[(a == 3) != (b == 3) for b in range(4)] for a in range(4)]
    assert not np.isnan(compared.matrix("cka")).any()


def test_other_models_have_other_widths_and_depths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(tmp_path, "first", first_parts())
    monkeypatch.setattr("tests.support.features_toy.H", 6)
    monkeypatch.setattr("tests.support.features_toy.L", 2)
    monkeypatch.setattr("tests.support.features_toy.MODEL", replace(first.header.model, hidden_size=6, num_layers=2))
    second = opened(tmp_path, "second", second_parts(layers="all"))
    compared = compare_features(first, second, ComparisonSettings("mean", k=K))
    assert compared.matrix().shape == (5, 3)
    assert np.isnan(compared.matrix("cosine")).all()
    best = compared.matrix().argmax(axis=1)
    assert [pair.second for pair in compared.partners] == [f"layer{at}" for at in best]


def test_a_layer_that_does_not_vary_has_no_likeness(tmp_path: Path) -> None:
    parts = [
        replace(
            toy,
            content=replace(
                toy.content,
                vectors={
                    name: np.full_like(matrix, 0.3) if name == "layer0_cls" else matrix
                    for name, matrix in toy.content.vectors.items()
                },
            ),
        )
        for toy in first_parts(poolings=["cls"])
    ]
    features = opened(tmp_path, "first", parts)
    compared = compare_features(features, features, ComparisonSettings(k=K))
    for pair in compared.pairs:
        undefined = "layer0" in (pair.first, pair.second)
        assert ((pair.cka is None), (pair.rsa is None), (pair.neighbors is None)) == (undefined,) * 3
    assert compared.pairs[0].cosine == pytest.approx(1.0)


def test_the_sample_is_of_the_seed(tmp_path: Path) -> None:
    first, second = opened(tmp_path, "first", first_parts()), opened(tmp_path, "second", second_parts())
    settings = ComparisonSettings("word", layers=("last",), k=K, sample=9)
    one, same = (compare_features(first, second, settings) for _ in range(2))
    other = compare_features(first, second, replace(settings, seed=2))
    whole = compare_features(first, second, replace(settings, sample=1000))
    assert one == same
    assert one.sample == 9 < one.items == whole.sample
    assert one.pairs[0].cka == other.pairs[0].cka == whole.pairs[0].cka
    assert len({each.pairs[0].rsa for each in (one, other, whole)}) == 3


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────


def edited(toy: Toy, **content: Any) -> Toy:
    return replace(toy, content=replace(toy.content, **content))


def other_text(toys: list[Toy]) -> list[Toy]:
    return [toys[0], edited(toys[1], texts=["x" * 60, *(toys[1].content.texts or ())[1:]])]


def other_id(toys: list[Toy]) -> list[Toy]:
    return [toys[0], edited(toys[1], ids=["seven", *toys[1].content.ids[1:]])]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (other_text, "row 6 has another text in each: 'The bank, by the river.' and 'xxxxxxxxxxxxxxxxxxxxxxx.*…'"),
        (other_id, "row 6 has another id in each: '7' and 'seven'"),
        (lambda toys: other_text([toys[0], other_id(toys)[1]]), "row 6 has another id"),
        (
            lambda toys: [edited(toys[0], texts=[*(toys[0].content.texts or ())[:4], "y"]), *other_id(toys)[1:]],
            "row 5 has another text in each: .* and 'y'",
        ),
        (lambda toys: toys[:1], "row 6 is in .*first.features only"),
        (
            lambda toys: [*toys, toy_part(2, 18, 2, layers="all", dtype="float32")],
            "row 18 is in .*second.features only",
        ),
        (
            lambda toys: [toys[0], toy_part(1, 6, 12, blank=[7, 8], layers="all", dtype="float32")],
            "row 7 is in .*first",
        ),
    ],
    ids=["text", "id", "both", "the first of several", "shorter", "longer", "a row is blank"],
)
def test_sets_of_other_rows_are_refused(tmp_path: Path, change: Callable[[list[Toy]], list[Toy]], problem: str) -> None:
    first, second = opened(tmp_path, "first", first_parts()), opened(tmp_path, "second", change(first_parts()))
    with pytest.raises(FeatureSetError, match=rf"second.features: not of the same rows as .*first.features: {problem}"):
        compare_features(first, second, ComparisonSettings("mean", k=K))


def test_rows_without_texts_are_matched_by_number_and_id(tmp_path: Path) -> None:
    first = opened(tmp_path, "first", first_parts())
    second = opened(tmp_path, "second", first_parts(text=False))
    compared = compare_features(first, second, ComparisonSettings("mean", k=K))
    assert (compared.by_text, compared.documents) == (False, 16)


@pytest.mark.parametrize(
    ("options", "settings", "error", "problem"),
    [
        ({}, {}, UsageError, "several poolings; say which with pooling: mean or token or word"),
        ({}, {"pooling": "cls"}, NotDerivableError, "of cls pooling are not in both sets; stored are mean, token"),
        ({"poolings": ["cls"]}, {}, NotDerivableError, "vectors of the same pooling are not in both sets; .* cls in"),
        ({"layers": "sum4"}, {"pooling": "mean"}, NotDerivableError, "second.features: no single layer can be"),
        ({}, {"pooling": "mean", "layers": ("9",)}, RecipeError, "first.features: layer 9 in '9' is outside the model"),
        ({}, {"pooling": "mean", "k": 15}, UsageError, "k=15 needs 17 items, not 16; 16 are in both sets"),
        ({}, {"pooling": "mean", "k": 4, "sample": 5}, UsageError, "k=4 needs 6 items, not 5; "),
    ],
    ids=range(7),
)  # fmt: skip
def test_what_cannot_be_compared(
    tmp_path: Path, options: dict[str, Any], settings: dict[str, Any], error: type[BertfeatError], problem: str
) -> None:
    first, second = opened(tmp_path, "first", first_parts()), opened(tmp_path, "second", first_parts(**options))
    with pytest.raises(error, match=problem):
        compare_features(first, second, ComparisonSettings(**{"k": K, **settings}))


@pytest.mark.parametrize("settings", [{"k": 0}, {"seed": -1}, {"sample": 2}, {"sample": 4001}], ids=str)
def test_settings_that_cannot_be_right(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ComparisonSettings(**settings)


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    toys = first_parts(poolings=["mean"])
    vectors = dict(toys[1].content.vectors)
    vectors["layer2_mean"] = np.full_like(vectors["layer2_mean"], np.nan)
    first, second = (
        opened(tmp_path, "first", toys),
        opened(tmp_path, "second", [toys[0], edited(toys[1], vectors=vectors)]),
    )
    with pytest.raises(FeatureSetError, match=r"second.features: layer2_mean holds values that are not finite"):
        compare_features(first, second, ComparisonSettings(k=K))


def test_matrices_of_a_damaged_part_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = opened(tmp_path, "first", first_parts(poolings=["word"]))
    monkeypatch.setattr(
        "bertfeat.study.matched_items.piece_offsets", lambda batch, column: np.zeros(len(batch) + 1, np.int64)
    )
    with pytest.raises(DamagedError, match=r"first.features: not every word has a place and a vector; bertfeat"):
        compare_features(features, features, ComparisonSettings(k=K))


def test_rows_in_another_order_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = opened(tmp_path, "first", first_parts()), opened(tmp_path, "second", first_parts())
    turned = [batch.take(np.arange(len(batch))[::-1].copy()) for batch in second.stream(["row", "id", "text"])]
    monkeypatch.setattr(second, "stream", lambda names: iter(turned))
    with pytest.raises(DamagedError, match=r"second.features: its rows are not in their order; bertfeat verify"):
        compare_features(first, second, ComparisonSettings("mean", k=K))


def test_a_part_of_failures_alone(tmp_path: Path) -> None:
    options: dict[str, Any] = {"layers": "all", "dtype": "float32", "poolings": ["mean"]}
    last = toy_part(2, 18, 2, failures=[18, 19], **options)
    first, second = (
        opened(tmp_path, "first", [*first_parts(poolings=["mean"]), last]),
        opened(tmp_path, "second", [*first_parts(poolings=["mean"]), toy_part(2, 18, 2, **options)]),
    )
    compared = compare_features(first, second, ComparisonSettings(k=K))
    assert (compared.documents, compared.first.failed, compared.second.failed) == (16, 2, 0)
