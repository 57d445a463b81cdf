"""Environment, project file and user file in; one frozen set of defaults for the command line out.

Precedence: flags > environment (FETCHLY_...) > project file (fetchly.yaml, or [tool.fetchly] of pyproject.toml, in the
working folder or the nearest folder above) > user file (config.yaml in the user's configuration folder) > default.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import platformdirs
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fetchly.errors import ConfigurationError

_PREFIX = "FETCHLY_"
_OTHER_VARIABLES = frozenset(
    {
        "FETCHLY_API_KEY",
        "FETCHLY_MODELS",
        "FETCHLY_SHARED",
        "FETCHLY_VENV",
        "FETCHLY_BROWSER_TESTS",
        "FETCHLY_NATIVE_TESTS",
    }
)
"""Variables of the same prefix that are not settings of the command line."""


class Settings(BaseModel):
    """What the command line falls back to where a flag is not given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "fetchly-135m"
    device: Literal["auto", "native", "cpu", "cuda"] = "auto"
    threads: int | None = Field(default=None, ge=1)
    draft: str = "auto"
    verify: Literal["match", "rejection"] = "match"
    schema_mode: Literal["strict", "check"] = "strict"
    temperature: float = Field(default=0.0, ge=0.0, le=10.0)
    seed: int = Field(default=0, ge=0)
    attempts: int = Field(default=3, ge=1, le=100)
    max_tokens: int = Field(default=1024, ge=1)
    budget: int | None = Field(default=None, ge=64)
    timeout: float = Field(default=30.0, gt=0.0)
    allow_private: bool = False
    memory_limit: str | int | None = None
    render: Literal["never", "auto", "always"] = "auto"
    actions: str | None = None
    scroll: str = "auto"
    storage_state: str | None = None
    keep_hidden: bool = False
    cache: bool = False
    cache_dir: str | None = None
    cache_mb: int | None = Field(default=None, ge=1)
    browser_path: str | None = None
    user_agent: str | None = None


@dataclass(frozen=True, slots=True)
class _Layer:
    """Values of one origin, and the origin's name for error messages."""

    origin: str
    values: Mapping[str, Any]


def load_settings(
    environment: Mapping[str, str] | None = None, folder: Path | None = None, user_file: Path | None = None
) -> Settings:
    """The settings in force for `folder`. Raises ConfigurationError naming origin and key."""
    environment = os.environ if environment is None else environment
    layers = [
        _yaml_layer(user_file or Path(platformdirs.user_config_dir("fetchly")) / "config.yaml"),
        _project_layer(folder or Path.cwd()),
        _environment_layer(environment),
    ]
    merged: dict[str, Any] = {}
    for layer in layers:
        _check(layer)
        merged.update(layer.values)
    return Settings(**merged)


def api_key(environment: Mapping[str, str] | None = None) -> str | None:
    """The key of a model server, FETCHLY_API_KEY: no setting, as it stands in no file. None where there is none.

    Never OPENAI_API_KEY, which was not given for whatever server a user names."""
    environment = os.environ if environment is None else environment
    return environment.get("FETCHLY_API_KEY") or None


def _check(layer: _Layer) -> None:
    known = list(Settings.model_fields)
    for key in layer.values:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
            raise ConfigurationError(f"unknown setting {key!r}", where=layer.origin, hint=hint)
    try:
        Settings(**layer.values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"{first['loc'][0]}: {first['msg']}", where=layer.origin) from None


def _environment_layer(environment: Mapping[str, str]) -> _Layer:
    values = {
        name.removeprefix(_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(_PREFIX) and name not in _OTHER_VARIABLES
    }
    return _Layer("environment (FETCHLY_...)", values)


def _project_layer(folder: Path) -> _Layer:
    for place in (folder, *folder.parents):
        if (place / "fetchly.yaml").is_file():
            return _yaml_layer(place / "fetchly.yaml")
        project = place / "pyproject.toml"
        if project.is_file():
            try:
                tool: Any = tomllib.loads(project.read_text("utf-8")).get("tool", {})
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
                raise ConfigurationError(f"cannot be read: {error}", where=str(project)) from None
            if isinstance(tool, dict) and "fetchly" in tool:
                if not isinstance(tool["fetchly"], dict):
                    raise ConfigurationError("tool.fetchly must be a table of settings", where=str(project))
                return _Layer(f"{project} [tool.fetchly]", tool["fetchly"])
    return _Layer("no project file", {})


def _yaml_layer(file: Path) -> _Layer:
    if not file.is_file():
        return _Layer(str(file), {})
    try:
        content = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"cannot be read: {' '.join(str(error).split())}", where=str(file)) from None
    if content is None:
        return _Layer(str(file), {})
    if not isinstance(content, dict):
        raise ConfigurationError("must hold `setting: value` lines", where=str(file))
    return _Layer(str(file), content)
