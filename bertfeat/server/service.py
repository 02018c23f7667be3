"""The service behind the routes: the models, and the indexes, feature sets and tagger that the server was given.

It is opened from folders and names, answers requests within their limits, and counts and times them.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from fastapi import Request
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from bertfeat.arguments import checked
from bertfeat.core import MAX_TEXT, Document, Extractor, FeatureSet, ModelIdentity, Tokenizer, split_each
from bertfeat.errors import BertfeatError, UsageError, parameter
from bertfeat.io import Address, ContextPool
from bertfeat.learning import Tagger
from bertfeat.search import Index
from bertfeat.server.batching import Batcher, QueueFullError, RequestFeatures, SharedEncoder, Wanted
from bertfeat.server.following import LOOK_SECONDS, Followed
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.settings import ServerSettings
from bertfeat.server.wanted import ServedModel

_T = TypeVar("_T")
_log = logging.getLogger("bertfeat.server")
_SLICE = 2**18  # characters that are counted at a time
_CHARACTERS_A_TOKEN = 8  # at most, when texts are measured: a word that is one [UNK] takes time by its length
_MOST_SEARCHES = 256  # searches and other work on their threads, waiting or running
_WARM_UP = (
    "A text to warm up with.",
    "Another one, somewhat longer than the first, so that two lengths have been seen.",
)
_WARM_UP_QUERY = "warm"  # one word, which an index of words takes without a mark


class Service:
    """Answers requests; the routes only read them and write answers."""

    @checked
    def __init__(
        self, extractor: Extractor, settings: ServerSettings, *, also: Mapping[str, Extractor] | None = None
    ) -> None:
        """Serve a model, and ``also`` others, each under a name of its own.

        Raises:
            UsageError: a model is there twice, or two have one name.
        """
        self.settings = settings
        named = [(extractor, settings.served_names), *((each, (name,)) for name, each in (also or {}).items())]
        self.models = tuple(
            ServedModel(each, names, accept_token_ids=settings.accept_token_ids) for each, names in named
        )
        self._model_of_name = _models_by_name(self.models)
        self.followed_indexes: tuple[Followed[Index], ...] = ()
        self.followed_features: tuple[Followed[FeatureSet], ...] = ()
        self.followed_tagger: Followed[Tagger] | None = None
        self._encoders: WeakKeyDictionary[FeatureSet | Tagger, SharedEncoder] = WeakKeyDictionary()
        self._records: list[tuple[ServedModel, ModelIdentity, Address | Path]] = []  # what models made, with its folder
        self.on_change: list[Callable[[], None]] = []
        """The functions that are called after a new version took the place of what was open."""
        self._looking = Lock()
        self._stale_sources: dict[str, str] = {}  # of indexes by their names, what has changed since they were made
        self.metrics = _Metrics()
        self.batcher = Batcher([each for each, _ in named], most_tokens=settings.most_waiting_tokens)
        self.is_ready = False
        self._searches = 0  # that wait, or are at work
        self._searching = ContextPool(2, "bertfeat-search")

    @property
    def indexes(self) -> tuple[Index, ...]:
        """The indexes as they are now; a request asks for them once."""
        return tuple(each.value for each in self.followed_indexes)

    @property
    def index(self) -> Index | None:
        """The first index as it is now, which the page shows and requests search that name none."""
        return next(iter(self.indexes), None)

    @property
    def features(self) -> tuple[FeatureSet, ...]:
        """The feature sets as they are now; a request asks for them once."""
        return tuple(each.value for each in self.followed_features)

    @property
    def tagger(self) -> Tagger | None:
        """The tagger as it is now; a request asks for it once."""
        return None if self.followed_tagger is None else self.followed_tagger.value

    @property
    def followed(self) -> tuple[Followed[Index] | Followed[FeatureSet] | Followed[Tagger], ...]:
        """The folders that the server keeps up with."""
        tagger = () if self.followed_tagger is None else (self.followed_tagger,)
        return (*self.followed_indexes, *tagger, *self.followed_features)

    def problems(self) -> dict[str, str]:
        """The problems of folders, by their names: a new version that cannot be opened, or an index out of step."""
        return self._stale_sources | {each.name: each.problem for each in self.followed if each.problem is not None}

    def describe_folders(self) -> list[dict[str, object]]:
        """The folders that are open, as JSON values: name, documents, reloads, problem; of an index version and age."""
        problems = self.problems()
        found = []
        for each in self.followed:
            value: dict[str, object] = {"name": each.name}
            if isinstance(each.value, Index):
                settings = each.value.settings
                value |= {"kind": "index", "version": settings.version, "documents": each.value.count().documents}
                value |= {"vectors": len(each.value), "age_seconds": round(max(0.0, time.time() - settings.made))}
            elif isinstance(each.value, FeatureSet):
                value |= {"kind": "features", "documents": len(each.value)}
            else:
                value |= {"kind": "tagger"}
            value |= {"reloads": each.opened_again}
            found.append(value | ({"problem": problems[each.name]} if each.name in problems else {}))
        return found

    def look(self, *, at_once: bool = False) -> bool:
        """Look for new versions of the folders; returns whether one took the place of what was open."""
        with self._looking:
            before = self._times_opened()
            for each in self.followed:
                each.look(at_once=at_once)
            self._look_at_sources()
            if changed := self._times_opened() != before:
                for tell in self.on_change:
                    tell()
            return changed

    def _times_opened(self) -> int:
        return sum(each.opened_again for each in self.followed)

    def _look_at_sources(self) -> None:
        """Tell, once, of a feature set that has changed since an index was made from it."""
        former, found = self._stale_sources, {}
        for each in self.followed_indexes:
            try:
                each.value.check_sources()
            except BertfeatError as error:
                found[each.name] = problem = str(error)  # not the error, which would keep the index through its frames
                if former.get(each.name) != problem:
                    _log.warning("%s", problem)
        self._stale_sources = found

    def model(self, name: str | None) -> ServedModel:
        """The model of a name that clients may use; the first one where a request names none.

        Raises:
            Problem: there is none of that name.
        """
        served = self.models[0] if name is None else self._model_of_name.get(name)
        if served is None:
            names = " and ".join(repr(name) for each in self.models for name in each.names)
            raise Problem(Kind.NOT_FOUND, f"there is no model {name!r} here, only {names}", "model", "model_not_found")
        return served

    def model_that_made(self, identity: ModelIdentity, folder: Address | Path) -> ServedModel:
        """The model that made the features of a folder, or those that an index or a tagger was made from.

        Raises:
            UsageError: the server does not have it.
        """
        served = self._model_of_name.get(identity.fingerprint)
        if served is None:
            names = " and ".join(each.extractor.model.name for each in self.models)
            raise UsageError(
                f"was made by {identity.name}, and this server has {names}",
                where=folder,
                remedy=f"add it by {parameter('also_models')}, or start another server for it",
            )
        return served

    def serve_folder(self, identity: ModelIdentity, folder: Address | Path) -> ServedModel:
        """The model that made a folder; when it is loaded, it must give the vectors that the folder records.

        Raises:
            UsageError: the server does not have it.
        """
        served = self.model_that_made(identity, folder)
        self._records.append((served, identity, folder))
        return served

    def check_folder(self, identity: ModelIdentity, folder: Address | Path) -> ServedModel:
        """The model that made a folder; once it is loaded, it must give the vectors that the folder records.

        Raises:
            UsageError: the server does not have it.
            ModelError: it gives others.
        """
        served = self.model_that_made(identity, folder)
        if self.is_ready:
            served.extractor.check_against(identity, folder)
        return served

    def load(self) -> None:
        """Load the models.

        Raises:
            ModelError: one cannot be loaded, or gives other vectors than those that a folder records.
        """
        for served in self.models:
            _ = served.extractor.encoder, served.extractor.canary  # now: later the encoder computes for requests
        for served, identity, folder in self._records:
            served.extractor.check_against(identity, folder)

    async def warm_up(self) -> None:
        """Load the models, and compute something, so that no client waits for work that is done only once."""
        await asyncio.to_thread(self.load)
        documents = [Document(number, str(number), text) for number, text in enumerate(_WARM_UP)]
        requests = [self.batcher.submit(documents, served.read()) for served in self.models]
        for request in requests:
            await asyncio.wrap_future(request.future)
        for index in self.indexes:
            vector = await asyncio.to_thread(index.encode, [_WARM_UP_QUERY])
            await self.run(partial(index.search_vectors, vector, 1))
        await asyncio.to_thread(self._look_at_sources)
        self.is_ready = True

    async def follow_folders(self) -> None:
        """Look for new versions of the folders every few seconds, until the task is canceled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await asyncio.to_thread(self.look)
            except Exception:  # of a library, over files that nobody foresaw; the next look may fare better
                _log.exception("a look for new versions failed")

    def encoder_of(self, features: FeatureSet) -> SharedEncoder:
        """The encoder for sentences that are compared with the words of a set."""
        if features not in self._encoders:
            header, folder = features.header, features.folder
            location = self.model_that_made(header.model, folder).extractor.location
            columns = [column for column in features.columns if not column.pooling.per_document]
            recorded = Extractor.from_record(header.model, header.settings, columns, name=location, where=folder)
            self._encoders[features] = self.share_encoder(recorded)
        return self._encoders[features]

    def share_encoder(self, recorded: Extractor) -> SharedEncoder:
        """An encoder with the columns and settings of a record, whose model is one of the server's."""
        served = self._model_of_name[recorded.identity.fingerprint]
        wanted = Wanted(served.extractor, recorded.columns, recorded.token_settings).without_units()
        return SharedEncoder(recorded.identity, wanted, self.batcher, self.settings.request_seconds)

    def tag(self, tagger: Tagger, texts: Sequence[str]) -> list[dict[str, Any]]:
        """The words of texts with their tags."""
        if tagger not in self._encoders:
            self._encoders[tagger] = self.share_encoder(tagger.extractor)
        documents = self._encoders[tagger].features(texts)
        return [
            {"text": each.text, "words": each.words, "start": each.start, "end": each.end, "tags": each.tags}
            for each in tagger.tag_documents(documents)
        ]

    async def close(self) -> None:
        """Finish the rounds that are being computed; by then, requests are answered, or refused as it ends."""
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
            self.batcher.drop(waiting)  # texts of it that wait are never computed
            raise
        self.metrics.computed(features)
        return features

    async def run(self, work: Callable[[], _T], *, request: Request | None = None) -> _T:
        """Run work that takes a while on a thread, unless the client of the request goes away before it begins.

        Work that fails because a folder was replaced under it is done again, with what is there now.

        Raises:
            QueueFullError: too much waits already.
        """
        if self._searches >= _MOST_SEARCHES:
            raise QueueFullError(1.0)
        self._searches += 1
        result = asyncio.wrap_future(self._searching.submit(lambda: self._work_again(work)))
        try:
            return await (result if request is None else _unless_gone(request, result))
        finally:
            self._searches -= 1
            result.cancel()

    def _work_again(self, work: Callable[[], _T]) -> _T:
        """Do some work; if it fails where a folder was replaced meanwhile, do it with what is there now."""
        before = self._times_opened()
        try:
            return work()
        except UsageError:
            raise
        except BertfeatError:
            self.look(at_once=True)
            if self._times_opened() == before:
                raise
            return work()

    async def _measure(self, texts: Sequence[str], most: int, tokenizer: Tokenizer) -> int:
        """The size of texts in tokens, without special tokens; counting stops at a number above ``most``.

        A text counts as at least an eighth of its characters, since an endless word is one token and minutes of work.
        """
        least = sum(len(text) // _CHARACTERS_A_TOKEN for text in texts)
        return least if least > most else await self.run(lambda: _count_tokens(texts, most, tokenizer))

    async def check_size(self, texts: Sequence[str], wanted: Wanted | None = None) -> None:
        """Refuse more texts, tokens, or values of the answer than a request may have.

        Tokens are those of the wanted model, or of the first one.
        """
        limits = self.settings
        tokenizer = (self.models[0].extractor if wanted is None else wanted.extractor).tokenizer
        if len(texts) > limits.most_texts:
            problem = f"{len(texts):,} texts are more than the {limits.most_texts:,} of a request"
            raise Problem(Kind.TOO_LARGE, problem, param="input")
        prompt = wanted.tokens.prompt if wanted is not None else ""
        if len(prompt) > MAX_TEXT:
            raise Problem(Kind.TOO_LARGE, f"the prompt has more than {MAX_TEXT:,} characters", "prompt")
        most = sum(len(text.encode()) for text in texts) + len(prompt.encode()) * len(texts)
        if most > limits.most_tokens:  # a token has a byte at least
            size = await self._measure(texts, limits.most_tokens, tokenizer)
            size += await self._measure([prompt], limits.most_tokens, tokenizer) * len(texts) if prompt else 0
            if size > limits.most_tokens:
                # some clients send less when they read the words "maximum context length"
                problem = f"there are more tokens than the maximum context length of a request, {limits.most_tokens:,}"
                raise Problem(Kind.TOO_LARGE, problem, param="input")
        if wanted is not None:
            await self._check_answer(texts, wanted, most)

    async def _check_answer(self, texts: Sequence[str], wanted: Wanted, most_pieces: int) -> None:
        """Refuse a request whose answer would fill the memory: vectors of tokens are large."""
        limits = self.settings
        width = sum(column.width for column in wanted.columns if column.pooling.per_document)
        piece_width = sum(column.width for column in wanted.columns) - width
        values = len(texts) * width + most_pieces * piece_width
        if piece_width and values > limits.most_values:
            rule = wanted.tokens.words
            words = await self.run(lambda: int(split_each(texts, rule)[1].sum()))
            tokens = await self._measure(texts, limits.most_tokens, wanted.extractor.tokenizer)
            values = len(texts) * width + max(tokens, words) * piece_width
        if values > limits.most_values:
            problem = f"{values:,} numbers are more than the {limits.most_values:,} of an answer; send fewer texts"
            raise Problem(Kind.TOO_LARGE, f"{problem}, or ask for fewer columns", param="input")


def _models_by_name(models: Sequence[ServedModel]) -> dict[str, ServedModel]:
    """The models by the names that they were given, their own, the last part of these, and their fingerprints."""
    found: dict[str, ServedModel] = {}
    for served in models:
        fingerprint = served.extractor.model.fingerprint
        twins = [other for other in models if other.extractor.model.fingerprint == fingerprint]
        if served is not twins[0]:
            raise UsageError(
                f"{served.extractor.model.name} is served already",
                where=parameter("also_models"),
                remedy=f"give it a second name by {parameter('served_names')}"
                if twins[0] is models[0]
                else "name it once",
            )
        for name in served.names:
            if name in found:
                raise UsageError(
                    f"two models would have the name {name!r}",
                    where=parameter("also_models"),
                    remedy="write NAME=MODEL with another name",
                )
            found[name] = served
    for served in models:
        own = served.extractor.model
        for name in (own.name, own.name.rpartition("/")[2], own.fingerprint):
            found.setdefault(name, served)
    return found


def _count_tokens(texts: Sequence[str], most: int, tokenizer: Tokenizer) -> int:
    size = 0
    for some in _slices(texts):
        found = tokenizer.pieces(some, offsets=False)
        size += sum(
            max(len(pieces.ids), len(text) // _CHARACTERS_A_TOKEN) for text, pieces in zip(some, found, strict=True)
        )
        if size > most:
            break
    return size


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


class ClientGoneError(Exception):
    """Nobody waits for the answer any more."""


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


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_TOKENS = tuple(2**power for power in range(2, 20))


class _Metrics:
    """Counts and times of requests, under the names that text-embeddings-inference gives them.

    prometheus_client would add ``_total`` to the names of counters, so they are its gauges until they are written.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._counters: list[str] = []
        self._count = self._counter("te_request_count", "Requests.", "method")
        self._success = self._counter("te_request_success", "Requests that were answered.", "method")
        self._failure = self._counter("te_request_failure", "Requests that were not.", "err")
        self._duration = self._histogram("te_request_duration", "Seconds of requests.")
        self._tokenization = self._histogram("te_request_tokenization_duration", "Seconds of tokenizing.")
        self._queue = self._histogram("te_request_queue_duration", "Seconds of waiting.")
        self._inference = self._histogram("te_request_inference_duration", "Seconds of computing.")
        self._length = Histogram("te_request_input_length", "Tokens of inputs.", registry=registry, buckets=_TOKENS)
        self._reloads = self._counter("bertfeat_reloads", "New versions that were opened.", "folder")
        self._stale = Gauge("bertfeat_stale", "1: what is open is not what is there.", ["folder"], registry=registry)
        self._documents = Gauge("bertfeat_index_documents", "Documents of an index.", ["folder"], registry=registry)
        self._age = Gauge("bertfeat_index_age_seconds", "Seconds since it was written.", ["folder"], registry=registry)
        self._queue_size = Gauge("te_queue_size", "Requests that wait or are computed.", registry=registry)
        self._waiting = Gauge("bertfeat_waiting_tokens", "Tokens that wait.", registry=registry)
        self._batch_size = Gauge("te_batch_next_size", "Texts of the last round.", registry=registry)
        self._batch_tokens = Gauge("te_batch_next_tokens", "Tokens of the last round.", registry=registry)

    def _counter(self, name: str, about: str, label: str) -> Gauge:
        self._counters.append(name)
        return Gauge(name, about, [label], registry=self._registry)

    def _histogram(self, name: str, about: str) -> Histogram:
        return Histogram(name, about, registry=self._registry, buckets=_SECONDS)

    @contextmanager
    def request(self, method: str) -> Iterator[None]:
        """Count and time a request."""
        self._count.labels(method).inc()
        began = time.perf_counter()
        yield
        self._success.labels(method).inc()
        self._duration.observe(time.perf_counter() - began)

    def failed(self, kind: str) -> None:
        """Count a request that was refused or failed."""
        self._failure.labels(kind).inc()

    def computed(self, features: RequestFeatures) -> None:
        """Note what the batcher did for a request."""
        self._tokenization.observe(features.seconds_tokenizing)
        self._queue.observe(features.seconds_waiting)
        self._inference.observe(features.seconds_computing)
        for tokens in features.n_tokens.tolist():
            self._length.observe(tokens)

    def text(self, service: Service) -> bytes:
        """All metrics, in the form that Prometheus reads."""
        batcher, problems = service.batcher, service.problems()
        for each in service.followed:
            self._reloads.labels(each.name).set(each.opened_again)
            self._stale.labels(each.name).set(each.name in problems)
        for each in service.followed_indexes:
            self._documents.labels(each.name).set(each.value.count().documents)
            self._age.labels(each.name).set(max(0.0, time.time() - each.value.settings.made))
        self._queue_size.set(batcher.requests)
        self._waiting.set(batcher.waiting_tokens)
        texts, tokens = batcher.last_round
        self._batch_size.set(texts)
        self._batch_tokens.set(tokens)
        written = generate_latest(self._registry).decode()
        for name in self._counters:
            written = written.replace(f"# TYPE {name} gauge\n", f"# TYPE {name} counter\n")
        return written.encode()
