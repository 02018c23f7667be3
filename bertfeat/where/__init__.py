"""Conditions on the columns of documents, in the words of SQL and Python: ``1850 < year <= 1900 and lang = 'de'``.

- :class:`Condition` is a parsed and checked condition; it says which rows of a record batch meet it.
- :func:`column_kinds` gives the columns of a schema that conditions can name, with their kinds.
- :func:`parse_where` makes a condition on the columns of a table.
- :func:`find_matching_rows` finds the rows of a table that meet one.
- :func:`describe_ranges` says which numbers there are, where no row meets a condition.
- :func:`cut_slices` cuts a feature set by the values of a kept column, such as years, into a :class:`Cut`, whose
  :class:`Slice` objects each hold a range.

``lexer`` splits the text of a condition and ``condition`` parses it. The nodes of the ``tree`` say whether they fit the
columns, and compute themselves on Arrow columns.

A name is imported when it is first used, so that what is not used costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
