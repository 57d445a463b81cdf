"""Lines of a bench in; a table for people on stderr out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

_COLUMNS = {
    "tokens/step": "tokens_per_step",
    "complete ones": "tokens_per_step_complete",
    "x plain": "ratio_to_plain",
    "x fastest plain": "ratio_to_fastest_plain",
    "tokens/s": "tokens_per_s",
    "structure": "acceptance_structure",
    "values": "acceptance_values",
    "rows/step": "rows_per_step",
}
_WIDTH = 180


def print_table(lines: Sequence[Mapping[str, Any]]) -> None:
    """One row a line; figures with an interval show it."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("set", "arm", *_COLUMNS, "documents", "cut", "mismatches"):
        table.add_column(heading, no_wrap=True)
    for line in lines:
        counts = [str(line["documents"]), str(line["cut"]), _shown(line["mismatches"])]
        table.add_row(line["set"], line["arm"], *(_figure(line, key) for key in _COLUMNS.values()), *counts)
    Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH).print(table)


def _figure(line: Mapping[str, Any], key: str) -> str:
    interval = line.get(f"{key}_ci95")
    return _shown(line[key]) + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"
