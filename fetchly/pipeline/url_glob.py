"""A glob of pages in, whether an address is one of them out. `/shop/**` is matched on the path, as in `follow`;
`https://*.example.org/shop/**` on host and path, with `*` for anything within a host name, and either scheme."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fetchly.crawler.fingerprint import Address
from fetchly.crawler.scope import Glob
from fetchly.errors import ConfigurationError

_WHOLE = re.compile(r"https?://([^/]*)(.*)", re.IGNORECASE | re.DOTALL)
_ENCODED = re.compile(r"%[0-9a-fA-F]{2}")
_DOTS = re.compile(r"(?:^|/)\.{1,2}(?:/|$)")


@dataclass(frozen=True, slots=True)
class UrlGlob:
    """Errors: ConfigurationError for a pattern that nothing can match."""

    pattern: str

    def __post_init__(self) -> None:
        host, path = self._parts
        if host == "":
            raise ConfigurationError("the glob names no host", where=self.pattern, hint="write https://HOST/**")
        if host is not None and not path:
            raise ConfigurationError(
                "a glob of a host needs a path, too", where=self.pattern, hint="end it with /** for every page"
            )
        if _ENCODED.search(path):
            raise ConfigurationError(
                "a glob is matched on the decoded path, where this %-encoding does not stand",
                where=self.pattern,
                hint="write the character itself",
            )
        if _DOTS.search(path) or path != path.strip() or "**/**" in path:
            raise ConfigurationError(
                "no path is like this glob: . and .. segments and spaces at the ends never stand in one",
                where=self.pattern,
                hint="** stands for any number of folders",
            )
        Glob(path)

    @property
    def _parts(self) -> tuple[str | None, str]:
        whole = _WHOLE.fullmatch(self.pattern)
        return (whole[1].lower(), whole[2]) if whole else (None, self.pattern)

    @property
    def is_everything(self) -> bool:
        """Whether every page matches."""
        host, path = self._parts
        return host in (None, "*") and path in ("**", "/**", "**/*")

    def matches(self, address: Address) -> bool:
        """Whether a page's address is one of these."""
        host, path = self._parts
        return (host is None or _host(host).fullmatch(address.host) is not None) and Glob(path).matches(address.path)


def _host(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", pattern)))
