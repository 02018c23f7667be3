"""One pre-training run, from a corpus to a model's folder: prepares, trains, scores, resumes after a stop."""

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import torch

from bertfeat.core import Model
from bertfeat.errors import PretrainingError, StorageError, parameter
from bertfeat.io import installed_versions, make_state_folder, storage_errors, write_json
from bertfeat.pretraining.corpus import CorpusText, CorpusTexts, refuse_few_pairs
from bertfeat.pretraining.losses import SEQUENCES, score_examples
from bertfeat.pretraining.material import (
    TOKENIZER,
    TrainingMaterial,
    digest_material,
    prepare_material,
    reopen_material,
)
from bertfeat.pretraining.networks import StartedNetwork, start_from_frequencies, start_network
from bertfeat.pretraining.results import (
    FORMAT_VERSION,
    PLAN_FORMAT,
    PLAN_NAME,
    CorpusFigures,
    HeldOutScores,
    PretrainingIdentity,
    PretrainingRecord,
    PretrainingReport,
    check_model_files,
    is_sentence_model,
    read_plan,
    read_record,
    remove_result,
    write_result,
)
from bertfeat.pretraining.settings import Objective, PretrainingSettings
from bertfeat.pretraining.training import (
    OnPretraining,
    PretrainingProgress,
    make_task,
    refuse_no_number,
    run_training,
    seconds_a_step,
)

MEASURED = 0.05  # share of the time budget for measuring the speed
_MOST_MEASURED = 20.0  # seconds


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
        tell: OnPretraining,
    ) -> None:
        self.texts, self.folder, self.settings, self.model = texts, folder, settings, model
        self.device, self.checkpoint_minutes, self.tell = device, checkpoint_minutes, tell
        self.state = make_state_folder(folder) / "pretraining"

    def run(self, *, overwrite: bool) -> PretrainingReport:
        """Train, resume, or reuse a finished model."""
        begun = time.perf_counter()
        warnings = [*_warnings_before(self.model, self.settings)]
        record, plan = (None, None) if overwrite else (read_record(self.folder), read_plan(self.state))
        notes, resumed, trained = tuple[str, ...](), 0, record is None
        if record is not None:
            self._check_same(record, "a model that was trained")
            check_model_files(self.folder, record)
        else:
            material, network, plan = self._begin() if plan is None else self._reopen(plan)
            notes = network.notes
            warnings += _warnings_of_corpus(plan.figures, material.tokenizer.size, self.settings.vocabulary)
            record, resumed = self._train(material, network, plan)
        self._remove_state()
        seconds = time.perf_counter() - begun
        return PretrainingReport(self.folder, record, tuple(warnings), notes, resumed, trained, seconds)

    # ── before the first step ───────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> tuple[TrainingMaterial, StartedNetwork, PretrainingRecord]:
        """Prepare the material, write the plan, and then remove an old model; a failure leaves nothing prepared."""
        try:
            self._remove_state()
            material = prepare_material(self.state, self._read, self.settings, self.model)
            network = self._network(material)
            plan = self._decide(material, network)
            write_json(self.state / PLAN_NAME, plan)
            remove_result(self.folder)
        except BaseException:
            with suppress(StorageError):
                self._remove_state()
            raise
        return material, network, plan

    def _reopen(self, plan: PretrainingRecord) -> tuple[TrainingMaterial, StartedNetwork, PretrainingRecord]:
        """Open what an earlier run prepared."""
        self._check_same(plan, "a training that was begun")
        PLAN_FORMAT.check_files(self.state, plan.files, "the prepared corpus is not as it was written")
        material = reopen_material(self.state, self.settings, self.model)
        return material, self._network(material), plan

    def _read(self, stage: str) -> Iterator[CorpusText]:
        """Read the corpus, which has to be the same each time, and report the progress."""
        before = self.texts.digest
        for number, row in enumerate(self.texts):
            if number % 1000 == 0:
                self.tell(PretrainingProgress(stage, self.texts.fraction))
            yield row
        if before and self.texts.digest != before:
            raise PretrainingError(
                "the corpus changed while it was read", remedy="run it again when nobody writes to it"
            )

    def _network(self, material: TrainingMaterial) -> StartedNetwork:
        network = start_network(self.settings, self.model, material.tokenizer.size, self.device)
        if network.new_head:
            start_from_frequencies(network.module, material.frequencies)
        return network

    def _decide(self, material: TrainingMaterial, network: StartedNetwork) -> PretrainingRecord:
        """Make the plan: count the corpus, score the model as it is, and fix the number of steps."""
        store, split, unknown = material.store, material.split, material.tokenizer.unknown
        task = make_task(material, network.module, self.model)
        if self.settings.goal.has_pairs:
            refuse_few_pairs(split.held_out, self.settings.held_out)
        pieces = len(store.pieces)
        figures = CorpusFigures(
            documents=len(store.documents),
            sentences=len(store.sentences),
            pieces=pieces,
            held_out_pieces=split.held_out.pieces,
            held_out=split.described,
            sequences=len(task.examples),
            failed=self.texts.failed,
            first_failure=self.texts.first_failure,
            unknown=0 if unknown is None else int(store.counts(0, pieces, material.tokenizer.size)[unknown]),
        )
        before = self._score(material, network, "scoring the model as it is")
        steps = self.settings.steps or steps_of_epochs(self.settings, len(task.examples))
        if self.settings.minutes is not None:
            budget = 60 * self.settings.minutes
            seconds, _ = seconds_a_step(task, min(_MOST_MEASURED, MEASURED * budget))
            steps = max(1, int(budget / seconds))
        return PretrainingRecord(
            format_version=FORMAT_VERSION,
            identity=PretrainingIdentity(self.settings, self._fingerprint, self.texts.digest),
            model=None if self.model is None else self.model.name,
            sources=self.texts.sources,
            stamps=self.texts.stamps,
            figures=figures,
            steps=steps,
            history=(),
            before=before,
            after=None,
            tokens=0,
            seconds=0.0,
            versions=_versions(),
            files=digest_material(self.state),
        )

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────

    def _train(
        self, material: TrainingMaterial, network: StartedNetwork, plan: PretrainingRecord
    ) -> tuple[PretrainingRecord, int]:
        """Learn, score, and write the result; return its record, and the steps of earlier runs."""
        module, checkpoints = network.module, self.state / "checkpoints"
        task = make_task(material, module, self.model, plan.steps, checkpoints, 60 * self.checkpoint_minutes)
        done = run_training(task, self.tell)
        refuse_no_number(sum(float(weight.sum()) for weight in module.state_dict().values()), self.settings.rate)
        record = replace(
            plan,
            history=done.history,
            after=self._score(material, network, "scoring the trained model"),
            tokens=done.tokens,
            seconds=done.seconds,
            versions=_versions(),
        )
        module.eval()
        record = write_result(self.folder, self.state / "result", module, self.state / TOKENIZER, self.model, record)
        return record, done.resumed

    def _score(self, material: TrainingMaterial, network: StartedNetwork, stage: str) -> HeldOutScores | None:
        """Score the model on the held-out sequences; None where there are none."""
        held_out = material.split.held_out
        if not len(held_out):
            return None
        self.tell(PretrainingProgress(stage, 0.0))
        examples = material.examples(held_out, min(SEQUENCES, material.examples(held_out).epoch))
        collator = material.collator(network.module)
        scores = score_examples(network.module, examples, collator, material.frequencies)
        refuse_no_number(scores.loss, self.settings.rate)
        return scores

    # ── the folder ──────────────────────────────────────────────────────────────────────────────────────────

    def _check_same(self, record: PretrainingRecord, what: str) -> None:
        """Refuse a folder of another training, and say what differs."""
        theirs, corpus = record.identity, record.identity.corpus
        if record.stamps != self.texts.stamps:
            for _ in self.texts:  # to its end, where its digest is known
                pass
            corpus = self.texts.digest
        here, there = asdict(self.settings), asdict(theirs.settings)
        differ = [
            f"{parameter(name, here[name])} here, {parameter(name, there[name])} there"
            for name in here
            if here[name] != there[name]
        ]
        differ += ["the starting model"] * (self._fingerprint != theirs.model)
        differ += ["the texts of the corpus"] * (corpus != theirs.corpus)
        if differ:
            raise PretrainingError(
                f"{self.folder} holds {what} in another way; these differ: {'; '.join(differ)}",
                remedy=f"name another folder with {parameter('folder')}, or start anew with "
                f"{parameter('overwrite', True)}",
            )

    @property
    def _fingerprint(self) -> str | None:
        return None if self.model is None else self.model.fingerprint

    def _remove_state(self) -> None:
        with storage_errors(self.folder):
            if self.state.exists():
                shutil.rmtree(self.state)


def _warnings_before(model: Model | None, settings: PretrainingSettings) -> Iterator[str]:
    """Warnings before the first step."""
    if settings.goal is Objective.LTR:
        yield (
            "a left-to-right model is no encoder: each vector knows only what stands before it. transformers opens it "
            f"(AutoModelForCausalLM); extract {parameter('model')} refuses it"
        )
    if model is not None and settings.anchor is None and is_sentence_model(model):
        yield (
            f"{model.name} was trained to give one vector a text. Without {parameter('anchor')} its last "
            f"layer unlearns that and serves search less well; {parameter('anchor', 10)} keeps it"
        )


def _warnings_of_corpus(figures: CorpusFigures, size: int, asked: int | None) -> Iterator[str]:
    """Warnings about a corpus and its vocabulary, which has ``size`` pieces; ``asked`` were asked for."""
    if figures.failed:
        yield f"{figures.failed:,} rows cannot be read and were left out, the first because: {figures.first_failure}"
    if figures.unknown > 0.05 * figures.pieces:
        share = figures.unknown / figures.pieces
        yield f"{share:.0%} of the pieces are unknown to the vocabulary; it does not fit the corpus"
    if asked is not None and size < asked:
        yield (
            f"the words of the corpus give a vocabulary of {size:,} pieces, and {asked:,} were asked for; "
            f"the model has {size:,}"
        )


def _versions() -> dict[str, str]:
    """Versions of the libraries and the number of threads, on which the numbers may depend."""
    libraries = installed_versions("bertfeat", "torch", "transformers", "tokenizers", "numpy")
    return libraries | {"threads": str(torch.get_num_threads())}


def steps_of_epochs(settings: PretrainingSettings, sequences: int) -> int:
    """The number of steps that all epochs take."""
    return -(-sequences * (settings.epochs or 1) // settings.batch_size)
