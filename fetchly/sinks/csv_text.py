"""Values in, lines of CSV out (RFC 4180: commas, CRLF, quotes doubled).

The rules. Objects are flattened to columns `a.b`; a list, and an object of unknown fields, is JSON in one cell. Null is
an empty cell, the empty text is `""`. A text that a spreadsheet might run (OWASP, CSV injection) gets an apostrophe in
front, and so does one that begins with an apostrophe: who takes one leading apostrophe off has every text back.
Numbers are never touched. Half of a surrogate pair, which UTF-8 has no form for, is written as the escape `\\ud800`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fetchly.sinks.json_text import to_json

_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")
_QUOTED = re.compile(r'[",\r\n]|^\s|\s$|^$')


def line(cells: Iterable[Any], where: str) -> str:
    """One line; of one empty cell it is `""`, as most readers skip empty lines. Errors: OutputError NOT_JSON."""
    return (",".join(cell(value, where) for value in cells) or '""') + "\r\n"


def cell(value: Any, where: str) -> str:
    """One cell, quoted where it must be."""
    if value is None:
        return ""
    if not isinstance(value, str):
        text = to_json(value, where)
    else:
        text = f"'{value}" if value.startswith(_RISKY) else value
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if _QUOTED.search(text) is None:
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """The cells of a value by the names of their columns; what is no object is the column `value`."""
    if not isinstance(value, dict):
        return {prefix or "value": value}
    cells: dict[str, Any] = {}
    for key, item in value.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(item, dict) and item:
            cells.update(flat(item, name))
        else:
            cells[name] = item
    return cells
