"""Datasets, synthetic pages, examples, evaluation: what turns pages into figures and training examples."""
