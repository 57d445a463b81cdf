"""The bytes of a page and a record in; how many of the record's texts and URLs the page does not have out.

Read with the standard library's parser, not with `document`: what that room makes up must not pass for the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from fetchly.document.decode import decode
from fetchly.extraction.shape import Node, SchemaTree
from fetchly.extraction.urls import formatted_url
from fetchly.lab.folding import fold, squash
from fetchly.lab.scoring import field_kind

_UNSEEN = frozenset(("script", "style", "noscript", "template", "svg"))
_COPIED = frozenset(("string", "text", "names", "tags"))
_CONVERTED = frozenset(("date", "date-time", "time", "duration"))
_URLS = frozenset(("uri", "uri-reference", "iri", "iri-reference", "url"))
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


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


def check_texts(record: Any, schema: Mapping[str, Any], body: bytes, url: str | None = None) -> TextCheck:
    """Look for each text of a record in the page: letters and digits count, case, white space and punctuation do not.

    A URL may also be that of a link or image of the page, whose own address is `url`. Choices from a list that the
    schema gives, dates, times and spans of time, and texts that are compared as numbers, currencies or yields, need not
    be copies and are not looked for.
    """
    texts = list(_texts(record, schema, "", SchemaTree(schema)))
    if not texts:
        return TextCheck()
    page = _Seen(body, url)
    return TextCheck(len(texts), sum(not page.has(text) for text in texts))


def visible_text(body: bytes) -> str:
    """The text outside scripts, styles and templates, a space at every tag. What styles hide is taken as visible."""
    return "".join(_Reader.of(decode(body, None).text).parts)


class _Seen:
    """What a page says, and where its links lead."""

    def __init__(self, body: bytes, url: str | None) -> None:
        decoded = decode(body, None)
        self._reader = _Reader.of(decoded.text)
        self._text = squash(fold("".join(self._reader.parts)))
        self._charset = decoded.encoding
        self._base = _joined(url, self._reader.base) if self._reader.base else url
        self._links: frozenset[str] | None = None

    def has(self, text: _Text) -> bool:
        return squash(fold(text.value)) in self._text or (text.is_url and self._is_link(text.value))

    def _is_link(self, url: str) -> bool:
        if self._links is None:
            self._links = frozenset(self._key(_joined(self._base, address)) for address in self._reader.addresses)
        return self._key(url) in self._links

    def _key(self, url: str) -> str:
        """One spelling for a URL, whatever of it is percent-encoded."""
        return formatted_url(url.strip(), "uri-reference", self._charset) or url


def _joined(base: str | None, address: str) -> str:
    try:
        return urljoin(base or "", re.sub(r"[\t\r\n\0]", "", address).strip())
    except ValueError:
        return address


class _Reader(HTMLParser):
    """`parts` of the visible text; `addresses` that links and images may lead to; the `base` that the page names."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.addresses: list[str] = []
        self.base = ""
        self._unseen: list[str] = []
        self._in_json = False

    @classmethod
    def of(cls, text: str) -> _Reader:
        """A page, read."""
        reader = cls()
        reader.feed(text)
        reader.close()
        return reader

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(" ")
        if tag in _UNSEEN:
            self._unseen.append(tag)
        named = {name: value for name, value in reversed(attrs) if value}
        self._in_json = tag == "script" and "json" in named.get("type", "").lower()
        if tag == "base":
            self.base = self.base or named.get("href", "")
        else:
            self.addresses.extend(_addresses(named))

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(" ")
        if tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(data)
        elif self._in_json:
            self.addresses.extend(_strings(data))

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:  # `<![anything` on a real page: the library asserts, a browser reads a comment
            return self.parse_bogus_comment(i)


def _addresses(attributes: Mapping[str, str]) -> Iterator[str]:
    """What the attributes of a tag may name: any of them, as scripts load pictures from names of their own."""
    for name, value in attributes.items():
        yield value
        if "srcset" in name:
            yield from (piece.strip(",") for piece in value.split())


def _strings(data: str) -> Iterator[str]:
    """The strings of what a page says to machines."""
    for match in _JSON_STRING.finditer(data):
        try:
            yield json.loads(match[0])
        except ValueError:
            continue


@dataclass(frozen=True, slots=True)
class _Text:
    """A string of a record that should be of the page."""

    value: str
    is_url: bool


def _texts(value: Any, schema: Any, name: str, tree: SchemaTree) -> Iterator[_Text]:
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
    elif isinstance(value, str) and value.strip() and _is_copied(name, node, tree):
        yield _Text(value, node.get("format") in _URLS or node.get("x-link") is True)


def _is_copied(name: str, node: Node, tree: SchemaTree) -> bool:
    if node.keys() & {"enum", "const"} or (node.get("format") in _CONVERTED and node.get("x-verbatim") is not True):
        return False
    return field_kind(name, node, tree) in _COPIED
