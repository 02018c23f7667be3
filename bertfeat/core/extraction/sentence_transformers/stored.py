"""``StoredEncoder``: the vectors of texts as feature sets hold them, in the place of a model that computes them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.arguments import checked
from bertfeat.core.corpus import CorpusItem, Document
from bertfeat.core.encoder import resolve_device
from bertfeat.core.extraction.encode_arguments import EncodeOptions, check_prompt, take_texts, text_documents
from bertfeat.core.extraction.sentence_transformers.extractor import Extractor
from bertfeat.core.extraction.sentence_transformers.methods import SentenceEncoder
from bertfeat.core.extraction.similarity import check_measure
from bertfeat.core.features import (
    DigestBatch,
    DocumentFeatures,
    FeatureSet,
    FeatureSets,
    FeatureSettings,
    ModelIdentity,
    StoredTexts,
    find_incomparability,
    open_feature_sets,
    stored_matrices,
)
from bertfeat.core.recipe import FeatureColumn
from bertfeat.errors import FeatureSetError, UsageError, parameter, pluralize, shorten

_READ_ROWS = 8192
_CACHED = ("_stored", "_extractor", "model_card_data")  # left out of pickles, and made again

Missing = Literal["error", "compute"]
"""The treatment of texts that the feature sets do not hold: an error, or computing them by the model."""


@checked
class StoredEncoder(SentenceEncoder):
    """Gives the vectors that feature sets hold of texts, with the methods of a frozen ``SentenceTransformer``.

    It stands where an :class:`bertfeat.Extractor` does: in sentence-transformers' evaluators and functions, in
    :mod:`bertfeat.adapters` for MTEB, BERTopic, KeyBERT and others, in SetFit. ``column`` and ``pooling`` name a column
    of one vector per text, stored or derived. The sets, one or several, must be of one model, and comparable. They may
    differ in their prompts: then a call names the one that it means, or ``prompts`` gives those of ``query`` and
    ``document``, for :meth:`encode_query` and :meth:`encode_document`.

    A text is found where it is stored, character by character (a pair by both texts). The model is not needed, unless
    ``missing="compute"``: then it computes the texts that no set holds, as the first set records it; ``model`` says
    where it is now, ``device`` where it computes. With ``missing="error"`` such texts are an error.
    ``similarity_fn_name`` is the measure of :meth:`similarity`: by default that of the model's configuration, if it is
    in its folder, else ``cosine``.

    Raises:
        NotDerivableError: there is no such column.
        FeatureSetError: a set holds no texts, its vectors depend on more than each text, or it is not comparable with
            the first one.
        UsageError: the column is of tokens or words.
    """

    _called = "this StoredEncoder"

    def __init__(
        self,
        features: FeatureSets,
        column: str | None = None,
        pooling: str | None = None,
        *,
        missing: Missing = "error",
        prompts: Mapping[str, str] | None = None,
        similarity_fn_name: str | None = None,
        model: str | Path | None = None,
        device: str | None = None,
    ) -> None:
        self.sets: tuple[FeatureSet, ...] = tuple(open_feature_sets(features))
        if not self.sets:
            raise UsageError("name at least one feature set")
        self.missing: Missing = missing
        self.device: torch.device = resolve_device(device)
        self._model, self._device = model, device
        self._given_prompts = None if prompts is None else {name: check_prompt(each) for name, each in prompts.items()}
        self.own_prompt = prompts is None
        if similarity_fn_name is not None:
            self.similarity_fn_name = check_measure(similarity_fn_name)
        self._column = self._find_column(column, pooling)
        for each in self.sets:
            _check_alone(each)
            self._check_comparable(each)

    def of_columns(self, columns: Sequence[FeatureColumn]) -> Self:
        """The same encoder for another column of one vector per text; :meth:`features` gives those of tokens anyway.

        Raises:
            NotDerivableError: the sets do not have it.
        """
        wanted = [column for column in columns if column.pooling.per_document]
        if len(wanted) != 1 or wanted[0].name == self.column.name:
            return self
        other = copy(self)
        other._column = other._find_column(wanted[0].name)
        other.__dict__["_stored"] = self._stored  # which a copy lacks
        return other

    def _find_column(self, column: str | None, pooling: str | None = None) -> FeatureColumn:
        found = self.sets[0].find(column, pooling, task="search")
        if not found.pooling.per_document:
            raise UsageError(f"a text gets one vector, and {found.name} is of {found.pooling}s")
        for features in self.sets[1:]:
            features.find(found.name)
        return FeatureColumn(found.recipe, found.pooling, found.width, "float32")

    def _check_comparable(self, features: FeatureSet) -> None:
        first = self.sets[0].header
        alike = replace(features.header.settings, prompt=first.settings.prompt)
        header = replace(features.header, settings=alike)
        problem = find_incomparability(
            first.model, first.settings, self.column, header, features.find(self.column.name)
        )
        if problem:
            raise FeatureSetError(f"it does not go with {self.sets[0].folder}: {problem}", where=features.folder)

    def __repr__(self) -> str:
        return f"StoredEncoder({[str(each.folder) for each in self.sets]}, {self.column.name!r})"

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in _CACHED}

    # ── the stored texts ────────────────────────────────────────────────────────────────────────────────────

    def __contains__(self, text: CorpusItem) -> bool:
        """Whether a set holds the text, with any prompt."""
        documents = list(text_documents([text]))
        return any(self._find(documents, prompt)[0] >= 0 for prompt in self._stored_prompts)

    def features(self, texts: Iterable[CorpusItem], *, prompt: str | None = None) -> list[DocumentFeatures]:
        """Return texts with everything that is stored of them: tokens or words, offsets, vectors of all columns.

        Raises:
            UsageError: an item that is no text, or a text that no set holds, whatever ``missing`` says.
        """
        documents = list(text_documents(take_texts(texts).items))
        chosen = self.prompt if prompt is None else check_prompt(prompt)
        found = self._find(documents, chosen)
        self._refuse_missing(documents, found, chosen, remedy="extract them too")
        stored: dict[int, DocumentFeatures] = {}
        for features, at, rows in self._by_set(found):
            of_rows = {each.row: each for each in features.documents_at(rows.tolist())}
            stored.update(zip(at.tolist(), map(of_rows.__getitem__, rows.tolist()), strict=True))
        return [stored[at] for at in range(len(documents))]

    def _vectors(self, items: list[CorpusItem], prompt: str, options: EncodeOptions) -> NDArray[np.float32]:
        documents = list(text_documents(items))
        found = self._find(documents, prompt)
        if self.missing == "error":
            computed = f"have them computed ({parameter('missing', 'compute')})"
            self._refuse_missing(documents, found, prompt, remedy=f"extract them too, or {computed}")
        vectors = np.empty((len(items), self.column.width), np.float32)
        for features, at, rows in self._by_set(found):
            _read_rows(features, self.column, rows, vectors, at)
        absent = np.flatnonzero(found < 0)
        if len(absent):
            vectors[absent] = self._extractor._vectors([items[at] for at in absent.tolist()], prompt, options)
        return vectors

    def _token_matrices(self, items: list[CorpusItem], prompt: str, options: EncodeOptions) -> Iterator[Tensor]:
        raise UsageError("a StoredEncoder gives one vector a text", remedy="features() gives its tokens, if stored")

    def _find(self, documents: Sequence[Document], prompt: str) -> NDArray[np.int64]:
        """The place of each text among the stored ones, ``[n]``; -1 for one that no set of that prompt holds."""
        if any(document.before or document.after for document in documents):
            raise UsageError("a text that is read with its neighbors has no vector of its own in a feature set")
        return self._stored.find([_digest_text(document.text, document.pair, prompt) for document in documents])

    def _refuse_missing(
        self, documents: Sequence[Document], found: NDArray[np.int64], prompt: str, *, remedy: str
    ) -> None:
        absent = np.flatnonzero(found < 0)
        if not len(absent):
            return
        problem = f"no feature set holds {pluralize(len(absent), 'text')} of {len(documents):,}"
        if self._stored_prompts != [prompt]:
            problem += f" with the prompt {prompt!r} (there are {', '.join(map(repr, self._stored_prompts))})"
        raise UsageError(f"{problem}; the first: {shorten(documents[int(absent[0])].text)!r}", remedy=remedy)

    @cached_property
    def _stored(self) -> StoredTexts:
        return StoredTexts(sum(map(len, self.sets)), _digests_of_sets(self.sets))

    def _by_set(self, found: NDArray[np.int64]) -> Iterator[tuple[FeatureSet, NDArray[np.int64], NDArray[np.int64]]]:
        """Each set that holds some of the texts: the numbers of these among the ``found``, and their rows."""
        at = np.flatnonzero(found >= 0)
        owners, rows = self._stored.owners[found[at]], self._stored.rows[found[at]].astype(np.int64)
        for number in np.unique(owners).tolist():
            own = owners == number
            yield self.sets[number], at[own], rows[own]

    @cached_property
    def _extractor(self) -> Extractor:
        header, folder = self.sets[0].header, self.sets[0].folder
        settings = replace(header.settings, words="spaces")  # a text's own vector needs no words
        return Extractor.from_record(
            header.model, settings, [self.column], name=self._model, device=self._device, where=folder
        )

    # ── what it stands for ──────────────────────────────────────────────────────────────────────────────────

    @property
    def column(self) -> FeatureColumn:
        """The column whose vectors it gives."""
        return self._column

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the model that made the sets."""
        return self.sets[0].header.model

    @property
    def model_name(self) -> str:
        """The name of the model that made the sets."""
        return self.identity.name

    @property
    def prompt(self) -> str:
        """The prompt of the sets.

        Raises:
            UsageError: they have several.
        """
        if len(self._stored_prompts) > 1:
            raise UsageError(
                f"the feature sets have several prompts ({', '.join(map(repr, self._stored_prompts))})",
                remedy="say which is meant: encode(texts, prompt=…), or StoredEncoder(…, prompts={'query': …, …})",
            )
        return self._stored_prompts[0]

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts that were given by name, else the sets' one as ``query`` and as ``document``."""
        return self._given_prompts or dict.fromkeys(("query", "document"), self.prompt)

    @property
    def _stored_prompts(self) -> list[str]:
        return sorted({_prompt_of(features) for features in self.sets})

    @property
    def _model_folder(self) -> Path:
        return Path(self._model or self.model_name)

    @property
    def feature_settings(self) -> FeatureSettings:
        """The settings that the first set records."""
        return self.sets[0].header.settings

    @property
    def max_seq_length(self) -> int:
        """Most tokens that were read at once, special ones included."""
        return self.sets[0].header.settings.max_length or 0


def _digests_of_sets(sets: Sequence[FeatureSet]) -> Iterator[DigestBatch]:
    """The digests of all texts of the sets, each with the prompt before it."""
    for number, features in enumerate(sets):
        names, prompt = [name for name in ("text", "pair") if name in features.names], _prompt_of(features)
        for batch in features.stream(["row", *names], batch_rows=_READ_ROWS):
            texts, *pairs = (batch.column(name).to_pylist() for name in names)
            of_texts = zip(texts, *(pairs or [[None] * len(batch)]), strict=True)
            digests = [_digest_text(text, pair, prompt) for text, pair in of_texts]
            yield digests, number, batch.column("row").to_numpy()


def _digest_text(text: str, pair: str | None, prompt: str) -> bytes:
    """The digest of a text, or of a pair, and the prompt before it."""
    parts = [prompt, text] if pair is None else [prompt, text, pair]
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    lengths = ",".join(str(len(part)) for part in encoded).encode()
    return blake2b(b"".join([lengths, b"\0", *encoded]), digest_size=16).digest()


def _read_rows(
    features: FeatureSet,
    column: FeatureColumn,
    rows: NDArray[np.int64],
    into: NDArray[np.float32],
    at: NDArray[np.int64],
) -> None:
    """Read the vectors of rows in any order to the places ``at`` of ``into``; only their row groups are read."""
    derivation = features.find(column.name).derivation
    stored = derivation.inputs(features.columns)
    order = np.argsort(rows, kind="stable")
    ascending, places = rows[order], at[order]
    for batch in features.stream_rows(np.unique(rows).tolist(), ["row", *derivation.columns]):
        read, matrix = batch.column("row").to_numpy(), derivation.apply(stored_matrices(batch, stored))
        own = slice(*np.searchsorted(ascending, [read[0], read[-1] + 1])) if len(read) else slice(0, 0)
        into[places[own]] = matrix[np.searchsorted(read, ascending[own])]


def _prompt_of(features: FeatureSet) -> str:
    return features.header.settings.prompt or ""


def _check_alone(features: FeatureSet) -> None:
    """Check that a set holds texts whose vectors depend on nothing but themselves."""
    if "text" not in features.names:
        remedy = f"extract it without {parameter('keep_text', False)}"
        raise FeatureSetError(
            "the set holds no texts, by which vectors are found", where=features.folder, remedy=remedy
        )
    if features.holds_ids:
        problem = "its documents are token ids, which have no texts by which vectors are found"
        raise FeatureSetError(problem, where=features.folder, remedy="extract the texts")
    if features.header.settings.document_context:
        problem = "its vectors depend on the sentences before and after each text, and not on the text alone"
        raise FeatureSetError(
            problem, where=features.folder, remedy=f"extract it without {parameter('document_context')}"
        )
    if features.header.settings.context is not None:
        problem = "its vectors depend on how the words of each text were split, and not on the text alone"
        remedy = f"extract it without {parameter('context')}"
        raise FeatureSetError(problem, where=features.folder, remedy=remedy)
