"""The last committed token and the sources' candidates in; a draft tree within the row budget out."""

from __future__ import annotations

from collections.abc import Sequence

from fetchly_llm.tree import DraftTree

SOURCES = ("forced",)
"""Names of the draft sources that exist."""


def grow(last_token: int, forced: Sequence[int], rows: int) -> DraftTree:
    """A chain of the tokens that the grammar forces after `last_token`, cut to `rows` nodes.

    Forced tokens are the matcher's canonical ones; they are verified like any draft.
    """
    assert rows >= 1
    return DraftTree.chain((last_token, *forced[: rows - 1]), "forced")
