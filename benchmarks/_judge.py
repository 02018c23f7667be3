"""What a small pre-trained model is good for: tagging, pairs and spans, by its frozen features and by fine-tuning.

transformers' bare model and a linear layer, the same for every model, left-to-right ones among them, whose [CLS] has
seen nothing: a text's vector is the mean over its tokens, and so is the one that scores "no answer". Words are scored
by their first piece, spans as conlleval does, pairs by accuracy, answers by exact match.
"""

import csv
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from bertfeat.core.corpus import Document, open_corpus
from bertfeat.learning import score_tags
from bertfeat.learning.spans import to_bio

logging.set_verbosity_error()
LONGEST = 126
IGNORED = -100
BATCH = 32
RATES = {"frozen": 5e-3, "fine-tuned": 1e-3}
EPOCHS = {"frozen": 30, "fine-tuned": 8}


@dataclass
class Example:
    """A sequence, and what is to be predicted: of each token, of the whole, or the first and last token of a span."""

    ids: Tensor
    types: Tensor
    target: Tensor
    allowed: Tensor  # tokens that a span may begin at
    features: Tensor | None = None  # [T, H] of a frozen encoder


@dataclass
class Task:
    """A task with its outputs for each token (tagging), for the whole (pairs), or for starts and ends (spans)."""

    name: str
    outputs: int
    train: list[Example]
    test: list[Example]
    score: Callable[[Sequence[Tensor]], float]  # of what is predicted of each test example


class Judge(nn.Module):
    """An encoder, perhaps a BiLSTM, and a linear layer."""

    def __init__(self, encoder: PreTrainedModel, task: Task, bilstm: bool) -> None:
        super().__init__()
        self.encoder, self.kind = encoder, task.name
        width = encoder.config.hidden_size
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True) if bilstm else None
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width * (2 if bilstm else 1), task.outputs)
        self.none = nn.Linear(width * (2 if bilstm else 1), 2)
        self.dropout = nn.Dropout(0.1)

    def encode(self, batch: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Hidden states ``[B, T, H]`` of the last layer, and which of them are real ``[B, T]``."""
        mask = padded([torch.ones_like(each.ids) for each in batch])
        if batch[0].features is not None:
            return padded([each.features for each in batch]), mask
        ids, types = padded([each.ids for each in batch]), padded([each.types for each in batch])
        return self.encoder(ids, attention_mask=mask, token_type_ids=types).last_hidden_state, mask

    def forward(self, hidden: Tensor, mask: Tensor, batch: Sequence[Example]) -> Tensor:
        """Scores: ``[B, T, K]`` of tokens, ``[B, K]`` of texts, ``[B, 1 + T, 2]`` of no answer, starts and ends."""
        hidden = self.dropout(self.norm(hidden))
        if self.lstm is not None:
            lengths = mask.sum(1)
            packed = nn.utils.rnn.pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)
            hidden = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]
        if self.kind == "tagging":
            return self.out(hidden)
        mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        if self.kind == "pairs":
            return self.out(mean)
        allowed = padded([each.allowed for each in batch])
        scores = self.out(hidden).masked_fill(~allowed[..., None], float("-inf"))
        return torch.cat([self.none(mean)[:, None], scores], 1)

    def loss(self, scores: Tensor, batch: Sequence[Example]) -> Tensor:
        """The mean negative log probability of what is to be predicted."""
        if self.kind == "spans":
            target = torch.stack([each.target for each in batch])
            return sum(
                (nn.functional.cross_entropy(scores[..., end], target[:, end]) for end in (0, 1)), torch.zeros(())
            )
        target = padded([each.target for each in batch], IGNORED)
        return nn.functional.cross_entropy(scores.flatten(0, -2), target.flatten(), ignore_index=IGNORED)


def padded(rows: Sequence[Tensor], value: int = 0) -> Tensor:
    """Rows of different lengths as one tensor."""
    return nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=value)


def judge(folder: Path, task: Task, approach: str, seed: int, *, bilstm: bool = False) -> float:
    """The score of a model on a task's test set, frozen or fine-tuned."""
    torch.manual_seed(seed)
    encoder = AutoModel.from_pretrained(folder, add_pooling_layer=False, local_files_only=True)
    network, frozen = Judge(encoder, task, bilstm), approach == "frozen"
    keep_features(network, [*task.train, *task.test], keep=frozen)
    encoder.requires_grad_(not frozen)
    steps = EPOCHS[approach] * -(-len(task.train) // BATCH)
    learning = [weight for weight in network.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=RATES[approach])
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, 10 * step / steps) * (1 - step / steps)
    )
    for epoch in range(EPOCHS[approach]):
        for batch in batches(task.train, seed * 100 + epoch):
            network.train()
            hidden, mask = network.encode(batch)
            loss = network.loss(network(hidden, mask, batch), batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(learning, 1.0)
            optimizer.step()
            schedule.step()
    return task.score(predicted(network, task))


@torch.no_grad()
def keep_features(network: Judge, examples: Sequence[Example], *, keep: bool) -> None:
    """Let the encoder read every example once, or let it read them each time."""
    network.eval()
    for example in examples:
        example.features = None
    for at in range(0, len(examples) if keep else 0, BATCH):
        batch = examples[at : at + BATCH]
        for example, row in zip(batch, network.encode(batch)[0], strict=True):
            example.features = row[: len(example.ids)]


@torch.no_grad()
def predicted(network: Judge, task: Task) -> list[Tensor]:
    """What is predicted of each test example: numbers of tags, of a label, or of the first and last token."""
    network.eval()
    found = []
    for at in range(0, len(task.test), BATCH):
        batch = task.test[at : at + BATCH]
        best = network(*network.encode(batch), batch).argmax(1 if task.name == "spans" else -1)
        found += [
            row[: len(each.ids)] if task.name == "tagging" else row for row, each in zip(best, batch, strict=True)
        ]
    return found


def batches(examples: Sequence[Example], seed: int) -> Iterator[list[Example]]:
    """Random batches of examples of similar length."""
    draw = random.Random(seed)
    shuffled = draw.sample(range(len(examples)), len(examples))
    blocks = [shuffled[at : at + 20 * BATCH] for at in range(0, len(shuffled), 20 * BATCH)]
    ordered = [sorted(block, key=lambda number: len(examples[number].ids)) for block in blocks]
    made = [block[at : at + BATCH] for block in ordered for at in range(0, len(block), BATCH)]
    draw.shuffle(made)
    yield from ([examples[number] for number in batch] for batch in made)


# ── the tasks ──────────────────────────────────────────────────────────────────────────────────────────────


def tagging_task(tokenizer: PreTrainedTokenizerBase, folder: Path) -> Task:
    """Spans of names: ``train.conll`` and ``test.conll`` of a folder."""
    read = {name: list(tagged_words(folder / f"{name}.conll")) for name in ("train", "test")}
    labels = sorted({tag for _, tags in read["train"] for tag in tags})
    numbers = {label: number for number, label in enumerate(labels)}
    parts: dict[str, list[Example]] = {"train": [], "test": []}
    places = []
    for name, sentences in read.items():
        for words, tags in sentences:
            coded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=LONGEST)
            owners = coded.word_ids()
            firsts = [at for at, word in enumerate(owners) if word is not None and word != owners[at - 1]]
            target = torch.full((len(owners),), IGNORED)
            for at in firsts:
                target[at] = numbers.get(tags[owners[at]], IGNORED)
            parts[name].append(_example(coded, target))
            if name == "test":
                places.append({owners[at]: at for at in firsts})

    def score(found: Sequence[Tensor]) -> float:
        tags = [
            [labels[int(row[where[word]])] if word in where else "O" for word in range(len(words))]
            for row, where, (words, _) in zip(found, places, read["test"], strict=True)
        ]
        return score_tags([gold for _, gold in read["test"]], tags).f1

    return Task("tagging", len(labels), parts["train"], parts["test"], score)


def pairs_task(tokenizer: PreTrainedTokenizerBase, folder: Path) -> Task:
    """Entailment of two sentences: SICK's ``train.tsv`` and ``test.tsv``."""
    parts, gold = {}, []
    labels = ("NEUTRAL", "ENTAILMENT", "CONTRADICTION")
    for name in ("train", "test"):
        with (folder / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        gold = [labels.index(row["entailment_judgment"].upper()) for row in rows]
        coded = [tokenizer(row["sentence_A"], row["sentence_B"], truncation=True, max_length=LONGEST) for row in rows]
        parts[name] = [_example(each, torch.tensor([label])) for each, label in zip(coded, gold, strict=True)]

    def score(found: Sequence[Tensor]) -> float:
        return sum(int(row) == label for row, label in zip(found, gold, strict=True)) / len(gold)

    return Task("pairs", len(labels), parts["train"], parts["test"], score)


def spans_task(tokenizer: PreTrainedTokenizerBase, folder: Path, *, train: int = 4000, test: int = 2000) -> Task:
    """Answers, or none: some questions of restaurant8k's ``train.json`` and ``test.json``."""
    parts: dict[str, list[Example]] = {}
    for name, count in (("train", train), ("test", test)):
        articles = json.loads((folder / f"{name}.json").read_text("utf-8"))["data"]
        asked = [
            (paragraph["context"], question)
            for article in articles
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
        parts[name] = [_span_example(tokenizer, *each) for each in random.Random(1).sample(asked, count)]
    gold = [example.target.tolist() for example in parts["test"]]

    def score(found: Sequence[Tensor]) -> float:
        spans = [[0, 0] if 0 in row.tolist() else row.tolist() for row in found]
        return sum(span == right for span, right in zip(spans, gold, strict=True)) / len(gold)

    return Task("spans", 2, parts["train"], parts["test"], score)


def _span_example(tokenizer: PreTrainedTokenizerBase, context: str, question: dict) -> Example:  # type: ignore[type-arg]
    """A question with its passage; tokens are counted from 1, and 0 stands for no answer."""
    coded = tokenizer(question["question"], context, truncation=True, max_length=LONGEST)
    target = torch.zeros(2, dtype=torch.long)
    if question["answers"]:
        start = question["answers"][0]["answer_start"]
        end = start + len(question["answers"][0]["text"]) - 1
        first, last = (coded.char_to_token(0, place, 1) for place in (start, end))
        if first is not None and last is not None:
            target = torch.tensor([1 + first, 1 + last])
    allowed = torch.tensor([sequence == 1 for sequence in coded.sequence_ids(0)])
    return _example(coded, target, allowed)


def _example(coded: dict, target: Tensor, allowed: Tensor | None = None) -> Example:  # type: ignore[type-arg]
    ids = torch.tensor(coded["input_ids"])
    allowed = torch.ones(len(ids), dtype=torch.bool) if allowed is None else allowed
    return Example(ids, torch.tensor(coded["token_type_ids"]), target, allowed)


def tagged_words(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The sentences of a CoNLL file, tags as BIO."""
    for row in open_corpus([path]).rows():
        if isinstance(row, Document) and row.words and row.tags:
            yield list(row.words), list(to_bio(row.tags))


def tasks_for(folder: Path, data: Path, tagged: Path) -> list[Task]:
    """The three tasks in the pieces of a model's vocabulary."""
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return [
        tagging_task(tokenizer, tagged),
        pairs_task(tokenizer, data / "sick"),
        spans_task(tokenizer, data / "restaurant8k"),
    ]
