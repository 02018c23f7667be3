from .embedder import Embedder as Embedder
from .estimate import Estimate as Estimate, estimate_extraction as estimate_extraction
from .options import EncodeResult as EncodeResult
from .plan import PlannedPart as PlannedPart, plan_parts as plan_parts
from .report import ExtractionReport as ExtractionReport, OnProgress as OnProgress, Progress as Progress
from .sentence_transformers import Extractor as Extractor
from .settings import (
    NUMERICS_VERSION as NUMERICS_VERSION,
    PART_ROWS as PART_ROWS,
    bytes_per_character as bytes_per_character,
    bytes_per_row as bytes_per_row,
    record_settings as record_settings,
)
from .source import CorpusSource as CorpusSource, open_run_source as open_run_source
from .spool import spool_stdin as spool_stdin
from .texts import TextInput as TextInput, take_texts as take_texts
from .verify import Deviation as Deviation, VerifyReport as VerifyReport, verify_features as verify_features
