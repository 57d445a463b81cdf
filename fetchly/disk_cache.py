"""A key in, the bytes that are kept under it out: entries on disk, shared by processes, bounded, and never trusted.

Every entry is a file of its own, written aside and moved into its place, and begins with a digest of its key and
content. There is no index that could be torn: a killed process leaves at most a file that nobody reads, and whatever is
damaged is not there. What was used longest ago goes first.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import platformdirs

from fetchly.errors import ConfigurationError, OutputError

CACHE_MB = 1000
"""Megabytes of pages and answers together, where nobody says otherwise."""

_MAGIC = b"fetchly cache 1\n"
_DIGEST_BYTES = 32
_ASIDE = ".tmp-"
_ABANDONED_S = 3600.0  # a file written aside that is older belongs to a process that was killed
_ANSWERS_SHARE = 0.2  # an answer has a few kilobytes, and took the longest
_KEPT_SHARE = 0.75  # what is left of a full cache, so that room is not made for every single entry
_LOOK_SHARE = 1 / 32  # what one process writes before it looks again at what all of them have written


@dataclass(frozen=True, slots=True)
class CacheSize:
    """What a cache holds, on disk."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    used_at: float
    size: int


class DiskCache:
    """Entries in a folder, at most `max_bytes` with up to eight processes writing. Thread-safe.

    A folder that cannot be made or written to is a ConfigurationError (CACHE_UNUSABLE) at once. Where an entry cannot
    be kept later on (a full disk), that is told once, as a RuntimeWarning, and work goes on without it.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._unseen = max_bytes  # bytes written since this process looked at the folder; the first entry looks
        self._has_warned = False
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=_ASIDE, dir=folder)
            os.close(handle)
            os.unlink(name)
        except OSError as error:
            raise ConfigurationError(
                f"the cache cannot be written to: {error.strerror or error}",
                where=str(folder),
                hint="name another folder with cache_dir, or do without: --no-cache",
                code="CACHE_UNUSABLE",
            ) from None

    def get(self, key: bytes) -> bytes | None:
        """What was put under a key last; None where there is nothing, or nothing whole."""
        path = self._path(key)
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST_BYTES
        content = raw[start:]
        if raw[:start] != _MAGIC + _digest(key, content):
            self._unlink(path)
            return None
        with suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: bytes, content: bytes) -> None:
        """Keep something in place of what was there. What is larger than the whole cache is not kept."""
        path = self._path(key)
        size = len(_MAGIC) + _DIGEST_BYTES + len(content)
        if size > self._max_bytes * _KEPT_SHARE:
            self._unlink(path)
            return
        try:
            with self._lock:
                self._unseen += size
                if self._unseen > self._max_bytes * _LOOK_SHARE:
                    self._make_room(size)
            self._write(path, _MAGIC + _digest(key, content) + content)
        except OSError as error:
            self._warn(error)

    def remove(self, key: bytes) -> None:
        """Forget what is kept under a key."""
        self._unlink(self._path(key))

    def size(self) -> CacheSize:
        """What there is now; reads the whole folder."""
        files = list(self._files())
        return CacheSize(len(files), sum(file.size for file in files))

    def clear(self) -> CacheSize:
        """Forget everything; says what there was. Errors: OutputError."""
        files = list(self._files())
        for file in files:
            try:
                file.path.unlink(missing_ok=True)
            except OSError as error:
                raise OutputError(f"cannot be removed: {error.strerror or error}", where=str(file.path)) from None
        return CacheSize(len(files), sum(file.size for file in files))

    def _path(self, key: bytes) -> Path:
        name = blake2b(key, digest_size=_DIGEST_BYTES).hexdigest()
        return self.folder / name[:2] / name[2:]

    def _write(self, path: Path, raw: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # For its owner alone (0600): a page may hold what only its owner is shown.
        handle, aside = tempfile.mkstemp(prefix=_ASIDE, dir=path.parent)
        try:
            with open(handle, "wb") as file:
                file.write(raw)
            os.replace(aside, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(aside)
            raise

    def _make_room(self, wanted: int) -> None:
        """Under the lock. Other processes may do the same at the same time: what is gone is gone."""
        files = sorted(self._files(), key=lambda file: file.used_at)
        total = sum(file.size for file in files) + wanted
        if total > self._max_bytes * (_KEPT_SHARE + _LOOK_SHARE):
            for file in files:
                if total <= self._max_bytes * _KEPT_SHARE:
                    break
                self._unlink(file.path)
                total -= file.size
        self._unseen = 0

    def _files(self) -> Iterator[_File]:
        """Every entry, and none that is still being written aside. What a killed process has left there is removed."""
        now = time.time()
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            try:
                found = path.stat()
            except OSError:
                continue
            if not path.name.startswith(_ASIDE):
                yield _File(path, found.st_mtime, found.st_size)
            elif now - found.st_mtime > _ABANDONED_S:
                self._unlink(path)

    def _unlink(self, path: Path) -> None:
        with suppress(OSError):
            path.unlink()

    def _warn(self, error: OSError) -> None:
        with self._lock:
            if self._has_warned:
                return
            self._has_warned = True
        warnings.warn(
            f"the cache in {self.folder} cannot be written to ({error.strerror or error}); work goes on without it",
            RuntimeWarning,
            stacklevel=3,
        )


@dataclass(frozen=True, slots=True)
class Caches:
    """The two caches of a user: what sites have answered, and what the model has."""

    pages: DiskCache
    answers: DiskCache


def open_caches(folder: str | os.PathLike[str] | None = None, megabytes: int | None = None) -> Caches:
    """The caches in a folder, or in the user's own (`~/.cache/fetchly` on Linux). Both together hold at most so many
    megabytes. Errors: ConfigurationError."""
    megabytes = CACHE_MB if megabytes is None else megabytes
    if not isinstance(megabytes, int) or isinstance(megabytes, bool) or megabytes < 1:
        raise ConfigurationError(f"cache_mb is {megabytes!r}, not megabytes from 1 on", where="cache_mb")
    base = platformdirs.user_cache_path("fetchly") if folder is None else Path(folder).expanduser()
    answers = int(megabytes * 1e6 * _ANSWERS_SHARE)
    return Caches(DiskCache(base / "pages", int(megabytes * 1e6) - answers), DiskCache(base / "answers", answers))


def _digest(key: bytes, content: bytes) -> bytes:
    hashed = blake2b(len(key).to_bytes(8, "big") + key, digest_size=_DIGEST_BYTES)
    hashed.update(content)
    return hashed.digest()
