"""sentence-transformers' own evaluators, utilities and losses take an Extractor and find what they find otherwise."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from datasets import Dataset
    from sentence_transformers import util
    from sentence_transformers.sentence_transformer import evaluation, losses

from bertfeat.errors import UsageError
from tests.support.runs import lines
from tests.support.sentence_models import oracle, peer, sentence_folder
from tests.support.tiny_models import Tiny
from tests.support.tiny_tokenizers import SENTENCES

LEFT, RIGHT = lines(30), lines(30, first=17)
OTHER = lines(30, first=50)
GRADES = [(7 * (at % len(SENTENCES)) % 11) / 10 for at in range(30)]
"""Equal for pairs that differ in their numbers alone, whose scores are equal but for the last bit."""
QUERIES: dict[str, Any] = {f"q{at}": text for at, text in enumerate(LEFT[:8])}
CORPUS: dict[str, Any] = {f"d{at}": text for at, text in enumerate(RIGHT + OTHER)}
RELEVANT = {query: {f"d{at}", f"d{at + 9}"} for at, query in enumerate(QUERIES)}
RERANKED: list[Any] = [{"query": a, "positive": [b], "negative": OTHER[:5]} for a, b in zip(LEFT, RIGHT, strict=True)][
    :6
]
FRAME = [{"en": a, "de": b} for a, b in zip(LEFT, RIGHT, strict=True)]
QUIET: dict[str, Any] = {"show_progress_bar": False, "write_csv": False}


@pytest.fixture(scope="module")
def models(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """An Extractor and a SentenceTransformer of one folder, with prompts for queries and documents."""
    at = tmp_path_factory.mktemp("evaluated") / "bert"
    folder = sentence_folder(tiny("bert").folder, at, prompts={"query": "find: ", "document": "text: "})
    return peer(folder), oracle(folder)


EVALUATORS: dict[str, Callable[[Any], Any]] = {
    "similarity": lambda _: evaluation.EmbeddingSimilarityEvaluator(LEFT, RIGHT, GRADES, **QUIET),
    "similarity, four measures": lambda _: evaluation.EmbeddingSimilarityEvaluator(
        LEFT, RIGHT, GRADES, similarity_fn_names=["cosine", "dot", "euclidean", "manhattan"], **QUIET
    ),
    "similarity, ubinary": lambda _: evaluation.EmbeddingSimilarityEvaluator(
        LEFT, RIGHT, GRADES, precision="ubinary", **QUIET
    ),
    "similarity, truncated": lambda _: evaluation.EmbeddingSimilarityEvaluator(
        LEFT, RIGHT, GRADES, truncate_dim=9, **QUIET
    ),
    "retrieval": lambda _: evaluation.InformationRetrievalEvaluator(QUERIES, CORPUS, RELEVANT, **QUIET),
    "retrieval, prompts": lambda _: evaluation.InformationRetrievalEvaluator(
        QUERIES, CORPUS, RELEVANT, query_prompt="q: ", corpus_prompt_name="query", **QUIET
    ),
    "classification": lambda _: evaluation.BinaryClassificationEvaluator(
        LEFT, RIGHT, [int(grade > 0.5) for grade in GRADES], **QUIET
    ),
    "triplets": lambda _: evaluation.TripletEvaluator(LEFT, RIGHT, OTHER, **QUIET),
    "reranking": lambda _: evaluation.RerankingEvaluator(RERANKED, at_k=5, **QUIET),
    "translation": lambda _: evaluation.TranslationEvaluator(LEFT, RIGHT, **QUIET),
    "paraphrases": lambda _: evaluation.ParaphraseMiningEvaluator(
        CORPUS, [("d0", "d9"), ("d1", "d10"), ("d3", "d30")], **QUIET
    ),
    "squares": lambda model: evaluation.MSEEvaluator(LEFT, RIGHT, teacher_model=model, **QUIET),
    "squares of a frame": lambda model: evaluation.MSEEvaluatorFromDataFrame(
        FRAME, model, [("en", "de")], write_csv=False
    ),
}


RANKING = ("retrieval", "retrieval, prompts", "reranking", "paraphrases")
"""Those that count ranks: texts that differ in their numbers alone may change places by the last digit of a score."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", EVALUATORS)
def test_evaluators(models: tuple[Any, Any], name: str) -> None:
    ours, theirs = models
    evaluator, another = EVALUATORS[name](ours), EVALUATORS[name](theirs)
    found, wanted = ours.evaluate(evaluator), theirs.evaluate(another)
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-3 if name in RANKING else 1e-6)
    assert ours.model_card_data.eval_results_dict[evaluator] == pytest.approx(found)
    primary = evaluator.primary_metric
    assert ours.model_card_data.training_logs[-1].get(primary) == found.get(primary)


def test_evaluators_in_a_row(models: tuple[Any, Any]) -> None:
    ours, theirs = models
    names = ("similarity", "triplets")
    made = [evaluation.SequentialEvaluator([EVALUATORS[name](one) for name in names]) for one in models]
    assert made[0](ours) == pytest.approx(made[1](theirs), abs=1e-6)


def assert_same_hits(ours: list[Any], theirs: list[Any], tie: float = 1e-5) -> None:
    """The same scores in the same order, and the same texts but for those whose scores differ by less than ``tie``."""
    assert [hit["score"] for hit in ours] == pytest.approx([hit["score"] for hit in theirs], abs=tie)
    scores = {hit["corpus_id"]: hit["score"] for hit in theirs}
    least = theirs[-1]["score"]  # what is tied with it may have been left out
    for hit in ours:
        assert hit["score"] == pytest.approx(scores.get(hit["corpus_id"], least), abs=tie)


def test_search_mining_and_communities(models: tuple[Any, Any]) -> None:
    texts = [*LEFT, *OTHER]
    vectors = [one.encode(texts, convert_to_tensor=True) for one in models]
    for ours, theirs in zip(*(util.semantic_search(one[:5], one, top_k=4) for one in vectors), strict=True):
        assert_same_hits(ours, theirs)
    ours, theirs = (util.community_detection(one, threshold=0.9, min_community_size=2) for one in vectors)
    assert [set(community) for community in ours] == [set(community) for community in theirs]
    found, wanted = ({(a, b): score for score, a, b in util.paraphrase_mining(one, texts, top_k=3)} for one in models)
    assert sorted(found.values()) == pytest.approx(sorted(wanted.values()), abs=1e-5)
    both = found.keys() & wanted.keys()  # of pairs that are tied for a text's third place either may be there
    assert {pair: found[pair] for pair in both} == pytest.approx({pair: wanted[pair] for pair in both}, abs=1e-5)
    assert len(both) > 0.8 * len(wanted)


@pytest.mark.parametrize("use_faiss", [False, True])
def test_hard_negatives(models: tuple[Any, Any], tmp_path: Path, use_faiss: bool) -> None:
    pairs = Dataset.from_dict({"query": LEFT[:9], "answer": RIGHT[:9]})
    settings: dict[str, Any] = {"corpus": OTHER, "num_negatives": 2, "relative_margin": 0.01, "verbose": False}
    found, wanted = (
        util.mine_hard_negatives(pairs, one, cache_folder=str(tmp_path / str(at)), use_faiss=use_faiss, **settings)
        for at, one in enumerate(models)
    )
    assert found.to_dict() == wanted.to_dict()
    assert found.num_rows > 0


@pytest.mark.parametrize(
    "loss",
    [losses.CoSENTLoss, losses.MultipleNegativesRankingLoss, losses.CosineSimilarityLoss, losses.OnlineContrastiveLoss],
)
def test_losses_of_a_frozen_model(models: tuple[Any, Any], loss: Any) -> None:
    labels = torch.tensor([float(grade > 0.5) for grade in GRADES[:10]])
    with torch.no_grad():
        found, wanted = (
            loss(one)([one.preprocess(LEFT[:10], prompt="a: "), one.preprocess(RIGHT[:10])], labels) for one in models
        )
    assert float(found) == pytest.approx(float(wanted), abs=1e-5)


def test_features_of_another_model(models: tuple[Any, Any]) -> None:
    with pytest.raises(UsageError, match="preprocess"):
        models[0](models[1].preprocess(["a"]))
