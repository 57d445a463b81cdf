"""`fetchly schemas`: the shipped schemas, and what the generator makes of one of your own."""

from __future__ import annotations

import dataclasses
import json
from typing import Literal

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_SCHEMA = typer.Argument(help="A shipped name, a JSON file, or module:Attribute.")


@app.command("list")
def list_schemas() -> None:
    """List the shipped schemas."""
    from fetchly.extraction import shipped
    from fetchly.extraction.schema import load_schema

    for name in shipped.names():
        print(f"{name:<16} {load_schema(name).json.get('description', '')}")


@app.command("show")
def show_schema(schema: str = _SCHEMA) -> None:
    """Print a schema as JSON. `pipeline` is that of the file that `fetchly run` takes."""
    if schema == "pipeline":
        from fetchly.pipeline.published import file_schema

        shown = file_schema()
    else:
        from fetchly.extraction.schema import load_schema

        shown = load_schema(schema).json
    print(json.dumps(shown, ensure_ascii=False, indent=2))


@app.command("lint")
def lint_schema(
    schema: str = _SCHEMA,
    schema_mode: Literal["strict", "check"] = typer.Option("strict", help="As in extract."),
    as_json: bool = typer.Option(False, "--json", help="As JSON."),
) -> int:
    """Say what the generator enforces, adds (bounds, closed objects) or cannot do. Exit code 2 on errors."""
    from fetchly.cli import engine
    from fetchly.extraction.schema import load_schema

    findings = engine.lint(load_schema(schema).json, schema_mode)
    if as_json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], ensure_ascii=False, indent=2))
    else:
        for finding in findings:
            print(f"{finding.severity}: {finding.text()}")
        if not findings:
            print("nothing to say: every keyword is enforced while writing")
    return 2 if any(finding.severity == "error" for finding in findings) else 0
