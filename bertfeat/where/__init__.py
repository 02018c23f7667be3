"""Conditions on the columns of documents, in the words of SQL and Python: ``1850 < year <= 1900 and lang = 'de'``."""

from bertfeat.where.rows import Condition, column_kinds, parse_where, select_rows

__all__ = ["Condition", "column_kinds", "parse_where", "select_rows"]
