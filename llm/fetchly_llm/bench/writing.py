"""What one side of a comparison wrote, and when each token was there, in; the spans of time that are compared out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Writing:
    """One text. `token_ms` are milliseconds from the request to each output token, `total_ms` to the end of the text;
    the end-of-sequence token is not among the tokens, but its time is in the total. `is_complete` False: the text was
    cut at the token limit."""

    text: str
    prompt_tokens: int
    token_ms: tuple[float, ...]
    total_ms: float
    is_complete: bool

    def decode_ms(self, tokens: int) -> float:
        """From the first token to the `tokens`-th: what a side does before it writes is not in it."""
        return self.token_ms[tokens - 1] - self.token_ms[0]
