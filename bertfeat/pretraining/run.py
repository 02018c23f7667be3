"""One pre-training, from a corpus to a model's folder: prepared, trained and scored, resumed where it was."""

import shutil
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.errors import PretrainingError, parameter
from bertfeat.io import make_state_folder, storage_errors, write_json
from bertfeat.models import Model
from bertfeat.pretraining.anchor import Anchor
from bertfeat.pretraining.checkpoints import TrainingProgress, newest_checkpoint
from bertfeat.pretraining.evaluation import SEQUENCES, score_examples, unigram_logs
from bertfeat.pretraining.examples import Collator, SequenceExamples
from bertfeat.pretraining.material import (
    PretrainingTokenizer,
    copy_tokenizer,
    corpus_figures,
    make_tokenizer,
    open_tokenizer,
    refuse_changed_corpus,
    tokenize_corpus,
    warn_of_corpus,
)
from bertfeat.pretraining.networks import StartedNetwork, continued_network, new_network, start_from_frequencies
from bertfeat.pretraining.pace import seconds_a_step
from bertfeat.pretraining.plan import PLAN_NAME, PLAN_VERSION, TrainingPlan, read_plan, warnings_before
from bertfeat.pretraining.ranges import CorpusSplit, DocumentRanges, refuse_few_pairs, split_corpus
from bertfeat.pretraining.report import (
    HeldOutScores,
    OnPretraining,
    PretrainingIdentity,
    PretrainingProgress,
    PretrainingRecord,
    PretrainingReport,
)
from bertfeat.pretraining.result_files import (
    FORMAT_VERSION,
    read_record,
    remove_result,
    write_result,
)
from bertfeat.pretraining.settings import PretrainingSettings
from bertfeat.pretraining.texts import CorpusTexts, read_digest
from bertfeat.pretraining.token_store import TokenStore
from bertfeat.pretraining.training import TrainingTask, refuse_no_number, run_training

MEASURED = 0.05  # share of the minutes in which the speed is measured
_MOST_MEASURED = 20.0  # seconds


@dataclass(frozen=True, slots=True)
class _Material:
    """The tokenizer and the corpus, ready to be learnt from."""

    tokenizer: PretrainingTokenizer
    store: TokenStore
    split: CorpusSplit

    def examples(
        self, ranges: DocumentRanges, settings: PretrainingSettings, count: int | None = None
    ) -> SequenceExamples:
        """The examples of some of the documents; ``count`` of them, else those of an epoch."""
        return SequenceExamples(self.store, ranges, settings, self.tokenizer.special, count)

    @property
    def frequencies(self) -> NDArray[np.float64]:
        """The logarithm of each piece's frequency in what is learnt from. Shape: ``[V]``."""
        return unigram_logs(self.store, self.split, self.tokenizer.special)


class PretrainingRun:
    """One pre-training in a folder that is held for it."""

    def __init__(
        self,
        texts: CorpusTexts,
        folder: Path,
        settings: PretrainingSettings,
        model: Model | None,
        device: torch.device,
        checkpoint_minutes: float,
        told: OnPretraining | None,
    ) -> None:
        self.texts, self.folder, self.settings, self.model = texts, folder, settings, model
        self.device, self.checkpoint_minutes, self.told = device, checkpoint_minutes, told
        self.state = make_state_folder(folder) / "pretraining"
        self._digest = ""
        self.warnings: list[str] = list(warnings_before(model, settings))
        self.notes: tuple[str, ...] = ()

    def run(self, *, overwrite: bool) -> PretrainingReport:
        """Do what is left to be done."""
        begun = time.perf_counter()
        if overwrite:
            remove_result(self.folder)
            self._remove_state()
        if (record := read_record(self.folder)) is not None:
            self._check_same(record.identity, record.stamps, "a model that was trained")
            self._remove_state()
            return self._report(record, 0, begun, trained=False)
        plan = read_plan(self.state)
        material = self._prepare() if plan is None else self._reopen(plan)
        network = self._network(material)
        self.notes = network.notes
        plan = plan or self._decide(material, network)
        self.warnings += warn_of_corpus(plan.figures)
        record, resumed = self._train(material, network, plan)
        self._remove_state()
        return self._report(record, resumed, begun, trained=True)

    # ── before the first step ───────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> _Material:
        """Make the tokenizer, and tokenize the corpus."""
        self._remove_state()
        with storage_errors(self.state):
            (self.state / "tokenizer").mkdir(parents=True)
        if self.model is None:
            make_tokenizer(self.state / "tokenizer", self.texts, self.settings, self.told)
        else:
            copy_tokenizer(self.model, self.state / "tokenizer")
        before, tokenizer = self.texts.digest, self._open_tokenizer()
        store = tokenize_corpus(self.texts, tokenizer, self.state, self.settings.max_length, self.told)
        refuse_changed_corpus(before, self.texts)
        self._digest = self.texts.digest
        return _Material(tokenizer, store, split_corpus(store, self.settings.held_out, self.settings.seed))

    def _reopen(self, plan: TrainingPlan) -> _Material:
        """Open what an earlier run prepared."""
        self._check_same(plan.identity, plan.stamps, "a training that was begun")
        store = TokenStore.open(self.state)
        sizes = len(store.pieces), len(store.sentences), len(store.documents)
        if sizes != (plan.figures.pieces, plan.figures.sentences, plan.figures.documents):
            remedy = f"train anew with {parameter('overwrite', True)}"
            raise PretrainingError(
                "its tokenized corpus is not the one that was written", where=self.state, remedy=remedy
            )
        split = split_corpus(store, self.settings.held_out, self.settings.seed)
        return _Material(self._open_tokenizer(), store, split)

    def _open_tokenizer(self) -> PretrainingTokenizer:
        name, rows = ("the new vocabulary", self.settings.vocabulary)
        if self.model is not None:
            name, rows = self.model.name, self.model.sizes.vocab_size
        return open_tokenizer(self.state / "tokenizer", name, rows)

    def _network(self, material: _Material) -> StartedNetwork:
        torch.manual_seed(self.settings.seed % (1 << 63))
        network = new_network(self.settings) if self.model is None else continued_network(self.model, self.settings)
        if network.new_head:
            start_from_frequencies(network.module, material.frequencies)
        network.module.to(self.device)  # type: ignore[arg-type]  # transformers' own to() is typed too narrowly
        return network

    def _decide(self, material: _Material, network: StartedNetwork) -> TrainingPlan:
        """Score the model as it is, fix the number of steps, and write both down."""
        sequences = material.examples(material.split.training, self.settings).epoch
        if self.settings.goal.has_pairs:
            refuse_few_pairs(material.split.held_out, self.settings.held_out)
        figures = corpus_figures(self.texts, material.store, material.split, sequences, material.tokenizer.unknown)
        before = self._score(material, network, "scoring the model as it is")
        task = self._task(material, network, 0)
        steps = self._steps(task, sequences)
        plan = TrainingPlan(PLAN_VERSION, self._identity(), self.texts.stamps, steps, figures, before)
        write_json(self.state / PLAN_NAME, plan)
        return plan

    def _steps(self, task: TrainingTask, sequences: int) -> int:
        settings = self.settings
        if settings.minutes is None:
            return settings.steps or steps_of_epochs(settings, sequences)
        seconds, _ = seconds_a_step(task, min(_MOST_MEASURED, MEASURED * settings.minutes * 60))
        return max(1, int(settings.minutes * 60 / seconds))

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────

    def _train(self, material: _Material, network: StartedNetwork, plan: TrainingPlan) -> tuple[PretrainingRecord, int]:
        task = self._task(material, network, plan.steps)
        checkpoint = newest_checkpoint(task.folder)
        log = run_training(task, checkpoint, self.told)
        progress = log.progress(plan.steps)
        refuse_no_number(sum(float(weight.sum()) for weight in network.module.state_dict().values()), task.rate)
        after = self._score(material, network, "scoring the model as it became")
        record = self._record(plan, progress, after)
        network.module.eval()
        write_result(self.folder, self.state / "result", network.module, self.state / "tokenizer", self.model, record)
        return record, 0 if checkpoint is None else checkpoint.progress.step

    def _task(self, material: _Material, network: StartedNetwork, steps: int) -> TrainingTask:
        settings = self.settings
        anchor = None
        if settings.anchor is not None and self.model is not None:
            anchor = Anchor.of(self.model, settings.anchor, self.device)
        count = steps * settings.batch_size or None
        return TrainingTask(
            module=network.module,
            examples=material.examples(material.split.training, settings, count),
            collator=self._collator(material, network, anchor is not None),
            anchor=anchor,
            batch_size=settings.batch_size,
            steps=steps,
            rate=settings.rate,
            seed=settings.seed,
            folder=self.state / "checkpoints",
            checkpoint_seconds=60 * self.checkpoint_minutes,
            precision=settings.precision,
        )

    def _collator(self, material: _Material, network: StartedNetwork, anchored: bool = False) -> Collator:
        has_types = (getattr(network.module.config, "type_vocab_size", 0) or 0) > 1
        return Collator(material.tokenizer.special.pad, has_types, self.settings.goal.has_pairs, anchored)

    def _score(self, material: _Material, network: StartedNetwork, stage: str) -> HeldOutScores | None:
        """Score the model on the held-out sequences; None where there are none."""
        held_out = material.split.held_out
        if not len(held_out):
            return None
        if self.told is not None:
            self.told(PretrainingProgress(stage, 0.0))
        count = min(SEQUENCES, material.examples(held_out, self.settings).epoch)
        examples = material.examples(held_out, self.settings, count)
        scores = score_examples(network.module, examples, self._collator(material, network), material.frequencies)
        refuse_no_number(scores.loss, self.settings.rate)
        return scores

    # ── what it is ──────────────────────────────────────────────────────────────────────────────────────────

    def _identity(self) -> PretrainingIdentity:
        model = None if self.model is None else self.model.fingerprint
        return PretrainingIdentity(self.settings, model, self._digest)

    def _check_same(self, theirs: PretrainingIdentity, stamps: tuple[str, ...], what: str) -> None:
        """Refuse a folder of another training.

        Raises:
            PretrainingError: names what differs.
        """
        self._digest = theirs.corpus if stamps == self.texts.stamps else read_digest(self.texts)
        ours = self._identity()
        here, there = asdict(self.settings), asdict(theirs.settings)
        differ = [
            f"{parameter(name, here[name])} here, {parameter(name, there[name])} there"
            for name in here
            if here[name] != there[name]
        ]
        differ += ["the model that goes on"] * (ours.model != theirs.model)
        differ += ["the texts of the corpus"] * (ours.corpus != theirs.corpus)
        if differ:
            raise PretrainingError(
                f"{self.folder} holds {what} in another way; these differ: {'; '.join(differ)}",
                remedy=f"name another folder with {parameter('folder')}, or start anew with "
                f"{parameter('overwrite', True)}",
            )

    def _record(self, plan: TrainingPlan, progress: TrainingProgress, after: HeldOutScores | None) -> PretrainingRecord:
        return PretrainingRecord(
            format_version=FORMAT_VERSION,
            identity=plan.identity,
            model=None if self.model is None else self.model.name,
            sources=self.texts.sources,
            stamps=plan.stamps,
            figures=plan.figures,
            steps=plan.steps,
            history=progress.history,
            before=plan.before,
            after=after,
            tokens=progress.tokens,
            seconds=progress.seconds,
            versions={name: version(name) for name in ("bertfeat", "torch", "transformers", "tokenizers", "numpy")}
            | {"threads": str(torch.get_num_threads())},
        )

    def _report(self, record: PretrainingRecord, resumed: int, begun: float, *, trained: bool) -> PretrainingReport:
        seconds = time.perf_counter() - begun
        return PretrainingReport(self.folder, record, tuple(self.warnings), self.notes, resumed, trained, seconds)

    def _remove_state(self) -> None:
        with storage_errors(self.folder):
            if self.state.exists():
                shutil.rmtree(self.state)


def steps_of_epochs(settings: PretrainingSettings, sequences: int) -> int:
    """The steps in which all epochs are learnt from."""
    return -(-sequences * (settings.epochs or 1) // settings.batch_size)


def with_warnings(report: PretrainingReport, warnings: tuple[str, ...]) -> PretrainingReport:
    """The same report with more warnings."""
    return replace(report, warnings=(*report.warnings, *warnings))
