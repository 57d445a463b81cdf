"""What a user calls a schema in (dict, file, name, type), one parsed JSON Schema with its way back to the type out."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import GenericAlias, UnionType
from typing import Any, Union, get_args, get_origin

from fetchly.errors import ConfigurationError, SchemaError
from fetchly.extraction import shipped

SchemaSource = Any
"""dict, Path, str (file, shipped name, module:Attr), pydantic model, dataclass, TypedDict, list[Model], outlines."""

_MODULE_ATTR = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class UserSchema:
    """A schema as the user gave it. `label` names it in messages; `model` is the python type it came from, or None."""

    name: str
    label: str
    json: dict[str, Any]
    model: Any = None

    def to_python(self, value: Any) -> Any:
        """A valid record as the user's type: a model instance, a dataclass, a TypedDict's dict; JSON without a type.

        Errors: ValueError (pydantic's ValidationError) where the type refuses what its own JSON Schema allows.
        """
        if self.model is None:
            return value
        return _adapter(self.model, self.label).validate_json(json.dumps(value))


def load_schema(source: SchemaSource) -> UserSchema:
    """Read a schema; only its JSON is checked here, its meaning is the linter's business.

    Errors: ConfigurationError for a file or a module that cannot be read, SchemaError for a name that is not shipped
    (SCHEMA_UNKNOWN), text that is no JSON object (with line and column) and types that have no JSON Schema.
    """
    if isinstance(source, UserSchema):
        return source
    if isinstance(source, dict):
        return _from_dict(source, "schema")
    if isinstance(source, Path):
        return _from_file(source)
    if isinstance(source, str):
        return _from_text(source)
    term = _from_outlines(source)
    return term if term is not None else _from_type(source)


def _from_text(source: str) -> UserSchema:
    if not source.strip():
        raise ConfigurationError("the schema is an empty text", hint="give a name, a file or module:Model")
    if source.lstrip().startswith("{"):
        return _parsed(source, "schema", "schema")
    if any(mark in source for mark in (os.sep, "/", "\\")):
        return _from_file(Path(source))
    if _MODULE_ATTR.fullmatch(source):
        return _from_module(source)
    if Path(source).suffix:
        return _from_file(Path(source))
    return _parsed(shipped.read(source), source, f"shipped schema {source}")


def _from_file(path: Path) -> UserSchema:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(
            "the schema file does not exist", where=str(path), hint="check the path; a bare word names a shipped schema"
        ) from None
    except UnicodeDecodeError as error:
        raise SchemaError(f"the schema file is not UTF-8 text (byte {error.start})", where=str(path)) from None
    except OSError as error:
        raise ConfigurationError(f"the schema file cannot be read: {error.strerror}", where=str(path)) from None
    return _parsed(text, path.stem, str(path))


def _parsed(text: str, name: str, label: str) -> UserSchema:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise SchemaError(
                    f"the key {key!r} stands twice in one object; the second would hide the first",
                    where=f"{label} {_second(text, key)}".rstrip(),
                    code="SCHEMA_DUPLICATE_KEY",
                    hint="rename or remove one of them",
                )
            found[key] = value
        return found

    def no_constant(word: str) -> Any:
        raise SchemaError(f"{word} is not JSON", where=label, code="SCHEMA_NOT_JSON")

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise SchemaError(
            f"not JSON: {error.msg}", where=f"{label}:{error.lineno}:{error.colno}", code="SCHEMA_NOT_JSON"
        ) from None
    except RecursionError:
        raise SchemaError("nested too deep", where=label, code="SCHEMA_TOO_DEEP") from None
    return _checked(value, name, label)


def _second(text: str, key: str) -> str:
    """line:column of the second spelling of a key; empty where it is spelt with escapes."""
    places = list(re.finditer(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", text))
    if len(places) != 2:
        return ""
    at = places[1].start()
    return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


def _checked(value: Any, name: str, label: str, model: Any = None) -> UserSchema:
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else f"the value {json.dumps(value)[:40]}"
        raise SchemaError(
            f"a schema is a JSON object, this is {kind}", where=label, hint='start from {"type": "object", ...}'
        )
    title = value.get("title")
    return UserSchema(title if isinstance(title, str) and title else name, label, value, model)


def _from_dict(source: dict[Any, Any], label: str) -> UserSchema:
    _only_text_keys(source, label)
    try:
        copy = json.loads(json.dumps(source, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(
            f"the schema holds something that JSON cannot: {error}", where=label, code="SCHEMA_NOT_JSON"
        ) from None
    return _checked(copy, "record", label)


def _only_text_keys(value: Any, label: str) -> None:
    """json.dumps would turn the key 1 into "1" without a word."""
    waiting, seen = [value], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, dict | list):
            continue
        seen.add(id(node))
        if isinstance(node, dict):
            for key in node:
                if not isinstance(key, str):
                    raise SchemaError(f"the key {key!r} is not text", where=label, code="SCHEMA_NOT_JSON")
        waiting.extend(node.values() if isinstance(node, dict) else node)


def _from_module(source: str) -> UserSchema:
    module_name, _, attribute = source.partition(":")
    folder = os.getcwd()
    sys.path.insert(0, folder)  # a command line finds the user's module in the folder where it is called
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is imported
        raise ConfigurationError(
            f"the module {module_name!r} cannot be imported: {type(error).__name__}: {error}",
            where=source,
            hint="call from the folder that holds the module, or install it",
        ) from error
    finally:
        sys.path.remove(folder)
    for part in attribute.split("."):
        if not hasattr(found, part):
            shown = ", ".join(n for n in vars(found) if isinstance(getattr(found, n), type) and n[0] != "_")
            raise ConfigurationError(
                f"the module {module_name!r} has no {attribute!r}", where=source, hint=f"it has: {shown or 'no types'}"
            )
        found = getattr(found, part)
    if isinstance(found, str | Path):
        raise ConfigurationError(f"{attribute!r} is no schema but text", where=source, hint="name a type or a dict")
    return dataclasses.replace(load_schema(found), label=source)


def _from_outlines(source: Any) -> UserSchema | None:
    """A term of outlines.types; looked for only where the caller has loaded outlines."""
    dsl = sys.modules.get("outlines.types.dsl")
    if dsl is None or not isinstance(source, dsl.Term):
        return None
    if isinstance(source, dsl.JsonSchema):
        return _parsed(source.schema, "record", "outlines JsonSchema")
    raise SchemaError(
        f"an outlines {type(source).__name__} describes text, not a JSON record",
        where=type(source).__name__,
        code="SCHEMA_KIND_UNSUPPORTED",
        hint="use outlines.types.JsonSchema, or put the pattern of a field into a JSON Schema",
    )


def _from_type(source: Any) -> UserSchema:
    if not (isinstance(source, type | GenericAlias | UnionType) or get_origin(source) in (list, Union)):
        raise SchemaError(
            f"an object of type {type(source).__name__} is no schema",
            where=type(source).__name__,
            code="SCHEMA_KIND_UNSUPPORTED",
            hint="give a dict, a file, a shipped name, a pydantic model, a dataclass, a TypedDict or list[Model]",
        )
    inner = get_args(source)[:1] if get_origin(source) is list else ()
    name = f"{getattr(inner[0], '__name__', 'record')} list" if inner else getattr(source, "__name__", "record")
    label = repr(source) if get_origin(source) is not None else f"{source.__module__}:{source.__qualname__}"
    value = _described(source, label)
    return _checked(value, name, label, source)


def _adapter(model: Any, label: str) -> Any:
    """pydantic's reading of a type; imported late, as most schemas are plain JSON."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(model)
    except PydanticUserError as error:
        raise _refused(error, label) from error


def _described(model: Any, label: str) -> Any:
    from pydantic.errors import PydanticUserError

    try:
        return _adapter(model, label).json_schema()
    except PydanticUserError as error:
        raise _refused(error, label) from error


def _refused(error: Exception, label: str) -> SchemaError:
    reason = str(error).splitlines()[0]
    return SchemaError(
        f"the type has no JSON Schema: {reason}",
        where=label,
        code="SCHEMA_KIND_UNSUPPORTED",
        hint="use a pydantic model, a dataclass or a typing_extensions.TypedDict of JSON types",
    )
