"""Entries of the list `sinks` in, checked options out: {jsonl: PATH}, {sqlite: {path: ..., table: ...}}, stdout.

Nothing that is heavy is imported here, and nothing is opened.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    field_validator,
    model_validator,
)

from fetchly.sinks.place import Place, without_secrets

RESERVED = "_fetchly"
"""Tables that begin so are ours."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class _Options(BaseModel):
    # A value may be a password: it is never shown in an error.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class SinkSettings(_Options):
    """What every sink can be told. `schemas`: only rows of these schemas, by name; the runner chooses them."""

    schemas: tuple[str, ...] | None = Field(default=None, description="only records of these schemas; default: all")


class FileSettings(SinkSettings):
    """A file, or an object of a store that fsspec knows, by its URL."""

    path: str = Field(pattern=r"^[^\x00]+$", description="a path, or a URL such as s3://bucket/name")
    evidence: bool = Field(default=False, description="add the columns _url and _key after those of the record")
    existing: Literal["refuse", "replace"] = Field(
        default="refuse", description="what a new run does with a file that is there already"
    )
    storage_options: dict[str, JsonValue] = Field(
        default={}, repr=False, description="what fsspec's file system takes, such as endpoint_url"
    )

    @property
    def is_remote(self) -> bool:
        """Whether `path` is a URL; file:// is a path."""
        return _URL.match(self.path) is not None and not self.path.startswith("file://")

    @property
    def file(self) -> Path:
        """The path, of what is not remote. A link is followed, so that it stays one."""
        path = unquote(urlsplit(self.path).path) if self.path.startswith("file://") else self.path
        return Path(os.path.realpath(path))

    @property
    def place(self) -> Place:
        """The real path, or the URL without a user's name and password, and without what its query hides."""
        if not self.is_remote:
            return Place(str(self.file))
        scheme, _, rest = self.path.partition("://")
        host, slash, path = rest.partition("/")
        return Place(without_secrets(f"{scheme.lower()}://{host.rpartition('@')[2]}{slash}{path}"))


class SqliteSettings(SinkSettings):
    """A table in an SQLite file."""

    path: str = Field(pattern=r"^[^\x00]+$", description="the database file")
    table: str = Field(default="records", min_length=1, description="the table in it")
    evidence: bool = Field(default=False, description="add the column _url")

    @field_validator("table")
    @classmethod
    def _not_ours(cls, table: str) -> str:
        return _checked_name(table, longest=None)

    @property
    def file(self) -> Path:
        """The path. A link is followed."""
        return Path(os.path.realpath(self.path))

    @property
    def place(self) -> Place:
        """The real path, and the table as SQLite compares names."""
        return Place(str(self.file), self.table.lower())


class PostgresSettings(SinkSettings):
    """A table in a PostgreSQL database. `db_schema` is `schema` in the file."""

    model_config = ConfigDict(validate_by_alias=True, validate_by_name=True)

    url: SecretStr = Field(description="postgresql://user:password@host:port/database")
    table: str = Field(default="records", min_length=1, description="the table")
    db_schema: str = Field(default="public", alias="schema", min_length=1, description="the database schema it is in")
    evidence: bool = Field(default=False, description="add the column _url")

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, url: SecretStr) -> SecretStr:
        message = "must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE; signs such as @ : / in a password as %40 ..."
        try:
            parts = urlsplit(url.get_secret_value())
            rest = f"{parts.path}{parts.query}{parts.fragment}"
            good = parts.scheme in ("postgresql", "postgres") and parts.port != 0 and "@" not in rest
        except ValueError:  # it would quote what may be a password
            good = False
        if not good:
            raise ValueError(message)
        return url

    @field_validator("table", "db_schema")
    @classmethod
    def _not_ours(cls, name: str) -> str:
        return _checked_name(name, longest=63)

    @property
    def place(self) -> Place:
        """Host, port and database; schema and table."""
        parts = urlsplit(self.url.get_secret_value())
        host = parts.hostname or ""
        address = f"postgresql://{f'[{host}]' if ':' in host else host}:{parts.port or 5432}{unquote(parts.path)}"
        return Place(address, f"{self.db_schema}.{self.table}")


class StdoutSettings(SinkSettings):
    """JSON lines on standard output."""

    evidence: bool = Field(default=False, description="add _url and _key after the fields of the record")

    @property
    def place(self) -> Place:
        """There is one."""
        return Place("stdout")


def _checked_name(name: str, longest: int | None) -> str:
    if name.lower().startswith((RESERVED, "sqlite_")):
        raise ValueError("is a name that is not free: choose one that does not begin so")
    if "\x00" in name or (longest is not None and len(name.encode("utf-8", "replace")) > longest):
        raise ValueError(f"is no name for a table: no NUL{f', {longest} bytes at most' if longest else ''}")
    return name


def _path_or_settings(value: Any) -> Any:
    return {"path": os.fspath(value)} if isinstance(value, str | os.PathLike) else value


def _url_or_settings(value: Any) -> Any:
    return {"url": value} if isinstance(value, str | SecretStr) else value


class SinkOptions(_Options):
    """One entry: exactly one kind of sink, by its word. An entry that is a word alone is {WORD: {}}."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    jsonl: Annotated[FileSettings, BeforeValidator(_path_or_settings)] | None = None
    csv: Annotated[FileSettings, BeforeValidator(_path_or_settings)] | None = None
    parquet: Annotated[FileSettings, BeforeValidator(_path_or_settings)] | None = None
    sqlite: Annotated[SqliteSettings, BeforeValidator(_path_or_settings)] | None = None
    postgres: Annotated[PostgresSettings, BeforeValidator(_url_or_settings)] | None = None
    stdout: StdoutSettings | None = None

    @model_validator(mode="before")
    @classmethod
    def _a_word_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {value: {}}
        return {**value, "stdout": {}} if isinstance(value, dict) and value.get("stdout", 0) is None else value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if len(self.model_fields_set) != 1 or getattr(self, self.kind) is None:
            kinds = ", ".join(type(self).model_fields)
            raise ValueError(f"a sink is one of {kinds}, each an entry of its own, such as {{jsonl: PATH}}")
        return self

    @property
    def kind(self) -> str:
        """The word."""
        return next(iter(self.model_fields_set), "stdout")

    @property
    def settings(self) -> FileSettings | SqliteSettings | PostgresSettings | StdoutSettings:
        """What stands under the word."""
        settings: FileSettings | SqliteSettings | PostgresSettings | StdoutSettings = getattr(self, self.kind)
        return settings
