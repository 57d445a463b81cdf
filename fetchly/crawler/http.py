"""A URL in, the Page out: one GET with its redirects, every hop checked, time and size bounded."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType

import httpcore2
import httpx2

from fetchly.crawler.inflate import ACCEPT_ENCODING, BrokenEncoding, UnknownEncoding, inflated
from fetchly.crawler.urls import endpoint_of, join_url, parse_url
from fetchly.crawler.wire import Clock, DeadlineExceeded, GatedTransport
from fetchly.egress import EgressGate
from fetchly.errors import ConfigurationError, FetchError
from fetchly.goods import Page

USER_AGENT = "Mozilla/5.0 (compatible; fetchly)"
REDIRECTS = frozenset((301, 302, 303, 307, 308))
RETRYABLE = frozenset((408, 425, 429, 500, 502, 503, 504))


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """What a fetch may do. `timeout_s` covers everything from the look-up to the last byte of the last redirect;
    `max_bytes` counts the decoded body (and the bytes on the wire)."""

    allow_private: bool = False
    timeout_s: float = 30.0
    max_bytes: int = 10_000_000
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


class StatusError(FetchError):
    """The server answered with an error status. `retry_after_s` is the wait it asks for, None where it does not."""

    code = "HTTP_STATUS"

    def __init__(
        self, message: str, *, url: str, status: int, retry_after_s: float | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, url=url, status=status, hint=hint, retryable=status in RETRYABLE)
        self.retry_after_s = retry_after_s


class HttpFetcher:
    """Fetches pages over HTTP/1.1. Safe to share between threads; keeps connections until `close`.

    Cookies live for one fetch: they carry a visitor through the redirects that set and test them, and are forgotten.
    `gate` is for tests and for callers that share one gate.
    """

    def __init__(self, policy: FetchPolicy | None = None, *, gate: EgressGate | None = None) -> None:
        self.policy = policy if policy is not None else FetchPolicy()
        self._gate = gate if gate is not None else EgressGate(allow_private=self.policy.allow_private)
        self._clock = Clock()
        self._transport = GatedTransport(self._gate, self._clock)

    def __enter__(self) -> HttpFetcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def fetch(self, url: str, *, timeout_s: float | None = None) -> Page:
        """Get one page. `timeout_s` replaces the policy's for this fetch.

        Raises PolicyRefused (nothing was sent there), StatusError for 4xx and 5xx, and FetchError otherwise.
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
                response = self._transport.handle_request(self._request(current, cookies))
                try:
                    location = response.headers.get("location") if response.status_code in REDIRECTS else None
                    if location is None:
                        return self._page(url, current, response, tuple(passed))
                    cookies.extract_cookies(response)
                finally:
                    response.close()
            passed.append(str(current))
            current = self._next(current, _raw_header(response, "location"), passed)

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

    def _next(self, current: httpx2.URL, location: str, passed: list[str]) -> httpx2.URL:
        target = join_url(current, location)
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
        return target

    def _page(self, requested: str, url: httpx2.URL, response: httpx2.Response, passed: tuple[str, ...]) -> Page:
        status = response.status_code
        if not 200 <= status < 300:
            raise _status_error(str(url), response)
        content_type = _content_type(response.headers.get_list("content-type"))
        return Page(
            requested=requested,
            url=str(url),
            status=status,
            headers=tuple((name.lower(), value) for name, value in response.headers.multi_items()),
            body=self._body(response, str(url)),
            media_type=content_type.media_type,
            charset=content_type.charset,
            redirects=passed,
        )

    def _body(self, response: httpx2.Response, url: str) -> bytes:
        limit = self.policy.max_bytes
        encodings = [
            name.strip().lower() for value in response.headers.get_list("content-encoding") for name in value.split(",")
        ]
        body = bytearray()
        for piece in inflated(_bounded(response.iter_raw(), limit, url), encodings):
            body += piece
            if len(body) > limit:
                raise _too_large(limit, url)
            self._clock.remaining()  # decoding takes time too
        return bytes(body)


@dataclass(frozen=True, slots=True)
class ContentType:
    """A Content-Type header taken apart, lower-case; None where nothing was said."""

    media_type: str | None
    charset: str | None


def _content_type(values: list[str]) -> ContentType:
    """The last header counts, as in the Fetch standard ("extract a MIME type")."""
    for value in reversed(values):
        media_type, _, rest = value.partition(";")
        media_type = media_type.strip().lower()
        if media_type.count("/") != 1:
            continue
        charset = None
        for parameter in rest.split(";"):
            name, _, text = parameter.partition("=")
            if name.strip().lower() == "charset" and charset is None:
                charset = text.strip().strip("\"'").strip().lower() or None
        return ContentType(media_type, charset)
    return ContentType(None, None)


def _raw_header(response: httpx2.Response, wanted: str) -> str:
    """A header as UTF-8 where it is UTF-8, else Latin-1: redirects with raw non-ASCII bytes are common."""
    raw = next(value for name, value in response.headers.raw if name.lower() == wanted.encode())
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


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


def _status_error(url: str, response: httpx2.Response) -> StatusError:
    status = response.status_code
    hint = {401: "the page needs a login", 403: "the site refuses this client", 404: "check the address"}.get(status)
    wait = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
    if wait is not None:
        hint = f"the server asks to wait {wait:.0f} s before the next try"
    elif status in RETRYABLE:
        hint = "try again later"
    phrase = response.reason_phrase
    return StatusError(
        f"the server answered {status}{' ' + phrase if phrase else ''}",
        url=url,
        status=status,
        retry_after_s=wait,
        hint=hint,
    )


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds to wait (RFC 9110, 10.2.3: a number or a date), 0 for a moment that has passed, None if unreadable."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value) if len(value) < 10 else None
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


@contextmanager
def _worded(url: str, limit: float) -> Iterator[None]:
    """Turn what the layers below raise into FetchError, in words."""
    try:
        yield
    except (DeadlineExceeded, httpcore2.TimeoutException) as error:
        raise FetchError(
            f"not finished within {limit:g} s", url=url, code="TIMEOUT", hint="raise --timeout", retryable=True
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise FetchError(
            f"the server's certificate is not valid: {error.verify_message}", url=url, code="TLS_FAILED"
        ) from error
    except ssl.SSLError as error:
        raise FetchError(f"no secure connection: {error.reason or error}", url=url, code="TLS_FAILED") from error
    except UnknownEncoding as error:
        raise FetchError(f"the body has the unknown encoding {error}", url=url, code="ENCODING_UNKNOWN") from error
    except BrokenEncoding as error:
        raise FetchError(str(error), url=url, code="BODY_BROKEN", retryable=True) from error
    except httpcore2.ProtocolError as error:
        raise FetchError(f"not a valid HTTP answer: {error}", url=url, code="PROTOCOL", retryable=True) from error
    except (httpcore2.NetworkError, OSError) as error:
        raise FetchError(f"the connection broke: {error}", url=url, code="CONNECTION_FAILED", retryable=True) from error
