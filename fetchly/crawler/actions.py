"""What a user has a browser do on a page, as data, in; checked actions out. Nothing here is ever run as code.

An action is one of

    {click: SELECTOR}
    {fill: {selector: SELECTOR, text: TEXT}}
    {press: KEY}                 or {press: {key: KEY, selector: SELECTOR}}
    {select: {selector: SELECTOR, option: LABEL OR VALUE}}
    {scroll: bottom}             or top, PIXELS, SELECTOR
    {wait: SECONDS}              or {wait: {selector: SELECTOR}}, {wait: {text: TEXT}}, {wait: {gone: SELECTOR}}
    {repeat: N, actions: [...], until_gone: SELECTOR}

with `optional: true` where what it needs may be missing, and `timeout` in seconds. Selectors are Playwright's: CSS,
`text=...`, `xpath=...`; the first visible element that one matches is meant.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError, model_validator

from fetchly.errors import ConfigurationError

TIMEOUT_S = 10.0
MAX_TIMEOUT_S = 60.0
MAX_ACTIONS = 100
MAX_ROUNDS = 1000

Selector = Annotated[str, Field(min_length=1, max_length=2000, strict=True)]
Text = Annotated[str, Field(max_length=100_000, strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=1000, strict=True)]
Seconds = Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S, strict=True)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Action(_Model):
    """`optional`: nothing is done where the element is missing. `timeout`: seconds until that is clear."""

    optional: bool = Field(default=False, strict=True)
    timeout: Seconds = TIMEOUT_S


class Click(_Action):
    """A click of the mouse."""

    click: Selector


class FillIn(_Model):
    """A text, and the field that it is typed into."""

    selector: Selector
    text: Text


class Fill(_Action):
    """A field's text is replaced."""

    fill: FillIn


class KeyIn(_Model):
    """A key (`Enter`, `Control+A`), and the element that has the focus then."""

    key: Name
    selector: Selector


class Press(_Action):
    """A key is pressed; without a selector wherever the focus is."""

    press: Name | KeyIn


class Choice(_Model):
    """An option by its label or its value, and the list that it is chosen in."""

    selector: Selector
    option: Name


class Select(_Action):
    """An option of a `<select>` is chosen."""

    select: Choice


class Scroll(_Action):
    """The window is scrolled to an end, by pixels, or until an element is in view."""

    scroll: Annotated[int, Field(ge=-1_000_000, le=1_000_000, strict=True)] | Selector


class Shown(_Model):
    """Until an element is visible."""

    selector: Selector


class Said(_Model):
    """Until a text is visible."""

    text: Name


class Gone(_Model):
    """Until no such element is visible."""

    gone: Selector


def _condition_kind(value: Any) -> str | None:
    if isinstance(value, int | float):
        return "seconds"
    return next((name for name in ("selector", "text", "gone") if _has(value, name)), None)


class Wait(_Action):
    """Nothing is done for some seconds, or until something is there or gone."""

    wait: Annotated[
        Annotated[Seconds, Tag("seconds")]
        | Annotated[Shown, Tag("selector")]
        | Annotated[Said, Tag("text")]
        | Annotated[Gone, Tag("gone")],
        Discriminator(
            _condition_kind,
            custom_error_type="wait",
            custom_error_message="a wait is a number of seconds, or one of selector, text, gone",
        ),
    ]


VERBS = ("click", "fill", "press", "select", "scroll", "wait", "repeat")


def _has(value: Any, name: str) -> bool:
    return name in value if isinstance(value, dict) else hasattr(value, name)


def _verb(value: Any) -> str | None:
    return next((verb for verb in reversed(VERBS) if _has(value, verb)), None)


_NO_VERB = f"an action is a mapping with one of {', '.join(VERBS)}"
Step = Annotated[
    Annotated[Click, Tag("click")]
    | Annotated[Fill, Tag("fill")]
    | Annotated[Press, Tag("press")]
    | Annotated[Select, Tag("select")]
    | Annotated[Scroll, Tag("scroll")]
    | Annotated[Wait, Tag("wait")],
    Discriminator(_verb, custom_error_type="action", custom_error_message=_NO_VERB),
]
"""An action that is not made of others."""


class Repeat(_Model):
    """Actions again and again: `repeat` times at most, and only while an element that matches `until_gone` is visible.

    Without `until_gone` it ends, too, with the first round whose optional action has nothing to act on.
    """

    repeat: int = Field(ge=1, le=MAX_ROUNDS, strict=True)
    actions: tuple[Step, ...] = Field(min_length=1, max_length=MAX_ACTIONS)
    until_gone: Selector | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_nested(cls, value: Any) -> Any:
        inner = value.get("actions") if isinstance(value, dict) else None
        if isinstance(inner, list) and any(_has(each, "repeat") for each in inner):
            raise ValueError("a repeat holds no other repeat")
        return value


Action = Annotated[
    Annotated[Click, Tag("click")]
    | Annotated[Fill, Tag("fill")]
    | Annotated[Press, Tag("press")]
    | Annotated[Select, Tag("select")]
    | Annotated[Scroll, Tag("scroll")]
    | Annotated[Wait, Tag("wait")]
    | Annotated[Repeat, Tag("repeat")],
    Discriminator(_verb, custom_error_type="action", custom_error_message=_NO_VERB),
]
"""One thing that is done on a page."""

_ACTIONS: TypeAdapter[tuple[Action, ...]] = TypeAdapter(Annotated[tuple[Action, ...], Field(max_length=MAX_ACTIONS)])


class BadAction(ConfigurationError):
    """An action that is none. `path` leads to the wrong place: positions in lists, names in mappings."""

    def __init__(self, message: str, path: Sequence[int | str], *, where: str | None, hint: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.path = tuple(path)


def checked_actions(value: Any, *, where: str = "actions") -> tuple[Action, ...]:
    """A list of mappings, or of actions, as actions. Raises BadAction, which repeats nothing that is to be typed."""
    if not isinstance(value, list | tuple):
        raise BadAction("actions are a list", (), where=where, hint='such as [{"click": "#more"}]')
    try:
        return _ACTIONS.validate_python(tuple(value))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        path = _path(first["loc"], value)
        pointer = "".join(f"/{step}" for step in path)
        message = first["msg"].removeprefix("Value error, ")
        hint = "quote it" if first["type"] == "string_type" else None
        raise BadAction(f"{pointer or 'the list'}: {message}", path, where=where, hint=hint) from None


def dumped(done: Sequence[Action]) -> str:
    """The actions as JSON: what they do and nothing else."""
    return json.dumps(_ACTIONS.dump_python(tuple(done), mode="json", exclude_defaults=True), sort_keys=True)


def named(action: Action) -> str:
    """An action in a few words, without what it types: `click '#more'`."""
    if isinstance(action, Repeat):
        return f"repeat {action.repeat}"
    verb = next(verb for verb in VERBS if hasattr(action, verb))
    said: Any = getattr(action, verb)
    if isinstance(said, Gone):
        return f"wait until {said.gone!r} is gone"
    if isinstance(said, Said):
        return f"wait for the text {said.text!r}"
    return f"{verb} {getattr(said, 'selector', said)!r}"


def _path(place: Sequence[int | str], value: Any) -> list[int | str]:
    """Pydantic's place without the tags that it names kinds by: only what leads further into the value."""
    path: list[int | str] = []
    for before, step in pairwise(("", *place)):
        if isinstance(before, int):
            continue  # the verb, as a tag
        in_list = isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)
        if in_list or (isinstance(value, dict) and step in value):
            value = value[step]
            path.append(step)
    return path
