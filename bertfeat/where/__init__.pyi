from .condition import (
    Condition as Condition,
    column_kinds as column_kinds,
    find_matching_rows as find_matching_rows,
    parse_where as parse_where,
)
