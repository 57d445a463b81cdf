"""A path and a JSON body in, what a model server answers out: every hop is the named server, time and size are bounded.

The user named this server, so that it may be on loopback or in a private network; the egress gate opens these addresses
for this connection alone. Redirects are not followed, as the key and the page would go with them; no proxy and no
.netrc of the environment counts.
"""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

import httpcore2

from fetchly.egress import EgressGate
from fetchly.errors import ConfigurationError, ExtractionError, FetchError, ModelUnavailable, PolicyRefused
from fetchly.extraction.server_reference import ServerReference
from fetchly.extraction.server_wire import SLICE_S, Late, ShouldStop, Watch, open_pool, wire_url
from fetchly.retry_after import in_words, read_retry_after

MAX_ANSWER_BYTES = 16 * 1024**2
TRIES = 4
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
"""A server that asks for a longer wait is given up."""

_RETRIED = frozenset((429, 502, 503))
_QUOTED = 200  # characters of a server's in a message


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What came back, whatever its status. `media_type` is lower-case, without parameters."""

    status: int
    media_type: str
    body: bytes
    retry_after: str | None
    location: str | None


class ServerConnection:
    """Asks one server. Safe to share between threads; nothing is kept open between calls.

    `gate` and `wait` (seconds to let pass) are for tests. Errors: ConfigurationError for a key that no header can hold.
    """

    def __init__(
        self,
        reference: ServerReference,
        api_key: str | None = None,
        *,
        gate: EgressGate | None = None,
        wait: Callable[[float], None] | None = None,
    ) -> None:
        self.reference = reference
        self._key = api_key or ""
        if not (self._key.isascii() and self._key.isprintable()) or " " in self._key:
            raise ConfigurationError("the API key holds a character that no key has", where="FETCHLY_API_KEY")
        self._gate = gate if gate is not None else EgressGate(allow_private=True)
        self._wait = wait

    def ask(
        self,
        url: str,
        body: Any = None,
        *,
        timeout_s: float | None = None,
        should_stop: ShouldStop | None = None,
    ) -> ServerAnswer:
        """POST a JSON value, or GET where there is none. Busy servers and broken connections are tried again.

        Errors: ModelUnavailable where nobody answers, ExtractionError (retryable) for a broken connection, a server
        that stays busy or an answer that takes longer than `timeout_s`, ExtractionError for one that is too large,
        ConfigurationError for TLS that cannot be trusted and for a redirect, PolicyRefused, Interrupted.
        """
        (answer,) = self.ask_all([(url, body)], timeout_s=timeout_s, should_stop=should_stop)
        return answer

    def ask_all(
        self,
        questions: Iterable[tuple[str, Any]],
        *,
        timeout_s: float | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Iterator[ServerAnswer]:
        """The same for many, one after the other over one connection where the server keeps it."""
        limit_s = self.reference.timeout_s if timeout_s is None else timeout_s
        watch = Watch(limit_s, should_stop)
        with open_pool(self._gate, watch) as pool:
            for url, body in questions:
                yield self._answered(pool, watch, url, body)

    def hidden(self, text: str) -> str:
        """A text of the server's without the key: a server knows it, and may write it into anything."""
        return text.replace(self._key, "***") if self._key else text

    def quoted(self, text: str) -> str:
        """A text of the server's for a message: without the key, printable, short."""
        plain = " ".join("".join(c if c.isprintable() else " " for c in self.hidden(text)).split())
        return plain if len(plain) <= _QUOTED else f"{plain[:_QUOTED]}..."

    def _answered(self, pool: httpcore2.ConnectionPool, watch: Watch, url: str, body: Any) -> ServerAnswer:
        for left in range(TRIES - 1, -1, -1):
            watch.begin(url)
            answer, reason = None, ""
            try:
                with _worded(watch, self):
                    answer = self._exchange(pool, url, body)
            except _Broken as error:
                reason = str(error)
            asked = None
            if answer is not None:
                if 300 <= answer.status < 400:
                    self._refuse_redirect(answer, url)
                if answer.status not in _RETRIED:
                    return answer
                asked = self._asked_wait(answer, url)
                if not left:
                    self._give_up(answer, url)
            elif not left:
                # Not from the error, which keeps the server's own words: they may be the key.
                raise ExtractionError(
                    f"the connection to the model server broke {TRIES} times, the last time: {reason}",
                    where=url,
                    code="SERVER_BROKE_OFF",
                    hint="its log may say why",
                    retryable=True,
                )
            pause = FIRST_WAIT_S * 2 ** (TRIES - 1 - left) * random.uniform(0.75, 1.25)
            self._pause(max(pause, asked or 0.0), watch)
        raise AssertionError("the last try returns or raises")

    def _exchange(self, pool: httpcore2.ConnectionPool, url: str, body: Any) -> ServerAnswer:
        headers: dict[bytes | str, bytes | str] = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "fetchly",
        }
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")  # a page may hold lone surrogates
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        with pool.stream("POST" if content else "GET", wire_url(url), headers=headers, content=content) as response:
            found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            coding = found.get("content-encoding", "identity").strip().lower()
            if coding not in ("", "identity"):
                raise _answer_error(f"the answer is packed ({self.quoted(coding)}), which was not asked for", url)
            received = bytearray()
            for piece in response.iter_stream():
                received += piece
                if len(received) > MAX_ANSWER_BYTES:
                    raise _answer_error(f"the answer is larger than {MAX_ANSWER_BYTES:,} bytes", url)
        media_type = found.get("content-type", "").partition(";")[0].strip().lower()
        return ServerAnswer(
            response.status, media_type, bytes(received), found.get("retry-after"), found.get("location")
        )

    def _asked_wait(self, answer: ServerAnswer, url: str) -> float | None:
        wait = read_retry_after(answer.retry_after, datetime.now(UTC), maximum_s=LONGEST_WAIT_S)
        if wait is not None and wait.is_cut:
            self._give_up(answer, url, f", and asks for a wait of {in_words(wait.asked_s)}")
        return None if wait is None else wait.seconds

    def _give_up(self, answer: ServerAnswer, url: str, more: str = "") -> NoReturn:
        raise ExtractionError(
            f"the model server is busy: HTTP {answer.status}{more}",
            where=url,
            code="SERVER_BUSY",
            hint="ask it for less at a time, or again later",
            retryable=True,
        )

    def _refuse_redirect(self, answer: ServerAnswer, url: str) -> NoReturn:
        raise ConfigurationError(
            f"the model server redirects (HTTP {answer.status}) to {self.quoted(answer.location or 'nowhere')!a}, and "
            "pages go to no server but the one that was named",
            where=url,
            code="SERVER_REDIRECTS",
            hint="name the address that answers by itself",
        )

    def _pause(self, seconds: float, watch: Watch) -> None:
        if self._wait is not None:
            self._wait(seconds)
            return
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            watch.check_stop()
            time.sleep(min(left, SLICE_S))


class _Broken(Exception):
    """The connection broke, or what came is no HTTP."""


def _answer_error(message: str, url: str) -> ExtractionError:
    return ExtractionError(
        message, where=url, code="SERVER_ANSWER", hint="does an OpenAI-compatible server stand there?"
    )


@contextmanager
def _worded(watch: Watch, connection: ServerConnection) -> Iterator[None]:
    """Turn what the layers below raise into our errors, in words."""
    try:
        yield
    except PolicyRefused:
        raise
    except FetchError as error:
        raise ModelUnavailable(
            f"the model server is out of reach: {error.message}",
            where=watch.url,
            code="SERVER_UNREACHABLE",
            hint=error.hint or "is it running, and is this its address?",
            retryable=error.retryable,
        ) from error
    except Late:
        raise ExtractionError(
            f"the model server did not finish its answer within {watch.limit_s:g} s",
            where=watch.url,
            code="SERVER_TIMEOUT",
            hint="lower max_tokens, or give it longer: ?timeout=SECONDS in its address",
            retryable=True,
        ) from None
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(
            f"the model server's certificate is not valid: {error.verify_message}",
            where=watch.url,
            code="TLS_FAILED",
            hint="SSL_CERT_FILE may name the certificates that you trust",
        ) from error
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"no secure connection to the model server: {error.reason or error}", where=watch.url, code="TLS_FAILED"
        ) from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
        raise _Broken(connection.quoted(str(error)) or type(error).__name__) from None
