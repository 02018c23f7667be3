"""One extraction of a corpus, from the lock to the manifest: the module that puts all steps together.

A plan cuts the corpus into parts (``plan``), an agenda hands them out (``agenda``), workers make them (``worker``):
in this process, or wherever the engine of :mod:`bertfeat.scale` has them. Every part is computed from its own
rows alone, so a run that was interrupted, or shared out, gives byte for byte what an undisturbed one gives.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from bertfeat.core.corpus import Corpus, CorpusSettings, Document, FileCorpus, check_readable
from bertfeat.core.engine import Agenda, Engine
from bertfeat.core.extraction.agenda import MadePart, PlannedAgenda, Result, ScanningAgenda, Task, tasks_of
from bertfeat.core.extraction.bases import check_width, learn_bases, recorded_bases, take_bases
from bertfeat.core.extraction.change import find_change
from bertfeat.core.extraction.copying import reused_parts
from bertfeat.core.extraction.joining import Join
from bertfeat.core.extraction.plan import PartLimits, PlannedPart, plan_parts
from bertfeat.core.extraction.progress import ExtractionReport, OnProgress, RunProgress
from bertfeat.core.extraction.records import (
    bytes_per_character,
    bytes_per_row,
    facts_of_run,
    finished_as,
    is_finished,
    recorded_header,
    refuse_changed_files,
    run_identity,
    write_run_manifest,
)
from bertfeat.core.extraction.run_folder import RunFolder
from bertfeat.core.extraction.run_options import PART_ROWS, ExtractionOptions
from bertfeat.core.extraction.sharing import lock_unless_joined
from bertfeat.core.extraction.source import CorpusSource, is_of_files, open_run_source
from bertfeat.core.extraction.worker import ExtractionJob, FailureLimit, PartWorker
from bertfeat.core.features import (
    OTHER_MACHINE,
    CanaryGroups,
    FeatureSet,
    FeatureSettings,
    Manifest,
    PartHeader,
    check_kept,
    drop_successor,
    refuse_foreign_parts,
    remove_leftovers,
    settle_successor,
)
from bertfeat.core.words import WordRule
from bertfeat.errors import BertfeatError, CorpusError, FeatureSetError, RemovalError, UsageError, parameter
from bertfeat.io import (
    Address,
    FolderLock,
    Location,
    ResultKind,
    as_location,
    refuse_other_kind,
    releasing_if_failed,
)

if TYPE_CHECKING:
    from bertfeat.core.extraction.sentence_transformers.extractor import Extractor

_log = logging.getLogger("bertfeat")


class ExtractionRun:
    """One run. Without an ``engine`` this process does the work."""

    def __init__(
        self,
        extractor: "Extractor",
        source: CorpusSource,
        folder: Location,
        corpus_settings: CorpusSettings,
        options: ExtractionOptions,
        on_progress: OnProgress,
        engine: Engine | None = None,
        join: Join | None = None,
        chosen: Mapping[str, object] | None = None,
    ) -> None:
        self._extractor, self._source, self._folder = extractor, source, folder
        self._parts = RunFolder(folder, overwrite=options.overwrite, update=options.update)
        self._corpus_settings, self._options = corpus_settings, options
        self._progress = RunProgress(on_progress)
        self._engine, self._join, self._chosen = engine, join, chosen
        self._lock: FolderLock | None = None
        self._failures = FailureLimit(folder, options.max_failures)
        self._vectors = CanaryGroups()  # of the parts that were added

    def execute(self) -> ExtractionReport:
        """Compute the missing parts, and account for every row."""
        hold = self._join.hold if self._join else lock_unless_joined
        with releasing_if_failed(self._folder), hold(self._folder) as self._lock:
            self._execute_locked()
        return self._progress.report(self._folder)

    def _execute_locked(self) -> None:
        self._check_source()
        refuse_other_kind(self._folder, ResultKind.FEATURES)
        refuse_foreign_parts(self._folder)
        if self._join is None:
            remove_leftovers(self._folder)
            settle_successor(self._folder)
        with open_run_source(self._source, self._folder, self._corpus_settings) as corpus:
            self._check_corpus(corpus)
            recorded = recorded_header(self._folder) if not self._options.overwrite else None
            self._choose_bases(corpus, recorded)
            settings = self._settle(corpus, recorded.settings if recorded else FeatureSettings())
            identity = run_identity(settings, corpus, self._corpus_settings)
            # local parts are read against their checksums; object storage keeps what was written
            trusts_listing = isinstance(self._folder, Address) and self._join is None
            if trusts_listing and not self._options.overwrite and (finished := finished_as(self._folder, identity)):
                self._add_finished(finished)
                return
            self._extract(corpus, self._job(corpus, settings, recorded), identity)

    def _extract(self, corpus: Corpus, job: ExtractionJob, identity: str) -> None:
        if self._join is None:
            self._parts.look_through(job.settings)
        try:
            self._work(corpus, job, identity)
        except RemovalError as error:
            raise self._with_change(error, corpus) from error
        if self._join is None:
            self._finish(corpus, identity)
        else:
            self._join.finish(lambda: self._finish(corpus, identity))
            if manifest := finished_as(self._folder, identity):
                self._add_finished(manifest)
        for problem in dict.fromkeys(self._parts.existing.damaged):
            _log.warning("done again: %s", problem)

    # ── before ──────────────────────────────────────────────────────────────────────────────────────────────

    def _check_source(self) -> None:
        """Refuse input that workers cannot read, before standard input is read."""
        shares = self._engine is not None or self._join is not None
        if shares and not is_of_files(self._source):
            raise UsageError(
                "texts in memory and standard input are read by one process",
                remedy="write them to a file, and name that",
            )

    def _check_corpus(self, corpus: Corpus) -> None:
        """Refuse wrong columns and contradictions before anything is touched."""
        first = next((row for row in check_readable(corpus.rows(), corpus) if isinstance(row, Document)), None)
        check_kept(corpus.kept, self._extractor.columns)
        if any(column.recipe.projected for column in self._extractor.columns):
            self._extractor.tokenizer.check_markers()
        tokens, neighbors = self._extractor.token_settings, self._corpus_settings.document_context
        if first is not None and first.ids is not None and (setting := tokens.needs_text):
            problem = f"{', '.join(corpus.sources) or 'the list'} has token ids, and {parameter(*setting)} needs a text"
            raise UsageError(problem, remedy="leave that out")
        if corpus.has_words and tokens.words is not WordRule.SPACES:
            raise UsageError(
                f"{', '.join(corpus.sources)} brings its own words, and {parameter('words', str(tokens.words))} splits "
                "running text",
                remedy=f"leave {parameter('words')} out",
            )
        if neighbors and (tokens.prompt or tokens.left_words is not None):
            other = "a prompt" if tokens.prompt else parameter("context")
            raise UsageError(
                f"{other} and {parameter('document_context')} both stand before a text", remedy="give one of them"
            )

    def _choose_bases(self, corpus: Corpus, recorded: PartHeader | None) -> None:
        """Fix the bases of the columns: of another set, of earlier runs, or learned from a sample."""
        extractor, width, basis = self._extractor, self._options.width, self._options.basis
        if basis is not None:
            columns = take_bases(extractor, FeatureSet(as_location(basis)), width)
        elif width is None:
            return
        else:
            check_width(extractor.columns, width)
            if self._join is not None:
                raise UsageError(
                    "runs that share a corpus do not learn components, which might differ",
                    where=parameter("width", width),
                    remedy=f"extract a part of the corpus first, and name that set with {parameter('basis')}",
                )
            if (known := recorded_bases(extractor.columns, recorded, width)) is not None:
                columns = known
            else:
                columns = learn_bases(extractor, corpus, width)
        self._extractor = extractor.with_bases(columns)

    def _settle(self, corpus: Corpus, recorded: FeatureSettings) -> FeatureSettings:
        """Fix the settings: those that are not given are taken from earlier runs."""
        extractor = self._extractor
        return replace(
            extractor.feature_settings,
            document_context=self._corpus_settings.document_context,
            split=corpus.split,
            keep=tuple(f"{column.name}:{column.type}" for column in corpus.kept),
            text=self._options.keep_text,
            batch_tokens=extractor.given.batch_tokens or recorded.batch_tokens or extractor.batch_tokens,
            part_rows=self._options.part_rows or recorded.part_rows or PART_ROWS,
        )

    def _job(self, corpus: Corpus, settings: FeatureSettings, recorded: PartHeader | None) -> ExtractionJob:
        extractor, model = self._extractor, self._extractor.identity
        if recorded is not None and recorded.model.fingerprint == model.fingerprint:
            model = replace(model, canary=recorded.model.canary)
        assert settings.batch_tokens is not None
        assert settings.part_rows is not None
        limits = PartLimits(
            settings.part_rows,
            bytes_per_row(extractor.columns, special_tokens=settings.special_tokens),
            bytes_per_character(extractor.columns),
        )
        return ExtractionJob(
            model=model,
            model_location=str(extractor.location),
            columns=extractor.columns,
            settings=settings,
            batch_tokens=settings.batch_tokens,
            limits=limits,
            files=corpus.files if isinstance(corpus, FileCorpus) else (),
            sources=tuple(corpus.sources),
            kept=tuple(corpus.kept),
            has_tags=corpus.has_tags,
            has_pairs=corpus.has_pairs,
            folder=self._folder,
            target=self._folder,
            donors=(),
            max_failures=self._options.max_failures,
            several_writers=self._engine is not None or self._join is not None,
        )

    # ── the parts ───────────────────────────────────────────────────────────────────────────────────────────

    def _work(self, corpus: Corpus, job: ExtractionJob, identity: str) -> None:
        agenda: Agenda[Task, Result] | None = None
        if self._join is not None:
            agenda = self._join.agenda(self._parts, job, identity, self._select, self._add_part, self._progress.skip)
        job = self._with_donors(job)
        if self._engine is not None:
            agenda = agenda or self._scanning_agenda(corpus, job)
            try:
                self._engine.run(job.with_absolute_paths(), agenda)
            finally:
                if self._join is None:  # else others may be writing
                    remove_leftovers(self._folder)
            return
        agenda = agenda or PlannedAgenda(self._checked_parts(corpus, job), self._select, self._add_part)
        # with several writers the first one has begun, and a manifest is there only if the others have finished
        begin = (lambda: None) if self._join else self._parts.begin
        worker = PartWorker(job, self._extractor, self._progress, begin, self._failures)
        worker.work(tasks_of(agenda, worker.raise_failed_writes), agenda.finish)

    def _scanning_agenda(self, corpus: Corpus, job: ExtractionJob) -> ScanningAgenda:
        """The files to be scanned; parts of earlier runs are held against the plan, or the corpus, first."""
        parts, check = self._parts, None
        if parts.has_successor:
            parts.check_update(parts.plan_to_check(corpus, job.limits))
        elif parts.existing.files:
            check = partial(parts.check_plan, job.files)
        return ScanningAgenda(job.files, job.limits, self._select, self._add_part, check)

    def _checked_parts(self, corpus: Corpus, job: ExtractionJob) -> Iterator[PlannedPart]:
        """The plan; parts of earlier runs are held against all of it first, or for an update against its beginning."""
        parts, plan = self._parts, plan_parts(corpus, job.limits)
        if parts.has_successor:
            first = list(islice(plan, 1))
            parts.check_update(chain(first, parts.plan_to_check(corpus, job.limits)))
            plan = chain(first, plan)
            del first
        elif parts.existing.files:
            parts.check_plan(job.files, list(parts.plan_to_check(corpus, job.limits)))
        return plan

    def _with_donors(self, job: ExtractionJob) -> ExtractionJob:
        """The job that copies from the parts that there are, and writes where the set's successor is made."""
        donors = self._parts.donors
        if donors and not job.settings.text:
            donors = ()
            _log.warning("%s: without texts in it, features are not copied, but computed", self._folder)
        if reused := reused_parts(self._options.reuse, job.settings, job.columns, self._extractor):
            donors += reused
            job = replace(job, model=replace(job.model, canary=job.model.canary or self._extractor.canary))
        return replace(job, target=self._parts.target, donors=donors)

    def _select(self, part: PlannedPart) -> PlannedPart:
        """Note a part of the plan before it is handed out, and whether an earlier run has made it."""
        selected = self._parts.match(part)
        if self._engine is not None and self._join is None and not selected.exists:
            self._parts.make_room(part)
        return selected

    def _add_part(self, part: PlannedPart, made: MadePart) -> None:
        """Count a part that is finished."""
        if made.damage:
            self._parts.existing.damaged.append(made.damage)
        if self._engine is not None:
            self._parts.changed |= not made.kept
            self._failures.check(made.header.failures, final=True)
        self._progress.add_part(part, made, elsewhere=self._engine is not None)
        self._vectors.add(part.number, made.header.model.canary)
        if not made.kept and (problem := self._vectors.problem()):  # of those that are, the manifest's writer tells
            raise FeatureSetError(problem, where=self._folder, remedy=OTHER_MACHINE)
        if made.warnings and not self._progress.warnings:  # once per run: those of all parts would be much the same
            self._progress.warnings = made.warnings
            for warning in made.warnings:
                _log.warning(warning)

    def _with_change(self, error: RemovalError, corpus: Corpus) -> RemovalError:
        """The refusal to remove parts, with what has changed in the corpus, where the parts hold texts."""
        parts = [path for path, header in self._parts.existing.files.items() if header is not None]
        try:
            change = find_change(parts, corpus, self._extractor)
        except BertfeatError:
            return error
        return RemovalError(f"{error.problem}; {change}", where=error.where, remedy=error.remedy)

    def _add_finished(self, manifest: Manifest) -> None:
        """Count a whole set, of which others made all or some parts."""
        self._progress.add_finished(manifest)
        self._failures.check_finished(manifest)

    # ── after ───────────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self, corpus: Corpus, identity: str) -> None:
        if self._lock is not None:
            self._lock.check()
        plan = self._parts.plan_digest
        if not plan:
            raise CorpusError("the corpus has no rows, so there is nothing to extract", where=", ".join(corpus.sources))
        if self._join is not None:
            refuse_changed_files(corpus)
        elif not self._parts.has_changed and is_finished(self._folder, corpus.sources):
            drop_successor(self._folder)
            return
        times, versions = facts_of_run(self._extractor, self._progress.seconds, self._progress.copied)
        times |= {} if self._chosen is None else {"chosen": self._chosen}
        write_run_manifest(self._folder, corpus, identity, plan, times, versions, self._parts.successor_parts())
