"""``Extractor``: a peer of ``SentenceTransformer``, for the utilities, evaluators and losses that take a frozen model.

The class stands in a module of this name because BERTopic and KeyBERT look for ``sentence_transformers`` in the name of
a model's type: any other type they ignore, and load a model of their own in silence. So they refuse an Extractor, and
:mod:`bertfeat.adapters` gives what they take.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

import torch
from torch import Tensor

from bertfeat.arguments import checked
from bertfeat.corpus import CorpusItem
from bertfeat.errors import UsageError
from bertfeat.extraction.card import ModelCard
from bertfeat.extraction.encode import Inputs, TextEncoder
from bertfeat.extraction.similarity import (
    MEASURES,
    Vectors,
    check_measure,
    similarity_of_all,
    similarity_of_pairs,
)
from bertfeat.extraction.texts import check_prompt, take_texts
from bertfeat.io import decode_json
from bertfeat.recipe import feature_columns

Metrics = TypeVar("Metrics")

_TRAINING = (
    "an Extractor is frozen; train and save the model with sentence-transformers, then give Extractor its folder"
)
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
_CACHED = ("tokenizer", "encoder", "batch_tokens", "model_card_data")  # made anew where a pickle is loaded


@checked
class Extractor(TextEncoder):
    """Runs texts through a frozen encoder and gives its layers as features.

    ``layers`` and ``pooling`` are written as on the command line (``"concat4"``, ``"sum=-4..-1,cls"``;
    ``"mean,word"``); every recipe under every pooling is a column. The default pooling is the model's own, the default
    model all-MiniLM-L6-v2. The files are looked up at once; weights are read when they are first needed, and a pickle
    holds the settings without them. With ``context="left:8"`` each word is read after the 8 words before it, and before
    nothing.

    An Extractor of one column has what sentence-transformers asks of a frozen ``SentenceTransformer``, and the same
    numbers in fp32 at the same ``max_length`` with ``long="truncate"``. Modules after the pooling (Dense, Normalize)
    are not applied; for Normalize, ``encode(normalize_embeddings=True)`` does it.

    Raises:
        UsageError: a setting that cannot be right, such as a layer outside the model.
        ModelError: the model cannot be found or loaded.
    """

    # ── comparing vectors ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def similarity_fn_name(self) -> str:
        """How vectors are compared: what the model's configuration names, else ``cosine``; may be set."""
        named = None
        with suppress(OSError, ValueError):
            file = self.model.folder / "config_sentence_transformers.json"
            named = decode_json(file.read_bytes(), dict).get("similarity_fn_name")
        return named if named in MEASURES else "cosine"  # as sentence-transformers takes one that it does not know

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

    @property
    def max_seq_length(self) -> int:
        """Most tokens read at once, special ones included; a longer text is read in windows unless ``long`` differs."""
        return self.token_settings.max_length

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> NoReturn:
        raise UsageError(
            f"max_seq_length = {value} cuts texts off in sentence-transformers; make the Extractor with "
            f"max_length={value}, and long='truncate' to cut as well"
        )

    def get_max_seq_length(self) -> int:
        """The same as :attr:`max_seq_length`."""
        return self.max_seq_length

    @cached_property
    def model_card_data(self) -> ModelCard:
        """The metrics of evaluators, and the model's name."""
        return ModelCard(self.model.name)

    @property
    def settings(self) -> dict[str, object]:
        """The arguments that make an equal Extractor, as JSON values.

        Raises:
            UsageError: it computes columns that it was not made with (:meth:`from_record`, :meth:`variant`), and which
                are not each of some layers under each of some poolings.
        """
        tokens, columns = self.token_settings, self.columns
        sizes = {"num_layers": self.model.num_layers, "hidden_size": self.model.hidden_size}
        dtype = next((column.dtype for column in columns if not column.pooling.per_document), "float16")
        ways = (
            (self.layers, self.poolings),
            (
                tuple(dict.fromkeys(column.recipe.spelling for column in columns)),
                tuple(dict.fromkeys(column.pooling for column in columns)),
            ),
        )
        for layers, poolings in ways:
            made = feature_columns(layers, poolings, dtype=dtype, **sizes)
            if made == columns and all(one.name == other.name for one, other in zip(made, columns, strict=True)):
                break
        else:
            names = ", ".join(column.name for column in columns)
            raise UsageError(f"no layers and poolings give just {names}", remedy="make an Extractor for each column")
        return {
            "model": self.location,
            "layers": list(layers),
            "pooling": list(map(str, poolings)),
            "precision": str(self.precision),
            "long": str(tokens.long),
            "max_length": tokens.max_length,
            "device": str(self.device),
            "dtype": dtype,
            "subword": str(tokens.subword),
            "special_tokens": tokens.special_tokens,
            "batch_tokens": self.given_batch_tokens,
            "prompt": tokens.prompt if self.own_prompt else None,
            "context": None if tokens.left_words is None else f"left:{tokens.left_words}",
            "revision": self.model.revision,
        }

    def __repr__(self) -> str:
        try:
            return f"Extractor({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"
        except UsageError:
            return f"<Extractor of {self.model.name}: {', '.join(column.name for column in self.columns)}>"

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in _CACHED}

    # ── as a module of torch, frozen ────────────────────────────────────────────────────────────────────────

    def preprocess(
        self, inputs: Iterable[CorpusItem], prompt: str | None = None, task: str | None = None
    ) -> dict[str, Sequence[CorpusItem] | str]:
        """Return the input of a call of the Extractor: texts, which are tokenized there; ``task`` has no effect."""
        features: dict[str, Sequence[CorpusItem] | str] = {"texts": take_texts(inputs).items}
        return features if prompt is None else {**features, "prompt": check_prompt(prompt)}

    def __call__(self, features: MutableMapping[str, object], **_: object) -> MutableMapping[str, object]:
        """Add ``sentence_embedding`` to what :meth:`preprocess` gave, as losses ask for it; without gradients.

        Shape: ``[n, width]``.
        """
        if "texts" not in features:
            raise UsageError(f"call the Extractor with what its preprocess() gives, not with {', '.join(features)}")
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
            raise AttributeError(f"an Extractor has no {name!r}{reason}")
