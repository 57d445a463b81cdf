"""The lines of a training log in; a picture of its loss out. Without matplotlib nothing is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_SMOOTHED = 0.95


def draw_loss(log: Sequence[Mapping[str, Any]], file: Path) -> bool:
    """Write a PNG: the loss of each step, its running mean, and that of the held-out examples. Says whether it did."""
    if not log or find_spec("matplotlib") is None:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    steps = [line["step"] + 1 for line in log]
    axes.plot(steps, [line["loss"] for line in log], color="#c9d8e3", linewidth=0.8, label="step")
    axes.plot(steps, _running_mean([line["loss"] for line in log]), color="#33658a", label="running mean")
    looks = [line for line in log if line.get("held_out") is not None]
    if looks:
        axes.plot(
            [line["step"] + 1 for line in looks],
            [line["held_out"] for line in looks],
            color="#c8553d",
            marker="o",
            label="held out",
        )
    axes.set(xlabel="optimizer step", ylabel="nats a choice", ylim=(0, None), title="Loss")
    axes.legend()
    figure.savefig(file, format="png", dpi=130)
    return True


def _running_mean(values: Sequence[float]) -> list[float]:
    """Exponentially weighted, without the pull of its start (as Adam corrects its moments, arXiv 1412.6980)."""
    out: list[float] = []
    mean = weight = 0.0
    for value in values:
        mean = _SMOOTHED * mean + (1 - _SMOOTHED) * value
        weight = _SMOOTHED * weight + (1 - _SMOOTHED)
        out.append(mean / weight)
    return out
