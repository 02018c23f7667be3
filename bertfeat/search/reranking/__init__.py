"""The best hits scored again by the vectors of their tokens, and where these are kept."""
