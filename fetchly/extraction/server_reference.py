"""The address of a model server, as `--model` has it, in; where it is and how it is asked out.

`http(s)://HOST[:PORT]/v1[?context=TOKENS&format=json_object&timeout=SECONDS][#MODEL]`
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from fetchly.errors import ConfigurationError

AnswerFormat = Literal["json_schema", "json_object"]
"""json_schema: the server holds the answer to the schema; json_object: to JSON alone, for servers that cannot."""

ANSWER_TIMEOUT_S = 600.0
"""An answer of a large model on a CPU takes minutes."""
LEAST_CONTEXT = 256
MOST_CONTEXT = 2**31

_SERVER = re.compile(r"https?:", re.IGNORECASE)
_UNSAFE = re.compile(r"[\s\\\x00-\x1f\x7f]")
_SETTINGS = ("context", "format", "timeout")


@dataclass(frozen=True, slots=True)
class ServerReference:
    """`base` is the address of the API without a slash at its end; `model` None: the server's only one.

    `context_length` is in tokens, None where the server is to say it; `timeout_s` is that of one answer.
    """

    base: str
    model: str | None = None
    context_length: int | None = None
    answer_format: AnswerFormat = "json_schema"
    timeout_s: float = ANSWER_TIMEOUT_S

    @property
    def root(self) -> str:
        """The address of what servers offer beside the API: their own routes stand outside `/v1`."""
        return self.base.removesuffix("/v1")


def is_server(model: str) -> bool:
    """Whether a model's name is the address of a server."""
    return _SERVER.match(model) is not None


def parse_server_reference(text: str) -> ServerReference:
    """Errors: ConfigurationError, which repeats neither user names and passwords nor the values of unknown settings."""
    if _UNSAFE.search(text):
        raise ConfigurationError("the model server's address holds a space, a backslash or a control character")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ConfigurationError(
            "the model server's address cannot be read", hint="write http://HOST:PORT/v1"
        ) from None
    if "@" in parts.netloc:
        raise ConfigurationError(
            "user names and passwords in a model server's address are not sent",
            hint="leave out the part before @; a key goes into the variable FETCHLY_API_KEY",
        )
    if not parts.hostname:
        raise ConfigurationError("the model server's address names no host", hint="write http://HOST:PORT/v1")
    if port == 0:
        raise ConfigurationError("there is no port 0", where=parts.netloc)
    base = f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"
    settings = _settings(parts, base)
    return ServerReference(
        base,
        model=unquote(parts.fragment) or None,
        context_length=_context(settings.get("context"), base),
        answer_format=_format(settings.get("format", "json_schema"), base),
        timeout_s=_timeout(settings.get("timeout"), base),
    )


def _settings(parts: SplitResult, base: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _SETTINGS:
            hint = f"known: {', '.join(_SETTINGS)}; a key goes into the variable FETCHLY_API_KEY"
            raise ConfigurationError(f"unknown setting {name[:40]!a} of a model server", where=base, hint=hint)
        if name in found:
            raise ConfigurationError(f"the setting {name} stands twice", where=base)
        found[name] = value
    return found


def _context(value: str | None, base: str) -> int | None:
    if value is None:
        return None
    tokens = int(value) if value.isascii() and value.isdigit() and len(value) < 12 else 0
    if not LEAST_CONTEXT <= tokens <= MOST_CONTEXT:
        raise ConfigurationError(f"context is {value!a}, not a number of tokens from {LEAST_CONTEXT} on", where=base)
    return tokens


def _format(value: str, base: str) -> AnswerFormat:
    if value not in get_args(AnswerFormat):
        raise ConfigurationError(f"format is {value!a}, not {' or '.join(get_args(AnswerFormat))}", where=base)
    return cast(AnswerFormat, value)


def _timeout(value: str | None, base: str) -> float:
    if value is None:
        return ANSWER_TIMEOUT_S
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not seconds > 0 or not math.isfinite(seconds):
        raise ConfigurationError(f"timeout is {value!a}, not a number of seconds", where=base)
    return seconds
