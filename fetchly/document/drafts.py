"""A run of text with its place in the page in; the line that a model is shown out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fetchly.document.dom import Element
from fetchly.goods import BlockKind


@dataclass(slots=True)
class Draft:
    """A block in the making. `text` is what the page says, `shown` the same with link marks or cell labels.

    `level` is a heading's, `depth` a list's (-1 outside lists), `marker` a bullet or a number with its space.
    """

    kind: BlockKind
    owner: Element
    text: str
    shown: str
    level: int = 0
    depth: int = -1
    marker: str = ""
    boilerplate: bool = False


def line_of(draft: Draft) -> str:
    """How a model sees a block: `## Heading`, `- item`, `  - nested`, `Label: value`, `Header: cell | Header: cell`."""
    if draft.kind == "heading":
        return f"{'#' * draft.level} {draft.shown}"
    if draft.kind == "image":
        return f"[image] {draft.shown}"
    if draft.kind == "list_item":
        return f"{'  ' * max(draft.depth, 0)}{draft.marker}{draft.shown}"
    if draft.kind == "paragraph" and draft.depth >= 0:
        return f"{'  ' * (draft.depth + 1)}{draft.shown}"
    return draft.shown


def mergeable(drafts: Sequence[Draft], *, characters: int, count: int) -> bool:
    """Whether drafts are few, short and plain enough to stand in one line with others."""
    if len(drafts) > count or sum(len(draft.text) for draft in drafts) > characters:
        return False
    return all(draft.kind in ("paragraph", "list_item", "image") for draft in drafts)


def joined_text(drafts: Sequence[Draft]) -> str:
    """The texts of several drafts in one line, a space between them as a reader would put it."""
    return " ".join(draft.text for draft in drafts)


def joined_shown(drafts: Sequence[Draft]) -> str:
    """The shown forms of several drafts; a semicolon keeps the items of a list apart."""
    return "; ".join(draft.shown for draft in drafts)


def labelled(label: str, value: str) -> str:
    """`Label: value`, whether or not the page wrote the colon."""
    label = label.rstrip(" :：")
    return f"{label}: {value}" if label else value
