"""What a tab's own navigations do in; the answer that it shows, the way there, and why nothing is shown out."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urlsplit

from fetchly.crawler.answers import content_type_of
from fetchly.crawler.proxy import EgressProxy
from fetchly.errors import DocumentError, FetchError, PolicyRefused

if TYPE_CHECKING:
    from playwright.async_api import Frame, Page, Request, Response

_NET_ERROR = re.compile(r"net::(ERR_[A-Z0-9_]+)")


class Trail:
    """The answers to a tab's navigations, in order: redirects of the server, and those that scripts and `meta` make.

    What a browser reports of one navigation comes over several channels. That it is asked for comes first; its answer,
    that it is shown, and that it or the one before it has failed may come in any order after that.

    `shown` is the answer that the tab shows. A later navigation that shows nothing (a download, an answer without
    content) does not replace it.
    """

    def __init__(self, proxy: EgressProxy, url: str) -> None:
        self.shown: Response | None = None
        self._proxy = proxy
        self._url = url
        self._answers: list[Response] = []
        self._newest: Request | None = None
        self._failed: Request | None = None
        self._shown_unanswered: Request | None = None
        self._tab: Page | None = None

    def follow(self, tab: Page) -> None:
        """Watch a tab from now on."""
        self._tab = tab
        tab.on("request", self._on_request)
        tab.on("response", self._on_response)
        tab.on("requestfailed", self._on_failed)
        tab.on("framenavigated", self._on_shown)

    def is_main(self, request: Request) -> bool:
        """Whether a request is the tab's own navigation, and not that of a frame inside."""
        try:
            return self._tab is not None and request.is_navigation_request() and request.frame == self._tab.main_frame
        except Exception:  # playwright: the first request of a popup has no frame yet
            return False

    @property
    def first(self) -> Response | None:
        """The answer to the first navigation, if it has come."""
        return self._answers[0] if self._answers else None

    @property
    def last(self) -> Response | None:
        """The newest answer, shown or not."""
        return self._answers[-1] if self._answers else None

    def before(self, answer: Response) -> tuple[str, ...]:
        """The addresses passed on the way to an answer; a page that loads itself anew has not led anywhere."""
        urls = [response.url for response in self._answers[: self._answers.index(answer) + 1]]
        return tuple(url for url, following in pairwise(urls) if url != following)

    def refusal(self, url: str) -> FetchError | None:
        """What the gate said of an address, as an error about it; None where it did not refuse."""
        parts = urlsplit(url)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return None
        said = self._proxy.refusal(parts.hostname or "", port)
        if said is None:
            return None
        kind = PolicyRefused if isinstance(said, PolicyRefused) else FetchError
        return kind(said.message, url=url, hint=said.hint, code=said.code, retryable=said.retryable)

    def not_loaded(self, message: str = "") -> FetchError:
        """The error for a navigation that shows nothing. `message` is what the browser says."""
        failed = self._failed or (None if self._is_answered(self._newest) else self._newest)
        url = failed.url if failed is not None else self._url
        refused = self.refusal(url)
        if refused is not None:
            return refused
        found = _NET_ERROR.search(message) or _NET_ERROR.search((failed.failure if failed else "") or "")
        reason = found[1] if found else "nothing was shown"
        if reason == "ERR_TOO_MANY_REDIRECTS":
            return FetchError("the site redirects without an end", url=self._url, code="TOO_MANY_REDIRECTS")
        if reason.startswith(("ERR_CERT", "ERR_SSL")):
            return FetchError(f"no secure connection: {reason}", url=url, code="TLS_FAILED")
        if reason == "ERR_UNSAFE_PORT":
            return PolicyRefused("this port belongs to another service than the web", url=url, code="PORT_REFUSED")
        return FetchError(f"the browser could not load it: {reason}", url=url, code="CONNECTION_FAILED", retryable=True)

    def _on_response(self, response: Response) -> None:
        if self.is_main(response.request):
            self._answers.append(response)
            if response.request is self._shown_unanswered:
                self.shown = response

    def _on_request(self, request: Request) -> None:
        if self.is_main(request):
            self._newest, self._failed = request, None

    def _on_failed(self, request: Request) -> None:
        if request is self._newest:  # a page left behind before it had come whole fails later than its successor
            self._failed = request

    def _on_shown(self, frame: Frame) -> None:
        if self._tab is None or frame != self._tab.main_frame:
            return
        address = urldefrag(frame.url).url
        newest = self._newest
        is_new = newest is not None and urldefrag(newest.url).url == address and not self._is_answered(newest)
        self._shown_unanswered = newest if is_new else None
        if is_new:
            return
        for response in reversed(self._answers):
            if urldefrag(response.url).url == address:
                self.shown = response
                return  # none: the page has renamed itself, or shows an error of the browser

    def _is_answered(self, request: Request | None) -> bool:
        return any(answer.request is request for answer in self._answers)


def media_type_of(answer: Response) -> str | None:
    """The declared type of an answer, lower-case."""
    return content_type_of([answer.headers.get("content-type", "")]).media_type


def no_page(answer: Response) -> DocumentError:
    """The error for a navigation that leads to a file."""
    return DocumentError(
        f"this is a download of type {media_type_of(answer) or 'unknown'}, not an HTML page",
        where=answer.url,
        code="DOCUMENT_NOT_HTML",
        hint="name a web page instead",
    )
