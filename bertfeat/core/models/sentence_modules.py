"""The modules of a sentence-transformers model after its encoder: how its tokens become the vector of a text.

In a model that compares tokens (:mod:`bertfeat.core.models.late_interaction`) each token's vector goes through them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path

from bertfeat.core.models.files import open_weights, path_inside_model, read_model_json
from bertfeat.core.models.late_interaction import PYLATE_DENSE, TOKEN_MASK, TokenReading
from bertfeat.core.models.sentence_files import MODULES, POOLINGS, PoolingFile, SentenceModule, read_module_file
from bertfeat.errors import ModelError, parameter

_WEIGHTS = "model.safetensors"
_VECTOR = "sentence_embedding"  # sentence-transformers' name of the vector of a text
_TOKENS = "token_embeddings"  # and of those of its tokens
_PROJECTION = "linear.weight"  # ColBERT's own name of its projection
_ROLES = {"query", "document"}
_LAYER_MEAN = "WeightedLayerPooling"
_ACTIVATIONS = ("ELU", "GELU", "Identity", "LeakyReLU", "Mish", "ReLU", "SiLU", "Sigmoid", "Softplus", "Tanh")
_ACTIVATION_PLACES = ("torch.nn.modules.activation", "torch.nn.modules.linear", "torch.nn")


class PoolingMode(StrEnum):
    """A pooling, by sentence-transformers' name."""

    CLS = "cls"
    MAX = "max"
    MEAN = "mean"
    MEAN_SQRT = "mean_sqrt_len_tokens"  # the sum over the root of the number of tokens
    WEIGHTED_MEAN = "weightedmean"  # the n-th token has the weight n
    LAST = "lasttoken"


@dataclass(frozen=True, slots=True)
class DenseStep:
    """A product and an activation of its result: ``[in]`` → ``[out]``."""

    in_features: int
    out_features: int
    bias: bool
    activation: str  # a class of torch.nn
    residual: bool  # whether the input is added, by a product of its own where the widths differ
    weights: Path
    shared: bool = False  # whether the file holds the encoder's weights too

    def __str__(self) -> str:
        how = f"{self.activation}, residual" if self.residual else self.activation
        return f"Dense {self.in_features} to {self.out_features} ({how})"


@dataclass(frozen=True, slots=True)
class LayerNormStep:
    """Layer norm (Ba et al. 2016): ``[n]`` → ``[n]``."""

    width: int
    weights: Path

    def __str__(self) -> str:
        return "LayerNorm"


@dataclass(frozen=True, slots=True)
class NormalizeStep:
    """Division by the length."""

    def __str__(self) -> str:
        return "Normalize"


SentenceStep = DenseStep | LayerNormStep | NormalizeStep


@dataclass(frozen=True, slots=True)
class LayerMean:
    """The weighted mean of the last layers of each token, which stands for the last one."""

    first: int
    weights: Path

    def __str__(self) -> str:
        return f"the weighted mean of the layers from {self.first} on"


@dataclass(frozen=True, slots=True)
class SentenceModules:
    """The poolings of a model, whose vectors are put side by side, and the steps that follow."""

    poolings: tuple[PoolingMode, ...]  # none where the steps are for each token
    steps: tuple[SentenceStep, ...]
    width: int  # of the vector that they give
    layers: LayerMean | None = None  # None: the last one alone
    pools_prompt: bool = True  # whether a prompt's tokens, and the special ones before it, count in the poolings
    reading: TokenReading | None = None  # where texts are compared token by token

    def __str__(self) -> str:
        pooled = " and ".join(self.poolings) + ("" if self.pools_prompt else " without the prompt")
        told = ", ".join(filter(None, [str(self.layers or ""), pooled, *map(str, self.steps)]))
        return "; ".join(filter(None, [told, str(self.reading or "")]))

    @property
    def plain(self) -> bool:
        """Whether they are one of bertfeat's own poolings and nothing else."""
        single = len(self.poolings) == 1 and self.poolings[0] in POOLINGS
        return not self.steps and single and self.pools_prompt and self.layers is None

    @property
    def turns(self) -> bool:
        """Whether they change more than the length of what one of the poolings gives."""
        steps = any(not isinstance(step, NormalizeStep) for step in self.steps)
        return steps or len(self.poolings) > 1 or not self.pools_prompt or self.layers is not None

    @property
    def weight_files(self) -> tuple[Path, ...]:
        """The files of their weights, in their order."""
        weighted = (
            each for each in (self.layers, *self.steps) if isinstance(each, LayerMean | DenseStep | LayerNormStep)
        )
        return tuple(each.weights for each in weighted)


@dataclass(frozen=True, slots=True)
class _DenseFile:
    in_features: int
    out_features: int
    bias: bool = True
    activation_function: str = "torch.nn.modules.activation.Tanh"
    module_input_name: str | None = None
    module_output_name: str | None = None
    use_residual: bool = False


@dataclass(frozen=True, slots=True)
class _LayerMeanFile:
    layer_start: int = 4


@dataclass(frozen=True, slots=True)
class _LayerNormFile:
    dimension: int


@dataclass(frozen=True, slots=True)
class _NormalizeFile:
    module_input_name: str = _VECTOR
    module_output_name: str | None = None


def read_sentence_modules(
    name: str,
    folder: Path,
    modules: Sequence[SentenceModule],
    pooling: PoolingFile,
    hidden_size: int,
    *,
    num_layers: int | None,
) -> SentenceModules:
    """Read what follows the encoder, whose hidden states are ``hidden_size`` wide.

    ``num_layers`` is the number of its layers, where it gives the modules all of them; None: the last one alone.

    Raises:
        ModelError: a module is unknown, damaged, or takes another width than the one before it gives.
    """
    weighted = next((module for module in modules[1:2] if module.kind == _LAYER_MEAN), None)
    modules = [module for module in modules if module is not weighted]
    kinds = [module.kind for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise _not_computable(
            name, f"its {MODULES} lists {' and '.join(kinds[:2])} where a Transformer and a Pooling are known"
        )
    if unknown := [mode for mode in pooling.modes if mode not in list(PoolingMode)]:
        raise _not_computable(name, f"its pooling {unknown[0]!r} is unknown")
    if not pooling.include_prompt and PoolingMode.WEIGHTED_MEAN in pooling.modes:
        raise _not_computable(
            name, f"its pooling {PoolingMode.WEIGHTED_MEAN} counts the prompt's tokens, but leaves them out"
        )
    reader = _StepReader(name, folder, len(pooling.modes) * hidden_size)
    steps = tuple(chain.from_iterable(map(reader.read, modules[2:])))
    layers = None if weighted is None or num_layers is None else reader.read_mean(weighted, num_layers)
    return SentenceModules(tuple(map(PoolingMode, pooling.modes)), steps, reader.width, layers, pooling.include_prompt)


def read_token_modules(
    name: str, folder: Path, modules: Sequence[SentenceModule], hidden_size: int, reading: TokenReading
) -> SentenceModules:
    """Read what follows the encoder in a model that compares tokens, whose files say how it reads them (``reading``).

    Raises:
        ModelError: as :func:`read_sentence_modules`; or a query looks like a document and is to be read otherwise.
    """
    if modules[0].kind != "Transformer":
        raise _not_computable(name, f"its {MODULES} begins with {modules[0].kind} and not with a Transformer")
    reader = _StepReader(name, folder, hidden_size, _TOKENS)
    steps = tuple(chain.from_iterable(reader.read(module) for module in modules[1:] if module.kind != TOKEN_MASK))
    if not reading.listed:
        steps = (*steps, NormalizeStep())
    return _of_tokens(name, steps, reader.width, reading)


def read_colbert_modules(
    name: str, weight_files: Sequence[Path], hidden_size: int, reading: TokenReading
) -> SentenceModules:
    """Read the projection of a model of ColBERT's own library, which lies among the weights of its encoder.

    Raises:
        ModelError: there is none.
    """
    for file in weight_files:
        with open_weights(name, file, "np") as stored:
            if _PROJECTION in stored.keys():  # noqa: SIM118 - it is no dictionary
                shape = stored.get_slice(_PROJECTION).get_shape()
                if len(shape) != 2 or shape[1] != hidden_size:
                    raise _not_computable(name, f"its {_PROJECTION} is {shape}, and not [values, {hidden_size}]")
                made, taken = shape
                dense = DenseStep(taken, made, False, "Identity", False, file, shared=True)
                return _of_tokens(name, (dense, NormalizeStep()), made, reading)
    raise _not_computable(name, f"its weights lack {_PROJECTION}")


def _of_tokens(name: str, steps: tuple[SentenceStep, ...], width: int, reading: TokenReading) -> SentenceModules:
    if reading.of_images:
        raise _not_computable(name, "it compares queries with images")
    if reading.fills_left and reading.expansion is not None:
        raise _not_computable(name, "it fills queries up before their tokens")
    alike = reading.query == reading.document
    if alike and (reading.expansion is not None or (reading.skipped and set(reading.skipped_in) != _ROLES)):
        raise _not_computable(name, "it reads queries otherwise than documents, and no prompt tells them apart")
    return SentenceModules((), steps, width, reading=reading)


class _StepReader:
    """Reads the steps one after the other, and follows the width of the vector."""

    def __init__(self, name: str, folder: Path, width: int, given: str = _VECTOR) -> None:
        self._name, self._folder, self.width, self._given = name, folder, width, given
        self._class = {_VECTOR: "SentenceTransformer", _TOKENS: "MultiVectorEncoder"}[given]

    def read(self, module: SentenceModule) -> tuple[SentenceStep, ...]:
        """Read a module; one that is there for training only is no step."""
        read = {"Dense": self._dense, "LayerNorm": self._layer_norm, "Normalize": self._normalize, "Dropout": None}
        known = module.type.startswith("sentence_transformers.") or (
            module.type == PYLATE_DENSE and self._given == _TOKENS
        )
        if module.kind not in read or not known:
            raise _not_computable(self._name, f"its module {module.type!r} is unknown")
        reader = read[module.kind]
        return () if reader is None else (reader(module),)

    def read_mean(self, module: SentenceModule, num_layers: int) -> LayerMean:
        """Read which layers a weighted mean is of."""
        first = read_module_file(self._name, self._folder, module, _LayerMeanFile).layer_start
        if not 0 <= first <= num_layers:
            raise _not_computable(self._name, f"its {module.path} begins with layer {first} of {num_layers}")
        return LayerMean(first, self._weights(module))

    def _dense(self, module: SentenceModule) -> DenseStep:
        said = read_module_file(self._name, self._folder, module, _DenseFile)
        place, _, activation = said.activation_function.rpartition(".")
        if activation not in _ACTIVATIONS or place not in _ACTIVATION_PLACES:
            raise _not_computable(
                self._name, f"the activation {said.activation_function!r} of its {module.path} is unknown"
            )
        self._check_names(module, said.module_input_name or self._given, said.module_output_name)
        self._advance(module, said.in_features, said.out_features)
        weights = self._weights(module)
        return DenseStep(said.in_features, said.out_features, said.bias, activation, said.use_residual, weights)

    def _layer_norm(self, module: SentenceModule) -> LayerNormStep:
        self._check_names(module, _VECTOR, None)
        said = read_module_file(self._name, self._folder, module, _LayerNormFile)
        self._advance(module, said.dimension, said.dimension)
        return LayerNormStep(said.dimension, self._weights(module))

    def _normalize(self, module: SentenceModule) -> NormalizeStep:
        said = read_model_json(self._name, self._path(module), "config.json", _NormalizeFile) or _NormalizeFile()
        self._check_names(module, said.module_input_name, said.module_output_name)
        return NormalizeStep()

    def _path(self, module: SentenceModule) -> Path:
        return path_inside_model(self._name, self._folder, module.path or ".", MODULES)

    def _check_names(self, module: SentenceModule, given: str, made: str | None) -> None:
        meant = {_VECTOR: "the vector of a text", _TOKENS: "the vectors of tokens"}[self._given]
        for value in (given, made or given):
            if value != self._given:
                raise _not_computable(self._name, f"its {module.path} is for {value!r}, not for {meant}")

    def _advance(self, module: SentenceModule, taken: int, given: int) -> None:
        if taken != self.width or given < 1:
            problem = f"its {module.path} makes {given} values of {taken}, and gets {self.width}"
            raise ModelError(problem, where=self._name, remedy="get it anew from where the model came")
        self.width = given

    def _weights(self, module: SentenceModule) -> Path:
        path = self._path(module)
        weights = path / _WEIGHTS
        if not weights.is_file():
            raise ModelError(
                f"{path} has no {_WEIGHTS}",
                where=self._name,
                remedy="bertfeat reads safetensors only. Convert it once with\n"
                f'  python -c "from sentence_transformers import {self._class} as M; '
                f"M('{self._name}').save('converted')\"\n"
                f"and use {parameter('model', 'converted')}",
            )
        return weights


def _not_computable(name: str, problem: str) -> ModelError:
    return ModelError(
        f"the vector that sentence-transformers gives a text cannot be computed: {problem}",
        where=name,
        remedy=f"take {parameter('layers', 'last')}",
    )
