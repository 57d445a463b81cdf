"""The cells of a table row as drafts in; one draft for the row out, its cells labelled by their headers.

A table may be data or mere layout: the decision is made row by row. A row whose cells are few, short and plain is
data; any other row keeps the blocks of its cells as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fetchly.document.dom import Element
from fetchly.document.drafts import Draft, joined_shown, joined_text, labelled, mergeable
from fetchly.goods import BlockKind

MAX_CELL = 300  # characters
MAX_CELL_DRAFTS = 8
MAX_LABEL = 80  # a longer header is a sentence and is not repeated in every row
MAX_CARRIED = 200  # characters of a cell that rowspan repeats
MAX_CARRIED_CELLS = 100  # at a time: a row with more is no row for a reader
MAX_COLUMNS = 1000  # HTML's own limit on colspan
MAX_ROWS = 65534  # HTML's own limit on rowspan


@dataclass(slots=True)
class Cell:
    """A cell of the current row: its drafts are drafts[start:end] of the walk."""

    start: int
    end: int
    header: bool
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
    text: str
    shown: str
    header: bool
    carried: bool


class Table:
    """The headers and the row spans of a table while it is read."""

    def __init__(self, element: Element) -> None:
        self._layout = element.get("role").lower() in ("presentation", "none")
        self._headers: dict[int, str] = {}
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
        if self._layout or not plain or not own or (len(filled) < 2 and not self._headers):
            return
        heading = row.heading or (not self._body_rows and all(cell.header for cell in own_cells))
        if heading and len(own_cells) > 1:
            self._headers |= {cell.column: cell.shown for cell in own_cells if len(cell.shown) <= MAX_LABEL}
            shown = " | ".join(cell.shown for cell in own_cells)
            kind: BlockKind = "table_row"
        else:
            self._body_rows += 1
            kind = "pair" if self._is_pair(own_cells, filled) else "table_row"
            shown = self._line(filled)
        text = " ".join(cell.text for cell in own_cells)
        depth = own[0].depth
        drafts[row.start :] = [Draft(kind, row.element, text, shown, depth=depth, boilerplate=boilerplate)]

    def _place(self, row: Row, drafts: Sequence[Draft]) -> list[Placed]:
        """Put the row's cells, and those carried from rows above, into columns (HTML, "forming a table")."""
        placed: list[Placed] = []
        column = 0
        for cell in row.cells:
            column = self._place_carried(column, placed)
            inside = drafts[cell.start : cell.end]
            shown = joined_shown(inside)
            placed.append(Placed(column, joined_text(inside), shown, cell.header, carried=False))
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
            placed.append(Placed(column, "", carried.shown, header=False, carried=True))
            column += carried.columns
        return column

    def _is_pair(self, own: Sequence[Placed], filled: Sequence[Placed]) -> bool:
        if self._headers or len(own) != 2 or len(filled) != 2 or len(own[0].text) > MAX_LABEL:
            return False
        return (own[0].header and not own[1].header) or own[0].text.endswith((":", "："))

    def _line(self, cells: Sequence[Placed]) -> str:
        if not self._headers and len(cells) > 1 and (cells[0].header or cells[0].text.endswith((":", "："))):
            return labelled(cells[0].shown, " | ".join(cell.shown for cell in cells[1:]))
        parts: list[str] = []
        for cell in cells:
            label = self._headers.get(cell.column, "")
            same = label.casefold() == cell.shown.casefold()
            parts.append(cell.shown if same or not label else labelled(label, cell.shown))
        return " | ".join(parts)


def span(element: Element, name: str) -> int:
    """A colspan or rowspan, within HTML's limits; 1 where it is missing or nonsense. rowspan=0 runs to the end."""
    written = element.get(name).strip()
    if not written.isascii() or not written.isdigit() or len(written) > 6:
        return 1
    if name == "rowspan":
        return min(int(written), MAX_ROWS) or MAX_ROWS
    return min(int(written), MAX_COLUMNS) or 1
