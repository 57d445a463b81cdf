"""What the model is taught to write: the page's own spelling, in the grammar's layout, right once it is converted."""

from __future__ import annotations

import dataclasses
import json

import pytest

from fetchly.goods import Block, Document, Link
from fetchly.lab.truth import Truth
from tests.support.answering import DATE, LINK, TEXT, TEXTS, answer_for, list_of, record_schema, stated
from tests.support.documents import make_document

MOMENT = {"type": "string", "format": "date-time"}


def with_kinds(document: Document, **kinds: str) -> Document:
    """The document with blocks (`b0`, `b1`, ...) of other kinds."""
    blocks = list(document.blocks)
    for name, kind in kinds.items():
        blocks[int(name[1:])] = dataclasses.replace(blocks[int(name[1:])], kind=kind)  # type: ignore[arg-type]
    return dataclasses.replace(document, blocks=tuple(blocks))


def test_the_layout_is_the_grammars() -> None:
    schema = record_schema(name=TEXT, tags=TEXTS, price="number", maker=TEXT)
    document = make_document('Krug "Föhr"', "blau", "groß", "Preis: 1.056,74 €", lang="de")
    truth = stated({"name": 'Krug "Föhr"', "tags": ["blau", "groß"], "price": 1056.74}, "maker")
    answer = answer_for(schema, document, truth)
    assert answer.text == '{"name": "Krug \\"Föhr\\"", "tags": ["blau", "groß"], "price": "1.056,74", "maker": null}'
    assert answer.record == {"name": 'Krug "Föhr"', "tags": ["blau", "groß"], "price": 1056.74, "maker": None}


@pytest.mark.parametrize(
    ("lang", "line", "field", "node", "right", "span"),
    [
        ("de", "Aufbau am 5. März 2024 in Köln", "day", DATE, "2024-03-05", "5. März 2024"),
        ("en", "Published March 5, 2024 by us", "published_date", TEXT, "2024-03-05", "March 5, 2024"),
        ("fr", "Paru le 05/03/2024", "published_date", DATE, "2024-03-05", "05/03/2024"),
        ("en", "Date: 2024-03-05T12:30:00Z", "published_date", TEXT, "2024-03-05", "2024-03-05T12:30:00Z"),
        ("en", "On 5 March 2024, 18:30", "start", {"type": "string", "format": "date-time"}, "2024-03-05T18:30", None),
        ("en", "On 5 March 2024, 18:30 they met", "start", MOMENT, "2024-03-05T18:30:00Z", "5 March 2024, 18:30"),
        ("en", "It came at 09:14 UTC on 7 June 2025, after one at 08:57.", "at", MOMENT, "2025-06-07T09:14:00Z",
         "09:14 UTC on 7 June 2025"),
        ("en", "Put up on 7 June 2025 at 09:31 UTC.", "at", MOMENT, "2025-06-07T09:31:00Z",
         "7 June 2025 at 09:31 UTC"),
        ("en", "7 June 2025, Saturday, 9:14 pm (UTC-5)", "at", MOMENT, "2025-06-07T21:14:00-05:00", None),
        ("de", "Um 14 Uhr am 7. Juni 2025", "at", MOMENT, "2025-06-07T14:00:00", "14 Uhr am 7. Juni 2025"),
        ("ja", "2025年6月7日 午後2時30分", "at", MOMENT, "2025-06-07T14:30:00Z", "2025年6月7日 午後2時30分"),
        ("en", "Seen 7 June 2025 by us", "at", MOMENT, "2025-06-07", "7 June 2025"),
        ("ja", "2024年3月5日 公開", "published_date", DATE, "2024-03-05", "2024年3月5日"),
        ("en", "Ready in 1 hr 20 min, they say", "total_minutes", "integer", 80, "1 hr 20 min"),
        ("de", "Backzeit: 1 Std. 20 Min.", "total_time", {"type": "integer", "description": "in minutes"}, 80, None),
        ("en", "Prep: 20min", "prep_minutes", "integer", 20, "20min"),
        ("en", "Only $1,299.00 today", "price", "number", 1299, "1,299.00"),
        ("de", "56,74 €", "price", TEXT, "56.74", "56,74"),
        ("en", "Serves: 4 people", "yields", TEXT, "4 servings", "4 people"),
        ("sv", "4 minuter, 4 personer", "yields", TEXT, "4 servings", "4 personer"),
        ("en", "Servings: 8 1x 2x", "yields", TEXT, "8 servings", "8"),
        ("fr", "2 800 € ou 2 €", "price", "number", 2800, "2 800"),
        ("de", "Umsatz: 2 Mio. € im Jahr", "turnover", "number", 2_000_000, None),
        ("en", "2 1/2 cups", "amount", "number", 2.5, "2 1/2"),
        ("en", "6. Bb7 5,130 games", "games", "integer", 5130, "5,130"),
        ("fr", "Pièce B2 1 200 €", "price", "number", 1200, "1 200"),
        ("en", "Model X5 2 1/2 inch", "width", "number", 2.5, "2 1/2"),
        ("en", "Form B7 2 million a year", "turnover", "number", 2_000_000, "2 million"),
        ("en", "Program G7 1 hr 20 min", "total_minutes", "integer", 80, "1 hr 20 min"),
        ("en", "Oven at 7 35 min", "cook_minutes", "integer", 35, "35 min"),
        ("en", "Only £ 30", "currency", TEXT, "GBP", "£"),
        ("en", "the “Best” Kettle – ever", "name", TEXT, 'The "best" kettle - ever', "the “Best” Kettle – ever"),
        ("en", "Mix well (about 3 times).", "step", TEXT, "Mix well (about 3 times)", "Mix well (about 3 times)"),
        ("en", "Salt & pepper", "name", TEXT, "Salt &amp; pepper", "Salt & pepper"),
        ("en", "Write to info@shop.test now", "mail", {"type": "string", "format": "email"}, "info@shop.test", None),
        ("en", "Our tea is grown in the high hills and dried in shade.", "description", TEXT,
         "The tea is grown on the high hills and dried in the shade.",
         "Our tea is grown in the high hills and dried in shade."),
        ("en", "Come in and look around. The tea is grown in the high hills, dried in shade. Buy it now, pay later.",
         "description", TEXT, "The tea is grown on the high hills and dried in the shade.",
         "The tea is grown in the high hills, dried in shade."),
    ],
)  # fmt: skip
def test_a_value_is_written_as_the_page_spells_it(
    lang: str, line: str, field: str, node: object, right: object, span: str | None
) -> None:
    answer = answer_for(
        record_schema(**{field: node}), make_document("A page", line, lang=lang), stated({field: right})
    )
    assert answer.text is not None, answer.lost
    written = json.loads(answer.text)[field]
    assert written in line
    if span is not None:
        assert written == span


def test_a_list_of_moments_holds_their_times() -> None:
    schema = record_schema(shows={"type": "array", "items": MOMENT})
    document = make_document("At 20:00 on 7 June 2025", "8 June 2025, 19:30")
    truth = stated({"shows": ["2025-06-07T20:00", "2025-06-08T19:30"]})
    assert answer_for(schema, document, truth).text == ('{"shows": ["20:00 on 7 June 2025", "8 June 2025, 19:30"]}')


def test_of_several_right_values_the_page_decides() -> None:
    answer = answer_for(
        record_schema(brand=TEXT), make_document("by Acme Ltd"), stated({"brand": ["ACME Inc", "Acme Ltd"]})
    )
    assert answer.text == '{"brand": "Acme Ltd"}'


def test_the_label_tells_equal_numbers_apart() -> None:
    schema = record_schema(cook_minutes="integer")
    document = make_document("Rated 10 by many", "Serves 10", "Cook: 10 minutes", "Rest: 10 min")
    assert answer_for(schema, document, stated({"cook_minutes": 10})).text == '{"cook_minutes": "10 minutes"}'


@pytest.mark.parametrize(
    ("line", "field", "node", "right"),
    [
        ("Held on 7 June 2025", "at", MOMENT, "2025-06-07T09:14:00Z"),
        ("Held on 7 June 2025 at 09:31", "at", MOMENT, "2025-06-07T09:14:00Z"),
        ("4 votes and 4 comments", "yields", TEXT, "4 servings"),
        ("Rated 10 by many", "cook_minutes", "integer", 10),
        ("1 2 3 4, 2 of 4, page 2, 2 more", "rooms", "integer", 2),
        ("built1990 in stone", "year", "integer", 1990),
        ("One of several words", "name", TEXT, "sever"),
    ],
)
def test_what_only_looks_like_a_value_is_none(line: str, field: str, node: object, right: object) -> None:
    answer = answer_for(record_schema(**{field: node}), make_document(line), stated({field: right}))
    assert answer.lost == {field: "not found"}


def test_the_body_goes_before_what_the_page_says_to_machines() -> None:
    schema = record_schema(published_date=DATE)
    document = with_kinds(make_document("datePublished: 2024-03-05", "On 5 March 2024"), b0="data")
    assert answer_for(schema, document, stated({"published_date": "2024-03-05"})).text == (
        '{"published_date": "5 March 2024"}'
    )


def test_the_text_that_the_page_is_known_to_have_is_taken() -> None:
    schema = record_schema(stock="integer", wait_minutes="integer", note=TEXT)
    document = make_document("7 people watch this", "seven 7 pcs left", "wait 1 hour or 60 min", "ask us")
    truth = Truth(
        {"stock": 7, "wait_minutes": 60, "note": "Ask us"},
        complete=True,
        sources={"/stock": "7 pcs", "/wait_minutes": "1 hour", "/note": "ask us"},
    )
    assert answer_for(schema, document, truth).text == '{"stock": "7", "wait_minutes": "1 hour", "note": "ask us"}'


def test_what_is_not_known_is_neither_a_value_nor_null() -> None:
    schema = record_schema(name=TEXT, maker=TEXT, colour=TEXT, size=TEXT)
    truth = Truth({"name": "Jug", "colour": "red", "size": "XL"}, stated=frozenset(("name", "colour")))
    answer = answer_for(schema, make_document("Jug", "blue"), truth)
    assert answer.text is None
    assert answer.lost == {"maker": "unknown", "colour": "not found", "size": "may not be on the page"}


def test_a_value_that_may_be_elsewhere_is_kept_where_the_page_says_it() -> None:
    truth = Truth({"name": "Jug", "gtin": "4054278533728"}, stated=frozenset(("name",)))
    answer = answer_for(record_schema(name=TEXT, gtin=TEXT), make_document("Jug", "gtin: 4054278533728"), truth)
    assert answer.text == '{"name": "Jug", "gtin": "4054278533728"}'


def test_null_is_right_for_what_is_not_shown() -> None:
    schema = record_schema(name=TEXT, warranty=TEXT)
    document = make_document("Blue Jug", "ten years")
    truth = stated({"name": "Blue Jug", "warranty": "ten years"})
    answer = answer_for(schema, document, truth, shown={0: None})
    assert answer.text == '{"name": "Blue Jug", "warranty": null}'
    assert answer.found["cut"] == 1


def test_a_block_that_is_cut_in_the_middle_gives_no_null() -> None:
    document = make_document("Blue Jug", "Good for ten years")
    truth = stated({"name": "Blue Jug", "warranty": "ten years"})
    answer = answer_for(record_schema(name=TEXT, warranty=TEXT), document, truth, shown={0: None, 1: 8})
    assert answer.lost == {"warranty": "shown in part"}


def test_lists_stand_in_page_order_and_each_entry_has_its_own_place() -> None:
    schema = record_schema(steps=TEXTS)
    document = make_document("salt", "pepper and salt", "water")
    answer = answer_for(schema, document, stated({"steps": ["water", "salt", "pepper and salt"]}))
    assert answer.text == '{"steps": ["salt", "pepper and salt", "water"]}'
    twice = Truth({"steps": ["salt", "salt"]}, complete=True)
    assert answer_for(schema, document, twice).text == '{"steps": ["salt", "salt"]}'
    thrice = Truth({"steps": ["salt", "salt", "salt"]}, complete=True)
    assert answer_for(schema, document, thrice).lost == {"steps": "stands on the page less often"}


def test_a_list_is_never_taught_in_part() -> None:
    answer = answer_for(record_schema(tags=TEXTS), make_document("red", "blue"), stated({"tags": ["red", "green"]}))
    assert answer.lost == {"tags": "not found"}


def test_a_list_holds_what_is_shown_of_it() -> None:
    document = make_document("red", "blue", "green")
    truth = stated({"tags": ["red", "blue", "green"]})
    schema = record_schema(tags=TEXTS)
    answer = answer_for(schema, document, truth, shown={0: None, 2: None})
    assert answer.text == '{"tags": ["red", "green"]}'
    assert answer.found == {"exact": 2, "cut": 1}
    assert answer_for(schema, document, truth, shown={0: None}).lost == {"tags": "most of the list is not shown"}


def test_a_record_is_left_out_with_its_most_telling_value_and_refused_where_little_is_left() -> None:
    schema = record_schema(items=list_of(title=TEXT, day=DATE, place=TEXT))
    document = make_document("Jazz in the Park", "5 March 2024", "Hall", "Rock & Roll Night", "5 March 2024", "Club")
    items = [
        {"title": "Jazz in the Park", "day": "2024-03-05", "place": "Hall"},
        {"title": "Rock & Roll Night", "day": "2024-03-05", "place": "Club"},
    ]
    rest = {0: None, 1: None, 2: None}
    answer = answer_for(schema, document, stated({"items": items}), shown=rest | {4: None})
    assert answer.text is not None, answer.lost
    assert [item["title"] for item in json.loads(answer.text)["items"]] == ["Jazz in the Park"]
    items[0]["day"], items[1]["day"] = "2024-03-07", "2024-03-08"
    document = make_document("Jazz in the Park", "7 March 2024", "Hall", "Rock & Roll Night", "8 March 2024", "Club")
    answer = answer_for(schema, document, stated({"items": items}), shown=rest | {3: None})
    assert answer.lost == {"items": "an entry is shown in part"}


def test_records_are_read_around_their_most_telling_value() -> None:
    schema = record_schema(items=list_of(title=TEXT, day=DATE))
    document = make_document(
        "Changed 2024-03-06",
        "5 March 2024",
        "Rock & Roll Night",
        "Jazz in the Park",
        "6 March 2024",
        "Poetry Breakfast",
    )
    truth = stated(
        {
            "items": [
                {"title": "Poetry Breakfast", "day": "2024-03-06"},
                {"title": "Rock & Roll Night", "day": "2024-03-05"},
                {"title": "Jazz in the Park", "day": "2024-03-05"},
            ]
        }
    )
    answer = answer_for(schema, document, truth)
    assert answer.text is not None, answer.lost
    assert json.loads(answer.text)["items"] == [
        {"title": "Rock & Roll Night", "day": "5 March 2024"},
        {"title": "Jazz in the Park", "day": "5 March 2024"},
        {"title": "Poetry Breakfast", "day": "6 March 2024"},
    ]


def test_records_that_nothing_tells_apart_are_no_example() -> None:
    schema = record_schema(items=list_of(day=DATE, place=TEXT))
    items = [{"day": "2024-03-05", "place": "Hall"}, {"day": "2024-03-05", "place": "Hall"}]
    answer = answer_for(
        schema, make_document("2024-03-05 Hall", "2024-03-05 Hall"), Truth({"items": items}, complete=True)
    )
    assert answer.lost == {"items": "entries are alike"}


def test_a_list_that_is_known_in_part_is_no_example() -> None:
    truth = stated({"items": [{"title": "A thing"}]}, partial=frozenset(("items",)))
    answer = answer_for(record_schema(items=list_of(title=TEXT)), make_document("A thing", "Another"), truth)
    assert answer.lost == {"items": "the right list is not complete"}


def linked(*lines: str, **links: str) -> Document:
    """A document whose lines hold marks such as [L1]."""
    document = make_document(*lines)
    blocks = tuple(
        Block(b.kind, b.text.replace(" [L1]", "").replace(" [L2]", ""), b.text, b.css_path, b.start, b.end)
        for b in document.blocks
    )
    return dataclasses.replace(
        document, blocks=blocks, links=tuple(Link(number, "", url) for number, url in links.items())
    )


def test_a_url_is_the_id_of_its_link() -> None:
    document = linked("Manual [L1]", "Shop [L2]", L1="https://a.test/manual.pdf", L2="https://a.test/shop/")
    schema = record_schema(manual=LINK, shop=LINK, video=LINK)
    truth = stated({"manual": "https://a.test/manual.pdf", "shop": "http://www.a.test/shop"}, "video")
    answer = answer_for(schema, document, truth)
    assert answer.lost == {"shop": "not found"}, "another scheme and host are another URL for the scorer"
    truth = stated({"manual": "https://a.test/manual.pdf", "shop": "https://a.test/shop/"}, "video")
    assert answer_for(schema, document, truth).text == '{"manual": "L1", "shop": "L2", "video": null}'


def test_options_and_truth_values_are_written_as_they_are() -> None:
    schema = record_schema(state={"enum": ["new", "used", None]}, sold={"type": "boolean"}, kind={"const": "jug"})
    truth = stated({"state": "used", "sold": False, "kind": "jug"})
    assert answer_for(schema, make_document("Second hand"), truth).text == (
        '{"state": "used", "sold": false, "kind": "jug"}'
    )


def test_a_required_list_without_entries_is_empty_and_an_object_holds_nulls() -> None:
    schema = record_schema(
        name=TEXT,
        tags={"type": "array", "items": {"type": "string", "x-verbatim": True}},
        maker=record_schema(city=TEXT),
    )
    truth = Truth({"name": "Jug", "tags": None, "maker": None}, complete=True)
    assert (
        answer_for(schema, make_document("Jug"), truth).text == '{"name": "Jug", "tags": [], "maker": {"city": null}}'
    )


def test_an_optional_object_or_list_is_null_where_nothing_of_it_is_shown() -> None:
    maker = {**record_schema(city=TEXT), "type": ["object", "null"]}
    schema = record_schema(name=TEXT, maker=maker, tags=TEXTS)
    truth = Truth({"name": "Jug", "maker": {"city": "Ulm"}, "tags": ["blue"]}, complete=True)
    answer = answer_for(schema, make_document("Jug", "Ulm", "blue"), truth, shown={0: None})
    assert answer.text == '{"name": "Jug", "maker": null, "tags": null}'
    truth = Truth({"name": "Jug", "maker": {"city": None}, "tags": []}, complete=True)
    assert (
        answer_for(schema, make_document("Jug"), truth).text == '{"name": "Jug", "maker": {"city": null}, "tags": []}'
    )


def test_a_value_must_hold_once_the_whole_record_is_converted() -> None:
    # 64 characters are the longest span of a number: what cannot be written is not taught.
    digits = "1" * 70
    answer = answer_for(record_schema(count="integer"), make_document(f"{digits} jugs"), stated({"count": int(digits)}))
    assert answer.lost == {"count": "not found"}
