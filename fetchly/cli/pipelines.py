"""`fetchly pipelines`: the shipped pipelines, to begin one's own with."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_pipelines() -> None:
    """List the shipped pipelines."""
    from fetchly.pipeline import shipped

    for name in shipped.names():
        print(f"{name:<12} {shipped.summary(name)}")


@app.command("show")
def show_pipeline(name: str = typer.Argument(help="A shipped name.")) -> None:
    """Print a pipeline, for a file of your own: fetchly pipelines show news > news.yaml."""
    from fetchly.pipeline import shipped

    print(shipped.read(name), end="")
