"""What a hostile server sends, by name, and the reason that a client ought to give up with; for a `Site` to serve."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass

import brotli
from backports import zstd

from tests.support.site import Handler, Visit, answer, redirect

MEGABYTE = 1_000_000
PAGE = b"<!doctype html><title>Honey</title><h1>Honey from the hill</h1>"


@dataclass(frozen=True, slots=True)
class Hostility:
    """A route and the codes of the errors that are right for it; none: the page arrives, and is `PAGE`."""

    route: bytes | Handler
    codes: tuple[str, ...] = ()


def _packed(name: str, body: bytes) -> bytes:
    return answer(body, headers=[("Content-Encoding", name)])


def _raw(head: str, body: bytes = b"") -> bytes:
    return head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body


def _endless(head: bytes, again: bytes) -> Handler:
    def serve(visit: Visit) -> None:
        visit.send(head)
        visit.endless(again)

    return serve


def _drip(head: bytes, slowly: bytes) -> Handler:
    """A byte a second: nobody who counts silence alone ever gives up."""

    def serve(visit: Visit) -> None:
        visit.send(head)
        visit.drip(slowly, pause_s=1.0)

    return serve


def _onward(visit: Visit) -> None:
    """A redirect to an address that nobody has seen before."""
    visit.send(redirect(f"{visit.path.partition('?')[0]}?{id(visit)}-{len(visit.path)}"))


def _silence(visit: Visit) -> None:
    visit.stopped.wait(15)


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
ZEROS = b"\0" * (50 * MEGABYTE)
TOO_LARGE, TIMEOUT, PROTOCOL = ("BODY_TOO_LARGE",), ("TIMEOUT",), ("PROTOCOL",)

BOMBS = {
    "gzip 1000:1": Hostility(_packed("gzip", gzip.compress(ZEROS, mtime=0)), TOO_LARGE),
    "gzip of gzip": Hostility(_packed("gzip, gzip", gzip.compress(gzip.compress(ZEROS, mtime=0), mtime=0)), TOO_LARGE),
    "gzip members": Hostility(_packed("gzip", gzip.compress(ZEROS[:MEGABYTE], mtime=0) * 50), TOO_LARGE),
    "deflate 1000:1": Hostility(_packed("deflate", zlib.compress(ZEROS)), TOO_LARGE),
    "brotli 1000:1": Hostility(_packed("br", brotli.compress(ZEROS, quality=5)), TOO_LARGE),
    "zstd 1000:1": Hostility(_packed("zstd", zstd.compress(ZEROS)), TOO_LARGE),
    "zstd frames": Hostility(_packed("zstd", zstd.compress(ZEROS[:MEGABYTE]) * 50), TOO_LARGE),
    "ten codings": Hostility(_packed(", ".join(["gzip"] * 10), gzip.compress(PAGE, mtime=0)), ("ENCODING_UNKNOWN",)),
    "ten thousand codings": Hostility(_packed("gzip," * 10_000, gzip.compress(PAGE, mtime=0)), ("ENCODING_UNKNOWN",)),
    "length of an exabyte": Hostility(
        _endless(OK + b"Content-Length: 999999999999999999\r\n\r\n", ZEROS[:65536]), TOO_LARGE
    ),
}
ENDLESS = {
    "chunks": Hostility(_endless(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"), TOO_LARGE),
    "tiny chunks": Hostility(_endless(CHUNKED, b"1\r\nx\r\n" * 10_000), (*TOO_LARGE, *TIMEOUT)),
    "body without a length": Hostility(_endless(OK + b"\r\n", b"x" * 65536), TOO_LARGE),
    "chunk size": Hostility(_endless(CHUNKED, b"0" * 65536), PROTOCOL),
    "chunk extension": Hostility(_endless(CHUNKED + b"1;a=", b"x" * 65536), PROTOCOL),
    "trailers": Hostility(_endless(CHUNKED + b"0\r\n", b"X-A: b\r\n" * 10_000), PROTOCOL),
    "headers": Hostility(_endless(OK, b"X-A: b\r\n" * 10_000), PROTOCOL),
    "one header": Hostility(_endless(OK + b"X-A: ", b"b" * 65536), PROTOCOL),
    "status line": Hostility(_endless(b"HTTP/1.1 200 ", b"O" * 65536), PROTOCOL),
    "continue": Hostility(_endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), (*PROTOCOL, *TIMEOUT)),
    "no http": Hostility(_endless(b"", b"\0" * 65536), PROTOCOL),
    "empty lines": Hostility(_endless(b"", b"\r\n" * 30_000), PROTOCOL),
    "redirects": Hostility(_onward, ("TOO_MANY_REDIRECTS",)),
    "refreshes": Hostility(
        lambda visit: visit.send(answer(f"<meta http-equiv=refresh content='0;url=?{id(visit)}'>".encode())),
        ("TOO_MANY_REDIRECTS",),
    ),
}
SLOW = {
    "silence": Hostility(_silence, TIMEOUT),
    "status line": Hostility(_drip(b"", OK), TIMEOUT),
    "headers": Hostility(_drip(OK, b"X-A: b\r\n" * 100), TIMEOUT),
    "body": Hostility(_drip(OK + b"Content-Length: 100\r\n\r\n", b"x" * 100), TIMEOUT),
    "chunks": Hostility(_drip(CHUNKED, b"1\r\nx\r\n" * 100), TIMEOUT),
    "gzip": Hostility(_drip(OK + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(PAGE, mtime=0)), TIMEOUT),
    "end": Hostility(_drip(OK + b"Content-Length: 100\r\n\r\n" + b"x" * 99, b""), ("PROTOCOL", "TIMEOUT")),
}
LIES = {
    "length too long": Hostility(_raw("HTTP/1.1 200 OK\nContent-Length: 1000", PAGE), PROTOCOL),
    "length too short": Hostility(
        _raw(f"HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: {len(PAGE)}", PAGE + b"x")
    ),
    "two lengths": Hostility(_raw("HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 6", PAGE), PROTOCOL),
    "negative length": Hostility(_raw("HTTP/1.1 200 OK\nContent-Length: -5", PAGE), PROTOCOL),
    "length in words": Hostility(_raw("HTTP/1.1 200 OK\nContent-Length: many", PAGE), PROTOCOL),
    "length of a thousand digits": Hostility(_raw("HTTP/1.1 200 OK\nContent-Length: " + "9" * 1000, PAGE), PROTOCOL),
    "a chunk breaks off": Hostility(CHUNKED + b"ff\r\n" + PAGE, PROTOCOL),
    "the last chunk is missing": Hostility(CHUNKED + b"3f\r\n" + PAGE[:63] + b"\r\n", PROTOCOL),
    "negative chunk": Hostility(CHUNKED + b"-1\r\n" + PAGE, PROTOCOL),
    "the headers break off": Hostility(b"HTTP/1.1 200 OK\r\nContent-Le", PROTOCOL),
    "nothing at all": Hostility(lambda visit: None, PROTOCOL),
    "gzip that is none": Hostility(_packed("gzip", PAGE), ("BODY_BROKEN",)),
    "gzip breaks off": Hostility(_packed("gzip", gzip.compress(PAGE, mtime=0)[:-9]), ("BODY_BROKEN",)),
    "brotli breaks off": Hostility(_packed("br", brotli.compress(PAGE)[:-3]), ("BODY_BROKEN",)),
    "zstd breaks off": Hostility(_packed("zstd", zstd.compress(PAGE)[:-3]), ("BODY_BROKEN",)),
    "garbage after gzip": Hostility(_packed("gzip", gzip.compress(PAGE, mtime=0) + b"garbage" * 1000)),
    "garbage after brotli": Hostility(_packed("br", brotli.compress(PAGE) + b"garbage"), ("BODY_BROKEN",)),
    "garbage after zstd": Hostility(_packed("zstd", zstd.compress(PAGE) + b"garbage"), ("BODY_BROKEN",)),
    "another answer after this": Hostility(answer(PAGE) + answer(b"evil")),
    "a header with a zero byte": Hostility(_raw("HTTP/1.1 200 OK\nX-A: a\0b\nContent-Length: 1", b"x"), PROTOCOL),
    "a header without a name": Hostility(_raw("HTTP/1.1 200 OK\n: x\nContent-Length: 1", b"x"), PROTOCOL),
    "a status that is none": Hostility(_raw("HTTP/1.1 999999 OK", PAGE), PROTOCOL),
    "a reason of fifty kilobytes": Hostility(_raw("HTTP/1.1 404 " + "x" * 50_000), ("HTTP_STATUS",)),
    "a reason that colours the screen": Hostility(_raw("HTTP/1.1 404 \x1b[31mred\x07"), ("HTTP_STATUS", "PROTOCOL")),
    "ten kilobytes of nothing": Hostility(b"x" * 10_000 + b"\r\n\r\n", PROTOCOL),
    "a header of ten kilobytes": Hostility(_raw("HTTP/1.1 200 OK\n" + "x y" * 3000 + ": b"), PROTOCOL),
    "a coding of ten kilobytes": Hostility(_packed("x" * 10_000, PAGE), ("ENCODING_UNKNOWN",)),
    "a wait of ten kilobytes": Hostility(
        answer(status="503 Busy", headers=[("Retry-After", "9" * 10_000)]), ("HTTP_STATUS",)
    ),
    "an old protocol": Hostility(b"<html>HTTP/0.9 has no status line", PROTOCOL),
    "an upgrade nobody asked for": Hostility(
        _raw("HTTP/1.1 101 Switching Protocols\nUpgrade: x"), ("PROTOCOL", "HTTP_STATUS")
    ),
}
REDIRECTS = {
    "to itself": Hostility(redirect(""), ("REDIRECT_LOOP",)),
    "to a file": Hostility(redirect("file:///etc/passwd"), ("SCHEME_REFUSED",)),
    "to data": Hostility(redirect("data:text/html,<h1>x"), ("SCHEME_REFUSED",)),
    "to a script": Hostility(redirect("javascript:alert(1)"), ("SCHEME_REFUSED",)),
    "to another service": Hostility(redirect("gopher://127.0.0.1:70/_"), ("SCHEME_REFUSED",)),
    "to a port of mail": Hostility(redirect("http://127.0.0.1:25/"), ("PORT_REFUSED",)),
    "with a password": Hostility(redirect("http://a:b@127.0.0.1/"), ("USERINFO_REFUSED",)),
    "to a megabyte": Hostility(redirect("/" + "a" * MEGABYTE), PROTOCOL),
    "to sixty kilobytes": Hostility(redirect("/" + "a" * 60_000), ("BAD_URL",)),
    "to sixty kilobytes that are no address": Hostility(redirect("http://[" + "a" * 60_000), ("BAD_URL",)),
    "to sixty kilobytes of a scheme": Hostility(redirect("a" * 60_000 + ":x"), ("SCHEME_REFUSED", "BAD_URL")),
    "to nothing": Hostility(answer(status="302 Found"), ("HTTP_STATUS",)),
    "to half an address": Hostility(redirect("http://[::1"), ("BAD_URL",)),
    "to two hosts": Hostility(redirect(r"http://127.0.0.1\@example.org/"), ("BAD_URL",)),
    "with bytes that are no text": Hostility(
        redirect("/\udcff\udcfe".encode("utf-8", "surrogatepass").decode("latin-1")), ("HTTP_STATUS", "BAD_URL")
    ),
    "refresh to sixty kilobytes": Hostility(
        answer(b"<meta http-equiv=refresh content='0;url=/" + b"a" * 60_000 + b"'>" + PAGE)
    ),
    "refresh to a file": Hostility(answer(b"<meta http-equiv=refresh content='0;url=file:///etc/passwd'>" + PAGE)),
    "a cookie a redirect": Hostility(
        redirect("?", headers=[("Set-Cookie", f"c{n}={'x' * 400}") for n in range(100)]), ("REDIRECT_LOOP", "PROTOCOL")
    ),
}
CATALOGUE = {
    f"{family}: {name}": hostility
    for family, group in (("bomb", BOMBS), ("endless", ENDLESS), ("slow", SLOW), ("lie", LIES), ("redirect", REDIRECTS))
    for name, hostility in group.items()
}
