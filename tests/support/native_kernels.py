"""Whether the native kernels are here for the tests of them."""

from __future__ import annotations

import os

import pytest

from fetchly_llm.backends.native.library import available


def _reason() -> str:
    """Why there is nothing to test; "" where there is, or where the lack is to fail."""
    return "" if os.environ.get("FETCHLY_NATIVE_TESTS") == "required" else available() or ""


needs_kernels = pytest.mark.skipif(bool(_reason()), reason=f"no native kernels: {_reason()}")
