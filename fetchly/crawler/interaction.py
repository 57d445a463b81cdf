"""Actions and bounds of scrolling in; what a browser does on a page once it has loaded, as one value, out."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field

from fetchly.crawler.actions import Action, dumped
from fetchly.crawler.scrolling import Scrolling

ACTIONS_S = 120.0
"""The time for all actions on a page together; each has its own besides."""


@dataclass(frozen=True, slots=True)
class Interaction:
    """What is done on every page: the actions in order, then scrolling through what grows or shows a part at a time."""

    actions: tuple[Action, ...] = ()
    scrolling: Scrolling = field(default_factory=Scrolling)

    @property
    def seconds(self) -> float:
        """How long it may take at most."""
        return (ACTIONS_S if self.actions else 0.0) + (self.scrolling.seconds if self.scrolling.is_on else 0.0)

    @property
    def digest(self) -> str:
        """A name for it that tells nothing of what is typed into the page."""
        said = f"{dumped(self.actions)} {asdict(self.scrolling)}"
        return hashlib.sha256(said.encode()).hexdigest()[:12]
