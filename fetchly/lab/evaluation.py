"""A dataset and a generator in, one prediction for each page out; whatever a page does, the next one is tried."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fetchly.errors import FetchlyError, Interrupted
from fetchly.extraction.extractor import Extraction, ExtractionOptions, Extractor
from fetchly.extraction.generator import Generator
from fetchly.extraction.schema import UserSchema
from fetchly.lab.dataset import Dataset, GoldRecord
from fetchly.lab.predictions import Prediction
from fetchly.lab.reading import SetReader

TIMED_OUT = "PAGE_TIMEOUT"


@dataclass(slots=True)
class _Deadline:
    """When the page at hand must be done, on the monotonic clock; asked before every step of the generator."""

    at: float | None = None

    def passed(self) -> bool:
        return self.at is not None and time.monotonic() > self.at


class Evaluation:
    """One generator and one way of reading pages. Schemas are compiled when `prepare` is called.

    `timeout_s` bounds one page, reading and writing together (None: no bound; the reading itself has its own).
    """

    def __init__(
        self, generator: Generator, reader: SetReader, options: ExtractionOptions, timeout_s: float | None = None
    ) -> None:
        self._generator = generator
        self._reader = reader
        self._deadline = _Deadline()
        self._options = replace(options, should_stop=self._deadline.passed)
        self._timeout_s = timeout_s
        self._extractors: dict[str, Extractor] = {}

    def prepare(self, datasets: Iterable[Dataset]) -> None:
        """Check and compile every schema, so that a wrong one is said before the first page.

        Errors: SchemaError, ConfigurationError, ModelUnavailable.
        """
        for dataset in datasets:
            for schema in dataset.verticals().values():
                self._generator.check_schema(schema.json, self._options.schema_mode)
                self._extractor(schema)

    def predict(self, dataset: Dataset, record: GoldRecord) -> Prediction:
        """Try one page. Every failure of the page, and every mistake of ours on it, is a prediction with a code; only
        the user's Ctrl-C gets through (KeyboardInterrupt)."""
        started = time.monotonic()
        self._deadline.at = started + self._timeout_s if self._timeout_s is not None else None
        failure: Exception
        try:
            document = self._reader.read(dataset, record)
            extraction = self._extractor(dataset.schema(record)).extract(document)
            return _prediction(dataset, record, extraction, time.monotonic() - started)
        except Interrupted as error:
            if not self._deadline.passed():
                raise
            failure = error
        except Exception as error:  # a bug that one page brings out is a figure of the report, not its end
            failure = error
        return self._failed(dataset, record, failure, time.monotonic() - started)

    def _extractor(self, schema: UserSchema) -> Extractor:
        if schema.label not in self._extractors:
            self._extractors[schema.label] = Extractor(self._generator, schema, self._options)
        return self._extractors[schema.label]

    def _failed(self, dataset: Dataset, record: GoldRecord, failure: Exception, seconds: float) -> Prediction:
        match failure:
            case Interrupted():
                code, message = TIMED_OUT, f"not done after {self._timeout_s:g} s"
            case FetchlyError():
                code, message = failure.code, failure.line()
            case _:
                code, message = "INTERNAL", " ".join(f"{type(failure).__name__}: {failure}".split())
        return Prediction(dataset.name, record.id, None, message, round(seconds, 4), code)


def _prediction(dataset: Dataset, record: GoldRecord, extraction: Extraction, seconds: float) -> Prediction:
    return Prediction(
        set=dataset.name,
        id=record.id,
        record=extraction.record.value,
        error=None,
        seconds=round(seconds, 4),
        warnings=extraction.record.warnings,
        stats={**extraction.stats.as_dict(), "attempt": extraction.attempt},
    )
