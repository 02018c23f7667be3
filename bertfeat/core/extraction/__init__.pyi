from .agenda import (
    MadePart as MadePart,
    Result as Result,
    ScannedFiles as ScannedFiles,
    ScanTask as ScanTask,
    Task as Task,
    scan_tasks as scan_tasks,
)
from .cores import threads_in_use as threads_in_use, use_threads as use_threads
from .encode_arguments import EncodeResult as EncodeResult, TextInput as TextInput, take_texts as take_texts
from .estimate import Estimate as Estimate, estimate_extraction as estimate_extraction
from .joining import Join as Join
from .part_content import TokenizedRows as TokenizedRows
from .plan import (
    PartLimits as PartLimits,
    PartNumbering as PartNumbering,
    PlannedPart as PlannedPart,
    Span as Span,
    plan_parts as plan_parts,
    scan_file as scan_file,
)
from .progress import ExtractionReport as ExtractionReport, Progress as Progress
from .records import (
    bytes_per_row as bytes_per_row,
    finished_as as finished_as,
)
from .run_options import PART_ROWS as PART_ROWS, ExtractionOptions as ExtractionOptions
from .sentence_transformers.extractor import Extractor as Extractor
from .sentence_transformers.methods import SentenceEncoder as SentenceEncoder
from .sentence_transformers.stored import StoredEncoder as StoredEncoder
from .settings import (
    ExtractorSettings as ExtractorSettings,
    ModelSettings as ModelSettings,
)
from .sharing import (
    CLAIMS as CLAIMS,
    PRESENCE as PRESENCE,
    RUN_RECORD as RUN_RECORD,
    SCANS as SCANS,
)
from .speed import (
    PrecisionComparison as PrecisionComparison,
    Speed as Speed,
    compare_precisions as compare_precisions,
    measure_speed as measure_speed,
)
from .status import RunStatus as RunStatus, run_status as run_status
from .verify import (
    VerifyReport as VerifyReport,
    verify_features as verify_features,
)
from .worker import ExtractionJob as ExtractionJob
