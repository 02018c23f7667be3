"""A server with an index and a set of words, whose limits are low."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bertfeat import CorpusSettings, Extractor, build_index
from bertfeat.server import ServerSettings, open_service
from tests.support.live_server import (
    BODY_SECONDS,
    MOST_BODY,
    TEXTS,
    Live,
    serving,
)
from tests.support.tiny_models import Tiny


@pytest.fixture(scope="module")
def place(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index and a set of words."""
    place = tmp_path_factory.mktemp("attacked")
    rows = [{"text": f"{text} {number}", "year": 1900 + number} for number, text in enumerate(TEXTS * 10)]
    (place / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    extractor = Extractor(tiny("bert").folder, pooling="mean,word", layers="last,1", precision="fp32")
    extractor.extract(place / "c.jsonl", place / "c.features", corpus_settings=CorpusSettings(keep=("year",)))
    build_index(place / "c.features", place / "c.index", column="last_mean")
    return place


@pytest.fixture(scope="module")
def live(place: Path) -> Iterator[Live]:
    settings = ServerSettings(
        most_body=MOST_BODY,
        body_seconds=BODY_SECONDS,
        request_seconds=20.0,
        most_connections=60,
        most_texts=500,
        most_tokens=50_000,
        most_values=2**22,
        accept_token_ids=False,
    )
    with serving(open_service([place / "c.index", place / "c.features"], settings)) as live:
        yield live


@pytest.fixture(autouse=True)
def stays_alive(request: pytest.FixtureRequest) -> Iterator[None]:
    """The server of a test is well after it, and nothing waits."""
    yield
    if "live" in request.fixturenames:
        live: Live = request.getfixturevalue("live")
        assert live.is_well()
        live.wait_until_idle()
