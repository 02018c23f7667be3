"""The methods that sentence-transformers needs of a frozen ``SentenceTransformer``."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.arguments import checked
from bertfeat.core.corpus import CorpusItem
from bertfeat.core.encoder import resolve_device
from bertfeat.core.extraction.encode_arguments import (
    AnyKeywords,
    EncodeOptions,
    EncodeResult,
    NumpyKeywords,
    TensorKeywords,
    check_prompt,
    take_texts,
)
from bertfeat.core.extraction.similarity import (
    Vectors,
    check_measure,
    read_measure,
    similarity_of_all,
    similarity_of_pairs,
)
from bertfeat.core.features import FeatureSettings, ModelIdentity
from bertfeat.core.recipe import FeatureColumn
from bertfeat.errors import UsageError

Inputs = str | Iterable[CorpusItem]
Metrics = TypeVar("Metrics")

_TRAINING = "the model is frozen; train and save it with sentence-transformers, then give Extractor its folder"
_PRECISION = "the precision is set when the Extractor is made, as in Extractor(precision='bf16')"
_ADAPTERS = "bertfeat.adapters has what other libraries take, such as langchain.LangchainEmbeddings(extractor)"
_PROCESSES = "one Extractor uses all cores, or one device; there are no pools of processes"
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("fit", "train", "old_fit", "parameters", "named_parameters", "state_dict"), _TRAINING),
    **dict.fromkeys(("children", "modules", "named_modules", "requires_grad_"), _TRAINING),
    **dict.fromkeys(("save", "save_pretrained", "save_to_hub", "push_to_hub", "load_state_dict"), _TRAINING),
    **dict.fromkeys(("half", "bfloat16", "float", "double"), _PRECISION),
    **dict.fromkeys(("start_multi_process_pool", "stop_multi_process_pool", "encode_multi_process"), _PROCESSES),
    **dict.fromkeys(("embed", "embed_documents", "embed_query"), _ADAPTERS),
}


@dataclass(slots=True)
class ModelCard:
    """The results of evaluations, under the names that sentence-transformers' model cards have."""

    base_model: str | None
    eval_results_dict: dict[object, dict[str, float]] = field(default_factory=dict)  # evaluator → metric → score
    training_logs: list[dict[str, float]] = field(default_factory=list)  # the evaluators' primary metrics, in order

    def set_evaluation_metrics(
        self, evaluator: object, metrics: Mapping[str, float], epoch: int = 0, step: int = 0
    ) -> None:
        """Keep the newest metrics of each evaluator."""
        self.eval_results_dict[evaluator] = dict(metrics)
        primary = getattr(evaluator, "primary_metric", None)
        names = [primary] if isinstance(primary, str) else list(primary or ())
        self.training_logs.append({"Epoch": epoch, "Step": step, **{n: metrics[n] for n in names if n in metrics}})


@checked
class SentenceEncoder(ABC):
    """Gives texts one vector each, with the methods of a frozen ``SentenceTransformer``.

    :class:`bertfeat.Extractor` computes them, and :class:`bertfeat.StoredEncoder` reads them.
    """

    device: torch.device
    own_prompt: bool
    """Whether it was made with a prompt, which is used instead of the model's."""
    _called: str  # in messages

    @property
    @abstractmethod
    def column(self) -> FeatureColumn:
        """The column whose vectors it gives."""

    @property
    @abstractmethod
    def identity(self) -> ModelIdentity:
        """The identity of the model."""

    @property
    @abstractmethod
    def model_name(self) -> str:
        """The name of the model."""

    @property
    @abstractmethod
    def prompt(self) -> str:
        """The text that is put before every text, unless a call gives another one."""

    @property
    @abstractmethod
    def prompts(self) -> Mapping[str, str]:
        """The prompts by name; ``query`` and ``document`` are always there, empty if there are none."""

    @property
    @abstractmethod
    def feature_settings(self) -> FeatureSettings:
        """The settings by which vectors are computed."""

    @property
    @abstractmethod
    def max_seq_length(self) -> int:
        """Most tokens read at once, special ones included; a longer text is read in windows unless ``long`` differs."""

    @property
    @abstractmethod
    def _model_folder(self) -> Path:
        """The folder of the model's files, which need not exist."""

    @abstractmethod
    def _vectors(self, items: list[CorpusItem], prompt: str, options: EncodeOptions) -> NDArray[np.float32]:
        """The vectors of texts, ``[n, width]``."""

    @abstractmethod
    def _token_matrices(self, items: list[CorpusItem], prompt: str, options: EncodeOptions) -> Iterator[Tensor]:
        """The vectors of the tokens of each text, ``[tokens, width]``."""

    # ── one vector per text, as sentence-transformers gives it ──────────────────────────────────────────────

    @overload
    def encode(self, inputs: Inputs = ..., **keywords: Unpack[NumpyKeywords]) -> NDArray[np.float32]: ...
    @overload
    def encode(self, inputs: Inputs = ..., **keywords: Unpack[TensorKeywords]) -> Tensor: ...
    @overload
    def encode(self, inputs: Inputs = ..., **keywords: Unpack[AnyKeywords]) -> EncodeResult: ...
    def encode(self, inputs: Inputs | None = None, **sentence_transformers_kwargs: Unpack[AnyKeywords]) -> EncodeResult:
        """Embed texts as one vector each, as sentence-transformers' ``encode`` does.

        ``inputs`` is a string, or strings in a list, tuple, array, Series, column or generator; pairs are tuples. The
        keywords are sentence-transformers' too: ``convert_to_tensor``, ``convert_to_numpy``, ``normalize_embeddings``,
        ``truncate_dim``, ``prompt``, ``prompt_name``, ``precision``, ``batch_size`` and others that
        :class:`~bertfeat.core.extraction.encode_arguments.EncodeOptions` explains. With
        ``output_value="token_embeddings"`` each text gives the matrix of its tokens, special ones and
        the prompt's included.

        Shape: ``[n, width]`` float32, in the order of the texts; ``[width]`` for a single string; a list of
        ``[tokens, width]`` for tokens.

        Raises:
            UsageError: there are several columns, or one of tokens or words; an input is no text; or a keyword is
                unknown, or is one that is set when the Extractor is made.
        """
        return self._encode(inputs, sentence_transformers_kwargs)

    @overload
    def encode_query(self, inputs: Inputs = ..., **keywords: Unpack[NumpyKeywords]) -> NDArray[np.float32]: ...
    @overload
    def encode_query(self, inputs: Inputs = ..., **keywords: Unpack[TensorKeywords]) -> Tensor: ...
    @overload
    def encode_query(self, inputs: Inputs = ..., **keywords: Unpack[AnyKeywords]) -> EncodeResult: ...
    def encode_query(
        self, inputs: Inputs | None = None, **sentence_transformers_kwargs: Unpack[AnyKeywords]
    ) -> EncodeResult:
        """Embed queries: :meth:`encode` with the prompt ``query`` of :attr:`prompts` where none is given."""
        return self._encode(inputs, self._with_named_prompt("query", sentence_transformers_kwargs))

    @overload
    def encode_document(self, inputs: Inputs = ..., **keywords: Unpack[NumpyKeywords]) -> NDArray[np.float32]: ...
    @overload
    def encode_document(self, inputs: Inputs = ..., **keywords: Unpack[TensorKeywords]) -> Tensor: ...
    @overload
    def encode_document(self, inputs: Inputs = ..., **keywords: Unpack[AnyKeywords]) -> EncodeResult: ...
    def encode_document(
        self, inputs: Inputs | None = None, **sentence_transformers_kwargs: Unpack[AnyKeywords]
    ) -> EncodeResult:
        """Embed documents: :meth:`encode` with the prompt ``document`` of :attr:`prompts` where none is given."""
        return self._encode(inputs, self._with_named_prompt("document", sentence_transformers_kwargs))

    def _prompt(self, options: EncodeOptions) -> str:
        if options.prompt is not None:
            return check_prompt(options.prompt)
        if options.prompt_name is None:
            return self.prompt
        if options.prompt_name not in list(self.prompts):
            known = ", ".join(self.prompts)
            raise UsageError(
                f"the model has no prompt named {options.prompt_name!r}", remedy=f"its prompts are {known}"
            )
        return check_prompt(self.prompts[options.prompt_name])

    def _with_named_prompt(self, name: str, keywords: AnyKeywords) -> AnyKeywords:
        """Add the prompt ``name``, unless the call or the encoder was given one of its own."""
        if self.own_prompt or keywords.get("prompt") is not None or keywords.get("prompt_name") is not None:
            return keywords
        return {**keywords, "prompt_name": name}

    def _encode(self, inputs: object, keywords: AnyKeywords) -> EncodeResult:
        others: dict[str, Any] = {name: value for name, value in keywords.items() if name != "sentences"}
        options = EncodeOptions(**others)
        sentences = keywords.get("sentences")  # the name of inputs before sentence-transformers 6
        if inputs is not None and sentences is not None:
            raise UsageError("encode() was given texts twice, as inputs and as sentences", remedy="give them once")
        inputs = sentences if inputs is None else inputs
        if inputs is None:
            raise UsageError(
                "encode() needs texts", remedy="for a library that calls it without, see bertfeat.adapters"
            )
        self._refuse_another_device(options.device)
        texts, prompt = take_texts(inputs), self._prompt(options)
        result: EncodeResult
        if options.output_value == "token_embeddings":
            result = [matrix.to(self.device) for matrix in self._token_matrices(texts.items, prompt, options)]
        else:
            result = options.convert(self._vectors(texts.items, prompt, options), self.device)
        return result[0] if texts.single else result

    def _refuse_another_device(self, device: object) -> None:
        if device is None:
            return
        if isinstance(device, str | torch.device):
            other = resolve_device(str(device))
            if (other.type, other.index or 0) == (self.device.type, self.device.index or 0):
                return
        raise UsageError(
            f"{self._called} computes on {self.device}, not on {device}",
            remedy=f"make another with device={str(device)!r}",
        )

    # ── comparing vectors ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def similarity_fn_name(self) -> str:
        """The measure that compares vectors, as the model's configuration names it, else ``cosine``; may be set."""
        return read_measure(self._model_folder)

    def similarity(self, embeddings1: Vectors, embeddings2: Vectors) -> Tensor:
        """Compare each vector of one side with each of the other. Shape: ``[n1, n2]``."""
        return similarity_of_all(check_measure(self.similarity_fn_name), embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Vectors, embeddings2: Vectors) -> Tensor:
        """Compare the vectors of two sides one by one. Shape: ``[n]``."""
        return similarity_of_pairs(check_measure(self.similarity_fn_name), embeddings1, embeddings2)

    # ── what the model is ───────────────────────────────────────────────────────────────────────────────────

    def get_embedding_dimension(self) -> int:
        """Number of values in a vector of :meth:`encode`."""
        return self.column.width

    def get_sentence_embedding_dimension(self) -> int:
        """The same, under its name before sentence-transformers 5."""
        return self.get_embedding_dimension()

    def get_max_seq_length(self) -> int:
        """The same as :attr:`max_seq_length`."""
        return self.max_seq_length

    @cached_property
    def model_card_data(self) -> ModelCard:
        """The metrics of evaluators, and the model's name."""
        return ModelCard(self.model_name)

    # ── as a module of torch, frozen ────────────────────────────────────────────────────────────────────────

    def preprocess(
        self, inputs: Iterable[CorpusItem], prompt: str | None = None, task: str | None = None
    ) -> dict[str, Sequence[CorpusItem] | str]:
        """Return the input of a call of the encoder: texts, which are embedded there; ``task`` has no effect."""
        features: dict[str, Sequence[CorpusItem] | str] = {"texts": take_texts(inputs).items}
        return features if prompt is None else {**features, "prompt": check_prompt(prompt)}

    def __call__(self, features: MutableMapping[str, object], **_: object) -> MutableMapping[str, object]:
        """Add ``sentence_embedding`` to the result of :meth:`preprocess`, for losses; without gradients.

        Shape: ``[n, width]``.
        """
        if "texts" not in features:
            raise UsageError(f"call {self._called} with what its preprocess() gives, not with {', '.join(features)}")
        texts, prompt = cast(Inputs, features["texts"]), cast("str | None", features.get("prompt"))
        features["sentence_embedding"] = self.encode(texts, prompt=prompt, convert_to_tensor=True)
        return features

    def eval(self) -> Self:
        """Nothing to do: a frozen model has no dropout."""
        return self

    def to(self, device: str | torch.device) -> Self:
        """Stay where the model is.

        Raises:
            UsageError: another device, which is chosen when the Extractor is made.
        """
        self._refuse_another_device(device)
        return self

    def evaluate(self, evaluator: Callable[[Any, str | None], Metrics], output_path: str | None = None) -> Metrics:
        """Run an evaluator of sentence-transformers."""
        return evaluator(self, output_path)

    if not TYPE_CHECKING:  # so that type checkers still find misspelt names

        def __getattr__(self, name: str) -> NoReturn:
            reason = f": {_REFUSED[name]}" if name in _REFUSED else ""
            raise AttributeError(f"{type(self).__name__} has no {name!r}{reason}")
