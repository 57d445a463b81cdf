"""Web pages in, valid JSON records out, with the language model inside the program."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fetchly.errors import FetchlyError
    from fetchly.goods import Document, Evidence, Page
    from fetchly.pipeline.pipeline import Pipeline
    from fetchly.pipeline.runner import RunSummary
    from fetchly.pipeline.running import run
    from fetchly.sdk import AsyncClient, Client, Result, aextract, extract

__all__ = [
    "AsyncClient",
    "Client",
    "Document",
    "Evidence",
    "FetchlyError",
    "Page",
    "Pipeline",
    "Result",
    "RunSummary",
    "aextract",
    "extract",
    "run",
]

_HOMES = {
    "FetchlyError": "fetchly.errors",
    "Document": "fetchly.goods",
    "Evidence": "fetchly.goods",
    "Page": "fetchly.goods",
    "Pipeline": "fetchly.pipeline.pipeline",
    "RunSummary": "fetchly.pipeline.runner",
    "run": "fetchly.pipeline.running",
}


def __getattr__(name: str) -> Any:
    # PEP 562: `import fetchly` and `fetchly --help` stay light; the libraries load with the first name that needs them.
    if name not in __all__:
        raise AttributeError(f"module 'fetchly' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "fetchly.sdk")), name)
