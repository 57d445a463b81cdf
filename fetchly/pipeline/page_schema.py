"""The section `extract` in; its schemas out, read and compiled, each with what it makes of a page's record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchly.crawler.fingerprint import Address
from fetchly.errors import FetchlyError, SchemaError
from fetchly.extraction.schema import UserSchema, load_schema
from fetchly.extraction.validation import RecordValidator
from fetchly.pipeline.extract import Extract, PageSchema
from fetchly.pipeline.fields import NAME_PATTERN
from fetchly.pipeline.positions import Node, descend, shown, variables_in
from fetchly.pipeline.row_schema import row_schema
from fetchly.pipeline.transform import Transform, transformed
from fetchly.pipeline.url_glob import UrlGlob

MAX_BYTES = 8 * 1024**2
Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class PipelineSchema:
    """A schema of a pipeline under its name. `match`: the pages that it is for, () for all; `rows`: the list of the
    record whose entries are the rows; `file` is where it was read; `path` leads to it in the pipeline file."""

    name: str
    schema: UserSchema
    match: tuple[UrlGlob, ...]
    rows: str | None
    transform: Transform
    file: Path | None
    path: Path_

    def matches(self, address: Address) -> bool:
        """Whether it is for a page."""
        return not self.match or any(glob.matches(address) for glob in self.match)

    def row_schema(self) -> dict[str, Any]:
        """The JSON Schema of its rows, transformed."""
        return row_schema(self.schema.json, self.rows, self.transform)

    def entries_of(self, value: Any) -> Iterator[Mapping[str, Any]]:
        """What of a page's record becomes rows, in its order."""
        found = value.get(self.rows) if self.rows is not None and isinstance(value, Mapping) else value
        entries = found if isinstance(found, list) else [found]
        return (entry for entry in entries if entry is not None)

    def rows_of(self, value: Any) -> Iterator[dict[str, Any]]:
        """The rows of a page's record, transformed, in its order. Errors: RecordInvalid, as `transformed`."""
        return (transformed(entry, self.transform) for entry in self.entries_of(value))


def page_schemas(extract: Extract, transform: Transform, tree: Node) -> tuple[PipelineSchema, ...]:
    """All schemas, in the order in which they are tried. Errors: SchemaError with the place in the pipeline file."""
    if extract.schema_ is not None:
        return (_one(extract, (), transform, ("extract",), tree),)
    return tuple(
        _one(entry, entry.match, entry.transform or transform, ("extract", "schemas", number), tree)
        for number, entry in enumerate(extract.schemas)
    )


def _one(
    entry: Extract | PageSchema, match: tuple[str, ...], transform: Transform, path: Path_, tree: Node
) -> PipelineSchema:
    source = entry.schema_
    node = descend(tree, (*path, "schema"))
    try:
        schema = _read(source)
        RecordValidator(schema)
        row_schema(schema.json, entry.rows, Transform())
    except (FetchlyError, RecursionError) as error:
        raise _located(error, node, entry.rows is not None) from None
    name = entry.name or _name(source)
    if re.search(NAME_PATTERN, name) is None:
        raise SchemaError(
            f"the schema's file {shown(node)} gives no name that sinks could use",
            where=node.place.text,
            hint="name it: name: books",
        )
    return PipelineSchema(
        name,
        schema,
        tuple(UrlGlob(pattern) for pattern in match),
        entry.rows,
        transform,
        source if isinstance(source, Path) else None,
        path,
    )


def _read(source: Any) -> UserSchema:
    if isinstance(source, Path):
        if not source.is_file():
            raise SchemaError("the file does not exist", hint="check the path; a bare word names a shipped schema")
        if source.stat().st_size > MAX_BYTES:
            raise SchemaError(f"the file is larger than {MAX_BYTES:,} bytes")
    return load_schema(source)


def _name(source: Any) -> str:
    return source.stem if isinstance(source, Path) else source if isinstance(source, str) else "record"


def _located(error: FetchlyError | RecursionError, node: Node, has_rows: bool) -> SchemaError:
    what = "the schema" if variables_in(node) or shown(node) == "a mapping" else f"the schema {shown(node)}"
    if isinstance(error, RecursionError):
        return SchemaError(f"{what} cannot be used: nested too deep", where=node.place.text)
    inside = re.search(r":\d+:\d+$", error.where or "")
    place = f" (line {inside[0].split(':')[1]}, column {inside[0].split(':')[2]})" if inside else ""
    # A library's words may quote the schema, and so what came from the environment.
    words = "it is refused" if variables_in(node) and error.code != "SCHEMA_UNKNOWN" else error.message
    if error.code == "SCHEMA_UNKNOWN" and variables_in(node):
        words = "no shipped schema is called so"
    hint = None if variables_in(node) and error.code == "SCHEMA_UNKNOWN" else error.hint
    return SchemaError(f"{what} cannot be used: {words}{place}", where=node.place.text, hint=hint, code=error.code)
