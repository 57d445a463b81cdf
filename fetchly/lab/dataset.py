"""A folder of pages with right answers in, checked gold records with their pages and schemas out.

Layout: `<split>.jsonl`, one answer a line; `html/<id>.html.gz` (or `.html`), the page of each answer. docs/eval.md
describes a line.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fetchly.errors import ConfigurationError, DocumentError
from fetchly.extraction.schema import UserSchema, load_schema
from fetchly.extraction.shape import SchemaTree
from fetchly.goods import Page

LARGEST_PAGE = 100_000_000
"""Bytes of a page after decompression; a larger one is refused."""
_HIGHEST_FOLDER = 3
_NO_PLACE = frozenset("/\\\0")


class _Line(BaseModel):
    """One line of a split, as it must be; other keys are the author's own."""

    model_config = ConfigDict(extra="allow", strict=True)

    id: str = Field(min_length=1, max_length=200)
    vertical: str = Field(min_length=1, max_length=200)
    expected: dict[str, Any]
    usable: list[str]
    missing: list[str] = []
    verbatim: dict[str, str | float] = {}
    site: str | None = None
    url: str | None = None
    lang: str | None = None
    partial_list: bool = False
    jsonld_types: list[str] = []
    structured: bool | None = None
    complete: bool = False
    sources: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class GoldRecord:
    """One page's right answer.

    `expected` are the values, of which `usable` can be read off the visible page; `missing` the page truly does not
    say. `verbatim` tells for each field how its value stands on the page ("text": in the visible text). `vertical`
    names the schema. `site` is the page's own id where none is given. `partial_list`: the list in `expected` is not
    complete. `structured`: whether the page carries the answer for machines (JSON-LD, microdata). `complete`: every
    value stands on the page and every null is a true one; `sources` are the texts of the page by JSON pointer.
    """

    id: str
    vertical: str
    expected: Mapping[str, Any]
    usable: tuple[str, ...]
    missing: tuple[str, ...]
    verbatim: Mapping[str, str | float]
    site: str
    url: str | None
    lang: str | None
    partial_list: bool
    structured: bool
    complete: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)


class Dataset:
    """One set of pages. Made by `open`, which checks every line, page and schema of a split before any work begins."""

    def __init__(self, folder: Path, split: str, schemas: Mapping[str, UserSchema], records: tuple[GoldRecord, ...]):
        self.folder = folder
        self.split = split
        self.name = folder.name
        self._schemas = schemas
        self._records = records

    @classmethod
    def open(cls, folder: Path, split: str = "dev", schemas: Path | None = None) -> Dataset:
        """Read a split. `schemas` is the folder of `<vertical>.json`; by default `schemas` in the set's folder, or
        `schemas` or `eval/schemas` in one of the folders above.

        Errors: ConfigurationError (DATASET_INVALID) with file and line of the first fault and the number of others.
        """
        folder = folder.resolve()
        file = folder / f"{split}.jsonl"
        if not file.is_file():
            found = ", ".join(sorted(path.stem for path in folder.glob("*.jsonl"))) if folder.is_dir() else ""
            raise ConfigurationError(
                "there is no such split" if folder.is_dir() else "there is no such folder",
                where=str(file if folder.is_dir() else folder),
                hint=f"splits here: {found}" if found else "a dataset is a folder with SPLIT.jsonl and html/",
                code="DATASET_INVALID",
            )
        faults: list[_Fault] = []
        records = tuple(_records(file, folder, faults))
        _raise(faults, file)
        if not records:
            raise ConfigurationError("the split holds no record", where=str(file), code="DATASET_INVALID")
        loaded = _schemas(folder, schemas, sorted({record.vertical for record in records}))
        for number, record in enumerate(records, 1):
            faults.extend(_Fault(number, message) for message in _schema_faults(record, loaded[record.vertical]))
        _raise(faults, file)
        return cls(folder, split, loaded, records)

    def records(self, limit: int | None = None) -> tuple[GoldRecord, ...]:
        """The records, or the first `limit`, in the order of a fixed hash of their ids: a prefix is a random sample,
        the same on every machine, and a longer one contains a shorter one."""
        ordered = sorted(self._records, key=lambda record: hashlib.sha256(record.id.encode()).digest())
        return tuple(ordered if limit is None else ordered[:limit])

    def page(self, record: GoldRecord) -> Page:
        """The page as it was stored, never decoded. Errors: DocumentError (PAGE_UNREADABLE)."""
        file = _page_file(self.folder, record.id)
        assert file is not None, "looked for when the dataset was opened"
        try:
            body = _bytes(file)
        except (OSError, EOFError, zlib.error) as error:
            raise DocumentError(f"the page cannot be read: {error}", where=str(file), code="PAGE_UNREADABLE") from None
        return Page(requested=str(file), url=record.url, status=None, headers=(), body=body, media_type="text/html")

    def schema(self, record: GoldRecord) -> UserSchema:
        """The schema that the record's answer is written in."""
        return self._schemas[record.vertical]

    def verticals(self) -> Mapping[str, UserSchema]:
        """The schemas of the split by name."""
        return self._schemas

    @property
    def unscored(self) -> int:
        """How many records have nothing to score: none of their usable or missing fields is one of the schema."""
        trees = {name: SchemaTree(schema.json) for name, schema in self._schemas.items()}
        return sum(not _has_scored_field(record, trees[record.vertical]) for record in self._records)


def check_names(datasets: Iterable[Dataset]) -> None:
    """Pages are told apart by set and id. Errors: ConfigurationError for a set that is named twice, and for two of one
    name."""
    seen: dict[str, Dataset] = {}
    for dataset in datasets:
        if dataset.name in seen:
            twice = seen[dataset.name].folder == dataset.folder
            raise ConfigurationError(
                f"the set {dataset.name!r} is named twice" if twice else f"two sets are called {dataset.name!r}",
                where=str(dataset.folder),
                hint="name each set once" if twice else "take them one after the other, into two files",
            )
        seen[dataset.name] = dataset


def check_scored(datasets: Iterable[Dataset]) -> list[str]:
    """One line for each set that has records with nothing to score: they count in no figure.

    Errors: ConfigurationError (NOTHING_TO_SCORE) for a set in which all are such.
    """
    notes: list[str] = []
    for dataset in datasets:
        without, total = dataset.unscored, len(dataset.records())
        if without == total:
            raise ConfigurationError(
                "no record has a field to score: usable and missing name no field of the schema",
                where=str(dataset.folder / f"{dataset.split}.jsonl"),
                hint="compare their names with the properties of the schema",
                code="NOTHING_TO_SCORE",
            )
        if without:
            notes.append(f"{dataset.name}: {without} of {total} records of the split have no field to score")
    return notes


@dataclass(frozen=True, slots=True)
class _Fault:
    line: int
    message: str


def _raise(faults: list[_Fault], file: Path) -> None:
    if not faults:
        return
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    raise ConfigurationError(f"{first.message}{more}", where=f"{file}:{first.line}", code="DATASET_INVALID")


def _records(file: Path, folder: Path, faults: list[_Fault]) -> Iterator[GoldRecord]:
    lines: dict[str, int] = {}
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot be read: {error}", where=str(file), code="DATASET_INVALID") from None
    # Only \n ends a line: str.splitlines would also cut at U+2028, which JSON texts may hold.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            parsed = _Line.model_validate(json.loads(line, parse_constant=_no_constant))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the line"
            faults.append(_Fault(number, f"{place}: {first['msg']}"))
            continue
        except (ValueError, RecursionError) as error:
            faults.append(_Fault(number, f"not JSON: {error}"))
            continue
        problem = _line_fault(parsed, folder)
        if problem is None and parsed.id in lines:
            problem = f"id: {parsed.id!r} stands in line {lines[parsed.id]} already"
        if problem is not None:
            faults.append(_Fault(number, problem))
            continue
        lines[parsed.id] = number
        yield _gold(parsed)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON value")


def _line_fault(line: _Line, folder: Path) -> str | None:
    """What pydantic cannot see: places in the answer, files on the disk."""
    if _NO_PLACE & set(line.id) or line.id.startswith("."):
        return f"id: {line.id!r} cannot name a file"
    if _NO_PLACE & set(line.vertical) or line.vertical.startswith("."):
        return f"vertical: {line.vertical!r} cannot name a schema"
    repeated = [name for name, count in Counter(line.usable).items() if count > 1]
    if repeated:
        return f"usable: {repeated[0]!r} stands there twice"
    items = line.expected.get("items")
    for name in line.usable:
        if name.startswith("items.") and isinstance(items, list):
            continue
        if name not in line.expected:
            return f"usable: {name!r} is not in expected"
    said = [name for name in line.missing if line.expected.get(name) is not None]
    if said:
        return f"missing: {said[0]!r} has a value in expected"
    if _page_file(folder, line.id) is None:
        return f"the page html/{line.id}.html.gz does not exist"
    return None


def _gold(line: _Line) -> GoldRecord:
    structured = bool(line.jsonld_types) if line.structured is None else line.structured
    return GoldRecord(
        id=line.id,
        vertical=line.vertical,
        expected=line.expected,
        usable=tuple(line.usable),
        missing=tuple(line.missing),
        verbatim=line.verbatim,
        site=line.site or line.id,
        url=line.url,
        lang=line.lang or None,
        partial_list=line.partial_list,
        structured=structured,
        complete=line.complete,
        sources=line.sources,
    )


def _page_file(folder: Path, page_id: str) -> Path | None:
    for suffix in (".html.gz", ".html"):
        file = folder / "html" / f"{page_id}{suffix}"
        if file.is_file():
            return file
    return None


def _bytes(file: Path) -> bytes:
    with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
        body: bytes = stream.read(LARGEST_PAGE + 1)
    if len(body) > LARGEST_PAGE:
        raise OSError(f"more than {LARGEST_PAGE // 1_000_000} MB")
    return body


def _schemas(folder: Path, named: Path | None, verticals: list[str]) -> dict[str, UserSchema]:
    above = [folder, *folder.parents[:_HIGHEST_FOLDER]]
    places = [named] if named is not None else [p / s for p in above for s in ("schemas", "eval/schemas")]
    for place in places:
        if all((place / f"{vertical}.json").is_file() for vertical in verticals):
            return {vertical: load_schema(place / f"{vertical}.json") for vertical in verticals}
    lacking = [v for v in verticals if not any((place / f"{v}.json").is_file() for place in places)]
    raise ConfigurationError(
        f"there is no schema {(lacking or verticals)[0]}.json",
        where=str(named if named is not None else folder),
        hint="name their folder with --schemas DIR" if named is None else None,
        code="DATASET_INVALID",
    )


def _schema_faults(record: GoldRecord, schema: UserSchema) -> Iterator[str]:
    properties = SchemaTree(schema.json).node(schema.json).get("properties")
    if not isinstance(properties, Mapping):
        yield f"vertical: the schema {record.vertical} is no object with properties: records are scored by field"


def _has_scored_field(record: GoldRecord, tree: SchemaTree) -> bool:
    properties = tree.node(tree.root).get("properties", {})
    items = tree.node(properties["items"]).get("items", {}) if "items" in properties else {}
    members = tree.node(items).get("properties", {})
    in_list = (name.split(".")[1] for name in record.usable if name.startswith("items."))
    return any(name in properties for name in (*record.usable, *record.missing)) or any(n in members for n in in_list)
