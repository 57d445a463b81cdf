"""Actions as data: what is one, and what is said of what is none, with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly.crawler.action_file import load_actions
from fetchly.crawler.actions import MAX_ACTIONS, BadAction, checked_actions, dumped, named
from fetchly.crawler.interaction import Interaction
from fetchly.errors import ConfigurationError

EVERY = [
    {"click": "#more", "optional": True},
    {"fill": {"selector": "#q", "text": "s3cret"}, "timeout": 2.5},
    {"press": "Enter"},
    {"press": {"key": "Control+A", "selector": "#q"}},
    {"select": {"selector": "select", "option": "Pears"}},
    {"scroll": "bottom"},
    {"scroll": -300},
    {"scroll": "#end"},
    {"wait": 1.5},
    {"wait": {"selector": "#late"}},
    {"wait": {"text": "Ready"}},
    {"wait": {"gone": ".spinner"}},
    {"repeat": 3, "actions": [{"click": "#more"}], "until_gone": "#more"},
]


def test_every_action_is_kept_as_it_was_written() -> None:
    done = checked_actions(EVERY)
    assert json.loads(dumped(done)) == EVERY
    assert checked_actions(done) == done
    assert [named(action) for action in done][:3] == ["click '#more'", "fill '#q'", "press 'Enter'"]
    assert "s3cret" not in " ".join(map(named, done))


def test_a_digest_tells_actions_apart_and_not_what_they_type() -> None:
    one, other = (Interaction(checked_actions([{"fill": {"selector": "#q", "text": text}}])) for text in "ab")
    assert one.digest != other.digest
    assert Interaction(one.actions).digest == one.digest
    assert Interaction(one.actions).seconds > Interaction().seconds


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([{"clik": "#a"}], "/0: an action is a mapping with one of click, fill"),
        (["click"], "/0: an action is a mapping"),
        ([{"click": "#a"}, {"click": "#a", "retries": 3}], "/1/retries: Extra inputs are not permitted"),
        ([{"click": "#a", "fill": {"selector": "#b", "text": ""}}], "Extra inputs are not permitted"),
        ([{"click": 5}], "/0/click: Input should be a valid string"),
        ([{"click": ""}], "/0/click: String should have at least 1 character"),
        ([{"fill": {"selector": "#a"}}], "/0/fill: Field required"),
        ([{"fill": {"selector": "#a", "text": 5}}], "/0/fill/text: Input should be a valid string"),
        ([{"press": True}], "/0/press: Input should be a valid string"),
        ([{"wait": 0}], "/0/wait: Input should be greater than 0"),
        ([{"wait": 61}], "/0/wait: Input should be less than or equal to 60"),
        ([{"wait": "1s"}], "/0/wait: a wait is a number of seconds"),
        ([{"click": "#a", "timeout": 1000}], "/0/timeout: Input should be less than or equal to 60"),
        ([{"repeat": 0, "actions": [{"wait": 1}]}], "/0/repeat: Input should be greater than or equal to 1"),
        ([{"repeat": 2, "actions": []}], "/0/actions: "),
        ([{"repeat": 2, "actions": [{"wait": 1}, {"click": 5}]}], "/0/actions/1/click: Input should be a valid string"),
        ([{"repeat": 2, "actions": [{"repeat": 2, "actions": [{"wait": 1}]}]}], "a repeat holds no other repeat"),
        ([{"wait": 1}] * (MAX_ACTIONS + 1), "the list: "),
        ({"click": "#a"}, "actions are a list"),
        (None, "actions are a list"),
    ],
)
def test_what_is_no_action_is_said_with_its_place(wrong: Any, said: str) -> None:
    with pytest.raises(BadAction) as bad:
        checked_actions(wrong)
    assert said in bad.value.message
    assert bad.value.exit_code == 2


def test_what_is_to_be_typed_is_in_no_error() -> None:
    with pytest.raises(BadAction) as bad:
        checked_actions([{"fill": {"selector": "#a", "text": "s3cret", "more": "s3cret"}}])
    assert "s3cret" not in bad.value.line()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["click", "fill", "wait", "repeat", "actions", "selector", "x"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_anything_is_actions_or_a_located_error(value: Any) -> None:
    try:
        done = checked_actions(value)
    except BadAction as bad:
        place = value
        for step in bad.path:
            place = place[step]
    else:
        assert checked_actions(json.loads(dumped(done))) == done


# ---- files


def write(folder: Path, text: str) -> Path:
    file = folder / "actions.yaml"
    file.write_text(text, "utf-8")
    return file


def test_a_file_is_yaml_or_json(tmp_path: Path) -> None:
    assert load_actions(write(tmp_path, json.dumps(EVERY))) == checked_actions(EVERY)
    done = load_actions(write(tmp_path, "actions:\n- click: '#more'\n- wait: {text: Ready}\n"))
    assert done == checked_actions([{"click": "#more"}, {"wait": {"text": "Ready"}}])


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("- click: '#a'\n- wait:\n    text: 5\n", ":3", "/1/wait/text: Input should be a valid string"),
        ("- click: '#a'\n\n- press: yes\n", ":3", "quote it"),
        ("- repeat: 2\n  actions:\n  - click: '#a'\n  - fill: {selector: '#b'}\n", ":4", "Field required"),
        ("- click: #a\n", ":1", "/0/click: "),
        ("- click: '#a\n", ":2", "is neither YAML nor JSON"),
        ("- !!python/object:os.system {}\n", ":1", "is neither YAML nor JSON"),
        ("actions: 5\n", ":1", "actions are a list"),
        ("", ":1", "actions are a list"),
        ("[" * 2000, "", "nested too deeply"),
    ],
)
def test_a_wrong_file_is_said_with_its_line(tmp_path: Path, text: str, line: str, said: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigurationError) as bad:
        load_actions(file)
    assert (bad.value.where or "").startswith(f"{file}{line}")
    assert said in bad.value.line()


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load_actions(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"- click: '\xe9'")
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        load_actions(tmp_path / "latin.yaml")
