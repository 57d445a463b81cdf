"""A URL as a page's links carry it in, the form that a JSON Schema format allows out (RFC 3986, RFC 3987)."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit, urlunsplit

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_STRAY_PERCENT = re.compile(r"%(?![0-9a-fA-F]{2})")
_KEPT = "%/:@!$&'()*+,;=-._~"
_REFERENCES = frozenset(("uri-reference", "iri-reference"))
_INTERNATIONAL = frozenset(("iri", "iri-reference"))


def formatted_url(url: str, form: str | None, charset: str = "utf-8") -> str | None:
    """The URL for a format; None for a relative one where the format is no reference.

    Characters that the RFC does not allow are percent-encoded, as browsers send them: paths in UTF-8, queries in the
    page's charset, hosts by IDNA. An IRI keeps its letters.
    """
    if not _SCHEME.match(url) and form not in _REFERENCES:
        return None
    whole = _STRAY_PERCENT.sub("%25", url)
    if form in _INTERNATIONAL:
        return re.sub(r"[\x00-\x20\"<>\\^`{|}\x7f]", lambda match: quote(match[0]), whole)
    try:
        parts = urlsplit(whole)
        path = quote(parts.path, safe=_KEPT)
        query = quote(parts.query, safe=f"{_KEPT}?", encoding=charset, errors="xmlcharrefreplace")
        fragment = quote(parts.fragment, safe=f"{_KEPT}?")
        return urlunsplit((parts.scheme, _ascii_host(parts.netloc), path, query, fragment))
    except (ValueError, LookupError):  # no host, a lone surrogate, a charset that python does not know
        return None


def _ascii_host(netloc: str) -> str:
    """A host with letters beyond ASCII by IDNA; user and port stay. Errors: ValueError for what is no host."""
    if netloc.isascii():
        return quote(netloc, safe=f"{_KEPT}[]")
    user, at, host = netloc.rpartition("@")
    name, colon, port = host.partition(":")
    return f"{quote(user, safe=_KEPT)}{at}{name.encode('idna').decode('ascii')}{colon}{port}"
