"""Values within blocks: against hooks on Hugging Face's modules, and against each other by what a block computes."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from bertfeat.core.encoder import BatchForm, Precision, stack
from bertfeat.core.encoder.kernels import Kernels
from bertfeat.core.encoder.packed import PackedEncoder
from bertfeat.core.encoder.weights import Affine, read_weights
from bertfeat.core.models import BLOCK_MODULES, BlockModules, Model, find_block_modules
from bertfeat.core.recipe import BlockSite, Place, outputs_of
from bertfeat.core.tokens import TokenBatch, cut_batches, tokenize
from bertfeat.errors import ModelError
from tests.encoder.support import BF16, FP32, HALF_STEP, let_find
from tests.support.hooked import NAMED, values_within
from tests.support.tiny_architectures import ARCHITECTURES, Architecture
from tests.support.tiny_models import (
    FAMILIES,
    LONG_TEXT,
    PAIRS,
    TEXTS,
    Tiny,
    documents,
    reference_module,
    reference_states,
)

Values = Mapping[Place, Tensor]
ROWS = documents([*TEXTS, *PAIRS, LONG_TEXT])
WITHIN = tuple(site for site in BlockSite if site is not BlockSite.OUTPUT)


def places_of(tiny: Tiny, sites: Collection[BlockSite] = tuple(BlockSite)) -> list[Place]:
    """Every site of every layer, and the embeddings."""
    layers = range(1, tiny.model.num_layers + 1)
    return [Place(0), *(Place(layer, site) for layer in layers for site in sites)]


def windows(tiny: Tiny, places: Collection[Place], batch_tokens: int) -> dict[int, Values]:
    """The values at places, window by window: ``[T, H]`` each."""
    layout = tokenize(ROWS, tiny.tokenizer, tiny.settings()).layout
    found: dict[int, Values] = {}
    for batch in cut_batches(layout, batch_tokens, padded=tiny.encoder.padded):
        states = {s.place: s.values.clone() for s in tiny.encoder.hidden_states(batch, places)}
        assert list(states) == sorted(places)
        for window, start, length in zip(batch.windows, batch.starts, batch.lengths, strict=True):
            found[int(window)] = {place: values[start : start + length] for place, values in states.items()}
    return found


def inputs_of(tiny: Tiny) -> Iterator[TokenBatch]:
    """Each window by itself."""
    return iter(cut_batches(tokenize(ROWS, tiny.tokenizer, tiny.settings()).layout, 1, padded=False))


def assert_near(found: Tensor, wanted: Tensor, tolerance: float, place: object) -> None:
    """No number is farther off than a share of the largest of its row."""
    scale = wanted.double().abs().amax(1, keepdim=True).clamp_min(1e-3)
    apart = float(((found.double() - wanted.double()).abs() / scale).max()) if len(wanted) else 0.0
    assert apart <= tolerance, (place, apart)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", sorted(set(FAMILIES) & set(NAMED)))
def test_hugging_faces_hooks(family: str, tiny: Callable[[str], Tiny]) -> None:
    """Alone and in company, all sites in one pass."""
    model = tiny(family)
    sites = [site for site in WITHIN if site in NAMED[family][1]]
    places = [*places_of(model, sites), *outputs_of(range(1, model.model.num_layers + 1))]
    together, alone = windows(model, places, 8192), windows(model, places, 1)
    for batch in inputs_of(model):
        wanted = values_within(model.folder, batch.ids.tolist(), batch.types.tolist())
        for place in places:
            assert_near(together[int(batch.windows[0])][place], wanted[place], 3e-5, place)
            assert_near(alone[int(batch.windows[0])][place], wanted[place], 3e-5, place)


WIDE = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 96, "num_hidden_layers": 3}
"""Sizes that all kernels take."""


def wide(kind: str, folder: Path, precision: Precision = Precision.FP32) -> Tiny:
    common = {"max_position_embeddings": 66} if kind == "mpnet" else {}
    return Tiny.load(Architecture(kind, BatchForm.PACKED, {**WIDE, **common}).build(folder / kind), precision)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_what_a_block_computes(kind: str, dtype: torch.dtype, each: Kernels | None, tmp_path: Path) -> None:
    """Each site follows from the one before it by the block's own weights, on every kind of kernel."""
    tiny = wide(kind, tmp_path, Precision.BF16 if dtype is BF16 else Precision.FP32)
    assert isinstance(tiny.encoder, PackedEncoder)
    by_stack = each is not None and bool(each.stack_form(dtype, 32))
    assert (tiny.encoder._stack is not None) is by_stack
    eps = tiny.model.sizes.layer_norm_eps or 1e-12
    for values in windows(tiny, places_of(tiny), 8192).values():
        exact = {place: given.double() for place, given in values.items()}
        for layer, block in enumerate(read_weights(tiny.model).blocks, 1):
            at = {site: exact[Place(layer, site)] for site in BlockSite}
            projected = at[BlockSite.HEADS] @ block.attention_out.weight.to(dtype).double().T
            wanted = {
                BlockSite.ATTN: projected + block.attention_out.bias.double(),
                BlockSite.MID: at[BlockSite.ATTN] + exact[Place(layer - 1)],
                BlockSite.MLP_IN: normed(at[BlockSite.MID], block.attention_norm, eps),
                BlockSite.PRE_NORM: at[BlockSite.MLP] + at[BlockSite.MLP_IN],
                BlockSite.OUTPUT: normed(at[BlockSite.PRE_NORM], block.out_norm, eps),
            }
            for site, value in wanted.items():
                assert_near(at[site], value, 2e-5 if dtype is FP32 else 3 * HALF_STEP, (layer, site))


def normed(values: Tensor, norm: Affine, eps: float) -> Tensor:
    return layer_norm(values, values.shape[1:], norm.weight.double(), norm.bias.double(), eps)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_other_places_change_no_bytes(dtype: torch.dtype, each: Kernels | None, tmp_path: Path) -> None:
    """A layer has the bytes that it has alone, and so has each site; also in company, where the model promises it."""
    tiny = wide("bert", tmp_path, Precision.BF16 if dtype is BF16 else Precision.FP32)
    every = windows(tiny, places_of(tiny), 8192)
    for place in (Place(2), Place(2, BlockSite.ATTN), Place(3, BlockSite.MLP), Place(1, BlockSite.PRE_NORM)):
        for window, values in windows(tiny, [place], 8192).items():
            assert torch.equal(values[place], every[window][place]), place
    if tiny.encoder.path.same_bytes:
        for window, values in windows(tiny, places_of(tiny), 1).items():
            assert all(torch.equal(values[place], every[window][place]) for place in values)


@pytest.mark.sampled(4)
def test_first_tokens_alone(packed_tiny: Tiny) -> None:
    check_first_tokens(packed_tiny, 2e-5)


def check_first_tokens(tiny: Tiny, tolerance: float) -> None:
    """The deepest block is computed for first tokens only, at all of its sites."""
    layout = tokenize(ROWS, tiny.tokenizer, tiny.settings()).layout
    deepest = tiny.model.num_layers - 1
    places = [Place(1, BlockSite.MLP), *(Place(deepest, site) for site in BlockSite)]
    for batch in cut_batches(layout, 10_000, padded=False):
        short = list(tiny.encoder.hidden_states(batch, places, first_token_only=True))
        full = list(tiny.encoder.hidden_states(batch, places))
        assert [s.first_token_only for s in short] == [s.place.layer == deepest for s in full]
        for one, other in zip(short[1:], full[1:], strict=True):
            assert_near(one.values, other.values[batch.starts], tolerance, one.place)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_first_tokens_alone_by_kernels(dtype: torch.dtype, each: Kernels | None, tmp_path: Path) -> None:
    check_first_tokens(
        wide("bert", tmp_path, Precision.BF16 if dtype is BF16 else Precision.FP32), 2e-5 if dtype is FP32 else 0.1
    )


LISTED = [name for name, each in ARCHITECTURES.items() if each.kind in BLOCK_MODULES and each.form and each.weights]


@pytest.mark.sampled(25)
@pytest.mark.parametrize("name", LISTED)
def test_every_family_adds_up(name: str, tmp_path: Path) -> None:
    """What is added up is what is there, and a family's own modules make of one site what stands at the next."""
    architecture = ARCHITECTURES[name]
    tiny = Tiny.load(architecture.build(tmp_path / "model"))
    modules = find_block_modules(tiny.model)
    assert modules is not None
    scale = added_scale(tiny)
    blocks = whole_module(tiny.folder)
    for batch, values in zip(
        inputs_of(tiny), windows(tiny, places_of(tiny, modules.sites), 8192).values(), strict=True
    ):
        states = reference_states(tiny.folder, batch.ids.tolist(), batch.types.tolist(), "eager")
        for layer in range(1, tiny.model.num_layers + 1):
            at = {site: values[Place(layer, site)] for site in modules.sites}
            before = torch.from_numpy(states[layer - 1])
            total = at.get(BlockSite.PRE_NORM, at[BlockSite.OUTPUT])
            if BlockSite.MID in at:
                assert_near(at[BlockSite.MID], before + scale * at[BlockSite.ATTN], 3e-5, (layer, BlockSite.MID))
                added = at[BlockSite.MLP_IN] if modules.out_norm else at[BlockSite.MID]
                assert_near(total, added + scale * at[BlockSite.MLP], 3e-5, (layer, "sum"))
            elif BlockSite.PRE_NORM in at:
                assert_near(total, before + at[BlockSite.ATTN] + at[BlockSite.MLP], 3e-5, (layer, "sum"))
            if not modules.out_norm and layer < tiny.model.num_layers:
                assert_near(total, torch.from_numpy(states[layer]), 3e-5, (layer, BlockSite.PRE_NORM))
            made = run_modules(blocks[layer - 1], modules, at)
            for site, value in made.items():
                assert_near(at[site], value, 3e-5, (layer, site))


def added_scale(tiny: Tiny) -> float:
    """The factor of what Granite and ESMC add."""
    if tiny.model.config.model_type not in ("granite", "esmc"):
        return 1.0
    config = tiny.model.library_config
    multiplier = getattr(config, "residual_multiplier", None)
    return float(multiplier) if multiplier is not None else (config.num_hidden_layers / 36) ** -0.5


def whole_module(folder: Path) -> torch.nn.ModuleList:
    module = reference_module(folder, "eager")
    number = module.config.num_hidden_layers
    lists = [part for part in module.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == number]
    (found,) = [blocks for blocks in lists if len({type(block) for block in blocks}) == 1]
    return found


@torch.no_grad()
def run_modules(
    block: torch.nn.Module, modules: BlockModules, at: Mapping[BlockSite, Tensor]
) -> dict[BlockSite, Tensor]:
    """Attention's output of the heads, by the projection (and a norm, where one follows), and that of the input."""

    def by(name: str, value: Tensor) -> Tensor:
        made = block.get_submodule(name)(value[None])
        return (made if isinstance(made, Tensor) else made[0])[0]

    attended = by(modules.heads, at[BlockSite.HEADS])
    made = {BlockSite.ATTN: by(modules.attn, attended) if modules.attn else attended}
    if modules.mlp_in == modules.mlp:
        made[BlockSite.MLP] = by(modules.mlp, at[BlockSite.MLP_IN])
    elif modules.mlp == "output.dense":
        dense = modules.mlp_in if modules.mlp_in.endswith("dense") else f"{modules.mlp_in}.dense"
        raised = by(dense, at[BlockSite.MLP_IN])
        made[BlockSite.MLP] = by("output.dense", activate(block, raised))
    elif modules.mlp_in == "mlp":
        made[BlockSite.MLP] = by(modules.mlp, by("mlp", at[BlockSite.MLP_IN]))
    return made


def activate(block: torch.nn.Module, raised: Tensor) -> Tensor:
    own = getattr(block.get_submodule("intermediate"), "intermediate_act_fn", None)
    return gelu(raised) if own is None else own(raised)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["modernbert", "deberta-v2", "bert"])
def test_threads_that_compute_at_once_get_their_own_values(family: str, tiny: Callable[[str], Tiny]) -> None:
    """As a server's encoders do: other texts of the same lengths, other places, one module."""
    model = tiny(family)
    asked = [
        [Place(2, BlockSite.MLP), Place(1)],
        [Place(1, BlockSite.ATTN), Place(4)],
        [Place(4, BlockSite.MLP), Place(2, BlockSite.MLP), Place(5)],
    ]
    random = np.random.default_rng(3)
    ids = [random.integers(5, 200, 40).astype(np.int32) for _ in asked]

    def run(number: int) -> list[Tensor]:
        batch = TokenBatch(np.array([0]), ids[number], np.zeros(40, np.int8), np.array([40]))
        return [state.values.clone() for state in model.encoder.hidden_states(batch, asked[number])]

    wanted = [run(number) for number in range(len(asked))]
    with ThreadPoolExecutor(6) as pool:
        for number, found in zip(range(120), pool.map(lambda each: run(each % 3), range(120)), strict=True):
            assert all(torch.equal(one, other) for one, other in zip(found, wanted[number % 3], strict=True))


def test_a_configuration_whose_parts_stand_side_by_side_has_no_mid(tmp_path: Path) -> None:
    for kind, default in (("stablelm", False), ("gpt_neox", True)):
        for parallel in (True, False):
            architecture = Architecture(kind, BatchForm.PACKED, {"use_parallel_residual": parallel}, "bytes")
            model = Model(kind, architecture.build(tmp_path / f"{kind}-{parallel}"))
            modules = find_block_modules(model)
            assert modules is not None
            assert (BlockSite.MID in modules.sites) is not parallel, default


def test_sites_are_counted_as_the_kernels_count_them() -> None:
    header = Path(stack.__file__).parent.joinpath("csrc/kernels.h").read_text()
    counted = re.search(r"enum \{ (BLOCK_OUTPUT[^}]*), SITES \};", header)
    assert counted is not None
    names = {
        "BLOCK_OUTPUT": BlockSite.OUTPUT,
        "ATTENTION_OUTPUT": BlockSite.ATTN,
        "MLP_OUTPUT": BlockSite.MLP,
        "MLP_INPUT": BlockSite.MLP_IN,
        "HEAD_OUTPUTS": BlockSite.HEADS,
        "FIRST_SUM": BlockSite.MID,
        "SECOND_SUM": BlockSite.PRE_NORM,
    }
    assert tuple(names[name] for name in counted[1].split(", ")) == stack.SITES


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kernels", [True, False])
def test_integers_give_whole_layers(kernels: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels:
        let_find(None, monkeypatch)
    tiny = wide("bert", tmp_path, Precision.INT8)
    with pytest.raises(NotImplementedError, match="whole layers only"):
        windows(tiny, [Place(2, BlockSite.MLP)], 8192)


def test_a_family_without_a_site(tmp_path: Path) -> None:
    tiny = Tiny.load(ARCHITECTURES["opt"].build(tmp_path / "opt"))
    with pytest.raises(ModelError, match="it has no pre-norm that is known"):
        windows(tiny, [Place(2, BlockSite.PRE_NORM)], 8192)
