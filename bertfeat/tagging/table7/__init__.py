"""The BERT paper's Table 7: the same tagger on one way after another to make features of layers, and fine-tuning."""
