"""The text of a JSON-LD script in; entities out. Tolerant: browsers and search engines forgive what sites write.

Source: JSON-LD 1.1 (W3C), without contexts: pages use schema.org, whose terms are read as they stand.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

from fetchly.document.dom import Element
from fetchly.document.entities import Entity, Value, local_name

# All patterns take linear time on hostile text: no run is scanned again from each of its places.
_WRAPPING = re.compile(r"(?:/\*|//)?[ \t]{0,9}(?:<!\[CDATA\[|\]\]>)[ \t]{0,9}(?:\*/)?|<!--|-->")
# Strings are kept; outside them go comments, then commas before a closing bracket or at the end.
_STRING = r"\"(?:[^\"\\]++|\\.?)*+\"?"
_COMMENT = re.compile(_STRING + r"|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|//[^\n]*", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*(?:[}\]]|\Z))", re.DOTALL)
_BAD_ESCAPE = re.compile(r"\\(?:\\|(?![\"/bfnrtu]|$)(.))", re.DOTALL)
_UNSEEN = {
    re.compile(r"<script\b", re.IGNORECASE): re.compile(r"</script\s{0,9}>", re.IGNORECASE),
    re.compile(r"<style\b", re.IGNORECASE): re.compile(r"</style\s{0,9}>", re.IGNORECASE),
    re.compile(r"<!--"): re.compile(r"-->"),
}
_BREAK = re.compile(r"</?(?:p|br|li|ul|ol|div|h[1-6]|tr|table|blockquote)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_BETWEEN = re.compile(r"[\s;,\ufeff\0]*")
_LIST_KEYS = ("@list", "@set")


def is_json_ld(element: Element) -> bool:
    """Whether an element is a script of JSON-LD, whatever the case and the parameters of its type."""
    return element.tag == "script" and element.get("type").split(";")[0].strip().lower() == "application/ld+json"


def read_json_ld(element: Element) -> list[Entity] | None:
    """The entities of one script; None where it cannot be read as JSON, even with every indulgence.

    Forgiven: a byte order mark, control characters in strings, comment and CDATA wrappers, trailing commas and
    semicolons, comments, impossible escapes, several values one after the other, quotes written as entities.
    """
    values = _parsed("".join(child for child in element.children if isinstance(child, str)))
    return None if values is None else _entities(values, element)


def _parsed(text: str) -> list[Any] | None:
    text = text.strip("\ufeff \t\r\n\0")
    if not text:
        return []
    unwrapped = _WRAPPING.sub(" ", text)
    attempts = [text, unwrapped, _repaired(unwrapped)]
    if "&quot;" in text:
        attempts.append(_repaired(html.unescape(unwrapped)))
    for attempt in attempts:
        values = _all_values(attempt)
        if values is not None:
            return values
    return None


def _repaired(text: str) -> str:
    def kept(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else " "

    def mended(match: re.Match[str]) -> str:
        return _BAD_ESCAPE.sub(lambda escape: escape[1] or escape[0], kept(match))

    return _LAST_COMMA.sub(mended, _COMMENT.sub(kept, text))


# Numbers stay as written: `56.70` is what the page says, and Python refuses whole numbers of 4,301 digits.
_DECODER = json.JSONDecoder(strict=False, parse_float=str, parse_int=str, parse_constant=lambda _: None)


def _all_values(text: str) -> list[Any] | None:
    values: list[Any] = []
    position = _end_of(_BETWEEN, text, 0)
    while position < len(text):
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return None
        values.append(value)
        position = _end_of(_BETWEEN, text, position)
    return values


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _entities(values: list[Any], element: Element) -> list[Entity]:
    """Turn JSON objects into entities, with a stack of objects to read instead of recursion."""
    top: list[Entity] = []
    pending: list[tuple[dict[str, Any], Entity]] = []

    def begun(source: dict[str, Any]) -> Entity:
        kinds = _flat(source.get("@type"))
        entity = Entity(local_name(str(kinds[0])) if kinds else "", element, str(source.get("@id") or ""))
        pending.append((source, entity))
        return entity

    for value in _flat(values):
        if isinstance(value, dict):
            graph = [item for item in _flat(value.get("@graph")) if isinstance(item, dict)]
            top += [begun(item) for item in graph]
            if not graph or set(value) - {"@graph", "@context", "@id"}:
                top.append(begun(value))
    while pending:
        source, entity = pending.pop()
        for name, value in source.items():
            if name.startswith("@") and name != "@reverse":
                continue
            for item in _flat(value):
                content = begun(item) if isinstance(item, dict) else _text(item)
                entity.values.append(Value(local_name(name), content, element))
    return top


def _flat(value: Any) -> list[Any]:
    """The items of lists in lists and of `@list` and `@set`, and the values of `@value`, in order, without null."""
    found: list[Any] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(reversed(item))
        elif isinstance(item, dict) and any(key in item for key in _LIST_KEYS):
            stack.extend(item[key] for key in _LIST_KEYS if key in item)
        elif isinstance(item, dict) and "@value" in item:
            stack.append(item["@value"])
        elif item is not None:
            found.append(item)
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain(str(value))


def plain(text: str) -> str:
    """Text without HTML tags and entities, a line for each line of the page: values hold `<p>2 eggs &amp; salt</p>`,
    often escaped twice."""
    for _ in range(2):
        if "<" in text:
            text = _TAG.sub("", _BREAK.sub("\n", _without_unseen(text)))
        if "&" not in text:
            break
        text = html.unescape(text)
    return text


def _without_unseen(text: str) -> str:
    for opening, closing in _UNSEEN.items():
        kept: list[str] = []
        position = 0
        while (start := opening.search(text, position)) and (end := closing.search(text, start.end())):
            kept += [text[position : start.start()], " "]
            position = end.end()
        text = "".join([*kept, text[position:]])
    return text
