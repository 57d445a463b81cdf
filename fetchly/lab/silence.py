"""A page and a schema about it in; the schema with further fields that the page is surely silent about out.

Datasets say little about what a page does not say, and a model taught by them alone answers what it is asked. Here are
fields whose values betray themselves: no bar code without a row of digits, no rating without stars or a scale. Where a
page shows no such sign, null is right, whatever kind of page it is. The signs are wide on purpose: one that is seen on
a page that says nothing costs an example, one that is missed would teach a lie.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fetchly.goods import Document
from fetchly.lab.variants import OTHER_NAMES, Variant

_MOST = 4
_BARE = 0.2
_SAID = 2
"""Most fields that are added; share of them without a description where the schema describes its own; values that a
name has been answered with for each null."""

_TEXT: Mapping[str, Any] = {"type": ["string", "null"], "x-verbatim": True}
_TEXTS: Mapping[str, Any] = {"type": ["array", "null"], "items": {"type": "string", "x-verbatim": True}}
_NUMBER: Mapping[str, Any] = {"type": ["number", "null"]}
_WHOLE: Mapping[str, Any] = {"type": ["integer", "null"]}
_DATE: Mapping[str, Any] = {"type": ["string", "null"], "format": "date"}


@dataclass(frozen=True, slots=True)
class SilentField:
    """A field: what it may be called, what it asks for, its types. A page on which `sign` is not found (in its text,
    lower-case) does not say it. `english`: the sign is made of English words, and tells nothing of other pages.
    `weight`: how often it is chosen beside others; few pages speak of a fax, and not all examples should."""

    names: tuple[str, ...]
    about: tuple[str, ...]
    nodes: tuple[Mapping[str, Any], ...]
    sign: re.Pattern[str]
    english: bool = True
    weight: float = 1.0


def _field(
    names: str, about: str, sign: str, *nodes: Mapping[str, Any], english: bool = True, weight: float = 1.0
) -> SilentField:
    return SilentField(
        tuple(names.split()), tuple(about.split(" | ")), nodes or (_TEXT,), re.compile(sign), english, weight
    )


_MONEY = r"[$€£¥₹₽₩¢]|\b(?:usd|eur|gbp|chf|aud|cad|inr|rs|kr|zł|prices?|costs?|fees?|free|dollars?|euros?|pounds?)\b"
_NUMBERS = r"(?:\d|\b(?:a|an|one|two|three|four|five|six|seven|eight|nine|ten|half|dozen)\b)"


def _counted(words: str) -> str:
    """A number within three words of one of the words, before or after it, across lines too."""
    between = r"\W{1,4}(?:\w+\W{1,3}){0,3}?"
    return rf"{_NUMBERS}\w*(?:\W{{0,2}}|{between})(?:{words})|(?:{words})\w*{between}{_NUMBERS}"


SILENT_FIELDS: tuple[SilentField, ...] = (
    _field(
        "gtin ean barcode isbn upc isbn_13",
        "Bar code number: EAN, UPC, GTIN or ISBN. | Bar code number, digits only. | International article number.",
        r"(?<!\d)\d{8}(?!\d)|\d{12}|97[89][ \-\u2010-\u2013]?\d|isbn|gtin|\bean\b|\bupc\b|bar ?code",
        english=False,
        weight=0.5,
    ),
    _field(
        "rating average_rating stars score rating_value",
        "Mean rating by customers, such as 4.5. | How good readers find it. | Stars out of five.",
        _counted("ratings?|rated|stars?|reviews?|votes?|scores?") + r"|[★☆⭐]|out of \d|/\s?5\b|/\s?10\b",
        _NUMBER,
        _TEXT,
        weight=2.0,
    ),
    _field(
        "review_count reviews number_of_reviews ratings_count votes",
        "How many reviews or ratings there are. | Number of votes.",
        _counted("ratings?|reviews?|comments?|votes?|stars?"),
        _WHOLE,
        weight=2.0,
    ),
    _field(
        "original_price list_price was_price old_price",
        "Crossed-out or recommended price; null without a reduction. | Price before the reduction.",
        r"\bwas\W{1,3}[$€£]|\brrp\b|msrp|(?:list|regular|retail|original|old|usual|normal) price|\bsaved?\b|"
        r"savings?\b|%|discount|reduced|\bsale\b|\bnow\W{1,3}[$€£]",
        _NUMBER,
        _TEXT,
        weight=2.0,
    ),
    _field(
        "price cost amount current_price",
        "Price to pay now. | What it costs, as printed. | Current price as a decimal number.",
        _MONEY,
        _NUMBER,
        _TEXT,
    ),
    _field("currency money currency_code", "Sign or code beside the price, such as € or USD.", _MONEY),
    _field(
        "shipping_cost delivery_cost postage",
        "What delivery costs. | Postage, as printed.",
        r"shipping|delivery|postage|freight|p&p",
        _NUMBER,
        _TEXT,
    ),
    _field(
        "availability stock in_stock",
        "Whether it can be ordered now. | Is it in stock?",
        r"stock|availab|sold out|add to|\bcart\b|basket|\bbuy\b|pre-?order|back-?order|dispatch|in stores?\b|ships?\b",
        {"enum": ["InStock", "OutOfStock", None]},
        {"enum": ["InStock", "OutOfStock", "PreOrder", None]},
        _TEXT,
    ),
    _field(
        "sku article_number item_number product_code",
        "The shop's own article number. | Stock keeping unit.",
        r"\bsku\b|\b(?:item|article|product|model|part|style|catalog\w*)\W{1,3}(?:no|num|code|id|#)|\bmodel\b|\bcode\b|"
        r"\bref\b|reference|#\s?\w*\d|(?<!\d)\d{5,}|\b[a-z]{1,6}-?\d{3,}",
        weight=2.0,
    ),
    _field(
        "mpn part_number manufacturer_number model_number",
        "The maker's part or model number. | Part number of the manufacturer.",
        r"\bmpn\b|\b(?:part|mfr|manufacturer\w*|item|product)\W{1,3}(?:no|num|code|id|#)|\bmodel\b|\bcode\b|"
        r"\bref\b|#\s?\w*\d|\b[a-z]{1,6}[\-/]?\d{2,}|\b\d+[a-z]+\d",
        weight=2.0,
    ),
    _field("warranty guarantee", "How long it is guaranteed. | Warranty, as printed.", r"warrant|guarant"),
    _field(
        "weight net_weight",
        "What it weighs, with the unit.",
        r"weigh|\d\s?(?:kg|g|gr|mg|lbs?|oz|t|pounds?|ounces?|gram\w*|kilo\w*|tons?|tonnes?)\b",
    ),
    _field(
        "dimensions size measurements",
        "Height, width and depth, as printed. | Measurements.",
        r"dimension|measure|\bsizes?\b|\d\s?(?:cm|mm|in|ft|inch|inches|feet|foot)\b|\d\s?[x×]\s?\d|\d\s?[\"″”]",
    ),
    _field(
        "color colour colors",
        "Colour of the product.",
        r"colou?r|black|white|\bred\b|blue|green|gr[ea]y|brown|yellow|orange|pink|purple|silver|gold|beige|navy|ivory|"
        r"\btan\b|\brose\b|violet|copper|bronze|natural",
    ),
    _field(
        "prep_time preparation_time prep_minutes",
        "Time to prepare, in minutes. | Preparation time.",
        r"\bprep|" + _counted(r"min\b|mins\b|minutes?|hours?|hrs?\b"),
        _WHOLE,
        _TEXT,
    ),
    _field(
        "cook_time baking_time cooking_time",
        "Time to cook or bake, in minutes.",
        r"(?:cook|bak)\w*.{0,40}\d|" + _counted(r"min\b|mins\b|minutes?|hours?|hrs?\b"),
        _WHOLE,
    ),
    _field(
        "servings yields makes portions",
        "How much it makes, such as 4 servings. | Number of portions.",
        r"\bserv(?:es|ings?)\b|\byield|\bportion|" + _counted(r"people|persons?\b|pieces|makes?\b|feeds"),
        _TEXT,
        _WHOLE,
    ),
    _field(
        "calories energy kcal",
        "Calories of one serving. | Energy in kcal.",
        r"calor|kcal|\d\s?(?:cal|kj)\b|nutrition",
        _NUMBER,
        _TEXT,
    ),
    _field(
        "salary pay wage compensation",
        "Pay as printed, with currency and period. | What the position pays.",
        r"salar|wage|compensat|\bpay\b|paid|remunerat|stipend|[$€£]\W?\d[\d,.k]*\W{0,3}(?:/|\b(?:per|an?)\b)",
    ),
    _field(
        "employment_type contract_type job_type",
        "Kind of employment, such as Full-time or Internship.",
        r"full[ -]?time|part[ -]?time|\bcontract|permanent|temporary|\bintern|freelance|employ|volunteer|"
        r"casual|seasonal",
        _TEXT,
        {"enum": ["Full-time", "Part-time", "Contract", "Temporary", "Internship", "Volunteer", None]},
    ),
    _field(
        "valid_through deadline closing_date apply_by",
        "Last day to apply. | Closing date.",
        r"deadline|closing|expir|valid|apply|application|until|\bdue\b|\bends?\b",
        _DATE,
        _TEXT,
    ),
    _field("bedrooms beds count_bedrooms", "Number of bedrooms.", r"\bbed|" + _counted(r"br\b|rooms?"), _WHOLE),
    _field("bathrooms baths count_bathrooms", "Number of bathrooms.", r"\bbath|" + _counted(r"ba\b|showers?"), _NUMBER),
    _field(
        "living_area floor_area square_feet",
        "Living area, without its unit.",
        r"m²|\bm2\b|\bsq\b|square|acre|hectare|floor area|living area",
        _NUMBER,
    ),
    _field(
        "year_built construction_year built",
        "Year of construction.",
        r"\bbuilt\b|construct|erected|\bbuild",
        _WHOLE,
    ),
    _field("energy_class epc_rating", "Energy class, such as B.", r"energy|\bepc\b|efficien"),
    _field(
        "mpaa_rating age_rating certificate",
        "Age rating, such as PG-13. | For which age the film is released.",
        r"\brated\b|mpaa|\bpg\b|pg-13|\bnc-17\b|certificat|\bages?\b|\bfsk\b|\d\+|adults? only",
    ),
    _field("director directed_by directors", "Who directed the film.", r"direct(?:ed|or|ion)|film|movie"),
    _field(
        "runtime running_time duration_minutes",
        "Length of the film in minutes.",
        r"runtime|running time|duration|\d:\d\d|" + _counted(r"min\b|mins\b|minutes?|hours?|hrs?\b"),
        _WHOLE,
        _TEXT,
    ),
    _field(
        "engine motor engine_type",
        "Engine of the car, as printed.",
        r"engine|motor|cylinder|\bv\d\b|\d\.\d\s?l\b|\bhp\b|horsepower|turbo|diesel|hybrid|electric",
    ),
    _field("fuel_economy mpg consumption", "Fuel economy, as printed.", r"fuel|mpg|consumption|l/100|econom"),
    _field(
        "mileage kilometers odometer",
        "How far the car has been driven.",
        r"mileage|odometer|" + _counted(r"miles?\b|km\b|kilomet"),
        _WHOLE,
    ),
    _field(
        "pages page_count number_of_pages",
        "Number of pages.",
        _counted(r"pages?\b|pp\b") + r"|paperback|hardcover",
        _WHOLE,
    ),
    _field(
        "publisher publishing_house",
        "Publisher of the book, without place and year.",
        r"publisher|publishing|published by|\bpress\b|verlag|imprint|\bbooks\b",
    ),
    _field("doi", "Digital object identifier.", r"\bdoi\b|\b10\.\d{4}", weight=0.1),
    _field(
        "email mail email_address contact_email",
        "E-mail address. | Where to write to.",
        r"@|\(at\)|\[at\]|\bat\b.{0,40}\bdot\b|\bat sign\b|mailto",
        english=False,
        weight=0.25,
    ),
    _field(
        "phone telephone phone_number",
        "Telephone number, as printed.",
        r"\d(?:[ \-()./\u2010-\u2013]{0,3}\d){5}",
        _TEXT,
        _TEXTS,
        english=False,
        weight=0.5,
    ),
    _field(
        "fax fax_number telefax",
        "Fax number, as printed.",
        r"fax|\bf[:.]|\(f\)",
        _TEXT,
        _TEXTS,
        english=False,
        weight=0.15,
    ),
    _field(
        "opening_hours hours business_hours",
        "When it is open. | Opening hours, as printed.",
        r"\d\s?(?:am|pm|a\.m|p\.m)|\d:\d\d|opening|\bhours\b|open (?:daily|until|from|mon|7|24)|\bclosed\b",
        _TEXT,
        _TEXTS,
    ),
    _field(
        "zipcode postal_code postcode",
        "Postal code.",
        r"(?<!\d)(?!(?:19|20)\d\d(?!\d))\d{4,6}(?!\d)|\d\d-\d{3}|\b[a-z]{1,2}\d[a-z\d]?\s?\d[a-z]{2}\b|\b[a-z]\d[a-z]\b|zip\b|postal|"
        r"postcode",
    ),
    _field(
        "modified_date last_updated updated",
        "Day of the last update, where the page names one. | When it was last changed.",
        r"updat|modif|revis|\bedit|amend|last (?:chang|post|act)",
        _DATE,
        _TEXT,
    ),
    _field(
        "docket_number case_number docket",
        "Number of the case at the court.",
        r"docket|\bcase\b|court|\bv\.|\bvs\b|filed|appeal",
    ),
    _field("judge judges", "Name of the judge.", r"judge|justice|\bhon\b|honou?rable|magistrate|court"),
    _field("height player_height", "Height of the player.", r"height|\btall\b|\d['’′]|\d\s?(?:cm|ft)\b"),
    _field("team club plays_for", "Team that the player plays for.", r"\bteam|\bclub|squad|league|season|coach"),
    _field("tuition fees tuition_fee", "What a year of studies costs.", r"tuition|\bfees?\b|[$£€]"),
    _field("license licence", "Licence under which it may be used.", r"licen[sc]|copyright|©|creative commons|rights"),
    _field("version latest_version", "Version of the software.", r"version|\bv\d|release|\d\.\d"),
    _field("flight_number flight", "Number of the flight.", r"flight|airline|airport|\bfly"),
    _field("check_in check_in_time", "From when a room can be used.", r"check.?in|arriv"),
)
"""In no order that counts."""


def silent_fields(document: Document) -> Iterator[SilentField]:
    """The fields that a page surely does not say anything of."""
    text = f"{document.title or ''}\n{document.text}\n{chr(10).join(block.line for block in document.blocks)}".lower()
    english = (document.lang or "").lower().split("-")[0] == "en"
    return (each for each in SILENT_FIELDS if (english or not each.english) and not each.sign.search(text))


class Silence:
    """Adds such fields to the questions of one run of examples, and counts what those have answered.

    A field is called only by names that examples have answered with a value twice as often as with null: a model that
    always met a name with null would learn to see the name, and no page, and who asks for a field mostly has reason to.
    """

    def __init__(self) -> None:
        self._said: Counter[str] = Counter()
        self._silent: Counter[str] = Counter()

    def learn(self, record: Any) -> None:
        """The decoded answer of an example that was made."""
        for name, value in record.items() if isinstance(record, Mapping) else ():
            (self._silent if value in (None, []) else self._said)[_key(name)] += 1

    def ask(self, asked: Variant, document: Document, rng: random.Random) -> Variant:
        """The same question with up to four fields that the page is silent about, at any place among its own; as it is
        where there is none, and where the schema has no fields.

        A field that the schema or the right answer knows under any name is never added.
        """
        properties = asked.schema.get("properties")
        if not isinstance(properties, Mapping):
            return asked
        known = {_key(name) for name in (*properties, *asked.truth.scored_as.values(), *_said(asked))}
        known |= {_key(other) for name in tuple(known) for other in OTHER_NAMES.get(name, ())}
        free = [
            replace(each, names=names)
            for each in silent_fields(document)
            if not known & set(map(_key, each.names)) and (names := self._balanced(each.names))
        ]
        if not free:
            return asked
        return _with(asked, _drawn(free, min(rng.randint(1, _MOST), 1 + len(free) // 3), rng), rng)

    def _balanced(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if _SAID * (self._silent[name] + 1) <= self._said[name])


def _with(asked: Variant, chosen: list[SilentField], rng: random.Random) -> Variant:
    members = list(asked.schema["properties"].items())
    camel = any(name != name.lower() for name, _ in members)
    described = any("description" in part for _, part in members)
    names: list[str] = []
    for each in chosen:
        name = _written(rng.choice(each.names), camel)
        about = {"description": rng.choice(each.about)} if described and rng.random() >= _BARE else {}
        members.insert(rng.randint(0, len(members)), (name, {**rng.choice(each.nodes), **about}))
        names.append(name)
    schema = {**asked.schema, "properties": dict(members)}
    if "required" in schema:
        schema["required"] = [*schema["required"], *names]
    return Variant(schema, replace(asked.truth, absent=asked.truth.absent | set(names)))


def _drawn(free: list[SilentField], count: int, rng: random.Random) -> list[SilentField]:
    """Some of the fields without repetition, by their weights (Efraimidis and Spirakis, 2006)."""
    return sorted(free, key=lambda each: rng.random() ** (1 / each.weight), reverse=True)[:count]


def _said(asked: Variant) -> Iterator[str]:
    return iter(asked.truth.value) if isinstance(asked.truth.value, Mapping) else iter(())


def _key(name: str) -> str:
    """A name however it is written: `listPrice`, `list_price` -> list_price."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")


def _written(name: str, camel: bool) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest) if camel else name
