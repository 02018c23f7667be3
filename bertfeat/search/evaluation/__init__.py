"""How well an index or a layer searches: recall against exact search, and retrieval scores of BEIR folders."""
