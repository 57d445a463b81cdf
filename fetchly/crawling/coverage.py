"""The records of a crawl in; which fields most of them leave empty out: a site that was rebuilt fails silently so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

FLOOR = 0.5
"""The share of records that have a value, below which a field is worth a word."""
LEAST_RECORDS = 10
"""Fewer say nothing about a site."""


class Coverage:
    """Counts the records in which each field at the top of a schema has a value. Empty are null, "", [] and {}, and
    what is not there; 0 and false are values."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.records = 0
        self._fields: Counter[str] = Counter(dict.fromkeys(_fields_of(schema), 0))

    def add(self, value: Any) -> None:
        """The value that a page gave: a record, or a list of them."""
        for record in value if isinstance(value, list) else [value]:
            self.records += 1
            if isinstance(record, Mapping):
                self._fields.update({name: int(not _is_empty(field)) for name, field in record.items()})

    def shares(self) -> dict[str, float]:
        """Of each field, the share of the records, from 0 to 1, that have it."""
        counted = list(self._fields.items())  # a copy: the crawl goes on in another thread
        return {name: round(count / self.records, 3) for name, count in counted} if self.records else {}

    def warning(self) -> str | None:
        """What to tell the user; None where every field stands in enough of the records."""
        if self.records < LEAST_RECORDS:
            return None
        low = [f"{name} ({count:,})" for name, count in self._fields.items() if count < FLOOR * self.records]
        if not low:
            return None
        return f"FIELDS_EMPTY: of {self.records:,} records few have a value for {', '.join(low)}"


class Coverages:
    """The coverage of each schema of a crawl. Where there are several, a field stands under SCHEMA/FIELD."""

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self._of = {name: Coverage(schema) for name, schema in schemas.items()}

    def add(self, schema: str, value: Any) -> None:
        """The value that a page of this schema gave."""
        self._of[schema].add(value)

    def shares(self) -> dict[str, float]:
        """As Coverage.shares."""
        many = len(self._of) > 1
        return {
            f"{name}/{field}" if many else field: share
            for name, coverage in self._of.items()
            for field, share in coverage.shares().items()
        }

    def warnings(self) -> list[str]:
        """As Coverage.warning."""
        found = {name: coverage.warning() for name, coverage in self._of.items()}
        many = len(self._of) > 1
        return [f"{text}{f' (schema {name})' if many else ''}" for name, text in found.items() if text is not None]


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _fields_of(schema: Mapping[str, Any]) -> list[str]:
    """The properties of a schema, or of the entries of its list."""
    seen: set[str] = set()
    node: Any = schema
    while isinstance(node, Mapping):
        if isinstance(node.get("properties"), Mapping):
            return list(node["properties"])
        reference = node.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/") or reference in seen:
            node = node.get("items")
            continue
        seen.add(reference)
        node = schema
        for key in reference[2:].split("/"):
            node = node.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
    return []
