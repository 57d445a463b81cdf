"""A schema in, what its fields are called and what kinds of value they ask for out: what a page is searched for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fetchly.extraction.lexicon import is_unspaced, related, words_of
from fetchly.extraction.shape import SchemaTree, every_node

# Words of names and descriptions that say nothing about a page.
# fmt: off
_EMPTY_WORDS = frozenset((
    "the", "of", "and", "or", "an", "in", "on", "to", "for", "with", "as", "is", "are", "by", "it", "its", "at", "from",
    "that", "thi", "be", "not", "without", "such", "one", "each", "page", "site", "website", "name", "text", "value",
    "when", "what", "which", "who", "first", "any", "all", "only", "how", "much", "many", "more", "than", "shown",
    "show", "if", "ha", "have",
))
# fmt: on
_WANTS = {
    "price": r"\b(?:price|cost|currency|salary|fee|fare|rent)",
    "date": r"date|year|when|\bstart|\bend\b|publish",
    "duration": r"minute|duration|hours|time",
    "phone": r"phone|fax|contact",
    "mail": r"e-?mail|contact",
    "person": r"author|person|director|organi[sz]er|speaker|who\b|people",
    "number": r"number|price|year|amount",
    "amount": r"amount|ingredient|weight|size|dimension",
    "prose": r"description|paragraph|summary|instruction|step|abstract|body",
}
_PATTERNS = {want: re.compile(pattern, re.IGNORECASE) for want, pattern in _WANTS.items()}


@dataclass(frozen=True, slots=True)
class Field:
    """A property: the words that a page may call it by, and whether it holds a list."""

    words: frozenset[str]
    is_list: bool


@dataclass(frozen=True, slots=True)
class WantedFields:
    """All that a schema asks for. `wants` are names of kinds: price, date, duration, phone, mail, person, ..."""

    fields: tuple[Field, ...]
    unspaced: tuple[tuple[int, str], ...]
    description_words: frozenset[str]
    title_words: frozenset[str]
    wants: frozenset[str]

    @property
    def any_list(self) -> bool:
        """Whether some field holds a list."""
        return any(field.is_list for field in self.fields)


def telling_words(text: str) -> frozenset[str]:
    """The folded words of a text, without those that say nothing."""
    return frozenset(words_of(text)) - _EMPTY_WORDS


def wanted_fields(schema: Mapping[str, Any]) -> WantedFields:
    """Read a schema, its definitions and nested parts included."""
    tree = SchemaTree(schema)
    fields: list[Field] = []
    described: set[str] = set()
    texts: list[str] = []
    for node in every_node(schema):
        properties = node.get("properties")
        for name, part in properties.items() if isinstance(properties, Mapping) else ():
            known = tree.node(part)
            words = frozenset(word for own in telling_words(str(name)) for word in related(own))
            fields.append(Field(words, "array" in tree.types(known)))
            description = known.get("description")
            described |= telling_words(description) if isinstance(description, str) else frozenset()
            types = " ".join(sorted(tree.types(known) & {"integer", "number"})).replace("integer", "number")
            texts += [str(name).replace("_", " "), str(description or ""), str(known.get("format", "")), types]
    root = tree.node(schema)
    said = " ".join(texts)
    return WantedFields(
        fields=tuple(fields),
        unspaced=tuple(
            (i, word) for i, field in enumerate(fields) for word in sorted(field.words) if is_unspaced(word)
        ),
        description_words=frozenset(described),
        title_words=telling_words(f"{root.get('title', '')} {root.get('description', '')}"),
        wants=frozenset(want for want, pattern in _PATTERNS.items() if pattern.search(said)),
    )
