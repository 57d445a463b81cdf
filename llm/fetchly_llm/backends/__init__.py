"""Implementations of the step interface of `fetchly_llm.backend`, one package each."""
