"""A schema, a document and a right answer in; the answer that a model is to be taught out, checked by a grammar."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fetchly.extraction.decoding import bind_links, decoding_schema
from fetchly.extraction.prompt import PagePrompt, build_prompt
from fetchly.goods import Document
from fetchly.lab.answers import Answer, AnswerWriter
from fetchly.lab.truth import Truth
from fetchly_llm.grammar.prepare import prepare
from tests.support.grammar_walks import toy_compiler, write


def count_tokens(texts: list[str]) -> list[int]:
    """A token is four characters, or less."""
    return [-(-len(text) // 4) for text in texts]


def stated(value: Mapping[str, Any], *absent: str, **more: Any) -> Truth:
    """A truth whose every value stands on the page, those of lists of records included."""
    paths = set(value)
    for name, items in value.items():
        if isinstance(items, list):
            paths |= {f"{name}.{key}" for item in items if isinstance(item, dict) for key in item}
    return Truth(value, stated=frozenset(paths), absent=frozenset(absent), **more)


def answer_for(
    schema: Mapping[str, Any], document: Document, truth: Truth, shown: Mapping[int, int | None] | None = None
) -> Answer:
    """The answer, which the mask must allow from its first byte to its end.

    `shown` are the blocks that the model sees, by index: None for a whole one, else how many characters of it.
    """
    prompt = build_prompt(schema, document, 10_000, count_tokens)
    if shown is not None:
        prompt = _restricted(prompt, shown)
    answer = AnswerWriter(document).write(schema, prompt, truth)
    if answer.text is not None:
        prepared = prepare(bind_links(decoding_schema(schema), prompt.prompt.links), mode="check")
        grammar = toy_compiler().compile(
            prepared.enforced, prompt.prompt.source, allowed_escapes=prepared.allowed_escapes
        )
        matcher = grammar.matcher()
        assert write(matcher, answer.text), f"refused after {matcher.text!r}"
        assert matcher.is_accepting
    return answer


def _restricted(whole: PagePrompt, shown: Mapping[int, int | None]) -> PagePrompt:
    kept = [block for block in whole.sections.shown if block.index in shown]
    cut = tuple(
        dataclasses.replace(block, line=block.line[: shown[block.index]], text=block.text[: shown[block.index]])
        for block in kept
    )
    sections = dataclasses.replace(whole.sections, shown=cut, left_out_blocks=1)
    source = "\n".join(block.text for block in cut)
    return dataclasses.replace(whole, prompt=dataclasses.replace(whole.prompt, source=source), sections=sections)


def record_schema(**fields: Any) -> dict[str, Any]:
    """An object with these properties, all required; a string stands for its type, nullable."""
    nodes = {name: {"type": [kind, "null"]} if isinstance(kind, str) else kind for name, kind in fields.items()}
    return {"type": "object", "properties": nodes, "required": list(nodes), "additionalProperties": False}


TEXT = {"type": ["string", "null"], "x-verbatim": True}
DATE = {"type": ["string", "null"], "format": "date"}
LINK = {"type": ["string", "null"], "format": "uri"}
TEXTS = {"type": ["array", "null"], "items": {"type": "string", "x-verbatim": True}}


def list_of(**fields: Any) -> dict[str, Any]:
    """A list of such objects."""
    return {"type": "array", "items": record_schema(**fields)}
