"""A file, or a line of a list that is no URL, in; an Address out: pages of a crawl for which no host is asked.

They stand in a crawl's state like all others, under names that no host can have, and are neither waited for nor
governed by a robots.txt.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from fetchly.crawler.fingerprint import FINGERPRINT_BYTES, Address, address_of

FILES = "file:"
NO_URLS = "no url:"
"""What stands in a list of URLs and is none: it fails where it is read, like a page that cannot be fetched."""
_LONGEST = 2_000  # characters of such a line that are kept


def file_address(file: Path) -> Address:
    """Of an absolute path. Its `path` is the path, for globs."""
    url = file.as_uri()
    return Address(url, FILES, file.as_posix(), _digest(url))


def no_url(text: str) -> Address:
    """Of a line that `address_of` refuses."""
    return Address(text[:_LONGEST], NO_URLS, "", _digest(f"{NO_URLS}{text}"))


def is_local(host: str) -> bool:
    """Whether a page's host is none."""
    return host in (FILES, NO_URLS)


def local_address(url: str, host: str) -> Address:
    """The address of a queued page that is local. Raises what `address_of` raises for what is no URL."""
    return file_address(Path(url2pathname(urlsplit(url).path))) if host == FILES else address_of(url)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=FINGERPRINT_BYTES).digest()
