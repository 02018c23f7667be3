"""The benchmark of a user's corpus: what it counts, and that its parts add up."""

import itertools
import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from bertfeat import Extractor
from bertfeat.cli import main
from bertfeat.core.corpus import memory_corpus
from bertfeat.core.encoder import Precision, block_flop, kernels_in_use, peak_rate, product_rate
from bertfeat.core.extraction.speed import compare_precisions, made_up_documents, measure_speed
from bertfeat.errors import CorpusError
from bertfeat.io.timing import recorded_stages, stage
from tests.support.tiny_models import build

CPU = torch.device("cpu")
TEXTS = ["a river", "", "the bank of the river", "money in the bank", "a heron"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_operations_are_those_of_the_four_products() -> None:
    hidden, inner = 12, 48
    products = [(hidden, 3 * hidden), (hidden, hidden), (hidden, inner), (inner, hidden)]
    assert block_flop(hidden, inner) == sum(2 * n * k for n, k in products) == 24 * hidden**2


@pytest.fixture
def steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every look at the clock find it a second later."""
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))


@pytest.mark.usefixtures("steady_clock")
def test_the_rate_is_the_operations_of_all_rows_a_second() -> None:
    rate = product_rate(32, 64, Precision.FP32, CPU, rows=10, repeats=2)
    assert rate == 10 * 2 * (32 * 96 + 32 * 32 + 32 * 64 + 64 * 32)


@pytest.mark.usefixtures("steady_clock")
@pytest.mark.parametrize("precision", Precision)
def test_the_peak_is_the_operations_of_all_threads_a_second(precision: Precision) -> None:
    rate = peak_rate(precision, CPU)
    if kernels_in_use(CPU, precision) in ("none", "neon"):
        assert rate is None
    else:
        assert rate == 50_000_000 * torch.get_num_threads()  # a tenth of what the first, probing loop does in a second


@pytest.mark.usefixtures("steady_clock")
def test_stages_add_up_while_recorded_and_only_then() -> None:
    with stage("before"):
        pass
    with recorded_stages() as seconds:
        for _ in range(2):
            with stage("work"):
                pass
        with stage("other work"):
            pass
    with stage("after"):
        pass
    assert seconds == {"work": 2.0, "other work": 1.0}


@pytest.mark.parametrize("layers", ["last", "1"])
def test_speed_of_a_small_corpus(tmp_path: Path, layers: str) -> None:
    extractor = Extractor(build("bert", tmp_path / "bert"), layers=layers, pooling="mean")
    found = measure_speed(extractor, memory_corpus(TEXTS), documents=4, repeats=3, folder=tmp_path)
    assert found.documents == 4
    assert found.columns == (("last_mean" if layers == "last" else "layer1_mean"),)
    assert len(found.runs) == 3
    assert found.tokens_per_second == sorted(found.runs)[1]
    assert {"embed", "QKV", "attention", "FFN", "pooling", "other"} <= set(found.stages)
    assert set(found.overlapped) == {"tokenize", "write"}
    waited = found.waited_for_tokens + found.waited_for_disk
    assert sum(found.stages.values()) + waited == pytest.approx(found.seconds, abs=0.05)
    assert found.ceiling_tokens_per_second is not None
    assert found.share_of_ceiling == pytest.approx(found.tokens_per_second / found.ceiling_tokens_per_second)
    if found.peak_tokens_per_second is not None:
        assert found.share_of_peak == pytest.approx(found.tokens_per_second / found.peak_tokens_per_second)
    assert not list(tmp_path.glob("bertfeat-bench-*")), "what was written is deleted"


def test_an_encoder_of_transformers_has_no_ceiling(tmp_path: Path) -> None:
    extractor = Extractor(build("albert", tmp_path / "albert"), pooling="mean")
    found = measure_speed(extractor, memory_corpus(TEXTS), documents=9, repeats=1)
    assert (found.ceiling_tokens_per_second, found.share_of_ceiling) == (None, None)
    assert (found.peak_tokens_per_second, found.share_of_peak) == (None, None)
    assert "forward" in found.stages


def test_precisions_are_compared_with_fp32(tmp_path: Path) -> None:
    folder = build("bert", tmp_path / "bert")
    exact, rounded = (
        Extractor(folder, layers=["last", "embeddings"], pooling="mean", precision=each) for each in ("fp32", "int8")
    )
    found = compare_precisions([rounded, exact], exact, memory_corpus(TEXTS), documents=4, repeats=3, folder=tmp_path)
    assert (found.documents, found.compared, len(found.precisions)) == (4, 4, 2)
    assert [each.precision for each in found.precisions] == ["int8", "fp32"]
    first, second = found.precisions
    assert (first.ratio, second.ratio) == (1.0, second.tokens_per_second / first.tokens_per_second)
    assert first.runs[1] == first.tokens_per_second
    texts = TEXTS[:4]  # an empty text is a document, too
    for extractor, each in ((rounded, first), (exact, second)):
        for deviation in each.deviations:
            pairs = [
                (a.stored[deviation.column].astype(float), b.stored[deviation.column].astype(float))
                for a, b in zip(extractor.features(texts), exact.features(texts), strict=True)
            ]
            cosines = [float(a @ b / (a @ a) ** 0.5 / (b @ b) ** 0.5) for a, b in pairs]
            assert deviation.min_cosine == pytest.approx(min(cosines), abs=1e-6)
            assert deviation.mean_cosine == pytest.approx(sum(cosines) / len(cosines), abs=1e-6)
            assert deviation.max_absolute == pytest.approx(max(abs(a - b).max() for a, b in pairs), abs=1e-5)
    assert [deviation.max_absolute for deviation in second.deviations] == [0.0, 0.0]
    assert not list(tmp_path.glob("bertfeat-bench-*"))


def test_nothing_to_measure_with_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no document"):
        measure_speed(Extractor(build("bert", tmp_path / "bert")), memory_corpus([]))
    with pytest.raises(CorpusError, match="no document"):
        compare_precisions([], Extractor(tmp_path / "bert", precision="fp32"), memory_corpus([]))


def test_made_up_documents_are_whole_words_and_always_the_same(tmp_path: Path) -> None:
    extractor = Extractor(build("bert", tmp_path / "bert"))
    made = made_up_documents(extractor, 20)
    assert made == made_up_documents(extractor, 20)
    assert len({document.text for document in made}) > 10
    assert extractor.features([document.text for document in made])


def test_bench_prints_a_table_or_json(tmp_path: Path) -> None:
    model = str(build("bert", tmp_path / "bert"))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXTS))
    told = run("bench", str(corpus), "--model", model, "--repeats", "1")
    assert told.exit_code == 0, told.output
    assert "tokens/s" in told.stdout
    assert "attention" in told.stdout
    found = json.loads(run("bench", "--documents", "5", "--model", model, "--repeats", "1", "--json").stdout)
    assert found["documents"] == 5
    assert found["precision"] in ("fp32", "bf16")


def test_bench_compares_precisions(tmp_path: Path) -> None:
    common = ("bench", "--documents", "5", "--model", str(build("bert", tmp_path / "bert")), "--repeats", "1")
    told = run(
        *common, "--precisions", "fp32,int8", "--precisions", "int8", "--layers", "last,1", "--pooling", "mean,token"
    )
    assert told.exit_code == 0, told.output
    assert "cosine with fp32, of 5 documents" in told.stdout
    assert [line.split()[:2] for line in told.stdout.splitlines()[-8:]] == [
        [column, precision]
        for column in ("last_mean", "last_token", "layer1_mean", "layer1_token")
        for precision in ("fp32", "int8")
    ]
    found = json.loads(run(*common, "--precisions", "int8", "--json").stdout)
    assert [each["precision"] for each in found["precisions"]] == ["int8"]
    assert 0.99 < found["precisions"][0]["deviations"][0]["min_cosine"] <= 1


def test_the_ceiling_of_int8_is_that_of_its_own_products() -> None:
    assert product_rate(32, 64, Precision.INT8, torch.device("cpu"), rows=10, repeats=1) > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--precisions", "int7"], "'int7' is unknown; did you mean int8? known are fp32, bf16, fp16, int8"),
        (["--precisions", ""], "--precisions"),
        (["--precisions", "fp32", "--precision", "bf16"], "give one of the two"),
        (["nowhere.txt"], "nowhere.txt"),
        (["--repeats", "0"], "--repeats"),
        (["--documents", "x"], "--documents"),
        (["--layers", "99"], "99"),
        (["--device", "tpu"], "tpu"),
    ],
)
def test_wrong_uses_are_told(arguments: list[str], told: str) -> None:
    result = run("bench", *arguments)
    assert result.exit_code in (1, 2)
    assert told in result.stderr
    assert "Traceback" not in result.output
