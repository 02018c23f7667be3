"""The service behind the routes: one encoder, and the index, feature sets and tagger that the server was given."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from fastapi import Request

from bertfeat.arguments import checked
from bertfeat.corpus import MAX_TEXT, Document
from bertfeat.extraction import Embedder, Extractor
from bertfeat.features import FeatureSet
from bertfeat.io import ContextPool
from bertfeat.learning import Tagger
from bertfeat.search import Index
from bertfeat.server.batching import Batcher, QueueFullError
from bertfeat.server.encoder import SharedEncoder
from bertfeat.server.metrics import Metrics
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.settings import ServerSettings
from bertfeat.server.text_request import RequestFeatures, Wanted
from bertfeat.server.wanted import WantedReader
from bertfeat.words import count_words

_T = TypeVar("_T")
_SLICE = 2**18  # characters that are counted at a time
_CHARACTERS_A_TOKEN = 8  # at the most: a word that is one [UNK] costs time by its length
_MOST_SEARCHES = 256  # and other work on these threads, that may wait
_WARM_UP = (
    "A text to warm up with.",
    "Another one, somewhat longer than the first, so that two lengths have been seen.",
)
_WARM_UP_QUERY = "warm"  # one word, which an index of words takes without a mark


class Service:
    """Answers requests; the routes only read them and write answers."""

    @checked
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
        self._searches = 0  # that wait, or are at work
        self._searching = ContextPool(2, "bertfeat-search")

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
            index, vector = self.index, await asyncio.to_thread(self.index.encode, [_WARM_UP_QUERY])
            await self.run(lambda: index.search_vectors(vector, 1))
        self.is_ready = True

    def encoder_of(self, features: FeatureSet) -> SharedEncoder:
        """The encoder of sentences that are compared with the words of a set."""
        if features.folder not in self._encoders:
            header = features.header
            columns = [column for column in features.columns if not column.pooling.per_document]
            recorded = Embedder.from_record(
                header.model, header.settings, columns, name=self.extractor.location, where=features.folder
            )
            self._encoders[features.folder] = SharedEncoder(recorded, self.batcher, self.settings.request_seconds)
        return self._encoders[features.folder]

    def tag(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """The words of texts with their tags."""
        assert self.tagger is not None
        if self.tagger not in self._encoders:
            self._encoders[self.tagger] = SharedEncoder(
                self.tagger.extractor, self.batcher, self.settings.request_seconds
            )
        documents = self._encoders[self.tagger].features(texts)
        return [
            {"text": each.text, "words": each.words, "start": each.start, "end": each.end, "tags": each.tags}
            for each in self.tagger.tag_documents(documents)
        ]

    async def close(self) -> None:
        """Finish the rounds that are being computed; requests are over by then, or were told that the server ends."""
        self.is_ready = False
        await asyncio.to_thread(self.batcher.close, self.settings.grace_seconds)
        self._searching.shutdown(wait=False, cancel_futures=True)

    async def embed(self, request: Request, documents: Sequence[Document], wanted: Wanted) -> RequestFeatures:
        """The features of texts, unless their client goes away first.

        Raises:
            Problem: too many texts or tokens.
            QueueFullError, ClosedError, EncoderError: see :class:`Batcher`.
        """
        await self.check_size([document.text for document in documents], wanted)
        waiting = self.batcher.submit(documents, wanted)
        try:
            features = await _unless_gone(request, asyncio.wrap_future(waiting.future))
        except BaseException:
            self.batcher.drop(waiting)  # what is not computed yet, is not
            raise
        self.metrics.computed(features)
        return features

    async def run(self, work: Callable[[], _T], *, request: Request | None = None) -> _T:
        """Do something that takes a while on a thread, unless the client of the request goes away before it begins.

        Raises:
            QueueFullError: too much waits already.
        """
        if self._searches >= _MOST_SEARCHES:
            raise QueueFullError(1.0)
        self._searches += 1
        result = asyncio.wrap_future(self._searching.submit(work))
        try:
            return await (result if request is None else _unless_gone(request, result))
        finally:
            self._searches -= 1
            result.cancel()

    async def measure(self, texts: Sequence[str], most: int) -> int:
        """The size of texts in tokens, without special ones; of more than ``most`` only that they are more.

        A text counts an eighth of its characters at least, since an endless word is one token and minutes of work.
        """
        least = sum(len(text) // _CHARACTERS_A_TOKEN for text in texts)
        return least if least > most else await self.run(lambda: self._measure(texts, most))

    def _measure(self, texts: Sequence[str], most: int) -> int:
        size = 0
        for some in _slices(texts):
            found = self.extractor.tokenizer.pieces(some, offsets=False)
            size += sum(
                max(len(pieces.ids), len(text) // _CHARACTERS_A_TOKEN) for text, pieces in zip(some, found, strict=True)
            )
            if size > most:
                break
        return size

    async def check_size(self, texts: Sequence[str], wanted: Wanted | None = None) -> None:
        """Refuse more texts, tokens, or values of the answer than a request may have.

        Raises:
            Problem: there are more.
        """
        limits = self.settings
        if len(texts) > limits.most_texts:
            problem = f"{len(texts):,} texts are more than the {limits.most_texts:,} of a request"
            raise Problem(Kind.TOO_LARGE, problem, param="input")
        prompt = wanted.tokens.prompt if wanted is not None else ""
        if len(prompt) > MAX_TEXT:
            raise Problem(Kind.TOO_LARGE, f"the prompt has more than {MAX_TEXT:,} characters", "prompt")
        most = sum(len(text.encode()) for text in texts) + len(prompt.encode()) * len(texts)
        if most > limits.most_tokens:  # a token has a byte at least
            size = await self.measure(texts, limits.most_tokens)
            size += await self.measure([prompt], limits.most_tokens) * len(texts) if prompt else 0
            if size > limits.most_tokens:
                # the words "maximum context length" have some clients send less
                problem = f"there are more tokens than the maximum context length of a request, {limits.most_tokens:,}"
                raise Problem(Kind.TOO_LARGE, problem, param="input")
        if wanted is not None:
            await self._check_answer(texts, wanted, most)

    async def _check_answer(self, texts: Sequence[str], wanted: Wanted, most_pieces: int) -> None:
        """Refuse a request whose answer would fill the memory: vectors of tokens are large."""
        limits = self.settings
        width = sum(column.width for column in wanted.columns if column.pooling.per_document)
        of_piece = sum(column.width for column in wanted.columns) - width
        values = len(texts) * width + most_pieces * of_piece
        if of_piece and values > limits.most_values:
            words = await self.run(lambda: sum(map(count_words, texts)))
            values = len(texts) * width + max(await self.measure(texts, limits.most_tokens), words) * of_piece
        if values > limits.most_values:
            problem = f"{values:,} numbers are more than the {limits.most_values:,} of an answer; send fewer texts"
            raise Problem(Kind.TOO_LARGE, f"{problem}, or ask for fewer columns", param="input")


def _slices(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts, a limited number of characters at a time; where a text is cut, it may have a token more."""
    some, size = list[str](), 0
    for text in texts:
        for start in range(0, len(text), _SLICE):
            some.append(text[start : start + _SLICE])
            size += len(some[-1])
            if size >= _SLICE:
                yield some
                some, size = [], 0
    yield some


async def _unless_gone(request: Request, result: asyncio.Future[_T]) -> _T:
    """Wait for a result, or for the end of the connection."""
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
