"""Pictures of maps are laid out by PCA where a test names no method, which takes no time."""

import pytest


@pytest.fixture(autouse=True)
def _pca_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.plots.map.best_method", lambda _points: "pca")
