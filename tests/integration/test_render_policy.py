"""No request of a browser where it does not belong: a public page that tries everything, and sites that count."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from fetchly.crawler.browser import BrowserRenderer
from fetchly.crawler.http import FetchPolicy
from fetchly.crawler.proxy import EgressProxy
from fetchly.egress import EgressGate, Endpoint
from fetchly.errors import FetchError, PolicyRefused
from fetchly.goods import Page
from tests.support.browser import arguments_of, needs_browser, processes_of
from tests.support.site import Site, Visit, answer, redirect

pytestmark = needs_browser

PUBLIC = "93.184.215.14"


class Gate(EgressGate):
    """The real rules; `public.example` is a public address, and its connections end at loopback."""

    def __init__(self) -> None:
        super().__init__(resolver=self._resolved)
        self.asked: list[Endpoint] = []

    @staticmethod
    def _resolved(host: str, port: int) -> list[str]:
        if host == "nowhere.example":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [{"public.example": PUBLIC, "localhost": "127.0.0.1", "0x7f.1": "127.0.0.1"}.get(host, host)]

    def connect(self, endpoint: Endpoint, *, url: str, timeout_s: float) -> socket.socket:
        self.asked.append(endpoint)
        return super().connect(endpoint, url=url, timeout_s=timeout_s)


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate()


@pytest.fixture(scope="module")
def renderer(gate: Gate) -> Iterator[BrowserRenderer]:
    dial = socket.create_connection

    def dialled(address: tuple[str, int], timeout: float) -> socket.socket:
        assert address[0] == PUBLIC, f"dialled {address}"
        return dial(("127.0.0.1", address[1]), timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_connection", dialled)
        with BrowserRenderer(FetchPolicy(timeout_s=10), gate=gate) as opened:
            yield opened


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def inner() -> Iterator[Site]:
    """The site of the private network that must never be reached."""
    with Site(routes={"/": answer(b"secret")}) as running:
        yield running
        assert running.connections == 0


# Every way of a page to the network that we know, each with what says that it was tried.
ATTEMPTS = {
    "fetch": "fetch(url).then(r => r.text()).then(say, say)",
    "opaque": "fetch(url, {mode: 'no-cors'}).then(say, say)",
    "beacon": "navigator.sendBeacon(url, 'x'); say()",
    "xhr": "const x = new XMLHttpRequest(); x.onloadend = say; x.open('GET', url); x.send()",
    "frame": "add(`<iframe src='${url}'></iframe>`).onload = say",
    "object": "add(`<object data='${url}'></object><embed src='${url}'>`); say()",
    "script": "const s = document.createElement('script'); s.src = url; s.onerror = say; document.head.append(s)",
    "module": "import(url).then(say, say)",
    "style": "add(`<link rel=stylesheet href='${url}'>`).onerror = say",
    "image": "const i = new Image(); i.onload = i.onerror = say; i.src = url",
    "hints": "for (const rel of ['prefetch', 'preconnect', 'dns-prefetch', 'modulepreload']) "
    "add(`<link rel=${rel} href='${url}'>`); say()",
    "speculation": "const s = document.createElement('script'); s.type = 'speculationrules'; "
    "s.text = JSON.stringify({prerender: [{urls: [url]}], prefetch: [{urls: [url]}]}); document.head.append(s); say()",
    "socket": "new WebSocket(url.replace('http', 'ws')).onclose = say",
    "secure socket": "new WebSocket(url.replace('http', 'wss')).onclose = say",
    "events": "const e = new EventSource(url); e.onerror = () => { e.close(); say() }",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('${url}').then(() => postMessage(1), "
    "() => postMessage(2))`]))).onmessage = say",
    "form": "add(`<iframe name=f></iframe>`); add(`<form target=f action='${url}'></form>`).submit(); say()",
    "popup": "open(url); say()",
    "redirect": "fetch('/away').then(say, say)",
}


def test_a_public_page_reaches_nothing_private(site: Site, inner: Site, renderer: BrowserRenderer) -> None:
    parts = [f"(say => {{ {script} }})(() => done.add('{name}'));" for name, script in ATTEMPTS.items()]
    script = f"""const url = '{inner.url()}', done = new Set();
      const add = html => {{
        document.body.insertAdjacentHTML('beforeend', html);
        return document.body.lastElementChild }};
      {"".join(parts)}
      const wait = setInterval(() => {{ said.textContent = [...done].sort().join();
        if (done.size == {len(ATTEMPTS)}) clearInterval(wait) }}, 50)"""
    site.routes |= {
        "/": answer(f"<body><p id=said></p><script>{script}</script>".encode()),
        "/away": redirect(inner.url()),
    }
    page = renderer.render(site.url(host="public.example")).body.decode()
    assert f'<p id="said">{",".join(sorted(ATTEMPTS))}</p>' in page
    assert "secret" not in page


PLACES = [
    *("http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://[::1]:{port}/", "http://0x7f.1:{port}/"),
    *("https://127.0.0.1:{port}/", "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/"),
]
WAYS = [("server", place) for place in PLACES] + [("script", PLACES[0]), ("script", PLACES[4]), ("refresh", PLACES[0])]


@pytest.mark.parametrize(("way", "place"), WAYS)
def test_a_page_that_leads_into_the_private_network_is_refused(
    site: Site, inner: Site, renderer: BrowserRenderer, way: str, place: str
) -> None:
    url = place.format(port=inner.port)
    script = f"<p>public<script>location = '{url}'</script>"
    refresh = f"<p>public<meta http-equiv=refresh content='0;url={url}'>"
    site.routes["/"] = redirect(url) if way == "server" else answer((script if way == "script" else refresh).encode())
    with pytest.raises(PolicyRefused) as refused:
        renderer.render(site.url(host="public.example"))
    assert (refused.value.code, refused.value.exit_code) == ("ADDRESS_REFUSED", 5)
    assert "public" in refused.value.message or "private" in refused.value.message
    assert refused.value.url.startswith(url.partition(":")[0])


@pytest.mark.parametrize("place", [PLACES[0], PLACES[4]])
def test_a_page_that_leads_on_before_it_has_come_whole_is_refused_too(
    site: Site, inner: Site, renderer: BrowserRenderer, place: str
) -> None:
    """The page left behind fails as well, after the navigation that was refused."""
    script = f"<p>public<script>location = '{place.format(port=inner.port)}'</script>".encode()

    def part(visit: Visit) -> None:
        visit.send(answer(script + b" " * 4096)[:-4000])
        visit.stopped.wait(5)

    site.routes["/"] = part
    with pytest.raises(PolicyRefused) as refused:
        renderer.render(site.url(host="public.example"))
    assert refused.value.code == "ADDRESS_REFUSED"


def test_the_address_itself_is_refused_before_a_browser_is_started(inner: Site) -> None:
    with BrowserRenderer() as strict:
        for url in (inner.url(), "file:///etc/passwd", "http://127.0.0.1:22/", "chrome://version", "data:text/html,x"):
            with pytest.raises(PolicyRefused):
                strict.render(url)
        assert strict._thread is None


def test_a_page_reads_no_file_of_this_machine(site: Site, renderer: BrowserRenderer) -> None:
    script = """fetch('file:///etc/passwd').then(r => r.text()).then(t => said.textContent = t, () => 0);
      document.body.insertAdjacentHTML('beforeend',
        '<iframe src=file:///etc/passwd></iframe><object data=file:///etc/passwd></object>');
      open('view-source:file:///etc/passwd');
      for (const url of ['file:///etc/passwd', 'chrome://version', 'data:text/html,<h1>elsewhere'])
        try { location = url } catch {}"""
    body = f"<body><h1>Public</h1><p id=said></p><script>{script}</script>".encode()
    site.routes["/"] = answer(body)
    held = Page(requested="-", url=None, status=None, headers=(), body=body)
    for page in (renderer.render(site.url(host="public.example")), renderer.render_html(held)):
        assert b"<h1>Public" in page.body
        assert b"root:" not in page.body


def test_no_datagram_leaves_by_webrtc_or_webtransport(site: Site, renderer: BrowserRenderer) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.1)
        port = udp.getsockname()[1]
        script = f"""
        const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{port}'}},
          {{urls: 'turn:127.0.0.1:{port}', username: 'a', credential: 'b'}}]}});
        peer.createDataChannel('x'); peer.createOffer().then(o => peer.setLocalDescription(o));
        try {{ new WebTransport('https://127.0.0.1:{port}/').ready.catch(() => 0) }} catch {{}}
        setTimeout(() => document.body.innerHTML += '<p>waited</p>', 1000)"""
        body = f"<body><script>{script}</script>".encode()
        site.routes["/"] = answer(body)
        held = Page(requested="-", url="https://public.example/", status=200, headers=(), body=body)
        for page in (renderer.render(site.url(host="public.example")), renderer.render_html(held)):
            assert b"<p>waited</p>" in page.body
        with pytest.raises(TimeoutError):
            udp.recv(1)


# What makes a browser call its maker: forms, passwords, media, a PDF, text to translate, and whatever listens.
TEMPTATIONS = b"""<html lang=fr><title>Bonjour</title><body>
  <p>Les sanglots longs des violons de l'automne blessent mon coeur d'une langueur monotone.
  <p>\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x81\xae\xe3\x83\x86\xe3\x82\xad\xe3\x82\xb9\xe3\x83\x88
  <form action=/sent method=post target=f><input name=name autocomplete=name><input type=email name=email>
    <input type=tel name=tel><input name=street autocomplete=street-address><input name=cc autocomplete=cc-number>
    <input type=password name=p><input type=search name=q><textarea spellcheck=true>misspeled</textarea></form>
  <form action=/sent method=post target=f><input name=u value=jo autocomplete=username>
    <input type=password value=password123 autocomplete=current-password></form>
  <iframe name=f></iframe><video src=/v.mp4 autoplay controls></video><audio src=/a.mp3></audio>
  <a href=/file.pdf>PDF</a><embed src=/file.pdf type=application/pdf><p id=said></p>
  <script>
    const quietly = work => { try { Promise.resolve(work()).catch(() => 0) } catch {} }
    quietly(() => navigator.requestMediaKeySystemAccess('com.widevine.alpha',
      [{initDataTypes: ['cenc'], videoCapabilities: [{contentType: 'video/mp4; codecs="avc1.42E01E"'}]}]))
    quietly(() => navigator.geolocation.getCurrentPosition(() => 0, () => 0))
    quietly(() => new webkitSpeechRecognition().start())
    quietly(() => speechSynthesis.speak(new SpeechSynthesisUtterance('bonjour')))
    quietly(() => Notification.requestPermission())
    quietly(() => document.browsingTopics())
    quietly(() => navigator.credentials.get({password: true}))
    quietly(() => new PresentationRequest('https://cast.example/').getAvailability())
    quietly(() => Translator.create({sourceLanguage: 'fr', targetLanguage: 'en'}))
    quietly(() => LanguageDetector.create())
    quietly(() => LanguageModel.create())
    for (const input of document.querySelectorAll('input')) {
      input.focus(); input.value = 'password123'; input.dispatchEvent(new Event('input', {bubbles: true})) }
    setTimeout(() => document.forms[1].submit(), 500)
    const busy = setInterval(() => { said.append('.'); fetch('/tick') }, 200)
    setTimeout(() => { clearInterval(busy); said.textContent = 'waited' }, 1500)
  </script>"""


def test_a_browser_asks_for_nothing_of_its_own(
    site: Site, renderer: BrowserRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Endpoint] = []
    connect = EgressProxy._connect

    async def noted(proxy: EgressProxy, endpoint: Endpoint) -> socket.socket:
        asked.append(endpoint)
        return await connect(proxy, endpoint)

    monkeypatch.setattr(EgressProxy, "_connect", noted)
    site.routes |= {
        "/": answer(TEMPTATIONS),
        "/sent": answer(b"<p>sent"),
        "/tick": answer(b"0", content_type="text/plain"),
        "/file.pdf": answer(b"%PDF-1.4", content_type="application/pdf"),
    }
    assert b">waited</p>" in renderer.render(site.url(host="public.example")).body
    assert {(endpoint.host, endpoint.port) for endpoint in asked} == {("public.example", site.port)}
    assert {"/", "/sent"} <= {visit.path for visit in site.visits} <= {"/", "/sent", "/tick", "/file.pdf"}


@pytest.mark.parametrize("name", ["--disable-features=", "--enable-features="])
def test_what_playwright_turns_off_or_on_stays_so(site: Site, renderer: BrowserRenderer, name: str) -> None:
    site.routes["/"] = answer(b"<p>plain")
    renderer.render(site.url(host="public.example"))
    browsers = [arguments for arguments in map(arguments_of, processes_of(os.getpid())) if "--type=" not in arguments]
    lists = [
        [set(part.removeprefix(name).split(",")) for part in arguments.split("\0") if part.startswith(name)]
        for arguments in browsers
    ]
    given = [sets for sets in lists if len(sets) > 1]
    assert given  # a browser is told twice: by Playwright and by us
    for sets in given:
        assert set().union(*sets) == sets[-1]  # Chromium heeds the last alone


def test_images_fonts_and_media_are_not_fetched(site: Site, renderer: BrowserRenderer) -> None:
    site.routes |= {
        "/": answer(
            b"<img src=/i.png onload=\"said.textContent='shown'\" onerror=\"said.textContent='broken'\"><p id=said></p>"
            b"<video src=/v.mp4 autoplay></video><audio src=/a.mp3 preload=auto></audio><link rel=icon href=/icon.png>"
            b"<link rel=manifest href=/m.json>"
            b"<style>@font-face {font-family: f; src: url(/f.woff)} p {font-family: f; background: url(/b.png)}</style>"
            b"<link rel=stylesheet href=/s.css><p>text</p>"
        ),
        "/s.css": answer(b"b {color: red}", content_type="text/css"),
    }
    page = renderer.render(site.url(host="public.example"))
    assert b">shown</p>" in page.body
    assert sorted(visit.path for visit in site.visits) == ["/", "/s.css"]


def test_a_site_does_not_learn_the_credentials_of_the_proxy(site: Site, renderer: BrowserRenderer) -> None:
    challenge = [("Proxy-Authenticate", 'Basic realm="fetchly"'), ("WWW-Authenticate", 'Basic realm="x"')]
    for status in ("407 Proxy Authentication Required", "401 Unauthorized"):
        site.routes["/"] = answer(b"<p>who are you?", status=status, headers=challenge)
        with pytest.raises(FetchError):
            renderer.render(site.url(host="public.example"))
    site.routes["/"] = answer(b"<p>fine")
    assert b"fine" in renderer.render(site.url(host="public.example")).body
    assert site.visits
    assert not [visit for visit in site.visits if {"proxy-authorization", "authorization"} & set(visit.headers)]


def test_pages_share_no_cookie(site: Site, renderer: BrowserRenderer) -> None:
    site.routes["/"] = lambda visit: visit.send(
        answer(f"<p>{visit.headers.get('cookie', 'none')}".encode(), headers=[("Set-Cookie", "a=1")])
    )
    for _ in range(2):
        assert b"<p>none" in renderer.render(site.url(host="public.example")).body


def test_an_unknown_host_is_said_in_the_gates_words(renderer: BrowserRenderer) -> None:
    for url in ("http://nowhere.example/", "https://nowhere.example/"):
        with pytest.raises(FetchError) as failed:
            renderer.render(url)
        assert (failed.value.code, failed.value.url) == ("HOST_UNKNOWN", url)
