"""A field is called silent only where nothing on the page could say it; what is added is answered with null."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from fetchly.lab.silence import SILENT_FIELDS, Silence, silent_fields
from fetchly.lab.variants import Variant
from tests.support.answering import TEXT, answer_for, record_schema, stated
from tests.support.documents import make_document
from tests.unit.fetchly.lab.test_examples import dataset, gold, made

SAID = {
    "gtin": ("EAN 4006381333931", "4006381333931", "ISBN: 978-3-16-148410-0", "UPC 036000291452"),
    "rating": ("4.5 out of 5", "★★★★☆", "Rated 4.7 by customers", "Average rating\n4.2", "3 stars", "8/10"),
    "review_count": ("128 reviews", "Reviews (7)", "based on 12 customer ratings", "three comments", "34 votes"),
    "original_price": ("was $20", "RRP €30", "Save 10", "-20%", "Regular price 12.00", "now £5"),
    "price": ("$ 5", "12 EUR", "Price: 7", "100 kr"),
    "currency": ("5 €", "CHF 12", "ten dollars"),
    "shipping_cost": ("Shipping 4.90", "free delivery", "Postage: 3"),
    "availability": ("In stock", "Sold out", "Add to cart", "Available now", "ships in 2 days"),
    "sku": ("SKU: 12", "Item no. 7", "Art. AB-1234", "Model X", "Product code 9", "#A12", "1004512"),
    "mpn": ("MPN 12", "Model WH-1000XM4", "Part number 3", "XM4000", "wh1000", "Ref 7"),
    "warranty": ("2 year warranty", "guaranteed for life"),
    "weight": ("500 g", "Weight: 2", "12 lbs", "3 kilos"),
    "dimensions": ("20 x 30", "12 cm wide", 'a 5" blade', "Dimensions: A4", "Sizes S to XL"),
    "color": ("Colour: teal", "navy blue", "in white"),
    "prep_time": ("Prep 10", "20 minutes", "1 hr", "half an hour"),
    "cook_time": ("Cook: 10", "Bake at 180 for 20", "45 mins", "two hours"),
    "servings": ("Serves 4", "Yield: 12 cookies", "6 portions", "for four people", "makes 20"),
    "calories": ("200 kcal", "Calories 300", "Nutrition"),
    "salary": ("Salary: 30", "£12/hour", "paid by the hour", "$40,000 per year", "competitive pay"),
    "employment_type": ("Full-time", "part time", "Internship", "permanent position"),
    "valid_through": ("Closing date: 3 May", "apply by Friday", "valid until June"),
    "bedrooms": ("3 bedrooms", "2 br", "four rooms", "Beds: 2"),
    "bathrooms": ("2 baths", "1.5 ba", "Bathroom"),
    "living_area": ("80 m²", "1,200 sq ft", "2 acres", "Floor area 80"),
    "year_built": ("Built in 1990", "Construction year: 2001"),
    "energy_class": ("Energy class B", "EPC C", "efficiency A+"),
    "mpaa_rating": ("Rated R", "PG-13", "ages 12 and up", "16+"),
    "director": ("Directed by Jane Doe", "Director: X", "the film of the year"),
    "runtime": ("120 min", "1 hr 30", "Duration 90", "1:30:00"),
    "engine": ("2.0 l", "V8", "Engine: petrol", "150 hp"),
    "fuel_economy": ("30 mpg", "5 l/100 km", "Fuel economy"),
    "mileage": ("40,000 miles", "Mileage: 3", "12 km"),
    "pages": ("320 pages", "Pages: 12", "xii, 240 pp", "Paperback"),
    "publisher": ("Publisher: Acme", "Oxford University Press", "Acme Books", "published by Acme"),
    "doi": ("doi:10.1000/182", "https://doi.test/10.1000/182"),
    "email": ("a@b.test", "a (at) b.test", "jane at work dot test"),
    "phone": ("+49 30 123456", "555-1234 5", "(030) 12 34 56"),
    "fax": ("Fax 030 1", "F: 030 1"),
    "opening_hours": ("9 am to 5 pm", "Opening hours", "Mon 9:00", "open daily", "24 hours"),
    "zipcode": ("10115 Berlin", "SW1A 1AA", "K1A 0B1", "74-200"),
    "modified_date": ("Updated 3 May", "Last edited today", "Revised 2020", "last post"),
    "docket_number": ("Docket 12", "Case No. 7", "Doe v. Roe", "filed"),
    "judge": ("Judge Judy", "Justice Kagan", "the Hon. J. Doe"),
    "height": ("6'2", "188 cm", "Height: 2"),
    "team": ("Team: Bulls", "club", "League"),
    "tuition": ("Tuition 100", "fees", "$ 9,000"),
    "license": ("MIT licence", "© 2020", "all rights reserved"),
    "version": ("Version 2", "v3", "2.1.0", "release notes"),
    "flight_number": ("Flight LH 400", "the airline", "flying to Rome"),
    "check_in": ("Check-in from 3", "checkin", "arrival"),
}  # fmt: skip
QUIET = make_document("Notes of an old tree", "It stood there, and said nothing to anyone.")
SCHEMA = record_schema(title=TEXT)
ASKED = Variant(SCHEMA, stated({"title": "Notes of an old tree"}))


def told() -> Silence:
    """After two examples that have said every field by each of its names."""
    silence = Silence()
    for _ in range(2):
        silence.learn({name: "x" for each in SILENT_FIELDS for name in each.names})
    return silence


def test_every_field_has_its_signs_tried() -> None:
    assert set(SAID) == {each.names[0] for each in SILENT_FIELDS}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in SAID.items() for text in texts])
def test_a_field_is_not_silent_where_the_page_says_it(name: str, text: str) -> None:
    assert name not in {each.names[0] for each in silent_fields(make_document("Notes", text))}


def test_a_page_that_says_nothing_is_silent_about_everything() -> None:
    assert {each.names[0] for each in silent_fields(QUIET)} == set(SAID)


@pytest.mark.parametrize("lang", ["de", "ja-JP", None])
def test_signs_in_english_words_tell_nothing_of_other_pages(lang: str | None) -> None:
    found = {each.names[0] for each in silent_fields(make_document("Alter Baum", "Er schwieg.", lang=lang))}
    assert found == {"gtin", "email", "phone", "fax"}


def test_what_is_added_stands_anywhere_and_is_answered_with_null() -> None:
    orders, counts = set(), set()
    for seed in range(40):
        more = told().ask(ASKED, QUIET, random.Random(seed))
        assert told().ask(ASKED, QUIET, random.Random(seed)) == more
        names = list(more.schema["properties"])
        added = set(names) - {"title"}
        assert sorted(more.schema["required"]) == sorted(names)
        assert more.truth.absent == added
        orders.add(names.index("title"))
        counts.add(len(added))
        answer = answer_for(more.schema, QUIET, more.truth)
        assert answer.text is not None
        assert json.loads(answer.text) == {name: "Notes of an old tree" if name == "title" else None for name in names}
    assert orders == {0, 1, 2, 3, 4}
    assert counts == {1, 2, 3, 4}


def test_what_the_question_knows_under_any_name_is_not_added() -> None:
    schema = record_schema(ean=TEXT, telephone=TEXT, contactEmail=TEXT)
    asked = Variant(schema, stated({"fax": "1"}, "ean", "telephone", "contactEmail"))
    page = make_document("Alter Baum", lang="de")
    assert told().ask(asked, page, random.Random(0)) is asked


def test_names_are_written_as_the_schema_writes_its_own() -> None:
    asked = Variant(record_schema(pageTitle=TEXT), stated({"pageTitle": "Notes of an old tree"}))
    names = {name for seed in range(60) for name in told().ask(asked, QUIET, random.Random(seed)).schema["properties"]}
    assert not any("_" in name for name in names)
    assert any(name != name.lower() for name in names - {"pageTitle"})


def test_a_schema_without_fields_stays_as_it_is() -> None:
    asked = Variant({"type": "array", "items": TEXT}, stated({}))
    assert told().ask(asked, QUIET, random.Random(0)) is asked


def test_a_name_is_met_with_null_once_for_two_values() -> None:
    silence = Silence()
    assert silence.ask(ASKED, QUIET, random.Random(0)) is ASKED, "nothing was said of anything yet"
    for value in ("V8", "V6"):
        silence.learn({"EAN": "4006381333931", "engineType": value, "director": None, "colour": "teal", "judge": "Doe"})
    silence.learn({"colour": "red", "colors": "red", "judge": None, "director": "Doe"})
    silence.learn(["no object"])
    met: list[str] = []
    for seed in range(30):
        more = silence.ask(ASKED, QUIET, random.Random(seed))
        names = [name for name in more.schema["properties"] if name != "title"]
        silence.learn(dict.fromkeys(names))
        met += names
    assert sorted(met) == ["colour", "ean", "engine_type"]


def test_a_share_of_the_examples_asks_for_what_the_page_does_not_say(tmp_path: Path) -> None:
    said = {**gold(1), "expected": {"title": "Jug 1", "sku": "J-1"}, "usable": ["title", "sku"], "missing": []}
    pages = {f"p{number}": "<html lang=en><h1>Jug</h1><p>J-1 fax 030 a@b.test" for number in range(1, 9)}
    pages |= {f"p{number}": "<html lang=en><h1>Jug</h1><p>Nothing else." for number in range(9, 20)}
    lines = [{**said, "id": f"p{number}", "expected": {"title": "Jug", "sku": "J-1"}} for number in range(1, 9)]
    quiet = {**said, "expected": {"title": "Jug"}, "usable": ["title"]}
    lines += [{**quiet, "id": f"p{number}"} for number in range(9, 20)]
    data = dataset(tmp_path / "things", *lines, pages=pages)
    counts = []
    for share in (0.0, 0.1, 1.0):
        examples, _ = made(data, variants=2, seed=3, silent=share)
        answers = [json.loads(example.answer) for example in examples]
        counts.append(sum(value is None for answer in answers for value in answer.values()))
        assert 2 * counts[-1] <= sum("J-1" in answer.values() for answer in answers)
    assert counts[0] == 0 < counts[1] < counts[2]
