"""The section `extract`: which schema for which pages, and how the model writes its records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, WithJsonSchema, model_validator

from fetchly.pipeline.fields import (
    Count,
    Flag,
    Name,
    Number,
    OneOrMore,
    PageGlob,
    Section,
    Text,
    folder_of,
    local_path,
    refused,
)
from fetchly.pipeline.transform import Transform
from fetchly.settings import Settings

_DEFAULT = Settings()
DRAFTS = ("forced", "lookup", "streams")


def _schema(value: Any, info: ValidationInfo) -> Any:
    """A shipped name stays text, a file becomes its path, an object stays one."""
    if isinstance(value, dict | Path):
        return value
    if not isinstance(value, str) or not value.strip():
        raise refused("is no schema", "a shipped name, the path of a JSON file, or the schema itself")
    if any(mark in value for mark in "/\\.") and ":" not in value:
        return local_path(value, folder_of(info))
    if ":" in value:
        raise refused(
            "is no schema: a pipeline runs no Python of its own",
            "write the schema into a file: fetchly schemas show MODULE:MODEL > schema.json",
        )
    return value


def _drafts(value: Any) -> Any:
    """As the command line takes it: `auto`, `forced,lookup`, or none; or a list."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise refused("is no list of draft sources", f"auto, or none, or some of: {', '.join(DRAFTS)}")
    names = tuple(name.strip() for name in names)
    if names in (("none",), ("auto",)):
        return () if names == ("none",) else names
    wrong = next((name for name in names if name not in DRAFTS), None)
    if wrong is not None or len(set(names)) < len(names):
        raise refused("names what is no draft source, or one twice", f"auto, or none, or some of: {', '.join(DRAFTS)}")
    return names


def _model(value: Any, info: ValidationInfo) -> Any:
    """A folder or a file of this machine becomes its path; names and references stay."""
    if isinstance(value, str) and ":" not in value and ("/" in value or value.endswith(".gguf")):
        return str(local_path(value, folder_of(info)))
    return value


ModelReference = Annotated[Text, BeforeValidator(_model)]
SchemaReference = Annotated[
    str | Path | dict[str, Any],
    BeforeValidator(_schema),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "object"}]}),
]
Drafts = Annotated[
    tuple[Literal["auto", "forced", "lookup", "streams"], ...],
    BeforeValidator(_drafts),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"enum": ["auto", *DRAFTS]}}]}),
]


class PageSchema(Section):
    """The schema of some pages: those that `match` and no entry before this one matches."""

    match: Annotated[tuple[PageGlob, ...], OneOrMore(), Field(min_length=1)]
    """Globs: /shop/** on the path, or https://*.example.org/shop/** on host and path."""
    schema_: SchemaReference = Field(alias="schema")
    """A shipped name, the path of a JSON file, or the schema itself."""
    name: Name | None = None
    """What sinks call it; by default the shipped name, or the file's without its suffix."""
    rows: Text | None = None
    """The list in the record whose entries are the rows; by default the record is one row."""
    transform: Transform | None = None
    """In place of the file's own transform."""


class Extract(Section):
    """Either `schema`, for every page, or `schemas`; a list stands for `schemas` alone."""

    schema_: SchemaReference | None = Field(default=None, alias="schema")
    """A shipped name, the path of a JSON file, or the schema itself: for every page."""
    name: Name | None = None
    """What sinks call it; by default the shipped name, or the file's without its suffix."""
    rows: Text | None = None
    """The list in the record whose entries are the rows; by default the record is one row."""
    schemas: tuple[PageSchema, ...] = ()
    """Schemas by the addresses of pages; the first that matches counts. Other pages are read for their links alone."""

    model: ModelReference = _DEFAULT.model
    """A name, a folder, hf:ORG/NAME, pypi:NAME==VERSION/FILE, or the URL of a server, http://HOST/v1."""
    api_key: SecretStr | None = None
    """Of a model server; best as ${NAME}."""
    device: Literal["auto", "native", "cpu", "cuda"] = _DEFAULT.device
    """Where the model runs."""
    threads: Count | None = None
    """CPU threads."""
    offline: Flag = False
    """Never fetch a model."""
    draft: Drafts = _drafts(_DEFAULT.draft)
    """auto (those that pay here), or some of forced, lookup, streams; or none. The record is the same."""
    verify: Literal["match", "rejection"] = _DEFAULT.verify
    """How drafts are verified: rejection keeps the distribution, match every byte."""
    temperature: Annotated[Number, Field(ge=0, le=10)] = _DEFAULT.temperature
    """0 is greedy."""
    seed: Annotated[int, Field(strict=True, ge=0)] = _DEFAULT.seed
    """Of the sampling noise."""
    attempts: Annotated[int, Field(strict=True, ge=1, le=100)] = _DEFAULT.attempts
    """Draws before a record is given up."""
    max_tokens: Count = _DEFAULT.max_tokens
    """Longest record, in tokens."""
    budget: Annotated[int, Field(strict=True, ge=64)] | None = _DEFAULT.budget
    """Tokens of the page that the model reads."""
    schema_mode: Literal["strict", "check"] = _DEFAULT.schema_mode
    """strict refuses keywords that cannot be enforced while writing; check re-checks each record."""
    verbatim: Literal["schema", "auto"] = "schema"
    """auto: plain text fields are spans of the page, too."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.schema_ is None) == (not self.schemas):
            raise refused("needs either schema or schemas", "schema: NAME, or schemas: [{match: GLOB, schema: NAME}]")
        if self.schemas and (self.name or self.rows):
            raise refused("has name or rows beside schemas", "they belong into the entries of schemas")
        return self


def short_form(value: Any) -> Any:
    """A list in place of the section is its `schemas`."""
    return {"schemas": value} if isinstance(value, list | tuple) else value
