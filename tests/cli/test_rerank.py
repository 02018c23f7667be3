"""``--rerank maxsim`` of ``search`` and ``evaluate``, from texts to hits, held against NumPy on the same vectors."""

import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from bertfeat import Extractor, MaxSim
from bertfeat.cli import main
from bertfeat.core.features import FeatureSet
from tests.support.commands import find_command
from tests.support.tiny_models import Tiny

TEXTS = (
    "the river bank",
    "a bank of the old town",
    "the mill by the river",
    "a long river " * 12,  # several windows
    "an old man",
    "the town and the mill and the man",
)
QUERIES = ("the old bank", "river mill")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def index(tiny: Callable[[str], Tiny], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [{"_id": f"d{number}", "text": text} for number, text in enumerate(TEXTS)]
    Path("corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = [{"_id": f"q{number}", "text": text} for number, text in enumerate(QUERIES)]
    Path("queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in asked))
    Path("qrels").mkdir()
    Path("qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t1\nq1\td2\t1\nq1\td0\t1\n")
    options = (
        f"--model {tiny('bert').folder} --precision fp32 --device cpu --layers all --pooling mean,token --dtype float32"
    )
    windows = ["--max-length", "16", "--prompt", "passage:"]
    assert run("extract", "corpus.jsonl", *options.split(), *windows).exit_code == 0
    built = run("index", "corpus.features", "--column", "last_mean", "--query-prompt", "query:", "--no-evaluate")
    assert built.exit_code == 0, built.stderr
    return Path("corpus.index")


@cache
def open_extractor(model: Path) -> Extractor:
    return Extractor(
        model,
        layers="all",
        pooling=["mean", "token"],
        precision="fp32",
        device="cpu",
        dtype="float32",
        max_length=16,
        prompt="query:",
    )


def by_hand(query: str, model: Path, layer: int, depth: int | None = None) -> list[tuple[str, float]]:
    """Ids and scores, best first; the vectors are those of an extractor of all layers."""
    (asked,) = open_extractor(model).features([query])
    vector = asked.vector(f"layer{asked.num_layers}_mean").astype(np.float64)
    assert asked.tokens is not None
    assert asked.tokens.strings is not None
    tokens = units(asked.matrix(f"layer{layer}_token"))[1:-1]
    documents = list(FeatureSet("corpus.features"))
    strings = [set(document.tokens.strings[1:-1]) for document in documents]  # type: ignore[union-attr,index]
    df = [sum(token in each for each in strings) for token in asked.tokens.strings[1:-1]]
    idf = np.array([math.log((len(documents) + 1) / (count + 1)) for count in df])
    scored = []
    for document in documents:
        first = float(units(vector) @ units(document.vector("last_mean")))
        best = (tokens @ units(document.matrix(f"layer{layer}_token"))[1:-1].T).max(axis=1)
        scored.append((first, document.id, float(best @ idf / idf.sum()) + 0.5 * first))
    again = sorted(scored, reverse=True)[:depth]
    return [(name, score) for _, name, score in sorted(again, key=lambda each: -each[2])]


def units(matrix: NDArray[np.floating]) -> NDArray[np.float64]:
    unit: NDArray[np.float64] = (matrix / np.linalg.norm(matrix, axis=-1, keepdims=True)).astype(np.float64)
    return unit


def told(*arguments: str | Path) -> list[dict[str, Any]]:
    result = run("search", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    hits: list[dict[str, Any]] = json.loads(result.stdout)["hits"]
    return hits


def assert_ranked(hits: Sequence[dict[str, Any]], expected: Sequence[tuple[str, float]], atol: float) -> None:
    assert [hit["id"] for hit in hits] == [name for name, _ in expected]
    np.testing.assert_allclose([hit["score"] for hit in hits], [score for _, score in expected], atol=atol)
    for hit in hits:
        assert hit["score"] == pytest.approx(hit["maxsim"] + 0.5 * hit["first_score"], abs=2e-6)


def test_hits_are_those_of_numpy(index: Path, tiny: Callable[[str], Tiny]) -> None:
    model = tiny("bert").folder
    for query in QUERIES:
        for layer in (1, tiny("bert").model.num_layers):
            options = ["--rerank", "maxsim", "--rerank-column", f"layer{layer}_token", "--device", "cpu"]
            assert_ranked(told(index, query, *options), by_hand(query, model, layer), 5e-5)
        four = told(index, query, "--rerank", "maxsim", "--rerank-depth", "4", "-k", "2", "--device", "cpu")
        assert_ranked(four, by_hand(query, model, tiny("bert").model.num_layers, depth=4)[:2], 5e-5)


def test_an_index_with_tokens_needs_no_features(index: Path, tiny: Callable[[str], Tiny]) -> None:
    built = run("index", "corpus.features", "--column", "last_mean", "--no-evaluate", "--query-prompt", "query:",
                "--with-tokens", "layer1_token", "-o", index)  # fmt: skip
    assert "layer1_token, int8" in built.stdout
    expected = by_hand(QUERIES[0], tiny("bert").folder, 1)
    Path("corpus.features").rename("gone.features")
    hits = told(index, QUERIES[0], "--rerank", "maxsim", "--device", "cpu")
    scores = dict(expected)
    for hit in hits:
        assert hit["score"] == pytest.approx(scores[hit["id"]], abs=0.02)
    assert "layer1_token, int8" in run("info", index).stdout
    assert json.loads(run("info", index, "--json").stdout)["tokens"]["column"]["dtype"] == "int8"
    assert run("verify", index).exit_code == 0


def test_an_index_keeps_fewer_vectors_than_tokens(index: Path) -> None:
    build = ("index", "corpus.features", "--column", "last_mean", "--no-evaluate", "-o", index)
    run(*build, "--with-tokens", "layer1_token")
    whole = json.loads(run("info", index, "--json").stdout)["tokens"]
    built = run(*build, "--with-tokens", "layer1_token", "--pool-tokens", "2")
    assert "layer1_token, int8, 2 times fewer than tokens" in built.stdout
    pooled = json.loads(run("info", index, "--json").stdout)["tokens"]
    assert (whole["pooled"], pooled["pooled"]) == (1, 2)
    assert whole["count"] / 2 <= pooled["count"] < whole["count"]
    assert pooled["distinct"] == whole["distinct"]
    assert run("search", index, QUERIES[0], "--rerank", "maxsim").exit_code == 0
    assert run("verify", index).exit_code == 0
    refused = run(*build, "--pool-tokens", "2")
    assert (refused.exit_code, "--with-tokens" in refused.stderr) == (2, True)


def test_scores_of_a_beir_folder(index: Path, tiny: Callable[[str], Tiny]) -> None:
    pytest.importorskip("ir_measures")
    layers = tiny("bert").model.num_layers
    result = run("evaluate", index, "--beir", ".", "--rerank", "maxsim", "--json")
    assert result.exit_code == 0, result.stderr
    reciprocal, judged = [], {QUERIES[0]: {"d1"}, QUERIES[1]: {"d2", "d0"}}
    for query, right in judged.items():
        ranked = [name for name, _ in by_hand(query, tiny("bert").folder, layers)]
        reciprocal.append(1 / min(ranked.index(name) + 1 for name in right))
    assert json.loads(result.stdout)["mrr"] == pytest.approx(np.mean(reciprocal), abs=1e-5)
    one = run("evaluate", index, "--beir", ".", "--rerank", "maxsim", "--rerank-depth", "1", "--json")
    assert json.loads(one.stdout) == json.loads(result.stdout)  # as many hits as a search asks for, as in search


def test_a_set_that_is_gone_is_an_error_with_a_remedy(index: Path) -> None:
    Path("corpus.features").rename("gone.features")
    result = run("search", index, "bank", "--rerank", "maxsim")
    assert result.exit_code == 1
    assert "put it back, or build the index anew with --with-tokens: it then has its own" in result.stderr


def test_options_have_the_defaults_of_the_class() -> None:
    defaults = {option.name: option.default for option in find_command(("search",)).params}
    assert defaults["rerank_idf"] == MaxSim().idf
