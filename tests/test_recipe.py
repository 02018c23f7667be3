"""The layers grammar against DESIGN.md's table, and derivations against direct sums."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from bertfeat.core.derivation import derive
from bertfeat.core.grammar import feature_columns, parse_recipes, spec_of_name, split_specs
from bertfeat.core.recipe import (
    BlockSite,
    FeatureColumn,
    Operation,
    Place,
    Pooling,
    Recipe,
    needed_layers,
    needed_places,
)
from bertfeat.errors import NotDerivableError, RecipeError

TABLE = {
    "embeddings": [("layer", [0], "embeddings")],
    "last": [("layer", [12], "last")],
    "second-to-last": [("layer", [11], "second_to_last")],
    "sum4": [("sum", [9, 10, 11, 12], "sum4")],
    "mean4": [("mean", [9, 10, 11, 12], "mean4")],
    "concat4": [("concat", [9, 10, 11, 12], "concat4")],
    "sum-last-4": [("sum", [9, 10, 11, 12], "sum4")],
    "mean-last-4": [("mean", [9, 10, 11, 12], "mean4")],
    "concat-last-4": [("concat", [9, 10, 11, 12], "concat4")],
    "sum-all": [("sum", list(range(1, 13)), "sum_all")],
    "mean-all": [("mean", list(range(1, 13)), "mean_all")],
    "concat-all": [("concat", list(range(1, 13)), "concat_all")],
    "7": [("layer", [7], "layer7")],
    "-3": [("layer", [10], "layer10")],
    "-1,-2,-3,-4": [("layer", [n], f"layer{n}") for n in (12, 11, 10, 9)],
    "-13": [("layer", [0], "layer0")],
    "all": [("layer", [n], f"layer{n}") for n in range(13)],
    "9..11": [("layer", [n], f"layer{n}") for n in range(9, 12)],
    "sum=-4..-1": [("sum", [9, 10, 11, 12], "sum_9_12")],
    "mean=1+6+12": [("mean", [1, 6, 12], "mean_1_6_12")],
    "concat=9..12": [("concat", [9, 10, 11, 12], "concat_9_12")],
    "concat=12+9": [("concat", [9, 12], "concat_9_plus_12")],
    "sum=0+2..4+-1": [("sum", [0, 2, 3, 4, 12], "sum_0_2_3_4_12")],
    "mean=-1": [("layer", [12], "layer12")],
    "sum=5..5": [("layer", [5], "layer5")],
}


@pytest.mark.parametrize("spec", TABLE)
def test_grammar(spec: str) -> None:
    found = [(str(r.operation), list(r.layers), str(r)) for r in parse_recipes(spec, 12)]
    assert found == TABLE[spec]


SITED = {
    "attn:7": ["layer attn 7 attn7 attn:7"],
    "mlp-in:-1": ["layer mlp-in 12 mlp_in12 mlp-in:12"],
    "pre-norm:last": ["layer pre-norm 12 pre_norm12 pre-norm:12"],
    "mid:second-to-last": ["layer mid 11 mid11 mid:11"],
    "mlp:2..3,9..10": [
        "layer mlp 2 mlp2 mlp:2",
        "layer mlp 3 mlp3 mlp:3",
        "layer output 9 layer9 9",
        "layer output 10 layer10 10",
    ],
    "heads:all": [f"layer heads {n} heads{n} heads:{n}" for n in range(1, 13)],
    "sum=attn:-2..-1": ["sum attn 11 12 sum_attn_11_12 sum=attn:11+12"],
    "mean=mlp-in:1+6": ["mean mlp-in 1 6 mean_mlp_in_1_plus_6 mean=mlp-in:1+6"],
    "concat=pre-norm:1+6+12": ["concat pre-norm 1 6 12 concat_pre_norm_1_6_12 concat=pre-norm:1+6+12"],
    "concat=mid:all": [
        f"concat mid {' '.join(map(str, range(1, 13)))} concat_mid_1_12 concat=mid:{'+'.join(map(str, range(1, 13)))}"
    ],
    "sum=attn:5": ["layer attn 5 attn5 attn:5"],
    # hooks of TransformerLens, whose blocks are counted from 0
    "blocks.0.hook_resid_pre": ["layer output 0 layer0 0"],
    "blocks.7.attn.hook_z": ["layer heads 8 heads8 heads:8"],
    "blocks.7.hook_attn_out": ["layer attn 8 attn8 attn:8"],
    "blocks.7.hook_resid_mid": ["layer mid 8 mid8 mid:8"],
    "blocks.7.mlp.hook_in": ["layer mlp-in 8 mlp_in8 mlp-in:8"],
    "blocks.7.hook_mlp_out": ["layer mlp 8 mlp8 mlp:8"],
    "blocks.11.hook_resid_post": ["layer pre-norm 12 pre_norm12 pre-norm:12"],
    "blocks.11.hook_normalized_resid_post": ["layer output 12 layer12 12"],
}


@pytest.mark.parametrize("spec", SITED)
def test_sites_within_blocks(spec: str) -> None:
    found = [
        " ".join([str(r.operation), str(r.site), *map(str, r.layers), str(r), r.spec]) for r in parse_recipes(spec, 12)
    ]
    assert found == SITED[spec]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            "attn:0",
            "layer 0 in 'attn:0' is the embedding output, which has no attn; the layers that have one are 1 to 12",
        ),
        ("sum=mid:0+1", "which has no mid"),
        ("attn:13", "layer 13 in 'attn:13' is outside the model"),
        ("attn:1+6", "'attn:1[+]6' may mean a sum or each; write sum=attn:1[+]6, or attn:1,attn:6"),
        ("1+6", "'1[+]6' may mean a sum or each; write sum=1[+]6, or 1,6"),
        ("attn:6..1", "runs backwards"),
        ("attn:", "unknown"),
        ("attn:x", "cannot read 'x'"),
        ("atn:3", "did you mean attn:3"),
        ("output:3", "unknown"),
        ("attn:3:4", "unknown"),
        ("sum4=attn:3", "unknown"),
        ("blocks.12.hook_mlp_out", "block 12 in 'blocks.12.hook_mlp_out' is outside the model: it has blocks 0 to 11"),
        ("blocks.1.hook_mlp_outs", "did you mean hook_mlp_out"),
    ],
)
def test_what_is_no_site(spec: str, says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        parse_recipes(spec, 12)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("13", r"layer 13 in '13' is outside the model: it has layers 0 \(embeddings\) to 12, or -13 to -1"),
        ("-14", "layer -14"),
        ("sum=1..13", "layer 13 in 'sum=1..13'"),
        ("sum=4..2", "runs backwards"),
        ("sum=-1..-4", "runs backwards"),
        ("concat=3+1..4", "names layer 3 twice"),
        ("concat=12+-1", "names layer 12 twice"),
        ("mean=", "unknown layer specification 'mean='"),
        ("mean=1+", "cannot read ''"),
        ("mean=1..", "cannot read '1..'"),
        ("max=1+2", "known are: embeddings, last"),
        ("Last", "unknown"),
        ("", "empty"),
        ("last,,7", "empty"),
        ("7.0", "unknown"),
        ("sum5", "unknown"),
    ],
)
def test_what_does_not_parse(spec: str, says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        parse_recipes(spec, 12)


def test_the_last_four_of_a_model_of_three() -> None:
    with pytest.raises(RecipeError, match="at least 4 layers; this one has 3"):
        parse_recipes("sum4", 3)


def test_no_specifications() -> None:
    with pytest.raises(RecipeError, match="empty"):
        split_specs([])


def test_specifications_repeated_and_separated_by_commas() -> None:
    assert split_specs(["last, 7", "sum4"]) == ("last", "7", "sum4")


def test_equal_recipes_make_one_column_named_as_first_said() -> None:
    assert [str(r) for r in parse_recipes("last,-1,12,sum4,sum=9..12,sum-last-4", 12)] == ["last", "sum4"]


@pytest.mark.parametrize("spec", ["sum-all", "mean-all", "concat-all"])
def test_all_layers_of_a_model_of_one_are_its_last(spec: str) -> None:
    assert len(parse_recipes(f"last,{spec}", 1)) == 1


SPECS = st.builds(
    lambda layers, operation, site: f"{operation}={site}{'+'.join(map(str, layers))}",
    st.lists(st.integers(1, 12), min_size=1, max_size=6, unique=True),
    st.sampled_from(["sum", "mean", "concat"]),
    st.sampled_from(["", *(f"{site}:" for site in BlockSite if site is not BlockSite.OUTPUT)]),
)


@given(SPECS)
def test_names_and_specifications_are_read_back(spec: str) -> None:
    (recipe,) = parse_recipes(spec, 12)
    assert parse_recipes(recipe.spec, 12) == (recipe,)
    assert parse_recipes(spec_of_name(recipe.name), 12) == (recipe,)
    assert Recipe(recipe.operation, recipe.layers, recipe.name, recipe.site) == recipe


@given(SPECS, SPECS)
def test_different_recipes_have_different_names(one: str, other: str) -> None:
    (first,), (second,) = parse_recipes(one, 12), parse_recipes(other, 12)
    assert (first == second) == (str(first) == str(second))
    assert (first == second) <= (hash(first) == hash(second))
    assert first != str(first)


def test_columns_of_every_recipe_under_every_pooling() -> None:
    found = feature_columns(
        "concat4,cls,last", [Pooling.CLS, Pooling.WORD], num_layers=12, hidden_size=8, dtype="float16"
    )
    assert [(c.name, c.width, c.dtype, c.hidden_size) for c in found] == [
        ("concat4_cls", 32, "float32", 8),
        ("concat4_word", 32, "float16", 8),
        ("last_cls", 8, "float32", 8),
        ("last_word", 8, "float16", 8),
    ]
    assert needed_layers(found) == (9, 10, 11, 12)


def test_cls_adds_its_own_column_only() -> None:
    found = feature_columns("cls", [Pooling.MEAN], num_layers=2, hidden_size=8, dtype="float16")
    assert [c.name for c in found] == ["last_cls"]


def test_heads_have_a_width_of_their_own() -> None:
    found = feature_columns(
        "heads:2,concat=heads:1..2,attn:2", [Pooling.MEAN], num_layers=2, hidden_size=8, dtype="float16", heads_width=6
    )
    assert [(c.name, c.width, c.hidden_size) for c in found] == [
        ("heads2_mean", 6, 6),
        ("concat_heads_1_2_mean", 12, 6),
        ("attn2_mean", 8, 8),
    ]
    assert all(column.fits(8) for column in found)
    assert needed_places(found) == (
        Place(1, BlockSite.HEADS),
        Place(2, BlockSite.ATTN),
        Place(2, BlockSite.HEADS),
    )


# ── deriving ────────────────────────────────────────────────────────────────────────────────────────────────

L, H, N = 6, 3, 5
HIDDEN = np.random.default_rng(0).normal(size=(L + 1, N, H)).astype(np.float32)


def direct(recipe: Recipe) -> NDArray[np.float32]:
    layers = [HIDDEN[layer] + 10 * [*BlockSite].index(recipe.site) for layer in recipe.layers]
    if recipe.operation is Operation.CONCAT:
        return np.concatenate(layers, axis=1)
    total = np.array(layers).sum(axis=0)
    return np.array(total / len(layers) if recipe.operation is Operation.MEAN else total, np.float32)


def stored_as(layers: str, pooling: Pooling = Pooling.MEAN) -> tuple[FeatureColumn, ...]:
    return feature_columns(layers, [pooling], num_layers=L, hidden_size=H, dtype="float32")


def derived(spec: str, stored: Sequence[FeatureColumn], pooling: Pooling = Pooling.MEAN) -> NDArray[np.float32]:
    (recipe,) = parse_recipes(spec, L)
    derivation = derive(recipe, pooling, stored)
    found = derivation.apply({c.name: direct(c.recipe) for c in stored if c.name in derivation.columns})
    assert found.shape == (N, derivation.width) == (N, recipe.width(H))
    np.testing.assert_allclose(found, direct(recipe), rtol=0, atol=1e-5)
    return found


WANTED = ["last", "second-to-last", "sum4", "mean4", "concat4", "concat=3+5", "mean=4..6"]


@pytest.mark.parametrize("pooling", [pooling for pooling in Pooling if pooling.linear])
@pytest.mark.parametrize("stored", ["concat4", "concat-all", "3,4,5,6", "last,concat=3..5", "concat=3+6,concat=4+5"])
@pytest.mark.parametrize("wanted", WANTED)
def test_derived_from_layers_that_are_stored(stored: str, wanted: str, pooling: Pooling) -> None:
    derived(wanted, stored_as(stored, pooling), pooling)


@pytest.mark.parametrize("wanted", ["attn:3", "sum=attn:3+5", "mean=attn:all", "concat=attn:2..4"])
def test_sites_are_derived_from_those_that_are_stored(wanted: str) -> None:
    derived(wanted, stored_as("all,concat=attn:1..6,mlp:all"))


@pytest.mark.parametrize(("stored", "wanted"), [("all", "attn:3"), ("attn:all", "3"), ("mlp:all", "sum=mlp-in:1+2")])
def test_a_site_is_not_another(stored: str, wanted: str) -> None:
    (recipe,) = parse_recipes(wanted, L)
    with pytest.raises(NotDerivableError, match="no column"):
        derive(recipe, Pooling.MEAN, stored_as(stored))


@pytest.mark.parametrize(("stored", "wanted"), [("sum4", "mean4"), ("mean4", "sum4"), ("mean-all", "sum=1..6")])
@pytest.mark.parametrize("pooling", Pooling)
def test_a_mean_is_a_scaled_sum_under_every_pooling_of_ours(stored: str, wanted: str, pooling: Pooling) -> None:
    if pooling is Pooling.SENTENCE:  # a model's own modules may do anything with a mean
        with pytest.raises(NotDerivableError, match="which the stored columns"):
            derived(wanted, stored_as(stored, pooling), pooling)
    else:
        derived(wanted, stored_as(stored, pooling), pooling)


@pytest.mark.parametrize("wanted", ["last", "concat=3+5", "concat4", "sum=5"])
def test_under_max_layers_and_concatenations_are_taken_out(wanted: str) -> None:
    derived(wanted, stored_as("concat4", Pooling.MAX), Pooling.MAX)


@pytest.mark.parametrize("wanted", ["sum4", "mean4", "sum=3+5"])
def test_under_max_sums_are_refused(wanted: str) -> None:
    (recipe,) = parse_recipes(wanted, L)
    with pytest.raises(NotDerivableError, match="max pooling does not commute with a sum of layers"):
        derive(recipe, Pooling.MAX, stored_as("concat4,all", Pooling.MAX))


@pytest.mark.parametrize("wanted", ["last", "concat=3+5", "sum4"])
def test_under_max_weights_are_refused(wanted: str) -> None:
    (recipe,) = parse_recipes(wanted, L)
    with pytest.raises(NotDerivableError, match="does not commute"):
        derive(recipe, Pooling.MAX, stored_as("concat4", Pooling.MAX), weights=[-1.0] * len(recipe.layers))


@pytest.mark.parametrize(
    ("stored", "wanted", "says"),
    [
        ("sum4", "last", r"last_mean needs layer 6, which the stored columns \(sum4_mean\) do not contain"),
        ("concat4", "sum=1+2+3", "needs layers 1, 2"),
        ("mean=3..5", "sum4", "needs layers 3, 4, 5, 6"),
    ],
)
def test_what_is_not_stored_is_named(stored: str, wanted: str, says: str) -> None:
    (recipe,) = parse_recipes(wanted, L)
    with pytest.raises(NotDerivableError, match=says):
        derive(recipe, Pooling.MEAN, stored_as(stored))


def test_columns_of_other_poolings_are_of_no_use() -> None:
    (recipe,) = parse_recipes("last", L)
    with pytest.raises(NotDerivableError, match="no column with cls pooling is stored"):
        derive(recipe, Pooling.CLS, stored_as("all"))


def test_weights_replace_a_sums_ones() -> None:
    (recipe,) = parse_recipes("mean=3+5", L)
    stored = stored_as("concat4")
    derivation = derive(recipe, Pooling.MEAN, stored, weights=[0.25, -2])
    found = derivation.apply({"concat4_mean": direct(stored[0].recipe)})
    np.testing.assert_allclose(found, 0.25 * HIDDEN[3] - 2 * HIDDEN[5], rtol=0, atol=1e-5)
    with pytest.raises(NotDerivableError, match="1 weights were given for the 2 layers of mean_3_plus_5"):
        derive(recipe, Pooling.MEAN, stored, weights=[1.0])


def test_derived_vectors_are_float32_and_leave_the_stored_ones_alone() -> None:
    stored = stored_as("concat4", Pooling.WORD)
    matrix = direct(stored[0].recipe).astype(np.float16)
    before = matrix.copy()
    for spec in ("sum4", "last", "concat4"):
        (recipe,) = parse_recipes(spec, L)
        found = derive(recipe, Pooling.WORD, stored).apply({"concat4_word": matrix})
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, direct(recipe), rtol=0, atol=0.02)
    np.testing.assert_array_equal(matrix, before)
