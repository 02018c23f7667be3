from .calls import (
    CHECKPOINT_MINUTES as CHECKPOINT_MINUTES,
    PretrainingEstimate as PretrainingEstimate,
    estimate_pretraining as estimate_pretraining,
    pretrain_model as pretrain_model,
)
from .results import (
    CorpusFigures as CorpusFigures,
    HeldOutScores as HeldOutScores,
    HistoryPoint as HistoryPoint,
    PretrainedVerifyReport as PretrainedVerifyReport,
    PretrainingIdentity as PretrainingIdentity,
    PretrainingRecord as PretrainingRecord,
    PretrainingReport as PretrainingReport,
    read_record as read_record,
    verify_pretrained as verify_pretrained,
)
from .settings import (
    SHAPES as SHAPES,
    ModelShape as ModelShape,
    Objective as Objective,
    PretrainingSettings as PretrainingSettings,
)
from .training import OnPretraining as OnPretraining, PretrainingProgress as PretrainingProgress
