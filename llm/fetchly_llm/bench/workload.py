"""Examples and prompt files in; items to decode out. Reads data, never pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchly_llm.errors import RequestInvalid
from fetchly_llm.json_lines import JsonLine, read_json_lines, set_name
from fetchly_llm.request import Message
from fetchly_llm.tokenizer import Tokenizer

_SHAPES = "question_id with turns, task_id with prompt, question, or prompt"


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One document to decode. `schema` is its decoding schema, None for free text; `source` the text that verbatim
    values are spans of; `answer` the text that ought to be written, None where nobody knows. `model_digest` tells the
    model in whose tokens an example is written."""

    id: str
    set: str
    prompt_ids: tuple[int, ...]
    schema: Mapping[str, Any] | None = None
    source: str = ""
    answer: str | None = None
    model_digest: str | None = None

    @property
    def name(self) -> str:
        """As reports name it."""
        return f"{self.set}/{self.id}"


def read_examples(file: Path) -> Iterator[WorkItem]:
    """The examples of a file as `fetchly lab examples` writes it. Raises RequestInvalid with file and line."""
    return map(_example, read_json_lines(file))


def example_item(example: Mapping[str, Any]) -> WorkItem:
    """One such example, not from a file."""
    return _example(JsonLine(f"example {example.get('id')}", 0, example))


def read_prompts(file: Path, tokenizer: Tokenizer) -> Iterator[WorkItem]:
    """The prompts of a file as free text, each the one user turn of a chat; the file's name is the set's.

    Lines have the shape of Spec-Bench and MT-Bench (`question_id`, `turns`: the first alone), of HumanEval (`task_id`,
    `prompt`), of GSM8K (`question`), or a plain `prompt`. Raises RequestInvalid with file and line for another.
    """
    for line in read_json_lines(file):
        text = _prompt(line)
        try:
            prompt = tokenizer.chat([Message("user", (text,))])
        except RequestInvalid as error:
            raise RequestInvalid(f"{line.where}: {error.message}", hint=error.hint) from error
        yield WorkItem(_prompt_id(line), set_name(file), prompt.ids)


def _example(line: JsonLine) -> WorkItem:
    ids = line.get("prompt_ids", list)
    if not ids or not all(type(number) is int and number >= 0 for number in ids):
        raise RequestInvalid(f"{line.where}: 'prompt_ids' is not a list of token ids")
    variant = line.get("variant", int) if "variant" in line.object else 0
    return WorkItem(
        id=line.get("id", str) + (f"#{variant}" if variant else ""),
        set=line.get("set", str),
        prompt_ids=tuple(ids),
        schema=line.get("schema", dict),
        source=line.get("source", str),
        answer=line.get("answer", str),
        model_digest=line.get("versions", dict).get("model"),
    )


def _prompt(line: JsonLine) -> str:
    if "turns" in line.object:
        turns = line.get("turns", list)
        text = turns[0] if turns else None
    elif "prompt" in line.object or "question" in line.object:
        text = line.get("prompt" if "prompt" in line.object else "question", str)
    else:
        keys = ", ".join(list(line.object)[:6])
        raise RequestInvalid(f"{line.where}: no known shape of prompt (keys: {keys})", hint=f"known: {_SHAPES}")
    if not isinstance(text, str) or not text.strip():
        raise RequestInvalid(f"{line.where}: the prompt is empty or no text")
    return text


def _prompt_id(line: JsonLine) -> str:
    named = (line.object[key] for key in ("question_id", "task_id", "id") if key in line.object)
    return str(next(named, line.number))
