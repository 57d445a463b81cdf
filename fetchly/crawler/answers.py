"""Status and headers of an answer in; what they mean for the reader of a page out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fetchly.errors import FetchError
from fetchly.retry_after import in_words, read_retry_after

RETRYABLE = frozenset((408, 425, 429, 500, 502, 503, 504))


class StatusError(FetchError):
    """The server answered with an error status. `retry_after_s` is the wait it asks for, however long, None where it
    does not; `retry_after` is the header as it came; `redirects` are the URLs passed on the way to `url`."""

    code = "HTTP_STATUS"

    def __init__(
        self,
        message: str,
        *,
        url: str,
        status: int,
        retry_after_s: float | None = None,
        retry_after: str | None = None,
        redirects: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, url=url, status=status, hint=hint, retryable=status in RETRYABLE)
        self.retry_after_s = retry_after_s
        self.retry_after = retry_after
        self.redirects = redirects


@dataclass(frozen=True, slots=True)
class ContentType:
    """A Content-Type header taken apart, lower-case; None where nothing was said."""

    media_type: str | None
    charset: str | None


def content_type_of(values: list[str]) -> ContentType:
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


def status_error(
    url: str, status: int, phrase: str, retry_after_header: str | None, redirects: tuple[str, ...] = ()
) -> StatusError:
    """The error for a status that is no success. `phrase` is the server's word for it, often empty."""
    hint = {401: "the page needs a login", 403: "the site refuses this client", 404: "check the address"}.get(status)
    wait = read_retry_after(retry_after_header, datetime.now(UTC))
    if wait is not None:
        hint = f"the server asks to wait {in_words(wait.asked_s)} before the next try"
    elif status in RETRYABLE:
        hint = "try again later"
    way = f" (redirected from {redirects[0]})" if redirects else ""
    return StatusError(
        f"the server answered {status}{' ' + phrase if phrase else ''}{way}",
        url=url,
        status=status,
        retry_after_s=None if wait is None else wait.asked_s,
        retry_after=retry_after_header,
        redirects=redirects,
        hint=hint,
    )
