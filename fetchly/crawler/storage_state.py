"""A file of cookies and localStorage in (Playwright's storage state), the same, checked, for browser contexts out.

What it holds opens accounts: none of it stands in an error, a log or a `repr`. Where a cookie goes is the browser's
decision (RFC 6265, 5.4): its host, path and scheme, for this page and whatever the page asks for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fetchly.errors import ConfigurationError

if TYPE_CHECKING:
    from playwright.async_api import StorageState as BrowserState

MAX_BYTES = 10_000_000
MAX_ORIGINS = 50  # the browser opens each of them, in every context
_MAKE = "make one with `playwright codegen --save-storage=FILE URL`, or context.storage_state(path=FILE)"
_Text = Annotated[str, Field(strict=True)]


class _Model(BaseModel):
    # Playwright writes more from release to release (indexedDB): what is not used is not judged.
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class _Cookie(_Model):
    name: Annotated[_Text, Field(min_length=1)]
    value: _Text
    domain: Annotated[_Text, Field(min_length=1)]
    path: Annotated[_Text, Field(pattern="^/")] = "/"
    expires: float = -1
    httpOnly: bool = False
    secure: bool = False
    sameSite: Literal["Strict", "Lax", "None"] = "Lax"
    partitionKey: _Text | None = None
    """Of a partitioned cookie (CHIPS): the site that the page is of which its host may be sent it within."""
    has_cross_site_ancestor: bool | None = Field(default=None, alias="_crHasCrossSiteAncestor")


class _Item(_Model):
    name: _Text
    value: _Text


class _Origin(_Model):
    origin: _Text
    localStorage: list[_Item] = []


class _State(_Model):
    cookies: list[_Cookie] = []
    origins: Annotated[list[_Origin], Field(max_length=MAX_ORIGINS)] = []


@dataclass(frozen=True, slots=True)
class StorageState:
    """What a browser context begins with. `content` is Playwright's form of it."""

    content: BrowserState = field(repr=False)

    @property
    def origins(self) -> int:
        """Sites whose localStorage is set, each of which takes the browser a moment."""
        return len(self.content.get("origins", ()))


def load_storage_state(source: str | os.PathLike[str] | Mapping[str, Any]) -> StorageState:
    """From a file, or from what Playwright's `context.storage_state()` gives. Raises ConfigurationError with the place
    in it, and never with what stands there."""
    if isinstance(source, Mapping):
        return _checked(dict(source), "storage_state")
    if not isinstance(source, str | os.PathLike):
        raise ConfigurationError("a storage state is a file or a mapping", where="storage_state", hint=_MAKE)
    path = Path(source)
    try:
        with path.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigurationError(f"a storage state larger than {MAX_BYTES:,} bytes", where=str(path))
        value = json.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(
            f"the storage state cannot be read: {error.strerror or error}", where=str(path), hint=_MAKE
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError("the storage state is not UTF-8", where=str(path), hint=_MAKE) from None
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise ConfigurationError(f"the storage state is no JSON: {error.msg}", where=place, hint=_MAKE) from None
    except RecursionError:
        raise ConfigurationError("the storage state is nested too deeply", where=str(path), hint=_MAKE) from None
    return _checked(value, str(path))


def _checked(value: Any, where: str) -> StorageState:
    if not isinstance(value, dict) or not ({"cookies", "origins"} & set(value)):
        raise ConfigurationError("a storage state has `cookies` and `origins`", where=where, hint=_MAKE)
    try:
        state = _State.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        pointer = "".join(f"/{step}" for step in first["loc"])
        raise ConfigurationError(f"storage state, {pointer}: {first['msg']}", where=where, hint=_MAKE) from None
    for number, entry in enumerate(state.origins):
        if not _is_origin(entry.origin):
            raise ConfigurationError(
                f"storage state, /origins/{number}/origin: not the origin of a web site",
                where=where,
                hint="such as https://example.org",
            )
    return StorageState(state.model_dump(by_alias=True, exclude_none=True))  # type: ignore[arg-type]


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    rest = parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not rest
