"""What streams have gained on pages, and what steps and passes cost here, in; the draft sources to use, and why, out.

Which sources are used decides how fast an answer is written, never what is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, floor, isfinite
from typing import Final

from fetchly_llm.cost_curve import CostCurve
from fetchly_llm.stream_config import NOTE

AUTO: Final = "auto"
"""In place of draft sources: those that pay on this machine, with this model."""
GAIN: Final = f"{NOTE}gain"
"""Metadata of a streams file: what they gain, as JSON (StreamGain)."""
PLAIN_CHOICE: Final = ("forced", "lookup")
STREAM_CHOICE: Final = (*PLAIN_CHOICE, "streams")


@dataclass(frozen=True, slots=True)
class Pace:
    """Means over the steps of many answers: `tokens` gained, `rows` of the draft tree, and `passes` of streams."""

    tokens: float
    rows: float
    passes: float = 0.0

    def ms_per_token(self, curve: CostCurve) -> float:
        """By the costs of a machine; rows between two numbers of them are weighed."""
        rows = min(self.rows, float(curve.most))
        low, high = floor(rows), ceil(rows)
        step = curve.cost(low) + (rows - low) * (curve.cost(high) - curve.cost(low))
        return (step + self.passes * curve.stream_cost(1)) / self.tokens


@dataclass(frozen=True, slots=True)
class StreamGain:
    """The same answers, by forced tokens and lookup alone, and with streams. `documents` were measured."""

    without: Pace
    streams: Pace
    documents: int

    def as_text(self) -> str:
        """As the metadata has it."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """The sources, and in words why."""

    sources: tuple[str, ...]
    reason: str


def read_gain(metadata: Mapping[str, str]) -> StreamGain | None:
    """What a streams file says that its streams gain; None where it says nothing that makes sense."""
    try:
        said = json.loads(metadata[GAIN])
        gain = StreamGain(Pace(**said["without"]), Pace(**said["streams"]), int(said["documents"]))
        figures = [value for pace in (gain.without, gain.streams) for value in asdict(pace).values()]
        sane = gain.documents >= 1 and all(isfinite(value) and value >= 0 for value in figures)
        sane = sane and all(pace.tokens >= 1 and pace.rows >= 1 for pace in (gain.without, gain.streams))
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError):
        return None
    return gain if sane else None


def gain_of(lines: Sequence[Mapping[str, object]]) -> StreamGain | None:
    """From the lines of a decode bench (docs/bench.md): the arms forced+lookup and all, over all sets together."""
    arms = {line["arm"]: line for line in lines if line["set"] == "all"}
    if not {"forced+lookup", "all"} <= arms.keys():
        return None
    return StreamGain(_pace(arms["forced+lookup"]), _pace(arms["all"]), int(str(arms["all"]["documents"])))


def choose(streams: int, gain: StreamGain | None, curve: CostCurve | None) -> DraftChoice:
    """For a model with so many streams (0: none), on a machine with these costs (None: they were not measured)."""
    if not streams:
        return DraftChoice(PLAIN_CHOICE, "the model has no speculative streams")
    if gain is None:
        return DraftChoice(PLAIN_CHOICE, "the model's streams file does not say what its streams gain")
    if curve is None:
        return DraftChoice(PLAIN_CHOICE, "on this back-end the cost of streams is not measured")
    without, with_streams = gain.without.ms_per_token(curve), gain.streams.ms_per_token(curve)
    figures = (
        f"{with_streams:.1f} ms a token with streams, {without:.1f} without, by what steps cost here "
        f"and what {gain.documents} pages have shown"
    )
    pays = with_streams < without
    return DraftChoice(STREAM_CHOICE if pays else PLAIN_CHOICE, f"streams {'pay' if pays else 'do not pay'}: {figures}")


def _pace(line: Mapping[str, object]) -> Pace:
    steps = int(str(line["decode_steps"]))
    passes = int(str(line["stream_passes"])) / steps
    return Pace(int(str(line["output_tokens"])) / steps, float(str(line["rows_per_step"])), passes)
