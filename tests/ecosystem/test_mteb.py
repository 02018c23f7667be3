"""MTEB: tasks made here score with an Extractor what they score with SentenceTransformer."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

from pathlib import Path
from typing import Any

import pytest

from bertfeat import Extractor

pytest.importorskip("mteb", reason="make ecosystem installs it")
import mteb
from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTaskClassification, AbsTaskRetrieval, AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.models.models_protocols import EncoderProtocol

from bertfeat.adapters.mteb import MtebEncoder
from tests.support.sentence_models import oracle, peer

TEXTS = (Path(__file__).parent.parent.parent / "examples" / "corpus.txt").read_text("utf-8").splitlines()
HALF = len(TEXTS) // 2
ROWS = [{"text": text, "label": row // 60} for row, text in enumerate(TEXTS)]  # the corpus goes from topic to topic


def described(name: str, kind: str, score: str) -> TaskMetadata:
    return TaskMetadata(
        name=name,
        type=kind,
        main_score=score,
        description="Made of the example corpus",
        dataset={"path": "NA", "revision": "NA"},
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
    )


class LocalSTS(AbsTaskSTS):
    """Pairs of sentences, graded by how far they stand from each other."""

    metadata = described("LocalSTS", "STS", "cosine_spearman")
    min_score, max_score = 0, 1

    def load_data(self, **_: Any) -> None:
        pairs = {"sentence1": TEXTS[:HALF], "sentence2": TEXTS[HALF : 2 * HALF]}
        grades = [abs(HALF - 2 * row) / HALF for row in range(HALF)]
        self.dataset = DatasetDict(test=Dataset.from_dict({**pairs, "score": grades}))
        self.data_loaded = True


class LocalRetrieval(AbsTaskRetrieval):
    """Every twentieth sentence asks for the three that follow it."""

    metadata = described("LocalRetrieval", "Retrieval", "ndcg_at_10")

    def load_data(self, **_: Any) -> None:
        asked = range(0, len(TEXTS) - 4, 20)
        self.dataset = {
            "default": {
                "test": {
                    "queries": Dataset.from_list([{"id": f"q{row}", "text": TEXTS[row]} for row in asked]),
                    "corpus": Dataset.from_list(
                        [
                            {"id": f"d{row}", "title": "", "text": text}
                            for row, text in enumerate(TEXTS)
                            if row not in asked
                        ]
                    ),
                    "relevant_docs": {f"q{row}": {f"d{row + near}": 1 for near in (1, 2, 3)} for row in asked},
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True


class LocalClassification(AbsTaskClassification):
    """Which part of the corpus a sentence is of."""

    metadata = described("LocalClassification", "Classification", "accuracy")
    n_experiments = 3

    def load_data(self, **_: Any) -> None:
        self.dataset = DatasetDict(train=Dataset.from_list(ROWS[::2]), test=Dataset.from_list(ROWS[1::2]))
        self.data_loaded = True


def scores(model: Any, task: Any) -> dict[str, float]:
    result = mteb.evaluate(model, [task()], cache=None, co2_tracker=False, encode_kwargs={"batch_size": 64})
    (found,) = result.task_results[0].scores["test"]
    return {name: value for name, value in found.items() if isinstance(value, float) and value == value}


@pytest.mark.parametrize("task", [LocalSTS, LocalRetrieval, LocalClassification])
def test_tasks(ours: Extractor, theirs: Any, task: Any) -> None:
    made = MtebEncoder(ours, normalize_embeddings=True)
    assert isinstance(made, EncoderProtocol)
    found, wanted = scores(made, task), scores(theirs, task)
    assert found == pytest.approx(wanted, abs=1e-4)  # MTEB's own rounding
    assert "main_score" in found
    assert 0 < abs(found["main_score"]) < 1


def test_prompts_of_the_model(prompted: tuple[Extractor, Any]) -> None:
    found, wanted = (scores(model, LocalRetrieval) for model in (MtebEncoder(prompted[0]), prompted[1]))
    assert found == pytest.approx(wanted, abs=1e-4)
    none = {"query": "", "document": ""}
    bare = scores(MtebEncoder(prompted[0], model_prompts=none), LocalRetrieval)
    assert bare == pytest.approx(scores(MtebEncoder(peer(prompted[0].model.folder, prompt="")), LocalRetrieval))
    assert bare != pytest.approx(found, abs=1e-3)


def test_prompts(ours: Extractor) -> None:
    theirs = oracle(ours.model.folder)  # one of its own, since MTEB writes the prompts into it
    prompts = {"query": "a question about: ", "Retrieval-document": "an answer: "}
    found = scores(MtebEncoder(ours, model_prompts=prompts, normalize_embeddings=True), LocalRetrieval)
    wanted = scores(SentenceTransformerEncoderWrapper(theirs, model_prompts=prompts), LocalRetrieval)
    assert found == pytest.approx(wanted, abs=1e-4)
    assert found != pytest.approx(scores(MtebEncoder(ours, normalize_embeddings=True), LocalRetrieval), abs=1e-4)
    with pytest.raises(KeyError, match="Retrievel"):
        MtebEncoder(ours, model_prompts={"Retrievel": "a: "})


def test_results_are_kept_apart_from_the_models_own(ours: Extractor, tmp_path: Path) -> None:
    from mteb.cache import ResultCache

    cache = ResultCache(tmp_path)
    others = [
        MtebEncoder(ours),
        MtebEncoder(ours, normalize_embeddings=True),
        MtebEncoder(ours, model_prompts={"STS": "a"}),
    ]
    for model in others:
        mteb.evaluate(model, [LocalSTS()], cache=cache, co2_tracker=False, encode_kwargs={"batch_size": 64})
    files = list(tmp_path.rglob("LocalSTS.json"))
    assert len(files) == 3
    assert all("bertfeat__all-MiniLM-L6-v2" in str(path) for path in files)
    assert others[0].mteb_model_meta.embed_dim == 384


def test_an_extractor_itself_is_refused(ours: Extractor) -> None:
    with pytest.raises(NotImplementedError):
        scores(ours, LocalSTS)
