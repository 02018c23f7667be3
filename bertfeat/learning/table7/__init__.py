"""Layers compared as features for a head, as Table 7 of the BERT paper does: rows, seeds, fine-tuning, baselines."""
