"""Bounds of scrolling and storage states: what is taken, and what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fetchly.crawler.actions import checked_actions
from fetchly.crawler.http import FetchPolicy
from fetchly.crawler.interaction import Interaction
from fetchly.crawler.scrolling import Scrolling, scrolling
from fetchly.crawler.storage_state import load_storage_state
from fetchly.errors import ConfigurationError
from fetchly.reading import TargetReader


def test_scrolling_is_a_word_or_bounds() -> None:
    assert scrolling("auto") == Scrolling()
    assert not scrolling("never").is_on
    assert scrolling(" items=20, seconds=1.5 ") == Scrolling(items=20, seconds=1.5)
    assert scrolling(Scrolling(steps=5)) == Scrolling(steps=5)
    assert scrolling(str(Scrolling(items=7))) == Scrolling(items=7)
    assert Interaction(scrolling=scrolling("never")).seconds == 0


@pytest.mark.parametrize("wrong", ["", "always", "items", "items=", "items=0", "items=1.5", "rows=5", "seconds=nan", 5])
def test_wrong_bounds_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError) as bad:
        scrolling(wrong)
    assert bad.value.where == "scroll"


COOKIE = {"name": "a", "value": "s3cret", "domain": "example.org", "path": "/"}


def test_what_playwright_writes_is_a_storage_state(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(
        json.dumps(
            {
                "cookies": [{**COOKIE, "expires": 1e10, "httpOnly": True, "sameSite": "None", "partitionKey": "x"}],
                "origins": [{"origin": "https://example.org", "localStorage": [], "indexedDB": []}],
            }
        )
    )
    state = load_storage_state(file)
    assert state.origins == 1
    assert "s3cret" not in repr(state)
    assert load_storage_state({"cookies": [COOKIE]}).origins == 0


def test_a_partitioned_cookie_stays_one() -> None:
    partition = {"partitionKey": "https://top.example", "_crHasCrossSiteAncestor": False}
    kept, plain = load_storage_state({"cookies": [{**COOKIE, **partition}, COOKIE]}).content["cookies"]
    assert {name: value for name, value in kept.items() if name not in plain} == partition


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no JSON"),
        ('{"cookies": [\n{"name": "s3cret" "x"}]}', ":2:19"),
        ("[]", "has `cookies` and `origins`"),
        ('{"s3cret": 1}', "has `cookies` and `origins`"),
        ({"cookies": [{**COOKIE, "value": 5}]}, "/cookies/0/value: Input should be a valid string"),
        ({"cookies": [COOKIE, {"name": "a", "value": "s3cret"}]}, "/cookies/1/domain: Field required"),
        ({"cookies": [{**COOKIE, "sameSite": "s3cret"}]}, "/cookies/0/sameSite: "),
        ({"cookies": [{**COOKIE, "path": "s3cret"}]}, "/cookies/0/path: "),
        ({"cookies": {"s3cret": "s3cret"}}, "/cookies: Input should be a valid list"),
        ({"origins": [{"origin": "file:///s3cret", "localStorage": []}]}, "/origins/0/origin: not the origin"),
        ({"origins": [{"origin": "https://u:s3cret@x.org", "localStorage": []}]}, "/origins/0/origin: not the origin"),
        ({"origins": [{"origin": f"https://{n}.org"} for n in range(51)]}, "/origins: "),
        ("[" * 5000, "is nested too deeply"),
    ],
)
def test_a_wrong_storage_state_is_said_with_its_place_and_without_its_secrets(
    tmp_path: Path, content: Any, said: str
) -> None:
    file = tmp_path / "state.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ConfigurationError) as bad:
        load_storage_state(file)
    assert said in bad.value.line()
    assert str(file) in (bad.value.where or "")
    assert "s3cret" not in f"{bad.value.line()}{bad.value.__cause__}"


def test_a_missing_storage_state_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load_storage_state(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match="a file or a mapping"):
        load_storage_state(5)  # type: ignore[arg-type]


def test_what_needs_a_browser_has_one() -> None:
    policy = FetchPolicy()
    acting = Interaction(checked_actions([{"click": "#more"}]))
    state = load_storage_state({"cookies": []})
    for interaction, kept in ((acting, None), (None, state)):
        reader = TargetReader(policy, interaction=interaction, storage_state=kept)
        assert reader.render == "always"
        reader.close()
        with pytest.raises(ConfigurationError, match="need a browser"):
            TargetReader(policy, render="never", interaction=interaction, storage_state=kept)
    plain = TargetReader(policy)
    other = TargetReader(policy, interaction=Interaction(scrolling=scrolling("never")))
    assert plain.render == "auto"
    assert plain.browsing != other.browsing
    plain.close()
    other.close()
