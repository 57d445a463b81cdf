"""What the store says of its progress in; the same, checked and kept, out."""

from __future__ import annotations


class RecordedProgress:
    """Checks that steps follow each other, and keeps what was said."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int | None]] = []
        self.done: list[int] = []
        self.open = False

    def start(self, label: str, total_bytes: int | None) -> None:
        assert not self.open
        self.open = True
        self.steps.append((label, total_bytes))
        self.done.append(0)

    def advance(self, count: int) -> None:
        assert self.open
        self.done[-1] += count

    def finish(self) -> None:
        assert self.open
        self.open = False
