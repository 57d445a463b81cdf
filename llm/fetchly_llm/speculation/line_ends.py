"""The bytes of a vocabulary in; which tokens end a page's line, and which end and begin a JSON string, out."""

from __future__ import annotations

from collections.abc import Sequence

CLOSERS = (b'",', b'"],', b'"}', b'"]', b'"')
"""What ends a string in our layout: an item's or a value's, an array's last, an object's last."""

_MARKS = frozenset([b"-", b"#", b"##", b"###", b"####", b" -", b"\n", b"\n\n", b" ", b"|", b" |"])


class LineEnds:
    """Facts about the tokens of one vocabulary; made once for a tokenizer.

    `keys[token]` is the id that stands for `token` where contexts are compared: without a leading space, and without
    the end of a string that is glued to it (the `.",` of an answer is the `.` of the page).
    """

    def __init__(self, spellings: Sequence[bytes]) -> None:
        self._spellings = spellings
        self._ids = {spelling: token for token, spelling in reversed(list(enumerate(spellings))) if spelling}
        self.closers = tuple(self._ids[closer] for closer in CLOSERS if closer in self._ids)
        self._closer_set = frozenset(self.closers)
        self.keys = tuple(self._key(token) for token in range(len(spellings)))
        self._marks = frozenset(self._ids[mark] for mark in _MARKS if mark in self._ids)

    def breaks(self, token: int) -> bool:
        """Whether a line of the page ends before `token`."""
        return self._spellings[token][:1] == b"\n"

    def marks(self, token: int) -> bool:
        """Whether `token` is a line break or a mark at a line's beginning, which no value takes over."""
        return token in self._marks

    def closes(self, token: int) -> bool:
        """Whether `token` is nothing but the end of a string."""
        return token in self._closer_set

    def opens(self, token: int) -> bool:
        """Whether a string may begin after `token`."""
        spelling = self._spellings[token]
        return spelling[-1:] == b'"' and spelling[:1] in b' [{"'

    def glued(self, token: int) -> tuple[int | None, ...]:
        """`token` and the end of a string in one token, for each of CLOSERS; None where there is no such token."""
        return tuple(self._ids.get(self._spellings[token] + closer) for closer in CLOSERS)

    def _key(self, token: int) -> int:
        spelling = self._spellings[token]
        closer = next((closer for closer in CLOSERS if spelling.endswith(closer)), b"")
        text = spelling[: len(spelling) - len(closer)]
        if text and text[-1:] not in b' [{:,"':  # else the quote begins a string
            spelling = text
        if spelling[:1] == b" " and len(spelling) > 1:
            spelling = spelling[1:]
        return self._ids.get(spelling, token)
