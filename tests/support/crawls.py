"""A client whose model is a script, and crawls with it, for tests."""

from typing import Any

from fetchly.crawling.crawl import Crawl
from fetchly.sdk import Client, Result
from tests.support.crawl_program import SCHEMA, name_of
from tests.support.scripted_generator import ScriptedGenerator


def client_of(answer: Any = name_of, **options: Any) -> Client:
    """It reads loopback, and renders nothing."""
    return Client(generator=ScriptedGenerator(answer), render="never", **{"allow_private": True, **options})


def crawled(client: Client, seeds: str | list[str], **options: Any) -> Crawl[Result[Any]]:
    """A crawl without delay."""
    return client.crawl(seeds, SCHEMA, **{"delay": 0.0, **options})


def names(crawl: Crawl[Result[Any]]) -> list[str]:
    """What the whole crawl found, sorted."""
    with crawl:
        return sorted(result.value["name"] for result in crawl)


def items(*numbers: int) -> list[str]:
    """What the numbered pages give."""
    return sorted(f"Item {number}" for number in numbers)
