"""Corpora: text, JSON, CSV, TSV, Parquet, CoNLL and SQuAD files, compressed or not, and Python lists, as documents.

A corpus is read as a stream, so it may be larger than memory. Rows that cannot be read become failures; only a file
that cannot be read at all is an error. :mod:`bertfeat.core.corpus.formats` is the table of the file formats.

A name is imported when it is first used, so that what is not used costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
