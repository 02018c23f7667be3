from .collation import dictionary_key as dictionary_key, dictionary_ranks as dictionary_ranks
from .condition import (
    Condition as Condition,
    ReadColumn as ReadColumn,
    column_kinds as column_kinds,
    describe_ranges as describe_ranges,
    find_matching_rows as find_matching_rows,
    number_range as number_range,
    parse_where as parse_where,
)
from .lexer import point_at as point_at
from .settings import WhereText as WhereText
from .slices import (
    Cut as Cut,
    Slice as Slice,
    cut_slices as cut_slices,
    cut_values as cut_values,
    refuse_slices_of_nothing as refuse_slices_of_nothing,
    slice_number as slice_number,
)
