"""Which draft sources helped in a step in; which are worth asking in the next out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_IDLE_STEPS = 12
_LONGEST_REST = 192


@dataclass(slots=True)
class _Rest:
    idle: int = 0
    length: int = _IDLE_STEPS
    awake_at: int = 0
    owed: float = 0.0  # plain steps that asking has cost and tokens have not paid for


class Rests:
    """Lets sources rest that have not helped for a dozen steps, longer every time: asking costs time, too.

    A source whose asking takes a pass of the model has not helped before its tokens have paid for that. Only for
    back-ends whose cost grows with rows; where rows are padded, drafts are free.
    """

    def __init__(self) -> None:
        self._rests: dict[str, _Rest] = {}
        self._step = 0

    def is_awake(self, source: str, after: int = 0) -> bool:
        """Whether to ask `source` in this step, or the one so many after it."""
        rest = self._rests.get(source)
        return rest is None or rest.awake_at <= self._step + after

    def charge(self, source: str, steps: float) -> None:
        """Asking `source` has cost as much as so many plain steps."""
        self._rests.setdefault(source, _Rest()).owed += steps

    def end_step(self, sources: Sequence[str], gained: Mapping[str, int]) -> None:
        """A step is done, in which sources had so many tokens accepted, each of which has saved a plain step."""
        for name in sources:
            rest = self._rests.setdefault(name, _Rest())
            tokens = gained.get(name, 0)
            rest.owed = max(rest.owed - tokens, 0.0)
            if tokens and not rest.owed:
                self._rests[name] = _Rest()
            elif rest.awake_at <= self._step:
                rest.idle += 1
                if rest.idle >= _IDLE_STEPS:
                    rest.awake_at = self._step + 1 + rest.length
                    rest.length = min(2 * rest.length, _LONGEST_REST)
                    rest.idle = _IDLE_STEPS - 2  # awake again, it has two steps to show itself
                    rest.owed = 0.0
        self._step += 1
