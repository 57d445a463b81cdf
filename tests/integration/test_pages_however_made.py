"""Pages that are hard to get at, all the way from a URL to a record; a script stands in for the model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from fetchly.errors import FetchError
from fetchly.extraction.generator import GenerationTask
from fetchly.sdk import Client, Result
from tests.support.browser import needs_browser
from tests.support.scripted_generator import ScriptedGenerator
from tests.support.site import Site, Visit, answer

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"], "x-verbatim": True},
        "price": {"type": ["number", "null"]},
    },
    "required": ["name", "price"],
}


def first_lines(task: GenerationTask) -> str:
    """The first line with a name in it, and the first number of the first line with a price."""
    lines = task.prompt.source.split("\n")
    name = next((line for line in lines if re.search("Kettle|茶壶", line)), None)
    price = next((match[0] for line in lines if (match := re.search(r"[\d.,]+(?= ?[€元])", line))), None)
    return json.dumps({"name": name, "price": price}, ensure_ascii=False)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as made:
        yield made


def extract(url: str, **options: object) -> Result[dict[str, object]]:
    with Client(generator=ScriptedGenerator(first_lines), allow_private=True, **options) as client:  # type: ignore[arg-type]
        return client.extract(url, SCHEMA)


@needs_browser
def test_a_page_filled_by_scripts_alone(site: Site) -> None:
    script = "document.getElementById('root').innerHTML='<h1>Script Kettle</h1><p>7,25 €</p>'"
    page = f"<html><body><div id=root></div><script>setTimeout(() => {{{script}}}, 200)</script></body></html>"
    site.routes["/"] = answer(page.encode())
    found = extract(site.url())
    assert found.value == {"name": "Script Kettle", "price": 7.25}
    assert found.rendered
    assert found.evidence["/name"].css_path == "#root>h1"


def endless(visit: Visit) -> None:
    visit.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n")
    visit.send("<html><body><h1>Slow Kettle</h1><p>5,00 €</p>".encode() + b" " * 2000)
    visit.drip(b" " * 4000, pause_s=0.05)


@needs_browser
def test_a_page_that_never_finishes_loading_is_read_as_far_as_it_came(site: Site) -> None:
    site.routes["/"] = endless
    found = extract(site.url(), render="always", timeout=8)
    assert found.value == {"name": "Slow Kettle", "price": 5}
    assert any("did not come to rest" in warning for warning in found.warnings)


def test_over_http_alone_it_is_an_error_in_time(site: Site) -> None:
    site.routes["/"] = endless
    with pytest.raises(FetchError, match="not finished") as caught:
        extract(site.url(), render="never", timeout=1)
    assert caught.value.code == "TIMEOUT"


@pytest.mark.slow
def test_a_page_of_20_megabytes(site: Site) -> None:
    row = "<div><p>Row {} of an endless list of things that nobody asked for, with words and numbers.</p></div>\n"
    rows = "".join(row.format(number) for number in range(200_000))
    body = f"<html><body><h1>Big Kettle</h1><p>Price 12,50 €</p>{rows}</body></html>".encode()
    assert len(body) > 20_000_000
    site.routes["/"] = answer(body)
    found = extract(site.url(), timeout=120)
    assert found.value == {"name": "Big Kettle", "price": 12.5}
    assert found.stats.left_out_blocks > 190_000


def test_chinese_that_nobody_labelled(site: Site) -> None:
    head = "<div class='aaaaaaaaaa'></div>" * 800
    page = f"<html><body>{head}<h1>紫砂茶壶 宜兴手工制作</h1><p>价格 1288.50 元，现货发售，欢迎选购。</p></body></html>"
    site.routes["/"] = answer(page.encode("gbk"), content_type=None)
    assert extract(site.url()).value == {"name": "紫砂茶壶 宜兴手工制作", "price": 1288.5}


def test_400_hidden_characters_before_each_visible_one(site: Site) -> None:
    name = "".join(f"<span style='display:none'>{'x' * 400}</span>{letter}" for letter in "Hidden Kettle")
    price = "".join("\u200b" * 400 + letter for letter in "9,99 €")
    site.routes["/"] = answer(f"<html><body><h1>{name}</h1><p>{price}</p></body></html>".encode())
    found = extract(site.url())
    assert found.value == {"name": "Hidden Kettle", "price": 9.99}
    assert found.stats.hidden_characters == 400 * (len("Hidden Kettle") + len("9,99 €"))
