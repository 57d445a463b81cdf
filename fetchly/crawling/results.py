"""What came of a page in, the JSON text that a state keeps out, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fetchly.extraction.generator import ExtractionStats
from fetchly.goods import Evidence

RECORD = "record"
"""What the schema is called of a crawl that has one."""


@dataclass(frozen=True, slots=True)
class PageResult:
    """A page of a crawl and its record. `requested` is the URL as it was found, `url` where it led; `value` is the JSON
    value of the record, `schema` the name of its schema; the rest is as in the SDK's Result."""

    requested: str
    url: str
    status: int | None
    redirects: tuple[str, ...]
    rendered: bool
    value: Any
    evidence: Mapping[str, Evidence]
    warnings: tuple[str, ...]
    attempt: int
    identity: str
    stats: ExtractionStats
    schema: str = RECORD

    @property
    def records(self) -> int:
        """How many records the page gave: a list has any number of them."""
        return len(self.value) if isinstance(self.value, list) else 1

    def as_text(self) -> str:
        """One line of JSON in ASCII: also half of a surrogate pair, which has no UTF-8, is kept."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["evidence"] = {pointer: _said(place) for pointer, place in self.evidence.items()}
        fields["stats"] = asdict(self.stats)
        return json.dumps(fields)


def result_of(text: str) -> PageResult:
    """The result that `as_text` wrote."""
    fields = json.loads(text)
    fields["evidence"] = {pointer: Evidence(**place) for pointer, place in fields["evidence"].items()}
    fields["stats"] = ExtractionStats(**fields["stats"])
    for name in ("redirects", "warnings"):
        fields[name] = tuple(fields[name])
    return PageResult(**fields)


def _said(place: Evidence) -> dict[str, Any]:
    return {key: value for key, value in asdict(place).items() if value is not None}
