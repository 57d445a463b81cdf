"""The elements of a page in; what their microdata and RDFa Lite attributes say out, as entities.

Sources: HTML, "Microdata" (values of properties, itemref); RDFa Lite 1.1, with schema.org alone as vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fetchly.document.clean import DROPPED
from fetchly.document.dom import Element
from fetchly.document.entities import Entity, Found, Value, local_name
from fetchly.document.sight import Sight, sight_of

# Element -> the attribute that holds its value (HTML, "Values", step 2 and on).
_VALUE_ATTRIBUTES = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    **dict.fromkeys(("a", "area", "link"), "href"),
    "object": "data",
    "data": "value",
    "meter": "value",
    "meta": "content",
}
MAX_VALUES = 5000  # of a page
# Elements of a page that are looked at for properties: references (itemref) lead every item through the same ones.
MAX_VISITED = 300_000
# A text of more nodes is a part of the page and no value. The two bound properties nested in each other.
MAX_TEXT_NODES = 1000
_ADDRESSES = frozenset(("url", "sameAs", "image", "contentUrl", "downloadUrl", "embedUrl", "thumbnailUrl", "item"))
_BREAKING = frozenset(("br", "p", "li", "div", "tr", "dd", "dt", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6"))


def read_microdata(scopes: Sequence[Element], ids: Mapping[str, Element], found: Found) -> None:
    """Add the top items among elements with `itemscope`, in the order of the page. `ids` serves itemref: an element
    is read once for an item, so that references in circles end."""
    for scope in scopes:
        if "itemprop" not in scope.attributes:
            _read_item(scope, "itemprop", ids, found)


def read_rdfa(scopes: Sequence[Element], found: Found) -> None:
    """Add the top resources among elements with `typeof`, where the vocabulary is schema.org."""
    for scope in scopes:
        if _is_schema(scope) and not _inside_typed(scope):
            _read_item(scope, "property", {}, found)


def _is_schema(scope: Element) -> bool:
    if scope.get("typeof").strip().startswith("schema:"):
        return True
    node: Element | None = scope
    while node is not None:
        if "vocab" in node.attributes:
            return "schema.org" in node.attributes["vocab"]
        node = node.parent
    return False


def _inside_typed(scope: Element) -> bool:
    """Whether the resource is the value of another one's property."""
    node = scope.parent
    while "property" in scope.attributes and node is not None:
        if "typeof" in node.attributes:
            return True
        node = node.parent
    return False


def _read_item(scope: Element, names: str, ids: Mapping[str, Element], found: Found) -> None:
    top = _begun(scope, names)
    begun = {scope: top}  # an element is one item, however many references lead to it
    pending = [(scope, top)]
    while pending:
        owner, entity = pending.pop()
        roots: list[Element] = [child for child in reversed(owner.children) if isinstance(child, Element)]
        if names == "itemprop" and "itemref" in owner.attributes:
            roots = [ids[name] for name in reversed(owner.get("itemref").split()) if name in ids] + roots
        seen = {owner}
        while roots:
            element = roots.pop()
            if element in seen:
                continue
            if found.visited >= MAX_VISITED:
                found.broken += bool(entity.values)  # not read to its end; an item without values is counted later
                break
            found.visited += 1
            seen.add(element)
            scoped = ("itemscope" if names == "itemprop" else "typeof") in element.attributes
            properties = element.get(names).split()
            if properties and found.values >= MAX_VALUES:
                found.broken += 1
            elif properties:
                found.values += 1
                content: str | Entity
                shown = False
                if scoped:
                    if element not in begun:
                        begun[element] = _begun(element, names)
                        pending.append((element, begun[element]))
                    content = begun[element]
                else:
                    written = _attribute_value(element, names)
                    shown = written is None
                    written = _text(element) if written is None else written
                    if written is None:
                        continue  # the visible page says it
                    content = written
                entity.values += [Value(local_name(name), content, element, shown) for name in properties]
            if not scoped:
                roots.extend(child for child in reversed(element.children) if isinstance(child, Element))
    found.entities.append(top)


def _begun(scope: Element, names: str) -> Entity:
    kinds = scope.get("itemtype" if names == "itemprop" else "typeof").split()
    return Entity(local_name(kinds[0]) if kinds else "", scope, scope.get("itemid") or scope.get("resource"))


def _attribute_value(element: Element, names: str) -> str | None:
    """A property's value as an attribute gives it; None where the text of the element is the value."""
    if "content" in element.attributes:  # of meta by the standard; pages write it anywhere, and RDFa allows it
        return element.attributes["content"]
    if element.tag == "time" and "datetime" in element.attributes:
        return element.attributes["datetime"]
    attribute = _VALUE_ATTRIBUTES.get(element.tag)
    if attribute is None or (names == "property" and not element.get(attribute)):
        return None
    # `<a itemprop="author" href="/ann">Ann</a>`: the address by the standard, but what is meant is the text.
    meant = element.tag == "a" and not _ADDRESSES.intersection(element.get(names).split()) and _text(element)
    return None if meant else element.get(attribute)


def _text(element: Element) -> str | None:
    """The text that a reader sees of an element, a line for each line of the page; None for more than a value."""
    parts: list[str] = []
    stack: list[Element | str] = [element]
    nodes = 0
    while stack:
        node = stack.pop()
        nodes += 1
        if nodes > MAX_TEXT_NODES:
            return None
        if isinstance(node, str):
            parts.append(node if node == "\n" else " ".join(node.split("\n")))
            continue
        if node is not element and (node.tag in DROPPED or sight_of(node) is not Sight.SHOWN):
            continue
        if node.tag in _BREAKING and node is not element:
            parts.append("\n")
            stack.append("\n")
        stack.extend(reversed(node.children))
    return "".join(parts)
