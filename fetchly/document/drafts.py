"""A run of text with its place in the page in; the line that a model is shown out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

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
    linked: int = 0  # characters of the text that links hold


def line_of(draft: Draft) -> str:
    """How a model sees a block: `## Heading`, `- item`, `  - nested`, `Label: value`, `Header: cell | Header: cell`."""
    if draft.kind == "heading":
        return f"{'#' * draft.level} {draft.shown}"
    if draft.kind == "image":
        return f"[image] {draft.shown}"
    if draft.kind == "list_item" or (draft.kind == "pair" and draft.marker):
        return f"{'  ' * max(draft.depth, 0)}{draft.marker}{draft.shown}"
    if draft.kind == "paragraph" and draft.depth >= 0:
        return f"{'  ' * (draft.depth + 1)}{draft.shown}"
    return draft.shown


MAX_TRAIL = 300  # characters
MAX_TRAIL_DRAFTS = 24

_HOLDERS = frozenset(("li", "td", "th", "dt", "dd"))
_SEPARATORS = frozenset("|/\\›»‹«·•>.… ")
_STARS = frozenset("★☆⭐✭✮✩✪✰")


def tidied(drafts: Iterable[Draft]) -> list[Draft]:
    """The drafts without decoration (lines of nothing but signs: `›`, `* * *`; stars and currency signs may be values)
    and without words that stand twice in a row (pages write some for screens and for phones).

    Of lists, tables and pairs only bullets go, and signs between list items: `✓`, `–` and a second `yes` are data.
    """
    kept: list[Draft] = []
    ordered = list(drafts)
    for draft, after in zip_longest(ordered, ordered[1:]):
        last = kept[-1] if kept else None
        if not any(map(_says, draft.text)) and _is_decoration(draft, last, after):
            continue
        if last is not None and last.kind == draft.kind and last.shown == draft.shown and _is_words(draft):
            continue
        kept.append(draft)
    return kept


def merge_trail(element: Element, drafts: list[Draft], start: int) -> None:
    """Make one line of breadcrumbs (`drafts[start:]`): `Breadcrumb: Home > Kitchen > Teapots`."""
    trail = [draft for draft in drafts[start:] if any(map(_says, draft.text)) and draft.kind != "image"]
    if not trail or len(drafts) - start > MAX_TRAIL_DRAFTS or sum(len(draft.text) for draft in trail) > MAX_TRAIL:
        return
    if any(draft.kind not in ("paragraph", "list_item") for draft in trail):
        return
    shown = " > ".join(draft.shown.strip(" >/»›|") for draft in trail)
    text, linked = joined_text(trail), linked_in(trail)
    drafts[start:] = [
        Draft("pair", element, text, f"Breadcrumb: {shown}", boilerplate=trail[0].boilerplate, linked=linked)
    ]


def _says(char: str) -> bool:
    return char.isalnum() or char in _STARS or unicodedata.category(char) == "Sc"


def _is_decoration(draft: Draft, last: Draft | None, after: Draft | None) -> bool:
    """Whether a draft of signs alone says nothing: it stands free, beside the text of a list item or a cell (`▢`), or
    between the items of a list."""
    if draft.kind == "list_item":
        goes_on = after is not None and after.depth == draft.depth and after.kind == "paragraph"
        return goes_on or _SEPARATORS.issuperset(draft.text)
    if draft.kind not in ("paragraph", "heading"):
        return False
    if _is_held(draft):
        return any(each is not None and each.owner is draft.owner for each in (last, after))
    return last is None or not last.text.endswith((":", "："))


def _is_held(draft: Draft) -> bool:
    """Whether a draft is all or a part of a list item, a table's cell or a description."""
    return any(each is not None and each.tag in _HOLDERS for each in (draft.owner, draft.owner.parent))


def _is_words(draft: Draft) -> bool:
    """Whether a draft is no value that a page may well write twice: words without a digit, outside lists and tables."""
    return draft.kind in ("paragraph", "image") and not _is_held(draft) and not any(map(str.isdigit, draft.text))


def mergeable(drafts: Sequence[Draft], *, characters: int, count: int) -> bool:
    """Whether drafts are few, short and plain enough to stand in one line with others."""
    if len(drafts) > count or sum(len(draft.text) for draft in drafts) > characters:
        return False
    return all(draft.kind in ("paragraph", "list_item", "image") for draft in drafts)


def joined_text(drafts: Sequence[Draft]) -> str:
    """The texts of several drafts in one line, a space between them as a reader would put it."""
    return " ".join(draft.text for draft in drafts)


def linked_in(drafts: Iterable[Draft]) -> int:
    """How many characters of several drafts links hold."""
    return sum(draft.linked for draft in drafts)


def joined_shown(drafts: Sequence[Draft]) -> str:
    """The shown forms of several drafts; a semicolon keeps the items of a list apart."""
    return "; ".join(draft.shown for draft in drafts)


def labelled(label: str, value: str) -> str:
    """`Label: value`, whether or not the page wrote the colon."""
    label = label.rstrip(" :：")
    return f"{label}: {value}" if label else value
