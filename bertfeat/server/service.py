"""What the routes ask: one encoder, and the index, feature sets and tagger that the server was given."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request

from bertfeat.corpus import Document
from bertfeat.extraction import Embedder, Extractor
from bertfeat.features import FeatureSet
from bertfeat.search import Index
from bertfeat.server.batching import Batcher, RequestFeatures, TextRequest, Wanted
from bertfeat.server.encoder import SharedEncoder
from bertfeat.server.metrics import Metrics
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.settings import ServerSettings
from bertfeat.server.wanted import WantedReader
from bertfeat.tagging import Tagger

_T = TypeVar("_T")
_WARM_UP = (
    "A text to warm up with.",
    "Another one, somewhat longer than the first, so that two lengths have been seen.",
)


class Service:
    """Answers requests; the routes only read them and write answers."""

    def __init__(self, extractor: Extractor, settings: ServerSettings) -> None:
        self.extractor, self.settings = extractor, settings
        self.index: Index | None = None
        self.features: tuple[FeatureSet, ...] = ()
        self.tagger: Tagger | None = None
        self._encoders: dict[object, SharedEncoder] = {}
        self.wanted = WantedReader(extractor)
        self.metrics = Metrics()
        self.batcher = Batcher(extractor, most_tokens=settings.most_waiting_tokens)
        self.is_ready = False
        self._searching = ThreadPoolExecutor(2, "bertfeat-search")

    @property
    def name(self) -> str:
        """The model, as clients name it."""
        return self.extractor.model.name

    async def warm_up(self) -> None:
        """Load the model, and compute something, so that no client waits for what happens but once."""
        documents = [Document(number, str(number), text) for number, text in enumerate(_WARM_UP)]
        request = self.batcher.submit(documents, self.wanted.read())
        await asyncio.wrap_future(request.future)
        if self.index is not None:
            index, vector = self.index, await asyncio.to_thread(self.index.encode, [_WARM_UP[0]])
            await self.run(lambda: index.search_vectors(vector, 1))
        self.is_ready = True

    def encoder_of(self, features: FeatureSet) -> SharedEncoder:
        """The encoder of sentences that are compared with the words of a set."""
        if features.folder not in self._encoders:
            header = features.header
            columns = [column for column in features.columns if not column.pooling.per_document]
            recorded = Embedder.from_record(header.model, header.settings, columns, name=self.extractor.location)
            self._encoders[features.folder] = SharedEncoder(recorded, self.batcher)
        return self._encoders[features.folder]

    def tag(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """The words of texts with their tags."""
        assert self.tagger is not None
        if self.tagger not in self._encoders:
            self._encoders[self.tagger] = SharedEncoder(self.tagger.embedder, self.batcher)
        documents = self._encoders[self.tagger].features(texts)
        return [
            {"text": each.text, "words": each.words, "start": each.start, "end": each.end, "tags": each.tags}
            for each in self.tagger.tag_documents(documents)
        ]

    def close(self) -> None:
        """Finish what is in flight."""
        self.is_ready = False
        self.batcher.close(self.settings.grace_seconds)
        self._searching.shutdown(wait=False, cancel_futures=True)

    async def embed(self, request: Request, documents: Sequence[Document], wanted: Wanted) -> RequestFeatures:
        """The features of texts, unless their client goes away first.

        Raises:
            Problem: too many texts or tokens.
            QueueFullError, ClosedError, EncoderError: see :class:`Batcher`.
        """
        await self._check_size(documents)
        waiting = self.batcher.submit(documents, wanted)
        try:
            features = await _unless_gone(request, waiting)
        except BaseException:
            self.batcher.drop(waiting)  # what is not computed yet, is not
            raise
        self.metrics.computed(features)
        return features

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do something that takes a while on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._searching, work)

    async def count_tokens(self, texts: Sequence[str]) -> int:
        """Tokens of texts, without special ones."""
        tokenizer = self.extractor.tokenizer
        return await self.run(lambda: sum(len(p.ids) for p in tokenizer.pieces(texts, offsets=False)))

    async def _check_size(self, documents: Sequence[Document]) -> None:
        limits = self.settings
        if len(documents) > limits.most_texts:
            problem = f"{len(documents):,} texts are more than the {limits.most_texts:,} of a request"
            raise Problem(Kind.TOO_LARGE, problem, param="input")
        texts = [document.text for document in documents]
        if sum(len(text.encode()) for text in texts) <= limits.most_tokens:
            return  # a token has a byte at least
        if (count := await self.count_tokens(texts)) > limits.most_tokens:
            # the words "maximum context length" have some clients send less
            problem = f"{count:,} tokens are more than the maximum context length of a request, {limits.most_tokens:,}"
            raise Problem(Kind.TOO_LARGE, problem, param="input")


async def _unless_gone(request: Request, waiting: TextRequest) -> RequestFeatures:
    """Wait for a result, or for the end of the connection."""
    result = asyncio.wrap_future(waiting.future)
    gone = asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait((result, gone), return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise ClientGoneError
        return result.result()
    finally:
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class ClientGoneError(Exception):
    """Nobody waits for the answer any more."""
