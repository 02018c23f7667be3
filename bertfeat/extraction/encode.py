"""``encode``, ``encode_query``, ``encode_document``: texts in memory → vectors, as sentence-transformers has them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Self, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.arguments import checked
from bertfeat.corpus import CorpusItem, Document, memory_corpus
from bertfeat.encoder import resolve_device
from bertfeat.errors import UsageError
from bertfeat.extraction.embedder import Embedder
from bertfeat.extraction.extractor import CorpusExtractor
from bertfeat.extraction.options import AnyKeywords, EncodeOptions, EncodeResult, NumpyKeywords, TensorKeywords
from bertfeat.extraction.texts import check_prompt, take_texts
from bertfeat.features import PartContent
from bertfeat.recipe import FeatureColumn, Pooling

Inputs = str | Iterable[CorpusItem]


@checked
class TextEncoder(CorpusExtractor):
    """Gives one vector a text, with the methods and keywords of sentence-transformers."""

    own_prompt = False  # whether it was made with a prompt, which goes before the model's

    if not TYPE_CHECKING:  # so that type checkers see the arguments of Embedder

        @wraps(Embedder.__init__)
        def __init__(self, *args, **settings):
            super().__init__(*args, **settings)
            self.own_prompt = settings.get("prompt") is not None

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
        :class:`~bertfeat.extraction.options.EncodeOptions` explains. With ``output_value="token_embeddings"`` each
        text gives the matrix of its tokens, special ones and the prompt's included.

        Shape: ``[n, width]`` float32, in the order of the texts; ``[width]`` for a single string; a list of
        ``[tokens, width]`` for tokens.

        Raises:
            UsageError: several columns are asked for, or one of tokens or words; what is no text; or a keyword that is
                unknown, or set when the Extractor is made.
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
        """Embed queries: :meth:`encode` with the model's prompt ``query`` where none is given."""
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
        """Embed documents: :meth:`encode` with the model's prompt ``document`` where none is given."""
        return self._encode(inputs, self._with_named_prompt("document", sentence_transformers_kwargs))

    # ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def prompts(self) -> Mapping[str, str]:
        """The model's prompts by name; ``query`` and ``document`` are always there, empty if the model has none."""
        return {"query": "", "document": "", **self.model.prompts}

    def _prompt(self, options: EncodeOptions) -> str:
        if options.prompt is not None:
            return check_prompt(options.prompt)
        if options.prompt_name is None:
            return self.token_settings.prompt
        if options.prompt_name not in list(self.prompts):
            known = ", ".join(self.prompts)
            raise UsageError(
                f"the model has no prompt named {options.prompt_name!r}", remedy=f"its prompts are {known}"
            )
        return check_prompt(self.prompts[options.prompt_name])

    def _with_named_prompt(self, name: str, keywords: AnyKeywords) -> AnyKeywords:
        """Add the prompt ``name``, unless the call or the Extractor was given one of its own."""
        if self.own_prompt or keywords.get("prompt") is not None or keywords.get("prompt_name") is not None:
            return keywords
        return {**keywords, "prompt_name": name}

    # ── computing ───────────────────────────────────────────────────────────────────────────────────────────

    def _encode(self, inputs: object, keywords: AnyKeywords) -> EncodeResult:
        others = {name: value for name, value in keywords.items() if name != "sentences"}
        options = EncodeOptions.of(others)
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

    @property
    def column(self) -> FeatureColumn:
        """The one column, of one vector a text.

        Raises:
            UsageError: there are several columns, or the one is of tokens or words.
        """
        if len(self.columns) != 1 or not self.columns[0].pooling.per_document:
            names = ", ".join(column.name for column in self.columns)
            raise UsageError(f"encode() gives one vector a text, but the columns are {names}", remedy="use features()")
        return self.columns[0]

    def _vectors(self, items: list[CorpusItem], prompt: str, options: EncodeOptions) -> NDArray[np.float32]:
        column = self.column
        vectors = np.empty((len(items), column.width), np.float32)
        at = 0
        for content in self._with(prompt)._shown_contents(items, options) if items else ():
            vectors[at : at + len(content.rows)] = content.vectors[column.name]
            at += len(content.rows)
        return vectors

    def _token_matrices(self, items: list[CorpusItem], prompt: str, options: EncodeOptions) -> Iterator[Tensor]:
        column = replace(self.column, pooling=Pooling.TOKEN, dtype="float32")
        # as part of the text, a prompt has tokens of its own in the result
        prompted = [replace(document, text=prompt + document.text) for document in _text_documents(items)]
        for content in self._with("", column)._shown_contents(prompted, options):
            assert content.tokens is not None
            matrix, offsets = content.tokens.matrices[column.name], content.tokens.offsets
            for start, stop in pairwise(offsets.tolist()):
                yield torch.from_numpy(matrix[start:stop].copy())

    def _shown_contents(self, items: Sequence[CorpusItem], options: EncodeOptions) -> Iterator[PartContent]:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        with tqdm(total=len(items), desc="Texts", disable=not options.show_progress_bar) as bar:
            for content in self.contents(memory_corpus(items), batch_size=options.batch_size):
                yield content
                bar.update(len(content.rows))

    def _with(self, prompt: str, column: FeatureColumn | None = None) -> Self:
        """An extractor with the same weights, but another prompt or another column."""
        settings = replace(self.token_settings, prompt=prompt, with_tokens=column is not None)
        return self.variant(self.columns if column is None else (column,), settings)

    def _refuse_another_device(self, device: object) -> None:
        if device is None:
            return
        if isinstance(device, str | torch.device):
            other = resolve_device(str(device))
            if (other.type, other.index or 0) == (self.device.type, self.device.index or 0):
                return
        raise UsageError(
            f"this Extractor computes on {self.device}, not on {device}",
            remedy=f"make another with device={str(device)!r}",
        )


def _text_documents(items: list[CorpusItem]) -> Iterator[Document]:
    for row in memory_corpus(items).rows():
        if not isinstance(row, Document):
            raise UsageError(f"a text cannot be embedded: {getattr(row, 'reason', 'it is blank')}")
        yield row
