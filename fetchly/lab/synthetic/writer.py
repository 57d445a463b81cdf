"""A source of chance and a language in, invented words, names, numbers, dates and sentences in that language out."""

from __future__ import annotations

import datetime
import re
import unicodedata
from random import Random
from typing import Literal

from babel import Locale
from babel.dates import format_date, format_skeleton
from babel.numbers import format_currency, format_decimal, get_currency_symbol
from babel.units import format_unit

from fetchly.lab.synthetic.words import Words

_SLOT = re.compile(r"\{(\w+)\}")
_BRAND_HEAD = ("Al", "Bo", "Cal", "Dor", "El", "Fen", "Gra", "Hul", "Ima", "Jol", "Ka", "Lum", "Mo", "Nor", "Ovi",
               "Pra", "Qui", "Ras", "Sol", "Tri", "Ul", "Vel", "Wex", "Yar", "Zen")  # fmt: skip
_BRAND_TAIL = ("bex", "da", "dine", "fort", "gard", "gio", "ko", "lan", "lux", "mark", "mio", "nova", "pax", "ra",
               "rix", "sen", "tek", "ton", "va", "vik", "zo")  # fmt: skip
_LETTERS = "ABCDEFGHKLMNPRSTUVWXYZ"
_CURRENCIES = {"US": "USD", "GB": "GBP", "CH": "CHF", "CA": "CAD", "MX": "MXN"}
_PHONES = {
    "US": ("(###) ###-####", "###-###-####", "+1 ### ### ####"),
    "GB": ("0### ### ####", "+44 ## #### ####", "0#### ######"),
    "DE": ("0### #######", "+49 ## #### ####", "0#### / ## ## ##"),
    "AT": ("+43 # ### ## ##", "0#### ####"),
    "CH": ("0## ### ## ##", "+41 ## ### ## ##"),
    "FR": ("0# ## ## ## ##", "+33 # ## ## ## ##"),
    "CA": ("### ###-####", "1 ### ###-####"),
    "BE": ("0## ## ## ##", "+32 ## ### ## ##"),
    "ES": ("9## ### ###", "+34 9## ## ## ##"),
    "MX": ("## #### ####", "+52 ## #### ####"),
    "IT": ("0# #### ####", "+39 0## ######"),
    "NL": ("0##-#######", "+31 ## ### ## ##"),
}
_POSTCODES = {
    "US": "#####",
    "GB": "??# #??",
    "AT": "####",
    "CH": "####",
    "CA": "?#? #?#",
    "BE": "####",
    "NL": "#### ??",
}
TODAY = datetime.date(2026, 6, 15)


class Writer:
    """Invents the content of one page. `locale` is a language with a region; spaces in numbers are plain spaces."""

    def __init__(self, chance: Random, words: Words, locale: str) -> None:
        self.chance = chance
        self.words = words
        self.locale = Locale.parse(locale)
        self.region = locale.partition("_")[2]
        self.currency = _CURRENCIES.get(self.region, "EUR")
        self.date_style = chance.choice(("long", "long", "medium", "numeric", "iso"))
        self.money_style = chance.choice(("symbol", "symbol", "symbol", "code first", "code last"))

    # ---- words

    def pick(self, bank: str) -> str:
        """An entry of a bank of words, its slots filled."""
        return self.fill(self.chance.choice(self.words.banks[bank]))

    def pick_ui(self, name: str) -> str:
        """A text of the page's furniture."""
        return self.fill(self.chance.choice(self.words.ui[name]))

    def fill(self, template: str) -> str:
        """A template with every {slot} filled; the same slot with a digit behind it is another word."""
        return _SLOT.sub(lambda match: self._slot(match[1]), template)

    def _slot(self, name: str) -> str:
        chance = self.chance
        if name == "n":
            return str(chance.randint(2, 95))
        if name == "n2":
            return str(chance.randint(2, 9))
        if name == "year":
            return str(chance.randint(1962, 2025))
        if name == "model":
            return self.code(chance.choice(("?##", "?? ###", "##?", "?-###")))
        word = name.rstrip("2")
        method = getattr(self, word, None) if word in ("brand", "town", "person", "company", "team") else None
        if method is not None:
            return str(method())
        text = self.pick(word.lower())
        return text[:1].upper() + text[1:] if word[0].isupper() else text

    def first_name(self) -> str:
        """A given name."""
        return self.pick("first")

    def person(self) -> str:
        """Given name and surname, sometimes with an initial between."""
        middle = f" {self.chance.choice(_LETTERS)}." if self.chance.random() < 0.08 else ""
        return f"{self.pick('first')}{middle} {self.pick('last')}"

    def brand(self) -> str:
        """An invented brand."""
        name = self.chance.choice(_BRAND_HEAD) + self.chance.choice(_BRAND_TAIL)
        return name.upper() if self.chance.random() < 0.1 else name

    def town(self) -> str:
        """An invented town."""
        return self.pick("town_head") + self.pick("town_tail")

    def company(self) -> str:
        """An invented company."""
        return self.pick("company")

    def team(self) -> str:
        """An invented sports club."""
        return self.pick("team")

    def code(self, pattern: str) -> str:
        """A code: `#` is a digit, `?` a capital letter."""
        digits, letters = "0123456789", _LETTERS
        chance = self.chance
        return "".join(
            chance.choice(digits) if c == "#" else chance.choice(letters) if c == "?" else c for c in pattern
        )

    def slug(self, text: str) -> str:
        """A text as it stands in URLs."""
        plain = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("ı", "i")).encode("ascii", "ignore")
        return re.sub(r"[^a-z0-9]+", "-", plain.decode().lower()).strip("-") or "page"

    def sentence(self, theme: str) -> str:
        """A sentence about a theme."""
        opener = self.pick("opener") if self.chance.random() < 0.5 else ""
        tail = self.pick("tail") if self.chance.random() < 0.6 else ""
        text = opener + self.fill(self.chance.choice(self.words.clauses[theme])) + tail
        return f"{text[0].upper()}{text[1:]}."

    def paragraph(self, theme: str) -> str:
        """One to four sentences about a theme."""
        return " ".join(self.sentence(theme) for _ in range(self.chance.choice((1, 2, 2, 3, 4))))

    # ---- numbers and dates

    def number(self, value: float, digits: int = 0) -> str:
        """A number as the language writes it."""
        pattern = "#,##0." + "0" * digits if digits else "#,##0"
        return _plain(format_decimal(value, format=pattern, locale=self.locale))

    def money(self, value: float, *, cents: bool) -> str:
        """An amount with its currency, in the page's own way."""
        figure = self.number(value, 2 if cents else 0)
        if self.money_style == "symbol" and cents:
            return _plain(format_currency(value, self.currency, locale=self.locale))
        sign = self.currency if self.money_style != "symbol" else self.currency_sign()
        after = str(self.locale.currency_formats["standard"].pattern).rstrip().endswith("¤")
        if self.money_style == "code first" or (self.money_style == "symbol" and not after):
            space = "" if len(sign) == 1 and self.words.lang == "en" else " "
            return f"{sign}{space}{figure}"
        return f"{figure} {sign}"

    def currency_sign(self) -> str:
        """What stands beside amounts: a sign or a code."""
        if self.money_style != "symbol":
            return self.currency
        return str(get_currency_symbol(self.currency, locale=self.locale))

    def date(self, day: datetime.date) -> str:
        """A date in the page's style."""
        if self.date_style == "iso":
            return day.isoformat()
        if self.date_style == "numeric":
            return _plain(format_skeleton("yMd", day, locale=self.locale))
        return _plain(format_date(day, format=self.date_style, locale=self.locale))

    def clock(self, hour: int, minute: int) -> str:
        """A time of day."""
        if self.region in ("US", "CA") and self.words.lang == "en":
            return f"{hour % 12 or 12}:{minute:02} {'PM' if hour >= 12 else 'AM'}"
        return f"{hour}:{minute:02}" if self.chance.random() < 0.3 else f"{hour:02}:{minute:02}"

    def minutes(self, value: int) -> str:
        """A length of time in words of the language."""
        length: Literal["short", "long"] = self.chance.choice(("short", "short", "long"))
        hours, rest = divmod(value, 60)
        if not hours or self.chance.random() < 0.3:
            return _plain(format_unit(value, "duration-minute", length=length, locale=self.locale))
        parts = [format_unit(hours, "duration-hour", length=length, locale=self.locale)]
        parts += [format_unit(rest, "duration-minute", length=length, locale=self.locale)] if rest else []
        return _plain(" ".join(parts))

    def day(self, when: str) -> datetime.date:
        """A day: "past" (three years), "future" (a year) or "birth"."""
        span = {"past": (-1100, -1), "future": (1, 380), "birth": (-29000, -7500)}[when]
        return TODAY + datetime.timedelta(days=self.chance.randint(*span))

    # ---- places

    def phone(self) -> str:
        """A telephone number of the page's country."""
        return self.code(self.chance.choice(_PHONES[self.region])).replace("(0", "(2")

    def postcode(self) -> str:
        """A postal code of the page's country."""
        return self.code(_POSTCODES.get(self.region, "#####"))


def _plain(text: str) -> str:
    """A space for each of the special ones that CLDR puts into numbers."""
    return " ".join(text.split())
