"""The files in the folder of an index."""

SETTINGS_NAME = "index.json"  # settings, provenance, and the other files' digests
FAISS_NAME = "index.faiss"
LISTS_NAME = "index.lists"  # inverted lists that pass the memory
DOCUMENTS_NAME = "documents.arrow"
PIECES_NAME = "pieces.arrow"  # only in an index of tokens or words
REMOVED_NAME = "removed.npy"  # only where there are tombstones

FILE_NAMES = frozenset({FAISS_NAME, LISTS_NAME, DOCUMENTS_NAME, PIECES_NAME, REMOVED_NAME})
"""All but the settings."""
