"""A model server that refuses, fails, lies or never ends: a reason every time, and the key in none of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from fetchly.errors import (
    ConfigurationError,
    ExtractionError,
    FetchlyError,
    Interrupted,
    ModelUnavailable,
    PolicyRefused,
    SchemaError,
)
from fetchly.extraction import server_connection
from fetchly.extraction.extractor import Extractor
from fetchly.extraction.schema import load_schema
from fetchly.extraction.server import ServerGenerator
from fetchly.extraction.server_connection import TRIES, ServerConnection
from fetchly.extraction.server_reference import parse_server_reference
from tests.support.hostile_server import BOMBS, ENDLESS, LIES, SLOW
from tests.support.kettle import DOCUMENT, GOOD, KEY, RECORD, SCHEMA, extracted
from tests.support.model_server import ModelServer, Reply, completion, json_answer, refused
from tests.support.site import Site, Visit, answer, redirect


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "FIRST_WAIT_S", 0.0)


def test_a_schema_that_the_server_refuses_is_an_error_with_its_place() -> None:
    reply = refused("400 Bad Request", "Grammar error: 'maxLength' is not supported")
    with ModelServer([reply]) as server, pytest.raises(SchemaError) as caught:
        extracted(ServerGenerator(server.url))
    assert caught.value.pointer == "/properties/name/maxLength"
    assert "'maxLength' is not supported" in caught.value.line()
    assert "format=json_object" in caught.value.line()


@pytest.mark.parametrize(
    "status", ["400 Bad Request", "401 Unauthorized", "404 Not Found", "422 No", "500 Internal Server Error"]
)
def test_what_will_not_go_better_is_asked_once(status: str) -> None:
    with ModelServer([refused(status, "no")]) as server:
        with pytest.raises(FetchlyError):
            extracted(ServerGenerator(server.url))
        assert len(server.bodies()) == 1


def reset(visit: Visit) -> None:
    """Closes the connection without a word."""


@pytest.mark.parametrize(
    "bad",
    [
        refused("429 Too Many Requests", "later"),
        refused("503 Service Unavailable", "loading the model"),
        reset,
        answer(b"{", content_type="application/json").replace(b"Length: 1", b"Length: 99"),
    ],
)
def test_what_may_go_better_is_asked_again(bad: Reply) -> None:
    with ModelServer([bad, bad, completion(GOOD)]) as server:
        assert extracted(ServerGenerator(server.url)).attempt == 1
        bodies = server.bodies()
    assert len(bodies) == 3
    assert bodies[0] == bodies[1] == bodies[2]
    with ModelServer([bad]) as server:
        with pytest.raises(ExtractionError) as caught:
            extracted(ServerGenerator(server.url))
        assert len(server.bodies()) == TRIES
    assert caught.value.retryable
    assert caught.value.code in ("SERVER_BUSY", "SERVER_BROKE_OFF")


def test_a_wait_that_is_asked_for_is_kept_and_an_age_is_not() -> None:
    waits: list[float] = []
    busy = refused("503 Service Unavailable", "later", headers=(("Retry-After", "7"),))
    with ModelServer([busy, completion(GOOD)]) as server:
        connection = ServerConnection(parse_server_reference(server.url), wait=waits.append)
        assert connection.ask(f"{server.url}/chat/completions", {}).status == 200
    assert waits == [7.0]
    busy = refused("429 Too Many Requests", "later", headers=(("Retry-After", "86400"),))
    with ModelServer([busy]) as server:
        connection = ServerConnection(parse_server_reference(server.url), wait=waits.append)
        with pytest.raises(ExtractionError, match="86,400 s"):
            connection.ask(f"{server.url}/chat/completions", {})
        assert len(server.bodies()) == 1
    assert waits == [7.0]


def test_nobody_there() -> None:
    with ModelServer() as server:
        url = server.url
    with pytest.raises(ModelUnavailable) as caught:
        extracted(ServerGenerator(url))
    assert (caught.value.code, caught.value.exit_code) == ("SERVER_UNREACHABLE", 6)
    with pytest.raises(PolicyRefused):
        extracted(ServerGenerator("http://169.254.169.254/v1"))


def test_a_redirect_is_refused_and_nothing_goes_there() -> None:
    with Site() as elsewhere, ModelServer([redirect(elsewhere.url("/v1/chat/completions"))]) as server:
        with pytest.raises(ConfigurationError) as caught:
            extracted(ServerGenerator(server.url, api_key=KEY))
        assert elsewhere.connections == 0
        assert elsewhere.url() in caught.value.line()
    assert caught.value.code == "SERVER_REDIRECTS"


HOSTILE = {
    **{f"bomb: {name}": BOMBS[name] for name in ("gzip 1000:1", "length of an exabyte")},
    **{f"endless: {name}": each for name, each in ENDLESS.items() if name != "refreshes"},
    **{f"slow: {name}": each for name, each in SLOW.items()},
    **{f"lie: {name}": each for name, each in LIES.items()},
}


@pytest.fixture(scope="module")
def hostile() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_has_a_reason(hostile: ModelServer, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "MAX_ANSWER_BYTES", 1_000_000)
    route = HOSTILE[name].route
    hostile.replies = [route]
    generator = ServerGenerator(f"{hostile.url}?timeout=0.3&context=8000", api_key=KEY)
    with pytest.raises(FetchlyError) as caught:
        extracted(generator)
    assert caught.value.line().isprintable()
    assert len(caught.value.line()) < 1000
    check_hidden(caught.value)


def check_hidden(error: BaseException) -> None:
    """The key stands in no exception, in none that it came from, in no argument of theirs."""
    seen: BaseException | None = error
    while seen is not None:
        for text in (str(seen), repr(seen), repr(vars(seen)), repr(seen.args)):
            assert KEY not in text
        seen = seen.__cause__ or seen.__context__


@pytest.mark.parametrize(
    ("path", "reply"),
    [
        ("/v1/models", refused("401 Unauthorized", f"wrong key {KEY}")),
        ("/v1/models", json_answer({"data": [{"id": KEY}, {"id": "b"}]})),
        ("/v1/models", answer(KEY.encode(), content_type=f"text/{KEY}")),
        ("/v1/chat/completions", refused("400 Bad Request", f"schema {KEY}")),
        ("/v1/chat/completions", refused("500 Oops", f"{KEY}" * 50)),
        ("/v1/chat/completions", redirect(f"http://127.0.0.1/{KEY}")),
        ("/v1/chat/completions", answer(b"", headers=[("Content-Encoding", KEY)])),
        ("/v1/chat/completions", f"HTTP/1.1 {KEY}\r\n\r\n".encode()),
        ("/v1/chat/completions", completion(None, refusal=KEY)),
        ("/v1/chat/completions", completion("{}", finish=KEY)),
        ("/v1/chat/completions", reset),
    ],
)
def test_the_key_is_in_no_exception(path: str, reply: Reply) -> None:
    with ModelServer(extra={path: reply}) as server, pytest.raises(FetchlyError) as caught:
        extracted(ServerGenerator(server.url, api_key=KEY))
    check_hidden(caught.value)


@pytest.mark.parametrize("key", [f"{KEY}\r\nX-Evil: 1", f"{KEY} x", f"{KEY}é"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ServerGenerator("http://127.0.0.1:9/v1", api_key=key)
    check_hidden(caught.value)
    assert KEY not in repr(ServerGenerator("http://127.0.0.1:9/v1", api_key=KEY).__dict__)


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"])
def test_a_stop_is_seen_in_the_middle_of_an_answer_and_hangs_up(beginning: bytes) -> None:
    begun, hung_up = threading.Event(), threading.Event()

    def silent(visit: Visit) -> None:
        visit.send(beginning)
        begun.set()
        with suppress(ConnectionResetError):  # what was sent may not have been read
            assert visit.sock.recv(1) == b""
        hung_up.set()

    with ModelServer([silent]) as server:
        with pytest.raises(Interrupted):
            extracted(ServerGenerator(server.url), should_stop=begun.is_set)
        assert hung_up.wait(20)


def test_threads_ask_side_by_side() -> None:
    together = threading.Barrier(4)

    def reply(visit: Visit) -> None:
        together.wait(20)
        visit.send(completion(GOOD))

    with ModelServer([reply]) as server, ThreadPoolExecutor(4) as pool:
        generator = ServerGenerator(server.url)
        made = Extractor(generator, load_schema(SCHEMA))
        records = list(pool.map(lambda _: made.extract(DOCUMENT).record.value, range(4)))
    assert records == [RECORD] * 4
