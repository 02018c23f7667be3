"""Pre-training from end to end on a tiny corpus: what comes out, and what happens when it is run again."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForPreTraining, AutoTokenizer

from bertfeat import PretrainingSettings, estimate_pretraining, pretrain_model
from bertfeat.core.extraction import Extractor
from bertfeat.core.models import find_model
from bertfeat.errors import (
    BertfeatError,
    CorpusError,
    FolderLockedError,
    ModelError,
    PretrainingError,
    StorageError,
    UsageError,
)
from bertfeat.io import ResultKind, folder_lock, result_kind
from bertfeat.pretraining import Objective, PretrainingProgress, PretrainingReport, verify_pretrained
from bertfeat.pretraining.corpus import TokenStore
from bertfeat.pretraining.losses import BatchLoss, batch_loss
from tests.support.pretraining_toy import write_corpus
from tests.support.sentence_models import sentence_folder, with_encoder_apart
from tests.support.tiny_models import Tiny

SETTINGS = PretrainingSettings(
    shape="L=2,H=32,A=2", vocabulary=120, steps=12, max_length=32, batch_size=4, learning_rate=3e-3, held_out=0.1
)
SLOW = pytest.mark.slow
GOING_ON = replace(SETTINGS, shape=None, vocabulary=None, steps=6)


def pretrain(corpus: Path, folder: Path, settings: PretrainingSettings = SETTINGS, **more: Any) -> PretrainingReport:
    return pretrain_model(corpus, folder, settings=settings, device="cpu", **{"picture": False, **more})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "toy.txt")


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PretrainingReport]:
    """A model that was trained from scratch, undisturbed, and its report."""
    folder = tmp_path_factory.mktemp("made") / "toy.model"
    return folder, pretrain(corpus, folder, picture=True)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same_weights(one: Path, two: Path) -> None:
    ours, theirs = weights(one), weights(two)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


# ── what comes out ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_folder_is_a_model_of_hugging_face(made: tuple[Path, PretrainingReport]) -> None:
    folder, report = made
    assert result_kind(folder) is ResultKind.MODEL
    names = {path.name for path in folder.iterdir()} - {".bertfeat"}
    assert names == {
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"),
        *("pretraining.json", "curves.png"),
    }
    assert {path.name for path in (folder / ".bertfeat").iterdir()} <= {"kind", "lock"}
    loader: Any = AutoModelForPreTraining
    module, info = loader.from_pretrained(folder, output_loading_info=True)
    assert info["missing_keys"] == set()
    assert type(module).__name__ == "BertForPreTraining"
    assert module.config.hidden_dropout_prob == module.config.attention_probs_dropout_prob == 0.1
    assert len(AutoTokenizer.from_pretrained(folder)) == 120
    assert report.record.figures.documents == 12
    assert report.record.steps == 12


def test_vectors_are_those_of_transformers(made: tuple[Path, PretrainingReport]) -> None:
    folder, _ = made
    texts = ["the old mill stood near the river.", "money of the bank"]
    ours = [Extractor(folder, layers=f"{layer}", precision="fp32", device="cpu").encode(texts) for layer in range(3)]
    encoder, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    for at, text in enumerate(texts):
        with torch.no_grad():
            states = encoder(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
        for layer, state in enumerate(states):
            assert np.abs(np.asarray(ours[layer])[at] - state[0].mean(0).numpy()).max() < 3e-5


def test_the_fingerprint_is_of_weights_and_tokenizer(made: tuple[Path, PretrainingReport], tmp_path: Path) -> None:
    folder, _ = made
    copy = shutil.copytree(folder, tmp_path / "copy")
    for name in ("pretraining.json", "curves.png"):
        (copy / name).unlink()
    assert find_model(copy).fingerprint == find_model(folder).fingerprint


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_it_learns(corpus: Path, tmp_path: Path, precision: Literal["fp32", "bf16"]) -> None:
    settings = replace(SETTINGS, steps=100, batch_size=16, objective=Objective.MLM, held_out=0.3, precision=precision)
    report = pretrain(corpus, tmp_path / "m", settings)
    before, after = report.record.before, report.record.after
    assert before is not None
    assert after is not None
    assert before.loss > after.unigram_loss > after.loss
    assert after.accuracy >= before.accuracy
    assert report.record.history[-1].step == 100
    assert report.record.history[0].words > report.record.history[-1].words


@pytest.mark.slow
def test_equal_trainings_give_equal_weights(made: tuple[Path, PretrainingReport], corpus: Path, tmp_path: Path) -> None:
    torch.manual_seed(99)  # of someone else
    before = torch.random.get_rng_state()
    pretrain(corpus, tmp_path / "again")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert_same_weights(made[0], tmp_path / "again")
    pretrain(corpus, tmp_path / "other", replace(SETTINGS, seed=2))
    assert not torch.equal(
        *(weights(folder)["bert.embeddings.word_embeddings.weight"] for folder in (made[0], tmp_path / "other"))
    )


def test_a_left_to_right_model_says_so_and_extract_refuses_it(corpus: Path, tmp_path: Path) -> None:
    report = pretrain(corpus, tmp_path / "m", replace(SETTINGS, objective=Objective.LTR, steps=3))
    assert "no encoder" in report.warnings[0]
    assert report.record.after is not None
    assert report.record.after.perplexity is not None
    loader: Any = AutoModelForCausalLM
    _, info = loader.from_pretrained(tmp_path / "m", output_loading_info=True)
    assert info["missing_keys"] == set()
    with pytest.raises(ModelError, match="is no encoder"):
        Extractor(tmp_path / "m").encode(["a text"])


@pytest.mark.slow
def test_epochs_and_whole_words(corpus: Path, tmp_path: Path) -> None:
    settings = replace(
        SETTINGS, steps=None, epochs=1, objective=Objective.MLM, whole_words=True, mask="100:0:0", mask_rate=0.2
    )
    record = pretrain(corpus, tmp_path / "m", settings).record
    assert record.steps == -(-record.figures.sequences // 4)
    assert AutoModelForPreTraining.from_pretrained(tmp_path / "m").config.architectures == ["BertForMaskedLM"]


@pytest.mark.slow
def test_minutes_fix_the_steps_once(corpus: Path, tmp_path: Path) -> None:
    report = pretrain(corpus, tmp_path / "m", replace(SETTINGS, steps=None, minutes=0.02))
    assert report.record.steps >= 1
    assert report.record.history[-1].step == report.record.steps


@pytest.mark.slow
def test_nothing_held_out(corpus: Path, tmp_path: Path) -> None:
    report = pretrain(corpus, tmp_path / "m", replace(SETTINGS, held_out=0, steps=2), picture=True)
    assert report.record.after is None
    assert (tmp_path / "m" / "curves.png").exists()


def distances(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """1 - the cosine of each pair of rows."""
    cosines: np.ndarray = (ours * theirs).sum(1) / (np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1))
    return 1 - cosines


# ── going on ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_goes_on_and_keeps_its_tokenizer(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    report = pretrain(corpus, tmp_path / "m", GOING_ON, model=bert.folder)
    assert "tied to its embeddings" in report.notes[0]
    assert report.warnings == ()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "m" / name).read_bytes() == (bert.folder / name).read_bytes()
    old, new = weights(bert.folder), weights(tmp_path / "m")
    moved = {name for name in old if "pooler" not in name and not torch.equal(old[name], new[f"bert.{name}"])}
    assert moved == {name for name in old if "pooler" not in name}
    assert report.record.model == str(bert.folder)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["roberta", "distilbert"])
def test_other_families_go_on(tiny: Callable[[str], Tiny], corpus: Path, tmp_path: Path, family: str) -> None:
    pretrain(corpus, tmp_path / "m", replace(GOING_ON, steps=2), model=tiny(family).folder)
    vectors = Extractor(tmp_path / "m", precision="fp32", device="cpu").encode(["the bank"])
    assert np.isfinite(np.asarray(vectors)).all()


@pytest.mark.slow
def test_sentence_models_are_warned_about_and_anchored(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    folder = sentence_folder(bert.folder, tmp_path / "sentence", pooling="cls", heads=("Normalize",))
    loose = pretrain(corpus, tmp_path / "loose", replace(GOING_ON, steps=20), model=folder)
    held = pretrain(corpus, tmp_path / "held", replace(GOING_ON, steps=20, anchor=20.0), model=folder)
    assert ["--anchor" in warning or "anchor" in warning for warning in loose.warnings] == [True]
    assert held.warnings == ()
    vectors = {}
    for name in ("sentence", "loose", "held"):
        extractor = Extractor(tmp_path / name, precision="fp32", device="cpu")
        assert str(find_model(tmp_path / name).pooling) == "cls"
        vectors[name] = np.asarray(extractor.encode(["the old mill", "money", "a river bank near the town"]))
    drift = {name: distances(vectors[name], vectors["sentence"]) for name in ("loose", "held")}
    assert drift["held"].mean() < drift["loose"].mean() / 2
    assert held.record.history[-1].anchor is not None


@pytest.mark.slow
@pytest.mark.parametrize("family", ["roberta", "distilbert"])
def test_a_model_that_lowercases_learns_from_small_letters(
    tiny: Callable[[str], Tiny], corpus: Path, tmp_path: Path, family: str
) -> None:
    folder = sentence_folder(tiny(family).folder, tmp_path / "sentence", pooling="cls")
    (folder / "sentence_bert_config.json").write_text('{"do_lower_case": true}', "utf-8")
    plain = AutoTokenizer.from_pretrained(tiny(family).folder)
    with_encoder_apart(folder)
    learned = {}
    for name, text in (("own", corpus.read_text("utf-8")), ("capitals", corpus.read_text("utf-8").upper())):
        (tmp_path / f"{name}.txt").write_text(text, "utf-8")
        pretrain(tmp_path / f"{name}.txt", tmp_path / name, replace(GOING_ON, steps=2), model=folder)
        learned[name] = weights(tmp_path / name)
    assert {key: value.tolist() for key, value in learned["own"].items()} == {
        key: value.tolist() for key, value in learned["capitals"].items()
    }
    made = AutoTokenizer.from_pretrained(tmp_path / "own")
    for text in ("The BANK of the River", "Don't STOP: Café"):
        assert made(text).input_ids == plain(text.lower()).input_ids
    assert (str(find_model(tmp_path / "own").pooling), find_model(tmp_path / "own").lower_cases) == ("cls", True)
    extractor = Extractor(tmp_path / "own", precision="fp32", device="cpu")
    np.testing.assert_array_equal(extractor.encode(["The BANK"]), extractor.encode(["the bank"]))


# ── again ───────────────────────────────────────────────────────────────────────────────────────────────────


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "vocab.txt"])
def test_a_finished_model_that_was_damaged_is_told(
    made: tuple[Path, PretrainingReport], corpus: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = shutil.copytree(made[0], tmp_path / "m")
    assert verify_pretrained(folder).files == 5
    damage(folder / name)
    remedy = "copy the whole model again from where it was made, or train it anew with overwrite=True"
    with pytest.raises(PretrainingError, match=f"not the model that was trained: {name} .*{remedy}"):
        pretrain(corpus, folder)
    with pytest.raises(PretrainingError, match=f"not the model that was trained: {name} "):
        verify_pretrained(folder)


@pytest.mark.slow
def test_what_others_put_beside_a_model_stays(
    made: tuple[Path, PretrainingReport], corpus: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(made[0], tmp_path / "m")
    foreign = [folder / "README.md", folder / "1_notes" / "a.txt", folder / "vocab.json", folder / ".git" / "HEAD"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    pretrain(corpus, folder, replace(SETTINGS, steps=2), overwrite=True)
    assert [path.read_text() for path in foreign] == ["mine"] * 4
    assert verify_pretrained(folder).steps == 2


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder with its content; locks are no content."""
    paths = [path for path in folder.rglob("*") if path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


class Stopped(Exception):
    """The run was stopped at a step."""


def stop_at(step: int) -> Callable[[PretrainingProgress], None]:
    def stop(progress: PretrainingProgress) -> None:
        if progress.stage == "training" and round(progress.fraction * 12) == step:
            raise Stopped

    return stop


@pytest.mark.parametrize("step", [pytest.param(1, marks=SLOW), 7, pytest.param(12, marks=SLOW)])
def test_a_training_that_was_stopped_goes_on_to_the_same_weights(
    made: tuple[Path, PretrainingReport], corpus: Path, tmp_path: Path, step: int
) -> None:
    with pytest.raises(Stopped):
        pretrain(corpus, tmp_path / "m", checkpoint_minutes=0, progress=stop_at(step))
    half = tmp_path / "m" / ".bertfeat" / "pretraining" / "checkpoints" / f"checkpoint-{step + 1}"
    half.mkdir()  # as a kill in the middle of its writing leaves it
    (half / "model.safetensors").write_bytes(b"half")
    report = pretrain(corpus, tmp_path / "m", checkpoint_minutes=0)
    assert report.resumed == step - 1  # the checkpoint of the step itself was not written yet
    assert_same_weights(made[0], tmp_path / "m")
    scores = [each.record.after for each in (made[1], report)]
    assert scores[0] == scores[1]
    assert [point.step for point in report.record.history] == list(range(1, 13))


@pytest.mark.slow
def test_a_training_that_was_stopped_after_its_last_step(
    made: tuple[Path, PretrainingReport], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Stopped

    monkeypatch.setattr("bertfeat.pretraining.run.write_result", stop)
    with pytest.raises(Stopped):
        pretrain(corpus, tmp_path / "m")
    monkeypatch.undo()
    assert pretrain(corpus, tmp_path / "m").resumed == 12
    assert_same_weights(made[0], tmp_path / "m")


def test_a_finished_training_is_not_done_again(
    made: tuple[Path, PretrainingReport], corpus: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(made[0], tmp_path / "m")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    report = pretrain(corpus, folder)
    assert not report.trained
    assert report.record == made[1].record
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()} == before
    copy = Path(shutil.copy(corpus, tmp_path / "elsewhere.txt"))  # the same texts in another file
    assert not pretrain(copy, folder).trained


def test_other_settings_are_refused_until_overwritten(
    made: tuple[Path, PretrainingReport], corpus: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(made[0], tmp_path / "m")
    other = replace(SETTINGS, steps=3, mask_rate=0.2)
    with pytest.raises(PretrainingError, match=r"steps=3 here, steps=12 there; mask_rate=0\.2 here.*overwrite=True"):
        pretrain(corpus, folder, other)
    with pytest.raises(PretrainingError, match="the texts of the corpus"):
        pretrain(write_corpus(tmp_path / "other.txt", seed=3), folder)
    assert_same_weights(made[0], folder)
    assert pretrain(corpus, folder, other, overwrite=True).record.steps == 3
    assert not (folder / "curves.png").exists()


def test_a_begun_training_of_other_settings_is_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        pretrain(corpus, tmp_path / "m", checkpoint_minutes=0, progress=stop_at(3))
    with pytest.raises(PretrainingError, match=r"a training that was begun.*batch_size=8 here, batch_size=4 there"):
        pretrain(corpus, tmp_path / "m", replace(SETTINGS, batch_size=8))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "sealed.json"])
def test_a_checkpoint_that_was_changed_is_told(corpus: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(Stopped):
        pretrain(corpus, tmp_path / "m", checkpoint_minutes=0, progress=stop_at(3))
    (checkpoint,) = (tmp_path / "m" / ".bertfeat" / "pretraining" / "checkpoints").iterdir()
    data = bytearray((checkpoint / name).read_bytes())
    data[len(data) // 2] ^= 1
    (checkpoint / name).write_bytes(data)
    with pytest.raises(PretrainingError, match=r"(changed|cannot be read).*overwrite=True"):
        pretrain(corpus, tmp_path / "m")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["pieces.bin", "sentences.bin", "documents.bin", "tokenizer/tokenizer.json"])
def test_what_was_prepared_and_was_changed_is_told(corpus: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(Stopped):
        pretrain(corpus, tmp_path / "m", checkpoint_minutes=0, progress=stop_at(3))
    path = tmp_path / "m" / ".bertfeat" / "pretraining" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(PretrainingError, match=rf"{name} was changed after it was written.*overwrite=True"):
        pretrain(corpus, tmp_path / "m")
    path.write_bytes(data + bytes(8))
    with pytest.raises(PretrainingError, match=rf"{name} has .* bytes, but .*overwrite=True"):
        pretrain(corpus, tmp_path / "m")


@pytest.mark.slow
def test_memory_that_is_too_small(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("bertfeat.pretraining.training.batch_loss", no_memory)
    with pytest.raises(PretrainingError, match="too small for batches of 4 sequences; give a smaller batch_size"):
        pretrain(corpus, tmp_path / "m")


@pytest.mark.slow
def test_a_text_of_unknown_words_alone(bert: Tiny, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("ꙮꙮ ꙮꙮ ꙮꙮ\n" * 40)
    report = pretrain(tmp_path / "c.txt", tmp_path / "m", GOING_ON, model=bert.folder)
    assert "100% of the pieces are unknown" in report.warnings[0]


def test_two_runs_at_once(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with folder_lock(tmp_path / "m"), pytest.raises(FolderLockedError):
        pretrain(corpus, tmp_path / "m")


def test_folders_of_others(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    with pytest.raises(StorageError, match=r"holds 'config\.json' and is not a model"):
        pretrain(corpus, tmp_path / "m")


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "settings", "error", "message"),
    [
        ("", SETTINGS, CorpusError, "the corpus is empty"),
        ("\n\n\n", SETTINGS, CorpusError, "the corpus is empty"),
        ("a river ran\n" * 50, SETTINGS, CorpusError, "the corpus is one document"),
    ],
)
@pytest.mark.parametrize("before", ["nothing", "an empty folder", "a finished model"])
def test_a_corpus_that_is_too_small(
    made: tuple[Path, PretrainingReport],
    tmp_path: Path,
    before: str,
    text: str,
    settings: PretrainingSettings,
    error: type[BertfeatError],
    message: str,
) -> None:
    """A run that fails before its first step leaves what there was, and nothing else."""
    (tmp_path / "c.txt").write_text(text)
    if before == "an empty folder":
        (tmp_path / "m").mkdir()
    elif before == "a finished model":
        shutil.copytree(made[0], tmp_path / "m")
    there = tree(tmp_path)
    with pytest.raises(error, match=message):
        pretrain(tmp_path / "c.txt", tmp_path / "m", settings, overwrite=True)
    assert tree(tmp_path) == there


def test_a_corpus_that_changes_between_two_readings(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "c.txt")

    def change(_: PretrainingProgress) -> None:
        path.write_text(path.read_text() + "one more river.\n")

    with pytest.raises(PretrainingError, match=r"changed while it was read.*run it again when nobody writes to it"):
        pretrain(path, tmp_path / "m", progress=change)
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
def test_a_small_corpus_gives_the_vocabulary_that_it_has(corpus: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, vocabulary=None, steps=2)
    report = pretrain(corpus, tmp_path / "m", settings)
    (warning,) = report.warnings
    pieces = len(AutoTokenizer.from_pretrained(tmp_path / "m"))
    assert f"a vocabulary of {pieces:,} pieces, and 30,000 were asked for" in warning
    assert weights(tmp_path / "m")["bert.embeddings.word_embeddings.weight"].shape == (pieces, 32)
    assert not pretrain(corpus, tmp_path / "m", settings).trained
    assert verify_pretrained(tmp_path / "m").steps == 2


def test_an_empty_corpus_for_a_model_that_goes_on(bert: Tiny, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("\n\n")
    with pytest.raises(CorpusError, match="the corpus is empty"):
        pretrain(tmp_path / "c.txt", tmp_path / "m", GOING_ON, model=bert.folder)


def test_one_document_for_next_sentences(corpus: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.txt"
    one.write_text("\n".join(line for line in corpus.read_text().splitlines() if line))
    with pytest.raises(CorpusError, match=r"the corpus is one document.*document_column.*objective='mlm'"):
        pretrain(one, tmp_path / "m")
    assert pretrain(one, tmp_path / "m", replace(SETTINGS, objective=Objective.MLM, steps=2)).trained


def test_a_loss_that_is_no_number(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_number(*arguments: Any) -> BatchLoss:
        loss = batch_loss(*arguments)
        return replace(loss, total=loss.total * float("nan"))

    monkeypatch.setattr("bertfeat.pretraining.training.batch_loss", no_number)
    with pytest.raises(PretrainingError, match=r"no finite number at a learning rate of 0\.003.*learning_rate"):
        pretrain(corpus, tmp_path / "m")


def test_held_out_pieces_of_one_document_give_no_pairs(corpus: Path, tmp_path: Path) -> None:
    text = "one river.\n\n" + "\n".join(line for line in corpus.read_text().splitlines() if line)
    (tmp_path / "c.txt").write_text(text)
    with pytest.raises(CorpusError, match=r"held out is of one document.*held_out=0"):
        pretrain(tmp_path / "c.txt", tmp_path / "m", replace(SETTINGS, held_out=0.01))


def test_a_model_is_not_overwritten_by_what_goes_on_from_it(made: tuple[Path, PretrainingReport], corpus: Path) -> None:
    with pytest.raises(UsageError, match="lies there, and would be overwritten"):
        pretrain(corpus, made[0], GOING_ON, model=made[0], overwrite=True)


def test_standard_input_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="standard input can be read once"):
        pretrain(Path("-"), tmp_path / "m")


def test_scratch_settings_for_a_model_that_goes_on(bert: Tiny, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="shape is for a new model"):
        pretrain(corpus, tmp_path / "m", SETTINGS, model=bert.folder)
    assert not (tmp_path / "m").exists()


# ── beforehand ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_an_estimate_writes_nothing(corpus: Path, tmp_path: Path) -> None:
    estimate = estimate_pretraining(corpus, settings=replace(SETTINGS, held_out=0), device="cpu")
    record = pretrain(corpus, tmp_path / "m", replace(SETTINGS, held_out=0)).record
    assert estimate.pieces == record.figures.pieces
    assert estimate.sequences == record.figures.sequences
    assert estimate.steps == 12
    assert estimate.seconds == pytest.approx(12 * estimate.seconds / estimate.steps)
    assert {path.name for path in tmp_path.iterdir()} == {"m"}


def test_a_store_is_mapped_and_not_read(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        pretrain(corpus, tmp_path / "m", progress=stop_at(1))
    store = TokenStore.open(tmp_path / "m" / ".bertfeat" / "pretraining")
    assert isinstance(store.pieces, np.memmap)
    plan = json.loads((tmp_path / "m" / ".bertfeat" / "pretraining" / "plan.json").read_text())
    assert plan["steps"] == 12
