"""Values within blocks as features: under every pooling, in sets, derived, refused by name; and attention patterns."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bertfeat import Extractor, FeatureSet
from bertfeat.core.encoder.weights import read_weights
from bertfeat.core.extraction import patterns
from bertfeat.core.models import BLOCK_MODULES
from bertfeat.core.recipe import BlockSite, Place, Pooling
from bertfeat.errors import ModelError, RecipeError, UsageError
from tests.support.hooked import NAMED, values_within
from tests.support.runs import contents, extractor, text_file
from tests.support.tiny_architectures import ARCHITECTURES
from tests.support.tiny_models import LONG_TEXT, TEXTS, Tiny, documents, reference_ids, reference_module

SITES = "attn:2,mlp:2,mlp-in:2,heads:2,mid:2"
ROWS = [text for text in TEXTS if text]


def pooled(states: NDArray[np.float32], pooling: Pooling) -> NDArray[np.float32]:
    """The pooling of one text's tokens, ``[T, H]``, by NumPy."""
    of_all = {
        Pooling.MEAN: states.mean(0),
        Pooling.CLS: states[0],
        Pooling.MAX: states.max(0),
        Pooling.LAST: states[-1],
    }
    return np.asarray(of_all.get(pooling, states), np.float32)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.CLS, Pooling.MAX, Pooling.LAST, Pooling.TOKEN])
@pytest.mark.parametrize("family", ["bert", "distilbert", "modernbert", "deberta-v2"])
def test_every_pooling(family: str, pooling: Pooling, tiny: Callable[[str], Tiny]) -> None:
    model = tiny(family)
    found = model.features(documents(ROWS), f"{SITES},sum=attn:1..4,concat=mlp:1+3,3", pooling)
    for at, text in enumerate(ROWS):
        values = {
            place: each.numpy()
            for place, each in values_within(model.folder, *reference_ids(model.folder, text)).items()
        }
        for column in found.columns:
            layers = [values[place] for place in column.recipe.places]
            joined = {"layer": layers[0], "sum": sum(layers), "concat": np.concatenate(layers, 1)}
            wanted = pooled(np.asarray(joined[column.recipe.operation], np.float32), pooling)
            scale = float(np.abs(wanted).max())
            np.testing.assert_allclose(found.of(column, at), wanted, rtol=0, atol=3e-5 * scale, err_msg=column.name)


def test_words_and_windows(bert: Tiny) -> None:
    """In a text of several windows, too, what goes into a block and what attention adds are the sum between."""
    poolings = (Pooling.TOKEN, Pooling.WORD, Pooling.MEAN)
    found = bert.features(documents([LONG_TEXT, *ROWS]), "attn:3,2,mid:3", *poolings, subword="mean")
    assert len(found.tokenized.layout.window_offsets) > len(ROWS) + 3
    for pooling in poolings:
        added = found[f"layer2_{pooling}"] + found[f"attn3_{pooling}"]
        np.testing.assert_allclose(found[f"mid3_{pooling}"], added, rtol=0, atol=2e-5)


def test_a_set_of_them(bert: Tiny, tmp_path: Path) -> None:
    """Stored and read by every name; resumed to the same bytes; what is contained is derived."""
    corpus = text_file(tmp_path / "corpus.txt", [*ROWS, *reversed(ROWS)])
    made = extractor(bert, layers=f"{SITES},concat=attn:1..4,last", pooling="mean,token", dtype="float32")
    made.extract(corpus, tmp_path / "set", part_rows=4)
    features = FeatureSet(tmp_path / "set")
    for name in ("attn:2", "attn2", "attn2_mean", "blocks.1.hook_attn_out"):
        np.testing.assert_array_equal(features.matrix(name, "mean"), features.matrix("attn2_mean"))
    for name, wanted in (("attn:4", "concat_attn_1_4_mean"), ("attn4", "concat_attn_1_4_mean")):
        np.testing.assert_array_equal(features.matrix(name, "mean"), features.matrix(wanted)[:, -32:])
    np.testing.assert_allclose(
        features.matrix("mean=attn:1..4", "mean"),
        features.matrix("concat_attn_1_4_mean").reshape(-1, 4, 32).mean(1),
        rtol=0,
        atol=1e-6,
    )
    before = contents(tmp_path / "set")
    (tmp_path / "set" / "part-00001.parquet").unlink()
    (tmp_path / "set" / ".bertfeat" / "manifest.json").unlink()
    made.extract(corpus, tmp_path / "set", part_rows=4)
    assert contents(tmp_path / "set") == before


def test_an_extractor_of_its_record(bert: Tiny, tmp_path: Path) -> None:
    made = extractor(bert, layers=f"{SITES},sum=mid:1..3", pooling="mean")
    made.extract(text_file(tmp_path / "corpus.txt", ROWS), tmp_path / "set")
    features = FeatureSet(tmp_path / "set")
    again = Extractor.from_record(
        features.header.model, features.header.settings, features.columns, name=bert.folder, where=features.folder
    )
    assert again.columns == made.columns
    assert Extractor(**asdict(again.settings)).columns == made.columns


def test_what_a_family_does_not_have(tmp_path: Path) -> None:
    """The message names the family and what it has."""
    models = {kind: ARCHITECTURES[kind].build(tmp_path / kind) for kind in ("albert", "gpt_neox", "bert")}
    refused = {
        (
            "albert",
            "attn:2",
        ): "model_type 'albert' gives whole layers only, and not attn:2; docs/activations.md lists the 58 families",
        (
            "gpt_neox",
            "sum=mid:1+2",
        ): "model_type 'gpt_neox' has no mid, and so not sum=mid:1[+]2; it has attn, mlp, mlp-in",
    }
    for (kind, layers), says in refused.items():
        with pytest.raises(RecipeError, match=says):
            extractor(models[kind], layers=layers)
    with pytest.raises(
        RecipeError, match="in int8 a model gives whole layers only, and not attn:2; use another precision"
    ):
        extractor(models["bert"], layers="attn:2", precision="int8")
    with pytest.raises(RecipeError, match="in int8"):
        extractor(models["bert"], precision="int8").columns_under(layers="mlp:1", pooling="mean", dtype="float32")


def test_the_models_own_pooling_takes_no_site(bert: Tiny) -> None:
    with pytest.raises(RecipeError, match="take its last layer, and not attn5"):
        extractor(bert, layers="attn:-1", pooling="sentence")


# ── attention patterns ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["bert", "distilbert", "mpnet"])
def test_patterns_are_what_the_heads_outputs_are_made_of(family: str, tiny: Callable[[str], Tiny]) -> None:
    """Weights times values are the outputs of heads, which the encoder gives by its own attention."""
    model = tiny(family)
    found = extractor(model).patterns(ROWS, "1..5")
    heads = model.model.sizes.num_attention_heads or 0
    values = read_weights(model.model).blocks
    for text, of_text in zip(ROWS, found, strict=True):
        assert list(of_text.layers) == [1, 2, 3, 4, 5]
        states = values_within(model.folder, *reference_ids(model.folder, text))
        assert len(of_text.tokens) == len(states[Place(0)])
        for layer, weights in of_text.layers.items():
            product = values[layer - 1].value
            value = states[Place(layer - 1)] @ product.weight.T + product.bias
            split = value.view(len(value), heads, -1).transpose(0, 1)
            mixed = (torch.from_numpy(weights) @ split).transpose(0, 1).flatten(1)
            torch.testing.assert_close(mixed, states[Place(layer, BlockSite.HEADS)], rtol=0, atol=2e-5)


@pytest.mark.parametrize("family", ["modernbert", "deberta-v2"])
def test_patterns_are_the_librarys(family: str, tiny: Callable[[str], Tiny]) -> None:
    model = tiny(family)
    (found,) = extractor(model).patterns([ROWS[0]], [2, -1])
    ids, _ = reference_ids(model.folder, ROWS[0])
    module = reference_module(model.folder, "eager") if family == "modernbert" else reference_module(model.folder)
    with torch.no_grad():
        wanted = module(torch.tensor([ids]), output_attentions=True).attentions
    for layer in (2, 5):
        np.testing.assert_allclose(found.layers[layer], wanted[layer - 1][0], rtol=0, atol=1e-6)
    assert list(found.tokens) == model.tokenizer.strings(np.array(ids, np.int32))


def test_a_row_of_a_decoders_pattern_ends_at_its_token(tmp_path: Path) -> None:
    (found,) = Extractor(ARCHITECTURES["llama"].build(tmp_path / "llama")).patterns(["The bank of the river."], "all")
    for weights in found.layers.values():
        np.testing.assert_allclose(weights.sum(2), 1.0, atol=1e-6)
        assert not np.triu(weights, 1).any()


def test_patterns_that_are_refused(bert: Tiny, tiny: Callable[[str], Tiny], monkeypatch: pytest.MonkeyPatch) -> None:
    made = extractor(bert)
    for layers in (0, "sum4", "attn:3", "concat=1+2"):
        with pytest.raises(RecipeError, match="there are attention patterns of layers 1 to 5, and none of"):
            made.patterns(["The bank."], layers)
    with pytest.raises(UsageError, match="1 of 2 texts are longer than the 64 tokens that the model reads at once"):
        made.patterns(["The bank.", LONG_TEXT], 3)
    assert extractor(bert, long="truncate").patterns(["The bank.", LONG_TEXT], 3)[1].layers[3].shape == (4, 64, 64)
    with pytest.raises(ModelError, match="does not give its attention"):
        extractor(tiny("longformer")).patterns(["The bank."], 2)
    assert [list(each.layers) for each in made.patterns(["The bank."], ["all"])] == [[1, 2, 3, 4, 5]]
    monkeypatch.setattr(patterns, "MOST_BYTES", 1000)
    with pytest.raises(UsageError, match="of 1 text in 1 layer would take"):  # the library keeps all layers of a text
        made.patterns(["The bank of the river."], 2)
    with pytest.raises(UsageError, match=r"the attention patterns of 1 text in 5 layers would take .*kB"):
        made.patterns(["The bank of the river."], "all")
    with pytest.raises(
        RecipeError, match=r"4 × T × T weights .* for each 1,000 texts of 64 tokens.*patterns\(texts, '3'"
    ):
        extractor(bert, layers="patterns:3")
    with pytest.raises(UsageError, match="each word is read by itself, so that no text has a pattern"):
        extractor(bert, context="left:2", pooling="word").patterns(["The bank."], 3)


def test_every_named_family_is_listed() -> None:
    assert set(NAMED) <= set(BLOCK_MODULES)
