"""Architectures outside the Llama family, run by the transformers library behind the same step interface."""
