"""Every command that a message names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer.main

import fetchly
from fetchly.cli.app import app

SOURCES = Path(fetchly.__file__).parent
# A command is set off by a mark, or is the whole hint; elsewhere "fetchly" is the project.
_COMMAND = re.compile(r"(?:[`|:(]\s?|\brun )fetchly ([a-z-]+)(?: ([a-z-]+))?")


def texts_said() -> Iterator[str]:
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.keyword) and node.arg == "hint" and isinstance(node.value, ast.Constant):
                yield f": {node.value.value}"


def commands_said() -> set[tuple[str, ...]]:
    return {
        tuple(word for word in match.groups() if word) for text in texts_said() for match in _COMMAND.finditer(text)
    }


def test_every_command_that_a_message_names_exists() -> None:
    said = commands_said()
    assert ("extract", "-") in said  # of a PDF, and of what is packed
    assert ("doctor",) in said
    main = typer.main.get_command(app)
    for words in said:
        command = getattr(main, "commands")[words[0]]  # noqa: B009 (typer's groups declare no type for it)
        below = getattr(command, "commands", {})
        assert not below or len(words) == 1 or words[1] in below, words
