"""From feature sets to an index on disk, in one process or several, and its updates."""
