"""The terms and descriptions of a dl as drafts in; label-value pairs out."""

from __future__ import annotations

from fetchly.document.dom import Element
from fetchly.document.drafts import Draft, joined_shown, joined_text, labelled, linked_in, mergeable

MAX_LABEL = 120
MAX_VALUE = 500
MAX_VALUE_DRAFTS = 8


class Definitions:
    """The pending label of one dl while it is read. Each of several dd of a dt is shown with the label."""

    def __init__(self) -> None:
        self._label: Draft | None = None
        self._used = False

    def end_term(self, drafts: list[Draft], start: int) -> None:
        """A dt ends; its drafts are drafts[start:]. A plain short term waits for its description."""
        term = drafts[start:]
        if not term or not mergeable(term, characters=MAX_LABEL, count=2):
            self._put_label(drafts, start)
            self._label = None
            return
        label = Draft("pair", term[0].owner, joined_text(term), joined_shown(term), boilerplate=term[0].boilerplate)
        label.linked = linked_in(term)
        if self._label is not None and not self._used:
            label.text = f"{self._label.text} {label.text}"
            label.shown = f"{self._label.shown}, {label.shown}"
            label.linked += self._label.linked
        self._label, self._used = label, False
        del drafts[start:]

    def end_description(self, element: Element, drafts: list[Draft], start: int) -> None:
        """A dd ends; its drafts are drafts[start:]."""
        label, value = self._label, drafts[start:]
        if label is None or not value:
            return
        if not mergeable(value, characters=MAX_VALUE, count=MAX_VALUE_DRAFTS):
            self._put_label(drafts, start)
            return
        text = joined_text(value) if self._used else f"{label.text} {joined_text(value)}"
        shown = labelled(label.shown, joined_shown(value))
        linked = linked_in(value) + (0 if self._used else label.linked)
        drafts[start:] = [Draft("pair", element, text, shown, boilerplate=value[0].boilerplate, linked=linked)]
        self._used = True

    def end(self, drafts: list[Draft]) -> None:
        """The dl ends: a term without a description is still text of the page."""
        self._put_label(drafts, len(drafts))

    def _put_label(self, drafts: list[Draft], position: int) -> None:
        if self._label is not None and not self._used:
            self._label.shown = labelled(self._label.shown, "").rstrip()
            drafts.insert(position, self._label)
            self._used = True
