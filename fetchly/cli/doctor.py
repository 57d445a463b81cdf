"""`fetchly doctor`: what this machine can do, what is missing, and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

import typer

_MODEL_DISK_BYTES = 700_000_000
"""Room that pulling the default model needs for a moment: archive, GGUF and converted weights."""


def doctor(
    model: str = typer.Option("fetchly-135m", help="The model to look for; a server is asked."),
) -> int:
    """Exit code 0 if an extraction can run here, 1 if something required is missing, 6 if only the model is."""
    from fetchly.cli import engine
    from fetchly.errors import FetchlyError
    from fetchly.extraction.server_reference import is_server

    healthy = True
    _line("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for part in engine.parts():
        if part.version is None:
            required = part.required and not (part.name == "torch" and is_server(model))
            healthy = healthy and not required
            _line("MISSING" if required else "absent", part.name, part.needed_for)
        else:
            _line("ok", part.name, part.version)
    device = engine.device_line()
    if device:
        _line("ok", "device", device)
    obstacle = engine.native_obstacle()
    if obstacle is not None:
        _line("note", "kernels", f"not our own, so decoding is about ten times slower: {obstacle}")
    _browser_line()
    _line("ok", "memory", f"{_memory_bytes() / 1e9:.1f} GB, the default model takes about 1.2")
    root = engine.store_root()
    writable = os.access(_nearest(root), os.W_OK)
    free = shutil.disk_usage(_nearest(root)).free
    room = free > _MODEL_DISK_BYTES
    _line(
        "ok" if writable and room else "LOW", "model store", f"{root}, {free / 1e9:.1f} GB free, writable: {writable}"
    )
    if is_server(model):
        return (0 if _server_answers(model) else 6) if healthy else 1
    try:
        entry = engine.model(model)
    except FetchlyError as error:
        _line("MISSING", "model", error.line())
        return 6 if healthy else 1
    here = entry.state == "ready"
    _line(
        "ok" if here else "absent",
        "model",
        f"{entry.name}: {entry.path or f'fetched on first use, or: fetchly models pull {model}'}",
    )
    if here and healthy:
        assert entry.path is not None
        _drafts_line(entry.path)
    return 0 if healthy and writable and (here or room) else 1


def _drafts_line(folder: Path) -> None:
    """What `--draft auto` comes to. Loads the model."""
    from fetchly.cli import engine
    from fetchly.errors import FetchlyError

    try:
        sources, reason = engine.draft_choice(folder)
    except FetchlyError as error:
        _line("note", "drafts", error.line())
    else:
        _line("ok", "drafts", f"{sources} ({reason})")


def _server_answers(model: str) -> bool:
    """What a model server says of itself, or why it does not."""
    from fetchly.errors import FetchlyError
    from fetchly.extraction.server import ServerGenerator
    from fetchly.settings import api_key

    try:
        served = ServerGenerator(model, api_key=api_key()).describe()
    except FetchlyError as error:
        _line("MISSING", "model", error.line())
        return False
    context = f"context of {served['context_length']} tokens ({served['context_length_is']})"
    _line("ok", "model", f"{served['name']} at {served['server']}, {context}, tokens {served['tokens_are']}")
    return True


def _browser_line() -> None:
    """What `--render` would use. Only `--version` of it is run."""
    from importlib.util import find_spec

    from fetchly.crawler.chromium import BrowserMissing, find_chromium, sandbox_here, version_of
    from fetchly.settings import load_settings

    try:
        path = find_chromium(load_settings().browser_path)
        version = version_of(path)
    except BrowserMissing as missing:
        _line("absent", "browser", f"{missing.message}; pages filled by scripts stay empty ({missing.hint})")
        return
    if find_spec("playwright") is None:
        _line(
            "absent", "browser", f"{version}, but playwright, which drives it, is not: pip install 'fetchly[browser]'"
        )
        return
    sandbox = sandbox_here(path)
    state = "sandbox on" if sandbox.usable else f"sandbox off: {sandbox.reason}"
    _line("ok" if sandbox.usable else "note", "browser", f"{path}, {version}, {state}")


def _line(state: str, name: str, text: str) -> None:
    print(f"{state:<8} {name:<14} {text}")
    sys.stdout.flush()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _nearest(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
