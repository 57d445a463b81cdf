"""What speculation asks of a matcher: tokens in, legality out. Every answer depends on the accepted tokens alone."""

from __future__ import annotations

from typing import Protocol


class Legality(Protocol):
    """A sequence under a grammar, or free text."""

    @property
    def is_terminated(self) -> bool:
        """The text is complete and nothing can follow."""

    def forced_tokens(self) -> tuple[int, ...]:
        """The tokens that must come next, in their canonical spelling; empty where there is a choice."""

    def is_legal(self, token: int) -> bool:
        """Whether the mask has `token`."""

    def accept(self, token: int) -> None:
        """Append a legal token."""

    def rollback(self, count: int) -> None:
        """Forget the last `count` accepted tokens."""
