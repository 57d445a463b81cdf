"""The cells of a table row as drafts in; one draft for the row out, its cells labelled by their headers.

A table may be data or mere layout: the decision is made row by row. A row whose cells are few, short and plain is
data; any other row keeps the blocks of its cells as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from fetchly.document.dom import Element
from fetchly.document.drafts import Draft, joined_shown, joined_text, labelled, linked_in, mergeable
from fetchly.goods import BlockKind

MAX_CELL = 300  # characters
MAX_CELL_DRAFTS = 8
MAX_LABEL = 80  # a longer header is a sentence and is not repeated in every row
MAX_CARRIED = 200  # characters of a cell that rowspan repeats
MAX_CARRIED_CELLS = 100  # at a time: a row with more is no row for a reader
MAX_COLUMNS = 1000  # HTML's own limit on colspan
MAX_ROWS = 65534  # HTML's own limit on rowspan
_COLONS = (":", "：")
_HEADER = re.compile(
    r"(?:^|[\s_-])(?:label|th|head|header|key|attr(?:ibute)?-?name|spec-?name)(?:[\s_-]|$)", re.IGNORECASE
)


@dataclass(slots=True)
class Cell:
    """A cell of the current row: its drafts are drafts[start:end] of the walk."""

    start: int
    end: int
    header: bool  # th
    bold: bool  # a td that looks like one
    columns: int
    rows: int


@dataclass(slots=True)
class Row:
    """A row being read. `start` is the number of drafts before it."""

    element: Element
    start: int
    heading: bool  # stands in thead
    cells: list[Cell] = field(default_factory=list)


@dataclass(slots=True)
class Carried:
    """A cell that rowspan continues into later rows."""

    rows_left: int
    columns: int
    shown: str


@dataclass(slots=True)
class Placed:
    """A cell in its column; `text` is empty for a carried one, which the page says only once."""

    column: int
    columns: int
    text: str
    shown: str
    header: bool
    bold: bool
    carried: bool


class Table:
    """The headers and the row spans of a table while it is read."""

    def __init__(self, element: Element) -> None:
        self._layout = element.get("role").lower() in ("presentation", "none")
        self._headers: dict[int, str] = {}
        self._groups: dict[int, str] = {}  # headers over several columns, which have headers of their own below
        self._carried: dict[int, Carried] = {}
        self._body_rows = 0

    def end_section(self) -> None:
        """thead, tbody or tfoot ends, and every row span with it."""
        self._carried.clear()

    def finish(self, row: Row, drafts: list[Draft], *, boilerplate: bool) -> None:
        """Replace the row's drafts (`drafts[row.start:]`) by one, where the row is data."""
        own = drafts[row.start :]
        whole = bool(row.cells) and row.cells[0].start == row.start and row.cells[-1].end == len(drafts)
        plain = whole and all(
            mergeable(drafts[cell.start : cell.end], characters=MAX_CELL, count=MAX_CELL_DRAFTS) for cell in row.cells
        )
        placed = self._place(row, drafts)
        filled = [cell for cell in placed if cell.shown]
        own_cells = [cell for cell in filled if not cell.carried]
        labels = any(cell.text.endswith(_COLONS) for cell in own_cells[:-1])
        if (self._layout and not labels) or not plain or not own or (len(filled) < 2 and not self._headers):
            return
        if self._headers and len(own_cells) == 1 and (own_cells[0].columns > 1 or own_cells[0].header):
            return  # a line between the rows: `Monday`
        kind: BlockKind = "table_row"
        if len(own_cells) > 1 and self._is_heading(row, own_cells):
            self._set_headers(own_cells)
            shown = " | ".join(cell.shown for cell in own_cells)
        else:
            self._body_rows += 1
            kind = "pair" if self._is_pair(own_cells, filled) else "table_row"
            shown = _labelled_line(filled) if labels and not self._headers else self._line(filled)
        text = " ".join(cell.text for cell in own_cells)
        depth = own[0].depth
        linked = linked_in(own)
        drafts[row.start :] = [
            Draft(kind, row.element, text, shown, depth=depth, boilerplate=boilerplate, linked=linked)
        ]

    def _is_heading(self, row: Row, cells: Sequence[Placed]) -> bool:
        """Whether a row names the columns: it stands in thead, or comes first and all its cells are headers. Two bold
        cells may as well be a label and its value."""
        if row.heading:
            return True
        if self._body_rows:
            return False
        return all(cell.header for cell in cells) or (
            len(cells) > 2 and all(cell.header or cell.bold for cell in cells)
        )

    def _set_headers(self, cells: Sequence[Placed]) -> None:
        for cell in cells:
            if len(cell.shown) > MAX_LABEL:
                continue
            for column in range(cell.column, min(cell.column + cell.columns, MAX_COLUMNS)):
                group = self._groups.get(column)
                self._headers[column] = f"{group} {cell.shown}" if group and group != cell.shown else cell.shown
                if cell.columns > 1 and not group:
                    self._groups[column] = cell.shown

    def _place(self, row: Row, drafts: Sequence[Draft]) -> list[Placed]:
        """Put the row's cells, and those carried from rows above, into columns (HTML, "forming a table")."""
        placed: list[Placed] = []
        column = 0
        for cell in row.cells:
            column = self._place_carried(column, placed)
            inside = drafts[cell.start : cell.end]
            shown = joined_shown(inside)
            text = joined_text(inside)
            placed.append(Placed(column, cell.columns, text, shown, cell.header, cell.bold, carried=False))
            if cell.rows > 1 and len(shown) <= MAX_CARRIED and len(self._carried) < MAX_CARRIED_CELLS:
                # One more than is left: the row that is being read takes its own share below.
                self._carried[column] = Carried(cell.rows, cell.columns, shown)
            column += cell.columns
        self._place_carried(column, placed)
        for start in list(self._carried):
            self._carried[start].rows_left -= 1
            if self._carried[start].rows_left <= 0:
                del self._carried[start]
        return placed

    def _place_carried(self, column: int, placed: list[Placed]) -> int:
        while column in self._carried:
            carried = self._carried[column]
            placed.append(Placed(column, carried.columns, "", carried.shown, header=False, bold=False, carried=True))
            column += carried.columns
        return column

    def _is_pair(self, own: Sequence[Placed], filled: Sequence[Placed]) -> bool:
        if self._headers or len(own) != 2 or len(filled) != 2 or len(own[0].text) > MAX_LABEL:
            return False
        return self._labels(own)

    def _line(self, cells: Sequence[Placed]) -> str:
        if not self._headers and len(cells) > 1 and self._labels(cells):
            return labelled(cells[0].shown, " | ".join(cell.shown for cell in cells[1:]))
        parts: list[str] = []
        before = ""
        for cell in cells:
            label = self._header_of(cell)
            said = label == before or label.casefold() == cell.shown.casefold()
            parts.append(cell.shown if said or not label else labelled(label, cell.shown))
            before = label
        return " | ".join(parts)

    def _header_of(self, cell: Placed) -> str:
        """The header over a cell: that of its first column, or the common one over all of its columns."""
        last = self._groups.get(cell.column + cell.columns - 1)
        if cell.columns > 1 and last and last == self._groups.get(cell.column):
            return last
        return self._headers.get(cell.column, "")

    def _labels(self, cells: Sequence[Placed]) -> bool:
        """Whether the first cell of a row names what the others say."""
        first, second = cells[0], cells[1]
        if first.text.endswith(_COLONS) or (first.header and not second.header):
            return True
        return len(cells) == 2 and first.bold and not second.bold and not second.header and len(first.text) <= MAX_LABEL


def _labelled_line(cells: Sequence[Placed]) -> str:
    """A row without headers in which cells that end with a colon label the next one: `Colour: red | Size: L`."""
    parts: list[str] = []
    label = ""
    for number, cell in enumerate(cells, 1):
        if cell.text.endswith(_COLONS) and not label and number < len(cells):
            label = cell.shown
        else:
            parts.append(labelled(label, cell.shown))
            label = ""
    return " | ".join(parts)


def looks_like_header(cell: Element) -> bool:
    """Whether a td is written as a header: all of it bold, or called so by its class."""
    inside = [child for child in cell.children if not (isinstance(child, str) and child.isspace())]
    if len(inside) == 1 and isinstance(inside[0], Element) and inside[0].tag in ("b", "strong"):
        return True
    return "class" in cell.attributes and _HEADER.search(cell.attributes["class"]) is not None


def span(element: Element, name: str) -> int:
    """A colspan or rowspan, within HTML's limits; 1 where it is missing or nonsense. rowspan=0 runs to the end."""
    written = element.get(name).strip()
    if not written.isascii() or not written.isdigit() or len(written) > 6:
        return 1
    if name == "rowspan":
        return min(int(written), MAX_ROWS) or MAX_ROWS
    return min(int(written), MAX_COLUMNS) or 1
