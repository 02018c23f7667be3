from .condition import (
    Condition as Condition,
    column_kinds as column_kinds,
    find_matching_rows as find_matching_rows,
    parse_where as parse_where,
)
from .slices import (
    Slice as Slice,
    cut_slices as cut_slices,
    slice_number as slice_number,
)
