"""The options of a sink in, the sink out."""

from __future__ import annotations

from fetchly.sinks.options import FileSettings, PostgresSettings, SinkOptions, SqliteSettings, StdoutSettings
from fetchly.sinks.sink import Sink


def open_sink(options: SinkOptions) -> Sink:
    """A sink that is not open yet: nothing is touched before its `open`, libraries of its own are loaded then."""
    settings = options.settings
    if isinstance(settings, SqliteSettings):
        from fetchly.sinks.sqlite import SqliteSink

        return SqliteSink(settings)
    if isinstance(settings, PostgresSettings):
        from fetchly.sinks.postgres import PostgresSink

        return PostgresSink(settings)
    if isinstance(settings, StdoutSettings):
        from fetchly.sinks.stdout import StdoutSink

        return StdoutSink(settings)
    return _file_sink(options.kind, settings)


def _file_sink(kind: str, settings: FileSettings) -> Sink:
    from fetchly.sinks.file_sink import FileSink
    from fetchly.sinks.forms import CsvLines, FormOf, JsonLines
    from fetchly.sinks.parquet import ParquetRows

    forms: dict[str, FormOf] = {"jsonl": JsonLines, "csv": CsvLines, "parquet": ParquetRows}
    return FileSink(kind, settings, forms[kind], grows=kind != "parquet")
