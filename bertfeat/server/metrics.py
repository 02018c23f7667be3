"""Counts and times of requests, under the names that text-embeddings-inference has given them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from bertfeat.server.batching import Batcher
from bertfeat.server.text_request import RequestFeatures

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_TOKENS = tuple(2**power for power in range(2, 20))


class Metrics:
    """The metrics of one server.

    Counts are gauges to prometheus_client, which else would have their names end in ``_total``.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._count = Gauge("te_request_count", "Requests.", ["method"], registry=registry)
        self._success = Gauge("te_request_success", "Requests that were answered.", ["method"], registry=registry)
        self._failure = Gauge("te_request_failure", "Requests that were not.", ["err"], registry=registry)
        self._duration = self._histogram("te_request_duration", "Seconds of requests.")
        self._tokenization = self._histogram("te_request_tokenization_duration", "Seconds of tokenizing.")
        self._queue = self._histogram("te_request_queue_duration", "Seconds of waiting.")
        self._inference = self._histogram("te_request_inference_duration", "Seconds of computing.")
        self._length = Histogram("te_request_input_length", "Tokens of inputs.", registry=registry, buckets=_TOKENS)
        self._queue_size = Gauge("te_queue_size", "Requests that wait or are computed.", registry=registry)
        self._waiting = Gauge("bertfeat_waiting_tokens", "Tokens that wait.", registry=registry)
        self._batch_size = Gauge("te_batch_next_size", "Texts of the last round.", registry=registry)
        self._batch_tokens = Gauge("te_batch_next_tokens", "Tokens of the last round.", registry=registry)

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

    def text(self, batcher: Batcher) -> bytes:
        """All metrics, in the form that Prometheus reads."""
        self._queue_size.set(batcher.requests)
        self._waiting.set(batcher.waiting_tokens)
        texts, tokens = batcher.last_round
        self._batch_size.set(texts)
        self._batch_tokens.set(tokens)
        return generate_latest(self._registry)
