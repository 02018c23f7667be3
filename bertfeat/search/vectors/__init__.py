"""Vectors and FAISS: metrics, types of index, whitening, samples to train on, and the search among vectors."""
