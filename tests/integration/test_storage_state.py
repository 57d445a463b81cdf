"""A saved session given to a real browser: its cookies reach the hosts that they belong to, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchly.crawler.http import FetchPolicy
from fetchly.crawler.storage_state import load_storage_state
from fetchly.document.reader import ReadOptions
from fetchly.reading import TargetReader
from tests.support.browser import needs_browser
from tests.support.site import Site, Visit, answer

pytestmark = needs_browser


@pytest.fixture
def sites() -> Iterator[tuple[Site, Site]]:
    with Site() as one, Site(host="127.0.0.2") as other:
        yield one, other


def test_a_storage_state_reaches_its_hosts_alone(sites: tuple[Site, Site], tmp_path: Path) -> None:
    one, other = sites

    def cookies(visit: Visit) -> None:
        said = visit.headers.get("cookie", "none")
        script = "<p id=p><script>p.textContent = localStorage.getItem('token') ?? 'no token'</script>"
        frame = f"<script src='{other.url('/asked.js')}'></script>"
        visit.send(answer(f"<h1>{said}</h1>{script}{frame}".encode(), headers=[("Set-Cookie", "left=behind")]))

    one.routes |= {"/": cookies, "/shop/": cookies}
    other.routes |= {"/": cookies, "/asked.js": answer(b"", content_type="text/javascript")}
    cookie = {"expires": -1, "httpOnly": True, "secure": False, "sameSite": "Lax"}
    state = tmp_path / "state.json"
    state.write_text(
        json.dumps(
            {
                "cookies": [
                    {"name": "session", "value": "s3cret", "domain": "127.0.0.1", "path": "/", **cookie},
                    {"name": "cart", "value": "c4rt", "domain": "127.0.0.1", "path": "/shop", **cookie},
                    {"name": "lock", "value": "s3cure", "domain": "example.org", "path": "/", **cookie, "secure": True},
                ],
                "origins": [{"origin": one.url(""), "localStorage": [{"name": "token", "value": "t0ken"}]}],
            }
        )
    )
    policy = FetchPolicy(allow_private=True, timeout_s=60)
    reader = TargetReader(policy, storage_state=load_storage_state(state))
    try:
        texts = [reader.read(url, ReadOptions()).document.text for url in (one.url(), one.url("/shop/"), other.url())]
    finally:
        reader.close()
    assert texts == ["session=s3cret\nt0ken", "cart=c4rt; session=s3cret\nt0ken", "none\nno token"]
    assert {visit.path for visit in other.visits} == {"/", "/asked.js"}
    assert not [visit for visit in other.visits if "s3cret" in str(visit.headers) or "c4rt" in str(visit.headers)]
    assert reader.render == "always"  # a page fetched without the browser would be a stranger's


def test_a_partitioned_cookie_is_sent_within_pages_of_its_site_alone(sites: tuple[Site, Site]) -> None:
    """The frame of another site is given what belongs to it there (CHIPS)."""
    one, other = sites

    def frame(visit: Visit) -> None:
        text = visit.headers.get("cookie", "none")
        visit.send(answer(f"<script>parent.postMessage('{text}', '*')</script>".encode()))

    listening = "<p id=p></p><script>addEventListener('message', said => { p.textContent = said.data })</script>"
    page = answer(f"{listening}<iframe src='{other.url('/frame')}'></iframe>".encode())
    one.routes["/"] = page
    other.routes |= {"/": page, "/frame": frame}
    shared = {"domain": other.host, "path": "/", "secure": True, "sameSite": "None"}
    places = {"here": f"http://{one.host}", "own": f"http://{other.host}", "elsewhere": "https://example.org"}
    cookies = [
        {"name": name, "value": "1", **shared, "partitionKey": site, "_crHasCrossSiteAncestor": name != "own"}
        for name, site in places.items()
    ]
    policy = FetchPolicy(allow_private=True, timeout_s=60)
    reader = TargetReader(policy, storage_state=load_storage_state({"cookies": cookies}))
    try:
        texts = [reader.read(url, ReadOptions()).document.text for url in (one.url(), other.url())]
    finally:
        reader.close()
    assert texts == ["here=1", "own=1"]
