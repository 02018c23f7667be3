"""From texts to features: an extractor for texts in memory and corpora on disk."""

from bertfeat.extraction.extractor import Extractor
from bertfeat.extraction.report import ExtractionReport, OnProgress, Progress

__all__ = ["ExtractionReport", "Extractor", "OnProgress", "Progress"]
