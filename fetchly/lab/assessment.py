"""One page's right answer and prediction in, everything that is to be counted about it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fetchly.errors import FetchlyError
from fetchly.lab.dataset import Dataset, GoldRecord
from fetchly.lab.predictions import Prediction
from fetchly.lab.scoring import Counts, score_record
from fetchly.lab.visible import TextCheck, check_texts


@dataclass(frozen=True, slots=True)
class Assessment:
    """`counts` by field, empty for a page without a scored field. `valid` is None for a page without a record.
    `texts` of the record that are not on the page, and URLs that it does not link to, count as invented."""

    gold: GoldRecord
    prediction: Prediction
    counts: Mapping[str, Counts]
    valid: bool | None
    texts: TextCheck

    @property
    def total(self) -> Counts:
        """All fields together."""
        total = Counts()
        for counts in self.counts.values():
            total = total.plus(counts)
        return total

    @property
    def exact(self) -> bool:
        """A record whose every scored field is right."""
        return self.valid is not None and bool(self.counts) and self.total.flawless


def assess(dataset: Dataset, gold: GoldRecord, prediction: Prediction) -> Assessment:
    """Score one prediction, check its record against the schema once more, and look for its texts in the page."""
    schema = dataset.schema(gold).json
    counts = score_record(gold, prediction.record, schema)
    if not isinstance(prediction.record, dict):
        return Assessment(gold, prediction, counts, None, TextCheck())
    try:
        page = dataset.page(gold)
        texts = check_texts(prediction.record, schema, page.body, page.url)
    except FetchlyError:  # a file that went away under the run: there was a record, so it was there before
        texts = TextCheck()
    return Assessment(gold, prediction, counts, is_valid(prediction.record, schema), texts)


def is_valid(record: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a record satisfies the schema, formats included, in the eyes of `jsonschema`: another library than the
    one that decided when the record was made."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    kind = validator_for(schema, default=Draft202012Validator)
    return bool(kind(schema, format_checker=kind.FORMAT_CHECKER).is_valid(record))
