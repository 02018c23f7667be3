"""The objects that take the place of a frozen ``SentenceTransformer``: one computes vectors, one reads stored ones.

The package has this name because BERTopic and KeyBERT look for ``sentence_transformers`` in the name of a model's type.
Any other type they ignore, and silently load a model of their own. With this name they refuse such an object instead,
and :mod:`bertfeat.adapters` has the objects that they take.
"""
