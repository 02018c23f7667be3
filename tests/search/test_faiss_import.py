"""Without FAISS, which comes with an extra: what imports it not, and the error of what needs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.index_toy import clustered, vector_set

WITHOUT = "import sys; sys.modules['faiss'] = None\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True)


@pytest.mark.slow
def test_every_public_name_is_there() -> None:
    done = run("import bertfeat, inspect; print(len(inspect.getmembers(bertfeat)), hasattr(bertfeat, 'Hit'))")
    assert done.stderr == ""
    assert done.stdout.split()[1] == "True"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "use",
    [
        "from bertfeat.search import count_faiss_gpus; count_faiss_gpus()",
        "from bertfeat import Index; Index('nowhere')",
        "from bertfeat.search.vectors.metric import Metric; Metric.L2.faiss_metric",
    ],
)
def test_using_it_says_how_it_is_had(use: str) -> None:
    done = run(f"from bertfeat.errors import BertfeatError\ntry:\n    {use}\nexcept BertfeatError as e:\n    print(e)")
    assert done.stderr == ""
    assert "an index needs FAISS, which is not installed; pip install 'bertfeat[faiss]'" in done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["Hit", "Index", "build_index", "find_usages"])
def test_public_names_can_be_imported(name: str) -> None:
    done = run(f"import bertfeat; from bertfeat import {name}; print(getattr(bertfeat, 'nonsense', 'missing'))")
    assert (done.stdout.strip(), done.stderr) == ("missing", "")


def test_a_search_by_vectors_needs_no_torch(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(20))
    code = (
        "import sys; from bertfeat.search import Index, build_index, verify_index\n"
        f"build_index({str(tmp_path / 'toy.features')!r}, {str(tmp_path / 'toy.index')!r})\n"
        f"index = Index({str(tmp_path / 'toy.index')!r}); verify_index(index.vectors.folder)\n"
        "index.search_vectors(index.reconstruct([3]))\n"
        "print({'torch', 'transformers', 'tokenizers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")


def test_importing_the_room_does_not_import_faiss() -> None:
    code = "import bertfeat.search, bertfeat.search.index, bertfeat.usages.search, sys; print('faiss' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
