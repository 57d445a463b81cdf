"""The format that a model is trained for must not change under it: a failure here means a new FORMAT_VERSION."""

from __future__ import annotations

import pytest

from tests.support.frozen_format import FOLDER, SCHEMAS, frozen

WAY_OUT = "what a model is given has changed: raise FORMAT_VERSION, then python -m tests.support.frozen_format"


def test_every_golden_page_is_frozen() -> None:
    assert set(SCHEMAS) == {file.stem for file in (FOLDER / "documents").glob("*.html")}
    assert len(SCHEMAS) >= 12


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_format_is_frozen(name: str) -> None:
    assert frozen(name) == (FOLDER / "prompts" / f"{name}.txt").read_text(encoding="utf-8"), WAY_OUT
