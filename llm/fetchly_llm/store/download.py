"""A remote file and its checksum in; the whole, checked file on the disk out. Survives cut connections and kills."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from fetchly_llm.errors import ModelMissing, WeightsMismatch
from fetchly_llm.store.entry import Progress
from fetchly_llm.store.package_index import RemoteFile, unreachable

_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_GONE = {401, 403, 404, 410}


@dataclass(slots=True)
class Download:
    """One file on its way.

    Bytes gather in `<target>.part`; beside it `<target>.part.json` says which file they belong to, so that a later run
    goes on where this one stopped (HTTP range requests, RFC 9110 section 14). `attempts` counts failures in a row
    without a new byte; `pause` is the first wait in seconds, doubled each time.
    """

    client: httpx2.Client
    remote: RemoteFile
    target: Path
    progress: Progress
    attempts: int = 5
    pause: float = 0.5
    _reported: int = field(default=0, init=False)
    _started: bool = field(default=False, init=False)

    def run(self) -> None:
        """Fetch, check, and move to `target`.

        Raises ModelMissing where the file cannot be had, WeightsMismatch where what comes is not what was promised.
        """
        if self.target.exists() and self._matches(self.target):
            return
        try:
            self._fetch()
        finally:
            if self._started:
                self.progress.finish()
        os.replace(self._part, self.target)
        self._state.unlink(missing_ok=True)

    @property
    def _part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    @property
    def _state(self) -> Path:
        return self.target.with_name(self.target.name + ".part.json")

    def _fetch(self) -> None:
        """Leave a part that is whole and checked."""
        while True:
            resumed = self._offset() > 0
            self._fetch_rest()
            if self._matches(self._part):
                return
            self._discard()
            if not resumed:
                raise WeightsMismatch(
                    f"{self.remote.filename} does not have the {self.remote.algorithm} that the package index states",
                    hint="run `fetchly models pull` again; if it stays, the index or a proxy changes files",
                )

    def _fetch_rest(self) -> None:
        failures = 0
        while True:
            before = self._offset()
            try:
                self._request(before)
                return
            except httpx2.HTTPError as error:
                failures = 1 if self._offset() > before else failures + 1
                if failures >= self.attempts:
                    raise unreachable(error, self.remote.filename) from error
                time.sleep(self.pause * 2 ** (failures - 1))

    def _request(self, offset: int) -> None:
        """One request for what is missing after `offset`. Raises httpx2.HTTPError for what may pass."""
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
            etag = self._read_state().get("etag")
            if etag:
                headers["If-Range"] = etag
        with self.client.stream("GET", self.remote.url, headers=headers) as response:
            if response.status_code == 416:
                # Nothing is missing, or the part is longer than the file: the checksum tells which.
                return
            self._refuse(response)
            start, total = _extent(response)
            if start not in (0, offset):
                raise httpx2.RemoteProtocolError(f"asked for byte {offset}, got byte {start}", request=response.request)
            self._write(response, start, total)

    def _refuse(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status in (200, 206):
            return
        if status in _GONE:
            raise ModelMissing(
                f"{self.remote.filename} cannot be had: HTTP {status} {response.reason_phrase}",
                hint="check the package index, or give --model a local folder",
            )
        raise httpx2.HTTPStatusError(
            f"HTTP {status} {response.reason_phrase}", request=response.request, response=response
        )

    def _write(self, response: httpx2.Response, start: int, total: int | None) -> None:
        etag = response.headers.get("ETag", "")
        # A weak validator may not stand in If-Range (RFC 9110 section 13.1.5).
        state = {"checksum": self._checksum, "etag": "" if etag.startswith("W/") else etag}
        if start == 0:
            self._part.unlink(missing_ok=True)
        self._state.write_text(json.dumps(state), encoding="utf-8")
        self._report(start, total)
        with self._part.open("ab") as file:
            # Pieces as they come: the client loses what it has gathered towards a larger one when the line breaks.
            for chunk in response.iter_raw():
                file.write(chunk)
                self._report(self._reported + len(chunk), total)
            file.flush()
            os.fsync(file.fileno())

    def _report(self, done: int, total: int | None) -> None:
        if not self._started:
            self._started = True
            self.progress.start(f"downloading {self.remote.filename}", total)
        if done != self._reported:
            self.progress.advance(done - self._reported)
            self._reported = done

    @property
    def _checksum(self) -> str:
        return f"{self.remote.algorithm}:{self.remote.hexdigest}"

    def _read_state(self) -> dict[str, str]:
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # absent, or cut short by a crash: the part is worth nothing
            return {}
        return state if isinstance(state, dict) else {}

    def _offset(self) -> int:
        """How many bytes of this very file are here. A part of another file is removed."""
        if not self._part.exists():
            return 0
        if self._read_state().get("checksum") != self._checksum:
            self._discard()
            return 0
        return self._part.stat().st_size

    def _discard(self) -> None:
        self._part.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def _matches(self, path: Path) -> bool:
        if not path.exists():
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, self.remote.algorithm).hexdigest() == self.remote.hexdigest


def _extent(response: httpx2.Response) -> tuple[int, int | None]:
    """The first byte that a good response carries, and the length of the whole file where it is stated."""
    if response.status_code == 206:
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None:
            raise httpx2.RemoteProtocolError(
                "a partial answer without a usable Content-Range", request=response.request
            )
        return int(match[1]), None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length and length.isdigit() else None
