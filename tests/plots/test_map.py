"""Maps: where the points lie, who gets which color, and what a picture says of itself."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from bertfeat import CorpusSettings, Extractor
from bertfeat.core.corpus import KeptColumn
from bertfeat.core.features import FeatureSet
from bertfeat.errors import FeatureSetError, NotDerivableError, UsageError
from bertfeat.plots import draw_map, lay_out_vectors, map_documents, write_map_page
from bertfeat.plots.palette import NAMED, NO_VALUE, OTHERS, SCALE
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import clustered, vector_set
from tests.support.plots_toy import COUNT, Page, kept, plotted, svg_fills, svg_texts
from tests.support.tiny_models import Tiny


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return plotted(tmp_path_factory.mktemp("plots") / "toy.features")


# ── who gets which color ───────────────────────────────────────────────────────────────────────────────────


def test_each_of_a_few_values_has_a_color(features: FeatureSet, tmp_path: Path) -> None:
    draw_map(features, tmp_path / "map.svg", color="lang")
    fills = svg_fills(tmp_path / "map.svg")
    # a dot a document and one in the legend; equally frequent values in the order of their characters
    assert [fills[color] for color in NAMED[:4]] == [31, 31, 31, 0]
    assert fills[f"× {NO_VALUE}"] == 31
    texts = svg_texts(tmp_path / "map.svg")
    names = ["lang", "$x_$", "_en", "de", "no value"]
    assert [text for text in texts if text in names] == names


def test_of_many_values_the_most_frequent_have_a_color(features: FeatureSet, tmp_path: Path) -> None:
    draw_map(features, tmp_path / "map.svg", color="author")
    fills, texts = svg_fills(tmp_path / "map.svg"), svg_texts(tmp_path / "map.svg")
    counted = Counter(map(str, kept("author")))
    ordered = sorted(counted, key=lambda name: (-counted[name], name))
    assert len(ordered) == 11
    assert [fills[color] for color in NAMED] == [*(counted[name] + 1 for name in ordered[:9]), 0]
    assert fills[OTHERS] == sum(counted[name] for name in ordered[9:]) + 1
    assert "2 other values" in texts
    assert [text for text in texts if text in counted] == ordered[:9]


def test_numbers_have_a_scale_in_their_order(features: FeatureSet, tmp_path: Path) -> None:
    draw_map(features, tmp_path / "map.svg", color="year")
    fills, texts = svg_fills(tmp_path / "map.svg"), svg_texts(tmp_path / "map.svg")
    dots = [fill for fill in fills.elements() if fill.startswith("#")]
    assert len(dots) == COUNT - 1
    assert {SCALE[0], SCALE[-1]} <= set(dots)  # 1900 and 2019
    assert len(set(dots)) > 100
    assert fills[f"× {NO_VALUE}"] == 2  # row 3, and the legend
    assert {"year", "1900", "1950", "no number"} <= set(texts)


def test_numbers_may_be_taken_for_names(features: FeatureSet, tmp_path: Path) -> None:
    draw_map(features, tmp_path / "map.svg", color="same:string")
    assert svg_fills(tmp_path / "map.svg")[NAMED[0]] == COUNT + 1
    assert "7" in svg_texts(tmp_path / "map.svg")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("color", "form"),
    [
        *((color, "svg") for color in (None, "row", "good", "part", "same", "none", "huge", "hostile")),
        *((color, "html") for color in (None, "part", "none", "huge", "hostile")),
        *((color, "png") for color in ("good", "part", "hostile")),
    ],
)
def test_every_kind_of_color(features: FeatureSet, color: str | None, form: str, tmp_path: Path) -> None:
    (write_map_page if form == "html" else draw_map)(features, tmp_path / f"map.{form}", color=color)
    assert [path.name for path in tmp_path.iterdir()] == [f"map.{form}"]
    assert form != "svg" or svg_texts(tmp_path / "map.svg")  # it is XML, whatever the names hold


def colors_of(features: FeatureSet, path: Path, **options: object) -> dict[str, str]:
    write_map_page(features, path, color="author", **options)  # type: ignore[arg-type]
    return {group["label"]: group["light"] for group in Page(path).data["groups"]}


def test_a_value_has_one_color_in_all_pictures_of_a_set(features: FeatureSet, tmp_path: Path) -> None:
    whole = colors_of(features, tmp_path / "whole.html")
    assert len(whole) == 10
    for points in (5, 17, 40):
        sample = colors_of(features, tmp_path / f"{points}.html", points=points)
        assert sample.items() <= whole.items()
    assert colors_of(features, tmp_path / "recipe.html", column="last_mean") == whole
    write_map_page(features, tmp_path / "year.html", color="year", points=10)
    assert Page(tmp_path / "year.html").data["scale"]["ends"] == ["1900", "2019"]


def test_ids_have_colors_only_where_they_are_few(features: FeatureSet, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"id has 120 different values, and the 9 most frequent are 7.5% of the doc"):
        draw_map(features, tmp_path / "map.png", color="id")
    with pytest.raises(UsageError, match=r"many has 60 different values.*color by a column with fewer values"):
        draw_map(features, tmp_path / "map.png", color="many")
    few = FeatureSet(vector_set(tmp_path / "few.features", clustered(6)))
    draw_map(few, tmp_path / "few.svg", color="id")
    assert [svg_fills(tmp_path / "few.svg")[color] for color in NAMED[:6]] == [2] * 6
    assert list(tmp_path.glob("map*")) == []


def test_countless_values_are_not_counted(
    features: FeatureSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertfeat.plots.map_content.MOST_VALUES", 50)
    with pytest.raises(UsageError, match="many has more than 50 different values"):
        draw_map(features, tmp_path / "map.png", color="many")


def test_a_long_tail_of_values_is_drawn_if_some_are_frequent(tmp_path: Path) -> None:
    values = [f"rare {row}" if row % 4 else "often" for row in range(COUNT)]
    column = KeptColumn("domain", "string")
    skewed = FeatureSet(vector_set(tmp_path / "skewed.features", clustered(COUNT), kept={column: values}))
    draw_map(skewed, tmp_path / "map.svg", color="domain")
    assert svg_fills(tmp_path / "map.svg")[NAMED[0]] == COUNT / 4 + 1
    assert "82 other values" in svg_texts(tmp_path / "map.svg")


# ── what a picture says ─────────────────────────────────────────────────────────────────────────────────────


def test_a_picture_says_what_a_point_is(features: FeatureSet, tmp_path: Path) -> None:
    draw_map(features, tmp_path / "map.svg", points=50)
    made = map_documents(features, points=50)
    shares = lay_out_vectors(features.matrix("last_mean")[np.linspace(0, COUNT - 1, 50).astype(int)], "pca").shares
    assert shares is not None
    assert (len(made), made.of) == (50, COUNT)
    assert made.explained == pytest.approx(sum(shares))
    said = " ".join(svg_texts(tmp_path / "map.svg"))
    assert "last_mean of toy.features (model)" in said
    assert f"Each point is a document: 50 of 120. PCA, {sum(shares):.1%} of the variance kept." in said
    assert f"component 1 ({shares[0]:.1%} of the variance)" in said
    assert f"component 2 ({shares[1]:.1%} of the variance)" in said
    pytest.importorskip("sklearn")
    draw_map(features, tmp_path / "tsne.svg", method="tsne")
    said = " ".join(svg_texts(tmp_path / "tsne.svg"))
    assert "Each point is a document: all 120. t-SNE: near points have similar vectors" in said
    assert "t-SNE 1" in said


@pytest.mark.slow
def test_many_dots_are_smaller_and_fainter(tmp_path: Path) -> None:
    found = []
    for count in (10, 1000, 5000):
        features = FeatureSet(vector_set(tmp_path / f"{count}.features", clustered(count)))
        draw_map(features, tmp_path / f"{count}.svg")
        source = (tmp_path / f"{count}.svg").read_text()
        opaque = float(source.split("fill-opacity: ")[1].split('"')[0].split(";")[0])
        mark = source.split('<path id="')[1].split('d="M 0 ')[1].split("\n")[0]
        found.append((float(mark), opaque))
    radii, opacities = zip(*found, strict=True)
    assert list(radii) == sorted(radii, reverse=True)
    assert list(opacities) == sorted(opacities, reverse=True)
    assert min(radii) > 0.9  # points: four dots of a png in all
    assert min(opacities) >= 0.55


def test_what_cannot_be_drawn(features: FeatureSet, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kept column 'yaer' to color by; there are: row, id, year"):
        draw_map(features, tmp_path / "map.png", color="yaer")
    with pytest.raises(UsageError, match="by pca, tsne, umap, not by 'mds'"):
        draw_map(features, tmp_path / "map.png", method="mds")
    with pytest.raises(UsageError, match="at least 3 points, not 2"):
        draw_map(features, tmp_path / "map.png", points=2)
    with pytest.raises(NotDerivableError, match="layer"):
        draw_map(features, tmp_path / "map.png", column="concat4_mean")
    toy_set(tmp_path / "word.features", toy_part(poolings=("word",)))
    with pytest.raises(UsageError, match="none is stored; extract some with pooling='mean'"):
        draw_map(FeatureSet(tmp_path / "word.features"), tmp_path / "map.png")
    toy_set(tmp_path / "both.features", toy_part(poolings=("word", "mean")))
    with pytest.raises(UsageError, match="a map shows one vector; these fit: concat4_mean"):
        draw_map(FeatureSet(tmp_path / "both.features"), tmp_path / "map.png", column="concat4_word")
    broken = clustered(9)
    broken[5:7, 0] = np.inf
    vector_set(tmp_path / "broken.features", broken)
    with pytest.raises(FeatureSetError, match=r"last_mean of row 5 has values .*, and so have 2 of 9 points"):
        draw_map(FeatureSet(tmp_path / "broken.features"), tmp_path / "map.png")
    vector_set(tmp_path / "two.features", clustered(2), parts=1)
    with pytest.raises(UsageError, match="at least 3 points; there are 2"):
        draw_map(FeatureSet(tmp_path / "two.features"), tmp_path / "map.png")
    assert list(tmp_path.glob("map*")) == []


# ── spans ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def tokens(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    """Three documents of four, one and eight sentences."""
    place = tmp_path_factory.mktemp("spans")
    texts = ["The river rose. They saw it! A bank? Gone.", "Only one.", "Rain fell. It stopped. " * 4]
    rows = [{"text": text, "year": 1900 + at, "pair": "Another text."} for at, text in enumerate(texts)]
    (place / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    settings = CorpusSettings(keep=("year",), pair_column="pair")
    Extractor(tiny("bert").folder, pooling="token", precision="fp32").extract(
        place / "c.jsonl", place / "c.features", corpus_settings=settings
    )
    return FeatureSet(place / "c.features")


def test_points_are_spans(tokens: FeatureSet) -> None:
    (batch,) = tokens.spans("sentences")
    made = map_documents(tokens, spans="sentences", method="pca", color="year", with_texts=True)
    flat = PCA(2).fit_transform(batch.matrix)
    np.testing.assert_allclose(np.abs(made.flat), np.abs(flat), atol=2e-4)
    assert (made.of, len(made)) == (13, 13)
    assert made.fields["text"] == list(batch.strings)
    assert made.values == [1900 + row for row in batch.rows.tolist()]
    assert set(made.fields) == {"text", "id", "year"}
    assert made.title.startswith("sentences of last_token of c.features")
    assert made.note.startswith("Each point is a span: all 13.")
    some = map_documents(tokens, spans="sentences", method="pca", points=5, with_texts=True)
    chosen = np.linspace(0, 12, 5).astype(int)
    assert some.fields["text"] == [batch.strings[at] for at in chosen.tolist()]
    assert "5 of 13" in some.note


def test_no_map_of_such_spans(tokens: FeatureSet, features: FeatureSet) -> None:
    with pytest.raises(UsageError, match="these spans are unknown"):
        map_documents(tokens, spans="phrases")
    with pytest.raises(NotDerivableError, match="no vectors of tokens or words"):
        map_documents(features, spans="sentences")
