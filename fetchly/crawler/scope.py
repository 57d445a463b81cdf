"""Seeds and globs in; whether an address belongs to the crawl out, and if not, why.

A site is a registrable domain (public suffix list, which travels with its library): `shop.example.co.uk` and
`www.example.co.uk` are one, `a.github.io` and `b.github.io` are two. Where there is none (an IP address, `localhost`),
it is the host with its port.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from fetchly.crawler.fingerprint import Address
from fetchly.errors import ConfigurationError

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

OTHER_SITE = "OTHER_SITE"
EXCLUDED = "EXCLUDED"
NOT_FOLLOWED = "NOT_FOLLOWED"

_TOKENS = re.compile(r"\*\*/|\*\*|\*|[^*]+")
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern of paths. `*` stands for anything within a segment, `**` for anything across segments, `**/` for any
    number of folders, none included. The whole path must match, in its case; the query does not count.

    Errors: ConfigurationError.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern.startswith(("/", "**")):
            raise ConfigurationError(
                "a glob is matched on the whole path, which begins with a slash",
                where=self.pattern,
                hint=f"did you mean /{self.pattern} or **/{self.pattern}?",
            )
        if "?" in self.pattern or "#" in self.pattern:
            raise ConfigurationError(
                "a glob is matched on the path alone, and ? and # are no part of it",
                where=self.pattern,
                hint="leave out what follows; * stands for any characters of a segment",
            )

    def matches(self, path: str) -> bool:
        """Whether a decoded path is one of these."""
        return _expression(self.pattern).fullmatch(path) is not None


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_WILD.get(token) or re.escape(token) for token in _TOKENS.findall(pattern)), re.DOTALL)


class Scope:
    """Which pages a crawl is about: of the sites of its seeds and of further `hosts`.

    Errors on making: ConfigurationError for a glob that is none, or a seed that is excluded.
    """

    def __init__(
        self,
        seeds: Sequence[Address],
        follow: Sequence[str] = (),
        exclude: Sequence[str] = (),
        hosts: Iterable[str] = (),
    ) -> None:
        self._sites = frozenset(map(site_of, (*(seed.host for seed in seeds), *hosts)))
        self._follow = tuple(Glob(pattern) for pattern in follow)
        self._exclude = tuple(Glob(pattern) for pattern in exclude)
        for seed in seeds:
            for glob in self._exclude:
                if glob.matches(seed.path):
                    raise ConfigurationError(f"the seed is excluded by {glob.pattern}", where=seed.url)

    def refusal(self, address: Address) -> str | None:
        """Why a link is not followed, as a code; None where it is."""
        if site_of(address.host) not in self._sites:
            return OTHER_SITE
        if any(glob.matches(address.path) for glob in self._exclude):
            return EXCLUDED
        return None if self.follows(address) else NOT_FOLLOWED

    def follows(self, address: Address) -> bool:
        """Whether a path is one of those to be followed. A seed need not be: it is then read for its links alone."""
        return not self._follow or any(glob.matches(address.path) for glob in self._follow)


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """The site of a host (with its port where that is not the scheme's own)."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    try:
        ipaddress.ip_address(name.strip("[]"))
        return host
    except ValueError:
        return _suffixes().privatesuffix(name) or host


@cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
