"""The bytes of a page and a record in; how many of the record's texts do not stand in the page's visible text out.

Read with the standard library's parser, not with `document`: what that room makes up must not pass for the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from fetchly.document.decode import decode
from fetchly.extraction.shape import SchemaTree
from fetchly.lab.folding import fold, squash
from fetchly.lab.scoring import field_kind

_UNSEEN = frozenset(("script", "style", "noscript", "template", "svg"))
_COPIED = frozenset(("string", "text", "names", "tags"))


@dataclass(frozen=True, slots=True)
class TextCheck:
    """`texts` of a record that should be copies of the page, and how many of them are `invented`."""

    texts: int = 0
    invented: int = 0

    def plus(self, other: TextCheck) -> TextCheck:
        """Both records together."""
        return TextCheck(self.texts + other.texts, self.invented + other.invented)

    @property
    def rate(self) -> float:
        """The invented share; 0 without a text."""
        return self.invented / self.texts if self.texts else 0.0


def check_texts(record: Any, schema: Mapping[str, Any], body: bytes) -> TextCheck:
    """Look for each text of a record in the page: letters and digits count, case, white space and punctuation do not.

    Choices from a list that the schema gives, and texts that are compared as numbers, dates, currencies or yields, need
    not be copies and are not looked for.
    """
    texts = list(_texts(record, schema, "", SchemaTree(schema)))
    if not texts:
        return TextCheck()
    page = squash(fold(visible_text(body)))
    return TextCheck(len(texts), sum(squash(fold(text)) not in page for text in texts))


def visible_text(body: bytes) -> str:
    """The text outside scripts, styles and templates, a space at every tag. What styles hide is taken as visible."""
    reader = _Reader()
    reader.feed(decode(body, None).text)
    reader.close()
    return "".join(reader.parts)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._unseen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(" ")
        if tag in _UNSEEN:
            self._unseen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(" ")
        if tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(data)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:  # `<![anything` on a real page: the library asserts, a browser reads a comment
            return self.parse_bogus_comment(i)


def _texts(value: Any, schema: Any, name: str, tree: SchemaTree) -> Iterator[str]:
    """The texts of a value that should be copies. Of alternatives the first that the value fits is followed."""
    branches = tree.alternatives(schema)
    if branches:
        schema = next((branch for branch in branches if tree.fits(branch, value)), branches[0])
    node = tree.node(schema)
    if isinstance(value, dict):
        properties = node.get("properties", {})
        for key, part in value.items():
            yield from _texts(part, properties.get(key, {}), key, tree)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, node.get("items", {}), name, tree)
    elif isinstance(value, str) and value.strip() and not node.keys() & {"enum", "const"}:
        yield from (value,) if field_kind(name, node, tree) in _COPIED else ()
