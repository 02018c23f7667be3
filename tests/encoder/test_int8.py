"""int8: the integers against NumPy's exact ones, the kernels against torch, whole models against fp32."""

import hashlib
import importlib.resources
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.core.encoder import Precision, load_encoder, precision as precision_module, resolve_precision
from bertfeat.core.encoder.blocks import TorchPostAttention
from bertfeat.core.encoder.int8 import (
    SEVEN_BITS,
    WHOLE_BYTES,
    BlockInputs,
    ByteForm,
    Int8Block,
    Int8Kernels,
    KernelInt8Block,
    KernelInt8PostAttention,
    KernelInt8Product,
    QuantizedProduct,
    TorchInt8Product,
    calibration_batch,
    find_int8_kernels,
    largest_inputs,
    quantize_product,
)
from bertfeat.core.encoder.kernels import find_kernels
from bertfeat.core.encoder.packed import PackedEncoder
from bertfeat.core.encoder.weights import Affine, BlockWeights, read_weights
from bertfeat.core.extraction.resolve import INT8_VERSION
from bertfeat.core.models import Model, find_model
from bertfeat.core.recipe import Pooling, outputs_of
from bertfeat.core.tokens import TokenBatch
from bertfeat.errors import ModelError, UsageError
from tests.encoder.support import held_to, let_find, random
from tests.support.tiny_models import CPU, PACKED, TEXTS, Tiny, build, documents, reference_ids, text_states

Floats = NDArray[np.float64]
TEXT = importlib.resources.files("bertfeat.core.encoder") / "calibration.txt"
DIGEST = "2b11be4c9e9b9363b3e9d19d51bcb3726286fd184c30634785b8a94626a22f71"


INSTRUCTIONS = ["amx", "vnni", "avx2_vnni", "avx2"]


@pytest.fixture(params=INSTRUCTIONS)
def each(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Int8Kernels:
    """Give the kernels as each kind of CPU has them, and let all find these; tiles are emulated where AMX is not."""
    return kernels_of(request.param, monkeypatch)


def kernels_of(instructions: str, monkeypatch: pytest.MonkeyPatch) -> Int8Kernels:
    return Int8Kernels(held_to(instructions, monkeypatch), instructions)


def fits(each: Int8Kernels, *widths: int) -> None:
    """Skip widths that these kernels leave to others."""
    if each.instructions == "amx" and any(width % 64 for width in widths):
        pytest.skip("AMX takes multiples of 64")


def affine(out: int, within: int, seed: int = 0) -> Affine:
    return Affine(random(out, within, seed=seed) / within**0.5, random(out, seed=seed + 1))


def quantized(out: int, within: int, form: ByteForm = WHOLE_BYTES) -> QuantizedProduct:
    return quantize_product(affine(out, within), random(within, seed=2).abs() * 3, form)


def block_weights(hidden: int, inner: int) -> BlockWeights:
    def norm(seed: int) -> Affine:
        return Affine(1 + random(hidden, seed=seed) / 4, random(hidden, seed=seed + 1) / 4)

    return BlockWeights(
        query=affine(hidden, hidden, 10),
        key=affine(hidden, hidden, 20),
        value=affine(hidden, hidden, 30),
        attention_out=affine(hidden, hidden, 40),
        attention_norm=norm(50),
        up=affine(inner, hidden, 60),
        down=affine(hidden, inner, 70),
        out_norm=norm(80),
    )


def exact(product: QuantizedProduct, x: Tensor) -> Floats:
    """The definition: bytes, a scale and a least value for each group of a row; float64 holds the sums exactly."""
    values = x.double().numpy() * product.factor.double().numpy()
    weight = product.weight.numpy().astype(np.float64)
    result = np.zeros((len(values), len(weight)))
    for begin in range(0, values.shape[1], product.form.group):
        group = values[:, begin : begin + product.form.group]
        least, span = group.min(1, keepdims=True), np.ptp(group, axis=1, keepdims=True)
        scale = np.where(span, span, 1) / product.form.largest
        whole = np.rint((group - least) / scale)
        assert whole.min() >= 0
        assert whole.max() <= product.form.largest
        part = weight[:, begin : begin + product.form.group]
        result += scale * (whole @ part.T) + least * part.sum(1)
    outputs: Floats = result * product.scale.double().numpy() + product.bias.double().numpy()
    return outputs


def assert_near(found: Tensor, wanted: Floats, product: QuantizedProduct) -> None:
    """A value in the middle between two bytes may be rounded either way in float32; nothing else may differ."""
    step = np.abs(product.weight.numpy()).max(1) * product.scale.numpy()  # of one byte more or less, times its scale
    error = np.abs(found.double().numpy() - wanted)
    assert (error < 0.02 + 0.2 * step).all()
    assert np.median(error) < 1e-5


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_weights_are_within_half_a_step_of_themselves() -> None:
    plain = affine(40, 400)
    product = quantize_product(plain, random(400).abs() * 3)
    again = product.weight.double() * product.scale.double()[:, None] * product.factor.double()
    step = product.scale.double()[:, None] * product.factor.double()
    assert ((again - plain.weight).abs() <= step * 0.5001).all()
    assert product.weight.abs().amax(1).eq(127).all()
    assert torch.equal(product.sums, torch.stack([product.weight[:, :384].sum(1), product.weight[:, 384:].sum(1)]))


def test_smoothing_shares_the_range_between_inputs_and_weights() -> None:
    plain, largest = affine(40, 64), torch.full((64,), 1.0)
    largest[7] = 4096.0
    product = quantize_product(plain, largest)
    octaves = torch.log2(product.factor.double()) * 4
    torch.testing.assert_close(octaves, octaves.round(), rtol=0, atol=1e-5)
    wanted = torch.sqrt(plain.weight.abs().amax(0).double() / largest)  # Xiao et al. 2023, eq. 4 with α 1/2, inverted
    assert (product.factor / wanted).log2().abs().max() <= 0.126


@pytest.mark.parametrize("weight", [torch.zeros(16, 32), torch.full((16, 32), 1e-40)], ids=["zeros", "denormal"])
def test_weights_of_nothing(weight: Tensor) -> None:
    product = quantize_product(Affine(weight, torch.ones(16)), torch.zeros(32))
    assert torch.allclose(TorchInt8Product(product)(random(3, 32)), torch.ones(3, 16))


# ── products ────────────────────────────────────────────────────────────────────────────────────────────────

WIDTHS = [(16, 16), (48, 32), (96, 64), (112, 384), (64, 400), (64, 448), (176, 768), (1152, 384), (128, 1536)]


@pytest.mark.parametrize("form", [WHOLE_BYTES, SEVEN_BITS], ids=["whole bytes", "seven bits"])
@pytest.mark.parametrize(("out", "within"), [*WIDTHS, (5, 7)], ids=str)
def test_torch_multiplies_integers_exactly(out: int, within: int, form: ByteForm) -> None:
    product, x = quantized(out, within, form), random(9, within, seed=5)
    assert_near(TorchInt8Product(product)(x), exact(product, x), product)


@pytest.mark.parametrize(("out", "within"), WIDTHS, ids=str)
def test_the_kernel_multiplies_integers_exactly(each: Int8Kernels, out: int, within: int) -> None:
    fits(each, out, within)
    product, x = quantized(out, within, each.form), random(150, within, seed=5)
    multiply, wanted = KernelInt8Product(product, each), exact(product, x)
    for rows in (1, 5, 6, 7, 150):
        assert_near(multiply(x[:rows]), wanted[:rows], product)


def test_some_outputs_are_those_of_all(each: Int8Kernels) -> None:
    product, x = KernelInt8Product(quantized(192, 64, each.form), each), random(20, 64)
    whole = product(x)
    for begin, end in [(0, 48), (48, 144), (64, 128), (16, 32), (0, 192)]:
        assert torch.equal(product.some(x, begin, end), whole[:, begin:end])


@pytest.mark.parametrize("within", [64, 384, 400, 448])
def test_a_row_does_not_depend_on_others(each: Int8Kernels, within: int) -> None:
    fits(each, within)
    product, x = KernelInt8Product(quantized(128, within, each.form), each), random(301, within)
    together = product(x)
    for rows in (slice(0, 1), slice(7, 8), slice(300, 301), slice(100, 207)):
        assert torch.equal(product(x[rows].contiguous()), together[rows])


def test_a_constant_row_is_kept(each: Int8Kernels) -> None:
    product = quantized(64, 64, each.form)
    x = torch.full((2, 64), 0.25) / product.factor
    wanted = x.double() * product.factor @ (product.weight.double() * product.scale[:, None]).T + product.bias
    for form in (KernelInt8Product(product, each), TorchInt8Product(product)):
        torch.testing.assert_close(form(x).double(), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_stays_in_its_row(each: Int8Kernels, bad: float) -> None:
    product, x = KernelInt8Product(quantized(64, 448, each.form), each), random(14, 448)
    clean = product(x)
    x[5, 3] = x[9, 447] = bad
    found = product(x)
    assert not found[[5, 9]].isfinite().any()
    others = [row for row in range(14) if row not in (5, 9)]
    assert torch.equal(found[others], clean[others])


# ── what follows attention ──────────────────────────────────────────────────────────────────────────────────


def finishes(
    hidden: int, inner: int, activation: str, kernels: Int8Kernels
) -> tuple[KernelInt8PostAttention, TorchPostAttention]:
    weights = block_weights(hidden, inner)
    affines = (weights.query_key_value, weights.attention_out, weights.up, weights.down)
    products = [
        quantize_product(product, torch.full((product.weight.shape[1],), 3.0), kernels.form) for product in affines
    ]
    norms = [weights.attention_norm, weights.out_norm]
    by_torch = TorchPostAttention(map(TorchInt8Product, products[1:]), norms, 1e-12, activation)
    return KernelInt8PostAttention(KernelInt8Block(products, norms, 1e-12, kernels), activation), by_torch


@pytest.mark.sampled(6)
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize(
    ("hidden", "inner"), [(16, 16), (48, 96), (64, 448), (384, 1536), (400, 784), (768, 3072)], ids=str
)
def test_the_kernel_finishes_a_block_as_torch_does(each: Int8Kernels, hidden: int, inner: int, activation: str) -> None:
    fits(each, hidden, inner)
    by_kernel, by_torch = finishes(hidden, inner, activation, each)
    context, residual = random(33, hidden, seed=1), random(33, hidden, seed=2)
    error = (by_kernel(context, residual) - by_torch(context, residual)).abs()
    assert error.median() < 1e-3  # a byte that is rounded the other way moves all that follows
    assert error.max() < 0.1


@pytest.mark.parametrize("rows", [0, 1, 6, 7, 301])
def test_rows_of_a_block_do_not_depend_on_others(each: Int8Kernels, rows: int) -> None:
    finish, _ = finishes(128, 448, "gelu", each)
    context, residual = random(rows, 128, seed=1), random(rows, 128, seed=2)
    together = finish(context, residual)
    assert together.shape == (rows, 128)
    for row in range(0, rows, 50):
        assert torch.equal(finish(context[row : row + 1], residual[row : row + 1])[0], together[row])


def test_threads_change_no_bit(each: Int8Kernels) -> None:
    finish, _ = finishes(128, 448, "gelu", each)
    context, residual = random(500, 128, seed=1), random(500, 128, seed=2)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(finish(context, residual))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(result, results[0]) for result in results)


# ── kinds of CPU ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("other", ["amx", "avx2_vnni"])
def test_kernels_of_whole_bytes_give_the_same_integers(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AMX gives what AVX512-VNNI does to the last bit; vectors of eight add their rows up in another order."""
    context, residual = random(150, 128, seed=1), random(150, 128, seed=2)
    found = []
    for instructions in ("vnni", other):
        with monkeypatch.context() as patch:
            each = kernels_of(instructions, patch)
            product = KernelInt8Product(quantized(128, 448), each)(random(150, 448, seed=5))
            found.append((product, finishes(128, 448, "gelu", each)[0](context, residual)))
    (product, finished), (other_product, other_finished) = found
    assert torch.equal(product, other_product)
    if other == "amx":
        assert torch.equal(finished, other_finished)
    torch.testing.assert_close(finished, other_finished, rtol=0, atol=0.1)


def test_values_of_bfloat16_around_attention(each: Int8Kernels) -> None:
    if each.attention_dtype(32) is torch.float32:
        pytest.skip("attention is in float32 here")
    product, x = KernelInt8Product(quantized(192, 64), each), random(20, 64)
    assert torch.equal(product.some(x, 64, 128, torch.bfloat16), product(x)[:, 64:128].bfloat16())
    finish, _ = finishes(128, 448, "gelu", each)
    context, residual = random(33, 128, seed=1).bfloat16(), random(33, 128, seed=2)
    assert torch.equal(finish(context, residual), finish(context.float(), residual))


# ── calibration ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_text_is_the_one_of_this_version() -> None:
    text = TEXT.read_bytes()
    digests = {1: DIGEST}  # a text that is changed is a new version
    assert hashlib.sha256(text).hexdigest() == digests[INT8_VERSION]


def test_what_the_products_meet_is_what_transformers_computes(bert: Tiny) -> None:
    """The inputs of QKV of block n are layer n - 1 of Hugging Face's."""
    batch = calibration_batch(bert.model)
    weights = read_weights(bert.model)
    encoder = PackedEncoder(bert.model, Precision.FP32, CPU)
    embedded = encoder._embed(encoder._place_tokens(batch))[: len(batch.ids)]
    heads, eps = bert.model.sizes.num_attention_heads or 0, bert.model.sizes.layer_norm_eps or 1e-12
    found = list(largest_inputs(weights.blocks, embedded, batch.lengths, heads, eps, bert.model.config.activation))
    lines = TEXT.read_text("utf-8").splitlines()
    layers = [
        text_states(bert.folder, line)
        for line in lines
        if len(reference_ids(bert.folder, line)[0]) <= bert.model.max_tokens
    ]
    for number, inputs in enumerate(found):
        wanted = np.max([np.abs(states[number]).max(0) for states in layers], axis=0)
        assert (inputs.query_key_value.numpy() >= wanted - 1e-4).all()
        if len(layers) == len(lines):
            np.testing.assert_allclose(inputs.query_key_value.numpy(), wanted, atol=1e-4)
        assert {name: tuple(values.shape) for name, values in inputs._asdict().items()} == {
            "query_key_value": (bert.model.hidden_size,),
            "attention_out": (bert.model.hidden_size,),
            "up": (bert.model.hidden_size,),
            "down": (bert.model.inner_size,),
        }


# ── whole models ────────────────────────────────────────────────────────────────────────────────────────────


def cosines(found: NDArray[np.floating], wanted: NDArray[np.floating]) -> Floats:
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    result: Floats = (found * wanted).sum(-1) / np.linalg.norm(found, axis=-1) / np.linalg.norm(wanted, axis=-1)
    return result


@pytest.mark.parametrize("family", PACKED)
def test_every_layer_of_every_family_is_near_hugging_face(family: str, tmp_path: Path) -> None:
    tiny = Tiny.load(build(family, tmp_path), Precision.INT8)
    found = tiny.features(documents(TEXTS), "all", Pooling.TOKEN)
    for number, text in enumerate(TEXTS):
        states = text_states(tiny.folder, text)
        for column, values in zip(found.columns, states, strict=True):
            assert cosines(found.of(column, number), values).min() > 0.995


@pytest.mark.sampled(2)
@pytest.mark.parametrize("each", [pytest.param("amx", marks=pytest.mark.slow), *INSTRUCTIONS[1:]], indirect=True)
@pytest.mark.parametrize("poolings", [[Pooling.CLS], [Pooling.MEAN, Pooling.TOKEN]], ids=["cls", "all tokens"])
def test_a_text_has_the_same_bytes_alone_and_in_any_company(each: Int8Kernels, poolings: list[Pooling]) -> None:
    many = 1 if each.instructions == "amx" else 4  # emulated tiles are slow
    default = Tiny.load(find_model().folder, Precision.INT8)
    texts = [*(text for text in TEXTS if text), LONGER, " ".join([LONGER] * 3)] * many
    together = default.features(documents(texts), "last", *poolings)
    for number in range(many):
        alone = default.features(documents([texts[number]]), "last", *poolings)
        some = default.features(documents([texts[number], *texts[number : number + 5]]), "last", *poolings)
        for found, column in itertools.product((alone, some), together.columns):
            assert np.array_equal(found.of(column, 0), together.of(column, number))


def states(encoder: PackedEncoder, batch: TokenBatch, *, first: bool) -> Tensor:
    (state,) = encoder.hidden_states(batch, outputs_of([encoder.num_layers]), first_token_only=first)
    return state.values


def test_first_tokens_alone_are_those_of_the_whole() -> None:
    model = find_model()
    encoder = PackedEncoder(model, Precision.INT8, CPU)
    batch = calibration_batch(model)
    whole = states(encoder, batch, first=False)
    found, wanted = states(encoder, batch, first=True), whole[torch.from_numpy(batch.starts)]
    if find_kernels():
        assert torch.equal(found, wanted)
    assert cosines(found.numpy(), wanted.numpy()).min() > 0.9999


def test_without_kernels_torch_computes_alike_and_a_note_tells(bert: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    by_kernel = PackedEncoder(bert.model, Precision.INT8, CPU)
    let_find(None, monkeypatch)
    by_torch = PackedEncoder(bert.model, Precision.INT8, CPU)
    assert any("no faster than fp32" in note for note in by_torch.path.notes)
    batch = calibration_batch(bert.model)
    found, wanted = (states(encoder, batch, first=False) for encoder in (by_torch, by_kernel))
    assert cosines(found.numpy(), wanted.numpy()).min() > 0.999


def test_the_default_model_keeps_its_vectors() -> None:
    tiny = Tiny.load(find_model().folder, Precision.INT8)
    plain = Tiny.load(find_model().folder)
    texts = [" ".join(TEXTS[:4]), *(text for text in TEXTS if text), LONGER]
    found, wanted = (each.features(documents(texts), "all", Pooling.TOKEN, Pooling.MEAN) for each in (tiny, plain))
    assert cosines(found["layer6_mean"], wanted["layer6_mean"]).min() > 0.997
    for layer in found.columns:
        assert np.quantile(cosines(found[layer.name], wanted[layer.name]), 0.01) > 0.995


LONGER = (
    "The ferry had left an hour before, and the last bus with it; so they sat down on their cases under the roof of "
    "the ticket office, shared an orange and two biscuits, and told each other, for the third time that day, why they "
    "had come, what they hoped to find on the island, and whom they had not told that they were going."
)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────


def test_int8_is_for_the_cpu() -> None:
    with pytest.raises(UsageError, match="int8 is computed on CPUs, not on cuda"):
        resolve_precision("int8", torch.device("cuda"))


def test_a_family_that_transformers_runs_is_refused(tmp_path: Path) -> None:
    folder = build("albert", tmp_path)
    with pytest.raises(ModelError, match="model_type 'albert' is run by transformers"):
        load_encoder(Model("albert", folder), Precision.INT8, CPU)


@pytest.mark.parametrize(("hidden", "inner"), [(40, 64), (64, 72)])
def test_other_widths_are_left_to_torch(hidden: int, inner: int) -> None:
    assert find_int8_kernels(hidden, inner) is None
    block = block_weights(hidden, inner)
    inputs = BlockInputs(*(torch.ones(width) for width in (hidden, hidden, hidden, inner)))
    assert type(Int8Block(block, inputs, 1, 1e-12, "gelu").post_attention) is TorchPostAttention


@pytest.mark.parametrize("has_amx", [True, False])
def test_on_amx_bf16_is_the_fast_form(
    has_amx: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: has_amx)
    precision_module._tell_of_amx.cache_clear()
    for _ in range(2):
        assert resolve_precision("int8", torch.device("cpu")) is Precision.INT8
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == ["this processor has AMX"] * has_amx
