"""Lists that grow and lists that recycle their elements, scrolled through by a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fetchly.goods import Page
from tests.support.browser import needs_browser
from tests.support.site import Site, Visit, answer
from tests.support.visits import Browser, html, opened_browser, seen

pytestmark = needs_browser


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


def rows(page: Page) -> list[int]:
    return [int(number) for number in re.findall(r"Row (\d+)\b", seen(page))]


# A feed: ten more, a while after its end came into view. `last` is where it ends.
FEED = """<h1>Feed</h1><div id=feed></div><script>
let count = 0, busy = false;
const add = () => { for (let i = 0; i < 10 && count < %(last)s; i++) {
  const row = feed.appendChild(document.createElement('p'));
  row.style.height = '%(height)spx'; row.textContent = 'Row ' + count++ } };
add();
addEventListener('scroll', () => {
  if (busy || innerHeight + scrollY < document.documentElement.scrollHeight - 50) return;
  busy = true; setTimeout(() => { add(); busy = false }, 300) });
</script>"""


@pytest.mark.parametrize("height", [250, 20], ids=["longer than the window", "shorter than the window"])
def test_a_feed_that_loads_after_a_while_comes_whole(site: Site, browser: Browser, height: int) -> None:
    # crawl4ai#1063
    site.routes["/"] = answer((FEED % {"last": 50, "height": height}).encode())
    page = browser.visit(site.url(), scroll="seconds=300")
    assert rows(page) == list(range(50))
    assert page.warnings == ()


def test_a_feed_without_an_end_is_cut_and_said(site: Site, browser: Browser) -> None:
    # crawl4ai#616
    site.routes["/"] = answer((FEED % {"last": "Infinity", "height": 250}).encode())
    page = browser.visit(site.url(), scroll="items=40,seconds=300")
    assert rows(page) == list(range(40))
    assert page.warnings == (
        "the page goes on when it is scrolled: read as far as 40 items (--scroll sets the bounds)",
    )
    assert "as far as 3 steps" in browser.visit(site.url(), scroll="steps=3,seconds=300").warnings[0]


def test_a_feed_over_a_slow_network_comes_whole(site: Site, browser: Browser) -> None:
    """Its end is watched by the page (IntersectionObserver), and it is scrolled within an element of its own."""

    def more(visit: Visit) -> None:
        visit.stopped.wait(1.5)
        visit.send(answer(b"10", content_type="application/json"))

    site.routes |= {
        "/": answer(
            b"""<style>li {height: 60px}</style>
            <div id=box style="height: 400px; overflow-y: auto"><ul id=feed></ul><p id=end>.</p></div><script>
            let next = 0, busy = false;
            const add = async () => { if (busy || next >= 30) return; busy = true;
              const count = await (await fetch('/more?' + next)).json();
              for (let i = 0; i < count; i++) feed.insertAdjacentHTML('beforeend', `<li>Row ${next++}`);
              busy = false };
            const watch = new IntersectionObserver(seen => { if (seen[0].isIntersecting) add() }, {root: box});
            watch.observe(end)</script>"""
        ),
        "/more": more,
    }
    page = browser.visit(site.url(), scroll="seconds=300")
    assert rows(page) == list(range(30))
    assert page.warnings == ()


# 200 rows through 12 elements: which of them shows which row changes with the scroll position, and so their order.
RECYCLED = """<h1>List</h1><p>Before</p><div id=box style="height: %(height)spx; overflow-y: auto; position: relative">
<div id=pool style="height: 6000px; position: relative"></div></div><p>After</p><script>
const elements = [...Array(12)].map(() => pool.appendChild(document.createElement('div')));
const show = () => { const first = Math.min(188, Math.max(0, Math.floor(box.scrollTop / 30) - 1));
  for (let index = first; index < first + 12; index++) { const element = elements[index %% 12];
    element.style.cssText = `position: absolute; height: 30px; top: ${30 * index}px`;
    const says = index %% 7 ? `Row ${index} <a href="/row/${index}">more</a>` : `Row ${index}`;
    if (element.innerHTML !== says) element.innerHTML = says } };
box.addEventListener('scroll', () => setTimeout(show, 30)); show();
</script>"""


def test_a_list_that_recycles_its_elements_comes_whole_and_in_order(site: Site, browser: Browser) -> None:
    # crawl4ai#731
    site.routes["/"] = answer((RECYCLED % {"height": 300}).encode())
    page = browser.visit(site.url(), scroll="seconds=300")
    assert rows(page) == list(range(200))
    assert len(re.findall(r'href="/row/\d', html(page))) == 200 - len(range(0, 200, 7))
    assert (seen(page).splitlines()[:2], seen(page).splitlines()[-1]) == (["List", "Before"], "After")
    assert page.warnings == ()


# Rows in the flow between two spacers, in a table, scrolled with the window; equal rows stand beside each other.
WINDOWED = """<table><thead><tr><th>Name<th>Price</thead><tbody id=body></tbody></table><script>
const total = 120, high = 100;
const show = () => { const first = Math.max(0, Math.min(total - 24, Math.floor(scrollY / high) - 2)), last = first + 24;
  body.innerHTML = `<tr style="height: ${first * high}px"></tr>` + [...Array(24)].map((_, i) =>
    `<tr style="height: ${high}px"><td>Row ${Math.floor((first + i) / 2)}</td>
    <td>${first + i < 60 ? 5 : 6} EUR</td></tr>`).join('')
    + `<tr style="height: ${(total - last) * high}px"></tr>` };
addEventListener('scroll', show); show();
</script>"""


def test_a_table_in_a_window_of_the_page_keeps_equal_rows_apart(site: Site, browser: Browser) -> None:
    # crawl4ai#1087
    site.routes["/"] = answer(WINDOWED.encode())
    page = browser.visit(site.url(), scroll="seconds=300")
    assert rows(page) == [number // 2 for number in range(120)]
    assert html(page).count("<th>") == 2
    assert [html(page).count(f"{price} EUR") for price in (5, 6)] == [60, 60]


# Rows of a web component, which grow in number while they are recycled, in a grid of three columns.
GRID = """<x-grid></x-grid><script>
customElements.define('x-grid', class extends HTMLElement { connectedCallback() {
  const root = this.attachShadow({mode: 'closed'}); let known = 30;
  root.innerHTML = `<style>article {position: absolute; height: 100px; width: 200px} #all {position: relative}
    #box {height: 450px; width: 700px; overflow-y: scroll}</style><div id=box><div id=all></div></div>`;
  const box = root.getElementById('box'), all = root.getElementById('all');
  const show = () => { all.style.height = known / 3 * 100 + 'px';
    const first = 3 * Math.max(0, Math.floor(box.scrollTop / 100) - 1);
    all.replaceChildren(...[...Array(21)].map((_, i) => first + i).filter(i => i < known).map(i => {
      const card = document.createElement('article'); card.innerHTML = `<h3>Row ${i}</h3><p>${"sold"} out</p>`;
      card.style.cssText = `left: ${i % 3 * 200}px; top: ${Math.floor(i / 3) * 100}px`;
      return card }));
    if (box.scrollTop + 500 > known / 3 * 100 && known < 90)
      setTimeout(() => { known = Math.min(90, known + 30); show() }, 200) };
  box.addEventListener('scroll', show); show() }})</script>"""


def test_a_grid_that_grows_and_recycles_in_a_closed_shadow_root(site: Site, browser: Browser) -> None:
    site.routes["/"] = answer(GRID.encode())
    page = browser.visit(site.url(), scroll="seconds=300")
    assert rows(page) == list(range(90))
    assert html(page).count("sold out") == 90


STILL = """<div id=clock>0</div><div id=slides><p>Slide 1<p>Slide 2<p>Slide 3</div>%s<script>
let n = 0; setInterval(() => { clock.textContent = ++n; slides.append(slides.firstElementChild) }, 80);
window.asked = 0; addEventListener('scroll', () => { document.body.dataset.asked = ++window.asked })</script>"""


def test_a_page_that_moves_by_itself_is_neither_taken_for_a_list_nor_for_endless(site: Site, browser: Browser) -> None:
    paragraphs = "".join(f"<p style='height: 300px'>Part {number}" for number in range(30))
    site.routes["/"] = answer((STILL % paragraphs).encode())
    page = browser.visit(site.url(), scroll="seconds=300")
    assert re.findall(r"Part (\d+)", seen(page)) == [str(number) for number in range(30)]
    assert sorted(re.findall(r"Slide (\d)", seen(page))) == ["1", "2", "3"]
    assert page.warnings == ()


def test_without_scrolling_a_list_is_read_as_it_stands(site: Site, browser: Browser) -> None:
    site.routes["/"] = answer((FEED % {"last": 50, "height": 250}).encode())
    assert rows(browser.visit(site.url(), scroll="never")) == list(range(10))
