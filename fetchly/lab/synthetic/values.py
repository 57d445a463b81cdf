"""A field and a writer in, an invented value out: as the page writes it, and as plain JSON."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fetchly.lab.synthetic.catalogue import Field, Kind
from fetchly.lab.synthetic.writer import Writer

if TYPE_CHECKING:
    from fetchly.lab.synthetic.entries import Entry

_ISBN_WEIGHTS = (1, 3) * 6


@dataclass(frozen=True, slots=True)
class Value:
    """One value. `text` stands on the page as it is; `json` is what it says: a number, an ISO 8601 date, minutes, the
    code of a choice, an absolute URL; `span` is the part of `text` that says it.

    `parts` are values of their own within `text`; `broken`: the page puts the parts on lines of their own, so that
    `text` as a whole stands nowhere. `unit` stands in the label instead. `items` and `rows` are those of a list.
    """

    kind: Kind
    text: str
    json: Any
    span: str = ""
    unit: str = ""
    broken: bool = False
    parts: Mapping[str, str] = field(default_factory=dict)
    items: tuple[str, ...] = ()
    rows: tuple[Entry, ...] = ()


def make(known: Field, writer: Writer, theme: str, site: str) -> Value:
    """A value for a field that is no part and holds no rows. `site` is the host of the page."""
    name, *arguments = known.make
    if name in _TEXTS:
        text = _TEXTS[name](writer)
        return Value(known.kind, text, text, text)
    if name in ("sentence", "paragraph"):
        text = writer.sentence(theme) if name == "sentence" else writer.paragraph(theme)
        return Value("prose", text, text, text)
    return _MAKERS[name](writer, arguments, site)


def _bank(writer: Writer, arguments: list[str], _site: str) -> Value:
    text = writer.chance.choice("ABCDEFG") if arguments[0] == "energy" else writer.pick(arguments[0])
    return Value("text", text, text, text)


def _code(writer: Writer, arguments: list[str], _site: str) -> Value:
    text = writer.code(writer.chance.choice(arguments[0].split("|")))
    return Value("text", text, text, text)


def money(writer: Writer, amount: float, *, cents: bool) -> Value:
    """An amount of money."""
    text = writer.money(amount, cents=cents)
    span = writer.number(amount, 2 if cents else 0)
    return Value("money", text, amount, span if span in text else text, parts={"currency": _sign(text, span)})


def _sign(text: str, figure: str) -> str:
    return text.replace(figure, "").strip()


def _money(writer: Writer, arguments: list[str], _site: str) -> Value:
    low, high = int(arguments[0]), int(arguments[1])
    if arguments[2] == "round":
        return money(writer, round(writer.chance.randint(low, high), -2), cents=False)
    if writer.chance.random() < 0.15:
        return money(writer, writer.chance.randint(low, high), cents=False)
    amount = writer.chance.randint(low, high) + writer.chance.choice((0.0, 0.5, 0.9, 0.95, 0.99, 0.49))
    return money(writer, amount, cents=True)


def _int(writer: Writer, arguments: list[str], _site: str) -> Value:
    number = writer.chance.randint(int(arguments[0]), int(arguments[1]))
    text = writer.number(number)
    return Value("integer", text, number, text)


def _year(writer: Writer, arguments: list[str], _site: str) -> Value:
    number = writer.chance.randint(int(arguments[0]), int(arguments[1]))
    return Value("integer", str(number), number, str(number))


def _decimal(writer: Writer, arguments: list[str], _site: str) -> Value:
    digits = int(arguments[2])
    number = round(writer.chance.uniform(float(arguments[0]), float(arguments[1])), digits)
    text = writer.number(number, digits)
    return Value("number", text, number, text)


def _measure(writer: Writer, arguments: list[str], site: str) -> Value:
    bare = _decimal(writer, arguments, site)
    number = int(bare.json) if arguments[2] == "0" else bare.json
    unit = arguments[3]
    if writer.chance.random() < 0.25:
        return Value("number", bare.text, number, bare.text, unit=unit)
    return Value("number", f"{bare.text} {unit}", number, bare.text)


def date(writer: Writer, day: datetime.date) -> Value:
    """A date."""
    text = writer.date(day)
    return Value("date", text, day.isoformat(), text)


def _date(writer: Writer, arguments: list[str], _site: str) -> Value:
    return date(writer, writer.day(arguments[0]))


def _datetime(writer: Writer, arguments: list[str], _site: str) -> Value:
    day, hour, minute = writer.day(arguments[0]), writer.chance.randint(8, 21), writer.chance.choice((0, 0, 15, 30, 45))
    comma = "" if writer.date_style == "iso" else ","
    text = f"{writer.date(day)}{comma} {writer.clock(hour, minute)}"
    return Value("date-time", text, f"{day.isoformat()}T{hour:02}:{minute:02}:00Z", text)


def _minutes(writer: Writer, arguments: list[str], _site: str) -> Value:
    low, high = int(arguments[0]), int(arguments[1])
    number = writer.chance.randint(low, high)
    return minutes(writer, number - number % 5 if number > 20 else number)


def minutes(writer: Writer, number: int) -> Value:
    """A length of time."""
    text = writer.minutes(number)
    return Value("minutes", text, number, text)


def _choice(writer: Writer, arguments: list[str], _site: str) -> Value:
    vocabulary = writer.words.choices[arguments[0]]
    code = writer.chance.choice(tuple(vocabulary))
    text = writer.chance.choice(vocabulary[code])
    return Value("choice", text, code, text)


def _flag(writer: Writer, _arguments: list[str], _site: str) -> Value:
    state = writer.chance.random() < 0.6
    text = writer.pick("yes" if state else "no")
    return Value("flag", text, state, text)


def _list(writer: Writer, arguments: list[str], _site: str) -> Value:
    wanted = writer.chance.randint(int(arguments[1]), int(arguments[2]))
    return listed(tuple(dict.fromkeys(writer.pick(arguments[0]) for _ in range(wanted))))


def _people(writer: Writer, arguments: list[str], _site: str) -> Value:
    wanted = writer.chance.randint(int(arguments[0]), int(arguments[1]))
    return listed(tuple(dict.fromkeys(writer.person() for _ in range(wanted))))


def listed(items: tuple[str, ...]) -> Value:
    """A list of texts; as one text it has commas."""
    text = ", ".join(items)
    return Value("list", text, list(items), text, items=items)


def _address(writer: Writer, _arguments: list[str], _site: str) -> Value:
    street, code, city = writer.pick("street"), writer.postcode(), writer.town()
    town = f"{city} {code}" if writer.words.lang == "en" else f"{code} {city}"
    text = f"{street}, {town}"
    broken = writer.chance.random() < 0.3
    return Value("text", text, text, text, broken=broken, parts={"street": street, "postal_code": code, "city": city})


def _match(writer: Writer, _arguments: list[str], _site: str) -> Value:
    home, away = writer.team(), writer.team()
    text = f"{home} {writer.chance.choice(('–', '-', 'vs.'))} {away}"
    return Value("text", text, text, text, parts={"home": home, "away": away})


def _link(writer: Writer, _arguments: list[str], site: str) -> Value:
    return Value("link", "", f"https://{site}/{writer.slug(writer.pick('np'))}-{writer.code('####')}")


def _image(writer: Writer, _arguments: list[str], site: str) -> Value:
    return Value("image", writer.pick("np"), f"https://{site}/media/{writer.code('######')}.jpg")


def _isbn(writer: Writer) -> str:
    digits = [9, 7, 8, *(writer.chance.randint(0, 9) for _ in range(9))]
    check = -sum(d * w for d, w in zip(digits, _ISBN_WEIGHTS, strict=True)) % 10
    text = "".join(map(str, (*digits, check)))
    return f"{text[:3]}-{text[3]}-{text[4:8]}-{text[8:12]}-{text[12]}" if writer.chance.random() < 0.6 else text


def _email(writer: Writer) -> str:
    domain = f"{writer.slug(writer.brand())}.example"
    people = f"{writer.slug(writer.pick('first'))}.{writer.slug(writer.pick('last'))}"
    return f"{writer.chance.choice(('info', 'office', 'mail', people, people))}@{domain}"


def _hours(writer: Writer) -> str:
    names = writer.locale.days["format"]["abbreviated"]
    opening, closing = writer.chance.randint(7, 11), writer.chance.randint(16, 21)
    text = f"{names[0]}–{names[4]} {writer.clock(opening, 0)}–{writer.clock(closing, 0)}"
    return f"{text}, {names[5]} {writer.clock(10, 0)}–{writer.clock(14, 0)}" if writer.chance.random() < 0.5 else text


def _result(writer: Writer) -> str:
    return f"{writer.chance.randint(0, 5)}{writer.chance.choice((':', '–', '-', ' : '))}{writer.chance.randint(0, 5)}"


def _from(bank: str) -> Callable[[Writer], str]:
    return lambda writer: writer.pick(bank)


_TEXTS: dict[str, Callable[[Writer], str]] = {
    **{
        bank: _from(bank)
        for bank in ("product", "dish", "headline", "event", "course", "paper", "property", "hotel", "eatery", "venue",
                     "press", "journal", "authority", "decision", "artefact", "question", "station", "work")
    },
    "brand": Writer.brand,
    "person": Writer.person,
    "first_name": Writer.first_name,
    "company": Writer.company,
    "team": Writer.team,
    "phone": Writer.phone,
    "place": lambda writer: writer.town() + (f", {writer.pick('country')}" if writer.chance.random() < 0.3 else ""),
    "email": _email,
    "isbn": _isbn,
    "hours": _hours,
    "result": _result,
    "app": lambda writer: f"{writer.brand()} {writer.chance.choice(('Note', 'Studio', 'Sync', 'Desk', 'Go', 'Map'))}",
    "car": lambda writer: f"{writer.brand()} {writer.brand()} {writer.chance.choice(('1.4', '2.0 T', 'E', 'GT'))}",
    "clock": lambda writer: writer.clock(writer.chance.randint(6, 22), writer.chance.choice((0, 5, 10, 20, 30, 45))),
}  # fmt: skip
_MAKERS: dict[str, Callable[[Writer, list[str], str], Value]] = {
    "bank": _bank,
    "code": _code,
    "money": _money,
    "int": _int,
    "year": _year,
    "decimal": _decimal,
    "measure": _measure,
    "date": _date,
    "datetime": _datetime,
    "minutes": _minutes,
    "choice": _choice,
    "flag": _flag,
    "list": _list,
    "people": _people,
    "address": _address,
    "match": _match,
    "link": _link,
    "image": _image,
}
