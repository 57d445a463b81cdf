"""A path or a URL in; a place where a whole file appears at once, or not at all, out."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlsplit

from fetchly.errors import ConfigurationError, FetchlyError, OutputError
from fetchly.sinks.options import FileSettings
from fetchly.sinks.place import secrets_of

Writing = Callable[[BinaryIO], None]


class Store(Protocol):
    """Errors of all: OutputError, ConfigurationError, with the place."""

    def exists(self) -> bool:
        """Whether something is there; also the check that something can be."""

    def put(self, write: Writing) -> None:
        """What `write` puts into the stream is there, whole, in place of what was; or nothing has changed."""


def store_of(settings: FileSettings) -> Store:
    """The store of a path or a URL. Errors: ConfigurationError for a missing extra, or a URL of no known kind."""
    return _Remote(settings) if settings.is_remote else _Local(settings.file)


class _Local:
    def __init__(self, file: Path) -> None:
        self._file = file

    def exists(self) -> bool:
        check_file(self._file)
        return self._file.exists() and self._file.stat().st_size > 0

    def put(self, write: Writing) -> None:
        name = None
        try:
            handle, name = tempfile.mkstemp(dir=self._file.parent, prefix=f".{self._file.name}.", suffix=".part")
            with os.fdopen(handle, "wb") as part:
                write(part)
                part.flush()
                os.fsync(part.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, stat.S_IMODE(self._file.stat().st_mode) if self._file.exists() else 0o666 & ~mask)
            os.replace(name, self._file)
        except BaseException as error:
            if name is not None:
                Path(name).unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise OutputError(f"cannot be written: {error.strerror or error}", where=str(self._file)) from None
            raise


class _Remote:
    def __init__(self, settings: FileSettings) -> None:
        self._place = str(settings.place)
        self._hidden = _secrets(settings)
        try:
            import fsspec
        except ImportError:
            raise _missing(self._place, "fsspec is not installed, which reaches stores") from None
        with self._saying_where():
            try:
                self._system, self._path = fsspec.core.url_to_fs(settings.path, **settings.storage_options)
            except ImportError as error:
                raise _missing(self._place, str(error)) from None

    def exists(self) -> bool:
        with self._saying_where():
            self._system.invalidate_cache()
            if self._system.isdir(self._path):
                raise ConfigurationError("is a folder", where=self._place, hint="name a file in it")
            return bool(self._system.exists(self._path))

    def put(self, write: Writing) -> None:
        # At the end of fsspec's transaction the file appears at once: an upload is completed, or a part is moved.
        with self._saying_where(), self._system.transaction, self._system.open(self._path, "wb") as stream:
            write(stream)

    @contextlib.contextmanager
    def _saying_where(self) -> Iterator[None]:
        try:
            yield
        except FetchlyError:
            raise
        except Exception as error:  # each store raises exceptions of its own kind
            text = " ".join(f"{type(error).__name__}: {error}".split())
            for secret in self._hidden:
                text = text.replace(secret, "***")
            raise OutputError(
                f"the store refuses: {text}", where=self._place, hint="check the URL, storage_options and credentials"
            ) from None


def check_file(file: Path) -> None:
    """What can be known to fail at the end is said at the start. Errors: OutputError."""
    if file.is_dir():
        raise OutputError("is a folder", where=str(file), hint="name a file")
    if not file.parent.is_dir():
        raise OutputError("its folder does not exist", where=str(file), hint=f"mkdir -p {file.parent}")
    if file.exists() and not file.is_file():
        raise OutputError(
            "is no file, so that nothing can be gone on with", where=str(file), hint="use the sink stdout"
        )
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise OutputError("cannot be written: Permission denied", where=str(file))


def _secrets(settings: FileSettings) -> list[str]:
    """Texts of the options, and login and tokens in the URL, that no message may hold; the longest first."""
    login = urlsplit(settings.path).netloc.rpartition("@")[0]
    found = {login, login.partition(":")[2], *secrets_of(settings.path)}
    waiting: list[Any] = [value for key, value in settings.storage_options.items() if key != "endpoint_url"]
    while waiting:
        value = waiting.pop()
        waiting.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
        if isinstance(value, str):
            found.add(value)
    return sorted((text for text in found if len(text) > 3), key=len, reverse=True)


def _missing(place: str, message: str) -> ConfigurationError:
    return ConfigurationError(message, where=place, hint="pip install 'fetchly[store]'", code="EXTRA_MISSING")
