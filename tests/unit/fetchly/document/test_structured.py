"""JSON-LD, microdata, RDFa and the head of a page: one line a value."""

from __future__ import annotations

import json

import pytest

from fetchly.document import leaves, microdata
from fetchly.document.reader import ReadOptions, read_document
from fetchly.errors import DocumentError
from fetchly.goods import Document, Page

PLAIN = ReadOptions()


def read(body: str, options: ReadOptions = PLAIN) -> Document:
    return read_document(Page("-", "http://h.example/a/b", None, (), body.encode(), media_type="text/html"), options)


def data(body: str, options: ReadOptions = PLAIN) -> list[str]:
    return [block.line for block in read(f"<p>x</p>{body}", options).blocks if block.kind == "data"]


def script(value: object, kind: str = "application/ld+json") -> str:
    written = value if isinstance(value, str) else json.dumps(value).replace("</", "<\\/")
    return f'<script type="{kind}">{written}</script>'


def product(**values: object) -> dict[str, object]:
    return {"@type": "Product", **values}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (product(name="Pot"), ["name: Pot"]),
        ([product(name="Pot")], ["name: Pot"]),
        ({"@graph": [product(name="Pot")]}, ["name: Pot"]),
        ({"@type": ["http://schema.org/Product", "X"], "schema:name": "Pot"}, ["name: Pot"]),
        (product(offers={"price": 5, "priceCurrency": "EUR"}), ["offers price: 5", "offers price currency: EUR"]),
        (product(productID="7"), ["id: 7"]),
        (product(brand={"@type": "Brand", "name": "Acme"}), ["brand: Acme"]),
        (product(name={"@value": "Pot", "@language": "en"}), ["name: Pot"]),
        (product(color={"@list": ["red", ["blue"]]}), ["color: red", "color: blue"]),
        (product(availability="https://schema.org/InStock"), ["availability: InStock"]),
        (product(isFragile=True, weight=None), ["is fragile: true"]),
        (product(slogan="<p>A &amp;amp; b</p><ul><li>5 < 6</li></ul>"), ["slogan: A & b", "slogan: 5 < 6"]),
        (product(slogan="a<script>b</script><style>c</style><!-- d -->e"), ["slogan: a e"]),
        (product(aggregateRating={"ratingValue": "4.5"}), ["aggregate rating value: 4.5"]),
        (product(weight={"value": 2, "unitCode": "KGM"}), ["weight: 2", "weight unit code: KGM"]),
        (product(more=[{"@type": "PropertyValue", "name": "Colour", "value": "red"}]), ["colour: red"]),
    ],
)
def test_json_ld_in_lines(value: object, expected: list[str]) -> None:
    assert data(script(value)) == [f"Product {line}" for line in expected]


@pytest.mark.parametrize(
    "kind",
    ["application/ld+json", "Application/LD+JSON", " application/ld+json ; charset=utf-8", "application/ld+json;x"],
)
def test_every_way_to_write_the_type_of_the_script(kind: str) -> None:
    assert data(script(product(name="Pot"), kind)) == ["Product name: Pot"]


@pytest.mark.parametrize(
    "written",
    [
        '{"@type":"Product","name":"P"};',
        '{"@type":"Product","name":"P",}',
        '[{"@type":"Product","name":"P",},]',
        '{"@type":"Product","name":"P", /* c */ }',
        '{"@type":"Product","name":"P", // c\n}',
        '[{"@type":"Product","name":"P",/* , */ // }\n /**/}, /* c */ ] // d',
        '\ufeff{"@type":"Product","name":"P"}',
        '<!-- {"@type":"Product","name":"P"} -->',
        '<!--//--><![CDATA[//><!--\n{"@type":"Product","name":"P"}\n//--><!]]>',
        '// <![CDATA[\n{"@type":"Product","name":"P"}\n// ]]>',
        '/* a, } */ {"@type":"Product", // b "\n"name":"P"}',
        '{"@type":"Product","name":"P"}{"@type":"Product","name":"P"}',
        "{&quot;@type&quot;:&quot;Product&quot;,&quot;name&quot;:&quot;P&quot;}",
    ],
)
def test_what_browsers_forgive_is_forgiven(written: str) -> None:
    document = read(f"<p>x</p>{script(written)}")
    assert [block.line for block in document.blocks if block.kind == "data"] == ["Product name: P"]
    assert document.left_out_data == 0


def test_strings_are_not_repaired() -> None:
    line = '{"@type":"Product","name":"a, } // b /* c */ <![x","sku":"it\\\'s",}'
    assert data(script(line)) == ["Product name: a, } // b /* c */ <![x", "Product sku: it's"]


def test_control_characters_in_strings_are_white_space() -> None:
    assert data(script('{"@type":"Product","name":"a\tb\x01c"}')) == ["Product name: a bc"]
    assert data(script('{"@type":"Product","name":"a\nb"}')) == ["Product name: a", "Product name: b"]


@pytest.mark.parametrize("broken", ['{"a', "}", "not json", "[" * 100_000, '{"a":' * 5000, '"\\' * 50_000])
def test_a_broken_block_loses_only_itself_and_is_counted(broken: str) -> None:
    document = read(f"<p>x</p>{script(broken)}{script(product(name='Pot'))}")
    assert [block.line for block in document.blocks] == ["x", "Product name: Pot"]
    assert document.left_out_data == 1


def test_numbers_stay_as_written() -> None:
    assert data(script('{"@type":"Product","price":56.70,"sku":' + "9" * 60 + ',"x":NaN,"y":1e3}')) == [
        "Product price: 56.70",
        "Product sku: " + "9" * 60,
        "Product y: 1e3",
    ]


def test_alike_things_with_several_lines_are_numbered() -> None:
    offers = [{"price": "5", "sku": "a"}, {"price": "6", "sku": "b"}]
    assert data(script(product(name="Pot", offers=offers))) == [
        "Product name: Pot",
        "Product offers 1 price: 5",
        "Product offers 1 sku: a",
        "Product offers 2 price: 6",
        "Product offers 2 sku: b",
    ]
    assert data(script(product(offers=[{"price": "5"}, {"price": "6"}]))) == [
        "Product offers price: 5",
        "Product offers price: 6",
    ]


def test_the_things_of_a_list_are_things_of_the_page() -> None:
    items = [{"@type": "ListItem", "position": n, "item": product(name=f"P{n}", sku=f"{n}")} for n in (1, 2)]
    assert data(script({"@type": "ItemList", "itemListElement": items})) == [
        "Product 1 name: P1",
        "Product 1 sku: 1",
        "Product 2 name: P2",
        "Product 2 sku: 2",
    ]


def test_the_subject_comes_before_its_surroundings() -> None:
    graph = [
        {"@type": "WebSite", "name": "Shop", "url": "https://h"},
        {"@type": "BreadcrumbList", "itemListElement": [{"name": "Home"}, {"item": {"name": "Tea"}}]},
        {"@type": "WebPage", "name": "Page"},
        {"@type": "Organization", "name": "Shop Ltd"},
        {"@type": "ImageObject", "caption": "pic"},
        product(name="Pot"),
    ]
    document = read(f"<p>x</p>{script({'@graph': graph})}")
    assert [block.line for block in document.blocks[1:]] == [
        "Product name: Pot",
        "Organization name: Shop Ltd",
        "WebPage name: Page",
        "WebSite name: Shop",
        "Breadcrumb: Home > Tea",
    ]
    assert document.left_out_data == 2  # the address, the image


def test_references_are_followed_once_and_circles_end() -> None:
    graph = [
        {
            "@type": "Article",
            "headline": "H",
            "author": {"@id": "#a"},
            "editor": {"@id": "#a"},
            "about": {"@id": "#no"},
        },
        {"@type": "Person", "@id": "#a", "name": "Ann", "jobTitle": "Cook", "knows": {"@id": "#b"}},
        {"@type": "Person", "@id": "#b", "name": "Bo", "knows": {"@id": "#a"}},
    ]
    document = read(f"<p>x</p>{script({'@graph': graph})}")
    assert [block.line for block in document.blocks[1:]] == [
        "Article headline: H",
        "Article author: Ann",
        "Article author job title: Cook",
        "Article author knows: Bo",
        "Article author knows: Ann",
        "Article editor: Ann",
    ]
    assert document.left_out_data == 1


def test_what_stands_in_two_notations_is_told_once() -> None:
    body = script(product(name="Pot", sku="1")) + (
        "<div itemscope itemtype=https://schema.org/Product><b itemprop=name>Pot</b><i itemprop=sku>1</i>"
        "<i itemprop=gtin>2</i></div>"
    )
    assert data(body) == ["Product name: Pot", "Product sku: 1", "Product gtin: 2"]


def test_a_long_text_that_the_page_shows_is_not_told_twice() -> None:
    body = "A sentence of the page. " * 30
    shown = read(f"<p>{body}</p>" + script({"@type": "Article", "headline": "H", "articleBody": body}))
    assert [block.line for block in shown.blocks[1:]] == ["Article headline: H"]
    assert shown.left_out_data == 0
    unseen = read("<p>x</p>" + script({"@type": "Article", "articleBody": body}))
    assert unseen.blocks[1].text == body.strip()


def test_the_page_is_searched_for_its_long_texts_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [f"Sentence {n} of the page. " * 20 for n in range(3)]
    page = "".join(f"<p>{body}</p>" for body in bodies) + script(
        [{"@type": "Article", "headline": f"H{n}", "articleBody": body} for n, body in enumerate(bodies)]
    )
    monkeypatch.setattr(leaves, "MAX_SEARCHES", 2)
    assert [block.text[:10] for block in read(page).blocks[3:]] == ["H0", "H1", "H2", "Sentence 2"]


def test_values_over_the_limits_are_counted() -> None:
    many = read("<p>x</p>" + script(product(size=[str(n) for n in range(1000)])))
    assert (len(many.blocks) - 1, many.left_out_data) == (400, 600)
    deep: object = "end"
    for level in range(20):
        deep = {"part": deep, "name": f"n{level}"}
    document = read("<p>x</p>" + script(deep))
    assert len(document.blocks) - 1 + document.left_out_data == 21
    long = read("<p>x</p>" + script(product(name="x" * 6000)))
    assert (len(long.blocks), long.left_out_data) == (1, 1)


def test_lists_in_lists_lead_to_the_subject_however_deep() -> None:
    depth = 400
    scope = "<div itemscope itemtype=https://schema.org/{} itemprop=item>"
    inner = scope.format("Product") + "<b itemprop=name>Pot</b>"
    items = scope.format("ListItem").replace(" itemprop=item", "") + scope.format("ListItem") * depth
    assert data(f"{items}{inner}") == ["Product name: Pot"]
    value: object = product(name="Pot")
    for _ in range(depth):
        value = {"@type": "ListItem", "item": value}
    assert data(script({"@type": "ItemList", "itemListElement": [value, {"@type": "ListItem", "name": "x"}]})) == [
        "Product name: Pot",
        "ItemList: x",
    ]
    body = (
        "<div id=a itemscope itemtype=x/ListItem itemref=b></div>"
        "<div id=b itemscope itemprop=item itemtype=x/ListItem itemref=b><i itemprop=name>n</i></div>"
    )
    assert data(body) == ["ListItem: n"]


def test_elements_that_many_items_share_are_read_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "<p id=b><i></i><i></i><i itemprop=n>v</i></p>" + "<div itemscope itemref=b></div>" * 10
    assert read(f"<p>x</p>{body}").left_out_data == 0
    monkeypatch.setattr(microdata, "MAX_VISITED", 10)
    assert read(f"<p>x</p>{body}").left_out_data == 8  # two items of four elements fit, and two elements of a third


def test_what_is_left_out_is_counted_once_wherever_it_is_met() -> None:
    body = (
        "<div itemscope itemtype=x/Product itemref='m m2'><b itemprop=name>Pot</b></div>"
        "<p id=m itemprop='image photo' itemscope itemtype=x/ImageObject><i itemprop=caption>c</i></p>"
        "<p id=m2 itemprop=sameAs content=s></p>"
    )
    document = read(f"<p>x</p>{body}")
    assert [block.line for block in document.blocks if block.kind == "data"] == ["Product name: Pot"]
    assert document.left_out_data == 2


def test_addresses_have_ids_only_where_links_are_asked_for() -> None:
    value = product(name="Pot", url="/p", image="http://h.example/i.jpg", sameAs="http://w", offers={"url": "/q"})
    assert data(script(value)) == ["Product name: Pot"]
    document = read("<p>x</p>" + script(value), ReadOptions(link_marks=True))
    assert [block.line for block in document.blocks[1:]] == [
        "Product name: Pot",
        "Product url: [L1]",
        "Product image: [I1]",
    ]
    assert [link.url for link in document.links] == ["http://h.example/p", "http://h.example/i.jpg"]
    assert document.left_out_data == 2


def test_a_page_of_data_alone_is_no_empty_page() -> None:
    assert [block.line for block in read(script(product(name="Pot"))).blocks] == ["Product name: Pot"]
    with pytest.raises(DocumentError):
        read(script(product(name="Pot")), ReadOptions(structured=False))


def test_structured_data_can_be_left_out() -> None:
    body = "<meta name=author content=Ann><p itemscope itemtype=x/T><b itemprop=n>v</b></p>" + script(
        product(name="Pot")
    )
    assert [block.kind for block in read(body, ReadOptions(structured=False)).blocks] == ["paragraph"]


def test_opening_hours_are_a_line_each() -> None:
    hours = {"@type": "OpeningHoursSpecification", "dayOfWeek": ["http://schema.org/Monday", "Tuesday"]}
    value = {"@type": "Store", "openingHoursSpecification": [{**hours, "opens": "09:00", "closes": "18:00"}]}
    assert data(script(value)) == ["Store opening hours: Monday, Tuesday 09:00-18:00"]


# ---- microdata and RDFa


@pytest.mark.parametrize(
    ("mark", "value"),
    [
        ("<meta itemprop=p content=v>", "v"),
        ("<b itemprop=p>v <i>w</i></b>", "v w"),
        ("<span itemprop=p content=v>w</span>", "v"),
        ("<time itemprop=p datetime=2026-01-02>today</time>", "2026-01-02"),
        ("<time itemprop=p>today</time>", "today"),
        ("<data itemprop=p value=7>seven</data>", "7"),
        ("<a itemprop=p href=/ann>Ann</a>", "Ann"),
        ("<a itemprop=telephone href=tel:5></a>", "5"),
        ("<link itemprop=p href=https://schema.org/InStock>", "InStock"),
        ("<b itemprop=p>a<script>b</script><i hidden>c</i></b>", "a"),
        ("<b itemprop='p q'>v</b>", "v"),
    ],
)
def test_values_of_microdata(mark: str, value: str) -> None:
    assert data(f"<div itemscope itemtype=https://schema.org/Thing>{mark}</div>")[0].split(": ")[1] == value


def test_items_in_items_and_references() -> None:
    body = (
        "<div itemscope itemtype=http://schema.org/Event itemref='w nowhere'><b itemprop=name>Fair</b>"
        "<div itemprop=location itemscope itemtype=http://schema.org/Place><i itemprop=name>Hall</i>"
        "<i itemprop=address>Mill 1</i></div></div><p id=w itemprop=startDate>1 May</p>"
    )
    assert data(body) == [
        "Event name: Fair",
        "Event location: Hall",
        "Event location address: Mill 1",
        "Event start date: 1 May",
    ]


def test_references_in_circles_end() -> None:
    body = (
        "<div id=a itemscope itemref='a b'><i itemprop=n>1</i></div>"
        "<div id=b itemprop=x itemscope itemref=c><i itemprop=n>2</i></div>"
        "<div id=c itemprop=y itemscope itemref=b><i itemprop=n>3</i></div>"
    )
    assert data(body) == ["Data n: 1", "Data x n: 2", "Data x y n: 3"]


def test_rdfa_of_schema_org_alone() -> None:
    inner = "<b property=name>Pot</b><div property=offers typeof=Offer><i property=price content=5>five</i></div>"
    assert data(f"<div vocab=https://schema.org/ typeof=Product>{inner}</div>") == [
        "Product name: Pot",
        "Product offers price: 5",
    ]
    assert data("<div typeof=schema:Person><b property=schema:name>Ann</b></div>") == ["Person name: Ann"]
    assert data("<div typeof=sioc:Item><b property=dc:title>T</b></div>") == []


# ---- the head


def test_the_head_in_lines() -> None:
    body = (
        "<title>T | Site</title><meta property=og:title content=T><meta property=og:type content=website>"
        "<meta name=description content=D><meta property=article:tag content=a><meta property=article:tag content=b>"
        "<meta property=product:price:amount content=5.00><meta name=twitter:label1 content='Written by:'>"
        "<meta name=twitter:data1 content=Ann><meta property=og:image content=/i.jpg>"
        "<meta property=article:author content=https://h/ann><link rel=canonical href=/c><p>x"
    )
    expected = ["Title: T", "Description: D", "Tag: a", "Tag: b", "Price: 5.00", "Written by: Ann"]
    assert [block.line for block in read(body).blocks[2:]] == expected
    marked = read(body, ReadOptions(link_marks=True))
    assert [block.line for block in marked.blocks[2:]] == [*expected, "Image: [I1]", "URL: [L1]"]


def test_the_head_does_not_repeat_what_is_said() -> None:
    body = "<title>T</title><meta property=og:title content=t><meta name=author content=Ann><h1>H</h1>"
    assert data(body + script({"@type": "Article", "author": "Ann"})) == ["Article author: Ann"]
