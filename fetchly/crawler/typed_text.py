"""What a user's actions type into a page in; addresses, and what is said of a page, without it out.

A form may send what is typed as a part of an address, which is then told in errors and kept in states. It may be a
password: it is left out of both. What the page itself says (a title, a link) is hidden in errors alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from fetchly.crawler.actions import Action, Fill, Repeat
from fetchly.errors import FetchlyError
from fetchly.goods import Page

E = TypeVar("E", bound=FetchlyError)

_SHORT = 4  # characters: less than these stand in many a value by chance, and are only taken for a whole one
_LONG = 100  # what begins with so many of a text is that text, as much of it as there is
_CHARSETS = (
    *("utf-8", "cp1252", "iso-8859-2", "cp1251", "koi8-r", "iso-8859-7", "cp1254", "cp1255", "cp1256"),
    *("gb18030", "big5", "euc-jp", "shift_jis", "euc-kr"),
)  # of pages, whose forms write in them
_ADDRESS = re.compile(r"https?://[^\s'\"<>]*[^\s'\"<>).,:;]")
_PARTING = re.compile(r"([&;])")
_PERCENT = "%(?:25)*"  # an address within an address is encoded again
_NOTHING = re.compile(r"(?!)")


class TypedText:
    """Knows what is typed on the page at `url`. What its address has held all along is no trace of it."""

    def __init__(self, actions: Sequence[Action], url: str) -> None:
        texts = sorted({" ".join(text.split()) for text in _typed(actions)} - {""}, key=len, reverse=True)
        self._is_any = bool(texts)
        self._sent = re.compile("|".join(map(_as_sent, texts)), re.IGNORECASE) if texts else _NOTHING
        self._said = re.compile("|".join(map(_as_said, texts)), re.IGNORECASE) if texts else _NOTHING
        self._known = {pair for part in _parts(url) for pair in _PARTING.split(part)}

    def __bool__(self) -> bool:
        return self._is_any

    def address(self, url: str) -> str:
        """An address whose query and fragment are without what was typed: `?q=pears` is `?q=`."""
        path, *_ = re.split("[?#]", url, maxsplit=1)
        query, fragment = map(self._without, _parts(url))
        return f"{path}{query}{fragment}"

    def addresses(self, text: str) -> str:
        """Words in which addresses stand, with each as `address` gives it."""
        return _ADDRESS.sub(lambda found: self.address(found[0]), text)

    def words(self, said: str) -> str:
        """What a page or its browser says, with dots where it repeats what was typed."""
        return self._said.sub("...", said)

    def page(self, page: Page) -> Page:
        """A page as it is known to others: what it says is its own."""
        return replace(
            page,
            url=None if page.url is None else self.address(page.url),
            redirects=tuple(map(self.address, page.redirects)),
            warnings=tuple(map(self.addresses, page.warnings)),
        )

    def error(self, error: E) -> E:
        """The same error, all of whose words are as `addresses` gives them."""
        for name, value in vars(error).items():
            if isinstance(value, str):
                setattr(error, name, self.addresses(value))
            elif isinstance(value, tuple):
                setattr(error, name, tuple(self.addresses(each) if isinstance(each, str) else each for each in value))
        error.args = tuple(self.addresses(each) if isinstance(each, str) else each for each in error.args)
        return error

    def _without(self, part: str) -> str:
        return "".join(pair if pair in self._known else self._sent.sub("", pair) for pair in _PARTING.split(part))


def _typed(actions: Sequence[Action]) -> Iterator[str]:
    for action in actions:
        if isinstance(action, Repeat):
            yield from _typed(action.actions)
        elif isinstance(action, Fill):
            yield action.fill.text


def _parts(url: str) -> tuple[str, str]:
    """Query and fragment of an address, each with the sign before it."""
    front, sign, fragment = url.partition("#")
    _, mark, query = front.partition("?")
    return f"{mark}{query}", f"{sign}{fragment}"


def _as_sent(text: str) -> str:
    """A pattern for a text in an address, in whichever charset and however much of it is percent-encoded."""
    written = {text[:_LONG].encode(charset, "xmlcharrefreplace"): None for charset in _CHARSETS}
    spellings = [*("".join(map(_byte, each)) for each in written), r"\s+".join(map(re.escape, text[:_LONG].split()))]
    pattern = f"(?:{'|'.join(spellings)})"
    if len(text) < _SHORT:
        return f"(?<![^=/?#]){pattern}(?![^=/?#])"
    return pattern if len(text) <= _LONG else f"{pattern}.*"


def _as_said(text: str) -> str:
    words = r"\s+".join(map(re.escape, text[:_LONG].split()))
    return words if len(text) <= _LONG else f"{words}.*"


def _byte(byte: int) -> str:
    if byte == ord(" "):  # any run of blanks, line ends among them
        return rf"(?:\+|{_PERCENT}(?:20|0d|0a|09))+"
    return f"(?:{re.escape(chr(byte))}|{_PERCENT}{byte:02x})" if byte < 0x80 else f"{_PERCENT}{byte:02x}"
