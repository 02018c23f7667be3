"""Adapters as far as they go without the libraries that they are for; tests/ecosystem/ runs them with each."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat import adapters
from bertfeat.adapters import MissingLibraryError, check_extractor
from bertfeat.adapters.txtai import txtai_transform
from bertfeat.errors import BertfeatError, UsageError
from tests.support.runs import extractor
from tests.support.tiny_models import TEXTS, Tiny

LIBRARIES = {  # adapter → what it imports first, what pip calls it
    "bertopic": ("bertopic", "bertopic"),
    "keybert": ("keybert", "keybert"),
    "langchain": ("langchain_core", "langchain-core"),
    "llama_index": ("llama_index", "llama-index-core"),
    "haystack": ("haystack", "haystack-ai"),
    "mteb": ("mteb", "mteb"),
    "hugging_face": ("datasets", "datasets"),
}
ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("adapter", LIBRARIES)
def test_a_missing_library_is_named_with_its_command(adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, package = LIBRARIES[adapter]
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, f"bertfeat.adapters.{adapter}", raising=False)
    with pytest.raises(MissingLibraryError, match=f"pip install {package}") as raised:
        importlib.import_module(f"bertfeat.adapters.{adapter}")
    assert isinstance(raised.value, BertfeatError)
    assert isinstance(raised.value, ImportError)


@pytest.mark.slow
def test_the_libraries_wait_until_they_are_wanted() -> None:
    code = "import sys, bertfeat.adapters, bertfeat.adapters.txtai; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = {name.split(".")[0] for name in told.split()}
    assert loaded & {"sentence_transformers", "txtai", *(library for library, _ in LIBRARIES.values())} == set()


def test_every_adapter_is_in_the_list_and_has_its_two_lines() -> None:
    files = {path.stem for path in Path(adapters.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == {*LIBRARIES, "txtai", "pytorch", "scikit_learn"}  # whose libraries are there
    assert set(re.findall(r"^\| `(\w+)` \|", adapters.__doc__ or "", re.MULTILINE)) == files
    for name in files:
        source = (ROOT / "bertfeat" / "adapters" / f"{name}.py").read_text("utf-8")
        assert f"from bertfeat.adapters.{name} import" in source


@pytest.mark.parametrize("given", ["sentence-transformers/all-MiniLM-L6-v2", None, Path("model"), object()])
def test_only_an_extractor_is_taken(given: Any) -> None:
    with pytest.raises(UsageError, match="must be an Extractor or a StoredEncoder, not"):
        txtai_transform(given)


@pytest.mark.parametrize("settings", [{"pooling": "word"}, {"pooling": "mean,cls"}, {"layers": "last,1"}])
def test_only_one_vector_a_text_is_taken(bert: Tiny, settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="one vector a text"):
        check_extractor(extractor(bert, **{"layers": "last"} | settings))


def test_a_function_for_txtai(bert: Tiny) -> None:
    made = extractor(bert, layers="last")
    assert np.array_equal(txtai_transform(made)(list(TEXTS)), made.encode(list(TEXTS)))
    normed = txtai_transform(made, normalize_embeddings=True)(list(TEXTS))
    assert np.allclose(np.linalg.norm(normed, axis=1), 1, atol=1e-6)
