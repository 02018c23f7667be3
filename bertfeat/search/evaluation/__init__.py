"""The search quality of an index or a layer: recall against exact search, and retrieval scores of BEIR folders."""
