"""Files in; a package index (PEP 503 or 691) on 127.0.0.1 out, which can cut, lie and fail on demand."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Serve = Callable[..., AbstractContextManager[str]]
"""Makes a behaviour the machine's package index for a while; gives its URL."""


@dataclass
class IndexBehaviour:
    """What the server does. `cuts` are the lengths after which successive file answers break off."""

    wheel: bytes
    filename: str = "tiny_model-1.0-py3-none-any.whl"
    style: str = "json"
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    honours_range: bool = True
    etag: str | None = '"one"'
    checksum: str | None = None
    redirects: bool = False
    file_requests: list[dict[str, str]] = field(default_factory=list)

    @property
    def sha256(self) -> str:
        return self.checksum if self.checksum is not None else hashlib.sha256(self.wheel).hexdigest()


def tiny_wheel(members: dict[str, bytes]) -> bytes:
    """A wheel that holds `members` and the least metadata."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in members.items():
            archive.writestr(name, contents)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Name: tiny-model\nVersion: 1.0\n")
    return buffer.getvalue()


@contextmanager
def package_index(behaviour: IndexBehaviour) -> Iterator[str]:
    """Serve `behaviour`; gives the URL of the index."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self.path.startswith("/simple/"):
                _serve_listing(self, behaviour)
            elif behaviour.redirects and self.path.startswith("/files/"):
                self.send_response(302)
                self.send_header("Location", self.path.replace("/files/", "/moved/"))
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                _serve_file(self, behaviour)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _serve_listing(handler: BaseHTTPRequestHandler, behaviour: IndexBehaviour) -> None:
    if handler.path != "/simple/tiny-model/":
        handler.send_error(404)
        return
    url = f"../../files/{behaviour.filename}"
    if behaviour.style == "json":
        kind = "application/vnd.pypi.simple.v1+json"
        hashes = {"sha256": behaviour.sha256} if behaviour.sha256 else {}
        listing = {"files": [{"filename": behaviour.filename, "url": url, "hashes": hashes}], "name": "tiny-model"}
        body = json.dumps(listing).encode()
    else:
        kind = "text/html"
        fragment = f"#sha256={behaviour.sha256}" if behaviour.sha256 else ""
        body = f'<!DOCTYPE html><a href="{url}{fragment}">{behaviour.filename}</a>'.encode()
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _serve_file(handler: BaseHTTPRequestHandler, behaviour: IndexBehaviour) -> None:
    behaviour.file_requests.append({key.lower(): value for key, value in handler.headers.items()})
    if behaviour.statuses and (status := behaviour.statuses.pop(0)) != 200:
        handler.send_error(status)
        return
    start = 0
    wanted = handler.headers.get("Range")
    condition = handler.headers.get("If-Range")
    if behaviour.honours_range and wanted and condition in (None, behaviour.etag):
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(behaviour.wheel):
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(behaviour.wheel)}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
    body = behaviour.wheel[start:]
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(behaviour.wheel) - 1}/{len(behaviour.wheel)}")
    if behaviour.etag:
        handler.send_header("ETag", behaviour.etag)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if behaviour.cuts:
        body = body[: behaviour.cuts.pop(0)]
        handler.close_connection = True
    handler.wfile.write(body)
    handler.wfile.flush()
