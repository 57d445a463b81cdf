"""Consent overlays of many shapes before a page: the page is read and they are not, and none of them is pressed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import needs_browser
from tests.support.site import Site, answer
from tests.support.visits import Browser, html, opened_browser, seen

pytestmark = needs_browser

ARTICLE = (
    "<h1>Tides of the North Sea</h1><p>The tide comes twice a day, and its height depends on the moon and on the wind."
    "</p><p>At Husum the difference is 3.4 m.</p>"
)
PRESSED = "document.title = 'pressed'"

OVERLAYS = {
    "bar at the bottom": f"""<div style="position: fixed; bottom: 0; left: 0; right: 0"><p>We use cookies to improve
        your
        visit.</p><button onclick="{PRESSED}">Accept all</button> <a href=/policy>Settings</a></div>""",
    "modal with a veil over a page that is locked": f"""<style>html, body {{overflow: hidden}} main {{filter:
        blur(5px)}}
        </style><script>document.querySelector('main').inert = true;
        document.querySelector('main').setAttribute('aria-hidden', 'true')</script>
        <div id=veil style="position: fixed; inset: 0"></div><div role=dialog aria-modal=true style="position: fixed;
        top: 20%"><h2>Datenschutz</h2><p>Wir und unsere Partner verwenden Cookies und verarbeiten personenbezogene
        Daten.
        </p><div onclick="{PRESSED}" class="btn">Alle akzeptieren</div><button>Ablehnen</button></div>""",
    "closed shadow root": """<div id=root></div><script>document.getElementById('root').attachShadow({mode: 'closed'})
        .innerHTML = `<div style="position: fixed; inset: auto 0 0; z-index: 99999"><p>Nous utilisons des cookies et des
        données personnelles.</p><button>Tout accepter</button><button>Continuer sans
        accepter</button></div>`</script>""",
    "dialog of the browser": """<dialog id=d><p>Usamos cookies propias y de terceros.</p><button>Aceptar</button>
        <button>Rechazar</button></dialog><script>d.showModal()</script>""",
    "sticky notice at the top": """<div style="position: sticky; top: 0">Diese Website nutzt Cookies.
        <button>OK</button>
        </div>""",
    "in the flow, by its name": """<section class="cookie-notice"><p>Deze site gebruikt
        cookies.</p><button>Akkoord</button>
        </section>""",
    "frame of the same origin": """<iframe style="position: fixed; inset: 20% 0 0 0; width: 600px; height: 300px"
        srcdoc="
        <p>このサイトではクッキーを使用します。</p><button>同意する</button><button>拒否</button>"></iframe>""",
    "absolute, high above": """<div style="position: absolute; top: 0; z-index: 2147483647"><p>Мы используем файлы
        cookie.
        </p><button>Принять</button></div>""",
    "tool with its list of partners": """<div id="onetrust-consent-sdk"><div style="position: fixed; inset: 0"></div>
        <div id="onetrust-banner-sdk" style="position: fixed; bottom: 0; height: 300px; overflow: auto"><h2>We value
        your
        privacy</h2><p>We and our partners store cookies.</p><button>Reject all</button><button>I agree</button><ul>"""
    + "".join(f"<li>Partner {number} of the advertising world, and its purposes" for number in range(300))
    + "</ul></div></div>",
}


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@pytest.mark.parametrize("overlay", OVERLAYS.values(), ids=OVERLAYS.keys())
def test_an_overlay_is_not_taken_for_the_page(site: Site, browser: Browser, overlay: str) -> None:
    # firecrawl#78, crawl4ai#1526
    comes_first = "querySelector('main')" not in overlay  # it does something to the page, which must be there
    main = f"<main>{ARTICLE}</main>"
    site.routes["/"] = answer(f"<title>T</title><body>{overlay + main if comes_first else main + overlay}".encode())
    page = browser.visit(site.url())
    assert seen(page).split("\n") == [
        "Tides of the North Sea",
        "The tide comes twice a day, and its height depends on the moon and on the wind.",
        "At Husum the difference is 3.4 m.",
    ]
    assert "<title>T</title>" in html(page)
    assert html(page).count("<template") == 1
    assert page.warnings == ()


STAYS = {
    "a wall that is the page": """<div role=dialog style="position: fixed; inset: 0"><h2>Before you go on</h2><p>We use
        cookies.</p><button>Accept</button></div>""",
    "a form to log in": f"""<main>{ARTICLE}</main><div role=dialog style="position: fixed; top: 10%"><p>Log in to
        read on.
        We use cookies.</p><input type=email><input type=password><button>Accept and log in</button></div>""",
    "an age gate": f"""<main>{ARTICLE}</main><div style="position: fixed; inset: 0"><p>Are you over 18? By entering you
        accept our cookies.</p><button>I agree, enter</button></div>""",
    "a paywall": f"""<main>{ARTICLE}</main><div style="position: fixed; bottom: 0"><p>Read on with a subscription: 4
        EUR a
        month, privacy included.</p><button>Subscribe</button><button>Manage my account</button></div>""",
    "an article on cookies": """<article><h1>How cookies work</h1><p>Sites ask you to accept cookies before they use
        them.
        </p><div style="position: sticky; top: 0"><a href=#a>Accept cookies: what it means</a></div></article>
        <aside><p>More on the web and how it is made, week by week, for everybody.</p></aside>""",
    "a baker's offer": """<main><h1>Bakery</h1><p>Bread, rolls and cakes, fresh from five o'clock, on every day but
        Sunday.</p></main><div style="position: fixed; bottom: 0"><p>12 chocolate cookies, 5 EUR</p>
        <button>Add to cart</button><button>Options</button><button aria-label=close>x</button></div>""",
    "an application in a fixed shell": f"""<div style="position: fixed; inset: 0; overflow: auto"><div>{ARTICLE}
        <p>Our cookie policy</p><button>Accept</button></div></div>""",
}


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS.keys())
def test_what_only_looks_like_an_overlay_stays(site: Site, browser: Browser, body: str) -> None:
    site.routes["/"] = answer(f"<body>{body}".encode())
    assert "<template" not in html(browser.visit(site.url()))
