from .calls import (
    CHECKPOINT_MINUTES as CHECKPOINT_MINUTES,
    estimate_pretraining as estimate_pretraining,
    pretrain_model as pretrain_model,
)
from .report import (
    CorpusFigures as CorpusFigures,
    HeldOutScores as HeldOutScores,
    HistoryPoint as HistoryPoint,
    OnPretraining as OnPretraining,
    PretrainingEstimate as PretrainingEstimate,
    PretrainingIdentity as PretrainingIdentity,
    PretrainingProgress as PretrainingProgress,
    PretrainingRecord as PretrainingRecord,
    PretrainingReport as PretrainingReport,
)
from .result_files import (
    PretrainedVerifyReport as PretrainedVerifyReport,
    read_record as read_record,
    verify_pretrained as verify_pretrained,
)
from .settings import Objective as Objective, PretrainingSettings as PretrainingSettings
from .shapes import SHAPES as SHAPES, ModelShape as ModelShape
