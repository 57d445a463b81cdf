"""`fetchly cache`: what is kept on disk of pages and answers, and forgetting it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from fetchly.disk_cache import Caches, CacheSize

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("show")
def show() -> None:
    """Say where the caches are, and how much they hold."""
    caches = _caches()
    for name, cache in (("pages", caches.pages), ("answers", caches.answers)):
        print(f"{name:<8} {_in_words(cache.size()):<28} {cache.folder}")


@app.command("clear")
def clear() -> None:
    """Forget every page and every answer."""
    caches = _caches()
    for name, cache in (("pages", caches.pages), ("answers", caches.answers)):
        print(f"{name:<8} {_in_words(cache.clear())} removed")


def _caches() -> Caches:
    from fetchly.disk_cache import open_caches
    from fetchly.settings import load_settings

    settings = load_settings()
    return open_caches(settings.cache_dir, settings.cache_mb)


def _in_words(size: CacheSize) -> str:
    return f"{size.entries:,} entries, {size.bytes / 1e6:,.1f} MB"
