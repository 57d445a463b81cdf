"""Records of pages, numbered as the run's state numbers them, in; what a sink writes at a time out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_ID = 1_000
"""Bytes of an id at most: an index of PostgreSQL holds no more than about 2,700 a row."""


@dataclass(frozen=True, slots=True)
class Row:
    """One record.

    `key` is the canonical URL, "#" and the record's place in the page's list; `schema` the name of its schema;
    `identity` a digest of what the record depends on. `value` is the record, transformed: a JSON value,
    mostly an object.
    """

    key: str
    url: str
    schema: str
    identity: str
    value: Mapping[str, Any] | Any

    @property
    def id(self) -> str:
        """What a sink tells rows apart by: schema and key. Where it is over LONGEST_ID bytes, its end is a digest."""
        whole = f"{self.schema}:{self.key}"
        content = whole.encode("utf-8", "backslashreplace")
        if len(content) <= LONGEST_ID:
            return whole
        start = content[: LONGEST_ID - 80].decode("utf-8", "ignore")
        return f"{start}#sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of the page results numbered from `first` to `last`, whole pages. The numbers begin at 1, and each batch
    begins where the one before has ended. A batch may have no rows; its numbers count nevertheless."""

    first: int
    last: int
    rows: tuple[Row, ...]
