"""Losses and scores are those of transformers' models on the same batches, computed there over all places."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from bertfeat.core.models import Model
from bertfeat.core.recipe import Pooling
from bertfeat.errors import ModelError, UsageError
from bertfeat.pretraining.corpus import CorpusSplit, CorpusText, TokenStore, split_corpus, write_tokens
from bertfeat.pretraining.examples import UNPREDICTED, Collator, SequenceExamples
from bertfeat.pretraining.losses import Anchor, batch_loss, pool, score_examples, unigram_logs
from bertfeat.pretraining.networks import continued_network, start_from_frequencies
from bertfeat.pretraining.settings import Objective, PretrainingSettings
from bertfeat.pretraining.vocabulary import PretrainingTokenizer, open_tokenizer
from tests.support.tiny_models import Tiny
from tests.support.tiny_tokenizers import SENTENCES

TEXTS = [
    CorpusText(f"{sentence} {other}", at % 2 == 0) for at, other in enumerate(SENTENCES[:4]) for sentence in SENTENCES
]


class World:
    """A tiny model with heads, and examples of a small corpus."""

    def __init__(self, tiny: Tiny, folder: Path, objective: Objective, **more: Any) -> None:
        self.settings = PretrainingSettings(objective=objective, max_length=32, batch_size=6, **more)
        self.tokenizer: PretrainingTokenizer = open_tokenizer(tiny.folder, "tiny", tiny.model.sizes.vocab_size)
        write_tokens(TEXTS, self.tokenizer.fast, folder, 16)
        self.store = TokenStore.open(folder)
        self.split: CorpusSplit = split_corpus(self.store, 0.1, 1)
        torch.manual_seed(1)
        self.module = continued_network(tiny.model, self.settings).module.eval()
        self.examples = SequenceExamples(self.store, self.split.training, self.settings, self.tokenizer.special)
        has_types = (getattr(self.module.config, "type_vocab_size", 0) or 0) > 1
        self.collator = Collator(self.tokenizer.special.pad, has_types, objective.has_pairs, True)

    def batch(self, count: int = 6) -> dict[str, torch.Tensor]:
        return self.collator([self.examples[at] for at in range(count)])


FAMILIES = ["bert", "roberta", "xlm-roberta", "distilbert", "electra", "albert", "modernbert"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_of_masked_words_is_that_of_transformers(
    tiny: Callable[[str], Tiny], tmp_path: Path, family: str
) -> None:
    world = World(tiny(family), tmp_path, Objective.MLM)
    batch = world.batch()
    ours = batch_loss(world.module, batch)
    theirs = world.module(**{name: values for name, values in batch.items() if name != "unmasked_ids"})
    assert ours.total.item() == pytest.approx(theirs.loss.item(), abs=1e-5)
    predicted = batch["labels"] != UNPREDICTED
    assert torch.allclose(ours.word_logits, theirs.logits[predicted], atol=1e-4)
    assert torch.equal(ours.word_labels, batch["labels"][predicted])


@pytest.mark.parametrize("objective", [Objective.MLM_NSP, Objective.LTR])
def test_the_losses_of_bert_are_those_of_transformers(bert: Tiny, tmp_path: Path, objective: Objective) -> None:
    world = World(bert, tmp_path, objective)
    batch = world.batch()
    if objective is Objective.LTR:
        del batch["unmasked_ids"]
    ours = batch_loss(world.module, batch)
    theirs = world.module(**{name: values for name, values in batch.items() if name != "unmasked_ids"})
    assert ours.total.item() == pytest.approx(theirs.loss.item(), abs=1e-5)
    if objective is Objective.MLM_NSP:
        assert ours.pairs is not None
        assert ours.total.item() == pytest.approx(ours.words.item() + ours.pairs.item(), abs=1e-5)
        assert ours.pair_logits is not None
        assert torch.allclose(ours.pair_logits, theirs.seq_relationship_logits, atol=1e-5)


def test_gradients_are_those_of_transformers(bert: Tiny, tmp_path: Path) -> None:
    world = World(bert, tmp_path, Objective.MLM_NSP)
    batch = world.batch()
    torch.autograd.backward(batch_loss(world.module, batch).total)
    ours = {name: weight.grad.clone() for name, weight in world.module.named_parameters() if weight.grad is not None}
    world.module.zero_grad()
    theirs = world.module(**{name: values for name, values in batch.items() if name != "unmasked_ids"})
    torch.autograd.backward(theirs.loss)
    for name, weight in world.module.named_parameters():
        if weight.grad is not None:
            assert torch.allclose(ours[name], weight.grad, atol=1e-5), name


def test_a_left_to_right_model_sees_nothing_to_the_right(bert: Tiny, tmp_path: Path) -> None:
    world = World(bert, tmp_path, Objective.LTR)
    ids = torch.tensor(world.examples[0].ids[None])
    changed = ids.clone()
    changed[0, 5:] = 9
    one, two = (world.module(input_ids=each, use_cache=False).logits for each in (ids, changed))
    assert torch.allclose(one[:, :5], two[:, :5], atol=1e-5)
    assert not torch.allclose(one[:, 5:], two[:, 5:], atol=1e-2)


# ── examples ────────────────────────────────────────────────────────────────────────────────────────────────


def test_examples_are_sequences_of_the_corpus(bert: Tiny, tmp_path: Path) -> None:
    world = World(bert, tmp_path, Objective.MLM_NSP)
    text = world.store.ids(0, len(world.store.pieces)).tolist()
    special = world.tokenizer.special
    for at in range(len(world.examples)):
        example = world.examples[at]
        ids = example.ids.tolist()
        assert len(ids) <= 32
        assert (ids[0], ids[-1]) == (special.cls, special.sep)
        cut = example.types.tolist().index(1)
        assert ids[cut - 1] == special.sep
        first, second = ids[1 : cut - 1], ids[cut:-1]
        assert any(text[place : place + len(first)] == first for place in range(len(text)))
        assert any(text[place : place + len(second)] == second for place in range(len(text)))
        predicted = example.labels != UNPREDICTED
        assert np.array_equal(example.seen[~predicted], example.ids[~predicted])


def test_a_batch_is_padded(bert: Tiny, tmp_path: Path) -> None:
    world = World(bert, tmp_path, Objective.MLM_NSP)
    batch = world.batch(6)
    for row in range(6):
        example, mask = world.examples[row], batch["attention_mask"][row].bool()
        assert batch["input_ids"][row][mask].tolist() == example.seen.tolist()
        assert batch["labels"][row][mask].tolist() == example.labels.tolist()
        assert (batch["labels"][row][~mask] == UNPREDICTED).all()
        assert (batch["input_ids"][row][~mask] == world.tokenizer.special.pad).all()
        assert bool(batch["next_sentence_label"][row]) is not example.is_next


def test_the_next_epoch_has_other_masks_over_all_documents(bert: Tiny, tmp_path: Path) -> None:
    world = World(bert, tmp_path, Objective.MLM)
    made = SequenceExamples(
        world.store, world.split.training, world.settings, world.tokenizer.special, 3 * len(world.examples)
    )
    first, second = ([made[at].seen.tolist() for at in range(e * made.epoch, (e + 1) * made.epoch)] for e in (0, 1))
    assert sorted(first) != sorted(second)
    with pytest.raises(IndexError):
        made[3 * made.epoch]


# ── scores ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("objective", list(Objective))
def test_scores_are_those_of_one_sequence_after_the_other(bert: Tiny, tmp_path: Path, objective: Objective) -> None:
    world = World(bert, tmp_path, objective)
    collator = Collator(world.tokenizer.special.pad, True, objective.has_pairs, False)
    logs = unigram_logs(world.store, world.split, world.tokenizer.special)
    held_out = SequenceExamples(world.store, world.split.held_out, world.settings, world.tokenizer.special)
    scores = score_examples(world.module, held_out, collator, logs)
    losses, right, next_right, unigram, copying, copied = [], [], [], [], [], []
    ranges = zip(world.split.training.starts.tolist(), world.split.training.ends.tolist(), strict=True)
    learned = np.concatenate([world.store.ids(start, end) for start, end in ranges])
    counts = np.bincount(learned, minlength=len(world.tokenizer.special.ordinary))
    ordinary = world.tokenizer.special.ordinary
    with torch.no_grad():
        for at in range(len(held_out)):
            example = held_out[at]
            inputs = {
                "input_ids": torch.tensor(example.seen[None]),
                "token_type_ids": torch.tensor(example.types[None]),
            }
            output = world.module(**inputs)
            logits = (output.prediction_logits if objective.has_pairs else output.logits)[0].double()
            labels, shift = example.labels, 0 if objective.has_masks else 1
            for place in np.flatnonzero(labels != UNPREDICTED):
                probabilities = logits[place - shift].log_softmax(0)
                losses.append(-probabilities[labels[place]].item())
                right.append(int(probabilities.argmax()) == labels[place])
                unigram.append(-np.log((counts[labels[place]] + 1) / (counts[ordinary] + 1).sum()))
                chances = np.where(ordinary, counts + 1, 0) / (counts[ordinary] + 1).sum()
                if objective.has_masks and example.seen[place] != world.tokenizer.special.mask:
                    chances = 10 / ordinary.sum() * chances
                    chances[example.seen[place]] *= 1 + ordinary.sum()  # drawn in its own place, or kept
                    chances /= chances.sum()
                copying.append(-np.log(chances[labels[place]]))
                copied.append(int(chances.argmax()) == labels[place])
            if objective.has_pairs:
                next_right.append((output.seq_relationship_logits[0].argmax().item() == 0) == example.is_next)
    assert scores.predicted == len(losses)
    assert scores.loss == pytest.approx(np.mean(losses), abs=1e-4)
    assert scores.accuracy == pytest.approx(np.mean(right))
    assert scores.unigram_loss == pytest.approx(np.mean(unigram))
    assert scores.copying_loss == pytest.approx(np.mean(copying))
    assert scores.copying_accuracy == pytest.approx(np.mean(copied))
    assert scores.copying_loss < scores.unigram_loss or objective is Objective.LTR
    assert scores.next_accuracy == (pytest.approx(np.mean(next_right)) if objective.has_pairs else None)
    if objective is Objective.LTR:
        assert scores.perplexity == pytest.approx(np.exp(np.mean(losses)), rel=1e-3)


# ── the anchor ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.CLS, Pooling.MAX])
def test_the_anchor_is_the_distance_of_pooled_vectors(bert: Tiny, tmp_path: Path, pooling: Pooling) -> None:
    world = World(bert, tmp_path, Objective.MLM)
    batch = world.batch()
    from transformers import AutoModel

    old = AutoModel.from_pretrained(bert.folder).eval()
    ours = batch_loss(world.module, batch, Anchor(old, pooling, 3.0))
    distances = []
    for row in range(6):
        length = int(batch["attention_mask"][row].sum())
        types = batch["token_type_ids"][row : row + 1, :length]
        vectors = []
        for ids, encoder in ((batch["input_ids"], world.module.base_model), (batch["unmasked_ids"], old)):
            state = encoder(input_ids=ids[row : row + 1, :length], token_type_ids=types).last_hidden_state[0]
            ways = {Pooling.MEAN: state.mean(0), Pooling.CLS: state[0], Pooling.MAX: state.amax(0)}
            vectors.append(ways[pooling])
        distances.append(1 - cosine_similarity(vectors[0], vectors[1], dim=0).item())
    assert ours.anchor is not None
    assert ours.anchor.item() == pytest.approx(np.mean(distances), abs=1e-4)
    assert ours.total.item() == pytest.approx(ours.words.item() + 3 * ours.anchor.item(), abs=1e-4)
    torch.autograd.backward(ours.total)
    assert all(weight.grad is None for weight in old.parameters())


def test_pooling_leaves_padding_out() -> None:
    states, mask = torch.randn(2, 5, 4), torch.tensor([[1, 1, 1, 0, 0], [1] * 5])
    for pooling in (Pooling.MEAN, Pooling.MAX, Pooling.CLS):
        assert torch.allclose(pool(states, mask, pooling)[:1], pool(states[:1, :3], mask[:1, :3], pooling))


# ── heads ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_heads_are_tied_to_the_embeddings_and_told_of(bert: Tiny) -> None:
    network = continued_network(bert.model, PretrainingSettings(objective=Objective.MLM_NSP, max_length=32))
    module: Any = network.module
    assert module.cls.predictions.decoder.weight is module.bert.embeddings.word_embeddings.weight
    assert ["tied to its embeddings" in note for note in network.notes] == [True, False]
    assert "next sentences" in network.notes[1]


def test_a_new_head_begins_with_the_frequencies_of_pieces(bert: Tiny, tmp_path: Path) -> None:
    world = World(bert, tmp_path, Objective.MLM)
    logs = unigram_logs(world.store, world.split, world.tokenizer.special)
    start_from_frequencies(world.module, logs)
    module: Any = world.module
    bias = module.cls.predictions.bias.detach().numpy()
    assert bias is not None
    known = np.isfinite(logs)
    assert np.allclose(bias[known], logs[known])
    assert np.allclose(bias[~known], logs[known].min())


def test_heads_that_are_there_are_kept(bert: Tiny, tmp_path: Path) -> None:
    settings = PretrainingSettings(objective=Objective.MLM_NSP, max_length=32)
    torch.manual_seed(1)
    first: Any = continued_network(bert.model, settings).module
    first.save_pretrained(tmp_path)
    torch.manual_seed(2)
    again = continued_network(Model("again", tmp_path), settings)
    assert again.notes == ()
    assert all(torch.equal(value, first.state_dict()[name]) for name, value in again.module.state_dict().items())


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("roberta", {"objective": "mlm+nsp"}, "is for models of the bert family, and this is roberta"),
        ("roberta", {"objective": "ltr"}, "is for models of the bert family"),
        ("bert", {"objective": "mlm", "max_length": 128}, "it reads 64 tokens at once, not 128"),
    ],
)
def test_what_a_model_cannot_learn(
    tiny: Callable[[str], Tiny], family: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        continued_network(tiny(family).model, PretrainingSettings(**{"max_length": 32, **settings}))


def test_a_model_of_one_segment_learns_no_next_sentences(tmp_path: Path) -> None:
    from tests.support.tiny_models import build

    model = Model("one", build("bert", tmp_path / "one", type_vocab_size=1))
    with pytest.raises(UsageError, match="does not tell two segments apart"):
        continued_network(model, PretrainingSettings(objective=Objective.MLM_NSP, max_length=32))


def test_a_tokenizer_with_more_ids_than_embeddings(bert: Tiny) -> None:
    with pytest.raises(ModelError, match="more ids than its 100 embeddings"):
        open_tokenizer(bert.folder, "tiny", 100)
