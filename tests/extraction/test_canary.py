"""Canaries: the vectors of fixed strings that are recorded, and wherever a model is opened again, compared."""

import base64
import json
import pickle
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from bertfeat import (
    Extractor,
    FeatureSet,
    HeadSettings,
    Index,
    StoredEncoder,
    Tagger,
    build_index,
    find_usages,
    update_index,
    verify_features,
)
from bertfeat.core.encoder import Encoder, HiddenState
from bertfeat.core.extraction.sentence_transformers import extractor as extractor_module
from bertfeat.core.features import CANARY_TEXTS, PRECISION_COSINES, Canary, find_canary_problem, read_header
from bertfeat.core.recipe import Place
from bertfeat.core.tokens import TokenBatch
from bertfeat.errors import FeatureSetError, IndexFolderError, ModelError, TrainingError
from bertfeat.io import write_json
from bertfeat.search import BuildOptions
from bertfeat.server import ServerSettings, open_service, run_server
from tests.support.tagging_toy import feature_set, train
from tests.support.tiny_models import Tiny, reference_ids, reference_states

TEXTS = ["The river rose.", "He went to the bank.", "나는 강가의 은행에 갔다.", "A storm came.", "Ann met Bo in Ulm."]


NAN = base64.b64encode(np.full(5, np.nan, "<f4").tobytes()).decode()


class Harm(Protocol):
    def __call__(self, by: float = 0.5) -> None: ...


class Disturbed:
    """An encoder on a machine where something is wrong: the values of every layer are off."""

    def __init__(self, encoder: Encoder, by: float) -> None:
        self._encoder, self._by = encoder, by

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def hidden_states(
        self, batch: TokenBatch, places: Collection[Place], *, first_token_only: bool = False
    ) -> Iterator[HiddenState]:
        for state in self._encoder.hidden_states(batch, places, first_token_only=first_token_only):
            values = state.values.clone()
            values[:, ::2] += self._by * values.abs().mean()
            yield HiddenState(state.place, values, state.first_token_only)


@pytest.fixture
def harm(monkeypatch: pytest.MonkeyPatch) -> Harm:
    """Give a function after which each encoder that is loaded gives other vectors."""
    load = vars(extractor_module)["load_encoder"]

    def harmed(by: float = 0.5) -> None:
        monkeypatch.setattr(extractor_module, "load_encoder", lambda *arguments: Disturbed(load(*arguments), by))

    return harmed


def extract(tiny: Tiny, folder: Path, texts: list[str] = TEXTS, **options: Any) -> Path:
    run = {name: options.pop(name) for name in ("part_rows", "overwrite") if name in options}
    settings = {"pooling": "mean,word", "precision": "fp32", "dtype": "float32", **options}
    corpus = folder.with_name(f"{folder.stem}.txt")
    corpus.write_text("".join(f"{text}\n" for text in texts))
    Extractor(str(tiny.folder), **settings).extract(corpus, folder, **run)
    return folder


def recorded(folder: Path) -> Canary:
    canary = FeatureSet(folder).header.model.canary
    assert canary is not None
    return canary


# ── what is recorded ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(4)
def test_vectors_are_those_of_hugging_face(any_tiny: Tiny) -> None:
    extractor = Extractor(str(any_tiny.folder), layers="0", precision="fp32")
    width = any_tiny.model.hidden_size
    kept = [at * width // min(64, width) for at in range(min(64, width))]
    for text, vector in zip(CANARY_TEXTS, extractor.canary.vectors, strict=True):
        ids, types = reference_ids(any_tiny.folder, text)
        if len(ids) <= any_tiny.model.max_tokens:  # of longer ones the beginning is read
            states = reference_states(any_tiny.folder, ids, types)[-1]
            np.testing.assert_allclose(vector, states.mean(axis=0)[kept], atol=3e-5)
    assert extractor.canary.precision == "fp32"


def test_every_part_index_and_head_has_it(bert: Tiny, tmp_path: Path) -> None:
    features = extract(bert, tmp_path / "a.features", part_rows=2)
    extractor = Extractor(str(bert.folder), precision="fp32")
    for part in sorted(features.glob("part-*")):
        assert read_header(part).model.canary == extractor.canary
    build_index(features, tmp_path / "a.index", column="last_mean")
    assert Index(tmp_path / "a.index").settings.model.canary == extractor.canary
    by = extractor.canary.computed_by
    assert {"torch", "transformers", "tokenizers", "processor", "kernels", "device"} < set(by)


def test_it_does_not_depend_on_what_is_extracted(bert: Tiny, tmp_path: Path) -> None:
    one = recorded(extract(bert, tmp_path / "a.features"))
    other = recorded(
        extract(bert, tmp_path / "b.features", ["Other texts."], layers="1", prompt="query: ", max_length=16)
    )
    assert one.vectors.tolist() == other.vectors.tolist()


# ── where it is compared ────────────────────────────────────────────────────────────────────────────────────

REFUSAL = r"gives other vectors here than those that are recorded: .* cosine is 0\.\d+, where fp32 promises 0\.99999\d"


def test_search_is_refused(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    build_index(extract(bert, tmp_path / "a.features"), tmp_path / "a.index", column="last_mean")
    before = Index(tmp_path / "a.index").search("river")
    harm(1e-4)  # as rounding might
    after = Index(tmp_path / "a.index").search("river")
    assert [hit.id for hit in after.hits] == [hit.id for hit in before.hits]
    harm()
    index = Index(tmp_path / "a.index")
    assert len(index) == len(TEXTS)  # opened, and of use without a model
    with pytest.raises(ModelError, match=REFUSAL) as refused:
        index.search("river")
    assert "a.index" in str(refused.value)
    own = Extractor(str(bert.folder), precision="fp32")
    _ = own.encoder
    with pytest.raises(ModelError, match=REFUSAL):
        Index(tmp_path / "a.index", encoder=own)


def test_other_openings_are_refused(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    features = extract(bert, tmp_path / "a.features")
    build_index(features, tmp_path / "a.index", column="last_mean")
    tags = feature_set(bert.folder, tmp_path / "tags.features", 10, 1)
    train(tags, tags, tmp_path / "a.head", settings=HeadSettings(hidden=4, epochs=1))
    harm()
    with pytest.raises(ModelError, match=REFUSAL):
        find_usages(features, "bank", like="the *bank* of a river")
    with pytest.raises(ModelError, match=REFUSAL):
        StoredEncoder(features, missing="compute").encode(["Unheard of."])
    with pytest.raises(ModelError, match=REFUSAL):
        Tagger(tmp_path / "a.head").tag(["Ann ran"])
    others = feature_set(bert.folder, tmp_path / "others.features", 10, 2)
    with pytest.raises(TrainingError, match="other vectors than"):
        train(tags, others, tmp_path / "b.head", settings=HeadSettings(hidden=4, epochs=1))
    with pytest.raises(ModelError, match=REFUSAL):
        run_server(open_service([tmp_path / "a.index"], ServerSettings(port=0)))
    with pytest.raises(ModelError, match=REFUSAL):
        run_server(open_service([features], ServerSettings(port=0)))


@pytest.mark.parametrize(("recorded_in", "opened_in"), [("fp32", "bf16"), ("bf16", "fp32"), ("int8", "fp32")])
def test_other_precisions_are_allowed_their_rounding(
    bert: Tiny, tmp_path: Path, recorded_in: str, opened_in: str
) -> None:
    features = extract(bert, tmp_path / "a.features", precision=recorded_in)
    extractor = Extractor(str(bert.folder), precision=opened_in)
    extractor.check_against(FeatureSet(features).header.model, features)
    assert extractor.encode(["river"]).shape == (1, bert.model.hidden_size)


# ── sets of several machines ────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_not_finished_with_other_vectors(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    features = extract(bert, tmp_path / "a.features", part_rows=2)
    whole = {part.name: part.read_bytes() for part in features.glob("part-*")}
    (features / "part-00001.parquet").unlink()
    harm()
    with pytest.raises(ModelError, match=REFUSAL):
        extract(bert, features, part_rows=2)
    assert sorted(part.name for part in features.glob("part-*")) == ["part-00000.parquet", "part-00002.parquet"]
    broken = extract(bert, tmp_path / "b.features", part_rows=2)
    shutil.copy(broken / "part-00001.parquet", features)
    with pytest.raises(FeatureSetError, match="the model gave other vectors for part 1 than for parts 0, 2: for '"):
        extract(bert, features, part_rows=2)  # all parts are there, so that nothing is computed
    assert (features / "part-00001.parquet").exists()  # no part is removed that nobody asked to remove
    (features / ".bertfeat" / "manifest.json").unlink()
    unfinished = FeatureSet(features, allow_unfinished=True)  # which can still be looked at
    assert len(unfinished) == len(TEXTS)
    assert {name: (features / name).read_bytes() for name in whole if name != "part-00001.parquet"} == {
        name: content for name, content in whole.items() if name != "part-00001.parquet"
    }


def test_a_run_of_another_machine_can_go_on(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    features = extract(bert, tmp_path / "a.features", part_rows=2)
    (features / "part-00001.parquet").unlink()
    harm(1e-4)
    extract(bert, features, part_rows=2)
    assert verify_features(features).holds


def test_a_refusal_is_no_harm_to_the_extractor(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    features = extract(bert, tmp_path / "a.features", part_rows=2)
    build_index(features, tmp_path / "a.index", column="last_mean")
    (features / "part-00001.parquet").unlink()
    harm()
    extractor = Extractor(str(bert.folder), pooling="mean,word", precision="fp32", dtype="float32")
    one = Extractor(str(bert.folder), precision="fp32")
    with pytest.raises(ModelError, match=REFUSAL):
        Index(tmp_path / "a.index", encoder=one)
    assert one.encode(["river"]).shape == (1, bert.model.hidden_size)
    with pytest.raises(ModelError, match=REFUSAL):
        extractor.extract(tmp_path / "a.txt", features, part_rows=2)
    extractor.extract(tmp_path / "a.txt", tmp_path / "b.features", part_rows=2)
    extractor.extract(tmp_path / "a.txt", features, part_rows=2, overwrite=True)
    assert recorded(features).vectors.tolist() == recorded(tmp_path / "b.features").vectors.tolist()


def test_what_is_finished_is_not_computed_and_not_compared(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    features = extract(bert, tmp_path / "a.features")
    harm()
    extractor = Extractor(str(bert.folder), pooling="mean,word", precision="fp32", dtype="float32")
    extractor.features(["river"])
    assert extractor.extract(tmp_path / "a.txt", features).counts.documents == len(TEXTS)


def test_a_pickled_extractor_computes_its_own_canary(bert: Tiny, harm: Harm) -> None:
    extractor = Extractor(str(bert.folder), precision="fp32")
    before = extractor.canary
    harm()
    there = pickle.loads(pickle.dumps(extractor))
    assert find_canary_problem(before, there.canary) is not None


class _OneBad:
    """An engine whose workers are in this process; from the second part on, something is wrong."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm

    def run(self, job: Any, agenda: Any) -> None:
        while not agenda.done:
            task = agenda.take()
            worker = job.open_worker(device=None, threads=None)
            worker.work(iter([task]), agenda.finish)
            if getattr(task, "rows", None) is None and hasattr(task, "digest"):
                self._harm()


def test_a_bad_worker_ends_the_run(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    corpus = tmp_path / "a.txt"
    corpus.write_text("".join(f"{text}\n" for text in TEXTS))
    extractor = Extractor(str(bert.folder), precision="fp32")
    with pytest.raises(
        FeatureSetError, match=r"a\.features: the model gave other vectors for part 1 than for part 0: for '"
    ):
        extractor.extract(corpus, tmp_path / "a.features", part_rows=1, engine=_OneBad(harm))
    assert len(list((tmp_path / "a.features").glob("part-*"))) == 2


def test_parts_of_machines_that_disagree_make_no_set(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    """As where two that join at once each see only the parts of their own."""
    corpus, ours, theirs = tmp_path / "corpus.txt", tmp_path / "ours.features", tmp_path / "theirs.features"
    corpus.write_text("".join(f"{text}\n" for text in TEXTS))
    Extractor(str(bert.folder), precision="fp32").extract(corpus, ours, part_rows=1)
    harm()
    Extractor(str(bert.folder), precision="fp32").extract(corpus, theirs, part_rows=1)
    for number in (1, 3):
        shutil.copy(theirs / f"part-{number:05d}.parquet", ours)
    (ours / ".bertfeat" / "manifest.json").unlink()
    for join in (False, True):
        extractor = Extractor(str(bert.folder), precision="fp32")
        with pytest.raises(FeatureSetError, match=r"other vectors for parts 1, 3 than for parts 0, 2, 4: .*; move"):
            extractor.extract(corpus, ours, part_rows=1, join=join)
        assert not (ours / ".bertfeat" / "manifest.json").exists()


def test_sets_with_different_vectors_make_no_index(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    one = extract(bert, tmp_path / "a.features")
    build_index(one, tmp_path / "a.index", column="last_mean")
    harm()
    other = extract(bert, tmp_path / "b.features", ["Another text."])
    message = "the model gave them different vectors: .* cosine is"
    with pytest.raises(IndexFolderError, match=message):
        build_index([one, other], tmp_path / "b.index", column="last_mean", options=BuildOptions(type="flat"))
    with pytest.raises(IndexFolderError, match=message):
        update_index(tmp_path / "a.index", other)
    with pytest.raises(FeatureSetError, match=message):
        StoredEncoder([one, other])
    with pytest.raises(IndexFolderError, match="the model gave the encoder's vectors otherwise than those of"):
        Index(tmp_path / "a.index", encoder=StoredEncoder(other))
    assert Index(tmp_path / "a.index", encoder=StoredEncoder(one)).search(TEXTS[0]).hits[0].score > 0.999


# ── what the message says, and what is wrong with a canary ──────────────────────────────────────────────────


def canary(vectors: Any, precision: str = "fp32", **by: str) -> Canary:
    return Canary.of(precision, np.asarray(vectors, np.float32), by)


@pytest.mark.parametrize(
    ("one", "other"), [("fp32", "fp32"), ("bf16", "fp32"), ("int8", "bf16"), ("fp16", "fp16"), ("int8", "int8")]
)
def test_the_bound_is_the_sum_of_both_angles(one: str, other: str) -> None:
    angle = np.arccos(PRECISION_COSINES[one]) + np.arccos(PRECISION_COSINES[other])
    for share, refused in ((0.99, False), (1.01, True)):
        turned = [np.cos(share * angle), np.sin(share * angle)]
        problem = find_canary_problem(canary([[1, 0]] * 5, one), canary([[3, 0]] * 4 + [turned], other))
        assert bool(problem) is refused
        assert problem is None or "'In the town where I was born lived a ma…'" in problem


def test_the_message_says_what_changed() -> None:
    one = canary(np.eye(5), torch="2.12.0", processor="Xeon", kernels="amx")
    other = canary(np.eye(5)[::-1], torch="2.13.0", processor="Xeon", device="cuda")
    problem = str(find_canary_problem(one, other))
    assert "(different are torch 2.12.0 and 2.13.0, kernels amx and none, device none and cuda)" in problem
    same = canary(np.eye(5)[::-1], torch="2.12.0", processor="Xeon", kernels="amx")
    assert "(versions, processor and kernels are the same)" in str(find_canary_problem(one, same))
    assert find_canary_problem(one, one) is find_canary_problem(one, None) is find_canary_problem(None, one) is None
    assert find_canary_problem(canary(np.zeros((5, 3))), canary(np.zeros((5, 3)))) is None
    assert find_canary_problem(canary(np.zeros((5, 3))), canary(np.ones((5, 3)))) is not None
    assert "bytes" in str(find_canary_problem(canary(np.ones((5, 3))), canary(np.ones((5, 4)))))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ("AAAA", "3 bytes"),
        ("", "0 bytes"),
        (NAN, "20 bytes are not 5 finite"),
        ("!", "base64"),
        (7, "Expected 'bytes'"),
    ],
)
def test_a_forged_canary_is_refused(bert: Tiny, tmp_path: Path, values: object, problem: str) -> None:
    build_index(extract(bert, tmp_path / "a.features"), tmp_path / "a.index", column="last_mean")
    path = tmp_path / "a.index" / ".bertfeat" / "index.json"
    content = json.loads(path.read_text())
    del content["digest"]  # of the file, which is that of the forged one now
    content["model"]["canary"]["values"] = values
    write_json(path, content)
    with pytest.raises(IndexFolderError, match=problem):
        Index(tmp_path / "a.index")


def test_a_model_that_gives_no_numbers_is_refused(bert: Tiny, tmp_path: Path, harm: Harm) -> None:
    harm(float("nan"))
    with pytest.raises(ModelError, match="the last layer of 'bank' is not finite in fp32"):
        extract(bert, tmp_path / "a.features")
