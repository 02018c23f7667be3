"""The default model twice, as bertfeat and as sentence-transformers load it, and texts for both."""

from pathlib import Path
from typing import Any

import pytest

from bertfeat import Extractor
from tests.support.sentence_models import oracle, peer, sentence_folder
from tests.support.tiny_models import build

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Other libraries' warnings are theirs."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """303 sentences, by topic: rivers, money, sport, music and eleven more."""
    return (EXAMPLES / "corpus.txt").read_text("utf-8").splitlines()


@pytest.fixture(scope="session")
def ours() -> Extractor:
    return Extractor(precision="fp32", device="cpu", max_length=256, long="truncate")


@pytest.fixture(scope="session")
def theirs(ours: Extractor) -> Any:
    """The same files in sentence-transformers; its Normalize module is ``normalize_embeddings=True`` here."""
    return oracle(ours.model.folder)


@pytest.fixture(scope="session")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Extractor, Any]:
    """A tiny model with a prompt for queries and another for documents, as both load it."""
    folder = tmp_path_factory.mktemp("prompted")
    prompts = {"query": "find: ", "document": "text: "}
    made = sentence_folder(build("bert", folder / "bert"), folder / "sentence", prompts=prompts)
    return peer(made), oracle(made)
