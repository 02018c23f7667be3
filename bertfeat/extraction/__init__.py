"""From texts to features: an extractor for texts in memory and corpora on disk, estimates and verification."""

from bertfeat.extraction.embedder import Embedder
from bertfeat.extraction.estimate import Estimate, estimate_extraction
from bertfeat.extraction.plan import PlannedPart, plan_parts
from bertfeat.extraction.report import ExtractionReport, OnProgress, Progress
from bertfeat.extraction.sentence_transformers import Extractor
from bertfeat.extraction.settings import (
    NUMERICS_VERSION,
    PART_ROWS,
    bytes_per_character,
    bytes_per_row,
    record_settings,
)
from bertfeat.extraction.source import CorpusSource, open_run_source
from bertfeat.extraction.spool import spool_stdin
from bertfeat.extraction.texts import GivenTexts, take_texts
from bertfeat.extraction.verify import Deviation, VerifyReport, verify_features

__all__ = [
    "NUMERICS_VERSION",
    "PART_ROWS",
    "CorpusSource",
    "Deviation",
    "Embedder",
    "Estimate",
    "ExtractionReport",
    "Extractor",
    "GivenTexts",
    "OnProgress",
    "PlannedPart",
    "Progress",
    "VerifyReport",
    "bytes_per_character",
    "bytes_per_row",
    "estimate_extraction",
    "open_run_source",
    "plan_parts",
    "record_settings",
    "spool_stdin",
    "take_texts",
    "verify_features",
]
