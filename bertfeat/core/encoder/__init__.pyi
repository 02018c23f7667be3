from .attention_reader import AttentionReader as AttentionReader
from .ceiling import (
    block_flop as block_flop,
    peak_rate as peak_rate,
    product_rate as product_rate,
    synchronize as synchronize,
)
from .forward import is_out_of_memory as is_out_of_memory
from .hardware import device_name as device_name, processor_flags as processor_flags
from .kernels import kernels_in_use as kernels_in_use, kernels_problem as kernels_problem
from .load import load_encoder as load_encoder
from .path import (
    BatchForm as BatchForm,
    is_packable as is_packable,
    planned_path as planned_path,
)
from .precision import (
    Precision as Precision,
    has_native_bf16 as has_native_bf16,
    resolve_device as resolve_device,
    resolve_precision as resolve_precision,
)
from .states import Encoder as Encoder, HiddenState as HiddenState
from .transfer import PendingCopy as PendingCopy, move_to_device as move_to_device
