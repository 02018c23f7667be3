"""What a pre-training would take, measured on the beginning of a corpus."""

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from bertfeat.errors import CorpusError
from bertfeat.models import Model
from bertfeat.pretraining.anchor import Anchor
from bertfeat.pretraining.examples import Collator, SequenceExamples
from bertfeat.pretraining.material import PretrainingTokenizer, copy_tokenizer, open_tokenizer
from bertfeat.pretraining.networks import continued_network, new_network
from bertfeat.pretraining.pace import seconds_a_step
from bertfeat.pretraining.ranges import split_corpus
from bertfeat.pretraining.report import PretrainingEstimate
from bertfeat.pretraining.run import steps_of_epochs
from bertfeat.pretraining.settings import VOCABULARY, PretrainingSettings
from bertfeat.pretraining.texts import CorpusText, CorpusTexts
from bertfeat.pretraining.token_store import TokenStore, write_tokens
from bertfeat.pretraining.training import TrainingTask
from bertfeat.pretraining.vocabulary import learn_vocabulary, write_vocabulary

_ROWS = 20_000  # that are looked at
_CHARACTERS = 4_000_000
_SECONDS = 10.0  # of measuring


def estimate_run(
    texts: CorpusTexts, settings: PretrainingSettings, model: Model | None, device: torch.device
) -> PretrainingEstimate:
    """Tokenize the first rows, time some steps, and extrapolate."""
    rows = list(_first_rows(texts))
    fraction = max(texts.fraction, 1e-9)
    if not rows:
        raise CorpusError("the corpus is empty: none of its rows has a text", remedy="check the files and their column")
    with tempfile.TemporaryDirectory() as scratch_dir:
        folder = Path(scratch_dir)
        tokenizer = _tokenizer(folder, rows, settings, model)
        write_tokens(rows, tokenizer.fast, folder, max(2, settings.max_length // 2))
        store = TokenStore.open(folder)
        split = split_corpus(store, 0, settings.seed)
        examples = SequenceExamples(store, split.training, settings, tokenizer.special)
        task = _task(examples, tokenizer, settings, model, device)
        seconds, tokens = seconds_a_step(task, _SECONDS)
        sequences = max(1, round(len(examples) / fraction * (1 - settings.held_out)))
        steps = settings.steps or steps_of_epochs(settings, sequences)
        if settings.minutes is not None:
            steps = max(1, int(settings.minutes * 60 / seconds))
        return PretrainingEstimate(
            parameters=sum(weight.numel() for weight in task.module.parameters()),
            pieces=round(len(store.pieces) / fraction),
            sequences=sequences,
            steps=steps,
            tokens_per_second=tokens / seconds,
            seconds=steps * seconds,
            warnings=(),
        )


def _first_rows(texts: CorpusTexts) -> Iterator[CorpusText]:
    characters = 0
    for row in islice(texts, _ROWS):
        yield row
        characters += len(row.text)
        if characters > _CHARACTERS:
            return


def _tokenizer(
    folder: Path, rows: list[CorpusText], settings: PretrainingSettings, model: Model | None
) -> PretrainingTokenizer:
    """The model's own tokenizer; of a new model one with as many pieces as the rows give."""
    (folder / "tokenizer").mkdir()
    if model is not None:
        copy_tokenizer(model, folder / "tokenizer")
        return open_tokenizer(folder / "tokenizer", model.name, model.sizes.vocab_size)
    size = settings.vocabulary or VOCABULARY
    learnt = learn_vocabulary([row.text for row in rows], size, cased=settings.cased, at_most=True)
    write_vocabulary(folder / "tokenizer", learnt, cased=settings.cased, positions=settings.max_length)
    return open_tokenizer(folder / "tokenizer", "the new vocabulary", size)


def _task(
    examples: SequenceExamples,
    tokenizer: PretrainingTokenizer,
    settings: PretrainingSettings,
    model: Model | None,
    device: torch.device,
) -> TrainingTask:
    module = (new_network(settings) if model is None else continued_network(model, settings)).module
    module.to(device)  # type: ignore[arg-type]
    anchor = Anchor.of(model, settings.anchor, device) if model is not None and settings.anchor is not None else None
    has_types = (getattr(module.config, "type_vocab_size", 0) or 0) > 1
    collator = Collator(tokenizer.special.pad, has_types, settings.goal.has_pairs, anchor is not None)
    return TrainingTask(
        module=module,
        examples=examples,
        collator=collator,
        anchor=anchor,
        batch_size=settings.batch_size,
        steps=0,
        rate=settings.rate,
        seed=settings.seed,
        folder=Path(),
        checkpoint_seconds=0.0,
        precision=settings.precision,
    )
