"""Conditions on the columns of documents, in the words of SQL and Python: ``1850 < year <= 1900 and lang = 'de'``."""

from bertfeat.where.rows import Condition, check_where, kinds_of, select

__all__ = ["Condition", "check_where", "kinds_of", "select"]
