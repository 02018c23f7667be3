"""From texts to features: an extractor for texts in memory and corpora on disk, estimates and verification."""

from bertfeat.extraction.estimate import Estimate, estimate_extraction
from bertfeat.extraction.report import ExtractionReport, OnProgress, Progress
from bertfeat.extraction.sentence_transformers import Extractor
from bertfeat.extraction.texts import GivenTexts, take_texts
from bertfeat.extraction.verify import Deviation, VerifyReport, verify_features

__all__ = [
    "Deviation",
    "Estimate",
    "ExtractionReport",
    "Extractor",
    "GivenTexts",
    "OnProgress",
    "Progress",
    "VerifyReport",
    "estimate_extraction",
    "take_texts",
    "verify_features",
]
