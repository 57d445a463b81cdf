"""A URL in; whether its site's robots.txt lets this program fetch it out, how slowly, and which sitemaps it names.

Fetching, caching and what a missing or broken file means are ours (RFC 9309); Protego matches the rules. What it is
given is cut down to the groups that speak to us, since its time and memory grow with groups times rules.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlsplit

import httpx2
from protego import Protego

from fetchly.crawler.urls import endpoint_of, join_url, parse_url
from fetchly.errors import FetchError, PolicyRefused
from fetchly.goods import Page

MAX_BYTES = 500 * 1024
"""RFC 9309, 2.5: no less of a robots.txt is read, and here no more."""
MAX_REDIRECTS = 5  # RFC 9309, 2.3.1.2
KEPT_S = 24 * 3600.0  # RFC 9309, 2.4
STALE_S = 30 * 24 * 3600.0  # RFC 9309, 2.3.1.4: how long a copy serves a site that is out of reach
_ASK_AGAIN_S = 60.0  # a site that is out of reach; doubles up to an hour
_ASK_AGAIN_MOST_S = 3600.0
_HELD_BYTES = 16 * 1024**2  # of robots.txt, over all origins
_ENTRY_BYTES = 1024  # what an origin weighs beside its file

_TOKEN = re.compile(r"[a-z0-9_.-]+", re.IGNORECASE | re.ASCII)
_COMPATIBLE = re.compile(r"\(compatible;\s*([a-z0-9_.-]+)", re.IGNORECASE | re.ASCII)
_AGENT_LINE = re.compile(r"(\s*user(?:-|\s*)agent(?:\s*:|\s)\s*)(.*)", re.IGNORECASE)
_NOBODY = "!"  # stands for every product that is not ours: no product has such a name
_LINE_END = re.compile(r"\r\n|\r|\n")
# What `str.splitlines` takes for the end of a line, and RFC 9309 does not.
_NO_LINE_ENDS = {ord(character): quote(character) for character in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"}


def product_token(user_agent: str) -> str:
    """The name that a robots.txt calls a program by, from its User-Agent header: `fetchly`, lower-case, no version."""
    named = _COMPATIBLE.search(user_agent) or _TOKEN.search(user_agent)
    return (named[named.lastindex or 0] if named else user_agent).lower()


@dataclass(frozen=True, slots=True, eq=False)
class RobotsRules:
    """What a site lets us do. `reason` says why nothing may be fetched, None where the rules decide; `until` is the
    clock's reading at which the file is fetched anew; `notes` say what of the file was not read. `sitemaps` are
    absolute URLs, of any host; `crawl_delay_s` is unbounded."""

    origin: str
    until: float
    reason: str | None = None
    crawl_delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    _agent: str = ""
    _parser: Protego | None = field(default=None, repr=False)

    def allowed(self, url: str) -> bool:
        """Whether a URL of this origin may be fetched. Its robots.txt always may."""
        if self.reason is not None:
            return httpx2.URL(url).path == "/robots.txt"
        return self._parser is None or self._parser.can_fetch(url, self._agent)

    def refusal(self, url: str) -> PolicyRefused | None:
        """Why a URL may not be fetched, as an error; None where it may. Retryable: the robots.txt was out of reach."""
        if self.allowed(url):
            return None
        if self.reason is not None:
            return PolicyRefused(
                self.reason, url=url, code="ROBOTS_UNREACHABLE", hint="try again later", retryable=True
            )
        return PolicyRefused(f"the site's robots.txt closes it to {self._agent}", url=url, code="ROBOTS_DISALLOWED")


@dataclass(slots=True)
class _Entry:
    """What is held of an origin. `users` counts the threads that have it in hand, `failures` in a row."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    rules: RobotsRules | None = None
    parsed: RobotsRules | None = None  # the latest copy that came from the site
    parsed_at: float = 0.0
    weight: int = _ENTRY_BYTES
    failures: int = 0
    users: int = 0


class Robots:
    """The rules of every site, each fetched when it is first asked for, then kept for a day. Thread-safe; a site's
    robots.txt is fetched by one thread at a time, and the others wait for it.

    `fetch` gets a URL, redirects included, through the egress gate and in its host's turn; it should cut the body at
    `MAX_BYTES` + 1 rather than fail. `agent` is the product token (`product_token`), `clock` is monotonic.
    """

    def __init__(self, fetch: Callable[[str], Page], agent: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._agent = agent.lower()
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def known(self, url: str) -> RobotsRules | None:
        """The rules of a URL's site where they are held and fresh; fetches nothing."""
        with self._lock:
            entry = self._entries.get(origin_of(url))
            rules = entry.rules if entry is not None else None
        return rules if rules is not None and self._clock() < rules.until else None

    def rules_for(self, url: str) -> RobotsRules:
        """The rules of a URL's site.

        No answer is an answer (RFC 9309, 2.3.1): a 4xx, or more than five redirects, allows everything; a 5xx, a 429, a
        network error or a refused redirect forbids everything until the file is in reach again: it is asked for after
        a minute, then ever more seldom, and an older copy serves meanwhile, for thirty days at most. Without a copy
        nothing is ever allowed: that a site has been out of reach for long is no reason to press it (a MAY of 2.3.1.4).

        Raises PolicyRefused where the site itself is out of bounds, so that its pages are, too; FetchError where there
        is no such host (HOST_UNKNOWN); and what `fetch` raises that is no FetchError.
        """
        origin = origin_of(url)
        with self._lock:
            entry = self._entries.setdefault(origin, _Entry())
            self._entries.move_to_end(origin)
            entry.users += 1
        is_new = False
        try:
            with entry.lock:
                if entry.rules is None or self._clock() >= entry.rules.until:
                    is_new = True
                    self._renew(origin, entry)
                assert entry.rules is not None
                return entry.rules
        finally:
            with self._lock:
                entry.users -= 1
                if is_new:
                    self._forget_the_oldest()

    def _renew(self, origin: str, entry: _Entry) -> None:
        place = f"{origin}/robots.txt"
        try:
            page = self._fetch(place)
        except PolicyRefused as error:
            if error.url == place:
                raise
            self._unreachable(origin, entry, error)
        except FetchError as error:
            is_unknown = error.code == "HOST_UNKNOWN" and not error.retryable and entry.parsed is None
            if is_unknown and urlsplit(error.url).hostname == urlsplit(origin).hostname:
                raise  # no such host: a name that was mistyped is not waited for
            if _is_missing(error):
                self._hold(entry, self._open(origin))
            else:
                self._unreachable(origin, entry, error)
        else:
            is_far = len(page.redirects) > MAX_REDIRECTS
            self._hold(entry, self._open(origin) if is_far else self._read(origin, page))
            entry.weight = _ENTRY_BYTES + min(len(page.body), MAX_BYTES)

    def _open(self, origin: str) -> RobotsRules:
        return RobotsRules(origin, self._clock() + KEPT_S, _agent=self._agent)

    def _hold(self, entry: _Entry, rules: RobotsRules) -> None:
        entry.rules = entry.parsed = rules
        entry.parsed_at, entry.failures = self._clock(), 0

    def _unreachable(self, origin: str, entry: _Entry, error: FetchError) -> None:
        now = self._clock()
        entry.failures += 1
        until = now + min(_ASK_AGAIN_S * 2.0 ** min(entry.failures - 1, 30), _ASK_AGAIN_MOST_S)
        why = f"the site's robots.txt is out of reach ({error.line()})"
        old = entry.parsed
        if old is not None and now < entry.parsed_at + STALE_S:
            entry.rules = replace(
                old,
                until=min(until, entry.parsed_at + STALE_S),
                notes=(*old.notes, f"{why}: an older copy is in force"),
            )
        else:
            entry.rules = RobotsRules(origin, until, f"{why}: nothing may be fetched meanwhile", _agent=self._agent)

    def _read(self, origin: str, page: Page) -> RobotsRules:
        text = _decoded(page.body[:MAX_BYTES], page.charset)
        notes = []
        if len(page.body) > MAX_BYTES:
            # Half a path is another rule: `Disallow: /private` must not become `Disallow: /`.
            text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
            notes.append(f"only the first {MAX_BYTES:,} bytes of robots.txt were read")
        lines = [_addressed(line, self._agent) for line in _LINE_END.split(text.translate(_NO_LINE_ENDS))]
        parser = Protego.parse("\n".join(lines))
        sitemaps = dict.fromkeys(parser.sitemaps)
        found = {said: _absolute(origin, said) for said in sitemaps}
        notes += [f"the sitemap {said[:200]!a} is no URL" for said, url in found.items() if url is None]
        rate = parser.request_rate(self._agent)
        delays = [parser.crawl_delay(self._agent), rate.seconds / rate.requests if rate is not None else None]
        return RobotsRules(
            origin,
            self._clock() + KEPT_S,
            crawl_delay_s=max((delay for delay in delays if delay is not None), default=None),
            sitemaps=tuple(url for url in found.values() if url is not None),
            notes=tuple(notes),
            _agent=self._agent,
            _parser=parser,
        )

    def _forget_the_oldest(self) -> None:
        """Under the lock. Forgotten is fetched again, so this costs a request and no rule."""
        total = sum(entry.weight for entry in self._entries.values())
        for origin in list(self._entries):
            if total <= _HELD_BYTES:
                return
            if not self._entries[origin].users:
                total -= self._entries.pop(origin).weight


def origin_of(url: str) -> str:
    """Scheme, host and port of an absolute URL, the port where it is not the scheme's own: one robots.txt each."""
    endpoint = endpoint_of(parse_url(url))
    host = endpoint.host.lower()
    host = f"[{host}]" if ":" in host else host
    port = "" if (endpoint.scheme, endpoint.port) in (("http", 80), ("https", 443)) else f":{endpoint.port}"
    return f"{endpoint.scheme}://{host}{port}"


def _is_missing(error: FetchError) -> bool:
    """Whether a site has no robots.txt. 429 is no 4xx here: it says "later", and Google reads it so, too."""
    if error.status is not None:
        return 300 <= error.status < 500 and error.status != 429
    return error.code in ("TOO_MANY_REDIRECTS", "REDIRECT_LOOP")


def _addressed(line: str, agent: str) -> str:
    """A line of a robots.txt; where it opens a group, addressed to us, to everybody, or to nobody that we know."""
    match = _AGENT_LINE.match(line.partition("#")[0])
    if match is None:
        return line
    name = match[2].strip().lower()
    if name == "*":
        return f"{match[1]}*"
    token = _TOKEN.match(name.strip("*"))
    return f"{match[1]}{agent if token is not None and token[0] == agent else _NOBODY}"


def _decoded(body: bytes, charset: str | None) -> str:
    """UTF-8, as it must be, or UTF-16 by its marks. A byte that is neither stands for itself, percent-encoded: a path
    in Latin-1 matches the same path in a URL."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")) or (charset or "").startswith("utf-16") or b"\0" in body[:4]:
        wide = charset if charset in ("utf-16-le", "utf-16-be") else "utf-16"
        if not body.startswith((b"\xff\xfe", b"\xfe\xff")) and wide == "utf-16":
            wide = "utf-16-be" if body[:1] == b"\0" else "utf-16-le"
        return body.decode(wide, "replace").lstrip("\ufeff")
    text = body.decode("utf-8", "surrogateescape").lstrip("\ufeff")
    return re.sub(r"[\udc80-\udcff]", lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)


def _absolute(origin: str, said: str) -> str | None:
    try:
        return str(join_url(httpx2.URL(f"{origin}/robots.txt"), said))
    except FetchError:
        return None
