"""Measured rows in; a picture of acceptance by depth and of speed by arm out. matplotlib is loaded when it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from fetchly_llm.bench.figures import ALL, DecodeRow
from fetchly_llm.errors import RequestInvalid


def require_matplotlib() -> None:
    """Raises RequestInvalid where it is not installed: to be called before the work that a plot would show."""
    if find_spec("matplotlib") is None:
        raise RequestInvalid("a plot needs matplotlib", hint="pip install 'fetchly[bench]'")


def plot_decode(rows: Sequence[DecodeRow], file: Path) -> None:
    """Write a PNG about all sets together: left, how often walks go on from each depth; right, each arm's median
    speed in units of the fastest plain decoding (tokens per step in a replay) with its 95 % interval. Raises OSError.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in rows if row.set == ALL]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for row in rows:
        if row.acceptance_by_depth:
            left.plot(range(len(row.acceptance_by_depth)), row.acceptance_by_depth, marker="o", label=row.arm)
    left.set(
        xlabel="depth of the node", ylabel="share of walks that go on", ylim=(0, 1.03), title="Acceptance by depth"
    )
    if left.lines:
        left.legend()
    is_replay = any(row.replay for row in rows)
    for row in rows:
        value = row.tokens_per_step if is_replay else row.ratio_to_fastest_plain
        interval = row.tokens_per_step_ci95 if is_replay else row.ratio_to_fastest_plain_ci95
        right.barh(row.arm, value or 0.0, color="#7aa6c2")
        if interval is not None:
            right.plot(interval, (row.arm, row.arm), color="black", marker="|")
        right.annotate(f" {value:.2f}" if value else " not measured", (max(value or 0, *(interval or ())), row.arm))
    right.margins(x=0.12)
    right.invert_yaxis()
    documents = max((row.documents for row in rows), default=0)
    right.set(
        title="Tokens per step" if is_replay else "Speed, fastest plain decoding = 1",
        xlabel=f"median over {documents} documents, 95 % interval",
    )
    figure.savefig(file, format="png", dpi=130)
