"""``encode``, ``encode_query``, ``encode_document``: texts in memory → vectors, as sentence-transformers has them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.corpus import CorpusItem, Document, memory_corpus
from bertfeat.encoder import resolve_device
from bertfeat.errors import UsageError
from bertfeat.extraction.embedder import Embedder
from bertfeat.extraction.extractor import CorpusExtractor
from bertfeat.extraction.options import AnyKeywords, EncodeOptions, NumpyKeywords, TensorKeywords
from bertfeat.extraction.texts import check_prompt, take_texts
from bertfeat.features import PartContent
from bertfeat.recipe import FeatureColumn, Pooling

Inputs = str | Iterable[CorpusItem]
Encoded = NDArray[Any] | Tensor | list[Tensor]


class TextEncoder(CorpusExtractor):
    """What gives one vector a text, under the names and with the keywords of sentence-transformers."""

    own_prompt = False  # whether it was made with a prompt, which goes before the model's

    if not TYPE_CHECKING:  # so that type checkers see the arguments of Embedder

        @wraps(Embedder.__init__)
        def __init__(self, *args, **settings):
            if settings.get("prompt") is not None:
                self.own_prompt = True
                check_prompt(settings["prompt"])
            super().__init__(*args, **settings)

    @overload
    def encode(self, inputs: Inputs = ..., **keywords: Unpack[NumpyKeywords]) -> NDArray[np.float32]: ...
    @overload
    def encode(self, inputs: Inputs = ..., **keywords: Unpack[TensorKeywords]) -> Tensor: ...
    @overload
    def encode(self, inputs: Inputs = ..., **keywords: Unpack[AnyKeywords]) -> Encoded: ...
    def encode(self, inputs: Inputs | None = None, **keywords: Any) -> Encoded:
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
        sentences = keywords.pop("sentences", None)  # the name of inputs before sentence-transformers 6
        options = EncodeOptions.of(keywords)
        if inputs is not None and sentences is not None:
            raise UsageError("encode() was given texts twice, as inputs and as sentences; give them once")
        inputs = sentences if inputs is None else inputs
        if inputs is None:
            raise UsageError("encode() needs texts; for a library that calls it without, see bertfeat.adapters")
        self._refuse_another_device(options.device)
        given, prompt = take_texts(inputs), self._prompt(options)
        result: Encoded
        if options.output_value == "token_embeddings":
            result = [matrix.to(self.device) for matrix in self._token_matrices(given.items, prompt, options)]
        else:
            result = options.finished(self._vectors(given.items, prompt, options), self.device)
        return result[0] if given.single else result

    @overload
    def encode_query(self, inputs: Inputs = ..., **keywords: Unpack[NumpyKeywords]) -> NDArray[np.float32]: ...
    @overload
    def encode_query(self, inputs: Inputs = ..., **keywords: Unpack[TensorKeywords]) -> Tensor: ...
    @overload
    def encode_query(self, inputs: Inputs = ..., **keywords: Unpack[AnyKeywords]) -> Encoded: ...
    def encode_query(self, inputs: Inputs | None = None, **keywords: Any) -> Encoded:
        """Embed queries: :meth:`encode` with the model's prompt ``query`` where none is given."""
        embedded: Encoded = self.encode(**self._prompted("query", inputs, keywords))
        return embedded

    @overload
    def encode_document(self, inputs: Inputs = ..., **keywords: Unpack[NumpyKeywords]) -> NDArray[np.float32]: ...
    @overload
    def encode_document(self, inputs: Inputs = ..., **keywords: Unpack[TensorKeywords]) -> Tensor: ...
    @overload
    def encode_document(self, inputs: Inputs = ..., **keywords: Unpack[AnyKeywords]) -> Encoded: ...
    def encode_document(self, inputs: Inputs | None = None, **keywords: Any) -> Encoded:
        """Embed documents: :meth:`encode` with the model's prompt ``document`` where none is given."""
        embedded: Encoded = self.encode(**self._prompted("document", inputs, keywords))
        return embedded

    # ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def prompts(self) -> Mapping[str, str]:
        """The model's prompts by name; ``query`` and ``document`` are always there, empty if the model has none."""
        return {"query": "", "document": "", **self.model.prompts}

    def _prompt(self, options: EncodeOptions) -> str:
        if options.prompt is not None:
            return check_prompt(options.prompt)
        if options.prompt_name is None:
            return check_prompt(self.token_settings.prompt)
        if options.prompt_name not in list(self.prompts):
            known = ", ".join(self.prompts)
            raise UsageError(f"the model has no prompt named {options.prompt_name!r}; its prompts are {known}")
        return check_prompt(self.prompts[options.prompt_name])

    def _prompted(self, name: str, inputs: Inputs | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Add the prompt ``name``, unless the call or the Extractor was given one of its own."""
        given = keywords.get("prompt") is not None or keywords.get("prompt_name") is not None
        named = {} if self.own_prompt or given else {"prompt_name": name}
        return {"inputs": inputs, **keywords, **named}

    # ── computing ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def column(self) -> FeatureColumn:
        """The one column, of one vector a text.

        Raises:
            UsageError: there are several columns, or the one is of tokens or words.
        """
        if len(self.columns) != 1 or not self.columns[0].pooling.per_document:
            names = ", ".join(column.name for column in self.columns)
            raise UsageError(f"encode() gives one vector a text, but the columns are {names}; use features()")
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
        """Give an extractor of the same weights that puts another prompt before texts, or gives another column."""
        self.tokenizer, self.encoder  # noqa: B018  # loaded here, once for all that are made of it
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.token_settings = replace(self.token_settings, prompt=prompt, with_tokens=column is not None)
        made.columns = self.columns if column is None else (column,)
        return made

    def _refuse_another_device(self, device: object) -> None:
        if device is None:
            return
        if isinstance(device, str | torch.device):
            wanted = resolve_device(str(device))
            if (wanted.type, wanted.index or 0) == (self.device.type, self.device.index or 0):
                return
        raise UsageError(
            f"this Extractor computes on {self.device}, not on {device}; make another with device={str(device)!r}"
        )


def _text_documents(items: list[CorpusItem]) -> Iterator[Document]:
    for row in memory_corpus(items).rows():
        if not isinstance(row, Document):
            raise UsageError(f"a text cannot be embedded: {getattr(row, 'reason', 'it is blank')}")
        yield row
