"""Pieces of inline text in; the run that they make up to the next block boundary out: as the page says it, as it is
shown (with marks for links), and the pictures in it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from fetchly.document.clean import collapse
from fetchly.document.drafts import Draft


@dataclass(slots=True)
class Run:
    """The text since the last block boundary. `blank`: nothing but white space so far."""

    pieces: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    images: list[Draft] = field(default_factory=list)  # a picture waits until the sentence around it is over
    blank: bool = True
    link: list[str] | None = None  # the text of the link that is being read
    alternatives: list[str] = field(default_factory=list)  # the words of the pictures in it
    after_link: bool = False
    links_touch: bool = False  # a link began right after another one
    after_span: bool = False
    spans_touch: bool = False  # a styled span began right after another one
    linked: int = 0  # characters of the run that links hold
    taken: int = 0  # runs before this one

    def add(self, text: str) -> None:
        """Text of the page as it stands."""
        if not text.isspace():
            self.blank = False
        # `<span class=town>Milano</span><span class=street>Via Aldini</span>`: the gap is in the style sheet.
        glued = self.spans_touch and "".join(self.pieces[-1:])[-1:].islower() and text[:1].isupper()
        if self.links_touch or glued:
            self.space()
        self.after_link = self.after_span = self.links_touch = self.spans_touch = False
        if self.pieces and self.pieces[-1].endswith(":") and _starts_value(self.pieces[-1], text):
            self.space()  # `<b>Label:</b><span>value</span>`: the space is in the style sheet
        self.pieces.append(text)
        self.shown.append(text)
        if self.link is not None:
            self.link.append(text)
            self.linked += len(collapse(text))

    def space(self) -> None:
        """A gap on the screen that the mark-up does not write."""
        self.pieces.append(" ")
        self.shown.append(" ")
        if self.link is not None:
            self.link.append(" ")

    def label_ends(self) -> None:
        """What follows is the value of what stands before: `Brand: Acme`, whether or not the page writes a colon."""
        if self.blank:
            return
        while self.shown[-1].isspace():
            self.shown.pop()
        label = self.shown[-1].rstrip()
        if not label.endswith((":", "：")):
            self.shown[-1] = f"{label}:"
        self.space()

    def mark(self, mark: str) -> None:
        """A mark for the model, which the page does not say."""
        self.shown.append(f" {mark}")

    def begin_link(self) -> None:
        """A link begins; two of them side by side are two things."""
        self.links_touch = self.after_link
        self.link, self.alternatives = [], []

    def begin_span(self) -> None:
        """A styled span begins."""
        self.spans_touch = self.after_span

    def end_span(self) -> None:
        """A styled span ends."""
        self.after_span, self.spans_touch = True, False

    def end_link(self) -> str:
        """The text of the link that ends."""
        text = collapse("".join(self.link or ())) or collapse(" ".join(self.alternatives))
        self.link, self.after_link, self.links_touch = None, True, False
        return text

    def take(self) -> tuple[str, str] | None:
        """End the run: its text and its shown form, both raw; None where there is nothing to read."""
        found = ("".join(self.pieces), "".join(self.shown)) if self.pieces and not self.blank else None
        self.pieces, self.shown, self.blank, self.linked = [], [], True, 0
        self.taken += 1
        self.after_link = self.links_touch = self.after_span = self.spans_touch = False
        if self.link is not None:
            self.link.append(" ")
        return found


def _starts_value(label: str, text: str) -> bool:
    """Whether `text` after a colon is a value: not the minutes of a time, not the rest of a URL."""
    first = text[:1]
    if first.isdigit():
        return len(label) > 1 and not label[-2].isdigit()
    return len(label) > 1 and (first.isalpha() or unicodedata.category(first or " ") == "Sc")
