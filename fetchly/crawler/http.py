"""A URL in, the Page out: one GET with its redirects, of the server and of the page, every hop checked, time and size
bounded."""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

import httpcore2
import httpx2

from fetchly.crawler.answers import content_type_of, status_error
from fetchly.crawler.cache import Answer, HttpCache
from fetchly.crawler.inflate import ACCEPT_ENCODING, BrokenEncoding, UnknownEncoding, inflated
from fetchly.crawler.refresh import refresh_of
from fetchly.crawler.source import MAX_BYTES
from fetchly.crawler.urls import endpoint_of, join_url, parse_url
from fetchly.crawler.wire import Clock, DeadlineExceeded, GatedTransport
from fetchly.egress import EgressGate
from fetchly.errors import ConfigurationError, FetchError
from fetchly.goods import Page

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

USER_AGENT = "Mozilla/5.0 (compatible; fetchly)"
REDIRECTS = frozenset((301, 302, 303, 307, 308))
PEEK_BYTES = 4096
MAX_URL = 8192
"""Characters of an address that a site may lead to."""
_QUOTED = 200  # characters of a server's in a message
_CUT_SLACK = 1024**2  # a cut is made in the decoded body: what comes in one read on the wire may go beyond it

Peek = Callable[[Page], object]
MayFollow = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """What a fetch may do. `timeout_s` covers everything from the look-up to the last byte of the last redirect;
    `max_bytes` counts the decoded body (and the bytes on the wire)."""

    allow_private: bool = False
    timeout_s: float = 30.0
    max_bytes: int = MAX_BYTES
    max_redirects: int = 10
    user_agent: str = USER_AGENT

    def __post_init__(self) -> None:
        for name in ("timeout_s", "max_bytes"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} must be greater than 0", where=name)
        if self.max_redirects < 0:
            raise ConfigurationError("max_redirects must not be negative", where="max_redirects")
        if not self.user_agent.isascii() or not self.user_agent.isprintable() or not self.user_agent.strip():
            raise ConfigurationError("user_agent must be printable ASCII", where="user_agent")


class HttpFetcher:
    """Fetches pages over HTTP/1.1. Safe to share between threads; keeps connections until `close`.

    Cookies live for one fetch: they carry a visitor through the redirects that set and test them, and are forgotten.
    `gate` is for tests and for callers that share one gate. Without a `cache` every answer is the server's.
    """

    def __init__(
        self, policy: FetchPolicy | None = None, *, gate: EgressGate | None = None, cache: HttpCache | None = None
    ) -> None:
        self.policy = policy if policy is not None else FetchPolicy()
        self._gate = gate if gate is not None else EgressGate(allow_private=self.policy.allow_private)
        self._clock = Clock()
        self._transport = GatedTransport(self._gate, self._clock)
        self._cache = cache

    def __enter__(self) -> HttpFetcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def fetch(
        self,
        url: str,
        *,
        timeout_s: float | None = None,
        cut_at: int | None = None,
        peek: Peek | None = None,
        may_follow: MayFollow | None = None,
    ) -> Page:
        """Get one page. `timeout_s` replaces the policy's for this fetch. A page that leads on by itself within a few
        seconds (`meta refresh`) is a redirect like another; its seconds are not waited for.

        `cut_at` replaces `max_bytes`: what is longer is no error, but cut there, with a warning. `peek` is shown the
        beginning of a long body, and may raise rather than have the rest fetched; `may_follow` is shown where a
        redirect leads, and may raise rather than have it followed.

        Raises PolicyRefused (nothing was sent there), StatusError for 4xx and 5xx, FetchError otherwise, and what
        `peek` and `may_follow` raise.
        """
        limit = self.policy.timeout_s if timeout_s is None else timeout_s
        self._clock.deadline = time.monotonic() + limit
        current = parse_url(url)
        cookies = httpx2.Cookies()
        passed: list[str] = []
        while True:
            self._clock.url = str(current)
            self._gate.check_endpoint(endpoint_of(current), url=str(current))
            with _worded(str(current), limit):
                request = self._request(current, cookies)
                answer = self._ask(request)
                response = answer.response
                try:
                    page = None
                    if response.status_code not in REDIRECTS or "location" not in response.headers:
                        head = replace(self._head(url, current, response, tuple(passed)), from_cache=answer.from_cache)
                        page = self._body(head, answer, cut_at, peek)
                    if self._cache is not None and (page is None or not page.warnings):  # what was cut is not whole
                        self._cache.keep(request, answer, page.body if page is not None else b"")
                    cookies.extract_cookies(response)
                    _drop_shared(cookies)
                finally:
                    response.close()
            if page is None:
                target = join_url(current, _location(response, str(current)))
            else:
                led = _refreshed(page, current, passed)
                if led is None:
                    return page
                target = led
            passed.append(str(current))
            self._check_way(target, passed)
            if may_follow is not None:
                may_follow(str(target))
            current = target

    def _ask(self, request: httpx2.Request) -> Answer:
        send = self._transport.handle_request
        return self._cache.ask(request, send) if self._cache is not None else Answer(send(request))

    def _request(self, url: httpx2.URL, cookies: httpx2.Cookies) -> httpx2.Request:
        request = httpx2.Request(
            "GET",
            url,
            headers={
                "User-Agent": self.policy.user_agent,
                "Accept": "text/html,application/xhtml+xml,text/plain;q=0.8,*/*;q=0.5",
                "Accept-Encoding": ACCEPT_ENCODING,
            },
        )
        cookies.set_cookie_header(request)
        return request

    def _check_way(self, target: httpx2.URL, passed: list[str]) -> None:
        # A site may send a visitor back to the same address once, to see its cookie; not twice.
        if passed.count(str(target)) > 1:
            raise FetchError(
                f"the site redirects in a circle, {len(passed)} steps so far", url=passed[0], code="REDIRECT_LOOP"
            )
        if len(passed) > self.policy.max_redirects:
            raise FetchError(
                f"more than {self.policy.max_redirects} redirects, the last one to {target}",
                url=passed[0],
                code="TOO_MANY_REDIRECTS",
            )

    def _head(self, requested: str, url: httpx2.URL, response: httpx2.Response, passed: tuple[str, ...]) -> Page:
        status = response.status_code
        if not 200 <= status < 300:
            raise status_error(str(url), status, response.reason_phrase, response.headers.get("retry-after"), passed)
        content_type = content_type_of(response.headers.get_list("content-type"))
        return Page(
            requested=requested,
            url=str(url),
            status=status,
            headers=tuple((name.lower(), value) for name, value in response.headers.multi_items()),
            body=b"",
            media_type=content_type.media_type,
            charset=content_type.charset,
            redirects=passed,
        )

    def _body(self, page: Page, answer: Answer, cut_at: int | None, peek: Peek | None) -> Page:
        """The page with its body, decoded as it comes."""
        assert page.url is not None
        limit = self.policy.max_bytes if cut_at is None else cut_at
        wire_limit = limit if cut_at is None else limit + _CUT_SLACK
        body = bytearray()
        for piece in _pieces(answer, wire_limit, page.url):
            body += piece
            if len(body) > limit:
                if cut_at is None:
                    raise _too_large(limit, page.url)
                note = f"only the first {limit:,} bytes were read"
                return replace(page, body=bytes(body[:limit]), warnings=(note,))
            if peek is not None and len(body) >= PEEK_BYTES:
                peek(replace(page, body=bytes(body)))
                peek = None
            self._clock.remaining()  # decoding takes time too
        return replace(page, body=bytes(body))


def _drop_shared(cookies: httpx2.Cookies) -> None:
    """A cookie for all of `co.uk` would follow a redirect to a stranger (RFC 6265, 5.3, step 5)."""
    for cookie in list(cookies.jar):
        if cookie.domain_specified and _suffixes().is_public(cookie.domain.lstrip(".")):
            cookies.jar.clear(cookie.domain, cookie.path, cookie.name)


@functools.cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList  # a long list, and most sites set no such cookie

    return PublicSuffixList()


def _refreshed(page: Page, current: httpx2.URL, passed: list[str]) -> httpx2.URL | None:
    """Where a page itself leads at once or after a few seconds, None where it is there to be read.

    Not followed, as a browser would not or as there is nothing new to see: what is no http(s) URL or a very long one, a
    place in the same page, and, after a delay, an address that was passed before (a page that keeps itself fresh).
    """
    if page.media_type not in (None, "text/html", "application/xhtml+xml"):
        return None
    refresh = refresh_of(page.body, dict(page.headers).get("refresh"))
    if refresh is None or len(refresh.target) + len(refresh.base or "") > MAX_URL:
        return None
    here = current.copy_with(fragment=None)
    base = here
    if refresh.base is not None:
        with suppress(FetchError):
            base = join_url(here, refresh.base)
    try:
        target = join_url(base, refresh.target)
    except FetchError:
        return None
    seen = {str(httpx2.URL(url).copy_with(fragment=None)) for url in passed} | {str(here)}
    new = str(target.copy_with(fragment=None)) not in seen
    return target if new or (refresh.delay_s == 0 and not target.fragment) else None


def _location(response: httpx2.Response, url: str) -> str:
    """Where a redirect leads: UTF-8 where it is UTF-8, else Latin-1, as raw non-ASCII bytes are common."""
    raw = next(value for name, value in response.headers.raw if name.lower() == b"location")
    if len(raw) > MAX_URL:
        raise FetchError(f"the site redirects to an address of {len(raw):,} characters", url=url, code="BAD_URL")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _pieces(answer: Answer, wire_limit: int, url: str) -> Iterator[bytes]:
    """A body, decoded: as the server sends it, or as it was kept."""
    if answer.stored_body is not None:
        yield answer.stored_body
        return
    said = answer.response.headers.get_list("content-encoding")
    encodings = [name.strip().lower() for value in said for name in value.split(",")]
    yield from inflated(_bounded(answer.response.iter_raw(), wire_limit, url), encodings)


def _bounded(chunks: Iterator[bytes], limit: int, url: str) -> Iterator[bytes]:
    """Stop a body whose compressed form alone is over the limit (empty gzip members decode to nothing for ever)."""
    seen = 0
    for chunk in chunks:
        seen += len(chunk)
        if seen > limit:
            raise _too_large(limit, url)
        yield chunk


def _too_large(limit: int, url: str) -> FetchError:
    return FetchError(f"the page is larger than {limit:,} bytes", url=url, code="BODY_TOO_LARGE")


def _cut(error: Exception) -> str:
    """What a library says, with as much of the server's own words as a message can bear."""
    said = str(error)
    return said if len(said) <= _QUOTED else f"{said[:_QUOTED]}..."


@contextmanager
def _worded(url: str, limit: float) -> Iterator[None]:
    """Turn what the layers below raise into FetchError, in words."""
    try:
        yield
    except (DeadlineExceeded, httpcore2.TimeoutException) as error:
        raise FetchError(
            f"not finished within {limit:g} s",
            url=url,
            code="TIMEOUT",
            hint="raise --timeout, or timeout under run of a pipeline",
            retryable=True,
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise FetchError(
            f"the server's certificate is not valid: {error.verify_message}", url=url, code="TLS_FAILED"
        ) from error
    except ssl.SSLError as error:
        raise FetchError(f"no secure connection: {error.reason or error}", url=url, code="TLS_FAILED") from error
    except UnknownEncoding as error:
        raise FetchError(
            f"the body has the unknown encoding {_cut(error)}", url=url, code="ENCODING_UNKNOWN"
        ) from error
    except BrokenEncoding as error:
        raise FetchError(str(error), url=url, code="BODY_BROKEN", retryable=True) from error
    except httpcore2.ProtocolError as error:
        raise FetchError(f"not a valid HTTP answer: {_cut(error)}", url=url, code="PROTOCOL", retryable=True) from error
    except (httpcore2.NetworkError, OSError) as error:
        raise FetchError(f"the connection broke: {error}", url=url, code="CONNECTION_FAILED", retryable=True) from error
