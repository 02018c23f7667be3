"""SAELens trains a sparse autoencoder from the folder that ``export --to saelens`` writes."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertfeat import ContextSettings, CorpusSettings, Extractor, FeatureSet, export_features, write_contexts

pytest.importorskip("sae_lens", reason="make ecosystem installs it")
from sae_lens import TopKTrainingSAE, TopKTrainingSAEConfig
from sae_lens.config import SAETrainerConfig
from sae_lens.training.activations_store import ActivationsStore
from sae_lens.training.sae_trainer import SAETrainer

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
HOOK, SIZE, WIDTH = "blocks.2.hook_mlp_out", 64, 384


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("saelens")
    write_contexts(EXAMPLES / "corpus.txt", place / "rows.parquet", ContextSettings(size=SIZE))
    reading = CorpusSettings(pretokenized=True, text_columns=("token_ids",))
    extractor = Extractor(layers=HOOK, pooling="token", precision="fp32", device="cpu")
    extractor.extract(place / "rows.parquet", place / "rows.features", corpus_settings=reading)
    export_features(place / "rows.features", "saelens", place / "rows.saelens")
    return place


def store_of(folder: Path) -> Any:
    return ActivationsStore(
        model=None,
        dataset=None,
        streaming=False,
        hook_name=HOOK,
        hook_head_index=None,
        context_size=SIZE,
        d_in=WIDTH,
        n_batches_in_buffer=4,
        total_training_tokens=20_000,
        store_batch_size_prompts=4,
        train_batch_size_tokens=256,
        prepend_bos=False,
        normalize_activations="none",
        device=torch.device("cpu"),
        dtype="float32",
        cached_activations_path=str(folder / "rows.saelens"),
    )


def test_its_store_reads_the_rows(folder: Path) -> None:
    activations, ids = store_of(folder).get_raw_llm_batch()
    features = FeatureSet(folder / "rows.features")
    wanted = features.matrix(HOOK, "token")[: 4 * SIZE].astype(np.float32)
    np.testing.assert_array_equal(activations.numpy(), wanted)
    rows = features.to_arrow(["token_ids"])["token_ids"].to_pylist()[:4]
    assert ids.tolist() == [number for row in rows for number in row]


def test_it_trains(folder: Path) -> None:
    torch.manual_seed(0)
    sae = TopKTrainingSAE(TopKTrainingSAEConfig(d_in=WIDTH, d_sae=512, k=16, device="cpu"))
    settings = SAETrainerConfig(total_training_samples=50_000, train_batch_size_samples=256, lr=1e-3, lr_end=1e-3)
    held = torch.from_numpy(FeatureSet(folder / "rows.features").matrix(HOOK, "token").astype(np.float32))

    def unexplained() -> float:
        with torch.no_grad():
            return float((sae(held) - held).pow(2).sum() / (held - held.mean(0)).pow(2).sum())

    before = unexplained()
    SAETrainer(cfg=settings, sae=sae, data_provider=store_of(folder).get_data_loader()).fit()
    assert unexplained() < 0.5 < before
