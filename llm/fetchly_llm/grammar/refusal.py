"""llguidance's error text and the schema in; a located SchemaRefused with a stable code out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from fetchly_llm.errors import SchemaRefused
from fetchly_llm.grammar.lark import standalone
from fetchly_llm.grammar.schema_graph import SchemaGraph, is_definition, join, subschemas

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

_MAX_TRIES = 500

_UNIMPLEMENTED = re.compile(r'Unimplemented keys: \["([^"]+)"')
_BY_TEXT = (
    (re.compile(r"[Uu]nsatisfiable|empty"), "SCHEMA_UNSATISFIABLE", ()),
    (re.compile(r"too big|too many|fuel|limit|too large|too complex"), "SCHEMA_TOO_LARGE", ()),
    (re.compile(r"Pointer '|Resource '|\$ref|not present in a registry"), "SCHEMA_REFERENCE", ("$ref",)),
    (re.compile(r"Unknown format"), "SCHEMA_KEYWORD_NOT_ENFORCED", ("format",)),
    (re.compile(r"oneOf"), "SCHEMA_KEYWORD_NOT_ENFORCED", ("oneOf",)),
    (re.compile(r"min/maxProperties"), "SCHEMA_KEYWORD_NOT_ENFORCED", ("minProperties", "maxProperties")),
    (re.compile(r"regex|pattern"), "SCHEMA_KEYWORD_NOT_ENFORCED", ("pattern", "patternProperties")),
)
_HINTS = {
    "SCHEMA_KEYWORD_NOT_ENFORCED": "drop the keyword, or let it be checked after writing",
    "SCHEMA_TOO_LARGE": "use fewer alternatives, shorter patterns, smaller enums",
    "SCHEMA_UNSATISFIABLE": "relax the keywords that contradict each other",
    "SCHEMA_REFERENCE": "copy the referenced schema into $defs",
}


def locate(message: str, graph: SchemaGraph, tokenizer: LLTokenizer, options: JsonCompileOptions) -> SchemaRefused:
    """The refusal for `message`, at the innermost subschema that llguidance refuses by itself.

    llguidance's messages carry no place, so subschemas are compiled one by one on the way down, up to 500 of them.
    """
    pointer, message = _descend(message, graph, tokenizer, options)
    code, keywords = _classify(message)
    node = graph[pointer]
    keyword = next((key for key in keywords if isinstance(node, Mapping) and key in node), None)
    what = f"{keyword} = {node[keyword]!r:.80}: " if keyword is not None and isinstance(node, Mapping) else ""
    return SchemaRefused(
        f"{what}{message}",
        pointer=pointer if keyword is None else join(pointer, keyword),
        code=code,
        hint=_HINTS.get(code),
    )


def _classify(message: str) -> tuple[str, tuple[str, ...]]:
    """Code of a message, and the keywords that it may be about."""
    if match := _UNIMPLEMENTED.search(message):
        return "SCHEMA_KEYWORD_NOT_ENFORCED", (match.group(1),)
    for pattern, code, keywords in _BY_TEXT:
        if pattern.search(message):
            return code, keywords
    return "SCHEMA_INVALID", ()


def _descend(message: str, graph: SchemaGraph, tokenizer: LLTokenizer, options: JsonCompileOptions) -> tuple[str, str]:
    """Pointer of the innermost subschema refused for the same reason, and what llguidance says of it in one line."""
    code = _classify(message)[0]
    pointer, tries, seen = "", 0, {""}
    while True:
        for child in _parts(graph, pointer):
            tries += 1
            if child in seen or tries > _MAX_TRIES:
                continue
            found = _error_of(child, graph, tokenizer, options)
            if found and _classify(found)[0] == code:
                pointer, message = child, found
                seen.add(child)
                break
        else:
            return pointer, _one_line(message)


def _parts(graph: SchemaGraph, pointer: str) -> list[str]:
    """The subschemas that take part in the one at `pointer`: those within it, definitions apart, and its reference."""
    node = graph[pointer]
    if isinstance(node, bool):
        return []
    parts = [child for child, _ in subschemas(pointer, node) if not is_definition(pointer, child)]
    return [*parts, graph.target(pointer)] if graph.is_resolved(pointer) else parts


def _error_of(pointer: str, graph: SchemaGraph, tokenizer: LLTokenizer, options: JsonCompileOptions) -> str:
    """What llguidance has against the subschema at `pointer` alone; empty where nothing."""
    try:
        schema = standalone(graph, pointer)
    except SchemaRefused as refusal:
        return refusal.message
    text = LLMatcher.grammar_from_json_schema(schema, overrides=options)
    return LLMatcher(tokenizer, text, log_level=0, limits=LLParserLimits(verbose_errors=False)).get_error()


def _one_line(message: str) -> str:
    words = message.replace("<non-verbose/>", "").split()
    line = " ".join(words)
    return line if len(line) <= 200 else line[:197] + "..."
