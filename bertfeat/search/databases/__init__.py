"""Features for other databases: Lance and Qdrant, and how well these search."""
