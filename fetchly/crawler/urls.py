"""A URL as a person or a page writes it in; a parsed, checked URL out. One parser for the check and for the request."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httpx2

from fetchly.egress import ALLOWED_SCHEMES, Endpoint
from fetchly.errors import FetchError, PolicyRefused

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
# What makes two parsers disagree about the host: `http://a\@b`, raw controls, percent-encoded host names.
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_HOST_FIRST = re.compile(r"[^\s/?#.@]+(?:\.[^\s/?#.@]+)+\.?(?:[/?#]\S*)?$")
_ABSOLUTE = "write it whole: https://example.org/page"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def parse_url(text: str) -> httpx2.URL:
    """Parse an absolute http(s) URL. Host names in any script become their IDNA form.

    Raises PolicyRefused for another scheme or for a password in the URL, FetchError (`BAD_URL`) for anything that is
    no URL or could be read in two ways.
    """
    text = text.strip()
    scheme = _SCHEME.match(text)
    if scheme is None:
        hint = f"did you mean https://{text}?" if _HOST_FIRST.match(text) else _ABSOLUTE
        raise FetchError("this is not an absolute URL", url=text, code="BAD_URL", hint=hint)
    if scheme[1].lower() not in ALLOWED_SCHEMES:
        raise PolicyRefused(
            f"only http and https are fetched, not {scheme[1].lower()!r}", url=text, code="SCHEME_REFUSED"
        )
    if _UNSAFE.search(text):
        raise FetchError(
            "the URL holds a space, a backslash or a control character",
            url=text,
            code="BAD_URL",
            hint="write a space as %20, and / for a backslash",
        )
    try:
        url = httpx2.URL(text)
        has_port = url.port is not None
        host = url.host
        has_at = "@" in urlsplit(text).netloc
    except (httpx2.InvalidURL, ValueError) as error:  # ValueError: a lone surrogate, `xn--` that is no IDNA, `[`
        raise FetchError(f"this URL cannot be read: {error}", url=text, code="BAD_URL", hint=_ABSOLUTE) from error
    if url.userinfo or has_at:
        raise PolicyRefused(
            "user names and passwords in URLs are not sent",
            url=str(url.copy_with(userinfo=b"")),
            code="USERINFO_REFUSED",
            hint="leave out the part before @",
        )
    if not host or "%" in host or re.search(r"[^A-Za-z0-9._:-]", url.raw_host.decode("ascii")):
        raise FetchError("the URL has no valid host name", url=text, code="BAD_URL", hint=_ABSOLUTE)
    if has_port and not 0 <= (url.port or 0) < 65536:
        raise FetchError(f"there is no port {url.port}", url=text, code="BAD_URL", hint="ports are 1 to 65535")
    return url


def join_url(base: httpx2.URL, location: str) -> httpx2.URL:
    """Where a redirect leads. Raises what `parse_url` raises, without a hint: it is the site that wrote it. The
    fragment of the base is kept (RFC 9110, 10.2.2)."""
    location = location.strip(" \t\r\n")
    scheme = _SCHEME.match(location)
    try:
        return parse_url(location if scheme is not None else _joined(base, location))
    except FetchError as error:
        error.hint = None
        raise


def _joined(base: httpx2.URL, location: str) -> str:
    if _UNSAFE.search(location.replace(" ", "%20")):
        raise FetchError("a redirect holds a backslash or a control character", url=str(base), code="BAD_URL")
    try:
        joined = base.join(location.replace(" ", "%20"))
    except (httpx2.InvalidURL, ValueError) as error:
        raise FetchError(f"a redirect cannot be read: {error}", url=str(base), code="BAD_URL") from error
    if base.fragment and not joined.fragment:
        joined = joined.copy_with(fragment=base.fragment)
    return str(joined)


def endpoint_of(url: httpx2.URL) -> Endpoint:
    """Scheme, host and port of a parsed URL, the default port filled in."""
    return Endpoint(scheme=url.scheme, host=url.raw_host.decode("ascii"), port=url.port or _DEFAULT_PORTS[url.scheme])
