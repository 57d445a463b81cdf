"""An address, a policy and what to do there in; all that a visit needs to know, as one value, out."""

from __future__ import annotations

from dataclasses import dataclass, field

from fetchly.crawler.http import FetchPolicy
from fetchly.crawler.interaction import Interaction
from fetchly.goods import Page

HELD_HOST = "page.invalid"  # RFC 2606: where a page without an address is shown; nothing is ever asked of it


@dataclass(frozen=True, slots=True)
class Assignment:
    """What to show. `held` is the answer where it is already here; `seconds` is the time for loading and reading it,
    beside which what is done on the page has a time of its own."""

    url: str
    policy: FetchPolicy
    seconds: float
    held: Page | None = None
    interaction: Interaction = field(default_factory=Interaction)

    @property
    def total_s(self) -> float:
        """The longest that a visit may take."""
        return self.seconds + self.interaction.seconds
