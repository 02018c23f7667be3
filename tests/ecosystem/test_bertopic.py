"""BERTopic: the topics of an Extractor's vectors are those of SentenceTransformer's."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat import Extractor

pytest.importorskip("bertopic", reason="make ecosystem installs it")
from bertopic import BERTopic
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from bertfeat.adapters.bertopic import BertopicBackend


def small(model: Any, **settings: Any) -> BERTopic:
    """Topics without UMAP and HDBSCAN, whose compilation takes longer than all else here."""
    parts = {"umap_model": PCA(5, random_state=0), "hdbscan_model": KMeans(12, n_init=4, random_state=0)}
    return BERTopic(embedding_model=model, **parts | settings)


def test_topics(ours: Extractor, theirs: Any, texts: list[str], tmp_path: Path) -> None:
    found, wanted = small(BertopicBackend(ours, normalize_embeddings=True)), small(theirs)
    assert found.fit_transform(texts)[0] == wanted.fit_transform(texts)[0]
    assert found.get_topic_info().Name.tolist() == wanted.get_topic_info().Name.tolist()
    new = ["A trout jumps in the stream.", "The bank lends money to farmers."]
    assert np.array_equal(found.transform(new)[0], wanted.transform(new)[0])
    assert found.find_topics("rivers and water", top_n=3)[0] == wanted.find_topics("rivers and water", top_n=3)[0]
    found.save(tmp_path / "topics", serialization="pickle")
    assert np.array_equal(BERTopic.load(tmp_path / "topics").transform(new)[0], wanted.transform(new)[0])


def test_topics_by_umap_and_hdbscan(ours: Extractor, texts: list[str]) -> None:
    """UMAP turns differences in the seventh digit into other topics, so both sides have the very same vectors."""
    from hdbscan import HDBSCAN
    from umap import UMAP

    def usual() -> BERTopic:
        near = UMAP(n_neighbors=8, n_components=3, min_dist=0.0, metric="cosine", random_state=0)
        return small(BertopicBackend(ours), umap_model=near, hdbscan_model=HDBSCAN(min_cluster_size=6))

    found = usual().fit_transform(texts)[0]
    assert found == usual().fit_transform(texts, embeddings=ours.encode(texts))[0]
    assert len(set(found)) > 1


def test_words_are_embedded_by_the_extractor(ours: Extractor, theirs: Any, texts: list[str]) -> None:
    from bertopic.representation import KeyBERTInspired

    found, wanted = (
        small(model, representation_model=KeyBERTInspired(random_state=0))
        for model in (BertopicBackend(ours, normalize_embeddings=True), theirs)
    )
    found.fit(texts)
    wanted.fit(texts)
    assert found.get_topic_info().Representation.tolist() == wanted.get_topic_info().Representation.tolist()


def test_an_extractor_itself_is_refused_and_no_other_model_is_loaded(ours: Extractor, texts: list[str]) -> None:
    with pytest.raises(ValueError, match="Please select a correct SentenceTransformers model"):
        small(ours).fit_transform(texts)


def test_a_pipeline_of_scikit_learn_is_taken_without_an_adapter(texts: list[str], theirs: Any) -> None:
    from sklearn.pipeline import make_pipeline

    from bertfeat.adapters.scikit_learn import FeatureTransformer

    alike = FeatureTransformer(precision="fp32", max_length=256, long="truncate", normalize=True, device="cpu")
    assert small(make_pipeline(alike)).fit_transform(texts)[0] == small(theirs).fit_transform(texts)[0]
