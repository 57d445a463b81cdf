"""What comes out of a crawl's stages in; how many pages each has had, and how long it was at work, out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fetchly.crawling.events import Extracted, FailedPage, ReadPage, RefusedPage


@dataclass(frozen=True, slots=True)
class StageUse:
    """What a stage did in a run: pages, seconds that its threads were at work, and how many of them were on average
    (`share`: above 1 where several work side by side). What failed counts, too."""

    pages: int = 0
    busy_s: float = 0.0
    share: float = 0.0


class StageTally:
    """Adds up. `fetch` is without what was rendered or read; `prefill` and `decode` are parts of `model`; `store` is
    what the state takes, in one thread."""

    def __init__(self) -> None:
        names = ("fetch", "render", "read", "model", "prefill", "decode", "store")
        self._pages = dict.fromkeys(names, 0)
        self._ms = dict.fromkeys(names, 0.0)

    def came(self, page: ReadPage | FailedPage | RefusedPage, seconds: float) -> None:
        """A fetching thread is done with a page after so many seconds. How it spent them is known of read ones."""
        if not isinstance(page, ReadPage):
            self._add("fetch", 1, 1000 * seconds)
            return
        self._add("fetch", 1, max(0.0, page.fetch_ms - page.render_ms))
        self._add("render", int(page.render_ms > 0), page.render_ms)
        self._add("read", 1, page.read_ms)

    def answered(self, page: Extracted) -> None:
        """The model is done with a page."""
        self._add("model", 1, page.ms)
        if page.extraction is not None:
            stats = page.extraction.stats
            self._add("prefill", int(stats.prefill_ms > 0), stats.prefill_ms)
            self._add("decode", int(stats.decode_ms > 0), stats.decode_ms)

    def stored(self, pages: int, seconds: float) -> None:
        """So many pages went on in the state."""
        self._add("store", pages, 1000 * seconds)

    def uses(self, seconds: float) -> Mapping[str, StageUse]:
        """By stage, of a run that took so long."""
        return {
            name: StageUse(pages, round(ms / 1000, 3), round(ms / 1000 / seconds, 3) if seconds > 0 else 0.0)
            for (name, pages), ms in zip(list(self._pages.items()), list(self._ms.values()), strict=True)
        }

    def _add(self, stage: str, pages: int, ms: float) -> None:
        self._pages[stage] += pages
        self._ms[stage] += ms
