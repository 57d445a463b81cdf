"""The kinds of values that a pipeline file knows: what pydantic is given in, checked values with their folder out.

Paths are relative to the folder of the pipeline file. A relative one that leaves it is refused: what lies elsewhere is
named by its absolute path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from fetchly.crawler.fingerprint import address_of
from fetchly.crawler.scope import Glob
from fetchly.errors import FetchlyError
from fetchly.pipeline.duration import seconds
from fetchly.pipeline.url_glob import UrlGlob

REFUSED = "refused"
"""The error type of values that fetchly refuses; its context has `words` and `hint`. Where it has a `code`, too, they
may quote the value."""


class Section(BaseModel):
    """What all parts of the file have in common: no key that is not known, and no change once they are read."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What values are resolved against: the folder of the pipeline file."""

    folder: Path


NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"


def refused(words: str, hint: str | None = None) -> PydanticCustomError:
    """A refusal whose words hold nothing of the value: who reports it knows whether the value may be shown."""
    return PydanticCustomError(REFUSED, "{words}", {"words": words, "hint": hint})


def folder_of(info: ValidationInfo) -> Path:
    """The folder that paths are relative to."""
    assert isinstance(info.context, Resolution)
    return info.context.folder


class OneOrMore:
    """Metadata of a list: one value alone is a list of one, also in the JSON Schema."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_listed, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        whole = handler(schema)
        return {"anyOf": [whole, whole["items"]]}


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


def local_path(text: str, folder: Path) -> Path:
    """The absolute path. Raises a refusal."""
    if not text.strip() or text != text.strip():
        raise refused("is no path: it is empty, or begins or ends with a space")
    if text.startswith("~"):
        raise refused("begins with ~, which only a shell reads", "write ${HOME}/... or the whole path")
    path = Path(os.path.normpath(folder / text))
    if not Path(text).is_absolute() and not path.is_relative_to(folder):
        raise refused("leaves the folder of the pipeline", "name what lies elsewhere by its absolute path")
    return path


def _path(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    return local_path(value, folder_of(info))


def _file_glob(value: Any, info: ValidationInfo) -> Any:
    return str(local_path(value, folder_of(info))) if isinstance(value, str) else value


def checked(check: Callable[[str], object]) -> BeforeValidator:
    """A text that a function of fetchly's takes, which says itself why not."""

    def tried(value: Any) -> Any:
        if isinstance(value, str):
            try:
                check(value)
            except FetchlyError as error:
                raise PydanticCustomError(
                    REFUSED,
                    "{words}",
                    {"words": f"is refused: {error.message}", "hint": error.hint, "code": error.code},
                ) from None
        return value

    return BeforeValidator(tried)


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return seconds(value)
    except ValueError as error:
        raise refused(f"is {error}") from None


Text = Annotated[str, Field(min_length=1)]
Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1, le=10**9)]
Number = Annotated[float, Strict()]
LocalPath = Annotated[Path, BeforeValidator(_path), WithJsonSchema({"type": "string", "minLength": 1})]
FileGlob = Annotated[Text, BeforeValidator(_file_glob)]
Url = Annotated[Text, checked(address_of)]
PathGlob = Annotated[Text, checked(Glob), checked(UrlGlob)]
PageGlob = Annotated[Text, checked(UrlGlob)]
Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    Strict(),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|m|min|h|d)?$"},
            ]
        }
    ),
]


def _name(value: Any) -> Any:
    if isinstance(value, str) and re.search(NAME_PATTERN, value) is None:
        raise refused(
            "is no name", "letters and digits, and between them . _ and -; at most 100 of them, as files are called so"
        )
    return value


Name = Annotated[str, BeforeValidator(_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
Names = Annotated[tuple[Text, ...], OneOrMore()]
