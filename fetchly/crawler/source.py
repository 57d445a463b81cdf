"""What a user names (URL, file, `-`) in, a Page out. Imports no HTTP client: a file needs none."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from fetchly.errors import FetchError, PolicyRefused
from fetchly.goods import Page

MAX_BYTES = 32 * 1024**2

# Two letters at least: `C:\page.html` is a path.
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):")
_BARE_HOST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:[/?#].*)?|localhost(?::\d+)?(?:/.*)?", re.IGNORECASE)
_PIPE = "pipe it in: fetchly extract - --schema SCHEMA < FILE"
_PAGE_NAME = re.compile(r"[^/]*\.(?:x?html?|mhtml?|txt|xml|json|pdf|md|gz|zip)", re.IGNORECASE)


class Fetcher(Protocol):
    """Whatever turns an absolute http(s) URL into a Page."""

    def fetch(self, url: str) -> Page:
        """The page, or a FetchError."""
        ...


def is_url(target: str) -> bool:
    """Whether a target is an absolute http(s) URL, so that a fetcher is needed."""
    scheme = _SCHEME.match(target.strip())
    return scheme is not None and scheme[1].lower() in ("http", "https")


def open_target(target: str, fetcher: Fetcher, *, stdin: BinaryIO | None = None, max_bytes: int = MAX_BYTES) -> Page:
    """The page that `target` names: an http(s) URL, a path, a file: URL, or `-` for standard input.

    Raises FetchError for what cannot be read (the hint says what to try), PolicyRefused for any other scheme.
    A file is never followed from a page: only the user names files.
    """
    if target == "-":
        return _from_stdin(sys.stdin.buffer if stdin is None else stdin, max_bytes)
    if not target.strip():
        raise FetchError("the target is empty", url=target, code="BAD_URL", hint="give a URL, a file or -")
    if is_url(target):
        return fetcher.fetch(target.strip())
    path = Path(target)
    scheme = _SCHEME.match(target)
    if scheme is not None and scheme[1].lower() == "file":
        return _from_file(target, _path_of(target), max_bytes)
    if scheme is not None and not _exists(path) and not _BARE_HOST.fullmatch(target):
        raise PolicyRefused(
            f"only http, https and file are read, not {scheme[1].lower()!r}",
            url=target,
            code="SCHEME_REFUSED",
            hint="give a URL, a file or -",
        )
    return _from_file(target, path, max_bytes)


def open_file(file: os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Page:
    """The page in a file that a path object names, whatever its name looks like. Errors: FetchError, as open_target."""
    path = os.fsdecode(file)
    return _from_file(path, Path(path), max_bytes)


def _path_of(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc.lower() not in ("", "localhost"):
        raise PolicyRefused(
            "file: URLs of other machines are not read", url=url, code="SCHEME_REFUSED", hint="use file:///path"
        )
    path = url2pathname(parts.path)
    if not path or "\0" in path:
        raise FetchError("this file: URL names no file", url=url, code="BAD_URL", hint="use file:///path")
    return Path(path)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long a name, or a zero byte in it
        return False


def _from_file(target: str, path: Path, max_bytes: int) -> Page:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise FetchError("this is a directory", url=target, code="NOT_A_FILE", hint="name a page inside it")
        if not stat.S_ISREG(mode):
            raise FetchError("this is not a regular file", url=target, code="NOT_A_FILE", hint=_PIPE)
        with path.open("rb") as file:
            body = file.read(max_bytes + 1)
        url = path.resolve().as_uri()
    except (FileNotFoundError, NotADirectoryError) as error:
        means_host = _BARE_HOST.fullmatch(target) is not None and _PAGE_NAME.fullmatch(target) is None
        scheme = "http" if target.lower().startswith("localhost") else "https"
        hint = f"did you mean {scheme}://{target}?" if means_host else "check the path"
        raise FetchError("there is no such file", url=target, code="FILE_MISSING", hint=hint) from error
    except PermissionError as error:
        raise FetchError(
            "this file may not be read", url=target, code="FILE_UNREADABLE", hint="check its permissions"
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FetchError(f"this file cannot be read: {reason}", url=target, code="FILE_UNREADABLE") from error
    _check_size(body, target, max_bytes)
    return Page(requested=target, url=url, status=None, headers=(), body=body)


def _from_stdin(stream: BinaryIO, max_bytes: int) -> Page:
    try:
        body = stream.read(max_bytes + 1)
    except OSError as error:
        raise FetchError(f"standard input cannot be read: {error}", url="-", code="FILE_UNREADABLE") from error
    _check_size(body, "-", max_bytes)
    return Page(requested="-", url=None, status=None, headers=(), body=body)


def _check_size(body: bytes, target: str, max_bytes: int) -> None:
    if len(body) > max_bytes:
        raise FetchError(f"the page is larger than {max_bytes:,} bytes", url=target, code="BODY_TOO_LARGE")
