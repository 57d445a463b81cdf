"""`auto`, `never`, or bounds in; whether and how far pages are scrolled out."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from fetchly.errors import ConfigurationError

Mode = Literal["auto", "never"]


@dataclass(frozen=True, slots=True)
class Scrolling:
    """Whether pages are scrolled ("auto": those that are longer than the window, or hear of scrolling), and the bounds
    at which one that goes on for ever is cut: rows of its longest list, steps, seconds."""

    mode: Mode = "auto"
    items: int = 1000
    steps: int = 300
    seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ConfigurationError(f"scroll is {self.mode!r}, not {' or '.join(get_args(Mode))}", where="scroll")
        for name in ("items", "steps", "seconds"):
            value = getattr(self, name)
            whole = name != "seconds"
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not 0 < value < 1e6:
                kind = "a whole number" if whole else "a number"
                raise ConfigurationError(f"scroll: {name} is {value!r}, not {kind} from 1 on", where="scroll")

    @property
    def is_on(self) -> bool:
        """Whether pages are scrolled at all."""
        return self.mode != "never"

    def __str__(self) -> str:
        """As a user writes it."""
        return f"items={self.items},steps={self.steps},seconds={self.seconds:g}" if self.is_on else self.mode


def scrolling(value: str | Scrolling) -> Scrolling:
    """`auto`, `never`, or bounds such as `items=200,seconds=60`. Raises ConfigurationError."""
    if isinstance(value, Scrolling):
        return value
    if not isinstance(value, str):
        raise ConfigurationError(f"scroll is {value!r}, not text", where="scroll", hint="auto, never or items=200")
    if "=" not in value:
        return Scrolling(value)  # type: ignore[arg-type]
    known = [field.name for field in fields(Scrolling) if field.name != "mode"]
    bounds: dict[str, Any] = {}
    for part in value.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in known:
            raise ConfigurationError(f"scroll has no bound {name!r}", where="scroll", hint=f"known: {', '.join(known)}")
        try:
            bounds[name] = float(number) if name == "seconds" else int(number)
        except ValueError:
            raise ConfigurationError(f"scroll: {name} is {number!r}, not a number", where="scroll") from None
    return replace(Scrolling(), **bounds)
