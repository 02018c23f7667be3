"""Features as a scikit-learn transformer, for pipelines, grid searches and the like."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import Extractor, take_texts, unit_vectors
from bertfeat.errors import UsageError, WrongTypeError, needed_library

with needed_library("FeatureTransformer needs scikit-learn", "bertfeat[analysis]"):
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils import Tags


class FeatureTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Turns texts into document vectors; several recipes and poolings stand side by side, as ``[n, width]``.

    The parameters are those of :class:`bertfeat.Extractor`, and ``normalize``. There is nothing to learn: ``fit`` only
    looks up the model and checks the settings, and ``transform`` works without it. A pickled transformer holds the
    settings, not the weights.

    ::

        from bertfeat.adapters.scikit_learn import FeatureTransformer
        pipeline = make_pipeline(FeatureTransformer(), LogisticRegression()).fit(texts, labels)
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        normalize: bool = False,
        layers: str | Sequence[str] | None = None,
        pooling: str | Sequence[str] | None = None,
        precision: str = "auto",
        device: str | None = None,
        long: str = "window",
        max_length: int | None = None,
        special_tokens: bool = True,
        batch_tokens: int | None = None,
        prompt: str | None = None,
        revision: str | None = None,
    ) -> None:
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.precision = precision
        self.long = long
        self.max_length = max_length
        self.device = device
        self.special_tokens = special_tokens
        self.batch_tokens = batch_tokens
        self.prompt = prompt
        self.revision = revision
        self.normalize = normalize  # each text's vectors together to length 1

    @checked
    def fit(self, X: Iterable[str], y: object = None) -> Self:
        """Look up the model and check the settings; the texts are checked, but not embedded.

        Raises:
            UsageError: a setting that cannot be right, token or word pooling among them.
            WrongTypeError: something other than texts.
        """
        _check_texts(X)
        self._extractor_of_settings()
        return self

    @checked
    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """Embed texts. Shape: ``[n, width]``, float32, in the order of the texts.

        Raises:
            WrongTypeError: something other than texts.
            UsageError: a text that cannot be embedded.
        """
        extractor, texts = self._extractor_of_settings(), _check_texts(X)
        vectors = np.empty((len(texts), sum(column.width for column in extractor.columns)), np.float32)
        at = 0
        for content in extractor.contents(texts) if texts else ():
            beside = np.hstack([content.vectors[column.name] for column in extractor.columns])
            vectors[at : at + len(beside)] = beside
            at += len(beside)
        return unit_vectors(vectors) if self.normalize else vectors

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Name the features by column and place: ``last_mean_0`` and so on."""
        columns = self._extractor_of_settings().columns
        return np.array([f"{column.name}_{at}" for column in columns for at in range(column.width)], dtype=object)

    def _extractor_of_settings(self) -> Extractor:
        """The extractor of the current settings; made again only after a parameter has changed."""
        settings = self.get_params(deep=False)
        cached: tuple[dict[str, object], Extractor] | None = self.__dict__.get("_cached")
        if cached is None or cached[0] != settings:
            _check_normalize(normalize=self.normalize)
            extractor = Extractor(**{name: value for name, value in settings.items() if name != "normalize"})
            if others := [column.name for column in extractor.columns if not column.pooling.per_document]:
                raise UsageError(f"a transformer gives one vector a text, which {', '.join(others)} are not")
            self._cached = cached = (settings, extractor)
        return cached[1]

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in super().__getstate__().items() if name != "_cached"}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []
        return tags


@checked
def _check_normalize(*, normalize: bool) -> None:
    """Check the parameter that is not the Extractor's; the constructor keeps arguments as given, for ``clone``."""


def _check_texts(X: object) -> list[str]:
    """Take a list of texts as ``encode`` does; refuse a single string, and pairs."""
    texts = take_texts(X)
    if texts.single:
        raise WrongTypeError("give a list of texts, not one string")
    strings = [item for item in texts.items if isinstance(item, str)]
    if len(strings) < len(texts.items):
        number, other = next((at, item) for at, item in enumerate(texts.items, 1) if not isinstance(item, str))
        raise WrongTypeError(f"text {number} is of type {type(other).__name__}, not a string")
    return strings
