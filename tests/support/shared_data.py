"""Where the shared pages, schemas and suites lie; None in a clone that stands alone."""

from __future__ import annotations

import os
from pathlib import Path


def shared_path() -> Path | None:
    """`$FETCHLY_SHARED`, else the folder `shared` beside the checkout, else None."""
    configured = os.environ.get("FETCHLY_SHARED")
    folder = Path(configured) if configured else Path(__file__).resolve().parents[3] / "shared"
    return folder if (folder / "data").is_dir() else None
