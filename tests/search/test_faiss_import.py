"""Without FAISS, which comes with an extra: what imports it not, and the error of what needs it."""

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules['faiss'] = None\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True)


def test_every_public_name_is_there() -> None:
    done = run("import bertfeat, inspect; print(len(inspect.getmembers(bertfeat)), hasattr(bertfeat, 'Hit'))")
    assert done.stderr == ""
    assert done.stdout.split()[1] == "True"


@pytest.mark.parametrize(
    "use",
    [
        "from bertfeat.search import count_faiss_gpus; count_faiss_gpus()",
        "from bertfeat import Index; Index('nowhere')",
        "from bertfeat.search.metric import Metric; Metric.L2.faiss_metric",
    ],
)
def test_using_it_says_how_it_is_had(use: str) -> None:
    done = run(f"from bertfeat.errors import BertfeatError\ntry:\n    {use}\nexcept BertfeatError as e:\n    print(e)")
    assert done.stderr == ""
    assert "an index needs FAISS, which is not installed: pip install 'bertfeat[cpu]'" in done.stdout


def test_importing_the_room_does_not_import_faiss() -> None:
    code = "import bertfeat.search, bertfeat.search.index, sys; print('faiss' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
